//! Scheduler events as they were recorded, kept beside the columns for exports that write them again.
//!
//! Goal: an export that is read back answers as its recording does. The columns say what the passes made of the events; they do
//! not say which events there were. A state that begins may be a switch, or be inferred because a kernel hid one; a switch that
//! lasted no time has no row. Three rebuilders of events from columns each guessed otherwise, and none could be right. So the
//! events themselves are kept, and every export writes the same ones.
//!
//! Definitions. A *kept event* is one that moves threads (switch, wake-up, migration, birth, exec, end, run time, a loss), or a *sight*: an
//! event of another kind (system call, interrupt, probe) of which only the CPU, the time and who ran are kept.
//!
//! Method. Of events that move nothing a sight is kept where the passes learned from it who was on the CPU: it is the CPU's first,
//! it contradicts what was thought, or it is the last before such a one or before a loss, whose stamp bounds what is inferred
//! (docs/design/states.md, "Hidden switches"). All others agree with the events around them and change nothing. A
//! flight recording's CPUs begin with a sight without a thread, since nothing is known of the time before their first event.
//!
//! Rejected: marks in the columns for rows that were inferred (events without a row would still be missing), and reading the
//! recording's events a second time (imports, merges and cut recordings have no second reader).
//!
//! Order: that of the passes, except that a sight may stand late: events of one CPU are in order, those of several are not.
//! Memory: 24 bytes an event; kept only when [`crate::input::Setup::keeps_events`] says so.
use crate::input::{Event, What};
use crate::table::{NONE, Table};
use crate::{ThreadIx, ThreadState, Time};

/// The occupant of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnCpu {
    /// The idle thread.
    Idle,
    /// Not told: perf's records name only one side of a switch.
    Unknown,
    /// A thread.
    Thread(ThreadIx),
}

impl OnCpu {
    /// The thread; none when idle or unknown.
    pub fn thread(self) -> ThreadIx {
        match self {
            OnCpu::Thread(thread) => thread,
            OnCpu::Idle | OnCpu::Unknown => ThreadIx::NONE,
        }
    }
}

/// One kept event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedEvent {
    /// The CPU that recorded it.
    pub cpu: u16,
    /// When.
    pub time: Time,
    /// Thread id that ran there then; 0: the idle thread; negative: not known.
    pub context: i32,
    /// Raised in a hardware interrupt: `context` did not cause it.
    pub in_interrupt: bool,
    /// Its content.
    pub what: SchedWhat,
}

/// The content of a kept event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedWhat {
    /// sched_switch.
    Switch {
        /// The side that left.
        prev: OnCpu,
        /// Its state from now on.
        left_as: ThreadState,
        /// The side that came.
        next: OnCpu,
    },
    /// sched_waking, sched_wakeup_new.
    Waking {
        /// The thread that was woken.
        wakee: ThreadIx,
        /// CPU whose queue it was last in; negative: not known.
        target_cpu: i32,
        /// It is the first since its birth.
        is_new: bool,
        /// Raised in a softirq, on top of the thread that ran.
        in_softirq: bool,
    },
    /// sched_migrate_task.
    Migrate {
        /// The thread that was moved.
        thread: ThreadIx,
        /// From this CPU...
        from: u16,
        /// ...to this.
        to: u16,
    },
    /// task_newtask, sched_process_fork; the second event about one birth is a sight.
    Fork {
        /// Its maker.
        parent: ThreadIx,
        /// The new one.
        child: ThreadIx,
    },
    /// sched_process_exec.
    Exec {
        /// The thread that goes on.
        thread: ThreadIx,
        /// Its id before.
        old_tid: i32,
    },
    /// sched_process_exit.
    Exit {
        /// The thread.
        thread: ThreadIx,
    },
    /// task_rename.
    Rename {
        /// The thread.
        thread: ThreadIx,
    },
    /// sched_stat_runtime.
    RunTime {
        /// The thread that ran.
        thread: ThreadIx,
        /// For how long, ns.
        ns: u32,
    },
    /// A sight: an event of another kind, at which `context` was on the CPU.
    Sight,
    /// From here on, until this CPU's next event, events are missing.
    Lost,
}

/// Kept events.
#[derive(Clone, Debug, Default)]
pub struct SchedLog {
    rows: Vec<Packed>,
    /// Migrations were recorded as events; else there are none here.
    pub has_migrations: bool,
}

