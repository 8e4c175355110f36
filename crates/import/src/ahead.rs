//! Decoding ahead of the passes, on other threads.
//!
//! Goal: the passes take events in one time order and are one thread; decoding is half of the work and knows no order but that
//! within its source. Method: a source goes to a worker, which makes chunks of it until enough are ready, and parks it. The
//! passes take chunks; where none is ready and no worker has the source, they make one themselves. So nothing ever waits for a
//! thread that has not begun, and with no workers at all everything is as it would be without this file.
//!
//! The answers do not depend on the number of threads, to the byte. Chunks come in the order of their source. Names are numbered
//! as they are met, so [`Decoder`] numbers them in a table of its own, notes which were new in each step of its source, and
//! [`CpuAhead`] gives them to the passes' table in the same steps as the source would have.
//!
//! Memory: for each source as many chunks as it was made with, and the one that is being made.
use crate::Options;
use kasuri_model::input::{CpuEvents, Event};
use kasuri_model::{Error, StrIx, Strings};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Steps of a source in one chunk: some thousand events, which stay in the second cache.
const STEPS: usize = 8;
/// Chunks of all sources of kernel events together, and the most of one: a block of a recording takes as long to decode
/// as eight chunks of its events to go through the passes.
const CHUNKS: usize = 128;
const CHUNKS_OF_ONE: usize = 16;
/// More workers than this have nothing to do: the passes are one thread.
const WORKERS_MAX: usize = 7;
/// A thread costs more than it saves for files smaller than this.
const SMALL: usize = 4 << 20;

/// What the mutex guards.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A worker that panics poisons what it holds; its source is lost, and the scope of threads passes the panic on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

#[derive(Default)]
struct Jobs<'a> {
    waiting: VecDeque<Job<'a>>,
    is_closed: bool,
}

/// The work that threads may do.
pub(crate) struct Pool<'a> {
    n_workers: usize,
    jobs: Mutex<Jobs<'a>>,
    more: Condvar,
}

impl<'a> Pool<'a> {
    /// For a file of so many bytes; none: one thread does it all. So it is with a damaged file, whose errors are told in the order
    /// in which they are met.
    pub fn new(options: &Options, bytes: usize) -> Option<Arc<Pool<'a>>> {
        let n = match options.threads {
            _ if options.salvage => 1,
            0 if bytes < SMALL => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        (n > 1).then(|| {
            Arc::new(Pool {
                n_workers: (n - 1).min(WORKERS_MAX),
                jobs: Mutex::default(),
                more: Condvar::new(),
            })
        })
    }

