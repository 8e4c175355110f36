//! Loops that wait for another thread on a CPU, told by their instructions.
//!
//! Who writes such a loop puts an instruction into it that tells the CPU so: `pause` on x86, `yield` or `isb` on Arm. An
//! address is in one if a branch close behind it leads back to or before it, and the instruction is in between; of several
//! such branches the shortest loop counts. On x86
//! instructions are not decoded from their beginnings, so a byte inside of one may look like a branch: it counts only if the
//! hint lies in what it spans.
//!
//! A loop without the instruction waits if it only looks: it reads memory at places that it does not change, compares, and branches. Each of its
//! rounds is like the one before, until another thread writes there: `while (!ready) {}`. On x86 such a loop is decoded, from its first instruction
//! to its branch.
use object::{Architecture, Object, ObjectSegment};
use std::ops::Range;

/// Bytes of the longest loop: those that wait are short, and what is longer does more than wait.
const LOOP_MAX: usize = 96;
/// Segments of one file that count; programs have some ten.
const SEGMENTS_MAX: usize = 64;

/// Of each of the sorted addresses, whether it is in such a loop of this file.
pub(crate) fn loops(bytes: &[u8], addresses: &[(u64, u32)]) -> Vec<bool> {
    let mut out = vec![false; addresses.len()];
    let Ok(file) = object::File::parse(bytes) else {
        return out;
    };
    let find: fn(&[u8], usize) -> bool = match file.architecture() {
        Architecture::X86_64 | Architecture::I386 => x86,
        Architecture::Aarch64 => arm,
        _ => return out,
    };
    for segment in file.segments().take(SEGMENTS_MAX) {
        let Ok(code) = segment.data() else { continue };
        let from = addresses.partition_point(|(address, _)| *address < segment.address());
        for (at, (address, _)) in addresses.iter().enumerate().skip(from) {
            let at_code = usize::try_from(address - segment.address()).unwrap_or(usize::MAX);
            if at_code >= code.len() {
                break;
            }
            let near = at_code.saturating_sub(LOOP_MAX)..(at_code + LOOP_MAX).min(code.len());
            out[at] |= find(&code[near.clone()], at_code - near.start);
        }
    }
    out
}

/// Whether a branch that ends at `end` and leads to `end + distance` makes a loop with `at` in it; gives the loop.
fn spans(end: usize, distance: i64, at: usize) -> Option<Range<usize>> {
    let start = usize::try_from((end as i64).checked_add(distance)?).ok()?;
    (start <= at && at < end && end - start <= LOOP_MAX).then_some(start..end)
}

/// Of the loops around an address the shortest, which is the one that it is in: one that waits and then works is a longer
/// loop around both.
fn innermost(loops: impl Iterator<Item = Range<usize>>) -> Option<Range<usize>> {
    loops.min_by_key(|range| range.len())
}

fn x86(code: &[u8], at: usize) -> bool {
    const PAUSE: [u8; 2] = [0xf3, 0x90];
    let pauses = |range: &Range<usize>| code[range.clone()].windows(2).any(|two| two == PAUSE);
    let loop_of = |ix: usize| {
        let byte = |n: usize| code.get(ix + n).copied();
        let far = |n: usize| {
            let four = code.get(ix + n..ix + n + 4)?;
            Some(i64::from(i32::from_le_bytes(four.try_into().ok()?)))
        };
        match (byte(0)?, byte(1)?) {
            (0x70..=0x7f | 0xeb | 0xe0..=0xe3, near) => {
                spans(ix + 2, i64::from(near.cast_signed()), at)
            }
            (0x0f, 0x80..=0x8f) => spans(ix + 6, far(2)?, at),
            (0xe9, _) => spans(ix + 5, far(1)?, at),
            _ => None,
        }
    };
    let loops: Vec<Range<usize>> = (0..code.len()).filter_map(loop_of).collect();
    loops.iter().any(|range| only_looks(&code[range.clone()]))
        || innermost(loops.into_iter()).is_some_and(|range| pauses(&range))
}

/// Registers of a set, and whether memory is read.
#[derive(Default)]
struct Looks {
    written: u32,
    addresses: u32,
    reads: bool,
}

/// Whether a loop's instructions, from its first to its branch back, only read memory, compare and branch, and none changes where it reads.
fn only_looks(code: &[u8]) -> bool {
    let (mut looks, mut at, mut branches) = (Looks::default(), 0, false);
    while at < code.len() {
        match looks.add(&code[at..]) {
            Some((len, is_branch)) => (at, branches) = (at + len, is_branch),
            None => return false,
        }
    }
    at == code.len() && branches && looks.reads && looks.written & looks.addresses == 0
}

