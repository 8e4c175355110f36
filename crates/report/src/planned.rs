//! Rows of a plan under those that were recorded: a process with a thread for each planned worker, whose slices are tasks.
//!
//! The viewer draws them as it draws recorded ones. Their colours say how late the tasks were: each name comes in up to four
//! versions, one for each [`Lateness`], and [`crate::Options::lateness`] says which is which.
use kasuri_model::{
    Process, ProcessIx, SliceIx, SliceKind, StrIx, Strings, TaskIx, Thread, ThreadIx, Time, Trace,
};
use std::collections::BTreeMap;

/// When a task started, against the plan. The numbers are those of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Lateness {
    /// Before its planned start, by more than 1 % of the plan's length.
    Early = 0,
    /// Within 1 % of the plan's length.
    OnTime = 1,
    /// Later by up to 10 % of it.
    Late = 2,
    /// Later than that.
    VeryLate = 3,
}

impl Lateness {
    /// Of a task that started `late_ns` after its planned start, in a plan of `length_ns`.
    pub fn of(late_ns: i64, length_ns: u64) -> Lateness {
        let share = late_ns as f64 / length_ns.max(1) as f64;
        match share {
            s if s < -0.01 => Lateness::Early,
            s if s <= 0.01 => Lateness::OnTime,
            s if s <= 0.1 => Lateness::Late,
            _ => Lateness::VeryLate,
        }
    }

    /// In the name of a slice.
    fn word(self) -> &'static str {
        match self {
            Lateness::Early => "early",
            Lateness::OnTime => "on time",
            Lateness::Late => "late",
            Lateness::VeryLate => "very late",
        }
    }
}

/// A stretch of a task on a planned worker. Those of one worker do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// From 0.
    pub worker: u32,
    /// The task, whose name it has.
    pub task: TaskIx,
    /// On the recording's clock.
    pub start: Time,
    /// The same.
    pub end: Time,
    /// Of the task.
    pub lateness: Lateness,
}

/// Adds the rows, under all others, with the heading `title`. Returns the names that say how late tasks were. Analyses of the trace
/// would count what was not recorded: they come first.
pub fn add(
    trace: &mut Trace,
    title: &str,
    n_workers: usize,
    mut stretches: Vec<Stretch>,
) -> Vec<(StrIx, Lateness)> {
    stretches.retain(|s| (s.worker as usize) < n_workers && s.start < s.end);
    stretches.sort_by_key(|s| (s.worker, s.start));
    let process = ProcessIx(trace.processes.len() as u32);
    let first_thread = trace.threads.len() as u32;
    let threads = first_thread..first_thread + n_workers as u32;
    let name = trace.strings.intern(title);
    trace.processes.push(Process {
        pid: 0,
        name,
        parent: ProcessIx::NONE,
        is_target: true,
        threads: threads.clone(),
    });
    let starts = stretches.iter().map(|s| s.start).min();
    let starts = starts.unwrap_or(trace.span.start);
    let ends = stretches.iter().map(|s| s.end).max().unwrap_or(starts);
    let mut names: BTreeMap<(StrIx, Lateness), StrIx> = BTreeMap::new();
    let mut at = 0;
    for worker in 0..n_workers {
        let from = trace.slices.start.len() as u32;
        let n = stretches[at..].partition_point(|s| s.worker as usize == worker);
        for stretch in &stretches[at..at + n] {
            let task = trace.tasks[stretch.task.ix()].name;
            let key = (task, stretch.lateness);
            let name = *names
                .entry(key)
                .or_insert_with(|| new_name(&mut trace.strings, task, stretch.lateness));
            push(trace, ThreadIx(first_thread + worker as u32), name, stretch);
        }
        at += n;
        let name = trace.strings.intern(&format!("planned worker {worker}"));
        trace.threads.push(Thread {
            process,
            tid: worker as i32,
            name,
            alive: starts..ends,
            slices: from..trace.slices.start.len() as u32,
            slice_levels: u16::from(n > 0),
            states: trace.states.start.len() as u32..trace.states.start.len() as u32,
            ..Thread::default()
        });
    }
    (names.into_iter()).map(|((_, lateness), name)| (name, lateness)).collect()
}

/// A name that nothing recorded has: that would be coloured like a planned task.
fn new_name(strings: &mut Strings, task: StrIx, lateness: Lateness) -> StrIx {
    let mut text = format!("{}, {}", strings.get(task), lateness.word());
    loop {
        let n = strings.len();
        let name = strings.intern(&text);
        if strings.len() > n {
            return name;
        }
        text.push(' ');
    }
}

