//! Ring files as programs leave them, sound and damaged, and what the collector makes of them.
use crate::guard::apart;
use crate::guard::safefs::Held;
use crate::rings::collector::{Collected, Collector};
use crate::rings::ringfile::{RingName, Segment};
use crate::rings::shm::Shared;
use crate::rings::slices::{LongSlice, OnSlice, SliceWatch};
use kasuri_format::ring::{
    self, ABI_VERSION, ChunkHeader, ChunkState, Kind, LOST_CAUSES, Lost, MAGIC_SEGMENT,
    SEQ_EMPTYING, parse_chunks,
};
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

mod life;

/// No process has this number: the kernel's limit is below.
const NOBODY: u32 = (1 << 22) + 7;
const CHUNK_BYTES: usize = 4096;
const HEADER: usize = size_of::<ChunkHeader>();

/// The bytes of a ring file.
#[derive(Clone)]
struct Ring(Vec<u8>);

impl Ring {
    fn new(n_chunks: usize) -> Ring {
        let mut ring = Ring(vec![0; 4096 + n_chunks * CHUNK_BYTES]);
        ring.put(offset_of!(ring::Segment, magic), &MAGIC_SEGMENT.to_le_bytes());
        ring.u32(offset_of!(ring::Segment, version), ABI_VERSION);
        ring.u32(offset_of!(ring::Segment, chunk_bytes), CHUNK_BYTES as u32);
        ring.u32(offset_of!(ring::Segment, n_chunks), n_chunks as u32);
        ring.u32(offset_of!(ring::Segment, chunks_offset), 4096);
        ring
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Ring {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn u32(&mut self, at: usize, value: u32) -> &mut Ring {
        self.put(at, &value.to_le_bytes())
    }

    fn state(&mut self, chunk: usize, state: ChunkState) -> &mut Ring {
        self.u32(size_of::<ring::Segment>() + 4 * chunk, state as u32)
    }

    fn field(&mut self, chunk: usize, offset: usize, value: u32) -> &mut Ring {
        self.u32(4096 + chunk * CHUNK_BYTES + offset, value)
    }

    /// A chunk of stream `stream`, thread 100 + `stream`, with events stamped 10 * seq + 1, ...; `used` is set when it is full.
    fn chunk(
        &mut self,
        chunk: usize,
        state: ChunkState,
        stream: u32,
        seq: u64,
        n_events: usize,
    ) -> &mut Ring {
        let at = 4096 + chunk * CHUNK_BYTES;
        self.state(chunk, state);
        self.put(at + offset_of!(ChunkHeader, seq), &seq.to_le_bytes());
        self.field(chunk, offset_of!(ChunkHeader, stream), stream);
        self.field(chunk, offset_of!(ChunkHeader, tid), 100 + stream);
        if state == ChunkState::Full {
            let used = HEADER + 16 * n_events;
            self.field(chunk, offset_of!(ChunkHeader, used), used as u32);
        }
        for i in 0..n_events {
            let (stamp, word) =
                (seq.wrapping_mul(10).wrapping_add(1 + i as u64), Kind::Instant as u64 | 1 << 8);
            self.put(at + HEADER + 16 * i, &stamp.to_le_bytes());
            self.put(at + HEADER + 16 * i + 8, &word.to_le_bytes());
        }
        self
    }

    fn lost(&mut self, cause: Lost, n: u64) -> &mut Ring {
        self.put(offset_of!(ring::Segment, lost) + 8 * cause as usize, &n.to_le_bytes())
    }
}

/// A session and a recording directory, without programs.
struct Place {
    scratch: tempfile::TempDir,
    session: Held,
    dir: Held,
}

impl Place {
    fn new() -> Place {
        let scratch = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            std::fs::create_dir(scratch.path().join(name)).unwrap();
            Held::open(&scratch.path().join(name)).unwrap()
        };
        let (session, dir) = (make("session"), make("dir"));
        Place { scratch, session, dir }
    }

    fn put(&self, name: &str, ring: &Ring) {
        std::fs::write(self.at(&format!("session/{name}")), &ring.0).unwrap();
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path().join(name)
    }

    fn collector(&self) -> Collector {
        Collector::new(&self.session, &self.dir)
    }

    /// What the recording says that NOBODY lost, by cause.
    fn losses(&self) -> Vec<u64> {
        let bytes = std::fs::read(self.at("dir").join(file(NOBODY, "lost"))).unwrap();
        let words = bytes.chunks_exact(8);
        words.map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
    }

    /// NOBODY's names in the recording.
    fn sites(&self) -> Vec<u8> {
        std::fs::read(self.at("dir").join(file(NOBODY, "sites"))).unwrap()
    }

    /// (stream, seq, events) of the chunks in a client's file.
    fn kept(&self, name: &str) -> Vec<(u32, u64, usize)> {
        chunks_of(&self.at("dir").join(name))
    }
}

fn chunks_of(path: &Path) -> Vec<(u32, u64, usize)> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let (chunks, error) = parse_chunks(&bytes);
    assert_eq!(error, None);
    let facts = chunks.iter().map(|c| (c.header.stream, c.header.seq, c.events().count()));
    facts.collect()
}

