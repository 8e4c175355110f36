//! Full disks, full shared memory, floods of events: the program is unharmed, and every event that is missing is counted.
//!
//! Small file systems are mounted in a mount name space of the test's own (`unshare -m`); without the right to do that these
//! tests are skipped.
use crate::support::*;
use kasuri_format::container::Recording;
use kasuri_testkit::{Need, skip_for};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script in a mount namespace of its own; `None`: not allowed here.
fn in_namespace(dir: &Path, script: &str) -> Option<Output> {
    if !is_root() {
        return None;
    }
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|s| s.success()) {
        skip("unshare -m is not allowed");
        return None;
    }
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .current_dir(dir)
        .env("KASURI", env!("CARGO_BIN_EXE_kasuri"))
        .env("EMITTER", program("emitter"))
        .env("PINGPONG", program("pingpong"))
        .output();
    Some(output.expect("unshare runs"))
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let dir = scratch();
    let script = "mkdir full && mount -t tmpfs -o size=3m none full && cd full && \
        $KASURI record -o run.kasuri -- sh -c '$EMITTER 2 2000000 ../counts 0; echo done > ../done'; echo $? > ../status; \
        ls -la . >&2; $KASURI recover run.kasuri.d -o ../saved.kasuri >&2";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("done")).unwrap(),
        "done\n",
        "the program ended well: {text}"
    );
    assert_eq!(std::fs::read_to_string(dir.path().join("status")).unwrap().trim(), "125", "{text}");
    assert!(text.contains("No space left") && text.contains("MB are kept"), "{text}");
    let facts = facts(&dir.path().join("saved.kasuri"));
    assert!(facts.annotations > 1_000, "{facts:?}\n{text}");
}

/// What the disk has no room for is kept in shared memory, and `recover` gives all of it: into the same disk once there is room, or
/// elsewhere. At several sizes, so that it is full at another moment each time: with chunks, names or counts.
#[test]
fn what_a_full_disk_does_not_take_is_kept_for_recover() {
    for (kib, room) in [(1200, false), (1333, true), (2000, false), (2777, true), (8000, true)] {
        let dir = scratch();
        let (recover, saved) = match room {
            true => ("mount -o remount,size=64m . && $KASURI recover run.kasuri.d", "run.kasuri"),
            false => ("$KASURI recover run.kasuri.d -o ../saved.kasuri", "../saved.kasuri"),
        };
        let script = format!(
            "mkdir full && mount -t tmpfs -o size={kib}k none full && cd full && \
            $KASURI record --no-kernel -o run.kasuri -- $EMITTER 2 4000000 ../counts 0; echo $? > ../status; \
            {recover} 2> ../recovered && cp -n {saved} ../saved.kasuri; cat ../recovered >&2; \
            ls -A . ../ > ../left; ls /dev/shm > ../sessions",
        );
        let Some(output) =
            in_namespace(dir.path(), &format!("mount -t tmpfs none /dev/shm; {script}"))
        else {
            return;
        };
        let text = said(&output);
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("status").trim(), "125", "{kib} KiB: {text}");
        let before = text.split("kasuri recover").next().unwrap();
        assert!(!before.contains("none lost"), "{kib} KiB: {text}");
        assert!(text.contains("could not be written and wait in"), "{kib} KiB: {text}");
        let facts = facts(&dir.path().join("saved.kasuri"));
        let emitted = counted(&dir.path().join("counts"));
        assert_eq!(facts.annotations + facts.lost, emitted, "{kib} KiB: {text}");
        assert_eq!(facts.names.len(), 3, "{kib} KiB: {facts:?}");
        assert_eq!(read("sessions"), "", "{kib} KiB");
        assert!(!read("left").contains("kasuri.d"), "{kib} KiB: {}", read("left"));
        // It says by cause what was lost, or that nothing was.
        let said = read("recovered");
        assert_eq!(said.contains("LOST (ring full"), facts.lost > 0, "{kib} KiB: {said}");
        assert_eq!(said.contains("none lost"), facts.lost == 0, "{kib} KiB: {said}");
    }
}

