//! Document in, entries of one index out.
//!
//! Documents without arrays, the common case, take a path that encodes straight into the
//! sink; arrays go through [`super::extract`], geometries through [`super::sphere`].

use super::carried::Carried;
use super::extract::{self, follow};
use super::spec::WildcardScope;
use super::sphere;
use super::text::TextKeys;
use super::wildcard;
use super::{IndexField, IndexSpec, KeySink, Multikey};
use crate::expression::hash_value;
use crate::geo::PlaneGrid;
use crate::query::Filter;
use crate::{Error, Result};
use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::Collation;
use meridian_value::field::{Field, find};
use meridian_value::path::Path;
use smallvec::SmallVec;
use std::sync::Arc;

/// A compiled index definition.
#[derive(Debug)]
pub struct KeyGenerator {
    pub(super) fields: Vec<GeneratorField>,
    kind: GeneratorKind,
    sparse: bool,
    filter: Option<Filter>,
    collation: Collation,
    carried: Carried,
    /// The plane of a 2d field.
    grid: PlaneGrid,
    /// What a wildcard index reads.
    wildcard: Option<Arc<WildcardScope>>,
    /// What a text index reads.
    text: Option<TextKeys>,
}

#[derive(Debug)]
pub(super) struct GeneratorField {
    pub(super) path: Path,
    kind: IndexField,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeneratorKind {
    ByValue,
    Hashed,
    Sphere,
    Wildcard,
    Text,
}

/// What a path leads to when no array is followed.
pub(super) enum PathTarget<'a> {
    Missing,
    Value(RawBsonRef<'a>),
    Array,
}

impl KeyGenerator {
    /// Compiles a definition.
    ///
    /// # Errors
    /// Those of the partial filter; none for a specification from [`IndexSpec::parse`].
    pub fn new(spec: &IndexSpec) -> Result<Self> {
        let field = |(path, kind): &(String, IndexField)| GeneratorField {
            path: Path::parse(path),
            kind: *kind,
        };
        let kind = if spec.key.iter().any(|(_, kind)| kind.is_located()) {
            GeneratorKind::Sphere
        } else if spec.has(IndexField::Wildcard) {
            GeneratorKind::Wildcard
        } else if spec.text.is_some() {
            GeneratorKind::Text
        } else if spec.has(IndexField::Hashed) {
            GeneratorKind::Hashed
        } else {
            GeneratorKind::ByValue
        };
        Ok(KeyGenerator {
            fields: spec.key.iter().map(field).collect(),
            kind,
            sparse: spec.sparse,
            filter: spec.filter()?,
            collation: spec.collation.clone(),
            carried: Carried::new(spec),
            grid: spec.grid,
            wildcard: spec.wildcard.clone(),
            text: TextKeys::of(spec),
        })
    }

    /// The filter of a partial index: it has entries for no other documents.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The top-level fields on which a document's entries depend; `None` for all.
    pub(super) fn reads(&self) -> Option<Vec<Box<[u8]>>> {
        let mut names = self.carried.names()?;
        match (self.kind, &self.wildcard) {
            (GeneratorKind::Text, _) => {
                let text = self.text.as_ref()?;
                names.extend(text.roots()?.into_iter().map(|root| root.as_bytes().into()));
            }
            (GeneratorKind::Wildcard, Some(scope)) => {
                names.push(scope.only_field()?.as_bytes().into());
            }
            _ => names.extend(
                self.fields
                    .iter()
                    .map(|field| field.path.first().as_bytes().into()),
            ),
        }
        if let Some(filter) = &self.filter {
            let needs = filter.needs();
            let roots = needs
                .paths()?
                .iter()
                .filter_map(|path| path.split('.').next());
            names.extend(roots.map(|root| root.as_bytes().into()));
        }
        Some(names)
    }

    /// Emits every entry of a document, each once, in key order; nothing when an error is returned.
    ///
    /// # Errors
    /// `CannotIndexParallelArrays` (171), 16746, 16755 for what is no geometry, 16766 for an
    /// array under a hashed index.
    pub fn generate(&self, document: &RawDocument, sink: &mut KeySink) -> Result<Multikey> {
        let top = |index: usize| find(document, self.fields[index].path.first().as_bytes());
        sink.set_document(document);
        self.generate_from(document, top, sink)
    }

