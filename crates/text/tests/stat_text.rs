//! The page of `kasuri stat` as a user sees it: it fits the screen, says the findings in words, shows no zero for what is not
//! known, and names from the recording cannot steer the terminal.
use crate::answers::{summary, thread};
use kasuri_analyze::account::{CauseSummary, ClassSum};
use kasuri_analyze::call_paths::*;
use kasuri_analyze::*;
use kasuri_text::table::{Layout, Section, Sections, render};
use unicode_width::UnicodeWidthStr;

fn page(summary: &Summary, width: usize) -> String {
    let layout = Layout { width, file: "quake.kasuri".into(), ..Layout::default() };
    render(summary, &layout)
}

#[test]
fn stat_fits_the_screen() {
    for width in [72, 80, 100, 120, 200] {
        let page = page(&summary(), width);
        println!("{}\n{page}", "=".repeat(width));
        for line in page.lines() {
            assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
    }
}

#[test]
fn stat_says_the_findings_in_words() {
    let page = page(&summary(), 120);
    for needed in [
        "./examples/quake --threads 2",
        "1.62 of 2 CPUs busy (81.0 %); ran on 2",
        "4.00 s counted by the kernel; the events show 3.90 s, 2.5 % less",
        "24,690, of them 642 preemptions; 24 migrations",
        "p50 4.21 us, p99 81.2 us, max 1.30 ms",
        "smvp: 31 % imbalance, cost 0.420 CPU-s over 2,000 rounds of 2 threads; slowest in 99.0 %: thread quake-2 (4712)",
        "1,904 events on CPU 1 in 2 gaps between 1.00 ms and 3.50 ms: kernel buffer overrun",
        "remedy: record with --buffer-kb 65536",
        "kasuri report quake.kasuri",
        "you got 1.60 of 2 CPUs: 0.21 lost to imbalance in loop48 (solver.c:48), 0.10 to lock `queue` (queue.c:81), 0.09 to",
        "100.000ms..123.000ms",
        "kasuri stat --range A..B quake.kasuri",
    ] {
        assert!(page.contains(needed), "{needed}\n{page}");
    }
}

/// The calls for which ito gave a worker away: the most frequent first, and nothing that steers the terminal.
#[test]
fn stat_says_which_calls_were_handed_over() {
    let mut summary = summary();
    summary.tasks.count = 3;
    assert!(!page(&summary, 200).contains("handed over"));
    for (call, count) in [("fsync", 24), ("write", 1_190), ("\u{1b}[2J", 1)] {
        let mut row = summary.annotations[0].clone();
        (row.name, row.count) = (format!("handed over: {call}"), count);
        row.total_ns = 500_000_000;
        summary.annotations.push(row);
    }
    let page = page(&summary, 200);
    let needed =
        "handed over 1,215 times, 1,190 in write, 24 in fsync, 1 in \u{fffd}[2J; they took 1.50 s";
    assert!(page.contains(needed), "{page}");
}

/// Also without tasks: what libito-pthread.so says of threads that it pinned, and of a program that it could give none.
#[test]
fn stat_says_which_light_threads_were_pinned_and_why_there_are_none() {
    let mut summary = summary();
    for (name, count) in [
        ("pinned: sigwait", 2),
        ("pinned: ptrace", 1),
        ("no light threads: it uses libito", 1),
        ("handed over: futex", 7),
    ] {
        let mut row = summary.annotations[0].clone();
        (row.name, row.count) = (name.to_string(), count);
        summary.annotations.push(row);
    }
    assert_eq!(summary.tasks.count, 0);
    let page = page(&summary, 200);
    for needed in [
        "3 light threads on a kernel thread of their own: 2 for sigwait, 1 for ptrace",
        "kernel threads: it uses libito",
        "handed over 7 times, 7 in futex;",
    ] {
        assert!(page.contains(needed), "{needed}\n{page}");
    }
}

/// What a user of OpenMP reads: the loop that another schedule makes shorter, and the bound where nothing could be replayed.
#[test]
fn stat_says_which_schedule_is_shorter() {
    let page = page(&summary(), 200);
    for needed in [
        "parallel solve:48 (solver.c) ",
        "parallel assemble:12 (solver.c:48) ",
        "  for runtime solve:50 ",
        "for runtime solve:50: 25 % imbalance; dynamic,8 would save 0.190 s of 0.800 s, replayed from 64,000 chunks",
        "parallel assemble:12: 25 % imbalance; an even split between its barriers would save 0.100 s of 0.400 s and no more",
    ] {
        assert!(page.contains(needed), "{needed}\n{page}");
    }
    assert!(!page.contains("parallel solve:48: 25 %"), "said twice\n{page}");
}

/// Handing out tiny chunks costs more than their uneven split: an even split is no bound then, and none is said.
#[test]
fn stat_says_no_bound_where_chunks_are_too_short() {
    let mut s = summary();
    let of = &mut s.openmp.as_mut().unwrap().loops[0];
    (of.schedules, of.refused) = (Vec::new(), Some(OpenMpLoop::TOO_SHORT));
    let page = page(&s, 200);
    let said = page.lines().find(|line| line.contains("too short")).unwrap();
    assert!(said.contains("static, cost less") && !said.contains("no more"), "{said}");
}

/// A program whose samples lie in OpenMP's runtime, recorded without --openmp, is told how its regions are seen; others are not.
#[test]
fn stat_says_how_regions_of_openmp_are_seen() {
    let said = |runtime: &'static str, openmp| {
        let mut s = summary();
        s.openmp = openmp;
        let used = RuntimeUse { runtime, ..RuntimeUse::default() };
        s.call_paths = Some(CallPathSummary { runtimes: vec![used], ..CallPathSummary::default() });
        let page = page(&s, 80);
        let last = page.lines().rev().find(|line| line.starts_with("OpenMP's"));
        last.map(str::to_owned)
    };
    let record = Some("OpenMP's loops   kasuri record --openmp -- PROGRAM".to_owned());
    assert_eq!(said("libgomp", None), record);
    assert_eq!(said("libomp", None), record);
    assert_eq!(said("tbb", None), None);
    let shown = said("libgomp", summary().openmp).unwrap();
    assert!(shown.ends_with("kasuri stat --section openmp quake.kasuri"), "{shown}");
}

