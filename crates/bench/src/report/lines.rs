//! Lines of cells, aligned in columns, the first line being the header.

use std::io::{self, Write};

/// Cells line by line; all lines have as many.
pub type Lines = Vec<Vec<String>>;

/// Prints them. The first two columns and the last `texts` are flush left, figures flush right.
///
/// # Errors
/// When writing fails.
pub fn print(lines: &Lines, texts: usize, out: &mut impl Write) -> io::Result<()> {
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            if column < 2 || column >= columns - texts {
                text.push_str(&format!("{cell}{padding}  "));
            } else {
                text.push_str(&format!("{padding}{cell}  "));
            }
        }
        writeln!(out, "{}", text.trim_end())?;
        if number == 0 {
            let rule: usize = widths.iter().map(|width| width + 2).sum();
            writeln!(out, "{}", "─".repeat(rule.saturating_sub(2)))?;
        }
    }
    Ok(())
}
