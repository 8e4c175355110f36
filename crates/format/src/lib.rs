//! Kasuri's files: bytes <-> records. No I/O, no OS calls, and no panic on any bytes. Spec: docs/format.md.
//!
//! | module | reads |
//! |---|---|
//! | [`ring`] | what annotated programs write: chunks, sites (mirror of `kasuri.h` part 1) |
//! | [`tracefs`] | format files and raw ring-buffer pages of the kernel |
//! | [`perfetto`] | Perfetto's protobuf: packets, kernel events, track events, clocks |
//! | [`pprof`] | pprof's profiles |
//! | [`perf`] | records of a perf ring: switches, forks, exits, names |
//! | [`ftrace_text`] | lines of `trace`, `trace_pipe` and `trace-cmd report` |
//! | [`perf_data`] | files of `perf record` |
//! | [`hindrance`] | what kept programs from having more rings |
//! | [`meta`] | `meta.json`, `anchors.jsonl`, `kernel-loss.jsonl`, `procs.jsonl` |
//! | [`call_paths`] | modules, frames, call paths, samples and their names |
//! | [`clock`] | anchors -> CLOCK_MONOTONIC |
//! | [`trace_dat`] | files of trace-cmd and KernelShark |
//! | [`container`] | the packed `.kasuri` file, both ways |
//! | [`ctf`] | Common Trace Format of LTTng, barectf, babeltrace |
#![forbid(unsafe_code)]

mod bytes;
pub mod call_paths;
pub mod clock;
pub mod container;
pub mod ctf;
mod error;
pub mod ftrace_text;
pub mod hindrance;
pub mod meta;
pub mod perf;
pub mod perf_data;
pub mod perfetto;
pub mod pprof;
pub mod ring;
mod sites;
pub mod trace_dat;
pub mod tracefs;

pub use error::{Error, ErrorKind, Result};
