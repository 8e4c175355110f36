//! One recording from its start to its end.
//!
//! One thread does everything, in ticks of at most 20 ms: it moves full kernel pages and full chunks to files, and
//! about once a second reads clocks, loss counts and threads. The order of the steps at both ends is what makes the
//! recording whole:
//! start: directory, kernel source (still off), ring session, events of samples, anchor, /proc, kernel on, program released;
//! end: kernel off, programs told to stop, anchor, last pages, last chunks, loss counts, meta complete.
mod absent;
mod end;
mod start;

use crate::budget::Budget;
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::Directory;
use crate::files::pack::Amend;
use crate::files::remote::Remote;
use crate::files::stream::Stream;
use crate::flight::FlightRecorder;
use crate::kernel::source::Source;
use crate::kernel::usdt::Watch;
use crate::live::Live;
use crate::notice::{Notice, Notify, Summary};
use crate::options::{Options, Target};
use crate::program::child::{Child, OpenFiles};
use crate::program::procs::{self, Snapshots};
use crate::program::signals::{Arrived, ENDING, Signals};
use crate::random::random_u32;
use crate::rings::attach::Attachment;
use crate::rings::session;
use crate::stacks::{Sampler, Urgent};
use kasuri_base::random::Rng;
use kasuri_format::hindrance::{self, Hindrance};
use kasuri_format::ring::SessionState;
use rustix::event::PollFlags;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

pub use start::may_record;

/// Bytes of a chunk: 2,040 events of 16 bytes, so a hand-over costs a hundredth of a nanosecond per event.
const CHUNK_BYTES: u32 = 32 * 1024;

/// Longest and shortest wait between two ticks. The buffers would allow twice the longest; its cost is the ring
/// memory that programs must take until the next tick.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Time between two looks at stacks that are to be followed soon.
const SOON: Duration = Duration::from_millis(5);
const TICK_MIN: Duration = Duration::from_millis(1);

/// Time between two words to the thread that sends a recording.
const TELL_STREAM: Duration = Duration::from_millis(50);

/// Distance, in recorded bytes, between two looks at the free room of the disk.
const LOOK_AT_ROOM: u64 = 4 << 20;

/// Makes a recording. Returns when it has ended and is packed.
///
/// Must be called by the only thread of the process: it forks, and it takes over the signals that end a process until
/// it returns.
///
/// # Errors
/// When recording could not begin, or the program could not be run; nothing is left behind then. Failures
/// later are in [`Summary::failure`].
pub fn record(options: &Options, notify: Notify<'_>) -> Result<Summary> {
    let signals = Signals::block(options.flight.is_some())?;
    let mut recorder = Recorder::prepare(options)?;
    match recorder.begin(&signals, notify) {
        Ok(()) => {}
        Err(error) => {
            recorder.abandon();
            return Err(error);
        }
    }
    recorder.run(&signals, notify);
    recorder.end(&signals, notify)
}

/// The consequence of a signal for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    End,
}

/// A recording that is being made.
struct Recorder<'a> {
    options: &'a Options,
    dir: Directory,
    live: Live<'a>,
    /// Threads whose names the recording has.
    threads: Snapshots,
    /// What threads did at the end.
    at_end: Vec<kasuri_format::meta::Proc>,
    /// `None`: an ordinary recording.
    flight: Option<FlightRecorder>,
    budget: Option<Budget>,
    /// Counts the hits of USDT probes.
    usdt: Option<Watch>,
    /// Tracing instances of dead recorders that were removed.
    removed: Vec<String>,
    /// Whether the user was told of programs that found no room.
    refused_said: bool,
    /// Whether the program's own file has gates.
    is_annotated: bool,
    /// Anchors and metadata that the disk had no room for.
    amend: Amend,
    /// Sends the recording while it is made.
    stream: Option<Stream>,
    /// The other machine, until the stream has it.
    remote: Option<Remote>,
    /// When it was told last how long the files are.
    stream_told: Instant,
    child: Option<Child>,
    attachment: Option<Attachment>,
    pidfd: Option<OwnedFd>,
    open_files: OpenFiles,
    /// Variables that the lock probe adds to the program's environment.
    probes: Vec<(OsString, OsString)>,
    /// Number of requests to end so far.
    ending_signals: u32,
    /// Whether SIGCHLD came.
    child_changed: bool,
    /// Wait until the next tick.
    tick: Duration,
    tick_max: Duration,
    /// Bytes recorded at the last look at the disk's free room.
    room_looked_at: u64,
    cpu_at_start: u64,
    children_at_start: u64,
}

