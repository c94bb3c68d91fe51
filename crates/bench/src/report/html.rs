//! One page with tables and plots: no script, no network, opens from a file.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use super::{Report, Row, advantage_text, figure, plot, spread_text};

/// A colour for each column.
pub(super) const COLOURS: [&str; 8] = [
    "#0b6e4f", "#c8553d", "#33658a", "#f2a541", "#6d597a", "#7f8c8d", "#1fa187", "#a23b72",
];
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1b2430}\
table{border-collapse:collapse;margin:1rem 0 1.5rem;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .8rem;border-bottom:1px solid #d8dee6;text-align:right;white-space:nowrap}\
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}\
th{background:#f3f5f8}.worse{color:#b3261e}.better{color:#0b6e4f}svg{display:block;margin:.5rem 0 1.5rem}\
h2{margin-top:2.5rem}small,.facts{color:#566274}@media(prefers-color-scheme:dark){body{background:#12161c;color:#e4e8ee}\
th{background:#1d242d}th,td{border-color:#303a46}svg text{fill:#e4e8ee}.facts,small{color:#9aa7b6}}";
const BAR_HEIGHT: usize = 14;
const LABEL_WIDTH: usize = 300;
const PLOT_WIDTH: usize = 560;

/// Writes the page.
///
/// # Errors
/// When the file cannot be written.
pub fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, page(report)).with_context(|| format!("cannot write {}", path.display()))
}

/// The page's text.
pub fn page(report: &Report) -> String {
    let title = escape(report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    out.push_str(&facts(report));
    let rows = report.rows();
    let mut start = 0;
    while start < rows.len() {
        let end = rows[start..]
            .iter()
            .position(|row| row.group != rows[start].group)
            .map_or(rows.len(), |at| start + at);
        let group = &rows[start..end];
        push(
            &mut out,
            format_args!("<h2>{}</h2>\n", escape(group[0].group)),
        );
        out.push_str(&table(report, group));
        out.push_str(&bars(report, group));
        start = end;
    }
    for drawn in report.plots() {
        push(&mut out, format_args!("<h2>{}</h2>\n", escape(drawn.name)));
        out.push_str(&plot::draw(report, &drawn));
    }
    out.push_str(&closing(report));
    out.push_str("</body></html>\n");
    out
}

/// Writing to a `String` cannot fail.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn facts(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "<p class=\"facts\">{}, {} cores, {:.1} GiB, {}</p>\n<table><tr><th>target</th><th>version</th><th>settings</th></tr>\n",
        escape(&machine.processor),
        machine.cores,
        machine.memory_mib as f64 / 1024.0,
        escape(&machine.kernel)
    );
    for target in &report.targets {
        let settings: Vec<String> = target
            .settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        push(
            &mut out,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td style=\"white-space:normal\">{}</td></tr>\n",
                escape(&target.name),
                escape(&target.version),
                escape(&settings.join(", "))
            ),
        );
    }
    out.push_str("</table>\n<table>\n");
    for (name, value) in &report.parameters {
        push(
            &mut out,
            format_args!(
                "<tr><td>{}</td><td style=\"white-space:normal\">{}</td></tr>\n",
                escape(name),
                escape(value)
            ),
        );
    }
    out.push_str("</table>\n");
    out
}

