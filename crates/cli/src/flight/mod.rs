//! The flight recorder as a service (`kasuri flight`): a recorder that keeps the last seconds in memory, and what decides when they are saved.
//!
//! The recorder is a process of its own, the same that `kasuri record --flight -a` is; this one watches, asks it for snapshots by SIGUSR2, and removes old ones. It takes
//! a hundredth of the events: a fault here does not end the recording, and the recorder stays the one thread that it has to be.
//!
//! | module | does |
//! |---|---|
//! | `triggers` | what makes it save |
//! | `keep` | the directory of the recordings, and which of them stay |
//! | `unit` | the unit of systemd |
pub mod keep;
mod triggers;
pub mod unit;

use crate::cmd::record::duration;
use crate::message;
use crate::serve::{Server, Site};
use anyhow::{Context, bail};
use keep::Kept;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use triggers::{Log, LongCalls, OnLog, OnPressure, OnSyscall, Pressure, Throttled, Waits};

/// Where recordings go.
pub const DIR: &str = "/var/lib/kasuri";
/// Time between two looks.
const TICK: Duration = Duration::from_millis(200);
/// Time that the recorder has to save its last snapshot.
const LAST: Duration = Duration::from_secs(80);

/// What is recorded, when it is saved, and what stays.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Directory of the recordings; it must belong to the service's user alone
    #[arg(long, value_name = "DIR", default_value = DIR)]
    pub dir: PathBuf,
    /// Length of what is kept in memory and saved
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub keep: Duration,
    /// Save when a thread waits so long for a CPU
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub on_wait: Option<Duration>,
    /// Save when a thread is in this system call for so long, as in fsync=50ms; may be repeated
    #[arg(long, value_name = "CALL=TIME")]
    pub on_syscall: Vec<OnSyscall>,
    /// Save when tasks stall for this share of a second for lack of cpu, memory or io (/proc/pressure); may be repeated
    #[arg(long, value_name = "RESOURCE=SHARE")]
    pub on_pressure: Vec<OnPressure>,
    /// Save when the CPU limit of a cgroup holds it off for so long in a second
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub on_throttled: Option<Duration>,
    /// Save when a line that matches is added to the file; may be repeated
    #[arg(long, value_name = "FILE=REGEX")]
    pub on_log: Vec<OnLog>,
    /// Listen on loopback: the address in DIR/address, with `save` or `metrics` (OpenMetrics) behind it; 0: a free port
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
    /// Least time between two snapshots
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    pub pause: Duration,
    /// Remove the oldest recordings beyond so many MiB in all
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub max_mb: u64,
    /// Remove recordings that are older
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "168h")]
    pub max_age: Duration,
    /// Also record system calls
    #[arg(long)]
    pub syscalls: bool,
}

impl Settings {
    /// Whether they make sense together.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> anyhow::Result<()> {
        if !self.dir.is_absolute() {
            bail!("--dir {}: needed an absolute path", self.dir.display());
        }
        Ok(())
    }
}

/// What others may ask for and see.
#[derive(Default)]
struct Shared {
    asked: AtomicBool,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    /// Snapshots asked for, by trigger.
    saves: BTreeMap<&'static str, u64>,
    recordings: usize,
    bytes: u64,
    longest_wait_ns: Option<u64>,
}

impl Site for Shared {
    fn get(&self, path: &str) -> Option<(&'static str, Cow<'_, [u8]>)> {
        match path {
            "save" => {
                self.asked.store(true, Ordering::Relaxed);
                Some(("text/plain; charset=utf-8", Cow::Borrowed(b"will be saved\n")))
            }
            "metrics" => {
                let text = metrics(&self.numbers.lock().expect("no panic"));
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                Some((kind, Cow::Owned(text.into_bytes())))
            }
            _ => None,
        }
    }

    fn policy(&self) -> &str {
        "default-src 'none'"
    }
}

fn metrics(numbers: &Numbers) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ =
            writeln!(out, "# TYPE kasuri_flight_{name} {kind}\n# HELP kasuri_flight_{name} {help}");
        for (labels, value) in rows {
            let _ = writeln!(out, "kasuri_flight_{name}{labels} {value}");
        }
    };
    let saves = numbers.saves.iter();
    let saves = saves.map(|(trigger, &n)| (format!("_total{{trigger=\"{trigger}\"}}"), n as f64));
    family("saves", "counter", "Snapshots that were asked for.", saves.collect());
    let one = |value: f64| vec![(String::new(), value)];
    family("recordings", "gauge", "Recordings that are kept.", one(numbers.recordings as f64));
    family("kept_bytes", "gauge", "Bytes of these.", one(numbers.bytes as f64));
    if let Some(ns) = numbers.longest_wait_ns {
        let help = "Longest time from being woken to running that ended in the last second.";
        family("longest_wait_seconds", "gauge", help, one(ns as f64 * 1e-9));
    }
    let stalled = ["cpu", "memory", "io"].into_iter().filter_map(|resource| {
        let us = triggers::stalled_us(resource)?;
        Some((format!("_total{{resource=\"{resource}\"}}"), us as f64 * 1e-6))
    });
    family(
        "stalled_seconds",
        "counter",
        "Time for which some tasks stalled (/proc/pressure).",
        stalled.collect(),
    );
    out + "# EOF\n"
}

