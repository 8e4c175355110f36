//! One page about a recording that others can quote: `kasuri explain`.
//!
//! It holds what `kasuri stat` says, and nothing else: the account, the causes of each loss with their places in the source, the code behind them, what to try,
//! and what may be wrong with it all. [`Explanation`] is its JSON, [`markdown`] its text. Both are bounded, whatever the recording holds: a page that
//! is pasted into an issue or given to a language model must not be as long as a stranger's recording likes.
//!
//! Names come from the recorded program, and the page is read by programs that obey markup. So all text from outside of this file goes through [`inline`], which
//! leaves words of letters and digits as they are and puts everything else into code spans, where Markdown and what is built on it (mentions, links, HTML) find no markup.
use super::account::{MAX_OF_CLASS, by_size, cause_text, headline_text};
use super::call_paths::class_lines;
use super::overview::{quality_text, run_text};
use super::sections::loss_text;
use super::units::{duration, percent, printable};
use super::{cut, program};
use kasuri_analyze::Summary;
use kasuri_analyze::account::{CauseSummary, Class, ClassSum};
use kasuri_answers::account::{FINDING, class_of, knows_account};
use kasuri_answers::names::{ThreadNames, thread_names};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// Name and version of the JSON that [`Explanation`] serialises to.
pub const SCHEMA: &str = "kasuri.explain/1";

/// Columns of a text: a longer one loses its middle.
const WIDTH: usize = 240;
/// Most bytes of the page, without its last line.
const PAGE: usize = 16_000;
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
    /// Classes of the account with 1 % of the capacity or more: useful ones first, the largest first.
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

/// The explanation. `file`: the recording as a word of a shell command, "" for none; `start_ns`: where `--range` counts from.
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
        program: bounded(&program::title(&program::named(&s.program, &s.command), &s.command)),
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
            meaning: super::account::meaning(class, s.program.by),
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

/// The page.
pub fn markdown(e: &Explanation) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("# Where the CPU time of {} went", code(&e.program)));
    line(String::new());
    line(format!("{}; {}.", inline(&e.run), inline(&e.quality)));
    line(String::new());
    line(format!("**{}**", inline(&e.headline)));
    if !e.classes.is_empty() {
        line("\n| CPUs | share | time | what |\n|--:|--:|--:|---|".into());
    }
    for c in &e.classes {
        line(format!(
            "| {:.2} | {} | {} | {}: {} |",
            c.cpus,
            percent(c.share),
            duration(c.ns as f64),
            c.label,
            c.meaning
        ));
    }
    let explained = |c: &&ExplainedClass| !(c.causes.is_empty() && c.code.is_empty());
    if e.classes.iter().any(|c| explained(&c)) {
        line("\n## Causes".into());
    }
    for c in e.classes.iter().filter(explained) {
        line(format!("\n{} ({}):\n", c.label, percent(c.share)));
        c.causes.iter().for_each(|cause| line(cause_line(cause)));
        c.code.iter().for_each(|path| line(format!("- code: {}", code(path))));
    }
    line("\n## What to try\n".into());
    if e.remedies.is_empty() {
        line("No remedy is known that was measured to help here.".into());
    }
    for remedy in &e.remedies {
        line(format!("- {}", inline(&remedy.text)));
        if let Some(command) = &remedy.command {
            line(format!("  {}", code(command)));
        }
    }
    if !e.doubts.is_empty() {
        line("\n## What this recording cannot show\n".into());
        e.doubts.iter().for_each(|doubt| line(format!("- {}", inline(doubt))));
    }
    if e.more_doubts > 0 {
        line(format!("- and {} more", e.more_doubts));
    }
    if !e.next.is_empty() {
        line("\n## More\n".into());
    }
    for next in &e.next {
        line(format!("- {}: {}", next.what, code(&next.command)));
    }
    if out.len() > PAGE {
        let line_ends = out.bytes().take(PAGE).rposition(|byte| byte == b'\n');
        out.truncate(line_ends.map_or(0, |at| at + 1));
        out.push_str("\nThe page ends here; `kasuri stat -v` has the rest.\n");
    }
    out
}