fn file(pid: u32, suffix: &str) -> String {
    format!("p{pid}-0.{suffix}")
}

#[test]
fn full_chunks_are_taken_once_in_order_and_freed() {
    let place = Place::new();
    let mut ring = Ring::new(4);
    ring.chunk(0, ChunkState::Full, 1, 1, 3).chunk(1, ChunkState::Full, 1, 0, 5).chunk(
        2,
        ChunkState::Owned,
        1,
        2,
        2,
    );
    let name = file(NOBODY, "ring0");
    place.put(&name, &ring);
    let mut collector = place.collector();
    let collected = collector.tick(None).unwrap();
    assert_eq!((collected.chunks, collected.freed), (2, 2));
    assert_eq!(collected.bytes, 2 * HEADER as u64 + 8 * 16);
    let chunks = file(NOBODY, "chunks");
    assert_eq!(place.kept(&chunks), [(1, 0, 5), (1, 1, 3)]);
    let left = std::fs::read(place.at(&format!("session/{name}"))).unwrap();
    assert!(left[4096..4096 + 2 * CHUNK_BYTES].iter().all(|&b| b == 0), "they are free, and zero");
    assert!(left[4096 + 2 * CHUNK_BYTES..].iter().any(|&b| b != 0), "its owner writes this one");
    assert_eq!(collector.tick(None).unwrap().chunks, 0);
    collector.finish().unwrap();
    assert_eq!(place.kept(&chunks), [(1, 0, 5), (1, 1, 3), (1, 2, 2)]);
    assert_eq!(collector.bytes(), std::fs::metadata(place.at("dir").join(chunks)).unwrap().len());
}

#[test]
fn losses_of_threads_without_a_chunk_are_written_at_the_end() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.lost(Lost::Full, 70).lost(Lost::Big, 2);
    place.put(&file(NOBODY, "ring0"), &ring);
    // Those of a later segment are not looked at: threads count in the first.
    let mut second = Ring::new(1);
    second.u32(offset_of!(ring::Segment, index), 1).lost(Lost::Full, 1000);
    place.put(&file(NOBODY, "ring1"), &second);
    std::fs::write(place.at("session").join(file(NOBODY, "sites")), "names").unwrap();
    place.collector().finish().unwrap();
    let mut expected = vec![0; LOST_CAUSES];
    (expected[Lost::Full as usize], expected[Lost::Big as usize]) = (70, 2);
    assert_eq!(place.losses(), expected);
    assert_eq!(place.sites(), b"names");
}

/// Nobody looks at a client's ring files once they are removed: what they hold is in the recording by then, or they stay.
#[test]
fn what_a_client_leaves_is_written_before_its_ring_files_go() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.chunk(0, ChunkState::Owned, 1, 0, 3).lost(Lost::Full, 70);
    let name = file(NOBODY, "ring0");
    place.put(&name, &ring);
    let (client, mut sum) = ((NOBODY, 0), Collected::default());
    let mut collector = place.collector();
    collector.discover();
    for what in ["chunks", "lost"] {
        let taken = place.at("dir").join(file(NOBODY, what));
        std::fs::create_dir(&taken).unwrap();
        let error = collector.close_client(client, &mut sum).unwrap_err();
        assert!(error.to_string().contains(&file(NOBODY, what)), "{error}");
        assert!(place.at(&format!("session/{name}")).exists(), "{what}");
        std::fs::remove_dir(taken).unwrap();
    }
    collector.close_client(client, &mut sum).unwrap();
    assert!(!place.at(&format!("session/{name}")).exists());
    collector.finish().unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")), [(1, 0, 3)]);
    assert_eq!(place.losses()[Lost::Full as usize], 70);
    assert_eq!((sum.bytes, collector.bytes()), (HEADER as u64 + 48, HEADER as u64 + 48));
}

