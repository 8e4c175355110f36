//! Draining, statistics and the catalogue of events, on directories that look like a tracing instance.
use crate::guard::safefs::Held;
use crate::kernel::perf;
use crate::kernel::tracefs::{Catalogue, Drain, StatsFiles, Tracefs};
use crate::kernel::uprobes;
use crate::options::{Options, Target};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// An instance with so many CPUs, and a recording directory.
struct Fake {
    scratch: tempfile::TempDir,
    dir: Held,
}

impl Fake {
    fn new(n_cpus: u32) -> Fake {
        let scratch = tempfile::tempdir().unwrap();
        for cpu in 0..n_cpus {
            let place = scratch.path().join(format!("per_cpu/cpu{cpu}"));
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("trace_pipe_raw"), "").unwrap();
        }
        std::fs::create_dir(scratch.path().join("dir")).unwrap();
        let dir = Held::open(&scratch.path().join("dir")).unwrap();
        Fake { scratch, dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn instance(&self) -> OwnedFd {
        std::fs::File::open(self.scratch.path()).unwrap().into()
    }

    /// Appends to the raw data of CPU `cpu`.
    fn emit(&self, cpu: u32, bytes: &[u8]) {
        use std::io::Write;
        let file = std::fs::File::options()
            .append(true)
            .open(self.at(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")));
        file.unwrap().write_all(bytes).unwrap();
    }

    fn drain(&self, cpus: &[u32]) -> Drain {
        Drain::open(self.instance(), cpus, PAGE as u32, &self.dir).unwrap()
    }

    fn written(&self, cpu: u32) -> Vec<u8> {
        std::fs::read(self.at(&format!("dir/cpu{cpu}.raw"))).unwrap()
    }
}

fn pages(n: usize) -> Vec<u8> {
    (0..n * PAGE).map(|i| (1 + i / PAGE + i % 7) as u8).collect()
}

#[test]
fn pages_of_each_cpu_go_to_a_file_of_its_own() {
    let fake = Fake::new(3);
    let mut drain = fake.drain(&[0, 2]);
    fake.emit(0, &pages(600));
    fake.emit(1, &pages(9));
    fake.emit(2, &pages(3));
    let drained = drain.full_pages().unwrap();
    let bytes = |n: usize| (n * PAGE) as u64;
    assert_eq!((drained.bytes, drained.most), (bytes(603), bytes(600)));
    assert_eq!(drain.full_pages().unwrap().bytes, 0);
    fake.emit(2, &pages(1));
    assert_eq!(drain.full_pages().unwrap().most, bytes(1));
    assert_eq!((drain.bytes(), drain.sizes()), (bytes(604), vec![bytes(600), bytes(4)]));
    assert_eq!(fake.written(0), pages(600));
    assert_eq!(fake.written(2), [pages(3), pages(1)].concat());
    assert!(!fake.at("dir/cpu1.raw").exists(), "nobody asked for it");
    assert_eq!(drain.read_back(1, bytes(1)).unwrap(), pages(2)[PAGE..]);
    assert!(drain.read_back(1, bytes(4)).unwrap().is_empty());
}

#[test]
fn a_page_that_is_not_full_is_filled_with_nothing() {
    let fake = Fake::new(1);
    let mut drain = fake.drain(&[0]);
    fake.emit(0, b"half a page");
    assert!(drain.read_page(0).unwrap());
    assert!(!drain.read_page(0).unwrap(), "nothing is left");
    let written = fake.written(0);
    assert_eq!(written.len(), PAGE);
    assert!(written.starts_with(b"half a page") && written[11..].iter().all(|&b| b == 0));
    fake.emit(0, &pages(1));
    drain.rest().unwrap();
    assert_eq!(fake.written(0).len(), 2 * PAGE, "the next one begins on a page");
    assert_eq!(fake.written(0)[PAGE..], pages(1));
}

/// A limit of file sizes stands for a full disk: data that a file does not take is kept, whole pages in the file, the
/// rest in memory, and tried again. The test runs in a process of its own, which ignores the signal that such a limit
/// sends.
#[test]
fn pages_that_the_disk_does_not_take_are_kept() {
    let script = "trap '' XFSZ; exec \"$0\" --exact kernel::tests::child_with_a_limit_of_file_size --nocapture";
    let output = std::process::Command::new("bash")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("KASURI_TEST_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

#[test]
fn child_with_a_limit_of_file_size() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if std::env::var("KASURI_TEST_CHILD").is_err() {
        return;
    }
    let fake = Fake::new(1);
    let mut drain = fake.drain(&[0]);
    let all = pages(5);
    fake.emit(0, &all);
    let before = getrlimit(Resource::Fsize);
    let allow = |bytes: Option<u64>| {
        let limit = Rlimit { current: bytes, ..before };
        setrlimit(Resource::Fsize, limit).unwrap();
    };
    let unwritten = |drain: &Drain| drain.unwritten().flatten().copied().collect::<Vec<u8>>();
    for (limit, whole) in [(2 * PAGE + 100, 2), (2 * PAGE + 100, 2), (3 * PAGE - 1, 2)] {
        allow(Some(limit as u64));
        let error = drain.full_pages().unwrap_err().to_string();
        assert!(error.contains("cpu0.raw"), "{error}");
        assert_eq!(fake.written(0), all[..whole * PAGE], "the file ends on a whole page");
        assert_eq!(unwritten(&drain), all[whole * PAGE..], "nothing of the rest is gone");
    }
    allow(before.current);
    drain.rest().unwrap();
    assert_eq!(fake.written(0), all);
    assert!(unwritten(&drain).is_empty());
}

#[test]
fn statistics_are_read_anew_each_time() {
    let fake = Fake::new(2);
    let put = |cpu: u32, text: &str| {
        std::fs::write(fake.at(&format!("per_cpu/cpu{cpu}/stats")), text).unwrap()
    };
    put(0, "entries: 3\noverrun: 0\n");
    assert!(StatsFiles::open(fake.instance(), &[0, 1]).is_err(), "CPU 1 has none");
    put(1, "entries: 4\noverrun: x\nunheard of: 9\nno colon\n");
    let stats = StatsFiles::open(fake.instance(), &[0, 1]).unwrap();
    let read = || {
        let mut rows = Vec::new();
        stats.read(|cpu, stats| rows.push((cpu, stats.unread, stats.lost())));
        rows
    };
    assert_eq!(read(), [(0, 3, 0), (1, 4, 0)]);
    put(0, "entries: 3\noverrun: 5\ncommit overrun: 1\ndropped events: 2\n");
    assert_eq!(read()[0], (0, 3, 8));
}

#[test]
fn events_are_switched_by_their_files() {
    let fake = Fake::new(0);
    let events = ["sched/sched_switch", "sched/sched_wakeup", "irq/irq_handler_entry"];
    for event in events {
        let place = fake.at("events").join(event);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("enable"), "0").unwrap();
        std::fs::write(place.join("filter"), "none").unwrap();
        std::fs::write(place.join("format"), "name: x\nID: 7\n").unwrap();
    }
    std::fs::write(fake.at("events/enable"), "0").unwrap();
    std::fs::write(fake.at("events/irq/irq_handler_entry/format"), "no number").unwrap();
    let catalogue = Catalogue::open(fake.instance()).unwrap();
    assert_eq!(
        catalogue.names(),
        ["irq/irq_handler_entry", "sched/sched_switch", "sched/sched_wakeup"]
    );
    assert!(
        catalogue.has_system("sched") && !catalogue.has_system("") && !catalogue.has_system("net")
    );
    assert!(catalogue.format("sched/sched_switch").is_some());
    assert_eq!(catalogue.format("irq/irq_handler_entry"), None, "without a number it is of no use");
    assert_eq!(catalogue.format("sched/nothing"), None);
    let text = |path: &str| std::fs::read_to_string(fake.at("events").join(path)).unwrap();
    catalogue.enable("sched/sched_wakeup", true).unwrap();
    catalogue.set_filter("sched/sched_wakeup", "pid == 7").unwrap();
    catalogue.enable_all().unwrap();
    assert_eq!(
        ["sched/sched_switch/enable", "sched/sched_wakeup/enable", "enable"].map(text),
        ["0", "1", "1"]
    );
    assert_eq!(text("sched/sched_wakeup/filter"), "pid == 7");
    catalogue.disable_all().unwrap();
    assert_eq!(text("enable"), "0");
    catalogue.enable("sched/nothing", true).unwrap_err();
}

#[test]
fn a_directory_that_is_no_tracefs_is_none() {
    // Whether there is one depends on the machine; the test can only check that a refusal has a reason.
    if let Err(unavailable) = Tracefs::open() {
        assert!(!unavailable.why.is_empty() && !unavailable.remedy.is_empty());
    }
    let scratch = tempfile::tempdir().unwrap();
    let dir: OwnedFd = std::fs::File::open(scratch.path()).unwrap().into();
    assert!(Catalogue::open(dir).is_err());
}

#[test]
fn records_that_perf_lost_are_summed_whatever_stands_between_them() {
    let record = |kind: u32, words: &[u64]| -> Vec<u8> {
        let size = (8 + 8 * words.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    };
    let bytes =
        [record(2, &[1, 40]), record(9, &[2; 6]), record(2, &[1, 2]), record(2, &[1])].concat();
    assert_eq!(perf::lost(&bytes), 42);
    assert_eq!(perf::lost(&bytes[..bytes.len() - 9]), 42, "half a record at the end");
    assert_eq!(perf::lost(&bytes[..20]), 0);
    let huge = [record(2, &[1, u64::MAX]), record(2, &[1, 5])].concat();
    assert_eq!(perf::lost(&huge), u64::MAX);
    // A length of zero does not stop the reader.
    assert_eq!(perf::lost(&[[0; 8].as_slice(), &record(2, &[1, 3])].concat()), 3);
}

#[test]
fn lock_functions_that_cannot_be_found_are_refused_by_name() {
    let find = |wanted: &str, command: &[&str]| {
        let command: Vec<_> = command.iter().map(std::ffi::OsString::from).collect();
        uprobes::find(&[wanted.to_owned()], &command).unwrap_err().to_string()
    };
    let said = find("lock,unlock", &[]);
    assert!(
        said.contains("--lock-function lock,unlock") && said.contains("name the file"),
        "{said}"
    );
    let said = find("/etc/passwd:lock,unlock", &[]);
    assert!(said.starts_with("--lock-function"), "{said}");
    let said = find("/nowhere/at-all:lock", &[]);
    assert!(said.contains("/nowhere/at-all"), "{said}");
    let itself = std::env::current_exe().unwrap();
    let said = find("no_function_has_this_name", &[itself.to_str().unwrap()]);
    assert!(said.contains("no_function_has_this_name"), "{said}");
}

fn options() -> Options {
    Options::new(Target::Program(vec!["true".into()]), Path::new("run.kasuri").to_owned())
}

#[test]
fn events_are_wanted_once_each_with_what_is_lost_without_them() {
    let names = |options: &Options| -> Vec<String> {
        options.kernel_events().into_iter().map(|(name, _)| name).collect()
    };
    let plain = names(&options());
    assert!(plain.contains(&"sched/sched_switch".to_owned()));
    let mut more = options();
    more.irq = true;
    more.events =
        ["sched:sched_switch", "net:netif_rx", "net/netif_rx"].map(str::to_owned).to_vec();
    let more_names = names(&more);
    assert!(more_names.len() > plain.len() + 1 && more_names.starts_with(&plain));
    assert_eq!(more_names.iter().filter(|n| *n == "sched/sched_switch").count(), 1);
    assert_eq!(more_names.iter().filter(|n| *n == "net/netif_rx").count(), 1);
    let lost = more.kernel_events().pop().unwrap().1;
    assert!(!lost.is_empty());
}

#[test]
fn buffers_are_as_large_as_asked_or_a_share_of_what_is_free() {
    let mut options = options();
    options.shm_dir = std::env::temp_dir();
    let free = options.buffer_kb(4);
    assert!((512..=16384).contains(&free), "{free}");
    assert_eq!(options.buffer_kb(1 << 20), 512, "a machine of a million CPUs gets the least");
    assert!((1 << 20..=4 << 30).contains(&options.ring_bytes()));
    options.memory = Some(16 << 20);
    let n_cpus = 4;
    let all = 2 * n_cpus * options.buffer_kb(n_cpus as usize) * 1024
        + 3 * options.ring_bytes()
        + 2 * options.most_waiting();
    assert!(all <= 11 << 20, "the recorder has 5 MiB: {all}");
    options.buffer_mb = Some(0);
    options.ring_mb = Some(3);
    assert_eq!((options.buffer_kb(4), options.ring_bytes()), (1024, 3 << 20));
}

#[test]
fn small_recordings_may_take_the_last_of_a_disk() {
    let mut options = options();
    assert_eq!(options.least_free(0), 0);
    assert_eq!(options.least_free(crate::KEEP_FREE), 0);
    assert_eq!(options.least_free(crate::KEEP_FREE + 1), crate::KEEP_FREE);
    options.keep_free = Some(5);
    assert_eq!([0, 1 << 40].map(|n| options.least_free(n)), [5, 5]);
    options.keep_free = Some(0);
    assert_eq!(options.least_free(1 << 40), 0);
}
