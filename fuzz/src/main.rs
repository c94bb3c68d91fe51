//! Runs one fuzz target: `meridian-fuzz TARGET [--seconds N] [--seed N]`, or repeats a failure:
//! `meridian-fuzz TARGET --replay HEX`.

use meridian_fuzz::{TARGETS, attempt, from_hexadecimal, run};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let Some(target) = TARGETS
        .iter()
        .find(|target| Some(target.name) == arguments.first().map(String::as_str))
    else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!(
            "usage: meridian-fuzz {} [--seconds N] [--seed N] [--replay HEX]",
            names.join("|")
        );
        return ExitCode::from(2);
    };
    let outcome = match option("--replay").map(|text| from_hexadecimal(&text)) {
        Some(Some(input)) => attempt(target, &input).map(|()| 1),
        Some(None) => {
            eprintln!("--replay takes hexadecimal digits");
            return ExitCode::from(2);
        }
        None => {
            let seconds = option("--seconds")
                .and_then(|text| text.parse().ok())
                .unwrap_or(60);
            let seed = option("--seed")
                .and_then(|text| text.parse().ok())
                .unwrap_or_else(now);
            println!("seed {seed}");
            run(target, seed, Duration::from_secs(seconds))
        }
    };
    match outcome {
        Ok(inputs) => {
            println!("{inputs} inputs, no failure");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!(
                "{}: {}\n--replay {}",
                failure.target, failure.message, failure.input
            );
            ExitCode::FAILURE
        }
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}
