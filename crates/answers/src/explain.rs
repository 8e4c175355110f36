//! The answer of `kasuri explain`: one page about a recording that others can quote.
//!
//! It holds what `kasuri stat` says, and nothing else: the account, the causes of each loss with
//! their places in the source, the code behind them, what to try, and what may be wrong with it
//! all. It is bounded, whatever the recording holds: a page that is pasted into an issue or given
//! to a language model must not be as long as a stranger's recording likes.
//!
//! Names come from the recorded program. Those that stand for themselves are between backticks,
//! [`quoted`], so that a renderer can tell them from what is said of them.
use crate::Answer;
use crate::account::{
    FINDING, MAX_OF_CLASS, by_size, cause_text, class_of, headline_text, knows_account, meaning,
};
use crate::class_paths::class_lines;
use crate::document::{Document, List, Part, Rows, Title, Unit};
use crate::names::{ThreadNames, thread_names};
use crate::run::{loss_text, quality_text, run_text};
use crate::units::{cut, duration, percent, printable};
use kasuri_analyze::account::{CauseSummary, Class, ClassSum};
use kasuri_analyze::{Summary, program_title};
use schemars::JsonSchema;
use serde::Serialize;

/// Name and version of the JSON that [`Explanation`] serialises to.
pub const SCHEMA: &str = "kasuri.explain/1";

/// Columns of a text: a longer one loses its middle.
const WIDTH: usize = 240;
/// Lines of code behind a class.
const CODE: usize = 4;
/// Remedies, and doubts.
const MOST: usize = 6;

/// What a recording says, on one page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The recorded command, or the processes that were chosen.
    pub program: String,
    /// Wall time, CPUs, exit status, machine.
    pub run: String,
    /// Lost events and the cost of tracing.
    pub quality: String,
    /// The CPUs that the program got, and the largest causes of what it did not get.
    pub headline: String,
    /// Length of the range that is explained.
    pub wall_ns: i64,
    /// The CPU time there was.
    pub capacity_ns: i64,
    /// CPUs that did the program's own work, on average; none without scheduler events.
    pub got_cpus: Option<f64>,
    /// Classes of the account with 1 % of the capacity or more: useful ones first, the largest
    /// first.
    pub classes: Vec<ExplainedClass>,
    /// What to try, most to gain first; at most 6.
    pub remedies: Vec<Remedy>,
    /// Lost events, and what the recording cannot show; at most 6.
    pub doubts: Vec<String>,
    /// Doubts that are left out of `doubts`.
    pub more_doubts: usize,
    /// Commands that say more.
    pub next: Vec<Next>,
}

/// A class of the account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ExplainedClass {
    /// Its key.
    pub class: &'static str,
    /// Its name.
    pub label: &'static str,
    /// What it holds.
    pub meaning: &'static str,
    /// Whether this is work, not a loss.
    pub is_useful: bool,
    /// Time.
    pub ns: i64,
    /// `ns / wall_ns`.
    pub cpus: f64,
    /// `ns / capacity_ns`.
    pub share: f64,
    /// Its causes with 1 % of the capacity or more, the largest three.
    pub causes: Vec<ExplainedCause>,
    /// The code behind it, innermost function first, with its share of the class; at most 4 lines.
    pub code: Vec<String>,
}

/// A cause of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ExplainedCause {
    /// In words.
    pub text: String,
    /// `file:line` of what is annotated or was called there; none where it is not known.
    pub place: Option<String>,
    /// Time.
    pub ns: i64,
    /// `ns / wall_ns`.
    pub cpus: f64,
    /// `ns / capacity_ns`.
    pub share: f64,
    /// Its longest stretch on one CPU, as `--range` takes it.
    pub longest: String,
}

/// Something to try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Remedy {
    /// The finding and the remedy.
    pub text: String,
    /// A command that does it, or that shows more.
    pub command: Option<String>,
    /// CPU time that it concerns: at most what can be gained.
    pub cost_ns: i64,
}

/// A command that says more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Next {
    /// What it tells.
    pub what: &'static str,
    /// The command.
    pub command: String,
}

