//! The call in which a thread waits, as far as its path says what for.
//!
//! The names of the C library's functions and of the kernel's tell it; a wait in anything else is [`Call::Other`]. Of a path the
//! innermost function that says something counts: `fgets` waits in `read`.

use crate::languages::Language;
use std::borrow::Cow;

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Call {
    /// A time that the program chose.
    Sleep,
    /// Bytes of a pipe, a socket, a terminal, a file; or a connection.
    Read,
    /// Room for bytes.
    Write,
    /// One of several files or sockets.
    Poll,
    /// A lock.
    Lock,
    /// A condition variable, a semaphore.
    Condition,
    /// The end of a thread or of a child process.
    Join,
    /// Something else, or the path does not say.
    #[default]
    Other,
}

impl Call {
    /// Its name in JSON; "" where it is not known.
    pub const fn key(self) -> &'static str {
        match self {
            Call::Sleep => "sleep",
            Call::Read => "read",
            Call::Write => "write",
            Call::Poll => "poll",
            Call::Lock => "lock",
            Call::Condition => "condition",
            Call::Join => "join",
            Call::Other => "",
        }
    }
}

/// The kind of file that a call waits at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Channel {
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A counter that threads wait for.
    Eventfd,
    /// A timer.
    Timer,
    /// A file with a name, a terminal or another device.
    File,
    /// Another, or the path does not say: only its frames inside of the call do.
    #[default]
    Unknown,
}

impl Channel {
    /// Its name in JSON; "" where it is not known.
    pub const fn key(self) -> &'static str {
        match self {
            Channel::Pipe => "pipe",
            Channel::Socket => "socket",
            Channel::Eventfd => "eventfd",
            Channel::Timer => "timer",
            Channel::File => "file",
            Channel::Unknown => "",
        }
    }
}

fn begins(name: &str, with: &[&str]) -> bool {
    with.iter().any(|start| name.starts_with(start))
}

/// A family of functions: what they begin with, what must follow somewhere, and what they wait for.
type Family = (Call, &'static str, &'static str);

/// Families of functions of the C library and of the kernel. Inside of those that programs call are others, from version to version:
/// `pthread_mutex_lock_full`, `pthread_cond_wait_common`, `lll_robust_lock_wait`.
const FAMILIES: [Family; 18] = [
    (Call::Lock, "pthread_mutex_", "lock"),
    (Call::Lock, "pthread_rwlock_", "lock"),
    (Call::Lock, "lll_", "lock"),
    (Call::Lock, "mtx_", "lock"),
    (Call::Lock, "futex_lock_pi", ""),
    // Of a file: of these calls only those that ask for a lock wait.
    (Call::Lock, "flock", ""),
    (Call::Lock, "fcntl", ""),
    (Call::Lock, "lockf", ""),
    (Call::Lock, "posix_lock_inode", ""),
    (Call::Condition, "pthread_cond_", "wait"),
    (Call::Condition, "pthread_barrier_", "wait"),
    (Call::Condition, "sem_", "wait"),
    (Call::Condition, "cnd_", "wait"),
    (Call::Join, "pthread_", "join"),
    (Call::Poll, "epoll_", "wait"),
    (Call::Poll, "pselect", ""),
    (Call::Sleep, "nanosleep", ""),
    (Call::Sleep, "clock_nanosleep", ""),
];

/// Functions of the C library and of the kernel that are of no family, by what they wait for.
const CALLS: [(Call, &[&str]); 5] = [
    (
        Call::Sleep,
        &[
            "usleep",
            "sleep",
            "thrd_sleep",
            "do_nanosleep",
            "hrtimer_nanosleep",
            "common_nsleep",
            "common_nsleep_timens",
            "x64_sys_nanosleep",
            "x64_sys_clock_nanosleep",
        ],
    ),
    (
        Call::Read,
        &[
            "read",
            "readv",
            "pread64",
            "preadv",
            "recv",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "accept",
            "accept4",
            "connect",
            "pipe_read",
            "anon_pipe_read",
            "fifo_pipe_read",
            "unix_stream_recvmsg",
            "unix_dgram_recvmsg",
            "tcp_recvmsg",
            "udp_recvmsg",
            "inet_csk_accept",
            "n_tty_read",
        ],
    ),
    (
        Call::Write,
        &[
            "write",
            "writev",
            "pwrite64",
            "pwritev",
            "send",
            "sendto",
            "sendmsg",
            "pipe_write",
            "anon_pipe_write",
            "fifo_pipe_write",
            "unix_stream_sendmsg",
            "tcp_sendmsg",
        ],
    ),
    (Call::Poll, &["poll", "ppoll", "ppoll64", "select", "do_epoll_wait"]),
    (
        Call::Join,
        &["thrd_join", "wait", "wait3", "wait4", "waitpid", "waitid", "do_wait", "kernel_wait4"],
    ),
];

