//! Light threads for Rust: [`join`], [`scope`], [`spawn`], and loops over ranges and slices, on `libito`, which this crate
//! compiles in. What waits to begin is taken by idle workers (work stealing); a fork that nobody takes is a call.
//!
//! ```
//! fn fib(n: u32) -> u64 {
//!     if n < 2 {
//!         return n.into();
//!     }
//!     let (a, b) = ito::join(|| fib(n - 1), || fib(n - 2));
//!     a + b
//! }
//! assert_eq!(fib(20), 6765);
//!
//! let mut squares = vec![0; 1000];
//! ito::for_each_mut(&mut squares, |i, x| *x = i * i);
//! let sum = ito::map_reduce(0..1000, || 0, |i| squares[i], |a, b| a + b);
//! assert_eq!(sum, 332_833_500);
//! ```
//!
//! # What holds
//!
//! - A closure stays on the kernel thread on which it begins, as in rayon: `thread_local!` variables and values that are not
//!   `Send` may be used in it as anywhere. Between two of its calls of this crate other closures may run on that thread.
//! - What a closure borrows lives until it has ended; what it panics with comes out of the call that waits for it.
//! - Closures may block: [`scope`], [`JoinHandle::join`], [`sleep`] and [`yield_now`] let others run meanwhile; other calls that
//!   wait (a `Mutex`, a socket) hold up the worker, as in rayon.
//! - Called off the workers, each function runs its closure on one and waits. The pool starts at the first call, with a worker
//!   for each CPU (`ITO_WORKERS`), or by [`start`]; it is never stopped.
//! - `kasuri record` sees the tasks.
//!
//! A closure that moves something which must stay does not compile:
//!
//! ```compile_fail
//! let shared = std::rc::Rc::new(1);
//! ito::join(|| *shared, || *shared);
//! ```
//! ```compile_fail
//! let handle = { let local = 1; ito::spawn(|| local + 1) };
//! ```
//! ```compile_fail
//! let mut sum = 0;
//! ito::for_each(0..10, |i| sum += i);
//! ```
//! ```compile_fail
//! ito::scope(|s| { let local = 1; s.spawn(|_| println!("{local}")); });
//! ```

use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Result as Ended;
use std::time::Duration;

mod ffi {
    use std::ffi::{c_int, c_void};

    /// `struct rs_task` of `shim.c`.
    #[repr(C)]
    pub struct Task {
        pub fork: [usize; 2],
        pub run: unsafe extern "C" fn(*mut Task),
    }
    /// `ito_sem`; all zero is one without a unit.
    #[repr(C)]
    pub struct Sem(pub [u64; 3]);

    unsafe extern "C" {
        pub fn ito_rs_serve(
            workers: u32,
            stack_bytes: usize,
            started: extern "C" fn(*mut c_void),
            arg: *mut c_void,
        ) -> c_int;
        pub fn ito_rs_fork(task: *mut Task);
        pub fn ito_rs_sync(task: *mut Task) -> c_int;
        pub fn ito_rs_leave(task: *mut Task) -> c_int;
        pub fn ito_rs_spawn(
            out: *mut *mut c_void,
            f: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
            arg: *mut c_void,
        ) -> c_int;
        pub fn ito_join(thread: *mut c_void, result: *mut *mut c_void) -> c_int;
        pub fn ito_detach(thread: *mut c_void) -> c_int;
        pub fn ito_worker_index() -> u32;
        pub fn ito_n_workers() -> u32;
        pub fn ito_yield();
        pub fn ito_sleep_ns(ns: u64) -> c_int;
        pub fn ito_sem_wait(sem: *mut Sem) -> c_int;
        pub fn ito_sem_post(sem: *mut Sem) -> c_int;
    }
}

// ---- the pool ------------------------------------------------------------------------------------------------------

static POOL: OnceLock<Result<(), c_int>> = OnceLock::new();