impl<'a> Recorder<'a> {
    fn run(&mut self, signals: &Signals, notify: Notify<'_>) {
        let started = Instant::now();
        let mut next_second = started + Duration::from_secs(1);
        let mut next_tick = started + self.tick;
        let mut urgent = Urgent::default();
        let mut random = Rng::new(u64::from(random_u32()));
        loop {
            // No program is in step with looks at its waits: of waits a little longer than the time between two looks, either all are
            // seen or none, if the program's period is a multiple of it.
            let usual = self.tick.mul_f64(0.5 + 0.5 * random.uniform());
            let prompt = self.live.stacks.as_ref().filter(|stacks| stacks.is_prompt());
            let used_ns = prompt.map(Sampler::used_ns);
            let tick = match used_ns {
                Some(_) => usual.min(SOON),
                None => usual,
            };
            let wait = self
                .options
                .duration
                .map_or(tick, |d| tick.min(d.saturating_sub(started.elapsed())));
            urgent.set(used_ns.is_some());
            let (arrived, target_ended) = self.wait(signals, wait);
            let mut step = Step::GoOn;
            for signal in arrived {
                if self.on_signal(signal, notify) == Step::End {
                    step = Step::End;
                }
            }
            crate::testhook::point("tick");
            // Between ticks, only stacks may have to be followed.
            match (&mut self.live.stacks, used_ns) {
                (Some(stacks), Some(used_ns)) if Instant::now() < next_tick => {
                    stacks.drain_promptly(used_ns);
                }
                _ => {
                    self.on_tick(notify);
                    next_tick = Instant::now() + usual;
                }
            }
            let now = Instant::now();
            let look = now >= next_second;
            if look {
                next_second = now + Duration::from_secs(1);
                self.on_second(notify);
            }
            let timed_out = self.options.duration.is_some_and(|d| now - started >= d);
            if step == Step::End || target_ended || timed_out || self.is_over(look) {
                return;
            }
        }
    }

    /// Waits for signals, for the end of the target, and for samples that are to be followed at
    /// once.
    fn wait(&mut self, signals: &Signals, time: Duration) -> (Vec<Arrived>, bool) {
        let target = self.pidfd.as_ref().map(|fd| fd.as_fd());
        let wakers = self.live.stacks.as_ref().map_or(Vec::new(), Sampler::wakers);
        let others: Vec<BorrowedFd<'_>> = target.into_iter().chain(wakers).collect();
        let has_target = target.is_some();
        let (arrived, others) = signals.wait(&others, time);
        let mut others = others.into_iter();
        let target_ended = has_target && others.next().is_some_and(|flags| !flags.is_empty());
        let is_hung = |flags: PollFlags| flags.intersects(PollFlags::HUP | PollFlags::ERR);
        if others.any(is_hung)
            && let Some(stacks) = &mut self.live.stacks
        {
            stacks.hung();
        }
        (arrived, target_ended)
    }

    /// Whether the program has ended. Checked when SIGCHLD came, and once a second in case it did not come.
    fn is_over(&mut self, look: bool) -> bool {
        let look = std::mem::take(&mut self.child_changed) || look;
        match (&mut self.child, &self.options.target) {
            (Some(child), _) => look && child.poll_status().is_some(),
            (None, Target::Process(pid)) => look && procs::start_time(*pid).is_none(),
            (None, _) => false,
        }
    }

    /// Passes signals on to the program, which decides whether to end. The second request ends the recording; signals
    /// within a second are one request. Without a program the first request ends the recording.
    fn on_signal(&mut self, signal: Arrived, notify: Notify<'_>) -> Step {
        if signal.signal == libc::SIGUSR2 {
            if let Some(flight) = &mut self.flight {
                flight.save(&mut self.live, notify);
            }
            return Step::GoOn;
        }
        if !ENDING.contains(&signal.signal) {
            self.child_changed = true;
            return Step::GoOn;
        }
        let Some(child) = &self.child else {
            return Step::End;
        };
        if !signal.from_terminal {
            child.signal(signal.signal);
        }
        if signal.is_repeated {
            return Step::GoOn;
        }
        self.ending_signals += 1;
        if self.ending_signals > 1 {
            notify(Notice::Note("recording stopped; the program continues".to_owned()));
            return Step::End;
        }
        Step::GoOn
    }

