//! The columns of a CSV file: names, types, and how a row becomes a document.

use anyhow::{Context, bail, ensure};

use super::time::Layout;
use super::value::{BinaryText, ColumnType, write_blank};

/// A column's name and what its text becomes; `None` until it is inferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Perhaps dotted.
    pub name: String,
    /// The declared or inferred type.
    pub kind: Option<ColumnType>,
}

/// Columns of bare names, to be inferred.
pub fn untyped<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Column> {
    names
        .map(|name| Column {
            name: name.trim().to_owned(),
            kind: None,
        })
        .collect()
}

/// Columns of `name.type(argument)`, as mongoimport's `--columnsHaveTypes`.
///
/// # Errors
/// When a type is missing, unknown, or not supported.
pub fn typed<'a>(specifications: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<Column>> {
    specifications
        .map(|text| typed_column(text.trim()))
        .collect()
}

fn typed_column(text: &str) -> anyhow::Result<Column> {
    let parsed = text.strip_suffix(')').and_then(|rest| {
        let (before, argument) = rest.split_once('(')?;
        let (name, kind) = before.rsplit_once('.')?;
        Some((name, kind, argument))
    });
    let (name, kind, argument) =
        parsed.with_context(|| format!("column {text:?} is not NAME.TYPE(ARGUMENT)"))?;
    ensure!(!name.is_empty(), "column {text:?} has no name");
    Ok(Column {
        name: name.to_owned(),
        kind: Some(column_type(kind, argument).with_context(|| format!("column {text:?}"))?),
    })
}

fn column_type(kind: &str, argument: &str) -> anyhow::Result<ColumnType> {
    if !argument.is_empty()
        && !matches!(
            kind,
            "date" | "date_go" | "date_ms" | "date_oracle" | "binary"
        )
    {
        bail!("type {kind} takes no argument");
    }
    Ok(match (kind, argument) {
        ("auto", _) => ColumnType::Auto,
        ("int32", _) => ColumnType::Int32,
        ("int64", _) => ColumnType::Int64,
        ("double", _) => ColumnType::Double,
        ("decimal", _) => ColumnType::Decimal,
        ("boolean", _) => ColumnType::Boolean,
        ("string", _) => ColumnType::String,
        ("point", _) => ColumnType::Point,
        ("date" | "date_go", "") => ColumnType::Date,
        ("date" | "date_go", layout) => ColumnType::DateLayout(Layout::new(layout)),
        ("binary", "base64") => ColumnType::Binary(BinaryText::Base64),
        ("binary", "hex") => ColumnType::Binary(BinaryText::Hexadecimal),
        ("binary", _) => bail!("binary takes base64 or hex (base32 is not supported)"),
        ("date_ms" | "date_oracle", _) => {
            bail!("{kind} is not supported: use date with Go's layout")
        }
        _ => bail!("unknown type {kind:?}"),
    })
}

/// How to write a row's fields, embedded documents gathered.
#[derive(Debug)]
pub struct RowPlan {
    nodes: Vec<Node>,
    columns: usize,
    ignore_blanks: bool,
}

#[derive(Debug)]
enum Node {
    Field {
        column: usize,
        head: Vec<u8>,
        kind: ColumnType,
        name: String,
        inferred: bool,
    },
    Embedded {
        head: Vec<u8>,
        nodes: Vec<Node>,
    },
}

impl RowPlan {
    /// Plans rows of `columns`, whose types are all known by now; `inferred` types are forgiving of blanks.
    ///
    /// # Errors
    /// When a name is empty, used twice, or is both a value and an embedded document.
    pub fn new(columns: &[Column], inferred: bool, ignore_blanks: bool) -> anyhow::Result<Self> {
        let mut nodes = Vec::new();
        for (number, column) in columns.iter().enumerate() {
            let parts: Vec<&str> = column.name.split('.').collect();
            ensure!(
                parts
                    .iter()
                    .all(|part| !part.is_empty() && !part.contains('\0')),
                "column {} has no usable name: {:?}",
                number + 1,
                column.name
            );
            let kind = column
                .kind
                .clone()
                .context("every column has a type before rows are planned")?;
            place(&mut nodes, &parts, number, kind, inferred)
                .with_context(|| format!("column {:?}", column.name))?;
        }
        Ok(Self {
            nodes,
            columns: columns.len(),
            ignore_blanks,
        })
    }

    /// Appends the row as a document.
    ///
    /// # Errors
    /// The reason why the row is none.
    pub fn write(&self, row: &csv::ByteRecord, out: &mut Vec<u8>) -> Result<(), String> {
        if row.len() != self.columns {
            return Err(format!(
                "{} columns where {} are named",
                row.len(),
                self.columns
            ));
        }
        self.write_nodes(&self.nodes, row, out).map(drop)
    }

