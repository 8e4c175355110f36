//! The executable mappings of processes, as they change.
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Most executable mappings of one process that are remembered; the kernel's own limit is 65,530 for all kinds.
pub const MAPPINGS_MAX: usize = 1 << 16;
/// Most processes that are remembered.
pub const PROCESSES_MAX: usize = 1 << 16;
/// Jitdumps that a process may map in turn; later ones are not looked for. Each makes all code without a file be looked at again.
pub const JITDUMPS_MAX: u32 = 64;

/// What is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Backing {
    /// A file.
    File {
        /// Its path, as the kernel names it to the process; ` (deleted)` may follow.
        path: String,
        /// Inode and its generation; 0: not known.
        inode: (u64, u64),
        /// Device, major and minor.
        device: (u32, u32),
    },
    /// The kernel's own code for processes.
    Vdso,
    /// Memory without a file.
    Anonymous,
}

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Place of the first byte in the file.
    pub offset: u64,
    /// What is mapped.
    pub backing: Backing,
}

impl Mapping {
    /// The path, if this is the list that a compiler makes of its code (`jit-PID.dump`): it maps the list as if it were code, so that
    /// those who record learn of it.
    fn jitdump(&self) -> Option<&str> {
        let Backing::File { path, .. } = &self.backing else {
            return None;
        };
        let (_, name) = path.rsplit_once('/')?;
        let number = name.strip_prefix("jit-")?.strip_suffix(".dump")?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        is_number.then_some(path)
    }
}

/// A mapping, and what is known of its file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) mapping: Mapping,
    /// `None`: its file has not been looked at.
    pub(crate) code: Cell<Option<Code>>,
}

impl Entry {
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.mapping.start..self.mapping.end).contains(&address)
    }
}

/// Where the code of a mapping comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// Row of the modules.
    pub(crate) module: u32,
    /// The file's unwind information; `None`: there is none.
    pub(crate) image: Option<usize>,
    /// Address in memory - address of the module.
    pub(crate) bias: u64,
    /// Code that follows frame pointers where no other rule is known: it was made at run time, or has no unwind information.
    pub(crate) has_frame_pointers: bool,
}

/// Mappings of one process, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    entries: Vec<Rc<Entry>>,
    /// Path of the jitdump that it has, or had, mapped, and how often it was another.
    jitdump: Option<Rc<str>>,
    n_jitdumps: u32,
}

impl Maps {
    pub(crate) fn find(&self, address: u64) -> Option<&Rc<Entry>> {
        let after = self.entries.partition_point(|e| e.mapping.start <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        entry.has(address).then_some(entry)
    }

    pub(crate) fn jitdump(&self) -> &str {
        self.jitdump.as_deref().unwrap_or_default()
    }

    /// Code that was made at run time is named by this list from now on.
    fn set_jitdump(&mut self, path: &str) {
        if self.jitdump.as_deref() == Some(path) || self.n_jitdumps >= JITDUMPS_MAX {
            return;
        }
        self.jitdump = Some(path.into());
        self.n_jitdumps += 1;
        for entry in &mut self.entries {
            if entry.mapping.backing == Backing::Anonymous {
                *entry = Rc::new(Entry { mapping: entry.mapping.clone(), code: Cell::new(None) });
            }
        }
    }

    /// Adds a mapping; it replaces what it covers of others.
    fn add(&mut self, mapping: Mapping) {
        let (start, end) = (mapping.start, mapping.end);
        if start >= end {
            return;
        }
        if let Some(path) = mapping.jitdump() {
            self.set_jitdump(path);
        }
        let first = self.entries.partition_point(|e| e.mapping.end <= start);
        let last = self.entries.partition_point(|e| e.mapping.start < end);
        let mut new = Vec::with_capacity(3);
        let entry = |mapping, code: Cell<Option<Code>>| Rc::new(Entry { mapping, code });
        if let Some(before) = self.entries[first..last].first() {
            let rest = Mapping { end: start, ..before.mapping.clone() };
            new.extend((rest.start < start).then(|| entry(rest, before.code.clone())));
        }
        let same = self.entries[first..last].iter().find(|e| e.mapping == mapping);
        new.push(entry(mapping, same.map_or(Cell::new(None), |e| e.code.clone())));
        if let Some(after) = self.entries[first..last].last() {
            let skipped = end.saturating_sub(after.mapping.start);
            let rest = Mapping {
                start: end,
                offset: after.mapping.offset.wrapping_add(skipped),
                ..after.mapping.clone()
            };
            new.extend((end < rest.end).then(|| entry(rest, after.code.clone())));
        }
        if self.entries.len() + new.len() <= MAPPINGS_MAX + (last - first) {
            self.entries.splice(first..last, new);
        }
    }
}

/// The mappings of all processes. A process that was forked shares those of its parent until one of the two changes them.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    maps: HashMap<i32, Rc<Maps>>,
}