#[test]
fn the_end_finds_a_ring_behind_hundreds_of_files_that_are_none() {
    let place = Place::new();
    let (name, half) = (file(NOBODY, "ring0"), Ring(vec![0; 4096]));
    place.put(&name, &half);
    let mut collector = place.collector();
    collector.tick(None).unwrap();
    for pid in 1..300 {
        place.put(&file(NOBODY + pid, "ring0"), &half);
    }
    let mut ring = Ring::new(1);
    ring.chunk(0, ChunkState::Owned, 1, 0, 3);
    place.put(&name, &ring);
    collector.finish().unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")), [(1, 0, 3)]);
}

/// Of a process that lives on: the chunks that nobody will write into any more, of threads that ended and of a thread's earlier life.
#[test]
fn chunks_of_threads_that_ended_are_taken_while_their_process_lives() {
    // Looked at once a second; or at once, when there are many.
    for (dead, asked) in [(2, true), (60, false)] {
        let place = Place::new();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (path, read_fd) = (place.at("session"), read.as_raw_fd());
        let program = apart::fork(read_fd, || {
            let session = Held::open(&path).unwrap();
            let name = file(std::process::id(), "ring0");
            let map = loop {
                if let Ok(map) = Shared::open(&session, &name) {
                    break map;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            apart::is_readable(read_fd, Duration::from_secs(100));
            drop(map);
        });
        let program = program.unwrap();
        let pid = program.as_raw_nonzero().get() as u32;
        let mut ring = Ring::new(dead + 3);
        // Taken a moment ago: its owner is about to write its name into it.
        ring.state(dead + 2, ChunkState::Owned);
        for chunk in 0..dead + 2 {
            let stream = 1 + chunk as u32;
            ring.chunk(chunk, ChunkState::Owned, stream, 0, 2);
            let tid = if chunk < dead { NOBODY } else { pid };
            ring.field(chunk, offset_of!(ChunkHeader, tid), tid);
        }
        let name = file(pid, "ring0");
        place.put(&name, &ring);
        let mut other = Shared::open(&place.session, &name).unwrap();
        while other.is_only_ours(&place.session, &name).unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(other);
        let mut collector = place.collector();
        collector.discover();
        let sum = match asked {
            true => collector.reap(None).unwrap(),
            false => collector.tick(None).unwrap(),
        };
        // All but the newest of a thread that lives.
        assert_eq!(sum.chunks, dead as u64 + 1);
        let kept = place.kept(&file(pid, "chunks"));
        let newest = 2 + dead as u32;
        assert!(kept.iter().all(|&(stream, _, _)| stream != newest), "{kept:?}");
        let left = std::fs::read(place.at(&format!("session/{name}"))).unwrap();
        let state = left[size_of::<ring::Segment>() + 4 * (dead + 2)];
        assert_eq!(u32::from(state), ChunkState::Owned as u32);
        drop(write);
        assert!(apart::give_up(program));
    }
}

/// A recorder that was killed after it wrote a chunk and before it freed it, and in the middle of writing the next one.
#[test]
fn what_a_killed_recorder_wrote_is_kept_once() {
    let place = Place::new();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Full, 1, 0, 4).chunk(1, ChunkState::Full, 1, 1, 4);
    let (name, chunks) = (file(NOBODY, "ring0"), file(NOBODY, "chunks"));
    place.put(&name, &ring);
    place.collector().tick(None).unwrap();
    let path = place.at("dir").join(&chunks);
    let whole = std::fs::read(&path).unwrap();
    let first = HEADER + 4 * 16;
    for cut in [first, first + 1, first + HEADER, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        place.put(&name, &ring);
        let mut collector = Collector::resume(&place.session, &place.dir).unwrap();
        collector.finish().unwrap();
        assert_eq!(place.kept(&chunks), [(1, 0, 4), (1, 1, 4)], "cut at {cut}");
    }
    // Chunks that the first disk has no room for go to another directory, and only those.
    std::fs::write(&path, &whole[..first]).unwrap();
    std::fs::create_dir(place.at("rest")).unwrap();
    let rest = Held::open(&place.at("rest")).unwrap();
    let mut collector = Collector::resume_into(&place.session, &place.dir, Some(&rest)).unwrap();
    collector.finish().unwrap();
    assert_eq!(place.kept(&chunks), [(1, 0, 4)]);
    assert_eq!(chunks_of(&place.at("rest").join(&chunks)), [(1, 1, 4)]);
}

/// A chunk in which a signal handler had an event open was handed over after its successor, and after the recorder was killed.
#[test]
fn chunks_behind_a_gap_are_joined_by_whoever_recovers() {
    let place = Place::new();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Full, 1, 1, 4).chunk(1, ChunkState::Full, 1, 3, 4);
    let (name, chunks) = (file(NOBODY, "ring0"), file(NOBODY, "chunks"));
    place.put(&name, &ring);
    place.collector().tick(None).unwrap();
    assert_eq!(place.kept(&chunks), [(1, 1, 4), (1, 3, 4)]);
    ring.chunk(0, ChunkState::Full, 1, 0, 4).chunk(1, ChunkState::Full, 1, 2, 4);
    place.put(&name, &ring);
    let mut collector = Collector::resume(&place.session, &place.dir).unwrap();
    collector.finish().unwrap();
    let all = [(1, 1, 4), (1, 3, 4), (1, 0, 4), (1, 2, 4)];
    assert_eq!(place.kept(&chunks), all);
}

