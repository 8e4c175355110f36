//! Collects annotations: finds the ring files of programs, copies full chunks out, frees them.
//!
//! Goal: lose nothing, free chunks quickly, and cost the programs nothing: no lock is shared, and
//! the words that both sides touch change once per chunk.
//!
//! Crash safety. A chunk is copied to the file, then zeroed (events first, header last), then marked
//! FREE. Whenever this process is killed, `kasuri recover` finds each chunk in the file, in the
//! ring, or in both; it goes by (stream, seq), so "both" counts once.
use crate::error::{Error, Result};
use crate::guard::bounds::{MAX_CLIENTS, MAX_NAMES, MAX_OPEN_FILES, MAX_RINGS, MAX_STREAMS};
use crate::guard::reader::Readers;
use crate::guard::safefs::{Access, Held};
use crate::program::namespaces::{NameSpaces, Place};
use crate::rings::discover::Discovery;
use crate::rings::ringfile::{self, ClientId, RingName, Segment, SeqSet};
use crate::rings::session::Session;
use crate::rings::slices::{LongSlice, SliceWatch, Written};
use kasuri_format::meta::Proc;
use kasuri_format::ring::{ChunkState, LOST_CAUSES};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// With this many more open chunks than threads seemed to need, many threads have probably ended: a program of
/// thousands of short threads would take new memory for each.
const MANY_OWNED: usize = 32;

/// The longest look at rings that there was no room for: a recorder that is told to end does so within seconds.
const COUNTING: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Client {
    segments: Vec<Segment>,
    out: Option<File>,
    out_bytes: u64,
    /// The chunks of each stream that the file has.
    have: HashMap<u32, SeqSet>,
    /// The newest stream of each thread: older ones of the same thread have ended.
    newest: HashMap<u32, u32>,
    /// Start time of the process when it was found, so that a reused pid is not taken for it.
    start_time: Option<u64>,
    /// Its process in /proc: not that of its own number when it lives in a pid name space of its own.
    place: Place,
    /// Elsewhere: streams whose threads were looked up.
    looked_for: HashSet<u32>,
    /// Chunks that threads owned when the dead were last looked for.
    owned_then: usize,
    /// Runs of chunk numbers in `have` beyond one for each stream.
    early: usize,
    /// Too much to remember: nothing more is taken from it.
    given_up: bool,
}

/// A chunk waiting in a ring.
#[derive(Clone, Copy, Debug)]
struct Found {
    stream: u32,
    seq: u64,
    segment: usize,
    chunk: usize,
}

/// The result of one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collected {
    /// Chunks copied.
    pub chunks: u64,
    /// Chunks given back.
    pub freed: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Misbehaviour of programs. None of it ends the recording.
#[derive(Debug, Default)]
struct Refused {
    /// Ring files beyond [`MAX_CLIENTS`] or [`MAX_RINGS`] whose events were not counted.
    too_many: u64,
    /// Events and losses of the ring files that were counted at the end, by cause; the events as [`Lost::Full`].
    counted: [u64; LOST_CAUSES],
    /// Ring files cut by their program.
    cut: u64,
    /// Clients with more streams than all others, when there were too many.
    given_up: u64,
    /// Some of them.
    examples: Vec<String>,
}

impl Refused {
    fn example(&mut self, name: String) {
        if self.examples.len() < 3 {
            self.examples.push(name);
        }
    }

    /// As lines for what a recording is missing.
    fn lines(&self) -> Vec<String> {
        let whose = match self.examples[..] {
            [] => String::new(),
            _ => format!(" (such as {})", self.examples.join(", ")),
        };
        let kinds = [
            (self.too_many, "ring files beyond what a session may have"),
            (self.cut, "ring files that their program cut short"),
            (self.given_up, "clients with too many streams"),
        ];
        let seen = kinds.iter().filter(|(n, _)| *n > 0);
        seen.map(|(n, what)| {
            format!(
                "annotations of a program that misbehaved, how many is not known: {n} {what}{whose}"
            )
        })
        .collect()
    }
}

