//! Recordings that are sent while they are made: what has come, whoever ends first, is in the stream or in the recording directory.
use crate::support::*;
use kasuri_format::container::{BlockKind, Recording};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads that annotate, and the events of each; a chunk takes 2,040.
const THREADS: u64 = 4;
const EVENTS: u64 = 40_000;
const IN_OPEN_CHUNKS: u64 = THREADS * 2040;

/// A recorder that sends, whose program has annotated and waits.
struct Sending {
    recorder: Running,
    reader: JoinHandle<()>,
    dir: tempfile::TempDir,
    received: Arc<Mutex<Vec<u8>>>,
}

/// A directory in memory, where files may have holes.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in memory")
}

fn read_on(
    mut from: ChildStdout,
    into: Arc<Mutex<Vec<u8>>>,
    until: impl Fn() -> bool + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut block = vec![0; 1 << 16];
        while !until() {
            match from.read(&mut block) {
                Ok(n) if n > 0 => into.lock().unwrap().extend_from_slice(&block[..n]),
                _ => return,
            }
        }
    })
}

impl Sending {
    /// Reads the stream until `closed` is there.
    fn begin(options: &[&str]) -> Sending {
        let dir = in_memory();
        let received = Arc::default();
        let mut recorder = kasuri(dir.path())
            .env("TMPDIR", dir.path())
            .args(["record", "--stacks", "off", "-o", "-"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg("\"$0\" $1 $2 counts; touch emitted; while [ ! -e end ]; do sleep 0.01; done")
            .arg(program("emitter"))
            .args([THREADS.to_string(), EVENTS.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn_guarded();
        let closed = dir.path().join("closed");
        let from = recorder.stdout.take().expect("piped");
        let reader = read_on(from, Arc::clone(&received), move || closed.exists());
        Sending { recorder, reader, dir, received }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn emitted(&self) -> u64 {
        counted(&self.at("counts"))
    }

    /// Annotations that have come so far, and the names of their sites.
    fn come(&self) -> (u64, Vec<String>) {
        let bytes = self.received.lock().unwrap().clone();
        annotations_of(&bytes)
    }

    /// Until all that no thread can write into any more has come.
    fn wait_for_it(&self) {
        wait_until("the program has annotated", || self.at("emitted").exists());
        let due = self.emitted() - IN_OPEN_CHUNKS;
        wait_until("that has come", || self.come().0 >= due);
    }

    /// Until the room of what has come is given back.
    fn wait_for_room(&self) {
        let left = self.left().expect("the recording directory");
        wait_until("the room is given back", || {
            let (bytes, room) = sizes(&left);
            bytes >= (self.emitted() - IN_OPEN_CHUNKS) * 16 && room < bytes / 4
        });
    }

    /// The recording directory.
    fn left(&self) -> Option<PathBuf> {
        left_in(self.dir.path())
    }

    /// What came and what `kasuri recover` finds in the directory are together all that was emitted.
    fn check_that_nothing_is_lost(self) {
        let left = self.left().expect("the recording directory");
        let output = run(kasuri(self.dir.path()).arg("recover").arg(&left));
        assert!(output.status.success(), "{}", said(&output));
        let words = said(&output);
        assert!(!words.contains("left out"), "nothing is damaged: {words}");
        let (come, names) = self.come();
        let rest = facts(&left.with_extension(""));
        assert!(
            come + rest.annotations >= self.emitted() && rest.annotations < self.emitted(),
            "{come} and {} of {}",
            rest.annotations,
            self.emitted()
        );
        assert!(names.contains(&"counter".to_owned()), "{names:?}");
        // What came is opened as it is, too.
        std::fs::write(self.at("cut.kasuri"), &*self.received.lock().unwrap()).unwrap();
        let output = run(kasuri(self.dir.path()).args(["recover", "cut.kasuri"]));
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(facts(&self.at("cut.recovered.kasuri")).annotations, come);
    }
}

fn annotations_of(bytes: &[u8]) -> (u64, Vec<String>) {
    let (recording, _) = Recording::salvage(bytes);
    let blocks = recording.blocks().iter();
    let of_annotations = blocks.filter(|b| b.kind == BlockKind::Annotation);
    let names = recording.sites().tables().iter().flat_map(|t| &t.sites);
    (of_annotations.map(|b| b.n_events).sum(), names.map(|site| site.name.clone()).collect())
}

/// The recording directory in `dir`.
fn left_in(dir: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().flatten();
    let mut names = names.map(|entry| entry.path());
    names.find(|path| path.extension().is_some_and(|e| e == "d"))
}

/// Bytes that the event files of a directory have, and the room that they take.
fn sizes(dir: &Path) -> (u64, u64) {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    let is_of_events = |name: &str| name.ends_with(".chunks") || name.ends_with(".raw");
    let of_events = files.filter(|f| is_of_events(&f.file_name().to_string_lossy()));
    let sizes = of_events.filter_map(|f| f.metadata().ok());
    sizes.fold((0, 0), |(bytes, room), m| (bytes + m.len(), room + m.blocks() * 512))
}

#[test]
fn a_stream_comes_while_the_program_runs_and_leaves_the_room_free() {
    let sending = Sending::begin(&[]);
    sending.wait_for_it();
    sending.wait_for_room();
    let left = sending.left().expect("the recording directory");
    std::fs::write(sending.at("end"), "").unwrap();
    let Sending { recorder, reader, dir, received } = sending;
    let output = recorder.wait_with_output();
    assert!(output.status.success(), "{}", said(&output));
    reader.join().unwrap();
    let path = dir.path().join("piped.kasuri");
    std::fs::write(&path, &*received.lock().unwrap()).unwrap();
    let facts = facts(&path);
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{facts:?}");
    assert!(
        facts.complete
            && facts.names.contains(&"slice".to_owned())
            && facts.streams as u64 == THREADS,
        "{facts:?}"
    );
    assert!(!left.exists(), "nothing stays");
}

#[test]
fn a_reader_that_goes_away_loses_nothing() {
    let mut sending = Sending::begin(&["--no-kernel"]);
    sending.wait_for_it();
    sending.wait_for_room();
    std::fs::write(sending.at("closed"), "").unwrap();
    // Something comes each second.
    wait_until("the pipe is closed", || sending.reader.is_finished());
    std::fs::write(sending.at("end"), "").unwrap();
    wait_until("it ends", || sending.recorder.try_wait().unwrap().is_some());
    let mut words = String::new();
    let stderr = sending.recorder.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut words).unwrap();
    assert!(words.contains("Broken pipe") && words.contains("kasuri recover"), "{words}");
    sending.check_that_nothing_is_lost();
}

#[test]
fn a_killed_recorder_that_sent_loses_nothing() {
    let mut sending = Sending::begin(&["--no-kernel"]);
    sending.wait_for_it();
    sending.wait_for_room();
    signal(sending.recorder.id(), Signal::KILL);
    std::fs::write(sending.at("end"), "").unwrap();
    wait_until("it ends", || sending.recorder.try_wait().unwrap().is_some());
    sending.check_that_nothing_is_lost();
}

/// `kasuri receive`, and the address at which it waits.
fn receiver(dir: &Path) -> (Running, String) {
    let mut receiver = kasuri(dir)
        .args(["receive", "--key", "board.key", "-o", "run.kasuri"])
        .args(["--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn_guarded();
    let stderr = receiver.stderr.take().expect("piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let words = lines.find(|line| line.contains("waiting for a recording at"));
    let words = words.expect("it waits");
    let address = words.split("recording at ").nth(1).expect("an address");
    let address = address.split(';').next().expect("an address").to_owned();
    // Its other words must find room.
    std::thread::spawn(move || lines.for_each(drop));
    (receiver, address)
}

fn send(dir: &Path, address: &str, key: &str, until: &str) -> Command {
    let mut command = kasuri(dir);
    command
        .args(["record", "--no-kernel", "--stacks", "off"])
        .args(["--to", address, "--key", key])
        .args(["--", "sh", "-c"])
        .arg(format!(
            "\"$0\" $1 $2 counts; touch emitted; while [ ! -e {until} ]; do sleep 0.01; done"
        ))
        .arg(program("emitter"))
        .args([THREADS.to_string(), EVENTS.to_string()]);
    command
}

#[test]
fn another_machine_receives_a_recording_with_the_key_alone() {
    let dir = in_memory();
    let (mut receiver, address) = receiver(dir.path());
    // Strangers: one that says nothing and one that talks nonsense keep nobody out.
    let _silent = std::net::TcpStream::connect(&address).unwrap();
    let mut loud = std::net::TcpStream::connect(&address).unwrap();
    let _ = loud.write_all(&[0x5a; 100_000]);
    std::fs::write(dir.path().join("other.key"), "ab".repeat(32)).unwrap();
    let output = run(&mut send(dir.path(), &address, "other.key", "emitted"));
    let words = said(&output);
    assert!(output.status.code() == Some(125) && words.contains("the keys differ"), "{words}");
    assert!(!dir.path().join("emitted").exists(), "nothing ran");

    let output = run(&mut send(dir.path(), &address, "board.key", "emitted"));
    assert!(output.status.success(), "{}", said(&output));
    assert!(receiver.wait().unwrap().success());
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{facts:?}");
    assert!(facts.complete, "{facts:?}");
}

/// `cut` has the pids of the recorder and of the receiver.
fn kept_by_the_receiver(cut: impl Fn(u32, u32)) {
    let dir = in_memory();
    let (mut receiver, address) = receiver(dir.path());
    let mut recorder = send(dir.path(), &address, "board.key", "end")
        .env("TMPDIR", dir.path())
        .stderr(Stdio::null())
        .spawn_guarded();
    let part = dir.path().join("run.kasuri.part");
    wait_until("it has annotated", || dir.path().join("emitted").exists());
    let due = counted(&dir.path().join("counts")) - IN_OPEN_CHUNKS;
    wait_until("that has come", || {
        annotations_of(&std::fs::read(&part).unwrap_or_default()).0 >= due
    });
    cut(recorder.id(), receiver.id());
    assert_eq!(receiver.wait().unwrap().code(), Some(1));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.annotations >= due && !facts.complete, "{facts:?}");
    assert!(facts.names.contains(&"counter".to_owned()), "{facts:?}");
    std::fs::write(dir.path().join("end"), "").unwrap();
    recorder.wait().unwrap();
    // Nothing of the recorder stays in memory, and the rest does not pass for the whole.
    let left = left_in(dir.path()).expect("the recording directory");
    let output = run(kasuri(dir.path()).arg("recover").arg(&left));
    let words = said(&output);
    let is_told = words.contains("not known: events that were sent to elsewhere");
    assert!(output.status.success() && is_told, "{words}");
    let rest = left.with_extension("");
    let output = run(kasuri(dir.path()).args(["stat", "--json"]).arg(rest));
    let stat: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = stat["missing"].to_string();
    assert!(missing.contains("this is the rest"), "{missing}");
}

#[test]
fn what_a_killed_recorder_sent_is_kept_by_the_receiver() {
    kept_by_the_receiver(|recorder, _| signal(recorder, Signal::KILL));
}

#[test]
fn what_an_interrupted_receiver_has_is_kept() {
    kept_by_the_receiver(|_, receiver| signal(receiver, Signal::INT));
}

/// What finds no room is counted, and the program does not wait for it.
#[test]
fn a_stream_that_nobody_reads_takes_no_more_memory_than_it_may() {
    let dir = in_memory();
    let mut recorder = kasuri(dir.path())
        .args(["record", "--no-kernel", "--stacks", "off"])
        .args(["--memory", "8M", "-o", "-", "--", "sh", "-c"])
        .arg("\"$0\" 4 400000 counts; touch emitted")
        .arg(program("emitter"))
        .env("TMPDIR", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn_guarded();
    wait_until("the program has annotated", || dir.path().join("emitted").exists());
    let left = left_in(dir.path()).expect("the recording directory");
    let (bytes, _) = sizes(&left);
    assert!(bytes < 6 << 20, "{bytes} bytes wait");
    let mut stream = Vec::new();
    let mut from = recorder.stdout.take().expect("piped");
    from.read_to_end(&mut stream).unwrap();
    let output = recorder.wait_with_output();
    assert!(output.status.success(), "{}", said(&output));
    std::fs::write(dir.path().join("run.kasuri"), stream).unwrap();
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(facts.annotations + facts.lost, emitted, "{facts:?}");
    assert!(facts.lost > 0, "{facts:?}");
}

/// Boards without udev have no name for standard output.
#[test]
fn standard_output_needs_no_name() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = in_memory();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-ec"])
        .arg(
            "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mkdir /dev/shm
             \"$0\" record --no-kernel -o - -- /bin/echo said; ls /dev >&2",
        )
        .arg(env!("CARGO_BIN_EXE_kasuri"))
        .output()
        .unwrap();
    let words = said(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("said") && !words.contains("stdout\n"), "{words}");
    let file = dir.path().join("run.kasuri");
    std::fs::write(&file, &output.stdout).unwrap();
    assert!(facts(&file).complete);
}
