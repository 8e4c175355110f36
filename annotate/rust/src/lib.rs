//! Annotations for Rust: a thin layer over the C client, which it compiles in.
//!
//! ```
//! use kasuri_annotate::{arg, instant, slice};
//!
//! fn step(n: u64) {
//!     let _slice = slice!("step"); // ends with the block
//!     arg!("n", n);
//!     instant!("half way");
//! }
//! step(1);
//! ```
//!
//! Run the program under `kasuri record`. Without a recorder a macro is one load and one branch, a function a call more. All
//! functions: any thread, never block, never fail; what cannot be kept is counted by the recorder. A name is
//! registered at its first use.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

mod ffi {
    unsafe extern "C" {
        // Hidden, so each module of a program has its own; the C code is part of this crate.
        #[link_name = "kasuri__gate"]
        pub static GATE: super::Gate;
        pub fn kasuri_intern(name: *const std::ffi::c_char) -> u32;
        pub fn kasuri_begin(site: u32);
        pub fn kasuri_end();
        pub fn kasuri_instant(site: u32);
        pub fn kasuri_counter(site: u32, value: f64);
        pub fn kasuri_wait_begin(site: u32, kind: u32, object: u64);
        pub fn kasuri_wait_end(site: u32, kind: u32, object: u64);
        pub fn kasuri_lock_request(site: u32, mode: u32, lock: u64);
        pub fn kasuri_lock_acquired(site: u32, mode: u32, lock: u64);
        pub fn kasuri_lock_released(site: u32, mode: u32, lock: u64);
        pub fn kasuri_task_event(kind: u32, site: u32, task: u64, other: u64);
        pub fn kasuri_flow_out(site: u32, flow: u64);
        pub fn kasuri_flow_in(site: u32, flow: u64);
        pub fn kasuri_arg_i64(key: u32, v: i64);
        pub fn kasuri_arg_u64(key: u32, v: u64);
        pub fn kasuri_arg_f64(key: u32, v: f64);
        pub fn kasuri_arg_str(key: u32, s: *const u8, bytes: u64);
        pub fn kasuri_message(site: u32, s: *const u8, bytes: u64);
        pub fn kasuri_thread_name(s: *const u8, bytes: u64);
        pub fn kasuri_trigger(site: u32);
    }
}

/// `struct kasuri_gate` of kasuri.h.
#[repr(C)]
struct Gate {
    magic: u64,
    gate: AtomicU32,
    reserved: u32,
}

#[inline(always)]
fn gate() -> u32 {
    // SAFETY: the static lives as long as the program, and is shared only through the atomic word.
    unsafe { ffi::GATE.gate.load(Ordering::Relaxed) }
}

/// Whether a recorder listens. Cost: one load.
#[inline(always)]
pub fn enabled() -> bool {
    gate() == 1
}

/// Whether a recorder listens, or asks to be attached to: the annotation that sees this attaches.
#[doc(hidden)]
#[inline(always)]
pub fn wanted() -> bool {
    gate() != 0
}

/// A registered name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(u32);

impl Name {
    /// For events that need none.
    pub const NONE: Name = Name(0);

    /// Registers a name; the same text gives the same name. Walks a list: keep the result, or use the macros, which do.
    /// A text with a NUL in it, or no memory, gives [`Name::NONE`].
    pub fn new(text: &str) -> Name {
        match CString::new(text) {
            // SAFETY: a NUL-terminated string, copied by the callee.
            Ok(text) => Name(unsafe { ffi::kasuri_intern(text.as_ptr()) }),
            Err(_) => Name::NONE,
        }
    }
}

/// The [`Name`] of a literal, registered once for each place in the source.
#[macro_export]
macro_rules! name {
    ($text:literal) => {{
        static NAME: ::std::sync::OnceLock<$crate::Name> = ::std::sync::OnceLock::new();
        *NAME.get_or_init(|| $crate::Name::new($text))
    }};
}

/// A slice from here to the end of the block: `let _slice = slice!("solve");`
#[macro_export]
macro_rules! slice {
    ($text:literal) => {
        if $crate::wanted() { Some($crate::Slice::begin($crate::name!($text))) } else { None }
    };
}

/// A point in time: `instant!("converged");`
#[macro_export]
macro_rules! instant {
    ($text:literal) => {
        if $crate::wanted() {
            $crate::instant($crate::name!($text));
        }
    };
}

/// The value of a quantity from now on: `counter!("queue length", n as f64);`
#[macro_export]
macro_rules! counter {
    ($text:literal, $value:expr) => {
        if $crate::wanted() {
            $crate::counter($crate::name!($text), $value);
        }
    };
}

/// A value for the innermost open slice: `arg!("n", n);` for i64, u64, f64 and &str.
#[macro_export]
macro_rules! arg {
    ($key:literal, $value:expr) => {
        if $crate::wanted() {
            $crate::Arg::emit(&$value, $crate::name!($key));
        }
    };
}

/// Formatted text: `message!("{n} steps");`
#[macro_export]
macro_rules! message {
    ($($text:tt)*) => {
        if $crate::wanted() {
            $crate::message($crate::Name::NONE, &::std::format!($($text)*));
        }
    };
}

