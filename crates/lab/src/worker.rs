//! The process whose operations are timed, and the controller's end of it.
//!
//! The worker is a separate run of the executable, started before anything is measured: it has one thread, little
//! memory (fork copies it) and one CPU. The controller sends requests as lines on a pipe and switches tracers only
//! between the answers, so the measured times contain nothing of the controller.
//!
//! Request: `OPERATION N ANNOTATED` (row of [`ops::ALL`], count, 0 or 1), or `work AMOUNT` ([`ops::set_work`]).
//! Answer: nanoseconds, or `error: why`.
use crate::error::{Error, Result};
use crate::ops::{self, Operation};
use kasuri_format::ring::Policy;
use kasuri_record::clock::StampClock;
use kasuri_record::session::{Session, SessionOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Runs of which [`Worker::shortest`] is the shortest.
const TRIES: u32 = 4;
/// The request for [`ops::set_work`].
const WORK: &str = "work";

/// The worker's side: serves requests until the pipe closes.
///
/// # Errors
/// When the pipe breaks.
pub fn serve(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set)?;
    let mut open: HashMap<usize, Box<dyn Operation>> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let answer = match serve_line(&line?, &mut open) {
            Ok(ns) => format!("{ns}\n"),
            Err(e) => format!("error: {e}\n"),
        };
        let mut out = io::stdout().lock();
        out.write_all(answer.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn serve_line(line: &str, open: &mut HashMap<usize, Box<dyn Operation>>) -> io::Result<f64> {
    if let Some(amount) = line.strip_prefix(WORK) {
        ops::set_work(amount.trim().parse().unwrap_or(0));
        return Ok(0.0);
    }
    let mut words = line.split(' ').map(str::parse::<u64>);
    let mut next = || {
        words
            .next()
            .and_then(|word| word.ok())
            .ok_or_else(|| io::Error::other(format!("not a request: {line:?}")))
    };
    let (ix, n, annotated) = (next()? as usize, next()?, next()? != 0);
    let definition =
        ops::ALL.get(ix).ok_or_else(|| io::Error::other(format!("no operation {ix}")))?;
    let operation = match open.entry(ix) {
        std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
        std::collections::hash_map::Entry::Vacant(e) => e.insert((definition.open)()?),
    };
    operation.run(n, annotated)
}

/// Rings for a worker that annotates. They are overwritten, never drained: an annotation costs its thread the same.
pub(crate) fn session(shm_dir: &Path, dir: &Path) -> Result<Session> {
    let options = SessionOptions {
        policy: Policy::Overwrite,
        clock: StampClock::choose(),
        chunk_bytes: 32 * 1024,
        max_bytes: 16 << 20,
        first_chunks: 16,
        flight_chunks: 16,
        shm_dir: shm_dir.to_owned(),
        owner: None,
    };
    Ok(Session::create(&options, dir)?)
}

/// A running worker; ended when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts `executable`, which must call [`serve`] when given `arguments`; annotations go to `session`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        executable: &Path,
        arguments: &[String],
        session: Option<&Path>,
    ) -> Result<Worker> {
        let mut command = Command::new(executable);
        command
            .args(arguments)
            .env_remove("KASURI_SESSION")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the controller, which then still reports its results so far.
            .process_group(0);
        if let Some(session) = session {
            command.env("KASURI_SESSION", session);
        }
        let mut child = command.spawn().map_err(|e| Error::Start(executable.to_owned(), e))?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Worker { child, to, from })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Does operation `ix` `n` times. Returns the time of all, ns.
    ///
    /// # Errors
    /// When the operation cannot be done here, or the worker died.
    pub fn run(&mut self, ix: usize, n: u64, annotated: bool) -> Result<f64> {
        let answer = self.ask(&format!("{ix} {n} {}", u8::from(annotated)))?;
        answer.parse().map_err(|_| {
            let why = answer.trim_start_matches("error: ").to_owned();
            Error::Operation(ops::ALL[ix].name, why)
        })
    }

    /// Sets the amount of other work before each operation from now on ([`ops::set_work`]).
    ///
    /// # Errors
    /// When the worker died.
    pub fn set_work(&mut self, amount: u32) -> Result<()> {
        self.ask(&format!("{WORK} {amount}")).map(|_| ())
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        let mut answer = String::new();
        let to = self.to.as_mut().expect("open until dropped");
        writeln!(to, "{request}")
            .and_then(|()| to.flush())
            .and_then(|()| self.from.read_line(&mut answer))
            .map_err(Error::Worker)?;
        match answer.trim_end() {
            "" => Err(Error::Worker(io::ErrorKind::UnexpectedEof.into())),
            text => Ok(text.to_owned()),
        }
    }

    /// The shortest of [`TRIES`] runs: preemption and interrupts only ever add time. The tracer under test adds to
    /// each run.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub fn shortest(&mut self, ix: usize, n: u64, annotated: bool) -> Result<f64> {
        // An operation that subtracts its own overhead is a difference already, and the smallest difference would be biased.
        let tries = if ops::ALL[ix].subtracts { 1 } else { TRIES };
        let mut shortest = f64::INFINITY;
        for _ in 0..tries {
            shortest = shortest.min(self.run(ix, n, annotated)?);
        }
        Ok(shortest)
    }

    /// The number of repetitions that take about `ns`.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub fn calibrate(&mut self, ix: usize, ns: f64) -> Result<u64> {
        let mut n = 1u64;
        // The first runs open files, fill caches and page tables.
        self.run(ix, 4, false)?;
        loop {
            let took = self.run(ix, n, false)?.max(1.0);
            if took >= ns / 4.0 || n >= 1 << 24 {
                return Ok(((n as f64 * ns / took) as u64).clamp(1, 1 << 24));
            }
            n *= 2;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker's loop ends with the pipe; its children end with their own descriptors.
        self.to = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> usize {
        ops::ALL.iter().position(|op| op.name == name).unwrap()
    }

    #[test]
    fn requests_are_served_and_others_refused() {
        let mut open = HashMap::new();
        let mut serve = |line: &str| serve_line(line, &mut open).map_err(|e| e.to_string());
        let null_call = row("null call");
        assert!(serve(&format!("{null_call} 100 0")).unwrap() > 0.0);
        assert!(
            serve(&format!("{null_call} 100 1")).unwrap() > 0.0,
            "annotated, and nobody listens"
        );
        for line in ["", "0", "0 1", "x 1 0", "0 -1 0", "0 1 y"] {
            let said = serve(line).unwrap_err();
            assert!(said.contains("not a request") && said.contains(line), "{said}");
        }
        assert_eq!(serve("999 1 0").unwrap_err(), "no operation 999");
        assert_eq!(open.len(), 1, "an operation is opened once");
    }

    #[test]
    fn the_session_of_a_worker_overwrites() {
        let scratch = tempfile::tempdir().unwrap();
        let session = session(scratch.path(), scratch.path()).unwrap();
        assert!(session.path().starts_with(scratch.path()));
        assert!(session.path().join("control").exists());
        let path = session.path().to_owned();
        drop(session);
        assert!(!path.exists());
    }
}
