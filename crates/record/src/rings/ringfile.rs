//! Ring files and the files made of them: names, mapping, chunks, repair after a crash.
use crate::error::{Error, Result};
use crate::guard::bounds::{MAX_NAMES, MAX_SITES_BYTES};
use crate::guard::safefs::{Access, Held};
use crate::rings::openchunk::{self, Words};
use crate::rings::shm::Shared;
use crate::sent::Sent;
use kasuri_format::ring::{
    self, ABI_VERSION, ChunkHeader, ChunkState, LOST_CAUSES, Lost, MAGIC_SEGMENT, SLOT_BYTES,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

const HEADER_BYTES: usize = size_of::<ChunkHeader>();

/// A ring file that its program has not finished making.
#[derive(Debug)]
pub struct NotYet;

/// `p<pid>-<gen>.ring<k>` taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingName {
    /// Process.
    pub pid: u32,
    /// Client of the process.
    pub generation: u32,
    /// Segment of the client.
    pub index: u32,
}

impl RingName {
    /// `None`: another kind of file.
    pub fn parse(name: &str) -> Option<RingName> {
        let (client, index) = name.split_once(".ring")?;
        let (pid, generation) = client_id(client)?;
        Some(RingName { pid, generation, index: index.parse().ok()? })
    }
}

impl std::fmt::Display for RingName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}-{}.ring{}", self.pid, self.generation, self.index)
    }
}

/// A client is one copy of kasuri.h's state in one process: pid and gen.
pub(crate) type ClientId = (u32, u32);

/// `p<pid>-<gen>` taken apart.
pub(crate) fn client_id(name: &str) -> Option<(u32, u32)> {
    let (pid, generation) = name.strip_prefix('p')?.split_once('-')?;
    Some((pid.parse().ok()?, generation.parse().ok()?))
}

/// Lists a directory only when it changed.
#[derive(Debug)]
pub struct DirWatch {
    dir: Held,
    last: Option<(i64, i64)>,
}

/// The kernel stamps changes with a clock that ticks every 1..10 ms; a change within that time after
/// a listing may leave the stamp as it is.
const STAMP_GRAIN: Duration = Duration::from_millis(40);

impl DirWatch {
    /// Of this directory.
    pub fn new(dir: &Held) -> DirWatch {
        DirWatch { dir: dir.clone(), last: None }
    }

    /// Makes the next look a full one.
    pub fn force(&mut self) {
        self.last = None;
    }

    /// All names, when something may have changed since the last call.
    pub fn changed(&mut self) -> Option<Vec<String>> {
        let stat = self.dir.stat().ok()?;
        let stamp = (stat.st_mtime, stat.st_mtime_nsec as i64);
        if self.last == Some(stamp) {
            return None;
        }
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let changed = Duration::new(stamp.0.max(0) as u64, stamp.1 as u32);
        self.last = (age > changed + STAMP_GRAIN).then_some(stamp);
        let names = self.dir.names(MAX_NAMES).ok();
        // Out of descriptors, say: looked at again.
        if names.is_none() {
            self.force();
        }
        names
    }
}

/// One mapped ring file.
#[derive(Debug)]
pub struct Segment {
    map: Shared,
    dir: Held,
    name: String,
    index: u32,
    n_chunks: usize,
    chunk_bytes: usize,
    chunks_offset: usize,
}

