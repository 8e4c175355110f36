//! Tables that fit the screen.
//!
//! A column says what may happen to it when the screen is narrow, by the function that makes it:
//!
//! | column | narrow screen |
//! |---|---|
//! | [`text`] | shortened in the middle, `a-rather~ad-name` |
//! | [`sentence`] | continued on further lines |
//! | [`word`], [`number`] | kept whole, or left out by their `dispensable` number |
//!
//! [`Grid::lines`] first shortens texts to `ENOUGH_TEXT` columns, then leaves out the most dispensable columns one by
//! one, then shortens texts further. Widths are those of the screen (`unicode-width`), not of bytes or characters.
pub use super::units::cut;
use super::units::printable;
use super::wrap;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// One column.
#[derive(Clone)]
pub struct Column {
    head: Cow<'static, str>,
    right: bool,
    shrinks: bool,
    /// Text that does not fit continues on the next line, instead of being cut.
    wraps: bool,
    /// Columns with the highest number go first; 0 never goes.
    dispensable: u8,
}

/// A column of text, left aligned, shortened when the screen is narrow.
pub fn text(head: impl Into<Cow<'static, str>>) -> Column {
    Column { head: head.into(), right: false, shrinks: true, wraps: false, dispensable: 0 }
}

/// A column of sentences, left aligned, continued on further lines when the screen is narrow.
pub fn sentence(head: impl Into<Cow<'static, str>>) -> Column {
    Column { wraps: true, ..text(head) }
}

/// A column of short words, left aligned, never shortened.
pub fn word(head: impl Into<Cow<'static, str>>, dispensable: u8) -> Column {
    Column { shrinks: false, dispensable, ..text(head) }
}

/// A column of numbers, right aligned.
pub fn number(head: impl Into<Cow<'static, str>>, dispensable: u8) -> Column {
    Column { right: true, ..word(head, dispensable) }
}

/// Columns of the screen between two columns of the table, and before the first.
const GAP: usize = 2;
const INDENT: usize = 2;
/// Text columns are shortened to this before any column goes...
const ENOUGH_TEXT: usize = 24;
/// ...and to this when all has gone that may.
const MIN_TEXT: usize = 6;

/// A table of rows under `columns`.
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Lines across all columns, each with the number of rows above it.
    across: Vec<(usize, String)>,
}

impl Grid {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Grid {
        Grid { columns: columns.to_vec(), rows: Vec::new(), across: Vec::new() }
    }

    /// Adds a row, one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|c| printable(&c)).collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Adds a line of text across all columns, which makes none of them wider.
    pub fn line_across(&mut self, text: &str) {
        self.across.push((self.rows.len(), printable(text)));
    }

    /// [`Grid::lines`] as one text.
    pub fn page(self, width: usize) -> String {
        self.lines(width).iter().map(|line| format!("{line}\n")).collect()
    }

    /// The lines, none wider than `width` where that is possible; the first is the heading.
    pub fn lines(mut self, width: usize) -> Vec<String> {
        self.drop_empty();
        let mut widths = self.widths();
        // Texts give way first, then whole columns: a shortened name is still told apart, a cut number is wrong.
        while total(&widths) > width && !self.shorten(&mut widths, width, ENOUGH_TEXT) {
            let Some(worst) = self.most_dispensable() else {
                self.shorten(&mut widths, width, MIN_TEXT);
                break;
            };
            self.columns.remove(worst);
            self.rows.iter_mut().for_each(|row| drop(row.remove(worst)));
            widths = self.widths();
        }
        let heads: Vec<String> = self.columns.iter().map(|c| c.head.to_string()).collect();
        let mut lines = self.row_lines(&heads, &widths);
        let mut across = self.across.iter().peekable();
        for above in 0..=self.rows.len() {
            while let Some((_, text)) = across.next_if(|(at, _)| *at == above) {
                lines.push(cut(text, width));
            }
            let row = self.rows.get(above);
            lines.extend(row.iter().flat_map(|row| self.row_lines(row, &widths)));
        }
        lines
    }

    /// Removes dispensable columns in which every cell is empty or `-`: what was not recorded takes no room.
    fn drop_empty(&mut self) {
        for i in (0..self.columns.len()).rev() {
            if self.columns[i].dispensable > 0
                && self.rows.iter().all(|row| row[i].is_empty() || row[i] == "-")
            {
                self.columns.remove(i);
                self.rows.iter_mut().for_each(|row| drop(row.remove(i)));
            }
        }
    }

