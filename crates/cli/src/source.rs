//! `FILE | -- PROGRAM`: a recording that exists, or one that is made now and thrown away.
use crate::message;
use crate::open::Input;
use crate::scratch::Scratch;
use anyhow::bail;
use kasuri_model::Trace;
use kasuri_record::{LockProbe, Notice, Options, Target};
use std::ffi::OsString;
use std::path::PathBuf;

/// Input of a command.
#[derive(clap::Args, Debug)]
pub struct Source {
    /// Recording (.kasuri); - for stdin
    #[arg(value_name = "FILE", conflicts_with = "program")]
    file: Option<PathBuf>,
    /// Keep the recording of PROGRAM as FILE
    #[arg(short, long, value_name = "FILE", requires = "program")]
    output: Option<PathBuf>,
    /// With PROGRAM: record locks by the functions that acquire and release them (see `kasuri record --help`)
    #[arg(long, value_name = "FUNCTIONS", requires = "program")]
    lock_function: Vec<String>,
    /// Program to record first, with its arguments; its output goes to stderr
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Source {
    /// Whether a program is to be run.
    pub fn is_program(&self) -> bool {
        !self.program.is_empty()
    }

    /// The file's name, or the program's.
    pub fn name(&self) -> String {
        match (&self.file, self.program.first()) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(program)) => program.to_string_lossy().into_owned(),
            (None, None) => String::new(),
        }
    }

    /// Loads the file, or records the program; `adjust` says how.
    ///
    /// # Errors
    /// When the recording cannot be read or made.
    pub fn load(&self, adjust: &dyn Fn(&mut Options)) -> anyhow::Result<Trace> {
        match &self.file {
            Some(file) => Input::new(file.clone(), false).load(),
            None if self.is_program() => self.record(self.output.clone(), adjust),
            None => bail!("no input: give a recording (FILE) or a program (-- PROGRAM)"),
        }
    }

    /// Records the program once more, into nothing that lasts.
    ///
    /// # Errors
    /// When there is no program, or it cannot be recorded.
    pub fn record_again(&self, adjust: &dyn Fn(&mut Options)) -> anyhow::Result<Trace> {
        if !self.is_program() {
            bail!("a second run needs the program: use `-- PROGRAM` instead of a file");
        }
        self.record(None, adjust)
    }

    fn record(
        &self,
        keep: Option<PathBuf>,
        adjust: &dyn Fn(&mut Options),
    ) -> anyhow::Result<Trace> {
        let scratch = Scratch::new("run")?;
        let output = keep.unwrap_or_else(|| scratch.path().join("run.kasuri"));
        let mut options = Options::new(Target::Program(self.program.clone()), output.clone());
        options.shm_dir = crate::cmd::shm_dir();
        options.locks = Some(LockProbe::Full);
        options.costs.parallel = kasuri_lab::parallel::for_recording();
        options.lock_functions.clone_from(&self.lock_function);
        adjust(&mut options);
        let summary = match record(&options) {
            Err(error @ kasuri_record::Error::NoProbe { .. }) => {
                message::warning(format_args!("{error}; only annotated locks are seen"));
                options.locks = None;
                record(&options)?
            }
            other => other?,
        };
        if let Some(failure) = &summary.failure {
            bail!("the recording failed: {failure}");
        }
        if let Some(status) = summary.exit_status.filter(|&status| status != 0) {
            message::warning(format!(
                "{} exited with {status}: what follows is of that run",
                self.name()
            ));
        }
        Input::new(output, false).load()
    }
}

/// Records, and says what cannot be.
///
/// # Errors
/// When nothing can be recorded.
pub fn record(options: &Options) -> kasuri_record::Result<kasuri_record::Summary> {
    with_stdout_on_stderr(|| {
        kasuri_record::record(options, &mut |notice| match notice {
            Notice::Warning(text) => message::warning(text),
            Notice::Started { missing } => {
                missing.iter().for_each(|text| message::warning(format_args!("missing: {text}")));
            }
            _ => {}
        })
    })
}

/// Stdout is for the answer: what the program prints meanwhile goes to stderr.
pub fn with_stdout_on_stderr<T>(work: impl FnOnce() -> T) -> T {
    let stdout = rustix::io::dup(std::io::stdout());
    let moved = stdout.is_ok() && rustix::stdio::dup2_stdout(std::io::stderr()).is_ok();
    let result = work();
    if let (Ok(stdout), true) = (&stdout, moved) {
        // Nothing to do about a failure: the answer goes where the program's output went.
        let _ = rustix::stdio::dup2_stdout(stdout);
    }
    result
}
