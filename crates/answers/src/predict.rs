//! The answer of `kasuri predict`: facts and a verdict, or why there is none, then the speed-up by number of CPUs as a table and as a
//! curve, then what would change it: the program with one thing changed, its locks, and other models beside the replay. Uncertainties come
//! last. Tables that compare have columns for a few numbers of CPUs only, see [`compared`].
use crate::Answer;
use crate::document::{Cell, Chart, Document, Part, Rows, Series, SeriesStyle, Unit};
use crate::locks::inversion;
use crate::units::{duration, percent, plural};
use crate::verdict::without_holds;
use kasuri_analyze::{ProgramBy, Session};
use kasuri_predict::{Options, Point, Prediction, Recording};

/// Inversions whose places are among the notes.
const MOST_PLACES: usize = 10;

/// The prediction from a recording, and from another of the same program on more CPUs; or why there is none.
///
/// # Errors
/// A clause that follows "cannot predict".
pub fn predict(
    session: &Session<'_>,
    second: Option<&Session<'_>>,
    options: &Options,
) -> Result<Prediction, String> {
    if session.waits_for_unheld()
        && let Some(lock) = without_holds(session.locks())
    {
        return Err(format!(
            "threads wait for `{}`, and the recording does not show which thread holds it, so what it allows on more CPUs is not known",
            lock.name
        ));
    }
    let mut out = kasuri_predict::predict(recording(session), second.map(recording), options)
        .map_err(|error| error.to_string())?;
    if !out.deadlocks.is_empty() {
        // The places come from the recording itself.
        let places = session.locks().inversions.iter().filter(|i| i.can_deadlock);
        let places = places.take(MOST_PLACES).map(inversion);
        out.notes.splice(0..0, places);
    }
    let program = kasuri_analyze::program(session.trace());
    if program.by == ProgramBy::Nobody {
        let of = program.n_processes;
        let note =
            format!("of all {of} processes as if they were one program; --process NAME takes one");
        out.notes.insert(0, note);
    }
    Ok(out)
}

/// The same for the locks of a recording, beside an answer about them.
///
/// # Errors
/// As [`predict`].
pub fn of_locks(session: &Session<'_>, options: &Options) -> Result<Prediction, String> {
    // Where tasks take the locks, a replay of threads is not what would happen.
    match session.locks().tasks.is_empty() {
        true => predict(session, None, options),
        false => Err("tasks take the locks, and the replay is of threads".into()),
    }
}

/// A tab of the prediction's name that says why there is none.
pub fn refused(session: &Session<'_>, why: &str) -> Document {
    let mut out = Document::of(NAME, &session.trace().info.command);
    out.refusal("verdict", format!("no number: {why}"));
    out
}

fn recording<'a>(session: &'a Session<'_>) -> Recording<'a> {
    let off_work = session.off_work();
    Recording { trace: session.trace(), spinning: &off_work.spinning, runtime: &off_work.runtime }
}

const NAME: &str = "Prediction";

impl Answer for Prediction {
    fn document(&self, rows: usize) -> Document {
        let mut out = Document::of(NAME, &self.command);
        facts(&mut out, self);
        match self.refused.is_empty() {
            true => out.fact("verdict", with_doubt(self)),
            false => out.refusal("verdict", refusal(self)),
        }
        if !self.points.is_empty() {
            speedups(&mut out, self);
            curve(&mut out, self);
            compared(&mut out, self);
        }
        locks(&mut out, self, rows);
        if !self.points.is_empty() {
            models(&mut out, self);
        }
        let notes = self.notes.iter().cloned();
        out.list("uncertainties", "", notes, usize::MAX);
        out
    }
}

/// What busy CPUs do to the code of others.
fn slowdown(factor: f64) -> String {
    match 100.0 * (factor - 1.0) {
        slower if slower >= 0.05 => format!("slow code by {slower:.1} %"),
        _ => "do not slow code".into(),
    }
}

