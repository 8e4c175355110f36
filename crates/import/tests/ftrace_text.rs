//! What tracefs prints, plain and inside HTML. tests/golden/ftrace_text/make records it and says what its lines mean.
use base64::Engine;
use kasuri_import::{File, Options, load};
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ftrace_text").join(name)
}

fn text() -> Vec<u8> {
    std::fs::read(golden("trace.txt")).unwrap()
}

fn read(bytes: &[u8], salvage: bool) -> Result<Trace, kasuri_import::Error> {
    let name = "trace.txt";
    load(&[File { name, bytes }], &Options { salvage, ..Options::default() })
}

fn stamp(trace: &Trace, time: Time) -> i64 {
    trace.origin_monotonic_ns + time.ns()
}

fn tid(trace: &Trace, thread: ThreadIx) -> i64 {
    match thread.is_some() {
        true => trace.threads[thread.ix()].tid.into(),
        false => -1,
    }
}

fn rows(value: &Value) -> Vec<Vec<i64>> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Every switch and wake-up of the text, to the stamp.
fn compare(trace: &Trace) {
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let expected: Value =
        serde_json::from_slice(&std::fs::read(golden("trace.expected.json")).unwrap()).unwrap();
    let on = &trace.occupancy;
    let mut compared = 0;
    let theirs = rows(&expected["occupancy"]);
    for row in &theirs {
        let cpu = &trace.cpus[row[0] as usize];
        let found = cpu.occupancy.clone().map(|ix| ix as usize).any(|ix| {
            let who = match on.idle[ix] {
                true => 0,
                false => tid(trace, on.thread[ix]),
            };
            stamp(trace, on.start[ix]) == row[1] && who == row[2]
        });
        // Of several switches within one microsecond only the last took time.
        let same = theirs.iter().filter(|other| other[0] == row[0] && other[1] == row[1]).count();
        // Who came with a CPU's last event is not known to have stayed.
        let is_last = theirs.iter().all(|other| other[0] != row[0] || other[1] <= row[1]);
        assert!(found || same > 1 || is_last, "{row:?}");
        compared += usize::from(found);
    }
    assert!(compared * 10 > theirs.len() * 9 && compared > 50, "{compared} of {}", theirs.len());
    let wakes = &trace.wakeups;
    let ours: Vec<Vec<i64>> = (0..wakes.time.len())
        .map(|ix| vec![stamp(trace, wakes.time[ix]), tid(trace, wakes.wakee[ix])])
        .collect();
    let mut theirs: Vec<Vec<i64>> =
        rows(&expected["wakeups"]).iter().map(|row| vec![row[0], row[2]]).collect();
    let mut sorted = ours.clone();
    sorted.sort();
    theirs.sort();
    assert_eq!(sorted, theirs);
}

#[test]
fn switches_and_wakeups_are_those_of_the_text() {
    let trace = read(&text(), false).unwrap();
    compare(&trace);
    assert!(trace.losses.is_empty(), "{:?}", trace.losses);
    assert_eq!(trace.info.format, "ftrace text");
}

#[test]
fn marks_become_slices_and_counters() {
    let trace = read(&text(), false).unwrap();
    let names: Vec<&str> = trace.slices.name.iter().map(|&name| trace.strings.get(name)).collect();
    assert_eq!(names, ["run the program"]);
    assert!((trace.slices.end[0] - trace.slices.start[0]).ns() > 1_000_000);
    assert_eq!(trace.counters[0].value, [20.0]);
}

fn html(content: &[u8]) -> Vec<u8> {
    let mut out =
        b"<!DOCTYPE html>\n<html><body>\n<script class=\"trace-data\" type=\"application/text\">"
            .to_vec();
    out.extend_from_slice(content);
    out.extend_from_slice(b"</script>\n</body></html>\n");
    out
}

