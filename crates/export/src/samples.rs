//! What all formats with call paths need: names of frames, paths from the outside in, and the period of samples.
use kasuri_model::{PathIx, SampleKind, Time, Trace};

/// The name of a frame as it is in the recording (not demangled, like all names that are exported); without one its module and
/// address, `libc.so.6+0x1234`.
pub(crate) fn frame_name(trace: &Trace, row: usize) -> String {
    let f = &trace.frames;
    let function = trace.strings.get(f.function[row]);
    if !function.is_empty() {
        return function.to_owned();
    }
    let path = trace.strings.get(f.module[row]);
    match path.rsplit('/').next() {
        Some(module) if !module.is_empty() => format!("{module}+{:#x}", f.address[row]),
        _ => format!("{:#x}", f.address[row]),
    }
}

/// The frames of a path as rows of `Trace::frames`, outermost first.
pub(crate) fn outermost_first(trace: &Trace, path: PathIx) -> Vec<usize> {
    let mut frames: Vec<usize> = trace.frames_of(path).map(|frame| frame.ix()).collect();
    frames.reverse();
    frames
}

/// Whether the recording has a sample that this is true of.
pub(crate) fn has(trace: &Trace, is_meant: impl Fn(SampleKind) -> bool) -> bool {
    trace.samples.kind.iter().any(|&kind| is_meant(kind))
}

/// CPU time from one on-CPU sample to the next, as the recorder was asked for it.
pub(crate) struct Period {
    /// From then on, on this CPU (none: all), so many ns; by time.
    steps: Vec<(Time, Option<u16>, i64)>,
}

impl Period {
    pub fn new(trace: &Trace) -> Period {
        let is_clock = |source: &str| matches!(source, "tick" | "cpu-clock");
        let rows = trace.sampling.iter();
        let rows = rows.filter(|row| row.on && row.period_ns > 0 && is_clock(&row.source));
        let step = |row: &kasuri_model::SamplingChange| {
            let ns = i64::try_from(row.period_ns).unwrap_or(i64::MAX);
            (row.time, row.cpu, ns)
        };
        let mut steps: Vec<_> = rows.map(step).collect();
        steps.sort_by_key(|step| step.0);
        Period { steps }
    }

    /// Whether the recording says no period at all.
    pub fn is_unknown(&self) -> bool {
        self.steps.is_empty()
    }

    /// ns at this time on this CPU; before the first row what that says; 1 without any.
    pub fn at(&self, time: Time, cpu: u16) -> i64 {
        let is_here = |of: Option<u16>| of.is_none_or(|of| of == cpu);
        let begun = self.steps.partition_point(|step| step.0 <= time);
        let last = self.steps[..begun].iter().rfind(|step| is_here(step.1));
        last.or(self.steps.first()).map_or(1, |step| step.2)
    }
}
