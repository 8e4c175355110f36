//! Reading a packed file.
//!
//! [`Recording::parse`] reads the trailer, the index and the table blocks (metadata, anchors, sites...); event blocks are
//! found in the index by CPU, stream and time, and decoded when asked for. [`Recording::salvage`] does without trailer and
//! index: it walks the blocks from the front, and after a damaged header tries every eighth byte for the next whole one.
use super::frame::{
    BLOCK_MAGIC, BlockHeader, BlockInfo, BlockKind, FILE_HEADER_BYTES, IndexEntry, MAGIC,
    TRAILER_BYTES, check_file_header, check_trailer,
};
use super::{AnnotationBlock, KernelBlock, PerfBlock, pack, samples};
use crate::bytes::Cursor;
use crate::call_paths::{self, Log, Sample, Tables};
use crate::meta::{Anchor, ClientLoss, KernelLoss, LimitRow, Meta, Proc, SamplingRow, parse_lines};
use crate::ring::{SiteTable, Sites};
use crate::tracefs::{EventFormat, EventTable};
use crate::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use std::mem::size_of;
use zerocopy::FromBytes;

/// Most bytes of a table block, unpacked.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// A packed recording: tables read, events in blocks that are decoded when asked for. `Sync`: threads may decode
/// blocks side by side.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    file: &'a [u8],
    meta: Meta,
    anchors: Vec<Anchor>,
    procs: Vec<Proc>,
    limits: Vec<LimitRow>,
    kernel_losses: Vec<KernelLoss>,
    client_losses: Vec<ClientLoss>,
    call_paths: Tables,
    sampling: Vec<SamplingRow>,
    sites: Sites,
    table: EventTable,
    format_errors: Vec<Error>,
    tables: Vec<BlockInfo>,
    blocks: Vec<BlockInfo>,
}

const _: () = {
    const fn is_sync<T: Sync + Send>() {}
    is_sync::<Recording<'_>>();
};

impl<'a> Recording<'a> {
    /// Opens a whole packed file (usually a memory map). Event blocks are checked when they are decoded.
    ///
    /// # Errors
    /// When it is not ours, of another version, cut short, or when header, index or a table is damaged.
    pub fn parse(file: &'a [u8]) -> Result<Recording<'a>> {
        let start = check_file_header(file)?;
        let (index_at, n_blocks) = check_trailer(file)?;
        let infos = read_index(file, start, index_at, n_blocks)?;
        let mut parts = Parts::default();
        for info in &infos {
            if !info.kind.has_events()
                && let Some(error) = parts.read(info, file)?
            {
                return Err(error);
            }
        }
        let Some(meta) = parts.meta.take() else {
            return Err(Error::damaged("kasuri file", start, "no META block", "one"));
        };
        // Formats that are not understood cost their events' fields, not the recording.
        let (table, format_errors) = EventTable::salvage(&meta.kernel);
        Ok(Recording { format_errors, ..parts.build(file, meta, table, infos) })
    }

    /// Whether a file begins as a recording does, or is empty: then [`Recording::parse`] says what is wrong with it.
    pub fn is_one(file: &[u8]) -> bool {
        MAGIC.starts_with(&file[..file.len().min(MAGIC.len())])
    }

    /// Opens what is whole of a damaged or unfinished file: every block up to the first damage, and those after it that
    /// can be found again. Never fails: of a foreign file nothing is left, and the errors say so.
    pub fn salvage(file: &'a [u8]) -> (Recording<'a>, Vec<Error>) {
        let mut errors = Vec::new();
        let start = check_file_header(file).unwrap_or_else(|e| {
            errors.push(e);
            FILE_HEADER_BYTES
        });
        let foreign =
            errors.iter().any(|e| matches!(e.kind, ErrorKind::Foreign | ErrorKind::Version));
        let mut parts = Parts::default();
        let mut blocks = Vec::new();
        if !foreign {
            for info in walk(file, start, &mut errors) {
                let read = match info.kind.has_events() {
                    true => info.payload(file).map(|_| None),
                    false => parts.read(&info, file),
                };
                match read {
                    Ok(error) => {
                        errors.extend(error);
                        blocks.push(info);
                    }
                    Err(error) => errors.push(error),
                }
            }
        }
        let meta = parts.meta.take().unwrap_or_else(|| {
            errors.push(Error::damaged("kasuri file", start, "no readable META block", "one"));
            Meta::default()
        });
        let (table, format_errors) = EventTable::salvage(&meta.kernel);
        (Recording { format_errors, ..parts.build(file, meta, table, blocks) }, errors)
    }

    /// Facts about the recording.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Clock anchors.
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// All clock anchors that say both clocks, also those of the metadata: for [`crate::clock::ClockMap::from_anchors`].
    pub fn all_anchors(&self) -> Vec<Anchor> {
        let mut anchors = self.anchors.clone();
        anchors.push(self.meta.start);
        anchors.extend(self.meta.end);
        anchors.retain(|a| a.native != 0 && a.monotonic_ns != 0);
        anchors
    }

    /// Threads known from /proc.
    pub fn procs(&self) -> &[Proc] {
        &self.procs
    }

    /// CPU limits, cpusets and affinity masks, and what they did.
    pub fn limits(&self) -> &[LimitRow] {
        &self.limits
    }

    /// Losses of the kernel's buffers, cumulative.
    pub fn kernel_losses(&self) -> &[KernelLoss] {
        &self.kernel_losses
    }

    /// Losses of threads that never got a chunk.
    pub fn client_losses(&self) -> &[ClientLoss] {
        &self.client_losses
    }

    /// Site definitions.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Modules, frames, call paths and names.
    pub fn call_paths(&self) -> &Tables {
        &self.call_paths
    }

    /// How call paths were sampled, and what of it was lost.
    pub fn sampling(&self) -> &[SamplingRow] {
        &self.sampling
    }

    /// Kernel event types; [`KernelBlock::types`] are indices into it.
    pub fn event_types(&self) -> &[EventFormat] {
        self.table.types()
    }

    /// Format files that were not understood: their events are of type [`crate::tracefs::UNKNOWN_EVENT`].
    pub fn format_errors(&self) -> &[Error] {
        &self.format_errors
    }

    /// Blocks of tables other than the metadata, for [`super::Writer::copy_block`].
    pub fn table_blocks(&self) -> &[BlockInfo] {
        &self.tables
    }

    /// Blocks of events, in file order: of one CPU or stream in order of time.
    pub fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn info(&self, ix: usize, kind: BlockKind) -> Result<&BlockInfo> {
        let found = match self.blocks.get(ix) {
            Some(info) if info.kind == kind => return Ok(info),
            Some(info) => format!("{:?}", info.kind),
            None => "no such block".into(),
        };
        Err(Error::absent(format!("block {ix}"), found, format!("{kind:?}")))
    }

    /// Decodes a block of kind [`BlockKind::Kernel`]; `ix` counts [`Recording::blocks`].
    ///
    /// # Errors
    /// When it is of another kind, or damaged.
    pub fn kernel_block(&self, ix: usize) -> Result<KernelBlock<'_>> {
        KernelBlock::parse(self.info(ix, BlockKind::Kernel)?, self.file, &self.table)
    }

