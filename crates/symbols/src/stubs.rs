//! Names of the stubs that programs call other files' functions by: they have no symbols, but jump to an address that a relocation has
//! a name for.
//!
//! And which of them a call leads to. A library's function that ends in a jump to another is on no
//! stack, and where the other has no name, as in a library without symbols of its own, only the
//! call tells what the program asked for.
use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable,
    RelocationTarget,
};
use std::collections::HashMap;
use std::ops::Range;

/// A stub's size, and how they are aligned: of all linkers on both machines.
const BYTES: u64 = 16;
/// Segments of one file that count; programs have some ten.
const SEGMENTS_MAX: usize = 64;

/// Functions that end so: GNU OpenMP's, to wait or to hand out parts of a loop.
const JUMPS_ON: [&str; 10] = [
    "GOMP_atomic_start",
    "GOMP_barrier",
    "GOMP_critical_",
    "GOMP_doacross_",
    "GOMP_loop_",
    "GOMP_ordered_",
    "GOMP_sections_",
    "GOMP_single_",
    "omp_set_lock",
    "omp_set_nest_lock",
];

/// Whether a function is one of [`JUMPS_ON`].
pub(crate) fn may_jump_on(name: &str) -> bool {
    JUMPS_ON.iter().any(|begin| name.starts_with(begin))
}

/// Of each of the sorted addresses that is a return address - 1, the name of that function of
/// [`JUMPS_ON`] that was called there.
pub(crate) fn called(bytes: &[u8], addresses: &[(u64, u32)]) -> Vec<Option<String>> {
    let mut out = vec![None; addresses.len()];
    let Ok(file) = object::File::parse(bytes) else {
        return out;
    };
    let call: fn(&[u8], u64) -> Option<Target> = match file.architecture() {
        Architecture::X86_64 => x86_64_call,
        Architecture::Aarch64 => aarch64_call,
        _ => return out,
    };
    let mut slots = imported(&file);
    slots.retain(|_, name| may_jump_on(name));
    if slots.is_empty() {
        return out;
    }
    let mut by_stub: Vec<(usize, u64)> = Vec::new();
    for segment in file.segments().take(SEGMENTS_MAX) {
        let Ok(code) = segment.data() else { continue };
        let from = addresses.partition_point(|(address, _)| *address < segment.address());
        for (at, (address, _)) in addresses.iter().enumerate().skip(from) {
            let end = usize::try_from(address - segment.address()).unwrap_or(usize::MAX);
            let Some(before) = code.get(..end.saturating_add(1)) else { break };
            match call(before, address.wrapping_add(1)) {
                Some(Target::Slot(slot)) => {
                    out[at] = slots.get(&slot).map(|name| (*name).to_owned());
                }
                Some(Target::Stub(stub)) => by_stub.push((at, stub)),
                None => {}
            }
        }
    }
    let found = stubs(&file, by_stub.iter().map(|(_, stub)| *stub));
    let found: HashMap<u64, &str> =
        found.into_iter().map(|(stub, name)| (stub.start, name)).collect();
    for (at, stub) in by_stub {
        let name = found.get(&stub).filter(|name| slots.values().any(|slot| slot == *name));
        out[at] = name.map(|name| (*name).to_owned());
    }
    out
}

/// Where a call leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// To this address.
    Stub(u64),
    /// To the address that stands there.
    Slot(u64),
}

/// The call that ends with this code, at `end`: `call stub`, `call *slot(%rip)`.
fn x86_64_call(code: &[u8], end: u64) -> Option<Target> {
    let (rest, offset) = code.split_last_chunk::<4>()?;
    let target = end.wrapping_add_signed(i32::from_le_bytes(*offset).into());
    match rest {
        [.., 0xff, 0x15] => Some(Target::Slot(target)),
        [.., 0xe8] => Some(Target::Stub(target)),
        _ => None,
    }
}

/// `bl stub`.
fn aarch64_call(code: &[u8], end: u64) -> Option<Target> {
    let word = u32::from_le_bytes(*code.last_chunk()?);
    // 26 bits with a sign.
    let words = i64::from((word << 6).cast_signed() >> 6);
    (word >> 26 == 0b10_0101).then(|| Target::Stub((end - 4).wrapping_add_signed(words * 4)))
}

