//! A restaurant as BSON and as a row of PostgreSQL's binary COPY; a place as either wants it.

use super::place::Place;
use super::restaurant::{CUISINES, PRICINGS, Restaurant};
use crate::encode::{
    copy_field, copy_row, document, double, int32, int64, object_id, postgres_time, string,
};

/// About what one document takes.
pub const DOCUMENT_BYTES: usize = 280;
/// About what one row of a COPY takes.
pub const ROW_BYTES: usize = 160;

/// Appends the restaurant as a document.
pub fn bson(restaurant: &Restaurant, out: &mut Vec<u8>) {
    document(out, |out| {
        object_id(restaurant.number, out);
        string(b"\x02Name\0", &restaurant.name, out);
        string(b"\x02City\0", restaurant.city, out);
        string(
            b"\x02Cuisine\0",
            CUISINES[usize::from(restaurant.cuisine)],
            out,
        );
        int64(b"\x09Opened\0", restaurant.opened_ms, out);
        int32(b"\x10Rating\0", restaurant.rating.into(), out);
        int32(b"\x10Reviews\0", restaurant.reviews as i32, out);
        string(
            b"\x02Pricing\0",
            PRICINGS[usize::from(restaurant.pricing)],
            out,
        );
        boolean(b"\x08Outside_area\0", restaurant.outside_area, out);
        out.extend_from_slice(b"\x03location\0");
        geojson(restaurant.place, out);
    });
}

/// Appends true or false.
pub fn boolean(head: &[u8], value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    out.push(value.into());
}

/// Appends a GeoJSON point.
pub fn geojson(place: Place, out: &mut Vec<u8>) {
    document(out, |out| {
        string(b"\x02type\0", "Point", out);
        out.extend_from_slice(b"\x04coordinates\0");
        document(out, |out| {
            double(b"\x010\0", place.longitude, out);
            double(b"\x011\0", place.latitude, out);
        });
    });
}

/// Appends the restaurant as a row.
pub fn row(restaurant: &Restaurant, out: &mut Vec<u8>) {
    copy_row(10, out);
    copy_field(&restaurant.number.to_be_bytes(), out);
    copy_field(restaurant.name.as_bytes(), out);
    copy_field(restaurant.city.as_bytes(), out);
    copy_field(CUISINES[usize::from(restaurant.cuisine)].as_bytes(), out);
    copy_field(&postgres_time(restaurant.opened_ms), out);
    copy_field(&i32::from(restaurant.rating).to_be_bytes(), out);
    copy_field(&restaurant.reviews.to_be_bytes(), out);
    copy_field(PRICINGS[usize::from(restaurant.pricing)].as_bytes(), out);
    copy_field(&[restaurant.outside_area.into()], out);
    copy_field(&ewkb(restaurant.place), out);
}

/// A point as PostGIS has it in binary: little endian, point with reference system, WGS 84, x, y.
pub fn ewkb(place: Place) -> [u8; 25] {
    let mut bytes = *b"\x01\x01\0\0\x20\xe6\x10\0\0----------------";
    bytes[9..17].copy_from_slice(&place.longitude.to_le_bytes());
    bytes[17..].copy_from_slice(&place.latitude.to_le_bytes());
    bytes
}

/// The place of [`ewkb`].
pub fn place_of_ewkb(bytes: &[u8]) -> Option<Place> {
    let start = bytes.first_chunk::<9>()?;
    if start
        != ewkb(Place {
            longitude: 0.0,
            latitude: 0.0,
        })
        .first_chunk()?
    {
        return None;
    }
    Some(Place {
        longitude: f64::from_le_bytes(bytes.get(9..17)?.try_into().ok()?),
        latitude: f64::from_le_bytes(bytes.get(17..25)?.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::restaurant::Generator;
    use super::*;

    #[test]
    fn a_restaurant_is_a_document_and_a_row() {
        let restaurant = Generator::new(0.001, 1).nth(100).expect("more than 100");
        let mut bytes = Vec::new();
        bson(&restaurant, &mut bytes);
        let document = bson::RawDocument::from_bytes(&bytes).expect("a document");
        assert!(
            (200..DOCUMENT_BYTES).contains(&bytes.len()),
            "{}",
            bytes.len()
        );
        assert_eq!(document.iter().count(), 10);
        assert_eq!(document.get_str("City").ok(), Some(restaurant.city));
        assert_eq!(
            document.get_bool("Outside_area").ok(),
            Some(restaurant.outside_area)
        );
        let location = document.get_document("location").expect("a location");
        let coordinates = location.get_array("coordinates").expect("coordinates");
        assert_eq!(coordinates.get_f64(1).ok(), Some(restaurant.place.latitude));
        bytes.clear();
        row(&restaurant, &mut bytes);
        assert!(bytes.len() < ROW_BYTES, "{}", bytes.len());
        assert_eq!(
            place_of_ewkb(&bytes[bytes.len() - 25..]),
            Some(restaurant.place)
        );
    }
}
