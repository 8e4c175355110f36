//! What makes the service save: each trigger looks once in a tick, and says in words what it saw.
//!
//! | trigger | looks at |
//! |---|---|
//! | [`Waits`] | the scheduler's events, followed as `kasuri top` does |
//! | [`LongCalls`] | entries and exits of the system calls that are named |
//! | [`Pressure`] | /proc/pressure: the share of time for which tasks stalled |
//! | [`Throttled`] | cpu.stat of every cgroup: time for which a CPU limit held it off |
//! | [`Log`] | the lines that are added to a file |
use anyhow::{Context, bail};
use kasuri_import::{syscall_name, syscall_number};
use kasuri_live::{Calls, Live, LongCall};
use kasuri_record::clock::monotonic_ns;
use kasuri_record::safefs;
use kasuri_record::tap::{self, Keep, Tap};
use kasuri_text::table::units::{duration, percent, printable};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Events of this long ago have been written.
const SETTLED_NS: u64 = 2_000_000;
/// Time between two looks at counters: shares are of this time.
const SECOND: Duration = Duration::from_secs(1);
/// Threads that are looked up in a tick.
const ASKED: usize = 256;
/// Cgroups that are looked at, and how deep.
const CGROUPS: usize = 4_096;
const DEPTH: usize = 16;
/// Bytes of a log that are read in a tick, and of a line that are kept.
const LOG: u64 = 1 << 20;
const LINE: usize = 64 << 10;
/// Characters of a line that are told.
const TOLD: usize = 200;

/// A thread waited for a CPU, although it was able to run.
pub struct Waits {
    tap: Tap,
    live: Live,
    least: Duration,
    due_ns: u64,
    /// The longest wait of the last second, ns.
    pub longest_ns: u64,
}

impl Waits {
    /// Follows the scheduler's events.
    ///
    /// # Errors
    /// When there are none for this user.
    pub fn new(least: Duration) -> anyhow::Result<Waits> {
        let keep = Keep { time: Duration::ZERO, bytes: 0 };
        let tap = Tap::open(keep)?;
        let now = monotonic_ns();
        let mut live = Live::new(&tap.meta(), tap.cpus(), now)
            .context("this kernel's scheduler events are not understood")?;
        for thread in tap::threads() {
            live.learn(thread.pid, thread.tid, &thread.comm);
        }
        Ok(Waits { tap, live, least, due_ns: now + SECOND.as_nanos() as u64, longest_ns: 0 })
    }

    /// Looks.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn look(&mut self) -> anyhow::Result<Option<String>> {
        let now = monotonic_ns();
        let live = &mut self.live;
        self.tap.read(|cpu, page| live.push(cpu, page))?;
        let settled = now.saturating_sub(SETTLED_NS);
        live.advance(settled);
        for tid in live.unknown(ASKED) {
            if let Some((pid, name)) = tap::thread(tid) {
                live.learn(pid, tid, &name);
            }
        }
        if settled < self.due_ns {
            return Ok(None);
        }
        let window = live.close(settled);
        self.due_ns = settled + SECOND.as_nanos() as u64;
        self.longest_ns = window.worst.as_ref().map_or(0, |worst| worst.ns);
        let long = window.worst.filter(|worst| u128::from(worst.ns) >= self.least.as_nanos());
        Ok(long.map(|worst| {
            let (time, name) = (duration(worst.ns as f64), printable(&worst.name));
            format!("thread {name} ({}) waited {time} for CPU {}", worst.tid, worst.cpu)
        }))
    }
}

/// `fsync=50ms`: a thread was in this system call for so long.
#[derive(Clone, Debug, PartialEq)]
pub struct OnSyscall {
    name: String,
    number: i64,
    least: Duration,
}

impl FromStr for OnSyscall {
    type Err = String;
    fn from_str(text: &str) -> Result<OnSyscall, String> {
        let (name, least) = text.split_once('=').ok_or("write CALL=TIME, as in fsync=50ms")?;
        let number = syscall_number(&kasuri_record::host::host().machine, name);
        Ok(OnSyscall {
            name: name.to_owned(),
            number: number.ok_or_else(|| format!("no system call is named {name:?} here"))?,
            least: crate::cmd::record::duration(least)?,
        })
    }
}

