//! The answer of `kasuri try`: text for people, JSON for programs.
use crate::gate::p_text;
use crate::show::screen_width;
use crate::trial::{Told, shown};
use kasuri_analyze::Summary;
use kasuri_analyze::account::ClassSum;
use kasuri_text::table::grid::{Grid, number, sentence, word};
use kasuri_text::table::units::{percent, plural, printable};
use kasuri_trial::line::Line;
use kasuri_trial::race::{AGAIN, Outcome, Result, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

/// Its name and version.
const SCHEMA: &str = "kasuri.try/1";
/// Classes of the account that are shown: those that changed most.
const CLASSES: usize = 5;

/// One remedy with the line that is run.
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Why it is tried.
    pub why: String,
    /// What is run.
    pub line: Line,
}

/// All that is told.
pub struct Tried {
    /// The baseline, the baseline again, and the remedies.
    pub arms: Vec<Arm>,
    /// What came of them.
    pub outcome: Outcome,
    /// What is compared.
    pub measure: &'static str,
    /// Whether results were compared.
    pub checked: bool,
    /// What cannot be tried on this machine.
    pub untried: Vec<String>,
    /// Seed of the orders.
    pub seed: u64,
    /// The program recorded as it is.
    pub before: Option<Summary>,
    /// The program recorded with what helps most.
    pub after: Option<Summary>,
}

/// Prints it.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(tried: &Tried, as_json: bool) -> anyhow::Result<()> {
    let mut out = crate::screen::screen();
    match as_json {
        true => kasuri_text::json::write(&answer(tried), &mut out)?,
        false => out.write_all(text(tried, screen_width()).as_bytes())?,
    }
    out.flush()?;
    Ok(())
}

fn text(tried: &Tried, width: usize) -> String {
    let mut text = String::new();
    if tried.arms.len() <= AGAIN + 1 {
        let _ = writeln!(
            text,
            "nothing to try: the account has no loss that the known remedies change"
        );
        text.push_str(&account(tried));
        return text;
    }
    match tried.outcome.best() {
        Some(best) => {
            let _ = writeln!(text, "{}: {}", printable(&tried.arms[best].name), claim(tried, best));
            let _ = writeln!(text, "\n  {}\n", printable(&shown(&tried.arms[best].line)));
        }
        None => {
            let _ = writeln!(
                text,
                "nothing helps, as far as {} can tell",
                plural(tried.outcome.blocks as u64, "block")
            );
        }
    }
    text.push_str(&rest(tried));
    if !tried.untried.is_empty() {
        let _ = writeln!(text, "not tried: {}", tried.untried.join("; "));
    }
    text.push('\n');
    text.push_str(&table(tried, width));
    text.push_str(&account(tried));
    text
}

/// `1.31x faster (1.24..1.38, 9 blocks, p 0.004)`.
fn claim(tried: &Tried, arm: usize) -> String {
    let result = &tried.outcome.arms[arm];
    let told = told(result);
    let p = result.p_value.map_or_else(String::new, |p| format!(", p {}", p_text(p)));
    let blocks = plural(result.costs.len() as u64, "block");
    format!("{} ({}{blocks}{p})", told.words(tried.measure), told.range())
}

fn told(result: &Result) -> Told {
    Told {
        speed_up: result.speed_up.unwrap_or(f64::NAN),
        interval: result.interval,
        sure: matches!(result.verdict, Verdict::Faster | Verdict::Slower),
    }
}

