//! Recovers a recording directory that a crash left behind, or a damaged `.kasuri` file.
//!
//! A killed recorder leaves a directory without an end, and a session whose rings still hold annotations. Recovery
//! stops the programs that still write, copies the rings into the directory (or beside the output when the directory
//! cannot be written), adds the anchor that was never written, packs, and removes both directories once the file is
//! safe. It can be repeated: a chunk that is in the ring and in the file counts once, by (stream, seq).
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::output::{self as out, Readers};
use crate::files::pack::{self, Amend, Packed};
use crate::guard::safefs::{self, Held};
use crate::guard::sigbus::Guarded;
use crate::notice::{Notice, Notify};
use crate::rings::collector::{Collector, write_unplaced};
use crate::rings::ringfile::repair_chunk_files;
use crate::rings::session::{self, Left};
use crate::sent::Sent;
use kasuri_format::container::{BlockKind, Recording, Writer};
use kasuri_format::meta::Meta;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result of a recovery.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The file that was made.
    pub output: PathBuf,
    /// Its contents.
    pub packed: Packed,
    /// The file was there, whole: its recorder was killed while it removed the directory, which is gone now.
    pub was_whole: bool,
}

/// Time that programs of a dead recorder get to finish the event they are writing.
const STOP_GRACE: Duration = Duration::from_millis(5);

/// Packs what is left of a recording into `output` (default: the name it was to have). The directory is removed when
/// its recording is safe in the file; a damaged file stays.
///
/// The recording may come from any user. Its link to a session is followed only if it leads to a session in `shm_dir`
/// that was made for this recording; and in both directories only files that Kasuri makes are removed, one by one.
///
/// # Errors
/// [`Error::Busy`] while its recorder lives; [`Error::NotARecording`]; [`Error::Pack`].
pub fn recover(
    path: &Path,
    output: Option<&Path>,
    shm_dir: &Path,
    notify: Notify<'_>,
) -> Result<Recovered> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => recover_directory(path, output, shm_dir, notify),
        Ok(_) => recover_file(path, output, notify),
        Err(e) => Err(Error::file("open", path, e)),
    }
}

fn recover_directory(
    path: &Path,
    output: Option<&Path>,
    shm_dir: &Path,
    notify: Notify<'_>,
) -> Result<Recovered> {
    let (dir, mut meta) = open_recording(path)?;
    let output = output.map_or_else(|| directory::output_for(path), Path::to_owned);
    out::kind(&output).map_err(|e| Error::file("write", &output, e))?;
    let left = Left::of(&dir, shm_dir).map_err(|e| Error::NotARecording {
        path: path.to_owned(),
        why: format!(
            "its link `session` does not lead to its session ({e}); remove the link to recover without that session"
        ),
    })?;
    if let Some(whole) = whole_recording(&output) {
        let is_same = whole.start == meta.start && whole.root_pids == meta.root_pids;
        return match is_same {
            true => Ok(remove_packed(left, &dir, output, notify)),
            false => Err(Error::Whole { output, dir: path.to_owned() }),
        };
    }
    directory::use_reserve(&dir);
    let mut taken = Taken::default();
    match &left {
        Some(left) => {
            taken = take_rings(left, &dir, &output)?;
            meta.missing.extend_from_slice(&taken.refused);
            meta.annotations.hindrances = left.hindrances();
        }
        None => {
            repair_chunk_files(&dir)?;
        }
    }
    meta.uncounted.append(&mut taken.refused);
    if Sent::of(&dir).bytes() > 0 {
        let why = "events that were sent to elsewhere, until the stream broke";
        meta.missing.push(format!("{why}: this is the rest"));
        meta.uncounted.push(why.to_owned());
    }
    if !meta.complete && meta.end.is_none() && meta.kernel.source != "none" {
        let why = "kernel events that its killed recorder had not yet read";
        meta.uncounted.push(why.to_owned());
    }
    let amend = complete(meta);
    let dirs: Vec<&Held> =
        std::iter::once(&dir).chain(taken.elsewhere.as_ref().map(Directory::held)).collect();
    let packed = pack::pack_amended(&dirs, &output, &amend, &|| false, notify);
    if let Some(elsewhere) = taken.elsewhere {
        elsewhere.discard();
    }
    let packed = packed?;
    let mut recovered = remove_packed(left, &dir, output, notify);
    recovered.packed = packed;
    recovered.was_whole = false;
    Ok(recovered)
}

/// Removes a session and a directory whose recording is in `output`.
fn remove_packed(left: Option<Left>, dir: &Held, output: PathBuf, notify: Notify<'_>) -> Recovered {
    let session = left.and_then(|left| left.remove());
    for foreign in session.into_iter().chain(directory::remove(dir)) {
        notify(Notice::Warning(foreign.to_string()));
    }
    Recovered { output, packed: Packed::default(), was_whole: true }
}

/// The metadata of a file that is a recording without any damage.
fn whole_recording(path: &Path) -> Option<Meta> {
    let file = safefs::open_regular(path).ok()?;
    let map = Guarded::read_only(&file).ok()?;
    let (recording, errors) = Recording::salvage(map.bytes());
    let is_whole = errors.is_empty() && recording.meta().version != 0;
    is_whole.then(|| recording.meta().clone())
}

/// Opens a recording directory that no recorder holds, and reads its metadata.
fn open_recording(path: &Path) -> Result<(Held, Meta)> {
    let not_a_recording = |why| Error::NotARecording { path: path.to_owned(), why };
    let dir = Held::open(path).map_err(|e| Error::file("open", path, e))?;
    directory::lock(&dir)?;
    if dir.stat_of("meta.json").is_err() {
        return Err(not_a_recording(
            "it has no meta.json: its recorder was killed before it began, or while it removed what it had packed; remove the directory"
                .to_owned(),
        ));
    }
    let meta = pack::read_meta(&dir).map_err(not_a_recording)?;
    Ok((dir, meta))
}

