//! Tabs of the report: locks, and the predicted speed-up.
//!
//! Each function turns an answer of another crate into a [`Table`] or [`Chart`]: the same numbers as `kasuri locks`
//! and `kasuri predict` print, in the same order, but as values with units. Tables of waits and of tasks are cut at 200
//! rows, because the viewer reads the whole index before it draws.
use crate::{Cell, Chart, Column, Go, Panel, Series, SeriesStyle, Table, Unit};
use kasuri_analyze::Locks;
use kasuri_predict::Prediction;
use kasuri_text::label::limit;

/// Columns from heading, unit and help, which says what the heading means where that is not plain.
fn columns(of: &[(&str, Unit, &str)]) -> Vec<Column> {
    let column = |&(title, unit, help): &(&str, Unit, &str)| Column {
        title: title.into(),
        help: help.into(),
        unit,
    };
    of.iter().map(column).collect()
}

/// A time.
fn ns(value: i64) -> Cell {
    (value as f64).into()
}

/// A share of a whole; empty where the whole is nothing, which is not 0.
fn share(part: i64, whole: i64) -> Cell {
    if whole > 0 {
        (part as f64 / whole as f64).into()
    } else {
        "".into()
    }
}

/// A number that may not be known.
fn maybe(value: Option<f64>) -> Cell {
    value.map_or("".into(), Cell::from)
}

/// The tab of `kasuri locks`.
pub fn locks(l: &Locks) -> Panel {
    let tables = [
        Some(lock_table(l)),
        // Tables of a fixed set of things always stand there, also without rows: that nobody waited is an answer.
        Some(waits_for(l)),
        (!l.tasks.is_empty()).then(|| tasks(l)),
        (!l.waits.is_empty()).then(|| other_waits(l)),
        (!l.inversions.is_empty()).then(|| inversions(l)),
    ];
    Panel {
        title: "Locks".into(),
        intro: "The lock ratio counts CPU time inside critical sections; other threads wait for their wall-clock time.".into(),
        tables: tables.into_iter().flatten().collect(),
        ..Panel::default()
    }
}

/// A row for each lock.
fn lock_table(l: &Locks) -> Table {
    let of_states = |part, whole| match l.knows_states {
        true => share(part, whole),
        false => "".into(),
    };
    let rows = l.locks.iter().map(|lock| {
        let u = &lock.used;
        vec![
            Cell::from(lock.name.clone()).link(Go::Lock(lock.object)),
            lock.source.into(),
            maybe(u.lock_ratio),
            maybe(u.wait_ratio),
            ns(u.wait_ns),
            u.holds.into(),
            maybe(u.contended_share),
            ns(u.hold_p50_ns),
            ns(u.hold_p99_ns),
            ns(u.hold_max_ns),
            of_states(lock.holder_running_ns, u.wait_ns),
            of_states(lock.holder_preempted_ns, u.wait_ns),
            of_states(lock.holder_blocked_ns, u.wait_ns),
            maybe(lock.path_share),
        ]
    });
    Table {
        caption: "locks, most waited for first".into(),
        columns: columns(&[
            ("lock", Unit::Text, ""),
            (
                "source",
                Unit::Text,
                "how it was recorded: lock probe, ito, uprobes on named functions, or annotations",
            ),
            (
                "lock ratio",
                Unit::Ratio,
                "CPU time inside / CPU time of the process",
            ),
            ("wait ratio", Unit::Ratio, "waiting / execution time"),
            ("waited", Unit::Ns, "all waits of 300 ns and more"),
            ("holds", Unit::Count, ""),
            (
                "contended",
                Unit::Ratio,
                "acquisitions that waited / acquisitions",
            ),
            ("hold p50", Unit::Ns, "by the wall clock"),
            ("p99", Unit::Ns, ""),
            ("max", Unit::Ns, ""),
            (
                "holder ran",
                Unit::Ratio,
                "share of the wait time in which the holder was on a CPU",
            ),
            (
                "was preempted",
                Unit::Ratio,
                "share of the wait time in which the holder was ready without a CPU",
            ),
            (
                "was blocked",
                Unit::Ratio,
                "share of the wait time in which the holder was blocked; the rest to 100 %: no thread held the lock, the waiter was waking up",
            ),
            (
                "on path",
                Unit::Ratio,
                "share of the critical path on which it was held or waited for",
            ),
        ]),
        rows: rows.collect(),
    }
}

