//! Names of addresses in real ELF files, which the C compiler of the machine makes; and damaged copies of them.
use kasuri_format::call_paths::{Call, Frame, Module, ModuleKind, NONE, Names, Tables};
use kasuri_symbols::{
    Bytes, Event, Files, List, Numbering, Opened, Phase, Why, build_id, costly, costly_to_unpack,
    place, run, tasks,
};
use kasuri_testkit::skip;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

#[path = "../../../fuzz/src/symbols.rs"]
mod driver;

const SOURCE: &str = r#"
static int twice(int x) { return x * 2 + 1; }
__attribute__((noinline)) int outer(int *p) {
    int sum = 0;
    for (int i = 0; i < p[0]; i++)
        sum += twice(p[i]) ^ i; /* line 6 */
    return sum;
}
__asm__(".text\n.globl bare\n.type bare, @function\nbare:\n nop\n nop\n ret\n");
int main(int n, char **v) { (void)v; return outer(&n); }
#ifdef __x86_64__ /* A loop that pauses, seven bytes, and what follows it. */
__asm__(".text\n.globl waits\n.type waits, @function\nwaits:\n pause\n test %eax, %eax\n jne waits\n ret\n");
#endif
"#;

struct Built {
    dir: tempfile::TempDir,
}

/// A program with debug information; None, said, without a compiler.
fn built() -> Option<Built> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.c"), SOURCE).unwrap();
    let built = Built { dir };
    let made = built.tool("cc", &["-O2", "-g", "-Wl,--build-id", "-o", "p", "p.c"])
        && built.tool("objcopy", &["--only-keep-debug", "p", "p.debug"])
        && built.tool("strip", &["-o", "stripped", "p"])
        && built.tool("objcopy", &["--add-gnu-debuglink=p.debug", "stripped", "linked"]);
    if !made {
        skip("needs cc and binutils");
    }
    made.then_some(built)
}

impl Built {
    fn tool(&self, tool: &str, args: &[&str]) -> bool {
        let run = Command::new(tool).args(args).current_dir(self.dir.path()).status();
        run.is_ok_and(|status| status.success())
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.path().join(name)).unwrap()
    }

    /// The address in the middle of a function.
    fn inside(&self, symbol: &str) -> u64 {
        use object::{Object, ObjectSymbol};
        let bytes = self.file("p");
        let file = object::File::parse(&*bytes).unwrap();
        let found = file.symbols().find(|s| s.name() == Ok(symbol)).unwrap();
        found.address() + found.size() / 2
    }
}

/// Files in memory.
#[derive(Default)]
struct Fake {
    files: HashMap<PathBuf, Vec<Vec<u8>>>,
    debug_dirs: Vec<PathBuf>,
    changed_ns: u64,
    kernel: Option<Vec<u8>>,
    jit: Option<Vec<u8>>,
    asked: Mutex<Vec<PathBuf>>,
}

impl Fake {
    fn with(mut self, path: &str, bytes: Vec<u8>) -> Fake {
        self.files.entry(path.into()).or_default().push(bytes);
        self
    }
}

