//! A document as Markdown, to be pasted into an issue or given to a program.
//!
//! Names come from the recorded program, and the page is read by programs that obey markup. So all
//! text of a document goes through [`inline`], which leaves words of letters and digits as they are
//! and puts everything else into code spans, where Markdown and what is built on it (mentions,
//! links, HTML) find no markup.
use crate::chart::letters;
use crate::table::document::in_unit;
use kasuri_answers::document::{Chart, Document, List, Part, Table, Title, Unit};
use std::fmt::Write;

/// Most bytes of a page, without its last line.
const PAGE: usize = 16_000;
/// Columns of a chart.
const CHART: usize = 80;

/// The document as one page; a longer one says where it ends that `rest`, a command, has more.
pub fn markdown(document: &Document, rest: &str) -> String {
    let title = match &document.title {
        Title::Command(command) => code(&command.join(" ")),
        Title::Line(line) => inline(line),
    };
    let mut out = format!("# {title}\n");
    for part in &document.parts {
        out.push('\n');
        match part {
            Part::Fact("", text) => line(&mut out, &format!("**{}**", inline(text))),
            Part::Fact(label, text) => line(&mut out, &format!("{label}: {}", inline(text))),
            Part::Refusal(label, why) => line(&mut out, &format!("## {label}\n\n{}", inline(why))),
            Part::Table(table) => rows(&mut out, table),
            Part::List(list) => items(&mut out, list),
            Part::Chart(chart) => picture(&mut out, chart),
            Part::Note(text) => line(&mut out, &inline(text)),
        }
    }
    if out.len() > PAGE {
        let line_ends = out.bytes().take(PAGE).rposition(|byte| byte == b'\n');
        out.truncate(line_ends.map_or(0, |at| at + 1));
        let _ = writeln!(out, "\nThe page ends here; {} has the rest.", code(rest));
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// What stands above a table or list, with an empty line below it.
fn heading(out: &mut String, heading: &str, note: &str) {
    if !heading.is_empty() {
        let _ = writeln!(out, "## {}\n", inline(heading));
    }
    if !note.is_empty() {
        let _ = writeln!(out, "{}:\n", inline(note));
    }
}

fn rows(out: &mut String, table: &Table) {
    heading(out, &table.heading, &table.note);
    // A bar would end a cell.
    let cell = |text: &str| inline(text).replace('|', "\\|");
    let headings: Vec<String> = table.columns.iter().map(|c| cell(&c.heading)).collect();
    line(out, &format!("| {} |", headings.join(" | ")));
    let is_left = |unit| matches!(unit, Unit::Text | Unit::Word | Unit::Sentence);
    let sides = table.columns.iter().map(|c| if is_left(c.unit) { "---" } else { "--:" });
    line(out, &format!("|{}|", sides.collect::<Vec<&str>>().join("|")));
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        let cells: Vec<String> =
            cells.map(|(of, column)| cell(&in_unit(of, column.unit))).collect();
        line(out, &format!("| {} |", cells.join(" | ")));
    }
    more(out, table.rows.len(), table.all);
}

fn items(out: &mut String, list: &List) {
    heading(out, list.heading, &list.note);
    for item in &list.items {
        // Further lines are of the same item.
        let lines: Vec<String> = item.lines().map(inline).collect();
        line(out, &format!("- {}", lines.join("\n  ")));
    }
    more(out, list.items.len(), list.all);
}

fn more(out: &mut String, shown: usize, all: usize) {
    if shown < all {
        line(out, &format!("- and {} more", all - shown));
    }
}

fn picture(out: &mut String, chart: &Chart) {
    heading(out, chart.heading, &letters::legend(chart));
    line(out, "```");
    letters::picture(chart, CHART).iter().for_each(|of| line(out, of));
    line(out, "```");
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

/// Text in which only code spans are markup. What stands between two backticks already, as locks'
/// names do, becomes one span; of the rest, each word that is more than letters, digits and
/// punctuation of prose.
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
        // Two stand in a range of times: `1.5ms..2ms`.
        && parts.all(|part| {
            part.is_empty() || part.starts_with(|c: char| c.is_ascii_digit()) && part.chars().all(is_prose)
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
    use super::{code, inline, markdown};
    use kasuri_answers::document::{Document, Rows, Title, Unit};

    #[test]
    fn each_part_is_a_block_and_names_end_no_cell() {
        let mut of = Document::new("Parts", Title::Line("what `a*b` did".into()));
        of.fact("", "it waited");
        of.fact("lost", "3 events");
        of.refusal("Locks", "not recorded: use --locks");
        let rows = [("x | y|z", 0.5)];
        of.table(
            Rows::new("Rows", "", &rows, 9).column("name", Unit::Text, 0, "", |row| row.0).column(
                "share",
                Unit::Ratio,
                0,
                "",
                |row| row.1,
            ),
        );
        of.list("To do", "of `main`", ["one\n`two`".into(), "three".into()].into_iter(), 1);
        let expected = "# what `a*b` did\n\n**it waited**\n\nlost: 3 events\n\n## Locks\n\nnot recorded: use `--locks`\n\n\
             ## Rows\n\n| name | share |\n|---|--:|\n| x `\\|` `y\\|z` | 50.0 % |\n\n\
             ## To do\n\nof `main`:\n\n- one\n  `two`\n- and 1 more\n";
        assert_eq!(markdown(&of, ""), expected);
        of.parts = vec![of.parts[0].clone(); 2_000];
        let page = markdown(&of, "kasuri stat");
        assert!(page.len() < 16_100 && page.ends_with("`kasuri stat` has the rest.\n"));
    }

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
            ("1.5ms..2.25ms; a..b ../c", "1.5ms..2.25ms; `a..b` `../c`"),
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