/// Collects from one session directory into one recording directory.
#[derive(Debug)]
pub struct Collector {
    session: Held,
    dir: Held,
    clients: BTreeMap<ClientId, Client>,
    discovery: Discovery,
    refused: Refused,
    bytes: u64,
    found: Vec<Found>,
    names: NameSpaces,
    room: Room,
}

/// The number of clients and rings that may be open at once.
#[derive(Clone, Copy, Debug)]
struct Room {
    clients: usize,
    rings: usize,
}

impl Collector {
    /// Begins to watch `session`; nothing is written into `dir` before a program annotates.
    pub fn new(session: &Held, dir: &Held) -> Collector {
        Collector {
            session: session.clone(),
            dir: dir.clone(),
            clients: BTreeMap::new(),
            discovery: Discovery::new(session),
            refused: Refused::default(),
            bytes: 0,
            found: Vec::new(),
            names: NameSpaces::default(),
            room: Room { clients: MAX_CLIENTS, rings: MAX_RINGS },
        }
    }

    /// Who reads what programs have mapped.
    pub(crate) fn readers(&self) -> &Readers {
        self.names.readers()
    }

    /// For tests: fewer may be open than a session of thousands of programs needs.
    #[cfg(test)]
    pub(crate) fn leave_room_for(&mut self, clients: usize, rings: usize) {
        self.room = Room { clients, rings };
    }

