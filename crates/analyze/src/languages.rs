//! What a recording of a program in Go, Java or JavaScript cannot show, and what to record it with.
//!
//! Goal: code without a name, and a lock that no thread waits for, are no riddles. Method: the runtimes are told by their modules and functions,
//! and each sentence is given only where samples lack what it speaks of.
use crate::demangled;
use kasuri_base::call_path::PYTHON;
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameKind, PathIx, SampleKind, Trace};

/// A sentence is given when samples that lack what it speaks of are at least one in so many of those that the program had on a CPU.
const PART: u32 = 20;

/// A language with a runtime of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Language {
    /// Go.
    Go,
    /// Java, and what else a Java machine runs.
    Java,
    /// JavaScript, and what else V8 runs.
    JavaScript,
    /// CPython.
    Python,
}

impl Language {
    const ALL: [Language; 4] =
        [Language::Go, Language::Java, Language::JavaScript, Language::Python];

    /// Its name in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Language::Go => "go",
            Language::Java => "java",
            Language::JavaScript => "javascript",
            Language::Python => "python",
        }
    }

    /// What a thread that waits does not tell, and who does.
    const fn missing_of_waits(self) -> &'static str {
        match self {
            Language::Go => {
                "for which lock or channel a goroutine waits: kill -QUIT ends a program in Go and prints it; of one with net/http/pprof, \
                 /debug/pprof/goroutine?debug=2 does, and it goes on"
            }
            Language::Java => {
                "names of functions in Java, and who has a monitor: jstack tells both of a running program"
            }
            Language::JavaScript => Language::JavaScript.missing(),
            Language::Python => "who has a lock of Python's, which does not keep that",
        }
    }

    /// What is not known, and who tells it; of names see [`names_by`].
    const fn missing(self) -> &'static str {
        match self {
            Language::Python => "",
            Language::Go => {
                "for which lock or channel a goroutine waits: a thread of Go's with no goroutine to run waits in Go's scheduler. Go's own \
                 runtime/trace and mutex profile tell it"
            }
            Language::Java => {
                "names of functions in Java: record with java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit \
                 -XX:+PreserveFramePointer"
            }
            Language::JavaScript => {
                "names of functions in JavaScript: record with node --perf-basic-prof --interpreted-frames-native-stack"
            }
        }
    }
}

/// Whether a thread of this name, in a Java machine, is one that the machine's library runs beside each program. The kernel keeps 15 bytes of it.
pub(crate) fn serves_java(name: &str) -> bool {
    const NAMES: [&str; 5] =
        ["Attach Listener", "Common-Cleaner", "Finalizer", "Reference Handl", "Signal Dispatch"];
    NAMES.contains(&name)
}

/// What threads that wait at these paths do not tell, and what does.
pub(crate) fn missing_of_waits(trace: &Trace, paths: &[PathIx]) -> Vec<String> {
    let f = &trace.frames;
    let text = |text| trace.strings.get(text);
    let mut found: Vec<Language> = Vec::new();
    for &path in paths {
        let has = |is_it: &dyn Fn(&str, &str) -> bool| {
            let frames = || trace.frames_of(path).map(|frame| frame.ix());
            frames().any(|ix| is_it(text(f.function[ix]), text(f.module[ix])))
        };
        let language = match tell(trace, path).machine {
            Some(machine) => Some(machine),
            None if has(&|_, module| module == PYTHON) => Some(Language::Python),
            None if has(&|function, _| function.starts_with("runtime.")) => Some(Language::Go),
            None => None,
        };
        found.extend(language.filter(|language| !found.contains(language)));
    }
    let mut missing: Vec<String> =
        found.into_iter().map(|language| language.missing_of_waits().to_owned()).collect();
    let of_rust = |path: &PathIx| {
        let mut names = trace.frames_of(*path).map(|frame| text(f.function[frame.ix()]));
        names.any(|name| demangled(name).contains("std::sys::sync::"))
    };
    if paths.iter().any(of_rust) {
        missing.push("who has a lock of Rust's std, which does not keep that".to_owned());
    }
    missing
}

/// Of what is missing, which names of functions, and the options that give them; none: no such names are.
pub fn names_by(missing: &[String]) -> Option<&str> {
    missing.iter().map(String::as_str).find(|text| text.starts_with("names of functions in "))
}

/// Of what is missing, for what goroutines wait; none: that is not asked.
pub fn goroutines_by(missing: &[String]) -> Option<&str> {
    missing
        .iter()
        .map(String::as_str)
        .find(|text| text.starts_with("for which lock or channel a goroutine"))
}

/// What a path tells.
#[derive(Clone, Copy, Default)]
struct Told {
    /// Code of a machine's own is in it: so the process is one.
    machine: Option<Language>,
    /// The innermost function has neither a name nor a file.
    is_nameless: bool,
    /// A thread of Go's looks for a goroutine.
    is_idle: bool,
}

/// What is `known` to be missing, and a sentence for each language whose functions or waits are not known.
pub(crate) fn missing(trace: &Trace, mut known: Vec<String>) -> Vec<String> {
    let s = &trace.samples;
    let of_program = |row: &usize| s.path[*row].is_some() && trace.is_target(s.thread[*row]);
    let rows = || (0..s.time.len()).filter(of_program);
    let process = |row: usize| trace.threads[s.thread[row].ix()].process;
    let (mut told, mut machines) = (QuickMap::default(), QuickMap::default());
    for row in rows() {
        let path = s.path[row];
        let told = told.entry(path).or_insert_with(|| tell(trace, path));
        if let Some(machine) = told.machine {
            machines.insert(process(row), machine);
        }
    }
    let (mut all, mut lacks) = (0u32, [0u32; Language::ALL.len()]);
    for row in rows() {
        // Code without a name runs; Go's idle threads wait.
        let (is_awake, told) = (s.kind[row] == SampleKind::OnCpu, &told[&s.path[row]]);
        all += u32::from(is_awake);
        let found = match (is_awake, told.is_nameless, told.is_idle) {
            (true, true, _) => machines.get(&process(row)).copied(),
            (false, _, true) => Some(Language::Go),
            _ => None,
        };
        if let Some(language) = found {
            lacks[language as usize] += 1;
        }
    }
    let is_much = |language: &Language| {
        let n = lacks[*language as usize];
        n > 0 && n.saturating_mul(PART) >= all
    };
    let found = Language::ALL.into_iter().filter(is_much);
    known.extend(found.map(|language| language.missing().to_owned()));
    known
}

fn tell(trace: &Trace, path: PathIx) -> Told {
    let f = &trace.frames;
    let is_kernel = |ix: &usize| f.kind[*ix] == FrameKind::Kernel;
    let user = || (trace.frames_of(path).map(|frame| frame.ix())).skip_while(is_kernel);
    let text = |text| trace.strings.get(text);
    let machine = |ix: usize| {
        let module = text(f.module[ix]);
        match module.rsplit('/').next().unwrap_or(module) {
            "libjvm.so" => Some(Language::Java),
            "node" => Some(Language::JavaScript),
            module if module.starts_with("libnode.so") => Some(Language::JavaScript),
            _ => None,
        }
    };
    let is_nameless = |ix| text(f.function[ix]).is_empty() && text(f.module[ix]).is_empty();
    Told {
        machine: user().find_map(machine),
        is_nameless: user().next().is_some_and(is_nameless),
        is_idle: user().any(|ix| text(f.function[ix]) == "runtime.findRunnable"),
    }
}