    /// As [`KeyGenerator::generate`], where `top` gives the top-level field that the path of
    /// each field of the index begins with. The sink knows the document already.
    #[inline]
    pub(super) fn generate_from<'a>(
        &self,
        document: &'a RawDocument,
        top: impl Fn(usize) -> Option<Field<'a>>,
        sink: &mut KeySink,
    ) -> Result<Multikey> {
        if let Some(filter) = &self.filter
            && !filter.matches(document)?
        {
            return Ok(Multikey::NONE);
        }
        self.carried.write(document, &mut sink.carried);
        let multikey = match self.kind {
            GeneratorKind::ByValue => self.by_value(document, top, sink)?,
            GeneratorKind::Hashed => {
                self.hashed(top, sink)?;
                Multikey::NONE
            }
            GeneratorKind::Wildcard => {
                if let Some(scope) = &self.wildcard {
                    wildcard::generate(document, scope, &self.collation, sink);
                }
                Multikey::NONE
            }
            GeneratorKind::Text => match &self.text {
                Some(text) => text.generate(document, sink)?,
                None => Multikey::NONE,
            },
            GeneratorKind::Sphere => {
                let fields: SmallVec<[_; 3]> = self
                    .fields
                    .iter()
                    .map(|field| (&field.path, field.kind))
                    .collect();
                sphere::generate(document, &fields, self.grid, &self.collation, sink)?
            }
        };
        sink.check_room()?;
        Ok(multikey)
    }

    #[inline]
    fn by_value<'a>(
        &self,
        document: &'a RawDocument,
        top: impl Fn(usize) -> Option<Field<'a>>,
        sink: &mut KeySink,
    ) -> Result<Multikey> {
        let pending = sink.begin();
        let mut missing = 0;
        for (index, field) in self.fields.iter().enumerate() {
            let value = match resolve(top(index), &field.path) {
                PathTarget::Value(value) => Some(value),
                PathTarget::Missing => {
                    missing += 1;
                    None
                }
                PathTarget::Array => {
                    sink.abandon(pending);
                    return self.expanded(document, sink);
                }
            };
            sink.push_field(value, field.kind.direction(), &self.collation);
        }
        if self.sparse && missing == self.fields.len() {
            sink.abandon(pending);
        } else {
            sink.finish(pending, &[]);
        }
        Ok(Multikey::NONE)
    }

    /// A document with arrays on some path.
    fn expanded(&self, document: &RawDocument, sink: &mut KeySink) -> Result<Multikey> {
        let first = sink.len();
        let paths: SmallVec<[&Path; 4]> = self.fields.iter().map(|field| &field.path).collect();
        let outcome = extract::combinations(document, &paths, self.sparse, &mut |combination| {
            let pending = sink.begin();
            for (value, field) in combination.iter().zip(&self.fields) {
                sink.push_field(*value, field.kind.direction(), &self.collation);
            }
            sink.finish(pending, &[]);
            sink.drop_repeated(first);
        });
        match outcome {
            Ok(_) => sink.deduplicate(first),
            Err(_) => sink.truncate(first),
        }
        outcome
    }

    fn hashed<'a>(
        &self,
        top: impl Fn(usize) -> Option<Field<'a>>,
        sink: &mut KeySink,
    ) -> Result<()> {
        let pending = sink.begin();
        let mut missing = 0;
        for (index, field) in self.fields.iter().enumerate() {
            let value = match resolve(top(index), &field.path) {
                PathTarget::Value(value) => Some(value),
                PathTarget::Missing => {
                    missing += 1;
                    None
                }
                PathTarget::Array => {
                    sink.abandon(pending);
                    return Err(hashed_array(top(index), &field.path));
                }
            };
            let kept = match field.kind {
                IndexField::Hashed => {
                    let hash = hash_value(value.unwrap_or(RawBsonRef::Null), &self.collation);
                    Some(RawBsonRef::Int64(hash))
                }
                _ => value,
            };
            sink.push_field(kept, field.kind.direction(), &self.collation);
        }
        if self.sparse && missing == self.fields.len() {
            sink.abandon(pending);
        } else {
            sink.finish(pending, &[]);
        }
        Ok(())
    }
}

#[inline]
pub(super) fn resolve<'a>(top: Option<Field<'a>>, path: &Path) -> PathTarget<'a> {
    let Some(field) = top else {
        return PathTarget::Missing;
    };
    let Some(value) = field.value() else {
        return PathTarget::Missing;
    };
    let mut rest = &path.parts()[1..];
    let found = match value {
        RawBsonRef::Array(_) => return PathTarget::Array,
        value if rest.is_empty() => return PathTarget::Value(value),
        RawBsonRef::Document(inner) => follow(inner, &mut rest).and_then(|field| field.value()),
        _ => None,
    };
    match found {
        Some(RawBsonRef::Array(_)) => PathTarget::Array,
        Some(value) => PathTarget::Value(value),
        None => PathTarget::Missing,
    }
}

/// Names the path up to the array, as mongod does.
fn hashed_array(top: Option<Field<'_>>, path: &Path) -> Error {
    let mut rest = &path.parts()[1..];
    let inner = top
        .and_then(|field| field.value())
        .and_then(RawBsonRef::as_document);
    if let Some(inner) = inner {
        follow(inner, &mut rest);
    }
    let reached = path.parts()[..path.parts().len() - rest.len()].join(".");
    Error::location(
        16766,
        format!(
            "Error: hashed indexes do not currently support array values. Found array at path: {reached}"
        ),
    )
}
