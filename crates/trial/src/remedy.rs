//! Remedies that an account makes plausible, each as an environment or words in front of the program.
//!
//! A rule looks at [`Facts`] and gives remedies with the reason. It may be wrong: each remedy is tried, and only what was measured is
//! claimed. So a rule asks two things only: can the remedy reach this program at all (the variable's name stands in one of its files),
//! and is there a loss, of [`WORTH`] of the capacity or more, that it could change? What cannot be known is no reason.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Share of the capacity below which a loss is not worth runs.
const WORTH: f64 = 0.02;
/// Page faults in a second of CPU time from which memory that is given back and taken again, or small pages, cost more than 1 %: a
/// fault takes 0.25 us to 1 us, with clearing its page.
const FAULTS: f64 = 20_000.0;
/// Faults from which larger pages may matter: 16 MiB of small ones.
const PAGES: f64 = 4096.0;
/// Preemptions in a second of CPU time from which longer turns may matter.
const PREEMPTIONS: f64 = 100.0;

/// Times in a second of CPU time that threads give their CPU up to wait, from which the way they wait costs more than 1 %: each is
/// about 5 us, with the waking.
const SWITCHES: f64 = 2000.0;

/// Names that are looked for in the program's files: variables that its runtimes read, functions that it needs from them.
pub const NAMES: [&str; 17] = [
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "OMP_PLACES",
    "KMP_BLOCKTIME",
    "RAYON_NUM_THREADS",
    "GOMAXPROCS",
    "GOGC",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "MALLOC_ARENA_MAX",
    "GLIBC_TUNABLES",
    LOOP_RUNTIME,
    LOOP_RUNTIME_NONMONOTONIC,
    MUTEX_LOCK,
];
/// What a program calls to lock. The C library, which defines it, does not count.
pub const MUTEX_LOCK: &str = "pthread_mutex_lock";
/// Parts of what gcc calls for a loop of `schedule(runtime)`.
const LOOP_RUNTIME: &str = "_loop_runtime";
const LOOP_RUNTIME_NONMONOTONIC: &str = "_loop_maybe_nonmonotonic_runtime";

/// Variables that hold a number of threads.
const THREADS: [&str; 5] = [
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "GOMAXPROCS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
];

/// What is known of the program, the machine, and the recorded run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// CPUs that it may use.
    pub cpus: Vec<usize>,
    /// CPUs of the machine that are on.
    pub online: Vec<usize>,
    /// Threads of its busiest process that wanted a tenth of a CPU or more.
    pub busy_threads: usize,
    /// Share of the capacity by class of the account.
    pub shares: BTreeMap<&'static str, f64>,
    /// CPU time of a run as it is, seconds.
    pub cpu_s: f64,
    /// Page faults of that run.
    pub faults: f64,
    /// Preemptions of that run.
    pub preemptions: f64,
    /// Times that a thread gave its CPU up to wait, in that run.
    pub switches: f64,
    /// Share of its samples on a CPU in functions that allocate memory; none without samples.
    pub allocating: Option<f64>,
    /// Share of its work in Go's collector of garbage; none without samples.
    pub collecting: Option<f64>,
    /// Of [`NAMES`]: those that stand in its files.
    pub names: BTreeSet<&'static str>,
    /// Whether it loads a C library, which a preloaded allocator can stand in for.
    pub is_dynamic: bool,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The library with other ways to wait for a mutex.
    pub mutexes: Option<PathBuf>,
    /// Nodes of memory.
    pub nodes: usize,
    /// Allocators on this machine: name, file.
    pub allocators: Vec<(&'static str, PathBuf)>,
    /// Whether a program may ask for huge pages and does not get them unasked.
    pub huge_pages_on_request: bool,
    /// Programs of util-linux and coreutils that are there: name, file.
    pub tools: BTreeMap<&'static str, PathBuf>,
    /// Whether a higher priority may be set.
    pub may_raise_priority: bool,
    /// The number that stands for its threads in its arguments, where the user marked it.
    pub marked_threads: Option<usize>,
}

/// Something to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// What it is called: what is typed in front of the program.
    pub name: String,
    /// Variables set; without a value: removed.
    pub env: Vec<(String, Option<String>)>,
    /// Words in front of the program.
    pub prefix: Vec<String>,
    /// The number of threads in place of the mark.
    pub threads: Option<usize>,
    /// Why it is plausible.
    pub why: String,
}

