//! Any bytes as a file of code with debug information, as the kernel's list of symbols, and as the map and the jitdump of a JIT compiler.
//! Shared by the fuzz target and `crates/symbols/tests/names.rs`.
use kasuri_format::call_paths::{Frame, Module, ModuleKind, Tables};
use kasuri_symbols::{
    Bytes, Event, Files, List, Numbering, Opened, Timed, Why, build_id, run, tasks,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The same bytes under every name.
struct Same(Bytes);

impl Files for Same {
    fn open(&self, _: &Path, nth: usize) -> Option<Result<Opened, ()>> {
        let bytes = self.0.clone();
        (nth == 0).then_some(Ok(Opened { bytes, changed_ns: 0 }))
    }
    fn debug_dirs(&self) -> &[PathBuf] {
        &[]
    }
    fn fetch(&self, _: &[u8]) -> Option<Bytes> {
        None
    }
    fn vdso(&self) -> Option<Bytes> {
        Some(self.0.clone())
    }
    fn kernel(&self, _: &[(u64, u32)]) -> Result<List, Why> {
        let bytes: &[u8] = (*self.0).as_ref();
        Ok(Box::new(std::io::Cursor::new(bytes.to_vec())))
    }
    fn jit_map(&self, _: i32) -> Result<Bytes, Why> {
        Ok(self.0.clone())
    }
    fn jit_dump(&self, _: i32, _: &Path) -> Option<Bytes> {
        Some(self.0.clone())
    }
    fn began_ns(&self) -> u64 {
        1
    }
}

/// Names addresses of all kinds by the bytes. Returns how many frames got names.
pub fn symbols(bytes: &[u8]) -> usize {
    let kinds = [ModuleKind::Elf, ModuleKind::Kernel, ModuleKind::Jit];
    let modules =
        kinds.map(|kind| Module { kind, path: "/p".to_owned(), build_id: build_id(bytes), pid: 1 });
    // Where linkers put the code of small programs, and the ends of the range.
    let steps = (0x1000..0x1400).chain(0x40_1000..0x40_1010);
    let addresses: Vec<u64> = steps.chain([0, 1, u64::MAX / 2, u64::MAX]).collect();
    let frames = (0..kinds.len() as u32).flat_map(|module| {
        let at = move |&address: &u64| Frame { module, address };
        addresses.iter().map(at).collect::<Vec<_>>()
    });
    let tables =
        Tables { modules: modules.to_vec(), frames: frames.collect(), ..Tables::default() };
    let wanted = kasuri_symbols::unnamed(&tables);
    let tasks = tasks(&tables, &wanted, Numbering::Addresses, &Same(Arc::new(bytes.to_vec())));
    let named = AtomicUsize::new(0);
    run(&tasks, 1, &[], &|| false, &|event| {
        let names = match event {
            Event::Names(names) => names,
            Event::Timed(timed) => {
                let in_order = |pair: &[Timed]| {
                    let [a, b] = pair else { return true };
                    a.names.frame != b.names.frame || a.from_ns <= b.from_ns
                };
                assert!(timed.windows(2).all(in_order));
                timed.into_iter().map(|t| t.names).collect()
            }
            _ => return,
        };
        assert!(names.iter().all(|n| (n.frame as usize) < tables.frames.len()));
        named.fetch_add(names.len(), Ordering::Relaxed);
    });
    named.into_inner()
}
