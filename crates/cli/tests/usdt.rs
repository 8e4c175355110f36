//! Probes that authors put into programs and libraries: `record --usdt`, and `events --usdt` that lists them.
use crate::support;
use crate::support::{can_trace, kasuri, repository, run, said, scratch};
use kasuri_model::{ArgValue, SliceIx, Trace};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles a file of tests/usdt; none: this machine's operands have no macros there.
fn compiled(dir: &Path, source: &str, more: &[&str]) -> Option<PathBuf> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        support::skip("tests/usdt has no operands of this machine");
        return None;
    }
    let out = dir.join(Path::new(source).file_stem().unwrap());
    let status = Command::new("cc")
        .current_dir(repository().join("tests/usdt"))
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", source])
        .arg("-o")
        .arg(&out)
        .args(more)
        .args(["-pthread", "-ldl"])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{source} does not compile");
    Some(out)
}

const LIBRARY: [&str; 2] = ["-shared", "-fPIC"];

fn loaded(dir: &Path, recording: &str) -> Trace {
    let bytes = std::fs::read(dir.join(recording)).unwrap();
    let file = kasuri_import::File { name: recording, bytes: &bytes };
    kasuri_import::load(&[file], &Default::default()).expect("a sound recording")
}

/// Hits of the program by probe, and of all others together.
fn hits(dir: &Path, recording: &str) -> (Vec<(String, u64)>, u64) {
    let out = run(kasuri(dir).args(["stat", "--json", recording]));
    assert!(out.status.success(), "{}", said(&out));
    let stat: Value = serde_json::from_slice(&out.stdout).unwrap();
    let kinds = stat["tracing"]["events"].as_array().unwrap().iter();
    let mut others = 0;
    let mut own: Vec<(String, u64)> = kinds
        .filter_map(|kind| {
            let probe = kind["name"].as_str()?.strip_prefix("usdt/")?;
            let n = kind["program"].as_u64()?;
            others += kind["count"].as_u64()? - n;
            Some((probe.to_owned(), n))
        })
        .collect();
    own.sort();
    (own, others)
}

fn of(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    let own = names.iter().map(|(name, n)| ((*name).to_owned(), *n));
    own.collect()
}

/// Uprobes of a recorder's that are there now.
fn probes_left(recorder: u32) -> Vec<String> {
    use std::os::fd::AsRawFd;
    let tracefs = kasuri_record::tracefs::Tracefs::open().expect("tracefs");
    let file = format!("/proc/self/fd/{}/uprobe_events", tracefs.root().as_raw_fd());
    let text = std::fs::read_to_string(file).expect("a kernel with uprobes");
    let group = format!(":kasuri_{recorder}_");
    let ours = text.lines().filter(|line| line.contains(&group));
    ours.map(str::to_owned).collect()
}

fn text(trace: &Trace, value: ArgValue) -> String {
    match value {
        ArgValue::Str(text) => trace.strings.get(text).to_owned(),
        ArgValue::Int(n) => n.to_string(),
        ArgValue::Uint(n) => format!("{n}u"),
        ArgValue::Float(_) => panic!("no probe has one"),
    }
}

/// Rows of the arguments that `is_meant` selects: `name=value`, sorted.
fn args(trace: &Trace, is_meant: impl Fn(usize) -> bool) -> Vec<String> {
    let rows = (0..trace.args.name.len()).filter(|&row| is_meant(row));
    let mut out: Vec<String> = rows
        .map(|row| {
            let name = trace.strings.get(trace.args.name[row]);
            format!("{name}={}", text(trace, trace.args.value[row]))
        })
        .collect();
    out.sort();
    out
}

