//! Call paths: the code that threads ran, and the calls that they waited in.
//!
//! A stack is a row of [`Frame`]s. Stacks are kept as a tree: a [`Path`] is a frame and the path of its caller, so that equal
//! stacks are one number and similar ones share their outer part. A [`Sample`] says that a thread was at a path at a moment.
//! [`Names`] say what a frame's address is in the source; they can be added later, by whoever has the debug information.
//!
//! All of it is written as one log of records that refer to earlier ones only ([`LogWriter`], [`read_log`]). The recorder
//! appends to `call-paths.log`; the packed file holds the same records in tables, without the samples, which become columns
//! (`container/samples.rs`). Spec: docs/format.md, chapter "Call paths".
use crate::bytes::Cursor;
use crate::{Error, Result};

/// No row: the module of code that belongs to no file, the caller of an outermost frame, the path of a sample without one.
pub const NONE: u32 = u32::MAX;
/// Most bytes of a string or build-id in a log; longer ones are cut when written.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Most calls that one address may stand for: a function and what was inlined into it.
const CALLS_MAX: usize = 256;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $number),*
        }
        impl $name {
            /// The variant with this number.
            pub const fn from_number(number: u8) -> Option<$name> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// The kind of file, or of memory, that code lies in.
    ModuleKind {
        /// An ELF file: program or shared library.
        #[default]
        Elf = 0,
        /// The code that the kernel maps into each process.
        Vdso = 1,
        /// The kernel and its modules.
        Kernel = 2,
        /// Code that a process made while it ran: memory without a file.
        Jit = 3,
        /// A file that could not be read.
        Unreadable = 4,
    }
}

/// Where code lies.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Module {
    /// Its kind.
    pub kind: ModuleKind,
    /// Path as the process that mapped it sees it; `[vdso]`, `[kernel]`; `Jit`: the jitdump that the process
    /// had mapped, or ""; `[python]`.
    pub path: String,
    /// GNU build-id; empty: it has none.
    pub build_id: Vec<u8>,
    /// `Jit`: the process whose memory it is. Else 0.
    pub pid: i32,
}

/// One place in the code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// Row of [`Tables::modules`]; [`NONE`]: an address in no known mapping.
    pub module: u32,
    /// `Elf` and `Vdso`: the address that the file itself gives this code (as in its symbol table), so that it does not depend on where
    /// it was loaded. Else the address in memory. For a frame that has called another, it lies inside the call: the return address - 1.
    pub address: u64,
}

/// A frame and its callers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Path {
    /// Row of [`Tables::paths`]: the path of the caller; [`NONE`]: outermost.
    pub caller: u32,
    /// Row of [`Tables::frames`].
    pub frame: u32,
}

/// One function, as the source has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Call {
    /// Name as the symbol table or debug information gives it (C++ and Rust: mangled where it came mangled).
    pub function: String,
    /// Source file; empty: not known.
    pub file: String,
    /// Line in it; 0: not known.
    pub line: u32,
}

/// What the source calls the place of a frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// Row of [`Tables::frames`].
    pub frame: u32,
    /// Innermost first: what was inlined there, then the function that holds the code. Empty: not known.
    pub calls: Vec<Call>,
}

/// Modules, frames, paths and names. Rows refer to earlier rows of their own table and to rows of the tables before it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tables {
    /// Files of code.
    pub modules: Vec<Module>,
    /// Places.
    pub frames: Vec<Frame>,
    /// The tree.
    pub paths: Vec<Path>,
    /// Names of frames, in any order; of two for one frame the later holds.
    pub names: Vec<Names>,
}

numbered! {
    /// The moment at which a sample was taken.
    SampleKind {
        /// While the thread ran, by a clock.
        #[default]
        OnCpu = 0,
        /// When it left its CPU to wait (at the switch).
        Blocked = 1,
        /// While it waited: read from outside.
        BlockedRead = 2,
        /// When it woke another thread.
        Waker = 3,
        /// When it began to wait for a lock (the lock probe).
        LockWait = 4,
    }
}

numbered! {
    /// Whether a path reaches the outermost frame of its thread.
    PathEnd {
        /// It does.
        #[default]
        Complete = 0,
        /// The copy of the stack was too short.
        StackCut = 1,
        /// No rule to find the caller: code without unwind information, or memory that is no stack.
        NoRule = 2,
        /// More frames than are followed.
        TooDeep = 3,
        /// Nothing of the user's stack was captured; the path, if any, is the kernel's.
        NoStack = 4,
        /// It does, but callers within an interpreter are not known; a frame of the path says where they are missing.
        Gap = 5,
    }
}

