//! The kernel's ring buffers as tracefs hands them out: self-describing format files and raw pages.
//!
//! A page ([`Page`]) holds stamps and raw events; an event's first two bytes are its type's number. The format file with that
//! number ([`EventFormat`], found in the [`EventTable`]) gives name, offset, size and kind of each field. Kasuri's own
//! recordings, trace.dat and perf.data store the same bytes, so all three readers end here.

mod event_format;
mod page;

pub use event_format::{EventFormat, EventTable, Field, FieldKind, UNKNOWN_EVENT};
pub use page::{Missed, Page, PageEvents, PageLayout, Place, RawEvent};
