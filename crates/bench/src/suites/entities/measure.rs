//! All sizes, settings and cases on one server, measured the same way on every store.

use anyhow::Context;

use super::drive::{self, Outcome};
use super::{Case, Counted, EntitiesTarget, Plan, Setting};
use crate::measure::{Measure, Series, Unit};
use crate::progress;
use crate::report::{TargetReport, grouped};

/// Updated entities that are looked at after a case.
const LOOKED_AT: usize = 200;

/// Fills and asks, and makes a column.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(store: &mut dyn EntitiesTarget, plan: &Plan) -> anyhow::Result<TargetReport> {
    let mut report = store.report()?;
    for size in &plan.sizes {
        let mut client_us = Vec::new();
        for setting in &plan.settings {
            let mut place = Place {
                store,
                plan,
                size: *size,
                setting: *setting,
                report: &mut report,
            };
            client_us.extend(place.measure()?);
        }
        note_clients(&client_us, *size, &mut report);
    }
    if let Some(seen) = store.observe() {
        let directory = Measure::megabytes("Storage", "data directory (du)", seen.disk_bytes);
        report.add(directory.noted("at the end of the run, with journal and free space in files"));
    }
    store.drop_all()?;
    if plan.sizes.len() > 1 {
        add_series(plan, &mut report);
    }
    Ok(report)
}

/// `10k`, `1M`, or the number.
pub fn short(size: u32) -> String {
    match size {
        _ if size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        _ if size.is_multiple_of(1000) => format!("{}k", size / 1000),
        _ => grouped(f64::from(size), 0),
    }
}

fn transactions_group(size: u32) -> String {
    format!("Transactions, {} entities", short(size))
}

/// One size and setting on one server.
struct Place<'a> {
    store: &'a mut dyn EntitiesTarget,
    plan: &'a Plan,
    size: u32,
    setting: Setting,
    report: &'a mut TargetReport,
}

impl Place<'_> {
    /// Fills, and measures sizes and all cases: the clients' microseconds a transaction.
    fn measure(&mut self) -> anyhow::Result<Vec<f64>> {
        self.fill()?;
        self.add_sizes()?;
        let mut grown = false;
        let mut client_us = Vec::new();
        for case in &self.plan.cases {
            if grown {
                self.fill()?;
            }
            let outcome = self.case(*case)?;
            self.check(*case, &outcome)?;
            client_us.push(outcome.client_seconds * 1e6 / outcome.transactions() as f64);
            grown = *case != Case::Query;
        }
        Ok(client_us)
    }

    fn what(&self, doing: &str) -> String {
        let (size, setting) = (short(self.size), self.setting.label());
        format!(
            "{}: {size} entities, indexes {setting}: {doing}",
            self.report.name
        )
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        progress::say(&self.what("filling"));
        self.store.fill(self.plan.entities, self.size, self.setting)
    }

    fn add_sizes(&mut self) -> anyhow::Result<()> {
        let sizes = self.store.sizes()?;
        let (group, setting) = (
            format!("Storage, {} entities", short(self.size)),
            self.setting.label(),
        );
        for (name, bytes) in [("indexes", sizes.indexes), ("data", sizes.data)] {
            let name = format!("{name}, {setting}");
            self.report.add(Measure::megabytes(&group, &name, bytes));
        }
        let share = sizes.indexes as f64 / (sizes.indexes + sizes.data).max(1) as f64;
        let name = format!("share of the database, {setting}");
        self.report
            .add(Measure::single(&group, &name, Unit::Count, share));
        Ok(())
    }

    fn case(&mut self, case: Case) -> anyhow::Result<Outcome> {
        let spinner = progress::spinner(&self.what(case.label()));
        let clients: Result<Vec<_>, _> = (0..self.plan.clients)
            .map(|_| self.store.client())
            .collect();
        let mut clients = clients?;
        let processor =
            |store: &dyn EntitiesTarget| store.observe().map(|seen| seen.processor_seconds);
        let before = processor(self.store);
        let outcome = drive::run(&mut clients, case, self.size, self.plan)
            .with_context(|| self.what(case.label()))?;
        // PostgreSQL's processes end with their connections, and their time is gone with them.
        let after = processor(self.store);
        drop(clients);
        spinner.finish_and_clear();
        self.add(case, &outcome, before.zip(after));
        Ok(outcome)
    }

    fn add(&mut self, case: Case, outcome: &Outcome, processor: Option<(f64, f64)>) {
        let name = format!("{}, {}", case.label(), self.setting.label());
        let group = transactions_group(self.size);
        let rates = outcome.rates();
        self.report
            .add(Measure::new(&group, &name, Unit::PerSecond, rates));
        let group = format!("Latency, {} entities", short(self.size));
        for (percentile, share) in [("p50", 0.5), ("p98", 0.98)] {
            let name = format!("{name}, {percentile}");
            let latency_ms = outcome.latency_ms(share);
            self.report.add(Measure::single(
                &group,
                &name,
                Unit::Milliseconds,
                latency_ms,
            ));
        }
        if let Some((before, after)) = processor {
            let spent_ms = (after - before) * 1e3 / outcome.transactions() as f64;
            let group = processor_group(self.size);
            self.report
                .add(Measure::single(&group, &name, Unit::Milliseconds, spent_ms));
        }
    }

    /// Everything that was acknowledged is there, and nothing else.
    fn check(&mut self, case: Case, outcome: &Outcome) -> anyhow::Result<()> {
        if case == Case::Query {
            self.report.answers_checked += 1;
            return Ok(());
        }
        let label = case.label();
        let found = self.store.count(Counted::All)?;
        let right = u64::from(self.size + outcome.created);
        let what = self.what(label);
        self.report
            .answer(&format!("{what}: entities"), found, right)?;
        let found = self.store.count(Counted::Modified)?;
        let right = outcome.updated.len() as u64;
        self.report
            .answer(&format!("{what}: entities modified"), found, right)?;
        self.look_at_updates(outcome)
    }

    fn look_at_updates(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        // Without an index on the id each look is a scan.
        let looks = match self.setting {
            Setting::None | Setting::Type => 1,
            Setting::Id | Setting::Separate | Setting::Compound => LOOKED_AT,
        };
        let mut client = self.store.client()?;
        for (number, modified_s) in outcome.updated.iter().take(looks) {
            let found = client.find(&self.plan.entities.key(*number))?;
            let (found, right) = (found.unwrap_or_default(), *modified_s);
            let what = self.what("modDate of an updated entity");
            self.report
                .answer(&what, i64::from(found) as u64, i64::from(right) as u64)?;
        }
        Ok(())
    }
}

