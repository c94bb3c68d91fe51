//! Keys of 2dsphere indexes, version 3, and of 2d indexes.
//!
//! A geometry gives one key for each of its cells, a point just one with its exact
//! coordinates in the entry's value (and whether they are all there is to it). A document without any geometry in the indexed
//! fields has no entry; a second geometry field may be missing and is null then. Other
//! fields are expanded one by one: arrays side by side are allowed here, as in mongod.

use super::entry::{Located, PAYLOAD_BYTES_MAX};
use super::{IndexField, KeySink, Multikey};
use crate::geo::{
    FewCells, Geometry, PlaneGrid, index_cells, key_error, on_sphere, point_cell, values_along,
};
use crate::timeseries::for_each_measured;
use crate::{Error, Result};
use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::Collation;
use meridian_value::field::fields;
use meridian_value::key::encode_cell;
use meridian_value::path::Path;
use smallvec::SmallVec;

/// One of the values that a field contributes to the keys.
#[derive(Debug, Clone, Copy)]
enum Choice<'a> {
    /// `None` when the field is missing.
    Value(Option<RawBsonRef<'a>>),
    Cell(u64, Located),
}

type Choices<'a> = SmallVec<[Choice<'a>; 1]>;

/// A field of the index: where it is and how it is kept.
pub(super) type SphereField<'p> = (&'p Path, IndexField);

/// Emits the entries of a document.
///
/// # Errors
/// 16755 when a value in a 2dsphere field is no geometry; 13026 to 13068 and 16804 when one in a 2d field
/// is no pair within the bounds.
pub(super) fn generate(
    document: &RawDocument,
    index: &[SphereField<'_>],
    grid: PlaneGrid,
    collation: &Collation,
    sink: &mut KeySink,
) -> Result<Multikey> {
    let mut multikey = Multikey::NONE;
    let mut all: SmallVec<[Choices<'_>; 3]> = SmallVec::new();
    let mut has_geometry = false;
    for (position, (path, kind)) in index.iter().enumerate() {
        let mut found: SmallVec<[RawBsonRef<'_>; 1]> = SmallVec::new();
        let mut through_array = false;
        values_along(document, path.parts(), &mut found, &mut through_array);
        if *kind == IndexField::SphereBucket {
            let choices = measured_cells(document, path, &mut multikey)?;
            has_geometry |= matches!(choices[..], [Choice::Cell(..), ..]);
            all.push(choices);
            continue;
        }
        if *kind == IndexField::Sphere2d && found.len() == 1 && is_absent(found[0]) {
            found.clear();
        }
        has_geometry |= *kind == IndexField::Sphere2d && !found.is_empty();
        let mut choices = match kind {
            IndexField::Plane2d => planar_cells(document, grid, &found, &mut multikey)?,
            IndexField::Sphere2d => cells(document, path, &found, &mut multikey)?,
            _ => literals(&found, &mut through_array),
        };
        if *kind == IndexField::Plane2d {
            has_geometry |= !choices.is_empty();
            if choices.is_empty() {
                choices.push(Choice::Value(None));
            }
        }
        if through_array {
            multikey.set_field(position);
        }
        all.push(choices);
    }
    if has_geometry {
        let first = sink.len();
        emit(index, &all, collation, sink);
        sink.deduplicate(first);
    }
    Ok(if has_geometry {
        multikey
    } else {
        Multikey::NONE
    })
}

/// Null, undefined and empty containers count as no geometry.
fn is_absent(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined => true,
        RawBsonRef::Document(document) => document.is_empty(),
        RawBsonRef::Array(array) => array.is_empty(),
        _ => false,
    }
}

fn literals<'a>(found: &[RawBsonRef<'a>], through_array: &mut bool) -> Choices<'a> {
    let mut choices = Choices::new();
    for value in found {
        match value {
            RawBsonRef::Array(array) => {
                *through_array = true;
                let before = choices.len();
                choices.extend(
                    array
                        .into_iter()
                        .map_while(|element| element.ok())
                        .map(|element| Choice::Value(Some(element))),
                );
                if choices.len() == before {
                    choices.push(Choice::Value(Some(RawBsonRef::Undefined)));
                }
            }
            value => choices.push(Choice::Value(Some(*value))),
        }
    }
    if choices.is_empty() {
        choices.push(Choice::Value(None));
    }
    choices
}

