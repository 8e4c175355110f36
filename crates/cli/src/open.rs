//! From a path on the command line to a loaded recording; the one place that maps files and adds paths to errors.
use anyhow::{Context, bail};
use kasuri_format::ErrorKind;
use kasuri_format::container::Recording;
use kasuri_import as import;
use kasuri_model::Trace;
use kasuri_record::safefs;
use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Loading what is smaller takes less time than it takes to read that it is loading.
const PROGRESS_BYTES: u64 = 64 << 20;

/// Bytes by which a format is known.
const BEGINNING: u64 = 1 << 20;
/// Bounds on the entries and depth of a directory that is still taken for a trace: LTTng's own have six levels.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 12;

/// The recording that a command reads.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// Recording (.kasuri) or another tool's trace; - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read the undamaged part of a damaged recording
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
        self.read(false)
    }

    /// As [`Input::load`], with the scheduler's events themselves: for exports that hold events.
    ///
    /// # Errors
    /// As [`Input::load`].
    pub fn load_with_events(&self) -> anyhow::Result<Trace> {
        self.read(true)
    }

    fn read(&self, keeps_events: bool) -> anyhow::Result<Trace> {
        crate::memory::bound()?;
        let files = Files::read(&self.file)?;
        let bytes = files.bytes();
        let what = format!("reading {} ({} MB)", self.name(), bytes >> 20);
        let progress = progress(bytes >= PROGRESS_BYTES, &what);
        let trace = self.understand(&files, keeps_events);
        progress.finish_and_clear();
        trace
    }

    fn understand(&self, files: &Files, keeps_events: bool) -> anyhow::Result<Trace> {
        let unpacked = files.unpack()?;
        let parts: Vec<import::File> = (files.all.iter().zip(&unpacked))
            .map(|((name, _), bytes)| import::File { name, bytes })
            .collect();
        let options = import::Options {
            salvage: self.salvage,
            keeps_events,
            threads: 0,
            name_code: Some(crate::names::name_code),
        };
        let mut strings = kasuri_model::Strings::default();
        let opened = import::open(&parts, &options, &mut strings).map_err(|e| self.damaged(e))?;
        self.warn_of(&opened.damage);
        let trace = opened.build(strings);
        trace.map_err(|error| self.damaged(error.into()))
    }

    /// Says what of a damaged recording is passed over.
    fn warn_of(&self, damage: &[kasuri_format::Error]) {
        for error in damage {
            crate::message::warning(format!("{}: {error}; the rest is kept", self.name()));
        }
    }

    /// The recording in these bytes, for what needs its blocks.
    fn recording<'b>(&self, bytes: &'b [u8]) -> anyhow::Result<Recording<'b>> {
        let name = self.name().to_string();
        let parsed = import::recording(&name, bytes, self.salvage);
        let (recording, damage) = parsed.map_err(|error| self.damaged(error))?;
        self.warn_of(&damage);
        Ok(recording)
    }

    /// An error of the file's content, with its path, and with the way to what is left of it.
    fn damaged(&self, error: import::Error) -> anyhow::Error {
        let hint = self.hint(error.kind());
        match error {
            // Met while events were read, where the path is not known.
            import::Error::Model(error) => anyhow::anyhow!("{}: {error}{hint}", self.name()),
            error => anyhow::anyhow!("{error}{hint}"),
        }
    }

    /// The way to what is left of a damaged file.
    fn hint(&self, kind: Option<ErrorKind>) -> &'static str {
        match kind {
            Some(ErrorKind::Damaged | ErrorKind::Truncated) if !self.salvage => {
                "; --salvage shows what can still be read"
            }
            _ => "",
        }
    }

    /// Another recording, read in the same way.
    pub fn another(&self, file: PathBuf) -> Input {
        Input { file, salvage: self.salvage }
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

/// A recording to which traces of other tools are added.
pub struct Base<'a> {
    /// Its name, for messages.
    pub name: String,
    /// The whole file.
    pub bytes: &'a [u8],
    /// Its content.
    pub recording: Recording<'a>,
}

