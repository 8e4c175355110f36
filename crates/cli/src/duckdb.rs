//! DuckDB as a program of its own: found, not built in. Compiling it into this command would take half an hour; its package
//! takes seconds, and brings the prompt with history, completion and all formats.
use crate::programs;
use anyhow::{Context, bail};
use kasuri_record::is_ignored;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// Names another DuckDB command.
const VARIABLE: &str = "KASURI_DUCKDB";

/// DuckDB's program.
#[derive(Debug)]
pub struct DuckDb(PathBuf);

impl DuckDb {
    /// `$KASURI_DUCKDB`, else `duckdb` on the path, else the Python package's.
    ///
    /// # Errors
    /// How to get it, when there is none.
    pub fn find() -> anyhow::Result<DuckDb> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            let found = DuckDb(PathBuf::from(path));
            if !found.answers() {
                bail!(
                    "{VARIABLE}={0}: is no DuckDB command line (`{0} --version` failed)",
                    found.0.display()
                );
            }
            return Ok(found);
        }
        let of_python = || programs::find("python3").and_then(|python| packaged(&python));
        programs::all("duckdb")
            .map(|path| interpreter(&path).and_then(|i| packaged(&i)).unwrap_or(path))
            .chain(std::iter::once_with(of_python).flatten())
            .map(DuckDb)
            .find(DuckDb::answers)
            .with_context(|| {
                format!(
                    "DuckDB, which answers SQL, was not found: neither `duckdb` on the PATH nor the Python package; \
                     get it with `pip install duckdb-cli` (or set {VARIABLE}=/path/to/duckdb); \
                     `kasuri export --format parquet` needs none"
                )
            })
    }

    fn command(&self) -> Command {
        Command::new(&self.0)
    }

    fn answers(&self) -> bool {
        let mut command = self.command();
        command.arg("--version").stdin(Stdio::null());
        let output = command.stderr(Stdio::null()).output();
        output.is_ok_and(|o| o.status.success() && o.stdout.starts_with(b"v"))
    }

    /// Runs it on an empty database after the statements in `setup`, to its end; with the user's own `~/.duckdbrc` at the prompt
    /// only. Ctrl-C at the prompt is its business, not ours; other signals end it, and what is done after it is done.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(
        &self,
        setup: &Path,
        args: &[OsString],
        cleaner: &Cleaner,
    ) -> anyhow::Result<ExitStatus> {
        let mut command = self.command();
        command
            .args((!args.is_empty()).then_some("-no-init"))
            .arg("-cmd")
            .arg(format!(".read {}", quoted(&setup.to_string_lossy())))
            .args(args);
        let cannot = || format!("{}: cannot run", self.0.display());
        let mut child = cleaner.start(&mut command, args.is_empty()).with_context(cannot)?;
        cleaner.ended(&child);
        child.wait().with_context(cannot)
    }
}

/// Leaves nothing behind where a signal would have ended us at once: no process, and no directory of columns.
pub struct Cleaner(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    /// The process that runs.
    child: Option<Pid>,
    /// Whether it has a prompt.
    is_prompt: bool,
}

impl Cleaner {
    /// Takes over SIGINT, SIGTERM and SIGHUP for good: each ends the process that runs, else removes `scratch` and ends us.
    ///
    /// # Errors
    /// When they cannot be taken.
    pub fn of(scratch: &Path) -> anyhow::Result<Cleaner> {
        let taken = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&s| !is_ignored(s));
        let mut signals = Signals::new(taken).context("cannot take signals")?;
        let (running, scratch) = (Arc::<Mutex<Running>>::default(), scratch.to_owned());
        let seen = Arc::clone(&running);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // Held meanwhile: no process begins, and none gives its number away.
                let running = seen.lock().expect("no panic");
                match running.child {
                    Some(_) if running.is_prompt && signal == SIGINT => {}
                    Some(child) => drop(kill_process(child, Signal::TERM)),
                    None => {
                        let _ = std::fs::remove_dir_all(&scratch);
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                }
            }
        });
        Ok(Cleaner(running))
    }

    fn start(&self, command: &mut Command, is_prompt: bool) -> std::io::Result<Child> {
        let mut running = self.0.lock().expect("no panic");
        let child = command.spawn()?;
        *running = Running { child: Some(Pid::from_child(&child)), is_prompt };
        Ok(child)
    }

    /// Waits until it has ended. It keeps its number until it is waited for.
    fn ended(&self, child: &Child) {
        let id = || WaitId::Pid(Pid::from_child(child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = rustix::process::waitid(id(), options) {}
        self.0.lock().expect("no panic").child = None;
    }
}

/// The interpreter of a script; none: it is no script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let n = File::open(path).and_then(|mut f| f.read(&mut head)).ok()?;
    let line = head[..n].strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    Some(PathBuf::from(std::str::from_utf8(line).ok()?.trim()))
}

/// The program inside the Python package. The script that the package puts on the path waits for it, and dies of a Ctrl-C that
/// was meant to stop a query.
fn packaged(python: &Path) -> Option<PathBuf> {
    let code = "import duckdb_cli, os; print(os.path.join(os.path.dirname(duckdb_cli.__file__), 'duckdb'))";
    let mut command = Command::new(python);
    // -I: neither the working directory nor PYTHONPATH says what `duckdb_cli` is. A recording lies beside a stranger's files.
    command.args(["-I", "-c", code]).stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    let path = PathBuf::from(std::str::from_utf8(&output.stdout).ok()?.trim());
    (output.status.success() && path.is_file()).then_some(path)
}

/// `text` as an SQL literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
