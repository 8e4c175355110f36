//! Kasuri's files: bytes <-> records. No I/O, no OS calls, and no panic on any bytes. Spec: docs/format.md.
//!
//! | module | reads |
//! |---|---|
//! | [`ring`] | what annotated programs write: chunks, sites (mirror of `kasuri.h` part 1) |
//! | [`tracefs`] | format files and raw ring-buffer pages of the kernel |
//! | [`perfetto`] | Perfetto's protobuf: packets, kernel events, track events, clocks |
//! | [`perf`] | records of a perf ring: switches, forks, exits, names |
//! | [`ftrace_text`] | lines of `trace`, `trace_pipe` and `trace-cmd report` |
//! | [`perf_data`] | files of `perf record` |
//! | [`meta`] | `meta.json`, `anchors.jsonl`, `kernel-loss.jsonl`, `procs.jsonl` |
//! | [`clock`] | anchors -> CLOCK_MONOTONIC |
//! | [`trace_dat`] | files of trace-cmd and KernelShark |
//! | [`container`] | the packed `.kasuri` file, both ways |
//! | [`ctf`] | Common Trace Format of LTTng, barectf, babeltrace |
//!
//! # Public names
//! ```text
//! Error { kind, what, offset, found, needed, remedy }.offset_by(base), ErrorKind, Result
//! meta:      Meta::{parse, to_json}, Anchor, Host, KernelMeta, AnnotationsMeta, KernelLoss, Proc,
//!            ClientLoss::parse(pid, generation, bytes), parse_lines<T>(what, bytes) -> (Vec<T>, Option<Error>), to_lines(&[T])
//! clock:     ClockMap::{identity, from_anchors, monotonic_ns, convert(&[u64], &mut Vec<i64>), stamp_at}
//! ring:      Control, Segment, SitesHeader, SiteDef, ChunkHeader; Clock, Policy, SessionState, ChunkState, Lost, Kind,
//!            WaitKind, LockMode, ArgType (each ::from_number); Chunk::{parse, events}, RingEvent, Shape,
//!            parse_chunks(bytes) -> (Vec<Chunk>, Option<Error>), streams(&[Chunk]) -> Vec<Vec<Chunk>>,
//!            SiteTable::{parse, salvage, to_bytes, get}, Site, Sites::{new, resolve(pid, generation, id), tables}
//! tracefs:   EventFormat::{parse(name, text), find}, Field::{int, bytes}, FieldKind,
//!            EventTable::{from_meta(&KernelMeta), types, find(name), by_id}, PageLayout::{from_meta(&KernelMeta), LE64},
//!            Page::parse(bytes, &layout, offset) -> Page { stamp, missed }.events() -> Result<RawEvent { stamp, data, offset }>
//! perf:      parse_records(bytes, big_endian) -> iterator of Result<Record { time_ns, pid, tid, cpu, kind: RecordKind }>
//! container: Writer::new(W, &Meta)?; .anchors(&[Anchor])?, .procs(&[Proc])?, .kernel_losses(&[KernelLoss])?,
//!            .client_losses(&[ClientLoss])?, .sites(&SiteTable)?, .blocks(&EncodedBlocks)?,
//!            .copy_block(&BlockInfo, file)?; .finish()? -> (W, bytes)
//!            encode_kernel_blocks(&EventTable, &PageLayout, cpu, pages, &EncodeOptions) -> EncodedBlocks
//!            encode_annotation_blocks(pid, generation, &[Chunk of one stream], &EncodeOptions) -> EncodedBlocks
//!            encode_perf_blocks(cpu, bytes, big_endian, &EncodeOptions) -> EncodedBlocks
//!            EncodeOptions { keep: Option<RangeInclusive<u64>>, level }, EncodedBlocks { n_events, n_cut, n_damaged, n_open, errors }
//!            Recording::parse(&[u8]) -> Result<Recording>, Recording::salvage(&[u8]) -> (Recording, Vec<Error>);
//!            .meta(), .anchors(), .procs(), .kernel_losses(), .client_losses(), .sites(), .event_types(), .event_table(),
//!            .format_errors(), .table_blocks(), .blocks() -> &[BlockInfo { kind: BlockKind, n_events, first_stamp, last_stamp, ids, .. }]
//!            .kernel_block(ix)? -> KernelBlock { cpu, stamps, types, gaps }.group(type) -> Option<Group>, .groups();
//!               Group { event_type, format, len }.column_by_name("next_pid")? -> Column::{Ints, Bytes};
//!               Column::i64s() -> Option<&[i64]>, ::ints(), ::bytes() -> Option<&BytesColumn { ids }>;
//!               BytesColumn::{entry_text(id), dict_len, row(row), text(row)}
//!            .annotation_block(ix)? -> AnnotationBlock { pid, generation, stream, tid, stamps, kinds, aux, sites, shapes, a, b,
//!               blobs, losses: Vec<StreamLoss> }.events() -> iterator of Annotation { stamp, kind, aux, site, a, b, blob }
//!            .perf_block(ix)? -> PerfBlock { cpu, records: Vec<perf::Record> }
//! ```
#![forbid(unsafe_code)]

mod bytes;
pub mod clock;
pub mod container;
pub mod ctf;
mod error;
pub mod ftrace_text;
pub mod meta;
pub mod perf;
pub mod perf_data;
pub mod perfetto;
pub mod ring;
mod sites;
pub mod trace_dat;
pub mod tracefs;

pub use error::{Error, ErrorKind, Result};