/// Kernel events for which there is no room are counted: those on their way, and those in the kernel's buffers.
#[test]
fn kernel_events_that_a_full_disk_does_not_take_are_counted() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let script = "mkdir full && mount -t tmpfs -o size=2m none full && cd full && \
        $KASURI record -o run.kasuri --events sched:sched_switch -- $PINGPONG 150000; \
        mount -o remount,size=64m .; $KASURI recover run.kasuri.d >&2; cp run.kasuri ..";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert!(text.contains("No space left"), "{text}");
    assert!(text.contains("kernel events LOST (disk full)"), "{text}");
    assert!(!text.contains("none lost"), "{text}");
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.kernel_unwritten > 0 && facts.kernel > 0, "{facts:?}");
    let number = text.split(" kernel events LOST (disk full)").next().unwrap();
    let number = number.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap();
    assert_eq!(number.parse(), Ok(facts.kernel_unwritten), "{text}");
}

/// The disk is full when the recording is packed: nothing is missing in the directory, and that is what is said.
#[test]
fn a_disk_that_is_full_when_it_is_packed_keeps_the_directory_whole() {
    let dir = scratch();
    // The program takes what is left of the disk when it has annotated.
    let script = "mkdir full && mount -t tmpfs -o size=8m none full && cd full && \
        $KASURI record --no-kernel -o run.kasuri -- sh -c '$EMITTER 1 40000 ../counts 0; sleep 1.5; \
            cat /dev/zero > filler; true'; \
        ls; rm filler; $KASURI recover run.kasuri.d >&2; cp run.kasuri ..";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert!(text.contains("No space left"), "{text}");
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!((facts.annotations, facts.lost), (emitted, 0), "{text}");
}

/// The name of the result has become a directory's: all is written, only the last step fails.
#[test]
fn a_result_that_cannot_get_its_name_is_kept() {
    let dir = scratch();
    let emitter = program("emitter");
    let script = format!("{} 1 40000 counts 0; mkdir run.kasuri", emitter.display());
    let record = ["record", "--no-kernel", "-o", "run.kasuri", "--", "sh", "-c", &script];
    let output = run(kasuri(dir.path()).args(record));
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("kasuri recover run.kasuri.d"), "{}", said(&output));
    let told = said(&output).matches("cannot pack").count();
    assert_eq!(told, 1, "{}", said(&output));
    // Nothing was lost, and that is known.
    assert!(said(&output).contains("none lost"), "{}", said(&output));
    let recover = ["recover", "run.kasuri.d", "-o", "saved.kasuri"];
    let output = run(kasuri(dir.path()).args(recover));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(facts(&dir.path().join("saved.kasuri")).annotations, 40_000);
}