#[test]
fn text_inside_html_plain_and_compressed() {
    let plain = read(&html(&text()), false).unwrap();
    compare(&plain);
    assert_eq!(plain.info.format, "ftrace text in HTML");
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(&text()).unwrap();
    let packed = base64::engine::general_purpose::STANDARD.encode(packer.finish().unwrap());
    compare(&read(&html(packed.as_bytes()), false).unwrap());
}

/// A `trace_pipe` has no head, so the first line is an event's, often the idle thread's.
#[test]
fn a_first_line_of_the_idle_thread_is_no_html() {
    for name in ["<idle>-0", "<...>-812", "<unknown>-200", "<unknown>-200   (-----)"] {
        let line = format!(
            "          {name}     [001] d..2.   100.000100: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
             prev_state=R ==> next_comm=cat next_pid=7 next_prio=120\n"
        );
        let trace = read(line.as_bytes(), false).expect(name);
        assert_eq!(trace.info.format, "ftrace text");
        assert!(trace.threads.iter().any(|t| t.tid == 7), "{name}");
    }
}

#[test]
fn a_bomb_inside_html_is_refused() {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b'\n'; 1 << 20];
    (0..100).for_each(|_| packer.write_all(&zeros).unwrap());
    let packed = base64::engine::general_purpose::STANDARD.encode(packer.finish().unwrap());
    let error = read(&html(packed.as_bytes()), false).err().unwrap().to_string();
    assert!(error.contains("needed at most"), "{error}");
}

#[test]
fn losses_and_other_columns() {
    let text = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/10   #P:2\n#\n\
        a b-7  (     7) [001] d..2. 1.000000: sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\
        CPU:1 [LOST 5 EVENTS]\n\
        a b-7  (     7) [001] d..2. 1.000500: sched_waking: comm=x-8 pid=8 prio=120 target_cpu=000\n\
        what is this\n";
    let trace = read(text, false).unwrap();
    let causes: Vec<(&str, u64)> =
        trace.losses.iter().map(|l| (l.cause.as_str(), l.count)).collect();
    assert!(causes.contains(&("kernel buffer overrun", 5)), "{causes:?}");
    assert!(causes.contains(&("overwritten before it was read", 7)), "{causes:?}");
    assert!(causes.iter().any(|(cause, n)| cause.contains("line 8") && *n == 1), "{causes:?}");
    assert_eq!(trace.cpus.len(), 2);
}

/// A line of a trace recorded with the option record-tgid, on CPU 1, so many microseconds after 100 s.
fn line(comm: &str, tid: i32, pid: &str, us: u32, event: &str) -> String {
    format!("{comm:>16}-{tid:<7} ({pid:>7}) [001] d..2. 100.{us:06}: {event}\n")
}

fn switch(prev: i32, state: &str, next: i32) -> String {
    format!(
        "sched_switch: prev_comm=x prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=x next_pid={next} next_prio=120"
    )
}

#[test]
fn the_column_of_processes_and_the_first_name_of_a_thread_are_known_from_the_start() {
    let text = [
        line("<...>", 8, "7", 100, "sched_waking: comm=worker pid=9 prio=120 target_cpu=001"),
        line("server", 7, "7", 200, &switch(7, "S", 8)),
        line("worker", 8, "7", 300, &switch(8, "S", 9)),
        line("other", 9, "-------", 400, &switch(9, "S", 0)),
    ]
    .concat();
    let trace = read(text.as_bytes(), false).unwrap();
    let process = |tid| {
        let thread = trace.threads.iter().find(|t| t.tid == tid).expect("there");
        trace.processes[thread.process.ix()].pid
    };
    // Without a column the thread is a process of its own.
    assert_eq!([process(7), process(8), process(9)], [7, 7, 9]);
    // Each CPU's buffer begins late: nobody is known to have run there since the trace began.
    let on = &trace.occupancy;
    assert_eq!(on.start[0], Time(0));
    let first_known = (0..on.start.len()).find(|&i| on.thread[i].is_some()).unwrap();
    assert_eq!(tid(&trace, on.thread[first_known]), 8);
    assert_eq!(trace.n_kernel_events, 4);
    let counts: Vec<_> =
        (trace.info.event_costs.iter()).map(|kind| (&*kind.name, kind.n, kind.n_program)).collect();
    assert_eq!(counts, [("sched_switch", 3, 3), ("sched_waking", 1, 1)]);
}

