//! Slices that take too long, found in the rings while programs write them (`record --flight --on-slice`).
//!
//! Goal: a flight recorder copies nothing until it is asked; this tells it when to ask itself. Method: each look reads what the
//! threads have written since the look before, where it lies, and keeps the slices that are open. A slice is told once, when its time
//! is over, also while it goes on.
//!
//! Rejected: a thread that reads the rings as they fill. A look every tick is enough, because what is looked for takes longer than
//! that.
//!
//! Programs write what they like, also while it is read. So a look has an end ([`EVENTS_MOST`]), depth and number of what is
//! remembered have bounds, and a chunk that got a new owner meanwhile is not believed.
use crate::guard::safefs::{Access, Held};
use crate::rings::ringfile::{ClientId, Segment};
use kasuri_base::annotation::Kind;
use kasuri_format::ring::SiteTable;
use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

/// Events that one look reads, of all programs together: three million in a second. What is beyond it is looked at later, if it is
/// still there.
const EVENTS_MOST: usize = 1 << 16;
/// Slices of a thread that are open at once and remembered.
const DEPTH_MOST: usize = 64;
/// Bytes of a program's names that are read: some ten thousand of them.
const SITES_BYTES_MOST: u64 = 1 << 20;
/// Looks between two readings of the names of one program; one program is read in a look.
const REREAD_LOOKS: u64 = 50;

/// A slice that is watched, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnSlice {
    /// Its name.
    pub name: String,
    /// Too long.
    pub least: Duration,
}

/// A slice that took too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongSlice {
    /// Which of those that are watched.
    pub(crate) which: usize,
    /// Process and thread as the program knows them.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Its length so far, in the clock of the annotations.
    pub(crate) ticks: u64,
    pub(crate) goes_on: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    site: u32,
    since: u64,
    is_told: bool,
}

#[derive(Debug, Default)]
struct Thread {
    tid: u32,
    seq: u64,
    /// Bytes of the chunk that were read.
    offset: usize,
    open: Vec<Open>,
    /// Slices within those that are not remembered.
    deeper: usize,
    is_there: bool,
}

impl Thread {
    /// Reads on in one of its chunks.
    fn read(&mut self, of: &Written<'_>, most: usize, events: &mut Vec<(u64, u8, u32)>) {
        events.clear();
        if of.seq < self.seq || most == 0 {
            return;
        }
        if of.seq > self.seq {
            // What was in a chunk that is gone may have ended these.
            if of.seq != self.seq + 1 {
                self.forget_open();
            }
            (self.seq, self.offset) = (of.seq, 0);
        }
        self.tid = of.segment.tid(of.chunk);
        let owner = (of.stream, of.seq);
        let read = of.segment.events_from(of.chunk, owner, self.offset, most, events);
        match read {
            Some(end) => self.offset = end,
            None => {
                events.clear();
                self.forget_open();
            }
        }
    }

    /// Applies an event, and returns the slice that it ends.
    fn apply(&mut self, (stamp, kind, site): (u64, u8, u32)) -> Option<Open> {
        match Kind::from_number(kind)? {
            Kind::Begin if self.open.len() < DEPTH_MOST => {
                self.open.push(Open { site, since: stamp, is_told: false })
            }
            Kind::Begin => self.deeper += 1,
            Kind::End if self.deeper > 0 => self.deeper -= 1,
            Kind::End => return self.open.pop(),
            _ => {}
        }
        None
    }

    fn forget_open(&mut self) {
        self.open.clear();
        self.deeper = 0;
    }
}

/// What is known of one program.
#[derive(Debug, Default)]
struct Program {
    /// Which is watched, by site.
    watched: HashMap<u32, usize>,
    sites_bytes: u64,
    read_at: u64,
    /// By stream.
    threads: HashMap<u32, Thread>,
}

/// A chunk in which a thread has written, or writes.
pub(crate) struct Written<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) chunk: usize,
    pub(crate) stream: u32,
    pub(crate) seq: u64,
}

/// Watches the rings of all programs.
#[derive(Debug)]
pub(crate) struct SliceWatch {
    names: Vec<String>,
    programs: HashMap<ClientId, Program>,
    looks: u64,
    has_read_names: bool,
    left: usize,
    events: Vec<(u64, u8, u32)>,
}

