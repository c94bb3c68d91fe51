//! The figures that the evaluation published, for orientation.

use crate::report::Published;

/// Figures and whose they are.
pub const PUBLISHED: Published = Published {
    legend: "published: IBM Intelligent Operations Center on DB2 (IOC) and MongoDB 3.4 on Windows / on Linux; \
             other hardware, so for orientation only",
    columns: &["published"],
    rows: ROWS,
};

const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "Ingest",
        "with indexes and validator, best client",
        &["IOC 2,100; MongoDB 42,000; DB2 LOAD >100,000"],
    ),
    ("Storage", "data", &["IOC 225; MongoDB 134"]),
    ("Storage", "indexes", &["IOC 246; MongoDB 100"]),
    ("Storage", "data + indexes", &["IOC 471; MongoDB 234"]),
    ("Storage", "memory after the queries", &["MongoDB 520"]),
    ("Counts", "date range, parsed text", &["8.4 (by form)"]),
    ("Counts", "date range, built document", &["3 (by form)"]),
    (
        "Counts",
        "date range, typed helper",
        &["IOC 86; MongoDB 73"],
    ),
    (
        "Counts",
        "number range (9), typed helper",
        &["IOC 9; MongoDB 1"],
    ),
    (
        "Area counts",
        "zoom 1",
        &["IOC 32,321; MongoDB 6,912 / 12,629"],
    ),
    (
        "Area counts",
        "zoom 2",
        &["IOC 11,086; MongoDB 2,808 / 5,330"],
    ),
    ("Area counts", "zoom 3", &["IOC 2,914; MongoDB 683 / 1,288"]),
    ("Area counts", "zoom 4", &["IOC 314; MongoDB 48 / 90"]),
    (
        "Area pages",
        "zoom 1, driver",
        &["IOC 2,599; MongoDB 129 / 228"],
    ),
    (
        "Area pages",
        "zoom 2, driver",
        &["IOC 973; MongoDB 101 / 150"],
    ),
    (
        "Area pages",
        "zoom 3, driver",
        &["IOC 550; MongoDB 103 / 136"],
    ),
    (
        "Area pages",
        "zoom 4, driver",
        &["IOC 374; MongoDB 75 / 121"],
    ),
];