/// Functions of other libraries that wait for a lock begin so.
const LOCK_BEGINS: [&str; 14] = [
    "std::sys::sync::mutex::futex::Mutex::lock_contended",
    "std::sys::sync::rwlock::futex::RwLock::",
    "parking_lot::raw_mutex::RawMutex::lock_slow",
    "parking_lot::raw_rwlock::RawRwLock::lock_",
    "absl::Mutex::LockSlow",
    "gomp_mutex_lock_slow",
    "GOMP_critical_",
    // A part of each round of a loop is done in order: one thread at a time.
    "GOMP_ordered_start",
    "__kmpc_ordered",
    "__kmpc_critical",
    "__kmpc_set_lock",
    "omp_set_lock",
    "omp_set_nest_lock",
    "GOMP_atomic_start",
];

/// The functions in which a thread waits for CPython's global interpreter lock, which is no lock of the C library: it waits for a
/// condition there. In the second one, once it gave the lock up, until another has it.
const GIL: [&str; 2] = ["take_gil", "drop_gil"];

/// `<std::sync::Mutex<T>>::lock`, as newer versions of Rust write it, is `std::sync::Mutex<T>::lock`.
fn without_type(name: &str) -> Cow<'_, str> {
    match name.strip_prefix('<').and_then(|rest| rest.split_once(">::")) {
        Some((of, rest)) => Cow::Owned(format!("{of}::{rest}")),
        None => Cow::Borrowed(name),
    }
}

/// What a function of the C library or of the kernel waits for, or one that locks in another library.
pub fn call(name: &str) -> Option<Call> {
    let name = &*without_type(name);
    if begins(name, &LOCK_BEGINS) || is_built_lock(name) {
        return Some(Call::Lock);
    }
    let name = public_name(name);
    let of = |&&(_, begin, inside): &&Family| {
        let rest = name.strip_prefix(begin);
        rest.is_some_and(|rest| rest.contains(inside) && !rest.contains("unlock"))
    };
    if let Some(&(call, ..)) = FAMILIES.iter().find(of) {
        return Some(call);
    }
    let row = CALLS.iter().find(|(_, names)| names.contains(&name));
    row.map(|&(call, _)| call)
}

/// Of functions that wait for Python's GIL the first stands for it.
pub fn gil_order(name: &str) -> (bool, &str) {
    (!name.starts_with(GIL[0]), name)
}

/// Whether threads wait for Python's GIL in a function of this name. Compilers add to names: `take_gil.lto_priv.0`.
pub fn is_gil(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    GIL.contains(&name)
}

/// Whether threads wait in a function of this name for a lock that is built of something else: of a condition Python's GIL, or a monitor of a
/// Java machine; of naps between tries that of a database of SQLite.
pub fn is_built_lock(name: &str) -> bool {
    const MONITORS: [&str; 3] =
        ["ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"];
    is_gil(name) || begins(name, &MONITORS) || name == "sqlite3InvokeBusyHandler"
}

/// Whether a thread of a Java machine sleeps in a function of this name, which waits for a condition of its own that only the time ends.
pub fn is_built_sleep(name: &str) -> bool {
    begins(name, &["JavaThread::sleep"])
}

/// Whether the kernel begins to handle a page fault in this function.
pub fn is_page_fault(name: &str) -> bool {
    ["asm_exc_page_fault", "el0_da", "do_mem_abort"].contains(&name)
}

/// Whether the kernel handles there a write to a page that processes share since one made the other: the writer gets a copy.
pub fn copies_page(name: &str) -> bool {
    ["do_wp_page", "wp_page_copy", "do_cow_fault"].contains(&name)
}

