//! The answer of `kasuri compare`: the verdict, and tables of numbers before and after.
//!
//! The title says how much faster the second side is, and whether that may be noise. With four or more runs of each side a row has a
//! p-value, corrected for the number of rows, and a star where it changed by more than noise; with fewer the columns of the range show
//! how far runs differ.
use crate::Answer;
use crate::document::{Document, Rows, Title, Unit};
use crate::units::{count, duration, percent, plural};
use kasuri_analyze::compare::{Change, Comparison, Sample, Side};
use kasuri_analyze::{program_title, short_name};

impl Answer for Comparison {
    fn document(&self, rows: usize) -> Document {
        let mut out = Document::new("Comparison", Title::Line(verdict(self)));
        out.fact("before", side(&self.before));
        out.fact("after", side(&self.after));
        out.fact(
            "noise",
            match self.can_tell {
                false => "too few runs to tell a change from noise; record 4 or more of each side, in turns (--before A1 A2 A3 A4 --after B1 B2 B3 B4)",
                true => "*: changed by more than noise (p <= 0.05, corrected for the number of rows)",
            },
        );
        // The tables of whole runs are short and have an order of their own.
        let all = usize::MAX;
        let whole = ["whole run", "mean of the runs", ""];
        changes(&mut out, whole, &self.totals, all);
        let account = ["account", "CPU time by class", ""];
        changes(&mut out, account, &self.account, all);
        let largest = "total time, largest change first";
        changes(&mut out, ["annotations", largest, "kind"], &self.regions, rows);
        let slowest = "CPU time that threads waited for the slowest";
        let imbalance = ["cost of load imbalance", slowest, "by"];
        changes(&mut out, imbalance, &self.imbalance, rows);
        let note = match self.can_tell {
            true => "of the classes that changed, largest change first",
            false => "of the classes that differ most, largest difference first",
        };
        changes(&mut out, ["functions", note, "class"], &self.functions, rows);
        out
    }
}

/// A table: its heading and note, and the heading of the column that separates rows of one name. A row that is 0 on both sides is left out.
fn changes(out: &mut Document, words: [&'static str; 3], changes: &[Change], most: usize) {
    let [heading, note, kind] = words;
    let found = (changes.iter()).filter(|c| c.before.max != 0.0 || c.after.max != 0.0);
    out.table(
        Rows::new(heading, note, found, most)
            .column("name", Unit::Text, 0, "", |c| match kind {
                "class" => short_name(&c.name),
                _ => c.name.clone(),
            })
            .column(kind, Unit::Word, 1, "", |c| c.kind.replace('_', " "))
            .column("before", Unit::Number, 0, "", |c| value(c, c.before.mean))
            .column("+-", Unit::Ratio, 4, "half the range of the runs, of their mean", |c| {
                spread(&c.before)
            })
            .column("after", Unit::Number, 0, "", |c| value(c, c.after.mean))
            .column("+-", Unit::Ratio, 4, "half the range of the runs, of their mean", |c| {
                spread(&c.after)
            })
            .column("difference", Unit::Number, 2, "", difference)
            .column("change", Unit::Number, 0, "", change)
            .column("p", Unit::Number, 3, "corrected for the number of rows", |c| {
                c.p_value.map(|p| format!("{p:.3}"))
            })
            .column("", Unit::Word, 1, "", |c| if c.changed == Some(true) { "*" } else { "" }),
    );
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
    let command = program_title(&s.program.named(&s.command), &s.command);
    // Losses and missing events make a comparison weaker, so the side says so itself.
    let lost = match s.runs_with_losses {
        0 => String::new(),
        n => format!("; {} with lost events: times near them are unknown", plural(n, "run")),
    };
    let unknown = match s.switches_known {
        true => "",
        false => "; scheduler events were not recorded",
    };
    let cpus = match s.n_cpus {
        0 => "CPUs not known".to_owned(),
        n => plural(n.into(), "CPU"),
    };
    format!("{} of `{command}`, {cpus}{lost}{unknown}", plural(s.runs, "run"),)
}

/// A value in the unit of its row.
fn value(c: &Change, value: f64) -> String {
    match c.unit {
        "ns" => duration(value),
        "ratio" => percent(value),
        _ => count(value.round().max(0.0) as u64),
    }
}

/// With few runs it is all there is to judge noise by.
fn spread(of: &Sample) -> Option<f64> {
    (of.max > of.min && of.mean != 0.0).then(|| (of.max - of.min) / 2.0 / of.mean.abs())
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
