//! Programs that attack their recorder: it ends in time, takes little memory, writes only where it should, and keeps what the
//! program beside the hostile one annotated.
use crate::support::*;
use kasuri_format::container::{BlockKind, Recording};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than any of these takes on a loaded machine; a recorder that waits for a stranger takes for ever.
const PATIENCE: Duration = Duration::from_secs(200);
/// docs/security.md: what a session can make the recorder use.
const MAX_MEMORY_KIB: u64 = 1 << 20;

/// Waits for the recorder; says what it said and the most memory that it had. Kills it when it does not end.
fn ended(mut recorder: Running, what: &str) -> (Option<i32>, String, u64) {
    use std::io::Read;
    let begun = Instant::now();
    let (mut most, mut said) = (0, String::new());
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", recorder.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
        most = most.max(kib.unwrap_or(0));
        if let Some(status) = recorder.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = recorder.kill();
            panic!("{what}: the recorder does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stderr = recorder.stderr.take().map(|mut e| e.read_to_string(&mut said));
    assert!(stderr.is_none_or(|read| read.is_ok()));
    (status.code(), said, most)
}

/// Annotations of one process: kept, and lost by its own count.
fn balance_of(file: &Path, pid: u32) -> (u64, u64) {
    let bytes = std::fs::read(file).unwrap();
    let recording = Recording::parse(&bytes).unwrap();
    let (mut kept, mut lost) = (0, 0);
    for (ix, info) in recording.blocks().iter().enumerate() {
        if info.kind == BlockKind::Annotation {
            let block = recording.annotation_block(ix).unwrap();
            if block.pid == pid {
                kept += block.len() as u64;
                lost += block.losses.iter().map(|l| l.count).sum::<u64>();
            }
        }
    }
    let of_client = recording.client_losses().iter().filter(|l| l.pid == pid);
    lost += of_client.flat_map(|l| l.lost).sum::<u64>();
    (kept, lost)
}

/// Records the hostile program and, beside it, one that only annotates; `limits` is shell in front of the recorder.
fn beside(way: &str, seed: &str, limits: &str) -> String {
    let dir = scratch();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let programs = "EMITTER=$1; HOSTILE=$2; shift 2; $EMITTER 2 60000 counts 300 & echo $! >pid; \
        $HOSTILE \"$@\"; echo $? >hostile; wait";
    let recorder = Command::new("bash")
        .args(["-c", &format!("{limits} exec \"$@\""), "limited"])
        .args(["env", "--default-signal=HUP,INT,QUIT,TERM"])
        .arg(env!("CARGO_BIN_EXE_kasuri"))
        .args(["record", "--no-kernel", "-o", "run.kasuri", "--"])
        .args(["sh", "-c", programs, "sh"])
        .args([program("emitter"), program("hostile")])
        .args([way, seed])
        .current_dir(dir.path())
        .env("VICTIM", &victim)
        .env_remove("KASURI_SESSION")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn_guarded();
    let session = recorder.id();
    let what = format!("{way} {seed}");
    let (code, said, most) = ended(recorder, &what);
    assert_eq!(code, Some(0), "{what}: {said}");
    assert!(most < MAX_MEMORY_KIB, "{what}: {most} KiB");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("hostile").trim(), "0", "{what}: it came to its end");
    assert_eq!(read("victim"), "precious", "{what}");
    let pid = read("pid").trim().parse().unwrap();
    let (kept, lost) = balance_of(&dir.path().join("run.kasuri"), pid);
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(kept + lost, emitted, "{what}: kept {kept}, lost {lost}: {said}");
    assert_eq!(emitted, 120_000, "{what}: the recorder lived");
    let size = std::fs::metadata(dir.path().join("run.kasuri")).unwrap().len();
    assert!(size < 200 << 20, "{what}: {size} bytes");
    for command in ["stat", "info"] {
        let output = run(kasuri(dir.path()).args([command, "run.kasuri"]));
        assert!(output.status.success(), "{what}: {command}: {output:?}");
    }
    let mut there: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let expected = ["counts", "hostile", "pid", "run.kasuri", "victim"];
    assert_eq!(there, expected, "{what}: nothing else was written");
    // Directories under the names of files stay, and names with numbers too large, and the session with them: nothing is removed
    // that Kasuri does not make.
    for name in sessions_of(session) {
        assert!(matches!(way, "things" | "claims"), "{way}: {name} was left");
        std::fs::remove_dir_all(Path::new("/dev/shm").join(name)).unwrap();
    }
    said
}