impl std::fmt::Display for OnSyscall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}us", self.name, self.least.as_micros())
    }
}

/// A thread was in a system call for too long.
pub struct LongCalls {
    tap: Tap,
    calls: Calls,
    machine: String,
}

impl LongCalls {
    /// Follows these calls; `None`: there are none.
    ///
    /// # Errors
    /// When there are no such events for this user.
    pub fn new(on: &[OnSyscall]) -> anyhow::Result<Option<LongCalls>> {
        if on.is_empty() {
            return Ok(None);
        }
        let numbers: Vec<i64> = on.iter().map(|on| on.number).collect();
        let tap = Tap::open_on_calls(&numbers)?;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let limits: Vec<(i64, u64)> = on.iter().map(|on| (on.number, ns(on.least))).collect();
        let calls = Calls::new(&tap.meta(), tap.cpus().len(), &limits);
        Ok(Some(LongCalls {
            calls: calls.context("this kernel's events of system calls are not understood")?,
            tap,
            machine: kasuri_record::host::host().machine,
        }))
    }

    /// Looks.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn look(&mut self) -> anyhow::Result<Option<String>> {
        let now = monotonic_ns();
        let calls = &mut self.calls;
        self.tap.read(|cpu, page| calls.push(cpu, page))?;
        let long = calls.advance(now.saturating_sub(SETTLED_NS));
        Ok(long.into_iter().find_map(|call| self.told(&call)))
    }

    fn told(&mut self, long: &LongCall) -> Option<String> {
        let thread = tap::thread(long.tid);
        let said = match long.goes_on {
            false => "was",
            // A thread that was killed in a call does not leave it.
            true if thread.as_ref().and_then(|of| tap::waits_in(of.0, long.tid))
                != Some(long.call) =>
            {
                self.calls.forget(long.tid);
                return None;
            }
            true => "has been",
        };
        let name = thread.map_or_else(|| "(ended)".to_owned(), |(_, name)| printable(&name));
        let (call, time) = (syscall_name(&self.machine, long.call), duration(long.ns as f64));
        Some(format!("thread {name} ({}) {said} in {call} for {time}", long.tid))
    }
}

/// `cpu=40%`: tasks stalled for lack of it for this share of a second.
#[derive(Clone, Debug, PartialEq)]
pub struct OnPressure {
    resource: &'static str,
    share: f64,
}

impl FromStr for OnPressure {
    type Err = String;
    fn from_str(text: &str) -> Result<OnPressure, String> {
        let wrong = || "write cpu=40%, memory=10% or io=20%".to_owned();
        let (name, share) = text.split_once('=').ok_or_else(wrong)?;
        let known = ["cpu", "memory", "io"].into_iter().find(|known| *known == name);
        Ok(OnPressure {
            resource: known.ok_or_else(wrong)?,
            share: crate::cmd::record::percent(share)?,
        })
    }
}

impl std::fmt::Display for OnPressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}%", self.resource, self.share * 100.0)
    }
}

/// The pressure of one resource.
pub struct Pressure {
    on: OnPressure,
    before: Option<(Instant, u64)>,
}

impl Pressure {
    /// See [`OnPressure`].
    ///
    /// # Errors
    /// When this kernel does not tell.
    pub fn new(on: &OnPressure) -> anyhow::Result<Pressure> {
        stalled_us(on.resource).with_context(|| {
            format!("/proc/pressure/{}: cannot read, needed a kernel with CONFIG_PSI (booted with psi=1)", on.resource)
        })?;
        Ok(Pressure { on: on.clone(), before: None })
    }

    /// Looks.
    pub fn look(&mut self, now: Instant) -> Option<String> {
        let stalled = stalled_us(self.on.resource)?;
        let Some((since, before)) = self.before else {
            self.before = Some((now, stalled));
            return None;
        };
        let share = stalled.saturating_sub(before) as f64 / (now - since).as_micros().max(1) as f64;
        self.before = Some((now, stalled));
        (share >= self.on.share).then(|| {
            format!(
                "tasks stalled for {} of a second for lack of {}",
                percent(share.min(1.0)),
                self.on.resource
            )
        })
    }
}

