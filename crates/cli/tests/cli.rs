//! The command from outside: exit codes and messages, for bad input above all.
//!
//! Every command that reads must say what is wrong, where and what to do, of a missing, empty, foreign or truncated file, and
//! must not replace its input. Each test has a directory of its own.
use crate::sample;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn kasuri(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.args(args).stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

fn run(args: &[&str]) -> Output {
    kasuri(args).output().unwrap()
}

/// A directory of its own for each test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn file(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.into_os_string().into_string().unwrap()
}

fn recording(dir: &Path) -> String {
    file(dir, "run.kasuri", &sample::recording())
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_mistyped_option_of_record_is_not_taken_for_the_program() {
    let dir = scratch("mistyped");
    for args in [
        &["record", "--budgte", "2%", "--", "true"][..],
        &["record", "--quite", "true"],
        &["record", "-z", "true"],
    ] {
        let output = kasuri(args).current_dir(&dir).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains("unexpected argument"), "{message}");
        assert!(message.contains(args[1]), "{message}");
    }
    // From the program on everything is the program's, and after `--` a program may have any name.
    let record = ["record", "-q", "--no-kernel", "-o", "run.kasuri"];
    for program in [
        &["sh", "-c", "exit 7"][..],
        &["sh", "-c", "exit 7", "--budgte", "-o", "x"],
        &["--", "sh", "-c", "exit 7"],
        &["sh", "--", "-c"],
    ] {
        let args = [&record[..], program].concat();
        let output = kasuri(&args).current_dir(&dir).output().unwrap();
        // `sh -- -c` looks for a script of the name -c: the program got both words.
        let wanted = if program.last() == Some(&"-c") { 2 } else { 7 };
        assert_eq!(output.status.code(), Some(wanted), "{args:?}: {}", stderr(&output));
    }
    let output =
        kasuri(&[&record[..], &["--", "--budgte"]].concat()).current_dir(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    std::fs::remove_dir_all(dir).unwrap();
}

/// Runs every reader on `file`: each must exit with 1, print nothing on stdout and one line with the needed words.
fn every_reader_says(dir: &Path, file: &str, needed: &[&str]) {
    let out = dir.join("out");
    let out = out.to_str().unwrap();
    let readers: [&[&str]; 12] = [
        &["where", file],
        &["explain", file],
        &["explain", "--json", file],
        &["flame", file],
        &["compare", file, file],
        &["stat", file],
        &["stat", "--json", file],
        &["report", "-o", out, file],
        &["view", file],
        &["export", "--format", "perfetto", "-o", out, file],
        &["export", "--format", "csv", "-o", out, file],
        &["export", "--format", "parquet", "-o", out, file],
    ];
    for args in readers {
        let output = run(args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        assert!(message.starts_with(&format!("kasuri: error: {file}: ")), "{args:?}: {message}");
        for word in needed {
            assert!(message.contains(word), "{args:?}: {word} in {message}");
        }
        assert!(!Path::new(out).exists(), "{args:?}: nothing half-done is left");
    }
}

#[test]
fn cli_missing_file() {
    let dir = scratch("missing");
    every_reader_says(
        &dir,
        dir.join("no.kasuri").to_str().unwrap(),
        &["cannot open", "No such file"],
    );
}

#[test]
fn cli_empty_file() {
    let dir = scratch("empty");
    every_reader_says(&dir, &file(&dir, "empty.kasuri", b""), &["empty", "needed"]);
}

#[test]
fn cli_wrong_magic() {
    let dir = scratch("magic");
    let elf = file(&dir, "elf.kasuri", &[b"\x7fELF\x02\x01\x01", [0; 4096].as_slice()].concat());
    let meant = format!("did you mean `kasuri record -- {elf}`?");
    every_reader_says(&dir, &elf, &["begins like an ELF program", &meant]);
}

#[test]
fn cli_ctf_streams_without_metadata() {
    let dir = scratch("ctf-streams");
    let trace = dir.join("trace");
    std::fs::create_dir(&trace).unwrap();
    file(&trace, "channel0_0", &[0xc1, 0x1f, 0xfc, 0xc1, 0, 0]);
    let told = ["a stream of a CTF trace (channel0_0), but no `metadata`"];
    every_reader_says(&dir, trace.to_str().unwrap(), &told);
}

#[test]
fn cli_directory_names_the_way_on() {
    let dir = scratch("directory");
    let unfinished = dir.join("run.kasuri.d");
    std::fs::create_dir(&unfinished).unwrap();
    every_reader_says(&dir, unfinished.to_str().unwrap(), &["directory without a recording"]);
    file(&unfinished, "meta.json", b"{}");
    let name = unfinished.to_str().unwrap();
    every_reader_says(&dir, name, &["not finished", &format!("run `kasuri recover {name}`")]);
}

#[test]
fn cli_input_without_end_is_refused_by_its_beginning() {
    let dir = scratch("endless");
    every_reader_says(&dir, "/dev/zero", &["nothing but NUL bytes", "needed"]);
    let output =
        kasuri(&["stat", "-"]).stdin(std::fs::File::open("/dev/zero").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("stdin: "), "{}", stderr(&output));
}

#[test]
fn cli_directory_of_something_else_is_not_read() {
    let dir = scratch("elsewhere");
    let deep = dir.join("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    // More than any address space has room for, were it mapped.
    let huge = std::fs::File::create(deep.join("huge")).unwrap();
    huge.set_len(15 << 40).unwrap();
    every_reader_says(&dir, dir.to_str().unwrap(), &["directory without a recording"]);
}

#[test]
fn cli_truncated_anywhere_is_an_error_or_the_valid_prefix() {
    let dir = scratch("truncated");
    let whole = sample::recording();
    for length in (1..whole.len()).step_by(whole.len() / 12) {
        let cut = file(&dir, "cut.kasuri", &whole[..length]);
        every_reader_says(&dir, &cut, &["byte ", "found", "needed"]);
        let salvaged = run(&["stat", "--salvage", &cut]);
        let message = stderr(&salvaged);
        assert!(matches!(salvaged.status.code(), Some(0 | 1)), "{length}: {message}");
        assert!(!message.is_empty(), "{length}: what is wrong is said");
        let text = String::from_utf8_lossy(&salvaged.stdout);
        assert!(
            salvaged.status.code() == Some(1) || text.contains("file damaged at byte"),
            "{length}: {text}"
        );
    }
}

#[test]
fn cli_unwritable_output() {
    let dir = scratch("unwritable");
    let recording = recording(&dir);
    for command in [&["report"][..], &["export", "-fchrome-json"]] {
        let args = [command, &["-o", "/nowhere/at/all", &recording]].concat();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).starts_with("kasuri: error: /nowhere/at/all: cannot write: "),
            "{}",
            stderr(&output)
        );
    }
    let full = run(&["export", "-fchrome-json", "-o", "/dev/full", &recording]);
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(stderr(&full).contains("/dev/full: cannot write: No space left"), "{}", stderr(&full));
}

#[test]
fn cli_result_never_replaces_the_recording() {
    let dir = scratch("itself");
    let recording = recording(&dir);
    let output = run(&["export", "-fperfetto", "-o", &recording, &recording]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is the recording itself"), "{}", stderr(&output));
    assert_eq!(std::fs::read(&recording).unwrap(), sample::recording());
}

#[test]
fn cli_closed_stdout_is_quiet() {
    let dir = scratch("pipe");
    let recording = recording(&dir);
    for args in [
        &["stat", &recording][..],
        &["stat", "--json", &recording],
        &["export", "-fchrome-json", "-o", "-", &recording],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = kasuri(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn cli_wrong_usage_exits_with_2() {
    for args in [
        &["frobnicate"][..],
        &["stat"],
        &["stat", "--top", "x", "f"],
        &["export", "f"],
        &["stat", "--range", "5", "f"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).starts_with("kasuri: error: "), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn alone_it_names_three_commands() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let page = stderr(&output);
    for command in ["record", "stat", "report"] {
        assert!(page.contains(&format!("\n  kasuri {command} ")), "{page}");
    }
    assert!(page.lines().all(|line| line.len() <= 80), "{page}");
}

#[test]
fn the_version_says_what_is_there() {
    let said = |option| String::from_utf8(run(&[option]).stdout).unwrap();
    let short = said("-V");
    assert_eq!(short, format!("kasuri {}\n", env!("CARGO_PKG_VERSION")));
    let long = said("--version");
    assert!(long.starts_with(&short), "{long}");
    for fact in ["commit ", "built for ", "recordings  format ", "record --locks", "run --ito"] {
        assert!(long.contains(fact), "{fact}: {long}");
    }
}

#[test]
fn cli_range_that_selects_nothing() {
    let dir = scratch("range");
    let output = run(&["stat", "--range", "900s..", &recording(&dir)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--range selects nothing"), "{}", stderr(&output));
}

#[test]
fn cli_every_subcommand_has_help_with_an_example() {
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    let listed =
        help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let names: Vec<&str> =
        listed.filter_map(|l| l.split_whitespace().next()).filter(|n| *n != "help").collect();
    assert!(names.len() >= 4, "{help}");
    for name in names.into_iter().chain(["man"]) {
        let output = run(&[name, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Example"), "{name}: {text}");
        let as_user = text.contains(&format!("  kasuri {name}"));
        let as_root = text.contains(&format!("  sudo kasuri {name}"));
        assert!(as_user || as_root, "{name}: {text}");
    }
}

#[test]
fn cli_stat_shows_the_annotations() {
    let dir = scratch("stat");
    let recording = recording(&dir);
    let text = String::from_utf8(run(&["stat", &recording]).stdout).unwrap();
    assert!(text.starts_with("./sample\n"), "{text}");
    assert!(text.contains("solve"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
    assert!(text.contains(&format!("kasuri report {recording}")), "{text}");
    let json = run(&["stat", "--json", &recording]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["schema"], "kasuri.stat/1");
    assert_eq!(json["annotations"][0]["name"], "solve");
    assert_eq!(json["annotations"][0]["count"], sample::SLICES);
    assert_eq!(json["annotations"][0]["total_ns"], 500 * sample::SLICES);
}

#[test]
fn cli_report_and_exports_are_written_beside_the_recording() {
    let dir = scratch("beside");
    let recording = recording(&dir);
    for (args, name, start) in [
        (&["report"][..], "run.html", &b"<!DOCTYPE html>"[..]),
        (&["export", "-fperfetto"], "run.pftrace", b"\x0a"),
        (&["export", "-fchrome-json"], "run.json", b"{\"traceEvents\":["),
    ] {
        let output = run(&[args, &[recording.as_str()]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(&format!("wrote {}", dir.join(name).display())),
            "{}",
            stderr(&output)
        );
        let bytes = std::fs::read(dir.join(name)).unwrap();
        assert!(bytes[..start.len()].eq_ignore_ascii_case(start), "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "no temporary files: {left:?}");
}

#[test]
fn cli_reads_stdin() {
    let dir = scratch("stdin");
    let recording = std::fs::File::open(recording(&dir)).unwrap();
    let output = kasuri(&["stat", "--json", "-"]).stdin(recording).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn cli_manual_pages_and_completions() {
    let dir = scratch("man");
    assert_eq!(run(&["man", dir.to_str().unwrap()]).status.code(), Some(0));
    let page = std::fs::read_to_string(dir.join("kasuri-stat.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("jq"), "{page}");
    assert!(dir.join("kasuri.1").is_file());
    let script = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
    assert!(script.contains("--salvage"), "{script}");
}

#[test]
fn cli_compare_fails_where_a_gate_does() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/kasuri");
    let compare = |before: &str, after: &str, runs: usize, gates: &[&str]| {
        let mut args = vec!["compare", "--json", "--before"];
        args.extend(std::iter::repeat_n(before, runs));
        args.push("--after");
        args.extend(std::iter::repeat_n(after, runs));
        args.extend(gates.iter().flat_map(|gate| ["--fail-if", gate]));
        let output = kasuri(&args).current_dir(&golden).output().unwrap();
        let message = stderr(&output);
        (output.status.code(), message, !output.stdout.is_empty())
    };
    let (locks, mix) = ("locks.kasuri", "mix.kasuri");
    // Lock wait: none before, some after. The wall time falls by 18.8 %.
    let gates = ["wall > 5%", "lock_wait > 10%"];
    let (code, message, printed) = compare(locks, mix, 4, &gates);
    assert_eq!((code, printed), (Some(3), true), "{message}");
    assert!(message.contains("gate failed: lock_wait > 10% (from nothing, p 0.029)"), "{message}");
    assert!(!message.contains("wall"), "{message}");
    assert_eq!(compare(mix, locks, 4, &gates).0, Some(3), "the wall time rises by 23 %");
    assert_eq!(compare(mix, locks, 4, &["wall > 30%"]).0, Some(0));
    // A class that neither side has is no rise; a name that neither has is a mistake.
    assert_eq!(compare(mix, mix, 4, &["throttled_by_cpu_limit > 0%"]).0, Some(0));
    let (code, message, printed) = compare(mix, mix, 4, &["wal > 5%"]);
    assert_eq!((code, printed), (Some(1), false));
    assert!(message.contains("needed one of 'wall'"), "{message}");
    // Too few runs to fail are too few to pass.
    let (code, message, _) = compare(locks, mix, 3, &gates);
    assert_eq!(code, Some(1));
    assert!(message.contains("needed 4 or more of each side"), "{message}");
}

#[test]
fn cli_compare_shows_two_sides_and_wants_two() {
    let dir = scratch("compare");
    let one = recording(&dir);
    let output = run(&["compare", &one, &one]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for needed in [
        "as fast in this one pair of runs; whether that is more than noise is not known",
        "solve",
        "too few runs to tell",
    ] {
        assert!(text.contains(needed), "{needed}: {text}");
    }
    let json = run(&["compare", "--json", "--before", &one, &one, "--after", &one]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["before"]["runs"], 2);
    assert_eq!(json["speed_up"], 1.0);
    let alone = run(&["compare", &one]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(stderr(&alone).contains("needed two"), "{}", stderr(&alone));
    assert_eq!(run(&["compare", "--before", &one]).status.code(), Some(2));
}

/// Of a recording and of another tool's file: what is in it, and how to get what is not.
#[test]
fn info_describes_any_file() {
    let dir = scratch("info");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/perf_data");
    for (file, words) in [
        (recording(&dir), &["kasuri", "questions it can answer"][..]),
        (
            format!("{golden}/sched.data"),
            &[
                "perf.data, written by perf",
                "sched/sched_switch",
                "critical path",
                "perf record -a -e 'irq:*'",
            ][..],
        ),
        (format!("{golden}/task.data"), &["only this program's events were recorded"][..]),
    ] {
        let output = run(&["info", &file]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{file}");
        for word in words {
            assert!(text.contains(word), "{file}: no {word:?} in\n{text}");
        }
        let output = run(&["info", "--json", &file]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["schema"], "kasuri.info/1");
        assert!(json["answers"].as_array().unwrap().len() > 10);
    }
}

/// Not known is neither nothing nor all of it.
#[test]
fn locks_of_a_trace_without_switches_say_that_cpu_time_is_not_known() {
    let dir = scratch("locks-without-switches");
    let line = |us: u32, event: &str| format!("sh-7 [001] d..2. 12.{us:06}: {event}\n");
    let calls = [
        line(100, "contention_begin: 0xffff888 (flags=SPIN)"),
        line(300, "contention_end: 0xffff888 (ret=0)"),
        line(400, "sys_enter: NR 202 (1, 80, 0, 0, 0, 0)"),
        line(900, "sys_exit: NR 202 = 0"),
    ];
    let switch = "sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=0 next_prio=120";
    let cpu_time = |text: &str| {
        let path = file(&dir, "trace.txt", text.as_bytes());
        let output = run(&["locks", &path]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let row = |of: &str| text.lines().find(|line| line.contains(of)).unwrap().to_owned();
        assert!(row("spinlock").contains("200 us"), "{text}");
        let of_call = row("sys_202");
        assert!(of_call.contains("500 us"), "{of_call}");
        of_call.contains(" - ")
    };
    assert!(cpu_time(&calls.concat()));
    assert!(!cpu_time(&[calls.concat(), line(950, switch)].concat()));
}

/// A mark of another buffer stands 22 minutes before the rest.
#[test]
fn a_stray_mark_is_said_and_the_range_without_it_can_be_asked_for() {
    let mut text = String::from("  app-100 [000] ....   10.000000: tracing_mark_write: stray\n");
    for i in 0..200 {
        let (from, to) = match i % 2 {
            0 => ("app", "swapper/0"),
            _ => ("swapper/0", "app"),
        };
        let pid = |name: &str| if name == "app" { 100 } else { 0 };
        text += &format!(
            "  {from}-{} [000] d... 1330.{:06}: sched_switch: prev_comm={from} prev_pid={} prev_prio=120 prev_state=S ==> \
             next_comm={to} next_pid={} next_prio=120\n",
            pid(from),
            i * 500,
            pid(from),
            pid(to)
        );
    }
    let dir = scratch("stray");
    let trace = file(&dir, "trace.txt", text.as_bytes());
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&run(args).stdout).expect("JSON")
    };
    let info = json(&["info", "--json", &trace]);
    let missing = info["missing"].as_array().expect("a list");
    let said = missing.iter().filter_map(|line| line.as_str());
    let said: Vec<&str> =
        said.filter(|line| line.contains("stands 1320.000 s apart from the other 200")).collect();
    assert_eq!(said.len(), 1, "{missing:?}");
    let part = said[0].split_once("--range ").expect("a range").1;
    let part = part.split(' ').next().expect("a word");

    let whole = json(&["stat", "--json", &trace]);
    assert_eq!(whole["without_stray_ns"][0], 1_320_000_000_000_u64);
    assert_eq!(whole["without_stray_ns"][1], 1_320_099_500_000_u64);
    let screen = String::from_utf8(run(&["stat", &trace]).stdout).unwrap();
    assert!(screen.contains("all but a few time stamps stand within 99.5 ms"), "{screen}");
    let rest = json(&["stat", "--json", "--range", part, &trace]);
    assert_eq!(rest["wall_ns"], 99_500_000);
    assert_eq!(rest["without_stray_ns"], serde_json::Value::Null);
}

#[test]
fn what_is_no_process_number_says_what_is_needed() {
    for command in ["record", "where"] {
        for (word, needed) in [
            ("-3", "the number of a process, 1 or more"),
            ("0", "the number of a process, 1 or more"),
            ("python3", "`pgrep NAME` lists those of a program"),
        ] {
            let output = run(&[command, "-p", word]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(needed), "{command} -p {word}: {said}");
        }
    }
}

/// What these tests leave is below the folder of builds: `.cargo/config.toml` says where the command keeps its files.
#[test]
fn tests_keep_nothing_in_the_users_folders() {
    let builds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let builds = builds.canonicalize().unwrap();
    for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
        let place = std::env::var_os(name).expect(name);
        assert!(std::path::Path::new(&place).starts_with(&builds), "{name}");
    }
}
