//! Code that was made at run time, by address and time: `jit-PID.dump`, as perf's jitdump-specification.txt has it.
//!
//! A list of what was where last is not enough: a compiler frees code and makes other code in its place. So each address has
//! the functions that were there one after the other, each from the time at which it was loaded; the first also holds before,
//! since no other is known.
//!
//! The file is of the program that was recorded: each number is checked, nothing is kept but what the addresses asked for need, and the code
//! itself is skipped.
use crate::text::jit_call;
use kasuri_format::call_paths::Call;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

/// "JiTD", in the byte order of the machine that wrote it: ours.
const MAGIC: u32 = 0x4a69_5444;
/// Bytes of the header, of a record's head, and of the fixed part of each record.
const HEADER: usize = 40;
const HEAD: usize = 16;
const LOAD_FIXED: usize = 40;
const MOVE_FIXED: usize = 48;
const DEBUG_FIXED: usize = 16;
const ENTRY_FIXED: usize = 16;
/// Kinds of records. Others say what is not needed here: unwind information, the end.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG: u32 = 2;
/// Flag of the header: times are of the CPU's counter, and not CLOCK_MONOTONIC.
const ARCH_TIMESTAMP: u64 = 1;

/// Bytes of a file that are read; from the time of the last record in them, nothing is known.
const BYTES_MAX: usize = if cfg!(test) { 1 << 16 } else { 1 << 30 };
/// Functions at all addresses together, and how often one is found to be at one; from the time of the first one beyond, nothing is known.
const CHANGES_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };
const LOOKS_MAX: usize = if cfg!(test) { 1000 } else { 1 << 28 };
/// Code that may move, and lines that wait for their code.
const CODES_MAX: usize = 1 << 20;
const WAITING_MAX: usize = 1 << 12;
/// Lines of one function; with more it has none.
const LINES_MAX: usize = 1 << 16;
/// Bytes of a name that are looked at.
const NAME_BYTES_MAX: usize = 4096;
/// Bytes of the header of the ELF file that `perf inject --jit` makes of the code of a function. V8 adds them to the addresses
/// of its lines.
const V8_SHIFT: u64 = 0x40;

/// What is at an address from a time on; `None`: nobody knows.
pub(crate) type Since = (u64, Option<Call>);

/// For each address, which are sorted, what was there, in order of time. `None`: it is no jitdump, or `stop` returned true.
pub(crate) fn functions(
    bytes: &[u8],
    addresses: &[(u64, u32)],
    stop: &dyn Fn() -> bool,
) -> Option<Vec<Vec<Since>>> {
    let is_cut = bytes.len() > BYTES_MAX;
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    let (magic, size) = (u32_at(bytes, 0)?, u32_at(bytes, 8)? as usize);
    if magic != MAGIC || size < HEADER {
        return None;
    }
    let is_timed = u64_at(bytes, 32)? & ARCH_TIMESTAMP == 0;
    let first = survey(bytes, size);
    let mut reader = Reader {
        bytes,
        addresses,
        shift: first.shift,
        codes: first.has_moves.then(HashMap::new),
        waiting: HashMap::new(),
        lines_left: bytes.len(),
        found: vec![Vec::new(); addresses.len()],
        n_changes: 0,
        n_looks: 0,
        full_ns: None,
    };
    let mut end_ns = 0;
    let mut records = Records::of(bytes, size);
    for (n, record) in records.by_ref().enumerate() {
        if n % 1024 == 0 && stop() {
            return None;
        }
        reader.take(&record);
        end_ns = record.time_ns.saturating_add(1);
        if reader.full_ns.is_some() {
            break;
        }
    }
    // Where nothing was written, there are no more records.
    let is_record = |size: u32| size as usize >= HEAD;
    if is_cut && u32_at(bytes, records.at.saturating_add(4)).is_none_or(is_record) {
        reader.full_ns.get_or_insert(end_ns);
    }
    Some(reader.into_functions(is_timed))
}

/// One record.
struct Record {
    kind: u32,
    time_ns: u64,
    /// Where the rest of it is in the file.
    body: Range<usize>,
}

/// The records up to the first that is not whole.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Records<'_> {
    fn of(bytes: &[u8], at: usize) -> Records<'_> {
        Records { bytes, at }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let (kind, size) =
            (u32_at(self.bytes, self.at)?, u32_at(self.bytes, self.at + 4)? as usize);
        let time_ns = u64_at(self.bytes, self.at + 8)?;
        let end = self.at.checked_add(size)?;
        if size < HEAD || end > self.bytes.len() {
            return None;
        }
        let body = self.at + HEAD..end;
        self.at = end;
        Some(Record { kind, time_ns, body })
    }
}