    /// Decodes a block of kind [`BlockKind::Annotation`].
    ///
    /// # Errors
    /// As [`Recording::kernel_block`].
    pub fn annotation_block(&self, ix: usize) -> Result<AnnotationBlock> {
        AnnotationBlock::parse(self.info(ix, BlockKind::Annotation)?, self.file)
    }

    /// Decodes a block of kind [`BlockKind::Perf`].
    ///
    /// # Errors
    /// As [`Recording::kernel_block`].
    pub fn perf_block(&self, ix: usize) -> Result<PerfBlock> {
        PerfBlock::parse(self.info(ix, BlockKind::Perf)?, self.file)
    }

    /// Decodes a block of kind [`BlockKind::Samples`]; sorted by time.
    ///
    /// # Errors
    /// As [`Recording::kernel_block`].
    pub fn sample_block(&self, ix: usize) -> Result<Vec<Sample>> {
        let info = self.info(ix, BlockKind::Samples)?;
        samples::parse_samples(info, self.file, self.call_paths.paths.len())
    }
}

/// Table blocks as they come.
#[derive(Default)]
struct Parts {
    meta: Option<Meta>,
    anchors: Vec<Anchor>,
    procs: Vec<Proc>,
    limits: Vec<LimitRow>,
    kernel_losses: Vec<KernelLoss>,
    client_losses: Vec<ClientLoss>,
    call_paths: Log,
    sampling: Vec<SamplingRow>,
    sites: Vec<SiteTable>,
}

impl Parts {
    /// Takes in a table block. The inner error is one after which the block's valid start was kept.
    fn read(&mut self, info: &BlockInfo, file: &[u8]) -> Result<Option<Error>> {
        let (payload, base) = info.payload(file)?;
        let mut cursor = Cursor::new(payload, base, "table block");
        let n = cursor.count(TABLE_BYTES_MAX)?;
        let bytes = pack::take(&mut cursor, n)?;
        // Offsets inside an unpacked table are no file offsets: name the block.
        let place = |e: Error| Error {
            offset: base,
            found: format!("{} at byte {} of the table", e.found, e.offset).into(),
            ..e
        };
        let error = match info.kind {
            BlockKind::Meta => {
                self.meta = Some(Meta::parse(&bytes).map_err(place)?);
                None
            }
            BlockKind::Sites => {
                let (table, error) = SiteTable::salvage(&bytes).map_err(place)?;
                self.sites.push(table);
                error
            }
            BlockKind::Anchors => extend(&mut self.anchors, "anchors table", &bytes),
            BlockKind::Procs => extend(&mut self.procs, "threads table", &bytes),
            BlockKind::Limits => extend(&mut self.limits, "limits table", &bytes),
            BlockKind::KernelLosses => {
                extend(&mut self.kernel_losses, "kernel losses table", &bytes)
            }
            BlockKind::ClientLosses => {
                extend(&mut self.client_losses, "client losses table", &bytes)
            }
            // What was read before the damage is whole, and only samples and names refer to it.
            BlockKind::CallPaths | BlockKind::Names => {
                call_paths::continue_log(&mut self.call_paths, &bytes, 0).err()
            }
            BlockKind::Sampling => extend(&mut self.sampling, "sampling table", &bytes),
            BlockKind::Index
            | BlockKind::Kernel
            | BlockKind::Annotation
            | BlockKind::Perf
            | BlockKind::Samples => None,
        };
        Ok(error.map(place))
    }

