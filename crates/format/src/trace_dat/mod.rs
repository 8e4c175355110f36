//! `trace.dat`, the files of trace-cmd and KernelShark, versions 6 and 7 (man trace-cmd.dat(5)).
//!
//! A file names its byte order and the size of the recording machine's `long`, holds the machine's format files, and
//! then the same raw ring-buffer pages that tracefs hands out ([`crate::tracefs`]), for each CPU of each buffer.
//! Version 6 is a fixed row of parts. Version 7 is a set of sections that options point at; each section may be
//! compressed whole, pages are compressed in chunks.
//!
//! | file | does |
//! |---|---|
//! | `reader` | numbers in the file's byte order |
//! | `compression` | zlib and zstd, bounded |
//! | `parts` | what versions 6 and 7 share: format files, command lines |
//! | `v6`, `v7` | where the parts are |
//! | `options` | what an option says |
//! | `buffer` | pages of one CPU |
mod buffer;
mod clock;
mod compression;
mod options;
mod parts;
mod reader;
mod tracing_data;
mod v6;
mod v7;

pub use buffer::{Buffer, Chunk, Chunks, CpuData, TextBuffer};
pub use compression::Compression;
pub use options::{CpuStat, Guest, Options, TimeShift, TscToNs};
pub(crate) use tracing_data::TracingData;

use crate::meta::KernelMeta;
use crate::{Error, ErrorKind, Result};
use reader::Reader;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The first bytes of every file.
pub const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// One file.
#[derive(Clone, Debug, Default)]
pub struct TraceDat<'a> {
    /// 6 or 7.
    pub version: u32,
    /// The recording machine stores numbers big-endian.
    pub big_endian: bool,
    /// Bytes of a `long` of its programs.
    pub long_bytes: u8,
    /// Its page size.
    pub page_bytes: u32,
    /// Compression of version 7.
    pub compression: Compression,
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Text of each event's format file, by `system/event`.
    pub formats: BTreeMap<String, String>,
    /// Thread ids and names that were known at the end.
    pub cmdlines: Vec<(i32, String)>,
    /// Number of CPUs with data.
    pub n_cpus: u32,
    /// Content of the options.
    pub options: Options,
    /// The raw pages: the top buffer first, then instances.
    pub buffers: Vec<Buffer>,
    /// Buffers as text, of latency tracers.
    pub texts: Vec<TextBuffer<'a>>,
}

impl<'a> TraceDat<'a> {
    /// Whether `bytes` begin as such a file does.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads all but the pages.
    ///
    /// # Errors
    /// The first thing that is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<TraceDat<'a>> {
        let mut faults = Faults { errors: Vec::new(), stop: true };
        let file = TraceDat::read(bytes, &mut faults)?;
        Ok(file)
    }

    /// Reads what can be read, and says what could not.
    ///
    /// # Errors
    /// When it is no such file, or its format files cannot be read, without which nothing can.
    pub fn salvage(bytes: &'a [u8]) -> Result<(TraceDat<'a>, Vec<Error>)> {
        let mut faults = Faults { errors: Vec::new(), stop: false };
        let file = TraceDat::read(bytes, &mut faults)?;
        Ok((file, faults.errors))
    }

    fn read(bytes: &'a [u8], faults: &mut Faults) -> Result<TraceDat<'a>> {
        if !TraceDat::is(bytes) {
            let first: Vec<String> = bytes.iter().take(10).map(|b| format!("{b:02x}")).collect();
            return Err(Error::new(
                ErrorKind::Foreign,
                "trace.dat",
                0,
                format!("bytes {}", first.join(" ")),
                "17 08 44 \"tracing\"",
            ));
        }
        let mut reader = Reader::new(bytes, MAGIC.len() as u64, false, "trace.dat header");
        let at = reader.offset();
        let version = reader.text()?;
        let version = match version.as_str() {
            "6" => 6,
            "7" => 7,
            other => {
                return Err(Error::new(
                    ErrorKind::Version,
                    "trace.dat header",
                    at,
                    format!("version {other:?}"),
                    "version 6 or 7",
                )
                .remedy("`trace-cmd convert --file-version 7` of the trace-cmd that wrote it converts it"));
            }
        };
        let big_endian = match reader.u8()? {
            0 => false,
            1 => true,
            other => {
                return Err(reader.damaged(format!("byte order {other}"), "0 or 1"));
            }
        };
        let long_bytes = reader.u8()?;
        if !matches!(long_bytes, 4 | 8) {
            return Err(reader.damaged(format!("a long of {long_bytes} bytes"), "4 or 8"));
        }
        reader.big_endian = big_endian;
        let page_bytes = reader.u32()?;
        if !page_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&page_bytes) {
            return Err(reader.damaged(
                format!("pages of {page_bytes} bytes"),
                "a power of two from 4096 to 1048576",
            ));
        }
        let mut file =
            TraceDat { version, big_endian, long_bytes, page_bytes, ..TraceDat::default() };
        match version {
            6 => v6::read(&mut file, reader, faults)?,
            _ => v7::read(&mut file, reader, faults)?,
        }
        Ok(file)
    }

    /// The metadata needed to find the events in the pages of `buffer`.
    pub fn page_meta(&self, buffer: &Buffer) -> KernelMeta {
        KernelMeta {
            page_bytes: buffer.page_bytes,
            header_page: self.header_page.clone(),
            big_endian: self.big_endian,
            ..KernelMeta::default()
        }
    }

    /// The clock of a buffer's stamps, as tracefs names it; "" when the file does not say.
    pub fn clock<'s>(&'s self, buffer: &'s Buffer) -> &'s str {
        if buffer.clock.is_empty() { &self.options.clock } else { &buffer.clock }
    }
}

/// Faulty parts that could be left out.
struct Faults {
    errors: Vec<Error>,
    /// The first ends it.
    stop: bool,
}

impl Faults {
    /// The value, or its default after noting why.
    fn keep<T: Default>(&mut self, result: Result<T>) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) if self.stop => Err(error),
            Err(error) => {
                self.errors.push(error);
                Ok(T::default())
            }
        }
    }
}

/// Text up to its first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

type Bytes<'a> = Cow<'a, [u8]>;
