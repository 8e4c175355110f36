//! The lab with a worker and an LMbench that answer what the test wants: arithmetic, order of runs, failures. The fakes are
//! shell scripts that print their answers, so nothing is measured.
use kasuri_lab::Error;
use kasuri_lab::config::{Config, Kind};
use kasuri_lab::lmbench::Lmbench;
use kasuri_lab::ops;
use kasuri_lab::overhead::{self, Options, Overhead};
use kasuri_lab::worker::Worker;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn row(name: &str) -> usize {
    ops::ALL.iter().position(|op| op.name == name).expect("an operation")
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A worker that answers each request `OPERATION N ANNOTATED` by what `answer`, in shell, prints; it writes requests down.
fn worker(dir: &Path, answer: &str) -> (PathBuf, Vec<String>) {
    let path = dir.join("worker");
    let log = dir.join("requests");
    let text =
        format!("while read ix n a; do echo \"$ix $n $a\" >>{}; {answer}; done", log.display());
    script(&path, &text);
    (path, Vec::new())
}

fn options(dir: &Path, answer: &str, configs: Vec<Config>) -> Options {
    Options {
        operations: vec![row("null call"), row("stat")],
        configs,
        rounds: 5,
        batch_ns: 1e6,
        cpu: 0,
        settle: Duration::from_millis(10),
        worker: worker(dir, answer),
        scratch: dir.to_owned(),
        shm_dir: dir.to_owned(),
        lmbench: None,
    }
}

fn annotations() -> Config {
    Config::named("annotations", None).unwrap()
}

fn measure(options: &Options) -> Result<Overhead, Error> {
    overhead::measure(options, &mut |_, _| true)
}

#[test]
fn ratios_and_added_times_are_those_of_the_worker() {
    let dir = tempfile::tempdir().unwrap();
    // 100 ns for the first operation, 400 for the second; an annotated slice adds 50.
    let answer =
        format!("[ $ix = {} ] && ns=100 || ns=400; echo $((n * (ns + 50 * a)))", row("null call"));
    let result = measure(&options(dir.path(), &answer, vec![annotations()])).unwrap();
    assert_eq!((result.rounds, result.operations_of, result.operations.len()), (5, "kasuri", 2));
    for (row, ns) in result.operations.iter().zip([100.0, 400.0]) {
        let cell = row.cells[0].expect("measured");
        assert_eq!(row.untraced_ns.median, ns, "{}", row.name);
        assert_eq!(cell.added_ns.median, 50.0, "{}", row.name);
        assert!((cell.ratio.median - (ns + 50.0) / ns).abs() < 1e-9, "{cell:?}");
        assert!(cell.ratio.low <= cell.ratio.median && cell.ratio.median <= cell.ratio.high);
    }
    assert!(result.missing.is_empty(), "{:?}", result.missing);
}

/// A B A: the traced block stands between two untraced ones, of the same operations and as many repetitions.
#[test]
fn a_traced_block_stands_between_two_untraced_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), "echo $((n * 100))", vec![annotations()]);
    (options.rounds, options.operations) = (1, vec![row("null call")]);
    measure(&options).unwrap();
    let log = std::fs::read_to_string(dir.path().join("requests")).unwrap();
    let requests: Vec<&str> = log.lines().collect();
    let n = 10_000;
    let plain = format!("{} {n} 0", row("null call"));
    let annotated = format!("{} {n} 1", row("null call"));
    // Each is the shortest of four runs.
    let expected: Vec<&str> =
        [&plain, &annotated, &plain].iter().flat_map(|r| [r.as_str(); 4]).collect();
    assert_eq!(requests[requests.len() - 12..], expected);
}