/// A flight recorder whose snapshot finds the disk full goes on, and leaves its rings when even the last one does.
#[test]
fn a_snapshot_for_which_there_is_no_room_stays_in_the_rings() {
    let dir = scratch();
    let script = "mount -t tmpfs none /dev/shm; \
        mkdir full && mount -t tmpfs -o size=2m none full && cd full && \
        $KASURI record --no-kernel --flight -o run.kasuri -- $EMITTER 2 200000 ../counts 0; \
        $KASURI recover run.kasuri.d -o ../saved.kasuri >&2; ls /dev/shm > ../sessions";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert!(text.contains("snapshot not saved"), "{text}");
    let facts = facts(&dir.path().join("saved.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{text}");
    assert!(facts.annotations > 100_000, "{facts:?}");
    let sessions = std::fs::read_to_string(dir.path().join("sessions")).unwrap();
    assert_eq!(sessions, "", "{text}");
}

/// A program that annotates without end is stopped before it has filled the disk for everybody else, and nothing that it emitted
/// until then is missing. The disk is looked at after each pass over
/// the rings; here it has room for all that the program emits, so that no pass can fill it.
#[test]
fn a_recording_leaves_room_on_its_disk() {
    let dir = scratch();
    let script = "mount -t tmpfs none /dev/shm; mkdir disk && mount -t tmpfs -o size=256m none disk && cd disk && \
        $KASURI record --no-kernel --keep-free 216 -o run.kasuri -- $EMITTER 2 4000000 ../counts 0; echo $? > ../status; \
        df --output=avail . | tail -1 > ../avail; cp run.kasuri ..";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(
        text.contains("MB are free on the disk of") && text.contains("recording stopped"),
        "{text}"
    );
    assert_eq!(read("status").trim(), "125", "{text}");
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{text}");
    assert!(facts.annotations > 500_000 && !facts.complete, "{facts:?}");
    // The directory is gone, and the packed file is smaller than what it was made of.
    assert!(read("avail").trim().parse::<u64>().unwrap() > 192 << 10, "{text}");
}

/// 200 processes and 64 files: each client's file is open only while it is written.
#[test]
fn few_open_files_lose_nothing() {
    let dir = scratch();
    let script = format!(
        "for i in $(seq 200); do {} 1 20 counts.$i 0 & done; wait",
        program("emitter").display()
    );
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_kasuri"))
        .args(["record", "-o", "run.kasuri", "--", "sh", "-c", &script])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (4000, 0), "{}", said(&output));
    assert!(said(&output).contains("none lost"), "{}", said(&output));
}

/// The equation with less shared memory than one chunk for each thread, and threads that start when it is full.
#[test]
fn small_shared_memory_and_late_threads_lose_by_count() {
    for kib in [600, 2048] {
        for threads in [2, 40] {
            let dir = scratch();
            let script = format!(
                "mkdir shm && mount -t tmpfs -o size={kib}k none shm && \
                 KASURI_SHM_DIR=$PWD/shm $KASURI record --no-kernel -o run.kasuri -- $EMITTER {threads} 40000 counts 0"
            );
            let Some(output) = in_namespace(dir.path(), &script) else {
                return;
            };
            let what = format!("{kib} KiB, {threads} threads: {}", said(&output));
            assert!(output.status.success(), "{what}");
            let facts = facts(&dir.path().join("run.kasuri"));
            let emitted = counted(&dir.path().join("counts"));
            assert_eq!(facts.annotations + facts.lost, emitted, "{what}");
            assert_eq!(said(&output).contains("none lost"), facts.lost == 0, "{what}");
        }
    }
}

#[test]
fn full_shared_memory_costs_counted_events_and_harms_nobody() {
    let dir = scratch();
    let script = "mount -t tmpfs -o size=1m none /dev/shm && \
        $KASURI record -o run.kasuri -- $EMITTER 4 400000 counts 0";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    // What is full, and not what would help a ring that is.
    assert!(
        text.contains("annotations LOST (ring full, as shared memory has little room"),
        "{text}"
    );
    assert!(text.contains("--shm-size") && !text.contains("--ring-mb"), "{text}");
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{} lost", facts.lost);
    assert!(facts.annotations > 0);
}

/// /dev/shm too small for one chunk: each event is counted, and what to do is said.
#[test]
fn shared_memory_too_small_for_a_chunk_is_said_and_counted() {
    let dir = scratch();
    // Control page, links and names fit, 32 KiB do not.
    let script = "mount -t tmpfs -o size=28k none /dev/shm && \
        $KASURI record -o run.kasuri -- $EMITTER 4 40000 counts 0";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!((facts.annotations, facts.lost), (0, emitted));
    assert_eq!(emitted, 160_000);
    let said = said(&output);
    assert!(said.contains("160000 annotations LOST"), "{said}");
    assert!(said.contains("--shm-size"), "{said}");
}