/// A recorder was killed after it had zeroed the chunk and before it said so: there is nothing in it to write.
#[test]
fn an_empty_chunk_is_freed_and_not_written() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.state(0, ChunkState::Full);
    place.put(&file(NOBODY, "ring0"), &ring);
    let mut collector = place.collector();
    let collected = collector.tick(None).unwrap();
    assert_eq!((collected.chunks, collected.freed, collector.bytes()), (0, 1, 0));
    assert!(!place.at("dir").join(file(NOBODY, "chunks")).exists());
}

#[test]
fn heads_that_claim_more_than_there_is_are_no_rings() {
    let place = Place::new();
    let sound = Ring::new(2);
    let is_ring = |change: &dyn Fn(&mut Ring)| {
        let mut ring = sound.clone();
        change(&mut ring);
        place.put("p1-0.ring0", &ring);
        let name = RingName::parse("p1-0.ring0").unwrap();
        Segment::open(&place.session, "p1-0.ring0", &name).is_ok()
    };
    let set = |offset: usize, value: u32| {
        is_ring(&|ring: &mut Ring| {
            ring.u32(offset, value);
        })
    };
    assert!(is_ring(&|_| {}));
    assert!(!set(offset_of!(ring::Segment, magic), 0));
    assert!(!set(offset_of!(ring::Segment, version), ABI_VERSION + 1));
    assert!(!set(offset_of!(ring::Segment, index), 1), "another segment's");
    for n_chunks in [3, 1 << 20, u32::MAX] {
        assert!(!set(offset_of!(ring::Segment, n_chunks), n_chunks), "{n_chunks}");
    }
    for chunk_bytes in [0, 2048, 4097, 6144, 1 << 21, 1 << 31] {
        assert!(!set(offset_of!(ring::Segment, chunk_bytes), chunk_bytes), "{chunk_bytes}");
    }
    for offset in [0, 64, 4097, 8192, 1 << 30, !4095] {
        assert!(!set(offset_of!(ring::Segment, chunks_offset), offset), "{offset}");
    }
    // There is room enough, but chunks begin on pages.
    assert!(!is_ring(&|ring| {
        ring.0.resize(8 * 4096, 0);
        ring.u32(offset_of!(ring::Segment, chunks_offset), 4096 + 64);
    }));
    assert!(!is_ring(&|ring| ring.0.truncate(4096 + CHUNK_BYTES)));
    assert!(!is_ring(&|ring| ring.0.truncate(100)));
}

#[test]
fn a_length_that_cannot_be_is_found_by_looking() {
    let place = Place::new();
    for claimed in [0, 8, HEADER as u32 + 8, CHUNK_BYTES as u32 + 16, u32::MAX] {
        let mut ring = Ring::new(1);
        ring.chunk(0, ChunkState::Full, 1, 0, 6);
        ring.field(0, offset_of!(ChunkHeader, used), claimed);
        place.put(&file(NOBODY, "ring0"), &ring);
        let name = RingName::parse(&file(NOBODY, "ring0")).unwrap();
        let segment = Segment::open(&place.session, &file(NOBODY, "ring0"), &name).unwrap();
        assert_eq!(segment.used(0), HEADER + 6 * 16, "{claimed}");
        assert_eq!(segment.last_stamp(0), 6);
    }
}

