//! `kasuri flight`: the service saves when a trigger fires, tells why, keeps what it may, and ends in order.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

struct Service {
    child: Child,
    said: Receiver<String>,
    all: Vec<String>,
}

impl Service {
    fn start(dir: &Path, prefix: &[&str], args: &[String]) -> Service {
        let kasuri = env!("CARGO_BIN_EXE_kasuri");
        let words: Vec<&str> = prefix.iter().copied().chain([kasuri]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args(["flight", "run", "--keep=2s"])
            .arg(format!("--dir={}", dir.display()))
            .args(args)
            .env("KASURI_SHM_DIR", dir)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        Service { child, said, all: Vec::new() }
    }

    /// Waits until it has said this.
    fn says(&mut self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) => {
                    self.all.push(line.clone());
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(_) => panic!("{words:?} was not said: {:#?}", self.all),
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn end(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {:#?}", self.all);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Whether kernel events can be had: else the test is skipped, but not in CI.
fn can_record() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        kasuri_testkit::skip("needs root");
    }
    is_root
}

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|e| e == "kasuri")).collect();
    all.sort();
    all
}

fn own_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn get(address: &str, path: &str) -> String {
    let (host, token) = address.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn lines_signals_and_requests_save_and_old_recordings_go() {
    if !can_record() {
        return;
    }
    let dir = own_dir();
    let log = dir.path().join("app.log");
    std::fs::write(&log, "").unwrap();
    let old = dir.path().join("flight-1.kasuri");
    std::fs::File::create(&old).unwrap().set_len(2 << 30).unwrap();
    let args = [
        format!("--on-log={}=deadline .* missed", log.display()),
        "--listen=0".into(),
        "--pause=1s".into(),
    ];
    let mut service = Service::start(dir.path(), &[], &args);
    service.says("removed flight-1.kasuri");
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(&log, "deadline of job 7 missed\n").unwrap();
    service.says("saving: a line of");
    let saved = service.says("saved ");
    assert!(saved.contains("flight-"), "{saved}");
    service.signal(rustix::process::Signal::USR2);
    service.says("saving: SIGUSR2");
    // Asked for right after a snapshot: not forgotten.
    service.says(".2.kasuri");
    let address = std::fs::read_to_string(dir.path().join("address")).unwrap();
    assert!(get(&address, "save").contains("will be saved"));
    service.says("saving: a request");
    service.says(".3.kasuri");
    let metrics = get(&address, "metrics");
    assert!(metrics.contains("kasuri_flight_saves_total{trigger=\"log\"} 1"), "{metrics}");
    assert!(
        !get(&address[..address.len() - 5], "metrics").contains("kasuri_flight"),
        "without the token"
    );
    service.end();
    let explained = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .arg("explain")
        .arg(&snapshots(dir.path())[0])
        .output()
        .unwrap();
    assert!(explained.status.success(), "{explained:?}");
}

/// The processes that a process has made.
fn children(pid: u32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let words = std::fs::read_to_string(path).unwrap();
    words.split_whitespace().map(|w| w.parse().unwrap()).collect()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn whoever_is_killed_nothing_runs_on_and_nothing_stays_for_good() {
    if !can_record() {
        return;
    }
    let dir = own_dir();
    let args = ["--listen=0".to_owned()];
    // The service: its recorder saves what it has, and ends.
    let mut service = Service::start(dir.path(), &[], &args);
    service.says("recording");
    let [recorder] = children(service.child.id())[..] else {
        panic!("one recorder");
    };
    kill(service.child.id() as i32);
    service.child.wait().unwrap();
    let until = Instant::now() + PATIENCE;
    while Path::new(&format!("/proc/{recorder}")).exists() {
        assert!(Instant::now() < until, "the recorder runs on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(snapshots(dir.path()).len(), 1);
    // The recorder: the service ends and says so; the next one packs what was left.
    let mut service = Service::start(dir.path(), &[], &args);
    service.says("recording");
    let begun = || {
        let mut all = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path());
        all.any(|path| path.join("meta.json").exists())
    };
    let until = Instant::now() + PATIENCE;
    while !begun() {
        assert!(Instant::now() < until, "the recorder does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(children(service.child.id())[0]);
    service.says("the recorder ended early");
    assert!(!service.child.wait().unwrap().success());
    std::fs::write(dir.path().join("flight-1.kasuri.part"), "").unwrap();
    std::fs::create_dir(dir.path().join("flight-2.kasuri.d")).unwrap();
    let mut service = Service::start(dir.path(), &[], &args);
    service.says("recovered flight-");
    service.says("recording");
    service.end();
    let names = std::fs::read_dir(dir.path()).unwrap();
    let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
    let left = |name: &std::ffi::OsString| {
        let name = name.to_str().unwrap();
        name.ends_with(".d") || name.ends_with(".part")
    };
    assert!(!names.iter().any(left), "{names:?}");
    assert_eq!(snapshots(dir.path()).len(), 3);
}

/// As in a container with the host's PID name space: mounts, network and IPC of its own. Any wait is longer than 1 us.
#[test]
fn a_thread_that_waits_for_a_cpu_saves_in_name_spaces_of_its_own() {
    if !can_record() {
        return;
    }
    let dir = own_dir();
    let unshare = ["unshare", "--mount", "--net", "--ipc", "--uts", "--"];
    let mut service = Service::start(dir.path(), &unshare, &["--on-wait=1us".into()]);
    service.says("saving: thread ");
    service.says("saved ");
    service.end();
}

/// One thread holds a lock on a file for seconds, another waits for it: told while it waits, by the call's name.
#[test]
fn a_thread_that_hangs_in_a_system_call_saves_while_it_hangs() {
    if !can_record() {
        return;
    }
    let dir = own_dir();
    let mut service = Service::start(dir.path(), &[], &["--on-syscall=flock=300ms".into()]);
    service.says("recording");
    let held = std::fs::File::create(dir.path().join("lock")).unwrap();
    held.lock().unwrap();
    let mut waiter = Command::new("flock")
        .args([dir.path().join("lock").as_os_str(), "true".as_ref()])
        .spawn()
        .unwrap();
    let said = service.says("saving: thread flock");
    assert!(said.contains("has been in flock for"), "{said}");
    assert!(waiter.try_wait().unwrap().is_none(), "it still waits");
    service.says("saved ");
    held.unlock().unwrap();
    assert!(waiter.wait().unwrap().success());
    service.end();
}

#[test]
fn in_a_pid_name_space_of_its_own_it_says_why_it_cannot_record() {
    if !can_record() {
        return;
    }
    let dir = own_dir();
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--"];
    let mut service = Service::start(dir.path(), &unshare, &["--on-wait=1ms".into()]);
    service.says("PID namespace");
    assert!(!service.child.wait().unwrap().success());
}

#[test]
fn the_unit_quotes_its_words_and_shared_directories_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args([
            "flight",
            "install",
            "--print",
            "--on-wait=50ms",
            "--on-syscall=fsync=50ms",
            "--on-pressure=cpu=40%",
            "--on-log=/a b=x\\d$",
        ])
        .output()
        .unwrap();
    let unit = String::from_utf8(output.stdout).unwrap();
    assert!(
        unit.contains("--on-wait=50000us --on-syscall=fsync=50000us \"--on-pressure=cpu=40%%\" \"--on-log=/a b=x\\\\d$$\""),
        "{unit}"
    );
    let shared = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(["flight", "run", "--dir=/tmp"])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&shared.stderr).contains("nobody else may write"),
        "{shared:?}"
    );
}
