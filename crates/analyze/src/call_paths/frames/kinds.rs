//! The kind of code that a function is, by its name, module and file.
use crate::languages::Language;
use kasuri_model::FrameKind;

/// The kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layer {
    /// The program's, or a library's that it chose.
    Program,
    /// The kernel, the C library, the loader: what a call into them is named says more than where
    /// inside it is.
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
    /// A language's collector of garbage.
    Collector(Language),
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
            Runtime::Collector(_) => "collector",
            Runtime::Other => "other",
        }
    }

    /// Whether it hands out the program's work: time in it is not the program's.
    pub const fn has_tasks(self) -> bool {
        matches!(self, Runtime::Libgomp | Runtime::Libomp | Runtime::Tbb)
    }
}

/// What a function's name says of a thread that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It spins, whatever it calls to do so.
    Spinning,
    /// It hands out tasks, in a function that waits for there being none left.
    Tasks,
    /// It does in the kernel what the program asked for, in a function that waits for such
    /// requests.
    Serving,
    Anything,
}

/// Whether a function is of a library that programs are written with, so that who called it says
/// more: a language's standard library, an allocator, a runtime that hands out tasks, a package
/// that was fetched. `function`: demangled; `module`: without its folders.
pub fn is_of_a_library(function: &str, module: &str, file: &str) -> bool {
    /// Where compilers and package managers keep sources that are not the program's.
    const FOLDERS: [&str; 7] = [
        "/rustc/",
        "/lib/rustlib/src/",
        "/.cargo/registry/",
        "/.cargo/git/",
        "/include/c++/",
        "-linux-gnu/c++/",
        "/go/pkg/mod/",
    ];
    const BEGINS: [&str; 12] = [
        "std::",
        "core::",
        "alloc::",
        "hashbrown::",
        "__gnu_cxx::",
        "<std::",
        "<core::",
        "<alloc::",
        "<hashbrown::",
        "runtime.",
        "internal/",
        "sync.",
    ];
    // What a C++ template returns stands before its name.
    let name = function.split(['<', '(']).next().unwrap_or_default();
    let name = name.rsplit(' ').next().unwrap_or_default();
    // A stub that calls a library.
    function.ends_with("@plt")
        || runtime(function, module).is_some_and(|r| r != Runtime::Interpreter)
        || begins(function, &BEGINS)
        || begins(name, &["std::", "__gnu_cxx::"])
        || FOLDERS.iter().any(|folder| file.contains(folder))
        || is_of_gos_library(function, file)
}

/// Whether a function of this name allocates memory, or gives it back. `module`: without its folders.
pub fn allocates(function: &str, module: &str) -> bool {
    runtime(function, module) == Some(Runtime::Allocator)
        || begins(
            function,
            &["operator new(", "operator new[](", "operator delete(", "operator delete[]("],
        )
}

/// Whether a function of a C library does.
fn is_malloc(function: &str) -> bool {
    const NAMES: [&str; 12] = [
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
        "systrim",
    ];
    let name = function.strip_prefix("__GI_").unwrap_or(function);
    let name = name.strip_prefix("__libc_").unwrap_or(name);
    // The compiler's copies: `_int_free.isra.0`, `unlink_chunk.constprop.0`.
    let name = name.split('.').next().unwrap_or(name);
    // `__libc_malloc_impl` of musl.
    NAMES.contains(&name)
        || begins(name, &["tcache_", "_int_free_"])
        || function.starts_with("__libc_malloc")
}

/// Whether a function of this name is a language's machine's own, which its programs cannot change. `module`: without its folders.
pub fn is_of_machine(function: &str, module: &str) -> bool {
    runtime(function, module) == Some(Runtime::Interpreter)
}

/// Whether a file comes with Python.
pub fn is_pythons_own(file: &str) -> bool {
    (file.contains("/lib/python3") && !file.contains("-packages/")) || file.starts_with("<frozen ")
}