    /// For a test's negative control: as [`Collector::close_client`], and reads nothing first.
    #[cfg(test)]
    pub(super) fn close_unread(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            for segment in client.segments.drain(..) {
                let _ = self.session.remove(segment.name());
            }
        }
    }

    /// As [`Collector::new`], where an earlier collector may have been killed: cuts half-written chunks
    /// off the files, and remembers which chunks they have.
    ///
    /// # Errors
    /// When a file of the recording cannot be read or cut.
    pub fn resume(session: &Held, dir: &Held) -> Result<Collector> {
        Collector::resume_into(session, dir, None)
    }

    /// As [`Collector::resume`]; what the files in `dir` lack goes to another directory.
    ///
    /// # Errors
    /// As [`Collector::resume`].
    pub fn resume_into(session: &Held, dir: &Held, other: Option<&Held>) -> Result<Collector> {
        let mut collector = Collector::new(session, other.unwrap_or(dir));
        for (id, have) in ringfile::repair_chunk_files(dir)? {
            let client = collector.clients.entry(id).or_insert_with(|| Client::new(id.0));
            client.early = have.streams.values().map(|set| set.weight() - 1).sum();
            client.have = have.streams;
            client.out_bytes = if other.is_some() { 0 } else { have.bytes };
            collector.bytes += have.bytes;
        }
        Ok(collector)
    }

    /// Bytes of events that programs have written and no file has taken, after [`Collector::finish`].
    pub fn waiting(&mut self) -> u64 {
        let mut bytes = 0;
        for client in self.clients.values() {
            client.find(true, &mut self.found);
            let waits = self.found.iter().filter(|f| !client.has(f));
            bytes += waits.map(|f| client.segments[f.segment].used(f.chunk) as u64).sum::<u64>();
        }
        bytes
    }

    /// Whether any program ever had a ring here.
    pub fn met_any(&self) -> bool {
        !self.clients.is_empty()
    }

    /// The processes that ever had a ring here, as /proc numbers them, and whether that number is sure: of one that ended before it was
    /// looked for, it is the one by which it went itself.
    pub fn came(&self) -> impl Iterator<Item = (u32, bool)> {
        self.clients.iter().map(|(id, client)| match client.in_proc(id.0) {
            Some(pid) => (pid, true),
            None => (id.0, false),
        })
    }

    /// Bytes in the recording's chunk files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Each client's chunk file, and the bytes in it.
    pub fn written(&self) -> impl Iterator<Item = (String, u64)> {
        let with = self.clients.iter().filter(|(_, c)| c.out_bytes > 0);
        with.map(|(&id, client)| (chunks_name(id), client.out_bytes))
    }

    /// Processes that annotate, as /proc numbers them; those that were found there.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let mut last = 0;
        self.clients
            .iter()
            .filter_map(|(id, client)| client.in_proc(id.0))
            .filter(move |&pid| std::mem::replace(&mut last, pid) != pid)
    }

    /// All of those so far.
    pub fn names(&self) -> &[Proc] {
        self.names.rows()
    }

    /// Threads of other pid name spaces that were translated since the last call, for `procs.jsonl`.
    pub fn take_names(&mut self) -> Vec<Proc> {
        self.names.take_rows()
    }

    /// One tick: finds new ring files, copies the full chunks and frees them.
    ///
    /// # Errors
    /// When the recording cannot be written; chunks not written stay in the rings.
    pub fn tick(&mut self, session: Option<&Session>) -> Result<Collected> {
        self.discover();
        let mut sum = Collected::default();
        let taken = self.take_full(&mut sum);
        self.bytes += sum.bytes;
        taken?;
        self.give_up_heaviest();
        if sum.freed > 0
            && let Some(session) = session
        {
            session.add_freed();
        }
        Ok(sum)
    }

    /// Copies and frees the full chunks of all clients; few of their files are open at once.
    fn take_full(&mut self, sum: &mut Collected) -> Result<()> {
        let most_open = most_open();
        let mut open = self.clients.values().filter(|c| c.out.is_some()).count();
        for (&id, client) in &mut self.clients {
            let owned = client.find(false, &mut self.found);
            if owned > 2 * client.owned_then + MANY_OWNED {
                client.hand_over_dead(id.0);
                client.owned_then = client.find(false, &mut self.found);
            }
            let was_open = client.out.is_some();
            let taken = client.take(id, &self.dir, &mut self.found, false, sum);
            open += usize::from(client.out.is_some() && !was_open);
            if open > most_open && client.out.take().is_some() {
                open -= 1;
            }
            client.drop_cut(&mut self.refused);
            taken?;
        }
        Ok(())
    }

    /// Hands over the chunks of threads that ended, and forgets processes that ended. Looked at about
    /// once a second: it lists the threads of each process.
    ///
    /// # Errors
    /// As [`Collector::tick`].
    pub fn reap(&mut self, session: Option<&Session>) -> Result<Collected> {
        let gone = self.who_is_gone();
        self.hand_over();
        let mut sum = self.tick(session)?;
        for id in gone {
            self.close_client(id, &mut sum)?;
        }
        Ok(sum)
    }

    /// Clients whose process has ended: their ring files have all that they will ever have.
    pub(super) fn who_is_gone(&mut self) -> Vec<ClientId> {
        let open = self.clients.iter_mut();
        let open = open.filter(|(_, c)| !c.segments.is_empty());
        open.filter_map(|(&id, client)| client.is_gone(id.0).then_some(id)).collect()
    }

    /// Marks as full the open chunks of threads that have ended.
    pub(super) fn hand_over(&mut self) {
        for (&id, client) in &mut self.clients {
            client.hand_over_dead(id.0);
            client.owned_then = client.find(false, &mut self.found);
        }
    }

    /// The end: takes everything that is committed, the open chunks too, then sites and loss counts.
    /// Programs should have been told to stop.
    ///
    /// # Errors
    /// As [`Collector::tick`]; what could be written was.
    pub fn finish(&mut self) -> Result<()> {
        self.discover_all();
        let mut first_error = None;
        let mut sum = Collected::default();
        for (&id, client) in &mut self.clients {
            client.find(true, &mut self.found);
            let taken = client.take(id, &self.dir, &mut self.found, true, &mut sum);
            client.out = None;
            client.drop_cut(&mut self.refused);
            let lost = client.write_lost(id, &self.dir);
            first_error = first_error.or(taken.err()).or(lost.err());
        }
        self.bytes += sum.bytes;
        self.count_refused();
        let sites = ringfile::copy_sites(&self.session, &self.dir);
        let unopened = self.discovery.check();
        match first_error.or(sites.err()).or(unopened.err()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Flight recorder: copies all chunks into `dir` without freeing them; returns the bytes.
    ///
    /// # Errors
    /// When `dir` cannot be written.
    pub fn snapshot(&mut self, dir: &Held) -> Result<u64> {
        self.discover_all();
        let mut bytes = 0;
        for (&id, client) in &mut self.clients {
            client.find(true, &mut self.found);
            bytes += client.copy(id, dir, &mut self.found)?;
            client.drop_cut(&mut self.refused);
            client.write_lost(id, dir)?;
        }
        ringfile::copy_sites(&self.session, dir)?;
        Ok(bytes)
    }

    /// Flight recorder: the slices that took too long since the last look. `limits` and `now` in ticks of the annotations' clock.
    pub(crate) fn watch(
        &mut self,
        watch: &mut SliceWatch,
        limits: &[u64],
        now: u64,
    ) -> Vec<LongSlice> {
        let mut long = Vec::new();
        watch.begin();
        for (&id, client) in &mut self.clients {
            client.find(true, &mut self.found);
            self.found.sort_unstable_by_key(|f| (f.stream, f.seq));
            let chunks: Vec<Written<'_>> = self
                .found
                .iter()
                .map(|f| Written {
                    segment: &client.segments[f.segment],
                    chunk: f.chunk,
                    stream: f.stream,
                    seq: f.seq,
                })
                .collect();
            watch.look(id, &self.session, &chunks, (limits, now), &mut long);
        }
        watch.end(|id| self.clients.contains_key(id));
        long
    }

    /// Flight recorder: frees the chunks of ended threads whose events are all older than `cutoff`, and
    /// says how many.
    pub fn free_old(&mut self, cutoff: u64) -> u64 {
        self.clients.iter_mut().map(|(id, client)| client.free_old(id.0, cutoff)).sum()
    }

    /// Finds new ring files and their processes.
    pub fn discover(&mut self) {
        self.look(false);
        self.find_places(false);
    }

    /// As [`Collector::discover`], and looks once more at those that were not ready.
    fn discover_all(&mut self) {
        self.look(true);
        self.find_places(true);
    }

    fn find_places(&mut self, all: bool) {
        self.names.begin_round(all);
        for (&id, client) in &mut self.clients {
            client.find_place(id, &mut self.names);
            client.translate(id, &mut self.names);
        }
    }

    fn look(&mut self, all: bool) {
        let mut n_rings: usize = self.clients.values().map(|c| c.segments.len()).sum();
        let (clients, refused, room) = (&self.clients, &mut self.refused, self.room);
        let mut n_clients = clients.len();
        let ready = self.discovery.look(all, |ring| {
            let is_new = !clients.contains_key(&(ring.pid, ring.generation));
            let fits = n_rings < room.rings && (!is_new || n_clients < room.clients);
            match fits {
                true => {
                    n_rings += 1;
                    n_clients += usize::from(is_new);
                }
                false => {
                    refused.too_many += 1;
                    refused.example(format!("p{}-{}", ring.pid, ring.generation));
                }
            }
            fits
        });
        for (ring, segment) in ready {
            let client = self
                .clients
                .entry((ring.pid, ring.generation))
                .or_insert_with(|| Client::new(ring.pid));
            if !client.given_up {
                client.segments.push(segment);
            }
        }
    }

    /// Counts the events in the ring files that were refused, one file at a time: they are lost, but known. Programs have been
    /// told to stop. After [`COUNTING`] it gives up, and the rest stays unknown.
    fn count_refused(&mut self) {
        if self.refused.too_many == 0 {
            return;
        }
        let begun = Instant::now();
        let is_open = |ring: &RingName| self.clients.contains_key(&(ring.pid, ring.generation));
        let names = self.session.names(MAX_NAMES).unwrap_or_default();
        for name in names {
            if self.refused.too_many == 0 || begun.elapsed() > COUNTING {
                return;
            }
            let Some(ring) = RingName::parse(&name).filter(|ring| !is_open(ring)) else {
                continue;
            };
            // One that never became a ring holds nothing.
            if let Ok(segment) = Segment::open(&self.session, &name, &ring) {
                segment.count_into(&mut self.refused.counted);
            }
            self.refused.too_many -= 1;
        }
    }

    /// Adds the events of refused rings to `lost`, the losses of programs that have no ring.
    pub fn unplaced(&self, lost: [u64; LOST_CAUSES]) -> [u64; LOST_CAUSES] {
        std::array::from_fn(|cause| lost[cause].saturating_add(self.refused.counted[cause]))
    }

    /// Lines for what the recording is missing because programs misbehaved and the losses cannot be counted.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lines()
    }

    fn give_up_heaviest(&mut self) {
        while self.clients.values().map(Client::weight).sum::<usize>() > MAX_STREAMS {
            let Some((id, client)) = self.clients.iter_mut().max_by_key(|(_, c)| c.weight()) else {
                return;
            };
            client.give_up();
            self.refused.given_up += 1;
            self.refused.example(format!("p{}-{}", id.0, id.1));
        }
    }

    /// Takes what a client that has ended left, and removes its ring files: those that were read here, the chunks that its threads
    /// wrote into last too. A file that it made since the last look stays, and is found by the next one.
    pub(super) fn close_client(&mut self, id: ClientId, sum: &mut Collected) -> Result<()> {
        let Some(client) = self.clients.get_mut(&id).filter(|c| !c.given_up) else {
            return Ok(());
        };
        if !client.segments.iter_mut().all(Segment::is_only_ours) {
            // Somebody has what was found since it was taken for gone: asked again.
            return Ok(());
        }
        client.find(true, &mut self.found);
        let before = sum.bytes;
        let taken = client.take(id, &self.dir, &mut self.found, true, sum);
        self.bytes += sum.bytes - before;
        client.drop_cut(&mut self.refused);
        taken?;
        client.write_lost(id, &self.dir)?;
        for segment in client.segments.drain(..) {
            let _ = self.session.remove(segment.name());
        }
        client.out = None;
        client.newest = HashMap::new();
        client.have = HashMap::new();
        client.early = 0;
        ringfile::copy_client_sites(&self.session, &self.dir, id)
    }
}

