//! What threads do when the recording ends, of programs in languages with a runtime.
use super::scene::Scene;
use kasuri_analyze::{AtEnd, Options, Session};
use kasuri_model::{SampleKind, ThreadEnd, ThreadState, Time};

const START: &str = "start_thread@libc.so.6";
const FUTEX: &str = "futex_wait_queue@[kernel]";

/// Threads that wait at these paths, from the beginning to the end.
fn waiting(paths: &[&[&str]]) -> AtEnd {
    let mut scene = Scene::new(1000);
    for path in paths {
        let thread = scene.thread(&[(0, ThreadState::Sleeping)]);
        scene.sample(thread, 500, SampleKind::BlockedRead, path);
        let state = ThreadState::Sleeping;
        let (on, by) = (String::new(), Vec::new());
        scene.trace.ends.push(ThreadEnd { thread, state, since: Some(Time(0)), on, by });
    }
    Session::new(&scene.trace, &Options::default()).at_end().expect("the recorder looked")
}

/// The machine's own threads have nothing to do, whoever hangs; a thread that sleeps goes on by itself.
#[test]
fn a_java_machine_hangs_by_the_threads_of_its_program() {
    let collector: &[&str] = &[START, "GangWorker::loop@libjvm.so", "sem_wait@libc.so.6", FUTEX];
    let park = "PlatformEvent::park@libjvm.so";
    let wait = "pthread_cond_wait@libc.so.6";
    let monitor: &[&str] = &[START, "@", "ObjectMonitor::enter@libjvm.so", park, wait, FUTEX];
    let sleep: &[&str] = &[START, "@", "JavaThread::sleep@libjvm.so", park, wait, FUTEX];
    let hangs = waiting(&[collector, monitor]);
    let idle: Vec<bool> = hangs.threads.iter().map(|t| t.is_idle).collect();
    assert_eq!((hangs.stuck, idle), (vec![10], vec![false, true]));
    assert!(hangs.missing.iter().any(|text| text.contains("jstack")), "{:?}", hangs.missing);
    assert!(waiting(&[collector, sleep]).stuck.is_empty());
    assert!(waiting(&[collector]).stuck.is_empty());
    let asks = |told: &AtEnd| told.threads[0].path[0].function.clone();
    assert_eq!(asks(&waiting(&[monitor])), "ObjectMonitor::enter");
    assert_eq!(asks(&waiting(&[sleep])), "JavaThread::sleep");
}

#[test]
fn what_a_thread_does_not_tell_is_said_once_for_each_language() {
    let go: &[&str] = &["runtime.mcall", "runtime.findRunnable", "runtime.futex", FUTEX];
    let python: &[&str] = &[START, "py::transfer@[python]@/home/me/bank.py", "sem_wait@libc.so.6"];
    let missing = waiting(&[go, python, go]).missing;
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].contains("goroutine") && missing[1].contains("Python"), "{missing:?}");
    let rust: &[&str] =
        &["serve", "std::sys::sync::mutex::futex::Mutex::lock", "syscall@libc.so.6"];
    assert!(waiting(&[rust]).missing[0].contains("Rust"));
    assert!(waiting(&[&["main", "pthread_join@libc.so.6", FUTEX]]).missing.is_empty());
}