    /// Runs `f` while workers do the work.
    pub fn during<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        /// Lets the workers go, also when `f` panics: the scope waits for them.
        struct Close<'p, 'a>(&'p Pool<'a>);
        impl Drop for Close<'_, '_> {
            fn drop(&mut self) {
                let mut jobs = lock(&self.0.jobs);
                jobs.is_closed = true;
                jobs.waiting.clear();
                drop(jobs);
                self.0.more.notify_all();
            }
        }
        std::thread::scope(|scope| {
            let close = Close(self);
            for _ in 0..self.n_workers {
                // A thread that cannot be had is no error: see above.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || self.work());
            }
            let out = f();
            drop(close);
            out
        })
    }

    fn work(&self) {
        let mut jobs = lock(&self.jobs);
        while !jobs.is_closed {
            match jobs.waiting.pop_front() {
                Some(job) => {
                    drop(jobs);
                    job();
                    jobs = lock(&self.jobs);
                }
                None => jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn push(&self, job: Job<'a>) {
        lock(&self.jobs).waiting.push_back(job);
        self.more.notify_one();
    }
}

/// Makes chunks, one after the other.
pub(crate) trait Producer: Send {
    /// What it makes.
    type Chunk: Send;
    /// The next chunk; none: there is no more.
    fn produce(&mut self) -> Option<Self::Chunk>;
}

/// Where a source is.
enum Place<P> {
    /// Nobody has it.
    Parked(P),
    /// A worker has it.
    AtWork,
    /// It has nothing more.
    Done,
}

struct Shelf<P: Producer> {
    place: Place<P>,
    ready: VecDeque<P::Chunk>,
    /// A job for it waits in the pool.
    is_queued: bool,
}

struct Shared<P: Producer> {
    shelf: Mutex<Shelf<P>>,
    came: Condvar,
    depth: usize,
}

impl<P: Producer> Shared<P> {
    /// A worker's part: chunks until enough are ready.
    fn fill(&self) {
        let mut shelf = lock(&self.shelf);
        shelf.is_queued = false;
        let Place::Parked(mut producer) = std::mem::replace(&mut shelf.place, Place::AtWork) else {
            shelf.place = Place::Done;
            return;
        };
        loop {
            drop(shelf);
            // Where this panics, the one who waits for the chunk must not wait for ever.
            let guard = Lost(self);
            let chunk = producer.produce();
            std::mem::forget(guard);
            shelf = lock(&self.shelf);
            let Some(chunk) = chunk else {
                shelf.place = Place::Done;
                break;
            };
            shelf.ready.push_back(chunk);
            if shelf.ready.len() >= self.depth {
                shelf.place = Place::Parked(producer);
                break;
            }
            self.came.notify_one();
        }
        drop(shelf);
        self.came.notify_one();
    }
}

/// Notes, when dropped, that nothing more comes.
struct Lost<'s, P: Producer>(&'s Shared<P>);

impl<P: Producer> Drop for Lost<'_, P> {
    fn drop(&mut self) {
        lock(&self.0.shelf).place = Place::Done;
        self.0.came.notify_one();
    }
}

/// A source whose chunks are made ahead.
pub(crate) struct Ahead<'a, P: Producer + 'a> {
    pool: Arc<Pool<'a>>,
    shared: Arc<Shared<P>>,
}