/// What came of the others, in a line, and the noise.
fn rest(tried: &Tried) -> String {
    let best = tried.outcome.best();
    let remedies = || {
        (AGAIN + 1..tried.arms.len())
            .filter(|&arm| Some(arm) != best)
            .map(|arm| &tried.outcome.arms[arm])
    };
    let count = |is: &dyn Fn(&Result) -> bool| remedies().filter(|&result| is(result)).count();
    let of = [
        (count(&|r| r.verdict == Verdict::Faster), "faster too"),
        (count(&|r| r.verdict == Verdict::Beaten), "behind the best"),
        (count(&|r| r.verdict == Verdict::NotShown), "with no speed-up shown"),
        (count(&|r| r.verdict == Verdict::Slower), "slower"),
        (count(&|r| matches!(r.verdict, Verdict::Disqualified(_))), "not valid"),
    ];
    let parts: Vec<String> =
        of.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let mut text = String::new();
    if !parts.is_empty() {
        let _ = writeln!(
            text,
            "{}: {}",
            if best.is_some() { "others" } else { "tried" },
            parts.join(", ")
        );
    }
    let again = &tried.outcome.arms[AGAIN];
    if let Some(speed_up) = again.speed_up {
        let range = again
            .interval
            .map_or_else(String::new, |(low, high)| format!(" ({low:.2}..{high:.2})"));
        let _ = writeln!(text, "baseline against itself: {speed_up:.2}x{range}");
    }
    if tried.outcome.stopped {
        let _ = writeln!(
            text,
            "ended early, after {}",
            plural(tried.outcome.blocks as u64, "whole block")
        );
    }
    if !tried.checked {
        let _ = writeln!(text, "results were not compared: the output differs from run to run");
    }
    text
}

fn table(tried: &Tried, width: usize) -> String {
    let mut grid = Grid::new(&[
        sentence("REMEDY"),
        number("FACTOR", 0),
        number("FROM", 2),
        number("TO", 2),
        number("RUNS", 3),
        number("P", 1),
        word("", 0),
        sentence("WHY"),
    ]);
    let mut order: Vec<usize> = (AGAIN + 1..tried.arms.len()).collect();
    let speed = |arm: &usize| tried.outcome.arms[*arm].speed_up.unwrap_or(0.0);
    order.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
    for arm in order {
        let result = &tried.outcome.arms[arm];
        let factor = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
        };
        let (verdict, why) = match &result.verdict {
            Verdict::Faster => ("helps", &tried.arms[arm].why),
            Verdict::Slower => ("harms", &tried.arms[arm].why),
            Verdict::Beaten => ("behind", &tried.arms[arm].why),
            Verdict::NotShown => ("", &tried.arms[arm].why),
            Verdict::Disqualified(why) => ("not valid", why),
        };
        grid.row([
            tried.arms[arm].name.clone(),
            factor(result.speed_up),
            factor(result.interval.map(|(low, _)| low)),
            factor(result.interval.map(|(_, high)| high)),
            result.costs.len().to_string(),
            result.p_value.map_or_else(|| "-".to_owned(), p_text),
            verdict.to_owned(),
            why.clone(),
        ]);
    }
    grid.lines(width).iter().fold(String::new(), |text, line| text + line + "\n")
}

/// The accounts side by side: why it helps, or where the time goes.
fn account(tried: &Tried) -> String {
    let Some(before) = &tried.before else {
        return String::new();
    };
    let share = |summary: &Summary, class: &str| {
        let found = summary.account.classes.iter().find(|sum| sum.class == class);
        found.map_or(0.0, |sum| sum.ns as f64 / summary.capacity_ns.max(1) as f64)
    };
    let mut rows: Vec<(&str, f64, f64)> = Vec::new();
    let summaries = std::iter::once(before).chain(&tried.after);
    for class in summaries.flat_map(|summary| &summary.account.classes) {
        if !rows.iter().any(|row| row.0 == class.class) {
            let after = tried.after.as_ref().map_or(0.0, |after| share(after, class.class));
            rows.push((class.class, share(before, class.class), after));
        }
    }
    let mut text = String::from(match tried.after {
        Some(_) => {
            "\nwhy: share of the CPUs' time in one recorded run, as it is and with what helps\n"
        }
        None => "\nshare of the CPUs' time in one recorded run\n",
    });
    match tried.after {
        Some(_) => rows.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs())),
        None => rows.sort_by(|a, b| b.1.total_cmp(&a.1)),
    }
    for (class, before, after) in
        rows.into_iter().take(CLASSES).filter(|row| row.1.max(row.2) >= 0.005)
    {
        let name = class.replace('_', " ");
        let _ = match tried.after {
            Some(_) => writeln!(text, "  {name:24} {:>8}  {:>8}", percent(before), percent(after)),
            None => writeln!(text, "  {name:24} {:>8}", percent(before)),
        };
    }
    text
}

