//! The values that a geo index or `$near` reads at a path.
//!
//! In: a document and a path. Out: every value at its end; an array there is one value, since a
//! legacy pair is an array.

use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::field::{fields, find};
use smallvec::SmallVec;

/// Everything at the end of a path; an array at the end is one value. Source:
/// `extractAllElementsAlongPath` of MongoDB 6.0.
pub fn values_along<'a>(
    document: &'a RawDocument,
    rest: &[Box<str>],
    found: &mut SmallVec<[RawBsonRef<'a>; 1]>,
    through_array: &mut bool,
) {
    let Some((first, others)) = rest.split_first() else {
        return;
    };
    let Some(value) = find(document, first.as_bytes()).and_then(|field| field.value()) else {
        return;
    };
    match (value, others.first()) {
        (value, None) => found.push(value),
        (RawBsonRef::Document(inner), Some(_)) => values_along(inner, others, found, through_array),
        (RawBsonRef::Array(array), Some(next)) => {
            let Ok(inner) = RawDocument::from_bytes(array.as_bytes()) else {
                return;
            };
            if next.bytes().all(|byte| byte.is_ascii_digit()) {
                return values_along(inner, others, found, through_array);
            }
            *through_array = true;
            for element in fields(inner).filter_map(|field| field.value()) {
                let element = match element {
                    RawBsonRef::Document(element) => element,
                    RawBsonRef::Array(element) => match RawDocument::from_bytes(element.as_bytes())
                    {
                        Ok(element) => element,
                        Err(_) => continue,
                    },
                    _ => continue,
                };
                values_along(element, others, found, through_array);
            }
        }
        _ => {}
    }
}