impl<'a, P: Producer + 'a> Ahead<'a, P> {
    /// `depth`: chunks that may be ready at once.
    pub fn new(pool: &Arc<Pool<'a>>, producer: P, depth: usize) -> Ahead<'a, P> {
        let shelf = Shelf {
            place: Place::Parked(producer),
            ready: VecDeque::with_capacity(depth),
            is_queued: false,
        };
        let shared = Shared { shelf: Mutex::new(shelf), came: Condvar::new(), depth };
        Ahead { pool: pool.clone(), shared: Arc::new(shared) }
    }

    /// The next chunk; none: there is no more.
    pub fn next(&mut self) -> Option<P::Chunk> {
        let mut shelf = lock(&self.shared.shelf);
        loop {
            if let Some(chunk) = shelf.ready.pop_front() {
                let wanted = shelf.ready.len() <= self.shared.depth / 2;
                self.ask(shelf, wanted);
                return Some(chunk);
            }
            match std::mem::replace(&mut shelf.place, Place::Done) {
                Place::Done => return None,
                Place::Parked(mut producer) => {
                    drop(shelf);
                    let chunk = producer.produce()?;
                    shelf = lock(&self.shared.shelf);
                    shelf.place = Place::Parked(producer);
                    self.ask(shelf, true);
                    return Some(chunk);
                }
                Place::AtWork => {
                    shelf.place = Place::AtWork;
                    let came = self.shared.came.wait(shelf);
                    shelf = came.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Asks for more, if that is `wanted` and not asked already.
    fn ask(&self, mut shelf: MutexGuard<'_, Shelf<P>>, wanted: bool) {
        if wanted && !shelf.is_queued && matches!(shelf.place, Place::Parked(_)) {
            shelf.is_queued = true;
            drop(shelf);
            let shared = self.shared.clone();
            self.pool.push(Box::new(move || shared.fill()));
        }
    }
}

/// Decodes one CPU's events, with names numbered in a table of its own.
pub(crate) struct Decoder<'a> {
    source: Box<dyn CpuEvents + Send + 'a>,
    strings: Strings,
    is_over: bool,
}

/// Some steps of a source.
pub(crate) struct Steps {
    events: Vec<Event>,
    /// After each step: number of events so far, number of `names` so far.
    ends: Vec<(usize, usize)>,
    /// The names that were new.
    names: Vec<String>,
    /// The last step ended with it.
    error: Option<Error>,
}

impl Producer for Decoder<'_> {
    type Chunk = Steps;

    fn produce(&mut self) -> Option<Steps> {
        if self.is_over {
            return None;
        }
        let known = self.strings.len();
        let mut steps = Steps {
            events: Vec::with_capacity(STEPS * 600),
            ends: Vec::with_capacity(STEPS),
            names: Vec::new(),
            error: None,
        };
        // Sources fill what is missing to a batch, so each step has one of its own.
        let mut step = Vec::with_capacity(600);
        while steps.ends.len() < STEPS && !self.is_over {
            steps.error = self.source.fill(&mut self.strings, &mut step).err();
            self.is_over = step.is_empty() || steps.error.is_some();
            steps.events.append(&mut step);
            let n_names = self.strings.len() - known;
            steps.ends.push((steps.events.len(), n_names));
        }
        let names = self.strings.iter().skip(known);
        steps.names = names.map(str::to_owned).collect();
        Some(steps)
    }
}

/// One CPU's events, decoded ahead.
pub(crate) struct CpuAhead<'a> {
    chunks: Ahead<'a, Decoder<'a>>,
    /// The chunk that is being given out, and the next of its steps.
    steps: Option<Steps>,
    next: usize,
    /// Number of each of the decoder's names in the passes' table.
    names: Vec<StrIx>,
}

impl<'a> CpuAhead<'a> {
    /// `source` numbers all its names while it fills. `n_sources`: how many there are like it.
    pub fn new(
        pool: &Arc<Pool<'a>>,
        source: Box<dyn CpuEvents + Send + 'a>,
        n_sources: usize,
    ) -> CpuAhead<'a> {
        let decoder = Decoder { source, strings: Strings::default(), is_over: false };
        let depth = (CHUNKS / n_sources.max(1)).clamp(2, CHUNKS_OF_ONE);
        CpuAhead {
            chunks: Ahead::new(pool, decoder, depth),
            steps: None,
            next: 0,
            names: Vec::new(),
        }
    }

    /// Has the first chunk made.
    pub fn begin(&self) {
        let shelf = lock(&self.chunks.shared.shelf);
        self.chunks.ask(shelf, true);
    }
}

