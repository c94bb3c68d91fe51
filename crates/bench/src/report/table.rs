//! Aligned tables for the terminal.

use std::io::{self, Write};

use super::{Report, Row, advantage_text, spread_text};

/// Prints everything.
///
/// # Errors
/// When writing fails.
pub fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}\n", report.title)?;
    let machine = &report.machine;
    writeln!(
        out,
        "machine   {}, {} cores, {:.1} GiB, {}",
        machine.processor,
        machine.cores,
        machine.memory_mib as f64 / 1024.0,
        machine.kernel
    )?;
    for target in &report.targets {
        writeln!(
            out,
            "target    {}: {}, {} answers right",
            target.name, target.version, target.answers_checked
        )?;
        let settings: Vec<String> = target
            .settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        if !settings.is_empty() {
            writeln!(out, "          {}", settings.join(", "))?;
        }
    }
    for (name, value) in &report.parameters {
        writeln!(out, "{name:<22}{value}")?;
    }
    print_groups(report, out)?;
    print_closing(report, out)
}

fn print_groups(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let rows = report.rows();
    let mut start = 0;
    while start < rows.len() {
        let end = rows[start..]
            .iter()
            .position(|row| row.group != rows[start].group)
            .map_or(rows.len(), |at| start + at);
        print_group(report, &rows[start..end], out)?;
        start = end;
    }
    Ok(())
}

fn print_group(report: &Report, rows: &[Row<'_>], out: &mut impl Write) -> io::Result<()> {
    let mut header = vec![rows[0].group.to_owned(), String::new()];
    header.extend(report.targets.iter().map(|target| target.name.clone()));
    header.extend(
        report
            .targets
            .iter()
            .skip(1)
            .map(|target| format!("vs {}", target.name)),
    );
    header.push("published".into());
    let mut lines = vec![header];
    for row in rows {
        let mut line = vec![row.name.to_owned(), row.unit.label().to_owned()];
        line.extend(
            row.cells
                .iter()
                .map(|cell| cell.map_or_else(|| "–".into(), spread_text)),
        );
        line.extend(row.advantages().into_iter().map(advantage_text));
        line.push(row.published.unwrap_or_default().to_owned());
        lines.push(line);
    }
    writeln!(out)?;
    print_lines(&lines, out)
}

/// The first two columns and the last are flush left, figures flush right.
fn print_lines(lines: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            if column < 2 || column + 1 == columns {
                text.push_str(&format!("{cell}{padding}  "));
            } else {
                text.push_str(&format!("{padding}{cell}  "));
            }
        }
        writeln!(out, "{}", text.trim_end())?;
        if number == 0 {
            writeln!(
                out,
                "{}",
                "─".repeat(
                    widths
                        .iter()
                        .map(|width| width + 2)
                        .sum::<usize>()
                        .saturating_sub(2)
                )
            )?;
        }
    }
    Ok(())
}

fn print_closing(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nFigures are medians (least–greatest). {}.",
        report.published_legend
    )?;
    let notes = report.notes();
    if !notes.is_empty() {
        writeln!(out, "\nNotes")?;
        for note in notes {
            writeln!(out, "  {note}")?;
        }
    }
    if report.targets.len() > 1 {
        let losses = report.losses();
        writeln!(out, "\nWhere {} loses", report.targets[0].name)?;
        if losses.is_empty() {
            writeln!(out, "  nowhere in this run")?;
        }
        for loss in losses {
            writeln!(out, "  {loss}")?;
        }
    }
    Ok(())
}