fn push(trace: &mut Trace, thread: ThreadIx, name: StrIx, stretch: &Stretch) {
    let s = &mut trace.slices;
    s.start.push(stretch.start);
    s.end.push(stretch.end);
    s.thread.push(thread);
    s.name.push(name);
    s.depth.push(0);
    s.parent.push(SliceIx::NONE);
    s.kind.push(SliceKind::Work);
    s.task.push(stretch.task);
    s.object.push(0);
    s.open.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_a_share_of_the_plan() {
        let of = |late| Lateness::of(late, 1000);
        let expected = [
            (-500, Lateness::Early),
            (-11, Lateness::Early),
            (-10, Lateness::OnTime),
            (0, Lateness::OnTime),
            (10, Lateness::OnTime),
            (11, Lateness::Late),
            (100, Lateness::Late),
            (101, Lateness::VeryLate),
            (i64::MAX, Lateness::VeryLate),
        ];
        for (late, lateness) in expected {
            assert_eq!(of(late), lateness, "{late}");
        }
        assert_eq!(Lateness::of(0, 0), Lateness::OnTime);
    }

    /// A recorded task whose name is a planned one's of another keeps a name of its own.
    #[test]
    fn recorded_names_are_not_those_of_planned_rows() {
        let mut trace = Trace { span: Time(0)..Time(100), ..Trace::default() };
        let recorded = ["a", "a, late", "a, late "].map(|name| trace.strings.intern(name));
        for name in recorded {
            trace.tasks.push(kasuri_model::Task {
                name,
                parent: TaskIx::NONE,
                creator: ThreadIx::NONE,
                joiner: TaskIx::NONE,
                ..kasuri_model::Task::default()
            });
        }
        let stretches = (0..3).map(|task| Stretch {
            worker: 0,
            task: TaskIx(task),
            start: Time(task.into()),
            end: Time(i64::from(task) + 1),
            lateness: Lateness::Late,
        });
        let lateness = add(&mut trace, "plan", 1, stretches.collect());
        let named: Vec<_> = lateness.iter().map(|&(name, _)| name).collect();
        assert_eq!(named.len(), 3);
        assert!(named.iter().all(|name| !recorded.contains(name)), "{named:?}");
        let said = named.iter().map(|&name| trace.strings.get(name).trim_end());
        assert!(said.eq(["a, late", "a, late, late", "a, late , late"]));
    }

    /// The trace with the rows holds all rules of a trace, and the rows are what was asked for.
    #[test]
    fn planned_rows_are_threads_of_a_process_of_their_own() {
        let mut trace = Trace { span: Time(0)..Time(100), ..Trace::default() };
        for name in ["a", "b"] {
            let name = trace.strings.intern(name);
            trace.tasks.push(kasuri_model::Task {
                name,
                parent: TaskIx::NONE,
                creator: ThreadIx::NONE,
                joiner: TaskIx::NONE,
                ..kasuri_model::Task::default()
            });
        }
        let stretch = |worker, task, start, end, lateness| Stretch {
            worker,
            task: TaskIx(task),
            start: Time(start),
            end: Time(end),
            lateness,
        };
        let stretches = vec![
            stretch(2, 1, 40, 60, Lateness::Late),
            stretch(0, 0, 30, 60, Lateness::OnTime),
            stretch(0, 1, 10, 30, Lateness::Late),
            stretch(0, 1, 5, 5, Lateness::Early), // no time: no slice
            stretch(9, 1, 0, 5, Lateness::Early), // no such worker
        ];
        let lateness = add(&mut trace, "plan", 3, stretches);
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        let text = |name: StrIx| trace.strings.get(name).to_string();
        let said: Vec<_> = lateness.iter().map(|&(n, l)| (text(n), l)).collect();
        let expected = [("a, on time", Lateness::OnTime), ("b, late", Lateness::Late)];
        assert_eq!(said, expected.map(|(n, l)| (n.to_string(), l)));
        let rows: Vec<Vec<(String, i64, i64)>> = (trace.threads.iter())
            .map(|thread| {
                let rows = thread.slices.start as usize..thread.slices.end as usize;
                let s = &trace.slices;
                rows.map(|r| (text(s.name[r]), s.start[r].0, s.end[r].0)).collect()
            })
            .collect();
        let row = |name: &str, from, to| (name.to_string(), from, to);
        assert_eq!(rows[0], [row("b, late", 10, 30), row("a, on time", 30, 60)]);
        assert_eq!(rows[1], []);
        assert_eq!(rows[2], [row("b, late", 40, 60)]);
    }
}