/// A thread was there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// CPU; `BlockedRead`: 0.
    pub cpu: u32,
    /// The moment.
    pub kind: SampleKind,
    /// Whether its path is whole.
    pub end: PathEnd,
    /// Row of [`Tables::paths`]: its innermost frame; frames of the kernel lie below those of the user. [`NONE`]: no frame is known.
    pub path: u32,
}

/// A log, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// Tables.
    pub tables: Tables,
    /// In the order in which they were written.
    pub samples: Vec<Sample>,
}

const MODULE: u8 = 1;
const FRAME: u8 = 2;
const PATH: u8 = 3;
const SAMPLE: u8 = 4;
const NAMES: u8 = 5;

/// Encodes records to bytes that the caller takes and appends to a file. Numbers are LEB128 varints.
#[derive(Debug, Default)]
pub struct LogWriter {
    bytes: Vec<u8>,
    n_paths: u64,
    last_ns: u64,
}

impl LogWriter {
    /// The bytes since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Bytes not yet taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Defines the next module.
    pub fn module(&mut self, module: &Module) {
        self.bytes.extend([MODULE, module.kind as u8]);
        self.text(module.path.as_bytes());
        self.text(&module.build_id);
        self.number(module.pid as u32);
    }

    /// Defines the next frame.
    pub fn frame(&mut self, frame: Frame) {
        self.bytes.push(FRAME);
        self.row(frame.module);
        self.number(frame.address);
    }

    /// Defines the next path. Its caller is stored as a distance: most follow their callers closely.
    pub fn path(&mut self, path: Path) {
        self.bytes.push(PATH);
        let back = match path.caller {
            NONE => 0,
            caller => self.n_paths - u64::from(caller),
        };
        self.number(back);
        self.number(path.frame);
        self.n_paths += 1;
    }

    /// Adds a sample. They come about in order of time; out of it they take more bytes.
    pub fn sample(&mut self, sample: &Sample) {
        self.bytes.extend([SAMPLE, sample.kind as u8 | (sample.end as u8) << 4]);
        let delta = sample.time_ns.wrapping_sub(self.last_ns) as i64;
        self.number((delta << 1 ^ delta >> 63) as u64);
        self.last_ns = sample.time_ns;
        self.number(sample.pid as u32);
        self.number(sample.tid as u32);
        self.number(sample.cpu);
        self.row(sample.path);
    }

    /// Adds the names of a frame.
    pub fn names(&mut self, names: &Names) {
        self.bytes.push(NAMES);
        self.number(names.frame);
        let n = names.calls.len().min(CALLS_MAX);
        self.number(n as u64);
        for call in &names.calls[..n] {
            self.text(call.function.as_bytes());
            self.text(call.file.as_bytes());
            self.number(call.line);
        }
    }

    /// Adds all modules, frames and paths of `tables`, not the names.
    pub fn tables(&mut self, tables: &Tables) {
        tables.modules.iter().for_each(|m| self.module(m));
        tables.frames.iter().for_each(|&f| self.frame(f));
        tables.paths.iter().for_each(|&p| self.path(p));
    }

    /// A row that may be [`NONE`], as row + 1 or 0.
    fn row(&mut self, row: u32) {
        self.number(u64::from(row.wrapping_add(1)));
    }