impl Client {
    fn new(pid: u32) -> Client {
        Client {
            segments: Vec::new(),
            out: None,
            out_bytes: 0,
            have: HashMap::new(),
            newest: HashMap::new(),
            start_time: crate::program::procs::start_time(pid as i32),
            place: Place::Later,
            looked_for: HashSet::new(),
            owned_then: 0,
            early: 0,
            given_up: false,
        }
    }

    /// The memory it takes, in entries.
    fn weight(&self) -> usize {
        self.have.len() + self.early + self.newest.len()
    }

    /// Forgets all but what its file has.
    fn give_up(&mut self) {
        self.segments = Vec::new();
        self.have = HashMap::new();
        self.newest = HashMap::new();
        self.early = 0;
        self.out = None;
        self.given_up = true;
    }

    /// Drops the ring files that their program cut: their content is lost.
    fn drop_cut(&mut self, refused: &mut Refused) {
        self.segments.retain(|segment| {
            if segment.is_broken() {
                refused.cut += 1;
                refused.example(segment.name().to_owned());
            }
            !segment.is_broken()
        });
    }

    /// Lists the chunks that owners handed over; with `open`, those they still write into too. Returns how many
    /// they still write into.
    fn find(&self, open: bool, found: &mut Vec<Found>) -> usize {
        found.clear();
        let mut owned = 0;
        for (ix, segment) in self.segments.iter().enumerate() {
            segment.for_each(|chunk, state| {
                owned += usize::from(state == ChunkState::Owned);
                if state == ChunkState::Full || open {
                    let (stream, seq) = segment.stream_and_seq(chunk);
                    found.push(Found { stream, seq, segment: ix, chunk });
                }
            });
        }
        owned
    }