/// CPU time of the recorder and the whole time of the recording, ns; the number of samples. Its memory is bounded.
fn taking_stacks_of(program_args: &[&str], stacks: &str) -> (u64, u64, usize) {
    let dir = scratch();
    let recorder = kasuri(dir.path())
        .args(["record", "-o", "run.kasuri", stacks, "--"])
        .arg(program("paths"))
        .args(program_args)
        .stderr(Stdio::piped())
        .spawn_guarded();
    let what = format!("{program_args:?} {stacks}");
    let (code, said, most) = ended(recorder, &what);
    assert_eq!(code, Some(0), "{what}: {said}");
    assert!(most < MAX_MEMORY_KIB, "{what}: {most} KiB");
    let bytes = std::fs::read(dir.path().join("run.kasuri")).unwrap();
    let recording = Recording::parse(&bytes).unwrap();
    let meta = recording.meta();
    let end = meta.end.expect("an end").monotonic_ns;
    let samples = recording.blocks().iter().enumerate();
    let samples = samples.filter(|(_, info)| info.kind == BlockKind::Samples);
    let n = samples.map(|(ix, _)| recording.sample_block(ix).unwrap().len());
    (meta.recorder_cpu_ns.expect("it is told"), end - meta.start.monotonic_ns, n.sum())
}

#[test]
fn rings_cut_at_any_time_end_neither_the_recorder_nor_another_program() {
    let said: Vec<String> = ["1", "2"].map(|seed| beside("cut", seed, "")).into();
    let told = said.iter().any(|text| text.contains("ring files that their program cut short"));
    assert!(told, "{said:?}");
}

#[test]
fn a_ring_exchanged_for_a_shorter_one_harms_nobody() {
    beside("exchange", "1", "");
}

#[test]
fn fifos_links_and_directories_in_place_of_files_are_passed_over() {
    beside("things", "1", "");
}

#[test]
fn absurd_claims_and_files_of_nothing_cost_nothing() {
    beside("claims", "1", "");
}

#[test]
fn garbage_in_a_ring_harms_nobody() {
    for seed in ["1", "2"] {
        beside("garbage", seed, "");
    }
}

#[test]
fn streams_without_end_are_bounded() {
    let said = beside("streams", "1", "");
    assert!(said.contains("clients with too many streams"), "{said}");
}

#[test]
fn more_clients_than_files_that_may_be_open_harm_nobody() {
    beside("crowd", "1500", "ulimit -n 128;");
}

#[test]
fn the_recorder_survives_its_control_page() {
    for way in ["cut-control", "garbage-in-control"] {
        let dir = scratch();
        let mut command = kasuri(dir.path());
        let command = command.args(["record", "--no-kernel", "-o", "run.kasuri", "--"]);
        let recorder = command.arg(program("hostile")).args([way, "1"]);
        let recorder = recorder.stderr(Stdio::piped()).spawn_guarded();
        let pid = recorder.id();
        let (code, said, most) = ended(recorder, way);
        assert_eq!(code, Some(0), "{way}: {said}");
        assert!(most < MAX_MEMORY_KIB, "{way}: {most} KiB");
        // It may have made up any number of losses, but nothing that was annotated.
        let bytes = std::fs::read(dir.path().join("run.kasuri")).unwrap();
        let recording = Recording::parse(&bytes).unwrap();
        let blocks = recording.blocks().iter();
        assert_eq!(blocks.filter(|b| b.kind == BlockKind::Annotation).count(), 0);
        assert!(sessions_of(pid).is_empty(), "{way}");
    }
}

#[test]
fn a_fifo_under_the_name_of_a_mapped_file_does_not_hold_up_the_recorder() {
    let dir = scratch();
    let mut hostile = Command::new(program("hostile"));
    let mut hostile = hostile.arg("deleted").arg(dir.path()).spawn_guarded();
    wait_until("it has put the FIFO there", || dir.path().join("ready").exists());
    let mut command = kasuri(dir.path());
    command.args(["record", "--no-kernel", "-o", "run.kasuri", "--duration", "50ms", "-p"]);
    let recorder = command.arg(hostile.id().to_string()).stderr(Stdio::piped());
    let (code, said, _) = ended(recorder.spawn_guarded(), "deleted");
    hostile.kill().unwrap();
    hostile.wait().unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("has no annotations"), "{said}");
}

/// A process whose memory does not answer, for `ms`, by userfaultfd or by FUSE; `None`: this machine allows none.
fn silent(ms: u64, way: &str) -> Option<Running> {
    use std::io::{BufRead, BufReader};
    let ms = ms.to_string();
    let mut command = Command::new(program("silent"));
    let command = command.args([&ms, way]).stdout(Stdio::piped());
    let mut process = command.spawn_guarded();
    let mut line = String::new();
    let said = BufReader::new(process.stdout.take()?).read_line(&mut line);
    assert!(said.is_ok());
    if line.trim() == "ready" {
        return Some(process);
    }
    let code = process.wait().ok().and_then(|status| status.code());
    assert_eq!(code, Some(77), "{line}");
    skip(&format!("{way} is not allowed here"));
    None
}

