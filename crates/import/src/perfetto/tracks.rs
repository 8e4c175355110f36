//! Finds the row that a track's events belong to.
//!
//! A descriptor gives a track a 64-bit id (`uuid`), a parent, and possibly a thread, a process or a counter. The events
//! of a thread's track belong to the thread. Any other track becomes a row of its own, with a negative thread id, in
//! the process of its nearest ancestor. Descriptors may come in any order and repeat, so rows are made on first use,
//! after the first walk has read all descriptors.
use kasuri_format::perfetto::TrackDescriptor;
use kasuri_model::{StrIx, Strings};
use std::collections::HashMap;

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
}

/// Properties of a counter's track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub multiplier: f64,
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
}

/// All tracks.
#[derive(Debug, Default)]
pub(super) struct TrackTable {
    tracks: HashMap<u64, Track>,
    rows: HashMap<u64, Row>,
    n_rows: i32,
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
        }
        if let Some(counter) = d.counter {
            track.counter = Some(Counter {
                multiplier: if counter.multiplier == 0 {
                    1.0
                } else {
                    counter.multiplier as f64
                },
                is_incremental: counter.is_incremental,
                is_thread_cost: counter.is_thread_cost,
            });
        }
        let (pid, tid, name) = d.thread.as_ref()?;
        let tid = i32::try_from(*tid).unwrap_or(0);
        track.thread = Some((*pid, tid));
        Some(Described {
            pid: *pid,
            tid,
            name: name.clone().into_owned(),
        })
    }

    /// Pids and names of processes.
    pub fn process_names(&self) -> impl Iterator<Item = (i32, &str)> {
        let named = self.tracks.values().filter(|t| !t.process_name.is_empty());
        named.filter_map(|t| Some((t.process?, t.process_name.as_str())))
    }

    /// The row of a track, even of one that no descriptor describes.
    pub fn row(&mut self, uuid: u64, strings: &mut Strings) -> Row {
        if let Some(row) = self.rows.get(&uuid) {
            return *row;
        }
        let row = self.make(uuid, strings);
        self.rows.insert(uuid, row);
        row
    }

    /// Makes a row. Its process is that of the nearest ancestor that has one; 0: none has.
    fn make(&mut self, uuid: u64, strings: &mut Strings) -> Row {
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
            return Row {
                pid,
                tid,
                name: None,
                thread,
                counter,
            };
        }
        let name = match track {
            Some(track) if !track.name.is_empty() => track.name.clone(),
            Some(track) if !track.process_name.is_empty() => track.process_name.clone(),
            _ if uuid == 0 => "global".to_owned(),
            _ => format!("track {uuid:#x}"),
        };
        self.n_rows += 1;
        Row {
            pid,
            tid: FIRST_ROW.saturating_sub(self.n_rows),
            name: Some(strings.intern(&name)),
            thread,
            counter,
        }
    }
}
