//! What naming addresses costs, files included: N addresses spread over the code of an ELF file with debug information, as a
//! recording has them whose file nobody read yet. Prints seconds, and how many have functions, lines and inlined calls.
//! The same addresses go to standard output with `--addresses`, for addr2line(1) beside it.
//!
//!     cargo run --release -p kasuri-symbols --example naming -- N FILE [--addresses]
use kasuri_format::call_paths::{Frame, Module, ModuleKind, NONE, Tables};
use kasuri_symbols::{
    Bytes, Event, Files, Known, List, Numbering, Opened, Why, build_id, run, tasks,
};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const THREADS: usize = 2;

struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path, nth: usize) -> Option<Result<Opened, ()>> {
        let bytes = std::fs::read(path).ok().filter(|_| nth == 0)?;
        Some(Ok(Opened { bytes: Arc::new(bytes), changed_ns: 0 }))
    }
    fn debug_dirs(&self) -> &[PathBuf] {
        &[]
    }
    fn fetch(&self, _: &[u8]) -> Option<Bytes> {
        None
    }
    fn vdso(&self) -> Option<Bytes> {
        None
    }
    fn kernel(&self, _: &[(u64, u32)]) -> Result<List, Why> {
        Err(Why::KernelHidden)
    }
    fn jit_map(&self, _: i32) -> Result<Bytes, Why> {
        Err(Why::NoJitMap)
    }
    fn jit_dump(&self, _: i32, _: &Path) -> Option<Bytes> {
        None
    }
    fn began_ns(&self) -> u64 {
        u64::MAX
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "naming N FILE [--addresses]";
    let n: u64 = args.first().and_then(|n| n.parse().ok()).expect(usage);
    let path = args.get(1).expect(usage);
    let (start, len, build_id) = {
        let bytes = std::fs::read(path).expect(path);
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let text = file.section_by_name(".text").expect("code");
        (text.address(), text.size(), build_id(&bytes))
    };
    let addresses = (0..n).map(|ix| start + len / n * ix);
    if args.iter().any(|arg| arg == "--addresses") {
        addresses.for_each(|address| println!("{address:#x}"));
        return;
    }
    let tables = Tables {
        modules: vec![Module { kind: ModuleKind::Elf, path: path.clone(), build_id, pid: 1 }],
        frames: addresses.map(|address| Frame { module: 0, address }).collect(),
        ..Tables::default()
    };
    let began = Instant::now();
    let frames: Vec<u32> = (0..NONE).take(tables.frames.len()).collect();
    let tasks = tasks(&tables, &frames, Numbering::Addresses, &Disk);
    let known = Mutex::new(vec![(Known::Nothing, 0); frames.len()]);
    run(&tasks, THREADS, &[], &|| false, &|event| {
        if let Event::Names(names) = event {
            let mut known = known.lock().expect("no panic");
            for n in names {
                known[n.frame as usize] = (Known::of(&n.calls), n.calls.len());
            }
        }
    });
    let s = began.elapsed().as_secs_f64();
    let known = known.into_inner().expect("no panic");
    let count = |of: &dyn Fn(&(Known, usize)) -> bool| known.iter().filter(|k| of(k)).count();
    println!(
        "{n} addresses in {s:.3} s on {THREADS} threads: {} with a line, {} with a function only, {} with inlined calls",
        count(&|k| k.0 == Known::Line),
        count(&|k| k.0 == Known::Function),
        count(&|k| k.1 > 1)
    );
}
