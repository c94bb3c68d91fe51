//! Orders, grouped without an index: into few groups, into many, and by a compound key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bson::{Document, doc};
use chrono::{Datelike, NaiveDate, TimeZone, Utc};
use rand::Rng;

use super::part::{Contents, Table};
use crate::encode::{copy_field, copy_row, document, int32, int64, postgres_time, string};
use crate::questions::answer::{Answer, Column, Kind, Row, column};
use crate::questions::{OWN, Question, Sql, aggregate};
use crate::seeded::{RandomByNumber, Size};

/// Orders at full size.
const ORDERS: u32 = 5_000_000;
/// Customers at full size.
const CUSTOMERS: u32 = 100_000;
const COUNTRIES: u32 = 60;
/// 2025-01-01T00:00:00Z in milliseconds.
const START_MS: i64 = 1_735_689_600_000;
const YEAR_MS: i64 = 365 * 86_400_000;
const NOTE: &str = "to be left with the neighbours when nobody is at home";
const BY_COUNTRY: &[Column] = &[
    column("_id", Kind::Text),
    column("orders", Kind::Whole),
    column("cents", Kind::Whole),
    column("dearest", Kind::Whole),
    column("average", Kind::Number),
];
const BY_CUSTOMER: &[Column] = &[
    column("_id", Kind::Whole),
    column("orders", Kind::Whole),
    column("cents", Kind::Whole),
    column("dearest", Kind::Whole),
];
const BY_MONTH: &[Column] = &[
    column("_id.country", Kind::Text),
    column("_id.month", Kind::Time),
    column("orders", Kind::Whole),
    column("cents", Kind::Whole),
];

/// The part.
pub fn contents(size: Size) -> Contents {
    let orders = Orders {
        total: size.of(ORDERS, 1_000),
        customers: size.of(CUSTOMERS, 100),
        random: size.random("orders"),
    };
    let [countries, customers, months] = orders.answers();
    Contents {
        questions: vec![
            by_country(countries),
            by_customer(customers),
            by_month(months),
        ],
        tables: vec![orders.table()],
    }
}

/// The orders of one size and seed.
#[derive(Clone)]
struct Orders {
    total: u32,
    customers: u32,
    random: RandomByNumber,
}

/// One order.
struct Order {
    country: String,
    customer: u32,
    at_ms: i64,
    items: u32,
    cents: u32,
}

/// What is known of a group.
#[derive(Default)]
struct Totals {
    orders: i64,
    cents: i64,
    dearest: i64,
}

impl Totals {
    fn add(&mut self, cents: u32) {
        self.orders += 1;
        self.cents += i64::from(cents);
        self.dearest = self.dearest.max(cents.into());
    }
}

impl Orders {
    fn order(&self, number: u32) -> Order {
        let random = &mut self.random.of(number);
        // Few countries and customers have most of the orders.
        let mut skewed = |among: u32| (random.random::<f64>().powi(2) * f64::from(among)) as u32;
        let (country, customer) = (skewed(COUNTRIES), skewed(self.customers));
        Order {
            country: country_name(country),
            customer,
            at_ms: START_MS + random.random_range(0..YEAR_MS),
            items: random.random_range(1..20),
            cents: random.random_range(100..100_000),
        }
    }

    /// By country, by customer, by country and month.
    fn answers(&self) -> [Answer; 3] {
        let mut countries: HashMap<String, Totals> = HashMap::new();
        let mut customers: HashMap<u32, Totals> = HashMap::new();
        let mut months: HashMap<(String, i64), Totals> = HashMap::new();
        for number in 0..self.total {
            let order = self.order(number);
            let month = (order.country.clone(), month_ms(order.at_ms));
            countries.entry(order.country).or_default().add(order.cents);
            customers
                .entry(order.customer)
                .or_default()
                .add(order.cents);
            months.entry(month).or_default().add(order.cents);
        }
        [
            rows(&countries, |name, totals| {
                let row = totals_row(Row::new().text(name), totals).whole(totals.dearest);
                row.number(totals.cents as f64 / totals.orders as f64)
            }),
            rows(&customers, |customer, totals| {
                totals_row(Row::new().whole((*customer).into()), totals).whole(totals.dearest)
            }),
            rows(&months, |(name, month_ms), totals| {
                totals_row(Row::new().text(name).whole(*month_ms), totals)
            }),
        ]
    }

