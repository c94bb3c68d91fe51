//! Aligned tables for the terminal.

use std::io::{self, Write};

use super::lines::{self, Lines};
use super::{Plot, Report, Row, advantage_text, figure, spread_text};
use crate::measure::Series;

/// Columns of figures that fit beside each other.
const COLUMNS_MAX: usize = 9;
/// A plot of fewer places says nothing that the tables do not.
const PLOT_LINES_MIN: usize = 4;
/// Lines of a plot that is printed as a table.
const PLOT_LINES_MAX: usize = 25;

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
    for plot in report.plots() {
        print_plot(report, &plot, out)?;
    }
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

/// Figures, comparisons and published figures side by side, or one below the other where that
/// would be too wide to read.
fn print_group(report: &Report, rows: &[Row<'_>], out: &mut impl Write) -> io::Result<()> {
    let labels = labels(rows);
    let parts = [
        figures(report, rows),
        comparisons(report, rows),
        published(report, rows),
    ];
    let one_text = usize::from(report.published.columns.len() == 1);
    let columns: usize = parts.iter().map(|part| part[0].len()).sum();
    if columns <= COLUMNS_MAX {
        let [figures, comparisons, published] = &parts;
        let lines = beside(&[&labels, figures, comparisons, published]);
        writeln!(out)?;
        return lines::print(&lines, one_text, out);
    }
    for part in &parts {
        if part.iter().skip(1).flatten().all(String::is_empty) {
            continue;
        }
        writeln!(out)?;
        let text_columns = if part[0] == report.published.columns {
            one_text
        } else {
            0
        };
        lines::print(&beside(&[&labels, part]), text_columns, out)?;
    }
    Ok(())
}

fn labels(rows: &[Row<'_>]) -> Lines {
    let mut lines = vec![vec![rows[0].group.to_owned(), String::new()]];
    lines.extend(
        rows.iter()
            .map(|row| vec![row.name.to_owned(), row.unit.label().to_owned()]),
    );
    lines
}

fn figures(report: &Report, rows: &[Row<'_>]) -> Lines {
    let names = report.targets.iter().map(|target| target.name.clone());
    let mut lines = vec![names.collect()];
    lines.extend(rows.iter().map(|row| {
        let text = |cell: &Option<&_>| cell.map_or_else(|| "–".into(), spread_text);
        row.cells.iter().map(text).collect()
    }));
    lines
}

fn comparisons(report: &Report, rows: &[Row<'_>]) -> Lines {
    let others = report.others();
    let name = |other: &usize| format!("vs {}", report.targets[*other].name);
    let mut lines = vec![others.iter().map(name).collect()];
    lines.extend(rows.iter().map(|row| {
        let advantages = row.advantages(&others).into_iter();
        advantages.map(advantage_text).collect()
    }));
    lines
}

fn published(report: &Report, rows: &[Row<'_>]) -> Lines {
    let columns = report.published.columns;
    let mut lines = vec![columns.iter().map(|name| (*name).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| {
        let text = |column: usize| {
            row.published
                .get(column)
                .copied()
                .unwrap_or_default()
                .to_owned()
        };
        (0..columns.len()).map(text).collect()
    }));
    lines
}

fn beside(parts: &[&Lines]) -> Lines {
    let line = |number: usize| parts.iter().flat_map(|part| part[number].clone()).collect();
    (0..parts[0].len()).map(line).collect()
}

/// A plot whose targets were measured at the same places, as a table.
fn print_plot(report: &Report, plot: &Plot<'_>, out: &mut impl Write) -> io::Result<()> {
    let places = |series: &Series| series.points.iter().map(|(x, _)| *x).collect::<Vec<f64>>();
    let first = places(plot.series[0].1);
    let comparable = |(_, series): &(_, &Series)| places(series) == first;
    if first.len() < PLOT_LINES_MIN || !plot.series.iter().all(comparable) {
        return Ok(());
    }
    let mut header = vec![
        format!("{}, {}", plot.name, plot.unit.label()),
        String::new(),
    ];
    let names = plot.series.iter();
    header.extend(names.map(|(column, _)| report.targets[*column].name.clone()));
    let mut lines = vec![header];
    for number in (0..first.len()).step_by(first.len().div_ceil(PLOT_LINES_MAX).max(1)) {
        let mut line = vec![figure(first[number]), plot.over.to_owned()];
        let series = plot.series.iter();
        line.extend(series.map(|(_, series)| figure(series.points[number].1)));
        lines.push(line);
    }
    writeln!(out)?;
    lines::print(&lines, 0, out)
}

fn print_closing(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nFigures are medians (least–greatest). {}.",
        report.published.legend
    )?;
    let notes = report.notes();
    if !notes.is_empty() {
        writeln!(out, "\nNotes")?;
        for note in notes {
            writeln!(out, "  {note}")?;
        }
    }
    if !report.others().is_empty() {
        let losses = report.losses();
        writeln!(out, "\nWhere {} loses", report.subject())?;
        if losses.is_empty() {
            writeln!(out, "  nowhere in this run")?;
        }
        for loss in losses {
            writeln!(out, "  {loss}")?;
        }
    }
    Ok(())
}
