//! What is known of a function by its name and module: whether the program wrote it, waits in it by spinning, or only
//! begins a thread with it.
use crate::demangled;
use kasuri_model::{FrameIx, FrameKind, PathIx, Trace};
use std::collections::HashMap;

/// The kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// The program's, or a library's that it chose.
    Program,
    /// The kernel, the C library, the loader: what a call into them is named says more than where inside it is.
    System,
    /// The kernel, interrupted: says nothing of the code below.
    Interrupt,
    /// What begins a thread or a program.
    Start,
}

/// Time in a library that runs the program rather than being it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Runtime {
    /// GNU OpenMP.
    Libgomp,
    /// LLVM's or Intel's OpenMP.
    Libomp,
    /// Threading Building Blocks.
    Tbb,
    /// malloc and free, whichever library they are from.
    Allocator,
    /// Python, Ruby, Perl, a Java or JavaScript machine: not the code that it compiled.
    Interpreter,
    /// None of these, but a thread spins there.
    Other,
}

impl Runtime {
    /// Its name in JSON and on screens.
    pub const fn key(self) -> &'static str {
        match self {
            Runtime::Libgomp => "libgomp",
            Runtime::Libomp => "libomp",
            Runtime::Tbb => "tbb",
            Runtime::Allocator => "allocator",
            Runtime::Interpreter => "interpreter",
            Runtime::Other => "other",
        }
    }
}

/// Functions of a trace, looked up once each.
pub struct Frames<'t> {
    trace: &'t Trace,
    layer: Vec<Layer>,
    is_spin: Vec<bool>,
    runtime: Vec<Option<Runtime>>,
    /// One number for all lines of a function, and for all nameless places of a module.
    function: Vec<u32>,
    shown: HashMap<PathIx, Vec<FrameIx>>,
}