    fn table(self) -> Table {
        let for_rows = self.clone();
        Table {
            name: "orders",
            count: self.total,
            document_bytes: 180,
            document: Arc::new(move |number, out| {
                let order = self.order(*number);
                document(out, |out| {
                    int32(b"\x10_id\0", *number as i32, out);
                    string(b"\x02country\0", &order.country, out);
                    int32(b"\x10customer\0", order.customer as i32, out);
                    int64(b"\x09at\0", order.at_ms, out);
                    int32(b"\x10items\0", order.items as i32, out);
                    int32(b"\x10cents\0", order.cents as i32, out);
                    string(b"\x02note\0", NOTE, out);
                });
            }),
            row: Arc::new(move |number, out| {
                let order = for_rows.order(*number);
                copy_row(7, out);
                copy_field(&number.to_be_bytes(), out);
                copy_field(order.country.as_bytes(), out);
                copy_field(&order.customer.to_be_bytes(), out);
                copy_field(&postgres_time(order.at_ms), out);
                copy_field(&order.items.to_be_bytes(), out);
                copy_field(&order.cents.to_be_bytes(), out);
                copy_field(NOTE.as_bytes(), out);
            }),
            columns: "(id integer PRIMARY KEY, country text COLLATE \"C\" NOT NULL, customer integer NOT NULL, \
                      at timestamptz NOT NULL, items integer NOT NULL, cents integer NOT NULL, note text NOT NULL)"
                .into(),
            loaded: "",
            index: None,
        }
    }
}

fn rows<K: Hash + Eq>(groups: &HashMap<K, Totals>, row: impl Fn(&K, &Totals) -> Row) -> Answer {
    groups
        .iter()
        .map(|(key, totals)| row(key, totals))
        .collect()
}

fn totals_row(key: Row, totals: &Totals) -> Row {
    key.whole(totals.orders).whole(totals.cents)
}

fn country_name(country: u32) -> String {
    let letter = |number: u32| char::from(b'A' + (number % 26) as u8);
    [letter(country * 5), letter(country / 26 + country)]
        .iter()
        .collect()
}

/// When the month starts that a time is in.
fn month_ms(at_ms: i64) -> i64 {
    let at = Utc.timestamp_millis_opt(at_ms).single();
    let first = at.and_then(|at| NaiveDate::from_ymd_opt(at.year(), at.month(), 1));
    let start = first.and_then(|first| first.and_hms_opt(0, 0, 0));
    start
        .map(|start| start.and_utc().timestamp_millis())
        .expect("orders are of 2025")
}

fn command(mut group: Document, key: impl Into<bson::Bson>) -> Document {
    group.insert("_id", key);
    group.insert("orders", doc! { "$sum": 1 });
    group.insert("cents", doc! { "$sum": "$cents" });
    aggregate("orders", vec![doc! { "$group": group }])
}

fn by_country(expected: Answer) -> Question {
    let further = doc! { "dearest": { "$max": "$cents" }, "average": { "$avg": "$cents" } };
    Question {
        label: "by country (60 groups)",
        command: command(further, "$country"),
        sql: Sql {
            settings: OWN,
            select:
                "SELECT country, count(*) AS orders, sum(cents) AS cents, max(cents) AS dearest, \
                     sum(cents)::float8 / count(*) AS average FROM {schema}.orders GROUP BY country"
                    .into(),
            cells: "country, orders, cents, dearest::bigint, average",
        },
        columns: BY_COUNTRY,
        expected,
    }
}

fn by_customer(expected: Answer) -> Question {
    Question {
        label: "by customer (many groups)",
        command: command(doc! { "dearest": { "$max": "$cents" } }, "$customer"),
        sql: Sql {
            settings: OWN,
            select:
                "SELECT customer, count(*) AS orders, sum(cents) AS cents, max(cents) AS dearest \
                     FROM {schema}.orders GROUP BY customer"
                    .into(),
            cells: "customer::bigint, orders, cents, dearest::bigint",
        },
        columns: BY_CUSTOMER,
        expected,
    }
}

fn by_month(expected: Answer) -> Question {
    let month = doc! { "$dateTrunc": { "date": "$at", "unit": "month" } };
    Question {
        label: "by country and month (720 groups)",
        command: command(doc! {}, doc! { "country": "$country", "month": month }),
        sql: Sql {
            settings: "SET timezone = 'UTC'",
            select: "SELECT country, date_trunc('month', at) AS month, count(*) AS orders, sum(cents) AS cents \
                     FROM {schema}.orders GROUP BY 1, 2"
                .into(),
            cells: "country, (extract(epoch FROM month) * 1000)::bigint, orders, cents",
        },
        columns: BY_MONTH,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn countries_have_names_of_their_own() {
        let names: HashSet<String> = (0..COUNTRIES).map(country_name).collect();
        assert_eq!(names.len(), COUNTRIES as usize);
    }

    #[test]
    fn there_are_as_many_groups_as_labels_say() {
        let contents = contents(Size {
            seed: 1,
            scale: 0.01,
        });
        let rows: Vec<u64> = contents
            .questions
            .iter()
            .map(|asked| asked.expected.rows)
            .collect();
        assert_eq!((rows[0], rows[2]), (60, 720));
        assert!((990..=1_000).contains(&rows[1]), "{rows:?}");
    }

    #[test]
    fn months_start_on_their_first_day() {
        assert_eq!(
            month_ms(START_MS + 40 * 86_400_000),
            START_MS + 31 * 86_400_000
        );
        assert_eq!(month_ms(START_MS), START_MS);
    }
}
