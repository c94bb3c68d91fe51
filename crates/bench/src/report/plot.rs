//! A line chart as inline SVG: one line a target, both axes linear from zero.

use super::html::{COLOURS, escape, push};
use super::{Plot, Report, figure};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 16.0;
/// Lines across, zero's left out.
const STEPS: u32 = 5;

/// The chart.
pub fn draw(report: &Report, plot: &Plot<'_>) -> String {
    let points = || plot.series.iter().flat_map(|(_, series)| &series.points);
    let right = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let above = points().map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = format!(
        "<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-size=\"11\" role=\"img\" aria-label=\"{2}\">\n",
        LEFT + WIDTH + 40.0,
        TOP + HEIGHT + 44.0 + 18.0 * plot.series.len() as f64,
        escape(plot.name)
    );
    axes(plot, right, above, &mut out);
    for (number, (column, series)) in plot.series.iter().enumerate() {
        let colour = COLOURS[column % COLOURS.len()];
        let place = |(x, y): &(f64, f64)| {
            let (x, y) = (LEFT + x / right * WIDTH, TOP + HEIGHT - y / above * HEIGHT);
            format!("{x:.1},{y:.1}")
        };
        let line: Vec<String> = series.points.iter().map(place).collect();
        let legend_y = TOP + HEIGHT + 48.0 + 18.0 * number as f64;
        push(
            &mut out,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <rect x=\"{LEFT}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"{legend_y}\">{}</text>\n",
                line.join(" "),
                legend_y - 9.0,
                LEFT + 16.0,
                escape(&report.targets[*column].name)
            ),
        );
    }
    out.push_str("</svg>\n");
    out
}

fn axes(plot: &Plot<'_>, right: f64, above: f64, out: &mut String) {
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let (x, y) = (LEFT + share * WIDTH, TOP + HEIGHT - share * HEIGHT);
        push(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#8a96a3\" stroke-opacity=\".35\"/>\
                 <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>\
                 <text x=\"{x:.1}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>\n",
                LEFT + WIDTH,
                LEFT - 6.0,
                y + 4.0,
                figure(share * above),
                TOP + HEIGHT + 16.0,
                figure(share * right)
            ),
        );
    }
    push(
        out,
        format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"4\" y=\"12\">{}</text>\n",
            LEFT + WIDTH,
            TOP + HEIGHT + 32.0,
            escape(plot.over),
            plot.unit.label()
        ),
    );
}
