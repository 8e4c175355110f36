//! Tables of `kasuri stat` whose rows are those of the summary. Each document has no part where the
//! summary has no row.
use crate::document::{Cell, Document, Go, Rows, Title, Unit};
use crate::units::file_name;
use kasuri_analyze::{Interference, ProgramBy, Summary};

/// Slices by name and kind, of whatever threads; points; and what switched its annotations off.
pub fn annotations(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Annotations", Title::Command(s.command.clone()));
    out.table(
        Rows::new("annotations", "most total time first", &s.annotations, most)
            .column("name", Unit::Text, 0, "", |a| &a.name)
            .column("kind", Unit::Word, 1, "", |a| a.kind.replace('_', " "))
            .column("count", Unit::Count, 0, "", |a| a.count)
            .column("threads", Unit::Count, 7, "", |a| a.threads)
            .column("total", Unit::Ns, 0, "a slice inside its like counts twice", |a| a.total_ns)
            .column("self", Unit::Ns, 3, "without the slices directly inside", |a| a.self_ns)
            .column("on CPU", Unit::Ns, 4, "the total less what the threads waited", |a| {
                a.on_cpu_ns
            })
            .column("mean", Unit::Ns, 2, "", |a| a.mean_ns)
            .column("p99", Unit::Ns, 8, "", |a| a.p99_ns)
            .column("max", Unit::Ns, 2, "", |a| a.max_ns)
            .column("where", Unit::Word, 9, "", |a| a.place.as_deref().map(file_name)),
    );
    // As many digits as tell values of a counter apart; huge ones by their power of ten.
    let value = |value: Option<f64>| match value? {
        v if v.abs() >= 1e12 => Some(format!("{v:.3e}")),
        v => Some(format!("{}", (v * 1e3).round() / 1e3)),
    };
    out.table(
        Rows::new("instants, counters and flows", "most first", &s.points, most)
            .column("name", Unit::Text, 0, "", |p| &p.name)
            .column("kind", Unit::Word, 1, "", |p| p.kind)
            .column("count", Unit::Count, 0, "", |p| p.count)
            .column("threads", Unit::Count, 5, "", |p| (p.kind != "counter").then_some(p.threads))
            .column("first", Unit::Ns, 2, "", |p| p.first_ns)
            .column("last", Unit::Ns, 2, "", |p| p.last_ns)
            .column("min", Unit::Number, 3, "", |p| value(p.min))
            .column("max", Unit::Number, 3, "", |p| value(p.max))
            .column("end", Unit::Number, 4, "", |p| value(p.last))
            .column("where", Unit::Word, 6, "", |p| p.place.as_deref().map(file_name)),
    );
    let note = "since then their time is in what called them";
    out.table(
        Rows::new("annotations switched off", note, &s.switched_off, most)
            .column("name", Unit::Text, 0, "", |o| &o.name)
            .column("count", Unit::Count, 0, "slices until then", |o| o.count)
            .column("mean", Unit::Ns, 0, "", |o| o.mean_ns)
            .column("off at", Unit::Ns, 0, "from the recording's begin", |o| {
                o.off_ns.map_or("before".into(), Cell::from)
            })
            .column("pid", Unit::Id, 2, "", |o| o.pid)
            .column("where", Unit::Word, 1, "", |o| o.place.as_deref().map(file_name)),
    );
    out
}

/// Annotated waits and critical sections.
pub fn waits(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Waits", Title::Command(s.command.clone()));
    let object = |object: u64| (object != 0).then(|| format!("{object:#x}"));
    out.table(
        Rows::new("waits and critical sections", "most total time first", &s.waits, most)
            // A lock or barrier that the program did not name is known by its address.
            .column("name", Unit::Text, 0, "", |w| match w.name.as_str() {
                "" => format!("{:#x}", w.object),
                name => name.to_owned(),
            })
            .column("kind", Unit::Word, 0, "", |w| w.kind.replace('_', " "))
            .column("count", Unit::Count, 0, "", |w| w.count)
            .column("threads", Unit::Count, 2, "", |w| w.threads)
            .column("total", Unit::Ns, 0, "", |w| w.total_ns)
            .column("p50", Unit::Ns, 3, "", |w| w.p50_ns)
            .column("p99", Unit::Ns, 1, "", |w| w.p99_ns)
            .column("max", Unit::Ns, 1, "", |w| w.max_ns)
            .column("object", Unit::Id, 5, "", |w| object(w.object)),
    );
    out
}

/// Processes that ran while a thread of the program was ready. One that ran beside the program, on
/// CPUs that nobody else wanted, did not interfere.
pub fn interference(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Scheduling", Title::Command(s.command.clone()));
    let found = s.interference.iter().filter(|i| i.delayed_ns > 0 || i.preemptions > 0);
    let name = |i: &Interference| match i.is_target && s.program.by != ProgramBy::Nobody {
        true => format!("{} (the program itself)", i.process),
        false => i.process.clone(),
    };
    let note = "processes that ran while the program was ready to run";
    out.table(
        Rows::new("interference", note, found, most)
            .column("process", Unit::Text, 0, "", name)
            .column("pid", Unit::Id, 0, "", |i| i.pid)
            .column("delay", Unit::Ns, 0, "threads were ready and had no CPU because of it", |i| {
                i.delayed_ns
            })
            .column("threads", Unit::Count, 1, "that it delayed", |i| i.threads_delayed)
            .column("preemptions", Unit::Count, 1, "", |i| i.preemptions)
            .column("on CPU", Unit::Word, 2, "where it ran", |i| some_of(&i.cpus)),
    );
    out
}

/// Moves to other CPUs by thread and reason.
pub fn migrations(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Scheduling", Title::Command(s.command.clone()));
    let note = "moves to another CPU; OFF CPU: time off a CPU around them";
    out.table(
        Rows::new("migrations", note, &s.migration_groups, most)
            .column("thread", Unit::Text, 0, "", |g| {
                // Some tracers write no names, and a thread may end before it has one.
                let name = match g.thread.as_str() {
                    "" => format!("thread {}", g.tid),
                    name => name.to_owned(),
                };
                Cell::from(name).to(Go::Thread(g.tid))
            })
            .column("tid", Unit::Id, 0, "", |g| g.tid)
            .column("why", Unit::Word, 0, "what the thread's states show around the move", |g| {
                g.why
            })
            .column("count", Unit::Count, 0, "", |g| g.count)
            .column("most often", Unit::Word, 2, "from CPU, to CPU", |g| {
                format!("{} -> {}", g.from_cpu, g.to_cpu)
            })
            .column("off CPU", Unit::Ns, 0, "", |g| g.off_cpu_ns)
            .column("longest", Unit::Ns, 1, "", |g| g.longest_ns),
    );
    out
}

/// The first few numbers of a list: on large machines a process may have run on hundreds of CPUs.
fn some_of(numbers: &[u32]) -> String {
    let first: Vec<String> = numbers.iter().take(4).map(u32::to_string).collect();
    let more = if numbers.len() > 4 { ", ..." } else { "" };
    format!("{}{more}", first.join(", "))
}