/// Of [`NAMES`]: what a runtime reads by the name of its file. Newer ones put the variables' names together from parts.
pub fn read_by(file: &str) -> &'static [&'static str] {
    if file.starts_with("libgomp") {
        &[
            "OMP_NUM_THREADS",
            "OMP_PROC_BIND",
            "OMP_PLACES",
            "OMP_WAIT_POLICY",
            "GOMP_SPINCOUNT",
            "GOMP_CPU_AFFINITY",
        ]
    } else if file.starts_with("libomp") || file.starts_with("libiomp") {
        &["OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"]
    } else {
        &[]
    }
}

type Rule = fn(&Facts) -> Vec<Remedy>;
const RULES: [Rule; 12] = [
    settings, threads, schedule, waiting, placement, mutexes, nodes, memory, allocators, collector,
    pages, priority,
];

/// The remedies that are plausible, each once.
pub fn plausible(facts: &Facts) -> Vec<Remedy> {
    let mut out: Vec<Remedy> = Vec::new();
    for remedy in RULES.iter().flat_map(|rule| rule(facts)) {
        // What is set already is the baseline.
        let is_new = remedy.env.iter().any(|(name, value)| facts.env.get(name) != value.as_ref());
        let changes = is_new || !remedy.prefix.is_empty() || remedy.threads.is_some();
        if changes && !out.iter().any(|other| other.name == remedy.name) {
            out.push(remedy);
        }
    }
    out
}

impl Facts {
    fn lost_to(&self, classes: &[&str]) -> f64 {
        classes.iter().filter_map(|class| self.shares.get(class)).sum()
    }

