//! How many kernel events of each kind bundles hold, whether anybody reads them or not.
//!
//! Most events are messages of a type of their own, whose field number is the kind ([`super::names::ftrace`]). Those that Perfetto
//! has no type for are *generic*: they bring their name, or, from newer writers, a number that a description in some bundle of the trace
//! gives a name to (`generic_event_descriptors`).
use super::ftrace::{Bundle, COMPACT, DESCRIPTOR, EVENT, GENERIC, is_kind};
use super::names;
use super::wire::Message;
use crate::Result;
use std::collections::BTreeMap;

/// Kinds with small numbers are counted in an array.
const SMALL: u32 = 1024;
/// Most other kinds that are told apart. More than any kernel known to us has; a file of noise must not fill the memory.
const MAX_KINDS: usize = 4096;
/// Most bytes of a name.
const MAX_NAME: usize = 100;

/// Numbers of events by kind.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    small: Vec<u64>,
    large: BTreeMap<u32, u64>,
    generic: BTreeMap<Vec<u8>, u64>,
    /// Names of large numbers.
    described: BTreeMap<u32, Vec<u8>>,
    /// Events of kinds for which there was no room.
    rest: u64,
}

impl EventCounts {
    /// Adds the events of a bundle. What is counted before damage stays counted.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn add(&mut self, bundle: &Bundle<'_>) -> Result<()> {
        let mut fields = bundle.fields();
        while let Some(field) = fields.next_field()? {
            match field.number {
                EVENT => self.event(field.message())?,
                COMPACT => self.compact(field.message())?,
                DESCRIPTOR => self.describe(field.message())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The number of events of the kind with this number.
    pub fn of(&self, number: u32) -> u64 {
        let small = self.small.get(number as usize).copied();
        small.unwrap_or_else(|| self.large.get(&number).copied().unwrap_or(0))
    }

    /// All kinds that there are, by name: the kind's number, 0 for generic ones, and the number of events.
    pub fn kinds(&self) -> Vec<(String, u32, u64)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let small = (0u32..).zip(self.small.iter().copied());
        let large = self.large.iter().map(|(number, n)| (*number, *n));
        let numbered = small.chain(large).map(|(number, n)| {
            let name = match (self.described.get(&number), names::ftrace(number)) {
                (Some(name), _) => text(name),
                (None, "") => format!("kernel event {number}"),
                (None, name) => name.to_owned(),
            };
            (name, number, n)
        });
        let generic = self.generic.iter().map(|(name, n)| (text(name), 0, *n));
        let rest = ("kernel events of other kinds".to_owned(), 0, self.rest);
        let mut kinds: Vec<_> = numbered.chain(generic).chain([rest]).collect();
        kinds.retain(|(_, _, n)| *n > 0);
        kinds.sort();
        kinds
    }

    fn count(&mut self, number: u32, n: u64) {
        if number < SMALL {
            let len = self.small.len().max(number as usize + 1);
            self.small.resize(len, 0);
            self.small[number as usize] += n;
        } else if let Some(count) = self.large.get_mut(&number) {
            *count += n;
        } else if self.large.len() < MAX_KINDS {
            self.large.insert(number, n);
        } else {
            self.rest += n;
        }
    }

    fn event(&mut self, mut event: Message<'_>) -> Result<()> {
        let mut kind = 0;
        while let Some(field) = event.next_field()? {
            if !is_kind(field.number) {
                continue;
            }
            if field.number == GENERIC {
                return self.generic(field.message());
            }
            kind = field.number;
        }
        // An event without a message has nothing but a stamp.
        self.count(kind, 1);
        Ok(())
    }

    fn generic(&mut self, mut event: Message<'_>) -> Result<()> {
        while let Some(field) = event.next_field()? {
            if field.number == 1 {
                let name = &field.bytes()[..field.bytes().len().min(MAX_NAME)];
                if let Some(count) = self.generic.get_mut(name) {
                    *count += 1;
                } else if self.generic.len() < MAX_KINDS {
                    self.generic.insert(name.to_owned(), 1);
                } else {
                    self.rest += 1;
                }
                return Ok(());
            }
        }
        self.count(GENERIC, 1);
        Ok(())
    }

    /// Compact switches and wake-ups: as many as there are stamps.
    fn compact(&mut self, mut columns: Message<'_>) -> Result<()> {
        while let Some(field) = columns.next_field()? {
            match field.number {
                1 => self.count(4, field.numbers().count() as u64),
                7 => self.count(20, field.numbers().count() as u64),
                _ => {}
            }
        }
        Ok(())
    }

    /// A description: the number, and a `DescriptorProto` whose name (field 1) is the event's.
    fn describe(&mut self, mut description: Message<'_>) -> Result<()> {
        let (mut number, mut name) = (0, &[][..]);
        while let Some(field) = description.next_field()? {
            match field.number {
                1 => number = field.u32(),
                2 => {
                    let mut parts = field.message();
                    while let Some(part) = parts.next_field()? {
                        if part.number == 1 {
                            name = part.bytes();
                        }
                    }
                }
                _ => {}
            }
        }
        // Small numbers are Perfetto's own and keep their names.
        if self.described.len() < MAX_KINDS && number >= SMALL && !name.is_empty() {
            let name = name[..name.len().min(MAX_NAME)].to_owned();
            self.described.insert(number, name);
        }
        Ok(())
    }
}
