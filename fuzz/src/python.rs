//! Any memory, read as that of a process that runs CPython. Shared by the fuzz target and `crates/record/src/stacks/python/tests.rs`, which
//! both have the reader's modules beside this one.
//!
//! An input is the version's minor number less 8, then records of 12 bytes: an address, of which the lowest 3 bits do not count, and the word there.
use super::{Layout, Page, Reader, Source, Types};
use std::collections::BTreeMap;

pub(super) const TYPES: Types =
    Types { code: 0x10_0000, frame: 0x10_1000, string: 0x10_2000, bytes: 0x10_3000 };
pub(super) const RUNTIME: u64 = 0x20_0000;
pub(super) const TID: i32 = 7;
/// Most frames of a thread that are looked at here.
const LOOKED_AT: usize = 64;
const RECORD: usize = 12;

/// Memory in words; other places do not exist.
#[derive(Debug, Default)]
pub(super) struct Words(pub(super) BTreeMap<u64, u64>);

impl Source for Words {
    fn page(&mut self, address: u64) -> Option<Box<Page>> {
        let mut page = Box::new([0; 4096]);
        let mut is_there = false;
        for (at, word) in self.0.range(address..address.checked_add(4096)?) {
            let offset = (at - address) as usize;
            page[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
            is_there = true;
        }
        is_there.then_some(page)
    }
}

/// What was found in a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) frames: usize,
    pub(super) functions: usize,
}

/// Reads the memory as the sampler would, and again after it may have changed.
pub(super) fn read(bytes: &[u8]) -> Found {
    let Some((&version, records)) = bytes.split_first() else {
        return Found::default();
    };
    let layout = Layout::of(8 + version % 6).expect("a version that is known");
    let mut words = Words::default();
    for record in records.chunks_exact(RECORD) {
        let (place, word) = record.split_at(4);
        let place = u32::from_le_bytes(place.try_into().expect("4 bytes"));
        let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        words.0.insert(u64::from(place) & !7, word);
    }
    let places: Vec<(u64, u64)> = words.0.iter().map(|(&at, &word)| (at, word)).collect();
    let mut reader = Reader::new(words);
    reader.is(layout, TYPES);
    let first = look(&mut reader, &places);
    reader.forget();
    let again = look(&mut reader, &places);
    assert_eq!(first.frames, again.frames, "the memory is the same");
    again
}

fn look(reader: &mut Reader<Words>, places: &[(u64, u64)]) -> Found {
    let chain = reader.chain(RUNTIME, TID);
    assert!(chain.len() <= 4096);
    let mut found = Found { frames: chain.len(), functions: 0 };
    for frame in chain.iter().take(LOOKED_AT) {
        if let Some(code) = reader.code(frame.code) {
            found.functions += 1;
            assert!(code.function.chars().count() <= 1024 && code.file.chars().count() <= 1024);
            let _ = (code.line_at(frame.instruction), code.line_before(frame.instruction));
            let _ = (code.line_at(u64::MAX), code.line(u64::MAX));
        }
        if let Some(remains) = reader.remains(frame.address) {
            let _ = reader.calls(remains.code, frame.code);
        }
        let _ = reader.discover(frame.instruction);
    }
    // Anything may lie in a register or on the stack: the words of the memory do.
    for &(at, word) in places.iter().take(LOOKED_AT) {
        let _ = reader.discover(word);
        let _ = reader.known_at(word, &[(0, at), (8, word)]);
        let _ = reader.remains(word);
        if reader.is_frame_object(at)
            && let Some(code) = reader.code_of_frame(at)
        {
            found.functions += 1;
            let _ = reader.shares(&code);
            let _ = reader.at_frame_object(at, code);
        }
    }
    found
}
