//! Functions and loops that `kasuri-annotate` annotated and that switched themselves off, as they were too short.
//!
//! The program says it in a message with arguments (`compilers/runtime/auto.c`); any program may write such ones.
use crate::{ArgValue, ProcessIx, StrIx, Stray, Time, Trace};

/// The argument whose value is the name of what is switched off.
const NAME: &str = "kasuri.switched_off";
/// The mean that was too short, ns.
const MEAN: &str = "kasuri.mean_ns";
/// Not 0: it was off when the recording began.
const BEFORE: &str = "kasuri.is_before";

/// A function or loop that was annotated until it had been seen to be too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchedOff {
    /// Of its slices.
    pub name: StrIx,
    /// Whose.
    pub process: ProcessIx,
    /// The mean of the last 1,000 executions that one thread measured.
    pub mean_ns: u64,
    /// Its slices end here; none: it was off when the recording began.
    pub at: Option<Time>,
}

/// What was switched off, each once, in the order of threads and time.
pub fn switched_off(trace: &Trace) -> Vec<SwitchedOff> {
    let args = &trace.args;
    // Most recordings have none: no look at each argument.
    if !trace.strings.index.contains_key(NAME) {
        return Vec::new();
    }
    let is_named = |row: usize, name: &str| trace.strings.get(args.name[row]) == name;
    let mut known = std::collections::HashSet::new();
    let mut out = Vec::new();
    for row in 0..args.name.len() {
        let instant = args.instant[row];
        let ArgValue::Str(name) = args.value[row] else {
            continue;
        };
        if !instant.is_some() || !is_named(row, NAME) {
            continue;
        }
        let process = trace.threads[trace.instants.thread[instant.ix()].ix()].process;
        if !known.insert((process, name)) {
            continue;
        }
        let rest = (row + 1..args.name.len()).take_while(|&r| args.instant[r] == instant);
        let number = |key: &str| {
            (rest.clone().filter(|&r| is_named(r, key))).find_map(|r| match args.value[r] {
                ArgValue::Uint(value) => Some(value),
                _ => None,
            })
        };
        out.push(SwitchedOff {
            name,
            process,
            mean_ns: number(MEAN).unwrap_or(0),
            at: (number(BEFORE).unwrap_or(0) == 0).then(|| trace.instants.time[instant.ix()]),
        });
    }
    out
}

impl Trace {
    /// What the recording does not show: what its recorder said, annotations that switched themselves off, and time stamps
    /// that stand apart from all others.
    pub fn missing(&self) -> Vec<String> {
        self.missing_given(self.stray().as_ref())
    }

    /// The same for a caller that has asked for the stray time stamps already, which takes a pass over all of them.
    pub fn missing_given(&self, stray: Option<&Stray>) -> Vec<String> {
        let known = self.info.missing.iter().cloned();
        known.chain(limitation(self)).chain(stray.map(|found| self.stray_text(found))).collect()
    }
}

/// None where nothing was switched off.
fn limitation(trace: &Trace) -> Option<String> {
    const SHOWN: usize = 3;
    let off = switched_off(trace);
    let mut names: Vec<&str> = off.iter().map(|o| trace.strings.get(o.name)).collect();
    names.sort_unstable();
    names.dedup();
    let list = names[..names.len().min(SHOWN)].join(", ");
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "functions and loops that switched their annotations off, as they are too short: {list}{more}; since then their \
             time is in what called them"
        )
    })
}
