//! pprof's profile.proto: stacks with values, as Go's runtime, gperftools, py-spy, async-profiler and many services write it.
//!
//! Field numbers are those of github.com/google/pprof, proto/profile.proto. A profile is one message; its tables refer to each other by
//! ids that may be any numbers, and to texts by their position. [`Profile::parse`] turns ids into rows, so that what it returns refers only to what
//! is there. Profiles are packed with gzip as a rule; the caller unpacks them.
//!
//! Memory is at most some 20 bytes for each byte of the file: the smallest sample has 4 bytes.
use crate::perfetto::wire::{Field, Message, Value};
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// What messages call the file.
const WHAT: &str = "pprof profile";
/// Errors that salvaging keeps: a file of noise has one for each sample.
const ERRORS_MAX: usize = 100;

/// A text: its row in [`Profile::texts`].
pub type Text = u32;

/// A profile whose references are rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile<'a> {
    /// The texts that all others name by their position.
    pub texts: Vec<Cow<'a, str>>,
    /// What each value of a sample is.
    pub types: Vec<ValueType>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Values of samples, as many for each as there are types.
    pub values: Vec<i64>,
    /// Rows of `locations`, innermost first ([`Sample::stack`]).
    pub stacks: Vec<u32>,
    /// Labels of samples ([`Sample::labels`]).
    pub labels: Vec<Label>,
    /// Programs and libraries; the first is the program as a rule.
    pub mappings: Vec<Mapping>,
    /// Places in the code.
    pub locations: Vec<Location>,
    /// Lines of locations ([`Location::lines`]).
    pub lines: Vec<Line>,
    /// Functions.
    pub functions: Vec<Function>,
    /// When it began, ns since 1970; 0: not known.
    pub time_ns: i64,
    /// Its length, ns; 0: not known.
    pub duration_ns: i64,
    /// What lies between two samples.
    pub period_type: Option<ValueType>,
    /// How much of it; 0: not known.
    pub period: i64,
    /// Remarks.
    pub comments: Vec<Text>,
}

/// A kind of value with its unit: `cpu` in `nanoseconds`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueType {
    /// The kind.
    pub of: Text,
    /// The unit.
    pub unit: Text,
}

/// A stack with values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// Place in the file.
    pub offset: u64,
    /// Rows of [`Profile::stacks`].
    pub stack: Range<u32>,
    /// Rows of [`Profile::labels`].
    pub labels: Range<u32>,
}

/// What else is known of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Label {
    /// Its name.
    pub key: Text,
    /// Its text; empty: it is a number.
    pub text: Text,
    /// Its number.
    pub num: i64,
}

/// A program or library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    /// Path.
    pub file: Text,
    /// Build-id as text; empty: not known.
    pub build_id: Text,
}

/// A place in the code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Location {
    /// Row of [`Profile::mappings`].
    pub mapping: Option<u32>,
    /// Address; 0: not known.
    pub address: u64,
    /// Rows of [`Profile::lines`]: what was inlined, innermost first, and last the function that holds it. Empty: no name is known.
    pub lines: Range<u32>,
}

/// A function at a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// Row of [`Profile::functions`]; none: not known.
    pub function: Option<u32>,
    /// Line in its file; 0 or less: not known.
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Function {
    /// Name for people.
    pub name: Text,
    /// Name as the linker or the runtime has it; empty: not known.
    pub system_name: Text,
    /// Source file; empty: not known.
    pub file: Text,
}

/// Whether the bytes begin as a profile: fields that it may have, and among the first of them a kind of value, which is a message of two small
/// numbers. (Perfetto's traces begin with the same tag, but none of their packets has numbers in these fields.)
pub fn is(bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 8;
    let mut file = Message::new(bytes, 0);
    for _ in 0..LOOKED_AT {
        let Ok(Some(field)) = file.next_field() else {
            return false;
        };
        match (field.number, field.value) {
            (1 | 11, Value::Bytes(_)) => return is_value_type(field.message()),
            (2..=6 | 13, Value::Bytes(_)) | (7..=10 | 12..=15, Value::Varint(_)) => {}
            _ => return false,
        }
    }
    false
}

fn is_value_type(mut message: Message<'_>) -> bool {
    let mut n_fields = 0;
    loop {
        match message.next_field() {
            Ok(Some(field)) if matches!((field.number, field.value), (1 | 2, Value::Varint(_))) => {
                n_fields += 1;
            }
            Ok(None) => return (1..=2).contains(&n_fields),
            _ => return false,
        }
    }
}

impl<'a> Profile<'a> {
    /// A text; "" where there is none.
    pub fn text(&self, row: Text) -> &str {
        self.texts.get(row as usize).map_or("", |text| text)
    }

