//! Undoes gzip, zstd, zip and `atrace -z` around a whole file, and limits the size of the result.
//!
//! The compression is recognized by its magic number: gzip (RFC 1952) `1f 8b 08`, zstd (RFC 8878) `28 b5 2f fd`, zip
//! `50 4b 03 04`. Concatenated gzip members are one stream; of a zip archive the only file is read. `atrace -z` writes
//! zlib (RFC 1950) after a line `TRACE:`. Traces with compressed parts inside (trace.dat, Perfetto, perf.data) are
//! the business of their readers.
use crate::{Error, zip};
use std::borrow::Cow;
use std::io::{self, Read};

/// Bytes that any file may unpack to.
const ALWAYS: u64 = 128 << 20;
/// A larger result may be this many times the packed bytes read so far. Traces as text shrink to a tenth or a fiftieth,
/// bombs to a thousandth: they end at [`ALWAYS`], however long they are.
const RATIO: u64 = 100;
/// The size is looked at after so many bytes.
const STEP: u64 = 1 << 20;

const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The line before the trace in what atrace prints; after others, which say what it does.
const ATRACE: &[u8] = b"TRACE:\n";
/// Bytes in which that line must be.
const ATRACE_BYTES: usize = 4096;

/// Whether the bytes begin as a compressed file.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    let magics = [GZIP, ZSTD, zip::MAGIC];
    magics.iter().any(|magic| bytes.starts_with(magic)) || atrace(bytes).is_some()
}

/// The zlib stream that `atrace -z` wrote.
fn atrace(bytes: &[u8]) -> Option<&[u8]> {
    let head = &bytes[..bytes.len().min(ATRACE_BYTES)];
    let at = (head.windows(ATRACE.len())).position(|part| part == ATRACE)?;
    let is_line = at == 0 || bytes[at - 1] == b'\n';
    let stream = &bytes[at + ATRACE.len()..];
    // Deflate, and a checksum of the two bytes: "# tracer" is neither.
    let first = u16::from_be_bytes(*stream.first_chunk()?);
    (is_line && first >> 8 & 0xf == 8 && first.is_multiple_of(31)).then_some(stream)
}

/// Unpacks a compressed file, and borrows any other as it is.
///
/// # Errors
/// Damage, a zip archive of several files, or more than a hundred times the packed size (128 MiB are always allowed).
pub fn unpack<'a>(file: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
    unpack_within(file, bytes, ALWAYS)
}

/// As [`unpack`], with the bytes that are always allowed.
fn unpack_within<'a>(file: &str, bytes: &'a [u8], always: u64) -> Result<Cow<'a, [u8]>, Error> {
    let out = if bytes.starts_with(GZIP) {
        let reader = flate2::bufread::MultiGzDecoder::new(bytes);
        drain(reader, bytes, |r| r.get_ref(), always)
    } else if bytes.starts_with(ZSTD) {
        unzstd(bytes, always)
    } else if bytes.starts_with(zip::MAGIC) {
        unzip(bytes, always)
    } else if let Some(stream) = atrace(bytes) {
        let reader = flate2::bufread::ZlibDecoder::new(stream);
        drain(reader, stream, |r| r.get_ref(), always)
    } else {
        return Ok(Cow::Borrowed(bytes));
    };
    match out {
        Ok(out) => Ok(Cow::Owned(out)),
        Err(Stop::Limit(limit)) => Err(Error::TooLarge { file: file.to_owned(), limit }),
        Err(Stop::Damage(error)) => Err(Error::Unpack { file: file.to_owned(), error }),
    }
}

/// Why a file is not unpacked.
enum Stop {
    /// It has more bytes than this.
    Limit(u64),
    Damage(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Damage(match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it was cut: the end is missing")
            }
            _ => error,
        })
    }
}

/// Reads all of `reader`, which unpacks `packed`; `rest` says what it has not read of that yet.
fn drain<'a, R: Read>(
    mut reader: R,
    packed: &[u8],
    rest: impl Fn(&R) -> &&'a [u8],
    always: u64,
) -> Result<Vec<u8>, Stop> {
    let mut out = Vec::new();
    while reader.by_ref().take(STEP).read_to_end(&mut out)? > 0 {
        let read = (packed.len() - rest(&reader).len()) as u64;
        let limit = always.max(read.saturating_mul(RATIO));
        if out.len() as u64 > limit {
            return Err(Stop::Limit(limit));
        }
    }
    Ok(out)
}

