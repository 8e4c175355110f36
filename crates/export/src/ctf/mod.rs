//! Common Trace Format, 1.8 and 2: a directory with a kernel trace, under LTTng's names, and a user-space trace.
//!
//! The specifications are those of <https://diamon.org/ctf/>. Both versions have the same streams of bytes and differ
//! in the `metadata` file, which describes them: a language of its own (TSDL) in 1.8, JSON in 2.
//!
//! | file | made by | contents |
//! |---|---|---|
//! | `kernel/metadata`, `ust/metadata` | `class.rs` | the kinds of events and their fields |
//! | `kernel/channel0_N` | `kernel.rs` | scheduler events and kernel spans of CPU N |
//! | `ust/annotations` | `user.rs` | annotations of all threads |
//!
//! `stream.rs` writes the packets of the last two. Trace Compass's kernel views know lttng-modules' events;
//! babeltrace2 reads any. Annotations are events of a provider `kasuri`, whose threads are LTTng-UST's contexts vtid,
//! vpid and procname.
mod class;
mod kernel;
mod stream;
mod user;

use crate::Exported;
use class::Description;
use kasuri_model::{KernelSpanKind, Trace};
use serde_json::{Value, json};
use std::io::{self, Write};
use stream::comm;

/// A file that is being written.
pub type File = Box<dyn Write>;
/// Makes a file of the export, by its path in the directory.
pub type Directory<'a> = dyn FnMut(&str) -> io::Result<File> + 'a;

/// The version of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The version that babeltrace2 2.0 and Trace Compass read.
    V1_8,
    /// With metadata in JSON: babeltrace2 from 2.1 on.
    V2,
}

/// Writes the whole recording into files of a directory.
///
/// # Errors
/// Those of `directory` and of its files.
pub fn write(
    trace: &Trace,
    version: Version,
    directory: &mut Directory<'_>,
) -> io::Result<Exported> {
    let mut records = 0;
    let has_kernel = trace.cpus.iter().any(|cpu| cpu.recorded);
    if has_kernel {
        let classes = kernel::Classes::new(trace);
        let description = Description {
            uuid: uuid(trace, 0),
            context: kernel::CONTEXT,
            has_cpu: true,
            env: env(trace, "kernel", "lttng-modules"),
            clock_offset_ns: clock_offset(trace),
            classes: &classes.all,
        };
        metadata(&description, version, "kernel/metadata", directory)?;
        records += kernel::write(trace, &classes, description.uuid, directory)?;
    }
    let has_annotations = !trace.slices.start.is_empty()
        || !trace.instants.time.is_empty()
        || !trace.counters.is_empty()
        || !trace.flows.id.is_empty();
    if has_annotations || !has_kernel {
        let description = Description {
            uuid: uuid(trace, 1),
            context: user::CONTEXT,
            has_cpu: false,
            env: env(trace, "ust", "kasuri"),
            clock_offset_ns: clock_offset(trace),
            classes: &user::classes(),
        };
        metadata(&description, version, "ust/metadata", directory)?;
        records += user::write(trace, description.uuid, directory)?;
    }
    Ok(Exported { records, left_out: left_out(trace) })
}

/// Writes the description of a trace in the language of the version.
fn metadata(
    description: &Description<'_>,
    version: Version,
    path: &str,
    directory: &mut Directory<'_>,
) -> io::Result<()> {
    let text = match version {
        Version::V1_8 => class::tsdl(description),
        Version::V2 => class::json(description),
    };
    let mut file = directory(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// ns since 1970 where the recording's clock is 0; none: not known.
fn clock_offset(trace: &Trace) -> Option<i64> {
    let known = Some(trace.origin_realtime_ns).filter(|&ns| ns != 0)?;
    Some(known.saturating_sub(trace.origin_monotonic_ns))
}

/// The id of a trace: the same recording always gets the same one. `which` tells the two traces of a recording apart.
fn uuid(trace: &Trace, which: u64) -> [u8; 16] {
    // FNV-1a, twice with different starts, over numbers that differ between recordings.
    let mut halves = [0xcbf2_9ce4_8422_2325u64, 0x8422_2325_cbf2_9ce4];
    let words = [
        trace.origin_monotonic_ns as u64,
        trace.origin_realtime_ns as u64,
        trace.span.end.ns() as u64,
        trace.n_kernel_events,
        trace.n_annotation_events,
        which,
    ];
    let bytes = words.iter().flat_map(|w| w.to_le_bytes()).chain(trace.info.host.bytes());
    for byte in bytes {
        for half in &mut halves {
            *half = (*half ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let mut out = [0; 16];
    out[..8].copy_from_slice(&halves[0].to_le_bytes());
    out[8..].copy_from_slice(&halves[1].to_le_bytes());
    // Version 8 and variant 1 of RFC 9562: a UUID in a format of its maker's own.
    out[6] = out[6] & 0x0f | 0x80;
    out[8] = out[8] & 0x3f | 0x80;
    out
}

/// Facts that readers show about the trace, and by which they choose their tables of event names.
fn env(trace: &Trace, domain: &str, tracer: &str) -> Vec<(&'static str, Value)> {
    let info = &trace.info;
    let mut out = vec![
        ("hostname", json!(info.host)),
        ("domain", json!(domain)),
        ("tracer_name", json!(tracer)),
        // The version whose names and fields are used: readers choose their tables by it.
        ("tracer_major", json!(2)),
        ("tracer_minor", json!(13)),
        ("trace_name", json!("kasuri")),
        ("exporter", json!(format!("kasuri {}", env!("CARGO_PKG_VERSION")))),
    ];
    if domain == "kernel" {
        out.push(("sysname", json!("Linux")));
        out.push(("kernel_release", json!(info.kernel)));
        out.push(("kernel_version", json!("")));
        out.push(("machine", json!(info.machine)));
    }
    out
}

/// Lists what a reader of the directory will not find.
fn left_out(trace: &Trace) -> Vec<String> {
    let mut out = Vec::new();
    if trace.cpus.iter().any(|cpu| cpu.recorded) {
        out.push("thread priorities (shown as 20), names of threads beyond 15 bytes".to_owned());
    }
    out.extend(crate::sched_events::notes(trace));
    if trace.kernel_spans.kind.contains(&KernelSpanKind::Irq) {
        out.push("numbers of interrupts (shown as 0)".into());
    }
    if !trace.tasks.is_empty() {
        out.push("which task ran in a slice, and who created whom".into());
    }
    if !trace.locks.is_empty() || !trace.lock_counts.n.is_empty() {
        out.push("kinds of locks, counts of unrecorded holds".into());
    }
    let of_threads = trace.losses.iter().filter(|l| l.cpu.is_none()).count();
    if of_threads > 0 {
        out.push(format!("{of_threads} losses of annotations"));
    }
    out
}
