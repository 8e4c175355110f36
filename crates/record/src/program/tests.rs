//! Starting programs, ending them, and the signals in between.
use crate::error::Error;
use crate::program::child::{Child, OpenFiles, keep_cpu_when_waking, pin_process};
use crate::program::signals::Signals;
use crate::program::{namespaces, procs};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// A child of this process. Other tests run beside it: nothing below asks for more than one thread may ask.
fn fork(command: &[&str], session: Option<&str>, more: &[(&str, &str)]) -> Child {
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let more: Vec<(OsString, OsString)> = more.iter().map(|(k, v)| (k.into(), v.into())).collect();
    let signals = Signals::block(false).unwrap();
    let (mask, files) = (signals.mask_before(), OpenFiles::raise());
    Child::fork(&words, session.map(Path::new), &more, mask, &files, false).unwrap()
}

fn ends(child: &mut Child) -> i32 {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.poll_status() {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_program_runs_when_it_is_released_and_not_before() {
    let scratch = tempfile::tempdir().unwrap();
    let ran = scratch.path().join("ran");
    let script = format!("echo \"$KASURI_SESSION $MORE\" >{}; exit 7", ran.display());
    let mut child = fork(&["sh", "-c", &script], Some("/dev/shm/s"), &[("MORE", "x")]);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!ran.exists() && child.poll_status().is_none());
    child.release().unwrap();
    assert_eq!(ends(&mut child), 7);
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), "/dev/shm/s x\n");
    assert_eq!(child.status(), Some(7));
}

#[test]
fn a_program_that_is_never_released_is_gone() {
    let child = fork(&["sleep", "1000"], None, &[]);
    let pid = child.pid();
    assert!(procs::start_time(pid).is_some());
    drop(child);
    assert_eq!(procs::start_time(pid), None);
}

#[test]
fn programs_that_cannot_run_say_why() {
    let error = fork(&["no-such-program-anywhere"], None, &[]).release().unwrap_err();
    assert!(
        matches!(&error, Error::ProgramNotFound { program } if program == "no-such-program-anywhere"),
        "{error}"
    );
    let error = fork(&["/etc/passwd"], None, &[]).release().unwrap_err();
    assert!(matches!(&error, Error::ProgramNotRunnable { .. }), "{error}");
    let scratch = tempfile::tempdir().unwrap();
    // A script whose interpreter is missing: the file exists, and the system reports that it does not.
    let script = scratch.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = fork(&[script.to_str().unwrap()], None, &[]);
    let error = child.release().unwrap_err();
    assert!(matches!(&error, Error::ProgramNotRunnable { .. }), "{error}");
    assert_eq!(child.status(), Some(127));
}

#[test]
fn a_program_ended_by_a_signal_has_the_status_of_a_shell() {
    let mut child = fork(&["sleep", "1000"], None, &[]);
    child.release().unwrap();
    child.signal(libc::SIGTERM);
    assert_eq!(ends(&mut child), 128 + libc::SIGTERM);
    // Another process may have its number by now.
    child.signal(libc::SIGKILL);
    assert_eq!(child.poll_status(), Some(128 + libc::SIGTERM));
}

#[test]
fn the_program_gets_the_limit_of_open_files_that_was_before() {
    let limit = || rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let before = limit();
    let scratch = tempfile::tempdir().unwrap();
    let said = scratch.path().join("said");
    let mut child = fork(&["sh", "-c", &format!("ulimit -Sn >{}", said.display())], None, &[]);
    child.release().unwrap();
    assert_eq!(ends(&mut child), 0);
    let text = std::fs::read_to_string(said).unwrap();
    let theirs: Option<u64> = text.trim().parse().ok();
    // Another test may have raised this process's limit before.
    assert!(theirs <= before.max(limit()), "{text}");
}

