//! Kernel events of one CPU as columns: per event type, one column for each field of its format file.
//!
//! Sections of a block (docs/format.md, "The packed file"): 0 the gaps and the event types that occur, 1 the stamps, 2 each
//! event's type as an index into those, then for each type and each of its fields a column of all its values. A reader that
//! wants one field of one type decodes that section only.
//!
//! Columns of one type often agree: the `next_pid` of a switch is the `prev_pid` of the next one. So each column is also
//! compared with the first [`EARLIER_MAX`] before it and stored as a reference where that is shorter.
use super::column::{
    BytesColumn, BytesEncoder, Earlier, decode_bytes, decode_ints, encode_ints, encode_ints_with,
    no_earlier, refers,
};
use super::frame::BlockInfo;
use super::pack::{Sections, join_sections};
use super::{BLOCK_BYTES, BLOCK_EVENTS, BlockKind, EncodeOptions, EncodedBlocks};
use crate::tracefs::{EventFormat, EventTable, Field, FieldKind, Missed, Page, PageLayout};
use crate::{Error, ErrorKind, Result};

const HEAD: usize = 0;
const STAMPS: usize = 1;
const TYPES: usize = 2;
const FIRST_FIELD: usize = 3;
/// Columns of a group that later ones are compared with.
const EARLIER_MAX: usize = 8;

/// A place in a CPU's events where some are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// They are missing before this event of the block (the block's length: after its last).
    pub before: u32,
    /// Number of events missing; `None`: the page did not say. The sums are in `kernel_losses`.
    pub count: Option<u64>,
    /// Not lost by the kernel: a page was damaged.
    pub damaged: bool,
}

/// Encodes ring-buffer pages of one CPU (whole pages, in order). Large files may be cut at any page and encoded in parallel.
/// Events that do not fit their format file are kept whole as `kasuri/unknown`; damage ends its page,
/// is counted and listed in the result, and leaves a [`Gap`].
pub fn encode_kernel_blocks(
    table: &EventTable,
    layout: &PageLayout,
    cpu: u32,
    pages: &[u8],
    options: &EncodeOptions,
) -> EncodedBlocks {
    let mut encoder = Encoder::new(table, layout, cpu, options);
    let mut at = 0;
    while at < pages.len() {
        match Page::parse(&pages[at..], layout, at as u64) {
            Ok(page) => encoder.page(&page),
            Err(error) => encoder.damaged(error),
        }
        at += layout.page_bytes;
    }
    encoder.flush();
    encoder.out
}

struct Encoder<'a> {
    table: &'a EventTable,
    layout: &'a PageLayout,
    cpu: u32,
    options: &'a EncodeOptions,
    stamps: Vec<u64>,
    types: Vec<u16>,
    /// Events of each type, by type.
    rows: Vec<Vec<&'a [u8]>>,
    gaps: Vec<Gap>,
    bytes: usize,
    out: EncodedBlocks,
}