impl Segment {
    /// Maps a ring file and checks its head against its length, so that no offset below can be outside.
    ///
    /// # Errors
    /// When it is not (yet) a ring file.
    pub fn open(dir: &Held, file: &str, name: &RingName) -> std::result::Result<Segment, NotYet> {
        let map = Shared::open(dir, file).map_err(|_| NotYet)?;
        if map.len() < size_of::<ring::Segment>() {
            return Err(NotYet);
        }
        // ORDER acquire; pairs with the release store of `magic` in kasuri.h: the rest of the head is there.
        let magic = map.u64_at(offset_of!(ring::Segment, magic)).load(Ordering::Acquire);
        let field = |offset: usize| map.load_u32(offset) as usize;
        let (n_chunks, chunk_bytes) = (
            field(offset_of!(ring::Segment, n_chunks)),
            field(offset_of!(ring::Segment, chunk_bytes)),
        );
        let chunks_offset = field(offset_of!(ring::Segment, chunks_offset));
        let sound = magic == MAGIC_SEGMENT
            && map.load_u32(offset_of!(ring::Segment, version)) == ABI_VERSION
            && map.load_u32(offset_of!(ring::Segment, index)) == name.index
            && chunk_bytes.is_power_of_two()
            && (4096..=1 << 20).contains(&chunk_bytes)
            && chunks_offset.is_multiple_of(4096)
            && size_of::<ring::Segment>() + 4 * n_chunks <= chunks_offset
            && n_chunks
                .checked_mul(chunk_bytes)
                .and_then(|b| b.checked_add(chunks_offset))
                .is_some_and(|end| end <= map.len());
        if !sound {
            return Err(NotYet);
        }
        Ok(Segment {
            map,
            dir: dir.clone(),
            name: file.to_owned(),
            index: name.index,
            n_chunks,
            chunk_bytes,
            chunks_offset,
        })
    }

    /// Whether its program has ended: no other process maps it.
    pub fn is_only_ours(&mut self) -> bool {
        self.map.is_only_ours(&self.dir, &self.name).unwrap_or(false)
    }

    /// Its file's name in the session.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The session it lies in.
    pub fn dir(&self) -> &Held {
        &self.dir
    }

    /// Whether its program cut the file short: nothing that is read from it is valid any more.
    pub fn is_broken(&self) -> bool {
        self.map.is_broken()
    }

    /// k of `.ring<k>`.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Calls `each` with the number and state of each chunk that is not free.
    pub fn for_each(&self, mut each: impl FnMut(usize, ChunkState)) {
        for chunk in 0..self.n_chunks {
            match ChunkState::from_number(self.state(chunk)) {
                Some(ChunkState::Free) | None => {}
                Some(state) => each(chunk, state),
            }
        }
    }

    fn state_at(&self, chunk: usize) -> usize {
        size_of::<ring::Segment>() + 4 * chunk
    }

    fn state(&self, chunk: usize) -> u32 {
        // ORDER acquire; pairs with the release store of FULL by the owner: all events of the chunk and
        // its `used` are seen with it.
        self.map.u32_at(self.state_at(chunk)).load(Ordering::Acquire)
    }

    fn at(&self, chunk: usize) -> usize {
        self.chunks_offset + chunk * self.chunk_bytes
    }

    /// The stream whose events it holds, and its number in that stream; stream 0: none, or half emptied for its next
    /// use (its owner is at it, or was killed in it).
    pub fn stream_and_seq(&self, chunk: usize) -> (u32, u64) {
        let at = self.at(chunk);
        let seq = self.map.load_u64(at + offset_of!(ChunkHeader, seq));
        if ring::is_emptying(seq) {
            return (0, 0);
        }
        let stream = self.map.load_u32(at + offset_of!(ChunkHeader, stream));
        (stream, seq)
    }

    /// Of a chunk that its owner is emptying for its next use, or was killed in it: what it had lost in its lives before, and the events
    /// of this one as overwritten. To the event while the lengths of its records stand, which go last; then to the slot.
    pub fn emptied(&self, chunk: usize) -> [u64; LOST_CAUSES] {
        let at = self.at(chunk);
        if !ring::is_emptying(self.map.load_u64(at + offset_of!(ChunkHeader, seq))) {
            return [0; LOST_CAUSES];
        }
        let field = offset_of!(ChunkHeader, lost);
        let mut lost =
            std::array::from_fn(|cause| u64::from(self.map.load_u32(at + field + 4 * cause)));
        let used = self.map.load_u32(at + offset_of!(ChunkHeader, used)) as usize;
        let mut offset = HEADER_BYTES;
        while offset + SLOT_BYTES <= used.min(self.chunk_bytes) {
            let word = self.map.load_u64(at + offset + 8);
            offset += ((word >> 8 & 0xff) as usize).max(1) * SLOT_BYTES;
            lost[Lost::Overwritten as usize] += 1;
        }
        lost
    }

    /// The thread that owns it.
    pub fn tid(&self, chunk: usize) -> u32 {
        self.map.load_u32(self.at(chunk) + offset_of!(ChunkHeader, tid))
    }

