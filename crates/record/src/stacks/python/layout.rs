//! Where the fields of Python's own structures are, in each version. Facts of its headers: `tests/record/python_layout.c` prints
//! them, and `crates/cli/tests/record/python.rs` compares them where headers of a version are installed.

/// How a frame of the interpreter and its functions belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    /// Each runs one function, whose frame is an object (until 3.10).
    Objects,
    /// Each runs a function and those that it calls. The outermost of them has a mark in this byte (3.11).
    Marked(u64),
    /// Beyond the outermost of them lies a frame of no function, whose byte at this place has the value 3 (3.12 and later).
    Shims(u64),
}

/// How the frame that a thread runs is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Current {
    /// Not needed.
    Stack,
    /// By way of a structure on the stack: offset of its address in the thread, and of the frame's in it.
    CFrame(u64, u64),
    /// Offset of its address in the thread.
    Direct(u64),
}

/// Offsets of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    /// First interpreter, in the runtime; the next one, in an interpreter; first thread of it.
    pub(super) interpreters: u64,
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    /// Next thread, and the kernel's number, in a thread.
    pub(super) next: u64,
    pub(super) tid: u64,
    pub(super) current: Current,
}

/// Offsets of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) minor: u8,
    pub(super) frames: Frames,
    /// In a frame: its code, its caller, its instruction.
    pub(super) frame_code: u64,
    pub(super) frame_caller: u64,
    pub(super) frame_instruction: u64,
    /// In code: its instructions (until 3.10 the address of an object that holds them), its constants, its first line, its file, its
    /// name, the table of its lines.
    pub(super) instructions: u64,
    pub(super) constants: u64,
    pub(super) first_line: u64,
    pub(super) file: u64,
    pub(super) name: u64,
    pub(super) lines: u64,
    /// In code: numbers of 32 bits whose sum is the length of a frame in words, and what is added to it.
    pub(super) frame_words: (&'static [u64], u64),
    /// Bytes before the characters of a string that is ASCII, and of another.
    pub(super) ascii: u64,
    pub(super) other: u64,
    pub(super) threads: Threads,
}

/// In an object: its type. In one of variable size: its length. In bytes: the first of them. In a string: its length in
/// characters, and its kind. The same in all versions.
pub(super) const TYPE: u64 = 8;
pub(super) const SIZE: u64 = 16;
pub(super) const BYTES: u64 = 32;
pub(super) const STRING_STATE: u64 = 32;
/// The mark of a frame of no function.
pub(super) const SHIM: u8 = 3;

const NO_THREADS: Threads = Threads {
    interpreters: 0,
    next_interpreter: 0,
    threads: 0,
    next: 0,
    tid: 0,
    current: Current::Stack,
};

const V8: Layout = Layout {
    minor: 8,
    frames: Frames::Objects,
    frame_code: 32,
    frame_caller: 24,
    frame_instruction: 104,
    instructions: 48,
    constants: 56,
    first_line: 40,
    file: 104,
    name: 112,
    lines: 120,
    frame_words: (&[], 0),
    ascii: 48,
    other: 72,
    threads: NO_THREADS,
};
const V9: Layout = Layout { minor: 9, ..V8 };
const V10: Layout = Layout { minor: 10, frame_instruction: 96, ..V8 };
const V11: Layout = Layout {
    minor: 11,
    frames: Frames::Marked(68),
    frame_code: 32,
    frame_caller: 48,
    frame_instruction: 56,
    instructions: 184,
    constants: 24,
    first_line: 72,
    file: 112,
    name: 128,
    lines: 136,
    frame_words: (&[76, 68], 9),
    ascii: 48,
    other: 72,
    threads: Threads {
        interpreters: 40,
        next_interpreter: 0,
        threads: 16,
        next: 8,
        tid: 160,
        current: Current::CFrame(56, 8),
    },
};
const V12: Layout = Layout {
    minor: 12,
    frames: Frames::Shims(70),
    frame_code: 0,
    frame_caller: 8,
    instructions: 192,
    first_line: 68,
    frame_words: (&[76], 0),
    ascii: 40,
    other: 56,
    threads: Threads { threads: 72, tid: 144, current: Current::CFrame(56, 0), ..V11.threads },
    ..V11
};
const V13: Layout = Layout {
    minor: 13,
    instructions: 200,
    threads: Threads {
        interpreters: 632,
        next_interpreter: 7264,
        threads: 7344,
        next: 8,
        tid: 160,
        current: Current::Direct(72),
    },
    ..V12
};

impl Layout {
    /// The layout of Python 3.`minor`; `None`: not known.
    pub(super) fn of(minor: u8) -> Option<&'static Layout> {
        const ALL: [Layout; 6] = [V8, V9, V10, V11, V12, V13];
        ALL.iter().find(|layout| layout.minor == minor)
    }
}
