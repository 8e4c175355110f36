//! The answer of `kasuri plan`: a table of schedules for each number of workers, and the tasks that ended latest against the first.
use crate::Answer;
use crate::document::{Document, Rows, Title, Unit};
use crate::units::{duration, percent, plural};
use kasuri_predict::plan::{Plan, Planned, Point, Scheduler};

impl Answer for Plan {
    fn document(&self, rows: usize) -> Document {
        let title = format!(
            "plan: {} in {}; work {}, span {}: parallelism {:.1}",
            plural(self.tasks, "task"),
            plural(self.strands, "strand"),
            duration(self.work_ns as f64),
            duration(self.span_ns as f64),
            self.work_ns as f64 / self.span_ns.max(1) as f64
        );
        let mut out = Document::new("Plan", Title::Line(title));
        let time_of_workers = self.recorded_workers as f64 * self.recorded_ns as f64;
        out.fact(
            "recorded",
            format!(
                "{} from the first start to the last end on {}: efficiency {}",
                duration(self.recorded_ns as f64),
                plural(self.recorded_workers as u64, "worker"),
                percent(self.work_ns as f64 / time_of_workers.max(1.0))
            ),
        );
        self.notes.iter().for_each(|note| out.fact("note", note));
        self.points.iter().for_each(|at| point(&mut out, at));
        lateness(&mut out, self, rows);
        out
    }
}

fn point(out: &mut Document, point: &Point) {
    let bound = match point.bound {
        "span" => "the span",
        _ => "the work, evenly shared",
    };
    let bound = format!("none can take less than {}: {bound}", duration(point.bound_ns as f64));
    let heading = format!("on {}", plural(point.workers as u64, "worker"));
    let range = |s: &Planned| {
        let ends = [s.least_ns, s.most_ns].map(|ns| duration(ns as f64));
        (s.scheduler == Scheduler::Steal).then(|| ends.join(".."))
    };
    out.table(
        Rows::new(heading, bound, &point.schedules, usize::MAX)
            .column("scheduler", Unit::Word, 0, "", |s| s.scheduler.word())
            .column("makespan", Unit::Ns, 0, "from the first start to the last end", |s| {
                s.makespan_ns
            })
            .column("speed-up", Unit::Number, 0, "over one worker", |s| s.speedup)
            .column("efficiency", Unit::Ratio, 0, "speed-up / workers", |s| s.efficiency)
            .column("over bound", Unit::Ratio, 0, "", |s| s.over_bound - 1.0)
            .column("of several runs", Unit::Word, 1, "", range),
    );
}

/// Times since the first task's first run.
fn lateness(out: &mut Document, plan: &Plan, rows: usize) {
    let Some(point) = plan.points.first() else {
        return;
    };
    let Some(by) = point.schedules.first() else {
        return;
    };
    let against = format!(
        "recorded on {}, against {} on {}; since the first start",
        plural(plan.recorded_workers as u64, "worker"),
        by.scheduler.word(),
        plural(point.workers as u64, "worker")
    );
    out.table(
        Rows::new("latest tasks", against, &plan.lateness, rows)
            .column("task", Unit::Text, 0, "", |t| &t.name)
            .column("id", Unit::Id, 2, "", |t| t.id)
            .column("planned start", Unit::Ns, 1, "", |t| t.planned_start_ns)
            .column("planned end", Unit::Ns, 0, "", |t| t.planned_end_ns)
            .column("recorded end", Unit::Ns, 0, "", |t| t.end_ns)
            .column("late", Unit::Ns, 0, "", |t| t.late_ns)
            .column("slack", Unit::Ns, 0, "it could end later by this without a longer run", |t| {
                t.slack_ns
            }),
    );
}
