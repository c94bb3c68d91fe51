//! One document as a CSV row that `meridian import` reads back.

use std::io::Write;

use bson::{Bson, Document};

/// Writes the header.
pub fn write_names(names: &[String], out: &mut impl Write) -> anyhow::Result<()> {
    write_cells(names.iter().map(String::as_str), out)
}

/// Writes the named fields; what a document lacks is left empty.
pub fn write_row(
    names: &[String],
    document: &Document,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let cells: Vec<String> = names
        .iter()
        .map(|name| get_path(document, name).map_or_else(String::new, text))
        .collect();
    write_cells(cells.iter().map(String::as_str), out)
}

fn write_cells<'a>(
    cells: impl Iterator<Item = &'a str>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for (number, cell) in cells.enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        if cell.contains([',', '"', '\n', '\r']) {
            write!(out, "\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            out.write_all(cell.as_bytes())?;
        }
    }
    out.write_all(b"\n")?;
    Ok(())
}

fn get_path<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    if let Some(value) = document.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    get_path(document.get(first)?.as_document()?, rest)
}

fn text(value: &Bson) -> String {
    match value {
        Bson::Null | Bson::Undefined => String::new(),
        Bson::String(text) | Bson::Symbol(text) => text.clone(),
        Bson::ObjectId(id) => id.to_hex(),
        Bson::DateTime(date) => date
            .try_to_rfc3339_string()
            .unwrap_or_else(|_| date.timestamp_millis().to_string()),
        Bson::Document(document) => point(document).unwrap_or_else(|| json(value)),
        Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Double(_)
        | Bson::Boolean(_)
        | Bson::Decimal128(_) => value.to_string(),
        _ => json(value),
    }
}

fn json(value: &Bson) -> String {
    value.clone().into_relaxed_extjson().to_string()
}

/// `POINT(lon lat)` of a GeoJSON point.
fn point(document: &Document) -> Option<String> {
    if document.len() != 2 || !document.get_str("type").is_ok_and(|kind| kind == "Point") {
        return None;
    }
    match document.get_array("coordinates").ok()?.as_slice() {
        [longitude, latitude] => Some(format!("POINT({longitude} {latitude})")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_row_is_what_import_reads() {
        let document = doc! {
            "n": 7,
            "at": bson::DateTime::from_millis(1000),
            "location": { "type": "Point", "coordinates": [2.5, 45.9] },
            "name": "a \"b\", c",
            "in": { "ner": 1.5 },
        };
        let names = ["n", "at", "location", "name", "in.ner", "missing"].map(str::to_owned);
        let mut out = Vec::new();
        write_row(&names, &document, &mut out).expect("writes");
        let line = String::from_utf8(out).expect("text");
        assert_eq!(
            line,
            "7,1970-01-01T00:00:01Z,POINT(2.5 45.9),\"a \"\"b\"\", c\",1.5,\n"
        );
    }
}
