//! Finds the files that can name the code of a module.
//!
//! A file counts only if it is the one that ran: its build-id is that of the module, or, where the module has none, it has not
//! changed since the recording began. Otherwise its names would be wrong, which is worse than none.
use crate::elf::{self, Facts, Loaded};
use crate::{Bytes, List, Why};
use kasuri_format::call_paths::{Module, ModuleKind, NONE, Tables};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

/// Files of modules that are opened at once; those with the most frames come first.
const MODULES_MAX: usize = 4096;
/// Files of one path that are tried: here, and in the mount name spaces of the programs.
const TRIED_MAX: usize = 16;

/// A file that was opened.
#[derive(Clone)]
pub struct Opened {
    /// All of it.
    pub bytes: Bytes,
    /// When its contents, owner or name last changed: CLOCK_REALTIME, ns.
    pub changed_ns: u64,
}

/// Opens files.
pub trait Files {
    /// The file with this absolute path; `nth` 0: here, 1 and more: as the processes of the recording see it. None: there are
    /// no more.
    fn open(&self, path: &Path, nth: usize) -> Option<Result<Opened, ()>>;
    /// Directories of separate debug files, such as `/usr/lib/debug`.
    fn debug_dirs(&self) -> &[PathBuf];
    /// A debug file that a service has for this build-id.
    fn fetch(&self, build_id: &[u8]) -> Option<Bytes>;
    /// The code that the kernel maps into processes.
    fn vdso(&self) -> Option<Bytes>;
    /// `/proc/kallsyms`, if the running kernel is the recorded one, or the lines of it that name these addresses, which are
    /// sorted.
    ///
    /// # Errors
    /// The reason that there is none.
    fn kernel(&self, addresses: &[(u64, u32)]) -> Result<List, Why>;
    /// The perf map of a process.
    ///
    /// # Errors
    /// The reason that there is none.
    fn jit_map(&self, pid: i32) -> Result<Bytes, Why>;
    /// The jitdump at this path of a process; None: there is none that may be read.
    fn jit_dump(&self, pid: i32, path: &Path) -> Option<Bytes>;
    /// When the recording began: CLOCK_REALTIME, ns.
    fn began_ns(&self) -> u64;
}

/// Addresses of one module, and what can name them.
pub struct Task {
    /// Row of [`Tables::modules`], or [`NONE`].
    pub module: u32,
    /// The addresses with their rows of [`Tables::frames`], sorted.
    pub addresses: Vec<(u64, u32)>,
    pub(crate) source: Source,
    /// Name of its file, without folders.
    pub(crate) name: String,
}

impl Task {
    /// Whether its lines and inlined calls come from the file itself.
    pub fn has_own_lines(&self) -> bool {
        let facts = self.own_debug().and_then(|own| Facts::of((**own).as_ref()));
        facts.is_some_and(|f| f.has_lines)
    }

    /// The file itself, if nothing else can have its debug information.
    pub(crate) fn own_debug(&self) -> Option<&Bytes> {
        match &self.source {
            Source::Elf { code, debug: None, .. } => code.as_ref(),
            _ => None,
        }
    }
}

pub(crate) enum Source {
    Elf {
        /// The file itself, if it was found.
        code: Option<Bytes>,
        /// Its separate debug file.
        debug: Option<Bytes>,
        /// What that shares with others (`dwz`).
        shared: Option<Bytes>,
    },
    Kernel(Mutex<List>),
    /// At least one of the two.
    Jit {
        map: Option<Bytes>,
        dump: Option<Bytes>,
    },
    Nothing(Why),
}

impl Source {
    /// Replaces places in an ELF file by its addresses; what has none is left out, as all is without the file itself: that of its
    /// debug information does not say where the pieces of the other were.
    fn offsets_to_addresses(&self, places: &mut Vec<(u64, u32)>) {
        if let Source::Elf { code, .. } = self {
            let loaded = code.as_ref().map(|bytes| Loaded::of((**bytes).as_ref()));
            places.retain_mut(|(place, _)| {
                let address = loaded.as_ref().and_then(|l| l.address(*place));
                *place = address.unwrap_or(*place);
                address.is_some()
            });
        }
    }
}

/// What a frame's number in an ELF file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Numbering {
    /// An address, as its symbol table has them.
    #[default]
    Addresses,
    /// A place in the file, as other tools' recordings have them.
    Offsets,
}

