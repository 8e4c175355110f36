//! What annotations say, by number: the mirror of `enum kasuri_kind` and its neighbours in kasuri.h.
//!
//! The rings hold these numbers, a packed recording holds them, and the passes of the model read them. They are part of
//! the ABI: a number is never used again for something else.
use crate::numbered;

numbered!(
    /// `enum kasuri_kind`: what an event says.
    Kind: u8 {
        /// A slice begins; site: name.
        Begin = 1,
        /// The innermost slice ends.
        End = 2,
        /// A point in time; site: name.
        Instant = 3,
        /// A value; a: f64 bits.
        Counter = 4,
        /// A wait begins; aux: [`WaitKind`], a: object, b: of a condition, the mutex that goes with it, or 0.
        WaitBegin = 5,
        /// A wait ends; as above, b: 1 when its time limit ended it.
        WaitEnd = 6,
        /// A lock is wanted; aux: [`LockMode`], a: object.
        LockRequest = 7,
        /// It was acquired.
        LockAcquired = 8,
        /// It was released.
        LockReleased = 9,
        /// A task is created; a: task, b: parent or 0, aux: 1 for a point, which never runs, 2 for one that
        /// [`Kind::TaskFolded`] counts in its parent.
        TaskCreate = 10,
        /// It starts; a: task, aux: 1 when taken from another thread, 2 in place of the task that runs on the thread.
        TaskStart = 11,
        /// It stops for a while; a: task, b: what it waits for or 0.
        TaskSuspend = 12,
        /// It goes on.
        TaskResume = 13,
        /// It is done.
        TaskEnd = 14,
        /// Tail of an arrow; a: flow.
        FlowOut = 15,
        /// Head of an arrow; a: flow.
        FlowIn = 16,
        /// An argument of the innermost slice; aux: [`ArgType`] and, for text, its length << 4; a or blob: value.
        Arg = 17,
        /// Text; blob.
        Message = 18,
        /// Name of the thread; blob.
        ThreadName = 19,
        /// Asks a flight recorder to save.
        Trigger = 20,
        /// A lock was free at the first try; [`short_address`] of aux and site: the lock.
        LockTaken = 21,
        /// It was released; as above.
        LockLeft = 22,
        /// A lock's life begins, a: lock, aux: [`lock_type`]; site: who used it first, or with type SYMBOL its name.
        LockDefine = 23,
        /// a: lock, b: holds that were counted and not recorded.
        LockCount = 24,
        /// A request ends without the lock; as LockRequest.
        LockGivenUp = 26,
        /// A task goes on after another's end; a: task or 0, b: the one that ended.
        TaskJoin = 25,
        /// A task cannot start before another's end; a: task, b: the one that it depends on.
        TaskDepends = 27,
        /// Tasks of this name are counted and nothing else is told of them; a: the task that they are a part of, b: count.
        TaskFolded = 28,
    }
);
numbered!(
    /// `enum kasuri_wait_kind`.
    WaitKind: u16 {
        /// None of the following.
        Other = 0,
        /// Barrier.
        Barrier = 1,
        /// End of a thread or task.
        Join = 2,
        /// Condition.
        Cond = 3,
        /// I/O.
        Io = 4,
        /// Semaphore.
        Sem = 5,
        /// pthread_once, while another thread runs the function.
        Once = 6,
    }
);
numbered!(
    /// `enum kasuri_lock_mode`.
    LockMode: u16 {
        /// One holder.
        Exclusive = 0,
        /// Many readers.
        Shared = 1,
    }
);
numbered!(
    /// `enum kasuri_arg_type`.
    ArgType: u16 {
        /// Signed.
        I64 = 1,
        /// Unsigned.
        U64 = 2,
        /// Floating point.
        F64 = 3,
        /// Text.
        Str = 4,
    }
);

/// `enum kasuri_lock_type`: aux of [`Kind::LockDefine`].
pub mod lock_type {
    /// The low byte says what it is.
    pub const MASK: u16 = 0xff;
    /// Normal mutex; the next ones are recursive, error-checking, adaptive.
    pub const MUTEX: u16 = 1;
    /// Recursive mutex.
    pub const RECURSIVE: u16 = 2;
    /// Error-checking mutex.
    pub const ERRORCHECK: u16 = 3;
    /// Adaptive mutex: spins for a while.
    pub const ADAPTIVE: u16 = 4;
    /// Readers and writers.
    pub const RWLOCK: u16 = 5;
    /// Spin lock.
    pub const SPIN: u16 = 6;
    /// The site is the lock's own name.
    pub const SYMBOL: u16 = 0xff;
    /// Flag: robust.
    pub const ROBUST: u16 = 0x100;
    /// Flag: priority inheritance.
    pub const INHERIT: u16 = 0x200;
    /// Flag: priority ceiling.
    pub const PROTECT: u16 = 0x400;
    /// Flag: shared by processes.
    pub const PSHARED: u16 = 0x800;
    /// Flag: a lock of ito, which reports it itself.
    pub const ITO: u16 = 0x1000;
    /// Flag: seen by uprobes on its functions. Never in a ring: the loader of the kernel's events sets it.
    pub const UPROBE: u16 = 0x2000;
}

/// The lock's address in a [`Kind::LockTaken`] or [`Kind::LockLeft`].
pub const fn short_address(aux: u16, site: u32) -> u64 {
    aux as u64 | (site as u64) << 16
}
