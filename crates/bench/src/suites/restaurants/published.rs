//! The figures that the evaluation published, for orientation.

use super::measure::RAMP;
use crate::report::Published;

/// Figures and whose they are.
pub const PUBLISHED: Published = Published {
    legend: "published: MongoDB 5 on one server, and spread over 2 and 3 shards, with 14.5 million restaurants, five more \
             workers every 30 s; other hardware, so for orientation only",
    columns: &["0 shards", "2 shards", "3 shards"],
    rows: &[
        (RAMP, "requests/s, mean", &["7,003", "1,543", "1,602"]),
        (
            RAMP,
            "requests/s, least second",
            &["6,729", "1,453", "1,470"],
        ),
        (
            RAMP,
            "requests/s, greatest second",
            &["7,259", "1,609", "1,675"],
        ),
        (
            RAMP,
            "requests/s, 95 % confidence, from",
            &["6,998", "", ""],
        ),
        (RAMP, "requests/s, 95 % confidence, to", &["7,008", "", ""]),
    ],
};