/// Little of one thing after the other, and no rights: the program is unharmed, what is recorded and what is lost add up, and what is
/// missing is said.
#[test]
fn little_of_anything_loses_nothing_in_silence() {
    if !is_root() {
        return;
    }
    // Where any user may go and write.
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(dir.path(), 0o777);
    for (from, to) in
        [(Path::new(env!("CARGO_BIN_EXE_kasuri")), "kasuri"), (&program("emitter"), "emitter")]
    {
        copy_program(from, dir.path().join(to));
        open(&dir.path().join(to), 0o755);
    }
    std::fs::create_dir(dir.path().join("closed")).unwrap();
    open(&dir.path().join("closed"), 0o555);
    let homes = "export HOME=$PWD/closed TMPDIR=$PWD/closed XDG_CONFIG_HOME=$PWD/closed XDG_CACHE_HOME=$PWD/closed";
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let starts = [
        ("memory", "ulimit -v 1000000", ""),
        ("locked memory", "ulimit -l 0", ""),
        ("stack", "ulimit -Ss 200", ""),
        ("rights, stack", "ulimit -s 200", nobody),
        ("descriptors", "ulimit -n 40", ""),
        ("rights", "true", nobody),
        ("rights, locked memory", "ulimit -l 0", nobody),
        ("rights, processes", "ulimit -u 200", nobody),
        ("places to write", homes, nobody),
    ];
    for (little, limit, user) in starts {
        let script = format!(
            "{limit}; rm -rf counts* run.kasuri*; exec {user} ./kasuri record -o run.kasuri -- \
             sh -c './emitter 3 20000 counts 0; echo ended $?'"
        );
        let output = run(Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir.path())
            .env_remove("KASURI_SESSION"));
        let what = format!("little of {little}: {}", said(&output));
        assert!(output.status.success(), "{what}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ended 0\n", "{what}");
        let facts = facts(&dir.path().join("run.kasuri"));
        assert_eq!(facts.annotations + facts.lost, counted(&dir.path().join("counts")), "{what}");
        assert_eq!(facts.annotations + facts.lost, 60_000, "{what}");
        assert_eq!(said(&output).contains("none lost"), facts.lost == 0, "{what}");
        if !user.is_empty() {
            assert!(said(&output).contains("missing: "), "{what}");
        }
    }
}