    fn build<'a>(
        self,
        file: &'a [u8],
        meta: Meta,
        table: EventTable,
        blocks: Vec<BlockInfo>,
    ) -> Recording<'a> {
        let (blocks, mut tables): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|b| b.kind.has_events());
        tables.retain(|b| b.kind != BlockKind::Meta);
        Recording {
            file,
            meta,
            anchors: self.anchors,
            procs: self.procs,
            limits: self.limits,
            kernel_losses: self.kernel_losses,
            client_losses: self.client_losses,
            call_paths: self.call_paths.tables,
            sampling: self.sampling,
            sites: Sites::new(self.sites),
            table,
            format_errors: Vec::new(),
            tables,
            blocks,
        }
    }
}

fn extend<T: DeserializeOwned>(
    rows: &mut Vec<T>,
    what: &'static str,
    bytes: &[u8],
) -> Option<Error> {
    let (more, error) = parse_lines(what, bytes);
    rows.extend(more);
    error
}

/// Reads the index and compares it with the headers it lists: they must fill the file from its header to the index.
fn read_index(file: &[u8], start: u64, index_at: u64, n_blocks: u32) -> Result<Vec<BlockInfo>> {
    let blocks_end = file.len() as u64 - TRAILER_BYTES;
    if !(start..blocks_end).contains(&index_at) {
        let needed = format!("an offset from {start} to {blocks_end}");
        return Err(Error::damaged(
            "kasuri file trailer",
            blocks_end,
            format!("index at {index_at}"),
            needed,
        ));
    }
    let (info, end) = BlockHeader::parse(file, index_at, blocks_end)?;
    let bad = |found: String, needed: String| {
        Error::damaged("kasuri file index", index_at, found, needed)
    };
    let Some(info) = info.filter(|i| i.kind == BlockKind::Index && end == blocks_end) else {
        return Err(bad("another block".into(), format!("an index that ends at {blocks_end}")));
    };
    let (payload, _) = info.payload(file)?;
    if payload.len() as u64 != u64::from(n_blocks) * size_of::<IndexEntry>() as u64 {
        return Err(bad(format!("{} bytes", payload.len()), format!("{n_blocks} entries")));
    }
    let mut infos = Vec::with_capacity(n_blocks as usize);
    let mut at = start;
    for entry in payload.chunks_exact(size_of::<IndexEntry>()) {
        let Ok(entry) = IndexEntry::read_from_bytes(entry) else {
            continue;
        };
        if entry.offset.get() != at {
            return Err(bad(
                format!("a block at {}", entry.offset),
                format!("the next block, at {at}"),
            ));
        }
        let (info, end) = BlockHeader::parse(file, at, index_at)?;
        let rest = file.get(at as usize..).unwrap_or_default();
        if BlockHeader::read_from_prefix(rest).map(|(h, _)| h) != Ok(entry.header) {
            return Err(bad(
                format!("another header for the block at {at}"),
                "that of the block".into(),
            ));
        }
        infos.extend(info);
        at = end;
    }
    if at != index_at {
        return Err(bad(format!("blocks up to {at}"), format!("blocks up to {index_at}")));
    }
    Ok(infos)
}

/// The next place after `at` where a block may begin.
fn next_magic(file: &[u8], at: u64) -> u64 {
    let from = (at as usize).saturating_add(8);
    let words = file.get(from..).unwrap_or_default().chunks(8);
    let step = words.take_while(|word| !word.starts_with(&BLOCK_MAGIC)).count();
    (from + 8 * step) as u64
}

/// Block headers one after the other without the index. After a damaged header, goes on at the next whole one.
fn walk(file: &[u8], start: u64, errors: &mut Vec<Error>) -> Vec<BlockInfo> {
    let mut infos = Vec::new();
    let mut at = start;
    let mut lost = false;
    let end = file.len() as u64;
    while at < end {
        match BlockHeader::parse(file, at, end) {
            Ok((Some(info), _)) if info.kind == BlockKind::Index => {
                if let Err(e) = check_trailer(file) {
                    errors.push(e);
                }
                return infos;
            }
            Ok((info, next)) => {
                infos.extend(info);
                lost = false;
                at = next;
            }
            Err(error) => {
                if !lost {
                    errors.push(error);
                }
                lost = true;
                at = next_magic(file, at);
            }
        }
    }
    if !lost {
        errors.push(
            Error::truncated("kasuri file", end, 0, super::frame::BLOCK_HEADER_BYTES)
                .remedy("it was never finished"),
        );
    }
    infos
}