    fn number(&mut self, value: impl Into<u64>) {
        let mut value = value.into();
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn text(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
}

/// Reads a log that begins `base` bytes into its file: what is whole before the first damage, and that damage. A log that was cut
/// by a kill ends in an error of kind [`crate::ErrorKind::Truncated`].
pub fn read_log(bytes: &[u8], base: u64) -> (Log, Option<Error>) {
    let mut log = Log::default();
    let error = continue_log(&mut log, bytes, base).err();
    (log, error)
}

/// Reads more records into `log`: of a table block, whose rows go on where those before end.
///
/// # Errors
/// The first damage; what came before it is in `log`.
pub fn continue_log(log: &mut Log, bytes: &[u8], base: u64) -> Result<()> {
    let mut cursor = Cursor::new(bytes, base, "call paths");
    let mut last_ns = 0;
    while cursor.left() > 0 {
        match cursor.u8()? {
            MODULE => {
                let module = read_module(&mut cursor)?;
                log.tables.modules.push(module);
            }
            FRAME => {
                let module = row(&mut cursor, log.tables.modules.len())?;
                let address = number(&mut cursor)?;
                log.tables.frames.push(Frame { module, address });
            }
            PATH => {
                let path = read_path(&mut cursor, &log.tables)?;
                log.tables.paths.push(path);
            }
            SAMPLE => {
                let sample = read_sample(&mut cursor, log.tables.paths.len(), &mut last_ns)?;
                log.samples.push(sample);
            }
            NAMES => {
                let names = read_names(&mut cursor, log.tables.frames.len())?;
                log.tables.names.push(names);
            }
            tag => return Err(cursor.damaged(format!("record {tag}"), "1 to 5")),
        }
    }
    Ok(())
}

fn read_module(cursor: &mut Cursor<'_>) -> Result<Module> {
    let kind = cursor.u8()?;
    let Some(kind) = ModuleKind::from_number(kind) else {
        return Err(cursor.damaged(format!("module kind {kind}"), "0 to 4"));
    };
    Ok(Module {
        kind,
        path: text(cursor)?,
        build_id: slice(cursor)?.to_vec(),
        pid: number_u32(cursor)? as i32,
    })
}

fn read_path(cursor: &mut Cursor<'_>, tables: &Tables) -> Result<Path> {
    let n = tables.paths.len() as u64;
    let caller = match number(cursor)? {
        0 => NONE,
        back if back <= n => (n - back) as u32,
        back => {
            return Err(
                cursor.damaged(format!("a caller {back} paths before path {n}"), "an earlier path")
            );
        }
    };
    let frame = row_plain(cursor, tables.frames.len())?;
    Ok(Path { caller, frame })
}

fn read_sample(cursor: &mut Cursor<'_>, n_paths: usize, last_ns: &mut u64) -> Result<Sample> {
    let bits = cursor.u8()?;
    let (Some(kind), Some(end)) =
        (SampleKind::from_number(bits & 15), PathEnd::from_number(bits >> 4))
    else {
        return Err(cursor.damaged(format!("sample bits {bits:#x}"), "a kind and an end"));
    };
    let delta = number(cursor)?;
    *last_ns = last_ns.wrapping_add(delta >> 1 ^ (delta & 1).wrapping_neg());
    Ok(Sample {
        time_ns: *last_ns,
        pid: number_u32(cursor)? as i32,
        tid: number_u32(cursor)? as i32,
        cpu: number_u32(cursor)?,
        kind,
        end,
        path: row(cursor, n_paths)?,
    })
}

fn read_names(cursor: &mut Cursor<'_>, n_frames: usize) -> Result<Names> {
    let frame = row_plain(cursor, n_frames)?;
    let n = number(cursor)?;
    if n > CALLS_MAX as u64 {
        return Err(cursor.damaged(format!("{n} calls"), format!("at most {CALLS_MAX}")));
    }
    let mut calls = Vec::with_capacity(n as usize);
    for _ in 0..n {
        calls.push(Call {
            function: text(cursor)?,
            file: text(cursor)?,
            line: number_u32(cursor)?,
        });
    }
    Ok(Names { frame, calls })
}

fn number(cursor: &mut Cursor<'_>) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = cursor.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(cursor.damaged("a number of more than 64 bits", "at most 10 bytes"))
}

fn number_u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    let value = number(cursor)?;
    u32::try_from(value).map_err(|_| cursor.damaged(format!("{value}"), "a number of 32 bits"))
}

/// A row stored as row + 1 or 0, of a table with `n` rows.
fn row(cursor: &mut Cursor<'_>, n: usize) -> Result<u32> {
    match number(cursor)? {
        0 => Ok(NONE),
        stored if stored - 1 < n as u64 => Ok((stored - 1) as u32),
        stored => Err(cursor.damaged(format!("row {}", stored - 1), format!("below {n}"))),
    }
}

fn row_plain(cursor: &mut Cursor<'_>, n: usize) -> Result<u32> {
    match number(cursor)? {
        stored if stored < n as u64 => Ok(stored as u32),
        stored => Err(cursor.damaged(format!("row {stored}"), format!("below {n}"))),
    }
}

fn slice<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let n = number(cursor)?;
    if n > TEXT_BYTES_MAX as u64 {
        return Err(
            cursor.damaged(format!("{n} bytes of text"), format!("at most {TEXT_BYTES_MAX}"))
        );
    }
    cursor.take(n as usize)
}