fn path(share: f64, class_ns: i64, is_wait: bool, frames: &[(&str, &str, u32)]) -> HotPath {
    let ns = (class_ns as f64 * share) as i64;
    let frames = frames.iter().map(|&(function, file, line)| PathFrame {
        function: function.into(),
        module: "quake".into(),
        file: file.into(),
        line,
    });
    HotPath {
        ns,
        share,
        waited_ns: if is_wait { ns } else { 0 },
        frames: frames.collect(),
        ..HotPath::default()
    }
}

/// Paths of a class; a fifth of its time is unsampled.
fn class_paths(class: &ClassSum) -> ClassPaths {
    let compress: &[_] =
        &[("compress", "/src/xz.c", 90), ("worker", "/src/xz.c", 11), ("main", "", 0)];
    let write: &[_] = &[("write", "", 0), ("flush", "/src/io.c", 88)];
    let push: &[_] = &[("pthread_mutex_lock", "", 0), ("work::Queue::push(int)", "/src/q.cc", 70)];
    let shares = |paths| PathShares { paths, unsampled_ns: class.ns / 5, ..PathShares::default() };
    let (first, meanwhile) = match class.class {
        "work" => (vec![path(0.62, class.ns, false, compress)], None),
        "lock_wait" => (
            vec![path(0.8, class.ns, true, push)],
            Some(shares(vec![
                path(0.5, class.ns, false, compress),
                path(0.3, class.ns, true, write),
            ])),
        ),
        _ => (Vec::new(), None),
    };
    ClassPaths {
        class: class.class,
        ns: class.ns,
        paths: shares(first),
        meanwhile,
        ..ClassPaths::default()
    }
}

/// The same summary with paths under work and a lock.
fn with_paths() -> Summary {
    let summary = summary();
    let classes: Vec<ClassPaths> = summary.account.classes.iter().map(class_paths).collect();
    let work_ns = classes[0].ns;
    let runtimes = vec![RuntimeUse {
        runtime: "libgomp",
        language: "",
        module: "libgomp.so.1".into(),
        ns: work_ns / 4,
        work_ns: work_ns / 4,
        spinning_ns: 0,
        spins_in: String::new(),
    }];
    let coverage = |complete_ns, incomplete_ns, unsampled_ns| Coverage {
        ns: 1000,
        complete_ns,
        incomplete_ns,
        unsampled_ns,
        estimated_ns: 0,
        gap_ns: incomplete_ns / 2,
    };
    Summary {
        call_paths: Some(CallPathSummary {
            samples: 4000,
            on_cpu: coverage(978, 20, 2),
            blocked: coverage(700, 0, 300),
            classes,
            runtimes,
            explained: Explained {
                ns: 1000,
                named_ns: 600,
                nameless: vec![NamelessTime { kind: "file", module: "cc1plus".into(), ns: 330 }],
                unsampled: vec![UnsampledTime { reason: "short_thread", threads: 312, ns: 70 }],
            },
            ..CallPathSummary::default()
        }),
        ..summary
    }
}

#[test]
fn stat_names_the_code_under_each_class() {
    let page = page(&with_paths(), 160);
    for needed in [
        "    62.0 % compress (xz.c:90) < worker < main",
        "    25.0 % of it is libgomp.so.1",
        "    80.0 % pthread_mutex_lock < Queue::push (q.cc:70)",
        "    50.0 % holder: compress (xz.c:90) < worker < main",
        "    30.0 % holder asleep in write < flush (io.c:88)",
        "    20.0 % without a sample",
        "60.0 % of what code can explain is in named functions; 33.0 % in cc1plus, whose functions have no names;",
        "7.0 % in 312 threads that ran too shortly",
        "97.8 % of on-CPU time has a complete stack, 2.0 % an incomplete one (1.0 % lacks callers in Python), 0.2 % none; 70.0 % of blocked time has one",
    ] {
        assert!(page.contains(needed), "{needed}\n{page}");
    }
    let before = self::page(&summary(), 120);
    assert!(!before.contains("stack"), "{before}");
}

/// What changes no figure by a tenth is no news on the first screen.
#[test]
fn stacks_and_names_are_a_line_where_a_tenth_lacks_them() {
    let mut summary = with_paths();
    let paths = summary.call_paths.as_mut().expect("call paths");
    let few =
        |ns| Coverage { ns: 1000, complete_ns: 1000 - ns, unsampled_ns: ns, ..Coverage::default() };
    paths.explained.named_ns = 930;
    for (ns, is_said) in [(0, false), (100, false), (101, true)] {
        let paths = summary.call_paths.as_mut().expect("call paths");
        (paths.on_cpu, paths.blocked) = (few(ns), few(0));
        let (first, whole) = (overview(&summary, 80), page(&summary, 80));
        assert_eq!(first.contains("a complete stack"), is_said, "{ns}\n{first}");
        assert!(whole.contains("a complete stack"), "{ns}\n{whole}");
        assert!(!first.contains("in named functions"), "{first}");
        assert!(whole.contains("in named functions"), "{whole}");
    }
}