impl<'a> Encoder<'a> {
    fn new(
        table: &'a EventTable,
        layout: &'a PageLayout,
        cpu: u32,
        options: &'a EncodeOptions,
    ) -> Encoder<'a> {
        Encoder {
            table,
            layout,
            cpu,
            options,
            stamps: Vec::with_capacity(BLOCK_EVENTS),
            types: Vec::with_capacity(BLOCK_EVENTS),
            rows: vec![Vec::new(); table.types().len()],
            gaps: Vec::new(),
            bytes: 0,
            out: EncodedBlocks::default(),
        }
    }

    fn gap(&mut self, count: Option<u64>, damaged: bool) {
        self.gaps.push(Gap { before: self.stamps.len() as u32, count, damaged });
    }

    fn damaged(&mut self, error: Error) {
        self.out.n_damaged += 1;
        self.gap(None, true);
        // Enough to say what happened; a file of noise has one error a page.
        if self.out.errors.len() < 100 {
            self.out.errors.push(error);
        }
    }

    fn page(&mut self, page: &Page<'a>) {
        match page.missed {
            Missed::None => {}
            Missed::Some => self.gap(None, false),
            Missed::Count(n) => self.gap(Some(n), false),
        }
        for event in page.events() {
            match event {
                Ok(event) if !self.options.keeps(event.stamp) => self.out.n_cut += 1,
                Ok(event) => self.event(event.stamp, event.data),
                Err(error) => self.damaged(error),
            }
        }
    }

    fn event(&mut self, stamp: u64, data: &'a [u8]) {
        let id =
            data.get(..2).map_or(0, |id| crate::bytes::uint(id, self.layout.big_endian) as u16);
        let mut kind = self.table.by_id(id);
        if !fits(&self.table.types()[usize::from(kind)], data, self.layout.big_endian) {
            kind = self.table.unknown();
        }
        self.stamps.push(stamp);
        self.types.push(kind);
        self.rows[usize::from(kind)].push(data);
        self.bytes += data.len();
        if self.stamps.len() >= BLOCK_EVENTS || self.bytes >= BLOCK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.stamps.is_empty() && self.gaps.is_empty() {
            return;
        }
        let level = self.options.level;
        let types: Vec<u16> = (0..self.rows.len() as u16)
            .filter(|&t| !self.rows[usize::from(t)].is_empty())
            .collect();
        let mut local = vec![0u64; self.rows.len()];
        let mut head = Vec::new();
        head.extend_from_slice(&(self.gaps.len() as u32).to_le_bytes());
        for gap in &self.gaps {
            head.extend_from_slice(&gap.before.to_le_bytes());
            head.push(u8::from(gap.count.is_some()) | u8::from(gap.damaged) << 1);
            head.extend_from_slice(&gap.count.unwrap_or(0).to_le_bytes());
        }
        head.extend_from_slice(&(types.len() as u32).to_le_bytes());
        for (ix, &kind) in types.iter().enumerate() {
            local[usize::from(kind)] = ix as u64;
            head.extend_from_slice(&u32::from(kind).to_le_bytes());
            head.extend_from_slice(&(self.rows[usize::from(kind)].len() as u32).to_le_bytes());
        }
        let codes: Vec<u64> = self.types.iter().map(|&t| local[usize::from(t)]).collect();
        let mut sections = vec![head, encode_ints(&self.stamps, level), encode_ints(&codes, level)];
        for &kind in &types {
            let rows = &self.rows[usize::from(kind)];
            encode_group(
                &self.table.types()[usize::from(kind)],
                rows,
                self.layout.big_endian,
                level,
                &mut sections,
            );
        }
        self.out.push(
            BlockKind::Kernel,
            [self.cpu, 0, 0, 0],
            &self.stamps,
            join_sections(&sections),
        );
        self.stamps.clear();
        self.types.clear();
        self.gaps.clear();
        self.bytes = 0;
        self.rows.iter_mut().for_each(Vec::clear);
    }
}

/// Whether every field of the format lies inside the event.
fn fits(format: &EventFormat, data: &[u8], big_endian: bool) -> bool {
    let dynamic = |f: &Field| matches!(f.kind, FieldKind::DataLoc | FieldKind::RelLoc);
    data.len() >= format.fixed_bytes as usize
        && format.fields.iter().all(|f| {
            (!dynamic(f) && f.kind != FieldKind::Tail) || f.bytes(data, big_endian).is_some()
        })
}

fn encode_group(
    format: &EventFormat,
    rows: &[&[u8]],
    big_endian: bool,
    level: i32,
    sections: &mut Vec<Vec<u8>>,
) {
    // Columns that later ones may refer to, by section number within the group.
    let mut earlier: Vec<(usize, Vec<u64>)> = Vec::new();
    let mut section = 0;
    for field in &format.fields {
        if !field.is_int() {
            let mut column = BytesEncoder::default();
            rows.iter().for_each(|r| column.push(field.bytes(r, big_endian).unwrap_or_default()));
            sections.push(column.encode(level));
            section += 1;
            continue;
        }
        for element in 0..field.width() {
            let column: Vec<u64> = rows
                .iter()
                .map(|r| field.int(r, element, big_endian).unwrap_or(0) as u64)
                .collect();
            let packed = encode_ints_with(&column, &earlier, level);
            if earlier.len() < EARLIER_MAX && !refers(&packed) {
                earlier.push((section, column));
            }
            sections.push(packed);
            section += 1;
        }
    }
}

/// Numbers: `width` in each row (1, for arrays their length), row-major.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ints {
    /// Numbers in each row.
    pub width: usize,
    /// All of them; unsigned 64-bit ones as their two's complement.
    pub values: Vec<i64>,
    /// Whether the kernel's type is signed.
    pub signed: bool,
}