/// The explanation. `file`: the recording as a word of a shell command, "" for none; `start_ns`:
/// where `--range` counts from.
pub fn explanation(s: &Summary, file: &str, start_ns: i64) -> Explanation {
    let names = thread_names(s);
    let has_account = knows_account(s);
    let mut doubts: Vec<String> = s.losses.iter().map(loss_text).collect();
    doubts.extend(s.missing.iter().cloned());
    let n_doubts = doubts.len();
    let remedy = |hint: &kasuri_analyze::Hint| Remedy {
        text: cut(&printable(&hint.text), 3 * WIDTH),
        command: hint.command.as_deref().map(bounded),
        cost_ns: hint.cost_ns,
    };
    Explanation {
        schema: SCHEMA,
        program: bounded(&program_title(&s.program.named(&s.command), &s.command)),
        run: bounded(&run_text(s)),
        // The page has the losses itself.
        quality: bounded(&quality_text(s).replace(" (--section losses)", "")),
        headline: match has_account {
            true => cut(&headline_text(s, &names), 3 * WIDTH),
            false => "not known: the recording has no scheduler events".into(),
        },
        wall_ns: s.wall_ns,
        capacity_ns: s.account.capacity_ns,
        got_cpus: has_account.then_some(s.account.got_cpus),
        classes: match has_account {
            true => classes(s, &names, start_ns),
            false => Vec::new(),
        },
        remedies: s.hints.iter().take(MOST).map(remedy).collect(),
        doubts: doubts.iter().take(MOST).map(|d| bounded(d)).collect(),
        more_doubts: n_doubts.saturating_sub(MOST),
        next: match file {
            "" => Vec::new(),
            file => next(s, file, has_account),
        },
    }
}

fn bounded(text: &str) -> String {
    cut(&printable(text), WIDTH)
}

fn classes(s: &Summary, names: &ThreadNames<'_>, start_ns: i64) -> Vec<ExplainedClass> {
    let a = &s.account;
    let share = |ns: i64| ns as f64 / a.capacity_ns as f64;
    let explained = |sum: &ClassSum| {
        let class = class_of(sum.class);
        let causes = a.causes.iter().filter(|c| c.class == sum.class);
        let found = causes.filter(|c| share(c.ns) >= FINDING && class != Class::Unknown);
        let lines = class_lines(s.call_paths.as_ref(), class, names, 2, [WIDTH, WIDTH]);
        ExplainedClass {
            class: sum.class,
            label: class.label(),
            meaning: meaning(class, s.program.by),
            is_useful: class.is_useful(),
            ns: sum.ns,
            cpus: sum.cpus,
            share: share(sum.ns),
            causes: found
                .take(MAX_OF_CLASS)
                .map(|c| cause(c, names, share(c.ns), start_ns))
                .collect(),
            code: lines.iter().take(CODE).map(|line| bounded(&line.text)).collect(),
        }
    };
    by_size(&a.classes).into_iter().filter(|sum| share(sum.ns) >= FINDING).map(explained).collect()
}

fn cause(c: &CauseSummary, names: &ThreadNames<'_>, share: f64, start_ns: i64) -> ExplainedCause {
    let since = |ns: i64| (ns - start_ns) as f64 * 1e-6;
    let place = match class_of(c.class) {
        // What the awaited thread ran tells more than where others waited.
        Class::LoadImbalance
        | Class::LowParallelism
        | Class::Spinning
        | Class::WaitingForOwnThreads => c.code_place.as_ref().or(c.place.as_ref()),
        _ => c.place.as_ref(),
    };
    ExplainedCause {
        text: cut(&cause_text(c, names, false, ""), WIDTH),
        place: place.map(|place| bounded(place)),
        ns: c.ns,
        cpus: c.cpus,
        share,
        longest: format!("{:.3}ms..{:.3}ms", since(c.longest_from_ns), since(c.longest_to_ns)),
    }
}

