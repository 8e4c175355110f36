//! A summary made by hand, with something in every table.
use kasuri_analyze::account::*;
use kasuri_analyze::*;

pub fn thread(tid: i32, name: &str, on_cpu_ns: i64) -> ThreadSummary {
    ThreadSummary {
        pid: 4711,
        tid,
        process: "quake".into(),
        name: name.into(),
        is_target: true,
        switches: 12_345,
        preemptions: 321,
        migrations: 12,
        wakeups: 12_000,
        alive_ns: 2_000_000_000,
        on_cpu_ns,
        runnable_ns: 12_345_678,
        woken_ns: 10_000_000,
        preempted_ns: 2_345_678,
        blocked_ns: 2_000_000_000 - on_cpu_ns - 12_345_678,
        wake_latency_ns: Some(Latency { p50: 4_210, p99: 81_200, max: 1_300_000 }),
        ..ThreadSummary::default()
    }
}

fn annotation(name: &str, kind: &'static str, total_ns: i64) -> AnnotationSummary {
    AnnotationSummary {
        name: name.into(),
        place: Some("/home/me/quake/src/solver.c:214".into()),
        kind,
        count: 4_000,
        threads: 2,
        total_ns,
        self_ns: total_ns / 2,
        on_cpu_ns: Some(total_ns / 3),
        mean_ns: total_ns as f64 / 4000.0,
        p50_ns: total_ns / 4100,
        p99_ns: total_ns / 1000,
        max_ns: total_ns / 100,
        open: 0,
    }
}

/// A tenth of the hits are those of other programs.
fn probe(name: &str, program: u64) -> EventKind {
    EventKind {
        name: name.into(),
        count: program + program / 10,
        program,
        each_ns: 1_900.0,
        guessed: false,
        cost_ns: program as i64 * 1_900,
    }
}

#[expect(clippy::too_many_lines, reason = "one value for each field")]
pub fn summary() -> Summary {
    Summary {
        schema: SCHEMA,
        command: vec!["./examples/quake".into(), "--threads".into(), "2".into()],
        exit_status: Some(0),
        host: "loom".into(),
        kernel: "6.18.44".into(),
        machine: "x86_64".into(),
        cpu_model: "Intel(R) Xeon(R) Processor".into(),
        kernel_source: "tracefs".into(),
        known: Known { switches: true, wakeups: true, other_processes: true },
        to_ns: 2_013_000_000,
        wall_ns: 2_013_000_000,
        n_cpus: 2,
        cpus_used: 2,
        capacity_ns: 4_026_000_000,
        on_cpu_ns: 3_261_000_000,
        cpu_use: Some(0.81),
        cpu_time: Some(CpuTime {
            kernel_ns: 4_000_000_000,
            seen_ns: 3_900_000_000,
            unseen_ns: 100_000_000,
            unseen_share: 0.025,
            counted_ns: None,
            hidden_switches: 12,
            placed_switches: 0,
        }),
        switches: 24_690,
        preemptions: 642,
        migrations: 24,
        wakeups: 24_000,
        wake_latency_ns: Some(Latency { p50: 4_210, p99: 81_200, max: 1_300_000 }),
        account: account(),
        n_kernel_events: 123_456,
        n_annotation_events: 16_000,
        threads: vec![
            thread(4711, "quake", 1_700_000_000),
            thread(4712, "quake-worker-with-a-long-name", 1_561_000_000),
        ],
        cpus: (0..2)
            .map(|cpu| CpuSummary {
                cpu,
                target_ns: 1_630_500_000,
                other_ns: 20_000_000,
                idle_ns: 362_500_000,
                irq_ns: None,
                switches: 13_000,
                ..CpuSummary::default()
            })
            .collect(),
        tracing: TracingCost {
            events: vec![
                probe("usdt/python:function__entry", 41_000),
                probe("usdt/python:gc__start", 200),
            ],
            program_cpu_ns: Some(3_700_000_000),
            share: Some(0.03),
            ..TracingCost::default()
        },
        annotations: vec![
            annotation("smvp", "work", 3_100_000_000),
            annotation("step", "barrier", 400_000_000),
        ],
        switched_off: vec![
            SwitchedOffSummary {
                name: "is_short".into(),
                place: Some("/home/me/quake/src/solver.c:14".into()),
                pid: 4711,
                count: 1_000,
                mean_ns: 212,
                off_ns: Some(1_500_000),
            },
            SwitchedOffSummary {
                name: "mesh::sort.loop3".into(),
                pid: 4711,
                mean_ns: 90,
                ..SwitchedOffSummary::default()
            },
        ],
        openmp: Some(openmp()),
        imbalance: vec![Imbalance {
            name: "smvp".into(),
            pid: 4711,
            by: "occurrence",
            busy: "on_cpu",
            instances: 2_000,
            threads: 2,
            imbalance: 0.31,
            cost_ns: 420_000_000.0,
            worst_tid: 4712,
            worst_thread: "quake-2".into(),
            worst_share: 0.99,
            is_static: true,
            cause: "static",
            p_value: Some(0.000_1),
            static_cost_ns: 400_000_000.0,
            mean_busy_ns: 1_000_000_000.0,
            by_thread: vec![
                ImbalanceThread {
                    tid: 4712,
                    name: "quake-2".into(),
                    busy_ns: 1_310_000_000,
                    slowest: 1_980,
                },
                ImbalanceThread {
                    tid: 4711,
                    name: "quake".into(),
                    busy_ns: 690_000_000,
                    slowest: 20,
                },
            ],
            rounds: Rounds {
                p10: 0.25,
                p50: 0.31,
                p90: 0.4,
                max: 0.66,
                worst_at_ns: 1_234_000_000,
                histogram: vec![1, 20, 800, 900, 250, 20, 9, 0, 0, 0],
            },
            ..Imbalance::default()
        }],
        waits: vec![WaitSummary {
            kind: "barrier",
            name: "step".into(),
            pid: 4711,
            object: 0x7ffd_1234_5678,
            count: 4_000,
            threads: 2,
            total_ns: 400_000_000,
            p50_ns: 90_000,
            p99_ns: 400_000,
            max_ns: 4_000_000,
        }],
        interference: vec![Interference {
            pid: 99,
            process: "python3".into(),
            is_target: false,
            preemptions: 45,
            delayed_ns: 12_300_000,
            threads_delayed: 2,
            cpus: vec![1, 0],
        }],
        migration_groups: vec![MigrationGroup {
            tid: 4712,
            thread: "quake-worker-with-a-long-name".into(),
            why: "wake-up",
            count: 24,
            off_cpu_ns: 3_400_000,
            longest_ns: 1_200_000,
            from_cpu: 0,
            to_cpu: 1,
            way_count: 13,
        }],
        migration_list: vec![Migration {
            time_ns: 1_000_000,
            tid: 4712,
            thread: "quake-worker-with-a-long-name".into(),
            from_cpu: 0,
            to_cpu: 1,
            why: "wake-up",
            off_cpu_ns: Some(140_000),
        }],
        hints: vec![Hint {
            kind: "interference",
            cost_ns: 12_300_000,
            text: "interference: python3 (99) ran while threads of the program were ready".into(),
            command: Some("sudo renice -n 19 -p 99".into()),
        }],
        losses: vec![LossSummary {
            cause: "kernel buffer overrun".into(),
            count: 1_904,
            gaps: 2,
            cpu: Some(1),
            tid: None,
            from_ns: 1_000_000,
            to_ns: 3_500_000,
            remedy: "record with --buffer-kb 65536".into(),
        }],
        missing: vec!["interrupts: not asked for; record with --irq".into()],
        ..Summary::default()
    }
}