#[test]
fn migrations_are_those_of_events_where_there_are_any() {
    let on =
        |cpu: u32, us: u32, event: &str| format!("x-7 [{cpu:03}] d..2. 100.{us:06}: {event}\n");
    let moved = "sched_migrate_task: comm=x pid=7 prio=120 orig_cpu=0 dest_cpu=1";
    let without = [
        on(0, 100, &switch(0, "R", 7)),
        on(0, 200, &switch(7, "S", 0)),
        on(1, 400, &switch(0, "R", 7)),
        on(1, 500, &switch(7, "S", 0)),
    ];
    // Told by where it comes on; or by the event, and by nothing else.
    let trace = read(without.concat().as_bytes(), false).unwrap();
    assert_eq!(trace.migrations.to_cpu, [1]);
    let mut with = without.to_vec();
    with.insert(2, on(0, 300, moved));
    let trace = read(with.concat().as_bytes(), false).unwrap();
    let at: Vec<i64> = trace.migrations.time.iter().map(|&t| stamp(&trace, t)).collect();
    assert_eq!(at, [100_000_300_000]);
}

#[test]
fn a_line_of_a_cpu_that_no_machine_has_is_not_understood() {
    let of = |cpu: u32| format!("x-7 [{cpu}] d..2. 100.000100: {}\n", switch(7, "S", 0));
    let text = [of(0), of(1), of(u32::MAX)].concat();
    let trace = read(text.as_bytes(), false).unwrap();
    assert_eq!(trace.cpus.len(), 2);
    let last = of(0).len() + of(1).len();
    let loss = trace.losses.iter().find(|l| l.cause.starts_with("lines not understood"));
    let cause = &*loss.expect("a loss").cause;
    assert!(cause.contains(&format!("byte {last}, line 3")), "{cause}");
}

#[test]
fn what_was_not_recorded_is_said() {
    let waking = "sched_waking: comm=x pid=9 prio=120 target_cpu=001";
    let wakeup = "sched_wakeup: comm=x pid=9 prio=120 target_cpu=001";
    let said = |events: &[&str]| {
        let lines = events.iter().map(|event| line("x", 7, "7", 100, event));
        let trace = read(lines.collect::<String>().as_bytes(), false).unwrap();
        let has = |text: &str| trace.info.missing.iter().any(|m| m.starts_with(text));
        assert!(has("times are cut"));
        (has("no switches"), has("no wake-ups"), trace.info.kernel_source)
    };
    let switch = switch(7, "S", 0);
    let tracefs = || "tracefs".to_owned();
    assert_eq!(said(&[waking]), (true, false, "none".to_owned()));
    assert_eq!(said(&[&switch]), (false, true, tracefs()));
    assert_eq!(said(&[&switch, waking]), (false, false, tracefs()));
    assert_eq!(said(&[&switch, wakeup]), (false, false, tracefs()));
}

#[test]
fn scripts_in_html_are_read_one_after_the_other_and_one_without_an_end_is_an_error() {
    let (first, second) =
        (line("x", 7, "7", 100, &switch(0, "R", 7)), line("x", 7, "7", 300, &switch(7, "S", 0)));
    let script = |text: &str| {
        format!("<script class=\"trace-data\" type=\"application/text\">\n{text}</script>\n")
    };
    let page = format!("<!DOCTYPE html>\n<body>{}<p>{}", script(&first), script(&second));
    let trace = read(page.as_bytes(), false).unwrap();
    assert_eq!(trace.n_kernel_events, 2);
    assert_eq!((trace.span.end - trace.span.start).ns(), 200_000);
    let cut = &page[..page.rfind("</script>").unwrap()];
    let error = read(cut.as_bytes(), false).err().unwrap().to_string();
    // It says where the script begins, how many bytes follow, and that its end tag needs nine more.
    let from = cut.rfind("<script").unwrap();
    let from = from + cut[from..].find('>').unwrap() + 1;
    let left = cut.len() - from;
    for part in [
        "trace in HTML".to_owned(),
        format!("byte {from}"),
        left.to_string(),
        (left + 9).to_string(),
    ] {
        assert!(error.contains(&part), "{part}: {error}");
    }
}