/// A [`SchedEvent`] in 24 bytes: `a` and `b` are threads, CPUs or ids as `kind` has it.
#[derive(Clone, Copy, Debug)]
struct Packed {
    time: Time,
    context: i32,
    a: u32,
    b: u32,
    cpu: u16,
    kind: Kind,
    /// [`ThreadState`] of a switch; [`IS_NEW`], [`IN_SOFTIRQ`] of a wake-up; above, [`IN_INTERRUPT`].
    extra: u8,
}

const IN_INTERRUPT: u8 = 0x80;
const IS_NEW: u8 = 1;
const IN_SOFTIRQ: u8 = 2;
const IDLE: u32 = u32::MAX - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Switch,
    Waking,
    Migrate,
    Fork,
    Exec,
    Exit,
    Rename,
    RunTime,
    Sight,
    Lost,
}

fn pack_on_cpu(who: OnCpu) -> u32 {
    match who {
        OnCpu::Thread(thread) => thread.0,
        OnCpu::Idle => IDLE,
        OnCpu::Unknown => u32::MAX,
    }
}

fn unpack_on_cpu(number: u32) -> OnCpu {
    match number {
        IDLE => OnCpu::Idle,
        u32::MAX => OnCpu::Unknown,
        thread => OnCpu::Thread(ThreadIx(thread)),
    }
}

impl Packed {
    fn new(event: &SchedEvent) -> Packed {
        let none = u32::MAX;
        let (kind, a, b, extra) = match event.what {
            SchedWhat::Switch { prev, left_as, next } => {
                (Kind::Switch, pack_on_cpu(prev), pack_on_cpu(next), left_as as u8)
            }
            SchedWhat::Waking { wakee, target_cpu, is_new, in_softirq } => (
                Kind::Waking,
                wakee.0,
                target_cpu as u32,
                if is_new { IS_NEW } else { 0 } | if in_softirq { IN_SOFTIRQ } else { 0 },
            ),
            SchedWhat::Migrate { thread, from, to } => {
                (Kind::Migrate, thread.0, u32::from(from) << 16 | u32::from(to), 0)
            }
            SchedWhat::Fork { parent, child } => (Kind::Fork, parent.0, child.0, 0),
            SchedWhat::Exec { thread, old_tid } => (Kind::Exec, thread.0, old_tid as u32, 0),
            SchedWhat::Exit { thread } => (Kind::Exit, thread.0, none, 0),
            SchedWhat::Rename { thread } => (Kind::Rename, thread.0, none, 0),
            SchedWhat::RunTime { thread, ns } => (Kind::RunTime, thread.0, ns, 0),
            SchedWhat::Sight => (Kind::Sight, none, none, 0),
            SchedWhat::Lost => (Kind::Lost, none, none, 0),
        };
        let flag = if event.in_interrupt { IN_INTERRUPT } else { 0 };
        Packed {
            time: event.time,
            context: event.context,
            a,
            b,
            cpu: event.cpu,
            kind,
            extra: extra | flag,
        }
    }

    fn event(&self) -> SchedEvent {
        let extra = self.extra & !IN_INTERRUPT;
        let thread = ThreadIx(self.a);
        let what = match self.kind {
            Kind::Switch => SchedWhat::Switch {
                prev: unpack_on_cpu(self.a),
                left_as: ThreadState::from_number(extra),
                next: unpack_on_cpu(self.b),
            },
            Kind::Waking => SchedWhat::Waking {
                wakee: thread,
                target_cpu: self.b as i32,
                is_new: extra & IS_NEW != 0,
                in_softirq: extra & IN_SOFTIRQ != 0,
            },
            Kind::Migrate => {
                SchedWhat::Migrate { thread, from: (self.b >> 16) as u16, to: self.b as u16 }
            }
            Kind::Fork => SchedWhat::Fork { parent: thread, child: ThreadIx(self.b) },
            Kind::Exec => SchedWhat::Exec { thread, old_tid: self.b as i32 },
            Kind::Exit => SchedWhat::Exit { thread },
            Kind::Rename => SchedWhat::Rename { thread },
            Kind::RunTime => SchedWhat::RunTime { thread, ns: self.b },
            Kind::Sight => SchedWhat::Sight,
            Kind::Lost => SchedWhat::Lost,
        };
        SchedEvent {
            cpu: self.cpu,
            time: self.time,
            context: self.context,
            in_interrupt: self.extra & IN_INTERRUPT != 0,
            what,
        }
    }
}

impl SchedLog {
    /// Appends an event.
    pub fn push(&mut self, event: &SchedEvent) {
        self.rows.push(Packed::new(event));
    }