    /// Bytes with committed events, header included: `used` of a closed chunk, else found by looking.
    pub fn used(&self, chunk: usize) -> usize {
        self.claimed(chunk).unwrap_or_else(|| self.committed_end(chunk))
    }

    /// The length that its owner claims, if that is possible.
    fn claimed(&self, chunk: usize) -> Option<usize> {
        let field = self.at(chunk) + offset_of!(ChunkHeader, used);
        let claimed = self.map.load_u32(field) as usize;
        let possible = (HEADER_BYTES..=self.chunk_bytes).contains(&claimed);
        (possible && claimed.is_multiple_of(SLOT_BYTES)).then_some(claimed)
    }

    /// How the words of a chunk are stored.
    fn flags(&self, chunk: usize) -> u32 {
        self.map.load_u32(self.at(chunk) + offset_of!(ChunkHeader, flags))
    }

    /// The end of the last committed event of a chunk whose owner has ended. An open record is stepped over by its
    /// length when that is written, else slot by slot.
    fn committed_end(&self, chunk: usize) -> usize {
        let (at, flags) = (self.at(chunk), self.flags(chunk));
        let mut offset = HEADER_BYTES;
        let mut end = HEADER_BYTES;
        while offset + SLOT_BYTES <= self.chunk_bytes {
            // ORDER acquire; pairs with the release store of word 0 that commits an event: its payload
            // is seen with it.
            let stamp = self.map.u64_at(at + offset).load(Ordering::Acquire);
            let stamp = ring::committed_stamp(stamp, flags);
            let word = self.map.load_u64(at + offset + 8);
            let slots = ((word >> 8 & 0xff) as usize).max(1);
            offset += slots * SLOT_BYTES;
            if stamp != 0 && offset <= self.chunk_bytes {
                end = offset;
            }
        }
        end
    }

    /// Stamp of the last committed event; 0: none.
    pub fn last_stamp(&self, chunk: usize) -> u64 {
        let (at, flags) = (self.at(chunk), self.flags(chunk));
        let mut last = 0;
        let mut offset = HEADER_BYTES;
        while offset + SLOT_BYTES <= self.chunk_bytes {
            let stamp = self.map.u64_at(at + offset).load(Ordering::Acquire);
            last = last.max(ring::committed_stamp(stamp, flags));
            offset +=
                ((self.map.load_u64(at + offset + 8) >> 8 & 0xff) as usize).max(1) * SLOT_BYTES;
        }
        last
    }