impl Processes {
    pub(crate) fn get(&self, pid: i32) -> Option<&Rc<Maps>> {
        self.maps.get(&pid)
    }

    pub(crate) fn map(&mut self, pid: i32, mapping: Mapping) {
        if self.maps.len() >= PROCESSES_MAX && !self.maps.contains_key(&pid) {
            return;
        }
        Rc::make_mut(self.maps.entry(pid).or_default()).add(mapping);
    }

    /// Replaces all mappings of a process. With none it is another program; else its jitdump stays, if it was unmapped meanwhile.
    pub(crate) fn set(&mut self, pid: i32, mappings: Vec<Mapping>) {
        let before = self.maps.get(&pid).filter(|_| !mappings.is_empty());
        let mut maps = Maps {
            jitdump: before.and_then(|maps| maps.jitdump.clone()),
            n_jitdumps: before.map_or(0, |maps| maps.n_jitdumps),
            ..Maps::default()
        };
        mappings.into_iter().for_each(|m| maps.add(m));
        if self.maps.len() < PROCESSES_MAX || self.maps.contains_key(&pid) {
            self.maps.insert(pid, Rc::new(maps));
        }
    }

    pub(crate) fn fork(&mut self, parent: i32, child: i32) {
        if let Some(maps) = self.maps.get(&parent).cloned()
            && self.maps.len() < PROCESSES_MAX
        {
            self.maps.insert(child, maps);
        }
    }

    pub(crate) fn clear(&mut self, pid: i32) {
        self.maps.remove(&pid);
    }

    /// Each mapping of all processes, once: processes share those of their parents.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut seen = HashSet::new();
        let all = self.maps.values().flat_map(|maps| &maps.entries);
        all.filter(move |entry| seen.insert(Rc::as_ptr(entry))).map(|entry| &**entry)
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.maps.keys().copied()
    }
}

/// The executable mappings in the text of /proc/PID/maps. Lines of another form are passed over.
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).take(MAPPINGS_MAX).collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    // address           perms offset  dev   inode   path
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let (field, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = after;
        field
    };
    let (range, permissions, offset) = (field(), field(), field());
    let (device, inode) = (field(), field());
    let path = rest.trim_start();
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        backing: backing(path, (inode.parse().ok()?, 0), (hex(major)? as u32, hex(minor)? as u32)),
    })
}

/// What a mapping of this name holds: `[vdso]`, `//anon`, a path...
pub fn backing(path: &str, inode: (u64, u64), device: (u32, u32)) -> Backing {
    match path {
        "[vdso]" => Backing::Vdso,
        // Shared memory, huge pages, memfd: a path that no file system has, or the memory of devices.
        path if path.starts_with('/') && !path.starts_with("//") && inode.0 != 0 => {
            Backing::File { path: path.to_owned(), inode, device }
        }
        _ => Backing::Anonymous,
    }
}