    /// All, in order for each CPU.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SchedEvent> + '_ {
        self.rows.iter().map(Packed::event)
    }

    /// The event at this place.
    pub fn get(&self, ix: usize) -> Option<SchedEvent> {
        self.rows.get(ix).map(Packed::event)
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Gives each thread its final row.
    pub(crate) fn renumber(&mut self, new: impl Fn(u32) -> ThreadIx) {
        let new = |old: &mut u32| {
            if *old < IDLE {
                *old = new(*old).0;
            }
        };
        for row in &mut self.rows {
            match row.kind {
                Kind::Switch | Kind::Fork => {
                    new(&mut row.a);
                    new(&mut row.b);
                }
                Kind::Sight | Kind::Lost => {}
                _ => new(&mut row.a),
            }
        }
    }
}

/// The log while the passes run: holds each CPU's last sight until it is known to matter.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub log: SchedLog,
    held: Vec<Option<SchedEvent>>,
    /// CPUs that have an event in the log.
    begun: Vec<bool>,
}

impl Keeper {
    pub fn new(n_cpus: usize, has_migrations: bool) -> Keeper {
        Keeper {
            log: SchedLog { rows: Vec::new(), has_migrations },
            held: vec![None; n_cpus],
            begun: vec![false; n_cpus],
        }
    }

    /// Nothing is known of the CPU before its first event.
    pub fn begins_late(&mut self, cpu: u16, start: Time) {
        self.begun[usize::from(cpu)] = true;
        self.log.push(&occupant_unknown(cpu, start));
    }

    /// `is_sight`: it is of a kind that moves nothing. `is_news`: it told who was on the CPU, or of a thread.
    pub fn event(&mut self, event: &SchedEvent, is_sight: bool, is_news: bool) {
        let cpu = usize::from(event.cpu);
        let is_first = !self.begun[cpu];
        let is_lost = event.what == SchedWhat::Lost;
        if is_sight && !is_news && !is_first {
            self.held[cpu] = Some(*event);
            return;
        }
        if let Some(held) = self.held[cpu].take()
            && (is_news || is_lost)
        {
            self.log.push(&held);
        }
        if is_first && is_lost {
            // A gap begins with the event before it.
            self.log.push(&occupant_unknown(event.cpu, event.time));
        }
        self.begun[cpu] = true;
        self.log.push(event);
    }
}

/// An event from which it is not known who was on the CPU: only that the CPU was recorded.
fn occupant_unknown(cpu: u16, time: Time) -> SchedEvent {
    SchedEvent { cpu, time, context: -1, in_interrupt: false, what: SchedWhat::Sight }
}

/// Whether an event is of a kind that moves no thread.
pub(crate) fn is_sight(what: &What) -> bool {
    !matches!(
        what,
        What::Switch { .. }
            | What::In { .. }
            | What::Out { .. }
            | What::Waking { .. }
            | What::Migrate { .. }
            | What::Fork { .. }
            | What::Exec { .. }
            | What::Exit { .. }
            | What::Rename { .. }
            | What::RunTime { .. }
            | What::Lost
    )
}