    /// Reads an unpacked profile.
    ///
    /// # Errors
    /// A message that is damaged or refers to what is not there, with its offset.
    pub fn parse(bytes: &'a [u8]) -> Result<Profile<'a>> {
        match Profile::salvage(bytes) {
            (profile, None, _) => Ok(profile),
            (_, Some(error), _) => Err(error),
        }
    }

    /// Reads what is whole: samples that are damaged or refer to what is not there are left out. Gives the first error, and all of them up to a bound.
    pub fn salvage(bytes: &'a [u8]) -> (Profile<'a>, Option<Error>, Vec<Error>) {
        let mut reader = Reader::default();
        reader.messages(bytes);
        reader.tables();
        reader.samples();
        let first = reader.errors.first().cloned();
        (reader.out, first, reader.errors)
    }
}

/// Rows by id, and those that were asked for in vain.
type Ids = HashMap<u64, u32>;

#[derive(Default)]
struct Reader<'a> {
    out: Profile<'a>,
    /// Messages of the tables, in the file's order: texts may come last.
    types: Vec<Message<'a>>,
    samples: Vec<Message<'a>>,
    mappings: Vec<Message<'a>>,
    locations: Vec<Message<'a>>,
    functions: Vec<Message<'a>>,
    period_type: Option<Message<'a>>,
    comments: Vec<(u64, u64)>,
    location_ids: Ids,
    errors: Vec<Error>,
}

impl<'a> Reader<'a> {
    fn fail(&mut self, error: Error) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    /// Finds the messages, up to the first damaged field.
    fn messages(&mut self, bytes: &'a [u8]) {
        let mut file = Message::new(bytes, 0);
        loop {
            let field = match file.next_field() {
                Ok(Some(field)) => field,
                Ok(None) => return,
                Err(error) => return self.fail(error),
            };
            match field.number {
                1 => self.types.push(field.message()),
                2 => self.samples.push(field.message()),
                3 => self.mappings.push(field.message()),
                4 => self.locations.push(field.message()),
                5 => self.functions.push(field.message()),
                6 => self.out.texts.push(field.text()),
                9 => self.out.time_ns = field.i64(),
                10 => self.out.duration_ns = field.i64(),
                11 => self.period_type = Some(field.message()),
                12 => self.out.period = field.i64(),
                13 => self.comments.extend(field.numbers().map(|ix| (ix, field.offset))),
                _ => {}
            }
        }
    }