/// Whether the kernel sends a signal in this function, or begins its handler.
pub fn sends_signal(name: &str) -> bool {
    const BEGINS: [&str; 6] = [
        "force_sig",
        "bad_area",
        "arch_do_signal_or_restart",
        "do_signal",
        "get_signal",
        "arm64_force_sig_fault",
    ];
    begins(name.trim_start_matches('_'), &BEGINS)
}

/// Before the functions of C++20's semaphores.
const SEMAPHORE: &str = "std::counting_semaphore<";

/// Whether programs wait for a semaphore in this function of the C library or of C++'s.
pub fn is_semaphore_wait(name: &str) -> bool {
    let c = public_name(name);
    (c.starts_with("sem_") && c.contains("wait"))
        || (name.starts_with(SEMAPHORE) && name.contains("acquire"))
}

/// Whether they post one.
pub fn is_semaphore_post(name: &str) -> bool {
    public_name(name) == "sem_post" || (name.starts_with(SEMAPHORE) && name.contains("::release"))
}

/// Rust's condition variables, in whichever module a version has them.
const CONDVAR: &str = "condvar::futex::Condvar::";

/// Whether programs wait for a condition variable in this function of the C library or of Rust's.
pub fn is_condition_wait(name: &str) -> bool {
    let c = public_name(name);
    let rest = c.strip_prefix("pthread_cond_").or(c.strip_prefix("cnd_"));
    let name = &*without_type(name);
    rest.is_some_and(|rest| rest.contains("wait"))
        || (name.contains(CONDVAR) && name.contains("::wait"))
}

/// Whether they signal one.
pub fn is_signal(name: &str) -> bool {
    const ENDS: [&str; 2] = ["signal", "broadcast"];
    let c = public_name(name);
    let rest = c.strip_prefix("pthread_cond_").or(c.strip_prefix("cnd_"));
    let name = &*without_type(name);
    rest.is_some_and(|rest| ENDS.contains(&rest))
        || (name.contains(CONDVAR) && name.contains("::notify"))
}

/// Whether a function of this name waits for something outside of the program: a file, a disk, a socket, a time.
pub fn waits_outside(name: &str) -> bool {
    matches!(call(name), Some(Call::Read | Call::Write | Call::Poll | Call::Sleep))
        || SYNCS.contains(&public_name(name))
}

/// Functions that wait until a disk has what was written.
const SYNCS: [&str; 6] = ["fsync", "fdatasync", "msync", "syncfs", "sync_file_range", "sync"];

/// Whether a thread that waits there, innermost first, waits until a disk has what was written.
pub fn makes_durable<'f>(mut functions: impl Iterator<Item = &'f str>) -> bool {
    // Go's come with those that call the kernel.
    functions.next().is_some_and(|name| SYNCS.contains(&public_name(name)))
        || functions.take(3).any(|name| matches!(name, "syscall.Fsync" | "os.(*File).Sync"))
}

/// Whether programs ask for a lock in this function of a library's.
pub fn asks_for_lock(name: &str) -> bool {
    call(name) == Some(Call::Lock)
}

/// Whether they wait for the end of a thread or a process in it.
pub fn waits_for_end(name: &str) -> bool {
    call(name) == Some(Call::Join)
}

/// Whether a function of the C library's of this name is a system call that reads or writes bytes.
pub fn moves_bytes(name: &str) -> bool {
    matches!(call(name), Some(Call::Read | Call::Write))
}

/// The same of a function of the kernel's: `__x64_sys_write`, `ksys_write`.
pub fn moves_bytes_in_kernel(name: &str) -> bool {
    let call = name.strip_prefix("ksys_").or(name.split_once("_sys_").map(|(_, call)| call));
    call.is_some_and(moves_bytes)
}

/// Whether it is a part of each system call of Go's, and does not say which that is.
pub fn is_gos_system_call(name: &str) -> bool {
    const BEGINS: [&str; 6] = [
        "syscall.Syscall",
        "syscall.RawSyscall",
        "internal/runtime/syscall",
        "runtime.entersyscall",
        "runtime.exitsyscall",
        "runtime.reentersyscall",
    ];
    begins(name, &BEGINS)
}

