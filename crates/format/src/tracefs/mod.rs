//! The kernel's ring buffers as tracefs hands them out: self-describing format files and raw pages.

mod event_format;
mod page;

pub use event_format::{EventFormat, EventTable, Field, FieldKind, UNKNOWN_EVENT};
pub use page::{Missed, Page, PageEvents, PageLayout, RawEvent};