/// Commands for what was found, the most special ones first.
fn next(s: &Summary, file: &str, has_account: bool) -> Vec<Next> {
    let has = |class: Class| {
        let least = FINDING * s.account.capacity_ns as f64;
        let found = |sum: &ClassSum| sum.class == class.key() && sum.ns as f64 >= least;
        has_account && s.account.classes.iter().any(found)
    };
    let mut out = Vec::new();
    let mut add = |is_useful: bool, what, command: String| {
        if is_useful {
            out.push(Next { what, command });
        }
    };
    let locks = format!("kasuri locks {file}");
    add(has(Class::LockWait), "who held locks, and who waited", locks);
    let imbalance = format!("kasuri stat --section imbalance {file}");
    add(!s.imbalance.is_empty(), "imbalance round by round", imbalance);
    let openmp = format!("kasuri stat --section openmp {file}");
    add(s.openmp.is_some(), "loops of OpenMP", openmp);
    let flame = format!("kasuri flame {file}");
    add(s.call_paths.is_some(), "the functions that CPU time went to", flame);
    add(has_account, "what to shorten, and the gain", format!("kasuri critical {file}"));
    add(true, "every number", format!("kasuri stat -v {file}"));
    add(
        !s.command.is_empty(),
        "which settings help, by experiment",
        "kasuri try -- PROGRAM".into(),
    );
    out
}

impl Answer for Explanation {
    /// All of it, whatever `rows` is: it is bounded.
    fn document(&self, _rows: usize) -> Document {
        let title = format!("Where the CPU time of {} went", quoted(&self.program));
        let mut out = Document::new("Explanation", Title::Line(title));
        out.note(format!("{}; {}.", paired(&self.run), paired(&self.quality)));
        out.fact("", &self.headline);
        out.table(
            Rows::new("", "", &self.classes, usize::MAX)
                .column("CPUs", Unit::Number, 0, "", |c| c.cpus)
                .column("share", Unit::Ratio, 0, "", |c| c.share)
                .column("time", Unit::Ns, 0, "", |c| c.ns)
                .column("what", Unit::Sentence, 0, "", |c| format!("{}: {}", c.label, c.meaning)),
        );
        self.causes(&mut out);
        if self.remedies.is_empty() {
            out.refusal("What to try", "No remedy is known that was measured to help here.");
        }
        out.list("What to try", "", self.remedies.iter().map(remedy_text), MOST);
        if !self.doubts.is_empty() {
            out.parts.push(Part::List(List {
                heading: "What this recording cannot show",
                note: "".into(),
                items: self.doubts.clone(),
                all: self.doubts.len() + self.more_doubts,
            }));
        }
        let next = |next: &Next| format!("{}: {}", next.what, quoted(&next.command));
        out.list("More", "", self.next.iter().map(next), usize::MAX);
        out
    }
}

impl Explanation {
    /// The causes of each class, and the code behind it.
    fn causes(&self, out: &mut Document) {
        let mut heading = "Causes";
        for class in &self.classes {
            let code = class.code.iter().map(|path| format!("code: {}", quoted(path)));
            let items: Vec<String> = class.causes.iter().map(cause_line).chain(code).collect();
            if !items.is_empty() {
                let note = format!("{} ({})", class.label, percent(class.share));
                out.list(heading, note, items.into_iter(), usize::MAX);
                heading = "";
            }
        }
    }
}

fn remedy_text(remedy: &Remedy) -> String {
    let command = remedy.command.as_deref().map(|command| format!("\n{}", quoted(command)));
    paired(&remedy.text) + &command.unwrap_or_default()
}

fn cause_line(c: &ExplainedCause) -> String {
    let place = c.place.as_deref().map(|place| format!(" at {}", quoted(place)));
    format!(
        "{}{}: {:.2} CPUs, {}, {}; longest {}",
        paired(&c.text),
        place.unwrap_or_default(),
        c.cpus,
        percent(c.share),
        duration(c.ns as f64),
        c.longest
    )
}

/// The text between backticks; one within it would end it, and becomes an apostrophe.
fn quoted(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// The text without a last backtick that has no other: it would pair with one of what follows.
fn paired(text: &str) -> String {
    match (text.matches('`').count() % 2, text.rfind('`')) {
        (1, Some(at)) => format!("{}{}", &text[..at], &text[at + 1..]),
        _ => text.to_owned(),
    }
}
