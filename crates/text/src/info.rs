//! What `kasuri info` says of a file: its contents, and what its recorder measured of itself.
use kasuri_analyze::Contents;
use kasuri_model::Trace;
use schemars::JsonSchema;
use serde::Serialize;

/// The answer of `kasuri info`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Info {
    /// What is in the file.
    #[serde(flatten)]
    pub contents: Contents,
    /// How long calls of the recorder took for which threads of programs may have had to wait; none: not measured.
    pub held_up: Option<HeldUp>,
}

/// Calls of the recorder for which threads of programs may have had to wait: one that waited for a call waited no longer than that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldUp {
    /// Those that read memory or list mappings.
    pub memory: TimedCalls,
    /// Those that switch uprobes on or off, while it is recorded.
    pub probes: TimedCalls,
}

/// Calls of one kind, by the recorder's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimedCalls {
    /// Their number.
    pub n: u64,
    /// The longest of them.
    pub longest_ns: i64,
    /// All together.
    pub sum_ns: i64,
}

/// The answer about a trace.
pub fn info(trace: &Trace) -> Info {
    let calls = |of: kasuri_model::TimedCalls| TimedCalls {
        n: of.n,
        longest_ns: of.longest.ns(),
        sum_ns: of.sum.ns(),
    };
    Info {
        contents: kasuri_analyze::contents(trace),
        held_up: trace
            .info
            .held_up
            .map(|of| HeldUp { memory: calls(of.memory), probes: calls(of.probes) }),
    }
}
