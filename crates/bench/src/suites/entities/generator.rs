//! The entities: seeded, so that every run and every target has the same, each at once by its number.
//!
//! Every entity has the same size. Its id is unique and lies at a random place
//! among all ids, so that an index on it is written and read at random places;
//! its type is one of five, so that an index on types alone helps little.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 2014-07-01T00:00:00Z in seconds since 1970: when all entities were made and last changed.
pub const CREATED_S: i32 = 1_404_172_800;
/// All types, of one length.
const TYPES: [&str; 5] = ["Meter", "Light", "Truck", "Plant", "Gauge"];
/// All service paths, of one length.
const SERVICE_PATHS: [&str; 4] = [
    "/madrid/north",
    "/madrid/south",
    "/oporto/river",
    "/oporto/shore",
];
/// Characters of the text that brings an entity to its size.
const LABEL_LENGTH: usize = 88;

/// What identifies an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its type, a dash and eight hexadecimal digits; no two entities have the same.
    pub id: String,
    /// One of a few.
    pub kind: &'static str,
    /// One of a few.
    pub service_path: &'static str,
}

/// One entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// What identifies it.
    pub key: Key,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// Seconds since 1970.
    pub created_s: i32,
    /// Seconds since 1970.
    pub modified_s: i32,
}

/// One attribute of an entity, as a context broker keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// The type that its writer gave it.
    pub kind: &'static str,
    /// Its value, always a text.
    pub value: String,
}

/// The attribute that updates change.
pub const UPDATED_ATTRIBUTE: &str = "temperature";

/// All entities of a seed, by number.
#[derive(Debug, Clone, Copy)]
pub struct Entities {
    seed: u64,
}

impl Entities {
    /// The entities of one seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// What identifies the entity with this number.
    pub fn key(self, number: u32) -> Key {
        // Multiplying by an odd number and exclusive-or are one to one, so ids are unique.
        let place = number.wrapping_mul(0x9e37_79b1) ^ self.seed as u32;
        let kind = TYPES[(place >> 7) as usize % TYPES.len()];
        Key {
            id: format!("{kind}-{place:08x}"),
            kind,
            service_path: SERVICE_PATHS[(place >> 19) as usize % SERVICE_PATHS.len()],
        }
    }

    /// The entity with this number.
    pub fn entity(self, number: u32) -> Entity {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ (u64::from(number) << 32));
        Entity {
            key: self.key(number),
            attributes: attributes(&mut random),
            created_s: CREATED_S,
            modified_s: CREATED_S,
        }
    }
}

fn attributes(random: &mut ChaCha8Rng) -> Vec<Attribute> {
    let latitude = random.random_range(40.0..42.0);
    let longitude = random.random_range(3.0..9.0);
    let letters = (0..LABEL_LENGTH).map(|_| char::from(random.random_range(b'a'..=b'z')));
    let label = letters.collect();
    let values = [
        (UPDATED_ATTRIBUTE, "float", temperature(random)),
        ("humidity", "float", temperature(random)),
        (
            "pressure",
            "float",
            format!("{:.2}", random.random_range(960.0..999.0)),
        ),
        (
            "position",
            "coords",
            format!("{latitude:.6}, -{longitude:.6}"),
        ),
        ("label", "string", label),
    ];
    let attribute = |(name, kind, value)| Attribute { name, kind, value };
    values.map(attribute).into()
}

/// A temperature or a percentage, always five characters long.
pub fn temperature(random: &mut ChaCha8Rng) -> String {
    format!("{:.2}", random.random_range(10.0..99.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_seed_gives_the_same_entities_and_another_seed_others() {
        for number in [0, 1, 99_999, u32::MAX] {
            let entity = Entities::new(7).entity(number);
            assert_eq!(entity, Entities::new(7).entity(number));
            assert_ne!(entity, Entities::new(8).entity(number));
        }
    }

    #[test]
    fn ids_are_unique_and_types_and_paths_even() {
        let keys: Vec<Key> = (0..10_000).map(|n| Entities::new(1).key(n)).collect();
        let ids: HashSet<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        assert_eq!(ids.len(), keys.len());
        for kind in TYPES {
            let of = keys.iter().filter(|key| key.kind == kind).count();
            assert!((1_500..2_500).contains(&of), "{of} of type {kind}");
        }
        for path in SERVICE_PATHS {
            let of = keys.iter().filter(|key| key.service_path == path).count();
            assert!((2_000..3_000).contains(&of), "{of} below {path}");
        }
    }
}