/// Whether a thread waits in this call until another, or the kernel, says that something happened.
pub fn waits_for_event(name: &str) -> bool {
    // A template has what it returns before its name.
    let plain = name.split(['<', '(']).next().unwrap_or_default();
    matches!(call(name), Some(Call::Condition | Call::Poll))
        || (plain.contains("std::condition_variable") && plain.contains("::wait"))
        || name.contains("Condvar::wait")
}

/// Whether it is a generator of random numbers of the C library's that all threads share, with a
/// lock around it.
pub fn is_shared_generator(name: &str) -> bool {
    ["rand", "random", "drand48", "lrand48", "mrand48"].contains(&public_name(name))
}

/// The language whose collector of garbage a function of this name belongs to: V8's is in node, in
/// Deno and in browsers. `module`: without its folders.
pub fn collector(name: &str, module: &str) -> Option<Language> {
    const GO: [&str; 8] = [
        "runtime.gc",
        "runtime.bgsweep",
        "runtime.bgscavenge",
        "runtime.sweepone",
        "runtime.(*sweepLocked).sweep",
        "runtime.wbBufFlush",
        "runtime.scanobject",
        "runtime.scanSpan",
    ];
    const JAVA: [&str; 7] = [
        "GangWorker::",
        "WorkerThread::run",
        "GCTaskThread::",
        "ConcurrentGCThread::",
        "VM_ParallelGC",
        "VM_G1",
        "VM_GenCollect",
    ];
    const V8: [&str; 6] = [
        "v8::internal::Heap::CollectGarbage",
        "v8::internal::Scavenger",
        "v8::internal::MarkCompactCollector",
        "v8::internal::MinorMarkCompact",
        "v8::internal::ConcurrentMarking",
        "v8::internal::Sweeper",
    ];
    let in_python = begins(module, &["libpython", "python"]);
    match name {
        _ if begins(name, &GO) => Some(Language::Go),
        _ if begins(name, &V8) => Some(Language::JavaScript),
        _ if module.starts_with("libjvm") && begins(name, &JAVA) => Some(Language::Java),
        _ if in_python && name.starts_with("gc_collect_") => Some(Language::Python),
        _ => None,
    }
}

/// Whether CPython ends there: it looks for garbage once more, however rarely it did before.
pub fn ends_python(name: &str) -> bool {
    begins(name, &["Py_FinalizeEx", "Py_EndInterpreter"])
}

/// Whether a library's function of this name waits at a barrier.
pub fn is_barrier(name: &str) -> bool {
    let name = &*without_type(name);
    const BEGINS: [&str; 11] = [
        "std::barrier<",
        "std::latch::",
        "std::sync::barrier::Barrier::wait",
        "std::sync::poison::barrier::Barrier::wait",
        // A region's end is one, too.
        "GOMP_parallel",
        "__kmpc_fork_call",
        "__kmpc_join",
        "GOMP_barrier",
        "GOMP_loop_end",
        "__kmpc_barrier",
        "__kmpc_cancel_barrier",
    ];
    begins(name, &BEGINS) || public_name(name).starts_with("pthread_barrier_wait")
}

/// The name under which programs call a function of the C library: symbols inside of it have others, and compilers add to them.
pub fn public_name(name: &str) -> &str {
    // Functions that others end in, without a frame of their own.
    const INNER: [(&str, &str); 14] = [
        ("lll_clocklock_elision", "pthread_mutex_timedlock"),
        ("lll_lock_elision", "pthread_mutex_lock"),
        ("pthread_clockjoin_ex", "pthread_join"),
        ("pthread_kill_implementation", "pthread_kill"),
        ("pthread_kill_internal", "pthread_kill"),
        ("pthread_mutex_clocklock_common", "pthread_mutex_timedlock"),
        ("pthread_mutex_lock_full", "pthread_mutex_lock"),
        ("pthread_mutex_unlock_full", "pthread_mutex_unlock"),
        ("pthread_mutex_unlock_usercnt", "pthread_mutex_unlock"),
        ("pthread_once_slow", "pthread_once"),
        ("new_sem_wait_slow64", "sem_wait"),
        ("new_sem_wait_slow", "sem_wait"),
        ("new_sem_wait", "sem_wait"),
        ("new_sem_post", "sem_post"),
    ];
    let name = name.split(['@', '.']).next().unwrap_or(name);
    let name = name.trim_start_matches('_');
    let name = name.strip_prefix("GI_").unwrap_or(name);
    let name = name.trim_start_matches('_');
    let name = name.strip_prefix("libc_").unwrap_or(name);
    let inner = INNER.iter().find(|(inner, _)| *inner == name);
    inner.map_or(name, |&(_, public)| public)
}

