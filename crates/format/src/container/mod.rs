//! The packed recording, `NAME.kasuri`. Spec: docs/format.md, chapter "The packed file".
//!
//! A file header, blocks that each describe and check themselves, an index of them, a trailer. With the trailer,
//! [`Recording::parse`] opens it; without (a kill while packing, a full disk, a damaged medium),
//! [`Recording::salvage`] walks the blocks. Blocks hold about 64 Ki events of one CPU or one thread as columns;
//! a reader decodes the blocks and columns it wants, from as many threads as it likes.

mod annotation;
mod column;
mod frame;
mod kernel;
mod pack;
mod perf_block;
mod recording;
mod samples;
mod writer;

pub use annotation::{
    Annotation, AnnotationBlock, Annotations, StreamLoss, encode_annotation_blocks,
};
pub use column::BytesColumn;
pub use frame::{BlockInfo, BlockKind, FORMAT_VERSION, MAGIC};
pub use kernel::{Column, Gap, Group, Ints, KernelBlock, encode_kernel_blocks};
pub use perf_block::{PerfBlock, encode_perf_blocks};
pub use recording::Recording;
pub use samples::encode_sample_blocks;
pub use writer::Writer;

pub(crate) use pack::decompress as unpack_zstd;

use crate::Error;
use std::ops::RangeInclusive;

/// Events of a full block. Large enough that a block's fixed cost vanishes, small enough for columns to stay in cache.
pub const BLOCK_EVENTS: usize = 1 << 16;
/// A block that claims more is refused.
pub const BLOCK_EVENTS_MAX: u64 = 1 << 17;
/// A block is cut when its events hold this many bytes.
const BLOCK_BYTES: usize = 32 << 20;

/// Options of encoding events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodeOptions {
    /// Only events with these stamps (of the recording's own clock, not converted); `None`: all.
    pub keep: Option<RangeInclusive<u64>>,
    /// zstd level, 1..=19.
    pub level: i32,
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions { keep: None, level: 1 }
    }
}

impl EncodeOptions {
    fn keeps(&self, stamp: u64) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep.contains(&stamp))
    }
}

/// Blocks ready to be written, made in any thread.
#[derive(Clone, Debug, Default)]
pub struct EncodedBlocks {
    /// Events in the blocks.
    pub n_events: u64,
    /// Events left out because their stamps are outside [`EncodeOptions::keep`].
    pub n_cut: u64,
    /// Records that made no sense and are left out.
    pub n_damaged: u64,
    /// Annotation records that were never committed.
    pub n_open: u64,
    /// Damage that was found, offsets counted from the start of the bytes given.
    pub errors: Vec<Error>,
    blocks: Vec<EncodedBlock>,
}

impl EncodedBlocks {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes they take in the file.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|b| frame::block_bytes(b.payload.len() as u64)).sum()
    }

    fn push(&mut self, kind: BlockKind, ids: [u32; 4], stamps: &[u64], payload: Vec<u8>) {
        let first_stamp = stamps.iter().copied().min().unwrap_or(0);
        let last_stamp = stamps.iter().copied().max().unwrap_or(0);
        self.n_events += stamps.len() as u64;
        self.blocks.push(EncodedBlock {
            kind,
            ids,
            n_events: stamps.len() as u64,
            first_stamp,
            last_stamp,
            payload,
        });
    }
}

#[derive(Clone, Debug)]
struct EncodedBlock {
    kind: BlockKind,
    ids: [u32; 4],
    n_events: u64,
    first_stamp: u64,
    last_stamp: u64,
    payload: Vec<u8>,
}