impl<'t> Frames<'t> {
    /// Reads the names.
    pub fn new(trace: &'t Trace) -> Frames<'t> {
        let f = &trace.frames;
        let mut numbers = HashMap::new();
        let mut out = Frames {
            trace,
            layer: Vec::with_capacity(f.function.len()),
            is_spin: Vec::with_capacity(f.function.len()),
            runtime: Vec::with_capacity(f.function.len()),
            function: Vec::with_capacity(f.function.len()),
            shown: HashMap::new(),
        };
        for row in 0..f.function.len() {
            let name = demangled(trace.strings.get(f.function[row]));
            let module = module_name(trace.strings.get(f.module[row]));
            out.layer.push(layer(f.kind[row], &name, module));
            out.is_spin.push(is_spin(&name));
            out.runtime.push(runtime(&name, module));
            let next = numbers.len() as u32;
            let key = (f.function[row], f.module[row]);
            out.function.push(*numbers.entry(key).or_insert(next));
        }
        out
    }

    /// Whether two frames are of one function; nameless places of one module are not told apart.
    pub fn function(&self, frame: FrameIx) -> u32 {
        self.function[frame.ix()]
    }

    /// A path as people want it, innermost first and never empty: a call into the kernel or the C library is one frame, the outermost that has a name,
    /// and what begins every thread is left out.
    pub fn shown(&mut self, path: PathIx) -> &[FrameIx] {
        if !self.shown.contains_key(&path) {
            let frames = self.shorten(path);
            self.shown.insert(path, frames);
        }
        &self.shown[&path]
    }

    fn shorten(&self, path: PathIx) -> Vec<FrameIx> {
        let all: Vec<FrameIx> = self.trace.frames_of(path).collect();
        let layer = |frame: &FrameIx| self.layer[frame.ix()];
        // An interrupt: the code below it did not call it.
        let interrupt = all.iter().rposition(|f| layer(f) == Layer::Interrupt);
        let all = &all[interrupt.map_or(0, |at| at + 1)..];
        let n_system = (all.iter())
            .take_while(|f| layer(f) == Layer::System)
            .count();
        let (system, rest) = all.split_at(n_system);
        let mut out: Vec<FrameIx> = Vec::new();
        out.extend(
            system
                .iter()
                .rfind(|f| self.is_named(**f))
                .or(system.first()),
        );
        out.extend(rest);
        while out.len() > 1 && out.last().is_some_and(|f| layer(f) == Layer::Start) {
            out.pop();
        }
        // Nothing but an interrupt.
        if out.is_empty() {
            out.push(self.trace.paths.frame[path.ix()]);
        }
        out
    }

    fn is_named(&self, frame: FrameIx) -> bool {
        self.trace.frames.function[frame.ix()].is_some()
    }

    /// The runtime that a thread ran in at this path, the module's frame, and the function in which it spins.
    pub fn overhead(&self, path: PathIx) -> Option<(Runtime, FrameIx, Option<FrameIx>)> {
        let f = &self.trace.frames;
        let is_kernel = |frame: &FrameIx| f.kind[frame.ix()] == FrameKind::Kernel;
        let mut user = self.trace.frames_of(path).skip_while(is_kernel).peekable();
        let first = *user.peek()?;
        let module = f.module[first.ix()];
        let same = user.take_while(|frame| f.module[frame.ix()] == module);
        let (mut spin, mut runtime) = (None, self.runtime[first.ix()]);
        for frame in same {
            if self.is_spin[frame.ix()] {
                spin = Some(frame);
            }
            // In an allocator's own functions, whichever of them is the innermost.
            runtime = runtime.or(self.runtime[frame.ix()]);
        }
        match (runtime, spin) {
            (None, None) => None,
            (runtime, spin) => Some((runtime.unwrap_or(Runtime::Other), first, spin)),
        }
    }
}

/// The name without its folders.
pub fn module_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn begins(text: &str, with: &[&str]) -> bool {
    with.iter().any(|start| text.starts_with(start))
}

fn layer(kind: FrameKind, name: &str, module: &str) -> Layer {
    const SYSTEM: [&str; 12] = [
        "libc.so",
        "libc-",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "ld-2",
        "libm.so",
        "libm-",
        "librt.",
        "libstdc++.so",
        "[vdso]",
        "linux-vdso",
    ];
    const START: [&str; 13] = [
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "__clone",
        "clone",
        "execute_native_thread_routine",
        "std::rt::lang_start",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "__rust_begin_short_backtrace",
        "std::sys::pal::unix::thread::Thread::new::thread_start",
        "core::ops::function::FnOnce::call_once",
        "gomp_thread_start",
    ];
    if kind == FrameKind::Kernel {
        return match begins(name, &["asm_sysvec_", "asm_common_interrupt", "sysvec_"]) {
            true => Layer::Interrupt,
            false => Layer::System,
        };
    }
    if START.contains(&name) || begins(name, &["__libc_start", "clone3", "std::rt::lang_start"]) {
        return Layer::Start;
    }
    match begins(module, &SYSTEM) || module == "libc.so" {
        true => Layer::System,
        false => Layer::Program,
    }
}

/// Functions that do nothing but wait for another thread without giving up the CPU, or by asking for it again and again.
fn is_spin(name: &str) -> bool {
    const EXACT: [&str; 13] = [
        "do_spin",
        "do_wait",
        "gomp_barrier_wait",
        "gomp_barrier_wait_end",
        "gomp_barrier_wait_last",
        "gomp_team_barrier_wait",
        "gomp_team_barrier_wait_end",
        "gomp_team_barrier_wait_final",
        "gomp_team_barrier_wait_cancel_end",
        "pthread_spin_lock",
        "__pthread_spin_lock",
        "sched_yield",
        "__sched_yield",
    ];
    const BEGINS: [&str; 6] = [
        "__kmp_wait_",
        "__kmp_hyper_barrier",
        "__kmp_flag_",
        "__kmp_barrier_",
        "__kmp_acquire_",
        "__lll_lock_spin",
    ];
    EXACT.contains(&name) || begins(name, &BEGINS)
}

fn runtime(name: &str, module: &str) -> Option<Runtime> {
    const ALLOCATORS: [&str; 4] = ["libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc"];
    const INTERPRETERS: [&str; 7] = [
        "libpython",
        "python",
        "libruby",
        "libperl",
        "perl",
        "libjvm",
        "libnode",
    ];
    const MALLOC: [&str; 12] = [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "cfree",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "malloc_consolidate",
        "unlink_chunk",
        "sysmalloc",
        "tcache_init",
    ];
    let in_libc = begins(module, &["libc.so", "libc-", "ld-musl"]);
    match module {
        m if begins(m, &["libgomp.so"]) => Some(Runtime::Libgomp),
        m if begins(m, &["libomp.so", "libomp5", "libiomp"]) => Some(Runtime::Libomp),
        m if begins(m, &ALLOCATORS) => Some(Runtime::Allocator),
        m if begins(m, &["libtbb.so", "libtbb-"]) => Some(Runtime::Tbb),
        m if begins(m, &INTERPRETERS) => Some(Runtime::Interpreter),
        _ if in_libc && (MALLOC.contains(&name) || name.starts_with("__libc_malloc")) => {
            Some(Runtime::Allocator)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_told_by_the_name() {
        for name in [
            "do_spin",
            "gomp_team_barrier_wait_end",
            "__kmp_wait_template",
            "sched_yield",
        ] {
            assert!(is_spin(name), "{name}");
        }
        for name in [
            "GOMP_parallel",
            "do_work",
            "gomp_iter_dynamic_next",
            "pthread_mutex_lock",
            "",
        ] {
            assert!(!is_spin(name), "{name}");
        }
    }

    #[test]
    fn runtimes_are_told_by_the_module_and_allocators_by_both() {
        assert_eq!(runtime("", "libgomp.so.1.0.0"), Some(Runtime::Libgomp));
        assert_eq!(runtime("f", "libtbbmalloc.so.2"), Some(Runtime::Allocator));
        assert_eq!(
            runtime("_int_malloc", "libc.so.6"),
            Some(Runtime::Allocator)
        );
        assert_eq!(runtime("memcpy", "libc.so.6"), None);
        assert_eq!(runtime("free", "program"), None);
    }

    #[test]
    fn the_kernel_and_the_c_library_are_the_system() {
        assert_eq!(
            layer(FrameKind::Kernel, "futex_wait", "[kernel]"),
            Layer::System
        );
        assert_eq!(
            layer(
                FrameKind::Kernel,
                "asm_sysvec_apic_timer_interrupt",
                "[kernel]"
            ),
            Layer::Interrupt
        );
        assert_eq!(
            layer(FrameKind::Native, "write", "libc.so.6"),
            Layer::System
        );
        assert_eq!(
            layer(FrameKind::Native, "start_thread", "libc.so.6"),
            Layer::Start
        );
        assert_eq!(
            layer(FrameKind::Native, "start", "libcurl.so.4"),
            Layer::Program
        );
        assert_eq!(layer(FrameKind::Native, "main", "a.out"), Layer::Program);
    }
}
