//! The summary as text: what `kasuri stat` prints.
mod account;
mod compare;
mod contents;
mod critical_path;
pub mod grid;
mod locks;
mod plot;
mod predict;
mod sections;
pub mod units;

pub use account::cause_text;
pub use compare::render_comparison;
pub use contents::contents;
pub use critical_path::render_critical_path;
pub use locks::{inversion, render as locks};
pub use predict::render as predict;

use kasuri_analyze::Summary;

/// How to print.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Width of the screen, in columns.
    pub width: usize,
    /// Whether to use bold and dim letters.
    pub colour: bool,
    /// Rows of a table; 0: all.
    pub top: usize,
    /// Command to propose at the end; "" for none.
    pub next: String,
    /// Start of the recording: ranges for the command line count from it.
    pub start_ns: i64,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            width: 100,
            colour: false,
            top: 10,
            next: String::new(),
            start_ns: 0,
        }
    }
}

/// The summary as text, ending with a line feed.
pub fn render(summary: &Summary, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    page.headline(summary);
    page.account(summary);
    page.problems(summary);
    page.annotations(summary);
    page.imbalance(summary);
    page.waits(summary);
    page.threads(summary);
    page.cpus(summary);
    page.interference(summary);
    page.migrations(summary);
    page.hints(summary);
    page.hint(summary);
    page.text
}

/// A text that grows section by section.
struct Page<'a> {
    layout: &'a Layout,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.layout.colour {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }

    fn heading(&mut self, text: &str, note: &str) {
        let mut line = self.styled("1", text);
        if !note.is_empty() {
            line.push_str(&self.styled("2", &format!("  ({note})")));
        }
        self.line("");
        self.line(&line);
    }

    /// `label      text`, the text wrapped under itself.
    fn fact(&mut self, label: &str, text: &str) {
        const LABEL: usize = 11;
        let room = self.layout.width.saturating_sub(LABEL + 2).max(20);
        for (i, part) in wrap(text, room).into_iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            self.line(&format!(
                "  {}{part}",
                self.styled("2", &format!("{label:<LABEL$}"))
            ));
        }
    }

    /// A table of the first rows, with a line that says how many more there are.
    fn grid(&mut self, grid: grid::Grid, shown: usize, all: usize) {
        let lines = grid.lines(self.layout.width);
        for (i, line) in lines.iter().enumerate() {
            let line = if i == 0 {
                self.styled("2", line)
            } else {
                line.clone()
            };
            self.line(&line);
        }
        if shown < all {
            self.line(&self.styled(
                "2",
                &format!("  ... and {} more (--top 0 shows all)", all - shown),
            ));
        }
    }

    fn shown(&self, all: usize) -> usize {
        if self.layout.top == 0 {
            all
        } else {
            all.min(self.layout.top)
        }
    }
}

/// Breaks at spaces; a word longer than the room keeps its line to itself.
fn wrap(text: &str, room: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
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
