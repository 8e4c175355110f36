//! Common Trace Format, 1.8 and 2: metadata, and the streams that it describes.
//!
//! | module | does |
//! |---|---|
//! | [`types`] | the content of metadata, in either language |
//! | `metadata`, `tsdl`, `json` | a `metadata` file -> [`Metadata`] |
//! | `limits` | types that grow beyond reason are refused |
//! | `compile`, `program` | a type -> operations that decode it |
//! | `layout` | all types of a trace, compiled |
//! | `bits`, `stream` | packets and events |
mod bits;
mod compile;
mod json;
mod layout;
mod limits;
mod metadata;
mod program;
mod stream;
mod tsdl;
pub mod types;

pub use layout::{EventLayout, Layout, StreamLayout};
pub use metadata::is_metadata;
pub use program::{Leaf, LeafKind, Program, Value};
pub use stream::{Head, Packet, Reader, is_stream, packets};
pub use types::{Clock, EnvValue, Metadata};
