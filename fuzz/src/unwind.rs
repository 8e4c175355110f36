//! Any bytes as registers, as a stack, and as the file of code that unwinds it. Shared by the fuzz target and `crates/unwind/tests/garbage.rs`.
use kasuri_unwind::{
    Backing, Cpu, DEPTH_MAX, File, Files, Mapping, NoInterpreter, Registers, Stack, Unwinder,
};

/// Where the file is mapped: where linkers put programs that cannot move.
const START: u64 = 0x40_0000;
const SP: u64 = 0x7fff_0000_0000;
/// Bytes of the input before the file: which CPU, then words of two bytes.
const HEAD: usize = 1 + 2 * (STACKS + WORDS);
/// Stacks followed for an input.
const STACKS: usize = 16;
/// Words of a stack.
const WORDS: usize = 48;

/// The same bytes for every mapping.
struct Same(Vec<u8>);

impl Files for Same {
    fn open(&mut self, _: i32, _: &Mapping) -> Option<File> {
        Some(File { key: [1; 6], bytes: Box::new(self.0.clone()) })
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

/// An address in the code, on the stack, or anywhere.
fn word(half: u16) -> u64 {
    let low = u64::from(half & 0x3fff);
    match half >> 14 {
        0 | 1 => START + u64::from(half & 0x7fff),
        2 => SP + (low % WORDS as u64) * 8,
        _ => low.wrapping_sub(0x2000),
    }
}

/// Follows stacks by the rules of the bytes. Returns how many frames were found.
pub fn unwind(bytes: &[u8]) -> u64 {
    let Some((head, file)) = bytes.split_at_checked(HEAD) else {
        return 0;
    };
    let cpu = if head[0] & 1 == 0 { Cpu::X86_64 } else { Cpu::Aarch64 };
    let is_cut = head[0] & 2 != 0;
    let words: Vec<u64> =
        head[1..].chunks_exact(2).map(|h| word(u16::from_le_bytes([h[0], h[1]]))).collect();
    let (places, words) = words.split_at(STACKS);
    let stack: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut unwinder = Unwinder::new(cpu);
    let mapping = |backing| Mapping { start: START, end: START + 0x10_0000, offset: 0, backing };
    let file_backed = Backing::File { path: "/p".into(), inode: (1, 0), device: (1, 0) };
    for (pid, backing) in [file_backed, Backing::Vdso, Backing::Anonymous].into_iter().enumerate() {
        unwinder.set_maps(pid as i32, vec![mapping(backing)]);
    }
    let mut files = Same(file.to_vec());
    for (nth, &ip) in places.iter().enumerate() {
        let mut registers = Registers::new(ip);
        words.iter().enumerate().for_each(|(ix, &w)| registers.set(ix, w));
        registers.set(cpu.sp(), SP);
        let stack = Stack { base: SP, bytes: &stack, is_cut };
        let before = unwinder.counts.frames;
        unwinder.unwind(
            (nth % 3) as i32,
            Some((&registers, stack)),
            &[],
            &mut files,
            &mut NoInterpreter,
        );
        assert!(unwinder.counts.frames - before <= DEPTH_MAX as u64);
    }
    unwinder.counts.frames
}
