//! The helper dies, loops, or is led astray: its parent keeps what it told. And real files are found, or refused.
use super::*;
use kasuri_format::call_paths::{Frame, Module, ModuleKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// In the helper, for tests: what a file may make a library do.
pub(super) fn misbehave(request: &Request, module: u32) {
    let path = request.tables.modules.get(module as usize).map_or("", |m| &m.path);
    match path.strip_prefix("/misbehave/") {
        Some("die") => std::process::abort(),
        Some("loop") => loop {
            std::thread::sleep(Duration::from_millis(10));
        },
        Some("memory") => {
            let mut all = Vec::new();
            loop {
                all.push(Vec::<u8>::with_capacity(64 << 20));
            }
        }
        _ => {}
    }
}

fn request(modules: Vec<Module>, frames: &[(u32, u64)]) -> Request {
    let wanted = (0..frames.len() as u32).collect();
    let frames = frames.iter().map(|&(module, address)| Frame { module, address });
    Request {
        tables: Tables { modules, frames: frames.collect(), ..Tables::default() },
        wanted,
        numbering: Numbering::Addresses,
        pids: Vec::new(),
        began_ns: now_ns(),
        ended_ns: None,
        is_this_boot: true,
        debug_dirs: vec!["/usr/lib/debug".into()],
        debug_bytes: u64::MAX,
        unpacked_bytes: u64::MAX,
        fetched: HashMap::new(),
        limit: Duration::from_secs(60),
        patience: Duration::from_secs(30),
        n_threads: 2,
    }
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_nanos() as u64
}

fn elf(path: &Path, build_id: Vec<u8>) -> Module {
    Module { kind: ModuleKind::Elf, path: path.display().to_string(), build_id, pid: 0 }
}

fn jit(pid: i32) -> Module {
    Module { kind: ModuleKind::Jit, pid, ..Module::default() }
}

/// This test program: its path, its build-id, and the address of a function in it.
fn myself() -> (PathBuf, Vec<u8>, u64) {
    let exe = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = exe.display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&name)).unwrap();
    let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let id = kasuri_symbols::build_id(&std::fs::read(&exe).unwrap());
    (exe, id, myself as *const () as u64 + 1 - base)
}

fn functions(found: &Found) -> Vec<&str> {
    let outermost = |n: &'_ Names| n.calls.len() - 1;
    found.names.iter().map(|n| &*n.calls[outermost(n)].function).collect()
}

#[test]
fn a_function_of_this_program_is_named_with_its_line() {
    let (exe, id, address) = myself();
    let found = Naming::start(request(vec![elf(&exe, id)], &[(0, address)])).finish();
    assert!(functions(&found)[0].contains("myself"), "{found:?}");
    let call = found.names[0].calls.last().unwrap();
    assert!(call.file.ends_with("src/names/tests.rs") && call.line > 0, "{call:?}");
    assert_eq!((found.n_asked, found.unnamed.len()), (1, 0));
}