/// Which thread waited for which, as far as holders are known.
fn waits_for(l: &Locks) -> Table {
    // Most time first, so the 200 that are kept are those that cost most.
    let edges = l.waits_for.iter().take(200).map(|w| {
        let who = |name: &str, tid: i32| match tid {
            0 => format!("tasks {name}"),
            -1 => name.into(),
            tid => format!("{name} {tid}"),
        };
        // The lock was free: the waiter had been woken and was not yet on a CPU.
        let nobody = w.holder.is_empty() && w.holder_tid == 0;
        // Someone held the lock: if in none of these states, then in one that is not known.
        let is_known = nobody || w.running_ns + w.preempted_ns + w.blocked_ns > 0;
        let state = |ns| match is_known {
            true => share(ns, w.ns),
            false => "".into(),
        };
        vec![
            who(&w.waiter, w.waiter_tid).into(),
            if nobody {
                "free, waking up".into()
            } else {
                who(&w.holder, w.holder_tid).into()
            },
            w.lock.clone().into(),
            ns(w.ns),
            state(w.running_ns),
            state(w.preempted_ns),
            state(w.blocked_ns),
        ]
    });
    Table {
        caption: "waiters and holders".into(),
        columns: columns(&[
            ("waiter", Unit::Text, ""),
            ("holder", Unit::Text, ""),
            ("lock", Unit::Text, ""),
            ("time", Unit::Ns, ""),
            ("holder ran", Unit::Ratio, ""),
            ("was preempted", Unit::Ratio, ""),
            ("was blocked", Unit::Ratio, ""),
        ]),
        rows: edges.collect(),
    }
}

/// Pairs of locks that threads took in both orders.
fn inversions(l: &Locks) -> Table {
    let crossed = l.inversions.iter().map(|i| {
        vec![
            i.first.clone().into(),
            i.second.clone().into(),
            i.first_then_second.into(),
            i.second_then_first.into(),
            i.place_a.clone().into(),
            i.place_b.clone().into(),
            match (&i.guard, i.can_deadlock) {
                (_, true) => "yes".into(),
                // Each time both were held, a third lock was held around them.
                (Some(guard), _) => format!("no: guarded by {guard}").into(),
                (None, _) => "only by one thread".into(),
            },
        ]
    });
    Table {
        caption: "locks taken in both orders: threads that do so at the same time deadlock".into(),
        columns: columns(&[
            ("lock", Unit::Text, ""),
            ("other", Unit::Text, ""),
            ("this first", Unit::Count, ""),
            ("the other first", Unit::Count, ""),
            (
                "the other taken at",
                Unit::Text,
                "place in the source, if known",
            ),
            ("this one taken at", Unit::Text, "in the opposite order"),
            ("can deadlock", Unit::Text, ""),
        ]),
        rows: crossed.collect(),
    }
}

/// Tasks by name: they take locks on whatever thread they run.
fn tasks(l: &Locks) -> Table {
    let rows = l.tasks.iter().take(200).map(|t| {
        let u = &t.used;
        vec![
            t.name.clone().into(),
            u64::from(t.tasks).into(),
            maybe(u.lock_ratio),
            ns(u.wait_ns),
            u.holds.into(),
            maybe(u.contended_share),
        ]
    });
    Table {
        caption: "tasks that took locks, by name".into(),
        columns: columns(&[
            ("task", Unit::Text, ""),
            ("tasks", Unit::Count, ""),
            ("lock ratio", Unit::Ratio, "of their own CPU time"),
            ("waited", Unit::Ns, ""),
            ("holds", Unit::Count, ""),
            ("contended", Unit::Ratio, ""),
        ]),
        rows: rows.collect(),
    }
}

/// Waits for what no thread holds: conditions, semaphores, barriers.
fn other_waits(l: &Locks) -> Table {
    let rows = l.waits.iter().take(200).map(|w| {
        vec![
            w.kind.into(),
            w.place.clone().into(),
            ns(w.wait_ns),
            w.count.into(),
            ns(w.wait_max_ns),
            u64::from(w.threads).into(),
        ]
    });
    Table {
        caption: "other waits, for what no thread holds".into(),
        columns: columns(&[
            ("for", Unit::Text, ""),
            ("place", Unit::Text, ""),
            ("waited", Unit::Ns, ""),
            ("times", Unit::Count, ""),
            ("max", Unit::Ns, ""),
            ("threads", Unit::Count, "threads or tasks that waited"),
        ]),
        rows: rows.collect(),
    }
}

/// The tab of `kasuri predict`.
pub fn prediction(p: &Prediction) -> Panel {
    let mut intro = format!("Prediction: {}.", p.believed);
    p.notes
        .iter()
        .for_each(|note| intro += &format!(" {note}."));
    Panel {
        title: "Prediction".into(),
        intro,
        charts: vec![Chart {
            caption: "predicted speed-up".into(),
            x_title: "CPUs".into(),
            y_title: "speed-up".into(),
            series: curves(p),
        }],
        tables: vec![speedups(p), what_if(p), models(p)],
    }
}