impl Files for Fake {
    fn open(&self, path: &Path, nth: usize) -> Option<Result<Opened, ()>> {
        self.asked.lock().unwrap().push(path.to_owned());
        let bytes = self.files.get(path)?.get(nth)?.clone();
        Some(Ok(Opened { bytes: Arc::new(bytes), changed_ns: self.changed_ns }))
    }
    fn debug_dirs(&self) -> &[PathBuf] {
        &self.debug_dirs
    }
    fn fetch(&self, _: &[u8]) -> Option<Bytes> {
        None
    }
    fn vdso(&self) -> Option<Bytes> {
        None
    }
    fn kernel(&self, _: &[(u64, u32)]) -> Result<List, Why> {
        let bytes = self.kernel.clone().ok_or(Why::KernelHidden)?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
    fn jit_map(&self, _: i32) -> Result<Bytes, Why> {
        let bytes = self.jit.clone().ok_or(Why::NoJitMap)?;
        Ok(Arc::new(bytes))
    }
    fn jit_dump(&self, _: i32, path: &Path) -> Option<Bytes> {
        let bytes = self.files.get(path)?.first()?.clone();
        Some(Arc::new(bytes))
    }
    fn began_ns(&self) -> u64 {
        1000
    }
}

fn tables(kind: ModuleKind, build_id: Vec<u8>, addresses: &[u64]) -> Tables {
    let frames = addresses.iter().map(|&address| Frame { module: 0, address });
    Tables {
        modules: vec![Module { kind, path: "/bin/p".into(), build_id, pid: 7 }],
        frames: frames.collect(),
        ..Tables::default()
    }
}

/// Names of all frames, and why the others have none.
fn names(tables: &Tables, files: &dyn Files) -> (Vec<String>, Vec<Why>) {
    let wanted: Vec<u32> = (0..tables.frames.len() as u32).collect();
    let tasks = tasks(tables, &wanted, Numbering::Addresses, files);
    let found: Mutex<Vec<Option<Names>>> = Mutex::new(vec![None; wanted.len()]);
    let whys = Mutex::new(Vec::new());
    run(&tasks, 2, &[], &|| false, &|event| match event {
        Event::Names(names) => {
            for n in names {
                let frame = n.frame as usize;
                found.lock().unwrap()[frame] = Some(n);
            }
        }
        Event::Nameless(_, why) => whys.lock().unwrap().push(why),
        Event::Began(..) | Event::Ended(..) | Event::Timed(_) => {}
    });
    let text = |n: Option<Names>| {
        let calls = n.map_or_else(Vec::new, |n| n.calls);
        let call = |c: &kasuri_format::call_paths::Call| {
            let file = c.file.rsplit('/').next().unwrap();
            format!("{} {file}:{}", c.function, c.line)
        };
        calls.iter().map(call).collect::<Vec<_>>().join(" < ")
    };
    let found = found.into_inner().unwrap().into_iter().map(text).collect();
    (found, whys.into_inner().unwrap())
}

#[test]
fn inlined_calls_come_first_then_the_function() {
    let Some(built) = built() else { return };
    let p = built.file("p");
    let outer = built.inside("outer");
    // The loop's body is somewhere in the function.
    let around: Vec<u64> = (outer - 8..outer + 8).collect();
    let (names, _) =
        names(&tables(ModuleKind::Elf, build_id(&p), &around), &Fake::default().with("/bin/p", p));
    assert!(names.iter().all(|n| n.ends_with(|c: char| c.is_ascii_digit())), "{names:?}");
    assert!(names.iter().all(|n| n.contains("outer p.c:")), "{names:?}");
    assert!(names.iter().any(|n| n == "twice p.c:2 < outer p.c:6"), "{names:?}");
}

#[test]
fn separate_debug_files_are_found_by_build_id_and_by_link() {
    let Some(built) = built() else { return };
    let id = build_id(&built.file("p"));
    let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let main = built.inside("main");
    let tables = tables(ModuleKind::Elf, id, &[main]);
    let by_id = format!("/dbg/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    let fake = || Fake { debug_dirs: vec!["/dbg".into()], ..Fake::default() };
    let stripped = || fake().with("/bin/p", built.file("stripped"));
    let linked = || fake().with("/bin/p", built.file("linked"));
    let debug = || built.file("p.debug");
    assert_eq!(names(&tables, &stripped()).0, [""], "nothing else names it");
    for (how, files) in [
        ("by id", stripped().with(&by_id, debug())),
        ("without the program", fake().with(&by_id, debug())),
        ("beside it", linked().with("/bin/p.debug", debug())),
        ("below it", linked().with("/bin/.debug/p.debug", debug())),
        ("in the tree", linked().with("/dbg/bin/p.debug", debug())),
    ] {
        assert_eq!(names(&tables, &files).0, ["main p.c:10"], "{how}");
    }
    // One of another program, under the right name.
    let mut other = debug();
    let at = other.windows(hex.len() / 2).position(|w| w == tables.modules[0].build_id).unwrap();
    other[at] ^= 1;
    for files in [stripped().with(&by_id, other.clone()), linked().with("/bin/p.debug", other)] {
        assert_eq!(names(&tables, &files).0, [""]);
    }
}

/// A recorded program may name any file as the one that `dwz` made.
#[test]
fn a_link_to_shared_information_leads_to_debug_files_alone() {
    let Some(built) = built() else { return };
    let (p, id) = (built.file("p"), build_id(&built.file("p")));
    let tables = tables(ModuleKind::Elf, id.clone(), &[built.inside("main")]);
    let wrong_id = vec![7; 20];
    for (name, id, asked) in [
        ("/root/secret", &wrong_id, None),
        ("../../root/secret", &wrong_id, None),
        ("/dbg/../root/secret", &wrong_id, None),
        ("../../../../../../dbg", &wrong_id, None),
        ("/dbg/.dwz/one", &Vec::new(), None),
        ("/dbg/.dwz/one", &wrong_id, Some("/dbg/.dwz/one")),
        ("../dbg/./.dwz/one", &wrong_id, Some("/dbg/.dwz/one")),
        ("one", &wrong_id, Some("/bin/one")),
    ] {
        let link = [name.as_bytes(), b"\0", id].concat();
        std::fs::write(built.dir.path().join("link"), link).unwrap();
        let add = ["--add-section", ".gnu_debugaltlink=link", "p", "with"];
        assert!(built.tool("objcopy", &add));
        let mut files = Fake::default().with("/bin/p", built.file("with"));
        files.debug_dirs = vec!["/dbg".into()];
        // Files of every name are there, but none has the build-id.
        for path in ["/root/secret", "/dbg", "/dbg/.dwz/one", "/bin/one"] {
            files = files.with(path, p.clone());
        }
        assert_eq!(names(&tables, &files).0, ["main p.c:10"], "{name}");
        let asked_for = files.asked.into_inner().unwrap();
        let by_name = asked_for.iter().filter(|path| {
            !path.starts_with("/dbg/.build-id")
                && !path.ends_with("p")
                && !path.ends_with("p.debug")
        });
        let by_name: Vec<_> = by_name.collect();
        assert!(
            by_name.iter().all(|path| Some(&***path) == asked.map(Path::new)),
            "{name}: {by_name:?}"
        );
        assert_eq!(by_name.is_empty(), asked.is_none(), "{name}: {by_name:?}");
    }
}

/// As Fedora's packages: no symbols, and a compressed file with the table of them.
fn with_small_table(built: &Built, compress: &[&str]) -> Option<Vec<u8>> {
    let made = built
        .tool("objcopy", &["-S", "--keep-symbol=main", "--keep-symbol=outer", "p.debug", "small"])
        && built.tool("xz", compress)
        && built.tool("objcopy", &["--add-section", ".gnu_debugdata=small.xz", "stripped", "mini"]);
    if !made {
        skip("needs xz and binutils");
    }
    made.then(|| built.file("mini"))
}

#[test]
fn a_stripped_file_is_named_by_the_small_table_in_it() {
    let Some(built) = built() else { return };
    let id = build_id(&built.file("p"));
    let tables = tables(ModuleKind::Elf, id, &[built.inside("main"), built.inside("outer")]);
    let stripped = Fake::default().with("/bin/p", built.file("stripped"));
    assert_eq!(names(&tables, &stripped).0, ["", ""]);
    for check in ["crc32", "crc64", "sha256", "none"] {
        let check = format!("--check={check}");
        let Some(mini) = with_small_table(&built, &["-k", "-f", &check, "small"]) else {
            return;
        };
        let files = Fake::default().with("/bin/p", mini.clone());
        assert_eq!(names(&tables, &files).0, ["main :0", "outer :0"], "{check}");
        // Damage gives names or none.
        let at = mini.windows(6).position(|w| w == b"\xfd7zXZ\0").unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..100 {
            let mut damaged = mini.clone();
            let place = at + next(&mut state) as usize % 600;
            damaged[place] = next(&mut state) as u8;
            names(&tables, &Fake::default().with("/bin/p", damaged));
        }
    }
}

#[test]
fn a_small_table_that_is_large_costs_its_names_alone() {
    let Some(built) = built() else { return };
    if with_small_table(&built, &["-k", "-f", "small"]).is_none() {
        return;
    }
    // The table and 200 MB of zeroes, which are 30 KB; the table, and a dictionary that is large.
    std::fs::copy(built.dir.path().join("small"), built.dir.path().join("long")).unwrap();
    let long = std::fs::File::options().write(true).open(built.dir.path().join("long"));
    long.unwrap().set_len(200 << 20).unwrap();
    assert!(built.tool("xz", &["-k", "-1", "long"]));
    assert!(built.tool("xz", &["-k", "-f", "--lzma2=dict=96MiB", "small"]));
    let id = build_id(&built.file("p"));
    let tables = tables(ModuleKind::Elf, id, &[built.inside("main")]);
    for bomb in ["long.xz", "small.xz"] {
        let section = format!(".gnu_debugdata={bomb}");
        assert!(built.tool("objcopy", &["--add-section", &section, "stripped", "bomb"]));
        let files = Fake::default().with("/bin/p", built.file("bomb"));
        assert_eq!(names(&tables, &files).0, [""], "{bomb}");
    }
}

#[test]
fn of_separate_debug_files_beyond_the_limit_only_symbols_are_read() {
    let Some(built) = built() else { return };
    let tables = tables(ModuleKind::Elf, build_id(&built.file("p")), &[built.inside("main")]);
    let debug = built.file("p.debug");
    let bytes = debug.len() as u64;
    let files = Fake::default().with("/bin/p", built.file("linked")).with("/bin/p.debug", debug);
    let tasks = tasks(&tables, &[0], Numbering::Addresses, &files);
    assert_eq!(costly(&tasks, bytes), []);
    let skip = costly(&tasks, bytes - 1);
    assert_eq!(skip, [(0, Phase::Lines)]);
    let found = Mutex::new(Vec::new());
    run(&tasks, 1, &skip, &|| false, &|event| {
        if let Event::Names(names) = event {
            found.lock().unwrap().extend(names);
        }
    });
    let found = found.into_inner().unwrap();
    let [names] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*names.calls[0].function, names.calls[0].line), ("main", 0));
}