impl Looks {
    /// The next instruction's length, and whether it is a conditional branch; none: it does something else.
    fn add(&mut self, code: &[u8]) -> Option<(usize, bool)> {
        let is_narrow = code.first() == Some(&0x66);
        let mut at = usize::from(is_narrow);
        let rex = code.get(at).copied().filter(|byte| byte & 0xf0 == 0x40);
        at += usize::from(rex.is_some());
        let rex = rex.unwrap_or(0);
        let op = *code.get(at)?;
        let wide = if is_narrow { 2 } else { 4 };
        // Bytes of the number behind the operands, and whether the register operand is written.
        let (len, number, writes) = match (op, code.get(at + 1).copied()) {
            (0x70..=0x7f, _) => return Some((at + 2, true)),
            (0x0f, Some(0x80..=0x8f)) => return Some((at + 6, true)),
            (0x90, _) => return Some((at + 1, false)),
            (0x3c | 0xa8, _) => return Some((at + 2, false)),
            (0x3d | 0xa9, _) => return Some((at + 1 + wide, false)),
            // Loads, also of parts with or without their sign.
            (0x8a | 0x8b | 0x63, _) => (1, 0, true),
            (0x0f, Some(0xb6 | 0xb7 | 0xbe | 0xbf)) => (2, 0, true),
            // A long nop.
            (0x0f, Some(0x1f)) => (2, 0, false),
            // Comparisons.
            (0x38..=0x3b | 0x84 | 0x85, _) => (1, 0, false),
            (0x80 | 0x83, Some(form)) if form & 0x38 == 0x38 => (1, 1, false),
            (0x81, Some(form)) if form & 0x38 == 0x38 => (1, wide, false),
            (0xf6, Some(form)) if form & 0x38 == 0 => (1, 1, false),
            (0xf7, Some(form)) if form & 0x38 == 0 => (1, wide, false),
            _ => return None,
        };
        let is_nop = (op, code.get(at + 1)) == (0x0f, Some(&0x1f));
        at += len;
        let form = *code.get(at)?;
        let (kind, register, place) = (form >> 6, form >> 3 & 7, form & 7);
        if writes {
            self.written |= 1 << (register | (rex & 4) << 1);
        }
        at += 1;
        if kind != 3 {
            self.reads |= !is_nop;
            let mut base = Some(place | (rex & 1) << 3);
            let mut far = [0, 1, 4, 0][usize::from(kind)];
            if place == 4 {
                let scaled = *code.get(at)?;
                at += 1;
                let index = scaled >> 3 & 7 | (rex & 2) << 2;
                if index != 4 {
                    self.addresses |= 1 << index;
                }
                base = Some(scaled & 7 | (rex & 1) << 3);
                if kind == 0 && scaled & 7 == 5 {
                    (base, far) = (None, 4);
                }
            } else if kind == 0 && place == 5 {
                // Behind the instruction.
                (base, far) = (None, 4);
            }
            self.addresses |= base.map_or(0, |base| 1 << base);
            at += far;
        } else if writes {
            // From register to register: what is compared may change from round to round.
            return None;
        }
        (at + number <= code.len()).then_some((at + number, false))
    }
}