/// Remedies, tried.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// What is compared.
    #[schemars(extend("enum" = ["wall", "cpu", "metric"]))]
    compared: &'static str,
    /// Seed of the orders.
    seed: u64,
    /// Whole blocks.
    blocks: usize,
    /// Runs in whole blocks.
    runs: usize,
    /// Whether time or the user ended it early.
    stopped: bool,
    /// Whether stdout or --check told right results from wrong ones.
    results_compared: bool,
    /// What cannot be tried on this machine, and why.
    untried: &'a [String],
    /// Number of the arm that helps most; null: nothing is claimed.
    best: Option<usize>,
    /// The program as it is, once more, and the remedies.
    arms: Vec<ArmAnswer<'a>>,
    /// Classes of the account of a recorded run as it is, as in kasuri.stat/1; null: not recorded.
    account: Option<&'a [ClassSum]>,
    /// The same with the best.
    account_with_best: Option<&'a [ClassSum]>,
}

/// A remedy; the first two are the program as it is.
#[derive(Serialize, JsonSchema)]
struct ArmAnswer<'a> {
    /// Its name.
    name: &'a str,
    /// Why it was tried.
    why: &'a str,
    /// The line to paste.
    command: String,
    /// Variables that it sets; without a value: removes.
    env: Vec<Variable<'a>>,
    /// Of its runs in whole blocks, in their order: ns, or the metric (1 / metric with --higher).
    costs: &'a [f64],
    /// The program as it is over this: above 1 is faster.
    speed_up: Option<f64>,
    /// Lower end of the interval that covers it in 95 % of cases; null with less than six blocks.
    low: Option<f64>,
    /// Its upper end.
    high: Option<f64>,
    /// Corrected for the number of remedies (Holm); null of those dropped. Of the program against itself: as it is.
    p_value: Option<f64>,
    /// The block after which it was dropped.
    dropped_after: Option<usize>,
    /// What is said of it.
    #[schemars(extend("enum" = ["faster", "slower", "not_shown", "beaten", "not_valid"]))]
    verdict: &'static str,
    /// Why a run was not valid.
    reason: Option<&'a str>,
}

/// A variable.
#[derive(Serialize, JsonSchema)]
struct Variable<'a> {
    /// Its name.
    name: &'a str,
    /// Its value.
    value: Option<Cow<'a, str>>,
}

fn answer(tried: &Tried) -> Answer<'_> {
    Answer {
        schema: SCHEMA,
        compared: tried.measure,
        seed: tried.seed,
        blocks: tried.outcome.blocks,
        runs: tried.outcome.runs,
        stopped: tried.outcome.stopped,
        results_compared: tried.checked,
        untried: &tried.untried,
        best: tried.outcome.best(),
        arms: (tried.arms.iter().zip(&tried.outcome.arms))
            .map(|(arm, result)| arm_answer(arm, result))
            .collect(),
        account: tried.before.as_ref().map(|s| &s.account.classes[..]),
        account_with_best: tried.after.as_ref().map(|s| &s.account.classes[..]),
    }
}

fn arm_answer<'a>(arm: &'a Arm, result: &'a Result) -> ArmAnswer<'a> {
    let variables = arm.line.env.iter().map(|(name, value)| Variable {
        name,
        value: value.as_ref().map(|value| value.to_string_lossy()),
    });
    let (verdict, reason) = match &result.verdict {
        Verdict::Faster => ("faster", None),
        Verdict::Slower => ("slower", None),
        Verdict::NotShown => ("not_shown", None),
        Verdict::Beaten => ("beaten", None),
        Verdict::Disqualified(why) => ("not_valid", Some(why.as_str())),
    };
    ArmAnswer {
        name: &arm.name,
        why: &arm.why,
        command: shown(&arm.line),
        env: variables.collect(),
        costs: &result.costs,
        speed_up: result.speed_up,
        low: result.interval.map(|(low, _)| low),
        high: result.interval.map(|(_, high)| high),
        p_value: result.p_value,
        dropped_after: result.dropped_after,
        verdict,
        reason,
    }
}