/// Two threads, 50 requests each, with two steps in each request.
#[test]
fn every_hit_is_counted_and_pairs_are_slices() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let out = run(kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri"])
        .args(["--usdt", "shop:request__*@2", "--usdt", "shop:st?p", "--"])
        .arg(&program)
        .args(["2", "50"]));
    assert!(out.status.success(), "{}", said(&out));
    // The semaphore was up from the first round on.
    assert_eq!(String::from_utf8_lossy(&out.stdout), "seen 100\n");
    let (own, others) = hits(dir.path(), "run.kasuri");
    let wanted = [("shop:request__done", 100), ("shop:request__start", 100), ("shop:step", 200)];
    assert_eq!((own, others), (of(&wanted), 0));
    let trace = loaded(dir.path(), "run.kasuri");
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    assert_eq!(trace.n_annotation_events, 0, "the program made none");
    let name = |ix| trace.strings.get(ix);
    let slices =
        (0..trace.slices.start.len()).filter(|&s| name(trace.slices.name[s]) == "shop:request");
    assert_eq!(slices.clone().count(), 100);
    assert!(slices.clone().all(|s| trace.slices.open[s] == 0));
    let instants = trace.instants.name.iter().filter(|&&n| name(n) == "shop:step");
    assert_eq!(instants.count(), 200);
    // Of each request: minus its number and "even" or "odd" at its start, ten times the number at its end; what is in a floating-point
    // register cannot be read.
    let of_slices = args(&trace, |row| trace.args.slice[row].is_some());
    let mut wanted: Vec<String> = (0..50)
        .flat_map(|i| {
            let word = if i % 2 == 0 { "even" } else { "odd" };
            [format!("arg1={}", -i), format!("arg2={word}"), format!("end_arg1={}u", i * 10)]
        })
        .flat_map(|text| [text.clone(), text])
        .collect();
    wanted.sort();
    assert_eq!(of_slices, wanted);
    let first = slices.min_by_key(|&s| trace.slices.start[s]).unwrap();
    let of_first = args(&trace, |row| trace.args.slice[row] == SliceIx(first as u32));
    assert_eq!(of_first, ["arg1=0", "arg2=even", "end_arg1=0u"]);
    // Of each step: its number, and a constant that is in the code.
    let of_steps = args(&trace, |row| trace.args.instant[row].is_some());
    let n = |wanted: &str| of_steps.iter().filter(|a| *a == wanted).count();
    assert_eq!([n("arg1=0u"), n("arg1=1u"), n("arg2=7")], [100, 100, 200]);
    let out = run(kasuri(dir.path()).args(["stat", "run.kasuri"]));
    let page = String::from_utf8_lossy(&out.stdout);
    assert!(page.contains("USDT: 400 hits, about "), "{page}");
    let out = run(kasuri(dir.path()).args(["stat", "--section", "usdt", "run.kasuri"]));
    let page = String::from_utf8_lossy(&out.stdout);
    assert!(page.contains("shop:request__start") && page.lines().all(|l| l.len() <= 80), "{page}");
}

/// A library that the program loads long after the recording began.
#[test]
fn a_library_that_is_loaded_later_is_probed_by_its_file() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "program.c", &[]);
    let plugin = compiled(dir.path(), "plugin.c", &LIBRARY);
    let (Some(program), Some(plugin)) = (program, plugin) else {
        return;
    };
    // A path that a line of uprobe_events could not hold.
    let odd = dir.path().join("a b");
    std::fs::create_dir(&odd).unwrap();
    let moved = odd.join("plug:in.so");
    std::fs::rename(plugin, &moved).unwrap();
    let record = |spec: &str| {
        run(kasuri(dir.path())
            .args(["record", "-q", "-o", "run.kasuri", "--usdt", spec, "--"])
            .arg(&program)
            .args(["1", "30"])
            .arg(&moved))
    };
    let out = record("plugin:*");
    assert_eq!(out.status.code(), Some(125), "{}", said(&out));
    assert!(said(&out).contains("FILE:PROVIDER:PROBE"), "{}", said(&out));
    let link = dir.path().join("plugin.so");
    std::os::unix::fs::symlink(&moved, &link).unwrap();
    let out = record(&format!("{}:plugin", link.display()));
    assert!(out.status.success(), "{}", said(&out));
    let wanted = [("plugin:loud", 30), ("plugin:step", 30)];
    assert_eq!(hits(dir.path(), "run.kasuri"), (of(&wanted), 0));
}

