//! A prediction as text: what `kasuri predict` prints.
//!
//! Facts and a verdict come first, then the speed-up by number of CPUs as a table and as a curve, then tables of what
//! would change it: the program with one thing changed, its locks, and other models beside the replay. Uncertainties
//! come last. Tables that compare have columns for a few numbers of CPUs only, see [`columns`].
use super::grid::{Grid, number, sentence, text, word};
use super::units::{count, duration, percent, plural, printable};
use super::{Layout, Page};
use crate::chart::letters;
use crate::label::limit;
use kasuri_predict::{Limit, Point, Prediction};

/// The prediction as text, ending with a line feed.
pub fn render(p: &Prediction, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    page.predicted_facts(p);
    page.speedups(p);
    page.speedup_curve(p);
    page.changed_programs(p);
    page.locks_of(p);
    page.models_beside(p);
    page.uncertainties(p);
    page.text
}

/// What busy CPUs do to the code of others.
fn slowdown(factor: f64) -> String {
    match 100.0 * (factor - 1.0) {
        slower if slower >= 0.05 => format!("slow code by {slower:.1} %"),
        _ => "do not slow code".into(),
    }
}

/// A factor.
fn times(speedup: f64) -> String {
    format!("{speedup:.2}x")
}

impl Page<'_> {
    /// What was recorded, how well the replay reproduces it, locks, the machine's costs, and the verdict.
    fn predicted_facts(&mut self, p: &Prediction) {
        self.title(&p.command);
        self.fact(
            "recorded",
            &format!(
                "{} on {}, {} of work by {} ({} of them busy); the replay takes {} ({:+.1} %)",
                duration(p.recorded_wall_ns as f64),
                plural(p.recorded_cpus as u64, "CPU"),
                duration(p.work_ns as f64),
                plural(p.threads as u64, "thread"),
                p.workers,
                duration(p.replayed_wall_ns as f64),
                100.0 * p.replay_error()
            ),
        );
        self.second_fact(p);
        self.lock_fact(p);
        self.machine_fact(p);
        if !p.refused.is_empty() {
            return self.refusal(p);
        }
        let text = match p.is_reliable() {
            true => verdict(p),
            false => format!(
                "not reliable, the replay does not reproduce the recording: {}",
                verdict(p)
            ),
        };
        self.fact("verdict", &text);
    }

    /// Why there is no number, or only the measured one, and what to do.
    fn refusal(&mut self, p: &Prediction) {
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
        self.fact(
            "verdict",
            &printable(&format!("{known}: {}{advice}", p.refused.join("; and "))),
        );
    }

    /// What was measured on more CPUs, and where its CPU time went.
    fn second_fact(&mut self, p: &Prediction) {
        let Some(s) = &p.second else { return };
        let spinning = match s.spinning {
            share if share >= 0.005 => format!(", {} of it spinning", percent(share)),
            _ => String::new(),
        };
        self.fact(
            "second run",
            &format!(
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
    fn lock_fact(&mut self, p: &Prediction) {
        // All three are known together, or the recording has no locks.
        if let (Some(ratio), Some(efficiency), Some(class)) =
            (p.lock_ratio, p.lock_efficiency, p.class)
        {
            let cap = p.cap.as_ref().map_or(String::new(), |cap| {
                format!(
                    ", and `{}` limits any number of CPUs to {}",
                    cap.lock,
                    times(cap.speedup)
                )
            });
            self.fact(
                "locks",
                &printable(&format!(
                    "{} of the CPU time is inside locks; on two CPUs they leave {} of the speed{cap}; lock class: {}",
                    percent(ratio),
                    percent(efficiency),
                    class.word()
                )),
            );
        }
    }

    /// What waking, moving a cache line and busy neighbours cost. Costs that were not measured here are assumed.
    fn machine_fact(&mut self, p: &Prediction) {
        let m = &p.machine;
        self.fact(
            "machine",
            &format!(
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
    fn speedups(&mut self, p: &Prediction) {
        if p.points.is_empty() {
            return;
        }
        self.heading(
            "speed-up",
            "over one CPU, with the same threads and the same work",
        );
        let mut grid = Grid::new(&[
            number("CPUS", 0),
            number("SPEED-UP", 0),
            word("RANGE", 1),
            number("EFFICIENCY", 3),
            number("CPU USE", 4),
            number("LOCK WAIT", 2),
            number("MORE THREADS", 5),
            sentence("LIMITED BY"),
        ]);
        // Once more CPUs change nothing, two equal rows show it; further ones are left out.
        let mut shown = 0;
        for (i, point) in p.points.iter().enumerate() {
            let same = |q: &kasuri_predict::Point| {
                q.speedup == point.speedup
                    && q.more_threads.is_none()
                    && point.more_threads.is_none()
            };
            if i > 1 && same(&p.points[i - 1]) && same(&p.points[i - 2]) {
                continue;
            }
            shown += 1;
            grid.row([
                count(point.cpus as u64),
                times(point.speedup),
                format!("{:.2} .. {:.2}", point.low, point.high),
                percent(point.speedup / point.cpus as f64),
                percent(point.cpu_use),
                // Without recorded locks their waits are part of other waits.
                if p.locks.is_empty() {
                    "-".into()
                } else {
                    percent(point.wait_ratio)
                },
                point.more_threads.map_or("-".into(), times),
                printable(&limit(&point.limit)),
            ]);
        }
        self.grid(grid, shown, shown);
        if p.points.iter().any(|p| p.more_threads.is_some()) {
            self.note(&format!(
                "SPEED-UP: with its {}; MORE THREADS: if it split the same work among as many as there are CPUs",
                plural(p.workers as u64, "busy thread")
            ));
        } else if p.points.iter().any(|q| q.cpus > p.workers) {
            self.note(&format!(
                "SPEED-UP: with its {}; what one thread for each CPU would gain is not known: threads wait for each other in the middle",
                plural(p.workers as u64, "busy thread")
            ));
        }
    }

    /// The curve in letters; a single point has none.
    fn speedup_curve(&mut self, p: &Prediction) {
        if p.points.len() < 2 {
            return;
        }
        // Points that were measured come from other recordings of the same program.
        let legend = if p.measured.is_empty() {
            "* expected, | range, . ideal"
        } else {
            "* expected, | range, . ideal, o measured"
        };
        self.heading("speed-up curve", legend);
        for line in letters::speedup(p, self.layout.width) {
            self.line(&line);
        }
    }

    /// Speed-ups of the program with one thing changed, below those of the program as it is.
    fn changed_programs(&mut self, p: &Prediction) {
        if p.what_if.is_empty() {
            return;
        }
        let shown = columns(p);
        self.heading("what if", "speed-up over the recorded program on one CPU");
        let mut grid = Grid::new(&many("CHANGE", p, &shown));
        // The first row repeats the prediction, so that each change is read against it.
        let row = |name: String, values: Vec<f64>| {
            std::iter::once(name)
                .chain(values.into_iter().map(times))
                .collect::<Vec<_>>()
        };
        grid.row(row(
            "as it is".into(),
            shown.iter().map(|&i| p.points[i].speedup).collect(),
        ));
        for change in &p.what_if {
            grid.row(row(
                printable(&change.change),
                shown.iter().map(|&i| change.speedup[i]).collect(),
            ));
        }
        self.grid(grid, 0, 0);
    }

    /// The program's locks, with the number of CPUs that saturates each.
    fn locks_of(&mut self, p: &Prediction) {
        if p.locks.is_empty() {
            return;
        }
        self.heading(
            "locks",
            "CPU time inside; kasuri locks shows waiters and holders",
        );
        let mut grid = Grid::new(&[
            text("LOCK"),
            number("LOCK RATIO", 0),
            number("HOLD", 0),
            number("HOLDS", 1),
            number("SLOWER ON 2", 2),
            word("SATURATES", 0),
        ]);
        let shown = self.shown(p.locks.len());
        for lock in &p.locks[..shown] {
            grid.row([
                printable(&lock.name),
                percent(lock.ratio),
                duration(lock.hold_ns),
                count(lock.n),
                lock.inflation.map_or("-".into(), |f| format!("{f:.2}x")),
                lock.saturates_at
                    .map_or("never".into(), |n| format!("at {n} CPUs")),
            ]);
        }
        self.grid(grid, shown, p.locks.len());
    }

    /// The replay and other models, and which one the prediction follows.
    fn models_beside(&mut self, p: &Prediction) {
        if p.points.is_empty() {
            return;
        }
        let shown = columns(p);
        self.heading(
            "models",
            "the prediction is the first one; see docs/design/predict.md",
        );
        let mut columns = many("MODEL", p, &shown);
        columns.push(sentence("NOTE"));
        let mut grid = Grid::new(&columns);
        for model in &p.models {
            let mut row = vec![model.name.clone()];
            row.extend(
                shown
                    .iter()
                    .map(|&i| model.speedup[i].map_or("-".into(), times)),
            );
            row.push(model.note.clone());
            grid.row(row);
        }
        self.grid(grid, 0, 0);
        // Why the prediction follows the model that it follows.
        self.fact("chosen", &printable(&p.believed));
    }

    /// What the prediction does not know.
    fn uncertainties(&mut self, p: &Prediction) {
        if p.notes.is_empty() {
            return;
        }
        self.heading("uncertainties", "");
        for note in &p.notes {
            self.item(&printable(note));
        }
    }
}

/// Positions of 2, 4, 8, 16 and 64 CPUs, as far as they are predicted, for tables that compare; of the first five
/// numbers if none of these is.
fn columns(p: &Prediction) -> Vec<usize> {
    // Enough to compare by; more columns fit no screen of 80.
    let wanted = [2, 4, 8, 16, 64];
    let some: Vec<usize> = (0..p.points.len())
        .filter(|&i| wanted.contains(&p.points[i].cpus))
        .collect();
    if some.is_empty() {
        (0..p.points.len().min(5)).collect()
    } else {
        some
    }
}

/// Columns for those numbers of CPUs, after a column of names.
fn many(first: &'static str, p: &Prediction, shown: &[usize]) -> Vec<super::grid::Column> {
    let column = |&i: &usize| number(format!("{} CPUS", p.points[i].cpus), 0);
    std::iter::once(text(first))
        .chain(shown.iter().map(column))
        .collect()
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
    let knee = p
        .points
        .iter()
        .find(|q| q.speedup >= 0.97 * best)
        .unwrap_or(two);
    // The limit at the next number of CPUs is what keeps the speed-up from growing.
    let next = p.points.iter().find(|q| q.cpus > knee.cpus).unwrap_or(knee);
    let mut text = format!("{} on {} CPUs", times(two.speedup), two.cpus);
    // The cases exclude each other: slower, more threads would help, no gain, growing to the end, a highest speed-up.
    if best < 1.0 {
        text = format!(
            "slower on more CPUs: {text}, limited by {}",
            cause(&two.limit)
        );
    } else if let Some(text_of_more) = started_with_more(p, best) {
        text += &text_of_more;
    } else if knee.cpus == two.cpus {
        text += &format!(", and no more with more CPUs: {}", cause(&next.limit));
    } else if knee.cpus == p.points[p.points.len() - 1].cpus {
        text += &format!(", {} on {}, still growing", times(knee.speedup), knee.cpus);
    } else {
        text += &format!(
            ", at most {} (with {} CPUs), limited by {}",
            times(best),
            knee.cpus,
            cause(&next.limit)
        );
    }
    text + &helpful_change(p, next.cpus).unwrap_or_default()
}

/// The change that helps most on so many CPUs, where the speed-up ends; none gains 5 % or more: none.
fn helpful_change(p: &Prediction, cpus: usize) -> Option<String> {
    let at = p.points.iter().position(|q| q.cpus == cpus).unwrap_or(0);
    let best = p
        .what_if
        .iter()
        .max_by(|a, b| a.speedup[at].total_cmp(&b.speedup[at]))?;
    (best.speedup[at] > 1.05 * p.points[at].speedup).then(|| {
        format!(
            "; {} would give {} on {cpus}",
            printable(&best.change),
            times(best.speedup[at])
        )
    })
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

/// What limits the speed-up, as a phrase that follows "limited by".
fn cause(of: &Limit) -> String {
    limit(of)
}