#[test]
fn records_without_a_stamp_end_no_chunk_that_goes_on_behind_them() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.chunk(0, ChunkState::Owned, 1, 0, 5);
    // The third was never committed, and says that it is two slots long; the last one has not even that.
    let third = 4096 + HEADER + 2 * 16;
    ring.put(third, &0u64.to_le_bytes()).put(third + 9, &[2]);
    ring.put(4096 + HEADER + 4 * 16, &[0; 16]);
    ring.chunk(0, ChunkState::Owned, 1, 0, 0);
    place.put(&file(NOBODY, "ring0"), &ring);
    place.collector().finish().unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")), [(1, 0, 2)]);
    let path = place.at("dir").join(file(NOBODY, "chunks"));
    assert_eq!(std::fs::metadata(path).unwrap().len(), HEADER as u64 + 2 * 16);
}

#[test]
fn chunks_of_dead_threads_are_handed_over_and_their_client_closed() {
    let place = Place::new();
    let mut ring = Ring::new(3);
    ring.chunk(0, ChunkState::Owned, 1, 4, 2)
        .chunk(1, ChunkState::Owned, 2, 0, 1)
        // Taken, but its owner died before it wrote its name into it.
        .state(2, ChunkState::Owned);
    let name = file(NOBODY, "ring0");
    place.put(&name, &ring);
    std::fs::write(place.at("session").join(file(NOBODY, "sites")), "names").unwrap();
    let mut collector = place.collector();
    collector.discover();
    let collected = collector.reap(None).unwrap();
    assert_eq!(collected.chunks, 2);
    assert_eq!(place.kept(&file(NOBODY, "chunks")), [(1, 4, 2), (2, 0, 1)]);
    assert!(!place.at("session").join(&name).exists(), "its process is gone");
    assert_eq!(place.sites(), b"names");
    // One that comes late, by a process of the same number, is another segment of the same client.
    let mut late = Ring::new(1);
    late.u32(offset_of!(ring::Segment, index), 1).chunk(0, ChunkState::Full, 9, 0, 3);
    place.put(&file(NOBODY, "ring1"), &late);
    collector.finish().unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")).last(), Some(&(9, 0, 3)));
}

/// The second client comes too soon after the processes were listed, and is gone before they are listed again.
#[test]
fn what_a_process_made_last_before_it_ended_is_read() {
    let place = Place::new();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Owned, 1, 0, 2);
    place.put(&file(NOBODY, "ring0"), &ring);
    let mut collector = place.collector();
    collector.tick(None).unwrap();
    // Between two looks it grows, and ends; its threads leave chunks that are theirs.
    let mut second = Ring::new(2);
    second.u32(offset_of!(ring::Segment, index), 1).chunk(0, ChunkState::Full, 2, 0, 4).chunk(
        1,
        ChunkState::Owned,
        2,
        1,
        3,
    );
    place.put(&file(NOBODY, "ring1"), &second);
    let sum = collector.reap(None).unwrap();
    assert_eq!(sum.chunks, 3);
    let mut kept = place.kept(&file(NOBODY, "chunks"));
    kept.sort_unstable();
    assert_eq!(kept, [(1, 0, 2), (2, 0, 4), (2, 1, 3)]);
    let left = std::fs::read_dir(place.at("session")).unwrap().count();
    assert_eq!(left, 0, "its files are removed");
    collector.finish().unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")).len(), 3);
}

#[test]
fn clients_that_end_before_their_process_is_found_are_in_doubt() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.chunk(0, ChunkState::Full, 1, 0, 1);
    let mut collector = place.collector();
    for pid in [NOBODY, NOBODY - 1] {
        place.put(&file(pid, "ring0"), &ring);
        collector.discover();
    }
    collector.reap(None).unwrap();
    collector.finish().unwrap();
    let in_doubt: Vec<i32> = collector.names().iter().map(|row| row.ns_pid).collect();
    assert_eq!(in_doubt, [NOBODY as i32, NOBODY as i32 - 1]);
}

