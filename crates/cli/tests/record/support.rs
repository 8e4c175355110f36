//! Support for the tests of this directory: the command with its environment, small C programs compiled once, recordings read
//! back, and child processes that are killed when a test ends, however it ends.
use kasuri_format::container::{BlockKind, Recording};
pub use kasuri_testkit::{measure, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The command under test, in `dir`, silent about what this machine lacks.
pub fn kasuri(dir: &Path) -> Command {
    // A shell starts what it puts into the background, these tests too, with SIGINT and SIGQUIT ignored, nohup with SIGHUP,
    // and kasuri lets what is ignored stay so.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_kasuri")])
        .current_dir(dir)
        .stdin(Stdio::null())
        .env_remove("KASURI_SESSION");
    command
}

/// Runs it and gives what it said.
pub fn run(command: &mut Command) -> Output {
    command.output().expect("kasuri runs")
}

/// Standard error as text.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A fresh directory on the disk.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

/// Copies a program by another process: one that is forked here meanwhile would inherit a descriptor that writes to the copy, and
/// until it is closed by exec nobody can start the copy (ETXTBSY).
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").args([from.as_ref(), to.as_ref()]).status();
    assert!(status.expect("cp runs").success());
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Compiles tests/record/NAME.c; the path of the program.
pub fn program(name: &str) -> PathBuf {
    compile(&format!("tests/record/{name}.c"))
}

/// Compiles a C program of the repository, once for all test processes, until its source changes: a program that runs must not be
/// replaced, or `record -p` does not find its gates any more. The path of the program.
pub fn compile(source: &str) -> PathBuf {
    // Programs of two folders may have one name.
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record-programs");
    let target = programs.join(Path::new(source).with_extension(""));
    std::fs::create_dir_all(target.parent().expect("a folder")).expect("a directory for programs");
    let source = repository().join(source);
    let inputs = target.with_extension("d");
    let is_new = || is_newer(&target, &inputs).unwrap_or(false);
    kasuri_testkit::made_once(&target, is_new, || compile_now(&source, &target, &inputs));
    target
}

/// Whether a program is newer than all that the compiler read for it, which it listed in `inputs`.
fn is_newer(program: &Path, inputs: &Path) -> Option<bool> {
    let made = std::fs::metadata(program).ok()?.modified().ok()?;
    let text = std::fs::read_to_string(inputs).ok()?;
    let (_, files) = text.split_once(':')?;
    let mut files = files.split_whitespace().filter(|word| *word != "\\");
    let is_older = |file: &str| Some(std::fs::metadata(file).ok()?.modified().ok()? < made);
    Some(files.all(|file| is_older(file) == Some(true)))
}

fn compile_now(source: &Path, target: &Path, inputs: &Path) {
    let made = target.with_extension("new");
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-MD", "-MF"])
        .arg(inputs)
        .arg("-I")
        .arg(repository().join("annotate/include"))
        .arg("-o")
        .args([&made, source])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{} does not compile", source.display());
    // A program that runs keeps its file.
    std::fs::rename(&made, target).expect("rename");
}

fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether this user may trace the kernel; says so when not.
pub fn can_trace() -> bool {
    match kasuri_record::tracefs::Tracefs::open() {
        Ok(_) => true,
        Err(unavailable) => {
            skip(&unavailable.why);
            false
        }
    }
}

/// Whether this is root; says so when not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("needs root");
    }
    root
}

/// Tracing instances of the recorder `pid`.
pub fn instances_of(pid: u32) -> Vec<String> {
    use std::os::fd::AsRawFd;
    let Ok(tracefs) = kasuri_record::tracefs::Tracefs::open() else {
        return Vec::new();
    };
    let dir = format!("/proc/self/fd/{}/instances", tracefs.root().as_raw_fd());
    let names = std::fs::read_dir(dir).expect("instances").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("kasuri-{pid}-"))).collect()
}

/// Ring sessions of the recorder `pid`.
pub fn sessions_of(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("kasuri-{pid}-"))).collect()
}

/// Waits until `done` says so; fails after a while.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process `comm` that `recorder` has started, as soon as it is there.
pub fn program_of(recorder: &Child, comm: &str) -> u32 {
    let mut found = None;
    wait_until("the program runs", || {
        let children = format!("/proc/{0}/task/{0}/children", recorder.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        found = children.split_whitespace().find_map(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (name.trim_end() == comm).then(|| pid.parse().expect("a pid"))
        });
        found.is_some()
    });
    found.expect("waited for")
}

/// Waits until `pid` has left a CPU `n` times more, by the kernel's own count: so far it has come, however slow the machine is.
pub fn wait_for_switches(pid: u32, n: u64) {
    let switches = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        let counts = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        counts.sum()
    };
    let until = switches() + n;
    wait_until("it has run for a while", || switches() >= until);
}

/// Waits until `pid` annotates for the recorder `recorder`.
pub fn wait_for_ring(recorder: u32, pid: u32) {
    let is_its = |name: &str| name.starts_with(&format!("p{pid}-")) && name.contains(".ring");
    wait_until("it annotates", || {
        let sessions = sessions_of(recorder).into_iter();
        let mut files = sessions.filter_map(|name| {
            let dir = Path::new("/dev/shm").join(name);
            Some(std::fs::read_dir(dir).ok()?.flatten())
        });
        files.any(|mut files| files.any(|file| is_its(&file.file_name().to_string_lossy())))
    });
}

/// A process that a test started. When dropped, as a failing test does, it is killed with all that it started, also what has
/// lost its parent since.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    mark: String,
}

/// Starts processes that do not outlive their test.
pub trait SpawnGuarded {
    fn spawn_guarded(&mut self) -> Running;
}