/// The chunks of a dead recorder's rings, once they are in a directory.
#[derive(Debug, Default)]
struct Taken {
    /// Losses that cannot be counted, in words.
    refused: Vec<String>,
    /// The directory that took them when the recording directory could not.
    elsewhere: Option<Directory>,
}

/// Stops the programs that still write into the session, and copies what its rings hold.
fn take_rings(left: &Left, dir: &Held, output: &Path) -> Result<Taken> {
    if session::is_alive(left.dir()) {
        return Err(Error::Busy { path: dir.path().to_owned() });
    }
    left.stop();
    std::thread::sleep(STOP_GRACE);
    let taken = collect(left, dir, output)?;
    crate::testhook::point("recovered");
    Ok(taken)
}

/// Copies what is left in the rings of `session` into `dir`, or into a directory beside `output` when `dir` cannot be
/// written (its disk is still full, or it is read-only). Returns the losses that cannot be counted, and that other
/// directory.
fn collect(left: &Left, dir: &Held, output: &Path) -> Result<Taken> {
    let mut collector = Collector::resume(left.dir(), dir)?;
    let finished = collector
        .finish()
        .and_then(|()| directory::append_procs(dir, &collector.take_names()))
        .and_then(|()| write_unplaced(dir, collector.unplaced(left.lost())));
    let Err(first) = finished else {
        return Ok(Taken { refused: collector.refused(), elsewhere: None });
    };
    let mut name = output.as_os_str().to_owned();
    name.push(".rest");
    let other = directory::place_for(Path::new(&name))?;
    // The other directory is temporary: one that a killed `kasuri recover` left is of no use.
    if let Ok(stale) = Held::open(&other)
        && directory::lock(&stale).is_ok()
    {
        directory::remove(&stale);
    }
    let Ok(mut other) = Directory::create(&other) else {
        return Err(first);
    };
    let collected =
        Collector::resume_into(left.dir(), dir, Some(other.held())).and_then(|mut collector| {
            collector.finish()?;
            other.add_procs(&collector.take_names())?;
            write_unplaced(other.held(), collector.unplaced(left.lost()))?;
            Ok(collector.refused())
        });
    match collected {
        Ok(refused) => Ok(Taken { refused, elsewhere: Some(other) }),
        // The first error is the one that the user can remedy.
        Err(_) => {
            other.discard();
            Err(first)
        }
    }
}

/// Completes the metadata. A killed recorder wrote no end and perhaps one anchor only, which gives no line between
/// clocks. While the machine has not been restarted the clocks still run, so an anchor read now is as good.
fn complete(mut meta: Meta) -> Amend {
    let now = clock::anchor();
    let mut anchors = Vec::new();
    if !meta.complete && meta.end.is_none() {
        anchors.extend(clock::same_boot(&meta.start, &now).then_some(now));
        meta.missing.push(
            "the recorder was killed: kernel events that it had not yet read are missing (at most those of the last two seconds, on a quiet CPU the last 4 KiB), and everything after it".to_owned(),
        );
    }
    Amend { meta: Some(meta), anchors, memory: None }
}

fn recover_file(path: &Path, output: Option<&Path>, notify: Notify<'_>) -> Result<Recovered> {
    let file = safefs::open_regular(path).map_err(|e| Error::file("open", path, e))?;
    let not_a_recording = |why: String| Error::NotARecording { path: path.to_owned(), why };
    if file.metadata().map_err(|e| Error::file("open", path, e))?.len() == 0 {
        return Err(not_a_recording("it is empty".to_owned()));
    }
    let map = Guarded::read_only(&file).map_err(|e| Error::file("read", path, e))?;
    let bytes = map.bytes();
    let (recording, errors) = Recording::salvage(bytes);
    if recording.meta().version == 0 {
        let why = errors.first().map_or_else(|| "no metadata".to_owned(), |e| e.to_string());
        return Err(not_a_recording(why));
    }
    let output = output.map_or_else(|| path.with_extension("recovered.kasuri"), Path::to_owned);
    let mut packed = salvage_into(&recording, bytes, &output, notify)
        .map_err(|e| Error::file("write", &output, e))?;
    packed.damage = errors.iter().map(|e| format!("{}: {e}", path.display())).collect();
    packed.count_recording(&recording);
    packed.doubt();
    Ok(Recovered { output, packed, was_whole: false })
}

fn salvage_into(
    recording: &Recording<'_>,
    bytes: &[u8],
    output: &Path,
    notify: Notify<'_>,
) -> std::io::Result<Packed> {
    let (file, pending) = out::create(output, Readers::Private)?;
    let mut packed = Packed::default();
    let mut writer = Writer::new(BufWriter::new(file), recording.meta())?;
    let blocks = recording.table_blocks().iter().chain(recording.blocks());
    let total = blocks.clone().count() as u64;
    for (ix, info) in blocks.enumerate() {
        match info.kind {
            BlockKind::Meta | BlockKind::Index => continue,
            BlockKind::Annotation => packed.annotation_events += info.n_events,
            BlockKind::Kernel | BlockKind::Perf => packed.kernel_events += info.n_events,
            _ => {}
        }
        writer.copy_block(info, bytes)?;
        notify(Notice::Packing { done: ix as u64, total });
    }
    let (out, n) = writer.finish()?;
    out.into_inner().map_err(|e| e.into_error())?.flush()?;
    pending.commit()?;
    packed.bytes = n;
    Ok(packed)
}
