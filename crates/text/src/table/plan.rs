//! What `kasuri plan` prints: a table of schedules for each number of workers, and the tasks that ended latest against the first.
use super::grid::{Grid, number, text, word};
use super::units::{duration, percent, plural, printable};
use super::{Layout, Page};
use kasuri_predict::plan::{Plan, Point, Scheduler};

/// The plan as text, ending with a line feed.
pub fn render(plan: &Plan, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    let title = format!(
        "plan: {} in {}; work {}, span {}: parallelism {:.1}",
        plural(plan.tasks, "task"),
        plural(plan.strands, "strand"),
        duration(plan.work_ns as f64),
        duration(plan.span_ns as f64),
        plan.work_ns as f64 / plan.span_ns.max(1) as f64
    );
    let title = page.styled("1", &title);
    page.line(&title);
    let recorded = format!(
        "{} from the first start to the last end on {}: efficiency {}",
        duration(plan.recorded_ns as f64),
        plural(plan.recorded_workers as u64, "worker"),
        percent(
            plan.work_ns as f64 / (plan.recorded_workers as f64 * plan.recorded_ns as f64).max(1.0)
        )
    );
    page.fact("recorded", &recorded);
    for note in &plan.notes {
        page.fact("note", note);
    }
    for point in &plan.points {
        page.point(point);
    }
    page.lateness(plan);
    page.text
}

impl Page<'_> {
    fn point(&mut self, point: &Point) {
        let bound = match point.bound {
            "span" => "the span",
            _ => "the work, evenly shared",
        };
        let note = format!(
            "none can take less than {}: {bound}",
            duration(point.bound_ns as f64)
        );
        self.heading(
            &format!("on {}", plural(point.workers as u64, "worker")),
            &note,
        );
        let mut grid = Grid::new(&[
            word("SCHEDULER", 0),
            number("MAKESPAN", 0),
            number("SPEED-UP", 0),
            number("EFFICIENCY", 0),
            number("OVER BOUND", 0),
            word("OF SEVERAL RUNS", 1),
        ]);
        for s in &point.schedules {
            grid.row([
                s.scheduler.word().into(),
                duration(s.makespan_ns as f64),
                format!("{:.2}", s.speedup),
                percent(s.efficiency),
                percent(s.over_bound - 1.0),
                match s.scheduler {
                    Scheduler::Steal => format!(
                        "{}..{}",
                        duration(s.least_ns as f64),
                        duration(s.most_ns as f64)
                    ),
                    _ => "-".into(),
                },
            ]);
        }
        let n = point.schedules.len();
        self.grid(grid, n, n);
    }

    /// Times since the first task's first run.
    fn lateness(&mut self, plan: &Plan) {
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
        self.heading("latest tasks", &against);
        let mut grid = Grid::new(&[
            text("TASK"),
            number("ID", 2),
            number("PLANNED START", 1),
            number("PLANNED END", 0),
            number("RECORDED END", 0),
            number("LATE", 0),
            number("SLACK", 0),
        ]);
        let shown = self.shown(plan.lateness.len());
        for late in &plan.lateness[..shown] {
            grid.row([
                printable(&late.name),
                late.id.to_string(),
                duration(late.planned_start_ns as f64),
                duration(late.planned_end_ns as f64),
                duration(late.end_ns as f64),
                duration(late.late_ns as f64),
                duration(late.slack_ns as f64),
            ]);
        }
        self.grid(grid, shown, plan.lateness.len());
    }
}