/// Groups `frames` (rows of [`Tables::frames`]) by module and opens the files that can name them.
pub fn tasks(
    tables: &Tables,
    frames: &[u32],
    numbering: Numbering,
    files: &dyn Files,
) -> Vec<Task> {
    let mut of_module: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for &row in frames {
        if let Some(frame) = tables.frames.get(row as usize) {
            let addresses = of_module.entry(frame.module).or_default();
            addresses.push((frame.address, row));
        }
    }
    let mut groups: Vec<_> = of_module.into_iter().collect();
    groups.sort_by_key(|(module, addresses)| (usize::MAX - addresses.len(), *module));
    let make = |(n, (module, mut addresses)): (usize, (u32, Vec<(u64, u32)>))| {
        let source = match tables.modules.get(module as usize) {
            _ if n >= MODULES_MAX => Source::Nothing(Why::NotReached),
            Some(module) => find(module, &addresses, files),
            None => Source::Nothing(Why::NoModule),
        };
        if numbering == Numbering::Offsets {
            source.offsets_to_addresses(&mut addresses);
        }
        addresses.sort_unstable();
        let path = (tables.modules.get(module as usize)).map_or("", |m| m.path.as_str());
        Task {
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            module: if tables.modules.get(module as usize).is_some() { module } else { NONE },
            addresses,
            source,
        }
    };
    groups.into_iter().enumerate().map(make).collect()
}

fn find(module: &Module, addresses: &[(u64, u32)], files: &dyn Files) -> Source {
    match module.kind {
        ModuleKind::Elf => find_elf(module, files),
        ModuleKind::Vdso => {
            let found = files.vdso().filter(|bytes| {
                let bytes: &[u8] = (**bytes).as_ref();
                Facts::of(bytes).is_some_and(|f| f.build_id == module.build_id)
            });
            let source =
                found.map(|bytes| Source::Elf { code: Some(bytes), debug: None, shared: None });
            source.unwrap_or(Source::Nothing(Why::Replaced))
        }
        ModuleKind::Kernel => {
            let list = files.kernel(addresses);
            list.map_or_else(Source::Nothing, |list| Source::Kernel(Mutex::new(list)))
        }
        ModuleKind::Jit => {
            let dump = match module.path.is_empty() {
                true => None,
                false => files.jit_dump(module.pid, Path::new(&module.path)),
            };
            match files.jit_map(module.pid) {
                Err(why) if dump.is_none() => Source::Nothing(why),
                map => Source::Jit { map: map.ok(), dump },
            }
        }
        ModuleKind::Unreadable => Source::Nothing(Why::Missing),
    }
}

fn find_elf(module: &Module, files: &dyn Files) -> Source {
    let (code, why) = match code(module, files) {
        Ok(found) => (Some(found), Why::NoSymbol),
        Err(why) => (None, why),
    };
    let facts = code.as_ref().and_then(|c| Facts::of((**c).as_ref()));
    let has_lines = facts.as_ref().is_some_and(|f| f.has_lines);
    let debug = match has_lines {
        true => None,
        false => debug_file(module, facts.as_ref(), files),
    };
    if code.is_none() && debug.is_none() {
        return Source::Nothing(why);
    }
    let lines = debug.as_ref().map(|(_, b)| b).or(code.as_ref());
    let at = debug.as_ref().map_or_else(|| PathBuf::from(&module.path), |(path, _)| path.clone());
    let shared = lines.and_then(|b| shared_file(&at, (**b).as_ref(), files));
    Source::Elf { debug: debug.map(|(_, bytes)| bytes), code, shared }
}

/// The file that ran: at its path, or in a directory of debug files.
fn code(module: &Module, files: &dyn Files) -> Result<Bytes, Why> {
    let path = Path::new(&module.path);
    let mut why = Why::Missing;
    let (Ok(below_root), Some(name)) = (path.strip_prefix("/"), path.file_name()) else {
        return Err(why);
    };
    let mut places = vec![path.to_owned()];
    for dir in files.debug_dirs() {
        places.extend([dir.join(below_root), dir.join(name)]);
    }
    for opened in places.iter().flat_map(|place| candidates(place, files)) {
        let Some(facts) = Facts::of((*opened.bytes).as_ref()) else {
            why = Why::Replaced;
            continue;
        };
        // Without an id that the recorder could see, only its age says that it is the one that ran.
        let same = match module.build_id.is_empty() {
            true => !facts.id_is_loaded && opened.changed_ns < files.began_ns(),
            false => facts.build_id == module.build_id,
        };
        if same {
            return Ok(opened.bytes);
        }
        why = Why::Replaced;
    }
    Err(why)
}