/// A program that runs already: its semaphore goes up while it is attached to, and down again.
#[test]
fn a_running_process_is_probed_and_left_as_it_was() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let mut victim = Command::new(&program)
        .args(["2", "25", "wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) =
        (victim.stdin.take().unwrap(), BufReader::new(victim.stdout.take().unwrap()));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let listed = run(kasuri(dir.path()).args(["events", "--usdt", &victim.id().to_string()]));
    let page = String::from_utf8_lossy(&listed.stdout);
    assert!(page.contains("shop:request__done"), "{}", said(&listed));
    let pid = victim.id().to_string();
    let json = run(kasuri(dir.path()).args(["events", "--json", "--usdt", &pid]));
    let json = serde_json::from_slice(&json.stdout).expect("JSON");
    let odd = kasuri_testkit::schema::violations("usdt", &json);
    assert_eq!(odd, Vec::<String>::new());
    let mut recorder = kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri", "--usdt", "shop", "-p"])
        .arg(victim.id().to_string())
        .spawn()
        .unwrap();
    support::wait_until("the probes are there", || probes_left(recorder.id()).len() == 3);
    // The kernel is on before the process is written down.
    let meta = dir.path().join("run.kasuri.d/meta.json");
    support::wait_until("the recording knows its process", || {
        let text = std::fs::read(&meta).unwrap_or_default();
        serde_json::from_slice::<Value>(&text).is_ok_and(|m| m["root_pids"][0] == victim.id())
    });
    input.write_all(b"go\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "seen 50\n");
    input.write_all(b"go\n").unwrap();
    victim.wait().unwrap();
    assert!(recorder.wait().unwrap().success());
    let wanted = [("shop:request__done", 50), ("shop:request__start", 50), ("shop:step", 100)];
    assert_eq!(hits(dir.path(), "run.kasuri"), (of(&wanted), 0));
    assert_eq!(probes_left(recorder.id()), Vec::<String>::new());
    // Nobody looks any more.
    let out = run(Command::new(&program).args(["1", "5"]));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "seen 0\n");
}

/// What a killed recorder left goes with the next recording, semaphores included.
#[test]
fn a_killed_recorder_leaves_nothing_after_the_next() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let mut command = kasuri(dir.path());
    command
        .args(["record", "-q", "-o", "dead.kasuri", "--usdt", "shop", "--"])
        .arg(&program)
        .args(["1", "1", "wait"])
        .stdin(Stdio::piped());
    let mut recorder = support::start(&mut command);
    let victim = support::program_of(&recorder, "program");
    support::wait_until("the probes are there", || probes_left(recorder.id()).len() == 3);
    support::signal(recorder.id(), rustix::process::Signal::KILL);
    recorder.wait().unwrap();
    support::signal(victim, rustix::process::Signal::KILL);
    let out = run(kasuri(dir.path()).args(["record", "-q", "-o", "next.kasuri", "--", "true"]));
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(probes_left(recorder.id()), Vec::<String>::new());
    let out = run(Command::new(&program).args(["1", "5"]));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "seen 0\n");
    let out = run(kasuri(dir.path()).args(["recover", "dead.kasuri.d"]));
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
fn probes_that_are_hit_too_often_are_switched_off_with_a_warning() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let record = |limit: &str| {
        let out = run(kasuri(dir.path())
            .args(["record", "-o", "run.kasuri", "--usdt", "shop:request*"])
            .args(["--usdt-limit", limit, "--"])
            .arg(&program)
            .args(["1", "400000"]));
        assert!(out.status.success(), "{}", said(&out));
        out
    };
    let off = "USDT: shop:request__done and shop:request__start switched off";
    let out = record("1000");
    assert!(said(&out).contains(off), "{}", said(&out));
    let (own, _) = hits(dir.path(), "run.kasuri");
    // Both ends went, early; how early is the machine's business.
    assert!(own.iter().all(|(_, n)| (1..400_000).contains(n)), "{own:?}");
    // Beginnings go first, so that none is left without its end.
    assert!(own[0].1 >= own[1].1, "{own:?}");
    let trace = loaded(dir.path(), "run.kasuri");
    let open = trace.slices.open.iter().filter(|&&open| open != 0).count();
    assert!(open <= 1, "{open} slices without an end");
    let stat = run(kasuri(dir.path()).args(["stat", "--section", "losses", "run.kasuri"]));
    let page = String::from_utf8_lossy(&stat.stdout).replace(['\n', ' '], "");
    assert!(page.contains(&off.replace(' ', "")), "{page}");
}

