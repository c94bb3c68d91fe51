//! A summary as bytes, so that it need not be learnt again after a restart.
//!
//! ```text
//! head   number of blocks (u32 LE), greatest key
//! block  for each range: entries (u32 LE), length of the first key (u32 LE), first key
//! ```

use super::{Block, Summary};
use std::sync::Arc;

impl Summary {
    /// The head and, one after the other, the blocks; `None` while something is not known.
    pub fn encode(&self) -> Option<(Vec<u8>, impl Iterator<Item = Vec<u8>> + '_)> {
        if !self.is_complete() {
            return None;
        }
        let mut head = length(self.blocks.len()).to_vec();
        head.extend_from_slice(&self.greatest);
        Some((head, self.blocks.iter().map(|block| encode_block(block))))
    }

    /// Number of blocks that belong to a head.
    pub fn encoded_blocks(head: &[u8]) -> Option<u32> {
        head.get(..4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// The summary that was encoded; `None` when the bytes are not one.
    pub fn decode<'b>(head: &[u8], blocks: impl Iterator<Item = &'b [u8]>) -> Option<Self> {
        let decoded = blocks.map(|block| decode_block(block).map(Arc::new));
        let blocks: Vec<Arc<Block>> = decoded.collect::<Option<_>>()?;
        let is_whole = Self::encoded_blocks(head)? as usize == blocks.len();
        let first = blocks.first().filter(|block| block.start(0).is_empty());
        if !is_whole || first.is_none() {
            return None;
        }
        let totals: Vec<u64> = blocks
            .iter()
            .map(|block| block.sum(0..block.ranges()))
            .collect();
        let heads = blocks.iter().map(|block| super::head(&block.start(0)));
        Some(Self {
            heads: heads.collect(),
            blocks,
            totals,
            greatest: head[4..].to_vec(),
            // Which ranges are crowded is not saved.
            unswept_from: Some(Vec::new()),
            ..Self::empty()
        })
    }
}

fn encode_block(block: &Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    for range in 0..block.ranges() {
        let start = block.start(range);
        bytes.extend_from_slice(&block.count(range).to_le_bytes());
        bytes.extend_from_slice(&length(start.len()));
        bytes.extend_from_slice(&start);
    }
    bytes
}

fn decode_block(mut bytes: &[u8]) -> Option<Block> {
    let mut block = Block::default();
    while !bytes.is_empty() {
        let (count, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (start, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        block.insert(block.ranges(), start, u32::from_le_bytes(*count));
        bytes = rest;
    }
    (block.ranges() > 0).then_some(block)
}

fn length(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("a summary has fewer than 2^32 blocks and keys shorter than 4 GiB")
        .to_le_bytes()
}