/// One field of one event type, for all events of that type in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// Numbers.
    Ints(Ints),
    /// Text or other bytes.
    Bytes(BytesColumn),
}

impl Column {
    /// The numbers; `None`: no numbers.
    pub fn ints(&self) -> Option<&Ints> {
        match self {
            Column::Ints(ints) => Some(ints),
            Column::Bytes(_) => None,
        }
    }

    /// The strings; `None`: numbers.
    pub fn bytes(&self) -> Option<&BytesColumn> {
        match self {
            Column::Bytes(bytes) => Some(bytes),
            Column::Ints(_) => None,
        }
    }
}

/// Kernel events of one CPU. Stamps and types are decoded, fields only when asked for.
#[derive(Clone, Debug)]
pub struct KernelBlock<'r> {
    /// The CPU.
    pub cpu: u32,
    /// The kernel's stamps, on the recording's kernel clock, in the order of its buffer.
    pub stamps: Vec<u64>,
    /// Each event's type: an index into the recording's event types.
    pub types: Vec<u16>,
    /// Stretches in which events are missing.
    pub gaps: Vec<Gap>,
    groups: Vec<GroupInfo>,
    sections: Sections<'r>,
    table: &'r EventTable,
}

#[derive(Clone, Copy, Debug)]
struct GroupInfo {
    event_type: u16,
    len: usize,
    first_section: usize,
}

/// The events of one type in a block, in order.
#[derive(Clone, Copy, Debug)]
pub struct Group<'b> {
    /// Index into the recording's event types.
    pub event_type: u16,
    /// Its format: names of the fields.
    pub format: &'b EventFormat,
    /// Number of events.
    pub len: usize,
    first_section: usize,
    sections: &'b Sections<'b>,
}

fn section_count(field: &Field) -> usize {
    if field.is_int() { field.width() } else { 1 }
}

impl<'r> KernelBlock<'r> {
    pub(crate) fn parse(
        info: &BlockInfo,
        file: &'r [u8],
        table: &'r EventTable,
    ) -> Result<KernelBlock<'r>> {
        let (payload, base) = info.payload(file)?;
        let sections = Sections::parse(payload, base)?;
        let n = info.n_events as usize;
        let mut head = sections.cursor(HEAD, "kernel block")?;
        let n_gaps = head.count(payload.len() / 13)?;
        let mut gaps = Vec::with_capacity(n_gaps);
        for _ in 0..n_gaps {
            let (before, flags, count) = (head.u32()?, head.u8()?, head.u64()?);
            gaps.push(Gap {
                before,
                count: (flags & 1 != 0).then_some(count),
                damaged: flags & 2 != 0,
            });
        }
        let n_groups = head.count(table.types().len())?;
        let mut groups = Vec::with_capacity(n_groups);
        let mut next = FIRST_FIELD;
        let (mut total, mut bytes) = (0usize, 0usize);
        for _ in 0..n_groups {
            let (event_type, len) = (head.u32()?, head.count(n)?);
            let Some(format) = table.types().get(event_type as usize) else {
                return Err(head.damaged(
                    format!("event type {event_type}"),
                    format!("below {}", table.types().len()),
                ));
            };
            groups.push(GroupInfo { event_type: event_type as u16, len, first_section: next });
            next += format.fields.iter().map(section_count).sum::<usize>();
            total += len;
            bytes = bytes.saturating_add(len.saturating_mul(format.fixed_bytes as usize));
        }
        // A few bytes can claim columns of any length and width; the encoder cuts blocks long before this.
        if bytes > 2 * BLOCK_BYTES {
            let needed = format!("at most {}", 2 * BLOCK_BYTES);
            return Err(Error::new(
                ErrorKind::Limit,
                "kernel block",
                info.offset,
                format!("{bytes} bytes of events"),
                needed,
            ));
        }
        if total != n || next != sections.len() {
            return Err(head.damaged(
                format!("{total} events in {} sections", sections.len()),
                format!("{n} events in {next} sections"),
            ));
        }
        let (stamps, at) = sections.get(STAMPS)?;
        let stamps = decode_ints(stamps, at, n, &no_earlier)?;
        let types = decode_types(&sections, &groups, n)?;
        Ok(KernelBlock { cpu: info.ids[0], stamps, types, gaps, groups, sections, table })
    }

    /// The events of one type; `None`: the block has none.
    pub fn group(&self, event_type: u16) -> Option<Group<'_>> {
        self.groups().find(|g| g.event_type == event_type)
    }

    /// All types of which the block has events.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.groups.iter().map(|g| Group {
            event_type: g.event_type,
            format: &self.table.types()[usize::from(g.event_type)],
            len: g.len,
            first_section: g.first_section,
            sections: &self.sections,
        })
    }
}