/// A factor in a sentence.
fn times(speedup: f64) -> String {
    format!("{speedup:.2}x")
}

/// What was recorded, how well the replay reproduces it, locks, and the machine's costs.
fn facts(out: &mut Document, p: &Prediction) {
    out.fact(
        "recorded",
        format!(
            "{} on {}, {} of work by {} ({} of them busy); the replay takes {}{}",
            duration(p.recorded_wall_ns as f64),
            plural(p.recorded_cpus as u64, "CPU"),
            duration(p.work_ns as f64),
            plural(p.threads as u64, "thread"),
            p.workers,
            duration(p.replayed_wall_ns as f64),
            p.replay_error().map(|error| format!(" ({:+.1} %)", 100.0 * error)).unwrap_or_default()
        ),
    );
    second_fact(out, p);
    lock_fact(out, p);
    machine_fact(out, p);
}

/// The verdict, as far as the replay can be believed.
fn with_doubt(p: &Prediction) -> String {
    match p.is_reliable() {
        true => verdict(p),
        false => {
            format!("not reliable, the replay does not reproduce the recording: {}", verdict(p))
        }
    }
}

/// Why there is no number, or only the measured one, and what to do.
fn refusal(p: &Prediction) -> String {
    let known = match (&p.second, p.points.first()) {
        (Some(second), Some(point)) => format!(
            "{} on {}, as measured; no number for others",
            times(point.speedup),
            plural(second.cpus as u64, "CPU")
        ),
        (None, Some(point)) => format!(
            "{} on {}, no number for fewer",
            times(point.speedup),
            plural(point.cpus as u64, "CPU")
        ),
        _ => "no number".into(),
    };
    let advice = match p.second {
        None => "; kasuri predict --second-run -- PROGRAM measures it on two CPUs",
        Some(_) => "",
    };
    format!("{known}: {}{advice}", p.refused.join("; and "))
}

/// What was measured on more CPUs, and where its CPU time went.
fn second_fact(out: &mut Document, p: &Prediction) {
    let Some(s) = &p.second else { return };
    let spinning = match s.spinning {
        share if share >= 0.005 => format!(", {} of it spinning", percent(share)),
        _ => String::new(),
    };
    out.fact(
        "second run",
        format!(
            "{} on {}: {}{} ({:.2} .. {:.2}), {} by the replay alone; {:.2} times the CPU time{spinning}; its CPUs were idle for {}",
            duration(s.wall_ns.saturating_sub(s.lost_ns) as f64),
            plural(s.cpus as u64, "CPU"),
            times(s.speedup),
            match s.runs.len() {
                0 | 1 => String::new(),
                n => format!(", the median of {n} pairs of runs"),
            },
            s.low,
            s.high,
            times(s.replayed),
            s.work_growth,
            percent(s.idle),
        ),
    );
}

/// What the locks leave of the speed, and the lock that limits any number of CPUs.
fn lock_fact(out: &mut Document, p: &Prediction) {
    // All three are known together, or the recording has no locks.
    if let (Some(ratio), Some(efficiency), Some(class)) = (p.lock_ratio, p.lock_efficiency, p.class)
    {
        let cap = p.cap.as_ref().map_or(String::new(), |cap| {
            format!(", and `{}` limits any number of CPUs to {}", cap.lock, times(cap.speedup))
        });
        out.fact(
            "locks",
            format!(
                "{} of the CPU time is inside locks; on two CPUs they leave {} of the speed{cap}; lock class: {}",
                percent(ratio),
                percent(efficiency),
                class.word()
            ),
        );
    }
}

