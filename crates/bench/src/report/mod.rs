//! A run's figures as a table for the terminal, as JSON, and as a page.
//!
//! All three show the same rows: one row a measure, one column a target, and
//! how many times better the first server is than each other. What was measured
//! again and again is plotted.

pub mod html;
pub mod json;
mod lines;
mod plot;
pub mod table;
mod target;

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::{Measure, Series, Spread, Unit};

pub use target::TargetReport;

/// Everything that a reader needs.
#[derive(Serialize)]
pub struct Report {
    /// The suite's short name.
    pub suite: &'static str,
    /// The suite's full name.
    pub title: &'static str,
    /// What it ran on.
    pub machine: Machine,
    /// What was run.
    pub parameters: Vec<(String, String)>,
    /// What each target did. Columns of the first server are compared with those of others.
    pub targets: Vec<TargetReport>,
    /// What a reader must know of the whole run.
    pub remarks: Vec<String>,
    /// What was published.
    #[serde(skip)]
    pub published: Published,
}

/// Published figures of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// Whose figures they are.
    pub legend: &'static str,
    /// The published systems, or one column for all.
    pub columns: &'static [&'static str],
    /// Group, row and the text of each column.
    pub rows: &'static [(&'static str, &'static str, &'static [&'static str])],
}

impl Published {
    /// The texts of a row, none where nothing was published.
    pub fn texts(&self, group: &str, name: &str) -> &'static [&'static str] {
        let row = |(of, row, _): &&(&str, &str, _)| *of == group && *row == name;
        self.rows
            .iter()
            .find(row)
            .map_or(&[], |(_, _, texts)| texts)
    }
}

/// Series of several targets that belong into one plot.
pub struct Plot<'a> {
    /// Its name.
    pub name: &'a str,
    /// What grows from left to right.
    pub over: &'a str,
    /// What the figures mean.
    pub unit: Unit,
    /// Each series with its target's column.
    pub series: Vec<(usize, &'a Series)>,
}

/// One row over all targets.
pub struct Row<'a> {
    /// The table it belongs to.
    pub group: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What the figures mean.
    pub unit: Unit,
    /// The measure of each target, in order.
    pub cells: Vec<Option<&'a Measure>>,
    /// The column compared with the others: the first server's first that has a figure.
    pub ours: Option<usize>,
    /// What was published, a text a published column.
    pub published: &'static [&'static str],
}

impl Row<'_> {
    /// Middle of each target's samples.
    pub fn medians(&self) -> Vec<Option<f64>> {
        self.cells
            .iter()
            .map(|cell| cell.and_then(Measure::spread).map(|spread| spread.median))
            .collect()
    }

    /// How many times better our column is than each of `others`.
    pub fn advantages(&self, others: &[usize]) -> Vec<Option<f64>> {
        let medians = self.medians();
        let ours = self.ours.and_then(|column| medians[column]);
        others
            .iter()
            .map(|other| self.unit.advantage(ours?, medians[*other]?))
            .collect()
    }
}

impl Report {
    /// What is compared with the others.
    pub fn subject(&self) -> &str {
        let name = self.targets.first().map_or("", |target| &target.name);
        name.split_once(' ').map_or(name, |(server, _)| server)
    }

    /// The columns that ours are compared with: those of other servers.
    pub fn others(&self) -> Vec<usize> {
        let ours = self.targets.first().map(|target| target.server);
        (0..self.targets.len())
            .filter(|column| Some(self.targets[*column].server) != ours)
            .collect()
    }

    /// All rows, in the order in which groups and then rows first appear.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut groups: Vec<&str> = Vec::new();
        for measure in self.targets.iter().flat_map(|target| &target.measures) {
            if !groups.contains(&measure.group.as_str()) {
                groups.push(&measure.group);
            }
        }
        groups
            .into_iter()
            .flat_map(|group| self.rows_of(group))
            .collect()
    }

    fn rows_of<'a>(&'a self, group: &'a str) -> Vec<Row<'a>> {
        let mut names: Vec<(&str, Unit)> = Vec::new();
        for measure in self.targets.iter().flat_map(|target| &target.measures) {
            if measure.group == group && !names.iter().any(|(name, _)| *name == measure.name) {
                names.push((&measure.name, measure.unit));
            }
        }
        let cell = |target: &'a TargetReport, name: &str| {
            target
                .measures
                .iter()
                .find(|measure| measure.group == group && measure.name == name)
        };
        let row = |(name, unit)| {
            let cells: Vec<_> = self
                .targets
                .iter()
                .map(|target| cell(target, name))
                .collect();
            let ours = |column: &usize| {
                self.targets[*column].server == self.targets[0].server && cells[*column].is_some()
            };
            Row {
                group,
                name,
                unit,
                ours: (0..cells.len()).find(ours),
                published: self.published.texts(group, name),
                cells,
            }
        };
        names.into_iter().map(row).collect()
    }

    /// Rows on which the first target is worse than another, as sentences.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        let others = self.others();
        for row in self.rows() {
            for (advantage, other) in row.advantages(&others).iter().zip(&others) {
                if let Some(advantage) = advantage.filter(|advantage| *advantage < 0.995) {
                    losses.push(format!(
                        "{}, {}: {advantage:.2} × {}",
                        row.group, row.name, self.targets[*other].name
                    ));
                }
            }
        }
        losses
    }

    /// Remarks on the run, and notes on rows, each once for all rows of a target that it belongs to.
    pub fn notes(&self) -> Vec<String> {
        let remarks = self.remarks.iter().cloned();
        remarks
            .chain(self.targets.iter().flat_map(notes_of))
            .collect()
    }

    /// Every plot with the series of the targets that have one, in order of appearance.
    pub fn plots(&self) -> Vec<Plot<'_>> {
        let mut plots: Vec<Plot<'_>> = Vec::new();
        for (column, target) in self.targets.iter().enumerate() {
            for series in &target.series {
                match plots.iter_mut().find(|plot| plot.name == series.name) {
                    Some(plot) => plot.series.push((column, series)),
                    None => plots.push(Plot {
                        name: &series.name,
                        over: &series.over,
                        unit: series.unit,
                        series: vec![(column, series)],
                    }),
                }
            }
        }
        plots
    }
}