/// What keeps a program's rings from growing is said with its number: when it is recorded, in the recording, and in its answers.
#[test]
fn a_limit_that_keeps_rings_from_growing_is_named() {
    // In `sh` blocks of 512 bytes; the counts have 1,024 bytes.
    let file = ["`ulimit -f` allows files of 32768 bytes (RLIMIT_FSIZE)", "file_size", "32768"];
    let private = [
        "memory was refused where `ulimit -d` allows 1536000 bytes (RLIMIT_DATA)",
        "data",
        "1536000",
    ];
    let cases = [("ulimit -f 64", file, true), ("ulimit -s 200; ulimit -d 1500", private, false)];
    for (limit, [words, key, number], counts) in cases {
        let dir = scratch();
        let script = format!("{limit}; exec {} 1 20000 counts 0", program("emitter").display());
        let output = run(kasuri(dir.path()).args([
            "record",
            "--no-kernel",
            "-o",
            "run.kasuri",
            "--",
            "sh",
            "-c",
            &script,
        ]));
        let what = format!("{limit}: {}", said(&output));
        assert!(output.status.success(), "{what}");
        assert!(what.contains(words), "{what}");
        assert!(
            !what.contains("mount -o remount"),
            "no room for files is not what is missing: {what}"
        );
        let facts = facts(&dir.path().join("run.kasuri"));
        assert_eq!(facts.annotations + facts.lost, counted(&dir.path().join("counts")), "{what}");
        assert_eq!(facts.lost > 0, counts, "{what}");
        assert!(!what.contains("none lost"), "{what}");
        assert_eq!(
            what.contains(&format!(
                "{} annotations LOST (limit of the program: {words})",
                facts.lost
            )),
            counts,
            "{what}"
        );
        let answer = |command: &[&str]| {
            let output = run(kasuri(dir.path()).args(command));
            assert!(output.status.success(), "{}", said(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        let stat = answer(&["stat", "--json", "run.kasuri"]);
        assert!(stat.contains(words), "{stat:.3000}");
        // The headline is that of the recorder's last line.
        let overview = answer(&["stat", "run.kasuri"]);
        assert!(!overview.contains("no events lost"), "{overview:.3000}");
        assert_eq!(overview.contains("what was lost is not known"), !counts, "{overview:.3000}");
        let file = std::fs::read(dir.path().join("run.kasuri")).unwrap();
        let meta = Recording::parse(&file).unwrap().meta().clone();
        let [met] = &meta.annotations.hindrances[..] else { panic!("{meta:?}") };
        assert_eq!((&*met.cause, met.limit), (key, number.parse().ok()));
    }
}

/// Whoever cannot open the session can tell nobody: here a program with the rights of another user.
#[test]
fn an_annotated_program_that_never_comes_is_not_none_lost() {
    let dir = scratch();
    let emitter = dir.path().join("emitter");
    std::fs::copy(program("emitter"), &emitter).unwrap();
    std::os::unix::fs::chown(&emitter, Some(65534), None).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    for (mode, comes) in [(0o755, true), (0o4755, false)] {
        std::fs::set_permissions(&emitter, std::fs::Permissions::from_mode(mode)).unwrap();
        let _ = std::fs::remove_file(dir.path().join("counts"));
        let arguments = ["record", "--no-kernel", "-o", "run.kasuri", "--"];
        let output =
            run(kasuri(dir.path()).args(arguments).args(["./emitter", "1", "2000", "counts", "0"]));
        let what = said(&output);
        assert_eq!(facts(&dir.path().join("run.kasuri")).annotations > 0, comes, "{what}");
        assert_eq!(what.contains("none lost"), comes, "{what}");
        let stat = run(kasuri(dir.path()).args(["stat", "run.kasuri"]));
        let stat = String::from_utf8_lossy(&stat.stdout);
        assert_eq!(stat.contains("no events lost"), comes, "{stat:.3000}");
    }
}

/// The same for a program anywhere in the tree: one of several that a shell runs has no descriptor left, or no session named.
#[test]
fn an_annotated_child_that_never_comes_is_not_none_lost() {
    let dir = scratch();
    let emitter = program("emitter");
    let limited = "(ulimit -n 4; exec \"$0\" 1 2000 b 0)";
    let nameless = "env -u KASURI_SESSION \"$0\" 1 2000 b 0";
    let unannotated = "env -u KASURI_SESSION true";
    for (second, comes) in [(limited, false), (nameless, false), (unannotated, true)] {
        let script = format!("\"$0\" 1 2000 a 0; {second}; \"$0\" 1 2000 c 0");
        let mut command = kasuri(dir.path());
        command.args(["record", "-o", "run.kasuri", "--", "sh", "-c"]).arg(script).arg(&emitter);
        let what = said(&run(&mut command));
        if what.contains("no call paths") {
            return skip("which files a program maps is not told here");
        }
        assert_eq!(what.contains("none lost"), comes, "{second}: {what}");
        let names = what.contains("not recorded: annotations of emitter: never reached");
        assert_eq!(names, !comes, "{second}: {what}");
        let stat = run(kasuri(dir.path()).args(["stat", "run.kasuri"]));
        let stat = String::from_utf8_lossy(&stat.stdout);
        assert_eq!(stat.contains("no events lost"), comes, "{stat:.3000}");
    }
}

/// The same where memory for rings is full, or its user's share of it.
#[test]
fn a_full_place_for_rings_is_told_from_a_quota() {
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all";
    let quota = "uid=65534,size=64m,usrquota_block_hardlimit=600k";
    let cases = [
        ("size=600k", "", "their file system was full"),
        (quota, nobody, "the user's quota of their file system was used up"),
    ];
    for (mount, user, words) in cases {
        let dir = scratch();
        let everyone = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        };
        everyone(dir.path());
        let script = format!(
            "mkdir shm && mount -t tmpfs -o {mount} none shm || exec echo unmounted; cp $EMITTER emitter; \
             KASURI_SHM_DIR=$PWD/shm $KASURI record --no-kernel -o run.kasuri -- {user} ./emitter 40 4000 counts 0"
        );
        let Some(output) = in_namespace(dir.path(), &script) else {
            return;
        };
        if !user.is_empty() && output.stdout.starts_with(b"unmounted") {
            return skip_for(Need::Machine, "the kernel has no quotas of tmpfs");
        }
        let facts = facts(&dir.path().join("run.kasuri"));
        let what = said(&output);
        assert!(facts.lost > 0, "{what}");
        assert!(what.contains(&format!("LOST (no space for rings: {words}")), "{what}");
    }
}

/// A recording directory may lie as deep as a path can be long, and the session in it.
#[test]
fn a_session_below_a_long_path_records() {
    let dir = scratch();
    let mut deep = dir.path().to_owned();
    while deep.as_os_str().len() < 1500 {
        deep.push("a-build-directory-with-a-name-of-some-sixty-four-bytes-and-so-on");
    }
    std::fs::create_dir_all(&deep).expect("a deep directory");
    let output = run(kasuri(&deep)
        .env("KASURI_SHM_DIR", dir.path().join("nowhere"))
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", "10000", "counts"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&deep.join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (20_000, 0));
}

#[test]
fn without_shared_memory_rings_go_to_the_disk() {
    let dir = scratch();
    let output = run(kasuri(dir.path())
        .env("KASURI_SHM_DIR", dir.path().join("nowhere"))
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", "10000", "counts"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (20_000, 0));
}

#[test]
fn kernel_losses_are_counted() {
    if !can_trace() {
        return;
    }
    // The negative control of the test above: a recorder that is stopped cannot drain, and says what that cost. The program goes on
    // until there is more than its buffer holds.
    let dir = scratch();
    let mut recorder = start(
        kasuri(dir.path())
            .args(["record", "-q", "--buffer-mb", "1", "-o", "run.kasuri", "--"])
            .arg(program("pingpong"))
            .arg("1000000000"),
    );
    let program = program_of(&recorder, "pingpong");
    wait_until("pages are written", || {
        let files =
            std::fs::read_dir(dir.path().join("run.kasuri.d")).into_iter().flatten().flatten();
        let raw = files.filter(|f| f.file_name().to_string_lossy().ends_with(".raw"));
        raw.filter_map(|f| f.metadata().ok()).any(|m| m.len() > 0)
    });
    signal(recorder.id(), rustix::process::Signal::STOP);
    wait_for_switches(program, 50_000);
    signal(recorder.id(), rustix::process::Signal::CONT);
    signal(recorder.id(), rustix::process::Signal::TERM);
    assert_eq!(recorder.wait().unwrap().code(), Some(143));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.kernel_lost > 0 && facts.kernel > 0, "{facts:?}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn a_flood_of_context_switches_loses_nothing() {
        if !can_trace() {
            return;
        }
        // A recorder that gets no CPU for as long as its buffer lasts loses some.
        measure(|| {
            let dir = scratch();
            let output = run(kasuri(dir.path())
                .args(["record", "-q", "-o", "run.kasuri", "--"])
                .arg(program("pingpong"))
                .arg("200000"));
            assert!(output.status.success(), "{}", said(&output));
            let facts = facts(&dir.path().join("run.kasuri"));
            let switches: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
            assert!(switches > 200_000, "it was a flood: {switches}");
            // Each has a wake-up beside it, and the kernel of some virtual machines hides part of both.
            assert!(
                2 * facts.kernel > switches,
                "{switches} switches by the kernel's own count: {}",
                facts.kernel
            );
            assert_eq!(facts.kernel_lost, 0);
        });
    }
}