    /// Calls `each` with the fields of a message; whether it is whole.
    fn fields(
        &mut self,
        mut message: Message<'a>,
        mut each: impl FnMut(&mut Self, &Field<'a>) -> Result<()>,
    ) -> bool {
        loop {
            let done = match message.next_field() {
                Ok(None) => return true,
                Ok(Some(field)) => each(self, &field),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.fail(error);
                return false;
            }
        }
    }

    fn text(&self, field: &Field<'a>) -> Result<Text> {
        self.text_at(field.u64(), field.offset)
    }

    fn text_at(&self, row: u64, offset: u64) -> Result<Text> {
        let n = self.out.texts.len();
        let is_there = row < n as u64 || row == 0;
        let wrong =
            || Error::damaged(WHAT, offset, format!("text {row}"), format!("one of {n} texts"));
        u32::try_from(row).ok().filter(|_| is_there).ok_or_else(wrong)
    }

    fn value_type(&mut self, message: Message<'a>) -> ValueType {
        let mut out = ValueType::default();
        self.fields(message, |reader, field| {
            match field.number {
                1 => out.of = reader.text(field)?,
                2 => out.unit = reader.text(field)?,
                _ => {}
            }
            Ok(())
        });
        out
    }

    /// Everything but the samples.
    fn tables(&mut self) {
        for message in std::mem::take(&mut self.types) {
            let of = self.value_type(message);
            self.out.types.push(of);
        }
        self.out.period_type = self.period_type.map(|message| self.value_type(message));
        for (row, offset) in std::mem::take(&mut self.comments) {
            match self.text_at(row, offset) {
                Ok(text) => self.out.comments.push(text),
                Err(error) => self.fail(error),
            }
        }
        let (mut mapping_ids, mut function_ids) = (Ids::new(), Ids::new());
        for message in std::mem::take(&mut self.mappings) {
            let id = self.mapping(message);
            let row = self.out.mappings.len() as u32 - 1;
            self.name("mapping", id, row, message.offset(), &mut mapping_ids);
        }
        for message in std::mem::take(&mut self.functions) {
            let id = self.function(message);
            let row = self.out.functions.len() as u32 - 1;
            self.name("function", id, row, message.offset(), &mut function_ids);
        }
        let mut location_ids = Ids::new();
        for message in std::mem::take(&mut self.locations) {
            let id = self.location(message, &mapping_ids, &function_ids);
            let row = self.out.locations.len() as u32 - 1;
            self.name("location", id, row, message.offset(), &mut location_ids);
        }
        self.location_ids = location_ids;
    }

    /// Notes a row's id.
    fn name(&mut self, what: &str, id: u64, row: u32, offset: u64, ids: &mut Ids) {
        if id == 0 || ids.insert(id, row).is_some() {
            let needed = "a number above 0, once";
            self.fail(Error::damaged(WHAT, offset, format!("{what} id {id}"), needed));
        }
    }

    fn mapping(&mut self, message: Message<'a>) -> u64 {
        let (mut id, mut out) = (0, Mapping::default());
        self.fields(message, |reader, field| {
            match field.number {
                1 => id = field.u64(),
                5 => out.file = reader.text(field)?,
                6 => out.build_id = reader.text(field)?,
                _ => {}
            }
            Ok(())
        });
        self.out.mappings.push(out);
        id
    }

    fn function(&mut self, message: Message<'a>) -> u64 {
        let (mut id, mut out) = (0, Function::default());
        self.fields(message, |reader, field| {
            match field.number {
                1 => id = field.u64(),
                2 => out.name = reader.text(field)?,
                3 => out.system_name = reader.text(field)?,
                4 => out.file = reader.text(field)?,
                _ => {}
            }
            Ok(())
        });
        self.out.functions.push(out);
        id
    }

    fn location(&mut self, message: Message<'a>, mappings: &Ids, functions: &Ids) -> u64 {
        let (mut id, mut out) = (0, Location::default());
        let first = self.out.lines.len() as u32;
        self.fields(message, |reader, field| {
            match field.number {
                1 => id = field.u64(),
                2 => out.mapping = row_of("mapping", field, mappings)?,
                3 => out.address = field.u64(),
                4 => reader.out.lines.push(line(field.message(), functions)?),
                _ => {}
            }
            Ok(())
        });
        out.lines = first..self.out.lines.len() as u32;
        self.out.locations.push(out);
        id
    }

    fn label(&self, mut message: Message<'a>) -> Result<Label> {
        let mut out = Label::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => out.key = self.text(&field)?,
                2 => out.text = self.text(&field)?,
                3 => out.num = field.i64(),
                _ => {}
            }
        }
        Ok(out)
    }

    fn samples(&mut self) {
        for message in std::mem::take(&mut self.samples) {
            let before = [self.out.stacks.len(), self.out.values.len(), self.out.labels.len()];
            let is_whole = self.sample(message);
            let n_values = self.out.values.len() - before[1];
            if is_whole && n_values == self.out.types.len() {
                self.out.samples.push(Sample {
                    offset: message.offset(),
                    stack: before[0] as u32..self.out.stacks.len() as u32,
                    labels: before[2] as u32..self.out.labels.len() as u32,
                });
                continue;
            }
            if is_whole {
                let needed = format!("{}, one for each sample type", self.out.types.len());
                self.fail(Error::damaged(
                    WHAT,
                    message.offset(),
                    format!("{n_values} values of a sample"),
                    needed,
                ));
            }
            self.out.stacks.truncate(before[0]);
            self.out.values.truncate(before[1]);
            self.out.labels.truncate(before[2]);
        }
    }

    /// Adds the parts of a sample; whether all are whole.
    fn sample(&mut self, message: Message<'a>) -> bool {
        self.fields(message, |reader, field| {
            match field.number {
                1 => {
                    for id in whole_numbers(field)? {
                        let row = row_in("location", id, field.offset, &reader.location_ids)?;
                        reader.out.stacks.push(row);
                    }
                }
                2 => reader
                    .out
                    .values
                    .extend(whole_numbers(field)?.into_iter().map(|value| value as i64)),
                3 => {
                    let label = reader.label(field.message())?;
                    reader.out.labels.push(label);
                }
                _ => {}
            }
            Ok(())
        })
    }
}

/// The numbers of a repeated field, of which none is cut or too long.
fn whole_numbers(field: &Field<'_>) -> Result<Vec<u64>> {
    let numbers: Vec<u64> = field.numbers().collect();
    let bytes = field.bytes();
    let n_ends = bytes.iter().filter(|&&byte| byte < 0x80).count();
    let is_cut = bytes.last().is_some_and(|&byte| byte >= 0x80);
    if is_cut || (!bytes.is_empty() && n_ends != numbers.len()) {
        let found = "a number that is cut or too long";
        return Err(Error::damaged(WHAT, field.offset, found, "numbers of up to 10 bytes"));
    }
    Ok(numbers)
}

fn line(mut message: Message<'_>, functions: &Ids) -> Result<Line> {
    let mut out = Line::default();
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => out.function = row_of("function", &field, functions)?,
            2 => out.line = field.i64(),
            _ => {}
        }
    }
    Ok(out)
}

/// The row that a field names; none for id 0.
fn row_of(what: &str, field: &Field<'_>, ids: &Ids) -> Result<Option<u32>> {
    match field.u64() {
        0 => Ok(None),
        id => row_in(what, id, field.offset, ids).map(Some),
    }
}

fn row_in(what: &str, id: u64, offset: u64, ids: &Ids) -> Result<u32> {
    let wrong =
        || Error::damaged(WHAT, offset, format!("{what} id {id}"), "one that is in the profile");
    ids.get(&id).copied().ok_or_else(wrong)
}
