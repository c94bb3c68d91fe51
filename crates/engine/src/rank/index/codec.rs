//! A rank index as bytes, so that it need not be built again after a restart.
//!
//! ```text
//! head   number of leaves (u32 LE), greatest key
//! leaf  for each bucket: entries (u32 LE), length of the first key (u32 LE), first key
//! ```

use super::{Leaf, RankIndex};
use std::sync::Arc;

impl RankIndex {
    /// The head and, one after the other, the leaves; `None` while something is not known.
    pub fn encode(&self) -> Option<(Vec<u8>, impl Iterator<Item = Vec<u8>> + '_)> {
        if !self.is_complete() {
            return None;
        }
        let mut head = length(self.leaves.len()).to_vec();
        head.extend_from_slice(&self.greatest);
        Some((head, self.leaves.iter().map(|leaf| encode_block(leaf))))
    }

    /// Number of leaves that belong to a head.
    pub fn encoded_leaves(head: &[u8]) -> Option<u32> {
        head.get(..4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// The rank index that was encoded; `None` when the bytes are not one.
    pub fn decode<'b>(head: &[u8], leaves: impl Iterator<Item = &'b [u8]>) -> Option<Self> {
        let decoded = leaves.map(|leaf| decode_block(leaf).map(Arc::new));
        let leaves: Vec<Arc<Leaf>> = decoded.collect::<Option<_>>()?;
        let is_whole = Self::encoded_leaves(head)? as usize == leaves.len();
        let first = leaves.first().filter(|leaf| leaf.start(0).is_empty());
        if !is_whole || first.is_none() {
            return None;
        }
        let totals: Vec<u64> = leaves
            .iter()
            .map(|leaf| leaf.sum(0..leaf.buckets()))
            .collect();
        let heads = leaves.iter().map(|leaf| super::head(&leaf.start(0)));
        Some(Self {
            heads: heads.collect(),
            leaves,
            totals,
            greatest: head[4..].to_vec(),
            // Which buckets are oversized is not saved.
            unsplit_from: Some(Vec::new()),
            ..Self::empty()
        })
    }
}

fn encode_block(leaf: &Leaf) -> Vec<u8> {
    let mut bytes = Vec::new();
    for bucket in 0..leaf.buckets() {
        let start = leaf.start(bucket);
        bytes.extend_from_slice(&leaf.count(bucket).to_le_bytes());
        bytes.extend_from_slice(&length(start.len()));
        bytes.extend_from_slice(&start);
    }
    bytes
}

fn decode_block(mut bytes: &[u8]) -> Option<Leaf> {
    let mut leaf = Leaf::default();
    while !bytes.is_empty() {
        let (count, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (start, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        leaf.insert(leaf.buckets(), start, u32::from_le_bytes(*count));
        bytes = rest;
    }
    (leaf.buckets() > 0).then_some(leaf)
}

fn length(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("a rank index has fewer than 2^32 leaves and keys shorter than 4 GiB")
        .to_le_bytes()
}