/// Whether a function of the C library's waits for other threads, and takes no time limit.
pub fn waits_without_limit(name: &str) -> bool {
    const UNLIMITED: [&str; 8] = [
        "pthread_barrier_wait",
        "pthread_cond_wait",
        "pthread_join",
        "pthread_mutex_lock",
        "pthread_rwlock_rdlock",
        "pthread_rwlock_wrlock",
        "sem_wait",
        "thrd_join",
    ];
    UNLIMITED.contains(&public_name(name))
}

/// Before the path of a file at which a thread waits.
pub const FILE: &str = "file ";

/// What the kernel's function reads or writes; recordings have names of files in its place.
pub fn channel(name: &str) -> Channel {
    const SOCKET: [&str; 8] =
        ["sock_", "unix_", "tcp_", "udp_", "inet_", "sk_wait", "skb_", "vsock_"];
    match name {
        "pipe" => Channel::Pipe,
        "socket" => Channel::Socket,
        "eventfd" => Channel::Eventfd,
        "timer" => Channel::Timer,
        _ if begins(name, &[FILE]) => Channel::File,
        _ if begins(name, &["pipe_", "anon_pipe_", "fifo_pipe_"]) => Channel::Pipe,
        _ if begins(name, &SOCKET) => Channel::Socket,
        _ => Channel::Unknown,
    }
}

/// Whether CPython waits in a function of this name for one of its locks, which older versions make of a semaphore.
pub fn is_python_lock(name: &str) -> bool {
    const NAMES: [&str; 4] = [
        "PyThread_acquire_lock_timed",
        "PyThread_acquire_lock",
        "_PyMutex_LockTimed",
        "_PyParkingLot_Park",
    ];
    NAMES.contains(&name.split('.').next().unwrap_or(name))
}

/// Whether a function of Python's `threading` waits with a lock for something else: for what another
/// thread does; or one of `multiprocessing` for something to take.
pub fn is_python_wait(name: &str, file: &str) -> bool {
    const ENDS: [&str; 4] = ["wait", "join", "_wait_for_tstate_lock", "acquire_restore"];
    let name = name.rsplit(['.', ':']).next().unwrap_or(name);
    (file.ends_with("threading.py") && ENDS.contains(&name))
        || (file.ends_with("concurrent/futures/thread.py") && name == "_worker")
        || (file.ends_with("multiprocessing/queues.py") && name == "get")
}

/// Whether a function of Python's takes a lock for who called it: one between processes, which is made of a semaphore, or that of a
/// condition.
pub fn takes_python_lock(name: &str, file: &str) -> bool {
    (name.ends_with("SemLock.__enter__") && file.ends_with("multiprocessing/synchronize.py"))
        || (name.ends_with("Condition.__enter__") && file.ends_with("/threading.py"))
}

/// Where a thread of libuv's pool waits for something to do: the function that waits, and its caller.
pub const UV_POOL: [&str; 2] = ["uv_cond_wait", "worker"];

/// Whether a thread of a library's pool waits for something to do: `callers` are the functions that called the wait, innermost first.
pub fn waits_for_tasks<'n>(mut callers: impl Iterator<Item = &'n str>) -> bool {
    // All that they wait for is that; they do what there is to do elsewhere.
    const POOLS: [&str; 6] = [
        "rayon_core::sleep::Sleep::sleep",
        "<rayon_core::sleep::Sleep>::sleep",
        "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
        "<tokio::runtime::scheduler::multi_thread::park::Inner>::park_condvar",
        "node::TaskQueue<",
        "node::(anonymous namespace)::PlatformWorkerThread",
    ];
    match callers.next() {
        Some(wait) if wait == UV_POOL[0] => {
            callers.next().is_some_and(|by| by == UV_POOL[1] || begins(by, &POOLS))
        }
        Some(wait) => begins(wait, &POOLS),
        None => false,
    }
}

