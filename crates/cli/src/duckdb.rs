//! DuckDB as a program of its own: found, not built in. Compiling it into this command would take half an hour; its package
//! takes seconds, and brings the prompt with history, completion and all formats.
use crate::programs;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// only. Ctrl-C is its business meanwhile, not ours.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, setup: &Path, args: &[OsString]) -> anyhow::Result<ExitStatus> {
        let ignored = signal_hook::flag::register(
            signal_hook::consts::SIGINT,
            Arc::new(AtomicBool::new(false)),
        )?;
        let status = self
            .command()
            .args((!args.is_empty()).then_some("-no-init"))
            .arg("-cmd")
            .arg(format!(".read {}", quoted(&setup.to_string_lossy())))
            .args(args)
            .status()
            .with_context(|| format!("{}: cannot run", self.0.display()));
        signal_hook::low_level::unregister(ignored);
        status
    }
}

/// The interpreter of a script; none: it is no script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let n = File::open(path).and_then(|mut f| f.read(&mut head)).ok()?;
    let line = head[..n]
        .strip_prefix(b"#!")?
        .split(|&b| b == b'\n')
        .next()?;
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