fn arm(code: &[u8], at: usize) -> bool {
    const HINTS: [u32; 2] = [0xd503_203f, 0xd503_3fdf];
    // Instructions have four bytes, and the sampled one is the first of one.
    let begin = at % 4;
    let word = |ix: usize| {
        let four = code.get(ix..ix + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    let hints = |range: Range<usize>| {
        let mut words = range.step_by(4).filter_map(word);
        words.any(|word| HINTS.contains(&word))
    };
    let loop_of = |ix: usize| {
        let word = word(ix)?;
        // The distance in instructions, from the branch itself: a number of so many bits from bit `low` on.
        let distance = |low: u32, bits: u32| {
            i64::from((word << (32 - low - bits)).cast_signed() >> (32 - bits)) * 4
        };
        let distance = match word {
            w if w & 0xfc00_0000 == 0x1400_0000 => distance(0, 26),
            w if w & 0xff00_0000 == 0x5400_0000 => distance(5, 19),
            w if w & 0x7e00_0000 == 0x3400_0000 => distance(5, 19),
            w if w & 0x7e00_0000 == 0x3600_0000 => distance(5, 14),
            _ => return None,
        };
        spans(ix + 4, distance - 4, at)
    };
    let loops = (begin..code.len()).step_by(4).filter_map(loop_of);
    innermost(loops).is_some_and(hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_pauses_is_told_from_code_beside_it() {
        // 0: mov (%rdi),%eax  2: cmp %esi,%eax  4: jne 12  6: pause  8: dec %edx  10: jne 0  12: ret, and nops.
        let mut code =
            vec![0x8b, 0x07, 0x39, 0xf0, 0x75, 0x06, 0xf3, 0x90, 0xff, 0xca, 0x75, 0xf4, 0xc3];
        code.resize(64, 0x90);
        for at in [0, 2, 4, 6, 8, 10] {
            assert!(x86(&code, at), "{at}");
        }
        assert!(!x86(&code, 12) && !x86(&code, 40));
        // The same loop without the hint, which counts its rounds; and the hint outside of the loop.
        code[6..8].copy_from_slice(&[0x66, 0x90]);
        assert!(!(0..64).any(|at| x86(&code, at)));
        code[20..22].copy_from_slice(&[0xf3, 0x90]);
        assert!(!(0..64).any(|at| x86(&code, at)));
    }

    #[test]
    fn a_loop_that_only_looks_waits_without_the_hint() {
        // Each is followed by a branch back to its beginning.
        let waits: [&[u8]; 6] = [
            // mov 0x2f0a(%rip),%eax; cmp %edi,%eax
            &[0x8b, 0x05, 0x0a, 0x2f, 0, 0, 0x39, 0xf8],
            // movzbl (%rax),%edx; test %dl,%dl
            &[0x0f, 0xb6, 0x10, 0x84, 0xd2],
            // cmpb $0,0x10(%rdi)
            &[0x80, 0x7f, 0x10, 0],
            // mov 8(%rbx,%rcx,8),%r8; cmp %r9,%r8
            &[0x4c, 0x8b, 0x44, 0xcb, 8, 0x4d, 0x39, 0xc8],
            // cmpl $0x100,0x20(%rsp); and a nop
            &[0x81, 0x7c, 0x24, 0x20, 0, 1, 0, 0, 0x66, 0x90],
            // cmpw $1,(%r12)
            &[0x66, 0x41, 0x83, 0x3c, 0x24, 1],
        ];
        let with_branch = |body: &[u8]| -> Vec<u8> {
            let back = -(body.len() as i8 + 2);
            [body, &[0x75, back.cast_unsigned()], &[0xc3; 8]].concat()
        };
        for body in waits {
            let code = with_branch(body);
            assert!((0..body.len() + 2).all(|at| x86(&code, at)), "{body:x?}");
            assert!(!x86(&code, body.len() + 2), "{body:x?}");
        }
        let works: [&[u8]; 7] = [
            // A list: mov (%rax),%rax; test %rax,%rax
            &[0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0],
            // mov (%rdi),%eax; add $1,%ecx
            &[0x8b, 0x07, 0x83, 0xc1, 1],
            // mov (%rdi),%eax; mov %eax,(%rsi)
            &[0x8b, 0x07, 0x89, 0x06],
            // lock cmpxchg %edx,(%rdi)
            &[0xf0, 0x0f, 0xb1, 0x17],
            // cmp %eax,%edx: memory is not looked at.
            &[0x39, 0xc2],
            // mov (%rdi,%rcx,4),%ecx: the next place depends on this one.
            &[0x8b, 0x0c, 0x8f],
            // dec %ecx
            &[0xff, 0xc9],
        ];
        for body in works {
            let code = with_branch(body);
            assert!(!(0..code.len()).any(|at| x86(&code, at)), "{body:x?}");
        }
    }

    #[test]
    fn work_beside_a_wait_in_one_loop_is_work() {
        // 0: pause  2: jne 0  4: dec %edx  6: jne 4  8: jmp 0
        let code = [0xf3, 0x90, 0x75, 0xfc, 0xff, 0xca, 0x75, 0xfc, 0xeb, 0xf6];
        assert!([0, 2].iter().all(|&at| x86(&code, at)));
        assert!(![4, 6].iter().any(|&at| x86(&code, at)));
        // yield; cbnz w0, 0; sub; cbnz w1, 8; b 0
        let words: [u32; 5] = [0xd503_203f, 0x35ff_ffe0, 0x5100_0421, 0x35ff_ffe1, 0x17ff_fffc];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!([0, 4].iter().all(|&at| arm(&code, at)));
        assert!(![8, 12].iter().any(|&at| arm(&code, at)));
    }

    #[test]
    fn a_long_branch_back_makes_a_loop_too() {
        // 0: pause  2: jae 0, with a distance of four bytes  8: jmp 0
        let code =
            [0xf3, 0x90, 0x0f, 0x83, 0xf8, 0xff, 0xff, 0xff, 0xe9, 0xf3, 0xff, 0xff, 0xff, 0xc3];
        assert!((0..13).all(|at| x86(&code, at)) && !x86(&code, 13));
    }

    #[test]
    fn arm_loops_are_told_by_yield_and_isb() {
        let code = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        // ldr; yield; cbnz w0, 0; ret
        let spin = code(&[0xb940_0020, 0xd503_203f, 0x35ff_ffc0, 0xd65f_03c0]);
        assert!([0, 4, 8].iter().all(|&at| arm(&spin, at)) && !arm(&spin, 12));
        // b.ne and b, to the first; tbnz w0, #1, 0
        for branch in [0x54ff_ffc1, 0x17ff_fffe, 0x370f_ffc0] {
            let spin = code(&[0xb940_0020, 0xd503_3fdf, branch]);
            assert!(arm(&spin, 0), "{branch:x}");
        }
        // A branch forward.
        assert!(!arm(&code(&[0xd503_203f, 0x1400_0002, 0xd65f_03c0]), 0));
    }

    #[test]
    fn damaged_files_have_none() {
        assert_eq!(loops(b"\x7fELF", &[(0, 0), (u64::MAX, 1)]), [false; 2]);
        for len in 0..8 {
            let cut = &[0xf3, 0x90, 0xe9, 0xf9, 0xff, 0xff, 0xff, 0x0f][..len];
            for at in 0..len {
                x86(cut, at);
                arm(cut, at);
            }
        }
    }
}
