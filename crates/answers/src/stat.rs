//! Tables of `kasuri stat` whose rows are those of the summary. Each document has no part where the
//! summary has no row.
use crate::account::{FINDING, class_of, knows_account};
use crate::document::{Cell, Document, Go, List, Part, Rows, Title, Unit, share};
use crate::units::{duration, file_name, percent, plural};
use kasuri_analyze::account::RegionAccount;
use kasuri_analyze::{
    CpuSummary, EventKind, Imbalance, Interference, ProgramBy, Summary, ThreadSummary,
};
use std::cmp::Reverse;

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
            .column("thread", Unit::Text, 0, "", |g| thread_cell(&g.thread, g.tid))
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

/// A paragraph for each region or loop whose threads had unequal work, with details where the cost is 0.5 % of the
/// capacity or more: others would hide them.
pub fn imbalance(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Balance", Title::Command(s.command.clone()));
    // An imbalance that would be printed as 0 % is left out.
    let found: Vec<&Imbalance> = s.imbalance.iter().filter(|i| i.imbalance >= 0.005).collect();
    let shown = found.len().min(most);
    let mut items = Vec::new();
    for i in &found[..shown] {
        items.push(imbalance_text(i));
        let is_worth = i.cost_ns >= s.capacity_ns as f64 * 0.005;
        let more = [late_text(i), rounds_text(i)].into_iter().flatten();
        items.extend(more.filter(|_| is_worth).map(|text| format!("  {text}")));
    }
    let note = match s.known.switches {
        true => "CPU time that threads waited for the slowest",
        false => "time that threads waited for the slowest, by the clock",
    };
    if !items.is_empty() {
        let all = items.len() + found.len() - shown;
        out.parts.push(Part::List(List {
            heading: "load imbalance",
            note: note.into(),
            items,
            all,
        }));
    }
    out
}

/// How many CPUs were at work while any thread was inside a region, and its largest loss.
pub fn regions(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Balance", Title::Command(s.command.clone()));
    // Without switches no CPU was seen at work.
    let regions: &[_] = if knows_account(s) { &s.account.regions } else { &[] };
    let lost = |r: &RegionAccount| {
        // Of the region's own capacity: all CPUs, while it was open.
        let capacity: i64 = r.classes.iter().map(|c| c.ns).sum();
        let lost = r.classes.iter().filter(|c| !class_of(c.class).is_useful());
        let most = lost.max_by_key(|c| c.ns).filter(|c| c.ns as f64 >= FINDING * capacity as f64);
        most.map(|c| format!("{:.2} {}", c.cpus, class_of(c.class).label()))
    };
    let note = "while any thread was inside it";
    out.table(
        Rows::new("CPUs at work by region", note, regions, most)
            .column("region", Unit::Text, 0, "", |r| &r.name)
            .column("open", Unit::Ns, 0, "", |r| r.wall_ns)
            .column("CPUs", Unit::Number, 0, "", |r| r.got_cpus)
            .column("bar", Unit::Word, 2, "", |r| Cell::of_classes(&r.classes))
            .column("most lost to", Unit::Text, 0, "", lost),
    );
    out
}

/// Hits of USDT probes, and what they cost.
pub fn usdt(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("USDT", Title::Command(s.command.clone()));
    out.list("USDT probes", "dearest first", usdt_text(s).into_iter(), 1);
    let probes: Vec<(&str, &EventKind)> = probes(s).collect();
    out.table(
        Rows::new("", "", &probes, most)
            .column("probe", Unit::Text, 0, "", |p| p.0)
            .column("hits", Unit::Count, 0, "", |p| p.1.program)
            .column("others", Unit::Count, 2, "", |p| p.1.count - p.1.program)
            .column("each", Unit::Ns, 1, "", |p| p.1.each_ns)
            .column("cost", Unit::Ns, 0, "", |p| p.1.cost_ns),
    );
    if probes.iter().any(|(_, kind)| kind.count > kind.program) {
        out.note("OTHERS: hits of other programs that ran the same code; a probe is on the file, and all of them paid for it");
    }
    out
}

fn probes(s: &Summary) -> impl Iterator<Item = (&str, &EventKind)> {
    s.tracing.events.iter().filter_map(|kind| Some((kind.probe()?, kind)))
}

