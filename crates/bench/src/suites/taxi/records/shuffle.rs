//! Shuffling more trips than fit into memory.
//!
//! Every trip goes into one of several temporary files at random; each file is
//! then read whole and shuffled. That is a fair shuffle, and it reads and
//! writes everything once, in order.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::Path;

use anyhow::Context;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::suites::taxi::trip::Trip;

/// About how many trips are in memory at once.
pub const BUCKET_TRIPS: u32 = 500_000;

/// The same trips, about `total` of them, in random order. Temporary files without a name are
/// made in `directory`.
///
/// # Errors
/// When a temporary file fails.
pub fn shuffled(
    trips: impl Iterator<Item = Trip>,
    total: u32,
    bucket_trips: u32,
    mut random: ChaCha8Rng,
    directory: &Path,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Trip>> + Send + 'static> {
    let buckets = total / bucket_trips + 1;
    let create = |_| Ok(BufWriter::new(tempfile::tempfile_in(directory)?));
    let buckets: anyhow::Result<Vec<BufWriter<File>>> = (0..buckets).map(create).collect();
    let mut buckets = buckets.context("a temporary file to shuffle in")?;
    for trip in trips {
        let bucket = random.random_range(0..buckets.len());
        postcard::to_io(&trip, &mut buckets[bucket]).context("writing a temporary file")?;
    }
    let each = move |bucket| match read_bucket(bucket, &mut random) {
        Ok(trips) => (trips, None),
        Err(error) => (Vec::new(), Some(Err(error))),
    };
    Ok(buckets
        .into_iter()
        .map(each)
        .flat_map(|(trips, error)| trips.into_iter().map(Ok).chain(error)))
}

fn read_bucket(bucket: BufWriter<File>, random: &mut ChaCha8Rng) -> anyhow::Result<Vec<Trip>> {
    let mut bucket = bucket;
    bucket.flush()?;
    let mut file = bucket.into_inner().context("writing a temporary file")?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)
        .context("reading a temporary file")?;
    let mut rest = bytes.as_slice();
    let mut trips = Vec::new();
    while !rest.is_empty() {
        let trip;
        (trip, rest) = postcard::take_from_bytes(rest).context("reading a temporary file")?;
        trips.push(trip);
    }
    trips.shuffle(random);
    Ok(trips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::taxi::generator::Generator;
    use rand::SeedableRng;

    fn shuffle(trips: &[Trip], bucket_trips: u32, seed: u64) -> Vec<Trip> {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let directory = std::env::temp_dir();
        let each = trips.iter().copied();
        let total = trips.len() as u32;
        shuffled(each, total, bucket_trips, random, &directory)
            .and_then(Iterator::collect)
            .expect("temporary files can be made")
    }

    #[test]
    fn every_trip_comes_once_and_anywhere() {
        let trips: Vec<Trip> = Generator::new(5000, 1).in_time_order().collect();
        for bucket_trips in [10_000, 5000, 700] {
            let mixed = shuffle(&trips, bucket_trips, 1);
            assert_eq!(mixed, shuffle(&trips, bucket_trips, 1));
            assert_ne!(mixed, shuffle(&trips, bucket_trips, 2));
            let middle = trips[2500].pickup_ms;
            // Of 1000, 500 are expected to be early, with a standard deviation of 14.
            for part in mixed.chunks(1000) {
                let early = part.iter().filter(|trip| trip.pickup_ms < middle).count();
                assert!((400..600).contains(&early), "{early}");
            }
            let mut sorted = mixed;
            sorted.sort_by_key(|trip| (trip.pickup_ms, trip.random.to_bits()));
            let mut expected = trips.clone();
            expected.sort_by_key(|trip| (trip.pickup_ms, trip.random.to_bits()));
            assert_eq!(sorted, expected);
        }
    }
}