    /// Whether anything was written.
    fn write_nodes(
        &self,
        nodes: &[Node],
        row: &csv::ByteRecord,
        out: &mut Vec<u8>,
    ) -> Result<bool, String> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for node in nodes {
            match node {
                Node::Field {
                    column,
                    head,
                    kind,
                    name,
                    inferred,
                } => {
                    let text = &row[*column];
                    if text.is_empty() && self.ignore_blanks {
                        continue;
                    }
                    if text.is_empty() && *inferred {
                        write_blank(head, out);
                    } else if kind.write(head, text, out).is_none() {
                        return Err(misfit(name, kind, text, *inferred));
                    }
                }
                Node::Embedded { head, nodes } => {
                    let before = out.len();
                    out.extend_from_slice(head);
                    out[before] = 0x03;
                    if !self.write_nodes(nodes, row, out)? {
                        out.truncate(before);
                    }
                }
            }
        }
        let written = out.len() > start + 4;
        out.push(0);
        let length = (out.len() - start) as i32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(written)
    }
}

fn misfit(name: &str, kind: &ColumnType, text: &[u8], inferred: bool) -> String {
    let shown: String = String::from_utf8_lossy(text).chars().take(60).collect();
    let hint = if inferred {
        " (inferred from the first rows; --columnsHaveTypes declares it)"
    } else {
        ""
    };
    format!("column {name}: {shown:?} is no {}{hint}", kind.label())
}

fn place(
    nodes: &mut Vec<Node>,
    parts: &[&str],
    column: usize,
    kind: ColumnType,
    inferred: bool,
) -> anyhow::Result<()> {
    let (first, rest) = parts
        .split_first()
        .context("a name has at least one part")?;
    let wanted = head(first);
    let existing = nodes.iter_mut().find(|node| match node {
        Node::Field { head, .. } | Node::Embedded { head, .. } => *head == wanted,
    });
    match (existing, rest.is_empty()) {
        (None, true) => {
            nodes.push(Node::Field {
                column,
                head: wanted,
                kind,
                name: (*first).to_owned(),
                inferred,
            });
            Ok(())
        }
        (None, false) => {
            let mut inner = Vec::new();
            place(&mut inner, rest, column, kind, inferred)?;
            nodes.push(Node::Embedded {
                head: wanted,
                nodes: inner,
            });
            Ok(())
        }
        (Some(Node::Embedded { nodes, .. }), false) => place(nodes, rest, column, kind, inferred),
        _ => bail!("the name is used twice"),
    }
}

/// A spare byte for the type, the name, its end.
fn head(name: &str) -> Vec<u8> {
    let mut head = vec![0];
    head.extend_from_slice(name.as_bytes());
    head.push(0);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, RawDocument, doc};

    fn document(plan: &RowPlan, row: &[&str]) -> Result<Document, String> {
        let mut bytes = Vec::new();
        plan.write(&csv::ByteRecord::from(row.to_vec()), &mut bytes)?;
        Ok(RawDocument::from_bytes(&bytes)
            .expect("well-formed")
            .try_into()
            .expect("valid"))
    }

    #[test]
    fn dotted_names_nest_and_blanks_may_be_left_out() {
        let columns =
            typed(["a.b.int32()", "c.string()", "a.d.double()"].into_iter()).expect("types");
        let plan = RowPlan::new(&columns, false, true).expect("plan");
        assert_eq!(
            document(&plan, &["1", "x", "2.5"]),
            Ok(doc! { "a": { "b": 1, "d": 2.5 }, "c": "x" })
        );
        assert_eq!(document(&plan, &["", "x", ""]), Ok(doc! { "c": "x" }));
        assert!(
            document(&plan, &["1", "x"])
                .expect_err("short row")
                .contains("2 columns where 3")
        );
        assert!(
            document(&plan, &["one", "x", "1"])
                .expect_err("no number")
                .contains("column b: \"one\" is no int32")
        );
    }

    #[test]
    fn specifications_that_cannot_be_are_named() {
        for (text, message) in [
            ("a", "is not NAME.TYPE(ARGUMENT)"),
            ("a.float()", "unknown type"),
            ("a.int32(5)", "takes no argument"),
            ("a.date_ms(yyyy)", "not supported"),
            ("a.binary(base32)", "base64 or hex"),
        ] {
            let error = format!("{:#}", typed([text].into_iter()).expect_err(text));
            assert!(error.contains(message), "{error}");
        }
        let twice = untyped(["a", "a.b"].into_iter())
            .into_iter()
            .map(|column| Column {
                kind: Some(ColumnType::Auto),
                ..column
            })
            .collect::<Vec<_>>();
        assert!(RowPlan::new(&twice, true, false).is_err());
    }
}
