//! From a path on the command line to a loaded recording; the one place that maps files and adds paths to errors.
use anyhow::{Context, bail};
use kasuri_format::ErrorKind;
use kasuri_format::container::Recording;
use kasuri_model::{Loss, ThreadIx, Trace};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Loading what is smaller takes less time than it takes to read that it is loading.
const PROGRESS_BYTES: u64 = 64 << 20;

/// The recording that a command reads.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// The recording (.kasuri), or - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read what can be read of a damaged recording
    #[arg(long)]
    salvage: bool,
}

impl Input {
    /// The recording of that name, for commands that read several.
    pub fn new(file: PathBuf, salvage: bool) -> Input {
        Input { file, salvage }
    }

    /// Reads and understands the recording.
    ///
    /// # Errors
    /// The path, and what is wrong there.
    pub fn load(&self) -> anyhow::Result<Trace> {
        let bytes = Bytes::read(&self.file)?;
        let progress = progress(bytes.get().len() as u64, &self.file);
        let trace = self.understand(bytes.get());
        progress.finish_and_clear();
        trace
    }

    fn understand(&self, bytes: &[u8]) -> anyhow::Result<Trace> {
        if !self.salvage {
            let recording = Recording::parse(bytes).map_err(|error| self.damaged(error.into()))?;
            return Trace::load(&recording).map_err(|error| self.damaged(error.into()));
        }
        let (recording, errors) = Recording::salvage(bytes);
        // Nothing can be left of what is no recording of ours.
        let is_foreign =
            |e: &&kasuri_format::Error| matches!(e.kind, ErrorKind::Foreign | ErrorKind::Version);
        if let Some(error) = errors.iter().find(is_foreign) {
            return Err(self.damaged(error.clone().into()));
        }
        let mut trace = Trace::load(&recording).map_err(|error| self.damaged(error.into()))?;
        for error in errors {
            crate::message::warning(format!("{}: {error}; the rest is kept", self.name()));
            trace.losses.push(file_damage(&trace, &error));
        }
        Ok(trace)
    }

    /// An error of the file's content, with its path, and with the way to what is left of it.
    fn damaged(&self, error: anyhow::Error) -> anyhow::Error {
        let kind = error
            .chain()
            .find_map(|e| match e.downcast_ref::<kasuri_model::Error>() {
                Some(kasuri_model::Error::Format(e)) => Some(e.kind),
                _ => e.downcast_ref::<kasuri_format::Error>().map(|e| e.kind),
            });
        let has_rest =
            !self.salvage && matches!(kind, Some(ErrorKind::Damaged | ErrorKind::Truncated));
        let hint = if has_rest {
            "; --salvage shows what can still be read"
        } else {
            ""
        };
        anyhow::anyhow!("{}: {error:#}{hint}", self.name())
    }

    /// Another recording, read in the same way.
    pub fn another(&self, file: PathBuf) -> Input {
        Input {
            file,
            salvage: self.salvage,
        }
    }

    /// The file's name without folders and extension.
    pub fn label(&self) -> String {
        let stem = self.file.file_stem().unwrap_or_default();
        match is_stdin(&self.file) {
            true => "stdin".to_owned(),
            false => stem.to_string_lossy().into_owned(),
        }
    }

    /// The file's name for messages.
    pub fn name(&self) -> std::path::Display<'_> {
        self.file.display()
    }

    /// The name of a file beside the recording: its own with another extension. Stdin's are in the current directory.
    pub fn beside(&self, extension: &str) -> PathBuf {
        if is_stdin(&self.file) {
            PathBuf::from("kasuri").with_extension(extension)
        } else {
            self.file.with_extension(extension)
        }
    }
}

/// What is missing of a damaged file shows in every answer, like every other loss.
fn file_damage(trace: &Trace, error: &kasuri_format::Error) -> Loss {
    Loss {
        cause: format!("file damaged at byte {}", error.offset),
        cpu: None,
        thread: ThreadIx::NONE,
        when: trace.span.clone(),
        count: 0,
        remedy: String::new(),
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }

    fn read(path: &Path) -> anyhow::Result<Bytes> {
        if is_stdin(path) {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .context("stdin: cannot read")?;
            return Ok(Bytes::Owned(bytes));
        }
        let name = path.display();
        let mut file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
        let facts = file
            .metadata()
            .with_context(|| format!("{name}: cannot look at"))?;
        if facts.is_dir() {
            bail!("{}", directory(path));
        }
        if !facts.is_file() || facts.len() == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)
                .with_context(|| format!("{name}: cannot read"))?;
            return Ok(Bytes::Owned(bytes));
        }
        // SAFETY: the mapping is read-only and private to this process. If somebody truncates the file while it is
        // mapped, reading beyond its new end raises SIGBUS and ends this command: recordings are written under
        // another name and renamed when complete, so it takes a user who truncates one by hand.
        let map =
            unsafe { memmap2::Mmap::map(&file) }.with_context(|| format!("{name}: cannot map"))?;
        Ok(Bytes::Mapped(map))
    }
}

fn directory(path: &Path) -> String {
    let name = path.display();
    if path.join("meta.json").is_file() {
        format!(
            "{name}: is a recording that was not finished, needed a .kasuri file; run `kasuri recover {name}`"
        )
    } else {
        format!("{name}: is a directory without a recording in it, needed a .kasuri file")
    }
}

/// A line on stderr while a big recording is read; nothing when nobody would see it.
fn progress(bytes: u64, file: &Path) -> indicatif::ProgressBar {
    if bytes < PROGRESS_BYTES || !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new_spinner();
    bar.set_message(format!("reading {} ({} MB)", file.display(), bytes >> 20));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
