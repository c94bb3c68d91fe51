//! The figures that the evaluation published, for orientation.

use crate::report::Published;

/// Figures and whose they are.
pub const PUBLISHED: Published = Published {
    legend: "published: MongoDB 2.2 with its own indexes (standard) and with Fractal Tree indexes (fractal), up to 54 and \
             198 million documents and 8 GB of memory; other hardware, so for orientation only",
    columns: &["published"],
    rows: &[
        (
            "Part 1: inserts alone",
            "exit rate (last window)",
            &["standard 763, fractal 6,951"],
        ),
        (
            "Part 1: inserts alone, no journal",
            "exit rate (last window)",
            &["standard 1,045, fractal 13,304"],
        ),
        (
            "Parts 2 and 3: inserts with range queries",
            "exit rate (last window)",
            &["standard plain 1,092, covering 2,594; fractal clustering 12,241"],
        ),
        (
            "Parts 2 and 3: inserts with range queries",
            "range query during the load",
            &["standard plain 16,668, covering 262; fractal clustering 62"],
        ),
    ],
};
