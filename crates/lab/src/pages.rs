//! Raw pages of the kernel, as a recording directory and the lab's scratch directory hold them.
use crate::error::{Error, Result};
use kasuri_format::tracefs::{Page, PageLayout, RawEvent};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes read at once: a multiple of all pages, which are powers of two.
const CHUNK: usize = 1 << 20;

/// Bytes of the header before an event's data in the ring buffer.
pub(crate) const HEADER_BYTES: u32 = 4;

/// Bytes of an event in the kernel's buffer, its header among them.
pub fn bytes_of(event: &RawEvent<'_>) -> u64 {
    event.data.len() as u64 + u64::from(HEADER_BYTES)
}

/// Calls `f` with the id of each event in `path`, and the event. Returns the bytes of the pages' headers and events.
/// Skips damaged pages.
///
/// # Errors
/// When the file cannot be read.
pub fn each_event(
    path: &Path,
    layout: &PageLayout,
    mut f: impl FnMut(u16, &RawEvent<'_>),
) -> Result<u64> {
    let refused = |e| Error::File(path.to_owned(), e);
    let mut file = File::open(path).map_err(refused)?;
    let bytes = file.metadata().map_err(refused)?.len();
    // No more than the file has: most files of a short measurement are a page or two.
    let mut left = bytes as usize / layout.page_bytes * layout.page_bytes;
    let whole = left.min(CHUNK);
    let mut buffer = vec![0; whole];
    let mut used = 0;
    while left > 0 {
        let now = left.min(whole);
        file.read_exact(&mut buffer[..now]).map_err(refused)?;
        left -= now;
        for page in buffer[..now].chunks_exact(layout.page_bytes) {
            let Ok(page) = Page::parse(page, layout, 0) else {
                continue;
            };
            used += (layout.data_offset + page.event_bytes()) as u64;
            for event in page.events().map_while(|e| e.ok()) {
                if let Some(id) = event.id(layout.big_endian) {
                    f(id, &event);
                }
            }
        }
    }
    Ok(used)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page that begins at `stamp`, with events of [ticks since the one before, id, bytes of data]; the rest of it was never written.
    pub(crate) fn page(stamp: u64, events: &[[u32; 3]]) -> Vec<u8> {
        let mut data = Vec::new();
        for &[ticks, id, bytes] in events {
            let words = bytes.div_ceil(4);
            data.extend((words | ticks << 5).to_le_bytes());
            let at = data.len();
            data.resize(at + 4 * words as usize, 0);
            data[at..at + 2].copy_from_slice(&(id as u16).to_le_bytes());
        }
        let mut page = stamp.to_le_bytes().to_vec();
        page.extend((data.len() as u64).to_le_bytes());
        page.extend(data);
        page.resize(4096, 0xee);
        page
    }

    #[test]
    fn events_of_good_pages_are_seen_and_bytes_counted() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("cpu0.raw");
        let mut damaged = page(1, &[[0, 9, 8]]);
        damaged[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let pages = [
            page(100, &[[5, 7, 12], [10, 8, 20]]),
            damaged,
            page(200, &[]),
            page(300, &[[1, 7, 8]]),
            // Half a page, as a recording that still runs leaves it.
            vec![0; 1000],
        ];
        std::fs::write(&path, pages.concat()).unwrap();
        let mut seen = Vec::new();
        let used = each_event(&path, &PageLayout::LE64, |id, event| {
            seen.push((id, event.stamp, bytes_of(event)));
        });
        assert_eq!(seen, [(7, 105, 16), (8, 115, 24), (7, 301, 12)]);
        assert_eq!(used.unwrap(), 3 * 16 + 16 + 24 + 12);
        let missing = each_event(&scratch.path().join("none"), &PageLayout::LE64, |_, _| {});
        assert!(missing.is_err());
    }

    #[test]
    fn more_pages_than_are_read_at_once_are_all_seen() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("cpu0.raw");
        let n = 2 * CHUNK / 4096 + 3;
        let bytes: Vec<u8> = (0..n).flat_map(|i| page(i as u64, &[[0, 7, 8]])).collect();
        std::fs::write(&path, bytes).unwrap();
        let mut stamps = Vec::new();
        each_event(&path, &PageLayout::LE64, |_, event| stamps.push(event.stamp)).unwrap();
        assert_eq!(stamps, (0..n as u64).collect::<Vec<_>>());
    }
}