    /// Copies what was found, in order of (stream, seq), and frees it unless at the `end`. A chunk in which a
    /// signal handler had an event open is handed over later than its successors; readers sort.
    fn take(
        &mut self,
        id: ClientId,
        dir: &Held,
        found: &mut [Found],
        end: bool,
        sum: &mut Collected,
    ) -> Result<()> {
        found.sort_unstable_by_key(|f| (f.stream, f.seq));
        for f in found.iter() {
            let segment = &self.segments[f.segment];
            // Stream 0: zeroed by a recorder that was killed before it said so; or never written.
            if !self.has(f) {
                let out = open_out(&mut self.out, id, dir, self.out_bytes)?;
                let written = segment.write_to(f.chunk, out);
                if written.is_err() || segment.is_broken() {
                    // No half chunk stays behind: what is in the file is whole.
                    let _ = out.set_len(self.out_bytes);
                }
                if segment.is_broken() {
                    continue;
                }
                let written =
                    written.map_err(|cause| Error::file("write", &chunks_path(dir, id), cause))?;
                self.out_bytes += written;
                sum.bytes += written;
                sum.chunks += 1;
                let have = self.have.entry(f.stream).or_default();
                let before = have.weight();
                have.insert(f.seq);
                self.early = self.early + have.weight() - before;
                let newest = self.newest.entry(segment.tid(f.chunk)).or_insert(f.stream);
                *newest = (*newest).max(f.stream);
            }
            crate::testhook::point("free");
            if !end {
                segment.free(f.chunk);
                sum.freed += 1;
            }
        }
        Ok(())
    }

