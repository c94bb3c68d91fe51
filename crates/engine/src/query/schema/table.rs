//! `properties` and `required` compiled into one table, checked in one pass.
//!
//! Documents of a collection mostly list their fields in the same order, so the field after the
//! last hit is tried first: one comparison of bytes. Only then are the others searched.

use super::Schema;
use crate::types::TypeSet;
use bson::RawDocument;
use bson::raw::RawBsonRef;
use meridian_value::field;
use meridian_value::path::{LeafArrays, Path, visit};
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// Tables up to this size are searched from end to end; longer ones by bisection.
const LINEAR_MAX: usize = 16;

/// The named properties of a schema.
#[derive(Debug, Clone, Default)]
pub(super) struct PropertyTable {
    /// Properties without a dot in their names, in the schema's order.
    properties: Vec<Property>,
    /// Indexes into `properties`, ascending by name.
    by_name: Vec<u32>,
    /// Properties whose names MongoDB reads as paths.
    dotted: Vec<Property>,
    required_count: usize,
}

/// One name with what its value has to satisfy.
#[derive(Debug, Clone)]
pub(super) struct Property {
    pub(super) name: Box<str>,
    /// The bit in the set of required properties that were seen.
    required: Option<usize>,
    /// What decides when the schema asks for nothing but types.
    types: Option<TypeSet>,
    /// `None` when every value will do.
    pub(super) schema: Option<Schema>,
    /// Listed under `properties`, not only under `required`.
    pub(super) is_listed: bool,
}

impl Property {
    pub(super) fn new(name: &str, schema: Option<Schema>) -> Self {
        let is_listed = schema.is_some();
        Self {
            name: name.into(),
            required: None,
            types: schema.as_ref().and_then(Schema::only_types),
            schema: schema.filter(|schema| !schema.is_trivial()),
            is_listed,
        }
    }

    /// Whether the property has to be there.
    pub(super) fn is_required(&self) -> bool {
        self.required.is_some()
    }

    #[inline]
    fn admits(&self, entry: &field::Field<'_>) -> bool {
        match (&self.types, &self.schema) {
            (Some(types), _) => types.contains_byte(entry.kind()),
            (None, None) => true,
            (None, Some(schema)) => entry.value().is_some_and(|value| schema.conforms(value)),
        }
    }
}

impl PropertyTable {
    /// The table of these listed properties and required names.
    pub(super) fn new(listed: Vec<(String, Schema)>, required: &[String]) -> Self {
        let mut table = Self::default();
        for (name, schema) in listed {
            table.group(&name).push(Property::new(&name, Some(schema)));
        }
        for name in required {
            if table
                .group(name)
                .iter()
                .all(|property| *property.name != **name)
            {
                table.group(name).push(Property::new(name, None));
            }
            let bit = table.required_count;
            if !name.contains('.') {
                table.required_count += 1;
            }
            for property in table.group(name) {
                if *property.name == **name {
                    property.required = Some(bit);
                }
            }
        }
        table.by_name = (0..table.properties.len() as u32).collect();
        table.by_name.sort_by(|a, b| {
            table.properties[*a as usize]
                .name
                .cmp(&table.properties[*b as usize].name)
        });
        table
    }

    fn group(&mut self, name: &str) -> &mut Vec<Property> {
        if name.contains('.') {
            &mut self.dotted
        } else {
            &mut self.properties
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.dotted.is_empty()
    }

    /// Whether `properties` lists the name.
    pub(super) fn names(&self, name: &str) -> bool {
        let position = self.find(name.as_bytes());
        position.is_some_and(|index| self.properties[index].is_listed)
    }

    /// Every property, those with plain names first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Property> {
        self.properties.iter().chain(&self.dotted)
    }

    /// Whether all required properties are there and all listed ones conform.
    #[inline]
    pub(super) fn conforms(&self, document: &RawDocument) -> bool {
        if self.properties.is_empty() {
            return self.dotted_conform(document);
        }
        // Four words hold 256 required properties without allocating.
        let mut seen: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.required_count.div_ceil(64));
        let mut expected = 0;
        for entry in field::fields(document) {
            let Some(index) = self.find_from(expected, entry.name()) else {
                continue;
            };
            expected = index + 1;
            let property = &self.properties[index];
            if !property.admits(&entry) {
                return false;
            }
            if let Some(bit) = property.required {
                seen[bit / 64] |= 1 << (bit % 64);
            }
        }
        let seen_count: u32 = seen.iter().map(|word| word.count_ones()).sum();
        seen_count as usize == self.required_count && self.dotted_conform(document)
    }

    #[inline]
    fn find_from(&self, expected: usize, name: &[u8]) -> Option<usize> {
        match self.properties.get(expected) {
            Some(property) if property.name.as_bytes() == name => Some(expected),
            _ => self.find(name),
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        if self.properties.len() <= LINEAR_MAX {
            return self
                .properties
                .iter()
                .position(|property| property.name.as_bytes() == name);
        }
        self.by_name
            .binary_search_by(|index| self.properties[*index as usize].name.as_bytes().cmp(name))
            .ok()
            .map(|position| self.by_name[position] as usize)
    }

    fn dotted_conform(&self, document: &RawDocument) -> bool {
        self.dotted.iter().all(|property| match &property.schema {
            _ if !any_at_path(document, &property.name, &mut |_| true) => !property.is_required(),
            None => true,
            Some(schema) => any_at_path(document, &property.name, &mut |value| {
                schema.conforms(value)
            }),
        })
    }
}

/// Whether the predicate holds for some value that the path reaches.
pub(super) fn any_at_path(
    document: &RawDocument,
    name: &str,
    holds: &mut dyn FnMut(RawBsonRef<'_>) -> bool,
) -> bool {
    visit(
        document,
        &Path::parse(name),
        LeafArrays::Keep,
        &mut |visited| match visited.value {
            Some(value) if holds(value) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        },
    )
    .is_break()
}