/// Functions that no other file sees, inlined: g++ gives them no name for linkers.
const CPP: &str = r#"
#define INLINE __attribute__((always_inline)) inline
namespace outer {
namespace {
template <class T> struct Ring {
    T at;
    INLINE T take(T k) { volatile T x = at + k; return x * 2; }
    struct Inner {
        int q;
        INLINE int look(int k) { volatile int x = q + k; return x * 3; }
    };
};
INLINE int help(int k) { volatile int x = k; return x + 1; }
}
struct Open {
    int a;
    INLINE int get(int k) { volatile int x = a + k; return x; }
};
}
static INLINE int bare(int k) { volatile int x = k; return x - 1; }
int main(int c, char **) {
    struct Local {
        int w;
        INLINE int local(int k) { volatile int x = w ^ k; return x; }
    } local{c};
    outer::Ring<int> ring{c};
    outer::Ring<int>::Inner inner{c};
    outer::Open open{c};
    return ring.take(c) + inner.look(c) + outer::help(c) + open.get(c) + local.local(c) + bare(c);
}
"#;

#[test]
fn inlined_functions_of_cpp_have_their_classes_and_name_spaces() {
    use object::{Object, ObjectSymbol};
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.cpp"), CPP).unwrap();
    let built = Built { dir };
    if !built.tool("g++", &["-O2", "-g", "-Wl,--build-id", "-o", "p", "p.cpp"]) {
        return skip("needs g++");
    }
    let bytes = built.file("p");
    let file = object::File::parse(&*bytes).unwrap();
    let main = file.symbols().find(|s| s.name() == Ok("main")).unwrap();
    let addresses: Vec<u64> = (0..main.size()).map(|n| main.address() + n).collect();
    let tables = tables(ModuleKind::Elf, build_id(&bytes), &addresses);
    let frames: Vec<u32> = (0..addresses.len() as u32).collect();
    let files = Fake::default().with("/bin/p", bytes.clone());
    let tasks = tasks(&tables, &frames, Numbering::Addresses, &files);
    let found = Mutex::new(BTreeSet::new());
    run(&tasks, 1, &[], &|| false, &|event| {
        if let Event::Names(names) = event {
            let calls = names.into_iter().flat_map(|n| n.calls);
            found.lock().unwrap().extend(calls.map(|c| c.function));
        }
    });
    let found = found.into_inner().unwrap();
    let expected = [
        "_ZN5outer4Open3getEi",
        "bare",
        "main",
        "main::Local::local",
        "outer::(anonymous namespace)::Ring<int>::Inner::look",
        "outer::(anonymous namespace)::Ring<int>::take",
        "outer::(anonymous namespace)::help",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[test]
fn own_debug_information_is_unpacked_up_to_a_limit() {
    let Some(built) = built() else { return };
    let tables = tables(ModuleKind::Elf, build_id(&built.file("p")), &[built.inside("main")]);
    for (how, is_packed) in [("none", false), ("zlib", true), ("zlib-gnu", true)] {
        let how = format!("--compress-debug-sections={how}");
        assert!(built.tool("objcopy", &[&how, "p", "packed"]));
        let files = Fake::default().with("/bin/p", built.file("packed"));
        let tasks = tasks(&tables, &[0], Numbering::Addresses, &files);
        assert!(tasks[0].has_own_lines());
        assert_eq!(costly_to_unpack(&tasks, 64 << 20), [], "{how}");
        let skip = costly_to_unpack(&tasks, 0);
        let left_out: &[_] = if is_packed { &[(0, Phase::Lines)] } else { &[] };
        assert_eq!(skip, left_out, "{how}");
    }
}

#[test]
fn a_replaced_file_gives_no_names() {
    let Some(built) = built() else { return };
    let (p, main) = (built.file("p"), built.inside("main"));
    let replaced = tables(ModuleKind::Elf, vec![1, 2, 3], &[main]);
    assert_eq!(
        names(&replaced, &Fake::default().with("/bin/p", p.clone())),
        (vec![String::new()], vec![Why::Replaced])
    );
    assert_eq!(names(&replaced, &Fake::default()).1, [Why::Missing]);
    // The one that ran is at the same path of another mount name space.
    let here_and_there =
        Fake::default().with("/bin/p", built.file("p.c")).with("/bin/p", p.clone());
    let right = tables(ModuleKind::Elf, build_id(&p), &[main]);
    assert_eq!(names(&right, &here_and_there).0, ["main p.c:10"]);
}

#[test]
fn without_a_build_id_only_an_old_file_counts() {
    let Some(built) = built() else { return };
    assert!(built.tool("objcopy", &["--remove-section=.note.gnu.build-id", "p", "noid"]));
    let at = |changed_ns| Fake { changed_ns, ..Fake::default().with("/bin/p", built.file("noid")) };
    let tables = tables(ModuleKind::Elf, Vec::new(), &[built.inside("main")]);
    assert_eq!(names(&tables, &at(999)).0, ["main p.c:10"]);
    assert_eq!(names(&tables, &at(1000)), (vec![String::new()], vec![Why::Replaced]));
}

/// Go's linker writes a build-id that no segment loads: a recorder does not see it.
#[test]
fn a_build_id_that_is_not_loaded_counts_as_none() {
    let Some(built) = built() else { return };
    let mut go = built.file("p");
    let at = u64::from_le_bytes(go[32..40].try_into().unwrap()) as usize;
    let n = usize::from(u16::from_le_bytes(go[56..58].try_into().unwrap()));
    for header in go[at..at + 56 * n].chunks_exact_mut(56) {
        if header[..4] == 4u32.to_le_bytes() {
            header[..4].fill(0);
        }
    }
    assert_eq!(build_id(&go), build_id(&built.file("p")), "tools see it");
    let at = |changed_ns, bytes| Fake { changed_ns, ..Fake::default().with("/bin/p", bytes) };
    let tables = tables(ModuleKind::Elf, Vec::new(), &[built.inside("main")]);
    assert_eq!(names(&tables, &at(999, go.clone())).0, ["main p.c:10"]);
    assert_eq!(names(&tables, &at(1000, go)).1, [Why::Replaced]);
    // One whose id would have been seen is another file.
    assert_eq!(names(&tables, &at(999, built.file("p"))).1, [Why::Replaced]);
}

#[test]
fn a_symbol_without_a_size_names_what_follows_it() {
    let Some(built) = built() else { return };
    let p = built.file("p");
    let bare = built.inside("bare");
    let files = Fake::default().with("/bin/p", p.clone());
    let (names, _) =
        names(&tables(ModuleKind::Elf, build_id(&p), &[bare, bare + 2, 3, u64::MAX]), &files);
    assert!(names[..2].iter().all(|n| n.starts_with("bare ")), "{names:?}");
    assert_eq!(names[2..], ["", ""]);
}

/// objdump shows the same: `puts@plt`, and so on.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn stubs_of_other_files_functions_have_their_names() {
    use object::{Object, ObjectSection};
    let Some(built) = built() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **v) { if (n > 1) abort(); return puts(v[0]); }\n";
    std::fs::write(built.dir.path().join("calls.c"), source).unwrap();
    for option in ["-fcf-protection=none", "-fcf-protection=full", "-mbranch-protection=bti"] {
        // Those of the other machine are refused.
        if !built.tool("cc", &["-O2", "-Wl,-z,lazy", option, "-o", "calls", "calls.c"]) {
            continue;
        }
        assert!(built.tool("strip", &["calls"]));
        let calls = built.file("calls");
        let file = object::File::parse(&*calls).unwrap();
        let stubs = file.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".plt")));
        let at: Vec<u64> =
            stubs.flat_map(|s| (s.address()..s.address() + s.size()).step_by(4)).collect();
        let files = Fake::default().with("/bin/p", calls.clone());
        let (names, _) = names(&tables(ModuleKind::Elf, build_id(&calls), &at), &files);
        for name in ["puts@plt :0", "abort@plt :0"] {
            let n = names.iter().filter(|n| *n == name).count();
            assert!(n >= 4 && n % 4 == 0, "{option}: {names:?}");
        }
    }
}