#[test]
fn what_is_mostly_noise_is_an_error_with_its_line() {
    let mut noise = b"a-1 [000] 1.0: x: y\n".to_vec();
    noise.extend_from_slice(b"noise\nmore\nand more\n");
    let error = read(&noise, false).err().unwrap().to_string();
    assert!(error.contains("byte 20") && error.contains("line 2"), "{error}");
    assert!(read(&noise, true).is_ok());
}

#[test]
fn cut_and_damaged_text_never_panics() {
    let all = text();
    for n in (0..all.len()).step_by(all.len() / 60 + 1).chain(0..60) {
        let _ = read(&all[..n], false);
        let _ = read(&html(&all[..n])[..n], false);
    }
    let mut seed = 0x5eed_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..60 {
        let mut bad = all.clone();
        for _ in 0..20 {
            let at = random() as usize % bad.len();
            bad[at] = random() as u8;
        }
        if let Ok(trace) = read(&bad, true) {
            assert_eq!(trace.broken_rules(), Vec::<String>::new());
        }
    }
}

/// A buffer that does not overwrite takes nothing more once it is full: a thread that ran for 46 ms must not run until the end of the other.
#[test]
fn a_cpu_whose_buffer_was_full_early_runs_nobody_until_the_end() {
    let on = |cpu: u32, ms: u32, prev, next| {
        let event = switch(prev, "S", next);
        format!("x-{prev} [{cpu:03}] d..2. 100.{ms:03}000: {event}\n")
    };
    let lines = [on(0, 0, 0, 7), on(0, 46, 7, 8), on(1, 10, 0, 9), on(1, 238, 9, 0)].concat();
    let running = |text: &str, tid: i32| {
        let trace = read(text.as_bytes(), false).unwrap();
        let thread = trace.threads.iter().find(|t| t.tid == tid).unwrap();
        let rows = thread.states.start as usize..thread.states.end as usize;
        let ends = |row: usize| match row + 1 < rows.end {
            true => trace.states.start[row + 1],
            false => thread.alive.end,
        };
        let run = rows.clone().filter(|&row| trace.states.state[row] == ThreadState::Running);
        run.map(|row| (ends(row) - trace.states.start[row]).ns() / 1_000_000).sum::<i64>()
    };
    assert_eq!([7, 8, 9].map(|tid| running(&lines, tid)), [46, 0, 228]);
    // What overwrites keeps the newest events of each CPU: nothing is missing after the last.
    let header = "# tracer: nop\n# entries-in-buffer/entries-written: 4/9   #P:2\n";
    let overwritten = format!("{header}{lines}");
    assert_eq!([7, 8, 9].map(|tid| running(&overwritten, tid)), [46, 192, 228]);
}

/// Two threads that take turns, as the kernel prints it.
fn turns() -> Vec<String> {
    let on = |cpu: u32, us: u32, event: String| {
        format!("x-7     [{cpu:03}] d..2. 100.{us:06}: {event}\n")
    };
    let waking = |pid| format!("sched_waking: comm=x pid={pid} prio=120 target_cpu=001");
    vec![
        on(0, 100, switch(0, "R", 7)),
        on(0, 200, waking(8)),
        on(1, 210, switch(0, "R", 8)),
        on(0, 300, switch(7, "S", 0)),
        on(1, 310, waking(7)),
        on(0, 320, switch(0, "R", 7)),
        on(1, 400, switch(8, "D", 0)),
        on(0, 410, "tracing_mark_write: B|7|work".into()),
        on(0, 450, "tracing_mark_write: E|7".into()),
        on(0, 500, switch(7, "S", 0)),
    ]
}