    /// Appends the chunk to a file, `used` set, cut to it; returns the bytes written.
    ///
    /// # Errors
    /// When not all of it could be written.
    pub fn write_to(&self, chunk: usize, out: &mut File) -> io::Result<u64> {
        if ChunkState::from_number(self.state(chunk)) == Some(ChunkState::Owned) {
            let mut copy = Vec::new();
            self.copy_open(chunk, &mut copy);
            out.write_all(&copy)?;
            return Ok(copy.len() as u64);
        }
        let at = self.at(chunk);
        let used = self.used(chunk);
        let mut header = [0u8; HEADER_BYTES];
        self.map.copy_to(at, &mut header);
        let field = offset_of!(ChunkHeader, used);
        header[field..field + 4].copy_from_slice(&(used as u32).to_le_bytes());
        let body = self.map.pointer(at + HEADER_BYTES, used - HEADER_BYTES);
        let parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_BYTES },
            libc::iovec { iov_base: body.cast_mut().cast(), iov_len: used - HEADER_BYTES },
        ];
        // SAFETY: both parts are readable for the length given; the kernel only reads them.
        let n = unsafe { libc::writev(out.as_raw_fd(), parts.as_ptr(), 2) };
        if n < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EFAULT) {
                self.map.set_broken();
            }
            return Err(error);
        }
        if n as usize == used {
            return Ok(used as u64);
        }
        // Rare: a signal, or the disk is nearly full. The rest by ordinary writes, to learn which.
        let mut copy = vec![0u8; used];
        copy[..HEADER_BYTES].copy_from_slice(&header);
        self.map.copy_to(at + HEADER_BYTES, &mut copy[HEADER_BYTES..]);
        out.write_all(&copy[n as usize..])?;
        Ok(used as u64)
    }

    /// A copy of a chunk that its owner may be writing, `used` set.
    fn copy_open(&self, chunk: usize, out: &mut Vec<u8>) {
        let claimed = self.claimed(chunk).unwrap_or(self.chunk_bytes);
        let slots = openchunk::committed(&OpenSlots {
            map: &self.map,
            at: self.at(chunk) + HEADER_BYTES,
            count: (claimed - HEADER_BYTES) / 8,
            flags: self.flags(chunk),
        });
        out.clear();
        out.resize(HEADER_BYTES, 0);
        self.map.copy_to(self.at(chunk), out);
        out.extend(slots.iter().flat_map(|word| word.to_le_bytes()));
        let used = (out.len() as u32).to_le_bytes();
        let field = offset_of!(ChunkHeader, used);
        out[field..field + 4].copy_from_slice(&used);
    }

    /// Gives a copied chunk back: events first, then the header, then the word that says so.
    pub fn free(&self, chunk: usize) {
        let at = self.at(chunk);
        self.map.zero(at + HEADER_BYTES, self.chunk_bytes - HEADER_BYTES);
        crate::testhook::point("zero");
        self.map.zero(at, HEADER_BYTES);
        // ORDER release; pairs with the acquire in the compare-and-swap that takes the chunk: its new
        // owner sees zeroes everywhere. Without it a reader takes an old event for a committed new one.
        self.map.u32_at(self.state_at(chunk)).store(ChunkState::Free as u32, Ordering::Release);
    }

    /// Hands a dead owner's chunk over.
    pub fn set_full(&self, chunk: usize) {
        // ORDER relaxed: only this thread looks for FULL.
        self.map.u32_at(self.state_at(chunk)).store(ChunkState::Full as u32, Ordering::Relaxed);
    }

    /// Events lost by threads that never got a chunk.
    pub fn lost(&self) -> [u64; LOST_CAUSES] {
        std::array::from_fn(|cause| self.map.load_u64(offset_of!(ring::Segment, lost) + 8 * cause))
    }

    /// Adds its own loss counts, and the events in its chunks, which no recorder will read, to `lost`.
    pub fn count_into(&self, lost: &mut [u64; LOST_CAUSES]) {
        let mut add = |cause: usize, n: u64| lost[cause] = lost[cause].saturating_add(n);
        if self.index() == 0 {
            self.lost().into_iter().enumerate().for_each(|(cause, n)| add(cause, n));
        }
        let mut copy = Vec::new();
        self.for_each(|chunk, _| {
            if self.snapshot(chunk, &mut copy).is_none() || self.is_broken() {
                return;
            }
            let Ok(chunk) = ring::Chunk::parse(&copy, 0) else {
                return;
            };
            let counts = chunk.header.lost.into_iter().map(u64::from);
            counts.enumerate().for_each(|(cause, n)| add(cause, n));
            let events = chunk.events().count();
            add(ring::Lost::Full as usize, events as u64);
        });
    }

    /// Adds stamp, kind and site of the committed events from an offset on, at most so many, and returns where to read on; at the first
    /// record that is not committed, since its owner may be writing it. `None`: the chunk has another owner by now.
    pub fn events_from(
        &self,
        chunk: usize,
        owner: (u32, u64),
        from: usize,
        most: usize,
        events: &mut Vec<(u64, u8, u32)>,
    ) -> Option<usize> {
        let (at, flags) = (self.at(chunk), self.flags(chunk));
        let mut offset = from.max(HEADER_BYTES);
        while offset + SLOT_BYTES <= self.chunk_bytes && events.len() < most {
            // ORDER acquire; pairs with the release store of word 0 that commits an event: its word 1 is seen with it.
            let stamp = self.map.u64_at(at + offset).load(Ordering::Acquire);
            let stamp = ring::committed_stamp(stamp, flags);
            if stamp == 0 {
                break;
            }
            let word = self.map.load_u64(at + offset + 8);
            events.push((stamp, word as u8, (word >> 32) as u32));
            offset += ((word >> 8 & 0xff) as usize).max(1) * SLOT_BYTES;
        }
        // ORDER acquire: `seq` must not be read again before the events.
        std::sync::atomic::fence(Ordering::Acquire);
        (owner == self.stream_and_seq(chunk) && !self.is_broken()).then_some(offset)
    }

    /// A copy of a chunk that its owner may be reusing; `None` when that happened meanwhile.
    pub fn snapshot(&self, chunk: usize, out: &mut Vec<u8>) -> Option<(u32, u64)> {
        let before = self.stream_and_seq(chunk);
        // ORDER acquire: the copy must not be read before `seq`.
        std::sync::atomic::fence(Ordering::Acquire);
        self.copy_open(chunk, out);
        // ORDER acquire: `seq` must not be read again before the copy.
        std::sync::atomic::fence(Ordering::Acquire);
        (before.0 != 0 && before == self.stream_and_seq(chunk)).then_some(before)
    }
}