/// Go's own packages lie in `src/PACKAGE` of its installation, and their names have no dot before
/// the first slash.
fn is_of_gos_library(function: &str, file: &str) -> bool {
    let last = function.rfind('/').map_or(0, |at| at + 1);
    let Some(dot) = function[last..].find('.') else {
        return false;
    };
    let package = &function[..last + dot];
    let first = package.split('/').next().unwrap_or_default();
    file.ends_with(".go")
        && !first.contains('.')
        && package != "main"
        && file.contains(&format!("/src/{package}/"))
}

/// The name without its folders.
pub fn module_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn begins(text: &str, with: &[&str]) -> bool {
    with.iter().any(|start| text.starts_with(start))
}

pub(super) fn layer(kind: FrameKind, name: &str, module: &str) -> Layer {
    const SYSTEM: [&str; 13] = [
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
        // It unwinds for exceptions.
        "libgcc_s.so",
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
        return match name {
            _ if begins(name, &["asm_sysvec_", "asm_common_interrupt", "sysvec_"]) => {
                Layer::Interrupt
            }
            // What begins a thread of the kernel's: io_uring's are in the program's process.
            "ret_from_fork" | "ret_from_fork_asm" => Layer::Start,
            _ => Layer::System,
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

/// Functions of the kernel's through which every system call goes: what they call says which it is.
pub(super) fn is_entry(name: &str) -> bool {
    const ENTRIES: [&str; 8] = [
        "entry_SYSCALL_64",
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "x64_sys_call",
        "el0t_64_sync",
        "el0t_64_sync_handler",
        "el0_svc",
        "invoke_syscall",
    ];
    ENTRIES.contains(&name) || name.starts_with("do_el0_svc")
}

/// Spinning: functions that do nothing but wait for another thread without giving up the CPU, or by
/// asking for it again and again.
pub(super) fn doing(name: &str, module: &str) -> Doing {
    const SPIN: [&str; 20] = [
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
        "__GI_sched_yield",
        "runtime.procyield",
        "runtime.osyield",
        "runtime.findRunnable",
        "runtime.selectnbrecv",
        "runtime.selectnbsend",
        "SpinPause",
        "prolonged_pause",
        "machine_pause",
    ];
    const SPIN_BEGINS: [&str; 9] = [
        "__kmp_wait_",
        "__kmp_hyper_barrier",
        "__kmp_flag_",
        "__kmp_barrier_",
        "__kmp_fork_barrier",
        "__kmp_acquire_",
        "__lll_lock_spin",
        "ObjectMonitor::TrySpin",
        "tbb::detail::r1::prolonged_pause",
    ];
    const TASKS_BEGIN: [&str; 5] = [
        "gomp_barrier_handle_tasks",
        "__kmp_execute_tasks",
        "__kmp_invoke_task",
        "__kmp_task_",
        "__kmp_steal_task",
    ];
    match name {
        // Words that any program may use.
        "do_spin" | "do_wait" if module.starts_with("libgomp.so") => Doing::Spinning,
        _ if SPIN.contains(&name) || begins(name, &SPIN_BEGINS) => Doing::Spinning,
        _ if begins(name, &TASKS_BEGIN) => Doing::Tasks,
        _ => Doing::Anything,
    }
}

/// The same of the kernel's functions, for threads that it adds to a program: io_uring's that looks
/// for requests itself (SQPOLL).
pub(super) fn doing_in_kernel(name: &str) -> Doing {
    match name {
        "io_sq_thread" => Doing::Spinning,
        "io_submit_sqes" => Doing::Serving,
        _ => Doing::Anything,
    }
}

/// Whether only a program that has tasks of OpenMP has a function of this name, or calls it.
pub(super) fn is_omp_task(name: &str) -> bool {
    const PARTS: [&str; 4] = ["omp_task", "GOMP_task", "kmpc_taskloop", "kmp_invoke_task"];
    PARTS.iter().any(|part| name.contains(part))
}

pub(super) fn runtime(name: &str, module: &str) -> Option<Runtime> {
    const ALLOCATORS: [&str; 4] = ["libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc"];
    const INTERPRETERS: [&str; 8] =
        ["libpython", "python", "libruby", "libperl", "perl", "libjli", "libjvm", "libnode"];
    let in_libc = begins(module, &["libc.so", "libc-", "ld-musl"]);
    match module {
        m if begins(m, &["libgomp.so"]) => Some(Runtime::Libgomp),
        m if begins(m, &["libomp.so", "libomp5", "libiomp"]) => Some(Runtime::Libomp),
        m if begins(m, &ALLOCATORS) => Some(Runtime::Allocator),
        m if begins(m, &["libtbb.so", "libtbb-"]) => Some(Runtime::Tbb),
        m if m == "node" || begins(m, &INTERPRETERS) => Some(Runtime::Interpreter),
        _ if in_libc && is_malloc(name) => Some(Runtime::Allocator),
        // What the program called of it, where the library does not say.
        _ if is_call_of_gomp(name) => Some(Runtime::Libgomp),
        _ => None,
    }
}

/// Whether it stands for a call of GNU OpenMP's, whose functions may jump on to nameless ones.
fn is_call_of_gomp(name: &str) -> bool {
    begins(name, &["GOMP_", "omp_set_lock", "omp_set_nest_lock"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_told_by_the_name() {
        for name in
            ["do_spin", "gomp_team_barrier_wait_end", "__kmp_wait_template", "runtime.selectnbrecv"]
        {
            assert_eq!(doing(name, "libgomp.so.1"), Doing::Spinning, "{name}");
        }
        assert_eq!(doing("do_wait", "program"), Doing::Anything);
        assert_eq!(doing_in_kernel("io_sq_thread"), Doing::Spinning);
        assert_eq!(doing("io_sq_thread", "program"), Doing::Anything);
        for name in ["GOMP_parallel", "do_work", "gomp_iter_dynamic_next", "pthread_mutex_lock", ""]
        {
            assert_eq!(doing(name, "libgomp.so.1"), Doing::Anything, "{name}");
        }
    }

    #[test]
    fn runtimes_are_told_by_the_module_and_allocators_by_both() {
        assert_eq!(runtime("", "libgomp.so.1.0.0"), Some(Runtime::Libgomp));
        assert_eq!(runtime("f", "libtbbmalloc.so.2"), Some(Runtime::Allocator));
        assert_eq!(runtime("_int_malloc", "libc.so.6"), Some(Runtime::Allocator));
        for name in [
            "_int_free.isra.0",
            "__libc_malloc_impl",
            "__libc_calloc",
            "__GI___libc_free",
            "systrim",
            "tcache_put",
        ] {
            assert_eq!(runtime(name, "libc.so.6"), Some(Runtime::Allocator), "{name}");
            assert_eq!(runtime(name, "program"), None, "{name}");
        }
        assert_eq!(runtime("memcpy", "libc.so.6"), None);
        assert_eq!(runtime("GOMP_critical_start", "program"), Some(Runtime::Libgomp));
        for name in ["operator new(unsigned long)", "operator delete[](void*)"] {
            assert!(allocates(name, "libstdc++.so.6"), "{name}");
        }
        assert!(!allocates("operator new", "program"), "a function of that name has parameters");
        assert_eq!(runtime("free", "program"), None);
    }

    #[test]
    fn the_kernel_and_the_c_library_are_the_system() {
        assert_eq!(layer(FrameKind::Kernel, "futex_wait", "[kernel]"), Layer::System);
        assert_eq!(
            layer(FrameKind::Kernel, "asm_sysvec_apic_timer_interrupt", "[kernel]"),
            Layer::Interrupt
        );
        assert_eq!(layer(FrameKind::Native, "write", "libc.so.6"), Layer::System);
        assert_eq!(layer(FrameKind::Native, "", "libgcc_s.so.1"), Layer::System, "exceptions");
        assert_eq!(layer(FrameKind::Native, "start_thread", "libc.so.6"), Layer::Start);
        assert_eq!(layer(FrameKind::Native, "start", "libcurl.so.4"), Layer::Program);
        assert_eq!(layer(FrameKind::Native, "main", "a.out"), Layer::Program);
    }
}
