//! The interpreter of Python in a stack: which frames run Python code, and where their variables may be.
//!
//! A frame of `_PyEval_EvalFrameDefault` runs a Python function, since 3.11 also those that this function calls. Which one, it
//! has in registers and in its part of the stack. [`EvalFrame`] holds both; what they mean depends on the version, and on the
//! memory of the process, so that a caller of this crate finds it out ([`Interpreter`]).
use crate::cpu::{Registers, Stack};
use crate::elf::{Elf, ReadAt, exported};
use crate::intern::Interner;
use std::ops::Range;
use std::rc::Rc;

/// Most bytes of the stack that one frame of the interpreter takes; real ones have 200 to 600.
const FRAME_BYTES_MAX: u64 = 4096;

/// A file that holds an interpreter of Python. Addresses are those that the file states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// Tells it from all other files.
    pub key: [u64; 6],
    /// Minor version of Python 3.
    pub minor: u8,
    /// `_PyEval_EvalFrameDefault`.
    pub eval: Range<u64>,
    /// `_PyRuntime`.
    pub runtime: u64,
    /// `PyCode_Type`.
    pub code_type: u64,
    /// `PyFrame_Type`.
    pub frame_type: u64,
    /// `PyUnicode_Type`.
    pub unicode_type: u64,
    /// `PyBytes_Type`.
    pub bytes_type: u64,
    /// Bytes by which the code that `-X perf` makes moves the stack pointer before it calls; `None`: it has a frame pointer, or is not known.
    pub(crate) trampoline_bytes: Option<u64>,
}

impl Python {
    /// Looks for one; the name of the file decides whether it is worth it.
    pub(crate) fn find(elf: &Elf, file: &dyn ReadAt, path: &str, key: [u64; 6]) -> Option<Python> {
        let name_minor = minor_of_name(path)?;
        let names = [
            "_PyEval_EvalFrameDefault",
            "_PyRuntime",
            "PyCode_Type",
            "PyFrame_Type",
            "PyUnicode_Type",
            "PyBytes_Type",
            "Py_Version",
            "_Py_trampoline_func_start",
        ];
        let [eval, runtime, code, frame, unicode, bytes, version, trampoline] =
            exported(file, names);
        // PY_VERSION_HEX, since 3.11; before, only the name says it.
        let version = version.and_then(|v| elf.bytes_at(file, v.start, 4));
        let minor = match version.as_deref() {
            Some(&[_, _, minor, 3]) => minor,
            Some(_) => return None,
            None => name_minor.filter(|minor| *minor < 11)?,
        };
        Some(Python {
            key,
            minor,
            eval: eval?,
            runtime: runtime?.start,
            code_type: code?.start,
            frame_type: frame?.start,
            unicode_type: unicode?.start,
            bytes_type: bytes?.start,
            trampoline_bytes: trampoline.and_then(|t| moved_by(&elf.bytes_at(file, t.start, 15)?)),
        })
    }
}

/// The minor version in `python3.9`, `libpython3.9.so.1.0`. `None`: no such name; `Some(None)`: one without a version.
fn minor_of_name(path: &str) -> Option<Option<u8>> {
    let name = path.rsplit('/').next()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let name = name.strip_prefix("lib").unwrap_or(name);
    let version = name.strip_prefix("python")?;
    let minor = version.strip_prefix("3.").map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    Some(minor.flatten())
}

/// sub $8,%rsp; call *%rcx; add $8,%rsp; ret; before it there may be endbr64.
fn moved_by(code: &[u8]) -> Option<u64> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let is_it = code.starts_with(&[0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3]);
    is_it.then_some(8)
}

/// A frame of the interpreter's loop.
#[derive(Clone, Debug)]
pub struct EvalFrame {
    /// The interpreter.
    pub python: Rc<Python>,
    /// Address in memory - address of its file.
    pub bias: u64,
    /// Its registers; of a frame that has called another, those that this one will restore.
    pub registers: Registers,
    /// Its part of the stack.
    pub stack: Range<u64>,
    /// Whether it is the innermost frame, so that all registers are its own.
    pub is_innermost: bool,
    /// Place in the chain.
    pub(crate) ix: usize,
    /// Whether code that `-X perf` made called it, which stands for the same function.
    pub(crate) has_trampoline: bool,
}

impl EvalFrame {
    /// The frame at place `ix` of the chain; `None`: its part of the stack is none.
    pub(crate) fn new(
        python: Rc<Python>,
        bias: u64,
        registers: Registers,
        stack: Range<u64>,
        ix: usize,
    ) -> Option<EvalFrame> {
        let len = stack.end.checked_sub(stack.start)?;
        (len <= FRAME_BYTES_MAX).then_some(EvalFrame {
            python,
            bias,
            registers,
            stack,
            is_innermost: ix == 0,
            ix,
            has_trampoline: false,
        })
    }
}

/// What an interpreter runs in one of its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inner {
    /// Modules and addresses of the functions, innermost first; none: not known.
    pub functions: Vec<(u32, u64)>,
    /// The module and address that stand for callers which are not known, of the last of these functions, or of the interpreter's
    /// own frame where there are none; `None`: the functions are all.
    pub gap: Option<(u32, u64)>,
}

/// Finds out what interpreters run.
pub trait Interpreter {
    /// What runs in each of these frames, innermost first, of one thread. `is_complete`: they are all of the thread's.
    fn inner(
        &mut self,
        pid: i32,
        frames: &[EvalFrame],
        stack: &Stack<'_>,
        is_complete: bool,
        interner: &mut Interner,
    ) -> Vec<Inner>;
}

/// Knows nothing.
pub struct NoInterpreter;

impl Interpreter for NoInterpreter {
    fn inner(
        &mut self,
        _: i32,
        _: &[EvalFrame],
        _: &Stack<'_>,
        _: bool,
        _: &mut Interner,
    ) -> Vec<Inner> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_at_if_its_name_may_be_that_of_an_interpreter() {
        assert_eq!(minor_of_name("/usr/bin/python3.9"), Some(Some(9)));
        assert_eq!(minor_of_name("/x/libpython3.10.so.1.0"), Some(Some(10)));
        assert_eq!(minor_of_name("/x/libpython3.8.so (deleted)"), Some(Some(8)));
        assert_eq!(minor_of_name("/usr/bin/python3"), Some(None));
        assert_eq!(minor_of_name("/usr/bin/python2.7"), Some(None));
        assert_eq!(minor_of_name("/usr/bin/ipython3.9"), None);
        assert_eq!(minor_of_name("/usr/lib/libc.so.6"), None);
    }
}
