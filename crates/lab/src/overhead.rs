//! `kasuri overhead`: every operation under every configuration, in turn with the untraced run.
//!
//! A shared machine changes its speed by tens of percent within seconds. So a figure is never compared with one taken
//! minutes ago: each block of operations under a configuration stands between two untraced blocks (A B A B ...), each
//! neighbouring pair gives a ratio, and the median of the ratios is given with its interval ([`crate::stats`]).
use crate::config::{Config, Kind};
use crate::error::{Error, Result};
use crate::lmbench::Lmbench;
use crate::ops;
use crate::stats::{Estimate, median};
use crate::tracer::{Kernel, switch_on};
use crate::worker::Worker;
use kasuri_record::session::Session;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Name and version of the JSON.
pub const SCHEMA: &str = "kasuri.overhead/1";

/// Work before operations are timed under a tracer that took time to start.
const WARM_UP: Duration = Duration::from_millis(300);

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of [`ops::ALL`].
    pub operations: Vec<usize>,
    /// The columns, in their order.
    pub configs: Vec<Config>,
    /// Ratios taken of each cell.
    pub rounds: u32,
    /// Length of one batch, ns.
    pub batch_ns: f64,
    /// The CPU on which the operations run.
    pub cpu: u32,
    /// Time that another tracer needs until its events are on.
    pub settle: Duration,
    /// Runs [`crate::worker::serve`]: executable and arguments.
    pub worker: (PathBuf, Vec<String>),
    /// Directory for raw pages; emptied again and again.
    pub scratch: PathBuf,
    /// Directory in which ring sessions are made.
    pub shm_dir: PathBuf,
    /// The directory of an LMbench whose programs run instead of ours.
    pub lmbench: Option<PathBuf>,
}

/// What operations cost under each configuration of tracing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Overhead {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Machine, kernel, CPU.
    #[schemars(with = "serde_json::Value")]
    pub host: kasuri_format::meta::Host,
    /// The CPU on which the operations ran.
    pub cpu: u32,
    /// Rounds done.
    pub rounds: u32,
    /// The source of the operations: `kasuri` or `lmbench`.
    pub operations_of: &'static str,
    /// Columns.
    pub configs: Vec<Column>,
    /// Rows.
    pub operations: Vec<Row>,
    /// Parts that were left out, with the reason.
    pub missing: Vec<String>,
}

/// One configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Description.
    pub what: String,
}

/// One operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Description.
    pub what: &'static str,
    /// Whether the kernel switches between threads in it.
    pub switches: bool,
    /// Untraced, ns per operation.
    pub untraced_ns: Estimate,
    /// One for each configuration; none when it could not be measured.
    pub cells: Vec<Option<Cell>>,
}

/// One operation under one configuration.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Cell {
    /// Multiple of the untraced time.
    pub ratio: Estimate,
    /// ns added to one operation.
    pub added_ns: Estimate,
}

/// Called before each step with its number and the number of all steps. Returning false ends the measurement with the
/// rounds done so far.
pub type Progress<'a> = &'a mut dyn FnMut(u32, u32) -> bool;

struct Lab<'a> {
    options: &'a Options,
    kernel: Option<Kernel>,
    plain: Worker,
    annotated: Worker,
    lmbench: Option<Lmbench>,
    /// Rows of [`ops::ALL`], and the repetitions of each in a batch.
    operations: Vec<usize>,
    counts: Vec<u64>,
    missing: Vec<String>,
    // After the workers, which write into it: fields drop in this order.
    _session: Session,
}

/// Measures all operations under all configurations.
///
/// # Errors
/// When nothing can be measured. A configuration that cannot be measured is named in [`Overhead::missing`].
pub fn measure(options: &Options, progress: Progress<'_>) -> Result<Overhead> {
    let mut lab = Lab::open(options)?;
    let mut samples = Samples::new(options);
    let steps = options.rounds * options.configs.len() as u32;
    let mut rounds = 0;
    'rounds: for round in 0..options.rounds {
        for (c, config) in options.configs.iter().enumerate() {
            if !progress(round * options.configs.len() as u32 + c as u32, steps) {
                break 'rounds;
            }
            if samples.failed[c] {
                continue;
            }
            lab.pair(config, c, &mut samples)?;
        }
        rounds = round + 1;
    }
    if rounds == 0 {
        return Err(Error::Interrupted);
    }
    Ok(lab.result(&samples, rounds))
}

/// ns per operation: `[config][operation]`, a pair (untraced, traced) for each round.
struct Samples {
    pairs: Vec<Vec<Vec<(f64, f64)>>>,
    failed: Vec<bool>,
}

impl Samples {
    fn new(options: &Options) -> Samples {
        let configs = options.configs.len();
        Samples {
            pairs: vec![vec![Vec::new(); options.operations.len()]; configs],
            failed: vec![false; configs],
        }
    }
}

