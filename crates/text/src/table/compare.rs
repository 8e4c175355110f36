//! A comparison as text: what `kasuri compare` prints.
//!
//! The first line is the verdict: how much faster the second side is, and whether that may be noise. Then come tables
//! of numbers before and after. With four or more runs of each side a row has a p-value, corrected for the number of
//! rows, and a star where it changed by more than noise; with fewer the columns of the range show how far runs
//! differ.
use super::grid::{Grid, number, text, word};
use super::units::{count, duration, percent, plural};
use super::{Layout, Page, program};
use kasuri_analyze::compare::{Change, Comparison, Side};

/// The comparison as text, ending with a line feed.
pub fn render_comparison(comparison: &Comparison, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    page.sides(comparison);
    page.changes("whole run", "mean of the runs", &comparison.totals, None);
    page.changes("account", "CPU time by class", &comparison.account, None);
    page.changes(
        "annotations",
        "total time, largest change first",
        &comparison.regions,
        Some("KIND"),
    );
    page.changes(
        "cost of load imbalance",
        "CPU time that threads waited for the slowest",
        &comparison.imbalance,
        Some("BY"),
    );
    let note = match comparison.can_tell {
        true => "of the classes that changed, largest change first",
        false => "of the classes that differ most, largest difference first",
    };
    page.changes("functions", note, &comparison.functions, Some("CLASS"));
    page.text
}

impl Page<'_> {
    /// The verdict and the two sides.
    fn sides(&mut self, c: &Comparison) {
        for line in super::wrap(&verdict(c), self.layout.width.max(20)) {
            let line = self.styled("1", &line);
            self.line(&line);
        }
        self.fact("before", &side(&c.before));
        self.fact("after", &side(&c.after));
        if !c.can_tell {
            self.fact(
                "noise",
                "too few runs to tell a change from noise; record 4 or more of each side, in turns (--before A1 A2 A3 A4 --after B1 B2 B3 B4)",
            );
        } else {
            self.fact(
                "noise",
                "*: changed by more than noise (p <= 0.05, corrected for the number of rows)",
            );
        }
    }

    /// A table of changes. `kind`: the heading of the column that separates rows of one name; none where names are
    /// unique.
    fn changes(&mut self, title: &str, note: &str, changes: &[Change], kind: Option<&'static str>) {
        // A row that is 0 on both sides is left out.
        let found: Vec<&Change> = (changes.iter())
            .filter(|c| c.before.max != 0.0 || c.after.max != 0.0)
            .collect();
        if found.is_empty() {
            return;
        }
        self.heading(title, note);
        let mut grid = Grid::new(&[
            text("NAME"),
            word(kind.unwrap_or(""), 1),
            number("BEFORE", 0),
            number("+-", 4),
            number("AFTER", 0),
            number("+-", 4),
            number("DIFFERENCE", 2),
            number("CHANGE", 0),
            number("P", 3),
            word("", 1),
        ]);
        // The tables of whole runs are short and have an order of their own.
        let shown = match kind {
            Some(_) => self.shown(found.len()),
            None => found.len(),
        };
        for c in &found[..shown] {
            grid.row([
                match kind == Some("CLASS") {
                    true => kasuri_analyze::short_name(&c.name),
                    false => c.name.clone(),
                },
                c.kind.replace('_', " "),
                value(c, c.before.mean),
                spread(c.before.min, c.before.max, c.before.mean),
                value(c, c.after.mean),
                spread(c.after.min, c.after.max, c.after.mean),
                difference(c),
                change(c),
                c.p_value.map_or("-".into(), |p| format!("{p:.3}")),
                if c.changed == Some(true) { "*" } else { "" }.into(),
            ]);
        }
        self.grid(grid, shown, found.len());
    }
}

/// The verdict in a sentence. It states whether there are enough runs: a ratio of too few runs holds for these alone.
fn verdict(c: &Comparison) -> String {
    let Some(speed) = c.speed_up else {
        return "nothing to compare".into();
    };
    // Within half a per cent the two sides are printed as equally fast.
    let text = if (0.995..1.005).contains(&speed) {
        "as fast".to_string()
    } else if speed > 1.0 {
        format!("{speed:.2} times as fast")
    } else {
        format!("{:.2} times as slow", 1.0 / speed)
    };
    // How much the factor rests on: a single pair, or means.
    let of = match (c.before.runs, c.after.runs) {
        (1, 1) => "in this one pair of runs".to_string(),
        (b, a) => format!("by the means of {b} and {}", plural(a, "run")),
    };
    match c.verdict {
        "not_known" => format!(
            "{text} {of}; whether that is more than noise is not known: compare 4 or more runs of each"
        ),
        "may_be_noise" => format!("{text} as before, which may be noise"),
        _ => format!("{text} as before"),
    }
}

/// One side: its runs, its command, and what limits the comparison.
fn side(s: &Side) -> String {
    let command = program::title(&program::named(&s.program, &s.command), &s.command);
    // Losses and missing events make a comparison weaker, so the side says so itself.
    let lost = match s.runs_with_losses {
        0 => String::new(),
        n => format!(
            "; {} with lost events: times near them are unknown",
            plural(n, "run")
        ),
    };
    let unknown = match s.switches_known {
        true => "",
        false => "; scheduler events were not recorded",
    };
    let cpus = match s.n_cpus {
        0 => "CPUs not known".to_owned(),
        n => plural(n.into(), "CPU"),
    };
    format!(
        "{} of `{command}`, {cpus}{lost}{unknown}",
        plural(s.runs, "run"),
    )
}

/// A value in the unit of its row.
fn value(c: &Change, value: f64) -> String {
    match c.unit {
        "ns" => duration(value),
        "ratio" => percent(value),
        _ => count(value.round().max(0.0) as u64),
    }
}

/// Half the range of the runs, as a share of their mean: with few runs it is all there is to judge noise by.
fn spread(min: f64, max: f64, mean: f64) -> String {
    if max <= min || mean == 0.0 {
        return "-".into();
    }
    percent((max - min) / 2.0 / mean.abs())
}

/// The difference with its sign.
fn difference(c: &Change) -> String {
    let sign = if c.difference < 0.0 { "-" } else { "+" };
    match c.difference == 0.0 {
        true => "0".into(),
        false => format!("{sign}{}", value(c, c.difference.abs())),
    }
}

/// The change in per cent; beyond ten times as a factor. A ratio of none: there was nothing before.
fn change(c: &Change) -> String {
    match c.ratio {
        _ if c.difference == 0.0 => "0 %".into(),
        None => "new".into(),
        Some(0.0) => "gone".into(),
        Some(ratio) if ratio >= 10.0 => format!("x {ratio:.0}"),
        Some(ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
    }
}
