//! Names for addresses in code: functions, what was inlined into them, files and lines.
//!
//! A recording holds each place in the code once, as a file and an address in it ([`kasuri_format::call_paths`]). This crate
//! gives these places the names that the source has: from symbol tables and DWARF of the file itself or of its separate debug
//! file, from the kernel's list of symbols, and from what a JIT compiler leaves: a list, or a jitdump.
//!
//! ```text
//! frames without names -> tasks() -> one Task for each file: its bytes and the addresses asked for -> run() -> Names
//! ```
//!
//! | module | does |
//! |---|---|
//! | `parts` | segments, sections and libraries of ELF files, read piece by piece |
//! | `source` | finds the files that can name a module's code, and makes sure that they are the ones that ran |
//! | `jitdump` | code made at run time, by address and time |
//! | `elf` | build-ids, links to debug files, symbol tables |
//! | `dwarf` | functions, inlined calls, files and lines |
//! | `scopes` | what C++ functions are in that have bare names only |
//! | [`kallsyms`] | the kernel's symbols as a table that can be kept |
//! | `spin` | loops that wait for another thread, by their instructions |
//! | `stubs` | stubs that call functions of other files, and what a call leads to |
//! | `text` | the kernel's symbols, perf maps |
//! | [`usdt`] | probes that a program's author put into it |
//! | `work` | divides the work among threads, keeps to the time, survives what panics |
//!
//! It opens nothing itself: [`Files`] does, which the recorder implements with the care that strangers' files need. Any bytes
//! give names or none, never a panic that leaves [`run`]; a file that makes a library loop or exhausts the memory can only be
//! stopped from outside, so the recorder runs it in a process of its own.
//!
//! Names stay as they are in the file: `analyze` demangles them for the screen.
mod dwarf;
mod elf;
mod jitdump;
pub mod kallsyms;
mod minidebug;
mod parts;
mod scopes;
mod source;
mod spin;
mod stubs;
mod text;
pub mod usdt;
mod work;

pub use elf::build_id;
pub use parts::{Links, ReadAt, links};
pub use source::{Files, Numbering, Opened, Task, tasks};
pub use work::{Event, Phase, costly, costly_to_unpack, run};

use kasuri_base::call_path::SPIN_LOOP;
use kasuri_format::call_paths::{Call, NONE, Names, Tables};
use std::io::BufRead;
use std::sync::Arc;

/// Bytes of an open file. They stay readable as long as this lives, also when the file is cut.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A list in text that is read once, from its start.
pub type List = Box<dyn BufRead + Send>;

/// The reason that a frame has no name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Why {
    /// Its file was not found.
    Missing,
    /// The file at its path is another than the one that ran.
    Replaced,
    /// No symbol table and no debug information covers it.
    NoSymbol,
    /// The kernel shows its symbols to root only.
    KernelHidden,
    /// Code made at run time whose process left no list of it.
    NoJitMap,
    /// Code that a jitdump tells apart by time only, where names cannot have one: a recording that is packed already.
    Reused,
    /// An address outside of any file.
    NoModule,
    /// A list that only the machine has that made the recording, until it is started again.
    OtherBoot,
    /// The time was over, or its file cannot be read by the libraries that read debug information.
    NotReached,
}

impl Why {
    /// In words, after "no name: ".
    pub fn words(self) -> &'static str {
        match self {
            Why::Missing => "file not found",
            Why::Replaced => "file replaced since",
            Why::NoSymbol => "no symbol there",
            Why::KernelHidden => "kernel symbols hidden",
            Why::NoJitMap => "no map of generated code",
            Why::Reused => "memory used for several functions in turn",
            Why::NoModule => "no file at that address",
            Why::OtherBoot => "recorded elsewhere, or before a restart",
            Why::NotReached => "time was over, or file unreadable",
        }
    }
}

/// The calls of a frame from a time on, until the next of that frame. Memory of code that was made at run time is used again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timed {
    /// The frame and its calls; none: not known.
    pub names: Names,
    /// CLOCK_MONOTONIC, ns; of the first of a frame 0.
    pub from_ns: u64,
}

/// How much is known about a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Known {
    /// No name.
    #[default]
    Nothing,
    /// Its function.
    Function,
    /// Its line too.
    Line,
}

impl Known {
    /// What a frame's calls say. A loop is no function: its name may yet be found.
    pub fn of(calls: &[Call]) -> Known {
        let is_named = |c: &Call| !c.function.is_empty() && !c.function.starts_with(SPIN_LOOP);
        match calls {
            _ if calls.iter().any(|c| c.line > 0) => Known::Line,
            _ if calls.iter().any(is_named) => Known::Function,
            _ => Known::Nothing,
        }
    }

    /// Of each row of [`Tables::frames`].
    pub fn of_all(tables: &Tables) -> Vec<Known> {
        let mut known = vec![Known::Nothing; tables.frames.len()];
        for names in &tables.names {
            if let Some(slot) = known.get_mut(names.frame as usize) {
                *slot = Known::of(&names.calls);
            }
        }
        known
    }
}

/// The innermost call that the code at a frame's address is in: neither what it calls there nor a loop that waits, which stand before it.
pub fn place(calls: &[Call]) -> Option<&Call> {
    let is_inside = |c: &&Call| {
        c.line == 0 && (c.function.starts_with(SPIN_LOOP) || stubs::may_jump_on(&c.function))
    };
    calls.iter().find(|c| !is_inside(c)).or(calls.last())
}

/// Rows of [`Tables::frames`] without a name: the frames to ask for.
pub fn unnamed(tables: &Tables) -> Vec<u32> {
    let known = Known::of_all(tables).into_iter().zip(0..NONE);
    known.filter(|(k, _)| *k == Known::Nothing).map(|(_, row)| row).collect()
}
