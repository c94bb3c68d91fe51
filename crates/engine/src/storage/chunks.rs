//! Values that are longer than an engine takes, cut into chunks.
//!
//! An engine over another. A value that fits is stored behind [`WHOLE`]. Of one that does not, the key holds [`CUT`] and
//! the number of chunks; they lie in a tree of their own of the catalogue's family, under the family, the key (written so that no key
//! is the beginning of another) and their number. Whatever may replace or remove a value removes the chunks
//! of it in the same commit. Only engines with a short limit are put under it: RocksDB takes every document whole.

use super::engine::{
    Capabilities, Condition, Outcome, ReadValue, ReadValues, StorageEngine, View, WriteBatch,
};
use super::{Family, Order, Page, PageLimit, Scan, StoreError};
use std::sync::Arc;

/// The first byte of a value that is there whole.
const WHOLE: u8 = 0;
/// The first byte of a value that was cut: the number of its chunks follows, in four bytes.
const CUT: u8 = 1;
/// What the keys of chunks begin with: no entry of the catalogue does.
const CHUNKS: [u8; 4] = [0xFF, b'c', b'h', b'k'];
/// Bytes that a chunk's key has more than the key it belongs to, if no byte of that is 0.
const KEY_MARGIN: usize = CHUNKS.len() + 1 + 2 + 4;

/// An engine that takes values of any length.
pub(super) struct ChunkingEngine {
    under: Arc<dyn StorageEngine>,
    capabilities: Capabilities,
}

impl ChunkingEngine {
    pub(super) fn over(under: Arc<dyn StorageEngine>) -> Self {
        let capabilities = under.capabilities();
        Self {
            under,
            capabilities,
        }
    }

    fn chunk_bytes(&self) -> usize {
        self.capabilities.value_bytes_max.max(2)
    }
}

impl StorageEngine for ChunkingEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // A key may double in length where its chunks are.
            key_bytes_max: self.capabilities.key_bytes_max.saturating_sub(KEY_MARGIN) / 2,
            value_bytes_max: u32::MAX as usize,
        }
    }

    fn begin(self: Arc<Self>) -> Arc<dyn View> {
        Arc::new(ChunkingView(self.under.clone().begin()))
    }

    fn batch(self: Arc<Self>) -> Box<dyn WriteBatch> {
        Box::new(ChunkingBatch {
            under: self.under.clone().batch(),
            chunk_bytes: self.chunk_bytes(),
            operations: 0,
        })
    }

    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        // The key and its chunks are read at one instant.
        let view = ChunkingView(self.under.clone().begin());
        view.get(family, key, read)
    }

    fn compact(&self, family: Family, start: &[u8], end: &[u8]) {
        self.under.compact(family, start, end);
    }

    fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let (first, last) = (chunks_key(family, start), chunks_key(family, end));
        let chunks = self.under.size_of_range(Family::Catalog, &first, &last);
        self.under.size_of_range(family, start, end) + chunks
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.under.sync()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.under.close()
    }

    fn statistics(&self) -> Vec<(&'static str, u64)> {
        self.under.statistics()
    }
}

struct ChunkingView(Arc<dyn View>);

impl ChunkingView {
    /// Hands a stored value to `read`, put together.
    fn whole(
        &self,
        family: Family,
        key: &[u8],
        stored: &[u8],
        read: &mut ReadValue<'_>,
    ) -> Result<(), StoreError> {
        match stored.split_first() {
            Some((&WHOLE, value)) => {
                read(value);
                Ok(())
            }
            Some((&CUT, number)) => {
                let number = number.try_into().map(u32::from_be_bytes);
                let number = number.map_err(|_| damaged())?;
                let keys: Vec<_> = (0..number).map(|one| chunk_key(family, key, one)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let (mut value, mut missing) = (Vec::new(), 0);
                self.0
                    .multi_get(Family::Catalog, &keys, &mut |_, chunk| match chunk {
                        Some(chunk) => value.extend_from_slice(chunk),
                        None => missing += 1,
                    })?;
                if missing > 0 {
                    return Err(damaged());
                }
                read(&value);
                Ok(())
            }
            _ => Err(damaged()),
        }
    }
}

impl View for ChunkingView {
    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        let mut result = Ok(());
        self.0.get(family, key, &mut |stored| {
            result = self.whole(family, key, stored, read);
        })?;
        result
    }

    fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut ReadValues<'_>,
    ) -> Result<(), StoreError> {
        let mut result = Ok(());
        self.0.multi_get(family, keys, &mut |position, stored| {
            let Some(stored) = stored else {
                return read(position, None);
            };
            let whole = self.whole(family, keys[position], stored, &mut |value| {
                read(position, Some(value));
            });
            if result.is_ok() {
                result = whole;
            }
        })?;
        result
    }

    fn scan_page(
        &self,
        family: Family,
        range: (&[u8], &[u8]),
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        let mut stored = Page::default();
        self.0.scan_page(family, range, order, limit, &mut stored)?;
        for position in 0..stored.len() {
            if !page.is_empty() && page.is_full(limit) {
                break;
            }
            let (key, value) = stored.entry(position);
            self.whole(family, key, value, &mut |value| page.push(key, value))?;
        }
        Ok(())
    }

    fn scan(self: Arc<Self>, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan {
        Scan::of_pages(self, family, start, end, order)
    }
}

struct ChunkingBatch {
    under: Box<dyn WriteBatch>,
    chunk_bytes: usize,
    operations: usize,
}

impl ChunkingBatch {
    fn remove_chunks(&mut self, family: Family, start: &[u8], end: &[u8]) {
        let (start, end) = (chunks_key(family, start), chunks_key(family, end));
        self.under.delete_range(Family::Catalog, &start, &end);
    }

    fn remove_chunks_of(&mut self, family: Family, key: &[u8]) {
        self.remove_chunks(family, key, &[key, &[0]].concat());
    }

    /// What is stored under the key; chunks are added to the batch.
    fn cut(&mut self, family: Family, key: &[u8], value: &[u8]) -> Vec<u8> {
        self.operations += 1;
        let under = &mut self.under;
        cut(self.chunk_bytes, value, &mut |number, chunk| {
            under.put(Family::Catalog, &chunk_key(family, key, number), chunk);
        })
    }
}

impl WriteBatch for ChunkingBatch {
    fn add(&mut self, family: Family, key: &[u8], value: &[u8]) {
        let stored = self.cut(family, key, value);
        self.under.add(family, key, &stored);
    }

    fn replace(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.remove_chunks_of(family, key);
        let stored = self.cut(family, key, value);
        self.under.replace(family, key, &stored);
    }

    fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.remove_chunks_of(family, key);
        let stored = self.cut(family, key, value);
        self.under.put(family, key, &stored);
    }

    fn delete(&mut self, family: Family, key: &[u8]) {
        self.operations += 1;
        self.remove_chunks_of(family, key);
        self.under.delete(family, key);
    }

    fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        self.operations += 1;
        self.remove_chunks(family, start, end);
        self.under.delete_range(family, start, end);
    }

    fn len(&self) -> usize {
        self.operations
    }

    fn commit(self: Box<Self>, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        let mut stored = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let Condition { family, key, value } = condition;
            let value = value.as_deref();
            let mut demand = |family, key: &[u8], value: Option<&[u8]>| {
                stored.push(Condition {
                    family,
                    key: key.to_vec(),
                    value: value.map(<[u8]>::to_vec),
                });
            };
            let Some(value) = value else {
                demand(*family, key, None);
                continue;
            };
            let head = cut(self.chunk_bytes, value, &mut |number, chunk| {
                demand(
                    Family::Catalog,
                    &chunk_key(*family, key, number),
                    Some(chunk),
                );
            });
            demand(*family, key, Some(&head));
        }
        self.under.commit(&stored)
    }
}

/// What is stored under a value's key; `each` gets the chunks, if the value is cut.
fn cut(chunk_bytes: usize, value: &[u8], each: &mut dyn FnMut(u32, &[u8])) -> Vec<u8> {
    if value.len() < chunk_bytes {
        return [&[WHOLE], value].concat();
    }
    let mut number = 0_u32;
    for chunk in value.chunks(chunk_bytes) {
        each(number, chunk);
        number += 1;
    }
    [&[CUT][..], &number.to_be_bytes()].concat()
}

/// Where the chunks of a key begin, and those of all smaller keys end.
fn chunks_key(family: Family, key: &[u8]) -> Vec<u8> {
    let mut chunks = Vec::with_capacity(KEY_MARGIN + key.len());
    chunks.extend(CHUNKS);
    chunks.push(family as u8);
    for &byte in key {
        chunks.push(byte);
        if byte == 0 {
            chunks.push(0xFF);
        }
    }
    chunks.extend([0, 0]);
    chunks
}

fn chunk_key(family: Family, key: &[u8], chunk: u32) -> Vec<u8> {
    let mut chunks = chunks_key(family, key);
    chunks.extend(chunk.to_be_bytes());
    chunks
}

fn damaged() -> StoreError {
    StoreError::Failed("a value that was cut is damaged".into())
}
