//! A code object of Python: its name, its file, and the line of each of its instructions.
use super::layout::{BYTES, Frames, Layout, SIZE, STRING_STATE, TYPE};
use super::memory::{Memory, Source};
use kasuri_base::words::harmless;
use std::ops::Range;
use std::rc::Rc;

/// Most characters of a name that are kept, and of a file's path.
const TEXT_MAX: u64 = 1024;
/// Most bytes of the instructions of one function, and of the table of its lines; larger ones have names and no lines.
const INSTRUCTIONS_MAX: u64 = 4 << 20;
const LINES_MAX: u64 = 32 << 10;
/// Bytes of that table that are looked at in one step.
const LINE_BYTES_IN_STEP: usize = 16;

/// The addresses of the types that objects say they have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Types {
    pub(super) code: u64,
    pub(super) frame: u64,
    pub(super) string: u64,
    pub(super) bytes: u64,
}

/// What a code object says of itself.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) address: u64,
    /// Addresses of its instructions.
    pub(super) instructions: Range<u64>,
    /// Bytes of a frame that runs it; 0: not used.
    pub(super) frame_bytes: u64,
    /// Address of the object that holds its constants; since 3.11: 0.
    pub(super) constants: u64,
    pub(super) function: Rc<str>,
    pub(super) file: Rc<str>,
    first_line: u32,
    lines: Box<[u8]>,
    minor: u8,
    /// The words that say all of this, for comparison.
    mark: Mark,
}

/// Words of a code object that another one at the same address would have otherwise.
type Mark = [u64; 6];

fn mark<S: Source>(memory: &mut Memory<S>, layout: &Layout, address: u64) -> Option<Mark> {
    Some([
        memory.word(address + TYPE)?,
        memory.word(address + layout.file)?,
        memory.word(address + layout.name)?,
        memory.word(address + layout.lines)?,
        memory.u32(address + layout.first_line)?.into(),
        match layout.frames {
            Frames::Objects => memory.word(address + layout.instructions)?,
            _ => memory.word(address + SIZE)?,
        },
    ])
}

impl Code {
    /// Reads the object at an address; `None`: it is no code, or changes just now.
    pub(super) fn read<S: Source>(
        memory: &mut Memory<S>,
        layout: &Layout,
        types: &Types,
        address: u64,
    ) -> Option<Code> {
        if !address.is_multiple_of(8) || address >= 1 << 56 {
            return None;
        }
        let mark = mark(memory, layout, address)?;
        let [kind, file, name, lines, first_line, instructions] = mark;
        if kind != types.code {
            return None;
        }
        let instructions = match layout.frames {
            Frames::Objects => {
                if memory.word(instructions.checked_add(TYPE)?)? != types.bytes {
                    return None;
                }
                let len = memory.word(instructions.checked_add(SIZE)?)?;
                let start = instructions.checked_add(BYTES)?;
                start..start.checked_add(len)?
            }
            _ => {
                let start = address + layout.instructions;
                start..start.checked_add(instructions.checked_mul(2)?)?
            }
        };
        let len = instructions.end - instructions.start;
        if len == 0 || len > INSTRUCTIONS_MAX {
            return None;
        }
        let (fields, more) = layout.frame_words;
        let mut words = more;
        for field in fields {
            words += u64::from(memory.u32(address + field)?);
        }
        Some(Code {
            address,
            instructions,
            frame_bytes: words * 8,
            constants: match layout.frames {
                Frames::Objects => memory.word(address + layout.constants)?,
                _ => 0,
            },
            function: string(memory, layout, types, name)?.into(),
            file: string(memory, layout, types, file)?.into(),
            first_line: first_line as u32,
            lines: table(memory, types, lines).unwrap_or_default().into(),
            minor: layout.minor,
            mark,
        })
    }

    /// Whether the same code is still there.
    pub(super) fn is_there<S: Source>(&self, memory: &mut Memory<S>, layout: &Layout) -> bool {
        mark(memory, layout, self.address) == Some(self.mark)
    }

    /// Bytes of memory that this takes, about.
    pub(super) fn bytes(&self) -> usize {
        256 + self.lines.len() + self.function.len() + self.file.len()
    }

    /// Steps that finding a line takes, about.
    pub(super) fn line_steps(&self) -> usize {
        1 + self.lines.len() / LINE_BYTES_IN_STEP
    }

    /// Whether the instruction before an address is one of it.
    pub(super) fn holds(&self, next: u64) -> bool {
        self.instructions.start < next && next <= self.instructions.end
    }

    /// The line of the instruction before an address.
    pub(super) fn line_before(&self, next: u64) -> u32 {
        self.line(next.saturating_sub(self.instructions.start + 2))
    }

    /// The line of the instruction at an address.
    pub(super) fn line_at(&self, address: u64) -> u32 {
        match address.checked_sub(self.instructions.start) {
            Some(offset) => self.line(offset),
            None => self.first_line,
        }
    }

    /// The line of the instruction at a distance from the first; 0: not known.
    pub(super) fn line(&self, offset: u64) -> u32 {
        let line = match self.minor {
            ..=9 => line_by_steps(&self.lines, self.first_line, offset),
            10 => line_by_ranges(&self.lines, self.first_line, offset),
            _ => line_by_locations(&self.lines, self.first_line, offset),
        };
        line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
    }
}

