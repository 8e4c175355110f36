//! Finds the row that a track's events belong to.
//!
//! A descriptor gives a track a 64-bit id (`uuid`), a parent, and possibly a thread, a process or a counter. The events
//! of a thread's track belong to the thread. Any other track becomes a row of its own, with a negative thread id, in
//! the process of its nearest ancestor. Descriptors may come in any order and repeat, so rows are made on first use,
//! after the first walk has read all descriptors.
use kasuri_format::perfetto::TrackDescriptor;
use kasuri_model::{StrIx, Strings};
use std::collections::{BTreeMap, HashMap};

/// Thread ids of tracks count down from here; those above, from -1 on, are lanes of asynchronous slices.
const FIRST_ROW: i32 = -1001;
/// Deeper nesting of tracks is a cycle of parents.
const MAX_DEPTH: usize = 32;

/// A described track. Later descriptors add to earlier ones.
#[derive(Debug, Default)]
struct Track {
    parent: Option<u64>,
    name: String,
    process: Option<i32>,
    process_name: String,
    thread: Option<(i32, i32)>,
    counter: Option<Counter>,
    is_state: bool,
}

/// Properties of a counter's track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    /// Not 0.
    pub multiplier: i64,
    pub is_incremental: bool,
    pub is_thread_cost: bool,
}

/// The row of a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub pid: i32,
    pub tid: i32,
    /// The track's name; none: the track is a thread.
    pub name: Option<StrIx>,
    /// The thread that the track is, or that is its nearest ancestor.
    pub thread: Option<(i32, i32)>,
    pub counter: Option<Counter>,
    /// Its events are changes of a state.
    pub is_state: bool,
}

/// All tracks.
#[derive(Debug, Default)]
pub(super) struct TrackTable {
    tracks: HashMap<u64, Track>,
    rows: HashMap<u64, Row>,
    n_rows: i32,
    /// Names of processes by pid, with the track that gave it: the last one of the file.
    processes: BTreeMap<i32, (u64, String)>,
    /// Processes whose pid a later one has with another name.
    pub n_reused_pids: u64,
    /// Names of threads by tid and pid.
    threads: BTreeMap<(i32, i32), String>,
}

/// A thread that a descriptor describes.
pub(super) struct Described {
    pub pid: i32,
    pub tid: i32,
    pub name: String,
}

impl TrackTable {
    /// Takes in a descriptor, and returns the thread if it describes one.
    pub fn describe(&mut self, d: &TrackDescriptor) -> Option<Described> {
        let track = self.tracks.entry(d.uuid).or_default();
        track.parent = d.parent.or(track.parent);
        if !d.name.is_empty() {
            track.name = d.name.clone().into_owned();
        }
        if let Some((pid, name)) = &d.process {
            track.process = Some(*pid);
            track.process_name = name.clone().into_owned();
            if !name.is_empty() {
                let named = (d.uuid, name.clone().into_owned());
                let before = self.processes.insert(*pid, named.clone());
                let is_other = |b: (u64, String)| b.0 != named.0 && b.1 != named.1;
                self.n_reused_pids += u64::from(before.is_some_and(is_other));
            }
        }
        if let Some(counter) = d.counter {
            track.counter = Some(Counter {
                multiplier: match counter.multiplier {
                    0 => 1,
                    multiplier => multiplier,
                },
                is_incremental: counter.is_incremental,
                is_thread_cost: counter.is_thread_cost,
            });
        }
        track.is_state |= d.is_state;
        let (pid, tid, name) = d.thread.as_ref()?;
        let tid = i32::try_from(*tid).unwrap_or(0);
        track.thread = Some((*pid, tid));
        if !name.is_empty() {
            self.threads.insert((tid, *pid), name.clone().into_owned());
        }
        Some(Described { pid: *pid, tid, name: name.clone().into_owned() })
    }

    /// Pids and names of processes.
    pub fn process_names(&self) -> impl Iterator<Item = (i32, &str)> {
        (self.processes.iter()).map(|(pid, (_, name))| (*pid, name.as_str()))
    }

    /// Pid, tid and name of the threads whose tid several processes have, as in containers. The kernel's threads, which have
    /// a tid each, cannot name them.
    pub fn alike(&self) -> impl Iterator<Item = (i32, i32, &str)> {
        let tid = |((tid, _), _): &(&(i32, i32), _)| *tid;
        self.threads
            .iter()
            .filter(move |thread| {
                let of_tid = self.threads.range((tid(thread), i32::MIN)..=(tid(thread), i32::MAX));
                of_tid.take(2).count() > 1
            })
            .map(|((tid, pid), name)| (*pid, *tid, name.as_str()))
    }

    /// The row of a track, even of one that no descriptor describes. A track without a name has that of its first event.
    pub fn row(&mut self, uuid: u64, first: StrIx, strings: &mut Strings) -> Row {
        if let Some(row) = self.rows.get(&uuid) {
            return *row;
        }
        let row = self.make(uuid, first, strings);
        self.rows.insert(uuid, row);
        row
    }

    /// Makes a row. Its process is that of the nearest ancestor that has one; 0: none has.
    fn make(&mut self, uuid: u64, first: StrIx, strings: &mut Strings) -> Row {
        let (mut pid, mut thread, mut at) = (None, None, Some(uuid));
        for _ in 0..MAX_DEPTH {
            let Some(track) = at.and_then(|uuid| self.tracks.get(&uuid)) else {
                break;
            };
            thread = thread.or(track.thread);
            pid = pid.or(track.process).or(track.thread.map(|(pid, _)| pid));
            at = track.parent;
        }
        let track = self.tracks.get(&uuid);
        let pid = pid.unwrap_or(0);
        let counter = track.and_then(|t| t.counter);
        if let (None, Some((pid, tid))) = (counter, track.and_then(|t| t.thread)) {
            return Row { pid, tid, name: None, thread, counter, is_state: false };
        }
        let name = match track {
            Some(track) if !track.name.is_empty() => strings.intern(&track.name),
            Some(track) if !track.process_name.is_empty() => strings.intern(&track.process_name),
            _ if uuid == 0 => strings.intern("global"),
            _ if first.is_some() => first,
            _ => strings.intern(&format!("track {uuid:#x}")),
        };
        self.n_rows += 1;
        Row {
            pid,
            tid: FIRST_ROW.saturating_sub(self.n_rows),
            name: Some(name),
            thread,
            counter,
            is_state: track.is_some_and(|t| t.is_state),
        }
    }
}