/// The slots of a chunk that its owner may be writing.
struct OpenSlots<'a> {
    map: &'a Shared,
    at: usize,
    count: usize,
    flags: u32,
}

impl Words for OpenSlots<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn stamp(&self, at: usize) -> u64 {
        let stamp = self.map.u64_at(self.at + 8 * at).load(Ordering::Acquire);
        ring::committed_stamp(stamp, self.flags)
    }

    fn word(&self, at: usize) -> u64 {
        self.map.load_u64(self.at + 8 * at)
    }
}

/// Chunk numbers of one stream: all below `next`, and runs of some above that came early.
#[derive(Debug, Default)]
pub struct SeqSet {
    next: u64,
    /// First number of each run, and the one after its last.
    early: BTreeMap<u64, u64>,
}

impl SeqSet {
    /// Whether `seq` was inserted.
    pub fn contains(&self, seq: u64) -> bool {
        let run = self.early.range(..=seq).next_back();
        seq < self.next || run.is_some_and(|(_, &end)| seq < end)
    }

    /// Inserts `seq`.
    pub fn insert(&mut self, seq: u64) {
        if self.contains(seq) || seq == u64::MAX {
            return;
        }
        let before = self.early.range(..seq).next_back();
        let mut run = match before {
            Some((&start, &end)) if end == seq => start..seq + 1,
            _ => seq..seq + 1,
        };
        if let Some(end) = self.early.remove(&run.end) {
            run.end = end;
        }
        if run.start == self.next {
            self.early.remove(&run.start);
            self.next = run.end;
        } else {
            self.early.insert(run.start, run.end);
        }
    }

    /// The number of entries to remember.
    pub fn weight(&self) -> usize {
        1 + self.early.len()
    }
}

/// The chunks in a client's file.
#[derive(Debug, Default)]
pub struct Have {
    /// Bytes of whole chunks.
    pub bytes: u64,
    /// Numbers of those chunks, by stream.
    pub streams: HashMap<u32, SeqSet>,
}

/// Cuts half a chunk off the end of each chunk file, which is what SIGKILL within a write leaves.
///
/// # Errors
/// When a file cannot be read or cut.
pub fn repair_chunk_files(dir: &Held) -> Result<BTreeMap<(u32, u32), Have>> {
    let mut all = BTreeMap::new();
    let sent = Sent::of(dir);
    let names = dir.names(MAX_NAMES);
    for name in names.map_err(|e| Error::file("read", dir.path(), e))? {
        let Some(id) = name.strip_suffix(".chunks").and_then(client_id) else {
            continue;
        };
        let read = || -> io::Result<Have> {
            // Not Append, which would make it: it is there.
            let file = dir.file(&name, Access::Shared)?;
            let mut have = Have::default();
            if file.metadata()?.len() == 0 {
                return Ok(have);
            }
            let map = crate::guard::sigbus::Guarded::read_only(&file)?;
            let (rest, from) = sent.rest(&name, map.bytes());
            have.bytes = from;
            for chunk in ring::parse_chunks(rest).0 {
                have.bytes = from + chunk.offset + u64::from(chunk.header.used);
                have.streams.entry(chunk.header.stream).or_default().insert(chunk.header.seq);
            }
            if have.bytes < map.len() as u64 {
                file.set_len(have.bytes)?;
            }
            Ok(have)
        };
        let have = read().map_err(|e| Error::file("repair", &dir.named(&name), e))?;
        all.insert(id, have);
    }
    Ok(all)
}