/// Starts a recorder of a process whose memory does not answer, and waits until it has given it up.
fn gives_up(dir: &Path, process: &Running, more: &[&str]) -> Running {
    let mut command = kasuri(dir);
    command.args(["record", "-o", "run.kasuri"]).args(more);
    command.args(["-p", &process.id().to_string()]);
    let recorder = start(&mut command);
    let meta = dir.join("run.kasuri.d/sampling.jsonl");
    wait_until("the memory that does not answer is given up", || {
        std::fs::read_to_string(&meta).is_ok_and(|rows| rows.contains("did not answer"))
    });
    recorder
}

#[test]
fn a_page_that_never_comes_does_not_keep_the_recorder() {
    if !can_trace() {
        return skip("no kernel events here");
    }
    // They live longer than the test has patience.
    let Some(process) = silent(1000 * (2 * PATIENCE.as_secs()), "userfaultfd") else {
        return;
    };
    for end in [Signal::TERM, Signal::INT] {
        let dir = scratch();
        let recorder = gives_up(dir.path(), &process, &[]);
        signal(recorder.id(), end);
        let (_, said, _) = ended(recorder, "a page that never comes");
        let info = run(kasuri(dir.path()).args(["info", "run.kasuri"]));
        let told = String::from_utf8_lossy(&info.stdout).into_owned();
        let what = format!("process {} (silent) did not answer", process.id());
        assert!(told.contains(&what), "{said}\n{told}");
        // It was read for half a second and more, for which threads of it may have waited.
        assert!(told.contains("held up    threads by the recorder, at most: "), "{told}");
        let info = run(kasuri(dir.path()).args(["info", "--json", "run.kasuri"]));
        let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
        let ns = |key: &str| info["held_up"]["memory"][key].as_u64().expect("ns");
        assert!(ns("longest_ns") >= 500_000_000 && ns("sum_ns") >= ns("longest_ns"), "{info}");
    }
    let dir = scratch();
    let recorder = gives_up(dir.path(), &process, &["--duration", "2s"]);
    let (_, said, _) = ended(recorder, "a page that never comes, and a duration");
    // A tenth of the time and more: readers of any answer are told.
    let stat = run(kasuri(dir.path()).args(["stat", "--section", "losses", "run.kasuri"]));
    let told =
        String::from_utf8_lossy(&stat.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("may have waited for the recorder"), "{said}\n{told}");
}

#[test]
fn a_program_whose_pages_never_come_is_recorded_to_its_end() {
    if !can_trace() {
        return skip("no kernel events here");
    }
    let Some(_) = silent(1, "userfaultfd") else {
        return;
    };
    // It goes on after the recorder has met the page.
    let dir = scratch();
    let mut command = kasuri(dir.path());
    command.args(["record", "-o", "run.kasuri", "--"]);
    let recorder = start(command.arg(program("silent")).arg("5000"));
    let (code, said, _) = ended(recorder, "a program whose pages never come");
    assert_eq!(code, Some(0), "{said}");
    assert!(facts(&dir.path().join("run.kasuri")).complete);
}

/// What keeps a recorder that waits for strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    /// Stacks on pages that do not answer, of a process that is attached to.
    Userfaultfd,
    Fuse,
    /// A process that is attached to and stopped, and one that annotates.
    StoppedProcess,
    StoppedProgram,
    /// Thousands of processes that annotate.
    Crowd,
    /// The disk has had no room for a while.
    FullDisk,
    /// A program that ignores the signal, which is passed on to it first.
    Ignored,
}

const SITUATIONS: [Situation; 7] = [
    Situation::Userfaultfd,
    Situation::Fuse,
    Situation::StoppedProcess,
    Situation::StoppedProgram,
    Situation::Crowd,
    Situation::FullDisk,
    Situation::Ignored,
];

/// Two threads of the emitter, for longer than any test.
fn emitter() -> [String; 5] {
    let name = program("emitter").display().to_string();
    [name, "2".into(), "2000000000".into(), "counts".into(), "1000".into()]
}

