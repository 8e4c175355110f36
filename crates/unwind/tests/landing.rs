//! The end of the functions that throw exceptions: the C++ runtime's own, of this machine.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::plain::Plain;
use kasuri_format::call_paths::{NONE, PathEnd, Tables};
use kasuri_testkit::{Need, skip_for};
use kasuri_unwind::{Backing, Cpu, NoInterpreter, Registers, Stack, Unwinder, parse_maps};

/// Where the stack is.
const BASE: u64 = 0x7000_0000;

/// Follows a stack on which each word is `word`: the addresses, innermost first.
fn follow(unwinder: &mut Unwinder, ip: u64, word: u64) -> (Vec<u64>, PathEnd) {
    let (rcx, rbp, rsp) = (2, 6, 7);
    let mut registers = Registers::new(ip);
    registers.set(rsp, BASE);
    registers.set(rbp, BASE + 0x400);
    registers.set(rcx, BASE + 0x800);
    let bytes: Vec<u8> = (0..0x200).flat_map(|_| word.to_le_bytes()).collect();
    let stack = Stack { base: BASE, bytes: &bytes, is_cut: false };
    let (mut path, end) =
        unwinder.unwind(1, Some((&registers, stack)), &[], &mut Plain, &mut NoInterpreter);
    let tables: &Tables = unwinder.interner.tables();
    let mut addresses = Vec::new();
    while path != NONE {
        let row = tables.paths[path as usize];
        addresses.push(tables.frames[row.frame as usize].address);
        path = row.caller;
    }
    (addresses, end)
}

#[test]
fn where_saved_registers_are_overwritten_there_is_no_caller_and_then_the_one_that_catches() {
    let maps = parse_maps(&std::fs::read_to_string("/proc/self/maps").unwrap());
    let runtime = maps.iter().find_map(|m| match &m.backing {
        Backing::File { path, .. } if path.contains("libgcc_s.so") => Some((m, path)),
        _ => None,
    });
    let Some((mapping, path)) = runtime else {
        return skip_for(Need::Machine, "this program has no libgcc_s");
    };
    let file = std::fs::read(path).unwrap();
    let len = (mapping.end - mapping.start) as usize;
    let code = &file[mapping.offset as usize..][..len];
    // mov %rcx,%rsp; pop %rcx; jmp *%rcx
    let jump = [0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1];
    let ends = code.windows(6).enumerate().filter(|(_, w)| *w == jump);
    let ends: Vec<u64> = ends.map(|(at, _)| mapping.start + at as u64).collect();
    if ends.is_empty() {
        return skip_for(Need::Machine, "this libgcc_s jumps in another way");
    }
    let mut unwinder = Unwinder::new(Cpu::X86_64);
    unwinder.set_maps(1, maps.clone());
    // Any place in the code: the frame that catches.
    let place = ends[0] - 0x200;
    for end in ends {
        for before in [1, 4, 42, 93] {
            let (frames, how) = follow(&mut unwinder, end - before, place);
            assert_eq!((frames.len(), how), (1, PathEnd::NoRule), "{before} bytes before");
        }
        // The instructions that jump: it did not call them, so the address is its own and not the one before.
        for into in [0, 3] {
            let (frames, _) = follow(&mut unwinder, end + into, place);
            assert_eq!(frames[0] - frames[1], end + into - place);
        }
        // Earlier, and in what it calls, its callers are those of any function.
        let (frames, _) = follow(&mut unwinder, end - 0x100, place);
        assert!(frames.len() > 1, "{frames:x?}");
        assert_eq!(frames[0] - frames[1], end - 0x100 - (place - 1));
    }
}