/// What the trace says, without messages.
fn answers(trace: &Trace) -> String {
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let states = &trace.states;
    let wakes = &trace.wakeups;
    let slices = &trace.slices;
    format!(
        "{:?}\n{:?} {:?} {:?}\n{:?} {:?}\n{:?} {:?}\n{}",
        trace.span,
        states.start,
        states.state,
        states.cpu,
        wakes.time,
        wakes.latency,
        slices.start,
        slices.end,
        trace.n_kernel_events
    )
}

#[test]
fn lines_out_of_order_or_twice_are_put_in_order_and_that_is_said() {
    let lines = turns();
    let right = read(lines.concat().as_bytes(), false).unwrap();
    assert_eq!(right.wakeups.latency.len(), 2);
    assert_eq!(right.slices.start.len(), 1);
    let said = |trace: &Trace| -> Vec<String> {
        let about = |m: &&String| m.contains("back in time") || m.contains("twice");
        trace.info.missing.iter().filter(about).cloned().collect()
    };
    assert_eq!(said(&right), [""; 0]);
    // Each CPU's lines together, as some tools print them: nothing goes back within a CPU.
    let mut by_cpu = lines.clone();
    by_cpu.sort_by_key(|line| line.contains("[001]"));
    let trace = read(by_cpu.concat().as_bytes(), false).unwrap();
    assert_eq!((answers(&trace), said(&trace)), (answers(&right), vec![]));
    // Every rotation and many swaps.
    let mut seed = 7u32;
    for round in 0..40 {
        let mut mixed = lines.clone();
        for at in (1..mixed.len()).rev() {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
            mixed.swap(at, (seed >> 16) as usize % (at + 1));
        }
        let trace = read(mixed.concat().as_bytes(), false).unwrap();
        assert_eq!(answers(&trace), answers(&right), "round {round}: {mixed:#?}");
    }
    // Pasted twice, wholly or with an overlap; and each line twice.
    let twice = [lines.concat(), lines.concat()].concat();
    let overlap = [lines[..8].concat(), lines[4..].concat()].concat();
    let doubled: String = lines.iter().map(|line| line.repeat(2)).collect();
    for (text, n) in [(twice, 10), (overlap, 4), (doubled, 10)] {
        let trace = read(text.as_bytes(), false).unwrap();
        assert_eq!(answers(&trace), answers(&right), "{text}");
        let said = said(&trace).join("; ");
        assert!(said.contains(&format!("{n} lines stand there twice")), "{said}");
    }
    let swapped = [&lines[3], &lines[0]].map(String::as_str).concat();
    let said = said(&read(swapped.as_bytes(), false).unwrap()).join("; ");
    assert!(said.starts_with("1 line goes back in time, the first is line 2"), "{said}");
}

/// `trace-cmd report -R` and old versions print the fields alone; a kernel's bits are told by the highest that it uses.
#[test]
fn switches_without_an_arrow_and_with_numbers_for_states() {
    let raw = |us: u32, prev: i32, state: u32, next: i32| {
        format!(
            "  x-{prev}     [001] 100.{us:06}: sched_switch:          prev_comm=a b prev_pid={prev} prev_prio=120 prev_state={state} \
             next_comm=c next_pid={next} next_prio=120\n"
        )
    };
    let states = |text: &str| -> Vec<ThreadState> {
        let trace = read(text.as_bytes(), false).unwrap();
        assert!(trace.losses.is_empty(), "{:?}", trace.losses);
        let thread = trace.threads.iter().find(|t| t.tid == 7).unwrap();
        let rows = thread.states.start as usize..thread.states.end as usize;
        trace.states.state[rows].to_vec()
    };
    use ThreadState::*;
    let text = |state| [raw(100, 0, 0, 7), raw(200, 7, state, 0), raw(300, 0, 0, 8)].concat();
    assert_eq!(states(&text(1)), [Running, Sleeping]);
    assert_eq!(states(&text(2)), [Running, DiskSleep]);
    assert_eq!(states(&text(0x100)), [Running, RunnablePreempted]);
    // Until Linux 4.13 a bit above told it, and 64 was a dead thread.
    for plus in [1024, 2048, 4096] {
        assert_eq!(states(&text(plus)), [Running, RunnablePreempted], "{plus}");
        let dead = [text(64), raw(400, 8, plus, 0)].concat();
        assert_eq!(states(&dead), [Running], "{plus}");
    }
}