fn cells<'a>(
    document: &RawDocument,
    path: &Path,
    found: &[RawBsonRef<'_>],
    multikey: &mut Multikey,
) -> Result<Choices<'a>> {
    let mut choices = Choices::new();
    for value in found {
        if let Some((lon, lat)) = plain_point(*value) {
            choices.push(Choice::Cell(
                point_cell(lon, lat),
                Located::Point {
                    lon,
                    lat,
                    plain: true,
                },
            ));
            continue;
        }
        let name = path.parts().last().map_or("", |name| &**name);
        let geometry =
            Geometry::parse_field(name, *value).map_err(|reason| key_error(document, &reason))?;
        let cells = index_cells(&geometry).map_err(|reason| key_error(document, &reason))?;
        let located = match geometry.as_point() {
            Some(position) => Located::Point {
                lon: position.lon,
                lat: position.lat,
                plain: false,
            },
            None => {
                multikey.set_shapes();
                Located::InDocument
            }
        };
        choices.extend(cells.iter().map(|cell| Choice::Cell(cell.id(), located)));
    }
    note_several(&mut choices, multikey);
    if choices.is_empty() {
        choices.push(Choice::Value(None));
    }
    Ok(choices)
}

/// The cells of the points that the measurements of a bucket have at a path, few and coarse where there are many: they
/// tell which buckets may hold what is looked for.
fn measured_cells<'a>(
    bucket: &RawDocument,
    path: &Path,
    multikey: &mut Multikey,
) -> Result<Choices<'a>> {
    let mut cells = FewCells::default();
    if let [_, field, rest @ ..] = path.parts() {
        for_each_measured(bucket, field, &mut |row, value| {
            let mut found: SmallVec<[RawBsonRef<'_>; 1]> = SmallVec::new();
            match (rest, value) {
                ([], value) => found.push(value),
                (rest, RawBsonRef::Document(document)) => {
                    values_along(document, rest, &mut found, &mut false);
                }
                _ => {}
            }
            for value in found.into_iter().filter(|value| !is_absent(*value)) {
                cells.add(measured_point(row, value)?);
            }
            Ok(())
        })?;
    }
    multikey.set_shapes();
    let mut choices: Choices<'_> = cells
        .finish()
        .into_iter()
        .map(|cell| Choice::Cell(cell, Located::InDocument))
        .collect();
    note_several(&mut choices, multikey);
    if choices.is_empty() {
        choices.push(Choice::Value(None));
    }
    Ok(choices)
}

/// The cell of a measurement's point.
fn measured_point(row: &str, value: RawBsonRef<'_>) -> Result<u64> {
    if let Some((lon, lat)) = plain_point(value) {
        return Ok(point_cell(lon, lat));
    }
    let refused = |code: i32, reason: &str| {
        Error::location(code, format!("Can't extract geo keys: {reason}"))
    };
    let geometry = Geometry::parse_field(row, value);
    let geometry = geometry.map_err(|error| refused(183_934, &error.message))?;
    let Some(point) = geometry.as_point() else {
        let message = "Time-series collections '2dsphere' indexes only support point data";
        return Err(Error::location(183_493, message));
    };
    let place = on_sphere(point).map_err(|error| refused(167_551, &error.message))?;
    Ok(point_cell(place.lon, place.lat))
}