/// Starts the pool: 0 workers is one for each CPU, 0 bytes of stack is 1 MiB, of which only what is used takes memory.
///
/// # Errors
///
/// `AlreadyExists` if it runs already; what the system says when it gives no threads or memory.
pub fn start(workers: u32, stack_bytes: usize) -> std::io::Result<()> {
    let mut first = false;
    let started = POOL.get_or_init(|| {
        first = true;
        serve(workers, stack_bytes)
    });
    match started {
        Ok(()) if first => Ok(()),
        Ok(()) => Err(std::io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(std::io::Error::from_raw_os_error(*error)),
    }
}

/// The pool's root thread is one of its own: it may go from worker to worker, which no Rust closure does.
fn serve(workers: u32, stack_bytes: usize) -> Result<(), c_int> {
    extern "C" fn started(sender: *mut c_void) {
        // SAFETY: the address of the Sender in the closure below, which is alive.
        let sender = unsafe { &*sender.cast::<mpsc::Sender<c_int>>() };
        let _ = sender.send(0);
    }
    let by_variable = std::env::var_os("ITO_STACK").is_some();
    let stack = if stack_bytes == 0 && !by_variable { 1 << 20 } else { stack_bytes };
    let (sender, receiver) = mpsc::channel();
    let spawned = std::thread::Builder::new().name("ito".into()).spawn(move || {
        let arg = (&raw const sender).cast_mut().cast();
        // SAFETY: `started` gets a pointer to `sender`, which lives until this thread ends.
        let error = unsafe { ffi::ito_rs_serve(workers, stack, started, arg) };
        let _ = sender.send(error);
    });
    match spawned.map(|_| receiver.recv()) {
        Ok(Ok(0)) => Ok(()),
        Ok(Ok(error)) => Err(error),
        Ok(Err(_)) => Err(22), // EINVAL: the thread has ended without a word
        Err(error) => Err(error.raw_os_error().unwrap_or(11)), // EAGAIN
    }
}

/// # Panics
///
/// If the pool cannot be started.
fn ensure_started() {
    if let Err(error) = POOL.get_or_init(|| serve(0, 0)) {
        panic!("ito: the pool did not start: {}", std::io::Error::from_raw_os_error(*error));
    }
}

/// Workers of the pool, which is started.
#[must_use]
pub fn workers() -> usize {
    ensure_started();
    // SAFETY: no precondition.
    unsafe { ffi::ito_n_workers() as usize }
}

fn is_worker() -> bool {
    // SAFETY: no precondition.
    unsafe { ffi::ito_worker_index() != u32::MAX }
}

/// Lets other closures of this worker run.
pub fn yield_now() {
    if is_worker() {
        // SAFETY: no precondition.
        unsafe { ffi::ito_yield() };
    } else {
        std::thread::yield_now();
    }
}

/// Sleeps; others run meanwhile on this worker.
pub fn sleep(time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: no precondition. It fails where the system gives no thread for the timers.
    if !is_worker() || unsafe { ffi::ito_sleep_ns(ns) } != 0 {
        std::thread::sleep(time);
    }
}

// ---- a closure in a light thread of its own ------------------------------------------------------------------------

/// Runs `f` in a light thread and waits for it. The caller is no worker.
fn install<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    struct Call<F, R> {
        f: Option<F>,
        result: Option<Ended<R>>,
    }
    unsafe extern "C" fn main<F: FnOnce() -> R, R>(arg: *mut c_void) -> *mut c_void {
        // SAFETY: the caller's Call, which it does not touch until it has joined this thread.
        let call = unsafe { &mut *arg.cast::<Call<F, R>>() };
        let f = call.f.take();
        call.result = f.map(|f| catch_unwind(AssertUnwindSafe(f)));
        std::ptr::null_mut()
    }
    fn main_of<F: FnOnce() -> R, R>(
        _: &Call<F, R>,
    ) -> unsafe extern "C" fn(*mut c_void) -> *mut c_void {
        main::<F, R>
    }
    ensure_started();
    let mut call = Call { f: Some(f), result: None };
    let main = main_of(&call);
    let mut thread = std::ptr::null_mut();
    // SAFETY: `call` lives, and is not touched here, until the thread is joined below.
    let error = unsafe { ffi::ito_rs_spawn(&raw mut thread, main, (&raw mut call).cast()) };
    assert!(error == 0, "ito: no thread: {}", std::io::Error::from_raw_os_error(error));
    // SAFETY: the thread was created above and is joined once.
    let error = unsafe { ffi::ito_join(thread, std::ptr::null_mut()) };
    if error != 0 {
        std::process::abort(); // it may still use `call`
    }
    match call.result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("a joined thread has called its function"),
    }
}