/// The triggers that were asked for.
struct Watch {
    waits: Option<Waits>,
    calls: Option<LongCalls>,
    pressure: Vec<Pressure>,
    throttled: Option<Throttled>,
    logs: Vec<Log>,
    second: Instant,
}

impl Watch {
    fn new(settings: &Settings) -> anyhow::Result<Watch> {
        Ok(Watch {
            waits: settings.on_wait.map(Waits::new).transpose()?,
            calls: LongCalls::new(&settings.on_syscall)?,
            pressure: settings
                .on_pressure
                .iter()
                .map(Pressure::new)
                .collect::<anyhow::Result<_>>()?,
            throttled: settings.on_throttled.map(Throttled::new).transpose()?,
            logs: settings.on_log.iter().map(Log::new).collect(),
            second: Instant::now(),
        })
    }

    /// The first trigger that fired, and what it saw. All look, so that none sees old things later.
    fn look(&mut self) -> anyhow::Result<Option<(&'static str, String)>> {
        let mut found = Vec::new();
        for log in &mut self.logs {
            found.extend(log.look().map(|why| ("log", why)));
        }
        if let Some(waits) = &mut self.waits {
            found.extend(waits.look()?.map(|why| ("wait", why)));
        }
        if let Some(calls) = &mut self.calls {
            found.extend(calls.look()?.map(|why| ("syscall", why)));
        }
        let now = Instant::now();
        if now - self.second >= Duration::from_secs(1) {
            self.second = now;
            for pressure in &mut self.pressure {
                found.extend(pressure.look(now).map(|why| ("pressure", why)));
            }
            let throttled = self.throttled.as_mut().and_then(Throttled::look);
            found.extend(throttled.map(|why| ("throttled", why)));
        }
        Ok(found.into_iter().next())
    }
}

/// Records and watches until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot record here, or the recorder ends.
pub fn run(settings: &Settings) -> anyhow::Result<()> {
    settings.check()?;
    let (ended, shared) = (Arc::new(AtomicBool::new(false)), Shared::default());
    let by_signal = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    signal_hook::flag::register(SIGUSR2, Arc::clone(&by_signal))?;
    let kept = Kept::own(&settings.dir)?;
    recover_left(&settings.dir, &kept)?;
    let mut watch = Watch::new(settings)?;
    let server = settings.listen.map(Server::listen).transpose()?;
    if let Some(server) = &server {
        let path = settings.dir.join("address");
        let (mut file, pending) =
            kasuri_record::output::create(&path, kasuri_record::output::Readers::Private)?;
        std::io::Write::write_all(&mut file, format!("{}\n", server.address()).as_bytes())?;
        pending.commit()?;
    }
    let mut recorder = Recorder::start(settings, kept.free_second(now_s())?)?;
    let (stop, stopped) = rustix::pipe::pipe()?;
    std::thread::scope(|scope| {
        if let Some(server) = &server {
            scope.spawn(|| server.serve(&shared, &stop));
        }
        let watched =
            follow(settings, &mut watch, &mut recorder, &kept, &shared, [&ended, &by_signal]);
        // The server's thread ends when its pipe does.
        drop(stopped);
        watched
    })?;
    recorder.end()
}

/// Packs what killed recorders left in the directory: then it is counted and removed as other recordings are.
///
/// # Errors
/// When a recorder still runs there.
fn recover_left(dir: &Path, kept: &Kept) -> anyhow::Result<()> {
    for (left, output) in kept.left()? {
        let packed = kasuri_record::recover(
            &dir.join(&left),
            Some(&dir.join(&output)),
            &crate::cmd::shm_dir(),
            &mut |_| (),
        );
        match packed {
            Ok(_) => message::note(format!("recovered {output} from {left}")),
            Err(error @ kasuri_record::Error::Busy { .. }) => return Err(error.into()),
            Err(kasuri_record::Error::NotARecording { .. })
                if kasuri_record::directory::remove_unbegun(&dir.join(&left)).unwrap_or(false) =>
            {
                message::note(format!("removed {left}: its recorder was killed before it began"));
            }
            Err(error) => message::warning(format_args!("{left}: stays: {error}")),
        }
    }
    kept.remove_parts()
}