/// Notes that a document has several cells. Of places that share their cell only one entry is kept,
/// which then must not stand for one of them: it sends to the document.
fn note_several(choices: &mut Choices<'_>, multikey: &mut Multikey) {
    if choices.len() < 2 {
        return;
    }
    multikey.set_cells();
    choices.sort_by_key(|choice| match choice {
        Choice::Cell(cell, _) => *cell,
        Choice::Value(_) => 0,
    });
    for at in 1..choices.len() {
        if let (Choice::Cell(a, first), Choice::Cell(b, second)) = (choices[at - 1], choices[at])
            && a == b
            && first != second
        {
            multikey.set_shapes();
            choices[at - 1] = Choice::Cell(a, Located::InDocument);
            choices[at] = Choice::Cell(a, Located::InDocument);
        }
    }
}

/// The cells of the pairs in a 2d field: one pair, or an array of them. Source: `get2DKeys` of MongoDB 6.0.
fn planar_cells<'a>(
    document: &RawDocument,
    grid: PlaneGrid,
    found: &[RawBsonRef<'_>],
    multikey: &mut Multikey,
) -> Result<Choices<'a>> {
    let mut choices = Choices::new();
    for value in found {
        for (x, y) in grid.pairs(document, *value)? {
            choices.push(Choice::Cell(
                grid.cell(x, y),
                Located::Point {
                    lon: x,
                    lat: y,
                    plain: false,
                },
            ));
        }
    }
    note_several(&mut choices, multikey);
    Ok(choices)
}

/// The coordinates of the commonest form, `{type: "Point", coordinates: [lon, lat]}` with
/// doubles within the bounds; anything else takes the general parser.
fn plain_point(value: RawBsonRef<'_>) -> Option<(f64, f64)> {
    let mut members = fields(value.as_document()?);
    let kind = members.next().filter(|field| field.name() == b"type")?;
    if kind.bytes() != b"\x06\0\0\0Point\0" || kind.kind() != 0x02 {
        return None;
    }
    let coordinates = members
        .next()
        .filter(|field| field.name() == b"coordinates")?;
    if members.next().is_some() || coordinates.kind() != 0x04 {
        return None;
    }
    let mut numbers = fields(RawDocument::from_bytes(coordinates.bytes()).ok()?);
    let mut number = |name: &[u8]| {
        let field = numbers.next().filter(|field| field.name() == name)?;
        field.value()?.as_f64()
    };
    let (lon, lat) = (number(b"0")?, number(b"1")?);
    let valid = numbers.next().is_none() && lon.abs() <= 180.0 && lat.abs() <= 90.0;
    valid.then_some((lon, lat))
}

/// Writes every combination of the fields' choices.
fn emit(index: &[SphereField<'_>], all: &[Choices<'_>], collation: &Collation, sink: &mut KeySink) {
    let mut chosen: SmallVec<[usize; 3]> = SmallVec::from_elem(0, all.len());
    loop {
        let pending = sink.begin();
        let mut payload: SmallVec<[u8; PAYLOAD_BYTES_MAX]> = SmallVec::new();
        for ((choices, choice), (_, kind)) in all.iter().zip(&chosen).zip(index) {
            let located = match choices[*choice] {
                Choice::Value(value) => {
                    sink.push_field(value, kind.direction(), collation);
                    Located::Nowhere
                }
                Choice::Cell(cell, located) => {
                    encode_cell(cell, kind.direction(), &mut sink.bytes);
                    located
                }
            };
            if kind.is_located() {
                located.write(&mut payload);
            }
        }
        sink.finish(pending, &payload);
        if !advance(&mut chosen, all) {
            return;
        }
    }
}

/// The next combination, counting with the last field fastest; false after the last.
fn advance(chosen: &mut [usize], all: &[Choices<'_>]) -> bool {
    for (position, choices) in all.iter().enumerate().rev() {
        chosen[position] += 1;
        if chosen[position] < choices.len() {
            return true;
        }
        chosen[position] = 0;
    }
    false
}
