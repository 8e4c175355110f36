//! Pages of a real kernel, against readings that are not ours: the kernel's own text and its loss counts.
//!
//! `data/` holds pages and the text that the same kernel printed of them. With root the same is done live, in a tracefs
//! instance of the test's own. A negative control changes one bit and wants the comparison to fail.
#![allow(missing_docs, reason = "a test")]
use kasuri_format::tracefs::{EventFormat, EventTable, FieldKind, Missed, Page, PageLayout};
use kasuri_testkit::skip;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const TRACING: &str = "/sys/kernel/tracing";

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

fn table(formats: &[(String, String)]) -> EventTable {
    EventTable::new(
        formats.iter().map(|(name, text)| EventFormat::parse(name, text).unwrap()).collect(),
    )
}

/// One event as `key=value` pairs of the format's own fields, and what it is.
struct Got {
    cpu: usize,
    stamp: u64,
    event: String,
    pid: i64,
    fields: BTreeMap<String, String>,
}

/// `{ 0x00000001, "S" }` pairs of a print format.
fn flag_names(print_fmt: &str) -> Vec<(i64, String)> {
    let pairs = print_fmt.split("{ 0x").skip(1);
    pairs
        .filter_map(|p| {
            let (number, rest) = p.split_once(',')?;
            Some((i64::from_str_radix(number.trim(), 16).ok()?, rest.split('"').nth(1)?.to_owned()))
        })
        .collect()
}

fn read_pages(cpu: usize, pages: &[u8], table: &EventTable, out: &mut Vec<Got>) {
    for at in (0..pages.len()).step_by(4096) {
        let page = Page::parse(&pages[at..], &PageLayout::LE64, at as u64).unwrap();
        assert_eq!(page.missed, Missed::None);
        for event in page.events() {
            let event = event.unwrap();
            let format = &table.types()[usize::from(table.by_id(event.id(false).unwrap()))];
            let mut fields = BTreeMap::new();
            for field in &format.fields {
                let value = match field.kind {
                    FieldKind::Int if field.name == "prev_state" => {
                        let state = field.int(event.data, 0, false).unwrap();
                        let names = flag_names(&format.print_fmt);
                        assert!(names.len() >= 8, "state names stand in the print format");
                        let mask = names.iter().fold(0, |m, n| m | n.0);
                        let name =
                            names.iter().find(|n| n.0 & state != 0).map_or("R", |n| n.1.as_str());
                        name.to_owned() + if state & (mask + 1) != 0 { "+" } else { "" }
                    }
                    FieldKind::Int => field.int(event.data, 0, false).unwrap().to_string(),
                    FieldKind::Ints { count, .. } => (0..count as usize)
                        .map(|ix| format!("{:x}", field.int(event.data, ix, false).unwrap()))
                        .collect::<Vec<_>>()
                        .join(", "),
                    _ => {
                        let bytes = field.bytes(event.data, false).unwrap();
                        let text = bytes.split(|&b| b == 0).next().unwrap();
                        String::from_utf8_lossy(text).into_owned()
                    }
                };
                fields.insert(field.name.clone(), value);
            }
            let pid = fields["common_pid"].parse().unwrap();
            let event_name = format.name.rsplit('/').next().unwrap().to_owned();
            out.push(Got { cpu, stamp: event.stamp, event: event_name, pid, fields });
        }
    }
}

/// `key=value` pairs whose keys are fields; a value may contain spaces (names of threads do).
fn pairs<'a>(body: &'a str, fields: &BTreeMap<String, String>) -> Vec<(&'a str, &'a str)> {
    let mut out: Vec<(&str, &str)> = Vec::new();
    let mut start = None;
    let mut at = 0;
    for word in body.split(' ').chain(["==>"]) {
        let key = word.split_once('=').map(|(key, _)| key).filter(|key| fields.contains_key(*key));
        if key.is_some() || word == "==>" {
            if let Some((key, from)) = start.take() {
                out.push((key, body[from..at].trim_end()));
            }
            start = key.map(|key| (key, at + key.len() + 1));
        }
        at = (at + word.len() + 1).min(body.len());
    }
    out
}