    /// Whether its file has the chunk, or the chunk holds nothing.
    fn has(&self, f: &Found) -> bool {
        let have = || self.have.get(&f.stream);
        f.stream == 0 || have().is_some_and(|have| have.contains(f.seq))
    }

    /// Appends a copy of each chunk found to the client's file in `dir`.
    fn copy(&self, id: ClientId, dir: &Held, found: &mut [Found]) -> Result<u64> {
        found.sort_unstable_by_key(|f| (f.stream, f.seq));
        let (mut out, mut copy, mut bytes) = (None, Vec::new(), 0);
        for f in found.iter() {
            // Reused while it was copied, by an event that was on its way when we froze: it is lost, and
            // counted in the chunk's new life.
            let segment = &self.segments[f.segment];
            if segment.snapshot(f.chunk, &mut copy) == Some((f.stream, f.seq))
                && !segment.is_broken()
            {
                let out = open_out(&mut out, id, dir, bytes)?;
                out.write_all(&copy).map_err(|e| Error::file("write", &chunks_path(dir, id), e))?;
                bytes += copy.len() as u64;
            }
        }
        Ok(bytes)
    }

    fn free_old(&mut self, pid: u32, cutoff: u64) -> u64 {
        self.hand_over_dead(pid);
        let mut freed = 0;
        for segment in &self.segments {
            segment.for_each(|chunk, state| {
                if state == ChunkState::Full && segment.last_stamp(chunk) < cutoff {
                    segment.free(chunk);
                    freed += 1;
                }
            });
        }
        freed
    }

    /// Marks as FULL the open chunks whose owner cannot write any more.
    fn hand_over_dead(&mut self, pid: u32) {
        let mut open = Vec::new();
        for (ix, segment) in self.segments.iter().enumerate() {
            segment.for_each(|chunk, state| {
                if state != ChunkState::Owned {
                    return;
                }
                let (stream, _) = segment.stream_and_seq(chunk);
                let tid = segment.tid(chunk);
                // Without a header the owner was between taking the chunk and writing its name into it.
                if stream != 0 && tid != 0 {
                    let newest = self.newest.entry(tid).or_insert(stream);
                    *newest = (*newest).max(stream);
                    open.push((ix, chunk, tid, stream));
                }
            });
        }
        if open.is_empty() {
            return;
        }
        // Asked after the headers were read: a thread that wrote one and is not there has ended.
        let gone = self.is_gone(pid);
        let listed = match (gone, self.place) {
            (true, _) => HashSet::new(),
            (false, Place::Here) => crate::program::procs::threads(pid as i32),
            (false, Place::Elsewhere(outer)) => NameSpaces::living(outer),
            (false, Place::Doubt | Place::Later) => return,
        };
        let is_here = self.place == Place::Here;
        for (ix, chunk, tid, stream) in open {
            let tid_now = tid as i32;
            let lives = !gone
                && (listed.contains(&tid_now)
                    || (is_here && crate::program::procs::has_thread(pid as i32, tid_now)));
            if !lives || self.newest[&tid] > stream {
                self.segments[ix].set_full(chunk);
            }
        }
    }

    /// Its process's number in /proc, when that is known.
    fn in_proc(&self, pid: u32) -> Option<u32> {
        match self.place {
            Place::Here => Some(pid),
            Place::Elsewhere(outer) => Some(outer as u32),
            Place::Doubt | Place::Later => None,
        }
    }