/// What waking, moving a cache line and busy neighbours cost. Costs that were not measured here are assumed.
fn machine_fact(out: &mut Document, p: &Prediction) {
    let m = &p.machine;
    out.fact(
        "machine",
        format!(
            "waking a thread on another CPU takes {} ({} of it on the waking CPU), moving a cache line {}; other busy CPUs {}{}",
            duration(m.wake_latency_ns),
            duration(m.wake_call_ns),
            duration(m.transfer_ns),
            slowdown(m.slowdown),
            if m.is_measured { "" } else { " (assumed)" }
        ),
    );
}

/// A row for each number of CPUs.
fn speedups(out: &mut Document, p: &Prediction) {
    // Once more CPUs change nothing, two equal rows show it; further ones are left out.
    let same = |a: &Point, b: &Point| {
        a.speedup == b.speedup && a.more_threads.is_none() && b.more_threads.is_none()
    };
    let is_news = |&i: &usize| {
        let of = |n: usize| same(&p.points[i], &p.points[i - n]);
        !(i > 1 && of(1) && of(2))
    };
    let shown: Vec<&Point> = (0..p.points.len()).filter(is_news).map(|i| &p.points[i]).collect();
    let note = "over one CPU, with the same threads and the same work";
    out.table(
        Rows::new("speed-up", note, shown, usize::MAX)
            .column("CPUs", Unit::Count, 0, "", |q| q.cpus)
            .column("speed-up", Unit::Factor, 0, "", |q| q.speedup)
            .column("range", Unit::Word, 1, "", |q| format!("{:.2} .. {:.2}", q.low, q.high))
            .column("efficiency", Unit::Ratio, 3, "speed-up / CPUs", |q| q.speedup / q.cpus as f64)
            .column("CPU use", Unit::Ratio, 4, "", |q| q.cpu_use)
            // Without recorded locks their waits are part of other waits.
            .column("lock wait", Unit::Ratio, 2, "share of the threads' time", |q| {
                (!p.locks.is_empty()).then_some(q.wait_ratio)
            })
            .column(
                "more threads",
                Unit::Factor,
                5,
                "if the program split the same work among as many threads as CPUs",
                |q| q.more_threads,
            )
            .column("limited by", Unit::Sentence, 0, "", |q| limit(&q.limit)),
    );
    let busy = plural(p.workers as u64, "busy thread");
    if p.points.iter().any(|p| p.more_threads.is_some()) {
        out.note(format!(
            "SPEED-UP: with its {busy}; MORE THREADS: if it split the same work among as many as there are CPUs"
        ));
    } else if p.points.iter().any(|q| q.cpus > p.workers) {
        out.note(format!(
            "SPEED-UP: with its {busy}; what one thread for each CPU would gain is not known: threads wait for each other in the middle"
        ));
    }
}

/// The predicted curve with its band, the ideal line and measured points; a single point has none.
fn curve(out: &mut Document, p: &Prediction) {
    if p.points.len() < 2 {
        return;
    }
    let top = p.points.iter().map(|q| q.high).fold(2.0, f64::max);
    let cpus = || p.points.iter().map(|q| q.cpus as f64);
    let mut series = vec![
        Series {
            name: "expected",
            points: cpus().zip(p.points.iter().map(|q| q.speedup)).collect(),
            band: p.points.iter().map(|q| (q.low, q.high)).collect(),
            style: SeriesStyle::Line,
        },
        Series {
            name: "ideal",
            // Up to the highest speed-up only: beyond it the line would set the scale, and flatten the curve.
            points: std::iter::once(1.0)
                .chain(cpus())
                .filter(|&n| n <= 1.15 * top)
                .map(|n| (n, n))
                .collect(),
            band: Vec::new(),
            style: SeriesStyle::Dashed,
        },
    ];
    // Points that were measured come from other recordings of the same program.
    if !p.measured.is_empty() {
        series.push(Series {
            name: "measured",
            points: (p.measured.iter()).map(|m| (m.cpus as f64, m.speedup)).collect(),
            band: Vec::new(),
            style: SeriesStyle::Dots,
        });
    }
    out.parts.push(Part::Chart(Chart {
        heading: "speed-up curve",
        x_title: "CPUs",
        y_title: "speed-up",
        flat_from: 4.0 * top,
        series,
    }));
}