impl<'a> Lab<'a> {
    fn open(options: &'a Options) -> Result<Lab<'a>> {
        let mut missing = Vec::new();
        let kernel = if options.configs.iter().any(Config::needs_tracefs) {
            match Kernel::open() {
                Ok(kernel) => Some(kernel),
                Err(e) => {
                    missing.push(format!("no kernel events: {e}"));
                    None
                }
            }
        } else {
            None
        };
        let session = crate::worker::session(&options.shm_dir, &options.scratch)?;
        let (executable, arguments) = &options.worker;
        let mut plain = Worker::start(executable, arguments, None)?;
        let annotated = Worker::start(executable, arguments, Some(session.path()))?;
        let lmbench = options.lmbench.as_deref();
        let lmbench =
            lmbench.map(|dir| Lmbench::open(dir, options.cpu, &options.scratch)).transpose()?;
        let mut operations = options.operations.clone();
        operations.retain(|&ix| {
            let lacks = lmbench.as_ref().and_then(|l| l.lacks(ix));
            missing.extend(lacks.clone());
            lacks.is_none()
        });
        let mut counts = Vec::new();
        let mut runnable = Vec::new();
        for ix in operations {
            let count = match &lmbench {
                // LMbench repeats and divides by itself; this one run shows whether it can do the operation.
                Some(lmbench) => lmbench.run(ix).map(|_| 1),
                None => plain.calibrate(ix, options.batch_ns),
            };
            match count {
                Ok(n) => {
                    runnable.push(ix);
                    counts.push(n);
                }
                // The machine lacks something for this operation (a network interface, a shell); the other operations
                // still have their rows.
                Err(Error::Operation(name, why)) => {
                    missing.push(format!("{name}: cannot be run here: {why}"));
                }
                Err(e) => return Err(e),
            }
        }
        if runnable.is_empty() {
            return Err(Error::Nothing(missing.join("; ")));
        }
        Ok(Lab {
            options,
            kernel,
            plain,
            annotated,
            lmbench,
            operations: runnable,
            counts,
            missing,
            _session: session,
        })
    }

    /// One untraced block, one traced, one untraced.
    fn pair(&mut self, config: &Config, c: usize, samples: &mut Samples) -> Result<()> {
        if config.needs_tracefs() && self.kernel.is_none() {
            samples.failed[c] = true;
            return Ok(());
        }
        if config.kind == Kind::Annotations && self.lmbench.is_some() {
            let why = "LMbench's programs annotate nothing";
            self.missing.push(format!("{}: {why}", config.name));
            samples.failed[c] = true;
            return Ok(());
        }
        let annotates = matches!(config.kind, Kind::Annotations | Kind::Present);
        let mut runner = match (&self.lmbench, &config.kind) {
            (Some(lmbench), _) => Runner::Lmbench(lmbench),
            (None, Kind::Annotations) => Runner::Worker(&mut self.annotated),
            (None, _) => Runner::Worker(&mut self.plain),
        };
        let (operations, counts) = (&self.operations, &self.counts);
        let before = block(&mut runner, operations, counts, false, &mut || Ok(()))?;
        let on =
            switch_on(config, self.kernel.as_mut(), &self.options.scratch, self.options.settle);
        let mut on = match on {
            Ok(on) => on,
            Err(e) => {
                self.missing.push(format!("{}: {e}", config.name));
                samples.failed[c] = true;
                if let Some(kernel) = &mut self.kernel {
                    kernel.off()?;
                }
                return Ok(());
            }
        };
        if let Kind::Command(_) = config.kind {
            // The machine was idle while the tracer started, and virtual CPUs run faster for a while after a rest. So
            // operations run for a while before those that are compared.
            let start = Instant::now();
            while start.elapsed() < WARM_UP {
                block(&mut runner, operations, counts, false, &mut || Ok(()))?;
            }
        }
        let traced = block(&mut runner, operations, counts, annotates, &mut || on.drain())?;
        on.off()?;
        let after = block(&mut runner, operations, counts, false, &mut || Ok(()))?;
        for (o, n) in counts.iter().enumerate() {
            let per = |ns: f64| ns / *n as f64;
            let untraced = (per(before[o]) + per(after[o])) / 2.0;
            samples.pairs[c][o].push((untraced, per(traced[o])));
        }
        Ok(())
    }

    fn result(self, samples: &Samples, rounds: u32) -> Overhead {
        let options = self.options;
        let rows = self.operations.iter().enumerate().map(|(o, &ix)| {
            let untraced: Vec<f64> =
                samples.pairs.iter().flat_map(|config| config[o].iter().map(|(a, _)| *a)).collect();
            Row {
                name: ops::ALL[ix].name,
                what: ops::ALL[ix].what,
                switches: ops::ALL[ix].switches,
                untraced_ns: median(&untraced).unwrap_or_default(),
                cells: samples.pairs.iter().map(|config| cell(&config[o])).collect(),
            }
        });
        Overhead {
            schema: SCHEMA,
            host: kasuri_record::host::host(),
            cpu: options.cpu,
            rounds,
            operations_of: match self.lmbench {
                Some(_) => "lmbench",
                None => "kasuri",
            },
            configs: options
                .configs
                .iter()
                .map(|c| Column { name: c.name.clone(), what: c.what.clone() })
                .collect(),
            operations: rows.collect(),
            missing: self.missing,
        }
    }
}

/// The process that runs the operations.
enum Runner<'a> {
    Worker(&'a mut Worker),
    Lmbench(&'a Lmbench),
}

impl Runner<'_> {
    /// ns of `n` operations.
    fn shortest(&mut self, ix: usize, n: u64, annotated: bool) -> Result<f64> {
        match self {
            Runner::Worker(worker) => worker.shortest(ix, n, annotated),
            Runner::Lmbench(lmbench) => Ok(lmbench.run(ix)? * n as f64),
        }
    }
}

/// All operations once, ns each.
fn block(
    runner: &mut Runner<'_>,
    operations: &[usize],
    counts: &[u64],
    annotated: bool,
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    operations
        .iter()
        .zip(counts)
        .map(|(&ix, &n)| {
            let ns = runner.shortest(ix, n, annotated)?;
            between()?;
            Ok(ns)
        })
        .collect()
}

fn cell(pairs: &[(f64, f64)]) -> Option<Cell> {
    // The time of a switch may come out as zero after its overhead is subtracted; no ratio to that exists.
    let ratios: Vec<f64> = pairs.iter().filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a).collect();
    let added: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    Some(Cell { ratio: median(&ratios)?, added_ns: median(&added)? })
}