    fn on_tick(&mut self, notify: Notify<'_>) {
        self.watch_probes(notify);
        if let Some(flight) = &mut self.flight {
            return flight.tick(&mut self.live, notify);
        }
        if self.live.summary.failure.is_some() {
            return;
        }
        if let Err(error) = self.drain() {
            self.stop_writing(error, notify);
        }
    }

    /// Switches off the USDT probes that are hit too often.
    fn watch_probes(&mut self, notify: Notify<'_>) {
        let (Some(watch), Source::Tracefs(source)) = (&mut self.usdt, &mut self.live.source) else {
            return;
        };
        let said = match source.watch(watch) {
            Ok(said) => said,
            Err(error) => {
                self.usdt = None;
                vec![format!("USDT: the probes' rates are not limited: {error}")]
            }
        };
        if said.is_empty() {
            return;
        }
        for text in said {
            notify(Notice::Warning(text.clone()));
            self.live.meta.missing.push(text);
        }
        // Now, for a recorder that is killed later. A disk that is full shows itself elsewhere.
        let _ = self.dir.write_meta(&self.live.meta);
    }

    /// Moves to the files what kernel and programs have written, and sets the time until the next tick.
    fn drain(&mut self) -> Result<()> {
        if let Some(failure) = self.stream.as_ref().and_then(Stream::failure) {
            return Err(failure);
        }
        if self.is_held_up() {
            return Ok(());
        }
        let live = &mut self.live;
        let moved = live.source.drain()?;
        if let Some(budget) = &mut self.budget {
            budget.tick(&mut live.source)?;
        }
        let collected = live.collector.tick(Some(&live.session))?;
        if let Some(stacks) = &mut live.stacks {
            stacks.drain();
        }
        self.write_stacks()?;
        let live = &mut self.live;
        self.dir.add_limits(&live.read_limits(false))?;
        self.dir.add_procs(&live.collector.take_names())?;
        self.leave_disk_to_others()?;
        // The buffers hold at least ten times the events of this tick; if not, the ticks come more often.
        let freed = collected.freed * u64::from(CHUNK_BYTES);
        let busy = moved.fill > 0.1 || freed > 4 << 20;
        let calm = moved.fill < 0.02 && freed < 1 << 20;
        if busy {
            self.tick = (self.tick / 2).max(TICK_MIN);
        } else if calm {
            self.tick = (self.tick * 2).min(self.tick_max);
        }
        if let Some(stream) = &self.stream
            && self.stream_told.elapsed() > TELL_STREAM
        {
            stream.written(self.live.written());
            self.stream_told = Instant::now();
        }
        Ok(())
    }