fn processor_group(size: u32) -> String {
    format!(
        "Server's processor time a transaction, {} entities",
        short(size)
    )
}

/// Says once for each size what the clients cost.
fn note_clients(client_us: &[f64], size: u32, report: &mut TargetReport) {
    let least = client_us.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = client_us.iter().copied().fold(0.0, f64::max);
    let group = transactions_group(size);
    let mut rows = report.measures.iter_mut();
    if let Some(first) = rows.find(|row| row.group == group) {
        first.note = Some(format!(
            "the clients took {least:.1} to {greatest:.1} µs of processor a transaction, by case and setting, making the \
             messages and checking the replies included"
        ));
    }
}

/// Transactions a second by size, a plot for each case and setting.
fn add_series(plan: &Plan, report: &mut TargetReport) {
    for case in &plan.cases {
        for setting in &plan.settings {
            let name = format!("{}, {}", case.label(), setting.label());
            let point = |size: &u32| {
                let rate = report.median(&transactions_group(*size), &name)?;
                Some((f64::from(*size), rate))
            };
            let points = plan.sizes.iter().filter_map(point).collect();
            report.series.push(Series {
                name: format!("Transactions a second by size: {name}"),
                over: "entities".into(),
                unit: Unit::PerSecond,
                points,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::entities::published::PUBLISHED;

    #[test]
    fn published_rows_are_named_as_ours() {
        for size in [10_000, 100_000, 1_000_000] {
            for setting in [
                Setting::None,
                Setting::Id,
                Setting::Type,
                Setting::Separate,
                Setting::Compound,
            ] {
                for case in [Case::Query, Case::Creation, Case::Both] {
                    let name = format!("{}, {}", case.label(), setting.label());
                    assert_eq!(
                        PUBLISHED.texts(&transactions_group(size), &name).len(),
                        1,
                        "{name}"
                    );
                }
                let group = format!("Storage, {} entities", short(size));
                let name = format!("indexes, {}", setting.label());
                assert_eq!(PUBLISHED.texts(&group, &name).len(), 1, "{name}");
            }
        }
        assert_eq!(short(2_500), "2,500");
    }
}