    /// Looks for its process, until it was looked for once.
    fn find_place(&mut self, id: ClientId, names: &mut NameSpaces) {
        if self.place != Place::Later {
            return;
        }
        let Some(first) = self.segments.first() else {
            // It ended before its turn came: what was taken of it is not to be anyone else's.
            names.doubt(id);
            self.place = Place::Doubt;
            return;
        };
        let session = first.dir().path().file_name().unwrap_or_default();
        // As it ends in /proc/PID/maps, whatever mount name space the process lives in.
        let end = format!("/{}/{}", session.to_string_lossy(), first.name());
        self.place = names.place(id, &end);
        if let Place::Elsewhere(outer) = self.place {
            self.start_time = crate::program::procs::start_time(outer);
        }
    }

    /// In a pid name space of its own: looks up the threads of streams that are new, while they live.
    fn translate(&mut self, id: ClientId, names: &mut NameSpaces) {
        let Place::Elsewhere(outer) = self.place else {
            return;
        };
        for segment in &self.segments {
            segment.for_each(|chunk, _| {
                let (stream, tid) = (segment.stream_and_seq(chunk).0, segment.tid(chunk));
                if stream != 0 && tid != 0 && self.looked_for.insert(stream) {
                    names.thread(id, outer, tid as i32);
                }
            });
        }
    }

    fn is_gone(&mut self, pid: u32) -> bool {
        let id = pid;
        let pid = self.in_proc(id).unwrap_or(id);
        let elsewhere = match crate::program::procs::start_time(pid as i32) {
            None => true,
            Some(now) => self.start_time.is_some_and(|then| then != now),
        };
        (elsewhere || self.in_proc(id).is_none())
            && self.segments.iter_mut().all(Segment::is_only_ours)
    }

    fn write_lost(&self, id: ClientId, dir: &Held) -> Result<()> {
        let Some(first) = self.segments.iter().find(|s| s.index() == 0) else {
            return Ok(());
        };
        let mut lost = first.lost();
        // The losses of a chunk that is being emptied are in no chunk of this copy.
        for segment in &self.segments {
            segment.for_each(|chunk, _| {
                let emptied = segment.emptied(chunk);
                let sums = lost.iter_mut().zip(emptied);
                sums.for_each(|(sum, n)| *sum = sum.saturating_add(n));
            });
        }
        write_losses(dir, id, lost)
    }
}

/// Writes the losses of programs that had no room for a ring, if there are any, as those of client 0-0, which does not exist.
///
/// # Errors
/// When the file cannot be written.
pub fn write_unplaced(dir: &Held, lost: [u64; LOST_CAUSES]) -> Result<()> {
    match lost.iter().any(|&n| n != 0) {
        false => Ok(()),
        true => write_losses(dir, (0, 0), lost),
    }
}

fn write_losses(dir: &Held, id: ClientId, lost: [u64; LOST_CAUSES]) -> Result<()> {
    let bytes: Vec<u8> = lost.iter().flat_map(|count| count.to_le_bytes()).collect();
    let name = format!("p{}-{}.lost", id.0, id.1);
    dir.file(&name, Access::Replace)
        .and_then(|mut f| f.write_all(&bytes))
        .map_err(|e| Error::file("write", &dir.named(&name), e))
}

/// The number of files that may be kept open, by the limit that this process got.
fn most_open() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(MAX_OPEN_FILES, |n| MAX_OPEN_FILES.min(n as usize / 4))
}

fn chunks_name(id: ClientId) -> String {
    format!("p{}-{}.chunks", id.0, id.1)
}

fn chunks_path(dir: &Held, id: ClientId) -> PathBuf {
    dir.named(chunks_name(id))
}

fn open_out<'a>(
    out: &'a mut Option<File>,
    id: ClientId,
    dir: &Held,
    bytes: u64,
) -> Result<&'a mut File> {
    if out.is_none() {
        let file = dir
            .file(chunks_name(id), Access::Append)
            .map_err(|e| Error::file("make", &chunks_path(dir, id), e))?;
        file.set_len(bytes).map_err(|e| Error::file("cut", &chunks_path(dir, id), e))?;
        *out = Some(file);
    }
    Ok(out.as_mut().expect("opened above"))
}
