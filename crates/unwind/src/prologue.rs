//! The frame pointer of a function that set one up, from its stack pointer.
//!
//! Of a thread that waits only the instruction and stack pointers are known
//! (/proc/PID/task/TID/syscall), and where code has frame pointers its caller is told relative to
//! that one. Its first instructions say how far it lies above the stack pointer: each register that
//! is saved takes 8 bytes, and then one instruction makes room for the rest. That is so at every
//! call, unless the function moves the stack pointer later on; then nothing is known. What is found
//! is believed only if the return address there follows a call.
use crate::cpu::Cpu;

/// Longest function that is looked at.
pub(crate) const FUNCTION_BYTES_MAX: u64 = 64 << 10;
/// Bytes after the frame pointer is set in which the room is made: compilers begin to do other
/// things between the instructions that make a frame.
const ROOM_WITHIN: usize = 48;
/// Longest call instruction.
pub(crate) const CALL_BYTES: u64 = 7;

/// How far the frame pointer lies above the stack pointer at the calls of the function with this
/// code. `saved`: bytes below the frame pointer in which it keeps registers, as its unwind
/// information says.
pub(crate) fn frame_bytes(cpu: Cpu, code: &[u8], saved: u64) -> Option<u64> {
    const SET_UP: [&[u8]; 2] = [&[0x55, 0x48, 0x89, 0xe5], &[0x55, 0x48, 0x8b, 0xec]];
    if cpu != Cpu::X86_64 {
        return None;
    }
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let mut rest = SET_UP.iter().find_map(|set_up| code.strip_prefix(*set_up))?;
    let after = rest;
    let mut pushed = 0;
    // `push` of one of the first or the last eight registers.
    while let [0x50..=0x57, next @ ..] | [0x41, 0x50..=0x57, next @ ..] = rest {
        (pushed, rest) = (pushed + 8, next);
    }
    let near = &after[..after.len().min(ROOM_WITHIN)];
    let at_once = room(rest).map(|room| (room, after.len() - rest.len()));
    let later = || (0..near.len()).find_map(|at| Some((room(&near[at..])?, at)));
    let (room, at) = match at_once {
        Some(found) => (found.0, found.1),
        None if pushed >= saved => (0, after.len() - rest.len()),
        None => later().unwrap_or((0, 0)),
    };
    let skipped = if room > 0 { at + 4 } else { at };
    let moves_later = after.get(skipped..)?.windows(3).any(moves_stack);
    (!moves_later).then(|| pushed.max(saved) + room)
}

/// Of `sub $room, %rsp`, which the code begins with, the room.
fn room(code: &[u8]) -> Option<u64> {
    match code {
        [0x48, 0x83, 0xec, room @ 0..=0x7f, ..] => Some(u64::from(*room)),
        [0x48, 0x81, 0xec, a, b, c, d @ 0..=0x7f, ..] => {
            Some(u64::from(u32::from_le_bytes([*a, *b, *c, *d])))
        }
        _ => None,
    }
}

/// Whether these bytes may move the stack pointer by what is not known here: `sub %r, %rsp`,
/// `mov %r, %rsp`, `and $n, %rsp`, another `sub $n, %rsp`.
fn moves_stack(bytes: &[u8]) -> bool {
    match *bytes {
        [0x48 | 0x4c, 0x29 | 0x89, modrm] => modrm & 0xc7 == 0xc4,
        [0x48, 0x83 | 0x81, 0xe4 | 0xec] => true,
        _ => false,
    }
}

/// Whether these bytes end with a call.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    let from_end = |n: usize| bytes.len().checked_sub(n).and_then(|at| bytes.get(at)).copied();
    let is_indirect = |n: usize| {
        let modrm = from_end(n - 1).unwrap_or_default();
        from_end(n) == Some(0xff) && modrm >> 3 & 7 == 2
    };
    from_end(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSHES: [u8; 9] = [0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x53];

    #[test]
    fn registers_and_room_are_added_up() {
        let with = |rest: &[u8]| [&PUSHES[..], rest].concat();
        let bytes = |code: &[u8], saved| frame_bytes(Cpu::X86_64, code, saved);
        assert_eq!(bytes(&with(&[0x48, 0x83, 0xec, 0x20, 0x90, 0x90, 0x90]), 24), Some(24 + 0x20));
        let long = with(&[0x48, 0x81, 0xec, 0x88, 0x01, 0, 0, 0x90]);
        assert_eq!(bytes(&long, 24), Some(24 + 0x188));
        assert_eq!(bytes(&[&[0xf3, 0x0f, 0x1e, 0xfa], &long[..]].concat(), 24), Some(24 + 0x188));
        assert_eq!(bytes(&with(&[0x90, 0x90, 0x90]), 24), Some(24));
        // mov %edi, %ebx between two of them.
        let mixed = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x18, 0x90];
        assert_eq!(bytes(&mixed, 16), Some(16 + 0x18));
    }

    #[test]
    fn a_stack_pointer_that_moves_later_says_nothing() {
        for moves in [[0x48, 0x29, 0xc4], [0x48, 0x89, 0xc4], [0x48, 0x83, 0xe4]] {
            let code = [&PUSHES[..], &[0x48, 0x83, 0xec, 0x20], &moves, &[0xf0]].concat();
            assert_eq!(frame_bytes(Cpu::X86_64, &code, 24), None, "{moves:x?}");
        }
        assert_eq!(frame_bytes(Cpu::X86_64, &[0x48, 0x83, 0xec, 0x20], 0), None, "no pointer");
        assert_eq!(frame_bytes(Cpu::Aarch64, &PUSHES, 24), None);
        assert_eq!(frame_bytes(Cpu::X86_64, &[], 0), None);
    }

    #[test]
    fn calls_are_told() {
        assert!(ends_with_call(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0xff, 0xd0]));
        assert!(ends_with_call(&[0x41, 0xff, 0x54, 0x24, 0x08]));
        assert!(!ends_with_call(&[0x90; 7]));
        assert!(!ends_with_call(&[]));
    }
}
