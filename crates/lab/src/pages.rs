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

/// Calls `f` with the id of each event in `path`, and the event; bytes of the pages' headers and events. Damaged pages are left out.
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
    // Not more than there is: most files of a short look are a page or two.
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