/// Time for which some tasks had stalled, µs.
pub fn stalled_us(resource: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

/// A cgroup was held off by its CPU limit.
pub struct Throttled {
    least: Duration,
    roots: Vec<PathBuf>,
    before: HashMap<PathBuf, u64>,
}

impl Throttled {
    /// Looks at the cgroups of this system.
    ///
    /// # Errors
    /// When it has none.
    pub fn new(least: Duration) -> anyhow::Result<Throttled> {
        let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
        let roots: Vec<PathBuf> = (places.iter().map(PathBuf::from))
            .filter(|root| {
                root.join("cpu.stat").is_file() || root.join("cgroup.controllers").is_file()
            })
            .collect();
        if roots.is_empty() {
            bail!("/sys/fs/cgroup: has no CPU controller, needed one for --on-throttled");
        }
        Ok(Throttled::of(least, roots))
    }

    fn of(least: Duration, roots: Vec<PathBuf>) -> Throttled {
        let mut throttled = Throttled { least, roots, before: HashMap::new() };
        // What happened before is none of ours.
        throttled.look();
        throttled
    }

    /// Looks.
    pub fn look(&mut self) -> Option<String> {
        let (mut now, mut left) = (HashMap::new(), CGROUPS);
        for root in &self.roots {
            collect(root, DEPTH, &mut left, &mut now);
        }
        let before = std::mem::replace(&mut self.before, now);
        let rise = |(path, ns): (&PathBuf, &u64)| {
            Some((ns.saturating_sub(*before.get(path)?), path.clone()))
        };
        let (ns, path) = self.before.iter().filter_map(rise).max()?;
        (u128::from(ns) >= self.least.as_nanos().max(1)).then(|| {
            let path = printable(&path.to_string_lossy());
            format!("the CPU limit of {path} held it off for {} in a second", duration(ns as f64))
        })
    }
}

/// Time for which each cgroup was held off, ns, of `left` groups at most. Links are not followed.
fn collect(dir: &Path, depth: usize, left: &mut usize, out: &mut HashMap<PathBuf, u64>) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let stat = std::fs::read_to_string(dir.join("cpu.stat")).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = stat.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    // Version 2 counts microseconds, version 1 nanoseconds.
    let ns = field("throttled_usec ").map(|us| us.saturating_mul(1_000));
    if let Some(ns) = ns.or_else(|| field("throttled_time ")) {
        out.insert(dir.to_owned(), ns);
    }
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten().filter(|_| depth > 0) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth - 1, left, out);
        }
    }
}

/// `FILE=REGEX`: a line that matches is added to the file.
#[derive(Clone, Debug)]
pub struct OnLog {
    file: PathBuf,
    pattern: regex::bytes::Regex,
}

impl FromStr for OnLog {
    type Err = String;
    fn from_str(text: &str) -> Result<OnLog, String> {
        let (file, pattern) =
            text.split_once('=').ok_or("write FILE=REGEX, as in /var/log/app.log=timeout")?;
        let file = PathBuf::from(file);
        if !file.is_absolute() {
            return Err("needs a file's absolute path before the =".into());
        }
        let pattern = regex::bytes::RegexBuilder::new(pattern).size_limit(1 << 20).build();
        Ok(OnLog { file, pattern: pattern.map_err(|error| error.to_string())? })
    }
}

impl std::fmt::Display for OnLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.file.display(), self.pattern.as_str())
    }
}

/// A log that is followed, also when it is rotated.
pub struct Log {
    on: OnLog,
    open: Option<File>,
    /// A line that is not complete yet.
    rest: Vec<u8>,
}

impl Log {
    /// Begins at the file's end; a file that is not there yet is waited for.
    pub fn new(on: &OnLog) -> Log {
        let mut open = safefs::open_regular(&on.file).ok();
        if let Some(file) = &mut open {
            let _ = file.seek(SeekFrom::End(0));
        }
        Log { on: on.clone(), open, rest: Vec::new() }
    }