#[test]
fn a_ring_that_its_program_cut_harms_no_other() {
    let place = Place::new();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Full, 1, 0, 3).chunk(1, ChunkState::Owned, 1, 1, 3);
    let (bad, good) = (NOBODY, NOBODY + 1);
    place.put(&file(bad, "ring0"), &ring);
    place.put(&file(good, "ring0"), &ring);
    let mut collector = place.collector();
    collector.tick(None).unwrap();
    let cut =
        std::fs::File::options().write(true).open(place.at("session").join(file(bad, "ring0")));
    cut.unwrap().set_len(4096).unwrap();
    collector.finish().unwrap();
    assert_eq!(place.kept(&file(good, "chunks")), [(1, 0, 3), (1, 1, 3)]);
    assert_eq!(place.kept(&file(bad, "chunks"))[0], (1, 0, 3));
    let said = collector.refused();
    assert!(
        said.len() == 1 && said[0].contains("1 ring files that their program cut short"),
        "{said:?}"
    );
    assert!(said[0].contains(&file(bad, "ring0")), "{said:?}");
}

#[test]
fn what_finds_no_room_is_counted_at_the_end() {
    let place = Place::new();
    let mut ring = Ring::new(3);
    ring.chunk(0, ChunkState::Full, 1, 0, 3)
        .chunk(1, ChunkState::Owned, 1, 1, 4)
        .lost(Lost::Full, 100)
        .field(0, offset_of!(ChunkHeader, lost) + 4 * Lost::Big as usize, 5);
    for pid in [NOBODY, NOBODY + 1, NOBODY + 2] {
        place.put(&file(pid, "ring0"), &ring);
    }
    let mut collector = place.collector();
    collector.leave_room_for(1, 10);
    collector.tick(None).unwrap();
    let said = collector.refused();
    assert!(said[0].contains("2 ring files beyond what a session may have"), "{said:?}");
    collector.finish().unwrap();
    let kept: Vec<_> =
        (0..3).filter(|i| place.at("dir").join(file(NOBODY + i, "chunks")).exists()).collect();
    assert_eq!(kept.len(), 1);
    let lost = collector.unplaced([1; LOST_CAUSES]);
    assert_eq!(lost[Lost::Full as usize], 1 + 2 * (100 + 3 + 4));
    assert_eq!(lost[Lost::Big as usize], 1 + 2 * 5);
    assert!(collector.refused().is_empty(), "all of it is known: {:?}", collector.refused());
}

#[test]
fn more_segments_than_may_be_open_are_refused_whoever_has_them() {
    let place = Place::new();
    for index in 0..3 {
        let mut ring = Ring::new(1);
        ring.u32(offset_of!(ring::Segment, index), index).chunk(
            0,
            ChunkState::Full,
            1,
            u64::from(index),
            1,
        );
        place.put(&file(NOBODY, &format!("ring{index}")), &ring);
    }
    let mut collector = place.collector();
    collector.leave_room_for(5, 2);
    collector.tick(None).unwrap();
    assert_eq!(place.kept(&file(NOBODY, "chunks")).len(), 2);
    assert!(collector.refused()[0].contains("1 ring files beyond"), "{:?}", collector.refused());
}

#[test]
fn a_snapshot_frees_nothing_and_leaves_out_what_is_being_emptied() {
    let place = Place::new();
    let mut ring = Ring::new(3);
    ring.chunk(0, ChunkState::Full, 1, 0, 3).chunk(1, ChunkState::Owned, 1, 2, 2).chunk(
        2,
        ChunkState::Full,
        1,
        SEQ_EMPTYING,
        4,
    );
    ring.field(2, offset_of!(ChunkHeader, lost) + 4 * Lost::Overwritten as usize, 40);
    place.put(&file(NOBODY, "ring0"), &ring);
    std::fs::write(place.at("session").join(file(NOBODY, "sites")), "names").unwrap();
    let mut collector = place.collector();
    for _ in 0..2 {
        let copied = collector.snapshot(&place.dir).unwrap();
        assert_eq!(copied, 2 * HEADER as u64 + 5 * 16);
        assert_eq!(place.kept(&file(NOBODY, "chunks")), [(1, 0, 3), (1, 2, 2)]);
        assert_eq!(
            place.losses()[Lost::Overwritten as usize],
            40 + 4,
            "of the chunk that is being emptied: its earlier lives, and this one"
        );
        assert_eq!(place.sites(), b"names");
    }
    let left = std::fs::read(place.at("session").join(file(NOBODY, "ring0"))).unwrap();
    assert_eq!(left, ring.0);
}