/// What must be known of the whole file before its first record is taken.
struct Survey {
    has_moves: bool,
    /// What was added to the addresses of lines.
    shift: u64,
}

/// Looks at all records. Of a compiler that adds nothing to the addresses of lines some function has a line for its first
/// bytes; of V8 none does.
fn survey(bytes: &[u8], at: usize) -> Survey {
    let (mut has_moves, mut n_lines, mut is_shifted) = (false, 0, true);
    for record in Records::of(bytes, at) {
        has_moves |= record.kind == MOVE;
        if record.kind == DEBUG
            && record.body.len() > DEBUG_FIXED + ENTRY_FIXED
            && let Some(code) = u64_at(bytes, record.body.start)
            && let Some(line) = u64_at(bytes, record.body.start + DEBUG_FIXED)
        {
            n_lines += 1;
            is_shifted &= line.wrapping_sub(code) >= V8_SHIFT;
        }
    }
    Survey {
        has_moves,
        shift: match is_shifted && n_lines > 0 {
            true => V8_SHIFT,
            false => 0,
        },
    }
}

/// A part of the file.
type Span = (u32, u32);

/// One row of a function's lines.
struct Line {
    address: u64,
    line: u32,
    file: Span,
}

/// The lines of one record.
///
/// V8 (of node 20 at least) writes file names from memory that it has freed: the first 16 bytes are the allocator's, with
/// zeroes in them. So a name goes on to a zero behind which a line of this function begins.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    left: u64,
    /// Addresses of the function.
    code: RangeInclusive<u64>,
    file: Span,
}

impl Lines<'_> {
    fn of<'a>(bytes: &'a [u8], body: &Range<usize>, code: RangeInclusive<u64>) -> Lines<'a> {
        let left = match body.len() >= DEBUG_FIXED {
            true => u64_at(bytes, body.start + 8).unwrap_or(0),
            false => 0,
        };
        Lines { bytes, at: body.start + DEBUG_FIXED, end: body.end, left, code, file: (0, 0) }
    }

    /// Whether a line begins here; behind the last there are at most 7 bytes.
    fn is_line(&self, at: usize) -> bool {
        match self.left {
            0 => at + 8 > self.end,
            _ => u64_at(self.bytes, at).is_some_and(|address| self.code.contains(&address)),
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        self.left = self.left.checked_sub(1)?;
        let start = self.at.checked_add(ENTRY_FIXED)?;
        let (address, line) = (u64_at(self.bytes, self.at)?, u32_at(self.bytes, self.at + 8)?);
        let name = self.bytes.get(start..self.end)?;
        let mut ends = name.iter().zip(start..).filter(|(b, _)| **b == 0);
        let (_, end) = ends.find(|(_, end)| self.is_line(end + 1))?;
        // The file of the line before.
        if self.bytes[start..end] != [0xff] {
            self.file = (start as u32, end.min(start + NAME_BYTES_MAX) as u32);
        }
        self.at = end + 1;
        self.code.contains(&address).then_some(Line { address, line, file: self.file })
    }
}

/// A function at an address: where its texts are in the file.
#[derive(Clone, Copy)]
struct Named {
    from_ns: u64,
    name: Span,
    file: Span,
    line: u32,
}

/// A function in memory.
#[derive(Clone)]
struct Code {
    start: u64,
    size: u64,
    name: Span,
    /// The record of its lines, and the address that it had there.
    lines: Option<(Range<usize>, u64)>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    addresses: &'a [(u64, u32)],
    shift: u64,
    /// By number; `None`: nothing moves.
    codes: Option<HashMap<u64, Code>>,
    /// Lines of code that is loaded next, by its address.
    waiting: HashMap<u64, Range<usize>>,
    /// Bytes of lines that may yet be read: code that moves has its lines read again.
    lines_left: usize,
    found: Vec<Vec<Named>>,
    n_changes: usize,
    n_looks: usize,
    full_ns: Option<u64>,
}

