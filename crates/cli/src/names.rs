//! Names for the code of other tools' recordings, from the files of this machine.
use kasuri_import::Code;
use kasuri_record::names::{DEBUG_DIRS, Naming, Request, kernel_start, offsets_to_addresses};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Time for names when a file is opened.
const LIMIT: Duration = Duration::from_secs(4);

/// Names what can be named: code in files with the recorded build-id, and in the kernel that still runs.
pub fn name_code(code: &mut Code) {
    offsets_to_addresses(&mut code.tables);
    let is_this_boot = code.kernel_start.is_some() && code.kernel_start == kernel_start();
    let request = Request {
        wanted: kasuri_record::names::unnamed(&code.tables),
        tables: code.tables.clone(),
        // Numbers of processes in a file that may be anyone's say nothing of those that live here.
        pids: Vec::new(),
        // Not known: a file without a build-id may have changed since, and names nothing.
        began_ns: 0,
        is_this_boot,
        debug_dirs: DEBUG_DIRS.map(PathBuf::from).to_vec(),
        debug_bytes: u64::MAX,
        fetched: HashMap::new(),
        limit: LIMIT,
        patience: LIMIT / 2,
        n_threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    code.tables.names = Naming::start(request).finish().names;
}