#[test]
fn a_flight_recorder_forgets_old_chunks_of_the_dead() {
    let place = Place::new();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Full, 1, 0, 3).chunk(1, ChunkState::Owned, 1, 1, 3);
    place.put(&file(NOBODY, "ring0"), &ring);
    let mut collector = place.collector();
    collector.discover();
    // Stamps are 1..=3 and 11..=13.
    assert_eq!(collector.free_old(3), 0);
    assert_eq!(collector.free_old(4), 1);
    assert_eq!(collector.free_old(13), 0);
    assert_eq!(collector.free_old(14), 1, "its owner is dead: nobody will write on");
    assert_eq!(collector.free_old(u64::MAX), 0);
}

#[test]
fn what_cannot_be_written_stays_in_the_rings() {
    let place = Place::new();
    let mut ring = Ring::new(1);
    ring.chunk(0, ChunkState::Full, 1, 0, 3);
    place.put(&file(NOBODY, "ring0"), &ring);
    place.put(&file(NOBODY + 1, "ring0"), &ring);
    // Something else has the name of the first one's file.
    std::fs::create_dir(place.at("dir").join(file(NOBODY, "chunks"))).unwrap();
    let mut collector = place.collector();
    let error = collector.tick(None).unwrap_err().to_string();
    assert!(error.contains(&file(NOBODY, "chunks")), "{error}");
    let error = collector.finish().unwrap_err().to_string();
    assert!(error.contains("a directory"), "{error}");
    assert_eq!(collector.waiting(), HEADER as u64 + 3 * 16);
    assert_eq!(place.kept(&file(NOBODY + 1, "chunks")), [(1, 0, 3)], "the others are taken");
    std::fs::remove_dir(place.at("dir").join(file(NOBODY, "chunks"))).unwrap();
    collector.finish().unwrap();
    assert_eq!((collector.waiting(), place.kept(&file(NOBODY, "chunks")).len()), (0, 1));
}

#[test]
fn losses_of_nobody_are_written_when_there_are_any() {
    let place = Place::new();
    let mut lost = [0; LOST_CAUSES];
    crate::rings::collector::write_unplaced(&place.dir, lost).unwrap();
    assert!(!place.at("dir/p0-0.lost").exists());
    lost[Lost::Site as usize] = 3;
    crate::rings::collector::write_unplaced(&place.dir, lost).unwrap();
    let bytes = std::fs::read(place.at("dir/p0-0.lost")).unwrap();
    assert_eq!(bytes[8 * Lost::Site as usize], 3);
}

/// A `.sites` file: sites 1, 2... of these names.
fn sites(names: &[&str]) -> Vec<u8> {
    let mut head = [0u8; size_of::<ring::SitesHeader>()];
    head[..8].copy_from_slice(&ring::MAGIC_SITES.to_le_bytes());
    head[8..12].copy_from_slice(&ABI_VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(size_of::<ring::SitesHeader>() as u32).to_le_bytes());
    head[16..20].copy_from_slice(&NOBODY.to_le_bytes());
    let mut bytes = head.to_vec();
    for (ix, name) in names.iter().enumerate() {
        let text = format!("{name}\0\0\0");
        let length = (size_of::<ring::SiteDef>() + text.len()).next_multiple_of(8);
        let mut def = vec![0u8; length];
        def[..4].copy_from_slice(&(length as u32).to_le_bytes());
        def[4..8].copy_from_slice(&(ix as u32 + 1).to_le_bytes());
        def[12..14].copy_from_slice(&(name.len() as u16).to_le_bytes());
        def[size_of::<ring::SiteDef>()..][..text.len()].copy_from_slice(text.as_bytes());
        bytes.extend(def);
    }
    bytes
}

/// Puts events (stamp, word 1) into a chunk, behind `from` others.
fn events(ring: &mut Ring, chunk: usize, from: usize, events: &[(u64, u64)]) {
    for (ix, (stamp, word)) in events.iter().enumerate() {
        let at = 4096 + chunk * CHUNK_BYTES + HEADER + 16 * (from + ix);
        ring.put(at, &stamp.to_le_bytes());
        ring.put(at + 8, &word.to_le_bytes());
    }
}

/// A ring file that is mapped changes where it lies.
fn change(place: &Place, name: &str, ring: &Ring) {
    use std::os::unix::fs::FileExt;
    let path = place.at(&format!("session/{name}"));
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&ring.0, 0).unwrap();
}

