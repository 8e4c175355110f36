//! What `kasuri try` knows of a program before it tries anything: from the account of one run, from the program's files, from the machine.
use anyhow::bail;
use kasuri_analyze::Summary;
use kasuri_analyze::call_paths::{RuntimeUse, allocates};
use kasuri_trial::process::{Run, Usage};
use kasuri_trial::remedy::{Facts, MUTEX_LOCK, NAMES, read_by};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most of a file that is looked through for names, bytes.
const LOOKED_THROUGH: u64 = 256 << 20;
/// Most files of a program that are looked through.
const FILES: usize = 200;

/// The command with `n` in place of the words `{}`.
///
/// # Errors
/// When a number is given and no word for it.
pub fn with_threads(command: &[OsString], n: Option<usize>) -> anyhow::Result<Vec<OsString>> {
    let Some(n) = n else {
        return Ok(command.to_vec());
    };
    let mut marks = 0;
    let word = |word: &OsString| match word.to_str() {
        Some(text) if text.contains("{}") => {
            marks += 1;
            text.replace("{}", &n.to_string()).into()
        }
        _ => word.clone(),
    };
    let command = command.iter().map(word).collect();
    if marks == 0 {
        bail!("--threads {n}: the program's arguments have no {{}} that stands for it");
    }
    Ok(command)
}

/// All of it. `look`: a run with its mapped files; `usage`: what a later run took.
pub fn gather(
    summary: Option<&Summary>,
    look: &Run,
    usage: &Usage,
    marked_threads: Option<usize>,
) -> Facts {
    let names = names(look);
    let file_name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let thp =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let cpus = kasuri_record::host::allowed_cpus();
    Facts {
        online: listed("/sys/devices/system/cpu/online").unwrap_or_else(|| cpus.clone()),
        cpus,
        busy_threads: summary.map_or(1, busy_threads),
        shares: summary.map(shares).unwrap_or_default(),
        cpu_s: usage.cpu_ns as f64 * 1e-9,
        faults: usage.faults as f64,
        preemptions: usage.preemptions as f64,
        switches: usage.switches as f64,
        allocating: summary.and_then(allocating),
        collecting: summary.and_then(collecting),
        names,
        is_dynamic: look
            .mapped
            .iter()
            .filter_map(file_name)
            .any(|name| is_libc(&name) && !name.starts_with("ld-linux")),
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        mutexes: kasuri_record::preloaded::mutex().ok(),
        nodes: listed("/sys/devices/system/node/online").map_or(1, |nodes| nodes.len()),
        allocators: installed_allocators(),
        huge_pages_on_request: thp.contains("[madvise]"),
        tools: ["taskset", "chrt", "nice", "numactl"]
            .into_iter()
            .filter_map(|name| Some((name, crate::programs::find(name)?)))
            .collect(),
        may_raise_priority: rustix::process::geteuid().is_root(),
        marked_threads,
    }
}

/// A list of the kernel's: `0-3,8`.
fn listed(file: &str) -> Option<Vec<usize>> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// The C library and its loader.
fn is_libc(name: &str) -> bool {
    name == "libc.so.6" || name.starts_with("libc-") || name.starts_with("ld-")
}

/// Share of the capacity by class.
fn shares(summary: &Summary) -> BTreeMap<&'static str, f64> {
    let capacity = summary.capacity_ns.max(1) as f64;
    summary.account.classes.iter().map(|class| (class.class, class.ns as f64 / capacity)).collect()
}

/// Threads of the busiest process that wanted a tenth of a CPU or more.
fn busy_threads(summary: &Summary) -> usize {
    let mut of: HashMap<i32, usize> = HashMap::new();
    for thread in summary.threads.iter().filter(|thread| thread.is_target) {
        if thread.on_cpu_ns.saturating_add(thread.runnable_ns) > summary.wall_ns / 10 {
            *of.entry(thread.pid).or_default() += 1;
        }
    }
    of.into_values().max().unwrap_or(1)
}

/// Share of the samples' time on a CPU in functions that allocate.
fn allocating(summary: &Summary) -> Option<f64> {
    let paths = summary.call_paths.as_ref()?;
    let (mut all, mut allocating) = (0, 0);
    for class in
        paths.classes.iter().filter(|class| ["work", "system_calls"].contains(&class.class))
    {
        for path in &class.paths.paths {
            let is_one = path.frames.first().is_some_and(|f| allocates(&f.function, &f.module));
            all += path.ns;
            allocating += if is_one { path.ns } else { 0 };
        }
        all += class.paths.other_ns;
    }
    (all > 0).then(|| allocating as f64 / all as f64)
}

/// Share of the work in Go's collector of garbage.
fn collecting(summary: &Summary) -> Option<f64> {
    let paths = summary.call_paths.as_ref()?;
    let is_gos = |row: &&RuntimeUse| (row.runtime, row.language) == ("collector", "go");
    let collects: i64 = paths.runtimes.iter().filter(is_gos).map(|row| row.work_ns).sum();
    let work = summary.account.classes.iter().find(|class| class.class == "work")?;
    Some(collects as f64 / work.ns.max(1) as f64)
}

/// Of [`NAMES`]: those that stand in the files that the program had mapped.
fn names(look: &Run) -> BTreeSet<&'static str> {
    let mut found: BTreeSet<&'static str> = BTreeSet::new();
    let pattern = regex::bytes::Regex::new(&NAMES.join("|")).expect("names are plain");
    for path in look.mapped.iter().take(FILES) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let by_name = read_by(&file);
        found.extend(by_name);
        // What a runtime defines is no sign that the program needs it.
        if !by_name.is_empty() {
            continue;
        }
        let bytes = read(path).unwrap_or_default();
        // The C library and its loader contain this name because they define it.
        let is_sign = |name: &&&str| **name != MUTEX_LOCK || !is_libc(&file);
        for matched in pattern.find_iter(&bytes) {
            let name = NAMES.iter().find(|name| name.as_bytes() == matched.as_bytes());
            found.extend(name.filter(is_sign));
        }
    }
    found
}

/// A regular file's beginning. Opened without blocking: under a mapped file's name there may be a FIFO by now.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(LOOKED_THROUGH).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn installed_allocators() -> Vec<(&'static str, PathBuf)> {
    const LIBRARIES: [(&str, &[&str]); 3] = [
        ("jemalloc", &["libjemalloc.so.2"]),
        ("mimalloc", &["libmimalloc.so.3", "libmimalloc.so.2"]),
        ("tcmalloc", &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]),
    ];
    let triple = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [triple.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    let found = |files: &[&str]| {
        let paths = files
            .iter()
            .flat_map(|file| folders.iter().map(move |folder| Path::new(folder).join(file)));
        paths.into_iter().find(|path| path.is_file())
    };
    LIBRARIES.iter().filter_map(|(name, files)| Some((*name, found(files)?))).collect()
}
