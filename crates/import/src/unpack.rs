//! Undoes gzip and zstd around a whole file, and limits the size of the result.
//!
//! The compression is recognized by its magic number: gzip (RFC 1952) `1f 8b 08`, zstd (RFC 8878) `28 b5 2f fd`.
//! Concatenated gzip members are one stream. Traces with compressed parts inside (trace.dat, Perfetto, perf.data) are
//! the business of their readers.
use crate::Error;
use std::borrow::Cow;
use std::io::Read;

/// Bytes that any file may unpack to.
const ALWAYS: u64 = 1 << 30;
/// A larger result may be this many times the packed size. Traces as text shrink to a tenth or a fiftieth, bombs to a
/// thousandth.
const RATIO: u64 = 100;

const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Whether the bytes begin as a compressed file.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(GZIP) || bytes.starts_with(ZSTD)
}

/// Unpacks a compressed file, and borrows any other as it is.
///
/// # Errors
/// Damage, or more than a hundred times the packed size (1 GiB is always allowed).
pub fn unpack<'a>(file: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
    let limit = ALWAYS.max((bytes.len() as u64).saturating_mul(RATIO));
    unpack_within(file, bytes, limit)
}

/// As [`unpack`], with a limit in bytes.
fn unpack_within<'a>(file: &str, bytes: &'a [u8], limit: u64) -> Result<Cow<'a, [u8]>, Error> {
    let cannot = |error| Error::Unpack {
        file: file.to_owned(),
        error,
    };
    let reader: Box<dyn Read> = if bytes.starts_with(GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(bytes))
    } else if bytes.starts_with(ZSTD) {
        Box::new(zstd::stream::read::Decoder::with_buffer(bytes).map_err(cannot)?)
    } else {
        return Ok(Cow::Borrowed(bytes));
    };
    // One byte more than allowed shows that the limit was exceeded, without unpacking the rest.
    let mut out = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(cannot)?;
    if out.len() as u64 > limit {
        return Err(Error::TooLarge {
            file: file.to_owned(),
            limit,
        });
    }
    Ok(Cow::Owned(out))
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
        assert_eq!(
            error.to_string(),
            "bomb.gz: unpacks to more than 1000 bytes; unpack it by hand if it is no bomb"
        );
        assert!(unpack_within("fits.gz", &bomb, 1 << 20).is_ok());
    }

    #[test]
    fn cut_files_are_errors() {
        let packed = gzip(b"some text that is long enough to be cut in the middle");
        for n in 4..packed.len() {
            assert!(matches!(
                unpack("cut.gz", &packed[..n]),
                Err(Error::Unpack { .. })
            ));
        }
    }
}