/// Until it is to end.
fn follow(
    settings: &Settings,
    watch: &mut Watch,
    recorder: &mut Recorder,
    kept: &Kept,
    shared: &Shared,
    [ended, by_signal]: [&AtomicBool; 2],
) -> anyhow::Result<()> {
    let mut last: Option<Instant> = None;
    let mut tidied: Option<Instant> = None;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let seen = watch.look()?;
        if !recorder.is_ready()? {
            continue;
        }
        let rests = last.is_some_and(|last| last.elapsed() < settings.pause);
        // Who asks is answered, after a second at most: a flood of requests is one.
        let rests_long =
            last.is_some_and(|last| last.elapsed() < settings.pause.min(Duration::from_secs(1)));
        let asked = if rests_long {
            None
        } else if by_signal.swap(false, Ordering::Relaxed) {
            Some(("signal", "SIGUSR2".to_owned()))
        } else if shared.asked.swap(false, Ordering::Relaxed) {
            Some(("request", "a request on loopback".to_owned()))
        } else {
            None
        };
        let fires = asked.or(seen.filter(|_| !rests));
        if let Some((trigger, why)) = fires {
            last = Some(Instant::now());
            message::note(format!("saving: {why}"));
            *shared.numbers.lock().expect("no panic").saves.entry(trigger).or_default() += 1;
            recorder.save();
        }
        if tidied.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            tidied = Some(Instant::now());
            tidy(settings, kept, shared, watch.waits.as_ref())?;
        }
    }
    Ok(())
}

fn tidy(
    settings: &Settings,
    kept: &Kept,
    shared: &Shared,
    waits: Option<&Waits>,
) -> anyhow::Result<()> {
    let age = i64::try_from(settings.max_age.as_secs()).unwrap_or(i64::MAX);
    for name in kept.tidy(settings.max_mb.saturating_mul(1 << 20), age, now_s())? {
        message::note(format!("removed {name}"));
    }
    let files = kept.list()?;
    let mut numbers = shared.numbers.lock().expect("no panic");
    numbers.recordings = files.len();
    numbers.bytes = files.iter().map(|file| file.bytes).sum();
    numbers.longest_wait_ns = waits.map(|waits| waits.longest_ns);
    Ok(())
}

/// The process that records.
struct Recorder {
    child: Child,
    /// Made by the recorder once it takes signals as requests: before, SIGUSR2 would end it.
    dir: PathBuf,
    is_ready: bool,
}

impl Recorder {
    fn start(settings: &Settings, second: i64) -> anyhow::Result<Recorder> {
        let output = settings.dir.join(format!("flight-{second}.kasuri"));
        let mut dir = output.clone().into_os_string();
        dir.push(".d");
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["record", "--flight", "-a"])
            .arg(format!("--keep={}us", settings.keep.as_micros()))
            .arg(format!("--end-with={}", std::process::id()))
            .args(settings.syscalls.then_some("--syscalls"))
            .arg("-o")
            .arg(output);
        Ok(Recorder {
            child: command.spawn().context("cannot start the recorder")?,
            dir: dir.into(),
            is_ready: false,
        })
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    fn save(&self) {
        self.signal(Signal::USR2);
    }

    /// Whether it records.
    ///
    /// # Errors
    /// When it has ended.
    fn is_ready(&mut self) -> anyhow::Result<bool> {
        let status = self.child.try_wait();
        if let Some(status) = status.context("cannot look at the recorder")? {
            bail!("the recorder ended early, with {status}");
        }
        if !self.is_ready && self.dir.is_dir() {
            self.is_ready = true;
            message::note("recording");
        }
        Ok(self.is_ready)
    }

    /// Ends it in order: it saves what it has.
    fn end(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM);
        let since = Instant::now();
        while since.elapsed() < LAST {
            if self.child.try_wait().context("cannot look at the recorder")?.is_some() {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
        bail!("the recorder does not end")
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
        }
    }
}

/// Seconds since 1970.
fn now_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_openmetrics() {
        let mut numbers = Numbers::default();
        numbers.saves.insert("wait", 3);
        numbers.longest_wait_ns = Some(1_500_000);
        let text = metrics(&numbers);
        assert!(text.ends_with("# EOF\n"), "{text}");
        for needed in [
            "kasuri_flight_saves_total{trigger=\"wait\"} 3\n",
            "kasuri_flight_longest_wait_seconds 0.0015\n",
            "# TYPE kasuri_flight_kept_bytes gauge\n",
        ] {
            assert!(text.contains(needed), "{needed} in {text}");
        }
    }
}