// ---- join ----------------------------------------------------------------------------------------------------------

#[repr(C)]
struct Forked<B, R> {
    task: ffi::Task, // first: shim.c gets and gives back its address
    f: UnsafeCell<Option<B>>,
    result: UnsafeCell<Option<Ended<R>>>,
}

/// Called by the thread that has taken the task.
unsafe extern "C" fn run_forked<B: FnOnce() -> R, R>(task: *mut ffi::Task) {
    // SAFETY: the Forked whose first field this is. It lives until its parent's sync, which waits for this call; its
    // parent does not touch it meanwhile.
    let forked = unsafe { &*task.cast::<Forked<B, R>>() };
    // SAFETY: as above.
    let (f, result) = unsafe { (&mut *forked.f.get(), &mut *forked.result.get()) };
    *result = f.take().map(|f| catch_unwind(AssertUnwindSafe(f)));
}

/// Runs both, at the same time where a worker is free, and returns what they return. `a` runs here; `b` too, after it,
/// unless a worker takes it. Where nobody takes it that costs a few nanoseconds more than the two calls.
///
/// # Panics
///
/// With what `a` panics with, else with what `b` does. If `a` panics and `b` has not begun, it is dropped.
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if !is_worker() {
        return install(|| join(a, b));
    }
    // While a panic unwinds, other closures must not run here: they would see it as their own.
    if std::thread::panicking() {
        return (a(), b());
    }
    let forked: Forked<B, RB> = Forked {
        task: ffi::Task { fork: [0; 2], run: run_forked::<B, RB> },
        f: UnsafeCell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    let at = (&raw const forked).cast_mut().cast::<ffi::Task>();
    // SAFETY: `forked` lives until the sync or the leave below, one of which follows on every way.
    unsafe { ffi::ito_rs_fork(at) };
    let first = catch_unwind(AssertUnwindSafe(a));
    match first {
        Ok(first) => {
            // SAFETY: the last fork of this thread that has not been synced.
            if unsafe { ffi::ito_rs_sync(at) } != 0 {
                let b = forked.f.into_inner().expect("a task that nobody has taken");
                return (first, b());
            }
            match forked.result.into_inner() {
                Some(Ok(second)) => (first, second),
                Some(Err(panic)) => resume_unwind(panic),
                None => unreachable!("a task that was taken has run"),
            }
        }
        Err(panic) => {
            // SAFETY: as above.
            unsafe { ffi::ito_rs_leave(at) };
            drop(forked);
            resume_unwind(panic)
        }
    }
}

// ---- scope ---------------------------------------------------------------------------------------------------------

type Panic = Box<dyn Any + Send>;

/// Where [`scope`] waits for what was spawned in it.
pub struct Scope<'scope> {
    left: AtomicUsize, // the body, and what was spawned and has not ended
    done: UnsafeCell<ffi::Sem>,
    panic: Mutex<Option<Panic>>,
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>, // invariant
}
// SAFETY: `done` is a semaphore, which any thread may use; the rest is Sync.
unsafe impl Sync for Scope<'_> {}

