//! Destination of a command's result: stdout, or a file that is either complete or not there. Rules for writing:
//! [`kasuri_record::output`].
use anyhow::{Context, bail};
use kasuri_record::output::{self, Readers};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A destination.
pub enum Output {
    /// stdout (`-`).
    Stdout,
    /// A file, a device or a pipe; and who may read it.
    File(PathBuf, Readers),
}

impl Output {
    /// The destination named `path`, which must be none of the files that are read. Whoever may not read one of those may not read
    /// what is made of them either: root's recordings name all programs of the machine.
    ///
    /// # Errors
    /// When it is such a file, or binary data would go to a screen.
    pub fn new(path: PathBuf, inputs: &[&Path], is_binary: bool) -> anyhow::Result<Output> {
        if path.as_os_str() == "-" {
            if is_binary && io::stdout().is_terminal() {
                bail!("stdout is a terminal, needed a file for binary data; use -o FILE or a pipe");
            }
            return Ok(Output::Stdout);
        }
        let same = |input: &Path| input.canonicalize().ok() == path.canonicalize().ok();
        if path.exists() && inputs.iter().any(|input| same(input)) {
            bail!(
                "{}: is the recording itself, needed another name for the result",
                path.display()
            );
        }
        Output::for_readers(path, readers_of(inputs))
    }

    /// The file named `path`, for what is made of no file.
    ///
    /// # Errors
    /// When it is something that must not be written.
    pub fn to(path: PathBuf) -> anyhow::Result<Output> {
        Output::for_readers(path, Readers::Umask)
    }

    fn for_readers(path: PathBuf, readers: Readers) -> anyhow::Result<Output> {
        match output::kind(&path) {
            Ok(_) => Ok(Output::File(path, readers)),
            Err(why) => bail!("cannot write {}: {why}", path.display()),
        }
    }

    /// The file's name; none for stdout.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Output::Stdout => None,
            Output::File(path, _) => Some(path),
        }
    }

    /// Lets `write` write, then makes the result appear. A file that could not be written whole does not appear.
    ///
    /// # Errors
    /// Those of `write` and of the file system, with the path.
    pub fn write<T, E>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
    ) -> anyhow::Result<T>
    where
        E: Into<anyhow::Error>,
    {
        match self {
            Output::Stdout => {
                let mut out = BufWriter::new(io::stdout().lock());
                let done = write(&mut out).map_err(Into::into).context("stdout: cannot write")?;
                out.flush().context("stdout: cannot write")?;
                Ok(done)
            }
            Output::File(path, readers) => write_file(path, *readers, write)
                .with_context(|| format!("{}: cannot write", path.display())),
        }
    }
}

/// Those who may read all of `inputs`.
fn readers_of(inputs: &[&Path]) -> Readers {
    let each = inputs.iter().map(|input| Readers::of_file(input));
    each.fold(Readers::Umask, Readers::and)
}

/// Lets `write` make files in a directory, for those who may read `input`; then makes the directory appear. It must not be there, or be empty: nothing is
/// overwritten, as existing files may belong to others.
///
/// # Errors
/// Those of `write` and of the file system, with the path.
pub fn write_directory<T>(
    path: &Path,
    input: &Path,
    write: impl FnOnce(&mut dyn FnMut(&str) -> io::Result<Box<dyn Write>>) -> io::Result<T>,
) -> anyhow::Result<T> {
    let name = path.display();
    if path.as_os_str() == "-" {
        bail!("the result is a directory, which stdout cannot be; needed -o DIRECTORY");
    }
    let is_free = !path.exists() || std::fs::read_dir(path).is_ok_and(|mut d| d.next().is_none());
    if !is_free {
        bail!("{name}: is there already, needed a new directory; remove it or use -o OTHER");
    }
    let target = beside(path);
    // Not create_dir_all: in a directory that others may write, an existing directory may belong to another user.
    let mode = readers_of(&[input]).directory_mode();
    let made = std::fs::DirBuilder::new().mode(mode).create(&target);
    made.with_context(|| format!("{name}: cannot write"))?;
    let mut file = |name: &str| -> io::Result<Box<dyn Write>> {
        let path = target.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        Ok(Box::new(BufWriter::with_capacity(1 << 18, File::create(path)?)))
    };
    let done = write(&mut file).and_then(|done| std::fs::rename(&target, path).map(|()| done));
    if done.is_err() {
        let _ = std::fs::remove_dir_all(&target);
    }
    done.with_context(|| format!("{name}: cannot write"))
}

fn write_file<T, E>(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> anyhow::Result<T>
where
    E: Into<anyhow::Error>,
{
    let (file, pending) = output::create(path, readers)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let done = write(&mut out).map_err(Into::into)?;
    out.flush()?;
    pending.commit()?;
    Ok(done)
}

/// Another name in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}
