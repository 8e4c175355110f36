//! The whole life of a client, beside a recorder that may look at any moment of it: every order of their steps keeps every event.
//!
//! | the client | the recorder meanwhile |
//! |---|---|
//! | appears: makes ring 0, hands a chunk over, owns the next | `tick` finds it, takes FULL chunks |
//! | gives ring 0 back: nobody maps it, its OWNED chunk stays OWNED | takes the client for gone, as long as it knows no other ring |
//! | grows: makes ring 1, another thread owns a chunk of it | finds it at its next `tick`, not before: also after it closed the client |
//! | hands a chunk over, owns the next | as before |
//! | ends: its mappings are gone, OWNED chunks stay OWNED | `who_is_gone`: true from now on |
//! | - | `hand_over`, `tick`, then `close_client`: takes all chunks of the rings it knows, removes these, and no others |
//!
//! A fork is another client. An exec ends one, and the next of the same pid has the first generation whose `.sites` does not exist; `close_client`
//! leaves that file, so a reused pid is another client, too.
use super::{NOBODY, Place, Ring, chunks_of, file};
use crate::rings::collector::{Collected, Collector};
use crate::rings::ringfile::ClientId;
use crate::rings::shm::Shared;
use kasuri_format::ring::{self, ChunkHeader, ChunkState, Kind};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering;

/// A client as kasuri.h is one: changes words of its ring files through mappings of its own.
#[derive(Default)]
struct Client {
    step: usize,
    maps: [Option<Shared>; 2],
}

const STEPS: usize = 5;
/// (stream, number, events) of all that it writes.
const WRITTEN: [(u32, u64, usize); 4] = [(1, 0, 2), (1, 1, 3), (2, 0, 4), (2, 1, 5)];

impl Client {
    fn step(&mut self, place: &Place) {
        match self.step {
            0 => {
                self.make(place, 0, &WRITTEN[..2]);
                self.next_chunk(0, WRITTEN[0].2);
            }
            1 => self.maps[0] = None,
            2 => self.make(place, 1, &WRITTEN[2..]),
            3 => self.next_chunk(1, WRITTEN[2].2),
            _ => self.maps[1] = None,
        }
        self.step += 1;
    }

    /// A ring whose first chunk a thread begins to write into. What the second will hold lies there already, in a chunk that is free.
    fn make(&mut self, place: &Place, index: usize, chunks: &[(u32, u64, usize)]) {
        let mut ring = Ring::new(chunks.len());
        ring.u32(offset_of!(ring::Segment, index), index as u32);
        for (chunk, &(stream, seq, events)) in chunks.iter().enumerate() {
            let (state, begun) = [(ChunkState::Owned, 1), (ChunkState::Free, events)][chunk];
            ring.chunk(chunk, state, stream, seq, begun);
        }
        let name = file(NOBODY, &format!("ring{index}"));
        place.put(&name, &ring);
        self.maps[index] = Some(Shared::open(&place.session, &name).unwrap());
    }

    /// The first chunk of the ring gets the rest of its events and is full, the second has an owner.
    fn next_chunk(&mut self, ring: usize, events: usize) {
        let map = self.maps[ring].as_ref().expect("it maps this ring");
        for event in 1..events {
            let at = 4096 + super::HEADER + 16 * event;
            let word = Kind::Instant as u64 | 1 << 8;
            map.u64_at(at).store(1 + event as u64, Ordering::Relaxed);
            map.u64_at(at + 8).store(word, Ordering::Release);
        }
        let used = super::HEADER + 16 * events;
        map.u32_at(4096 + offset_of!(ChunkHeader, used)).store(used as u32, Ordering::Relaxed);
        let state = size_of::<ring::Segment>();
        map.u32_at(state + 4).store(ChunkState::Owned as u32, Ordering::Release);
        map.u32_at(state).store(ChunkState::Full as u32, Ordering::Release);
    }
}

/// The recorder's steps: two rounds of `tick` and `reap`, and the end. `close` is the step in question.
struct Recorder<'a> {
    collector: Collector,
    gone: Vec<ClientId>,
    close: &'a dyn Fn(&mut Collector, ClientId),
}

const ROUND: usize = 5;
const LOOKS: usize = 2 * ROUND;

impl Recorder<'_> {
    fn step(&mut self, step: usize) {
        match step % ROUND {
            0 | 3 => drop(self.collector.tick(None).unwrap()),
            1 => self.gone = self.collector.who_is_gone(),
            2 => self.collector.hand_over(),
            _ => {
                for id in std::mem::take(&mut self.gone) {
                    (self.close)(&mut self.collector, id);
                }
            }
        }
    }
}

/// Runs one order: bit i of `order` says whose step the i-th is (1: the client's). What was kept, in order.
fn run(order: u32, close: &dyn Fn(&mut Collector, ClientId)) -> Vec<(u32, u64, usize)> {
    let place = Place::new();
    let mut client = Client::default();
    let mut recorder = Recorder { collector: place.collector(), gone: Vec::new(), close };
    let mut looks = 0;
    for i in 0..STEPS + LOOKS {
        if order >> i & 1 == 1 {
            client.step(&place);
        } else {
            recorder.step(looks);
            looks += 1;
        }
    }
    recorder.collector.finish().unwrap();
    let mut kept = chunks_of(&place.at("dir").join(file(NOBODY, "chunks")));
    kept.sort_unstable();
    kept
}

/// All orders of the steps of both.
fn orders() -> impl Iterator<Item = u32> {
    (0..1u32 << (STEPS + LOOKS)).filter(|order| order.count_ones() == STEPS as u32)
}

#[test]
fn every_order_of_a_client_and_its_recorder_keeps_every_event() {
    let mut n = 0;
    for order in orders() {
        let close = |collector: &mut Collector, id| {
            collector.close_client(id, &mut Collected::default()).unwrap();
        };
        assert_eq!(run(order, &close), WRITTEN, "order {order:015b}, last step first");
        n += 1;
    }
    assert_eq!(n, 3003);
}

/// Negative control: files that are removed as they are lose events, in some orders and not in others.
#[test]
fn removing_what_a_client_made_last_unread_is_noticed() {
    let close = |collector: &mut Collector, id| collector.close_unread(id);
    assert!(orders().any(|order| run(order, &close) != WRITTEN));
    assert!(orders().any(|order| run(order, &close) == WRITTEN));
}
