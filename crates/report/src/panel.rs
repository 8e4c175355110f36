//! Tables and curves that other analyses put beside the chart: each [`Panel`] becomes a tab.
//!
//! A panel holds values, not text: a column's [`Unit`] says how the viewer formats its numbers, so that the reader can
//! sort by them. A cell may lead to a place of the chart ([`Go`]). [`encode`] turns a panel into rows of the index.
use super::plan::Plan;
use kasuri_model::{StrIx, ThreadIx, Time};
use serde::Serialize;

/// A tab of the details panel.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// The tab's name, one word if possible.
    pub title: String,
    /// A sentence about the tables and how to read them; may be empty.
    pub intro: String,
    /// Curves, drawn above the tables.
    pub charts: Vec<Chart>,
    /// Its tables, the most important first.
    pub tables: Vec<Table>,
}

/// Curves over one number, such as the speed-up over the number of CPUs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Chart {
    /// Its heading.
    pub caption: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Title of the vertical axis, which starts at 0.
    pub y_title: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y, ascending in x.
    pub points: Vec<(f64, f64)>,
    /// Lowest and highest y at each of `points`, drawn as a band; may be empty.
    pub band: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: SeriesStyle,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesStyle {
    /// A line.
    #[default]
    Line,
    /// A dashed line: an ideal or a limit.
    Dashed,
    /// Dots: measured.
    Dots,
}

/// One table of a panel.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading; may be empty.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many cells in each row as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A column's heading, and what its numbers are.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Heading.
    pub title: String,
    /// Meaning of the number, shown when the pointer rests on the heading; may be empty.
    pub help: String,
    /// How its numbers are shown.
    pub unit: Unit,
}

impl Column {
    /// A column without help.
    pub fn new(title: &str, unit: Unit) -> Column {
        Column {
            title: title.to_owned(),
            help: String::new(),
            unit,
        }
    }
}

/// How numbers of a column are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// No numbers.
    #[default]
    Text,
    /// 1 234 567.
    Count,
    /// 1.23 ms.
    Ns,
    /// 0.31 as 31 %.
    Ratio,
    /// 2.9 as 2.9x.
    Factor,
    /// As it is, rounded.
    Number,
}

/// A cell's value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    /// Nothing known: a dash.
    #[default]
    None,
    /// Words.
    Text(String),
    /// A number in the column's unit.
    Number(f64),
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The value that it shows.
    pub value: Value,
    /// The place of the chart that a click on it leads to.
    pub go: Option<Go>,
}

impl Cell {
    /// The cell as a link into the chart.
    pub fn link(mut self, go: Go) -> Cell {
        self.go = Some(go);
        self
    }
}

/// A place of the chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// The longest slice of a name.
    Name(StrIx),
    /// A thread's rows.
    Thread(ThreadIx),
    /// A time range.
    Range(Time, Time),
    /// A lock's rows, by its address.
    Lock(u64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell {
            value: Value::Text(kasuri_analyze::demangled(&text).into_owned()),
            go: None,
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell {
            value: Value::Number(number),
            go: None,
        }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        (number as f64).into()
    }
}

/// A panel in the index.
#[derive(Serialize)]
pub struct PanelRow<'a> {
    title: &'a str,
    intro: &'a str,
    charts: &'a [Chart],
    tables: Vec<TableRow<'a>>,
}

/// A table as the viewer reads it.
#[derive(Serialize)]
struct TableRow<'a> {
    caption: &'a str,
    columns: Vec<(&'a str, &'a str, Unit)>,
    rows: Vec<Vec<CellRow<'a>>>,
}

/// A bare value, or a value and where it leads.
#[derive(Serialize)]
#[serde(untagged)]
enum CellRow<'a> {
    Bare(ValueRow<'a>),
    Link(ValueRow<'a>, GoRow),
}

/// A cell: empty, a text or a number. Its type is its JSON type.
#[derive(Serialize)]
#[serde(untagged)]
enum ValueRow<'a> {
    None,
    Text(&'a str),
    Number(f64),
}

/// Where a click leads: `{"name": 3}`, `{"range": [from, to]}`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum GoRow {
    Name(u32),
    Thread(u32),
    Range([u64; 2]),
    Lock(String),
}

/// `panel` as the index has it.
pub fn encode<'a>(panel: &'a Panel, plan: &Plan) -> PanelRow<'a> {
    let cell = |cell: &'a Cell| {
        let value = match &cell.value {
            Value::None => ValueRow::None,
            Value::Text(text) => ValueRow::Text(text),
            // JSON has no infinity.
            Value::Number(n) if !n.is_finite() => ValueRow::None,
            Value::Number(n) => ValueRow::Number(*n),
        };
        match cell.go {
            None => CellRow::Bare(value),
            Some(go) => CellRow::Link(
                value,
                match go {
                    Go::Name(name) => GoRow::Name(name.0),
                    Go::Thread(thread) => GoRow::Thread(thread.0),
                    Go::Range(from, to) => GoRow::Range([plan.at(from), plan.at(to)]),
                    Go::Lock(object) => GoRow::Lock(format!("{object:#x}")),
                },
            ),
        }
    };
    let table = |table: &'a Table| TableRow {
        caption: &table.caption,
        columns: table
            .columns
            .iter()
            .map(|c| (c.title.as_str(), c.help.as_str(), c.unit))
            .collect(),
        rows: table
            .rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect(),
    };
    PanelRow {
        title: &panel.title,
        intro: &panel.intro,
        charts: &panel.charts,
        tables: panel.tables.iter().map(table).collect(),
    }
}