/// Whether a function that comes with Python only looks whether something is there or is done, and never waits for it.
pub fn is_python_look(name: &str, file: &str) -> bool {
    const QUEUE: &[&str] = &["get_nowait", "put_nowait", "empty", "full", "qsize"];
    const LOOKS: [(&str, &[&str]); 6] = [
        ("/queue.py", QUEUE),
        ("/multiprocessing/queues.py", QUEUE),
        ("/threading.py", &["is_set", "is_alive"]),
        ("/multiprocessing/process.py", &["is_alive"]),
        ("/multiprocessing/pool.py", &["ready"]),
        ("/concurrent/futures/_base.py", &["done", "running"]),
    ];
    let name = name.rsplit(['.', ':']).next().unwrap_or(name);
    let mut looks = LOOKS.iter().filter(|(end, _)| file.ends_with(end));
    looks.any(|(_, names)| names.contains(&name))
}

/// Whether a function is a part of a library's own locks: of SQLite's, or of those that a Java machine is made with.
pub fn is_inside_librarys_lock(name: &str, module: &str) -> bool {
    module.starts_with("libsqlite3") || (module == "libjvm.so" && begins(name, &["Mutex::lock"]))
}

/// Whether a thread is in a monitor of a Java machine's in this function.
pub fn is_of_monitor(name: &str) -> bool {
    begins(name, &["ObjectMonitor::"])
}

/// Whether a thread of a Java machine is in `Object.wait` in this function: a part of it lets go of the monitor, and wakes who may enter next.
pub fn waits_for_notify(name: &str) -> bool {
    begins(name, &["ObjectMonitor::wait"])
}

/// Whether CPython's module of queues waits in a function of this name with a lock for something to take.
pub fn is_python_queue(name: &str, module: &str) -> bool {
    name.starts_with("_queue_SimpleQueue_get") || module.starts_with("_queue.")
}

/// Whether a function of a machine's for some language only runs the program's code.
pub fn runs_code(name: &str) -> bool {
    const BEGINS: [&str; 8] = [
        "_PyEval_",
        "PyEval_",
        "v8::internal::Invoke",
        "v8::internal::Execution::",
        "JavaCalls::call_helper",
        "Perl_runops_",
        "vm_exec",
        "rb_vm_exec",
    ];
    // V8's are in a name space of the compiler's.
    begins(&name.replace("(anonymous namespace)::", ""), &BEGINS)
}