#[test]
fn a_program_gets_the_cpus_that_were_asked_for() {
    let cpu = crate::host::allowed_cpus()[0];
    let mut child = fork(&["sh", "-c", "exit $(nproc)"], None, &[]);
    pin_process(child.pid(), &[cpu]).unwrap();
    let error = pin_process(child.pid(), &[100_000]).unwrap_err().to_string();
    assert!(error.contains("give the program its CPUs"), "{error}");
    pin_process(child.pid(), &[]).unwrap();
    child.release().unwrap();
    assert_eq!(ends(&mut child), 1);
}

#[test]
fn a_program_keeps_its_cpu_when_it_wakes_another_thread() {
    // Field 41 of the shell's own line is its policy; what is cut off holds no spaces but the separators.
    let script = "read -r line </proc/$$/stat; set -- ${line##*) }; shift 38; exit $1";
    let policy = |batch: bool| {
        let mut child = fork(&["sh", "-c", script], None, &[]);
        if batch {
            keep_cpu_when_waking(child.pid());
        }
        child.release().unwrap();
        ends(&mut child)
    };
    let usual = policy(false);
    if usual != libc::SCHED_OTHER {
        let why = format!("the tests run under policy {usual}");
        return kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, &why);
    }
    assert_eq!(policy(true), libc::SCHED_BATCH);
    // A process that is gone changes nothing.
    keep_cpu_when_waking(i32::MAX);
}

fn send(signal: i32) {
    // To this thread alone: the other threads of this process run other tests.
    // SAFETY: the calling thread exists.
    let rc = unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    assert_eq!(rc, 0);
}

#[test]
fn signals_are_waited_for_and_repeated_ones_told() {
    let signals = Signals::block(true).unwrap();
    assert!(signals.wait(&[], Duration::ZERO).0.is_empty());
    send(libc::SIGTERM);
    send(libc::SIGUSR2);
    let (mut arrived, other) = signals.wait(&[], Duration::from_secs(10));
    arrived.sort_by_key(|a| a.signal);
    let facts: Vec<_> =
        arrived.iter().map(|a| (a.signal, a.from_terminal, a.is_repeated)).collect();
    assert_eq!(facts, [(libc::SIGUSR2, false, false), (libc::SIGTERM, false, false)]);
    assert!(other.is_empty());
    // timeout(1) sends its signal twice: that is one request.
    send(libc::SIGTERM);
    assert!(!signals.is_ending());
    let begun = Instant::now();
    while begun.elapsed() < crate::program::signals::ONE_REQUEST {
        std::thread::sleep(Duration::from_millis(50));
        assert!(signals.wait(&[], Duration::ZERO).0.is_empty());
    }
    // The last look in the loop may have been within the second.
    assert!(signals.wait(&[], Duration::ZERO).0.is_empty());
    send(libc::SIGTERM);
    assert!(signals.is_ending(), "a second later it is another");
}

#[test]
fn another_descriptor_ends_the_wait() {
    let signals = Signals::block(false).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    use std::os::fd::AsFd;
    assert!(signals.wait(&[read.as_fd()], Duration::ZERO).1.is_empty());
    drop(write);
    let begun = Instant::now();
    let (arrived, other) = signals.wait(&[read.as_fd()], Duration::from_secs(60));
    assert!(arrived.is_empty() && begun.elapsed() < Duration::from_secs(30));
    assert_eq!(other, [rustix::event::PollFlags::HUP]);
}

#[test]
fn facts_about_processes_end_with_them() {
    let me = std::process::id() as i32;
    assert!(procs::all().any(|pid| pid == me));
    assert_eq!(procs::parent(me), rustix::process::getppid().unwrap().as_raw_nonzero().get());
    assert!(procs::has_thread(me, me) && !procs::has_thread(me, 1));
    assert_eq!(procs::owner(me).map(|(uid, _)| uid), Some(rustix::process::geteuid().as_raw()));
    // No process has a number this large.
    let nobody = i32::MAX;
    assert_eq!((procs::start_time(nobody), procs::owner(nobody)), (None, None));
    assert!(procs::threads(nobody).is_empty() && !procs::has_thread(nobody, 1));
    assert_eq!(procs::parent(nobody), 0);
    assert_eq!(
        namespaces::own_number(nobody),
        nobody,
        "of one that is not there nothing else is known"
    );
}