/// A place in code is where it is called from, not what is called, and no loop.
#[test]
fn the_place_of_a_call_is_in_its_caller() {
    let call = |function: &str, line| Call { function: function.into(), file: String::new(), line };
    let place = |calls: &[Call]| place(calls).map(|c| (c.function.clone(), c.line));
    let called = call("GOMP_loop_dynamic_next", 0);
    let spins = call("a spin loop in prog", 0);
    for (line, inner) in
        [(21, vec![]), (21, vec![called.clone()]), (0, vec![spins, called.clone()])]
    {
        let calls = Vec::from_iter(inner.into_iter().chain([call("uneven", line)]));
        assert_eq!(place(&calls), Some(("uneven".into(), line)));
    }
    // Libgomp's own.
    assert_eq!(place(&[called]), Some(("GOMP_loop_dynamic_next".into(), 0)));
    assert_eq!(place(&[]), None);
}

/// The function that a call leads to stands inside of it: libgomp's may jump on, to one without a
/// name.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn a_call_of_openmps_names_what_it_calls() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let Some(built) = built() else { return };
    let source = "#include <stdio.h>\nint t;\n__attribute__((noinline)) void add(int n) {\n\
                  _Pragma(\"omp critical\")\nt += n; puts(\"\"); }\n\
                  int main(int n, char **v) { (void)v; add(n); return t; }\n";
    std::fs::write(built.dir.path().join("critical.c"), source).unwrap();
    for option in ["-fplt", "-fno-plt"] {
        let options = ["-O2", "-fopenmp", option, "-o", "critical", "critical.c"];
        if !built.tool("gcc", &options) {
            continue;
        }
        let file = built.file("critical");
        let read = object::File::parse(&*file).unwrap();
        let add = read.symbols().find(|s| s.name() == Ok("add")).expect("the function");
        let text = read.section_by_name(".text").expect("code");
        assert!((text.address()..text.address() + text.size()).contains(&add.address()));
        let at: Vec<u64> = (add.address()..add.address() + add.size()).collect();
        let files = Fake::default().with("/bin/p", file.clone());
        let (names, _) = names(&tables(ModuleKind::Elf, build_id(&file), &at), &files);
        for call in ["GOMP_critical_start", "GOMP_critical_end"] {
            let inside = format!("{call} :0 < add ");
            let n = names.iter().filter(|name| name.starts_with(&inside)).count();
            assert!(n <= 1, "{option}: {names:?}");
            // The last call of a function may be a jump.
            assert!(n == 1 || call.ends_with("end"), "{option}: {names:?}");
        }
        assert!(names.iter().all(|name| !name.starts_with("puts")), "{option}: {names:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_loop_that_waits_is_the_innermost_call_of_its_addresses() {
    let Some(built) = built() else { return };
    for name in ["p", "stripped"] {
        let p = built.file(name);
        let waits = built.inside("waits");
        let files = Fake::default().with("/bin/p", p.clone());
        let at = [waits, waits + 2, waits + 4, waits + 6];
        let (names, _) = names(&tables(ModuleKind::Elf, build_id(&p), &at), &files);
        let function = if name == "p" { " < waits " } else { "" };
        let expected = format!("a spin loop in p :0{function}");
        assert!(names[..3].iter().all(|n| n.starts_with(&expected)), "{names:?}");
        assert!(!names[3].contains("spin"), "{names:?}");
    }
}

#[test]
fn generated_code_and_the_kernel_are_named_by_their_lists() {
    let fake = || Fake {
        kernel: Some(b"10 T do_it\n20 T next\n".to_vec()),
        jit: Some(b"10 8 js\n".to_vec()),
        ..Fake::default()
    };
    assert_eq!(
        names(&tables(ModuleKind::Kernel, vec![], &[0x14, 0x2]), &fake()).0,
        ["do_it :0", ""]
    );
    assert_eq!(names(&tables(ModuleKind::Jit, vec![], &[0x14, 0x18]), &fake()).0, ["js :0", ""]);
    let hidden = Fake { kernel: Some(b"0 T do_it\n".to_vec()), ..Fake::default() };
    assert_eq!(names(&tables(ModuleKind::Kernel, vec![], &[0x14]), &hidden).1, [Why::KernelHidden]);
    assert_eq!(names(&tables(ModuleKind::Jit, vec![], &[1]), &hidden).1, [Why::NoJitMap]);
    assert_eq!(names(&tables(ModuleKind::Unreadable, vec![], &[1]), &hidden).1, [Why::Missing]);
    let mut nowhere = tables(ModuleKind::Elf, vec![], &[1]);
    nowhere.frames[0].module = NONE;
    assert_eq!(names(&nowhere, &hidden).1, [Why::NoModule]);
}

#[test]
fn what_has_failed_before_and_what_is_late_is_left_out() {
    let Some(built) = built() else { return };
    let p = built.file("p");
    let tables = tables(ModuleKind::Elf, build_id(&p), &[built.inside("main")]);
    let tasks = tasks(&tables, &[0], Numbering::Addresses, &Fake::default().with("/bin/p", p));
    let calls = |skip: &[(usize, Phase)], late: bool| {
        let last = Mutex::new(String::new());
        run(&tasks, 1, skip, &|| late, &|event| {
            if let Event::Names(names) = event
                && let Some(n) = names.last()
            {
                *last.lock().unwrap() = format!("{}:{}", n.calls[0].function, n.calls[0].line);
            }
        });
        last.into_inner().unwrap()
    };
    assert_eq!(calls(&[], false), "main:10");
    assert_eq!(calls(&[(0, Phase::Lines)], false), "main:0");
    assert_eq!(calls(&[(0, Phase::Symbols), (0, Phase::Lines)], false), "");
    assert_eq!(calls(&[], true), "");
}

/// xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_copies_of_a_real_file_never_panic() {
    let Some(built) = built() else { return };
    let whole = built.file("p");
    let id = build_id(&whole);
    let outer = built.inside("outer");
    let addresses: Vec<u64> = (0..40).map(|n| outer - 20 + n).chain([0, 1 << 40]).collect();
    let tables = tables(ModuleKind::Elf, id, &addresses);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut named = 0;
    for round in 0..400 {
        let mut damaged = whole.clone();
        match round % 3 {
            0 => damaged.truncate(next(&mut state) as usize % whole.len()),
            // A few bytes anywhere; many in the debug information, which follows the code.
            n => {
                for _ in 0..[0, 3, 300][n] {
                    let at = next(&mut state) as usize % whole.len();
                    damaged[at] = next(&mut state) as u8;
                }
            }
        }
        let (names, _) = names(&tables, &Fake::default().with("/bin/p", damaged));
        named += usize::from(names.iter().any(|n| !n.is_empty()));
    }
    assert!(named > 20, "{named} of the damaged files still had names");
}