fn candidates<'a>(path: &'a Path, files: &'a dyn Files) -> impl Iterator<Item = Opened> + 'a {
    let tried = (0..TRIED_MAX).map_while(move |nth| files.open(path, nth));
    tried.filter_map(Result::ok)
}

/// The separate debug file of a module, and its path: by build-id, by the link in the code, or from a service.
fn debug_file(
    module: &Module,
    facts: Option<&Facts<'_>>,
    files: &dyn Files,
) -> Option<(PathBuf, Bytes)> {
    let found = by_build_id(&module.build_id, files);
    let found = found.or_else(|| by_link(module, facts?.debug_link?, files));
    found.or_else(|| Some((PathBuf::from(&module.path), fetch(&module.build_id, files)?)))
}

fn by_link(
    module: &Module,
    (name, crc): (&[u8], u32),
    files: &dyn Files,
) -> Option<(PathBuf, Bytes)> {
    // A name of one component: others may have written it.
    let name = std::str::from_utf8(name).ok().filter(|n| plain(n))?;
    let dir = Path::new(&module.path).parent()?;
    let below_root = dir.strip_prefix("/").ok()?;
    let mut places = vec![dir.join(name), dir.join(".debug").join(name)];
    let dirs = files.debug_dirs().iter();
    places.extend(dirs.map(|d| d.join(below_root).join(name)));
    let is_debug_file = |bytes: &[u8]| {
        Facts::of(bytes).is_some_and(|facts| match module.build_id.is_empty() {
            false if !facts.build_id.is_empty() => facts.build_id == module.build_id,
            _ => crc32fast::hash(bytes) == crc,
        })
    };
    for place in places.iter().filter(|p| **p != Path::new(&module.path)) {
        let mut found = candidates(place, files);
        if let Some(opened) = found.find(|o| is_debug_file((*o.bytes).as_ref())) {
            return Some((place.clone(), opened.bytes));
        }
    }
    None
}

/// A path as it reads; None: it leads above the root.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !out.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => out.push(part),
        }
    }
    Some(out)
}

fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

fn by_build_id(id: &[u8], files: &dyn Files) -> Option<(PathBuf, Bytes)> {
    if id.len() < 2 {
        return None;
    }
    let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
    for dir in files.debug_dirs() {
        let path = dir.join(".build-id").join(&hex[..2]).join(format!("{}.debug", &hex[2..]));
        let mut found = candidates(&path, files);
        let same = |o: &Opened| elf::build_id((*o.bytes).as_ref()) == id;
        if let Some(opened) = found.find(same) {
            return Some((path.clone(), opened.bytes));
        }
    }
    None
}

fn fetch(id: &[u8], files: &dyn Files) -> Option<Bytes> {
    let fetched = (!id.is_empty()).then(|| files.fetch(id)).flatten()?;
    (elf::build_id((*fetched).as_ref()) == id).then_some(fetched)
}

/// The file to which `dwz` moved what several debug files have in common. Who wrote the link chose its name and its build-id: a
/// file that has none is never meant, nor one elsewhere than where debug files are.
fn shared_file(debug: &Path, bytes: &[u8], files: &dyn Files) -> Option<Bytes> {
    let (name, id) = Facts::of(bytes)?.shared_link?;
    if let Some((_, found)) = by_build_id(id, files) {
        return Some(found);
    }
    let beside = debug.parent()?;
    let path = without_dots(&beside.join(std::str::from_utf8(name).ok()?))?;
    let mut places = files.debug_dirs().iter().map(PathBuf::as_path).chain([beside]);
    if id.is_empty() || !places.any(|place| path.starts_with(place)) {
        return None;
    }
    let same = |o: &Opened| elf::build_id((*o.bytes).as_ref()) == id;
    candidates(&path, files).find(same).map(|o| o.bytes)
}
