//! Real programs, compiled here: every frame in its order.
use crate::plain::Plain;
use kasuri_format::call_paths::{ModuleKind, NONE, PathEnd, Tables};
use kasuri_unwind::{Cpu, NoInterpreter, Registers, Stack, Unwinder, parse_maps};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Writes its registers, its stack and its mappings to the directory in its argument, from the depths of a chain of calls.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static const char *dir;
static char *top;
static volatile long sink;

static FILE *out(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "w");
}

__attribute__((noinline)) static void dump(void) {
    ucontext_t u;
    getcontext(&u);
    char *sp = (char *)u.uc_mcontext.gregs[REG_RSP];
    FILE *f = out("registers");
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (int i = 0; i < 17; i++)
        fprintf(f, "%llx\n", (unsigned long long)u.uc_mcontext.gregs[order[i]]);
    fclose(f);
    f = out("stack");
    fwrite(sp, 1, top - sp, f);
    fclose(f);
    char line[8192];
    FILE *in = fopen("/proc/self/maps", "r");
    f = out("maps");
    while (fgets(line, sizeof line, in))
        fputs(line, f);
    fclose(f);
    fclose(in);
}

#define CALLER(name, callee)                                                                                             \
    __attribute__((noinline)) static long name(long n) {                                                                 \
        char here[88];                                                                                                   \
        memset(here, (int)n, sizeof here);                                                                               \
        sink += here[n & 63];                                                                                            \
        long r = callee(n + 1) + here[3];                                                                                \
        sink += r;                                                                                                       \
        return r + 1;                                                                                                    \
    }

__attribute__((noinline)) static long innermost(long n) {
    dump();
    sink += n;
    return n;
}
CALLER(third, innermost)
CALLER(second, third)
CALLER(first, second)

/* A frame of a size that is not known when it is compiled, and one aligned more than the stack is. */
__attribute__((noinline)) static long sized(long n) {
    char *here = __builtin_alloca(n * 8 + 64);
    memset(here, 1, n);
    long r = first(n) + here[n / 2];
    sink += r;
    return r;
}
__attribute__((noinline)) static long aligned(long n) {
    char here[256] __attribute__((aligned(64)));
    memset(here, 2, n);
    sink += (long)here;
    long r = sized(n) + here[1];
    sink += r;
    return r;
}
static void handler(int signal) {
    sink += aligned(signal);
}
__attribute__((noinline)) static long raises(long n) {
    long r = raise(SIGUSR1) + n;
    sink += r;
    return r;
}
/* libc calls back from the middle of its own code. */
static int compare(const void *a, const void *b) {
    static int once;
    if (!once++)
        sink += raises(1);
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv, char **environment) {
    int numbers[] = {3, 1, 2};
    dir = argv[1];
    top = (char *)&argv[-1];
    signal(SIGUSR1, handler);
    qsort(numbers, 3, sizeof *numbers, compare);
    return argc == 99;
}
"#;

/// Functions of a program by their addresses.
fn functions(program: &Path) -> BTreeMap<u64, String> {
    let out = Command::new("nm").arg(program).output().expect("nm");
    let text = String::from_utf8(out.stdout).unwrap();
    let mut functions = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [address, "t" | "T", name] = words[..] {
            functions.insert(u64::from_str_radix(address, 16).unwrap(), name.to_owned());
        }
    }
    functions
}

/// Names of the program's own functions, and of the files of others, innermost first.
fn names(
    tables: &Tables,
    path: u32,
    program: &Path,
    functions: &BTreeMap<u64, String>,
) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = path;
    while let Some(row) = tables.paths.get(at as usize) {
        let frame = tables.frames[row.frame as usize];
        assert_ne!(frame.module, NONE, "an address in no mapping");
        let module = &tables.modules[frame.module as usize];
        assert_eq!(module.kind, ModuleKind::Elf, "{module:?}");
        names.push(match module.path == program.to_str().unwrap() {
            true => functions
                .range(..=frame.address)
                .next_back()
                .unwrap()
                .1
                .split('.')
                .next()
                .unwrap()
                .to_owned(),
            false => "libc".to_owned(),
        });
        at = row.caller;
    }
    names
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_frame_of_a_program_without_frame_pointers_in_its_order() {
    for flags in [
        &["-O2", "-fomit-frame-pointer"][..],
        &["-O1", "-fno-omit-frame-pointer"],
        &["-O2", "-fomit-frame-pointer", "-static"],
        &["-O3", "-fomit-frame-pointer", "-no-pie", "-mavx"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("chain.c");
        let program = dir.path().join("chain");
        std::fs::write(&source, PROGRAM).unwrap();
        let built = Command::new("cc").args(flags).arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("cc").success(), "{flags:?}");
        assert!(Command::new(&program).arg(dir.path()).status().unwrap().success());
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        let words = String::from_utf8(read("registers")).unwrap();
        let words: Vec<u64> = words.lines().map(|w| u64::from_str_radix(w, 16).unwrap()).collect();
        let mut registers = Registers::new(words[16]);
        (0..16).for_each(|ix| registers.set(ix, words[ix]));
        let stack = read("stack");
        let functions = functions(&program);
        let mut unwinder = Unwinder::new(Cpu::X86_64);
        unwinder.set_maps(1, parse_maps(&String::from_utf8(read("maps")).unwrap()));
        let whole = Stack { base: words[7], bytes: &stack, is_cut: false };
        let (path, end) =
            unwinder.unwind(1, Some((&registers, whole)), &[], &mut Plain, &mut NoInterpreter);
        let found = names(unwinder.interner.tables(), path, &program, &functions);
        assert_eq!(end, PathEnd::Complete, "{flags:?}: {found:?}");
        let ours: Vec<&str> = found.iter().map(String::as_str).filter(|&n| n != "libc").collect();
        let chain = [
            "dump",
            "innermost",
            "third",
            "second",
            "first",
            "sized",
            "aligned",
            "handler",
            "raises",
            "compare",
        ];
        match flags.contains(&"-static") {
            // libc's functions are among the program's own.
            true => assert!(ours.starts_with(&chain[..8]) && ours.contains(&"compare"), "{ours:?}"),
            false => assert_eq!(ours[..10], chain, "{flags:?}"),
        }
        let main = found.iter().position(|n| n == "main").expect("main");
        assert!(found[main..].len() >= 2 && found.last().unwrap() == "_start", "{found:?}");
        // Of a thread that waits the kernel tells only where it stands, and its stack pointer.
        let mut few = Registers::new(words[16]);
        few.set(7, words[7]);
        let (path, end) =
            unwinder.unwind(1, Some((&few, whole)), &[], &mut Plain, &mut NoInterpreter);
        let some = names(unwinder.interner.tables(), path, &program, &functions);
        assert_eq!((end, &some), (PathEnd::Complete, &found), "{flags:?}");
        // A copy that ends in the middle is said to be cut, and has no other frames.
        for bytes in (0..stack.len()).step_by(104) {
            let part = Stack { bytes: &stack[..bytes], is_cut: true, ..whole };
            let (path, end) =
                unwinder.unwind(1, Some((&registers, part)), &[], &mut Plain, &mut NoInterpreter);
            let some = names(unwinder.interner.tables(), path, &program, &functions);
            assert!(found.starts_with(&some), "{flags:?}, {bytes} bytes: {some:?}");
            assert!(
                end == PathEnd::StackCut || (end == PathEnd::Complete && some == found),
                "{bytes} bytes: {end:?}"
            );
        }
    }
}
