//! `kasuri overhead`: every operation under every configuration, in turn with the untraced run.
//!
//! A shared machine changes its speed by tens of percent within seconds. So a figure is never compared with one taken
//! minutes ago: each block of operations under a configuration stands between two untraced blocks (A B A B ...), a
//! ratio is taken of each neighbouring pair, and the median of the ratios is given with its interval ([`crate::stats`]).
use crate::config::{Config, Kind};
use crate::error::{Error, Result};
use crate::ops;
use crate::stats::{Estimate, median};
use crate::tracer::{Kernel, switch_on};
use crate::worker::Worker;
use kasuri_format::ring::Policy;
use kasuri_record::clock::StampClock;
use kasuri_record::session::{Session, SessionOptions};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Name and version of the JSON.
pub const SCHEMA: &str = "kasuri.overhead/1";

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of [`ops::ALL`].
    pub operations: Vec<usize>,
    /// In order of the columns.
    pub configs: Vec<Config>,
    /// Ratios taken of each cell.
    pub rounds: u32,
    /// Length of one batch, ns.
    pub batch_ns: f64,
    /// CPU the operations run on.
    pub cpu: u32,
    /// How long another tracer needs until its events are on.
    pub settle: Duration,
    /// Runs [`crate::worker::serve`]: executable and arguments.
    pub worker: (PathBuf, Vec<String>),
    /// For raw pages; emptied again and again.
    pub scratch: PathBuf,
    /// Where ring sessions are made.
    pub shm_dir: PathBuf,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Overhead {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Machine, kernel, CPU.
    pub host: kasuri_format::meta::Host,
    /// CPU the operations ran on.
    pub cpu: u32,
    /// Rounds done.
    pub rounds: u32,
    /// Columns.
    pub configs: Vec<Column>,
    /// Rows.
    pub operations: Vec<Row>,
    /// What was left out, and why.
    pub missing: Vec<String>,
}

/// One configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: String,
}

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Whether the kernel switches between threads in it.
    pub switches: bool,
    /// Untraced, ns per operation.
    pub untraced_ns: Estimate,
    /// One for each configuration; none when it could not be measured.
    pub cells: Vec<Option<Cell>>,
}

/// One operation under one configuration.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// Multiple of the untraced time.
    pub ratio: Estimate,
    /// ns added to one operation.
    pub added_ns: Estimate,
}

/// What to say meanwhile; returning false ends the measurement after what is there.
pub type Progress<'a> = &'a mut dyn FnMut(u32, u32) -> bool;

struct Lab<'a> {
    options: &'a Options,
    kernel: Option<Kernel>,
    plain: Worker,
    annotated: Worker,
    counts: Vec<u64>,
    missing: Vec<String>,
    // After the workers: they write into it.
    _session: Session,
}

/// Measures.
///
/// # Errors
/// When nothing can be measured. A configuration that cannot be is named in [`Overhead::missing`].
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
        // Overwritten, never drained: what an annotation costs its thread is the same.
        let session = Session::create(
            &SessionOptions {
                policy: Policy::Overwrite,
                clock: StampClock::choose(),
                chunk_bytes: 32 * 1024,
                max_bytes: 64 << 20,
                first_chunks: 16,
                flight_chunks: 16,
                shm_dir: options.shm_dir.clone(),
                owner: None,
            },
            &options.scratch,
        )?;
        let (executable, arguments) = &options.worker;
        let mut plain = Worker::start(executable, arguments, None)?;
        let annotated = Worker::start(executable, arguments, Some(session.path()))?;
        let counts = options
            .operations
            .iter()
            .map(|&ix| plain.calibrate(ix, options.batch_ns))
            .collect::<Result<Vec<_>>>()?;
        Ok(Lab {
            options,
            kernel,
            plain,
            annotated,
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
        let annotates = matches!(config.kind, Kind::Annotations | Kind::Present);
        let worker = match config.kind {
            Kind::Annotations => &mut self.annotated,
            _ => &mut self.plain,
        };
        let operations = &self.options.operations;
        let counts = &self.counts;
        let before = block(worker, operations, counts, false, &mut || Ok(()))?;
        let on = switch_on(
            config,
            self.kernel.as_mut(),
            &self.options.scratch,
            self.options.settle,
        );
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
        let traced = block(worker, operations, counts, annotates, &mut || on.drain())?;
        on.off()?;
        let after = block(worker, operations, counts, false, &mut || Ok(()))?;
        for (o, n) in counts.iter().enumerate() {
            let per = |ns: f64| ns / *n as f64;
            let untraced = (per(before[o]) + per(after[o])) / 2.0;
            samples.pairs[c][o].push((untraced, per(traced[o])));
        }
        Ok(())
    }

    fn result(self, samples: &Samples, rounds: u32) -> Overhead {
        let options = self.options;
        let rows = options.operations.iter().enumerate().map(|(o, &ix)| {
            let untraced: Vec<f64> = samples
                .pairs
                .iter()
                .flat_map(|config| config[o].iter().map(|(a, _)| *a))
                .collect();
            Row {
                name: ops::ALL[ix].name,
                what: ops::ALL[ix].what,
                switches: ops::ALL[ix].switches,
                untraced_ns: median(&untraced).unwrap_or_default(),
                cells: samples
                    .pairs
                    .iter()
                    .map(|config| cell(&config[o]))
                    .collect(),
            }
        });
        Overhead {
            schema: SCHEMA,
            host: kasuri_record::host::host(),
            cpu: options.cpu,
            rounds,
            configs: options
                .configs
                .iter()
                .map(|c| Column {
                    name: c.name.clone(),
                    what: c.what.clone(),
                })
                .collect(),
            operations: rows.collect(),
            missing: self.missing,
        }
    }
}

/// All operations once, ns each.
fn block(
    worker: &mut Worker,
    operations: &[usize],
    counts: &[u64],
    annotated: bool,
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    operations
        .iter()
        .zip(counts)
        .map(|(&ix, &n)| {
            let ns = worker.shortest(ix, n, annotated)?;
            between()?;
            Ok(ns)
        })
        .collect()
}

fn cell(pairs: &[(f64, f64)]) -> Option<Cell> {
    // A switch may come out at nothing after its overhead is subtracted; there is no ratio to that.
    let ratios: Vec<f64> = pairs
        .iter()
        .filter(|(a, _)| *a > 0.0)
        .map(|(a, b)| b / a)
        .collect();
    let added: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    Some(Cell {
        ratio: median(&ratios)?,
        added_ns: median(&added)?,
    })
}
