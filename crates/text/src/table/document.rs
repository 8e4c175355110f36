//! A document as text: facts with their labels at the left, tables that fit the screen, curves in letters.
use super::account::small_bar;
use super::grid::{Column, Grid, number, sentence, text, word};
use super::units::{count, duration, percent, printable};
use super::{Layout, Page};
use crate::chart::letters;
use kasuri_answers::document::{Cell, Document, List, Part, Table, Title, Unit, Value};

/// The document as text, ending with a line feed.
pub fn render(document: &Document, layout: &Layout) -> String {
    let mut page = Page { layout, text: String::new() };
    match &document.title {
        Title::Command(command) => page.title(command),
        Title::Line(line) => {
            for line in super::wrap(&printable(line), layout.width.max(20)) {
                let line = page.styled("1", &line);
                page.line(&line);
            }
        }
    }
    page.parts(document);
    page.text
}

impl Page<'_> {
    /// All but the title.
    pub(super) fn parts(&mut self, document: &Document) {
        document.parts.iter().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Fact(label, text) | Part::Refusal(label, text) => {
                self.fact(label, &printable(text));
            }
            Part::Table(table) => self.values(table),
            Part::List(list) => self.list(list),
            Part::Chart(chart) => {
                self.heading(chart.heading, &letters::legend(chart));
                for line in letters::picture(chart, self.layout.width) {
                    self.line(&line);
                }
            }
            Part::Note(text) => self.note(&printable(text)),
        }
    }

    fn values(&mut self, table: &Table) {
        if !table.heading.is_empty() {
            self.heading(&table.heading, &table.note);
        }
        let columns: Vec<Column> = table.columns.iter().map(column).collect();
        let mut grid = Grid::new(&columns);
        for row in &table.rows {
            let cells = row.iter().zip(&table.columns);
            grid.row(cells.map(|(cell, column)| in_unit(cell, column.unit)));
        }
        self.grid(grid, table.rows.len(), table.all);
    }

    fn list(&mut self, list: &List) {
        if !list.heading.is_empty() {
            self.heading(list.heading, &list.note);
        } else if !list.note.is_empty() {
            self.note(&list.note);
        }
        for item in &list.items {
            item.lines().for_each(|line| self.item(&printable(line)));
        }
        if list.items.len() < list.all {
            let more = list.all - list.items.len();
            self.item(&format!("... and {more} more (--top 0 shows all)"));
        }
    }
}

fn column(of: &kasuri_answers::document::Column) -> Column {
    let heading = of.heading.to_uppercase();
    match of.unit {
        Unit::Text => text(heading),
        Unit::Sentence => sentence(heading),
        Unit::Word => word(heading, of.goes),
        Unit::Id | Unit::Count | Unit::Ns | Unit::Ratio | Unit::Factor | Unit::Number => {
            number(heading, of.goes)
        }
    }
}

pub(crate) fn in_unit(cell: &Cell, unit: Unit) -> String {
    let number = match &cell.value {
        Value::None => return "-".into(),
        Value::Text(text) => return text.clone(),
        Value::Classes(classes) => return small_bar(classes),
        Value::Whole(id) if unit == Unit::Id => return id.to_string(),
        Value::Whole(number) => *number as f64,
        Value::Number(number) => *number,
    };
    match unit {
        Unit::Count => count(number as u64),
        Unit::Ns => duration(number),
        Unit::Ratio => percent(number),
        Unit::Factor => format!("{number:.2}x"),
        Unit::Number => format!("{number:.2}"),
        Unit::Id | Unit::Text | Unit::Word | Unit::Sentence => format!("{number}"),
    }
}