/// Whether the error is a shortage of ours: the file itself may be sound.
pub fn is_shortage(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Copies the site definitions of all clients.
///
/// # Errors
/// When one cannot be copied; the others were.
pub fn copy_sites(session: &Held, dir: &Held) -> Result<()> {
    let mut result = Ok(());
    let names = session.names(MAX_NAMES);
    for name in names.map_err(|e| Error::file("read", session.path(), e))? {
        if let Some(id) = name.strip_suffix(".sites").and_then(client_id) {
            result = result.and(copy_client_sites(session, dir, id));
        }
    }
    result
}

/// Copies the site definitions of one client; a client without any has no file, and one that is no file is none.
///
/// # Errors
/// When the copy cannot be written.
pub fn copy_client_sites(session: &Held, dir: &Held, id: (u32, u32)) -> Result<()> {
    let name = format!("p{}-{}.sites", id.0, id.1);
    let mut source = match session.file(&name, Access::Read) {
        Ok(source) => source,
        // It has names, and we cannot see them.
        Err(e) if is_shortage(&e) => return Err(Error::file("read", &session.named(&name), e)),
        Err(_) => return Ok(()),
    };
    let failed = |what, e| Error::file(what, &dir.named(&name), e);
    let mut out = dir.file(&name, Access::Replace).map_err(|e| failed("make", e))?;
    copy_text(&mut source, &mut out).map_err(|e| failed("write", e))
}

/// Copies up to [`MAX_SITES_BYTES`], and no further than there is anything: a file of any length that holds nothing costs its program
/// nothing, and would fill our disk.
fn copy_text(source: &mut File, out: &mut File) -> io::Result<()> {
    let mut block = vec![0u8; 1 << 16];
    let mut left = MAX_SITES_BYTES as usize;
    while left > 0 {
        let n = source.read(&mut block[..left.min(1 << 16)])?;
        if block[..n].iter().all(|&b| b == 0) {
            break;
        }
        out.write_all(&block[..n])?;
        left -= n;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn ring_names_are_taken_apart() {
        assert_eq!(
            RingName::parse("p12-3.ring45"),
            Some(RingName { pid: 12, generation: 3, index: 45 })
        );
        for other in ["control", "p12-3.sites", "p12.ring1", "p-1.ring2", "p1-2.ring", "p1-2.ringx"]
        {
            assert_eq!(RingName::parse(other), None, "{other}");
        }
    }

    /// A ring file with one chunk, OWNED by stream 1 and with number `seq`.
    pub(crate) fn one_chunk_bytes(seq: u64) -> Vec<u8> {
        let mut bytes = vec![0u8; 8192];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(offset_of!(ring::Segment, magic), &MAGIC_SEGMENT.to_le_bytes());
        put(offset_of!(ring::Segment, version), &ABI_VERSION.to_le_bytes());
        put(offset_of!(ring::Segment, chunk_bytes), &4096u32.to_le_bytes());
        put(offset_of!(ring::Segment, n_chunks), &1u32.to_le_bytes());
        put(offset_of!(ring::Segment, chunks_offset), &4096u32.to_le_bytes());
        put(4096 + offset_of!(ChunkHeader, seq), &seq.to_le_bytes());
        put(4096 + offset_of!(ChunkHeader, stream), &1u32.to_le_bytes());
        bytes
    }

    fn one_chunk(dir: &std::path::Path, seq: u64) -> Segment {
        let name = RingName::parse("p1-0.ring0").expect("a ring's name");
        std::fs::write(dir.join("p1-0.ring0"), one_chunk_bytes(seq)).expect("a file");
        let dir = Held::open(dir).expect("a directory");
        Segment::open(&dir, "p1-0.ring0", &name).expect("a sound segment")
    }

    #[test]
    fn snapshot_leaves_a_chunk_alone_that_its_owner_empties() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut copy = Vec::new();
        assert_eq!(one_chunk(dir.path(), 7).snapshot(0, &mut copy), Some((1, 7)));
        // A program of 32 bits stores the high half alone.
        for emptying in [ring::SEQ_EMPTYING, ring::SEQ_EMPTYING << 32 | 6] {
            assert_eq!(one_chunk(dir.path(), emptying).snapshot(0, &mut copy), None);
        }
    }

    /// What a program of 32 bits leaves that is killed between the two halves of a stamp, and what a hostile one could claim: no
    /// half is an event, however the chunk is read, and the numbers stay within the chunk.
    #[test]
    fn half_a_stamp_is_no_event_however_it_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let name = RingName::parse("p1-0.ring0").expect("a ring's name");
        for (flags, events) in [(0, 3), (ring::CHUNK_HALVES, 2), (u32::MAX, 2)] {
            let mut bytes = one_chunk_bytes(7);
            let mut put = |offset: usize, value: u64| {
                bytes[4096 + offset..][..8].copy_from_slice(&value.to_le_bytes());
            };
            for (slot, stamp) in [9 << 32 | 1, 9 << 32 | 2, 9 << 32].into_iter().enumerate() {
                put(HEADER_BYTES + SLOT_BYTES * slot, stamp);
                put(HEADER_BYTES + SLOT_BYTES * slot + 8, 1 | 1 << 8);
            }
            put(offset_of!(ChunkHeader, used), u64::from(flags) << 32);
            std::fs::write(dir.path().join("p1-0.ring0"), bytes).expect("a file");
            let held = Held::open(dir.path()).expect("a directory");
            let segment = Segment::open(&held, "p1-0.ring0", &name).expect("a sound segment");
            let end = HEADER_BYTES + SLOT_BYTES * events;
            assert_eq!(segment.used(0), end, "{flags:x}");
            assert_eq!(segment.last_stamp(0), 9 << 32 | 2);
            let mut copy = Vec::new();
            assert_eq!(segment.snapshot(0, &mut copy), Some((1, 7)));
            assert_eq!(copy.len(), end);
            let chunk = ring::Chunk::parse(&copy, 0).expect("a chunk");
            assert_eq!(chunk.events().count(), events);
        }
    }

    #[test]
    fn site_files_are_copied_as_far_as_they_hold_anything() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (from, to) = (scratch.path().join("s"), scratch.path().join("d"));
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(&to).unwrap();
        let (session, dir) = (Held::open(&from).unwrap(), Held::open(&to).unwrap());
        let copied = |id| {
            copy_client_sites(&session, &dir, id).unwrap();
            let copy = to.join(format!("p{}-{}.sites", id.0, id.1));
            std::fs::metadata(copy).map(|m| m.len()).ok()
        };
        // Sparse: 20 GB that were never written.
        let sparse = File::create(from.join("p1-0.sites")).unwrap();
        sparse.set_len(20 << 30).unwrap();
        assert_eq!(copied((1, 0)), Some(0));
        // Longer than any program's names.
        let large = File::create(from.join("p2-0.sites")).unwrap();
        large.set_len(2 * MAX_SITES_BYTES).unwrap();
        for block in 0..(2 * MAX_SITES_BYTES) >> 16 {
            rustix::io::pwrite(&large, b"x", block << 16).unwrap();
        }
        assert_eq!(copied((2, 0)), Some(MAX_SITES_BYTES));
        // Neither waited for nor followed.
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(&session, "p3-0.sites", fifo, 0o600.into(), 0).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("p4-0.sites")).unwrap();
        std::fs::create_dir(from.join("p5-0.sites")).unwrap();
        assert_eq!([3, 4, 5].map(|pid| copied((pid, 0))), [None; 3]);
    }

    #[test]
    fn seq_sets_remember_early_and_late_numbers() {
        let mut set = SeqSet::default();
        for seq in [0, 1, 3, 4, 2, 9] {
            assert!(!set.contains(seq));
            set.insert(seq);
            assert!(set.contains(seq));
        }
        assert_eq!((set.next, set.early.len()), (5, 1));
        assert!(!set.contains(5));
        for seq in [7, 6, 8] {
            set.insert(seq);
        }
        assert_eq!((set.next, set.early.get(&6)), (5, Some(&10)));
        set.insert(5);
        assert_eq!((set.next, set.weight()), (10, 1));
        // Far apart and at the end of all numbers.
        for seq in [u64::MAX, u64::MAX - 1, 1 << 40] {
            set.insert(seq);
        }
        assert!(set.contains(u64::MAX - 1) && set.contains(1 << 40) && !set.contains(11));
    }
}