/// Compares with the text of the same buffer (clock x86-tsc: stamps in full). Returns the number of `key=value`s that agree.
fn assert_agrees(mut got: Vec<Got>, text: &str) -> usize {
    got.sort_by_key(|g| g.stamp);
    let lines: Vec<&str> =
        text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).collect();
    assert_eq!(got.len(), lines.len(), "as many events as lines");
    let mut compared = 0;
    // Equal stamps on two CPUs may stand in either order.
    let mut by_key: BTreeMap<(u64, usize), Vec<Got>> = BTreeMap::new();
    got.into_iter().rev().for_each(|g| by_key.entry((g.stamp, g.cpu)).or_default().push(g));
    for line in lines {
        // `   <...>-26578   [001] d..2. 7760897732952: sched_switch: prev_comm=...`
        let (head, rest) = line.split_once("] ").unwrap();
        let (task, cpu) = head.rsplit_once('[').unwrap();
        let pid: i64 = task.trim().rsplit('-').next().unwrap().parse().unwrap();
        let cpu: usize = cpu.parse().unwrap();
        let mut parts = rest.splitn(3, ": ");
        let stamp: u64 = parts.next().unwrap().split_whitespace().last().unwrap().parse().unwrap();
        let name = parts.next().unwrap();
        let body = parts.next().unwrap_or("");
        let event = by_key
            .get_mut(&(stamp, cpu))
            .and_then(Vec::pop)
            .unwrap_or_else(|| panic!("no event for {line}"));
        assert_eq!((event.event.as_str(), event.pid), (name, pid), "{line}");
        match name {
            "sys_enter" => {
                let (nr, args) = body.strip_prefix("NR ").unwrap().split_once(" (").unwrap();
                assert_eq!(
                    (event.fields["id"].as_str(), event.fields["args"].as_str()),
                    (nr, args.trim_end_matches(')'))
                );
                compared += 7;
            }
            "softirq_entry" => {
                assert!(body.starts_with(&format!("vec={} ", event.fields["vec"])), "{line}");
                compared += 1;
            }
            _ => {
                for pair in pairs(body, &event.fields) {
                    let value = &event.fields[pair.0];
                    let text = if pair.0.ends_with("cpu") {
                        pair.1.trim_start_matches('0')
                    } else {
                        pair.1
                    };
                    let text = if text.is_empty() { "0" } else { text };
                    let text = if (value.as_str(), text) == ("1", "true") { "1" } else { text };
                    assert_eq!(value, text, "{} of {line}", pair.0);
                    compared += 1;
                }
            }
        }
    }
    compared
}

/// The capture in `data/sched`, its first page of CPU 1 changed by `damage`.
fn captured(damage: impl Fn(&mut [u8])) -> Vec<Got> {
    let mut formats = Vec::new();
    for entry in fs::read_dir(data("sched/formats")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().replacen('.', "/", 1);
        formats.push((name, fs::read_to_string(&path).unwrap()));
    }
    let table = table(&formats);
    let mut got = Vec::new();
    for cpu in 0..2 {
        let mut pages = fs::read(data(&format!("sched/cpu{cpu}.raw"))).unwrap();
        if cpu == 1 {
            damage(&mut pages);
        }
        read_pages(cpu, &pages, &table, &mut got);
    }
    got
}

#[test]
fn captured_pages_say_what_the_kernels_text_says() {
    let got = captured(|_| {});
    assert_eq!(got.len(), 698);
    let compared = assert_agrees(got, &fs::read_to_string(data("sched/trace.txt")).unwrap());
    assert!(compared > 2500, "{compared} values compared");
}

/// Negative control: one bit of a stamp, a pid or a name, and the comparison above must fail.
#[test]
fn the_comparison_sees_a_single_wrong_bit() {
    let text = fs::read_to_string(data("sched/trace.txt")).unwrap();
    // The delta and common_pid of the page's first event; the first letter of a thread's name.
    let pages = fs::read(data("sched/cpu1.raw")).unwrap();
    let name = pages.windows(11).position(|w| w == b"rcu_preempt").unwrap();
    for at in [16 + 2, 16 + 4 + 4, name] {
        let agrees = std::panic::catch_unwind(|| assert_agrees(captured(|p| p[at] ^= 1), &text));
        assert!(agrees.is_err(), "a changed bit at {at} went unseen");
    }
}

#[test]
fn missed_flags_stand_where_marks_are_missing() {
    let table =
        table(&[("ftrace/print".into(), fs::read_to_string(data("formats/print")).unwrap())]);
    let print = &table.types()[0];
    let buf = &print.fields[print.find("buf").unwrap()];
    let pages = fs::read(data("missed/cpu0.raw")).unwrap();
    let (mut next, mut lost, mut flagged, mut gaps) = (0u64, 0, 0, 0);
    for at in (0..pages.len()).step_by(4096) {
        let page = Page::parse(&pages[at..], &PageLayout::LE64, at as u64).unwrap();
        flagged += usize::from(page.missed != Missed::None);
        for (ix, event) in page.events().enumerate() {
            let event = event.unwrap();
            let text = String::from_utf8_lossy(buf.bytes(event.data, false).unwrap());
            let Some(mark) = text.strip_prefix("mark ") else {
                continue;
            };
            // The kernel pads with whatever was there.
            let mark: u64 = mark.split('\n').next().unwrap().parse().unwrap();
            if mark != next {
                assert!(
                    ix == 0 && page.missed != Missed::None,
                    "marks {next}..{mark} are missing without a flag"
                );
                gaps += 1;
                lost += mark - next;
            }
            next = mark + 1;
        }
    }
    let stats = fs::read_to_string(data("missed/stats")).unwrap();
    let overrun: u64 =
        stats.lines().find_map(|l| l.strip_prefix("overrun: ")).unwrap().trim().parse().unwrap();
    assert_eq!(
        (lost, flagged),
        (overrun, gaps),
        "as many lost as the kernel counted, each gap flagged"
    );
    assert!(lost > 0 && gaps > 0);
}

