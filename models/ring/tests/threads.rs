//! Every schedule of writer and recorder, and of each broken protocol.
#![cfg(loom)]

use kasuri_model_ring::threads::*;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

fn handover(o: Orders) {
    loom::model(move || {
        let chunks = Arc::new([Chunk::new(FREE), Chunk::new(FREE)]);
        let shared = chunks.clone();
        let writer = thread::spawn(move || write(&*shared, 5, o));
        let mut kept = drain_once(&*chunks, o) + drain_once(&*chunks, o);
        let lost = writer.join().unwrap();
        // The end of a recording: what is FULL, then what is still OWNED.
        kept += drain_once(&*chunks, o);
        kept += chunks
            .iter()
            .filter(|c| c.state.load(Relaxed) == OWNED)
            .map(Chunk::committed)
            .sum::<usize>();
        assert_eq!(kept + lost, 5, "emitted == kept + lost");
    });
}

fn commit(o: Orders) {
    loom::model(move || {
        let chunk = Arc::new(Chunk::new(OWNED));
        let shared = chunk.clone();
        let writer = thread::spawn(move || {
            shared.emit(0, 7, o);
            shared.emit(1, 8, o);
        });
        // A live reader of an open chunk: prefix only, never a torn event.
        let second = chunk.read(1);
        let first = chunk.read(0);
        assert!(second == 0 || first == 7, "a hole before a committed event");
        writer.join().unwrap();
        assert_eq!(chunk.committed(), 2);
    });
}

fn take(o: Orders) {
    loom::model(move || {
        let chunk = Arc::new(Chunk::new(FREE));
        let shared = chunk.clone();
        let other = thread::spawn(move || shared.take(o));
        let mine = chunk.take(o);
        assert!(mine != other.join().unwrap(), "one chunk, one owner");
    });
}

fn snapshot(o: Orders) {
    loom::model(move || {
        let chunk = Arc::new(FlightChunk::new());
        let shared = chunk.clone();
        let writer = thread::spawn(move || shared.reuse(o));
        if let Some((seq, words)) = chunk.copy() {
            for w in words {
                assert!(w == seq || (seq == 2 && w == 0), "half a chunk: seq {seq}, {words:?}");
            }
        }
        writer.join().unwrap();
    });
}

fn reattach(o: Orders) {
    loom::model(move || {
        let session = Arc::new(Session::new());
        let shared = session.clone();
        let other = thread::spawn(move || shared.leave(o));
        session.start_chunk(o);
        other.join().unwrap();
        assert_eq!(session.limit.load(Relaxed), 0, "a chunk of the session before stays open");
    });
}

#[test]
fn handover_keeps_the_books() {
    handover(Orders::RIGHT);
}
#[test]
fn commit_publishes_its_payload() {
    commit(Orders::RIGHT);
}
#[test]
fn a_chunk_has_one_owner() {
    take(Orders::RIGHT);
}
#[test]
fn snapshot_never_mixes_two_uses() {
    snapshot(Orders::RIGHT);
}
#[test]
fn no_chunk_of_the_session_before_stays_open() {
    reattach(Orders::RIGHT);
}

// Negative controls.
#[test]
#[should_panic]
fn control_no_release_at_full() {
    handover(Orders { full: Relaxed, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_release_at_free() {
    handover(Orders { free: Relaxed, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_zero_after_free() {
    handover(Orders { zero_first: false, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_release_at_stamp() {
    commit(Orders { stamp: Relaxed, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_take_without_cas() {
    take(Orders { take_by_cas: false, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_mark_before_emptying() {
    snapshot(Orders { mark: Mark::Nothing, ..Orders::RIGHT });
}
/// The first design: found wrong by this model.
#[test]
#[should_panic]
fn control_new_seq_as_mark() {
    snapshot(Orders { mark: Mark::NewSeq, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_release_at_new_seq() {
    snapshot(Orders { new_seq: Relaxed, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_fences_at_reattach() {
    reattach(Orders { fences: false, ..Orders::RIGHT });
}
