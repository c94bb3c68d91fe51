//! The world's cities of more than 1,000 people: GeoNames' list (CC BY 4.0, see `CITIES.md` beside this file).
//!
//! `cities.zst` is written by `scripts/cities`. Unpacked, column after column:
//!
//! ```text
//! u32 little endian      number of cities n
//! n zigzag varints       latitude in 1e-5 degrees, difference to the city before
//! n zigzag varints       longitude, likewise
//! n varints              population, 0 where GeoNames has none
//! the rest               names in UTF-8, a line feed between two
//! ```

use std::sync::LazyLock;

use anyhow::{Context, ensure};

use super::place::Place;

static PACKED: &[u8] = include_bytes!("cities.zst");
static CITIES: LazyLock<Vec<City>> =
    LazyLock::new(|| unpack(PACKED).expect("the list was packed by scripts/cities"));

/// One city.
#[derive(Debug, PartialEq)]
pub struct City {
    /// As GeoNames spells it.
    pub name: Box<str>,
    /// Its centre.
    pub place: Place,
    /// Its inhabitants; 0 where GeoNames does not know.
    pub population: u32,
}

/// All cities, by country and within it in GeoNames' order. Unpacked when first asked for.
pub fn all() -> &'static [City] {
    &CITIES
}

fn unpack(packed: &[u8]) -> anyhow::Result<Vec<City>> {
    let plain = zstd::decode_all(packed)?;
    let (count, mut rest) = plain.split_first_chunk().context("no count")?;
    let count = u32::from_le_bytes(*count) as usize;
    let latitudes = coordinates(count, &mut rest)?;
    let longitudes = coordinates(count, &mut rest)?;
    let mut populations = Vec::with_capacity(count);
    for _ in 0..count {
        populations.push(u32::try_from(varint(&mut rest)?)?);
    }
    let names: Vec<&str> = std::str::from_utf8(rest)?.split('\n').collect();
    ensure!(names.len() == count, "{} names of {count}", names.len());
    let city = |number: usize| City {
        name: names[number].into(),
        place: Place {
            longitude: longitudes[number],
            latitude: latitudes[number],
        },
        population: populations[number],
    };
    Ok((0..count).map(city).collect())
}

/// Degrees from differences in 1e-5 degrees.
fn coordinates(count: usize, from: &mut &[u8]) -> anyhow::Result<Vec<f64>> {
    let mut degrees = Vec::with_capacity(count);
    let mut last = 0;
    for _ in 0..count {
        let zigzag = varint(from)?;
        last += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        degrees.push(last as f64 / 1e5);
    }
    Ok(degrees)
}

/// Takes a number of seven bits a byte, least first, from the front.
pub(super) fn varint(from: &mut &[u8]) -> anyhow::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().context("a number is cut off")?;
        *from = rest;
        value |= u64::from(byte & 127) << shift;
        if *byte < 128 {
            return Ok(value);
        }
    }
    anyhow::bail!("a number has more than 64 bits")
}

/// Appends a number as [`varint`] takes it.
pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 & 127 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let cities = all();
        assert_eq!(cities.len(), 135_233);
        let greatest = cities.iter().max_by_key(|city| city.population);
        let shanghai = greatest.expect("cities");
        assert_eq!(&*shanghai.name, "Shanghai");
        assert_eq!(shanghai.population, 22_315_474);
        assert_eq!(shanghai.place.longitude, 121.45806);
        assert_eq!(shanghai.place.latitude, 31.22222);
        for city in cities {
            assert!(city.place.longitude.abs() <= 180.0, "{city:?}");
            assert!(city.place.latitude.abs() < 80.0, "{city:?}");
            assert!(!city.name.is_empty());
        }
    }

    #[test]
    fn numbers_come_back() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for number in numbers {
            put_varint(number, &mut bytes);
        }
        let mut rest = &bytes[..];
        for number in numbers {
            assert_eq!(varint(&mut rest).expect("a number"), number);
        }
        assert!(varint(&mut rest).is_err());
    }
}