#[test]
fn every_format_file_of_this_kernel_is_understood() {
    let Ok(systems) = fs::read_dir(format!("{TRACING}/events")) else {
        return skip("tracefs is not readable at /sys/kernel/tracing");
    };
    let (mut n, mut n_fields) = (0, 0);
    for system in systems.flatten().filter(|e| e.path().is_dir()) {
        for event in fs::read_dir(system.path()).unwrap().flatten() {
            let Ok(text) = fs::read_to_string(event.path().join("format")) else {
                continue;
            };
            let name = format!("{}/{}", system.file_name().display(), event.file_name().display());
            let format = EventFormat::parse(&name, &text).unwrap();
            let lines = text.lines().filter(|l| l.trim_start().starts_with("field:"));
            assert_eq!(format.fields.len(), lines.clone().count(), "{name}");
            for (field, line) in format.fields.iter().zip(lines) {
                let words = format!(
                    "offset:{};\tsize:{};\tsigned:{};",
                    field.offset,
                    field.size,
                    u8::from(field.signed)
                );
                assert!(line.contains(&words), "{name}: {line} is not {words}");
                assert!(
                    line.contains(&field.name) && !field.name.contains(['[', ']', '*', ' ']),
                    "{name}: {}",
                    field.name
                );
                let bytes = field.type_name.contains("char")
                    || field.type_name.contains("u8")
                    || field.size == 0;
                let numbers = matches!(field.kind, FieldKind::Int | FieldKind::Ints { .. });
                let located = matches!(field.kind, FieldKind::DataLoc | FieldKind::RelLoc);
                assert_eq!(located, line.contains("_loc "), "{name}: {line}");
                assert!(numbers || bytes || located, "{name}: {line} became {:?}", field.kind);
            }
            assert!(text.contains("print fmt:") != format.print_fmt.is_empty());
            n += 1;
            n_fields += format.fields.len();
        }
    }
    println!("{n} formats, {n_fields} fields");
    assert!(n > 100);
}

/// A private tracefs instance, removed at the end whatever happens.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Option<Instance> {
        let path =
            PathBuf::from(format!("{TRACING}/instances/kasuri-format-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Instance(path))
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|e| panic!("{file}: {e}"));
    }

    fn raw(&self, cpu: usize) -> Vec<u8> {
        const O_NONBLOCK: i32 = 0o4000;
        let path = self.0.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let mut file =
            fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).unwrap();
        let (mut out, mut page) = (Vec::new(), [0; 4096]);
        while let Ok(n) = file.read(&mut page)
            && n > 0
        {
            out.extend_from_slice(&page[..n]);
        }
        out
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn live_pages_say_what_the_kernels_text_says() {
    let Some(instance) = Instance::new() else {
        return skip("no right to make a tracefs instance; run as root");
    };
    instance.write("tracing_on", "0");
    let clocks = fs::read_to_string(instance.0.join("trace_clock")).unwrap();
    if !clocks.contains("x86-tsc") {
        return skip("no trace clock whose stamps the text shows in full");
    }
    instance.write("trace_clock", "x86-tsc");
    instance.write("trace_options", "norecord-cmd");
    instance.write("buffer_size_kb", "8192"); // nothing may be overwritten, also on a busy machine
    let events = [
        "sched_switch",
        "sched_waking",
        "sched_wakeup_new",
        "sched_migrate_task",
        "sched_process_fork",
    ];
    let mut formats = vec![(
        "ftrace/print".into(),
        fs::read_to_string(format!("{TRACING}/events/ftrace/print/format")).unwrap(),
    )];
    for event in events {
        instance.write(&format!("events/sched/{event}/enable"), "1");
        let text = fs::read_to_string(format!("{TRACING}/events/sched/{event}/format")).unwrap();
        formats.push((format!("sched/{event}"), text));
    }
    instance.write("tracing_on", "1");
    for _ in 0..50 {
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(1)))
            .join()
            .unwrap();
    }
    // A gap that 27 bits of delta cannot hold.
    std::thread::sleep(std::time::Duration::from_millis(60));
    instance.write("tracing_on", "0");
    let text = fs::read_to_string(instance.0.join("trace")).unwrap();
    let table = table(&formats);
    let mut got = Vec::new();
    for entry in fs::read_dir(instance.0.join("per_cpu")).unwrap().flatten() {
        let cpu: usize = entry.file_name().to_str().unwrap()[3..].parse().unwrap();
        read_pages(cpu, &instance.raw(cpu), &table, &mut got);
    }
    let n = got.len();
    let compared = assert_agrees(got, &text);
    println!("{n} events, {compared} values compared");
    assert!(n > 100 && compared > n);
}