fn text(cursor: &mut Cursor<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(slice(cursor)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn example() -> Log {
        let module = |kind, path: &str, pid| Module {
            kind,
            path: path.into(),
            build_id: vec![1, 2, 0xff],
            pid,
        };
        let sample = |time_ns, kind, end, path| Sample {
            time_ns,
            pid: 40,
            tid: 41,
            cpu: 3,
            kind,
            end,
            path,
        };
        Log {
            tables: Tables {
                modules: vec![
                    module(ModuleKind::Elf, "/usr/bin/xz", 0),
                    module(ModuleKind::Jit, "", 7),
                ],
                frames: vec![
                    Frame { module: 0, address: 0x1234 },
                    Frame { module: NONE, address: u64::MAX },
                    Frame { module: 1, address: 0 },
                ],
                paths: vec![
                    Path { caller: NONE, frame: 0 },
                    Path { caller: 0, frame: 2 },
                    Path { caller: 0, frame: 1 },
                ],
                names: vec![Names {
                    frame: 0,
                    calls: vec![
                        Call { function: "inner".into(), file: "a.c".into(), line: 7 },
                        Call { function: "outer".into(), file: String::new(), line: 0 },
                    ],
                }],
            },
            samples: vec![
                sample(1_000_000_000_000, SampleKind::OnCpu, PathEnd::Complete, 2),
                // Earlier than the one before.
                sample(999_999_999_999, SampleKind::LockWait, PathEnd::NoStack, NONE),
                sample(u64::MAX, SampleKind::Waker, PathEnd::StackCut, 0),
            ],
        }
    }

    fn bytes(log: &Log) -> Vec<u8> {
        let mut writer = LogWriter::default();
        writer.tables(&log.tables);
        log.tables.names.iter().for_each(|n| writer.names(n));
        log.samples.iter().for_each(|s| writer.sample(s));
        writer.take()
    }

    #[test]
    fn a_log_reads_back_as_it_was_written() {
        let log = example();
        assert_eq!(read_log(&bytes(&log), 0), (log, None));
    }

    #[test]
    fn a_log_cut_anywhere_keeps_what_is_whole() {
        let log = example();
        let bytes = bytes(&log);
        let mut kept = 0;
        for n in 0..bytes.len() {
            let (part, error) = read_log(&bytes[..n], 100);
            let rows = part.tables.modules.len()
                + part.tables.frames.len()
                + part.tables.paths.len()
                + part.tables.names.len()
                + part.samples.len();
            assert!(rows >= kept, "byte {n}: more bytes hold no less");
            kept = rows;
            match error {
                None => assert!(rows > 0 || n == 0),
                Some(e) => {
                    assert_eq!(e.kind, ErrorKind::Truncated, "byte {n}");
                    assert!((100..=100 + n as u64).contains(&e.offset), "byte {n}: {e}");
                }
            }
        }
        assert_eq!(kept, 11, "all but the last record");
    }

    #[test]
    fn a_reference_to_a_later_row_is_an_error_at_its_place() {
        for (bytes, found) in [
            (vec![FRAME, 1, 0], "row 0"),
            (vec![PATH, 1, 0], "a caller 1 paths before path 0"),
            (vec![PATH, 0, 0], "row 0"),
            (vec![SAMPLE, 0, 0, 0, 0, 0, 5], "row 4"),
            (vec![NAMES, 0, 0], "row 0"),
            (vec![9], "record 9"),
            (vec![MODULE, 200], "module kind 200"),
            (vec![SAMPLE, 0xff], "sample bits 0xff"),
        ] {
            let (log, error) = read_log(&bytes, 10);
            assert_eq!(log, Log::default());
            let error = error.expect("an error");
            assert_eq!((error.kind, &*error.found), (ErrorKind::Damaged, found));
            assert!((10..=10 + bytes.len() as u64).contains(&error.offset), "{error}");
        }
    }

    #[test]
    fn claims_beyond_the_bounds_are_refused() {
        let mut long = vec![NAMES];
        long.extend([0xff; 9]);
        long.push(1);
        assert!(read_log(&long, 0).1.is_some());
        let (_, error) = read_log(&[MODULE, 0, 0xff, 0xff, 0x7f], 0);
        assert_eq!(error.expect("too long").needed, "at most 16384");
    }
}