#[test]
fn an_operation_that_cannot_be_run_here_costs_no_other_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let answer =
        format!("[ $ix = {} ] && echo 'error: no such thing' || echo $((n * 100))", row("stat"));
    let result = measure(&options(dir.path(), &answer, vec![annotations()])).unwrap();
    let names: Vec<&str> = result.operations.iter().map(|row| row.name).collect();
    assert_eq!(names, ["null call"]);
    assert!(
        result.missing[0].contains("stat: cannot be run here: no such thing"),
        "{:?}",
        result.missing
    );
    let error = measure(&options(dir.path(), "echo error: nothing works", vec![annotations()]));
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::Nothing(why) if why.contains("nothing works")), "{error}");
}

#[test]
fn what_was_measured_before_an_interrupt_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "echo $((n * 100))", vec![annotations()]);
    let after = |rounds: u32| {
        overhead::measure(&options, &mut |done, all| {
            assert_eq!(all, 5);
            done < rounds
        })
    };
    assert_eq!(after(2).unwrap().rounds, 2);
    assert!(matches!(after(0).unwrap_err(), Error::Interrupted));
}

#[test]
fn another_tracer_is_started_and_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let ended = dir.path().join("ended");
    let command = format!(
        "trap 'echo interrupted >>{}; exit' INT; while :; do sleep 0.01; done",
        ended.display()
    );
    let fails = Config::command("broken", "exit 3");
    let mut options =
        options(dir.path(), "echo $((n * 100))", vec![Config::command("mine", &command), fails]);
    (options.rounds, options.operations) = (2, vec![row("null call")]);
    options.settle = Duration::from_secs(1);
    let result = measure(&options).unwrap();
    let cells = &result.operations[0].cells;
    assert!(cells[0].is_some_and(|cell| cell.ratio.median == 1.0), "{cells:?}");
    assert_eq!(std::fs::read_to_string(ended).unwrap(), "interrupted\n".repeat(2));
    assert!(cells[1].is_none(), "one that ends by itself has traced nothing");
    assert!(result.missing.iter().any(|m| m.starts_with("broken: ")), "{:?}", result.missing);
}

#[test]
fn a_worker_that_dies_or_talks_nonsense_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let start = |answer: &str| {
        let (path, arguments) = worker(dir.path(), answer);
        Worker::start(&path, &arguments, None).unwrap()
    };
    let mut dies = start("exit");
    assert!(matches!(dies.run(0, 1, false).unwrap_err(), Error::Worker(_)));
    assert!(matches!(dies.run(0, 1, false).unwrap_err(), Error::Worker(_)), "and again");
    let error = start("echo forty").run(row("stat"), 1, false).unwrap_err();
    assert!(matches!(&error, Error::Operation("stat", why) if why == "forty"), "{error}");
    let error = Worker::start(Path::new("/no/such/worker"), &[], None).unwrap_err();
    assert!(matches!(error, Error::Start(..)), "{error}");
}

#[test]
fn repetitions_are_as_many_as_fill_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let calibrate = |ns_each: u64| {
        let (path, arguments) = worker(dir.path(), &format!("echo $((n * {ns_each}))"));
        Worker::start(&path, &arguments, None).unwrap().calibrate(row("stat"), 1e6).unwrap()
    };
    assert_eq!(calibrate(100), 10_000);
    assert_eq!(calibrate(10_000_000), 1, "one takes longer than that");
    assert_eq!(calibrate(0), 1 << 24, "of one that takes no time there is an end");
}

/// Of four runs the shortest; what subtracts its own overhead is run once, for the smallest of differences would be biased.
#[test]
fn a_run_that_others_disturbed_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let (path, arguments) = worker(dir.path(), "i=$((i + 1)); echo $((1000 - 100 * (i % 4)))");
    let mut worker = Worker::start(&path, &arguments, None).unwrap();
    assert_eq!(worker.shortest(row("stat"), 1, false).unwrap(), 700.0);
    let subtracts = ops::ALL.iter().position(|op| op.subtracts).expect("lat_ctx's");
    assert_eq!(worker.shortest(subtracts, 1, false).unwrap(), 900.0);
}