impl SpawnGuarded for Command {
    fn spawn_guarded(&mut self) -> Running {
        let mark = format!("KASURI_TEST_PROCESS={}", unique());
        let (key, value) = mark.split_once('=').expect("made above");
        let child = self.env(key, value).spawn().expect("it runs");
        Running { child: Some(child), mark }
    }
}

impl Running {
    /// Waits for its end, and gives what it said.
    pub fn wait_with_output(mut self) -> Output {
        let child = self.child.take().expect("there until here");
        child.wait_with_output().expect("it ends")
    }

    /// Whether a process was started by this one, or by one that was: what is started inherits the environment.
    fn is_ours(&self, pid: i32) -> bool {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == self.mark.as_bytes())
    }
}

impl std::ops::Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.child.as_ref().expect("there until it is dropped")
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.child.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Until there is none: one may have started another while we looked.
        for _ in 0..20 {
            let ours: Vec<i32> =
                kasuri_record::procs::all().filter(|&pid| self.is_ours(pid)).collect();
            for &pid in &ours {
                let _ = try_signal(pid as u32, Signal::KILL);
            }
            if ours.is_empty() {
                break;
            }
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts kasuri and waits until it records.
pub fn start(command: &mut Command) -> Running {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn_guarded();
    let pid = child.id();
    wait_until("it records", || {
        sessions_of(pid)
            .iter()
            .any(|name| Path::new("/dev/shm").join(name).join("control").exists())
    });
    child
}

/// Sends a signal.
pub fn signal(pid: u32, signal: Signal) {
    try_signal(pid, signal).expect("kill");
}

/// Sends a signal to a process that may be gone.
pub fn try_signal(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    kill_process(Pid::from_raw(pid as i32).expect("a pid"), signal)
}

/// Whether a process has `dir` as its working directory.
pub fn runs_here(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|e| std::fs::read_link(e.path().join("cwd")).ok()).any(|cwd| cwd == dir)
}

/// What a packed file holds.
#[derive(Debug, Default)]
pub struct Facts {
    pub kernel: u64,
    pub annotations: u64,
    /// Lost annotations, all causes.
    pub lost: u64,
    /// Lost kernel events.
    pub kernel_lost: u64,
    /// Kernel events for which the disk had no room.
    pub kernel_unwritten: u64,
    /// Annotations of each process.
    pub by_pid: BTreeMap<u32, u64>,
    /// Annotations of main threads, kept and lost: where a program's workers annotate, these are the lock probe's.
    pub of_main_threads: u64,
    /// Streams with annotations.
    pub streams: usize,
    pub complete: bool,
    pub source: String,
    /// Of the kernel's events.
    pub clock: String,
    pub mode: String,
    pub missing: Vec<String>,
    pub names: Vec<String>,
}

/// Reads a packed file whole: every block is decoded.
pub fn facts(path: &Path) -> Facts {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let recording = Recording::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut facts = Facts {
        complete: recording.meta().complete,
        source: recording.meta().kernel.source.clone(),
        clock: recording.meta().kernel.clock.clone(),
        mode: recording.meta().mode.clone(),
        missing: recording.meta().missing.clone(),
        ..Facts::default()
    };
    let mut streams = std::collections::BTreeSet::new();
    for (ix, info) in recording.blocks().iter().enumerate() {
        match info.kind {
            BlockKind::Kernel => {
                facts.kernel +=
                    recording.kernel_block(ix).expect("a sound block").stamps.len() as u64
            }
            BlockKind::Perf => {
                facts.kernel +=
                    recording.perf_block(ix).expect("a sound block").records.len() as u64
            }
            BlockKind::Annotation => {
                let block = recording.annotation_block(ix).expect("a sound block");
                facts.annotations += block.len() as u64;
                let lost = block.losses.iter().map(|l| l.count).sum::<u64>();
                facts.lost += lost;
                *facts.by_pid.entry(block.pid).or_default() += block.len() as u64;
                if block.tid == block.pid {
                    facts.of_main_threads += block.len() as u64 + lost;
                }
                streams.insert((block.pid, block.generation, block.stream));
            }
            _ => {}
        }
    }
    facts.streams = streams.len();
    // A hostile program may count what it likes.
    let others = recording.client_losses().iter().flat_map(|l| l.lost);
    facts.lost = others.fold(facts.lost, u64::saturating_add);
    let last: BTreeMap<u32, u64> = recording
        .kernel_losses()
        .iter()
        .map(|l| (l.cpu, l.overrun + l.dropped + l.commit_overrun))
        .collect();
    facts.kernel_lost = last.values().sum();
    let last: BTreeMap<u32, u64> =
        recording.kernel_losses().iter().map(|l| (l.cpu, l.unwritten)).collect();
    facts.kernel_unwritten = last.values().sum();
    for table in recording.sites().tables() {
        facts.names.extend(table.sites.iter().map(|site| site.name.clone()));
    }
    facts
}

/// What an emitter counted, all threads.
pub fn counted(path: &Path) -> u64 {
    let (during, after) = counted_by_end(path);
    during + after
}

/// The same in two: what it emitted during the recording, and when that had perhaps ended.
pub fn counted_by_end(path: &Path) -> (u64, u64) {
    const THREADS_MAX: usize = 64;
    let bytes = std::fs::read(path).expect("the emitter's counts");
    let counts = bytes.as_chunks::<8>().0;
    let (before, after) = counts.split_at(counts.len().min(THREADS_MAX));
    let sum = |counts: &[[u8; 8]]| counts.iter().map(|b| u64::from_ne_bytes(*b)).sum();
    (sum(before), sum(after))
}