/// Each thread; process ids only where there are several.
pub fn threads(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("Threads", Title::Command(s.command.clone()));
    let note = match (s.known.switches, s.known.wakeups) {
        // With wake-ups a thread is ready from the moment it is woken.
        (true, true) => "READY: could run, but had no CPU",
        // Without wake-ups it is not known when a sleeping thread became ready.
        (true, false) => "READY: preempted; BLOCKED: asleep, or woken and not yet running",
        (false, _) => "scheduler events were not recorded",
    };
    let known = s.known.switches;
    // A column that says the same in every row only takes room from the others.
    let many = s.threads.iter().any(|t| t.pid != s.threads[0].pid);
    let classes = |t: &ThreadSummary| {
        let mut of = s.account.threads.iter().filter(|_| known);
        of.find(|a| (a.tid, a.pid) == (t.tid, t.pid)).map(|a| Cell::of_classes(&a.classes))
    };
    out.table(
        Rows::new("threads", note, &s.threads, most)
            .column("thread", Unit::Text, 0, "", |t| thread_cell(&t.name, t.tid))
            .column("tid", Unit::Id, 0, "", |t| t.tid)
            .column("pid", Unit::Id, 6, "", |t| many.then_some(t.pid))
            .column("on CPU", Unit::Ns, 0, "", |t| known.then_some(t.on_cpu_ns))
            .column("ready", Unit::Ns, 1, "", |t| known.then_some(t.runnable_ns))
            .column("blocked", Unit::Ns, 1, "", |t| known.then_some(t.blocked_ns))
            .column("unknown", Unit::Ns, 5, "", |t| Some(t.unknown_ns).filter(|&ns| ns > 0))
            .column("switches", Unit::Count, 0, "", |t| known.then_some(t.switches))
            .column("preempted", Unit::Count, 2, "", |t| known.then_some(t.preemptions))
            .column("migrated", Unit::Count, 3, "", |t| known.then_some(t.migrations))
            .column("wake p50", Unit::Ns, 4, "", |t| t.wake_latency_ns.map(|l| l.p50))
            .column("wake p99", Unit::Ns, 3, "", |t| t.wake_latency_ns.map(|l| l.p99))
            .column("wake max", Unit::Ns, 5, "", |t| t.wake_latency_ns.map(|l| l.max))
            .column("account", Unit::Word, 3, "", classes),
    );
    out
}

/// Each CPU, in shares of the wall time.
pub fn cpus(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("CPUs", Title::Command(s.command.clone()));
    if !s.known.switches || s.wall_ns <= 0 {
        return out;
    }
    let mut order: Vec<&CpuSummary> = s.cpus.iter().collect();
    let shown = if order.len() <= 16 { order.len() } else { most };
    // CPUs on which nothing of the program ran are alike: on large machines the busiest CPUs come first.
    if shown < order.len() {
        order.sort_by_key(|c| Reverse(c.target_ns));
    }
    let of_wall = |ns| share(ns, s.wall_ns);
    let others = |ns| of_wall(ns).filter(|_| s.known.other_processes);
    let unknown = s.cpus.iter().any(|c| c.unknown_ns > 0);
    let classes = |c: &CpuSummary| {
        let of = s.account.cpus.iter().find(|a| a.cpu == c.cpu);
        of.map(|a| Cell::of_classes(&a.classes))
    };
    out.table(
        Rows::new("CPUs", "share of the wall time", order, shown)
            .column("CPU", Unit::Text, 0, "", |c| format!("CPU {}", c.cpu))
            .column("program", Unit::Ratio, 0, "", |c| of_wall(c.target_ns))
            .column("others", Unit::Ratio, 0, "", |c| others(c.other_ns))
            .column("idle", Unit::Ratio, 0, "", |c| others(c.idle_ns))
            .column("unknown", Unit::Ratio, 1, "", |c| of_wall(c.unknown_ns).filter(|_| unknown))
            .column(
                "IRQ",
                Unit::Ratio,
                2,
                "inside the others: taken from what it interrupts",
                |c| c.irq_ns.and_then(of_wall),
            )
            .column("switches", Unit::Count, 1, "", |c| c.switches)
            .column("account", Unit::Word, 3, "", classes),
    );
    out
}

/// `USDT: 41,200 hits, about 1.90 us each: 78.3 ms, 2.1 % of the program's CPU time`; none: no probe was recorded.
pub fn usdt_text(s: &Summary) -> Option<String> {
    probes(s).next()?;
    let hits: u64 = probes(s).map(|(_, kind)| kind.program).sum();
    let cost: i64 = probes(s).map(|(_, kind)| kind.cost_ns).sum();
    let mut out = format!("USDT: {}", plural(hits, "hit"));
    if hits > 0 {
        let (each, all) = (cost as f64 / hits as f64, cost as f64);
        out += &format!(", about {} each: {}", duration(each), duration(all));
        // A share of the same base as that of all tracing, and unknown with it.
        if let (Some(_), Some(cpu)) = (s.tracing.share, s.tracing.program_cpu_ns) {
            let share = percent(all / cpu.max(1) as f64);
            out += &format!(", {share} of the program's CPU time");
        }
    }
    Some(out)
}