/// A recorder in the situation, and the process beside it. `None`: this machine does not allow the situation.
fn recorder_in(situation: Situation, dir: &Path) -> Option<(Running, Option<Running>)> {
    let mut command = kasuri(dir);
    command.args(["record", "-o", "run.kasuri"]);
    let recorder = match situation {
        Situation::Userfaultfd | Situation::Fuse => {
            let way = match situation {
                Situation::Fuse => "fuse",
                _ => "userfaultfd",
            };
            let process = silent(1000 * 2 * PATIENCE.as_secs(), way)?;
            return Some((gives_up(dir, &process, &[]), Some(process)));
        }
        Situation::StoppedProcess => {
            let process = Command::new("sleep").arg("1000").spawn_guarded();
            let recorder = start(command.args(["-p", &process.id().to_string()]));
            signal(process.id(), Signal::STOP);
            return Some((recorder, Some(process)));
        }
        Situation::StoppedProgram => {
            let recorder = start(command.arg("--").args(emitter()));
            let program = program_of(&recorder, "emitter");
            wait_for_ring(recorder.id(), program);
            signal(program, Signal::STOP);
            recorder
        }
        Situation::Crowd => {
            let program = program("hostile");
            let recorder = start(command.arg("--").arg(program).args(["crowd", "3000"]));
            let files = |name| std::fs::read_dir(Path::new("/dev/shm").join::<String>(name));
            wait_until("there are thousands", || {
                let session = sessions_of(recorder.id()).into_iter().next();
                session.is_some_and(|name| files(name).is_ok_and(|files| files.count() > 3000))
            });
            recorder
        }
        Situation::FullDisk => on_a_full_disk(dir)?,
        Situation::Ignored => {
            let script = "trap '' TERM; : >ready; while :; do sleep 1; done";
            let recorder = start(command.args(["--", "sh", "-c", script]));
            wait_until("it ignores", || dir.join("ready").exists());
            recorder
        }
    };
    Some((recorder, None))
}

fn on_a_full_disk(dir: &Path) -> Option<Running> {
    if !is_root() {
        return None;
    }
    let script = "mkdir full && mount -t tmpfs -o size=3m none full && cd full && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_kasuri")]);
    command.args(["record", "-o", "run.kasuri", "--"]).args(emitter());
    let recorder = start(command.current_dir(dir));
    // Once recording has stopped, the emitter emits nothing that it could count.
    let counts = format!("/proc/{}/cwd/counts", recorder.id());
    let mut before = 0;
    wait_until("there is no room", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = std::fs::metadata(&counts).map_or(0, |_| counted(Path::new(&counts)));
        std::mem::replace(&mut before, now) == now && now > 0
    });
    Some(recorder)
}

/// Asks a recorder to end as a user would, and says how long it took from the last request on.
fn ends_in(situation: Situation) -> Option<Duration> {
    let dir = scratch();
    let (mut recorder, beside) = recorder_in(situation, dir.path())?;
    signal(recorder.id(), Signal::TERM);
    let mut asked = Instant::now();
    if beside.is_none() {
        // The program decides about the first request, and requests within a second are one.
        std::thread::sleep(Duration::from_millis(1100));
        asked = Instant::now();
        // It may have ended with the program.
        let _ = try_signal(recorder.id(), Signal::TERM);
    }
    // What it said is not read: a program that goes on has the other end, too.
    let is_gone = || recorder.try_wait().unwrap().is_some();
    wait_until(&format!("the recorder ends: {situation:?}"), is_gone);
    Some(asked.elapsed())
}

#[test]
fn a_recorder_ends_when_it_is_told_to_in_each_situation() {
    if !can_trace() {
        return;
    }
    for situation in SITUATIONS {
        match ends_in(situation) {
            Some(took) => println!("{situation:?}: {took:?}"),
            None => println!("{situation:?}: not here"),
        }
    }
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// Programs with more threads, or more switches, than can be looked at.
    #[test]
    fn stacks_of_crowds_and_storms_cost_the_recorder_a_bounded_share() {
        measure(|| {
            for args in [&["crowd", "10000"][..], &["storm", "300000"]] {
                let (without, _, none) = taking_stacks_of(args, "--stacks=off");
                let (with, whole, n) = taking_stacks_of(args, "--stacks=on");
                assert!(none == 0 && n > 0, "{args:?}: {none} and {n} samples");
                // 20 % of a CPU for following them, 2,000 threads a second that are read, 0.5 % for those that begin to wait; names, once.
                // The kernel's own events cost as much without stacks, give or take what another program does meanwhile.
                let most = without + without / 2 + whole / 4 + 1_000_000_000;
                assert!(
                    with < most,
                    "{args:?}: {} ms with stacks, {} without, of {} ms",
                    with / 1_000_000,
                    without / 1_000_000,
                    whole / 1_000_000
                );
            }
        });
    }

    #[test]
    fn a_recorder_ends_within_a_second_of_its_signal() {
        measure(|| {
            // Of a crowd, thousands of files have to be removed, as fast as the disk does it.
            let timed = SITUATIONS.into_iter().filter(|s| *s != Situation::Crowd);
            for situation in timed {
                let Some(took) = ends_in(situation) else {
                    continue;
                };
                assert!(took < Duration::from_secs(1), "{situation:?}: {took:?}");
            }
        });
    }
}
