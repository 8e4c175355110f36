//! What the recorder itself may have held up, as `kasuri info` and `kasuri stat` say it.
use kasuri_model::Info;
use schemars::JsonSchema;
use serde::Serialize;

/// Calls of the recorder for which threads of programs may have had to wait: one that waited for a
/// call waited no longer than that took.
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

impl HeldUp {
    /// Those of a recording; none: not measured.
    pub fn of(info: &Info) -> Option<HeldUp> {
        let calls = |of: kasuri_model::TimedCalls| TimedCalls {
            n: of.n,
            longest_ns: of.longest.ns(),
            sum_ns: of.sum.ns(),
        };
        info.held_up.map(|of| HeldUp { memory: calls(of.memory), probes: calls(of.probes) })
    }
}