/// A string, without what would break a line of text. At most [`TEXT_MAX`] characters.
fn string<S: Source>(
    memory: &mut Memory<S>,
    layout: &Layout,
    types: &Types,
    address: u64,
) -> Option<String> {
    if memory.word(address.checked_add(TYPE)?)? != types.string {
        return None;
    }
    let len = memory.word(address + SIZE)?.min(TEXT_MAX) as usize;
    // Bits: interned 2, bytes a character 3, compact 1, ASCII 1.
    let state = memory.u32(address + STRING_STATE)?;
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    if !is_compact {
        return None;
    }
    let start = address.checked_add(match is_ascii {
        true => layout.ascii,
        false => layout.other,
    })?;
    let units = memory.bytes(start, len * width as usize)?;
    let text: String = match width {
        1 => units.iter().map(|&b| char::from(b)).collect(),
        2 => {
            let units = units.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]]));
            char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
        }
        4 => {
            let units = units.as_chunks::<4>().0.iter();
            let char_of = |&c: &[u8; 4]| char::from_u32(u32::from_le_bytes(c));
            units.map(|c| char_of(c).unwrap_or('\u{fffd}')).collect()
        }
        _ => return None,
    };
    Some(harmless(&text))
}

/// The table of lines, an object of bytes.
fn table<S: Source>(memory: &mut Memory<S>, types: &Types, address: u64) -> Option<Vec<u8>> {
    if memory.word(address.checked_add(TYPE)?)? != types.bytes {
        return None;
    }
    let len = memory.word(address + SIZE)?;
    if len > LINES_MAX {
        return None;
    }
    memory.bytes(address + BYTES, len as usize)
}

/// Until 3.9: pairs of a step in bytes and a step in lines.
fn line_by_steps(table: &[u8], first: u32, offset: u64) -> Option<i64> {
    let mut line = i64::from(first);
    let mut at = 0;
    for &[bytes, lines] in table.as_chunks::<2>().0 {
        at += u64::from(bytes);
        if at > offset {
            break;
        }
        line += i64::from(lines as i8);
    }
    Some(line)
}

/// 3.10: pairs of a length in bytes and a step in lines before it; -128: it has no line.
fn line_by_ranges(table: &[u8], first: u32, offset: u64) -> Option<i64> {
    let mut line = i64::from(first);
    let mut at = 0;
    for &[bytes, lines] in table.as_chunks::<2>().0 {
        let step = lines as i8;
        at += u64::from(bytes);
        if step != -128 {
            line += i64::from(step);
        }
        if offset < at {
            return (step != -128).then_some(line);
        }
    }
    None
}

/// Since 3.11: entries of a length in units of two bytes, and a step in lines before it, in five forms.
fn line_by_locations(table: &[u8], first: u32, offset: u64) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(first);
    let mut at = 0;
    while let Some(head) = bytes.next() {
        let form = head >> 3 & 15;
        at += (u64::from(head & 7) + 1) * 2;
        let mut has_line = true;
        match form {
            15 => has_line = false,
            14 => {
                line += signed(&mut bytes)?;
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            13 => line += signed(&mut bytes)?,
            10..=12 => {
                line += i64::from(form - 10);
                bytes.next()?;
                bytes.next()?;
            }
            _ => {
                bytes.next()?;
            }
        }
        if offset < at {
            return has_line.then_some(line);
        }
    }
    None
}

/// Six bits a byte, the lowest first; the seventh says that more follow.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..48).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(bytes)?;
    let magnitude = (value >> 1) as i64;
    Some(if value & 1 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_form_of_table() {
        // Two instructions on line 10, two on 12, one on 11.
        assert_eq!(line_by_steps(&[4, 2, 4, 255], 10, 3), Some(10));
        assert_eq!(line_by_steps(&[4, 2, 4, 255], 10, 4), Some(12));
        assert_eq!(line_by_steps(&[4, 2, 4, 255], 10, 8), Some(11));
        let ranges = [4, 0, 4, 2, 2, 0x80, 2, 255];
        assert_eq!(line_by_ranges(&ranges, 10, 2), Some(10));
        assert_eq!(line_by_ranges(&ranges, 10, 6), Some(12));
        assert_eq!(line_by_ranges(&ranges, 10, 8), None);
        assert_eq!(line_by_ranges(&ranges, 10, 10), Some(11));
        // no columns, +0; one line, +2; none; long, -1; short, +0.
        let locations = [0xe9, 0, 0xe1, 1, 1, 0xf8, 0xf0, 3, 0, 0, 0, 0x80, 9];
        let lines: Vec<_> = (0..8).map(|n| line_by_locations(&locations, 10, n * 2)).collect();
        assert_eq!(lines, [Some(10), Some(10), Some(12), Some(12), None, Some(11), Some(11), None]);
    }

    #[test]
    fn a_table_that_ends_early_has_no_line() {
        for end in 0..5 {
            let _ = line_by_locations(&[0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f][..end], 1, 0);
        }
        assert_eq!(line_by_locations(&[0xf0, 0x40], 1, 0), None);
        assert_eq!(line_by_locations(&[0xe8; 9], 1, 1 << 40), None);
    }
}
