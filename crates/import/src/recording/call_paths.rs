//! Turns the call paths of a recording into columns: paths of addresses by [`crate::paths`], samples here.
use crate::paths::{self, Lives, Sample};
use kasuri_format::call_paths::{NONE, PathEnd, SampleKind as Kind};
use kasuri_format::container::{BlockKind, Recording};
use kasuri_format::meta::SamplingRow;
use kasuri_model::{Duration, PathIx, SampleKind, SamplingChange, Time, Trace};

/// Fills `trace.frames`, `paths`, `samples` and `sampling`; gives the number of samples whose thread is not known.
/// Blocks that cannot be decoded were reported when the recording was opened, or are passed over.
pub(super) fn add_to(
    trace: &mut Trace,
    recording: &Recording<'_>,
    at: impl Fn(u64) -> Time,
) -> u64 {
    let path_of = paths::expand(recording.call_paths(), trace);
    trace.sampling = recording.sampling().iter().map(|row| change(row, &at)).collect();
    // Readers look the changes up by time.
    trace.sampling.sort_by_key(|change| change.time);
    add_samples(trace, recording, &path_of, at)
}

/// One change of the sampling, in the model's types. A CPU number that the model cannot hold counts as all CPUs.
fn change(row: &SamplingRow, at: impl Fn(u64) -> Time) -> SamplingChange {
    SamplingChange {
        time: at(row.monotonic_ns),
        source: row.source.clone(),
        on: row.on,
        cpu: row.cpu.and_then(|cpu| u16::try_from(cpu).ok()),
        period_ns: row.period_ns,
        lost: row.lost,
        reason: row.reason.clone(),
    }
}

fn add_samples(
    trace: &mut Trace,
    recording: &Recording<'_>,
    path_of: &[PathIx],
    at: impl Fn(u64) -> Time,
) -> u64 {
    let lives = Lives::new(trace);
    let mut rows = Vec::new();
    let mut unknown = 0;
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind != BlockKind::Samples {
            continue;
        }
        // A block that cannot be decoded has no samples here; `add_to` says where that is reported.
        for sample in recording.sample_block(ix).unwrap_or_default() {
            let time = at(sample.time_ns);
            let Some(thread) = lives.of(trace, sample.tid, time) else {
                unknown += 1;
                continue;
            };
            // A stack that was read from outside, while the thread slept, belongs to no CPU; the file has 0.
            let is_read = sample.kind == Kind::BlockedRead;
            rows.push(Sample {
                thread,
                time,
                cpu: match u16::try_from(sample.cpu) {
                    Ok(cpu) if !is_read => cpu,
                    _ => u16::MAX,
                },
                kind: match sample.kind {
                    Kind::OnCpu => SampleKind::OnCpu,
                    Kind::Blocked => SampleKind::Blocked,
                    Kind::BlockedRead => SampleKind::BlockedRead,
                    Kind::Waker => SampleKind::Waker,
                    Kind::LockWait => SampleKind::LockWait,
                },
                is_complete: sample.end == PathEnd::Complete,
                path: match sample.path {
                    NONE => PathIx::NONE,
                    path => path_of.get(path as usize).copied().unwrap_or_default(),
                },
                weight: Duration::ZERO,
            });
        }
    }
    paths::add_samples(trace, rows, false);
    unknown
}