/// The table's last columns are nearly empty, and the paths need their room.
#[test]
fn on_a_narrow_screen_call_paths_have_the_room_of_spinning() {
    let mut summary = with_paths();
    let causes = &mut summary.account.causes;
    causes.iter_mut().for_each(|cause| cause.on_cpu_ns = 0);
    let [first, second, ..] = &mut causes[..] else {
        panic!("two causes");
    };
    (first.on_cpu_ns, second.on_cpu_ns) = (first.ns / 4, second.ns / 1000);
    let narrow = page(&summary, 80);
    let has = |page: &str, what: &str| page.contains(what);
    assert!(!has(&narrow, "SPINNING"), "{narrow}");
    let spent = narrow.lines().filter(|line| line.contains(" ms spinning"));
    assert_eq!(spent.count(), 1, "{narrow}");
    let path = "    62.0 % compress (xz.c:90) < worker < main";
    assert!(has(&narrow, path), "{narrow}");
    assert!(has(&page(&summary, 160), "SPINNING"));
}

#[test]
fn stat_with_paths_is_one_screen() {
    let layout = Layout {
        width: 80,
        file: "quake.kasuri".into(),
        sections: Sections::Overview,
        ..Layout::default()
    };
    let page = render(&with_paths(), &layout);
    assert!(page.lines().count() <= 40, "{page}");
    assert!(page.lines().all(|line| line.width() <= 80 || line.contains("kasuri ")), "{page}");
    // One path for each class.
    assert!(page.contains("50.0 % holder: compress"), "{page}");
    assert!(!page.contains("holder asleep"), "{page}");
}

#[test]
fn stat_says_when_more_was_inferred_than_ran() {
    let mut summary = summary();
    summary.cpu_time = Some(CpuTime {
        kernel_ns: 1_000_000_000,
        seen_ns: 1_050_000_000,
        unseen_ns: -50_000_000,
        unseen_share: -0.05,
        ..CpuTime::default()
    });
    let page = page(&summary, 120);
    assert!(page.contains("the events show 1.05 s, 5.0 % more"), "{page}");
    if let Some(cpu_time) = &mut summary.cpu_time {
        cpu_time.counted_ns = Some(1_000_500_000);
    }
    let page = self::page(&summary, 200);
    let says = "its run times add up to 1.00 s (+0.05 %); the switches show 1.05 s, 5.0 % more";
    assert!(page.contains(says), "{page}");
    summary.cpu_time = None;
    assert!(!self::page(&summary, 120).contains("counted by the kernel"));
}

#[test]
fn stat_without_kernel_events_shows_no_zeros_for_unknown() {
    let mut summary = summary();
    summary.known = Known::default();
    summary.cpu_use = None;
    summary.wake_latency_ns = None;
    summary.threads.iter_mut().for_each(|t| t.wake_latency_ns = None);
    let page = page(&summary, 120);
    assert!(page.contains("CPU use    not recorded"), "{page}");
    let row = page.lines().find(|l| l.trim_start().starts_with("quake  ")).unwrap();
    assert!(!row.contains('0'), "{row}");
    assert!(!page.contains("CPUs  (share"), "{page}");
}

#[test]
fn stat_without_wakeups_says_what_ready_and_blocked_mean() {
    let mut summary = summary();
    summary.known = Known { switches: true, ..Known::default() };
    let page = page(&summary, 120);
    assert!(page.contains("READY: preempted; BLOCKED: asleep, or woken"), "{page}");
    assert!(page.contains("READY"), "{page}");
}

