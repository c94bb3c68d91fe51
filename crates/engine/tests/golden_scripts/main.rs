//! Golden scripts: what is planned, and what is written.
//!
//! A script under `scripts/` is a list of blocks: a command, `---`, and what came of it.
//!
//! ```text
//! # the weather evaluation's first index
//! index events {"key": {"start": 1}, "name": "start_1"}
//! ---
//! batch
//!   put catalogue events: ...
//! ```
//!
//! Commands (`commands.rs`) run in order on one engine over the store in memory. A read prints its plan,
//! what it examined and its answer (`plans.rs`); a write prints its outcome and every batch that reached
//! the store, decoded (`batches.rs`). At the end of a script every document is checked against every index.
//!
//! `MERIDIAN_GOLDEN=rewrite cargo test --release --workspace --test golden_scripts` writes what came out
//! into the scripts; the difference is then read in `git diff`.
#![allow(clippy::unwrap_used)]

mod batches;
mod commands;
mod plans;

use commands::Session;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A command with the lines before it that are none, and what is expected of it.
#[derive(Default)]
struct Block {
    line: usize,
    comments: String,
    command: String,
    expected: String,
}

fn blocks(script: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut block = Block::default();
    let mut in_output = false;
    for (number, line) in script.lines().enumerate() {
        match line {
            "---" => in_output = true,
            "" if in_output => {
                blocks.push(std::mem::take(&mut block));
                in_output = false;
            }
            _ if in_output => writeln!(block.expected, "{line}").unwrap(),
            _ if line.is_empty() || line.starts_with('#') => {
                writeln!(block.comments, "{line}").unwrap();
            }
            _ => {
                assert!(
                    block.command.is_empty(),
                    "line {}: one command a block",
                    number + 1
                );
                block.line = number + 1;
                block.command = line.to_owned();
            }
        }
    }
    if !block.command.is_empty() {
        blocks.push(block);
    }
    blocks
}

/// The difference of one block, or nothing.
fn mismatch(script: &Path, block: &Block, actual: &str) -> Option<String> {
    if block.expected == actual {
        return None;
    }
    let mut shown = format!("{}:{}: {}\n", script.display(), block.line, block.command);
    let (expected, actual): (Vec<&str>, Vec<&str>) =
        (block.expected.lines().collect(), actual.lines().collect());
    let same_before = expected
        .iter()
        .zip(&actual)
        .take_while(|(a, b)| a == b)
        .count();
    let rest = expected.len().min(actual.len()) - same_before;
    let (backward, forward) = (expected.iter().rev(), actual.iter().rev());
    let same_after = backward
        .zip(forward)
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    let mut show = |sign, lines: &[&str]| {
        for line in lines {
            writeln!(shown, "  {sign} {line}").unwrap();
        }
    };
    show(' ', &expected[..same_before]);
    show('-', &expected[same_before..expected.len() - same_after]);
    show('+', &actual[same_before..actual.len() - same_after]);
    show(' ', &expected[expected.len() - same_after..]);
    Some(shown)
}

/// What came of a command, without the batches that it wrote.
fn outcome(shown: &str) -> &str {
    match shown.starts_with("batch\n") {
        true => "",
        false => shown
            .split("\nbatch\n")
            .next()
            .unwrap_or_default()
            .trim_end(),
    }
}

/// A store that takes only short values answers as one that takes all.
#[test]
fn an_engine_whose_documents_are_cut_answers_alike() {
    for path in scripts() {
        let script = std::fs::read_to_string(&path).unwrap();
        let mut session = Session::limited(32);
        for block in blocks(&script) {
            let actual = session.run(&block.command);
            let place = format!("{}:{}: {}", path.display(), block.line, block.command);
            assert_eq!(outcome(&actual), outcome(&block.expected), "{place}");
        }
        session.check();
    }
}

fn scripts() -> Vec<PathBuf> {
    // Asked when it runs: checkouts may share what was compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let folder = Path::new(&package).join("tests/golden_scripts/scripts");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn plans_and_writes_are_as_the_scripts_say() {
    let rewrite = std::env::var("MERIDIAN_GOLDEN").is_ok_and(|value| value == "rewrite");
    let mut differences = Vec::new();
    let mut count = 0;
    for path in scripts() {
        let script = std::fs::read_to_string(&path).unwrap();
        let mut session = Session::new();
        let mut written = String::new();
        for block in blocks(&script) {
            let actual = session.run(&block.command);
            count += 1;
            let own = format!("{}{}\n---\n{actual}\n", block.comments, block.command);
            written.push_str(&own);
            differences.extend(mismatch(&path, &block, &actual));
        }
        session.check();
        if rewrite {
            std::fs::write(&path, written).unwrap();
        }
    }
    assert!(count > 100, "only {count} commands ran");
    assert!(
        rewrite || differences.is_empty(),
        "{} of {count} commands differ (- expected, + came out); MERIDIAN_GOLDEN=rewrite accepts them:\n\n{}",
        differences.len(),
        differences.join("\n")
    );
}
