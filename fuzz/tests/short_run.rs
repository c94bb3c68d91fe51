//! Every fuzz target for a few seconds. `MERIDIAN_FUZZ_SECONDS` and `MERIDIAN_FUZZ_SEED` change that.

use meridian_fuzz::{TARGETS, run};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_target_fails() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock past 1970");
    let seed = setting("MERIDIAN_FUZZ_SEED").unwrap_or(now.as_secs());
    let duration = Duration::from_secs(setting("MERIDIAN_FUZZ_SECONDS").unwrap_or(4));
    for target in TARGETS {
        match run(target, seed, duration) {
            Ok(inputs) => println!("{}: {inputs} inputs, seed {seed}", target.name),
            Err(failure) => panic!(
                "seed {seed}, {}: {}\n--replay {}",
                failure.target, failure.message, failure.input
            ),
        }
    }
}