/// A small program: its path, its build-id, and an address in its `main`. None, said: there is no compiler.
fn small(dir: &Path) -> Option<(PathBuf, Vec<u8>, u64)> {
    let (source, program) = (dir.join("p.c"), dir.join("p"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-g", "-gz=zlib", "-Wl,--build-id", "-o"]);
    let built = cc.args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        kasuri_testkit::skip("needs cc");
        return None;
    }
    let bytes = std::fs::read(&program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    use object::{Object, ObjectSymbol};
    let main = file.symbols().find(|s| s.name() == Ok("main")).unwrap();
    let id = kasuri_symbols::build_id(&bytes);
    Some((program, id, main.address() + 1))
}

#[test]
fn debug_information_that_is_too_much_is_left_out_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let Some((program, id, address)) = small(dir.path()) else {
        return;
    };
    let module = elf(&program, id);
    for (unpacked_bytes, line, without_lines) in
        [(64 << 20, 1, vec![]), (0, 0, vec![program.display().to_string()])]
    {
        let request = Request { unpacked_bytes, ..request(vec![module.clone()], &[(0, address)]) };
        let found = Naming::start(request).finish();
        let call = &found.names[0].calls[0];
        assert_eq!((&*call.function, call.line), ("main", line));
        assert_eq!(found.without_lines, without_lines);
    }
}

#[test]
fn a_replaced_program_gives_no_names() {
    let (exe, mut id, address) = myself();
    id[0] ^= 1;
    let found = Naming::start(request(vec![elf(&exe, id)], &[(0, address)])).finish();
    assert_eq!(found.names, []);
    assert_eq!(found.unnamed, BTreeMap::from([(0, Why::Replaced)]));
}

#[test]
fn the_kernels_own_code_in_processes_is_named() {
    let bytes = crate::host::vdso().unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    use object::{Object, ObjectSymbol};
    let symbol =
        file.dynamic_symbols().find(|s| s.size() > 4 && s.kind() == object::SymbolKind::Text);
    let address = symbol.unwrap().address() + 2;
    let vdso =
        |build_id| Module { kind: ModuleKind::Vdso, path: "[vdso]".to_owned(), build_id, pid: 0 };
    let id = kasuri_symbols::build_id(&bytes);
    let found =
        Naming::start(request(vec![vdso(id), vdso(vec![1])], &[(0, address), (1, address)]))
            .finish();
    assert_eq!(found.names.len(), 1, "{found:?}");
    assert_eq!(found.unnamed, BTreeMap::from([(1, Why::Replaced)]));
}

#[test]
fn a_file_at_which_the_helper_dies_loops_or_eats_memory_costs_its_own_names_only() {
    // A small one is read at once, so that it is the looping one alone that patience ends for.
    let dir = tempfile::tempdir().unwrap();
    let Some((exe, id, address)) = small(dir.path()) else {
        return;
    };
    for how in ["die", "memory", "loop"] {
        let bad = elf(Path::new("/misbehave/").join(how).as_path(), vec![1]);
        // The bad one has more frames, so it comes first.
        let frames = [(0, address), (1, 1), (1, 2)];
        let mut request = request(vec![elf(&exe, id.clone()), bad], &frames);
        request.patience = Duration::from_secs(5);
        let found = Naming::start(request).finish();
        assert!(functions(&found)[0].contains("main"), "{how}: {found:?}");
        assert_eq!(
            found.unnamed,
            BTreeMap::from([(1, Why::NotReached), (2, Why::NotReached)]),
            "{how}"
        );
    }
}

#[test]
fn what_is_not_reached_in_time_is_counted() {
    let (exe, id, address) = myself();
    let mut request = request(vec![elf(&exe, id)], &[(0, address)]);
    request.limit = Duration::ZERO;
    let found = Naming::start(request).finish();
    assert_eq!((found.n_not_reached(), found.unnamed.len(), found.names.len()), (1, 1, 0));
}

/// A perf map that is removed again.
struct Map(PathBuf);

impl Map {
    fn of(pid: i32) -> Map {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        std::fs::write(&path, "1000 100 py::work:/x.py\n").unwrap();
        Map(path)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ended_process() -> i32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    child.wait().unwrap();
    pid
}

#[test]
fn perf_maps_of_living_and_ended_processes_are_read() {
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    for pid in [sleeper.id() as i32, ended_process()] {
        let mut request = request(vec![jit(pid)], &[(0, 0x1010), (0, 0x2000)]);
        request.began_ns -= 1_000_000_000;
        let none = Naming::start(request.clone()).finish();
        assert!(none.unnamed.values().all(|w| *w == Why::NoJitMap) && none.unnamed.len() == 2);
        let _map = Map::of(pid);
        let found = Naming::start(request.clone()).finish();
        assert_eq!(functions(&found), ["py::work"]);
        assert_eq!(found.unnamed, BTreeMap::from([(1, Why::NoSymbol)]));
        // A process that lives, and began after the recording, is not believed more than one that has ended.
        let before =
            crate::program::procs::start_ns(std::process::id() as i32).unwrap() - 100_000_000;
        let later = now_ns() + 1_000_000_000;
        for (ended_ns, began_ns, is_named) in [
            (Some(u64::MAX), later, pid == sleeper.id() as i32),
            (Some(before), later, false),
            (Some(before), request.began_ns, true),
        ] {
            let request = Request { ended_ns, began_ns, ..request.clone() };
            let names = Naming::start(request).finish().names;
            assert_eq!(names.len(), usize::from(is_named));
        }
        request.is_this_boot = false;
        assert_eq!(Naming::start(request).finish().names, [], "another boot's process");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn maps_that_another_user_may_have_put_there_are_refused() {
    let pid = ended_process();
    let refused = |began_ns: u64, why: &str| {
        let mut request = request(vec![jit(pid)], &[(0, 0x1010)]);
        request.began_ns = began_ns;
        assert_eq!(Naming::start(request).finish().names, [], "{why}");
    };
    let map = Map::of(pid);
    refused(now_ns() + 1_000_000_000, "older than the recording");
    let other = map.0.with_extension("other");
    std::fs::rename(&map.0, &other).unwrap();
    std::os::unix::fs::symlink(&other, &map.0).unwrap();
    refused(0, "a link");
    std::fs::remove_file(&map.0).unwrap();
    std::fs::hard_link(&other, &map.0).unwrap();
    refused(0, "a second name");
    std::fs::remove_file(&map.0).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &map.0,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    refused(0, "a FIFO, which must not block");
    std::fs::remove_file(&map.0).unwrap();
    std::fs::rename(&other, &map.0).unwrap();
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(&map.0, PermissionsExt::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(&map.0, Some(65534), None).unwrap();
        refused(0, "another user's");
    }
}

/// A jitdump in a directory of its own with one function at 0x1000, or two in turn.
fn jitdump(n: u64) -> (tempfile::TempDir, Module) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jit-1.dump");
    let mut bytes: Vec<u8> =
        [0x4a69_5444u32, 1, 40, 0, 0, 1, 0, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    for nth in 0..n {
        let head = [0u32, 58].iter().flat_map(|n| n.to_le_bytes());
        bytes.extend(head.chain((nth + 1).to_le_bytes()));
        let numbers = [1u64, 0x1000, 0x1000, 0x100, nth];
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([b'a' + nth as u8, 0]);
    }
    std::fs::write(&path, bytes).unwrap();
    let module = Module { path: path.display().to_string(), ..jit(ended_process()) };
    (dir, module)
}

#[test]
fn functions_of_a_jitdump_hold_from_their_times_on() {
    for n in [1, 2] {
        let (_dir, module) = jitdump(n);
        let mut request = request(vec![module], &[(0, 0x1010), (0, 0x2000)]);
        request.began_ns -= 1_000_000_000;
        let found = Naming::start(request).finish();
        let timed: Vec<(u32, u64, &str)> = (found.timed.iter())
            .map(|t| (t.names.frame, t.from_ns, &*t.names.calls[0].function))
            .collect();
        assert_eq!(found.unnamed.get(&1), Some(&Why::NoSymbol));
        if n == 1 {
            assert_eq!((functions(&found), timed), (vec!["a"], vec![]));
        } else {
            assert_eq!(timed, [(0, 0, "a"), (0, 2, "b")]);
            assert_eq!((functions(&found), found.unnamed[&0]), (vec![], Why::Reused));
        }
    }
}

#[test]
fn jitdumps_of_others_are_refused() {
    let (dir, module) = jitdump(1);
    let path = dir.path().join("jit-1.dump");
    let names = |began_ns: u64| {
        let mut request = request(vec![module.clone()], &[(0, 0x1010)]);
        request.began_ns = began_ns;
        Naming::start(request).finish().names.len()
    };
    assert_eq!(names(0), 1);
    assert_eq!(names(now_ns() + 1_000_000_000), 0, "older than the recording");
    let other = dir.path().join("other");
    std::fs::hard_link(&path, &other).unwrap();
    assert_eq!(names(0), 0, "a second name");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert_eq!(names(0), 0, "a link");
    if rustix::process::geteuid().is_root() {
        std::fs::rename(&other, &path).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert_eq!(names(0), 0, "another user's");
    }
}