/// Positions of 2, 4, 8, 16 and 64 CPUs, as far as they are predicted, for tables that compare; of the first five
/// numbers if none of these is. More columns fit no screen of 80.
fn few(p: &Prediction) -> Vec<usize> {
    let is_wanted = |&i: &usize| [2, 4, 8, 16, 64].contains(&p.points[i].cpus);
    let some: Vec<usize> = (0..p.points.len()).filter(is_wanted).collect();
    match some.is_empty() {
        true => (0..p.points.len().min(5)).collect(),
        false => some,
    }
}

/// A column for each of a few numbers of CPUs, of speed-ups by their positions.
fn by_cpus<'r, R, C: Into<Cell>>(
    rows: Rows<'r, R>,
    p: &Prediction,
    speedup: impl Fn(&R, usize) -> C,
) -> Rows<'r, R> {
    few(p).into_iter().fold(rows, |rows, i| {
        let heading = format!("{} CPUs", p.points[i].cpus);
        rows.column(heading, Unit::Factor, 0, "", |of| speedup(of, i))
    })
}

/// Speed-ups of the program with one thing changed, below those of the program as it is.
fn compared(out: &mut Document, p: &Prediction) {
    if p.what_if.is_empty() {
        return;
    }
    // The first row repeats the prediction, so that each change is read against it.
    let as_it_is = ("as it is", p.points.iter().map(|q| q.speedup).collect());
    let changes = (p.what_if.iter()).map(|w| (w.change.as_str(), w.speedup.clone()));
    let all: Vec<(&str, Vec<f64>)> = std::iter::once(as_it_is).chain(changes).collect();
    let note = "speed-up over the recorded program on one CPU";
    let rows =
        Rows::new("what if", note, &all, usize::MAX).column("change", Unit::Text, 0, "", |w| w.0);
    out.table(by_cpus(rows, p, |w, i| w.1[i]));
}

/// The program's locks, with the number of CPUs that saturates each.
fn locks(out: &mut Document, p: &Prediction, rows: usize) {
    let note = "CPU time inside; kasuri locks shows waiters and holders";
    out.table(
        Rows::new("locks", note, &p.locks, rows)
            .column("lock", Unit::Text, 0, "", |l| &l.name)
            .column("lock ratio", Unit::Ratio, 0, "CPU time inside / CPU time", |l| l.ratio)
            .column("hold", Unit::Ns, 0, "mean", |l| l.hold_ns)
            .column("holds", Unit::Count, 1, "", |l| l.n)
            .column("slower on 2", Unit::Factor, 2, "holds on two CPUs / holds on one", |l| {
                l.inflation
            })
            .column("saturates", Unit::Word, 0, "", |l| {
                let at = |n: usize| format!("at {n} CPUs");
                l.saturates_at.map_or("never".into(), at)
            }),
    );
}

/// The replay and other models, and why the prediction follows the model that it follows.
fn models(out: &mut Document, p: &Prediction) {
    let note = "the prediction is the first one; see docs/design/predict.md";
    let rows =
        Rows::new("models", note, &p.models, usize::MAX)
            .column("model", Unit::Text, 0, "", |m| &m.name);
    let rows = by_cpus(rows, p, |m, i| m.speedup[i]);
    out.table(rows.column("note", Unit::Sentence, 0, "", |m| &m.note));
    out.fact("chosen", &p.believed);
}

/// A range wider than by this factor is the answer itself: its middle would say more than is known.
const WIDE: f64 = 1.5;