/// Whether code below a lock's own may be looked through: the parts of libraries that wait for it.
pub fn is_inside_a_lock(name: &str) -> bool {
    let name = &*without_type(name);
    is_gil(name)
        || begins(
            name,
            &[
                "std::sys::",
                "core::",
                "parking_lot",
                "<parking_lot",
                "absl::",
                // What CPython builds its global lock with, and a Java machine its monitors, and who asks for one.
                "PyCOND_",
                "PlatformEvent::park",
                "os::PlatformEvent::park",
                "JavaThread::sleep",
                "JVM_Sleep",
                "ObjectMonitor::",
                "ObjectSynchronizer::",
                "InterpreterRuntime::monitorenter",
                "SharedRuntime::complete_monitor_locking",
                "SharedRuntime::monitor_enter_helper",
                "gomp_mutex_lock",
            ],
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_names() {
        for (name, expected) in [
            ("clock_nanosleep@@GLIBC_2.17", Some(Call::Sleep)),
            ("__GI___clock_nanosleep", Some(Call::Sleep)),
            ("__libc_read", Some(Call::Read)),
            ("pipe_read", Some(Call::Read)),
            ("__GI___libc_write", Some(Call::Write)),
            ("___pthread_mutex_lock", Some(Call::Lock)),
            ("__pthread_mutex_lock_full", Some(Call::Lock)),
            ("__pthread_mutex_clocklock_common", Some(Call::Lock)),
            ("__pthread_rwlock_wrlock_full64", Some(Call::Lock)),
            ("__lll_robust_lock_wait", Some(Call::Lock)),
            ("__futex_lock_pi64", Some(Call::Lock)),
            ("__pthread_mutex_unlock_full", None),
            ("flock", Some(Call::Lock)),
            ("__libc_fcntl64", Some(Call::Lock)),
            ("flock_lock_inode_wait", Some(Call::Lock)),
            ("__pthread_cond_wait_common", Some(Call::Condition)),
            ("pthread_timedjoin_np", Some(Call::Join)),
            ("pthread_create", None),
            ("__lll_lock_wait_private", Some(Call::Lock)),
            ("__pthread_cond_wait", Some(Call::Condition)),
            ("wait4", Some(Call::Join)),
            ("__pthread_clockjoin_ex", Some(Call::Join)),
            ("__new_sem_wait_slow64.constprop.0", Some(Call::Condition)),
            ("epoll_wait", Some(Call::Poll)),
            ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", Some(Call::Lock)),
            ("__kmpc_critical_with_hint", Some(Call::Lock)),
            ("take_gil", Some(Call::Lock)),
            ("drop_gil.lto_priv.0", Some(Call::Lock)),
            ("take_gilded", None),
            ("sqlite3InvokeBusyHandler", Some(Call::Lock)),
            ("futex_wait", None),
            ("reader", None),
            ("sleepy", None),
            ("", None),
        ] {
            assert_eq!(call(name), expected, "{name}");
        }
        for (name, expected) in [
            ("___pthread_barrier_wait", true),
            ("<std::sync::barrier::Barrier>::wait", true),
            ("std::barrier<std::__empty_completion>::arrive_and_wait()", true),
            ("barrier", false),
        ] {
            assert_eq!(is_barrier(name), expected, "{name}");
        }
        assert_eq!(channel("anon_pipe_read"), Channel::Pipe);
        assert_eq!(channel("unix_stream_read_generic"), Channel::Socket);
        assert_eq!(channel("vfs_read"), Channel::Unknown);
        assert_eq!(channel("pipe"), Channel::Pipe);
        assert_eq!(channel("file /tmp/pipe"), Channel::File);
        assert_eq!(channel("file_read_iter"), Channel::Unknown);
    }

    #[test]
    fn functions_that_come_with_python_are_told_by_their_names_and_files() {
        for (name, file, expected) in [
            ("py::Condition.wait", "/usr/lib/python3.11/threading.py", true),
            ("py::join", "/usr/lib/python3.8/threading.py", true),
            ("py::wait", "/home/me/job.py", false),
            ("py::_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", true),
            ("py::Handler.acquire", "/usr/lib/python3.11/logging/__init__.py", false),
        ] {
            assert_eq!(is_python_wait(name, file), expected, "{name}");
        }
        for (name, file, expected) in [
            ("py::SemLock.__enter__", "/usr/lib/python3.11/multiprocessing/synchronize.py", true),
            ("py::SemLock.__enter__", "/home/me/synchronize.py", false),
            ("py::Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", false),
        ] {
            assert_eq!(takes_python_lock(name, file), expected, "{name}");
        }
        for (name, file, expected) in [
            ("py::Queue.get_nowait", "/usr/lib/python3.11/queue.py", true),
            ("py::is_alive", "/usr/lib/python3.8/threading.py", true),
            ("py::Queue.get", "/usr/lib/python3.11/queue.py", false),
            ("py::Job.done", "/home/me/job.py", false),
        ] {
            assert_eq!(is_python_look(name, file), expected, "{name}");
        }
        for (name, file, expected) in [
            ("py::Condition.__enter__", "/usr/lib/python3.11/threading.py", true),
            ("py::Pool.__enter__", "/home/me/pool.py", false),
        ] {
            assert_eq!(takes_python_lock(name, file), expected, "{name}");
        }
    }

    #[test]
    fn names_inside_of_the_c_library_and_the_kernel_are_those_that_programs_call() {
        for (name, expected) in [
            ("__pthread_mutex_clocklock_common", "pthread_mutex_timedlock"),
            ("__GI___lll_lock_elision", "pthread_mutex_lock"),
            ("__pthread_once_slow", "pthread_once"),
            ("__pthread_kill_implementation", "pthread_kill"),
            ("__new_sem_wait_slow64.constprop.0", "sem_wait"),
        ] {
            assert_eq!(public_name(name), expected, "{name}");
        }
        for (name, expected) in
            [("ksys_write", true), ("__x64_sys_pread64", true), ("ksys_mmap_pgoff", false)]
        {
            assert_eq!(moves_bytes_in_kernel(name), expected, "{name}");
        }
    }
}
