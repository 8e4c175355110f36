//! Kasuri's files: bytes <-> records. No I/O, no OS calls, and no panic on any bytes. Spec: docs/format.md.
//!
//! | module | reads |
//! |---|---|
//! | [`ring`] | what annotated programs write: chunks, sites (mirror of `kasuri.h` part 1) |
//! | [`tracefs`] | format files and raw ring-buffer pages of the kernel |
//! | [`perf`] | records of a perf ring: switches, forks, exits, names |
//! | [`meta`] | `meta.json`, `anchors.jsonl`, `kernel-loss.jsonl`, `procs.jsonl` |
//! | [`clock`] | anchors -> CLOCK_MONOTONIC |
//! | [`container`] | the packed `.kasuri` file, both ways |
//!
//! # Public names
//! ```text
//! Error { kind, what, offset, found, needed, remedy }, ErrorKind, Result
//! meta:      Meta::{parse, to_json}, Anchor, Host, KernelMeta, AnnotationsMeta, KernelLoss, Proc,
//!            ClientLoss::parse(pid, generation, bytes), parse_lines<T>(what, bytes) -> (Vec<T>, Option<Error>), to_lines(&[T])
//! clock:     ClockMap::{identity, from_anchors, monotonic_ns, convert(&[u64], &mut Vec<i64>), stamp_at}
//! ring:      Control, Segment, SitesHeader, SiteDef, ChunkHeader; Clock, Policy, SessionState, ChunkState, Lost, Kind,
//!            WaitKind, LockMode, ArgType (each ::from_number); Chunk::{parse, events}, RingEvent, Shape,
//!            parse_chunks(bytes) -> (Vec<Chunk>, Option<Error>), streams(&[Chunk]) -> Vec<Vec<Chunk>>,
//!            SiteTable::{parse, salvage, to_bytes, get}, Site, Sites::{new, resolve(pid, generation, id), tables}
//! tracefs:   EventFormat::parse(name, text), Field, FieldKind, EventTable::{from_meta(&KernelMeta), types, find(name)},
//!            PageLayout::from_meta(&KernelMeta), Page::parse(bytes, &layout, offset), RawEvent, Missed
//! perf:      parse_records(bytes, big_endian) -> iterator of Result<Record>; Record, RecordKind
//! container: Writer::new(W, &Meta)? .anchors(&[Anchor])? .procs(&[Proc])? .kernel_losses(&[KernelLoss])?
//!            .client_losses(&[ClientLoss])? .sites(&SiteTable)? .blocks(&EncodedBlocks)? .finish()? -> (W, bytes);
//!            encode_kernel_blocks(&EventTable, &PageLayout, cpu, pages, &EncodeOptions) -> EncodedBlocks
//!            encode_annotation_blocks(pid, generation, &[Chunk of one stream], &EncodeOptions) -> EncodedBlocks
//!            encode_perf_blocks(cpu, bytes, big_endian, &EncodeOptions) -> EncodedBlocks
//!            EncodeOptions { keep: Option<RangeInclusive<u64>>, level: i32 }, EncodedBlocks { n_events, n_damaged, errors, .. }
//!            Recording::parse(&[u8]) -> Result<Recording>, Recording::salvage(&[u8]) -> (Recording, Vec<Error>)
//!            .meta() .anchors() .procs() .kernel_losses() .client_losses() .sites() .event_types() .blocks() -> &[BlockInfo]
//!            .kernel_block(ix)? -> KernelBlock { cpu, stamps, types, missed, .. } .group(type) -> Option<Group>
//!               Group::{event_type, len, column_by_name("next_pid")? -> Column}; Column::{Ints, Bytes}, .i64s(), .ids(), .text(id)
//!            .annotation_block(ix)? -> AnnotationBlock { pid, generation, stream, tid, stamps, kinds, aux, sites, a, b, blobs,
//!               losses, .. }; .events() -> iterator of Annotation { stamp, kind, aux, site, a, b, blob }
//!            .perf_block(ix)? -> PerfBlock { cpu, records: Vec<perf::Record> }
//! ```
#![forbid(unsafe_code)]

mod bytes;
pub mod clock;
pub mod container;
mod error;
pub mod meta;
pub mod perf;
pub mod ring;
mod sites;
pub mod tracefs;

pub use error::{Error, ErrorKind, Result};