fn watch() -> SliceWatch {
    SliceWatch::new(&[OnSlice {
        name: "slow".to_owned(),
        least: std::time::Duration::from_secs(1),
    }])
}

const BEGIN: u64 = Kind::Begin as u64 | 1 << 8;
const END: u64 = Kind::End as u64 | 1 << 8;

#[test]
fn a_slice_that_takes_too_long_is_told_once_while_it_is_written() {
    let place = Place::new();
    let ring_name = file(NOBODY, "ring0");
    std::fs::write(place.at("session").join(file(NOBODY, "sites")), sites(&["quick", "slow"]))
        .unwrap();
    let mut ring = Ring::new(2);
    ring.chunk(0, ChunkState::Owned, 1, 0, 0);
    let first = [(100, BEGIN | 1 << 32), (110, BEGIN | 2 << 32)];
    events(&mut ring, 0, 0, &first);
    place.put(&ring_name, &ring);
    let (mut collector, mut watch) = (place.collector(), watch());
    collector.discover();
    let long = |ticks, goes_on| LongSlice { which: 0, pid: NOBODY, tid: 101, ticks, goes_on };
    assert_eq!(collector.watch(&mut watch, &[500], 400), []);
    assert_eq!(collector.watch(&mut watch, &[500], 700), [long(590, true)]);
    assert_eq!(collector.watch(&mut watch, &[500], 800), [], "once");
    // It ends, and another is over before it is looked at; the end of that is in the next chunk.
    events(&mut ring, 0, 2, &[(810, END), (820, BEGIN | 2 << 32)]);
    ring.state(0, ChunkState::Full);
    let used = (HEADER + 16 * 4) as u32;
    ring.field(0, offset_of!(ChunkHeader, used), used);
    ring.chunk(1, ChunkState::Owned, 1, 1, 0);
    events(&mut ring, 1, 0, &[(1400, END)]);
    change(&place, &ring_name, &ring);
    assert_eq!(collector.watch(&mut watch, &[500], 1500), [long(580, false)]);
    // A chunk that was not seen may have ended what was open.
    events(&mut ring, 1, 1, &[(1500, BEGIN | 2 << 32)]);
    change(&place, &ring_name, &ring);
    assert_eq!(collector.watch(&mut watch, &[500], 1600), []);
    events(&mut ring, 0, 0, &[(0, 0); 4]);
    ring.chunk(0, ChunkState::Owned, 1, 7, 1);
    change(&place, &ring_name, &ring);
    assert_eq!(collector.watch(&mut watch, &[500], 9000), []);
}

/// Depths, lengths, kinds and numbers that cannot be: nothing is believed for long, and each look ends.
#[test]
fn slices_of_a_program_that_writes_nonsense_harm_nobody() {
    let place = Place::new();
    let ring_name = file(NOBODY, "ring0");
    std::fs::write(place.at("session").join(file(NOBODY, "sites")), sites(&["slow"])).unwrap();
    let mut ring = Ring::new(3);
    let deep: Vec<(u64, u64)> = (0..200).map(|n| (n + 1, BEGIN | 1 << 32)).collect();
    ring.chunk(0, ChunkState::Owned, 1, 1 << 40, 0);
    events(&mut ring, 0, 0, &deep);
    ring.chunk(1, ChunkState::Owned, 2, 5, 0);
    let odd = [(9, END), (8, 0), (7, 255), (u64::MAX, BEGIN | 1 << 32), (1, END), (6, u64::MAX)];
    events(&mut ring, 1, 0, &odd);
    ring.chunk(2, ChunkState::Full, 0, 0, 3);
    place.put(&ring_name, &ring);
    let (mut collector, mut watch) = (place.collector(), watch());
    collector.discover();
    let long = collector.watch(&mut watch, &[500], 10_000);
    assert_eq!(long.len(), 64, "no more than are remembered of a thread");
    assert!(long.iter().all(|long| long.tid == 101 && long.goes_on));
    let ends: Vec<(u64, u64)> = (0..100).map(|n| (10_000 + n, END)).collect();
    events(&mut ring, 0, 200, &ends[..40]);
    change(&place, &ring_name, &ring);
    assert_eq!(collector.watch(&mut watch, &[500], 20_000), []);
    // Its file is cut while it is mapped.
    let path = place.at("session").join(&ring_name);
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
    assert_eq!(collector.watch(&mut watch, &[500], 30_000), []);
}
