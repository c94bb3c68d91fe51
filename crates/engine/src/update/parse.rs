//! Update documents into trees: `{$set: {...}, $inc: {...}}`.

use super::Operators;
use super::array_filters::ArrayFilters;
use super::operators::{
    AddToSet, Arithmetic, ArrayEnd, Bits, CurrentDate, Pull, Push, UpdateOperator, check_rename,
    parse_rename,
};
use super::path::{PathPart, UpdatePath};
use super::raw::OwnedValue;
use super::tree::FieldsNode;
use crate::error::malformed;
use crate::error::{Error, Result};
use crate::text;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::Collation;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Parses a document of operators.
///
/// # Errors
/// MongoDB's: unknown modifiers, operands of a wrong type, paths that conflict, array filters
/// that are missing or not used.
pub(super) fn parse_operators(
    update: &RawDocument,
    array_filters: &[&RawDocument],
    collation: &Collation,
) -> Result<Operators> {
    let mut parsing = Parsing {
        filters: ArrayFilters::parse(array_filters, collation)?,
        collation: collation.clone(),
        used: BTreeSet::new(),
        tree: FieldsNode::default(),
        is_positional: false,
    };
    for element in update.iter() {
        let (name, operand) = element.map_err(malformed)?;
        let parse = operator_parser(name.as_str())?;
        let RawBsonRef::Document(fields) = operand else {
            return Err(Error::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{}}}",
                type_name(operand.element_type()),
                text::element(name.as_str(), operand)
            )));
        };
        for field in fields.iter() {
            let (path, operand) = field.map_err(malformed)?;
            parse(&mut parsing, path.as_str(), operand)?;
        }
    }
    if let Some(identifier) = parsing.filters.first_unused(&parsing.used) {
        return Err(Error::failed_to_parse(format!(
            "The array filter for identifier '{identifier}' was not used in the update {}",
            text::document_text(update)
        )));
    }
    Ok(Operators {
        tree: parsing.tree,
        filters: parsing.filters,
        is_positional: parsing.is_positional,
    })
}

struct Parsing {
    filters: ArrayFilters,
    /// By what texts are compared.
    collation: Collation,
    /// Identifiers that a path used.
    used: BTreeSet<Box<str>>,
    tree: FieldsNode,
    is_positional: bool,
}

/// Parses one `path: operand` of an operator.
type OperatorParser = fn(&mut Parsing, &str, RawBsonRef<'_>) -> Result<()>;

/// The table of operators.
fn operator_parser(name: &str) -> Result<OperatorParser> {
    Ok(match name {
        "$addToSet" => |p, path, value| {
            p.insert_comparing(path, |by| {
                Ok(UpdateOperator::AddToSet(AddToSet::parse(value, by)?))
            })
        },
        "$bit" => |p, path, value| p.insert(path, || Ok(UpdateOperator::Bits(Bits::parse(value)?))),
        "$currentDate" => |p, path, value| {
            p.insert(path, || {
                Ok(UpdateOperator::CurrentDate(CurrentDate::parse(value)?))
            })
        },
        "$inc" => |p, path, value| {
            p.insert(path, || {
                Ok(UpdateOperator::Arithmetic(Arithmetic::increment(
                    path, value,
                )?))
            })
        },
        "$max" => |p, path, value| {
            p.insert_comparing(path, |by| {
                Ok(UpdateOperator::Maximum(OwnedValue::new(value), by.clone()))
            })
        },
        "$min" => |p, path, value| {
            p.insert_comparing(path, |by| {
                Ok(UpdateOperator::Minimum(OwnedValue::new(value), by.clone()))
            })
        },
        "$mul" => |p, path, value| {
            p.insert(path, || {
                Ok(UpdateOperator::Arithmetic(Arithmetic::multiply(
                    path, value,
                )?))
            })
        },
        "$pop" => |p, path, value| {
            p.insert(path, || {
                Ok(UpdateOperator::Pop(ArrayEnd::parse(path, value)?))
            })
        },
        "$pull" => |p, path, value| {
            p.insert_comparing(path, |by| Ok(UpdateOperator::Pull(Pull::parse(value, by)?)))
        },
        "$pullAll" => |p, path, value| {
            p.insert_comparing(path, |by| {
                Ok(UpdateOperator::Pull(Pull::parse_all(value, by)?))
            })
        },
        "$push" => |p, path, value| {
            p.insert_comparing(path, |by| Ok(UpdateOperator::Push(Push::parse(value, by)?)))
        },
        "$rename" => Parsing::insert_rename,
        "$set" => {
            |p, path, value| p.insert(path, || Ok(UpdateOperator::Set(OwnedValue::new(value))))
        }
        "$setOnInsert" => |p, path, value| {
            p.insert(path, || {
                Ok(UpdateOperator::SetOnInsert(OwnedValue::new(value)))
            })
        },
        "$unset" => |p, path, _| p.insert(path, || Ok(UpdateOperator::Unset)),
        other => {
            return Err(Error::failed_to_parse(format!(
                "Unknown modifier: {other}. Expected a valid update modifier or pipeline-style update specified as an array"
            )));
        }
    })
}

impl Parsing {
    /// As [`Self::insert`], for an operator that compares values.
    fn insert_comparing(
        &mut self,
        path: &str,
        operator: impl FnOnce(&Collation) -> Result<UpdateOperator>,
    ) -> Result<()> {
        let collation = self.collation.clone();
        self.insert(path, || operator(&collation))
    }

    /// Puts an operator into the tree; a wrong path is reported before a wrong operand.
    fn insert(
        &mut self,
        path: &str,
        operator: impl FnOnce() -> Result<UpdateOperator>,
    ) -> Result<()> {
        let path = UpdatePath::parse(path)?;
        for part in &path.parts {
            match part {
                PathPart::Matched => self.is_positional = true,
                PathPart::Elements(identifier) if !identifier.is_empty() => {
                    self.use_filter(identifier, &path)?;
                }
                _ => (),
            }
        }
        let operator = operator()?;
        self.tree.insert(&path, Arc::new(operator))
    }

    fn use_filter(&mut self, identifier: &str, path: &UpdatePath) -> Result<()> {
        if !self.filters.contains(identifier) {
            return Err(Error::bad_value(format!(
                "No array filter found for identifier '{identifier}' in path '{}'",
                path.text
            )));
        }
        self.used.insert(identifier.into());
        Ok(())
    }

    /// A rename is two leaves: one takes the value away, the other one puts it in.
    fn insert_rename(&mut self, from: &str, operand: RawBsonRef<'_>) -> Result<()> {
        let (source, target) = parse_rename(from, operand)?;
        self.tree
            .insert(&source, Arc::new(UpdateOperator::RenameAway))?;
        check_rename(&source, &target)?;
        self.tree
            .insert(&target, Arc::new(UpdateOperator::RenameFrom(source)))
    }
}
