//! The pages of one buffer: as they are in the file, or compressed in chunks.
//!
//! A buffer is the top one or that of an instance (`trace-cmd record -B`); for each CPU it has an offset and a length in the
//! file. Uncompressed, that is the pages themselves. Compressed, it is u32 number of chunks, then for each chunk u32 packed
//! length, u32 unpacked length and the packed bytes of whole pages. Chunks are unpacked one at a time.
use super::clock::current_clock;
use super::compression::Compression;
use super::reader::Reader;
use super::{Bytes, TraceDat};
use crate::{Error, Result};
use std::borrow::Cow;

/// One ring buffer: the top one, or an instance's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Buffer {
    /// Name of its instance; "" for the top one.
    pub name: String,
    /// Clock of its stamps; "": that of [`super::Options::clock`].
    pub clock: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// CPUs with data.
    pub cpus: Vec<CpuData>,
    /// Pages are compressed in chunks.
    pub(super) packed: Compression,
}

/// Location of one CPU's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuData {
    /// The CPU.
    pub cpu: u32,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// A buffer as text: the content of its `trace` file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextBuffer<'a> {
    /// Name of its instance; "" for the top one.
    pub name: String,
    /// Clock of its stamps.
    pub clock: String,
    /// The text.
    pub text: Cow<'a, [u8]>,
}

impl Buffer {
    /// The pages of one CPU in pieces that fit in memory; an error ends them.
    pub fn chunks<'a>(&self, cpu: &CpuData, file: &'a [u8], big_endian: bool) -> Chunks<'a> {
        let mut chunks = Chunks {
            packed: self.packed,
            page_bytes: self.page_bytes as usize,
            left: 0,
            reader: Reader::new(file, cpu.offset, big_endian, "pages of a CPU"),
            error: None,
        };
        if cpu.bytes == 0 {
            chunks.reader = Reader::new(&[], 0, big_endian, "pages of a CPU");
            return chunks;
        }
        // The number of chunks before them does not count.
        let before = if self.packed == Compression::None { 0 } else { 4 };
        let need = cpu.bytes.saturating_add(before);
        let have = (file.len() as u64).saturating_sub(cpu.offset);
        let bytes = need.min(have);
        if bytes < need {
            chunks.error = Some(Error::truncated("pages of a CPU", cpu.offset, have, need));
        }
        let end = cpu.offset.min(file.len() as u64) + bytes;
        chunks.reader =
            Reader::new(&file[..end as usize], cpu.offset, big_endian, "pages of a CPU");
        if self.packed != Compression::None {
            match chunks.reader.u32() {
                Ok(n) => chunks.left = n,
                Err(error) => chunks.error = Some(error),
            }
        }
        chunks
    }
}

/// Whole pages, one after the other.
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    /// The pages.
    pub pages: Cow<'a, [u8]>,
    /// Offset in the file; of compressed pages, the chunk's offset.
    pub offset: u64,
    /// Offsets inside are those of the file too.
    pub in_place: bool,
}

/// Iterator over the pages of one CPU.
#[derive(Clone)]
pub struct Chunks<'a> {
    packed: Compression,
    page_bytes: usize,
    /// Compressed chunks not read yet.
    left: u32,
    reader: Reader<'a>,
    error: Option<Error>,
}

