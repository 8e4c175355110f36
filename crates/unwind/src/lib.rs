//! Registers and a copy of a stack -> the chain of calls.
//!
//! Programs are compiled without frame pointers, so the caller of a frame is found by the unwind information (`.eh_frame`)
//! that each ELF file has for its exceptions. [`Unwinder`] keeps the executable mappings of processes, reads what it needs
//! of each file once, follows stacks, and gives equal chains one row ([`Interner`]). It makes no system call: whoever calls
//! it opens files ([`Files`]) and copies stacks.
//!
//! | module | contents |
//! |---|---|
//! | `elf` | segments, build-id, unwind information of a file |
//! | `rules` | the rule at an address, and what it says of the caller |
//! | `prologue` | the frame pointer, from the stack pointer and the code |
//! | `cpu` | registers, copies of stacks |
//! | `maps` | mappings of processes |
//! | `walk` | the whole chain |
//! | `python` | frames in which an interpreter of Python runs its code |
//! | `intern` | rows of the format's tables |
mod cpu;
mod elf;
mod intern;
mod maps;
mod prologue;
mod python;
mod rules;
mod walk;

pub use cpu::{Cpu, N_REGISTERS, Registers, Stack};
pub use elf::{Bytes, ReadAt};
pub use intern::Interner;
pub use maps::{Backing, MAPPINGS_MAX, Mapping, backing, parse_maps};
pub use python::{EvalFrame, Inner, Interpreter, NoInterpreter, Python};
pub use walk::{Counts, DEPTH_MAX, File, Files, Unwinder};
