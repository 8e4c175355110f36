//! Writing a packed file, front to back.
//!
//! Each method appends blocks and notes their headers; [`Writer::finish`] writes these as the index, then the trailer. Nothing
//! written is changed later, so the output may be a pipe, and a writer that is killed leaves a file that lacks only its end.
//! Encoding (`kernel`, `annotation`, `perf_block`) is separate, because it is done by many threads and writing by one.
use super::frame::{BLOCK_HEADER_BYTES, FILE_HEADER_BYTES, TRAILER_BYTES};
use super::frame::{
    BlockHeader, BlockInfo, BlockKind, FORMAT_VERSION, FileHeader, IndexEntry, MAGIC,
    TRAILER_MAGIC, Trailer,
};
use super::{EncodedBlocks, pack};
use crate::call_paths::{LogWriter, Names, Tables};
use crate::meta::{Anchor, ClientLoss, KernelLoss, LimitRow, Meta, Proc, SamplingRow, to_lines};
use crate::ring::SiteTable;
use std::io::{self, Write};
use zerocopy::IntoBytes;

/// Writes a packed file. Everything written before an error or a kill is readable by `Recording::salvage`.
/// Seeks never; flushing and syncing are the caller's.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    offset: u64,
    index: Vec<IndexEntry>,
    level: i32,
}

impl<W: Write> Writer<W> {
    /// Begins a file: header and metadata.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(out: W, meta: &Meta) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, offset: 0, index: Vec::new(), level: 3 };
        let header = FileHeader {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            header_bytes: (FILE_HEADER_BYTES as u32).into(),
            reserved: [0; 48],
        };
        writer.write(header.as_bytes())?;
        writer.meta(meta)?;
        Ok(writer)
    }

    /// Adds metadata, which replaces all of the earlier; the formats of the kernel's events must be the same.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        self.table(BlockKind::Meta, [0; 4], meta.to_json().as_bytes())
    }

    /// Hands over to the output what it buffers.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Adds clock anchors.
    ///
    /// # Errors
    /// Errors of the output, here and in all methods that follow.
    pub fn anchors(&mut self, rows: &[Anchor]) -> io::Result<()> {
        self.table(BlockKind::Anchors, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds CPU limits.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn limits(&mut self, rows: &[LimitRow]) -> io::Result<()> {
        self.table(BlockKind::Limits, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds threads known from /proc.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn procs(&mut self, rows: &[Proc]) -> io::Result<()> {
        self.table(BlockKind::Procs, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds losses of the kernel's buffers.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn kernel_losses(&mut self, rows: &[KernelLoss]) -> io::Result<()> {
        self.table(BlockKind::KernelLosses, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds losses of threads that never got a chunk.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn client_losses(&mut self, rows: &[ClientLoss]) -> io::Result<()> {
        self.table(BlockKind::ClientLosses, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds the sites of one client.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn sites(&mut self, table: &SiteTable) -> io::Result<()> {
        self.table(BlockKind::Sites, [table.pid, table.generation, 0, 0], &table.to_bytes())
    }

    /// Adds modules, frames and call paths, to be read before samples and names; `tables.names` are left out.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn call_paths(&mut self, tables: &Tables) -> io::Result<()> {
        let mut log = LogWriter::default();
        log.tables(tables);
        self.table(BlockKind::CallPaths, [0; 4], log.bytes())
    }

    /// Adds names of frames of [`Writer::call_paths`]; of two for one frame the later holds.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn names(&mut self, names: &[Names]) -> io::Result<()> {
        let mut log = LogWriter::default();
        names.iter().for_each(|n| log.names(n));
        self.table(BlockKind::Names, [0; 4], log.bytes())
    }

    /// Adds how call paths were sampled.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn sampling(&mut self, rows: &[SamplingRow]) -> io::Result<()> {
        self.table(BlockKind::Sampling, [0; 4], to_lines(rows).as_bytes())
    }

    /// Adds encoded events. Blocks of one CPU or one stream must come in order of time; others may come between.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn blocks(&mut self, blocks: &EncodedBlocks) -> io::Result<()> {
        for b in &blocks.blocks {
            let header = BlockHeader::new(
                b.kind,
                b.ids,
                b.n_events,
                [b.first_stamp, b.last_stamp],
                &b.payload,
            );
            self.block(header, &b.payload)?;
        }
        Ok(())
    }

    /// Adds a block of another packed file as it is: for writing what `Recording::salvage` found to a sound file.
    ///
    /// # Errors
    /// See [`Writer::anchors`]; a block whose checksum is wrong is refused with `InvalidData`.
    pub fn copy_block(&mut self, info: &BlockInfo, file: &[u8]) -> io::Result<()> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidData, e);
        let (payload, _) = info.payload(file).map_err(invalid)?;
        let stamps = [info.first_stamp, info.last_stamp];
        let header = BlockHeader::new(info.kind, info.ids, info.n_events, stamps, payload);
        self.block(header, payload)
    }

    /// Writes index and trailer; gives the output back, and the bytes written in all.
    ///
    /// # Errors
    /// See [`Writer::anchors`].
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let index_offset = self.offset;
        let n_blocks = self.index.len() as u32;
        let payload = std::mem::take(&mut self.index).as_bytes().to_vec();
        self.block(BlockHeader::new(BlockKind::Index, [0; 4], 0, [0; 2], &payload), &payload)?;
        let mut trailer = Trailer {
            index_offset: index_offset.into(),
            file_bytes: (self.offset + TRAILER_BYTES).into(),
            n_blocks: n_blocks.into(),
            crc: 0.into(),
            magic: TRAILER_MAGIC,
        };
        trailer.crc = crc32fast::hash(&trailer.as_bytes()[..20]).into();
        self.write(trailer.as_bytes())?;
        Ok((self.out, self.offset))
    }

    fn table(&mut self, kind: BlockKind, ids: [u32; 4], bytes: &[u8]) -> io::Result<()> {
        let mut payload = (bytes.len() as u32).to_le_bytes().to_vec();
        pack::put(&mut payload, bytes, self.level);
        self.block(BlockHeader::new(kind, ids, 0, [0; 2], &payload), &payload)
    }

    fn block(&mut self, header: BlockHeader, payload: &[u8]) -> io::Result<()> {
        self.index.push(IndexEntry { offset: self.offset.into(), header });
        self.write(header.as_bytes())?;
        self.write(payload)?;
        let padding = (payload.len().next_multiple_of(8) - payload.len()) & 7;
        self.write(&[0; 8][..padding])?;
        debug_assert_eq!(
            (self.offset - FILE_HEADER_BYTES) % 8,
            0,
            "blocks of {BLOCK_HEADER_BYTES} bytes and whole words"
        );
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