    /// The width of each column: that of its widest cell or of its heading.
    fn widths(&self) -> Vec<usize> {
        let widest = |(i, column): (usize, &Column)| {
            self.rows.iter().map(|row| row[i].width()).max().unwrap_or(0).max(column.head.width())
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    /// Makes text columns narrower, none below `least`; false when that is not enough.
    fn shorten(&self, widths: &mut [usize], width: usize, least: usize) -> bool {
        let original = widths.to_vec();
        while total(widths) > width {
            let wide = (0..widths.len()).filter(|&i| self.columns[i].shrinks && widths[i] > least);
            // The widest column loses one, so that long texts end up equally wide.
            let Some(widest) = wide.max_by_key(|&i| widths[i]) else {
                widths.copy_from_slice(&original);
                return false;
            };
            widths[widest] -= 1;
        }
        true
    }

    /// The column to leave out next; of equals the last.
    fn most_dispensable(&self) -> Option<usize> {
        let (i, column) = self.columns.iter().enumerate().max_by_key(|(_, c)| c.dispensable)?;
        (column.dispensable > 0).then_some(i)
    }

    /// A row, on as many lines as its longest sentence needs.
    fn row_lines(&self, cells: &[String], widths: &[usize]) -> Vec<String> {
        let parts: Vec<Vec<String>> = (cells.iter().zip(widths).zip(&self.columns))
            .map(|((cell, &width), column)| match column.wraps {
                true => wrap(cell, width),
                false => vec![cell.clone()],
            })
            .collect();
        let height = parts.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|y| {
                let part = |p: &Vec<String>| p.get(y).cloned().unwrap_or_default();
                self.line(&parts.iter().map(part).collect::<Vec<_>>(), widths)
            })
            .collect()
    }

    /// One line of the screen, without spaces at its end.
    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = " ".repeat(INDENT);
        for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            let cell = cut(cell, width);
            let pad = " ".repeat(width - cell.width());
            line.push_str(&" ".repeat(if i == 0 { 0 } else { GAP }));
            line.push_str(&if self.columns[i].right { pad + &cell } else { cell + &pad });
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The width of a line.
fn total(widths: &[usize]) -> usize {
    INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid =
            Grid::new(&[text("NAME"), number("TID", 0), number("LESS", 2), number("MORE", 1)]);
        grid.row([
            "a-rather-long-thread-name".into(),
            "1234".into(),
            "1.00 s".into(),
            "2.00 s".into(),
        ]);
        grid.row(["絣".into(), "5".into(), "-".into(), "3".into()]);
        grid
    }

    #[test]
    fn grid_aligns_by_what_the_screen_shows() {
        let lines = grid().lines(80);
        assert_eq!(lines[0], "  NAME                        TID    LESS    MORE");
        assert_eq!(lines[1], "  a-rather-long-thread-name  1234  1.00 s  2.00 s");
        assert_eq!(lines[2], "  絣                            5       -       3");
    }

    #[test]
    fn grid_shortens_names_then_drops_columns_then_shortens_further() {
        let row = |width| grid().lines(width).swap_remove(1);
        assert_eq!(row(48), "  a-rather-lon~thread-name  1234  1.00 s  2.00 s");
        assert_eq!(row(40), "  a-rather-lon~thread-name  1234  2.00 s");
        assert_eq!(row(24), "  a-rather~ad-name  1234");
        assert_eq!(row(10), "  a-rather-long-thread-name  1234", "no room at all");
    }

    #[test]
    fn grid_continues_sentences_on_further_lines() {
        let mut grid = Grid::new(&[number("N", 0), sentence("WHY")]);
        grid.row(["1".into(), "one two three four five six".into()]);
        grid.row(["2".into(), "seven".into()]);
        assert_eq!(
            grid.lines(24),
            ["  N  WHY", "  1  one two three four", "     five six", "  2  seven"]
        );
    }

    #[test]
    fn a_line_across_stands_below_its_row_and_makes_no_column_wider() {
        let mut grid = Grid::new(&[text("NAME"), number("N", 0)]);
        grid.row(["a".into(), "1".into()]);
        grid.line_across("    <- a line that is wider than all of the table");
        grid.row(["b".into(), "2".into()]);
        let lines = ["  NAME  N", "  a     1", "    <- a line~ of the table", "  b     2"];
        assert_eq!(grid.lines(27), lines);
    }

    #[test]
    fn grid_drops_what_nobody_knows() {
        let mut grid = Grid::new(&[text("NAME"), number("EMPTY", 1)]);
        grid.row(["a".into(), "-".into()]);
        assert_eq!(grid.lines(80), ["  NAME", "  a"]);
    }

    #[test]
    fn cut_keeps_both_ends() {
        assert_eq!(cut("abcdefghij", 5), "ab~ij");
        assert_eq!(cut("絣絣絣", 4), "絣~");
        assert_eq!(cut("e\u{301}", 5), "e\u{301}");
        assert_eq!(cut(&"\u{301}".repeat(5000), 5).chars().count(), 9);
    }
}