impl<'a> Chunks<'a> {
    fn packed_chunk(&mut self) -> Result<Chunk<'a>> {
        let offset = self.reader.offset();
        let packed = self.reader.u32()? as usize;
        let n = self.reader.u32()? as usize;
        let at = self.reader.offset();
        let bytes = self.reader.take(packed)?;
        Ok(Chunk { pages: self.packed.unpack(bytes, n, at)?.into(), offset, in_place: false })
    }

    fn plain_chunk(&mut self) -> Option<Chunk<'a>> {
        let n = self.reader.left() / self.page_bytes * self.page_bytes;
        let offset = self.reader.offset();
        let pages = self.reader.take(n).ok().filter(|p| !p.is_empty())?;
        Some(Chunk { pages: pages.into(), offset, in_place: true })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>>;

    fn next(&mut self) -> Option<Result<Chunk<'a>>> {
        if self.packed == Compression::None {
            if let Some(chunk) = self.plain_chunk() {
                return Some(Ok(chunk));
            }
            let left = self.reader.left() as u64;
            if left > 0 && self.error.is_none() {
                let offset = self.reader.offset();
                let need = self.page_bytes as u64;
                self.error = Some(Error::truncated("ring-buffer page", offset, left, need));
            }
            self.reader = Reader::new(&[], 0, false, "pages of a CPU");
            return self.error.take().map(Err);
        }
        if self.left == 0 {
            return self.error.take().map(Err);
        }
        self.left -= 1;
        let chunk = self.packed_chunk();
        if chunk.is_err() {
            self.left = 0;
            // Cut short: that is the better reason.
            return Some(Err(self.error.take().or(chunk.err())?));
        }
        Some(chunk)
    }
}

/// Content of a BUFFER or BUFFER_TEXT option.
#[derive(Clone, Debug, Default)]
pub(super) struct OptionBuffer {
    /// Version 7: of the section. Version 6: of the table of CPUs.
    pub offset: u64,
    pub is_text: bool,
    pub buffer: Buffer,
}

impl OptionBuffer {
    pub fn read(version: u32, mut data: Reader<'_>) -> Result<OptionBuffer> {
        let mut out = OptionBuffer { offset: data.u64()?, ..OptionBuffer::default() };
        out.buffer.name = data.text()?;
        if version < 7 {
            return Ok(out);
        }
        out.buffer.clock = current_clock(&data.text()?);
        out.buffer.page_bytes = data.u32()?;
        for _ in 0..data.count(20)? {
            out.buffer.cpus.push(CpuData {
                cpu: data.u32()?,
                offset: data.u64()?,
                bytes: data.u64()?,
            });
        }
        Ok(out)
    }

    pub fn read_text(mut data: Reader<'_>) -> Result<OptionBuffer> {
        let mut out =
            OptionBuffer { offset: data.u64()?, is_text: true, ..OptionBuffer::default() };
        out.buffer.name = data.text()?;
        out.buffer.clock = current_clock(&data.text()?);
        Ok(out)
    }
}

/// The table of CPUs of version 6.
pub(super) fn cpu_table(reader: &mut Reader<'_>, n_cpus: u32) -> Result<Vec<CpuData>> {
    let max = reader.left() / 16;
    if n_cpus as usize > max {
        return Err(reader.damaged(format!("{n_cpus} CPUs"), format!("at most {max}")));
    }
    let mut cpus = Vec::with_capacity(n_cpus as usize);
    for cpu in 0..n_cpus {
        cpus.push(CpuData { cpu, offset: reader.u64()?, bytes: reader.u64()? });
    }
    Ok(cpus)
}

impl TraceDat<'_> {
    /// Bytes of a sub-buffer, from `header_page`: newer kernels may have larger ones than pages.
    pub(super) fn sub_buffer_bytes(&self) -> u32 {
        let field = |name: &str| {
            let line = self.header_page.lines().find(|l| {
                let declaration = l.split(';').next().unwrap_or("");
                declaration.trim_end().ends_with(name)
            })?;
            let value = |key: &str| {
                line.split(';').find_map(|p| p.trim().strip_prefix(key))?.parse::<u32>().ok()
            };
            value("offset:")?.checked_add(value("size:")?)
        };
        field(" data")
            .filter(|n| n.is_power_of_two() && (4096..=1 << 20).contains(n))
            .unwrap_or(self.page_bytes)
    }
}

/// Text of a latency tracer that goes on to the end.
pub(super) fn rest_as_text<'a>(reader: &Reader<'a>, name: &str) -> TextBuffer<'a> {
    TextBuffer { name: name.to_owned(), clock: String::new(), text: Bytes::Borrowed(reader.rest()) }
}
