//! Answers as text, fitted to a terminal's width: what `kasuri stat`, `info`, `locks`, `predict`, `critical` and
//! `compare` print.
//!
//! A private `Page` collects lines; each module adds the methods for its sections to it. Sections are built from four
//! elements, all in `mod.rs` and `sections.rs`: a `heading` with a remark, a `fact` (label and text), an `item` (a
//! paragraph), and a `grid` (a table).
//!
//! | module | prints |
//! |---|---|
//! | `overview` | `kasuri stat`, as far as it fits one screen |
//! | `sections` | sections of `kasuri stat` that draw themselves |
//! | `account` | where the CPU time went: headline, bar and table |
//! | [`document`](document()) | every answer that is a document (`crates/answers`) |
//! | [`program`] | which processes an answer is about |
//! | `top` | a window of `kasuri top` |
//! | [`grid`] | tables whose columns fit the screen |
//!
//! All text from a recording goes through [`units::printable`] before it is printed: a traced program chooses its
//! names.
mod account;
pub(crate) mod document;
pub mod grid;
mod overview;
pub mod program;
mod sections;
mod top;

pub use document::render as document;
pub use kasuri_answers::units;
pub(crate) use kasuri_answers::units::cut;
pub use sections::{EdgeDoubts, edge_doubts};
pub use top::{BlockedIn, TopFacts, TopPage, TopSort, TopView, top};

use kasuri_analyze::Summary;
use kasuri_answers::{openmp, stat};
use unicode_width::UnicodeWidthStr;

/// The form of a page.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Width of the screen, in columns.
    pub width: usize,
    /// Whether to use bold and dim letters.
    pub colour: bool,
    /// Rows of a table; 0: all.
    pub top: usize,
    /// The recording as a word of a shell command, for the commands proposed at the end; "" for none.
    pub file: String,
    /// The program where no recorded command names it ([`program::named`]); else "".
    pub program: String,
    /// The parts of the summary to print.
    pub sections: Sections,
    /// Start of the recording: ranges for the command line count from it.
    pub start_ns: i64,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            width: 100,
            colour: false,
            top: 10,
            file: String::new(),
            program: String::new(),
            sections: Sections::All,
            start_ns: 0,
        }
    }
}

impl Layout {
    /// The most rows of a table.
    pub fn rows(&self) -> usize {
        match self.top {
            0 => usize::MAX,
            top => top,
        }
    }
}

/// A choice of parts of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sections {
    /// The parts that fit one screen: where the time went, and what to try.
    #[default]
    Overview,
    /// All of them.
    All,
    /// These, in the order of the page.
    Only(Vec<Section>),
}

/// One part of the summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The run in numbers: times, switches, events.
    Run,
    /// Where the CPU time went.
    Account,
    /// What to try.
    Hints,
    /// Lost events, and what the recording cannot show.
    Losses,
    /// The account of each annotated region.
    Regions,
    /// Annotated slices.
    Annotations,
    /// Load imbalance of annotated regions.
    Imbalance,
    /// Regions and loops of OpenMP.
    OpenMp,
    /// USDT probes and what they cost.
    Usdt,
    /// Annotated waits and critical sections.
    Waits,
    /// Threads.
    Threads,
    /// CPUs.
    Cpus,
    /// Processes that ran while the program was ready.
    Interference,
    /// Moves of threads to other CPUs.
    Migrations,
}

impl Section {
    /// All, in the order of the page.
    pub const ALL: [Section; 14] = [
        Section::Run,
        Section::Account,
        Section::Hints,
        Section::Losses,
        Section::Regions,
        Section::Annotations,
        Section::Imbalance,
        Section::OpenMp,
        Section::Usdt,
        Section::Waits,
        Section::Threads,
        Section::Cpus,
        Section::Interference,
        Section::Migrations,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Run => "run",
            Section::Account => "account",
            Section::Hints => "hints",
            Section::Losses => "losses",
            Section::Regions => "regions",
            Section::Annotations => "annotations",
            Section::Imbalance => "imbalance",
            Section::OpenMp => "openmp",
            Section::Usdt => "usdt",
            Section::Waits => "waits",
            Section::Threads => "threads",
            Section::Cpus => "cpus",
            Section::Interference => "interference",
            Section::Migrations => "migrations",
        }
    }
}