/// Calls `body`, waits for all that was spawned in its scope, and returns what it returned. Closures may borrow what lives
/// longer than the call.
///
/// # Panics
///
/// With what the body panics with, else one of the closures; after all have ended.
pub fn scope<'scope, R: Send>(body: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    if !is_worker() {
        return install(|| scope(body));
    }
    let scope = Scope {
        left: AtomicUsize::new(1),
        done: UnsafeCell::new(ffi::Sem([0; 3])),
        panic: Mutex::new(None),
        borrows: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    // AcqRel: what each closure did is seen by whoever leaves last, and by the semaphore's waiter.
    if scope.left.fetch_sub(1, Ordering::AcqRel) != 1 {
        // SAFETY: a valid semaphore; the last closure posts one unit, and does not touch it after that.
        unsafe { ffi::ito_sem_wait(scope.done.get()) };
    }
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(result) => {
            let first = scope.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(panic) = first {
                resume_unwind(panic);
            }
            result
        }
    }
}

struct Spawned<'scope, F> {
    f: F,
    scope: *const Scope<'scope>,
}

impl<'scope> Scope<'scope> {
    /// Runs `f` in a light thread, which may spawn others in the scope. Here, if there is no memory for a thread.
    pub fn spawn<F: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, f: F) {
        if std::thread::panicking() || !is_worker() {
            self.run(f);
            return;
        }
        self.left.fetch_add(1, Ordering::Relaxed); // relaxed: the caller is in the scope, so it is not 0
        let arg = Box::into_raw(Box::new(Spawned { f, scope: self }));
        // SAFETY: run_spawned takes the box over; the scope waits until it has left.
        if unsafe { ffi::ito_rs_spawn(std::ptr::null_mut(), run_spawned::<F>, arg.cast()) } != 0 {
            // SAFETY: nobody has taken it.
            unsafe { run_spawned::<F>(arg.cast()) };
        }
    }
    fn run(&self, f: impl FnOnce(&Scope<'scope>)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(self))) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }
    /// The scope may be gone after it.
    fn leave(&self) {
        let done = self.done.get();
        // AcqRel: as in scope().
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the body waits for this unit, as it was not the last to leave.
            unsafe { ffi::ito_sem_post(done) };
        }
    }
}

unsafe extern "C" fn run_spawned<'scope, F: FnOnce(&Scope<'scope>)>(
    arg: *mut c_void,
) -> *mut c_void {
    // SAFETY: the box of Scope::spawn, which is this thread's.
    let spawned = unsafe { Box::from_raw(arg.cast::<Spawned<'scope, F>>()) };
    // SAFETY: the scope waits for leave().
    let scope = unsafe { &*spawned.scope };
    scope.run(spawned.f);
    scope.leave();
    std::ptr::null_mut()
}

// ---- spawn ---------------------------------------------------------------------------------------------------------

struct Packet<T>(UnsafeCell<Option<Ended<T>>>);
// SAFETY: written by the thread, read by who has joined it.
unsafe impl<T: Send> Sync for Packet<T> {}

/// A light thread that can be waited for; it goes on by itself when this is dropped.
pub struct JoinHandle<T> {
    thread: *mut c_void,
    packet: Arc<Packet<T>>,
}
// SAFETY: any thread may join or detach a thread of libito.
unsafe impl<T: Send> Send for JoinHandle<T> {}

/// Runs `f` in a light thread.
///
/// # Panics
///
/// If there is no memory for a thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    unsafe extern "C" fn main<F: FnOnce() -> T, T>(arg: *mut c_void) -> *mut c_void {
        // SAFETY: the box made below, which is this thread's.
        let (f, packet) = *unsafe { Box::from_raw(arg.cast::<(F, Arc<Packet<T>>)>()) };
        let result = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: nobody reads it before this thread was joined.
        unsafe { *packet.0.get() = Some(result) };
        std::ptr::null_mut()
    }
    fn main_of<F: FnOnce() -> T, T>(
        _: &(F, Arc<Packet<T>>),
    ) -> unsafe extern "C" fn(*mut c_void) -> *mut c_void {
        main::<F, T>
    }
    ensure_started();
    let packet = Arc::new(Packet(UnsafeCell::new(None)));
    let arg = Box::new((f, Arc::clone(&packet)));
    let main = main_of(&arg);
    let arg = Box::into_raw(arg);
    let mut thread = std::ptr::null_mut();
    // SAFETY: main takes the box over.
    let error = unsafe { ffi::ito_rs_spawn(&raw mut thread, main, arg.cast()) };
    if error != 0 {
        // SAFETY: nobody has taken it.
        drop(unsafe { Box::from_raw(arg) });
        panic!("ito: no thread: {}", std::io::Error::from_raw_os_error(error));
    }
    JoinHandle { thread, packet }
}

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// What it panicked with.
    ///
    /// # Panics
    ///
    /// In the thread itself, which cannot wait for its own end.
    pub fn join(mut self) -> std::thread::Result<T> {
        let thread = std::mem::replace(&mut self.thread, std::ptr::null_mut());
        // SAFETY: created by spawn(), not joined or detached yet, as `self` is taken.
        let error = unsafe { ffi::ito_join(thread, std::ptr::null_mut()) };
        assert!(error == 0, "ito: join: {}", std::io::Error::from_raw_os_error(error));
        // SAFETY: the thread has ended.
        let result = unsafe { (*self.packet.0.get()).take() };
        result.expect("a joined thread has left its result")
    }
}
impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if !self.thread.is_null() {
            // SAFETY: not joined.
            unsafe { ffi::ito_detach(self.thread) };
        }
    }
}

