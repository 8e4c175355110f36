//! What a document is made of: parts, one below the other.
//!
//! A column of a table is declared in one call of [`Rows::column`]: its heading, the unit of its numbers, what it means, and how soon it
//! goes when the screen is narrow. Cells are values, so that text can round them and a page can sort by them. A renderer goes through
//! all kinds of [`Part`]; the compiler tells it of a new kind.
use kasuri_analyze::account::ClassSum;
use std::borrow::Cow;

/// An answer as people read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its name on a page with others: one word.
    pub name: &'static str,
    /// What stands above all.
    pub title: Title,
    /// The most important first.
    pub parts: Vec<Part>,
}

/// What stands above a document; a page has the command already.
#[derive(Clone, Debug, PartialEq)]
pub enum Title {
    /// The recorded command.
    Command(Vec<String>),
    /// The answer in a line.
    Line(String),
}

/// One part.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A sentence with a label; "": what the document says first of all.
    Fact(&'static str, String),
    /// Why what the label names is not known, and what to do about it.
    Refusal(&'static str, String),
    /// Values in rows.
    Table(Table),
    /// Paragraphs below a heading.
    List(List),
    /// Curves.
    Chart(Chart),
    /// A remark about the part before it.
    Note(String),
}

/// Paragraphs.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Its heading; "": the list before it goes on.
    pub heading: &'static str,
    /// What the heading does not say; may be empty.
    pub note: Cow<'static, str>,
    /// The paragraphs, in one line or more each...
    pub items: Vec<String>,
    /// ...of so many.
    pub all: usize,
}

/// Rows of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its heading; "": that of the document.
    pub heading: Cow<'static, str>,
    /// What the heading does not say: the order of the rows, what a word means; may be empty.
    pub note: Cow<'static, str>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many cells in each row as there are columns...
    pub rows: Vec<Vec<Cell>>,
    /// ...of so many rows.
    pub all: usize,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading, in lower case.
    pub heading: Cow<'static, str>,
    /// What its cells are.
    pub unit: Unit,
    /// Where a screen is too narrow, columns with the highest number go first; those with 0 stay.
    pub goes: u8,
    /// Meaning of the heading, where that is not plain; may be empty.
    pub help: &'static str,
}

/// What the cells of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Names, which may be shortened.
    Text,
    /// Words, which are not.
    Word,
    /// Sentences, which may be continued on further lines.
    Sentence,
    /// Numbers that stand for something: of a process, a thread.
    Id,
    /// Numbers of things.
    Count,
    /// Times, ns.
    Ns,
    /// Shares of 1.
    Ratio,
    /// Multiples.
    Factor,
    /// As it is, with two decimals.
    Number,
}

/// A cell's value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    /// Not known, or there is none: a dash.
    #[default]
    None,
    /// Words, in a column of any unit.
    Text(String),
    /// A whole number in the column's unit: an id may have 64 bits.
    Whole(i128),
    /// A number in the column's unit.
    Number(f64),
    /// What a time was spent on: a bar.
    Classes(Vec<ClassSum>),
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The value that it shows.
    pub value: Value,
    /// The place of the timeline that it is about.
    pub go: Option<Go>,
}

/// A place of the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// The rows of the first thread with this id: the summary knows no other name of a thread.
    Thread(i32),
    /// A lock's rows, by its address.
    Lock(u64),
}

/// Curves over one number, such as the speed-up over the number of CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Its heading.
    pub heading: &'static str,
    /// Title of the horizontal axis.
    pub x_title: &'static str,
    /// Title of the vertical axis.
    pub y_title: &'static str,
    /// Behind this x the curves are flat, and a picture need not go on.
    pub flat_from: f64,
    /// The curves, the most important first.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: &'static str,
    /// x and y, ascending in x.
    pub points: Vec<(f64, f64)>,
    /// Lowest and highest y at each of `points`; may be empty.
    pub band: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: SeriesStyle,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SeriesStyle {
    /// A line.
    #[default]
    Line,
    /// A dashed line: an ideal or a limit.
    Dashed,
    /// Dots: measured.
    Dots,
}