/// The summary as text, ending with a line feed.
pub fn render(summary: &Summary, layout: &Layout) -> String {
    let mut page = Page { layout, text: String::new() };
    page.title(&summary.command);
    match &layout.sections {
        Sections::Overview => page.overview(summary),
        Sections::All => Section::ALL.iter().for_each(|&s| page.section(summary, s)),
        Sections::Only(wanted) => {
            for &section in Section::ALL.iter().filter(|s| wanted.contains(s)) {
                let before = page.text.len();
                page.section(summary, section);
                if page.text.len() == before {
                    page.note(&format!("{}: nothing in this recording", section.name()));
                }
            }
        }
    }
    page.next_commands(summary);
    page.text
}

/// A text that grows section by section.
struct Page<'a> {
    layout: &'a Layout,
    text: String,
}

impl Page<'_> {
    /// Adds a line.
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Text with an SGR code of ECMA-48 around it, such as 1 (bold) or 2 (dim); without colours the text alone.
    fn styled(&self, style: &str, text: &str) -> String {
        if self.layout.colour {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }

    /// The recorded command, or what was chosen of it.
    fn title(&mut self, command: &[String]) {
        let title = program::title(&self.layout.program, command);
        let title = self.styled("1", &cut(&title, self.layout.width));
        self.line(&title);
    }

    /// A heading with a remark beside it, or below where the line is too short for both.
    fn heading(&mut self, text: &str, note: &str) {
        self.line("");
        let heading = self.styled("1", text);
        let room = self.layout.width.saturating_sub(text.len() + 4);
        if note.is_empty() {
            self.line(&heading);
        } else if note.width() <= room {
            let note = self.styled("2", &format!("  ({note})"));
            self.line(&format!("{heading}{note}"));
        } else {
            self.line(&heading);
            self.note(&format!("({note})"));
        }
    }

    /// A remark in dim letters.
    fn note(&mut self, text: &str) {
        for line in wrap(text, self.layout.width.saturating_sub(2).max(20)) {
            let line = self.styled("2", &line);
            self.line(&format!("  {line}"));
        }
    }

    /// Adds one section; a section without contents adds nothing.
    fn section(&mut self, s: &Summary, section: Section) {
        let rows = self.layout.rows();
        match section {
            Section::Run => self.run(s),
            Section::Account => self.account(s, account::Detail::Whole),
            Section::Hints => self.hints(s),
            Section::Losses => self.losses(s),
            Section::Regions => self.parts(&stat::regions(s, rows)),
            Section::Annotations => self.parts(&stat::annotations(s, rows)),
            Section::Imbalance => self.parts(&stat::imbalance(s, rows)),
            Section::OpenMp => self.parts(&openmp::openmp(s, rows)),
            Section::Usdt => self.parts(&stat::usdt(s, rows)),
            Section::Waits => self.parts(&stat::waits(s, rows)),
            Section::Threads => self.parts(&stat::threads(s, rows)),
            Section::Cpus => self.parts(&stat::cpus(s, rows)),
            Section::Interference => self.parts(&stat::interference(s, rows)),
            Section::Migrations => self.parts(&stat::migrations(s, rows)),
        }
    }

    /// `label      text`, the text wrapped under itself.
    fn fact(&mut self, label: &str, text: &str) {
        const LABEL: usize = 11;
        let room = self.layout.width.saturating_sub(LABEL + 2).max(20);
        for (i, part) in wrap(text, room).into_iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            self.line(&format!("  {}{part}", self.styled("2", &format!("{label:<LABEL$}"))));
        }
    }

    /// A table of the first rows, with a line that says how many more there are.
    fn grid(&mut self, grid: grid::Grid, shown: usize, all: usize) {
        let lines = grid.lines(self.layout.width);
        for (i, line) in lines.iter().enumerate() {
            let line = if i == 0 { self.styled("2", line) } else { line.clone() };
            self.line(&line);
        }
        if shown < all {
            self.line(
                &self.styled("2", &format!("  ... and {} more (--top 0 shows all)", all - shown)),
            );
        }
    }
}

/// Breaks text at spaces into lines of `room` columns; a longer word has a line of its own and is not cut.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("never empty");
        if last.is_empty() {
            last.push_str(word);
        } else if last.width() + 1 + word.width() <= room {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}
