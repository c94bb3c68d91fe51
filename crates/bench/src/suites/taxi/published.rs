//! The figures that the evaluation published, for orientation: seconds, gigabytes on disk.

use super::measure::{LOAD, QUERIES};
use crate::report::Published;

/// Figures and whose they are.
pub const PUBLISHED: Published = Published {
    legend: "published, in seconds: MongoDB 2.6 (M2) and 3 (M3), PostgreSQL by pgdb (Pg) and psycopg2 (Py), on layouts A to C \
             with 14.4 million trips and D (as C) with 173 million; other hardware, so for orientation only",
    columns: &[
        "M2A", "M2B", "M2C", "M3C", "PgC", "PyC", "M2D", "M3D", "PgD", "PyD",
    ],
    rows: ROWS,
};

#[rustfmt::skip]
const ROWS: &[(&str, &str, &[&str])] = &[
    (LOAD, "load", &["", "", "718", "405", "", "603", "8715", "5039", "", ""]),
    (LOAD, "index build", &["", "", "1175", "688", "", "170", "191,958", "34,305", "", ""]),
    (LOAD, "load + indexes", &["", "", "1893", "1093", "", "773", "200,673", "39,344", "", "6149"]),
    ("Storage", "data + indexes", &["12.8 GB", "12.8 GB", "12.8 GB", "2.7 GB", "3.5 GB", "3.5 GB", "126.5 GB", "25.5 GB", "42.8 GB", "42.8 GB"]),
    (QUERIES, "week, cold", &["18.0", "19.3", "3.3", "3.7", "38.0", "30.2", "326.4", "193.0", "28.3", "27.0"]),
    (QUERIES, "week, warm", &["5.0", "3.0", "3.1", "4.0", "5.7", "5.0", "101.6", "99.9", "8.8", "8.0"]),
    (QUERIES, "February, cold", &["29.8", "39.3", "99.5", "47.1", "12.9", "12.0", "719.4", "85.1", "13.7", "12.6"]),
    (QUERIES, "February, warm", &["5.1", "35.6", "22.5", "28.9", "4.8", "4.0", "74.1", "66.1", "4.8", "4.1"]),
    (QUERIES, "entire, cold", &["31.5", "3.5", "10.4", "9.2", "9.3", "8.3", "12.1", "11.0", "9.4", "8.4"]),
    (QUERIES, "entire, warm", &["4.9", "3.5", "3.0", "3.3", "3.3", "2.6", "3.0", "3.4", "3.3", "2.5"]),
    (QUERIES, "medallion, cold", &["31.0", "12.9", "13.8", "8.4", "13.6", "13.3", "106.1", "96.2", "103.9", "92.4"]),
    (QUERIES, "medallion, warm", &["1.0", "1.0", "1.0", "1.0", "1.0", "1.0", "1.1", "1.1", "1.3", "1.2"]),
];
