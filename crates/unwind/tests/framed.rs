//! Code of an ELF file without rules: its frame pointers are followed only where it is long and sets them up.
#![cfg(target_arch = "x86_64")]
use kasuri_format::call_paths::PathEnd;
use kasuri_unwind::{
    Backing, Cpu, File, Files, Mapping, NoInterpreter, Registers, Stack, Unwinder,
};
use std::process::Command;

const SP: u64 = 0x7fff_0000_0000;
const FP: usize = 6;

struct One(Vec<u8>);

impl Files for One {
    fn open(&mut self, _: i32, _: &Mapping) -> Option<File> {
        Some(File { key: [1; 6], bytes: Box::new(self.0.clone()) })
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// A program with code without rules: `n` times 512 bytes, each of which begins with the `set_up` bytes.
struct Program {
    file: Vec<u8>,
    blob: u64,
    caller: u64,
}

impl Program {
    fn build(n: u32, set_up: &str) -> Program {
        Program::build_with(n, set_up, "-Wl,-e,_start")
    }

    fn build_with(n: u32, set_up: &str, flag: &str) -> Program {
        let dir = tempfile::tempdir().unwrap();
        let (c, blob) = (dir.path().join("main.c"), dir.path().join("blob.s"));
        let program = dir.path().join("program");
        let main = "extern void blob(void);\n__attribute__((noinline)) int caller(int n) { blob(); return n + 1; }\n\
             int main(int n, char **v) { (void)v; return caller(n); }\n";
        std::fs::write(&c, main).unwrap();
        let text = format!(
            ".text\n.globl blob\nblob:\n.rept {n}\n.byte {set_up}\n.skip 508, 0x90\n.endr\n.section .note.GNU-stack,\"\",@progbits\n"
        );
        std::fs::write(&blob, text).unwrap();
        let mut cc = Command::new("cc");
        let built = cc.args(["-O2", "-no-pie", flag, "-o"]).arg(&program).args([&c, &blob]);
        assert!(built.status().expect("cc").success());
        let names = Command::new("nm").arg(&program).output().expect("nm").stdout;
        let names = String::from_utf8(names).unwrap();
        let address = |name: &str| {
            let line = names.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        Program {
            file: std::fs::read(&program).unwrap(),
            blob: address("blob"),
            caller: address("caller") + 9,
        }
    }

    /// Frames, and how the path ends, of a thread in the middle of the code. Addresses of the words on the stack count
    /// from the stack pointer.
    fn follow(&self, fp: u64, words: &[u64]) -> (Vec<u64>, PathEnd) {
        let mut unwinder = Unwinder::new(Cpu::X86_64);
        let backing = Backing::File { path: "/program".into(), inode: (1, 0), device: (1, 0) };
        unwinder.set_maps(
            1,
            vec![Mapping { start: 0x40_1000, end: 0x44_0000, offset: 0x1000, backing }],
        );
        let mut registers = Registers::new(self.blob + 2000);
        registers.set(7, SP);
        registers.set(FP, fp);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let stack = Stack { base: SP, bytes: &bytes, is_cut: false };
        let mut files = One(self.file.clone());
        let (mut path, end) =
            unwinder.unwind(1, Some((&registers, stack)), &[], &mut files, &mut NoInterpreter);
        let tables = unwinder.interner.tables();
        let mut frames = Vec::new();
        while let Some(row) = tables.paths.get(path as usize) {
            frames.push(tables.frames[row.frame as usize].address);
            path = row.caller;
        }
        (frames, end)
    }
}

const SET_UP: &str = "0x55, 0x48, 0x89, 0xe5";

#[test]
fn frame_pointers_lead_through_long_code_without_rules() {
    let program = Program::build(256, SET_UP);
    let (inner, outer) = (program.blob + 2000, program.blob + 7000);
    // The frame pointer of `caller` may be anything: it has a rule.
    let words = [0, 0, SP + 32, outer + 1, 1, program.caller, 0, 0];
    let (frames, _) = program.follow(SP + 16, &words);
    assert_eq!(frames[..3], [inner, outer, program.caller - 1]);
}

#[test]
fn frame_pointers_are_not_followed_where_the_parent_may_be_wrong() {
    let long = Program::build(256, SET_UP);
    let words = |p: &Program, next: u64| [0, 0, next, p.caller, 1, p.caller, 0, 0];
    let stops = |what: &str, p: &Program, fp: u64, words: &[u64]| {
        let found = p.follow(fp, words);
        assert_eq!(found, (vec![p.blob + 2000], PathEnd::NoRule), "{what}");
    };
    let short = Program::build(100, SET_UP);
    stops("short code", &short, SP + 16, &words(&short, SP + 32));
    let bare = Program::build(256, "0x90, 0x90, 0x90, 0x90");
    stops("no frame set up", &bare, SP + 16, &words(&bare, SP + 32));
    stops("no frame pointer", &long, 0, &words(&long, SP + 32));
    stops("below", &long, SP - 16, &words(&long, SP + 32));
    stops("outside of the stack", &long, SP + 4096, &words(&long, SP + 32));
    stops("not aligned", &long, SP + 12, &words(&long, SP + 32));
    let mut nowhere = words(&long, SP + 32);
    nowhere[3] = 0x1234_5678;
    stops("return address in no mapping", &long, SP + 16, &nowhere);
    nowhere[3] = 0;
    stops("return address 0", &long, SP + 16, &nowhere);
    // The caller has no rule either, and its frame would lie below this one.
    let mut back = words(&long, SP + 8);
    back[3] = long.blob + 7000;
    stops("next frame pointer below", &long, SP + 16, &back);
}

#[test]
fn code_at_the_entry_of_a_file_has_no_caller() {
    // The innermost frame is 2000 bytes into the code.
    for (entry, end) in [
        (2000, PathEnd::Complete),
        (1937, PathEnd::Complete),
        (1936, PathEnd::NoRule),
        (2001, PathEnd::NoRule),
    ] {
        let flag = format!("-Wl,--defsym=begin=blob+{entry},-e,begin");
        let program = Program::build_with(100, SET_UP, &flag);
        let found = program.follow(SP + 16, &[0, 0, SP + 32, program.caller]);
        assert_eq!(found, (vec![program.blob + 2000], end), "{entry}");
    }
}
