//! Rows as columns, some thousand at a time.
use crate::column::{Column, Type};
use kasuri_model::{StrIx, Strings};

/// Some rows of a table.
#[derive(Debug)]
pub struct Batch<'s> {
    pub(crate) n_rows: usize,
    /// In the order of the table's columns.
    pub(crate) columns: Vec<Data<'s>>,
}

/// One column of a batch.
#[derive(Debug)]
pub struct Data<'s> {
    /// A value for each row; that of a missing one is 0 or "".
    pub values: Values,
    /// For each row whether there is a value; empty when the column's values cannot be missing.
    pub valid: Vec<bool>,
    words: Words<'s>,
}

/// Values of one type.
#[derive(Debug)]
pub enum Values {
    /// [`Type::BigInt`].
    BigInt(Vec<i64>),
    /// [`Type::Integer`].
    Integer(Vec<i32>),
    /// [`Type::Double`].
    Double(Vec<f64>),
    /// [`Type::Boolean`].
    Boolean(Vec<bool>),
    /// [`Type::Varchar`]: indices of [`Data::text`].
    Varchar(Vec<u32>),
}

/// The different texts of a column; they stay from batch to batch.
#[derive(Debug)]
struct Words<'s> {
    strings: &'s Strings,
    /// Number of each of the recording's strings + 1; 0: not met yet.
    of_string: Vec<u32>,
    all: Vec<Word>,
    made: std::collections::HashMap<Box<str>, u32>,
}

#[derive(Debug)]
enum Word {
    Of(StrIx),
    Fixed(&'static str),
    Made(Box<str>),
}

impl<'s> Batch<'s> {
    pub(crate) fn new(columns: &[Column], strings: &'s Strings) -> Batch<'s> {
        let data = |c: &Column| Data {
            values: match c.ty {
                Type::BigInt => Values::BigInt(Vec::new()),
                Type::Integer => Values::Integer(Vec::new()),
                Type::Double => Values::Double(Vec::new()),
                Type::Boolean => Values::Boolean(Vec::new()),
                Type::Varchar => Values::Varchar(Vec::new()),
            },
            valid: Vec::new(),
            words: Words {
                strings,
                of_string: Vec::new(),
                all: Vec::new(),
                made: std::collections::HashMap::new(),
            },
        };
        Batch { n_rows: 0, columns: columns.iter().map(data).collect() }
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The columns, in the order of the table's.
    pub fn columns(&self) -> &[Data<'s>] {
        &self.columns
    }

    pub(crate) fn clear(&mut self) {
        self.n_rows = 0;
        for column in &mut self.columns {
            column.valid.clear();
            match &mut column.values {
                Values::BigInt(v) => v.clear(),
                Values::Integer(v) => v.clear(),
                Values::Double(v) => v.clear(),
                Values::Boolean(v) => v.clear(),
                Values::Varchar(v) => v.clear(),
            }
        }
    }
}

impl Data<'_> {
    /// Whether row `row` has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.valid.get(row).copied().unwrap_or(true)
    }

    /// The text with this index.
    pub fn text(&self, index: u32) -> &str {
        match self.words.all.get(index as usize) {
            Some(Word::Of(ix)) => self.words.strings.get(*ix),
            Some(Word::Fixed(text)) => text,
            Some(Word::Made(text)) => text,
            None => "",
        }
    }

    /// Number of different texts so far; indices are below it, and keep their text from batch to batch.
    pub fn n_texts(&self) -> usize {
        self.words.all.len()
    }
}

impl Words<'_> {
    fn push(&mut self, word: Word) -> u32 {
        self.all.push(word);
        self.all.len() as u32 - 1
    }

    fn of(&mut self, ix: StrIx) -> u32 {
        // Strings that are not there read "", as everywhere.
        let at = if ix.ix() < self.strings.len() { ix.ix() + 1 } else { 0 };
        if self.of_string.is_empty() {
            self.of_string = vec![0; self.strings.len() + 1];
        }
        if self.of_string[at] == 0 {
            self.of_string[at] = self.push(Word::Of(ix)) + 1;
        }
        self.of_string[at] - 1
    }

    fn fixed(&mut self, text: &'static str) -> u32 {
        // The words of an enumeration: few.
        let known = |w: &Word| matches!(w, Word::Fixed(t) if std::ptr::eq(*t, text));
        match self.all.iter().position(known) {
            Some(at) => at as u32,
            None => self.push(Word::Fixed(text)),
        }
    }

    fn made(&mut self, text: String) -> u32 {
        if let Some(&at) = self.made.get(text.as_str()) {
            return at;
        }
        let text = text.into_boxed_str();
        let at = self.push(Word::Made(text.clone()));
        self.made.insert(text, at);
        at
    }
}

/// A text on its way into a column.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    /// One of the recording's strings.
    Name(StrIx),
    /// One of the few words of an enumeration.
    Word(&'static str),
    /// Any other.
    Made(String),
}

impl Default for Text {
    fn default() -> Text {
        Text::Word("")
    }
}

impl From<StrIx> for Text {
    fn from(ix: StrIx) -> Text {
        Text::Name(ix)
    }
}

impl From<&'static str> for Text {
    fn from(word: &'static str) -> Text {
        Text::Word(word)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Made(text)
    }
}

/// A value that a column can hold.
pub(crate) trait Cell {
    const TYPE: Type;
    const NULLABLE: bool = false;
    fn put(self, column: &mut Data<'_>);
}

macro_rules! cell {
    ($($rust:ty => $variant:ident),+) => {$(
        impl Cell for $rust {
            const TYPE: Type = Type::$variant;
            fn put(self, column: &mut Data<'_>) {
                if let Values::$variant(values) = &mut column.values {
                    values.push(self);
                }
            }
        }

        impl Cell for Option<$rust> {
            const TYPE: Type = Type::$variant;
            const NULLABLE: bool = true;
            fn put(self, column: &mut Data<'_>) {
                column.valid.push(self.is_some());
                self.unwrap_or_default().put(column);
            }
        }
    )+};
}
cell!(i64 => BigInt, i32 => Integer, f64 => Double, bool => Boolean);

impl Cell for Text {
    const TYPE: Type = Type::Varchar;
    fn put(self, column: &mut Data<'_>) {
        let at = match self {
            Text::Name(ix) => column.words.of(ix),
            Text::Word(word) => column.words.fixed(word),
            Text::Made(text) => column.words.made(text),
        };
        if let Values::Varchar(values) = &mut column.values {
            values.push(at);
        }
    }
}

impl Cell for Option<Text> {
    const TYPE: Type = Type::Varchar;
    const NULLABLE: bool = true;
    fn put(self, column: &mut Data<'_>) {
        column.valid.push(self.is_some());
        self.unwrap_or(Text::Word("")).put(column);
    }
}