/// An LMbench whose programs say what the table maps them to.
fn lmbench(dir: &Path, programs: &[(&str, &str)]) -> Lmbench {
    let bin = dir.join("lmbench/bin/x86_64-linux-gnu");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, text) in programs {
        script(&bin.join(name), text);
    }
    Lmbench::open(&dir.join("lmbench"), 0, dir).unwrap()
}

#[test]
fn what_lmbench_prints_is_read_and_what_it_lacks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let syscall = "case $3 in null) echo 'Simple syscall: 0.1000 microseconds' >&2;; \
        read) echo 'Simple read: 0.3 microseconds' >&2;; write) echo 'Simple write: 0.5 microseconds' >&2;; \
        stat) [ -f $4 ] && echo 'Simple stat: 2 microseconds';; esac";
    let context = "printf '\"size=0k ovr=3.13\\n2 5.04\\n' >&2";
    let programs = [
        ("lat_syscall", syscall),
        ("lat_ctx", context),
        ("lat_pipe", "echo broken; exit 2"),
        ("lat_unix", "echo words"),
    ];
    let lmbench = lmbench(dir.path(), &programs);
    let ns = |name: &str| lmbench.run(row(name)).map(|ns| (ns * 10.0).round() / 10.0);
    assert_eq!(ns("null call").unwrap(), 100.0);
    assert_eq!(ns("null I/O").unwrap(), 400.0, "the mean of reading and writing");
    assert_eq!(ns("stat").unwrap(), 2000.0, "of a file that is there");
    assert_eq!(ns("2p/0K").unwrap(), 5040.0);
    let error = ns("pipe").unwrap_err().to_string();
    assert!(error.contains("exit status: 2") && error.contains("broken"), "{error}");
    let error = ns("AF_UNIX").unwrap_err().to_string();
    assert!(error.contains("printed no microseconds but \"words\""), "{error}");
    assert_eq!(lmbench.lacks(row("stat")), None);
    assert!(lmbench.lacks(row("mmap")).is_some_and(|why| why.contains("there is no lat_mmap in")));
    let error = Lmbench::open(&dir.path().join("lmbench/none"), 0, dir.path()).unwrap_err();
    assert!(matches!(error, Error::NoLmbench(_)), "{error}");
}

#[test]
fn operations_of_lmbench_take_the_place_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    lmbench(dir.path(), &[("lat_syscall", "echo 'Simple: 0.25 microseconds'")]);
    let mut options = options(
        dir.path(),
        "echo $((n * 100))",
        vec![annotations(), Config::command("mine", "sleep 60")],
    );
    options.operations = vec![row("null call"), row("pipe")];
    (options.lmbench, options.rounds) = (Some(dir.path().join("lmbench")), 1);
    let result = measure(&options).unwrap();
    assert_eq!((result.operations_of, result.operations.len()), ("lmbench", 1));
    let row = &result.operations[0];
    assert_eq!(row.untraced_ns.median, 250.0);
    assert!(row.cells[0].is_none(), "its programs annotate nothing");
    assert!(row.cells[1].is_some_and(|cell| cell.added_ns.median == 0.0));
    let said = result.missing.join("; ");
    assert!(
        said.contains("pipe: there is no lat_pipe") && said.contains("annotate nothing"),
        "{said}"
    );
}

#[test]
fn configurations_are_what_their_names_say() {
    let config = |name: &str| Config::named(name, None);
    assert!(config("present").unwrap().needs_tracefs() && config("all").unwrap().needs_tracefs());
    assert!(!config("annotations").unwrap().needs_tracefs());
    assert!(!Config::command("perf", "perf record").needs_tracefs());
    let Kind::Events(default) = config("default").unwrap().kind else {
        panic!("events");
    };
    let Kind::Events(syscalls) = config("syscalls").unwrap().kind else {
        panic!("events");
    };
    assert!(syscalls.starts_with(&default) && syscalls.len() > default.len());
    let error = config("sched/sched_switch").unwrap_err().to_string();
    assert!(error.contains("sched/sched_switch") && error.contains("annotations"), "{error}");
}