impl Reader<'_> {
    fn take(&mut self, record: &Record) {
        match record.kind {
            LOAD => drop(self.load(record)),
            MOVE => drop(self.move_to(record)),
            DEBUG => {
                if self.waiting.len() >= WAITING_MAX {
                    self.waiting.clear();
                }
                if let Some(code) = u64_at(self.bytes, record.body.start) {
                    self.waiting.insert(code, record.body.clone());
                }
            }
            _ => {}
        }
    }

    fn load(&mut self, record: &Record) -> Option<()> {
        let Range { start: at, end } = record.body;
        let name = text_at(self.bytes, at.checked_add(LOAD_FIXED)?..end)?;
        let start = u64_at(self.bytes, at + 16)?;
        let lines = self.waiting.remove(&start);
        let code = Code {
            start,
            size: u64_at(self.bytes, at + 24)?,
            name,
            lines: lines.map(|lines| (lines, start)),
        };
        self.add(&code, record.time_ns);
        if let Some(codes) = &mut self.codes
            && codes.len() < CODES_MAX
        {
            codes.insert(u64_at(self.bytes, at + 32)?, code);
        }
        Some(())
    }

    fn move_to(&mut self, record: &Record) -> Option<()> {
        let at = record.body.start;
        if record.body.len() < MOVE_FIXED {
            return None;
        }
        let (start, number) = (u64_at(self.bytes, at + 24)?, u64_at(self.bytes, at + 40)?);
        let mut code = self.codes.as_ref()?.get(&number)?.clone();
        code.start = start;
        self.add(&code, record.time_ns);
        self.codes.as_mut()?.insert(number, code);
        Some(())
    }

    /// The code is there from now on.
    fn add(&mut self, code: &Code, from_ns: u64) {
        let end = code.start.saturating_add(code.size);
        let from = self.addresses.partition_point(|(a, _)| *a < code.start);
        let to = self.addresses.partition_point(|(a, _)| *a < end);
        if from >= to {
            return;
        }
        self.n_looks = self.n_looks.saturating_add(to - from);
        if self.n_looks > LOOKS_MAX {
            self.full_ns = Some(from_ns);
            return;
        }
        let lines = self.lines(code);
        for ix in from..to {
            let inside = self.addresses[ix].0 - code.start;
            let after = lines.partition_point(|line| line.address <= inside);
            let line = after.checked_sub(1).map(|ix| &lines[ix]);
            let named = Named {
                from_ns,
                name: code.name,
                file: line.map_or((0, 0), |l| l.file),
                line: line.map_or(0, |l| l.line),
            };
            if self.found[ix].last().is_some_and(|last| self.is_same(last, &named)) {
                continue;
            }
            if self.n_changes >= CHANGES_MAX {
                self.full_ns = Some(from_ns);
                return;
            }
            self.n_changes += 1;
            self.found[ix].push(named);
        }
    }

    fn is_same(&self, a: &Named, b: &Named) -> bool {
        let text = |span: Span| self.bytes.get(span.0 as usize..span.1 as usize);
        a.line == b.line && text(a.name) == text(b.name) && text(a.file) == text(b.file)
    }

    /// The lines of a function, by their distance from its start.
    fn lines(&mut self, code: &Code) -> Vec<Line> {
        let Some((body, base)) = &code.lines else {
            return Vec::new();
        };
        let Some(left) = self.lines_left.checked_sub(body.len()) else {
            return Vec::new();
        };
        self.lines_left = left;
        let base = base.wrapping_add(self.shift);
        let mut lines: Vec<Line> = Vec::new();
        let code = base..=base.saturating_add(code.size);
        for line in Lines::of(self.bytes, body, code) {
            if lines.len() >= LINES_MAX {
                return Vec::new();
            }
            let address = line.address.wrapping_sub(base);
            lines.push(Line { address, ..line });
        }
        // Those of what was inlined into it may follow in any order; of two for one address the later holds.
        lines.sort_by_key(|line| line.address);
        lines
    }

    fn into_functions(self, is_timed: bool) -> Vec<Vec<Since>> {
        let text = |span: Span| {
            let bytes = self.bytes.get(span.0 as usize..span.1 as usize);
            String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
        };
        let call = |named: &Named| {
            let name = text(named.name);
            let mut call = jit_call(&name);
            if named.line == 0 {
                return call;
            }
            let file = self.bytes.get(named.file.0 as usize..named.file.1 as usize);
            match file.unwrap_or_default() {
                [] => {}
                file if !is_damaged(file) => {
                    let file = text(named.file);
                    call.file = file.strip_prefix("file://").unwrap_or(&file).to_owned();
                    call.line = named.line;
                }
                // What is left of the name is that of the file in which the function is.
                file if is_rest_of(file, &name) => call.line = named.line,
                _ => {}
            }
            call
        };
        let all = self.found.iter().map(|found| {
            let mut found = found.clone();
            // Threads write their records in turn, and took the time before.
            found.sort_by_key(|named| named.from_ns);
            let since = |named: &Named| (named.from_ns, Some(call(named)));
            // Times that cannot be compared with ours: what came last, as in a list without times.
            let known = match is_timed {
                true => &found[..],
                false => &found[found.len().saturating_sub(1)..],
            };
            let mut functions: Vec<Since> = known.iter().map(since).collect();
            match self.full_ns {
                Some(full_ns) if is_timed && !functions.is_empty() => {
                    functions.retain(|(from_ns, _)| *from_ns < full_ns);
                    functions.push((full_ns, None));
                }
                Some(_) => functions.clear(),
                None => {}
            }
            functions
        });
        all.collect()
    }
}