impl SliceWatch {
    pub(crate) fn new(on: &[OnSlice]) -> SliceWatch {
        SliceWatch {
            names: on.iter().map(|on| on.name.clone()).collect(),
            programs: HashMap::new(),
            looks: 0,
            has_read_names: false,
            left: 0,
            events: Vec::new(),
        }
    }

    /// Begins a look; programs that are not looked at in it are forgotten at its end.
    pub(crate) fn begin(&mut self) {
        self.looks += 1;
        self.left = EVENTS_MOST;
        self.has_read_names = false;
    }

    /// Looks at a program's chunks, sorted by stream and number. `limits`: by what is watched, in ticks. `now`: in ticks.
    pub(crate) fn look(
        &mut self,
        id: ClientId,
        session: &Held,
        chunks: &[Written<'_>],
        (limits, now): (&[u64], u64),
        long: &mut Vec<LongSlice>,
    ) {
        self.read_names(id, session);
        let program = self.programs.entry(id).or_default();
        for thread in program.threads.values_mut() {
            thread.is_there = false;
        }
        let watched = &program.watched;
        let mut check = |tid: u32, open: &Open, until: u64, goes_on: bool| {
            let ticks = until.saturating_sub(open.since);
            let which = watched.get(&open.site).copied();
            let which = which.filter(|&which| !open.is_told && ticks >= limits[which]);
            long.extend(which.map(|which| LongSlice { which, pid: id.0, tid, ticks, goes_on }));
            which.is_some()
        };
        for of in chunks.iter().filter(|of| of.stream != 0) {
            let thread = program.threads.entry(of.stream).or_default();
            thread.is_there = true;
            thread.read(of, self.left, &mut self.events);
            self.left -= self.events.len();
            for &event in &self.events {
                if let Some(open) = thread.apply(event) {
                    check(thread.tid, &open, event.0, false);
                }
            }
        }
        program.threads.retain(|_, thread| thread.is_there);
        for thread in program.threads.values_mut() {
            for open in &mut thread.open {
                open.is_told |= check(thread.tid, open, now, true);
            }
        }
    }

    /// Ends a look: `lives` says which programs still have rings.
    pub(crate) fn end(&mut self, lives: impl Fn(&ClientId) -> bool) {
        self.programs.retain(|id, _| lives(id));
    }

    /// Reads a program's names where there are new ones; a forked program's are its parent's too.
    fn read_names(&mut self, id: ClientId, session: &Held) {
        let program = self.programs.entry(id).or_default();
        let is_due = program.read_at == 0 || program.read_at + REREAD_LOOKS <= self.looks;
        if self.has_read_names || !is_due {
            return;
        }
        program.read_at = self.looks;
        let length = sites_length(session, id);
        if length == program.sites_bytes {
            return;
        }
        program.sites_bytes = length;
        self.has_read_names = true;
        let mut watched = HashMap::new();
        let (mut of, mut below) = (id, u32::MAX);
        // A child of a child of ...: so many at most.
        for _ in 0..8 {
            let Some(table) = read_sites(session, of) else {
                break;
            };
            for site in table.sites.iter().filter(|site| site.id < below) {
                let which = self.names.iter().position(|name| *name == site.name);
                watched.extend(which.map(|which| (site.id, which)));
            }
            let Some(parent) = table.parent else { break };
            (of, below) = (parent, table.parent_next_id.min(below));
        }
        program.watched = watched;
    }
}

fn sites_length(session: &Held, id: ClientId) -> u64 {
    let file = session.file(format!("p{}-{}.sites", id.0, id.1), Access::Read);
    let length = file.and_then(|file| Ok(file.metadata()?.len()));
    length.unwrap_or(0)
}

fn read_sites(session: &Held, id: ClientId) -> Option<SiteTable> {
    let file = session.file(format!("p{}-{}.sites", id.0, id.1), Access::Read);
    let mut bytes = Vec::new();
    file.ok()?.take(SITES_BYTES_MOST).read_to_end(&mut bytes).ok()?;
    Some(SiteTable::salvage(&bytes).ok()?.0)
}