#[test]
fn what_cannot_be_probed_is_an_error_that_says_why() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let text = dir.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let text = format!("{}:a:b", text.display());
    for (spec, wanted) in [
        ("shop:nothing", "have no such probe; there are probes of "),
        ("shop:step@0", "numbers of arguments"),
        ("shop:st ep", "no PROVIDER:PROBE"),
        ("shop:step\n-:*", "no PROVIDER:PROBE"),
        ("/nowhere/at-all:shop", "No such file"),
        (&text, "the file has no such probe"),
    ] {
        let out = run(kasuri(dir.path())
            .args(["record", "-o", "run.kasuri", "--usdt", spec, "--"])
            .arg(&program)
            .args(["1", "1"]));
        assert_eq!(out.status.code(), Some(125), "{}", said(&out));
        let said = said(&out);
        assert!(said.contains("--usdt") && said.contains(wanted), "{said}");
    }
    let out = run(kasuri(dir.path()).args(["record", "-a", "--usdt", "shop", "--duration", "1s"]));
    assert!(said(&out).contains("name the file"), "{}", said(&out));
    assert!(!dir.path().join("run.kasuri").exists());
    let out = run(kasuri(dir.path()).args(["events", "--usdt", "/nowhere/at-all"]));
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
}

/// A stranger's files: more places than are probed, and a library that is cut after its notes were read.
#[test]
fn strangers_files_do_no_harm() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "program.c", &[]);
    let plugin = compiled(dir.path(), "plugin.c", &LIBRARY);
    let (Some(program), Some(plugin)) = (program, plugin) else {
        return;
    };
    let source = dir.path().join("many.c");
    let probe = repository().join("tests/usdt/probe.h");
    let body = "PROBE(many, one, 0, \"\", 0L, 0L);".repeat(300);
    let code = format!("#include \"{}\"\nint main(void) {{ {body} return 0; }}\n", probe.display());
    std::fs::write(&source, code).unwrap();
    let many = dir.path().join("many");
    let built = Command::new("cc").arg(&source).arg("-o").arg(&many).status();
    assert!(built.unwrap().success());
    let out = run(kasuri(dir.path())
        .args(["record", "-o", "many.kasuri", "--usdt", "many", "--"])
        .arg(&many));
    assert_eq!(out.status.code(), Some(125), "{}", said(&out));
    assert!(said(&out).contains("name fewer"), "{}", said(&out));
    let spec = format!("{}:plugin", plugin.display());
    let mut command = kasuri(dir.path());
    command
        .args(["record", "-q", "-o", "cut.kasuri", "--usdt", &spec, "--"])
        .arg(&program)
        .args(["1", "5", "wait"])
        .stdin(Stdio::piped());
    let mut recorder = support::start(&mut command);
    let recorder_id = recorder.id();
    support::wait_until("the probes are there", || probes_left(recorder_id).len() == 2);
    // What is a no-op no more, and then nothing at all.
    let n = std::fs::metadata(&plugin).unwrap().len();
    std::fs::write(&plugin, vec![0xff; n as usize]).unwrap();
    let other = Command::new(&program).args(["1", "1"]).arg(&plugin).output();
    assert_eq!(other.unwrap().status.code(), Some(4), "no library any more");
    std::fs::write(&plugin, "").unwrap();
    let mut input = recorder.stdin.take().unwrap();
    input.write_all(b"go\ngo\n").unwrap();
    assert!(recorder.wait().unwrap().success());
    assert_eq!(probes_left(recorder_id), Vec::<String>::new());
    let wanted = [("plugin:loud", 0), ("plugin:step", 0)];
    assert_eq!(hits(dir.path(), "cut.kasuri"), (of(&wanted), 0));
}