/// An event as it is kept; threads are old rows. `is_fresh`: the thread that it is about was born and not woken before.
pub(crate) fn kept(
    table: &Table,
    cpu: u16,
    time: Time,
    event: &Event,
    is_fresh: bool,
) -> SchedEvent {
    let row = |tid: i32| Some(ThreadIx(table.find(tid))).filter(|row| row.0 != NONE);
    let on_cpu = |tid: i32| match tid {
        0 => OnCpu::Idle,
        tid => row(tid).map_or(OnCpu::Unknown, OnCpu::Thread),
    };
    let what = match event.what {
        What::Switch { prev, left_as, next, .. } => {
            Some(switch(on_cpu(prev), left_as, on_cpu(next)))
        }
        What::In { tid } => Some(switch(OnCpu::Unknown, ThreadState::Unknown, on_cpu(tid))),
        What::Out { tid, left_as } => Some(switch(on_cpu(tid), left_as, OnCpu::Unknown)),
        // perf tells of no last switch: the end stands for it.
        What::Exit { tid, at_once: true } => row(tid).map(|thread| {
            let prev = OnCpu::Thread(thread);
            switch(prev, ThreadState::Dead, OnCpu::Unknown)
        }),
        What::Exit { tid, .. } => row(tid).map(|thread| SchedWhat::Exit { thread }),
        What::Waking { tid, cpu, in_softirq, .. } => row(tid).map(|wakee| SchedWhat::Waking {
            wakee,
            target_cpu: cpu,
            is_new: is_fresh,
            in_softirq,
        }),
        What::Migrate { tid, from, to } => {
            row(tid).map(|thread| SchedWhat::Migrate { thread, from, to })
        }
        What::Fork { parent, child, .. } if !is_fresh => {
            let parent = if parent < 0 { event.context } else { parent };
            let parent = row(parent).unwrap_or(ThreadIx::NONE);
            row(child).map(|child| SchedWhat::Fork { parent, child })
        }
        // The second event about one birth tells of the maker only.
        What::Fork { parent, .. } => {
            let parent = if parent < 0 { event.context } else { parent };
            row(parent).map(|thread| SchedWhat::Rename { thread })
        }
        // Of a thread that nothing else tells of it is nothing, not a sight: whose exec it is, the passes do not ask.
        What::Exec { tid, old_tid } => Some(match row(tid) {
            Some(thread) => SchedWhat::Exec { thread, old_tid },
            None => SchedWhat::Exec { thread: ThreadIx::NONE, old_tid: -1 },
        }),
        What::Rename { tid, .. } => row(tid).map(|thread| SchedWhat::Rename { thread }),
        What::RunTime { tid, ns } => row(tid).map(|thread| SchedWhat::RunTime { thread, ns }),
        What::Lost => Some(SchedWhat::Lost),
        // These tell of a thread that no event told of before: as a rename to the name it has does.
        What::SyscallEntry { .. }
        | What::SyscallExit
        | What::LockCall { .. }
        | What::Probe { .. }
        | What::ProbeArg { .. } => row(event.context).map(|thread| SchedWhat::Rename { thread }),
        What::LockBegin { .. } | What::LockEnd if !event.in_interrupt => {
            row(event.context).map(|thread| SchedWhat::Rename { thread })
        }
        _ => None,
    };
    SchedEvent {
        cpu,
        time,
        context: event.context,
        in_interrupt: event.in_interrupt,
        what: what.unwrap_or(SchedWhat::Sight),
    }
}

fn switch(prev: OnCpu, left_as: ThreadState, next: OnCpu) -> SchedWhat {
    SchedWhat::Switch { prev, left_as, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_as_they_were_pushed() {
        let thread = ThreadIx(7);
        let all = [
            SchedWhat::Switch {
                prev: OnCpu::Thread(thread),
                left_as: ThreadState::Dead,
                next: OnCpu::Idle,
            },
            SchedWhat::Switch {
                prev: OnCpu::Unknown,
                left_as: ThreadState::RunnablePreempted,
                next: OnCpu::Thread(thread),
            },
            SchedWhat::Waking { wakee: thread, target_cpu: -1, is_new: true, in_softirq: false },
            SchedWhat::Waking { wakee: thread, target_cpu: 3, is_new: false, in_softirq: true },
            SchedWhat::Migrate { thread, from: u16::MAX, to: 3 },
            SchedWhat::Fork { parent: ThreadIx::NONE, child: thread },
            SchedWhat::Exec { thread, old_tid: 9 },
            SchedWhat::Exit { thread },
            SchedWhat::Rename { thread },
            SchedWhat::RunTime { thread, ns: u32::MAX },
            SchedWhat::Sight,
            SchedWhat::Lost,
        ];
        let mut log = SchedLog::default();
        let events = all.map(|what| SchedEvent {
            cpu: 3,
            time: Time(-5),
            context: -1,
            in_interrupt: true,
            what,
        });
        events.iter().for_each(|event| log.push(event));
        assert_eq!(log.iter().collect::<Vec<_>>(), events);
        assert_eq!(size_of::<Packed>(), 24);
    }

    #[test]
    fn sights_are_kept_only_where_they_matter() {
        let sight = |ns: i64| SchedEvent {
            cpu: 0,
            time: Time(ns),
            context: 5,
            in_interrupt: false,
            what: SchedWhat::Sight,
        };
        let mut keeper = Keeper::new(1, false);
        // The first; of those that agree none; the last before news, and the news; the last before a loss.
        for ns in [1, 2, 3] {
            keeper.event(&sight(ns), true, false);
        }
        keeper.event(&sight(4), true, true);
        keeper.event(&sight(5), true, false);
        keeper.event(&sight(6), true, false);
        let lost = SchedEvent { what: SchedWhat::Lost, ..sight(6) };
        keeper.event(&lost, false, false);
        let times: Vec<i64> = keeper.log.iter().map(|e| e.time.0).collect();
        assert_eq!(times, [1, 3, 4, 6, 6]);
    }
}
