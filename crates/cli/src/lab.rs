//! Parts shared by the measuring commands: a CPU, a directory for raw pages, a flag that Ctrl-C sets.
use crate::scratch::Scratch;
use anyhow::Context;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The place of a measurement.
pub struct Place {
    /// CPU on which operations run.
    pub cpu: u32,
    /// For raw pages; removed when dropped.
    pub scratch: Scratch,
    /// Directory in which ring sessions are made.
    pub shm_dir: PathBuf,
    /// The process that runs operations.
    pub worker: (PathBuf, Vec<String>),
}

impl Place {
    /// On `cpu`, or the last CPU that this process may use: the first takes most interrupts.
    ///
    /// # Errors
    /// When no directory can be made.
    pub fn new(cpu: Option<u32>) -> anyhow::Result<Place> {
        let shm_dir = crate::cmd::shm_dir();
        let parent = if shm_dir.is_dir() { shm_dir.clone() } else { std::env::temp_dir() };
        let scratch = Scratch::new_in("lab", &parent)?;
        let cpu = match cpu {
            Some(cpu) => cpu,
            None => kasuri_record::host::allowed_cpus()
                .last()
                .map(|&cpu| cpu as u32)
                .context("this process may run on no CPU")?,
        };
        Ok(Place {
            cpu,
            scratch,
            shm_dir,
            worker: (std::env::current_exe()?, vec!["lab-worker".to_owned(), cpu.to_string()]),
        })
    }
}

/// Set by SIGINT and SIGTERM: stop measuring, print what there is, leave the kernel as it was.
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes the signals.
    ///
    /// # Errors
    /// When they cannot be taken.
    pub fn new() -> anyhow::Result<Stop> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(Stop(stop))
    }

    /// Whether one came.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