/// Another program that runs the same file, begun and ended while the recorded one waits.
#[test]
fn hits_of_other_programs_are_counted_apart() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(program) = compiled(dir.path(), "program.c", &[]) else {
        return;
    };
    let mut command = kasuri(dir.path());
    command
        .args(["record", "-q", "-o", "run.kasuri", "--usdt", "shop", "--"])
        .arg(&program)
        .args(["1", "10", "wait"])
        .stdin(Stdio::piped());
    let mut recorder = support::start(&mut command);
    support::program_of(&recorder, "program");
    let out = run(Command::new(&program).args(["1", "7"]));
    // The semaphore is up in all of them.
    assert_eq!(String::from_utf8_lossy(&out.stdout), "seen 7\n");
    let mut input = recorder.stdin.take().unwrap();
    input.write_all(b"go\ngo\n").unwrap();
    assert!(recorder.wait().unwrap().success());
    let wanted = [("shop:request__done", 10), ("shop:request__start", 10), ("shop:step", 20)];
    assert_eq!(hits(dir.path(), "run.kasuri"), (of(&wanted), 7 * 4));
}

/// Records 80 holds of a mutex by two threads, of 1 ms of CPU time each, as a C library with probes would tell of it; how many were waited
/// for. None where it cannot be recorded.
fn recorded_mutex() -> Option<i64> {
    if !can_trace() {
        return None;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "mutex.c", &[])?;
    let out = run(kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri", "--usdt", "libc:mutex_*", "--"])
        .arg(&program)
        .arg("40"));
    assert!(out.status.success(), "{}", said(&out));
    let wanted =
        [("libc:mutex_acquired", 80), ("libc:mutex_entry", 80), ("libc:mutex_release", 80)];
    assert_eq!(hits(dir.path(), "run.kasuri"), (of(&wanted), 0));
    let out = run(kasuri(dir.path()).args(["locks", "--json", "run.kasuri"]));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let lock = &answer["locks"][0];
    let told = (&lock["source"], &lock["holds"], &lock["threads"]);
    assert_eq!(told, (&"uprobe".into(), &80.into(), &2.into()), "{answer}");
    Some(lock["contended"].as_i64().unwrap())
}

#[test]
fn probes_of_mutexes_are_locks() {
    recorded_mutex();
}

/// The machine's own Python, where it has probes: names of functions are texts, and collections of garbage are slices.
#[test]
fn probes_of_python_have_their_texts() {
    if !can_trace() {
        return;
    }
    let python = "/usr/bin/python3";
    let dir = scratch();
    let listed = run(kasuri(dir.path()).args(["events", "--usdt", python, "--json"]));
    if !String::from_utf8_lossy(&listed.stdout).contains("\"gc__start\"") {
        return support::skip("this Python has no probes");
    }
    let code = "import gc\ngc.disable()\nfor i in range(7): gc.collect(1)\n";
    let out = run(kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri"])
        .args(["--usdt", "python:gc__*", "--usdt", "python:import*", "--"])
        .args([python, "-c", code]));
    assert!(out.status.success(), "{}", said(&out));
    let (own, _) = hits(dir.path(), "run.kasuri");
    let n = |probe: &str| own.iter().find(|(name, _)| name == probe).unwrap().1;
    assert_eq!(n("python:gc__start"), n("python:gc__done"));
    let trace = loaded(dir.path(), "run.kasuri");
    let generations = args(&trace, |row| {
        let slice = trace.args.slice[row];
        slice.is_some() && trace.strings.get(trace.slices.name[slice.ix()]) == "python:gc"
    });
    // The end of the interpreter collects the oldest generation.
    let asked = generations.iter().filter(|arg| *arg == "arg1=1").count();
    assert!(asked >= 7, "{generations:?}");
    let imported = args(&trace, |row| trace.args.slice[row].is_some());
    assert!(imported.iter().any(|arg| arg.starts_with("arg1=") && arg.len() > 8), "{imported:?}");
}

/// Claims about races that are won: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn a_mutex_with_probes_is_waited_for() {
        support::measure(|| assert!(recorded_mutex().is_none_or(|contended| contended > 0)));
    }
}