fn unzstd(packed: &[u8], always: u64) -> Result<Vec<u8>, Stop> {
    let reader = zstd::stream::read::Decoder::with_buffer(packed)?;
    drain(reader, packed, |r| r.get_ref(), always)
}

/// The content of the only file in a zip archive.
fn unzip(bytes: &[u8], always: u64) -> Result<Vec<u8>, Stop> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("zip: {why}"));
    let entry = zip::only_file(bytes).map_err(wrong)?;
    let packed = entry.packed;
    let out = match entry.method {
        0 => packed.to_vec(),
        8 => {
            let reader = flate2::bufread::DeflateDecoder::new(packed);
            drain(reader, packed, |r| r.get_ref(), always)?
        }
        93 => unzstd(packed, always)?,
        other => return Err(wrong(format!("its file is packed by method {other}")).into()),
    };
    let mut crc = flate2::Crc::new();
    crc.update(&out);
    if crc.sum() != entry.crc {
        return Err(wrong("the checksum of its file is wrong".to_owned()).into());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn packed_files_are_unpacked_and_others_left() {
        let text = b"{\"traceEvents\":[]}";
        assert_eq!(*unpack("a", text).unwrap(), *text);
        assert_eq!(*unpack("a", &gzip(text)).unwrap(), *text);
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        assert_eq!(*unpack("a", &zstd).unwrap(), *text);
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 1 << 20]);
        let error = unpack_within("bomb.gz", &bomb, 1000).unwrap_err();
        let limit = match error {
            Error::TooLarge { limit, .. } => limit,
            _ => panic!("{error}"),
        };
        assert!(limit <= bomb.len() as u64 * 100);
        assert_eq!(
            error.to_string(),
            format!(
                "bomb.gz: unpacks to more than {limit} bytes; unpack it by hand if it is no bomb"
            )
        );
        assert!(unpack_within("fits.gz", &bomb, 1 << 20).is_ok());
    }

    #[test]
    fn a_long_bomb_ends_as_early_as_a_short_one() {
        // 64 MiB in 64 KiB would be 6 MB by the ratio of the whole file.
        let mut bomb = gzip(&vec![0; 64 << 20]);
        bomb.extend(std::iter::repeat_n(0x55, 1 << 20));
        for bomb in [bomb, zstd::encode_all(&vec![0; 64 << 20][..], 1).unwrap()] {
            let error = unpack_within("bomb", &bomb, 2 << 20).unwrap_err();
            assert!(matches!(error, Error::TooLarge { limit, .. } if limit <= 3 << 20), "{error}");
        }
    }

    /// An archive with these files: name, method, packed bytes, content.
    fn zip(files: &[(&str, u16, &[u8], &[u8])]) -> Vec<u8> {
        let (mut out, mut list) = (Vec::new(), Vec::new());
        for (name, method, packed, content) in files {
            let mut crc = flate2::Crc::new();
            crc.update(content);
            let head = out.len() as u32;
            // As a writer that streams: sizes and checksum are only in the list.
            out.extend(b"PK\x03\x04\x14\0\x08\0");
            out.extend(method.to_le_bytes());
            out.extend([0; 16]);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(3u16.to_le_bytes());
            out.extend(name.bytes().chain(*b"ext").chain(packed.iter().copied()));
            list.extend(b"PK\x01\x02\x14\0\x14\0\x08\0");
            list.extend(method.to_le_bytes());
            list.extend([0; 4]);
            for number in [crc.sum(), packed.len() as u32, content.len() as u32] {
                list.extend(number.to_le_bytes());
            }
            for number in [name.len() as u16, 2, 1, 0, 0, 0, 0] {
                list.extend(number.to_le_bytes());
            }
            list.extend(head.to_le_bytes());
            list.extend(name.bytes().chain(*b"xxc"));
        }
        let (at, n) = (out.len() as u32, files.len() as u16);
        out.extend(&list);
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend(n.to_le_bytes().repeat(2));
        out.extend((list.len() as u32).to_le_bytes());
        out.extend(at.to_le_bytes());
        out.extend(b"\x07\0comment");
        out
    }

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn the_only_file_of_a_zip_archive_is_read() {
        let text = b"{\"traceEvents\":[]}".repeat(9);
        let packed = deflated(&text);
        let folder: (&str, u16, &[u8], &[u8]) = ("a/", 0, b"", b"");
        let mac: (&str, u16, &[u8], &[u8]) = ("__MACOSX/a/._t.json", 0, b"x", b"x");
        let file: (&str, u16, &[u8], &[u8]) = ("a/t.json", 8, &packed, &text);
        let whole = zip(&[folder, file, mac]);
        assert!(is_packed(&whole[..100]), "the beginning tells");
        assert_eq!(*unpack("t.zip", &whole).unwrap(), text);
        let stored: (&str, u16, &[u8], &[u8]) = ("t.json", 0, &text, &text);
        assert_eq!(*unpack("t.zip", &zip(&[stored])).unwrap(), text);
        let refused = |bytes: &[u8]| unpack("t.zip", bytes).unwrap_err().to_string();
        assert_eq!(
            refused(&zip(&[file, stored])),
            "t.zip: cannot be unpacked: zip: it has 2 files (a/t.json, t.json): unpack it and choose one"
        );
        assert!(refused(&zip(&[folder, mac])).ends_with("zip: there is no file in it"));
        let wrong: (&str, u16, &[u8], &[u8]) = ("t.json", 0, b"xx", b"yy");
        assert!(refused(&zip(&[wrong])).ends_with("zip: the checksum of its file is wrong"));
        let lzma: (&str, u16, &[u8], &[u8]) = ("t.json", 14, b"xx", b"xx");
        assert!(refused(&zip(&[lzma])).ends_with("zip: its file is packed by method 14"));
        let bomb = deflated(&vec![0; 8 << 20]);
        let bomb = zip(&[("t.json", 8, &bomb, b"")]);
        let error = unpack_within("t.zip", &bomb, 1 << 20).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    #[test]
    fn a_cut_or_flipped_zip_archive_does_no_harm() {
        let text = b"0123456789".repeat(30);
        let whole = zip(&[("t.json", 8, &deflated(&text), &text)]);
        // All but the comment, which nobody needs.
        for n in 4..whole.len() - 7 {
            assert!(unpack("cut.zip", &whole[..n]).is_err(), "cut at {n}");
        }
        for at in 4..whole.len() {
            for mask in [0xff, 0x80, 1] {
                let mut flipped = whole.clone();
                flipped[at] ^= mask;
                if let Ok(out) = unpack("flipped.zip", &flipped) {
                    assert_eq!(*out, text, "{mask:#x} at {at}");
                }
            }
        }
    }

    #[test]
    fn what_atrace_compressed_is_unpacked() {
        let text = b"# tracer: nop\n".repeat(9);
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        packed.write_all(&text).unwrap();
        let packed = packed.finish().unwrap();
        for before in ["TRACE:\n", "capturing trace... done\nTRACE:\n"] {
            let whole = [before.as_bytes(), &packed].concat();
            assert!(is_packed(&whole));
            assert_eq!(*unpack("t.trace", &whole).unwrap(), text);
            assert!(unpack("t.trace", &whole[..whole.len() - 9]).is_err());
            let plain = [before.as_bytes(), &text].concat();
            assert_eq!(*unpack("t.trace", &plain).unwrap(), plain);
        }
    }

    #[test]
    fn cut_files_are_errors() {
        let packed = gzip(b"some text that is long enough to be cut in the middle");
        for n in 4..packed.len() {
            assert!(matches!(unpack("cut.gz", &packed[..n]), Err(Error::Unpack { .. })));
        }
        let half = &packed[..packed.len() / 2];
        assert_eq!(
            unpack("cut.gz", half).unwrap_err().to_string(),
            "cut.gz: cannot be unpacked: it was cut: the end is missing"
        );
    }
}
