//! What entries carry of their document: nothing, chosen fields (`include`) or all of it (`clustering`).
//!
//! Document in, the bytes of a BSON document out. Chosen fields stand where and as they stand in the
//! document. A path that meets an array, or anything else that is no document, keeps that whole: so
//! whoever reads only the chosen paths sees no difference to the document itself.

use super::IndexSpec;
use bson::raw::RawDocument;
use meridian_value::field::{Field, fields};

/// BSON's type byte of a document within another.
const DOCUMENT_KIND: u8 = 0x03;

/// What the entries of an index carry.
#[derive(Debug)]
pub(super) enum Carried {
    Nothing,
    Fields(CarriedFields),
    Document,
}

/// Fields by name; those without a shape of their own are kept whole.
#[derive(Debug, Default)]
pub(super) struct CarriedFields {
    fields: Vec<(Box<[u8]>, Option<CarriedFields>)>,
}

impl Carried {
    pub(super) fn new(spec: &IndexSpec) -> Self {
        match (spec.clustering, spec.include.as_slice()) {
            (true, _) => Carried::Document,
            (false, []) => Carried::Nothing,
            (false, paths) => {
                let mut shape = CarriedFields::default();
                for path in paths {
                    shape.insert(&path.split('.').collect::<Vec<_>>());
                }
                Carried::Fields(shape)
            }
        }
    }

    /// The top-level fields of which something is carried; `None` for all.
    pub(super) fn names(&self) -> Option<Vec<Box<[u8]>>> {
        match self {
            Carried::Nothing => Some(Vec::new()),
            Carried::Fields(shape) => {
                let names = shape.fields.iter().map(|(name, _)| name.clone());
                Some(names.collect())
            }
            Carried::Document => None,
        }
    }

    /// Makes `out` what an entry of this document carries.
    #[inline]
    pub(super) fn write(&self, document: &RawDocument, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Carried::Nothing => {}
            Carried::Fields(shape) => shape.write(document, out),
            Carried::Document => out.extend_from_slice(document.as_bytes()),
        }
    }
}

impl CarriedFields {
    /// Adds a path; no path is the beginning of another.
    fn insert(&mut self, parts: &[&str]) {
        let Some((first, rest)) = parts.split_first() else {
            return;
        };
        let known = self
            .fields
            .iter()
            .position(|(name, _)| **name == *first.as_bytes());
        let place = known.unwrap_or_else(|| {
            let below = (!rest.is_empty()).then(CarriedFields::default);
            self.fields.push((first.as_bytes().into(), below));
            self.fields.len() - 1
        });
        if let Some(below) = &mut self.fields[place].1 {
            below.insert(rest);
        }
    }

    fn write(&self, document: &RawDocument, out: &mut Vec<u8>) {
        let start = out.len();
        // The length, known at the end.
        out.extend_from_slice(&[0; 4]);
        for field in fields(document) {
            let wanted = self.fields.iter().find(|(name, _)| **name == *field.name());
            if let Some((_, below)) = wanted {
                write_field(&field, below.as_ref(), out);
            }
        }
        out.push(0);
        let length =
            i32::try_from(out.len() - start).expect("a part of a document is below 16 MiB");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn write_field(field: &Field<'_>, below: Option<&CarriedFields>, out: &mut Vec<u8>) {
    out.push(field.kind());
    out.extend_from_slice(field.name());
    out.push(0);
    match (below, RawDocument::from_bytes(field.bytes())) {
        (Some(shape), Ok(inner)) if field.kind() == DOCUMENT_KIND => shape.write(inner, out),
        _ => out.extend_from_slice(field.bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn chosen_fields_stand_as_in_the_document() {
        let spec = rawdoc! { "key": { "k": 1 }, "name": "k", "include": ["b", "c.x", "c.y.z"] };
        let carried = Carried::new(&IndexSpec::parse(&spec).unwrap());
        let mut out = Vec::new();
        let mut carry = |document: bson::RawDocumentBuf| {
            carried.write(&document, &mut out);
            RawDocument::from_bytes(&out).unwrap().to_owned()
        };
        assert_eq!(
            carry(
                rawdoc! { "c": { "w": 1, "y": { "z": 2, "v": 3 }, "x": [4] }, "a": 5, "b": 6_i64 }
            ),
            rawdoc! { "c": { "y": { "z": 2 }, "x": [4] }, "b": 6_i64 }
        );
        assert_eq!(
            carry(rawdoc! { "c": [{ "w": 1 }], "b": null }),
            rawdoc! { "c": [{ "w": 1 }], "b": null },
            "an array on the way is kept whole"
        );
        assert_eq!(
            carry(rawdoc! { "a": 1, "c": { "y": 7 } }),
            rawdoc! { "c": { "y": 7 } }
        );
    }
}
