//! Adds names to the call paths of a packed recording that lacks them: `kasuri symbolize`.
//!
//! Packing names what it can in two seconds on the machine that recorded. Later there may be more time, debug packages that were
//! installed since, or a service that has them (debuginfod). All blocks are copied as they are, and new names follow: of two for
//! one frame the later holds.
use crate::error::{Error, Result};
use crate::files::output::{self, Readers};
use crate::files::pack::NAMES_IN_BLOCK;
use crate::guard::safefs;
use crate::guard::sigbus::Guarded;
use crate::names::{Found, Naming, Request};
use crate::notice::{Notice, Notify};
use kasuri_format::call_paths::{ModuleKind, NONE, Names, Tables};
use kasuri_format::container::{BlockKind, Recording, Writer};
use kasuri_symbols::Known;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Debug files that are fetched for one recording.
const FETCHED_MAX: usize = 256;

/// Where to look, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories of separate debug files, before the usual ones.
    pub debug_dirs: Vec<PathBuf>,
    /// `debuginfod-find`, with which debug files are fetched from the servers of `DEBUGINFOD_URLS`.
    pub debuginfod: Option<PathBuf>,
    /// Time for reading debug information, without fetching.
    pub limit: Duration,
}

/// Frames of a file for which there is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnamed {
    /// The file; `[kernel]`; `[generated code of process 7]`; `[no file]`.
    pub module: String,
    /// The reason.
    pub why: &'static str,
    /// Frames.
    pub n_frames: u64,
}

/// What is known about the frames of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames with a function, with or without line.
    pub named: u64,
    /// Frames with a line.
    pub with_lines: u64,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Symbolized {
    /// The file that was written; None: there was nothing to add.
    pub output: Option<PathBuf>,
    /// Distinct places of code in the recording.
    pub n_frames: u64,
    /// What was known...
    pub before: Counts,
    /// ...and is known now.
    pub after: Counts,
    /// Where names are still missing, the most frames first.
    pub unnamed: Vec<Unnamed>,
    /// Debug files that were fetched.
    pub n_fetched: u64,
    /// Damaged parts of the recording that the output lacks.
    pub damage: Vec<String>,
}

/// Adds names to the recording `path`, and writes it to `output` (default: in its place).
///
/// # Errors
/// When it is no recording, or is damaged and has to be written in its place; when the output cannot be written, or
/// `debuginfod-find` cannot be run.
pub fn symbolize(
    path: &Path,
    output: Option<&Path>,
    options: &Options,
    notify: Notify<'_>,
) -> Result<Symbolized> {
    let to = output.unwrap_or(path);
    output::kind(to).map_err(|e| Error::file("write", to, e))?;
    let file = safefs::open_regular(path).map_err(|e| Error::file("open", path, e))?;
    let map = Guarded::read_only(&file).map_err(|e| Error::file("read", path, e))?;
    let (recording, errors) = Recording::salvage(map.bytes());
    let damage: Vec<String> = errors.iter().map(|e| format!("{}: {e}", path.display())).collect();
    check(path, output, &recording, &damage)?;
    let tables = recording.call_paths();
    let known = Known::of_all(tables);
    let mut done = Symbolized {
        n_frames: tables.frames.len() as u64,
        before: counts(&known),
        damage,
        ..Symbolized::default()
    };
    let (names, found) = find(&recording, &known, options, &mut done, notify)?;
    done.after = counts(&merged(&known, &names));
    done.unnamed = unnamed(tables, &found);
    if !names.is_empty() || output.is_some() {
        write(&recording, map.bytes(), &names, to).map_err(|e| Error::file("write", to, e))?;
        done.output = Some(to.to_owned());
    }
    Ok(done)
}

fn check(
    path: &Path,
    output: Option<&Path>,
    recording: &Recording<'_>,
    damage: &[String],
) -> Result<()> {
    let refused = |why: String| Err(Error::NotARecording { path: path.to_owned(), why });
    match damage.first() {
        Some(first) if recording.meta().version == 0 => refused(first.clone()),
        Some(first) if output.is_none() => refused(format!(
            "{first}; with `-o FILE` its undamaged part is written to another file"
        )),
        _ => Ok(()),
    }
}

/// Names that are better than those that are there, and what the search for them found.
fn find(
    recording: &Recording<'_>,
    known: &[Known],
    options: &Options,
    done: &mut Symbolized,
    notify: Notify<'_>,
) -> Result<(Vec<Names>, Found)> {
    let tables = recording.call_paths();
    let pids = recording.procs().iter().map(|p| p.pid);
    let modules = tables.modules.iter().map(|m| m.pid);
    let mut request = Request::of(tables.clone(), recording.meta(), pids.chain(modules));
    request.debug_dirs.splice(0..0, options.debug_dirs.iter().cloned());
    (request.limit, request.patience) = (options.limit, options.limit / 4);
    request.unpacked_bytes = u64::MAX;
    request.wanted = wanted(tables, known);
    if let Some(program) = &options.debuginfod {
        request.fetched = fetch_all(program, tables, &request.wanted, notify)?;
        done.n_fetched = request.fetched.len() as u64;
    }
    let found = Naming::start(request).finish();
    let better = |n: &&Names| {
        let before = known.get(n.frame as usize).copied().unwrap_or_default();
        Known::of(&n.calls) > before
    };
    Ok((found.names.iter().filter(better).cloned().collect(), found))
}