#[test]
fn the_fuzzers_inputs_have_names_and_their_damaged_copies_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/symbols");
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut n_files = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        assert!(driver::symbols(&whole) > 0, "{}", path.display());
        n_files += 1;
        if path.extension().is_some_and(|e| e == "elf") {
            let code: Vec<u64> = (0x40_1000..0x40_1060).collect();
            let asked = tables(ModuleKind::Elf, build_id(&whole), &code);
            let (names, _) = names(&asked, &Fake::default().with("/bin/p", whole.clone()));
            let inlined = |n: &String| n == "in tiny.c:1 < out tiny.c:2";
            assert!(names.iter().any(inlined), "{}: {names:?}", path.display());
        }
        for _ in 0..60 {
            let mut damaged = whole.clone();
            for _ in 0..4 {
                let at = next(&mut state) as usize % whole.len();
                damaged[at] = next(&mut state) as u8;
            }
            driver::symbols(&damaged);
        }
    }
    assert!(n_files >= 9);
}

/// Linked at a fixed address, so that no place in the file is its own address.
#[test]
fn places_in_a_file_are_named_as_the_addresses_that_its_headers_give_them() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let Some(built) = built() else { return };
    if !built.tool("cc", &["-O2", "-g", "-no-pie", "-o", "p", "p.c"]) {
        return skip("no -no-pie");
    }
    let p = built.file("p");
    let file = object::File::parse(&*p).unwrap();
    let outer = file.symbol_by_name("outer").unwrap();
    let text = file.section_by_index(outer.section_index().unwrap());
    let text = text.unwrap();
    let place = outer.address() - text.address() + text.file_range().unwrap().0;
    assert_ne!(place, outer.address());
    let tables = tables(ModuleKind::Elf, build_id(&p), &[place, u64::MAX]);
    let named = |numbering, files: &Fake| {
        let tasks = tasks(&tables, &[0, 1], numbering, files);
        let found = Mutex::new(Vec::new());
        run(&tasks, 1, &[], &|| false, &|event| {
            if let Event::Names(names) = event {
                found.lock().unwrap().extend(names);
            }
        });
        let found = found.into_inner().unwrap().into_iter();
        let of = found.map(|n| (n.frame, n.calls.last().unwrap().function.clone()));
        of.collect::<HashMap<_, _>>()
    };
    let all = Fake::default().with("/bin/p", p.clone());
    let names = HashMap::from([(0, "outer".to_owned())]);
    assert_eq!(named(Numbering::Offsets, &all), names);
    assert_ne!(named(Numbering::Addresses, &all), names);
    // Debug information alone does not say where the file's pieces were.
    assert!(built.tool("objcopy", &["--only-keep-debug", "p", "p.debug"]));
    let id: String = build_id(&p).iter().map(|b| format!("{b:02x}")).collect();
    let by_id = format!("/d/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    let mut debug_only = Fake::default().with(&by_id, built.file("p.debug"));
    debug_only.debug_dirs = vec!["/d".into()];
    assert_eq!(named(Numbering::Offsets, &debug_only), HashMap::new());
}
