//! Format files (`events/SYSTEM/EVENT/format`): what the bytes of one event type mean.
//!
//! Nothing is known in advance: ids, offsets and sizes differ between kernels and machines.
use crate::meta::KernelMeta;
use crate::{Error, Result};

/// Location and encoding of a field's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// One number of `size` (1, 2, 4 or 8) bytes.
    Int,
    /// `count` numbers of `elem` (2, 4 or 8) bytes each.
    Ints {
        /// Bytes of one.
        elem: u32,
        /// Number of elements.
        count: u32,
    },
    /// `size` bytes: text cut at its first NUL, or an address, or a struct.
    Bytes,
    /// A u32 that says where the bytes are: `offset | length << 16` from the start of the event.
    DataLoc,
    /// The same, the offset counted from the end of this field.
    RelLoc,
    /// All bytes from `offset` to the end of the event, which is padded to 4.
    Tail,
}

/// One field of an event type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its C type, without name and array bounds.
    pub type_name: String,
    /// Bytes from the start of the event.
    pub offset: u32,
    /// Bytes; 0: see [`FieldKind::Tail`].
    pub size: u32,
    /// Whether numbers are signed.
    pub signed: bool,
    /// The way in which it is read.
    pub kind: FieldKind,
}

impl Field {
    /// Whether its values are numbers.
    pub fn is_int(&self) -> bool {
        matches!(self.kind, FieldKind::Int | FieldKind::Ints { .. })
    }

    /// Numbers in one row: 1, for arrays their length, 0 for bytes.
    pub fn width(&self) -> usize {
        match self.kind {
            FieldKind::Int => 1,
            FieldKind::Ints { count, .. } => count as usize,
            _ => 0,
        }
    }

    /// Element `ix` of this field of an event; `None`: the event is too short.
    pub fn int(&self, event: &[u8], ix: usize, big_endian: bool) -> Option<i64> {
        let elem = match self.kind {
            FieldKind::Ints { elem, .. } => elem as usize,
            _ => self.size as usize,
        };
        let at = self.offset as usize + ix * elem;
        let value = crate::bytes::uint(event.get(at..at + elem)?, big_endian);
        let unused = 64 - 8 * elem.clamp(1, 8) as u32;
        Some(if self.signed { (value as i64) << unused >> unused } else { value as i64 })
    }

    /// The bytes of this field of an event; `None`: they are not inside the event.
    pub fn bytes<'a>(&self, event: &'a [u8], big_endian: bool) -> Option<&'a [u8]> {
        let at = self.offset as usize;
        if self.kind == FieldKind::Tail {
            return event.get(at..);
        }
        let own = event.get(at..at + self.size as usize)?;
        let base = match self.kind {
            FieldKind::DataLoc => 0,
            FieldKind::RelLoc => at + self.size as usize,
            _ => return Some(own),
        };
        let loc = crate::bytes::uint(own, big_endian) as usize;
        let from = base + (loc & 0xffff);
        event.get(from..from + (loc >> 16 & 0xffff))
    }
}

/// One event type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat {
    /// `system/event`.
    pub name: String,
    /// The number in the first field of its events, on the machine that recorded.
    pub id: u16,
    /// In the order of the format file; the common fields first.
    pub fields: Vec<Field>,
    /// Bytes up to the end of the last fixed field: no event of the type is shorter.
    pub fixed_bytes: u32,
    /// The `print fmt:` line: names of flags and states stand here.
    pub print_fmt: String,
}

const FIELDS_MAX: usize = 512;
const EVENT_BYTES_MAX: u32 = 1 << 16;

impl EventFormat {
    /// Reads a format file; `name` is `system/event`.
    ///
    /// # Errors
    /// When there is no `ID:`, or a `field:` line is not understood. Other lines are ignored.
    pub fn parse(name: &str, text: &str) -> Result<EventFormat> {
        let mut out = EventFormat::empty(name);
        let mut id = None;
        let mut offset = 0u64;
        for line in text.split_inclusive('\n') {
            let bad = |found: &str, needed: &'static str| {
                let what = format!("format of {name}");
                Error::damaged(what, offset, format!("{:?}", clip(found)), needed)
            };
            let trimmed = line.trim();
            if let Some(number) = trimmed.strip_prefix("ID:") {
                id = Some(
                    number.trim().parse().map_err(|_| bad(trimmed, "a number from 0 to 65535"))?,
                );
            } else if let Some(field) = trimmed.strip_prefix("field:") {
                let field = parse_field(field)
                    .ok_or_else(|| bad(trimmed, "TYPE NAME; offset:N; size:N; signed:N;"))?;
                if out.fields.len() == FIELDS_MAX {
                    return Err(bad("more fields", "at most 512 fields"));
                }
                out.fixed_bytes = out.fixed_bytes.max(field.offset + field.size);
                out.fields.push(field);
            } else if let Some(fmt) = trimmed.strip_prefix("print fmt:") {
                out.print_fmt = fmt.trim().to_owned();
            }
            offset += line.len() as u64;
        }
        out.id = id.ok_or_else(|| {
            Error::damaged(format!("format of {name}"), offset, "no ID line", "ID: N")
        })?;
        Ok(out)
    }

    fn empty(name: &str) -> EventFormat {
        EventFormat {
            name: name.to_owned(),
            id: 0,
            fields: Vec::new(),
            fixed_bytes: 0,
            print_fmt: String::new(),
        }
    }

    /// Index of a field.
    pub fn find(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == field)
    }
}

