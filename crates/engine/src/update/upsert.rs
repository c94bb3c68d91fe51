//! The document that an upsert inserts when nothing matches.
//!
//! In: the query's filter and the update. Out: a document of the query's equalities with the
//! update applied, `_id` first where it is known; the caller adds one where it is not.

use super::raw::{OwnedValue, write_document, write_element};
use super::{Applied, ApplyMode, SIZE_MAX, Update, id};
use crate::error::{Code, Error, Result};
use crate::query::{Comparison, Filter, Predicate};
use bson::raw::{RawBsonRef, RawDocumentBuf};
use std::collections::BTreeMap;

/// The values that a filter demands of paths, by path.
type Equalities<'a> = BTreeMap<&'a str, RawBsonRef<'a>>;

/// Refuses a filter that an upsert may not have, whether or not a document matches it.
///
/// # Errors
/// `QueryFeatureNotAllowed` for `$expr`.
pub fn check_upsert_filter(filter: &Filter) -> Result<()> {
    match filter {
        Filter::Expr(_) => Err(Error::new(
            Code::QueryFeatureNotAllowed,
            "$expr is not allowed in the query predicate for an upsert",
        )),
        Filter::And(children) | Filter::Or(children) | Filter::Nor(children) => {
            children.iter().try_for_each(check_upsert_filter)
        }
        _ => Ok(()),
    }
}

/// The document to insert when no document matches `filter`: what its equalities say (those
/// under `$and`, `$all`, `$in` of one value and `$or` of one branch too) with `update` applied.
/// A document without `_id` is for the caller to complete.
///
/// # Errors
/// `NotSingleValueField` when the filter gives a path two values, what the update is refused
/// with, and `Location17420` when the document is too large.
pub fn upsert_document(filter: &Filter, update: &Update) -> Result<RawDocumentBuf> {
    let wanted = match update {
        Update::Replacement(_) => CountedEqualities::OnlyId,
        Update::Operators(_) | Update::Pipeline(_) => CountedEqualities::All,
    };
    check_upsert_filter(filter)?;
    let mut equalities = Equalities::new();
    collect(filter, wanted, &mut equalities)?;
    let base = build(&equalities)?;
    let document = match update.apply_unbounded(&base, None, ApplyMode::InsertOnUpsert)? {
        Applied::Unchanged => base,
        Applied::Changed(document) => document,
    };
    id::check_stored(&document)?;
    let document = id::with_id_first(&document)?;
    if document.as_bytes().len() > SIZE_MAX {
        return Err(Error::location(
            17420,
            format!("Document to upsert is larger than {SIZE_MAX}"),
        ));
    }
    Ok(document)
}

/// Which equalities count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedEqualities {
    All,
    /// A replacement brings everything else itself.
    OnlyId,
}

fn collect<'a>(
    filter: &'a Filter,
    wanted: CountedEqualities,
    found: &mut Equalities<'a>,
) -> Result<()> {
    match filter {
        Filter::And(children) => children
            .iter()
            .try_for_each(|child| collect(child, wanted, found)),
        Filter::Or(children) if children.len() == 1 => collect(&children[0], wanted, found),
        Filter::Field { path, predicate } => match equality(predicate) {
            Some(value) => add(path.as_str(), value, wanted, found),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn equality(predicate: &Predicate) -> Option<RawBsonRef<'_>> {
    match predicate {
        Predicate::Compare(Comparison::Eq, operand) => Some(operand.value()),
        Predicate::In(list) if list.patterns().is_empty() && list.values().len() == 1 => {
            Some(list.values()[0].as_raw_bson_ref())
        }
        _ => None,
    }
}

fn add<'a>(
    path: &'a str,
    value: RawBsonRef<'a>,
    wanted: CountedEqualities,
    found: &mut Equalities<'a>,
) -> Result<()> {
    if wanted == CountedEqualities::OnlyId && path != "_id" {
        if path.starts_with("_id.") {
            return Err(Error::new(
                Code::NotExactValueField,
                format!(
                    "field at '_id' must be exactly specified, field at sub-path '{path}'found"
                ),
            ));
        }
        return Ok(());
    }
    let refuse = |what: String| {
        Err(Error::new(
            Code::NotSingleValueField,
            format!("cannot infer query fields to set, {what}"),
        ))
    };
    let both =
        |long: &str, short: &str| refuse(format!("both paths '{long}' and '{short}' are matched"));
    let above = path.match_indices('.').map(|(end, _)| &path[..end]);
    if let Some(short) = above.into_iter().find(|short| found.contains_key(short)) {
        return both(path, short);
    }
    if found.contains_key(path) {
        return refuse(format!("path '{path}' is matched twice"));
    }
    let below = format!("{path}.");
    let known: &Equalities<'_> = found;
    let next = known.range(&*below..).next();
    if let Some((long, _)) = next.filter(|(long, _)| long.starts_with(&below)) {
        return both(long, path);
    }
    found.insert(path, value);
    Ok(())
}

/// The document that has each value at its path. Numbers in paths name fields, not elements.
fn build(equalities: &Equalities<'_>) -> Result<RawDocumentBuf> {
    if equalities.contains_key("") {
        return Err(Error::new(
            Code::IllegalOperation,
            "Cannot call setValue on the root object",
        ));
    }
    let mut root = DocumentBranch::default();
    for (path, value) in equalities {
        root.insert(path, *value);
    }
    let mut out = Vec::new();
    root.write(&mut out);
    super::document(out)
}

/// A document under construction; fields in the order in which they came.
#[derive(Default)]
struct DocumentBranch<'a>(Vec<(&'a str, Child<'a>)>);

enum Child<'a> {
    Value(RawBsonRef<'a>),
    Branch(DocumentBranch<'a>),
}

impl<'a> DocumentBranch<'a> {
    fn insert(&mut self, path: &'a str, value: RawBsonRef<'a>) {
        let Some((name, rest)) = path.split_once('.') else {
            self.0.push((path, Child::Value(value)));
            return;
        };
        let existing = self.0.iter().position(|(other, _)| *other == name);
        let at = existing.unwrap_or_else(|| {
            self.0
                .push((name, Child::Branch(DocumentBranch::default())));
            self.0.len() - 1
        });
        match &mut self.0[at].1 {
            Child::Branch(branch) => branch.insert(rest, value),
            Child::Value(_) => unreachable!("paths above one another were refused"),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_document(out, |out| {
            for (name, child) in &self.0 {
                match child {
                    Child::Value(value) => {
                        let value = OwnedValue::new(*value);
                        write_element(out, name, value.kind(), value.payload());
                    }
                    Child::Branch(branch) => {
                        out.push(super::raw::DOCUMENT);
                        out.extend_from_slice(name.as_bytes());
                        out.push(0);
                        branch.write(out);
                    }
                }
            }
        });
    }
}