/// Whether this is no name, but memory that the writer had freed.
fn is_damaged(file: &[u8]) -> bool {
    file.iter().any(|byte| *byte < b' ')
}

/// Whether a damaged file name is that in the name of the function: `JS:*NAME FILE:LINE:COLUMN`.
fn is_rest_of(file: &[u8], name: &str) -> bool {
    const DAMAGED: usize = 16;
    let own = || {
        let (_, place) = name.split_once(' ')?;
        let (place, _) = place.rsplit_once(':')?;
        Some(place.rsplit_once(':')?.0.as_bytes())
    };
    let is_it = |own: &[u8]| {
        own.len() == file.len() && own.len() > DAMAGED && own[DAMAGED..] == file[DAMAGED..]
    };
    own().is_some_and(is_it)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A text that ends with a zero inside of this range, as far as it is looked at.
fn text_at(bytes: &[u8], range: Range<usize>) -> Option<Span> {
    let start = range.start;
    let bytes = bytes.get(range)?;
    let len = bytes.iter().position(|b| *b == 0)?;
    Some((start as u32, (start + len.min(NAME_BYTES_MAX)) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct File(Vec<u8>);

    impl File {
        fn new(flags: u64) -> File {
            let mut bytes = Vec::new();
            for word in [MAGIC, 1, HEADER as u32, 62, 0, 7] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend([0u64, flags].iter().flat_map(|n| n.to_le_bytes()));
            File(bytes)
        }

        fn record(mut self, kind: u32, time_ns: u64, numbers: &[u64], rest: &[u8]) -> File {
            let size = HEAD + numbers.len() * 8 + rest.len();
            self.0.extend(kind.to_le_bytes());
            self.0.extend((size as u32).to_le_bytes());
            self.0.extend(time_ns.to_le_bytes());
            self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            self.0.extend(rest);
            self
        }

        /// 256 bytes of code.
        fn load(self, time_ns: u64, start: u64, number: u64, name: &str) -> File {
            let rest = [name.as_bytes(), &[0], &[0xcc; 256]].concat();
            self.record(LOAD, time_ns, &[7, start, start, 256, number], &rest)
        }

        fn lines(self, start: u64, lines: &[(u64, u32, &str)]) -> File {
            let mut rest = Vec::new();
            for (address, line, file) in lines {
                rest.extend(address.to_le_bytes());
                rest.extend([*line, 0].iter().flat_map(|n| n.to_le_bytes()));
                rest.extend(if *file == "same" { b"\xff" } else { file.as_bytes() });
                rest.push(0);
            }
            self.record(DEBUG, 0, &[start, lines.len() as u64], &rest)
        }

        /// What is at an address: `TIME NAME FILE:LINE`.
        fn at(&self, address: u64) -> Vec<String> {
            let all = functions(&self.0, &[(address, 0)], &|| false).unwrap();
            let text = |(time, call): &Since| match call {
                None => format!("{time} -"),
                Some(c) if c.line == 0 => format!("{time} {}", c.function),
                Some(c) => format!("{time} {} {}:{}", c.function, c.file, c.line),
            };
            all[0].iter().map(text).collect()
        }
    }

    #[test]
    fn an_address_has_the_functions_that_were_there_one_after_the_other() {
        let file = File::new(0)
            .load(10, 0x1000, 0, "first")
            .load(20, 0x1080, 1, "JS:*second /x.js:3:1")
            .load(30, 0x1080, 2, "JS:*second /x.js:3:1")
            .record(4, 35, &[1, 2, 3], &[0; 16])
            .load(40, 0x1000, 3, "third")
            .record(3, 50, &[], &[]);
        assert_eq!(file.at(0xfff), [""; 0]);
        assert_eq!(file.at(0x1000), ["10 first", "40 third"]);
        assert_eq!(
            file.at(0x1080),
            ["10 first", "20 JS:*second /x.js:3", "40 third"],
            "the same again is no change"
        );
        assert_eq!(file.at(0x117f), ["20 JS:*second /x.js:3"]);
        assert_eq!(file.at(0x1180), [""; 0]);
    }

    #[test]
    fn times_of_another_clock_only_say_what_came_last() {
        let file = File::new(ARCH_TIMESTAMP);
        let file = file.load(10, 0x1000, 0, "first");
        assert_eq!(file.load(40, 0x1000, 1, "last").at(0x1010), ["40 last"]);
    }

    #[test]
    fn records_of_several_threads_are_put_in_the_order_of_time() {
        let file = File::new(0).load(20, 0x1000, 0, "late");
        assert_eq!(file.load(10, 0x1000, 1, "early").at(0x1000), ["10 early", "20 late"]);
    }

    #[test]
    fn code_that_moves_takes_its_name_and_lines_along() {
        let file = File::new(0)
            .lines(0x1000, &[(0x1000, 5, "/a.c"), (0x1010, 6, "same")])
            .load(10, 0x1000, 3, "f")
            .record(MOVE, 20, &[7, 0x1000, 0x1000, 0x5000, 256, 3], &[])
            .record(MOVE, 30, &[7, 0x1000, 0x1000, 0x6000, 256, 99], &[]);
        assert_eq!(file.at(0x5010), ["20 f /a.c:6"]);
        assert_eq!(file.at(0x6010), [""; 0], "no such code");
    }

    #[test]
    fn lines_are_those_of_the_instruction() {
        let rows = [(0x1020, 9, "/b.c"), (0x1000, 4, "/a.c"), (0x1030, 5, "/a.c")];
        let file = File::new(0).lines(0x1000, &rows).load(10, 0x1000, 0, "f");
        for (address, line) in [(0x1000, "/a.c:4"), (0x102f, "/b.c:9"), (0x1030, "/a.c:5")] {
            assert_eq!(file.at(address), [format!("10 f {line}")]);
        }
        // The next function at this address has none.
        assert_eq!(file.load(20, 0x1000, 1, "g").at(0x1000)[1], "20 g");
    }

    #[test]
    fn addresses_of_lines_as_v8_has_them_lie_behind_a_header() {
        let v8 = |start: u64| [(start + 0x40, 4, "file:///a.js"), (start + 0x48, 5, "same")];
        let file = File::new(0).lines(0x1000, &v8(0x1000));
        let file = file.load(10, 0x1000, 0, "JS:*f /a.js:3:1");
        assert_eq!(file.at(0x1007), ["10 JS:*f /a.js:4"]);
        assert_eq!(file.at(0x1008), ["10 JS:*f /a.js:5"]);
        // One function whose lines begin with it, and no address has been added to.
        let file = file.lines(0x2000, &[(0x2000, 1, "/b.c")]);
        assert_eq!(file.at(0x1008), ["10 JS:*f /a.js:3"]);
    }

    #[test]
    fn file_names_that_v8_had_freed_are_told_by_what_is_left() {
        let freed = "\u{10}a\0\0\0\0\0\0=1234567";
        let (mine, other) = (format!("{freed}/main.js"), format!("{freed}/util.js"));
        let rows = [(0x1040, 4, &*mine), (0x1048, 9, &*other), (0x1050, 5, &*mine)];
        let file = File::new(0).lines(0x1000, &rows);
        let file = file.load(10, 0x1000, 0, "JS:*f file:///home/you/main.js:3:1");
        let whole = "file:///home/you/main.js".len();
        assert_eq!(whole, mine.len(), "for this test");
        for (address, line) in [(0x1007, 4), (0x1008, 3), (0x1017, 5)] {
            let shown = format!("10 JS:*f /home/you/main.js:{line}");
            assert_eq!(file.at(address), [shown], "the line in another file is left out");
        }
    }

    #[test]
    fn beyond_the_bound_nothing_is_known() {
        let mut file = File::new(0);
        for n in 0..CHANGES_MAX as u64 + 10 {
            file = file.load(n, 0x1000, n, &format!("f{n}"));
        }
        let all = file.at(0x1000);
        assert_eq!(all.len(), CHANGES_MAX + 1);
        assert_eq!(all.last().unwrap(), &format!("{CHANGES_MAX} -"));
    }

    #[test]
    fn behind_the_bytes_that_are_read_nothing_is_known() {
        let file = File::new(0).load(10, 0x1000, 0, "first");
        let file = file.record(4, 20, &[], &vec![0; BYTES_MAX / 2]);
        let whole = file.load(30, 0x1000, 1, "second");
        assert_eq!(whole.at(0x1000), ["10 first", "30 second"]);
        let file = File(whole.0.clone()).record(4, 40, &[], &vec![0; BYTES_MAX]);
        let cut = file.load(50, 0x1000, 2, "third");
        assert_eq!(cut.at(0x1000), ["10 first", "30 second", "31 -"]);
        let hole = File([whole.0, vec![0; BYTES_MAX]].concat());
        assert_eq!(hole.at(0x1000), ["10 first", "30 second"]);
    }

    #[test]
    fn records_that_make_much_work_are_given_up() {
        // All of them say the same of two addresses.
        let mut file = File::new(0);
        for n in 0..LOOKS_MAX as u64 {
            file = file.record(LOAD, n, &[7, 0, 0, u64::MAX, n], b"f\0");
        }
        let all = functions(&file.0, &[(1, 0), (2, 1)], &|| false).unwrap();
        for functions in all {
            let since: Vec<(u64, bool)> = functions.iter().map(|f| (f.0, f.1.is_some())).collect();
            assert_eq!(since, [(0, true), (LOOKS_MAX as u64 / 2, false)]);
        }
        // Code that moves has its lines read again, but not for ever.
        let rows: Vec<(u64, u32, &str)> = (0..256).map(|n| (0x1000 + n, 5, "/a.c")).collect();
        let mut file = File::new(0).lines(0x1000, &rows).load(10, 0x1000, 3, "f");
        let place = |n: u64| 0x10_0000 + n * 0x1000;
        for n in 0..64 {
            file = file.record(MOVE, 20, &[7, 0, 0, place(n), 256, 3], &[]);
        }
        assert_eq!(file.at(place(0)), ["20 f /a.c:5"]);
        assert_eq!(file.at(place(63)), ["20 f /a.c:5"], "one is asked for");
        let places: Vec<(u64, u32)> = (0..64).map(|n| (place(n), n as u32)).collect();
        let all = functions(&file.0, &places, &|| false).unwrap();
        let n_lines = |functions: &[Since]| functions[0].1.as_ref().is_some_and(|c| c.line == 5);
        let with_lines = all.iter().filter(|functions| n_lines(functions)).count();
        assert!((1..10).contains(&with_lines), "{with_lines}");
        assert!(all.iter().all(|functions| functions.len() == 1));
    }

    #[test]
    fn claims_lead_nowhere() {
        let good = File::new(0).lines(0x1000, &[(0x1000, 5, "/a.c")]).load(10, 0x1000, 0, "f");
        for len in 0..good.0.len() {
            let cut = File(good.0[..len].to_vec());
            let read = functions(&cut.0, &[(0x1000, 0)], &|| false);
            assert!(read.is_none_or(|all| all[0].is_empty()), "{len} bytes");
        }
        for at in 0..good.0.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = good.0.clone();
                bytes[at] = byte;
                let _ = functions(&bytes, &[(0x1000, 0), (u64::MAX, 1)], &|| false);
            }
        }
        let end = u64::MAX - 4;
        let file = File::new(0).load(10, end, 0, "f").lines(end, &[(3, 1, "/a.c")]);
        assert_eq!(file.at(u64::MAX - 1), ["10 f"]);
        let none = File::new(0).record(DEBUG, 0, &[0x1000, u64::MAX], &[]);
        assert_eq!(none.load(1, 0x1000, 0, "f").at(0x1000), ["1 f"]);
        assert!(functions(&good.0, &[(0x1000, 0)], &|| true).is_none());
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = "x".repeat(3 * NAME_BYTES_MAX);
        let file = File::new(0).load(10, 0x1000, 0, &name);
        assert_eq!(file.at(0x1000)[0].len(), "10 ".len() + NAME_BYTES_MAX);
    }
}
