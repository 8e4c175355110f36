//! What events cost on this machine, measured once and remembered.
//!
//! The file `$XDG_CACHE_HOME/kasuri/event-costs.json` (usually below `~/.cache`) belongs to one kernel, CPU model and
//! version of kasuri; with another it is measured anew. Losing it costs a second.
//!
//! Events of one subsystem are measured together and share the cost evenly ([`Probe::measure_together`] says why): what a
//! recording wants to know is the sum.
use crate::error::Result;
use crate::events::{Probe, Table, provoker_of};
use crate::ops;
use crate::stats::{Estimate, median};
use crate::tracer::Kernel;
use crate::worker::Worker;
use kasuri_format::ring::Policy;
use kasuri_record::clock::StampClock;
use kasuri_record::session::{Session, SessionOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name under which the cost of an annotation is kept.
pub const ANNOTATION: &str = "annotation";

/// ns per event with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Median.
    pub ns: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Estimate> for Cost {
    fn from(e: Estimate) -> Cost {
        // A cost below nothing is chance; as a cost it is nothing.
        Cost {
            ns: e.median.max(0.0),
            low: e.low.max(0.0),
            high: e.high.max(0.0),
        }
    }
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Kernel release, CPU model, version: all must be those of now.
    pub machine: [String; 3],
    /// By `system/name`, and [`ANNOTATION`].
    pub events: BTreeMap<String, Cost>,
    /// Events that no operation provokes here: they are not looked for again.
    pub unknown: Vec<String>,
}

fn machine() -> [String; 3] {
    let host = kasuri_record::host::host();
    [
        host.kernel,
        host.cpu_model,
        env!("CARGO_PKG_VERSION").to_owned(),
    ]
}

/// Where costs are remembered.
pub fn path() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("kasuri/event-costs.json"))
}

impl Costs {
    /// What is remembered of this machine; empty when nothing is.
    pub fn load() -> Costs {
        let read = || {
            let text = std::fs::read(path()?).ok()?;
            serde_json::from_slice::<Costs>(&text).ok()
        };
        read()
            .filter(|costs| costs.machine == machine())
            .unwrap_or_else(|| Costs {
                machine: machine(),
                ..Costs::default()
            })
    }

    /// Remembers; a cache that cannot be written is only slower.
    pub fn store(&self) {
        let write = || -> std::io::Result<()> {
            let path = path().ok_or(std::io::ErrorKind::NotFound)?;
            let dir = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(dir)?;
            let part = dir.join(format!("event-costs.{}.part", std::process::id()));
            std::fs::write(&part, serde_json::to_vec_pretty(self)?)?;
            std::fs::rename(&part, &path)
        };
        let _ = write();
    }

    /// Which of `wanted` are not known yet.
    pub fn missing<'a>(&self, wanted: &'a [String]) -> Vec<&'a str> {
        wanted
            .iter()
            .map(String::as_str)
            .filter(|name| {
                !self.events.contains_key(*name) && !self.unknown.iter().any(|u| u == name)
            })
            .collect()
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Bench {
    /// CPU to measure on.
    pub cpu: u32,
    /// Runs [`crate::worker::serve`]: executable and arguments.
    pub worker: (PathBuf, Vec<String>),
    /// For raw pages.
    pub scratch: PathBuf,
    /// Where ring sessions are made.
    pub shm_dir: PathBuf,
    /// Differences taken of each event.
    pub rounds: u32,
}

/// Measures those of `wanted` that `costs` lacks, and adds them.
///
/// # Errors
/// When there is nothing to measure with.
pub fn learn(costs: &mut Costs, wanted: &[String], bench: &Bench) -> Result<()> {
    let missing: Vec<String> = costs
        .missing(wanted)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let (executable, arguments) = &bench.worker;
    if missing.iter().any(|name| name == ANNOTATION) {
        costs
            .events
            .insert(ANNOTATION.to_owned(), annotation(bench)?.into());
    }
    if missing.iter().all(|name| name == ANNOTATION) {
        return Ok(());
    }
    let mut kernel = Kernel::open()?;
    let mut worker = Worker::start(executable, arguments, None)?;
    let table = Table::read(&kernel);
    let mut probe = Probe {
        kernel: &mut kernel,
        worker: &mut worker,
        cpu: bench.cpu,
        scratch: &bench.scratch,
    };
    let mut systems: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for name in missing.iter().filter(|name| *name != ANNOTATION) {
        let system = name.split('/').next().unwrap_or_default();
        systems.entry(system).or_default().push(name);
    }
    for (system, names) in systems {
        let rows: Vec<usize> = names.iter().filter_map(|name| table.find(name)).collect();
        let cost = match provoker_of(system) {
            Some(ix) => probe.measure_together(&table, &rows, ix, bench.rounds)?,
            None => None,
        };
        for name in names {
            match cost {
                // On a machine so busy that nothing can be told, the next recording tries again.
                Some(cost) if cost.low <= 0.0 => {}
                Some(cost) => {
                    costs.events.insert(name.clone(), cost.into());
                }
                None => costs.unknown.push(name.clone()),
            }
        }
    }
    Ok(())
}

/// ns of one annotation: half of what a slice adds to the shortest operation.
fn annotation(bench: &Bench) -> Result<Estimate> {
    let session = Session::create(
        &SessionOptions {
            policy: Policy::Overwrite,
            clock: StampClock::choose(),
            chunk_bytes: 32 * 1024,
            max_bytes: 16 << 20,
            first_chunks: 16,
            flight_chunks: 16,
            shm_dir: bench.shm_dir.clone(),
            owner: None,
        },
        &bench.scratch,
    )?;
    let (executable, arguments) = &bench.worker;
    let mut worker = Worker::start(executable, arguments, Some(session.path()))?;
    let null_call = ops::ALL
        .iter()
        .position(|op| op.name == "null call")
        .expect("a fixed table");
    let n = worker.calibrate(null_call, 5e5)?;
    let mut samples = Vec::new();
    for _ in 0..bench.rounds {
        let before = worker.shortest(null_call, n, false)?;
        let with = worker.shortest(null_call, n, true)?;
        let after = worker.shortest(null_call, n, false)?;
        samples.push((with - (before + after) / 2.0) / (2.0 * n as f64));
    }
    Ok(median(&samples).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_measured_again() {
        let mut costs = Costs::default();
        costs.events.insert("a/b".to_owned(), Cost::default());
        costs.unknown.push("c/d".to_owned());
        let wanted = ["a/b", "c/d", "e/f"].map(str::to_owned);
        assert_eq!(costs.missing(&wanted), ["e/f"]);
    }

    #[test]
    fn a_cost_is_never_negative() {
        let cost = Cost::from(Estimate {
            median: -0.5,
            low: -2.0,
            high: 1.0,
            n: 9,
        });
        assert_eq!((cost.ns, cost.low, cost.high), (0.0, 0.0, 1.0));
    }
}