fn class(class: Class, ns: i64) -> ClassSum {
    ClassSum { class: class.key(), ns, cpus: ns as f64 / 2_013_000_000.0 }
}

/// Of 2 x 2,013 ms: 3,220 of work, 806 lost.
fn account() -> AccountSummary {
    let classes = vec![
        class(Class::Work, 3_220_000_000),
        class(Class::LockWait, 205_000_000),
        class(Class::LoadImbalance, 420_000_000),
        class(Class::Interference, 181_000_000),
    ];
    let cause = |class: Class, name: &str, code: &str, ns: i64| CauseSummary {
        class: class.key(),
        name: name.into(),
        code: code.into(),
        place: Some("/home/me/quake/src/queue.c:81".into()),
        code_place: Some("/home/me/quake/src/solver.c:48".into()),
        tid: Some(4712),
        thread: "quake-2".into(),
        thread_share: 0.99,
        ns,
        on_cpu_ns: ns / 10,
        cpus: ns as f64 / 2_013_000_000.0,
        longest_from_ns: 100_000_000,
        longest_to_ns: 123_000_000,
        ..CauseSummary::default()
    };
    AccountSummary {
        capacity_ns: 4_026_000_000,
        n_cpus: 2,
        got_cpus: 1.6,
        named_share: 1.0,
        traced_events: 40_000,
        causes: vec![
            cause(Class::LoadImbalance, "sync", "loop48", 420_000_000),
            cause(Class::LockWait, "queue", "", 205_000_000),
            cause(Class::Interference, "chrome", "", 181_000_000),
        ],
        cpus: vec![CpuAccount { cpu: 0, classes: vec![class(Class::Work, 2_013_000_000)] }],
        threads: vec![ThreadAccount {
            pid: 4711,
            tid: 4711,
            name: "quake".into(),
            alive_ns: 2_013_000_000,
            classes: vec![class(Class::Work, 2_013_000_000)],
        }],
        regions: vec![RegionAccount {
            name: "loop48".into(),
            place: None,
            wall_ns: 1_000_000_000,
            got_cpus: 1.2,
            classes: classes.clone(),
        }],
        classes,
        ..AccountSummary::default()
    }
}

/// A region with a loop that another schedule makes shorter, and one whose chunks were not seen.
fn openmp() -> OpenMp {
    let times = |wall_ns| OpenMpTimes {
        count: 2_000,
        threads: 2,
        wall_ns,
        work_ns: wall_ns * 3 / 2,
        barrier_ns: wall_ns / 2,
        imbalance: 0.25,
        busiest_ns: wall_ns,
        even_saves_ns: wall_ns / 4,
    };
    let region = |name: &str, wall_ns| OpenMpRegion {
        name: name.into(),
        place: Some("/home/quake/solver.c:48".into()),
        pid: 4711,
        times: times(wall_ns),
    };
    OpenMp {
        regions: vec![
            region("parallel solve:48", 900_000_000),
            region("parallel assemble:12", 400_000_000),
        ],
        loops: vec![OpenMpLoop {
            name: "for runtime solve:50".into(),
            place: None,
            region: "parallel solve:48".into(),
            pid: 4711,
            times: times(800_000_000),
            chunks: 64_000,
            iterations: 64_000,
            schedules: vec![Replayed {
                schedule: "dynamic,8".into(),
                wall_ns: 610_000_000,
                saves_ns: 190_000_000,
            }],
            refused: None,
        }],
    }
}