// ---- loops ---------------------------------------------------------------------------------------------------------

/// Pieces are no smaller than a 1,024th of the whole, whatever the number of workers: so a reduction is a tree that depends
/// on the length alone, and floating-point results are the same bits everywhere.
const PIECES: usize = 1024;

fn split<R: Send>(
    range: Range<usize>,
    grain: usize,
    piece: &(impl Fn(Range<usize>) -> R + Sync),
    both: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if range.len() <= grain {
        return piece(range);
    }
    let middle = range.start + range.len() / 2;
    let (left, right) = join(
        || split(range.start..middle, grain, piece, both),
        || split(middle..range.end, grain, piece, both),
    );
    both(left, right)
}

/// Calls `f` once for each index, in pieces that run at the same time where workers are free.
pub fn for_each(range: Range<usize>, f: impl Fn(usize) + Sync) {
    let grain = range.len().div_ceil(PIECES).max(1);
    split(range, grain, &|piece| piece.for_each(&f), &|(), ()| ());
}

/// `reduce` of what `map` makes of each index; `identity` where there is none. `reduce` must be associative.
pub fn map_reduce<T: Send>(
    range: Range<usize>,
    identity: impl Fn() -> T + Sync,
    map: impl Fn(usize) -> T + Sync,
    reduce: impl Fn(T, T) -> T + Sync,
) -> T {
    let grain = range.len().div_ceil(PIECES).max(1);
    split(range, grain, &|piece| piece.map(&map).fold(identity(), &reduce), &reduce)
}

/// Calls `f` once for each element of a slice, with its index.
pub fn for_each_ref<T: Sync>(slice: &[T], f: impl Fn(usize, &T) + Sync) {
    for_each(0..slice.len(), |i| f(i, &slice[i]));
}

/// The same for elements that it changes.
pub fn for_each_mut<T: Send>(slice: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
    let grain = slice.len().div_ceil(PIECES).max(1);
    halve(slice, 0, grain, &f);
}

fn halve<T: Send>(
    slice: &mut [T],
    first: usize,
    grain: usize,
    f: &(impl Fn(usize, &mut T) + Sync),
) {
    if slice.len() <= grain {
        for (i, x) in slice.iter_mut().enumerate() {
            f(first + i, x);
        }
        return;
    }
    let middle = slice.len() / 2;
    let (left, right) = slice.split_at_mut(middle);
    join(|| halve(left, first, grain, f), || halve(right, first + middle, grain, f));
}