impl Document {
    /// Without parts.
    pub fn new(name: &'static str, title: Title) -> Document {
        Document { name, title, parts: Vec::new() }
    }

    /// Below the recorded command.
    pub fn of(name: &'static str, command: &[String]) -> Document {
        Document::new(name, Title::Command(command.to_vec()))
    }

    /// Adds a sentence.
    pub fn fact(&mut self, label: &'static str, text: impl Into<String>) {
        self.parts.push(Part::Fact(label, text.into()));
    }

    /// Adds why something is not known.
    pub fn refusal(&mut self, label: &'static str, why: impl Into<String>) {
        self.parts.push(Part::Refusal(label, why.into()));
    }

    /// Adds a remark about the part before it.
    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Note(text.into()));
    }

    /// Adds a table; one without rows is left out.
    pub fn table<R>(&mut self, rows: Rows<'_, R>) {
        if rows.table.all > 0 {
            self.parts.push(Part::Table(rows.table));
        }
    }

    /// Adds the first `most` of these paragraphs; without any it adds nothing.
    pub fn list(
        &mut self,
        heading: &'static str,
        note: impl Into<Cow<'static, str>>,
        items: impl ExactSizeIterator<Item = String>,
        most: usize,
    ) {
        let all = items.len();
        if all > 0 {
            self.parts.push(Part::List(List {
                heading,
                note: note.into(),
                items: items.take(most).collect(),
                all,
            }));
        }
    }
}

/// A table on its way: its rows are there, its columns come one by one.
pub struct Rows<'r, R> {
    rows: Vec<&'r R>,
    table: Table,
}

impl<'r, R> Rows<'r, R> {
    /// The first `most` of `rows`, without a column.
    pub fn new(
        heading: impl Into<Cow<'static, str>>,
        note: impl Into<Cow<'static, str>>,
        rows: impl IntoIterator<Item = &'r R>,
        most: usize,
    ) -> Rows<'r, R> {
        let mut rows: Vec<&R> = rows.into_iter().collect();
        let all = rows.len();
        rows.truncate(most);
        Rows {
            table: Table {
                heading: heading.into(),
                note: note.into(),
                columns: Vec::new(),
                rows: vec![Vec::new(); rows.len()],
                all,
            },
            rows,
        }
    }

    /// Adds a column: see [`Column`].
    pub fn column<C: Into<Cell>>(
        mut self,
        heading: impl Into<Cow<'static, str>>,
        unit: Unit,
        goes: u8,
        help: &'static str,
        cell: impl Fn(&'r R) -> C,
    ) -> Rows<'r, R> {
        self.table.columns.push(Column { heading: heading.into(), unit, goes, help });
        for (row, &of) in self.table.rows.iter_mut().zip(&self.rows) {
            row.push(cell(of).into());
        }
        self
    }
}

impl Cell {
    /// A bar of the time of each class.
    pub fn of_classes(classes: &[ClassSum]) -> Cell {
        Cell { value: Value::Classes(classes.to_vec()), go: None }
    }

    /// The cell, leading to a place of the timeline.
    pub fn to(mut self, go: Go) -> Cell {
        self.go = Some(go);
        self
    }
}

/// `part` of `whole`; none where the whole is nothing, which is not 0.
pub fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        text.clone().into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { value: Value::Text(text), go: None }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(known: Option<T>) -> Cell {
        known.map_or(Cell::default(), Into::into)
    }
}

macro_rules! from_numbers {
    ($($number:ty => $value:ident),+) => {$(
        impl From<$number> for Cell {
            fn from(number: $number) -> Cell {
                Cell {
                    value: Value::$value(number as _),
                    go: None,
                }
            }
        }
    )+};
}
from_numbers!(i32 => Whole, u32 => Whole, i64 => Whole, u64 => Whole, usize => Whole, f64 => Number);