/// The argument of [`with_traces`]' callback.
pub struct Traces<'a> {
    /// The first of them, when that is a recording.
    pub base: Option<Base<'a>>,
    /// Those of other tools, with their paths.
    pub opened: Vec<(&'a Path, import::Opened<'a>)>,
    /// The names in them.
    pub strings: kasuri_model::Strings,
}

/// Opens several traces of other tools, the first of which may be a recording, and hands them over.
///
/// # Errors
/// A path that cannot be read, a second recording, and what `then` reports.
pub fn with_traces<R>(
    paths: &[PathBuf],
    salvage: bool,
    then: impl FnOnce(Traces<'_>) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let files = paths.iter().map(|path| Files::read(path));
    let files = files.collect::<anyhow::Result<Vec<Files>>>()?;
    let mut base = None;
    let mut others = Vec::new();
    for (ix, (files, path)) in files.iter().zip(paths).enumerate() {
        let name = path.display();
        match files.one().filter(|bytes| Recording::is_one(bytes)) {
            None => others.push((path.as_path(), files, files.unpack()?)),
            Some(bytes) if ix == 0 => {
                let input = Input::new(path.clone(), salvage);
                base = Some(Base {
                    name: name.to_string(),
                    bytes,
                    recording: input.recording(bytes)?,
                });
            }
            Some(_) => bail!(
                "{name}: is a kasuri recording, of which only the first input can be one, needed a trace of another tool; \
                 `kasuri export --format trace-dat {name}` makes one of it"
            ),
        }
    }
    let parts: Vec<(&Path, Vec<import::File<'_>>)> = (others.iter())
        .map(|(path, files, unpacked)| {
            let all = files.all.iter().zip(unpacked);
            let all = all.map(|((name, _), bytes)| import::File { name, bytes });
            (*path, all.collect())
        })
        .collect();
    let mut strings = kasuri_model::Strings::default();
    let mut opened = Vec::new();
    for (path, files) in &parts {
        let options = import::Options { salvage, keeps_events: false, threads: 0, name_code: None };
        opened.push((*path, import::open(files, &options, &mut strings)?));
    }
    then(Traces { base, opened, strings })
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
            return Bytes::read_stream("stdin", std::io::stdin().lock());
        }
        let name = path.display();
        let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
        Bytes::of(&name, file)
    }

    /// Of a file that was found in a folder: it may be a FIFO by now, which would be waited for.
    fn read_regular(path: &Path) -> anyhow::Result<Bytes> {
        let name = path.display();
        let file = safefs::open_regular(path).with_context(|| format!("{name}: cannot open"))?;
        Bytes::of(&name, file)
    }

    fn of(name: &dyn std::fmt::Display, file: File) -> anyhow::Result<Bytes> {
        let facts = file.metadata().with_context(|| format!("{name}: cannot look at"))?;
        if !facts.is_file() || facts.len() == 0 {
            return Bytes::read_stream(&name.to_string(), file);
        }
        // SAFETY: the mapping is read-only and private to this process. If another process truncates the file while it is
        // mapped, reading beyond its new end raises SIGBUS and ends this command: recordings are written under
        // another name and renamed when complete, so it takes a user who truncates one by hand.
        let map =
            unsafe { memmap2::Mmap::map(&file) }.with_context(|| format!("{name}: cannot map"))?;
        Ok(Bytes::Mapped(map))
    }

    /// A pipe or device to its end, which it may not have: what no reader knows is refused by its beginning.
    fn read_stream(name: &str, mut from: impl Read) -> anyhow::Result<Bytes> {
        let mut bytes = Vec::new();
        (&mut from)
            .take(BEGINNING)
            .read_to_end(&mut bytes)
            .with_context(|| format!("{name}: cannot read"))?;
        let is_more = bytes.len() as u64 == BEGINNING;
        let file = import::File { name, bytes: &bytes };
        if is_more && !import::may_be_one(&file) {
            return Err(import::Error::unknown(&[file]).into());
        }
        from.read_to_end(&mut bytes).with_context(|| format!("{name}: cannot read"))?;
        Ok(Bytes::Owned(bytes))
    }
}