/// The prediction in a sentence or two: the speed-up on the first number of CPUs, the most there is to gain and what
/// limits it, and the change that helps most.
fn verdict(p: &Prediction) -> String {
    let Some(two) = p.points.first() else {
        return "no number of CPUs to predict for".into();
    };
    if two.high > WIDE * two.low {
        return format!(
            "between {} and {} on {} CPUs: the recording does not say more, see uncertainties",
            times(two.low),
            times(two.high),
            two.cpus
        );
    }
    // The fewest CPUs that give nearly all there is to get: within 3 %, less than the range of most predictions.
    let best = p.points.iter().map(|q| q.speedup).fold(0.0, f64::max);
    let knee = p.points.iter().find(|q| q.speedup >= 0.97 * best).unwrap_or(two);
    // The limit at the next number of CPUs is what keeps the speed-up from growing.
    let next = p.points.iter().find(|q| q.cpus > knee.cpus).unwrap_or(knee);
    let mut text = format!("{} on {} CPUs", times(two.speedup), two.cpus);
    // The cases exclude each other: slower, more threads would help, no gain, growing to the end, a highest speed-up.
    if best < 1.0 {
        text = format!("slower on more CPUs: {text}, limited by {}", limit(&two.limit));
    } else if let Some(text_of_more) = started_with_more(p, best) {
        text += &text_of_more;
    } else if knee.cpus == two.cpus {
        text += &format!(", and no more with more CPUs: {}", limit(&next.limit));
    } else if knee.cpus == p.points[p.points.len() - 1].cpus {
        text += &format!(", {} on {}, still growing", times(knee.speedup), knee.cpus);
    } else {
        text += &format!(
            ", at most {} (with {} CPUs), limited by {}",
            times(best),
            knee.cpus,
            limit(&next.limit)
        );
    }
    text + &helpful_change(p, next.cpus).unwrap_or_default()
}

/// The change that helps most on so many CPUs, where the speed-up ends; none gains 5 % or more: none.
fn helpful_change(p: &Prediction, cpus: usize) -> Option<String> {
    let at = p.points.iter().position(|q| q.cpus == cpus).unwrap_or(0);
    let best = p.what_if.iter().max_by(|a, b| a.speedup[at].total_cmp(&b.speedup[at]))?;
    (best.speedup[at] > 1.05 * p.points[at].speedup)
        .then(|| format!("; {} would give {} on {cpus}", best.change, times(best.speedup[at])))
}

/// For a program that may start as many threads as there are CPUs: its speed-up with its own threads, and with more.
/// None: not that kind of program, or more threads gain less than 5 %.
fn started_with_more(p: &Prediction, best: f64) -> Option<String> {
    let more = |q: &Point| Some((q.cpus, q.more_threads?));
    let (cpus, most) = (p.points.iter().filter_map(more)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most > 1.05 * best).then(|| {
        format!(
            ", at most {} with its {}; up to {} (on {cpus} CPUs) with as many threads as CPUs",
            times(best),
            plural(p.workers as u64, "busy thread"),
            times(most)
        )
    })
}

/// A limit as a phrase that follows "limited by".
pub fn limit(limit: &kasuri_predict::Limit) -> String {
    use kasuri_predict::Limit;
    match limit {
        Limit::Cpus => "the number of CPUs".into(),
        Limit::Lock { name, busy } => {
            format!("lock `{name}`, held {:.0} % of the time", 100.0 * busy)
        }
        Limit::LockWaits { name, share } => {
            format!("waits for lock `{name}` ({:.0} % of the threads' time)", 100.0 * share)
        }
        Limit::Threads { n: 1 } => "1 busy thread".into(),
        Limit::Threads { n } => format!("{n} busy threads"),
        Limit::Dependencies { running } => {
            format!("threads that wait for each other ({running:.1} run on average)")
        }
        Limit::Delays => "sleep and I/O".into(),
        Limit::Memory => "memory: code runs slower while other CPUs are busy".into(),
        Limit::Unseen { lack } => format!(
            "what only the second run shows: {:.0} % slower than its events explain",
            100.0 * (lack - 1.0)
        ),
    }
}