fn notes_of(target: &TargetReport) -> Vec<String> {
    let mut notes: Vec<(&str, &Measure, usize)> = Vec::new();
    for measure in &target.measures {
        let Some(note) = measure.note.as_deref() else {
            continue;
        };
        match notes.iter_mut().find(|(so_far, _, _)| *so_far == note) {
            Some((_, _, further)) => *further += 1,
            None => notes.push((note, measure, 0)),
        }
    }
    let line = |(note, first, further): (&str, &Measure, usize)| {
        let more = if further == 0 {
            String::new()
        } else {
            format!(" and {further} more")
        };
        format!(
            "{}, {}, {}{more}: {note}",
            target.name, first.group, first.name
        )
    };
    notes.into_iter().map(line).collect()
}

/// A number with separators between thousands.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |digits| ("-", digits));
    let mut out = String::with_capacity(text.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{out}{point}{fraction}")
}

/// A figure with as many decimals as its size deserves.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(value, decimals)
}

/// `median (min–max)`, or only the figure when there is one sample.
pub fn spread_text(measure: &Measure) -> String {
    match measure.spread() {
        None => String::new(),
        Some(Spread { median, .. }) if measure.samples.len() == 1 => figure(median),
        Some(Spread { min, median, max }) => {
            format!("{} ({}–{})", figure(median), figure(min), figure(max))
        }
    }
}

/// `12.3 ×`, how many times better.
pub fn advantage_text(advantage: Option<f64>) -> String {
    advantage.map_or_else(String::new, |times| {
        if times >= 100.0 {
            format!("{times:.0} ×")
        } else {
            format!("{times:.2} ×")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, server: usize, rows: &[(&str, f64)]) -> TargetReport {
        let mut column = TargetReport::new(name, "1".into(), Vec::new());
        column.server = server;
        for (row, milliseconds) in rows {
            column.add(Measure::single(
                "group",
                row,
                Unit::Milliseconds,
                *milliseconds,
            ));
        }
        column
    }

    fn report(targets: Vec<TargetReport>) -> Report {
        Report {
            suite: "test",
            title: "Test",
            machine: Machine::read(),
            parameters: Vec::new(),
            targets,
            remarks: vec!["a remark".into()],
            published: Published {
                legend: "nobody",
                columns: &["X", "Y"],
                rows: &[("group", "page", &["1", "2"])],
            },
        }
    }

    #[test]
    fn columns_of_one_server_are_compared_with_other_servers_only() {
        let report = report(vec![
            column("ours clustering", 0, &[("page", 4.0)]),
            column("ours plain", 0, &[("page", 8.0), ("insert", 1.0)]),
            column("theirs plain", 1, &[("page", 2.0), ("insert", 3.0)]),
            column("theirs covering", 1, &[("page", 40.0)]),
        ]);
        assert_eq!(report.others(), [2, 3]);
        let rows = report.rows();
        assert_eq!(rows[0].advantages(&[2, 3]), [Some(0.5), Some(10.0)]);
        assert_eq!(rows[1].advantages(&[2, 3]), [Some(3.0), None]);
        assert_eq!(rows[0].published, ["1", "2"]);
        assert!(rows[1].published.is_empty());
        assert_eq!(report.losses(), ["group, page: 0.50 × theirs plain"]);
        assert_eq!(report.subject(), "ours");
        assert_eq!(report.notes(), ["a remark"]);
    }

    #[test]
    fn a_table_too_wide_to_read_is_broken_into_blocks() {
        let columns = |servers: usize| {
            let column = |server| column(&format!("s{server}"), server, &[("page", 1.0)]);
            (0..servers).map(column).collect()
        };
        let print = |targets| {
            let mut out = Vec::new();
            table::print(&report(targets), &mut out).expect("prints");
            String::from_utf8(out).expect("text")
        };
        let headers = |text: &str| {
            text.lines()
                .filter(|line| line.starts_with("group"))
                .count()
        };
        assert_eq!(headers(&print(columns(2))), 1);
        assert_eq!(headers(&print(columns(8))), 3);
    }

    #[test]
    fn series_of_one_name_share_a_plot() {
        let with_series = |name: &str, server| {
            let mut column = column(name, server, &[]);
            column.series.push(Series {
                name: "Insert rate".into(),
                over: "documents".into(),
                unit: Unit::PerSecond,
                points: vec![(10.0, 5.0), (20.0, 4.0)],
            });
            column
        };
        let report = report(vec![with_series("ours", 0), with_series("theirs", 1)]);
        let plots = report.plots();
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].series.len(), 2);
        let page = html::page(&report);
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(page.contains("documents") && page.contains("Insert rate"));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_692_000.0, 0), "1,692,000");
        assert_eq!(grouped(-1234.5, 1), "-1,234.5");
        assert_eq!(grouped(999.0, 0), "999");
        assert_eq!(figure(18.14), "18.1");
        assert_eq!(figure(0.2504), "0.250");
    }
}