/// Frames that may be known better: without a function, or of a file and without a line.
fn wanted(tables: &Tables, known: &[Known]) -> Vec<u32> {
    let has_lines = |module: u32| {
        let module = tables.modules.get(module as usize);
        module.is_some_and(|m| m.kind == ModuleKind::Elf)
    };
    let frames = tables.frames.iter().zip(known).zip(0..NONE);
    let wanted = frames.filter(|((frame, known), _)| match known {
        Known::Nothing => true,
        Known::Function => has_lines(frame.module),
        Known::Line => false,
    });
    wanted.map(|(_, row)| row).collect()
}

fn counts(known: &[Known]) -> Counts {
    let at_least = |least| known.iter().filter(|k| **k >= least).count() as u64;
    Counts { named: at_least(Known::Function), with_lines: at_least(Known::Line) }
}

fn merged(known: &[Known], names: &[Names]) -> Vec<Known> {
    let mut known = known.to_vec();
    for n in names {
        if let Some(slot) = known.get_mut(n.frame as usize) {
            *slot = Known::of(&n.calls).max(*slot);
        }
    }
    known
}

/// Frames without names in words; those that were named before do not count.
fn unnamed(tables: &Tables, found: &Found) -> Vec<Unnamed> {
    let had_name: BTreeSet<u32> = kasuri_symbols::unnamed(tables).into_iter().collect();
    let mut rows: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
    for (frame, why) in &found.unnamed {
        if had_name.contains(frame) {
            let module = tables.frames.get(*frame as usize).map_or(NONE, |f| f.module);
            let key = (module_name(tables, module), why.words());
            *rows.entry(key).or_default() += 1;
        }
    }
    let mut rows: Vec<Unnamed> = rows
        .into_iter()
        .map(|((module, why), n_frames)| Unnamed { module, why, n_frames })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.n_frames));
    rows
}

fn module_name(tables: &Tables, module: u32) -> String {
    match tables.modules.get(module as usize) {
        None => "[no file]".to_owned(),
        Some(m) if m.kind == ModuleKind::Jit => format!("[generated code of process {}]", m.pid),
        Some(m) if m.kind == ModuleKind::Kernel => "[kernel]".to_owned(),
        Some(m) => m.path.clone(),
    }
}

/// Debug files of the modules of these frames, by build-id.
fn fetch_all(
    program: &Path,
    tables: &Tables,
    wanted: &[u32],
    notify: Notify<'_>,
) -> Result<HashMap<Vec<u8>, PathBuf>> {
    let module = |row: &u32| tables.frames.get(*row as usize).map(|f| f.module);
    let modules: BTreeSet<u32> = wanted.iter().filter_map(module).collect();
    let modules = modules.iter().filter_map(|m| tables.modules.get(*m as usize));
    let with_id = modules.filter(|m| m.kind == ModuleKind::Elf && !m.build_id.is_empty());
    let with_id: Vec<_> = with_id.take(FETCHED_MAX).collect();
    let mut fetched = HashMap::new();
    for (n, module) in with_id.iter().enumerate() {
        notify(Notice::Note(format!(
            "debuginfod, file {} of {}: {}",
            n + 1,
            with_id.len(),
            module.path
        )));
        if let Some(path) = fetch(program, &module.build_id)? {
            fetched.insert(module.build_id.clone(), path);
        }
    }
    Ok(fetched)
}

/// Bytes of a path that debuginfod-find prints, at most.
const MOST_SAID: u64 = 16 << 10;

/// The debug file with this build-id; None: no server has it.
fn fetch(program: &Path, build_id: &[u8]) -> Result<Option<PathBuf>> {
    let id: String = build_id.iter().map(|b| format!("{b:02x}")).collect();
    let mut find = Command::new(program);
    find.arg("debuginfo").arg(id);
    find.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |e| Error::system("run debuginfod-find", e);
    let mut child = find.spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        // Closed when it is dropped: a program that says more ends by that, or is ended.
        out.take(MOST_SAID + 1).read_to_end(&mut said).map_err(failed)?;
    }
    if said.len() as u64 > MOST_SAID {
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    let path = String::from_utf8_lossy(&said).trim().to_owned();
    let is_path = status.success() && !path.is_empty() && said.len() as u64 <= MOST_SAID;
    Ok(is_path.then(|| PathBuf::from(path)))
}

fn write(recording: &Recording<'_>, bytes: &[u8], names: &[Names], to: &Path) -> io::Result<()> {
    let (file, pending) = output::create(to, Readers::Private)?;
    let mut writer = Writer::new(BufWriter::new(file), recording.meta())?;
    for info in recording.table_blocks() {
        if !matches!(info.kind, BlockKind::Meta | BlockKind::Index) {
            writer.copy_block(info, bytes)?;
        }
    }
    for some in names.chunks(NAMES_IN_BLOCK) {
        writer.names(some)?;
    }
    for info in recording.blocks() {
        writer.copy_block(info, bytes)?;
    }
    let (out, _) = writer.finish()?;
    out.into_inner().map_err(|e| e.into_error())?.flush()?;
    pending.commit()
}