impl CpuEvents for CpuAhead<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        if self.steps.as_ref().is_none_or(|s| self.next == s.ends.len()) {
            (self.steps, self.next) = (self.chunks.next(), 0);
        }
        let Some(steps) = &mut self.steps else {
            return Ok(());
        };
        let before = match self.next.checked_sub(1) {
            Some(before) => steps.ends[before],
            None => (0, 0),
        };
        let end = steps.ends[self.next];
        self.next += 1;
        let new = steps.names[before.1..end.1].iter();
        self.names.extend(new.map(|name| strings.intern(name)));
        let first = out.len();
        out.extend_from_slice(&steps.events[before.0..end.0]);
        for event in &mut out[first..] {
            event.each_name(|name| {
                if name.is_some() {
                    *name = self.names[name.ix()];
                }
            });
        }
        let is_last = self.next == steps.ends.len();
        match steps.error.take_if(|_| is_last) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_base::random::Rng;
    use kasuri_model::Time;
    use kasuri_model::input::What;

    /// Steps of any length, with names of its own and names of all, and perhaps an error at the end.
    struct Made {
        rng: Rng,
        cpu: usize,
        left: usize,
        fails: bool,
        time: i64,
    }

    impl Made {
        fn new(seed: u64, cpu: usize) -> Made {
            let mut rng = Rng::new(seed * 100 + cpu as u64);
            Made {
                cpu,
                left: rng.below(60),
                fails: cpu == 3 && seed.is_multiple_of(5),
                time: 0,
                rng,
            }
        }

        fn name(&mut self, strings: &mut Strings) -> StrIx {
            match self.rng.below(4) {
                0 => StrIx::NONE,
                1 => strings.intern(&format!("own {} {}", self.cpu, self.rng.below(50))),
                _ => strings.intern(&format!("all {}", self.rng.below(300))),
            }
        }
    }

    impl CpuEvents for Made {
        fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
            let Some(left) = self.left.checked_sub(1) else {
                return match self.fails {
                    true => Err(Error::TooMany { what: "tests", max: 7 }),
                    false => Ok(()),
                };
            };
            self.left = left;
            for _ in 0..1 + self.rng.below(40) {
                self.time += self.rng.below(30) as i64;
                let mut event = Event::switch(
                    self.time,
                    1,
                    kasuri_model::ThreadState::Sleeping,
                    2,
                    StrIx::NONE,
                );
                if let What::Switch { prev_comm, next_comm, .. } = &mut event.what {
                    *prev_comm = self.name(strings);
                    *next_comm = self.name(strings);
                }
                event.time = Time(self.time);
                out.push(event);
            }
            Ok(())
        }
    }

    /// All that the passes would see: sources in turns that depend on the seed alone, each step, its error; and the table of names.
    fn read<'a>(
        seed: u64,
        mut sources: Vec<Box<dyn CpuEvents + 'a>>,
    ) -> (Vec<String>, Vec<String>) {
        let (mut strings, mut turns, mut seen) = (Strings::default(), Rng::new(seed), Vec::new());
        strings.intern("all 7");
        while !sources.is_empty() {
            let at = turns.below(sources.len());
            let mut out = Vec::new();
            let error = sources[at].fill(&mut strings, &mut out).err();
            seen.push(format!("{at} {out:?} {error:?}"));
            if out.is_empty() || error.is_some() {
                drop(sources.remove(at));
            }
        }
        (seen, strings.iter().map(str::to_owned).collect())
    }

    #[test]
    fn events_and_names_are_the_same_for_any_number_of_threads() {
        for seed in 0..20 {
            let sources = || (0..1 + seed as usize % 6).map(move |cpu| Made::new(seed, cpu));
            let alone = read(seed, sources().map(|s| Box::new(s) as _).collect());
            for threads in [2, 3, 8] {
                let options = Options { threads, ..Options::default() };
                let pool = Pool::new(&options, 0).expect("several threads");
                let n = sources().len();
                let ahead = |source| {
                    let ahead = CpuAhead::new(&pool, Box::new(source), n);
                    ahead.begin();
                    Box::new(ahead) as Box<dyn CpuEvents>
                };
                let with_workers = pool.during(|| read(seed, sources().map(ahead).collect()));
                assert_eq!(with_workers, alone, "seed {seed}, {threads} threads");
                // Nobody works: the one who wants a chunk makes it.
                assert_eq!(read(seed, sources().map(ahead).collect()), alone, "seed {seed}");
            }
        }
    }

    #[test]
    fn small_and_damaged_files_are_read_by_one_thread() {
        let pool = |salvage, threads, bytes| {
            let options = Options { salvage, threads, ..Options::default() };
            Pool::new(&options, bytes).map(|pool| pool.n_workers)
        };
        assert_eq!(pool(false, 0, SMALL - 1), None);
        assert_eq!(pool(true, 8, SMALL), None);
        assert_eq!(pool(false, 1, SMALL), None);
        assert_eq!(pool(false, 2, 0), Some(1));
        assert_eq!(pool(false, 1000, 0), Some(WORKERS_MAX));
    }

    #[test]
    #[should_panic(expected = "of the source")]
    fn a_panic_of_a_worker_ends_the_reading() {
        struct Bad;
        impl CpuEvents for Bad {
            fn fill(&mut self, _: &mut Strings, _: &mut Vec<Event>) -> Result<(), Error> {
                panic!("of the source");
            }
        }
        let options = Options { threads: 2, ..Options::default() };
        let pool = Pool::new(&options, 0).expect("several threads");
        pool.during(|| {
            let mut ahead = CpuAhead::new(&pool, Box::new(Bad), 1);
            let (mut strings, mut out) = (Strings::default(), Vec::new());
            let _ = ahead.fill(&mut strings, &mut out);
        });
    }
}
