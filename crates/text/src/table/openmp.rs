//! Regions and loops of OpenMP: a table, and what other schedules would do.
use super::Page;
use super::grid::{Grid, cut, number, text};
use super::units::{count, duration, file_name, percent, plural, printable};
use kasuri_analyze::{OpenMp, OpenMpLoop, OpenMpRegion, OpenMpTimes, Summary};

/// Loops and regions whose uneven split costs less than this share of the recording get no sentence.
const WORTH: f64 = 0.005;
/// Columns for a name in a sentence.
const NAME: usize = 60;

impl Page<'_> {
    /// A row for each region with its loops below it, and a sentence for each uneven one.
    pub(super) fn openmp(&mut self, s: &Summary) {
        let Some(openmp) = &s.openmp else {
            return;
        };
        self.heading("OpenMP", "regions, and the loops in them; longest first");
        // WORK and BARRIER are sums over the threads. UNEVEN: (max - mean) / max of the threads' work between barriers.
        let mut grid = Grid::new(&[
            text("NAME"),
            number("COUNT", 0),
            number("THREADS", 3),
            number("TIME", 0),
            number("WORK", 2),
            number("BARRIER", 1),
            number("UNEVEN", 0),
            number("CHUNKS", 4),
        ]);
        let shown = self.shown(openmp.regions.len());
        for r in &openmp.regions[..shown] {
            grid.row(row(with_file(&r.name, r.place.as_deref()), &r.times, "-".into()));
            for l in loops_of(openmp, r) {
                let chunks = match l.chunks {
                    0 => "-".into(),
                    n => count(n),
                };
                let name = with_file(&l.name, l.place.as_deref());
                grid.row(row(format!("  {name}"), &l.times, chunks));
            }
        }
        self.grid(grid, shown, openmp.regions.len());
        let is_uneven = |times: &OpenMpTimes| {
            times.is_uneven() && times.even_saves_ns as f64 >= WORTH * s.wall_ns as f64
        };
        for r in &openmp.regions[..shown] {
            let mut told = false;
            for l in loops_of(openmp, r).filter(|l| is_uneven(&l.times) || l.advice().is_some()) {
                self.item(&loop_text(l));
                told = true;
            }
            if !told && is_uneven(&r.times) {
                self.item(&region_text(r));
            }
        }
    }
}

fn row(name: String, times: &OpenMpTimes, chunks: String) -> [String; 8] {
    [
        name,
        count(times.count),
        times.threads.to_string(),
        ns(times.wall_ns),
        ns(times.work_ns),
        ns(times.barrier_ns),
        percent(times.imbalance),
        chunks,
    ]
}

fn loops_of<'a>(openmp: &'a OpenMp, r: &'a OpenMpRegion) -> impl Iterator<Item = &'a OpenMpLoop> {
    let mut loops = openmp.loops.iter();
    std::iter::from_fn(move || loops.find(|l| l.pid == r.pid && l.region == r.name))
}

/// `for dynamic solve:7 (solver.c)`: with the file, where the name has a function; the line is said once.
fn with_file(name: &str, place: Option<&str>) -> String {
    let Some(place) = place.map(file_name).filter(|p| !name.ends_with(p)) else {
        return name.to_string();
    };
    match place.rsplit_once(':') {
        Some((file, line)) if name.ends_with(&format!(":{line}")) => format!("{name} ({file})"),
        _ => format!("{name} ({place})"),
    }
}

fn ns(value: i64) -> String {
    duration(value as f64)
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
