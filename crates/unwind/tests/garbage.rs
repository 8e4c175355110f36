//! Anything may be on a stack, in registers, and in a file that a program has mapped: nothing panics, and all of it ends soon.
#[path = "../../../fuzz/src/unwind.rs"]
mod driver;

use kasuri_unwind::{
    Backing, Cpu, DEPTH_MAX, File, Files, Mapping, NoInterpreter, Registers, Stack, Unwinder,
    parse_maps,
};
use proptest::prelude::*;
use std::sync::OnceLock;

const START: u64 = 0x7f00_0000_0000;
const SP: u64 = 0x7fff_0000_0000;

/// One file for all mappings.
struct One(Vec<u8>);

impl Files for One {
    fn open(&mut self, _: i32, _: &Mapping) -> Option<File> {
        Some(File { key: [1; 6], bytes: Box::new(self.0.clone()) })
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

/// A real file with unwind information: the C library's, since it is small and has everything.
fn libc() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = parse_maps(&maps).into_iter().find_map(|m| match m.backing {
            Backing::File { path, .. } if path.contains("libc.so") || path.contains("libc-") => {
                Some(path)
            }
            _ => None,
        });
        std::fs::read(library.expect("this test uses libc")).unwrap()
    })
}

/// Program headers and unwind information: where a change matters.
fn interesting(bytes: &[u8]) -> Vec<(usize, usize)> {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let mut parts = vec![(0, 64), (64, 56 * 14)];
    for ix in 0..14 {
        let at = 64 + ix * 56;
        if bytes[at..at + 4] == [0x50, 0xe5, 0x74, 0x64] {
            let (start, len) = (u64_at(at + 8), u64_at(at + 32));
            parts.extend([(start, 64), (start, len), (start + len, 60_000)]);
        }
    }
    parts
}

fn registers(ip: u64, values: &[u64]) -> Registers {
    let mut registers = Registers::new(ip);
    values.iter().enumerate().for_each(|(ix, &v)| registers.set(ix, v));
    registers
}

/// Addresses near the code, near the stack, and anywhere.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (0u64..0x20_0000).prop_map(|o| START + o),
        3 => (0u64..0x1000).prop_map(|o| SP + o * 8),
        1 => any::<u64>(),
        1 => Just(0),
        1 => Just(u64::MAX - 3),
    ]
}

fn follow(unwinder: &mut Unwinder, files: &mut One, regs: &Registers, words: &[u64], is_cut: bool) {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let base = regs.get(7).unwrap_or(SP);
    let stack = Stack { base, bytes: &bytes, is_cut };
    let before = unwinder.counts.frames;
    unwinder.unwind(1, Some((regs, stack)), &[], files, &mut NoInterpreter);
    assert!(unwinder.counts.frames - before <= DEPTH_MAX as u64);
}

fn mapped(cpu: Cpu, backing: Backing) -> Unwinder {
    let mut unwinder = Unwinder::new(cpu);
    unwinder
        .set_maps(1, vec![Mapping { start: START, end: START + 0x20_0000, offset: 0, backing }]);
    unwinder
}

fn file() -> Backing {
    Backing::File { path: "/lib/libc.so.6".into(), inode: (1, 0), device: (1, 0) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn garbage_on_the_stack_of_a_real_library(
        stacks in prop::collection::vec((word(), prop::collection::vec(word(), 33), prop::collection::vec(word(), 0..200), any::<bool>()), 20)
    ) {
        let mut files = One(libc().to_vec());
        for backing in [file(), Backing::Anonymous, Backing::Vdso] {
            let mut unwinder = mapped(Cpu::X86_64, backing);
            for (ip, values, words, is_cut) in &stacks {
                let mut regs = registers(*ip, values);
                follow(&mut unwinder, &mut files, &regs, words, *is_cut);
                regs.set(7, SP);
                follow(&mut unwinder, &mut files, &regs, words, *is_cut);
            }
        }
    }

    #[test]
    fn garbage_in_the_file(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>(), any::<u8>()), 1..60),
        cut in prop::option::of(0usize..3_000_000),
        stacks in prop::collection::vec((word(), prop::collection::vec(word(), 33), prop::collection::vec(word(), 0..50)), 20)
    ) {
        let mut bytes = libc().to_vec();
        for (part, at, byte) in changes {
            let (start, len) = *part.get(&interesting(libc()));
            if let Some(place) = bytes.get_mut(start + at as usize % len.max(1)) {
                *place = byte;
            }
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        let mut files = One(bytes);
        let mut unwinder = mapped(Cpu::X86_64, file());
        for (ip, values, words) in &stacks {
            let mut regs = registers(*ip, values);
            regs.set(7, SP);
            follow(&mut unwinder, &mut files, &regs, words, false);
        }
    }

    #[test]
    fn the_fuzzers_inputs_have_callers_and_their_damaged_copies_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)
    ) {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/unwind");
        for entry in std::fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let frames = driver::unwind(&bytes);
            // Undamaged: a frame for each of the 16 stacks, and callers.
            let is_whole = path.ends_with("x86_64") || path.ends_with("aarch64");
            prop_assert!(frames > 24 || !is_whole, "{}", path.display());
            for (at, byte) in &changes {
                *at.get_mut(&mut bytes) = *byte;
            }
            driver::unwind(&bytes);
        }
    }

    #[test]
    fn garbage_for_a_file(bytes in prop::collection::vec(any::<u8>(), 0..4096), arm in any::<bool>()) {
        let cpu = if arm { Cpu::Aarch64 } else { Cpu::X86_64 };
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        elf.extend(if arm { [183, 0] } else { [62, 0] });
        elf.extend(bytes);
        let mut unwinder = mapped(cpu, file());
        follow(&mut unwinder, &mut One(elf), &registers(START + 64, &[SP; 33]), &[START; 64], true);
    }
}