    /// Whether the other side of a stream is behind: events then wait in the kernel's buffers and in the rings, and those that find
    /// no room are counted there.
    fn is_held_up(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_full)
    }

    /// Writes the samples that were taken since the last time.
    fn write_stacks(&mut self) -> Result<()> {
        let live = &mut self.live;
        let Some(stacks) = &mut live.stacks else {
            live.meta.missing.extend(live.collector.readers().take_said());
            return Ok(());
        };
        let (log, rows) = (stacks.take_log(), stacks.take_rows());
        live.meta.missing.extend(stacks.take_silent());
        live.stack_bytes += log.len() as u64;
        self.dir.add_call_paths(&log)?;
        self.dir.add_sampling(&rows)
    }

    /// Stops the recording before the disk is full, because the machine may do other work.
    fn leave_disk_to_others(&mut self) -> Result<()> {
        let recorded = self.live.bytes();
        if recorded < self.room_looked_at + LOOK_AT_ROOM {
            return Ok(());
        }
        self.room_looked_at = recorded;
        // A stream does not fill its disk with what it has sent.
        let kept = self.stream.as_ref().map_or(recorded, Stream::waiting);
        let least = self.options.least_free(kept);
        match self.dir.free_bytes() {
            Some(free) if free < least => {
                Err(Error::DiskNearlyFull { path: self.dir.path().to_owned(), free, least })
            }
            _ => Ok(()),
        }
    }

    fn on_second(&mut self, notify: Notify<'_>) {
        if self.live.summary.failure.is_some() && self.flight.is_none() {
            return;
        }
        if self.live.session.refused() > 0 {
            // Programs without room try again when chunks were freed: another program may have made room.
            self.live.session.add_freed();
            self.say_refused(notify);
        }
        if let Err(error) = self.second() {
            self.stop_writing(error, notify);
        }
    }

    /// The message for programs that found no room for their annotations.
    fn refusal(&self) -> String {
        let place = self.live.session.path().parent().unwrap_or(self.live.session.path());
        let refused = self.live.session.refused();
        let all = self.live.session.hindrances();
        let met = hindrance::words(&all, None);
        let met = met.map_or_else(String::new, |met| format!(" ({met})"));
        // Where limits of the programs alone are in the way, a larger place is no help.
        if !all.is_empty() && !all.iter().any(Hindrance::is_of_space) {
            return format!(
                "{refused} annotated programs found no room for annotations{met}: some or all of them are missing"
            );
        }
        format!(
            "{refused} annotated programs had no memory for annotations in {}, or could not reach it (children after chroot, or as another user){met}: some or all of them are missing. Each program needs at least 40 kB and up to --ring-mb: `mount -o remount,size=1G {}`, `docker run --shm-size=1g`, or another place in KASURI_SHM_DIR",
            place.display(),
            place.display()
        )
    }

    fn say_refused(&mut self, notify: Notify<'_>) {
        if !std::mem::replace(&mut self.refused_said, true) {
            notify(Notice::Warning(self.refusal()));
        }
    }

    fn name_refused(&mut self, notify: Notify<'_>) {
        let refused = self.live.session.refused();
        if refused > 0 {
            self.say_refused(notify);
            self.live.meta.missing.push(self.refusal());
            let why = format!("{refused} annotated programs found no room");
            self.live.meta.uncounted.push(why);
        }
        let foreign = match self.live.session.foreign() {
            _ if !session::READS_RINGS => {
                "annotations: they are recorded on little-endian machines alone".into()
            }
            0 => return,
            n => format!(
                "annotations of programs and libraries that could not take part ({n}): they run in an emulator of another byte \
                 order, or on a CPU without the clock that stamps are of here"
            ),
        };
        notify(Notice::Warning(format!("not recorded: {foreign}")));
        self.live
            .meta
            .uncounted
            .push("annotations of programs that could not take part".to_owned());
        self.live.meta.missing.push(foreign);
    }

    fn second(&mut self) -> Result<()> {
        if let Some(flight) = &mut self.flight {
            // Nothing goes to the directory, because a flight recorder may run for months.
            flight.second(&mut self.live);
            return Ok(());
        }
        self.dir.add_anchors(&[clock::anchor()])?;
        if let Some(budget) = &self.budget
            && budget.changes.len() != self.live.meta.budget.len()
        {
            // Written each second, so that a kill loses the pauses of the last second at most.
            self.live.meta.budget = budget.changes.clone();
            self.dir.write_meta(&self.live.meta)?;
        }
        let losses = self.live.source.losses(false);
        self.dir.add_losses(&losses)?;
        if self.is_held_up() {
            return Ok(());
        }
        self.live.source.drain_waiting()?;
        let news = self.threads.news(self.live.pids());
        self.dir.add_procs(&news)?;
        self.live.collector.reap(Some(&self.live.session)).map(|_| ())
    }

    /// Handles a full or broken disk: programs and kernel stop writing, written events stay, the program continues.
    fn stop_writing(&mut self, error: Error, notify: Notify<'_>) {
        self.live.source.stop();
        self.live.session.set_state(SessionState::Stopped);
        let kept = match error {
            Error::Unsent { .. } => {
                let unknown = &mut self.live.summary.losses.unknown;
                unknown.push("what came after recording stopped".to_owned());
                String::new()
            }
            _ => format!(", the first {:.1} MB are kept", self.live.bytes() as f64 / 1e6),
        };
        notify(Notice::Warning(format!("{error}; recording stopped{kept}, the program continues")));
        self.live.summary.failure = Some(error);
    }
}

/// CPU time of all children that ended, and of their children, ns.
pub fn children_cpu_ns() -> u64 {
    // SAFETY: the kernel fills a struct of plain numbers, which may be all 0 before.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
