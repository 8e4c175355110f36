//! Regions and loops of OpenMP: a table, and what other schedules would do.
use crate::document::{Document, Rows, Title, Unit};
use crate::units::{cut, file_name, plural, printable};
use kasuri_analyze::{OpenMp, OpenMpLoop, OpenMpRegion, OpenMpTimes, Summary};

/// Loops and regions whose uneven split costs less than this share of the recording get no
/// sentence.
const WORTH: f64 = 0.005;
/// Columns for a name in a sentence.
const NAME: usize = 60;

/// A region, or a loop in it.
struct Row<'a> {
    name: String,
    times: &'a OpenMpTimes,
    chunks: Option<u64>,
}

/// A row for each of the first `most` regions with its loops below it, and a sentence for each
/// uneven one; no part without a region.
pub fn openmp(s: &Summary, most: usize) -> Document {
    let mut out = Document::new("OpenMP", Title::Command(s.command.clone()));
    let Some(openmp) = &s.openmp else {
        return out;
    };
    let shown = &openmp.regions[..openmp.regions.len().min(most)];
    let n_shown = shown.iter().map(|r| 1 + loops_of(openmp, r).count()).sum();
    let rows: Vec<Row<'_>> = openmp.regions.iter().flat_map(|r| rows_of(openmp, r)).collect();
    out.table(
        Rows::new("OpenMP", "regions, and the loops in them; longest first", &rows, n_shown)
            .column("name", Unit::Text, 0, "a loop with schedule(static) of gcc has no row", |r| {
                &r.name
            })
            .column("count", Unit::Count, 0, "executions", |r| r.times.count)
            .column("threads", Unit::Count, 3, "most of one execution", |r| r.times.threads)
            .column("time", Unit::Ns, 0, "from the first thread's start to the end", |r| {
                r.times.wall_ns
            })
            .column("work", Unit::Ns, 2, "of all threads, also tasks run while waiting", |r| {
                r.times.work_ns
            })
            .column("barrier", Unit::Ns, 1, "waits of all threads, without tasks", |r| {
                r.times.barrier_ns
            })
            .column("uneven", Unit::Ratio, 0, "(max - mean) / max of the threads' work", |r| {
                r.times.imbalance
            })
            .column("chunks", Unit::Count, 4, "whose times were seen", |r| r.chunks),
    );
    let items: Vec<String> =
        shown.iter().flat_map(|r| sentences(openmp, r, s.wall_ns as f64)).collect();
    out.list("", "", items.into_iter(), usize::MAX);
    out
}

fn rows_of<'a>(openmp: &'a OpenMp, r: &'a OpenMpRegion) -> impl Iterator<Item = Row<'a>> {
    let name = with_file(&r.name, r.place.as_deref());
    let region = Row { name, times: &r.times, chunks: None };
    let loops = loops_of(openmp, r).map(|l| Row {
        name: format!("  {}", with_file(&l.name, l.place.as_deref())),
        times: &l.times,
        chunks: (l.chunks > 0).then_some(l.chunks),
    });
    std::iter::once(region).chain(loops)
}

fn loops_of<'a>(openmp: &'a OpenMp, r: &'a OpenMpRegion) -> impl Iterator<Item = &'a OpenMpLoop> {
    openmp.loops.iter().filter(|l| l.pid == r.pid && l.region == r.name)
}

/// Of the loops that are uneven or have a better schedule; else of the region.
fn sentences(openmp: &OpenMp, r: &OpenMpRegion, wall_ns: f64) -> Vec<String> {
    let is_uneven =
        |times: &OpenMpTimes| times.is_uneven() && times.even_saves_ns as f64 >= WORTH * wall_ns;
    let mut out: Vec<String> = loops_of(openmp, r)
        .filter(|l| is_uneven(&l.times) || l.advice().is_some())
        .map(loop_text)
        .collect();
    if out.is_empty() && is_uneven(&r.times) {
        out.push(region_text(r));
    }
    out
}

/// `for dynamic solve:7 (solver.c)`: with the file, where the name has a function; the line is said
/// once.
fn with_file(name: &str, place: Option<&str>) -> String {
    let Some(place) = place.map(file_name).filter(|p| !name.ends_with(p)) else {
        return name.to_string();
    };
    match place.rsplit_once(':') {
        Some((file, line)) if name.ends_with(&format!(":{line}")) => format!("{name} ({file})"),
        _ => format!("{name} ({place})"),
    }
}

fn seconds(ns: i64) -> String {
    format!("{:.3} s", ns as f64 * 1e-9)
}

/// A name in a sentence.
fn shown(name: &str) -> String {
    cut(&printable(name), NAME)
}

/// What a loop loses, and what would save it.
fn loop_text(l: &OpenMpLoop) -> String {
    let (name, loss, all) =
        (shown(&l.name), l.times.imbalance * 100.0, seconds(l.times.busiest_ns));
    let what = format!("{name}: {loss:.0} % imbalance");
    if let Some(best) = l.advice() {
        return format!(
            "{what}; {} would save {} of {}, replayed from {}",
            best.schedule,
            seconds(best.saves_ns),
            seconds(best.wall_ns.saturating_add(best.saves_ns)),
            plural(l.chunks, "chunk"),
        );
    }
    let most = seconds(l.times.even_saves_ns);
    match l.refused {
        // An even split is no bound there: handing out fewer saves more.
        Some(why) if why == OpenMpLoop::TOO_SHORT => {
            format!("{what}; {why}: longer ones, or static, cost less to hand out")
        }
        Some(why) => format!(
            "{what}; an even split would save {most} of {all} and no more. Which schedule does is not told: {why}{}",
            how_to_see(l)
        ),
        None => format!(
            "{what}, {most} of {all}; no other schedule that was replayed from its {} is shorter",
            plural(l.chunks, "chunk")
        ),
    }
}

/// What shows more of a loop.
fn how_to_see(l: &OpenMpLoop) -> &'static str {
    let is_at_run_time = l.name.starts_with("for runtime ");
    match l.refused {
        Some(why) if !why.starts_with("its chunks are") => "",
        _ if is_at_run_time => " (record with OMP_SCHEDULE=dynamic)",
        _ => " (record it with schedule(dynamic))",
    }
}

/// What a region loses whose loops make no calls.
fn region_text(r: &OpenMpRegion) -> String {
    format!(
        "{}: {:.0} % imbalance; an even split between its barriers would save {} of {} and no more. How its work is divided was not seen (if by a loop with schedule(static): record it with schedule(dynamic))",
        shown(&r.name),
        r.times.imbalance * 100.0,
        seconds(r.times.even_saves_ns),
        seconds(r.times.busiest_ns),
    )
}