/// Files at a path: one file, or a directory of them.
struct Files {
    /// Name for messages, content.
    all: Vec<(String, Bytes)>,
}

impl Files {
    fn read(path: &Path) -> anyhow::Result<Files> {
        let mut all = Vec::new();
        if path.is_dir() && !is_stdin(path) {
            let mut folders = Vec::new();
            if !path.join("meta.json").is_file() {
                ctf_folders(path, MAX_DEPTH, &mut 0, &mut folders)?;
            }
            if folders.is_empty() {
                bail!("{}", directory(path));
            }
            for file in folders.iter().flatten() {
                all.push((file.display().to_string(), Bytes::read_regular(file)?));
            }
        } else {
            all.push((path.display().to_string(), Bytes::read(path)?));
        }
        Ok(Files { all })
    }

    fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, b)| b.get().len() as u64).sum()
    }

    /// The content, when it is one file.
    fn one(&self) -> Option<&[u8]> {
        match &self.all[..] {
            [(_, bytes)] => Some(bytes.get()),
            _ => None,
        }
    }

    fn unpack(&self) -> anyhow::Result<Vec<Cow<'_, [u8]>>> {
        let mut out = Vec::new();
        for (name, bytes) in &self.all {
            out.push(import::unpack(name, bytes.get())?);
        }
        Ok(out)
    }
}

/// The files of each CTF trace at or below `path`: of a folder that has a file `metadata`, as of no other format. In order
/// of their names; links are not followed.
fn ctf_folders(
    path: &Path,
    depth: usize,
    seen: &mut usize,
    out: &mut Vec<Vec<PathBuf>>,
) -> anyhow::Result<()> {
    let name = path.display();
    let cannot = || format!("{name}: cannot list");
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        *seen += 1;
        if *seen > MAX_ENTRIES {
            bail!(
                "{name}: more than {MAX_ENTRIES} files here and before, needed the folder of one trace"
            );
        }
        let kind = entry.file_type().with_context(cannot)?;
        if kind.is_dir() {
            folders.push(entry.path());
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    folders.sort();
    if files.iter().any(|f| f.ends_with("metadata")) {
        out.push(files);
    }
    for folder in folders.iter().filter(|_| depth > 0) {
        ctf_folders(folder, depth - 1, seen, out)?;
    }
    Ok(())
}

fn directory(path: &Path) -> String {
    let name = path.display();
    if path.join("meta.json").is_file() {
        format!(
            "{name}: is a recording that was not finished, needed a .kasuri file; run `kasuri recover {name}`"
        )
    } else if let Some(stream) = ctf_stream(path) {
        format!(
            "{name}: has a stream of a CTF trace ({stream}), but no `metadata`, which describes its events; copy the whole directory of the trace"
        )
    } else {
        format!(
            "{name}: is a directory without a recording in it, needed a file, or a directory with a CTF trace"
        )
    }
}

/// The name of a file there that begins as the packets of a CTF trace do, in either byte order.
fn ctf_stream(path: &Path) -> Option<String> {
    let is_stream = |file: &std::fs::DirEntry| {
        let mut head = [0; 4];
        file.file_type().is_ok_and(|kind| kind.is_file())
            && safefs::open_regular(&file.path()).is_ok_and(|mut f| f.read_exact(&mut head).is_ok())
            && [0xc1fc_1fc1, 0xc11f_fcc1].contains(&u32::from_be_bytes(head))
    };
    let files = std::fs::read_dir(path).ok()?.take(MAX_ENTRIES).flatten();
    let stream = files.filter(is_stream).map(|file| file.file_name()).min()?;
    Some(stream.to_string_lossy().escape_debug().to_string())
}

/// A line on stderr while something takes its time (`long`); nothing when stderr is no terminal.
pub fn progress(long: bool, what: &str) -> indicatif::ProgressBar {
    if !long || !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new_spinner();
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