    fn reads(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn per_cpu_s(&self, n: f64) -> f64 {
        n / self.cpu_s.max(1e-3)
    }

    /// The variable with what is set in it already in front.
    fn added(&self, name: &str, value: &str) -> (String, Option<String>) {
        let value = match self.env.get(name).filter(|set| !set.is_empty()) {
            Some(set) => format!("{set}:{value}"),
            None => value.to_owned(),
        };
        (name.to_owned(), Some(value))
    }
}

fn set(name: &str, value: impl ToString, why: &str) -> Remedy {
    let value = value.to_string();
    Remedy {
        name: format!("{name}={value}"),
        env: vec![(name.to_owned(), Some(value))],
        why: why.to_owned(),
        ..Remedy::default()
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What somebody set for another program or machine.
fn settings(facts: &Facts) -> Vec<Remedy> {
    let is_setting = |name: &str| {
        ["OMP_", "GOMP_", "KMP_", "MALLOC_"].iter().any(|prefix| name.starts_with(prefix))
    };
    let known =
        facts.env.keys().filter(|name| facts.names.contains(name.as_str()) || is_setting(name));
    let runtime = facts.names.iter().any(|name| name.contains("OMP"));
    let reached = known.filter(|name| match name.contains("MP_") {
        true => runtime,
        false => facts.is_dynamic || facts.reads(name),
    });
    let remedy = |name: &String| Remedy {
        name: format!("env -u {name}"),
        env: vec![(name.clone(), None)],
        why: format!("{name}={} is set", facts.env[name]),
        ..Remedy::default()
    };
    // Many are a configuration that somebody thought about as a whole.
    reached.take(4).map(remedy).collect()
}

fn threads(facts: &Facts) -> Vec<Remedy> {
    let (cpus, busy) = (facts.cpus.len(), facts.busy_threads);
    let lost = facts.lost_to(&[
        "oversubscription",
        "load_imbalance",
        "waiting_for_own_threads",
        "scheduling_delay",
        "spinning",
        "lock_wait",
        "task_runtime",
        "throttled_by_cpu_limit",
    ]);
    let mut numbers = Vec::new();
    let mut why = String::new();
    if busy > cpus {
        // Whatever is lost: threads that spin in a loop of their own look like work.
        numbers.push(cpus);
        why = format!("{busy} busy threads share {cpus} CPUs");
    } else if busy > 1 && lost >= 0.1 {
        numbers.extend([cpus / 2, 1].into_iter().filter(|&n| n > 0 && n < busy));
        numbers.dedup();
        why = format!("{} lost while threads waited for each other", percent(lost));
    } else if busy < cpus && facts.lost_to(&["low_parallelism"]) >= 0.1 {
        let is_limited = |name: &str| {
            facts
                .env
                .get(name)
                .and_then(|value| value.parse().ok())
                .is_some_and(|n: usize| n < cpus)
        };
        if facts.marked_threads.is_some_and(|n| n < cpus)
            || THREADS.iter().any(|name| is_limited(name))
        {
            numbers.push(cpus);
            why = format!("{busy} busy threads on {cpus} CPUs");
        }
    }
    let mut out = Vec::new();
    for n in numbers {
        out.extend(THREADS.iter().filter(|name| facts.reads(name)).map(|name| set(name, n, &why)));
        if facts.marked_threads.is_some_and(|marked| marked != n) {
            out.push(Remedy {
                name: format!("{n} threads"),
                threads: Some(n),
                why: why.clone(),
                ..Remedy::default()
            });
        }
    }
    out
}

/// A loop of `schedule(runtime)` was left to the user to set, whatever it loses.
fn schedule(facts: &Facts) -> Vec<Remedy> {
    if !facts.reads(LOOP_RUNTIME) && !facts.reads(LOOP_RUNTIME_NONMONOTONIC) {
        return Vec::new();
    }
    let why = "it has loops of schedule(runtime)";
    ["static", "dynamic", "dynamic,16", "guided"].map(|how| set("OMP_SCHEDULE", how, why)).to_vec()
}

fn waiting(facts: &Facts) -> Vec<Remedy> {
    let lost = facts.lost_to(&[
        "spinning",
        "task_runtime",
        "load_imbalance",
        "oversubscription",
        "waiting_for_own_threads",
        "interference",
    ]);
    let mut out = Vec::new();
    if lost < WORTH || facts.busy_threads < 2 {
        return out;
    }
    let why = format!("{} lost in waits that spin or sleep", percent(lost));
    if facts.reads("OMP_WAIT_POLICY") {
        out.push(set("OMP_WAIT_POLICY", "passive", &why));
        if facts.busy_threads <= facts.cpus.len() {
            out.push(set("OMP_WAIT_POLICY", "active", &why));
        }
    }
    if facts.reads("KMP_BLOCKTIME") {
        out.push(set("KMP_BLOCKTIME", 0, &why));
    }
    out
}

fn placement(facts: &Facts) -> Vec<Remedy> {
    let mut out = Vec::new();
    let lost = facts.lost_to(&[
        "scheduling_delay",
        "oversubscription",
        "load_imbalance",
        "waiting_for_own_threads",
        "lock_wait",
        "interference",
    ]);
    let taskset = facts.tools.get("taskset").map(|path| path.display().to_string());
    let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let keep = |name: String, taskset: &str, cpus: &[usize], why: String| Remedy {
        name,
        prefix: vec![taskset.to_owned(), "-c".to_owned(), list(cpus)],
        why,
        ..Remedy::default()
    };
    if let Some(taskset) = &taskset {
        if facts.cpus.len() < facts.online.len() && facts.busy_threads > facts.cpus.len() {
            let why = format!("it may use {} of {} CPUs", facts.cpus.len(), facts.online.len());
            out.push(keep("all CPUs".to_owned(), taskset, &facts.online, why));
        }
        if facts.cpus.len() > 1 && facts.busy_threads > 1 && lost >= 0.1 {
            let why =
                format!("{} lost while threads waited: they share one CPU's caches", percent(lost));
            out.push(keep("one CPU".to_owned(), taskset, &facts.cpus[..1], why));
        }
    }
    if facts.reads("OMP_PROC_BIND") && facts.busy_threads > 1 && lost >= WORTH {
        let why = format!("{} lost while threads waited", percent(lost));
        out.extend(["spread", "false"].map(|how| set("OMP_PROC_BIND", how, &why)));
    }
    out
}

/// Threads that wait for a mutex spin first, or get it in order of arrival.
fn mutexes(facts: &Facts) -> Vec<Remedy> {
    let lost = facts.lost_to(&["lock_wait", "waiting_for_own_threads", "scheduling_delay"]);
    let switches = facts.per_cpu_s(facts.switches);
    let Some(library) = &facts.mutexes else {
        return Vec::new();
    };
    let may_help = facts.is_dynamic
        && facts.busy_threads > 1
        && facts.cpus.len() > 1
        && facts.reads(MUTEX_LOCK)
        && (lost >= WORTH || switches >= SWITCHES);
    let remedy = |(name, way): (&str, &str)| Remedy {
        name: name.to_owned(),
        env: vec![
            facts.added("LD_PRELOAD", &library.display().to_string()),
            ("KASURI_MUTEX".to_owned(), Some(way.to_owned())),
        ],
        why: match lost >= WORTH {
            true => format!("{} lost while threads waited for each other", percent(lost)),
            false => format!("{switches:.0} waits in a second of CPU time"),
        },
        ..Remedy::default()
    };
    let ways = [("mutexes spin first", "spin"), ("mutexes in order", "queue")];
    ways.map(remedy).into_iter().filter(|_| may_help).collect()
}

/// Where its memory lies, on machines with several nodes.
fn nodes(facts: &Facts) -> Vec<Remedy> {
    let (Some(numactl), true) = (facts.tools.get("numactl"), facts.nodes > 1) else {
        return Vec::new();
    };
    let remedy = |name: &str, words: &[&str]| Remedy {
        name: name.to_owned(),
        prefix: std::iter::once(numactl.display().to_string())
            .chain(words.iter().map(|word| (*word).to_owned()))
            .collect(),
        why: format!("{} nodes of memory", facts.nodes),
        ..Remedy::default()
    };
    let mut out = Vec::new();
    if facts.faults >= PAGES && facts.busy_threads > 1 {
        out.push(remedy("memory of all nodes", &["--interleave=all"]));
    }
    if facts.faults >= PAGES && facts.busy_threads <= facts.online.len() / facts.nodes {
        out.push(remedy("one node", &["--cpunodebind=0", "--membind=0"]));
    }
    out
}

/// Go's collector runs less often where it may leave more memory.
fn collector(facts: &Facts) -> Vec<Remedy> {
    let share = facts.collecting.unwrap_or(0.0);
    let may_help = facts.reads("GOGC") && share >= WORTH;
    let why = format!("{} of the work in the collector of garbage", percent(share));
    may_help.then(|| set("GOGC", 400, &why)).into_iter().collect()
}

/// What cannot be tried on this machine, and why.
pub fn untried(facts: &Facts) -> Vec<String> {
    let mut out = Vec::new();
    if facts.nodes <= 1 {
        out.push("NUMA policies: the machine has one node".to_owned());
    } else if !facts.tools.contains_key("numactl") {
        out.push("NUMA policies: numactl is not installed".to_owned());
    }
    if facts.mutexes.is_none() && facts.reads(MUTEX_LOCK) {
        out.push("other mutexes: libkasuri-mutex.so was not found".to_owned());
    }
    out
}

/// Memory that is given back and taken again.
fn memory(facts: &Facts) -> Vec<Remedy> {
    let mut out = Vec::new();
    let faults = facts.per_cpu_s(facts.faults);
    if facts.is_dynamic
        && facts.reads("GLIBC_TUNABLES")
        && faults >= FAULTS
        && facts.faults >= PAGES
    {
        out.push(Remedy {
            name: "malloc keeps memory".to_owned(),
            env: vec![facts.added(
                "GLIBC_TUNABLES",
                "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=67108864",
            )],
            why: format!("{faults:.0} page faults in a second of CPU time"),
            ..Remedy::default()
        });
    }
    out
}

fn allocators(facts: &Facts) -> Vec<Remedy> {
    let Some(share) = facts.allocating.filter(|&share| share >= WORTH && facts.is_dynamic) else {
        return Vec::new();
    };
    let why = format!("{} of its CPU time allocates memory", percent(share));
    let preload = |(name, path): &(&str, PathBuf)| Remedy {
        name: (*name).to_owned(),
        env: vec![facts.added("LD_PRELOAD", &path.display().to_string())],
        why: why.clone(),
        ..Remedy::default()
    };
    let mut out: Vec<Remedy> = facts.allocators.iter().map(preload).collect();
    if facts.reads("GLIBC_TUNABLES") {
        out.push(Remedy {
            name: "larger tcache".to_owned(),
            env: vec![facts.added("GLIBC_TUNABLES", "glibc.malloc.tcache_count=65535")],
            why: why.clone(),
            ..Remedy::default()
        });
    }
    if facts.reads("MALLOC_ARENA_MAX") && facts.busy_threads > 1 {
        out.push(set("MALLOC_ARENA_MAX", 1, &why));
        out.push(set("MALLOC_ARENA_MAX", 8 * facts.cpus.len(), &why));
    }
    out
}

fn pages(facts: &Facts) -> Vec<Remedy> {
    let mut out = Vec::new();
    if facts.huge_pages_on_request
        && facts.is_dynamic
        && facts.reads("GLIBC_TUNABLES")
        && facts.faults >= PAGES
    {
        out.push(Remedy {
            name: "huge pages".to_owned(),
            env: vec![facts.added("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")],
            why: format!("{:.0} MB of small pages", facts.faults * 4096.0 / 1e6),
            ..Remedy::default()
        });
    }
    out
}

fn priority(facts: &Facts) -> Vec<Remedy> {
    let mut out = Vec::new();
    let others = facts.lost_to(&["interference"]);
    let mut front = |tool: &str, name: &str, words: &[&str], why: String| {
        if let Some(path) = facts.tools.get(tool) {
            let mut prefix = vec![path.display().to_string()];
            prefix.extend(words.iter().map(|word| (*word).to_owned()));
            out.push(Remedy { name: name.to_owned(), prefix, why, ..Remedy::default() });
        }
    };
    let preemptions = facts.per_cpu_s(facts.preemptions);
    if preemptions >= PREEMPTIONS && facts.busy_threads > facts.cpus.len() {
        front(
            "chrt",
            "SCHED_BATCH",
            &["-b", "0"],
            format!("{preemptions:.0} preemptions in a second of CPU time"),
        );
    }
    if others >= WORTH && facts.may_raise_priority {
        front(
            "nice",
            "nice -n -10",
            &["-n", "-10"],
            format!("other programs had {} of the CPUs", percent(others)),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openmp() -> Facts {
        Facts {
            cpus: vec![0, 1],
            online: vec![0, 1],
            busy_threads: 2,
            names: [
                "OMP_NUM_THREADS",
                "OMP_PROC_BIND",
                "OMP_WAIT_POLICY",
                "GLIBC_TUNABLES",
                "MALLOC_ARENA_MAX",
            ]
            .into(),
            is_dynamic: true,
            cpu_s: 1.0,
            tools: [
                ("taskset", PathBuf::from("/bin/taskset")),
                ("chrt", "/bin/chrt".into()),
                ("nice", "/bin/nice".into()),
            ]
            .into(),
            ..Facts::default()
        }
    }

    fn names(facts: &Facts) -> Vec<String> {
        plausible(facts).into_iter().map(|remedy| remedy.name).collect()
    }

    #[test]
    fn a_program_that_loses_nothing_has_nothing_to_try() {
        let facts = Facts {
            shares: [("work", 0.99), ("load_imbalance", 0.01)].into(),
            allocating: Some(0.01),
            ..openmp()
        };
        assert_eq!(names(&facts), [] as [&str; 0]);
        assert_eq!(names(&Facts::default()), [] as [&str; 0]);
    }

    #[test]
    fn gos_collector_is_given_memory_where_it_takes_time() {
        let names_in = |reads: &'static str, collecting| {
            let facts = Facts { collecting, names: [reads].into(), ..Facts::default() };
            names(&facts)
        };
        assert_eq!(names_in("GOGC", Some(0.1)), ["GOGC=400"]);
        assert_eq!(names_in("GOGC", Some(0.01)), [] as [&str; 0]);
        assert_eq!(names_in("GOGC", None), [] as [&str; 0]);
        assert_eq!(names_in("MALLOC_ARENA_MAX", Some(0.1)), [] as [&str; 0]);
    }

    #[test]
    fn more_threads_than_cpus_and_settings_of_others() {
        let facts = Facts {
            busy_threads: 8,
            shares: [("oversubscription", 0.2)].into(),
            env: [
                ("OMP_NUM_THREADS".to_owned(), "8".to_owned()),
                ("PATH".to_owned(), "x".to_owned()),
            ]
            .into(),
            ..openmp()
        };
        let told = names(&facts);
        assert_eq!(told[..2], ["env -u OMP_NUM_THREADS", "OMP_NUM_THREADS=2"]);
        assert!(!told.iter().any(|name| name.contains("active")), "{told:?}");
        // Where the variable cannot reach the program, it is not tried.
        let other = Facts { names: BTreeSet::new(), ..facts };
        assert!(names(&other).iter().all(|name| !name.contains("OMP_")), "{:?}", names(&other));
    }

    #[test]
    fn what_is_set_already_is_no_remedy() {
        let facts = Facts {
            shares: [("spinning", 0.3)].into(),
            env: [("OMP_WAIT_POLICY".to_owned(), "passive".to_owned())].into(),
            ..openmp()
        };
        let told = names(&facts);
        assert!(
            !told.contains(&"OMP_WAIT_POLICY=passive".to_owned())
                && told.contains(&"env -u OMP_WAIT_POLICY".to_owned()),
            "{told:?}"
        );
    }

    #[test]
    fn a_schedule_is_tried_where_a_loop_reads_it() {
        let mut facts = openmp();
        assert!(!names(&facts).iter().any(|name| name.contains("SCHEDULE")));
        facts.names.insert(LOOP_RUNTIME_NONMONOTONIC);
        assert!(names(&facts).contains(&"OMP_SCHEDULE=dynamic".to_owned()));
    }

    #[test]
    fn memory_remedies_keep_what_is_set() {
        let facts = Facts {
            faults: 1e5,
            huge_pages_on_request: true,
            allocating: Some(0.3),
            allocators: vec![("jemalloc", "/lib/libjemalloc.so.2".into())],
            env: [
                ("GLIBC_TUNABLES".to_owned(), "glibc.rtld.nns=3".to_owned()),
                ("LD_PRELOAD".to_owned(), "/x.so".to_owned()),
            ]
            .into(),
            ..openmp()
        };
        let told = plausible(&facts);
        let of = |name: &str| {
            told.iter().find(|remedy| remedy.name == name).unwrap().env[0].1.clone().unwrap()
        };
        assert_eq!(of("huge pages"), "glibc.rtld.nns=3:glibc.malloc.hugetlb=1");
        assert_eq!(of("jemalloc"), "/x.so:/lib/libjemalloc.so.2");
        assert!(of("malloc keeps memory").contains("mmap_max=0"));
        let fixed = Facts { is_dynamic: false, ..facts };
        assert_eq!(names(&fixed), ["env -u GLIBC_TUNABLES"]);
    }

    #[test]
    fn other_mutexes_are_tried_where_threads_wait_for_theirs() {
        let mut facts = Facts {
            shares: [("waiting_for_own_threads", 0.3)].into(),
            mutexes: Some("/lib/libkasuri-mutex.so".into()),
            ..openmp()
        };
        assert!(!names(&facts).iter().any(|name| name.contains("mutex")));
        assert_eq!(untried(&facts).len(), 1);
        facts.names.insert(MUTEX_LOCK);
        facts.env.insert("LD_PRELOAD".into(), "/x.so".into());
        let told = plausible(&facts);
        let spin = told.iter().find(|remedy| remedy.name == "mutexes spin first").unwrap();
        let env = |at: usize| spin.env[at].1.as_deref().unwrap();
        assert_eq!((env(0), env(1)), ("/x.so:/lib/libkasuri-mutex.so", "spin"));
        facts.shares.clear();
        assert!(!names(&facts).contains(&"mutexes in order".to_owned()));
        facts.switches = 5000.0;
        assert!(names(&facts).contains(&"mutexes in order".to_owned()));
        facts.mutexes = None;
        assert!(!names(&facts).iter().any(|name| name.contains("mutex")));
        assert_eq!(untried(&facts).len(), 2, "{:?}", untried(&facts));
    }

    #[test]
    fn nodes_of_memory_are_tried_where_there_are_several() {
        let mut facts = Facts { faults: 1e5, nodes: 2, online: (0..8).collect(), ..openmp() };
        assert_eq!(untried(&facts), ["NUMA policies: numactl is not installed"]);
        facts.tools.insert("numactl", "/bin/numactl".into());
        let told = plausible(&facts);
        let of = |name: &str| told.iter().find(|remedy| remedy.name == name).unwrap();
        assert_eq!(of("one node").prefix, ["/bin/numactl", "--cpunodebind=0", "--membind=0"]);
        assert_eq!(of("memory of all nodes").prefix[1], "--interleave=all");
        facts.nodes = 1;
        assert!(!names(&facts).iter().any(|name| name.contains("node")));
        assert_eq!(untried(&facts), ["NUMA policies: the machine has one node"]);
    }

    #[test]
    fn priority_needs_the_right_to_it_and_others() {
        let mut facts = Facts { shares: [("interference", 0.2)].into(), ..openmp() };
        assert!(!names(&facts).contains(&"nice -n -10".to_owned()));
        facts.may_raise_priority = true;
        assert!(names(&facts).contains(&"nice -n -10".to_owned()));
    }
}
