//! Documents beside the chart: each becomes a tab.
//!
//! The index has values, not text: a column's unit says how the viewer formats its numbers, so that the reader can sort by them. A cell may
//! lead to a place of the chart. [`encode`] turns a document into rows of the index.
use kasuri_analyze::account::ClassSum;
use kasuri_analyze::demangled;
use kasuri_answers::account::{FINDING, class_of};
use kasuri_answers::document::{
    Cell, Chart, Document, Go, List, Part, Series, SeriesStyle, Table, Unit, Value, share,
};
use kasuri_answers::units::percent;
use kasuri_model::Trace;
use serde::Serialize;
use std::borrow::Cow;

/// Most rows of a table: the viewer reads the whole index before it draws.
pub const MOST_ROWS: usize = 200;

/// A document in the index.
#[derive(Serialize)]
pub struct PanelRow<'a> {
    title: &'a str,
    parts: Vec<PartRow<'a>>,
}

/// A part as the viewer reads it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum PartRow<'a> {
    Fact(&'a str, Cow<'a, str>),
    Refusal(&'a str, Cow<'a, str>),
    Table(TableRow<'a>),
    List(ListRow<'a>),
    Chart(ChartRow<'a>),
    Note(Cow<'a, str>),
}

#[derive(Serialize)]
struct TableRow<'a> {
    caption: String,
    columns: Vec<(&'a str, &'a str, &'static str)>,
    rows: Vec<Vec<CellRow<'a>>>,
}

#[derive(Serialize)]
struct ListRow<'a> {
    caption: String,
    items: Vec<Cow<'a, str>>,
}

#[derive(Serialize)]
struct ChartRow<'a> {
    caption: &'a str,
    x_title: &'a str,
    y_title: &'a str,
    series: Vec<SeriesRow<'a>>,
}

#[derive(Serialize)]
struct SeriesRow<'a> {
    name: &'a str,
    points: &'a [(f64, f64)],
    band: &'a [(f64, f64)],
    style: &'static str,
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
    Text(Cow<'a, str>),
    Number(f64),
}

/// Where a click leads: `{"thread": 3}`, `{"lock": "0xabc"}`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum GoRow {
    Thread(u32),
    Lock(String),
}

/// `document` as the index has it.
pub fn encode<'a>(document: &'a Document, trace: &Trace) -> PanelRow<'a> {
    let part = |part: &'a Part| match part {
        Part::Fact(label, text) => PartRow::Fact(label, demangled(text)),
        Part::Refusal(label, why) => PartRow::Refusal(label, demangled(why)),
        Part::Table(table) => PartRow::Table(table_row(table, trace)),
        Part::List(list) => PartRow::List(list_row(list)),
        Part::Chart(chart) => PartRow::Chart(chart_row(chart)),
        Part::Note(text) => PartRow::Note(demangled(text)),
    };
    PanelRow { title: document.name, parts: document.parts.iter().map(part).collect() }
}

/// A heading, its note, and how much was left out.
fn caption(heading: &str, note: &str, shown: usize, all: usize) -> String {
    let mut out = heading.to_owned();
    if !note.is_empty() {
        out += &format!(": {note}");
    }
    if shown < all {
        out += &format!(" (the first {shown} of {all})");
    }
    out
}

/// Without the columns that a narrow screen may leave out and in which nothing is known.
fn table_row<'a>(table: &'a Table, trace: &Trace) -> TableRow<'a> {
    let is_known = |c: &usize| {
        let mut cells = table.rows.iter().map(|row| &row[*c].value);
        table.columns[*c].goes == 0 || cells.any(|value| *value != Value::None)
    };
    let shown: Vec<usize> = (0..table.columns.len()).filter(is_known).collect();
    let columns = shown.iter().map(|&c| &table.columns[c]);
    TableRow {
        caption: caption(&table.heading, &table.note, table.rows.len(), table.all),
        columns: columns.map(|c| (&*c.heading, c.help, unit(c.unit))).collect(),
        rows: (table.rows.iter())
            .map(|row| shown.iter().map(|&c| cell(&row[c], trace)).collect())
            .collect(),
    }
}

fn list_row(list: &List) -> ListRow<'_> {
    ListRow {
        caption: caption(list.heading, &list.note, list.items.len(), list.all),
        items: list.items.iter().map(|item| demangled(item)).collect(),
    }
}

/// Up to the first x behind which the curves are flat.
fn chart_row<'a>(chart: &'a Chart) -> ChartRow<'a> {
    let enough = |points: &[(f64, f64)]| {
        let flat = points.iter().position(|point| point.0 > chart.flat_from);
        flat.map_or(points.len(), |last| last + 1)
    };
    let series = |s: &'a Series| {
        let n = enough(&s.points);
        SeriesRow {
            name: s.name,
            points: &s.points[..n],
            band: &s.band[..n.min(s.band.len())],
            style: match s.style {
                SeriesStyle::Line => "line",
                SeriesStyle::Dashed => "dashed",
                SeriesStyle::Dots => "dots",
            },
        }
    };
    ChartRow {
        caption: chart.heading,
        x_title: chart.x_title,
        y_title: chart.y_title,
        series: chart.series.iter().map(series).collect(),
    }
}