#[test]
fn stat_names_cannot_steer_the_terminal() {
    let mut summary = summary();
    let evil = "\u{1b}[2J\u{7}\r\n";
    summary.command = vec![evil.into()];
    summary.threads[0].name = evil.into();
    summary.annotations[0].name = evil.into();
    summary.switched_off[0].name = evil.into();
    summary.imbalance[0].name = evil.into();
    summary.imbalance[0].worst_thread = evil.into();
    summary.waits[0].name = evil.into();
    summary.interference[0].process = evil.into();
    summary.losses[0].remedy = evil.into();
    summary.missing[0] = evil.into();
    summary.account.causes[0].name = evil.into();
    summary.account.causes[0].code = evil.into();
    summary.account.causes[0].thread = evil.into();
    summary.account.causes[1].name = evil.into();
    summary.account.regions[0].name = evil.into();
    summary.host = evil.into();
    assert!(page(&summary, 100).chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn stat_says_what_switched_its_annotations_off() {
    let page = page(&summary(), 80);
    let at = page.find("annotations switched off").expect("a heading");
    let said: Vec<&str> = page[at..].lines().take(4).collect();
    assert_eq!(
        said,
        [
            "annotations switched off  (since then their time is in what called them)",
            "  NAME              COUNT    MEAN   OFF AT   PID  WHERE",
            "  is_short          1,000  212 ns  1.50 ms  4711  solver.c:14",
            "  mesh::sort.loop3      0   90 ns   before  4711  -",
        ]
    );
}

#[test]
fn stat_top_limits_every_table_and_says_so() {
    let mut summary = summary();
    summary.threads = (0..50).map(|i| thread(5000 + i, "w", 1_000_000)).collect();
    let layout = Layout { top: 3, ..Layout::default() };
    let page = render(&summary, &layout);
    assert!(page.contains("... and 47 more (--top 0 shows all)"), "{page}");
    let all = render(&summary, &Layout { top: 0, ..Layout::default() });
    assert!(all.contains("5049") && !all.contains(" more ("), "{all}");
}

#[test]
fn stat_of_nothing_prints() {
    assert!(page(&Summary::default(), 80).starts_with("whole system"));
}

#[test]
fn comparison_says_what_changed_and_fits() {
    use kasuri_analyze::compare::compare;
    use kasuri_answers::Answer;
    let side = |factor: f64, n: i64| -> Vec<Summary> {
        let run = |i: i64| {
            let mut s = summary();
            s.wall_ns = (s.wall_ns as f64 * factor) as i64 + 1_000_000 * i;
            s.annotations[0].total_ns =
                (s.annotations[0].total_ns as f64 * factor) as i64 + 1_000 * i;
            s
        };
        (0..n).map(run).collect()
    };
    let text = |n, width| {
        let layout = Layout { width, ..Layout::default() };
        let comparison = compare(&side(1.0, n), &side(0.5, n));
        kasuri_text::table::document(&comparison.document(layout.rows()), &layout)
    };
    for width in [72, 80, 120] {
        let page = text(4, width);
        for line in page.lines() {
            assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
    }
    let page = text(4, 120);
    let smvp = page.lines().find(|l| l.trim_start().starts_with("smvp")).unwrap();
    assert!(smvp.contains("-50.0 %") && smvp.ends_with('*'), "{page}");
    let step = page.lines().find(|l| l.trim_start().starts_with("step")).unwrap();
    assert!(step.contains("0 %") && !step.ends_with('*'), "{page}");
    assert!(page.starts_with("2.00 times as fast as before\n"), "{page}");
    let page = text(1, 160);
    let known = "2.00 times as fast in this one pair of runs; whether that is more than noise is not known: compare 4 or more runs of each\n";
    assert!(page.starts_with(known), "{page}");
    let page = text(2, 160);
    let known = "2.00 times as fast by the means of 2 and 2 runs; whether that is more than noise";
    assert!(page.starts_with(known), "{page}");
}

/// The text claims no more than is known: many small losses are one loss, one round is no "always", and few rounds
/// show no pattern.
#[test]
fn stat_says_no_more_than_is_known() {
    let mut small = summary();
    let causes = &mut small.account.causes;
    causes.iter_mut().for_each(|c| c.ns = small.account.capacity_ns / 200);
    let text = page(&small, 200);
    assert!(text.contains("lost, to causes of less than 1 % each"), "{text}");
    small.account.classes.retain(|c| c.class == "work");
    small.account.capacity_ns = small.account.classes.iter().map(|c| c.ns).sum();
    small.account.causes.clear();
    let text = page(&small, 200);
    assert!(text.contains("nothing was lost"), "{text}");
    assert!(text.contains("no cause took more than 1 %"), "{text}");
    assert!(!text.contains("of the lost time has a known cause"), "{text}");
    let mut one = summary();
    (one.imbalance[0].instances, one.imbalance[0].p_value) = (1, Some(0.5));
    one.imbalance[0].cause = "unknown";
    let text = page(&one, 200);
    assert!(text.contains("slowest in the only round: thread"), "{text}");
    assert!(!text.contains("a different thread is late each time"), "{text}");
}

fn overview(summary: &Summary, width: usize) -> String {
    let layout = Layout {
        width,
        file: "quake.kasuri".into(),
        sections: Sections::Overview,
        ..Layout::default()
    };
    render(summary, &layout)
}

/// The run, its account and what to try stand on one screen, whatever else is in the recording.
#[test]
fn stat_overview_fits_one_screen() {
    let mut summary = summary();
    summary.threads = (0..500).map(|i| thread(5000 + i, "w", 1_000_000)).collect();
    let page = overview(&summary, 80);
    assert!(page.lines().count() <= 40, "{page}");
    assert!(page.lines().all(|l| l.width() <= 80), "{page}");
    for needed in [
        "2.01 s on 2 CPUs, exited with 0",
        "1,904 events lost (--section losses)",
        "the events show 2.5 % less CPU time than",
        "1,904 events on CPU 1 in 2 gaps between 1.00 ms and 3.50 ms: kernel buffer",
        "you got 1.60 of 2 CPUs",
        "what to try",
        "interference: python3 (99)",
        "kasuri stat -v quake.kasuri",
        "kasuri report quake.kasuri",
    ] {
        assert!(page.contains(needed), "{needed}\n{page}");
    }
    assert!(!page.contains("annotations"), "{page}");
}

#[test]
fn stat_without_scheduler_events_shows_annotations_in_the_overview() {
    let mut summary = summary();
    summary.known = Known::default();
    summary.account.classes.retain(|c| c.class == "unknown");
    let page = overview(&summary, 80);
    assert!(page.contains("not known: the recording has no scheduler events"), "{page}");
    assert!(page.contains("smvp") && !page.contains("you got"), "{page}");
}

#[test]
fn hits_of_probes_come_with_their_cost() {
    let told = "USDT: 41,200 hits, about 1.90 us each: 78.3 ms, 2.1 % of the program's CPU time";
    let words = |page: String| page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(overview(&summary(), 80)).contains(told));
    let layout =
        Layout { sections: Sections::Only(vec![Section::Usdt]), width: 80, ..Layout::default() };
    let page = render(&summary(), &layout);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let page = words(page);
    assert!(page.contains(told), "{page}");
    assert!(page.contains("python:function__entry 41,000 4,100 1.90 us 77.9 ms"), "{page}");
    // What tracing cost is not known: neither is its share.
    let mut summary = summary();
    summary.tracing.share = None;
    let page = words(overview(&summary, 80));
    assert!(page.contains("78.3 ms") && !page.contains("2.1 % of the program"), "{page}");
}

#[test]
fn stat_prints_the_sections_asked_for_in_the_order_of_the_page() {
    let only = |sections| {
        let layout = Layout { sections: Sections::Only(sections), ..Layout::default() };
        render(&summary(), &layout)
    };
    let page = only(vec![Section::Cpus, Section::Threads]);
    let at = |heading: &str| page.lines().position(|l| l.starts_with(heading));
    assert!(at("threads").unwrap() < at("CPUs").unwrap(), "{page}");
    assert_eq!(page.lines().filter(|l| l.starts_with(char::is_alphabetic)).count(), 2, "{page}");
    for section in Section::ALL {
        assert!(only(vec![section]).lines().count() > 2, "{}", section.name());
    }
}

/// The limit is named once, beside what it allows.
#[test]
fn stat_names_a_cpu_limit_once_in_the_headline() {
    let mut summary = summary();
    let limit = "cpu.max of /work: 50 ms of 100 ms";
    (summary.account.bounds.limit, summary.account.bounds.cpus) = (limit.into(), 0.5);
    let cause = &mut summary.account.causes[0];
    (cause.class, cause.name) = ("throttled_by_cpu_limit", limit.into());
    let page = overview(&summary, 200);
    let headline = page.lines().find(|l| l.contains("you got")).unwrap();
    assert_eq!(headline.matches(limit).count(), 1, "{headline}");
    assert!(headline.contains("allows 0.50: 0.21 lost to that limit"), "{headline}");
}

/// However many other programs there are, to this one they are one loss, and it comes where its size belongs.
#[test]
fn other_programs_are_one_loss_in_the_headline() {
    let mut summary = summary();
    let total = summary.account.capacity_ns;
    let cpus = summary.account.n_cpus as f64;
    let mut cause = summary.account.causes[0].clone();
    summary.account.causes.truncate(1);
    summary.account.causes[0].ns = total / 4;
    summary.account.causes[0].cpus = cpus / 4.0;
    cause.class = "interference";
    for (name, share) in [("cc1", 5), ("ld", 10), ("ninja", 20)] {
        (cause.process, cause.ns, cause.cpus) = (name.into(), total / share, cpus / share as f64);
        summary.account.causes.push(cause.clone());
    }
    let headline = |summary: &Summary| {
        let page = overview(summary, 300);
        let line = page.lines().find(|l| l.contains("you got"));
        line.unwrap_or_default().to_owned()
    };
    let said = headline(&summary);
    let sum = cpus * (0.2 + 0.1 + 0.05);
    let others = format!(": {sum:.2} lost to other programs (cc1, ld and 1 more), ");
    assert!(said.contains(&others), "{said}");
    // What the recorder took is no other program's doing.
    let recorder = summary.account.causes.last_mut().expect("a cause");
    recorder.process = "kasuri (this recorder)".into();
    let said = headline(&summary);
    assert!(said.contains("to other programs (cc1, ld), "), "{said}");
    assert!(said.ends_with(" to this recorder"), "{said}");
    summary.account.causes.truncate(2);
    assert!(headline(&summary).contains("to process cc1"));
}

#[test]
fn stat_tells_threads_of_one_name_apart() {
    let mut summary = summary();
    summary.account.causes[0].note = "";
    let cause = &mut summary.account.causes[0];
    (cause.code, cause.name) = (String::new(), String::new());
    (cause.thread, cause.tid) = ("w".into(), Some(5001));
    summary.threads = (0..2).map(|i| thread(5000 + i, "w", 1_000_000)).collect();
    let page = overview(&summary, 200);
    assert!(page.contains("waiting for the end of thread w (5001)"), "{page}");
}

fn function(name: &str, file: &str, line: u32) -> PathFrame {
    PathFrame {
        function: name.into(),
        module: if file.is_empty() { "libc.so.6".into() } else { "prog".into() },
        file: file.into(),
        line,
    }
}

fn node(depth: u32, did: &'static str, thread: &str, ns: i64, frames: &[PathFrame]) -> ChainNode {
    ChainNode {
        depth,
        did,
        ns,
        thread: thread.into(),
        frames: frames.to_vec(),
        ..ChainNode::default()
    }
}

/// A class whose waits were followed, in the account of `summary`.
fn with_chains(class: &'static str, likely_holders_ns: i64, nodes: Vec<ChainNode>) -> Summary {
    let mut summary = summary();
    let ns = 400_000_000;
    summary.account.classes.retain(|c| c.class == "work");
    summary.account.causes.clear();
    summary.account.classes.push(ClassSum { class, ns, cpus: 0.2 });
    let chains = Some(WaitChains { ns, rest_ns: 0, nodes });
    let class = ClassPaths { class, ns, likely_holders_ns, chains, ..ClassPaths::default() };
    summary.call_paths =
        Some(CallPathSummary { classes: vec![class], ..CallPathSummary::default() });
    summary
}

fn lines_with(page: &str, needed: &[&str]) {
    for needed in needed {
        assert!(
            page.lines().any(|line| line.trim() == *needed || line.ends_with(needed)),
            "{needed}\n{page}"
        );
    }
}

#[test]
fn stat_follows_waits_line_below_line() {
    let read = [
        function("__libc_read", "", 0),
        function("consume", "/src/p.c", 30),
        function("run", "/src/p.c", 9),
    ];
    let filter = [function("read", "", 0), function("filter", "/src/p.c", 52)];
    let compress = [function("compress", "/src/p.c", 12), function("produce", "/src/p.c", 14)];
    let reads = |mut node: ChainNode| {
        node.call = "read";
        node
    };
    let nodes = vec![
        reads(node(0, "waited", "consumer", 400_000_000, &read)),
        reads(node(1, "waited", "filter", 400_000_000, &filter)),
        node(2, "ran", "producer", 300_000_000, &compress),
        node(2, "ready", "producer", 100_000_000, &[]),
    ];
    let summary = with_chains("waiting_for_own_threads", 0, nodes);
    for width in [80, 100, 200] {
        let page = page(&summary, width);
        assert!(page.lines().all(|line| line.width() <= width), "{page}");
        lines_with(
            &page,
            &[
                "<- writer filter waits in read < filter (p.c:52)",
                "<- 75.0 % writer producer ran compress (p.c:12) < produce",
                "<- 25.0 % writer producer was ready, but had no CPU",
            ],
        );
    }
    // Where the first line has no room for the place in the source, it goes on below.
    lines_with(
        &page(&summary, 80),
        &["100.0 % consumer waits", "in read < consume (p.c:30) < run"],
    );
    lines_with(&page(&summary, 120), &["100.0 % consumer waits in read < consume (p.c:30) < run"]);
}

/// A wait for a condition names who signals, beside what that thread did.
#[test]
fn stat_says_who_signals_a_condition() {
    let wait = [function("pthread_cond_wait", "", 0), function("take", "/src/q.c", 9)];
    let woke = [function("pthread_cond_signal", "", 0), function("put", "/src/q.c", 21)];
    let ran = [function("compress", "/src/p.c", 12)];
    let nodes = |call: &'static str| {
        let mut producer = node(1, "ran", "producer", 400_000_000, &ran);
        producer.woke = woke.to_vec();
        vec![ChainNode { call, ..node(0, "waited", "consumer", 400_000_000, &wait) }, producer]
    };
    let said = "wakes it by pthread_cond_signal < put (q.c:21)";
    let page_of = |call| page(&with_chains("waiting_for_own_threads", 0, nodes(call)), 80);
    lines_with(&page_of("condition"), &["<- producer ran compress (p.c:12)", said]);
    assert!(!page_of("read").contains(said));
}

/// A wait that only its time limit ended is named by the function that set the limit.
#[test]
fn a_wait_that_a_timer_ended_is_named() {
    let cause = |note, code: &str| {
        let mut summary = with_chains("external_wait", 0, Vec::new());
        summary.account.causes.push(CauseSummary {
            class: "external_wait",
            note,
            code: code.into(),
            code_place: Some("/src/w.c:7".into()),
            ns: 400_000_000,
            cpus: 0.2,
            ..CauseSummary::default()
        });
        page(&summary, 120)
    };
    let limit = cause("time_limit", "pthread_cond_timedwait < watch");
    assert!(
        limit.contains("a time limit in pthread_cond_timedwait < watch (w.c:7): no"),
        "{limit}"
    );
    let poll = cause("interrupt", "epoll_wait < serve");
    assert!(poll.contains("waited for in epoll_wait < serve (w.c:7)"), "{poll}");
}

/// Where one of several processes had nearly all of a serial phase, the others are not said to have had it in turn.
#[test]
fn a_serial_phase_is_of_the_process_that_had_it() {
    let said = |thread_share| {
        let mut summary = summary();
        summary.account.causes = vec![CauseSummary {
            class: "low_parallelism",
            note: "serial_phase",
            tid: Some(4778),
            thread: "cc1".into(),
            thread_share,
            processes: 3,
            ns: summary.account.capacity_ns / 2,
            cpus: 1.0,
            ..CauseSummary::default()
        }];
        page(&summary, 120)
    };
    let of_several = said(0.6);
    assert!(of_several.contains("a serial phase: 3 processes cc1 in turn"), "{of_several}");
    let of_one = said(0.99);
    assert!(of_one.contains("a serial phase: only thread cc1"), "{of_one}");
    assert!(!of_one.contains("in turn"), "{of_one}");
}

/// What no thread could use while none ran says nothing of why none did.
#[test]
fn the_headline_begins_with_what_was_waited_for() {
    let mut summary = summary();
    let capacity_ns = summary.account.capacity_ns;
    summary.account.causes.clear();
    for (class, note, code, part) in [
        ("low_parallelism", "none_ran", "", 2),
        ("io_wait", "", "fsync < append_record", 3),
        ("external_wait", "process", "read < ask", 4),
    ] {
        summary.account.causes.push(CauseSummary {
            class,
            note,
            code: code.into(),
            code_place: (!code.is_empty()).then(|| "/src/a.c:4".into()),
            process: "db".into(),
            ns: capacity_ns / part,
            cpus: 2.0 / part as f64,
            ..CauseSummary::default()
        });
    }
    let page = page(&summary, 250);
    let said = "0.67 lost to the disk or another device, waited for in fsync < append_record (a.c:4), 0.50 to waiting for process db in read < ask (a.c:4), 1.00 to fewer threads than CPUs, while none ran";
    assert!(page.contains(said), "{page}");
}

/// Where the path has a line of its own, the kind of file stands there too.
#[test]
fn stat_says_the_kind_of_file_on_a_line_of_its_own() {
    let read =
        [function("read", "", 0), function("take_the_next_one_out_of_the_queue", "/src/p.c", 5)];
    for (channel, at) in [("pipe", "a pipe"), ("file", "input")] {
        let nodes = vec![ChainNode {
            channel,
            file: "/tmp/input".into(),
            ..node(0, "waited", "main", 400_000_000, &read)
        }];
        let page = page(&with_chains("external_wait", 0, nodes), 80);
        let path = format!("at {at}: read < take_the_next_one_out_of_the_queue (p.c:5)");
        lines_with(&page, &["100.0 % main waits", &path]);
    }
}

/// A report has the same lines, and no line that they refer to.
#[test]
fn the_waits_of_a_class_are_lines_of_their_own() {
    use kasuri_analyze::account::Class;
    let run = [function("assemble", "/src/m.c", 3)];
    let nodes = vec![
        node(0, "waited", "pool", 400_000_000, &[]),
        node(1, "ran", "main", 280_000_000, &run),
    ];
    let waits = kasuri_answers::class_paths::waits(&with_chains("low_parallelism", 0, nodes), 80);
    let lines = ["100.0 % pool waits, without a sample", "<- 70.0 % main ran assemble (m.c:3)"];
    let lines = lines.map(str::to_owned).to_vec();
    assert_eq!(waits, [(Class::LowParallelism, lines)]);
    assert_eq!(kasuri_answers::class_paths::waits(&summary(), 80), []);
}

/// A few samples that all spin are no certainty; nor are many, entirely.
#[test]
fn spinning_is_told_by_enough_samples_only() {
    let said = |independent_samples| {
        let mut summary = with_chains("spinning", 0, Vec::new());
        let paths = summary.call_paths.as_mut().unwrap();
        paths.samples_on_cpu = 30;
        paths.independent_samples = independent_samples;
        paths.on_cpu.ns = 400_000_000;
        let page = page(&summary, 200);
        let mut said =
            page.lines().filter(|line| line.contains("spins") || line.contains("spinning by"));
        said.next().expect("how sure it is").to_owned()
    };
    for (independent, expected) in [
        (Some(3), "30 samples while running: too few to tell how much of it spins"),
        (Some(30), "too few to tell"),
        (Some(100), "spinning by samples, within 3.8 points of on-CPU time"),
        (Some(10_000), "within 0.0 points"),
        (None, "spinning by samples, which may be in step with it"),
    ] {
        assert!(said(independent).contains(expected), "{}", said(independent));
    }
}

#[test]
fn stat_says_at_what_kind_of_file_a_thread_waits() {
    let read = [function("read", "", 0), function("take", "/src/p.c", 5)];
    for (channel, file, said) in [
        ("pipe", "", "at a pipe: read < take (p.c:5)"),
        ("timer", "", "at a timer: read < take (p.c:5)"),
        ("file", "/dev/pts/7", "at /dev/pts/7: read < take (p.c:5)"),
        ("file", "/tmp/in\u{1b}put", "at in\u{fffd}put: read < take (p.c:5)"),
        ("file", "", "in read < take (p.c:5)"),
    ] {
        let nodes = vec![ChainNode {
            call: "read",
            channel,
            file: file.into(),
            ..node(0, "waited", "main", 400_000_000, &read)
        }];
        let page = page(&with_chains("external_wait", 0, nodes), 100);
        lines_with(&page, &[&format!("100.0 % main waits {said}")]);
    }
}

/// Python's threads wait for its lock for a short time, again and again.
#[test]
fn a_wait_for_the_gil_that_ran_out_is_told_from_other_locks() {
    for (asks, said) in [
        ("take_gil.lto_priv.0", "<- its time limit: another thread kept the GIL"),
        ("lock_slow", "<- its time limit, or a signal"),
    ] {
        let path = [function(asks, "/python/ceval_gil.h", 231)];
        let mut wait = node(0, "waited", "worker", 400_000_000, &path);
        wait.call = "lock";
        let nodes = vec![wait, node(1, "interrupt", "", 400_000_000, &[])];
        lines_with(&page(&with_chains("lock_wait", 400_000_000, nodes), 80), &[said]);
    }
}

/// A section that was asked for and has nothing says so.
#[test]
fn a_section_without_contents_is_said_to_be_empty() {
    let layout = |wanted| Layout { sections: Sections::Only(wanted), ..Layout::default() };
    let wanted = vec![Section::OpenMp, Section::Run];
    let empty = render(&Summary::default(), &layout(wanted.clone()));
    assert!(empty.contains("openmp: nothing in this recording\n"), "{empty}");
    let full = render(&summary(), &layout(wanted));
    assert!(!full.contains("nothing in this recording"), "{full}");
}

/// At 80 columns the thread that came last had pushed it out: `imbalance in parallel ~last: omp (3081) (100.0 %)`.
#[test]
fn the_name_of_an_uneven_region_stays_whole() {
    let mut s = with_chains("load_imbalance", 0, Vec::new());
    s.account.causes = vec![kasuri_analyze::account::CauseSummary {
        class: "load_imbalance",
        code: "parallel main:4".into(),
        code_place: None,
        thread: "omp".into(),
        tid: Some(3081),
        thread_share: 1.0,
        ns: 400_000_000,
        cpus: 0.2,
        ..summary().account.causes[0].clone()
    }];
    s.threads = (3080..3082).map(|tid| thread(tid, "omp", 1_000_000)).collect();
    for page in [page(&s, 80), overview(&s, 80)] {
        lines_with(&page, &["imbalance in parallel main:4"]);
    }
    lines_with(&page(&s, 80), &["last: omp (3081) (100.0 %)"]);
    let wide = "imbalance in parallel main:4, last: omp (3081) (100.0 %)";
    assert!(page(&s, 120).contains(wide));
}

/// Who had the CPU is the recorder itself, not another program of its name.
#[test]
fn the_recorder_is_named_as_itself() {
    let mut s = with_chains("interference", 0, Vec::new());
    s.account.causes = vec![kasuri_analyze::account::CauseSummary {
        class: "interference",
        note: "",
        name: "kasuri".into(),
        process: "kasuri (this recorder)".into(),
        ns: 400_000_000,
        on_cpu_ns: 0,
        cpus: 0.2,
        ..summary().account.causes[0].clone()
    }];
    for page in [page(&s, 80), overview(&s, 80)] {
        lines_with(&page, &["process kasuri (this recorder)"]);
    }
}

/// Names that are chosen to do harm: none widens a line, steers the screen, or hides what stands behind it.
#[test]
fn hostile_names_of_files_and_regions_stay_in_their_place() {
    let long = "x".repeat(1 << 20);
    let hostile = [
        "",
        "\0",
        "<script>alert(1)</script>",
        "\u{1b}[2J\u{202e}exe.\r\n",
        "  <- 100.0 % main ran",
        &long,
    ];
    for name in hostile {
        let read = [function("read", "", 0), function("take", "/src/p.c", 5)];
        let nodes = vec![ChainNode {
            call: "read",
            channel: "file",
            file: format!("/tmp/{name}"),
            ..node(0, "waited", "main", 400_000_000, &read)
        }];
        let mut s = with_chains("external_wait", 0, nodes);
        let waits = kasuri_answers::class_paths::waits(&s, 80);
        let [(_, lines)] = &waits[..] else {
            panic!("{waits:?}");
        };
        let path = lines.iter().find(|l| l.contains(": read < take (p.c:5)"));
        assert!(path.is_some(), "{}", lines[0]);
        assert!(lines.iter().all(|line| line.width() <= 80), "{}", lines[0].width());
        let openmp = s.openmp.as_mut().unwrap();
        for region in &mut openmp.regions {
            region.name = format!("parallel {name}");
            region.place = Some(format!("/src/{name}:3"));
        }
        for of in &mut openmp.loops {
            (of.name, of.region) = (format!("for runtime {name}"), format!("parallel {name}"));
        }
        let page = page(&s, 80);
        let words: Vec<&str> = page.split_whitespace().collect();
        let told = ": 25 % imbalance; dynamic,8 would save";
        assert!(words.join(" ").contains(told), "{page:.9000}");
        for line in page.lines() {
            assert!(line.width() <= 80, "{}: {line:.200}", line.width());
            let is_plain = |c: char| !kasuri_base::words::steers(c);
            assert!(line.chars().all(is_plain), "{line:.200}");
        }
    }
}

/// Threads of one name are told apart where it was one of them; of several, the name stands for all.
#[test]
fn stat_names_the_thread_of_a_chain_as_elsewhere_on_its_page() {
    let nodes = vec![
        node(0, "waited", "worker", 400_000_000, &[]),
        ChainNode { tid: Some(12), ..node(1, "ran", "worker", 300_000_000, &[]) },
    ];
    let mut summary = with_chains("waiting_for_own_threads", 0, nodes);
    summary.threads = vec![thread(11, "worker", 1), thread(12, "worker", 1)];
    let page = page(&summary, 80);
    lines_with(
        &page,
        &["100.0 % worker waits, without a sample", "<- 75.0 % worker (12) ran, without a sample"],
    );
}

/// What the one thread of a serial phase ran stands above its waits, and is not told again by function.
#[test]
fn stat_does_not_repeat_what_the_one_thread_ran() {
    let ran = |name: &str, ns| node(1, "ran", "main", ns, &[function(name, "/src/m.c", 3)]);
    let nodes = vec![
        node(0, "waited", "pool", 400_000_000, &[]),
        ran("assemble", 280_000_000),
        ran("smooth", 120_000_000),
    ];
    let page = page(&with_chains("low_parallelism", 0, nodes), 80);
    lines_with(&page, &["<- main ran, as above"]);
    assert_eq!(page.matches("as above").count(), 1, "{page}");
}

#[test]
fn stat_says_who_probably_held_a_lock_and_who_chose_to_sleep() {
    let lock = [function("___pthread_mutex_lock", "", 0), function("look_up", "/src/t.c", 7)];
    let fill = [function("fill", "/src/t.c", 70)];
    let nap = [function("clock_nanosleep", "", 0), function("store", "/src/t.c", 60)];
    let mut asks = node(0, "waited", "asker", 400_000_000, &lock);
    asks.call = "lock";
    let mut sleeps = node(1, "waited", "holder", 120_000_000, &nap);
    (sleeps.call, sleeps.waits, sleeps.waits_ns) = ("sleep", 20, 120_000_000);
    let ran = node(1, "ran", "holder", 280_000_000, &fill);
    let nodes = vec![asks, ran, sleeps, node(2, "timer", "", 120_000_000, &[])];
    let page = page(&with_chains("lock_wait", 400_000_000, nodes.clone()), 80);
    lines_with(
        &page,
        &[
            "100.0 % asker waits",
            "in pthread_mutex_lock < look_up (t.c:7)",
            "<- 70.0 % probably held by holder: ran fill (t.c:70)",
            "<- 30.0 % probably held by holder: waits in clock_nanosleep < store",
            "<- by its own choice: 20 times 6.00 ms",
        ],
    );
    // Annotations that say who held it are the better answer.
    let annotated = self::page(&with_chains("lock_wait", 0, nodes), 80);
    assert!(!annotated.contains("probably"), "{annotated}");
}