fn clip(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(at, _)| &text[..at])
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;`
fn parse_field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts {
        if let Some((key, value)) = part.split_once(':') {
            let value: u32 = value.trim().parse().ok()?;
            match key.trim() {
                "offset" => offset = Some(value),
                "size" => size = Some(value),
                "signed" => signed = Some(value != 0),
                _ => {}
            }
        }
    }
    let (offset, size) = (offset?, size?);
    if offset.checked_add(size)? > EVENT_BYTES_MAX {
        return None;
    }
    let declaration = Declaration::parse(declaration)?;
    let kind = declaration.kind(size)?;
    // Kernels before 2.6.38 have no `signed:`; their text says it well enough.
    let signed = signed
        .unwrap_or(declaration.type_name.contains("int") && !declaration.type_name.contains('u'));
    Some(Field {
        name: declaration.name.into(),
        type_name: declaration.type_name.into(),
        offset,
        size,
        signed,
        kind,
    })
}

struct Declaration<'a> {
    location: Option<FieldKind>,
    type_name: &'a str,
    name: &'a str,
    /// `Some(None)`: an array whose bounds are no plain number.
    array: Option<Option<u32>>,
}

impl<'a> Declaration<'a> {
    /// `__data_loc char[] filename`, `unsigned long args[6]`, `const char * name`, `u8 buf[N * 2]`.
    fn parse(text: &'a str) -> Option<Declaration<'a>> {
        let (location, text) = if let Some(rest) = text.strip_prefix("__data_loc ") {
            (Some(FieldKind::DataLoc), rest)
        } else if let Some(rest) = text.strip_prefix("__rel_loc ") {
            (Some(FieldKind::RelLoc), rest)
        } else {
            (None, text)
        };
        let (text, array) = match text.trim().strip_suffix(']') {
            Some(open) => {
                let (before, bounds) = open.rsplit_once('[')?;
                (before.trim_end(), Some(bounds.trim().parse().ok()))
            }
            None => (text.trim(), None),
        };
        // Not `rfind` and one more: a separator may have several bytes.
        let is_separator = |c: char| c.is_whitespace() || c == '*';
        let name = text.rsplit(is_separator).next().unwrap_or_default();
        let start = text.len() - name.len();
        (!name.is_empty()).then_some(Declaration {
            location,
            type_name: text[..start].trim(),
            name,
            array,
        })
    }

    fn kind(&self, size: u32) -> Option<FieldKind> {
        if let Some(location) = self.location {
            return (size == 4).then_some(location);
        }
        Some(match (self.array, size) {
            (_, 0) => FieldKind::Tail,
            (None, 1 | 2 | 4 | 8) => FieldKind::Int,
            (Some(Some(count)), _)
                if count > 0 && matches!(size / count, 2 | 4 | 8) && size.is_multiple_of(count) =>
            {
                FieldKind::Ints { elem: size / count, count }
            }
            _ => FieldKind::Bytes,
        })
    }
}

/// Name of the last type of every [`EventTable`]: events whose id no format file has.
pub const UNKNOWN_EVENT: &str = "kasuri/unknown";

/// The event types of one recording: those of its format files by name, then [`UNKNOWN_EVENT`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTable {
    types: Vec<EventFormat>,
    by_id: Vec<u16>,
}

impl EventTable {
    /// Reads all format files of a recording.
    ///
    /// # Errors
    /// The first format that is not understood.
    pub fn from_meta(kernel: &KernelMeta) -> Result<EventTable> {
        let types = kernel.formats.iter().map(|(name, text)| EventFormat::parse(name, text));
        Ok(EventTable::new(types.collect::<Result<_>>()?))
    }

    /// As [`EventTable::from_meta`]; a format that is not understood keeps its place in the table, without
    /// fields, and its events become [`UNKNOWN_EVENT`].
    pub fn salvage(kernel: &KernelMeta) -> (EventTable, Vec<Error>) {
        let mut errors = Vec::new();
        let mut missing = Vec::new();
        let mut types = Vec::new();
        for (name, text) in &kernel.formats {
            types.push(EventFormat::parse(name, text).unwrap_or_else(|error| {
                errors.push(error);
                missing.push(types.len());
                EventFormat::empty(name)
            }));
        }
        let mut table = EventTable::new(types);
        let unknown = table.unknown();
        for id in &mut table.by_id {
            if missing.contains(&usize::from(*id)) {
                *id = unknown;
            }
        }
        (table, errors)
    }

    /// Puts types together; at most 60,000 are kept.
    pub fn new(mut types: Vec<EventFormat>) -> EventTable {
        types.truncate(60_000);
        let unknown = types.len() as u16;
        types.push(unknown_format());
        let n_ids = types[..usize::from(unknown)].iter().map(|t| usize::from(t.id) + 1).max();
        let mut by_id = vec![unknown; n_ids.unwrap_or(0)];
        for (ix, format) in types[..usize::from(unknown)].iter().enumerate() {
            by_id[usize::from(format.id)] = ix as u16;
        }
        EventTable { types, by_id }
    }

    /// All types; an event's type is an index into this.
    pub fn types(&self) -> &[EventFormat] {
        &self.types
    }

    /// The type with this name: `sched/sched_switch`.
    pub fn find(&self, name: &str) -> Option<u16> {
        self.types.iter().position(|t| t.name == name).map(|ix| ix as u16)
    }

    /// The type of an event id; the index of [`UNKNOWN_EVENT`] for others.
    pub fn by_id(&self, id: u16) -> u16 {
        let unknown = self.unknown();
        self.by_id.get(usize::from(id)).copied().unwrap_or(unknown)
    }

    /// The index of [`UNKNOWN_EVENT`].
    pub fn unknown(&self) -> u16 {
        (self.types.len() - 1) as u16
    }
}

/// The id, and all bytes of the event with it.
fn unknown_format() -> EventFormat {
    let field = |name: &str, size, kind| Field {
        name: name.into(),
        type_name: String::new(),
        offset: 0,
        size,
        signed: false,
        kind,
    };
    EventFormat {
        name: UNKNOWN_EVENT.into(),
        id: 0,
        fields: vec![field("common_type", 2, FieldKind::Int), field("raw", 0, FieldKind::Tail)],
        fixed_bytes: 2,
        print_fmt: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str) -> Option<Field> {
        parse_field(line.trim().strip_prefix("field:")?)
    }

    #[test]
    fn declarations_of_every_shape() {
        let f = field("\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind, f.offset), ("prev_comm", FieldKind::Bytes, 8));
        let f = field("field:unsigned long args[6]; offset:16; size:48; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind), ("args", FieldKind::Ints { elem: 8, count: 6 }));
        let f = field("field:const char * name; offset:8; size:8; signed:0;").unwrap();
        assert_eq!(
            (f.name.as_str(), f.type_name.as_str(), f.kind),
            ("name", "const char *", FieldKind::Int)
        );
        let f = field("field:char *name; offset:8; size:8; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.type_name.as_str()), ("name", "char *"));
        let f = field("field:__data_loc char[] filename; offset:8; size:4; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind), ("filename", FieldKind::DataLoc));
        let f = field("field:__rel_loc char[] msg; offset:8; size:4; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind), ("msg", FieldKind::RelLoc));
        let f = field("field:char buf[]; offset:16; size:0; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind), ("buf", FieldKind::Tail));
        let f = field("field:u8 mac[ETH_ALEN]; offset:16; size:6; signed:0;").unwrap();
        assert_eq!((f.name.as_str(), f.kind), ("mac", FieldKind::Bytes));
        let f = field("field:int common_pid;\toffset:4;\tsize:4;").unwrap();
        assert!(f.signed, "old kernels have no signed:");
    }

    #[test]
    fn broken_fields_are_refused() {
        for bad in [
            "field:int x; offset:4; signed:1;",
            "field:; offset:0; size:4; signed:0;",
            "field:int x; offset:a; size:4; signed:1;",
            "field:int x; offset:4294967295; size:4294967295; signed:1;",
            "field:__data_loc char[] x; offset:4; size:8; signed:1;",
            "field:int x]; offset:4; size:8; signed:1;",
        ] {
            assert!(field(bad).is_none(), "{bad}");
        }
        let e = EventFormat::parse("a/b", "name: b\nID: 70000\n").unwrap_err();
        assert_eq!(e.offset, 8, "{e}");
        assert!(EventFormat::parse("a/b", "name: b\n").is_err());
    }

    #[test]
    fn locations_outside_the_event_are_no_bytes() {
        let f = field("field:__data_loc char[] s; offset:4; size:4; signed:0;").unwrap();
        let event = |loc: u32| [&[0u8; 4][..], &loc.to_le_bytes(), b"hi\0\0"].concat();
        assert_eq!(f.bytes(&event(8 | 3 << 16), false), Some(&b"hi\0"[..]));
        assert_eq!(f.bytes(&event(8 | 5 << 16), false), None);
        assert_eq!(f.bytes(&event(0xffff_ffff), false), None);
    }

    #[test]
    fn signedness_and_byte_order() {
        let f = field("field:int x; offset:0; size:4; signed:1;").unwrap();
        assert_eq!(f.int(&[0xfe, 0xff, 0xff, 0xff], 0, false), Some(-2));
        assert_eq!(f.int(&[0xff, 0xff, 0xff, 0xfe], 0, true), Some(-2));
        let f = field("field:u16 x; offset:0; size:2; signed:0;").unwrap();
        assert_eq!(f.int(&[0xfe, 0xff], 0, false), Some(0xfffe));
        assert_eq!(f.int(&[0xfe], 0, false), None);
    }
}