#[test]
fn a_number_that_is_none_is_counted_and_the_first_is_named() {
    let good = turns().concat();
    let bad =
        "  x-7     [000] d..2. 100.000250: sched_waking: comm=x pid=1_8 prio=120 target_cpu=001\n";
    let other = "  x-7     [000] d..2. 100.000260: sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid= next_prio=1\n";
    // Nobody uses it: nothing is missing.
    let unused = "  x-7     [000] d..2. 100.000270: cpu_idle: state=x cpu_id=\n";
    let stamp =
        "  x-7     [000] d..2. 100.00x270: sched_waking: comm=x pid=8 prio=120 target_cpu=001\n";
    let text = [&good, bad, other, unused, stamp].map(|part| part.to_owned()).concat();
    let trace = read(text.as_bytes(), false).unwrap();
    let losses: Vec<(u64, &str)> = trace.losses.iter().map(|l| (l.count, &*l.cause)).collect();
    let at = |n: u64, what: &str| losses.iter().any(|l| l.0 == n && l.1.contains(what));
    assert!(
        at(2, &format!("events not understood, the first at byte {}: \"x-7", good.len())),
        "{losses:?}"
    );
    assert!(at(1, "lines not understood"), "{losses:?}");
    assert_eq!(losses.len(), 2);
}

/// What people paste: the same run as the kernel prints it and as perf does.
#[test]
fn perf_script_text_is_read_like_the_kernels() {
    let kernel: Vec<String> = turns().into_iter().filter(|line| line.contains("sched_")).collect();
    let perf = |line: &String| {
        let (_, rest) = line.split_once('[').unwrap();
        let (cpu, rest) = rest.split_once("] d..2. ").unwrap();
        let (time, event) = rest.split_once(": ").unwrap();
        format!(
            "         x y/0:1-eve     7 [{cpu}]   {time}:       sched:{event}\tffffffff810a1b2c schedule+0x1c ([kernel.kallsyms])\n\n"
        )
    };
    let text: String = kernel.iter().map(perf).collect();
    let trace = read(text.as_bytes(), false).unwrap();
    assert_eq!(answers(&trace), answers(&read(kernel.concat().as_bytes(), false).unwrap()));
    assert!(trace.losses.is_empty(), "{:?}", trace.losses);
    assert_eq!(trace.info.format, "perf script text");
}

#[test]
fn the_literal_of_older_systraces_is_read() {
    let text = turns().concat().replace("comm=x", "comm=x\"\\y");
    let page = |literal: &str| {
        format!(
            "<!DOCTYPE HTML>\n<html><script>\n  var linuxPerfData = \"\\\n{literal}\n</script></html>\n"
        )
    };
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n\\\n");
    let trace = read(page(&format!("{escaped}\";")).as_bytes(), false).unwrap();
    assert_eq!(answers(&trace), answers(&read(text.as_bytes(), false).unwrap()));
    assert!(trace.threads.iter().any(|t| trace.strings.get(t.name) == "x\"\\y"));
    // Cut by hand, without a quote at the end.
    let plain = text.replace(['\\', '"'], "");
    let cut = read(page(&plain).as_bytes(), false).unwrap();
    assert_eq!(answers(&cut), answers(&trace));
    let error =
        read(page("# tracer: nop\\n").replace("</script>", "").as_bytes(), false).unwrap_err();
    assert!(error.to_string().contains("text without an end"), "{error}");
}