fn cause_line(c: &ExplainedCause) -> String {
    let place = match &c.place {
        Some(place) => format!(" at {}", code(place)),
        None => String::new(),
    };
    let mut out = format!("- {}{place}: ", inline(&c.text));
    let (share, time) = (percent(c.share), duration(c.ns as f64));
    let _ = write!(out, "{:.2} CPUs, {share}, {time}; longest {}", c.cpus, c.longest);
    out
}

/// The text as a code span. A backtick would end it, and becomes an apostrophe.
fn code(text: &str) -> String {
    // A span of blanks alone is none, and a line feed could begin a new block.
    let text: String = text.chars().map(plain).collect();
    match text.trim() {
        "" => "` `".into(),
        text => format!("`{text}`"),
    }
}

fn plain(c: char) -> char {
    match c {
        '`' => '\'',
        c if c.is_whitespace() => ' ',
        c => c,
    }
}

/// Text in which only code spans are markup. What stands between two backticks already, as locks' names do, becomes one span; of the rest, each
/// word that is more than letters, digits and punctuation of prose.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let pieces: Vec<&str> = text.split('`').collect();
    for (at, piece) in pieces.iter().enumerate() {
        // The last backtick of an odd number opens nothing.
        if at % 2 == 1 && at + 1 < pieces.len() {
            out.push_str(&code(piece));
            continue;
        }
        let words = piece.split(char::is_whitespace).map(word);
        out.push_str(&words.collect::<Vec<String>>().join(" "));
    }
    out
}

fn word(word: &str) -> String {
    let core = word.trim_start_matches('(');
    let core = core.trim_end_matches(|c| ",;:".contains(c));
    let core = match core.matches(')').count() > core.matches('(').count() {
        true => core.trim_end_matches(')'),
        false => core,
    };
    // A full stop is prose's at an end and before a digit: else it may make a link of a name.
    let stem = core.trim_end_matches('.');
    let is_prose = |c: char| c.is_alphanumeric() || "-%/'()".contains(c);
    let mut parts = stem.split('.');
    let is_prose = parts.next().is_some_and(|part| part.chars().all(is_prose))
        && parts.all(|part| {
            part.starts_with(|c: char| c.is_ascii_digit()) && part.chars().all(is_prose)
        });
    // `<0.1` begins no tag, and `@` alone is no mention.
    let number = stem.strip_prefix('<').unwrap_or(stem).replace(',', "");
    if number.parse::<f64>().is_ok() || stem == "@" || (is_prose && !stem.starts_with('-')) {
        return word.to_owned();
    }
    let at = word.find(core).unwrap_or(0);
    format!("{}{}{}", &word[..at], code(core), &word[at + core.len()..])
}

#[cfg(test)]
mod tests {
    use super::{code, inline};

    #[test]
    fn only_code_spans_are_markup() {
        let cases = [
            ("you got 1.24 of 2 CPUs: 0.26 lost", "you got 1.24 of 2 CPUs: 0.26 lost"),
            ("lock `a|b <c>` (q.c:7),", "lock `a|b <c>` (`q.c:7`),"),
            ("<!-- @me [x](http://y) *b*", "`<!--` `@me` `[x](http://y)` `*b*`"),
            ("Intel(R) (x) 1,904 (a.c:7), -v", "Intel(R) (x) 1,904 (`a.c:7`), `-v`"),
            (
                "Xeon(R) @ 2.80GHz, Linux 6.18.44-v5, <0.1 %",
                "Xeon(R) @ 2.80GHz, Linux 6.18.44-v5, <0.1 %",
            ),
            ("1.x 2.80.com <b> <1.b @a", "`1.x` `2.80.com` `<b>` `<1.b` `@a`"),
            ("odd ` backtick", "odd  backtick"),
            ("`a` `b", "`a` b"),
            ("www.evil.com.", "`www.evil.com.`"),
            ("# - 1. + ---", "`#` `-` 1. `+` `---`"),
            ("a\nb  c", "a b  c"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(inline(text), expected, "{text:?}");
        }
        assert_eq!(code("a`b\n`"), "`a'b '`");
        assert_eq!(code(""), "` `");
    }
}