fn decode_types(sections: &Sections<'_>, groups: &[GroupInfo], n: usize) -> Result<Vec<u16>> {
    let (codes, at) = sections.get(TYPES)?;
    let codes = decode_ints(codes, at, n, &no_earlier)?;
    let mut counts = vec![0usize; groups.len()];
    let mut types = Vec::with_capacity(n);
    for code in codes {
        let Some(group) = groups.get(code as usize) else {
            return Err(Error::damaged(
                "kernel block",
                at,
                format!("type code {code}"),
                format!("below {}", groups.len()),
            ));
        };
        counts[code as usize] += 1;
        types.push(group.event_type);
    }
    // A cursor into each group's columns must never run past their end.
    match groups.iter().zip(&counts).find(|(g, c)| g.len != **c) {
        Some((g, c)) => Err(Error::damaged(
            "kernel block",
            at,
            format!("{c} events of a type"),
            format!("{}", g.len),
        )),
        None => Ok(types),
    }
}

impl Group<'_> {
    /// The column of a field.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Absent`] when the event type has no such field on this kernel; others when the bytes are damaged.
    pub fn column_by_name(&self, field: &str) -> Result<Column> {
        let ix = self.format.find(field).ok_or_else(|| {
            Error::absent(
                format!("fields of {}", self.format.name),
                "no such field",
                format!("a field {field}"),
            )
        })?;
        self.column(ix)
    }

    /// The column of a field, by its index in the format.
    ///
    /// # Errors
    /// As [`Group::column_by_name`].
    pub fn column(&self, ix: usize) -> Result<Column> {
        let Some(field) = self.format.fields.get(ix) else {
            let needed = format!("one below {}", self.format.fields.len());
            return Err(Error::absent(
                format!("fields of {}", self.format.name),
                format!("field {ix}"),
                needed,
            ));
        };
        let first = self.format.fields[..ix].iter().map(section_count).sum::<usize>();
        if !field.is_int() {
            let (bytes, at) = self.sections.get(self.first_section + first)?;
            return Ok(Column::Bytes(decode_bytes(bytes, at, self.len)?));
        }
        let width = field.width();
        let mut values = self.ints(first)?;
        if width > 1 {
            let rows: Vec<Vec<i64>> =
                (first..first + width).map(|c| self.ints(c)).collect::<Result<_>>()?;
            values = (0..self.len).flat_map(|r| rows.iter().map(move |c| c[r])).collect();
        }
        Ok(Column::Ints(Ints { width, values, signed: field.signed }))
    }

    /// Each field's name and bytes in the file: where the space goes.
    ///
    /// # Errors
    /// When the block has fewer sections than fields.
    pub fn packed_bytes(&self) -> Result<Vec<(&str, u64)>> {
        let mut section = self.first_section;
        let mut out = Vec::with_capacity(self.format.fields.len());
        for field in &self.format.fields {
            let mut bytes = 0;
            for _ in 0..section_count(field) {
                bytes += self.sections.get(section)?.0.len() as u64;
                section += 1;
            }
            out.push((field.name.as_str(), bytes));
        }
        Ok(out)
    }

    fn ints(&self, section: usize) -> Result<Vec<i64>> {
        let earlier: Earlier<'_, Vec<u64>> = &|target| {
            if target >= section {
                return no_earlier(target);
            }
            let (bytes, at) = self.sections.get(self.first_section + target)?;
            decode_ints(bytes, at, self.len, &no_earlier)
        };
        let (bytes, at) = self.sections.get(self.first_section + section)?;
        let values = decode_ints(bytes, at, self.len, earlier)?;
        Ok(values.into_iter().map(|v| v as i64).collect())
    }
}