/// The predicted curve with its band, the ideal line and measured points.
fn curves(p: &Prediction) -> Vec<Series> {
    let at = |f: &dyn Fn(&kasuri_predict::Point) -> f64| {
        p.points
            .iter()
            .map(|q| (q.cpus as f64, f(q)))
            .collect::<Vec<_>>()
    };
    // The first number of CPUs beyond four times the best speed-up is the last one drawn: the curve is flat there.
    let top = p.points.iter().map(|q| q.high).fold(2.0, f64::max);
    let last = p
        .points
        .iter()
        .map(|q| q.cpus)
        // `points` is sorted by the number of CPUs.
        .find(|&c| c as f64 > 4.0 * top)
        .unwrap_or(256) as f64;
    let near = |points: Vec<(f64, f64)>| {
        points
            .into_iter()
            .filter(|q| q.0 <= last)
            .collect::<Vec<_>>()
    };
    let mut series = vec![Series {
        name: "predicted".into(),
        band: p
            .points
            .iter()
            .filter(|q| q.cpus as f64 <= last)
            .map(|q| (q.low, q.high))
            .collect(),
        points: near(at(&|q| q.speedup)),
        style: SeriesStyle::Line,
    }];
    series.push(Series {
        name: "ideal".into(),
        // Up to the highest speed-up only: beyond it the line would set the scale of the chart, and flatten the
        // curve.
        points: vec![(1.0, 1.0), (top.min(last), top.min(last))],
        band: Vec::new(),
        style: SeriesStyle::Dashed,
    });
    if !p.measured.is_empty() {
        series.push(Series {
            name: "measured".into(),
            points: p
                .measured
                .iter()
                .map(|m| (m.cpus as f64, m.speedup))
                .collect(),
            band: Vec::new(),
            style: SeriesStyle::Dots,
        });
    }
    series
}

/// A row for each number of CPUs.
fn speedups(p: &Prediction) -> Table {
    let points = p.points.iter().map(|q| {
        vec![
            (q.cpus as u64).into(),
            q.speedup.into(),
            q.low.into(),
            q.high.into(),
            // Efficiency: speed-up for each CPU.
            (q.speedup / q.cpus as f64).into(),
            q.wait_ratio.into(),
            maybe(q.more_threads),
            limit(&q.limit).into(),
        ]
    });
    Table {
        caption: "speed-up over one CPU".into(),
        columns: columns(&[
            ("CPUs", Unit::Count, ""),
            (
                "speed-up",
                Unit::Factor,
                "with the same threads and the same work",
            ),
            ("low", Unit::Factor, ""),
            ("high", Unit::Factor, ""),
            ("efficiency", Unit::Ratio, ""),
            ("lock wait", Unit::Ratio, "share of the threads' time"),
            (
                "more threads",
                Unit::Factor,
                "if the program split the same work among as many threads as CPUs",
            ),
            ("limited by", Unit::Text, ""),
        ]),
        rows: points.collect(),
    }
}

/// Speed-ups with something changed, at a few numbers of CPUs.
fn what_if(p: &Prediction) -> Table {
    let all = p.what_if.iter();
    compared(
        p,
        "what if",
        "change",
        all.map(|w| {
            (
                w.change.as_str(),
                Box::new(|i: usize| w.speedup[i].into()) as Speedup,
            )
        }),
    )
}

/// The speed-ups of other models, at the same numbers of CPUs.
fn models(p: &Prediction) -> Table {
    let all = p.models.iter();
    compared(
        p,
        "other models",
        "model",
        all.map(|m| {
            (
                m.name.as_ref(),
                Box::new(|i: usize| maybe(m.speedup[i])) as Speedup,
            )
        }),
    )
}

/// The speed-up at the prediction's point of this index.
type Speedup<'a> = Box<dyn Fn(usize) -> Cell + 'a>;

/// A table of speed-ups: a row for each name, a column for each of a few numbers of CPUs.
fn compared<'a>(
    p: &Prediction,
    caption: &str,
    first: &str,
    rows: impl Iterator<Item = (&'a str, Speedup<'a>)>,
) -> Table {
    // A table of all numbers of CPUs would be wider than a page; the chart above has them.
    let shown = |i: &usize| [2, 4, 8, 16, 64].contains(&p.points[*i].cpus);
    let shown: Vec<usize> = (0..p.points.len()).filter(shown).collect();
    let mut columns = columns(&[(first, Unit::Text, "")]);
    columns.extend(shown.iter().map(|&i| Column {
        title: format!("{} CPUs", p.points[i].cpus),
        help: String::new(),
        unit: Unit::Factor,
    }));
    let rows = rows.map(|(name, speedup)| {
        let cells = shown.iter().map(|&i| speedup(i));
        std::iter::once(name.into()).chain(cells).collect()
    });
    Table {
        caption: caption.to_owned(),
        columns,
        rows: rows.collect(),
    }
}