/// An imbalance: where, how much, what it cost, and which thread was slowest how often.
fn imbalance_text(i: &Imbalance) -> String {
    let name = &i.name;
    let threads = plural(i.threads.into(), "thread");
    let (what, over) = match i.by {
        "region" => (
            format!("all work before {name}"),
            format!("{} of {threads}", plural(i.instances, "round")),
        ),
        // A loop without rounds: threads are compared by their sums over the whole recording.
        "total" => (name.clone(), format!("the sums of {threads}")),
        _ => (name.clone(), format!("{} of {threads}", plural(i.instances, "round"))),
    };
    let how_often = if i.instances < 2 {
        "in the only round".to_string()
    // Would be printed as 100.0 %, which "always" says better.
    } else if i.worst_share > 0.9995 {
        "always".to_string()
    } else {
        format!("in {}", percent(i.worst_share))
    };
    let (loss, cost) = (i.imbalance * 100.0, i.cost_ns * 1e-9);
    let worst = &i.worst_thread;
    format!(
        "{what}: {loss:.0} % imbalance, cost {cost:.3} CPU-s over {over}; slowest {how_often}: thread {worst} ({})",
        i.worst_tid
    )
}

/// Which thread is late, and what to do about it; none without a test of chance, or with too few rounds.
fn late_text(i: &Imbalance) -> Option<String> {
    // Friedman's test: how often chance alone makes threads differ as much.
    let chance = match i.p_value? {
        p if p < 0.001 => "p < 0.001".to_string(),
        p => format!("p = {p:.3}"),
    };
    let first = i.by_thread.first()?;
    let mean = i.mean_busy_ns.max(1.0);
    let more = (first.busy_ns as f64 / mean - 1.0) * 100.0;
    let saves = i.static_cost_ns / i.cost_ns.max(1.0) * 100.0;
    let name = &first.name;
    Some(match i.cause {
        "static" => format!(
            "the work is split unevenly: {name} has {more:.0} % more than the mean; a better fixed split saves {saves:.0} % of the cost ({chance})"
        ),
        "mixed" => format!(
            "the work is split unevenly in part: {name} has {more:.0} % more than the mean, which is {saves:.0} % of the cost ({chance}); the rest changes from round to round"
        ),
        "changing" => format!(
            "a different thread is late each time ({chance}): a better fixed split would save {saves:.0} % of the cost; hand out the work in smaller pieces, or look for interference"
        ),
        // Too few rounds to tell.
        _ => return None,
    })
}

/// The distribution over rounds, as a histogram in block characters; none below three rounds, as the line above has all
/// there is to a single round.
fn rounds_text(i: &Imbalance) -> Option<String> {
    // The lower eighths of a cell, one to eight.
    const BARS: [char; 8] = [
        '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    // The histogram has equal steps from 0 to 100 %; the tallest bar is the most frequent one, not all rounds.
    let r = &i.rounds;
    let most = *r.histogram.iter().max()? as f64;
    if i.instances < 3 || most == 0.0 {
        return None;
    }
    let bar = |&n: &u64| match n {
        0 => '\u{b7}',
        n => BARS[((n as f64 / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    let bars: String = r.histogram.iter().map(bar).collect();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    Some(format!(
        "imbalance by round: p50 {}, p90 {}, max {} at {}; 0 % {bars} 100 %",
        percent(r.p50),
        percent(r.p90),
        percent(r.max),
        duration(r.worst_at_ns as f64)
    ))
}

/// The first few numbers of a list: on large machines a process may have run on hundreds of CPUs.
fn some_of(numbers: &[u32]) -> String {
    let first: Vec<String> = numbers.iter().take(4).map(u32::to_string).collect();
    let more = if numbers.len() > 4 { ", ..." } else { "" };
    format!("{}{more}", first.join(", "))
}

/// A thread, and its row. Some tracers write no names, and a thread may end before it has one.
fn thread_cell(name: &str, tid: i32) -> Cell {
    let name = if name.is_empty() { format!("thread {tid}") } else { name.to_owned() };
    Cell::from(name).to(Go::Thread(tid))
}