    /// Looks.
    pub fn look(&mut self) -> Option<String> {
        let found = self.read();
        // Of a log that was rotated another MiB is read first; what is beyond is not seen.
        if self.was_replaced() {
            self.open = safefs::open_regular(&self.on.file).ok();
            self.rest.clear();
        }
        found.or_else(|| self.read())
    }

    fn was_replaced(&mut self) -> bool {
        let id = |facts: &std::fs::Metadata| (facts.dev(), facts.ino());
        let Some(open) = &mut self.open else {
            return true;
        };
        match (open.metadata(), std::fs::metadata(&self.on.file)) {
            (Ok(held), Ok(named)) => {
                let at = open.stream_position().unwrap_or(0);
                id(&held) != id(&named) || named.len() < at
            }
            _ => false,
        }
    }

    fn read(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        self.open.as_mut()?.take(LOG).read_to_end(&mut bytes).ok()?;
        let mut found = None;
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            let room = LINE.saturating_sub(self.rest.len());
            self.rest.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                if found.is_none() && self.on.pattern.is_match(&self.rest) {
                    found = Some(self.told());
                }
                self.rest.clear();
            }
        }
        found
    }

    fn told(&self) -> String {
        let line = String::from_utf8_lossy(&self.rest);
        let line: String = printable(line.trim_end()).chars().take(TOLD).collect();
        format!("a line of {}: {line}", printable(&self.on.file.to_string_lossy()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn logs_are_followed_from_their_end_and_over_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "old timeout\n").unwrap();
        let on: OnLog = format!("{}=time(out)?", path.display()).parse().unwrap();
        let mut log = Log::new(&on);
        assert_eq!(log.look(), None, "what stood there before is none of ours");
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "fine\nhalf time").unwrap();
        assert_eq!(log.look(), None, "no whole line");
        writeln!(file, "out \u{1b}[2J").unwrap();
        let told = log.look().unwrap();
        assert!(told.contains("half timeout") && !told.contains('\u{1b}'), "{told}");
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        std::fs::write(&path, "timeout in the new one\n").unwrap();
        assert!(log.look().unwrap().contains("new one"));
        std::fs::write(&path, "timeout\n").unwrap();
        assert!(log.look().is_some(), "it was cut and written again");
        // A line without end costs no memory, and FIFOs are not waited for.
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        for _ in 0..40 {
            file.write_all(&[b'x'; 100_000]).unwrap();
            log.look();
        }
        assert!(log.rest.len() <= LINE);
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let on: OnLog = format!("{}=x", fifo.display()).parse().unwrap();
        assert_eq!(Log::new(&on).look(), None);
    }

    #[test]
    fn throttling_is_found_in_both_versions_of_cgroups() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("cpu.stat"), text).unwrap();
        };
        let both = |us: u64| {
            write("two/app", format!("nr_throttled 3\nthrottled_usec {us}\n"));
            write("one/app", format!("nr_throttled 3\nthrottled_time {}\n", us * 10));
        };
        both(50_000);
        let mut throttled = Throttled::of(Duration::from_millis(100), vec![dir.path().to_owned()]);
        both(149_000);
        assert_eq!(throttled.look(), None, "99 ms");
        both(249_000);
        let told = throttled.look().unwrap();
        assert!(told.contains("two/app held it off for 100 ms"), "{told}");
    }

    #[test]
    fn what_is_written_wrong_is_told() {
        assert_eq!("cpu=40%".parse::<OnPressure>().unwrap().to_string(), "cpu=40%");
        for bad in ["cpu", "disk=3%", "cpu=0", "cpu=200%"] {
            assert!(bad.parse::<OnPressure>().is_err(), "{bad}");
        }
        let on = "fsync=50ms".parse::<OnSyscall>().unwrap();
        assert_eq!(on.to_string(), "fsync=50000us");
        assert_eq!(on.to_string().parse(), Ok(on));
        for bad in ["fsync", "no_such_call=1s", "fsync=soon"] {
            assert!(bad.parse::<OnSyscall>().is_err(), "{bad}");
        }
        for bad in ["x", "log=x", "/log=("] {
            assert!(bad.parse::<OnLog>().is_err(), "{bad}");
        }
    }
}
