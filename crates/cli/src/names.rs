//! Names for the code of other tools' recordings, from the files of this machine.
use kasuri_format::call_paths::ModuleKind;
use kasuri_import::Code;
use kasuri_record::names::{
    DEBUG_DIRS, Naming, Numbering, Request, kernel_build_id, kernel_start, unnamed,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Time for names when a file is opened.
const LIMIT: Duration = Duration::from_secs(4);

/// Bytes of the kernel's own code, at most. Modules lie farther off, each time elsewhere.
const KERNEL_BYTES: u64 = 64 << 20;

/// Names what can be named: code in files with the recorded build-id, and in the kernel that still runs.
pub fn name_code(code: &mut Code) {
    // Without address randomisation all kernels begin at the same place.
    let is_this_kernel = !code.kernel_build_id.is_empty()
        && code.kernel_build_id == kernel_build_id()
        && code.kernel_start.is_some()
        && code.kernel_start == kernel_start();
    let request = Request {
        wanted: wanted(code),
        numbering: Numbering::Offsets,
        tables: code.tables.clone(),
        // Numbers of processes in a file that may be anyone's say nothing of those that live here.
        pids: Vec::new(),
        // Not known: a file without a build-id may have changed since, and names nothing.
        began_ns: 0,
        ended_ns: None,
        is_this_boot: is_this_kernel,
        debug_dirs: DEBUG_DIRS.map(PathBuf::from).to_vec(),
        debug_bytes: u64::MAX,
        unpacked_bytes: u64::MAX,
        fetched: HashMap::new(),
        limit: LIMIT,
        patience: LIMIT / 2,
        n_threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    code.tables.names = Naming::start(request).finish().names;
}

/// Frames without names that may get some: not those of the kernel's modules.
fn wanted(code: &Code) -> Vec<u32> {
    let (frames, modules) = (&code.tables.frames, &code.tables.modules);
    let mut wanted = unnamed(&code.tables);
    wanted.retain(|&row| {
        let frame = frames[row as usize];
        let kind = modules.get(frame.module as usize).map(|module| module.kind);
        let into = code.kernel_start.and_then(|start| frame.address.checked_sub(start));
        kind != Some(ModuleKind::Kernel) || into.is_some_and(|into| into < KERNEL_BYTES)
    });
    wanted
}