fn cell<'a>(cell: &'a Cell, trace: &Trace) -> CellRow<'a> {
    let value = match &cell.value {
        Value::None => ValueRow::None,
        Value::Text(text) => ValueRow::Text(demangled(text)),
        // A number of the page has 53 bits.
        Value::Whole(n) if n.unsigned_abs() > 1 << 53 => ValueRow::Text(n.to_string().into()),
        Value::Whole(n) => ValueRow::Number(*n as f64),
        // JSON has no infinity.
        Value::Number(n) if !n.is_finite() => ValueRow::None,
        Value::Number(n) => ValueRow::Number(*n),
        Value::Classes(classes) => ValueRow::Text(classes_text(classes).into()),
    };
    let go = cell.go.and_then(|go| match go {
        Go::Thread(tid) => {
            let row = trace.threads.iter().position(|thread| thread.tid == tid);
            row.map(|row| GoRow::Thread(row as u32))
        }
        Go::Lock(object) => Some(GoRow::Lock(format!("{object:#x}"))),
    });
    match go {
        Some(go) => CellRow::Link(value, go),
        None => CellRow::Bare(value),
    }
}

/// What has one per cent or more.
fn classes_text(classes: &[ClassSum]) -> String {
    let all = classes.iter().map(|c| c.ns).sum();
    let shares = classes.iter().filter_map(|c| Some((c, share(c.ns, all)?)));
    let text =
        |(c, share): (&ClassSum, f64)| format!("{} {}", class_of(c.class).label(), percent(share));
    shares.filter(|of| of.1 >= FINDING).map(text).collect::<Vec<_>>().join(", ")
}

/// The viewer's name of a unit.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Text | Unit::Word | Unit::Sentence => "text",
        Unit::Id => "id",
        Unit::Count => "count",
        Unit::Ns => "ns",
        Unit::Ratio => "ratio",
        Unit::Factor => "factor",
        Unit::Number => "number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_answers::document::Rows;

    /// Each kind of part, so that none is lost on the way; and what was left out is said.
    #[test]
    fn a_document_in_the_index() {
        let mut document = Document::of("Locks", &[]);
        document.fact("ratio", "of `_ZL5mutex`");
        document.refusal("class", "not known");
        let rows = [1, u64::MAX, 3];
        let table = Rows::new("locks", "most first", &rows, 2)
            .column("lock", Unit::Id, 0, "", |&n| Cell::from(n).to(Go::Lock(0xabc)))
            .column("never", Unit::Ns, 1, "", |_| None::<i64>)
            .column("share", Unit::Ratio, 0, "of all", |&n| 1.0 / (n as f64));
        document.table(table);
        let rows = [7, 8];
        document.table(
            Rows::new("", "", &rows, 2)
                .column("thread", Unit::Id, 0, "", |&tid| Cell::from(tid).to(Go::Thread(tid))),
        );
        let classes = [("work", 3), ("lock_wait", 1)];
        let classes = classes.map(|(class, ns)| ClassSum { class, ns, ..ClassSum::default() });
        document.table(Rows::new("", "", &[classes], 1).column(
            "bar",
            Unit::Word,
            0,
            "",
            |classes| Cell::of_classes(classes),
        ));
        document.table(Rows::new("empty", "", &[] as &[u32], 2));
        document.list("orders", "", ["a".to_owned()].into_iter(), 5);
        document.note("a remark");
        document.parts.push(Part::Chart(Chart {
            heading: "curve",
            flat_from: 1.0,
            series: vec![Series {
                name: "expected",
                points: vec![(1.0, 1.0), (2.0, 1.5), (4.0, 1.5)],
                ..Series::default()
            }],
            ..Chart::default()
        }));
        let thread = kasuri_model::Thread { tid: 7, ..kasuri_model::Thread::default() };
        let trace = Trace { threads: vec![thread], ..Trace::default() };
        let encoded = serde_json::to_value(encode(&document, &trace)).unwrap();
        let expected = serde_json::json!({"title": "Locks", "parts": [
            {"fact": ["ratio", "of `mutex`"]},
            {"refusal": ["class", "not known"]},
            {"table": {
                "caption": "locks: most first (the first 2 of 3)",
                "columns": [["lock", "", "id"], ["share", "of all", "ratio"]],
                "rows": [
                    [[1.0, {"lock": "0xabc"}], 1.0],
                    [["18446744073709551615", {"lock": "0xabc"}], 1.0 / u64::MAX as f64],
                ],
            }},
            // A thread that the recording has no rows of leads nowhere.
            {"table": {
                "caption": "",
                "columns": [["thread", "", "id"]],
                "rows": [[[7.0, {"thread": 0}]], [8.0]],
            }},
            {"table": {
                "caption": "",
                "columns": [["bar", "", "text"]],
                "rows": [["work 75.0 %, lock wait 25.0 %"]],
            }},
            {"list": {"caption": "orders", "items": ["a"]}},
            {"note": "a remark"},
            {"chart": {"caption": "curve", "x_title": "", "y_title": "", "series": [
                {"name": "expected", "points": [[1.0, 1.0], [2.0, 1.5]], "band": [], "style": "line"},
            ]}},
        ]});
        assert_eq!(encoded, expected);
    }
}