/// An open slice of the thread that made it; ends when dropped.
#[must_use = "a slice ends when it is dropped"]
#[derive(Debug)]
pub struct Slice {
    // Slices nest per thread, so this must not be sent to another.
    _here: std::marker::PhantomData<*const ()>,
}

impl Slice {
    /// Begins a slice.
    pub fn begin(name: Name) -> Slice {
        // SAFETY: any thread may annotate.
        unsafe { ffi::kasuri_begin(name.0) };
        Slice { _here: std::marker::PhantomData }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        // SAFETY: any thread may annotate.
        unsafe { ffi::kasuri_end() };
    }
}

/// What [`arg!`] takes.
pub trait Arg {
    /// Adds the value to the innermost open slice, or to the thread's last instant when that is newer.
    fn emit(&self, key: Name);
}
impl Arg for i64 {
    fn emit(&self, key: Name) {
        // SAFETY: any thread may annotate.
        unsafe { ffi::kasuri_arg_i64(key.0, *self) }
    }
}
impl Arg for u64 {
    fn emit(&self, key: Name) {
        // SAFETY: any thread may annotate.
        unsafe { ffi::kasuri_arg_u64(key.0, *self) }
    }
}
impl Arg for f64 {
    fn emit(&self, key: Name) {
        // SAFETY: any thread may annotate.
        unsafe { ffi::kasuri_arg_f64(key.0, *self) }
    }
}
impl Arg for &str {
    fn emit(&self, key: Name) {
        // SAFETY: the callee reads len bytes and keeps none.
        unsafe { ffi::kasuri_arg_str(key.0, self.as_ptr(), self.len() as u64) }
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wait {
    /// Anything else.
    Other = 0,
    /// A barrier.
    Barrier = 1,
    /// The end of a thread or task.
    Join = 2,
    /// A condition.
    Cond = 3,
    /// Input or output.
    Io = 4,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// By one.
    Exclusive = 0,
    /// By readers.
    Shared = 1,
}

/// A step in the life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Task {
    /// `other`: the parent, 0 for none.
    Create = 10,
    /// Runs on this thread from now on.
    Start = 11,
    /// `other`: the task or object waited for, or 0.
    Suspend = 12,
    /// Runs on this thread again.
    Resume = 13,
    /// Done.
    End = 14,
    /// Goes on after the end of `other`, whether it had to wait or not.
    Join = 25,
    /// Cannot start before the end of `other`.
    Depends = 27,
}

macro_rules! wrap {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty as $pass:expr),*) = $ffi:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name($($arg: $type),*) {
            // SAFETY: any thread may annotate; numbers only.
            unsafe { ffi::$ffi($($pass),*) }
        }
    )*};
}
wrap! {
    /// A point in time.
    instant(name: Name as name.0) = kasuri_instant;
    /// The value of a quantity from now on.
    counter(name: Name as name.0, value: f64 as value) = kasuri_counter;
    /// The thread begins to wait for an object.
    wait_begin(name: Name as name.0, kind: Wait as kind as u32, object: u64 as object) = kasuri_wait_begin;
    /// The wait is over.
    wait_end(name: Name as name.0, kind: Wait as kind as u32, object: u64 as object) = kasuri_wait_end;
    /// Before taking a lock.
    lock_request(name: Name as name.0, mode: Mode as mode as u32, lock: u64 as lock) = kasuri_lock_request;
    /// The lock is held.
    lock_acquired(name: Name as name.0, mode: Mode as mode as u32, lock: u64 as lock) = kasuri_lock_acquired;
    /// The lock has been given back.
    lock_released(name: Name as name.0, mode: Mode as mode as u32, lock: u64 as lock) = kasuri_lock_released;
    /// A step in the life of a task; ids are the program's own, not 0.
    task(step: Task as step as u32, name: Name as name.0, task: u64 as task, other: u64 as other) = kasuri_task_event;
    /// The start of an arrow.
    flow_out(name: Name as name.0, flow: u64 as flow) = kasuri_flow_out;
    /// The end of an arrow: the same id.
    flow_in(name: Name as name.0, flow: u64 as flow) = kasuri_flow_in;
    /// An instant that asks a flight recorder to save its last seconds.
    trigger(name: Name as name.0) = kasuri_trigger;
}

/// Text, at most 2,032 bytes; longer is lost and counted.
pub fn message(name: Name, text: &str) {
    // SAFETY: the callee reads len bytes and keeps none.
    unsafe { ffi::kasuri_message(name.0, text.as_ptr(), text.len() as u64) }
}

/// What the calling thread is called on the timeline.
pub fn thread_name(text: &str) {
    // SAFETY: the callee reads len bytes and keeps none.
    unsafe { ffi::kasuri_thread_name(text.as_ptr(), text.len() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_notice_a_recorder_that_asks_to_be_attached_to() {
        let macros: [fn(); 5] = [
            || drop(slice!("slice")),
            || instant!("instant"),
            || counter!("counter", 1.0),
            || arg!("arg", 1u64),
            || message!("message"),
        ];
        for (ix, annotate) in macros.into_iter().enumerate() {
            // SAFETY: as in gate().
            unsafe { ffi::GATE.gate.store(2, Ordering::Relaxed) };
            annotate();
            // There is no session for this process, so the thread that looked for one has taken the request back.
            assert_eq!(gate(), 0, "macro {ix}");
        }
    }
}
