//! Compressed sections and chunks of `trace.dat`, version 7.
//!
//! The file states the unpacked size of each section or chunk. It is untrusted, so it is checked against two limits
//! before memory is allocated; and unpacking must give exactly that size.
use crate::container::unpack_zstd;
use crate::{Error, ErrorKind, Result};
use std::io::Read;

/// Most unpacked bytes per packed byte. zlib cannot exceed 1032; zstd can, with frames of equal bytes, but no trace
/// does.
const RATIO_MAX: usize = 1 << 14;
/// Most unpacked bytes. kallsyms of a large kernel unpack to about 20 MiB, a chunk of pages to less than 1 MiB.
const UNPACKED_MAX: usize = 256 << 20;

/// Compression of a version 7 file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// zlib.
    Zlib,
    /// zstd.
    Zstd,
}

impl Compression {
    /// The compression with this name in the header; "" is none.
    pub(super) fn from_name(name: &str, offset: u64) -> Result<Compression> {
        match name {
            "" | "none" => Ok(Compression::None),
            "zlib" => Ok(Compression::Zlib),
            "zstd" => Ok(Compression::Zstd),
            other => Err(Error::new(
                ErrorKind::Version,
                "trace.dat header",
                offset,
                format!("compression {other:?}"),
                "none, zlib or zstd",
            )
            .remedy("`trace-cmd convert --compression zstd` converts it")),
        }
    }

    /// Its name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        }
    }

    /// Unpacks to exactly `n` bytes. `offset` is the position of `packed` in the file, for messages.
    pub(super) fn unpack(self, packed: &[u8], n: usize, offset: u64) -> Result<Vec<u8>> {
        let what = "compressed data";
        if n > UNPACKED_MAX || n / RATIO_MAX > packed.len() {
            return Err(Error::new(
                ErrorKind::Limit,
                what,
                offset,
                format!("{n} bytes from {}", packed.len()),
                format!("at most {UNPACKED_MAX}, and {RATIO_MAX} times as many"),
            ));
        }
        let bad = |found: String| Error::damaged(what, offset, found, format!("{n} bytes"));
        match self {
            Compression::None => {
                Err(bad("a compressed section in a file without compression".into()))
            }
            Compression::Zstd => unpack_zstd(packed, offset, n),
            Compression::Zlib => {
                let mut out = Vec::with_capacity(n);
                flate2::bufread::ZlibDecoder::new(packed)
                    .take(n as u64 + 1)
                    .read_to_end(&mut out)
                    .map_err(|e| bad(format!("a bad stream ({e})")))?;
                if out.len() == n {
                    Ok(out)
                } else {
                    Err(bad(format!("{} bytes or more", out.len())))
                }
            }
        }
    }
}