/// The stub at each of the addresses, and the name of the function that it calls. Other machines' are not known.
pub(crate) fn stubs<'d>(
    file: &object::File<'d>,
    addresses: impl Iterator<Item = u64>,
) -> Vec<(Range<u64>, &'d str)> {
    let slot = match file.architecture() {
        Architecture::X86_64 => x86_64,
        Architecture::Aarch64 => aarch64,
        _ => return Vec::new(),
    };
    let is_of_stubs = |name: &str| name == ".plt" || name.starts_with(".plt.");
    let sections: Vec<(u64, &[u8])> = file
        .sections()
        .filter(|s| s.name().is_ok_and(is_of_stubs))
        .filter_map(|s| Some((s.address(), s.data().ok()?)))
        .collect();
    let mut names: Option<HashMap<u64, &str>> = None;
    let mut out = Vec::new();
    for address in addresses {
        let found = sections.iter().find_map(|&(begin, bytes)| {
            let from = address.checked_sub(begin)? / BYTES * BYTES;
            let code = bytes.get(usize::try_from(from).ok()?..)?;
            Some((begin + from, code.first_chunk()?))
        });
        let Some((start, code)) = found else { continue };
        let names = names.get_or_insert_with(|| imported(file));
        if let Some(&name) = slot(start, code).and_then(|at| names.get(&at)) {
            out.push((start..start + BYTES, name));
        }
    }
    out
}

/// The functions of other files, by the address at which the dynamic linker puts theirs.
fn imported<'d>(file: &object::File<'d>) -> HashMap<u64, &'d str> {
    let Some(table) = file.dynamic_symbol_table() else {
        return HashMap::new();
    };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let named = relocations.filter_map(|(at, relocation)| match relocation.target() {
        RelocationTarget::Symbol(ix) => {
            Some((at, table.symbol_by_index(ix).ok()?.name().ok()?)).filter(|(_, n)| !n.is_empty())
        }
        _ => None,
    });
    named.collect()
}

/// `jmp *slot(%rip)`, behind `endbr64` and a prefix where these are there.
fn x86_64(start: u64, code: &[u8; BYTES as usize]) -> Option<u64> {
    let at = [0, 4, 5].into_iter().find(|&at| code[at..].starts_with(&[0xff, 0x25]))?;
    let offset = i32::from_le_bytes(*code[at + 2..].first_chunk()?);
    Some((start + at as u64 + 6).wrapping_add_signed(offset.into()))
}

/// `adrp x16, page; ldr x17, [x16, low]`, behind `bti c` where that is there.
fn aarch64(start: u64, code: &[u8; BYTES as usize]) -> Option<u64> {
    let word = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let at =
        [0, 4].into_iter().find(|&at| word(at).is_some_and(|w| w & 0x9f00_001f == 0x9000_0010))?;
    let (adrp, ldr) = (word(at)?, word(at + 4)?);
    if ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
    // 21 bits with a sign.
    let pages = i64::from((pages << 11).cast_signed() >> 11);
    let page = (start + at as u64) & !0xfff;
    Some(page.wrapping_add_signed(pages << 12) + u64::from(ldr >> 10 & 0xfff) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_stub_is_read() {
        // objdump: `jmp *0x2fe2(%rip) # 4018`, alone, behind endbr64, behind endbr64 and bnd.
        let jump = |begin: &[u8], offset: i32| {
            let mut code = [0x90; 16];
            code[..begin.len()].copy_from_slice(begin);
            code[begin.len()..][..2].copy_from_slice(&[0xff, 0x25]);
            code[begin.len() + 2..][..4].copy_from_slice(&offset.to_le_bytes());
            code
        };
        assert_eq!(x86_64(0x1030, &jump(&[], 0x2fe2)), Some(0x4018));
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa];
        assert_eq!(x86_64(0x1030, &jump(&endbr, 0x2fde)), Some(0x4018));
        let bnd = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2];
        assert_eq!(x86_64(0x1030, &jump(&bnd, 0x2fdd)), Some(0x4018));
        assert_eq!(x86_64(0x1030, &jump(&[], -0x1036)), Some(0));
        assert_eq!(x86_64(0x1020, &[0x90; 16]), None);
        // objdump: `adrp x16, 0x1f000; ldr x17, [x16, #4016]; add x16, x16, #0xfb0; br x17` at 0x630.
        let words = |words: [u32; 4]| {
            let mut code = [0; 16];
            for (to, word) in code.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            code
        };
        let plain = [0xf000_00f0, 0xf947_da11, 0x913e_c210, 0xd61f_0220];
        assert_eq!(aarch64(0x630, &words(plain)), Some(0x1ffb0));
        let bti = [0xd503_245f, 0xf000_00f0, 0xf947_da11, 0x913e_c210];
        assert_eq!(aarch64(0x630, &words(bti)), Some(0x1ffb0));
        assert_eq!(aarch64(0x630, &[0; 16]), None);
    }
}