fn table(report: &Report, rows: &[Row<'_>]) -> String {
    let mut out = String::from("<table><tr><th></th><th>unit</th>");
    for target in &report.targets {
        push(&mut out, format_args!("<th>{}</th>", escape(&target.name)));
    }
    let others = report.others();
    for other in &others {
        let name = escape(&report.targets[*other].name);
        push(&mut out, format_args!("<th>vs {name}</th>"));
    }
    for name in report.published.columns {
        push(&mut out, format_args!("<th>{}</th>", escape(name)));
    }
    out.push_str("</tr>\n");
    for row in rows {
        push(
            &mut out,
            format_args!(
                "<tr><td>{}</td><td>{}</td>",
                escape(row.name),
                row.unit.label()
            ),
        );
        for cell in &row.cells {
            push(
                &mut out,
                format_args!("<td>{}</td>", cell.map_or_else(|| "–".into(), spread_text)),
            );
        }
        for advantage in row.advantages(&others) {
            let class = match advantage {
                Some(times) if times < 0.995 => "worse",
                Some(_) => "better",
                None => "",
            };
            push(
                &mut out,
                format_args!("<td class=\"{class}\">{}</td>", advantage_text(advantage)),
            );
        }
        for column in 0..report.published.columns.len() {
            let text = row.published.get(column).copied().unwrap_or_default();
            push(&mut out, format_args!("<td>{}</td>", escape(text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    out
}

/// Bars on a logarithmic scale, since targets differ by orders of magnitude.
fn bars(report: &Report, rows: &[Row<'_>]) -> String {
    let figures: Vec<f64> = rows
        .iter()
        .flat_map(Row::medians)
        .flatten()
        .filter(|value| *value > 0.0)
        .collect();
    let Some(least) = figures.iter().copied().reduce(f64::min) else {
        return String::new();
    };
    let greatest = figures.iter().copied().fold(least, f64::max);
    let (low, high) = (
        least.log10().floor(),
        greatest.log10().ceil().max(least.log10().floor() + 1.0),
    );
    let scale = PLOT_WIDTH as f64 / (high - low);
    let row_height = BAR_HEIGHT * report.targets.len() + 12;
    let height = rows.len() * row_height + 40;
    let mut out = format!(
        "<svg width=\"{0}\" height=\"{height}\" viewBox=\"0 0 {0} {height}\" font-size=\"11\" role=\"img\" aria-label=\"{1}\">\n",
        (LABEL_WIDTH + PLOT_WIDTH + 90).max(report.targets.len() * 150),
        escape(rows[0].group)
    );
    for power in low as i32..=high as i32 {
        let x = LABEL_WIDTH as f64 + (f64::from(power) - low) * scale;
        push(
            &mut out,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{0}\" stroke=\"#8a96a3\" stroke-opacity=\".35\"/>\
                 <text x=\"{x:.1}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>\n",
                height - 36,
                height - 22,
                figure(10f64.powi(power))
            ),
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let top = number * row_height + 4;
        push(
            &mut out,
            format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} {}</text>\n",
                LABEL_WIDTH - 8,
                top + row_height / 2,
                escape(row.name),
                row.unit.label()
            ),
        );
        for (target, median) in row.medians().into_iter().enumerate() {
            let Some(median) = median.filter(|median| *median > 0.0) else {
                continue;
            };
            let width = ((median.log10() - low) * scale).max(1.0);
            let y = top + target * BAR_HEIGHT;
            push(
                &mut out,
                format_args!(
                    "<rect x=\"{LABEL_WIDTH}\" y=\"{y}\" width=\"{width:.1}\" height=\"{0}\" fill=\"{1}\"/>\
                     <text x=\"{2:.1}\" y=\"{3}\">{4}</text>\n",
                    BAR_HEIGHT - 2,
                    COLOURS[target % COLOURS.len()],
                    LABEL_WIDTH as f64 + width + 4.0,
                    y + BAR_HEIGHT - 4,
                    figure(median)
                ),
            );
        }
    }
    for (target, report) in report.targets.iter().enumerate() {
        let x = 8 + target * 150;
        push(
            &mut out,
            format_args!(
                "<rect x=\"{x}\" y=\"{0}\" width=\"10\" height=\"10\" fill=\"{1}\"/><text x=\"{2}\" y=\"{3}\">{4}</text>\n",
                height - 12,
                COLOURS[target % COLOURS.len()],
                x + 14,
                height - 3,
                escape(&report.name)
            ),
        );
    }
    out.push_str("</svg>\n");
    out
}

fn closing(report: &Report) -> String {
    let mut out = format!(
        "<p><small>Figures are medians (least–greatest); bars are on a logarithmic scale. {}.</small></p>\n",
        escape(report.published.legend)
    );
    if !report.others().is_empty() {
        push(
            &mut out,
            format_args!("<h2>Where {} loses</h2>\n", escape(report.subject())),
        );
        out.push_str(&list(&report.losses(), "Nowhere in this run."));
    }
    out.push_str("<h2>Notes</h2>\n");
    out.push_str(&list(&report.notes(), "None."));
    out
}

fn list(items: &[String], none: &str) -> String {
    if items.is_empty() {
        return format!("<p>{none}</p>\n");
    }
    let items: String = items
        .iter()
        .map(|item| format!("<li>{}</li>\n", escape(item)))
        .collect();
    format!("<ul>\n{items}</ul>\n")
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::Published;

    #[test]
    fn a_page_is_complete_and_refers_to_nothing_outside() {
        let report = Report {
            suite: "weather",
            title: "A & B",
            machine: Machine::read(),
            parameters: Vec::new(),
            targets: Vec::new(),
            remarks: Vec::new(),
            published: Published {
                legend: "nobody",
                columns: &[],
                rows: &[],
            },
        };
        let page = page(&report);
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(page.contains("A &amp; B"));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script"));
    }
}
