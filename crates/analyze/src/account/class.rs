//! The classes that capacity is split into, and the description of one loss.
use kasuri_model::{FrameIx, ProcessIx, StrIx, ThreadIx};
use schemars::JsonSchema;
use serde::Serialize;

/// A class of CPU time. docs/design/account.md defines each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Class {
    /// Own code outside everything below.
    #[default]
    Work = 0,
    /// In system calls; 0 unless they were recorded.
    SystemCalls = 1,
    /// In a task runtime: scheduling, stealing, looking for work.
    TaskRuntime = 2,
    /// Writing the recording's events: their number times a unit cost.
    Tracing = 3,
    /// A lock, spinning or blocked.
    LockWait = 4,
    /// A barrier, or several threads that are to be joined.
    LoadImbalance = 5,
    /// Another thread of the program: a condition, a queue, or something without an annotation.
    WaitingForOwnThreads = 6,
    /// Input and output.
    IoWait = 7,
    /// A timer, the network, another program.
    ExternalWait = 8,
    /// Serial phases; fewer threads than CPUs; before the program began and after it ended.
    LowParallelism = 9,
    /// A thread that others wait for had no CPU because threads of the program had them.
    Oversubscription = 10,
    /// Other programs ran while the program could have.
    Interference = 11,
    /// A thread was ready and a CPU idle: being woken, or kept to another CPU.
    SchedulingDelay = 12,
    /// Interrupts while the program ran; 0 unless they were recorded.
    Interrupts = 13,
    /// Not known: events were lost, or not recorded.
    Unknown = 14,
    /// Known, and none of the above.
    Other = 15,
    /// A thread was ready and the CPU limit of its cgroup kept it off.
    ThrottledByCpuLimit = 16,
    /// On a CPU, in a loop that only waits for another thread: as samples of its call path tell.
    Spinning = 17,
}

/// Number of classes.
pub const N_CLASSES: usize = 18;

/// Nanoseconds by class.
pub type Sums = [i64; N_CLASSES];

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Class; N_CLASSES] = [
        Class::Work,
        Class::SystemCalls,
        Class::TaskRuntime,
        Class::Tracing,
        Class::LockWait,
        Class::LoadImbalance,
        Class::WaitingForOwnThreads,
        Class::IoWait,
        Class::ExternalWait,
        Class::LowParallelism,
        Class::Oversubscription,
        Class::Interference,
        Class::SchedulingDelay,
        Class::Interrupts,
        Class::Unknown,
        Class::Other,
        Class::ThrottledByCpuLimit,
        Class::Spinning,
    ];

    /// Its name in JSON and SQL: the label in lower case, with underscores.
    pub const fn key(self) -> &'static str {
        match self {
            Class::Work => "work",
            Class::SystemCalls => "system_calls",
            Class::TaskRuntime => "task_runtime",
            Class::Tracing => "tracing",
            Class::LockWait => "lock_wait",
            Class::LoadImbalance => "load_imbalance",
            Class::WaitingForOwnThreads => "waiting_for_own_threads",
            Class::IoWait => "io_wait",
            Class::ExternalWait => "external_wait",
            Class::LowParallelism => "low_parallelism",
            Class::Oversubscription => "oversubscription",
            Class::Interference => "interference",
            Class::SchedulingDelay => "scheduling_delay",
            Class::Interrupts => "interrupts",
            Class::Unknown => "unknown",
            Class::Other => "other",
            Class::ThrottledByCpuLimit => "throttled_by_cpu_limit",
            Class::Spinning => "spinning",
        }
    }

    /// Its name for people. docs/glossary.md defines each.
    pub const fn label(self) -> &'static str {
        match self {
            Class::Work => "work",
            Class::SystemCalls => "system calls",
            Class::TaskRuntime => "task runtime",
            Class::Tracing => "tracing",
            Class::LockWait => "lock wait",
            Class::LoadImbalance => "load imbalance",
            Class::WaitingForOwnThreads => "waiting for own threads",
            Class::IoWait => "I/O wait",
            Class::ExternalWait => "external wait",
            Class::LowParallelism => "low parallelism",
            Class::Oversubscription => "oversubscription",
            Class::Interference => "interference",
            Class::SchedulingDelay => "scheduling delay",
            Class::Interrupts => "interrupts",
            Class::Unknown => "unknown",
            Class::Other => "other",
            Class::ThrottledByCpuLimit => "throttled by CPU limit",
            Class::Spinning => "spinning",
        }
    }

    /// Its meaning, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Class::Work => "the program's own code",
            Class::SystemCalls => "the kernel on its behalf",
            Class::TaskRuntime => "scheduling tasks",
            Class::Tracing => "writing this recording",
            Class::LockWait => "blocked or spinning",
            Class::LoadImbalance => "waiting for the slowest thread",
            Class::WaitingForOwnThreads => "a condition, a queue",
            Class::IoWait => "blocked on input or output",
            Class::ExternalWait => "a timer, the network, a program",
            Class::LowParallelism => "fewer threads to run than CPUs",
            Class::Oversubscription => "own threads had its CPU",
            Class::Interference => "other programs had the CPU",
            Class::SchedulingDelay => "a ready thread did not run here",
            Class::Interrupts => "handlers had the CPU",
            Class::Unknown => "events lost or not recorded",
            Class::Other => "none of the above",
            Class::ThrottledByCpuLimit => "its cgroup used up its share",
            Class::Spinning => "waiting for a thread, on a CPU",
        }
    }

    /// Whether it is what the program is for; the rest is lost.
    pub const fn is_useful(self) -> bool {
        matches!(self, Class::Work | Class::SystemCalls)
    }
}

/// More about a loss than its class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Note {
    /// Nothing.
    #[default]
    None = 0,
    /// One thread ran alone; `Spinning`: all others that ran were spinning.
    SerialPhase = 1,
    /// Several ran; there were fewer threads than CPUs.
    FewThreads = 2,
    /// No thread of the program was alive yet.
    NotStarted = 3,
    /// None was alive any more.
    Ended = 4,
    /// Woken, on its way to this CPU.
    WakeUp = 5,
    /// Ready behind another thread of the program while this CPU was idle: the kernel's choice, or the thread may not
    /// run here.
    Placement = 6,
    /// An interrupt ended the wait: a timer (also a time limit on waiting for another thread), a device, the network.
    Interrupt = 7,
    /// Another process ended the wait: `process`.
    Process = 8,
    /// The wait did not end in this recording.
    Endless = 9,
    /// The thread was stopped (SIGSTOP, a debugger).
    Stopped = 10,
    /// Events of this CPU are missing here, or were not recorded.
    Lost = 11,
    /// The last thread at a barrier had been kept from its CPU.
    LateThread = 12,
    /// The task runtime had nothing to run.
    IdleWorker = 13,
    /// A lock that only the waiting thread's call path tells: `name` is the function that asks for it.
    BySamples = 14,
    /// A time that the program chose, as the waiting thread's call path tells: `name` is the function that sleeps.
    Chosen = 15,
    /// In uninterruptible sleep (D), and what ended that was not recorded: a device, or another thread.
    Uninterruptible = 16,
    /// It slept for short times and looked again each time, while several threads ran: `name` is the function that sleeps.
    Polled = 17,
    /// A time limit on waiting for another thread ended the wait, as samples tell: `code` is the wait, and the function that set the limit.
    TimeLimit = 18,
    /// No thread of the program had a CPU, and there were fewer of them than CPUs: what they waited for is a cause of its own.
    NoneRan = 19,
    /// No CPU of the machine ran anything: a pause of a virtual machine.
    StoodStill = 20,
}

impl Note {
    /// Each.
    pub const ALL: [Note; 21] = [
        Note::None,
        Note::SerialPhase,
        Note::FewThreads,
        Note::NotStarted,
        Note::Ended,
        Note::WakeUp,
        Note::Placement,
        Note::Interrupt,
        Note::Process,
        Note::Endless,
        Note::Stopped,
        Note::Lost,
        Note::LateThread,
        Note::IdleWorker,
        Note::BySamples,
        Note::Chosen,
        Note::Uninterruptible,
        Note::Polled,
        Note::TimeLimit,
        Note::NoneRan,
        Note::StoodStill,
    ];

    /// Its name in JSON; "" for none.
    pub const fn key(self) -> &'static str {
        match self {
            Note::None => "",
            Note::SerialPhase => "serial_phase",
            Note::FewThreads => "few_threads",
            Note::NotStarted => "not_started",
            Note::Ended => "ended",
            Note::WakeUp => "wake_up",
            Note::Placement => "placement",
            Note::Interrupt => "interrupt",
            Note::Process => "process",
            Note::Endless => "endless",
            Note::Stopped => "stopped",
            Note::Lost => "lost",
            Note::LateThread => "late_thread",
            Note::IdleWorker => "idle_worker",
            Note::BySamples => "by_samples",
            Note::Chosen => "chosen",
            Note::Uninterruptible => "uninterruptible",
            Note::Polled => "polled",
            Note::TimeLimit => "time_limit",
            Note::NoneRan => "none_ran",
            Note::StoodStill => "stood_still",
        }
    }
}

/// One cause of lost time: what it was, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cause {
    /// Its class.
    pub class: Class,
    /// More about it.
    pub note: Note,
    /// Whether the CPU was busy with it (spinning, system call); false: it was idle, or others used it.
    pub on_cpu: bool,
    /// The lock, barrier, wait, interrupt handler or system call. `Spinning`: the function that was called to wait. A lock or a
    /// sleep told by samples: the function that asks for it.
    pub name: StrIx,
    /// Waits and locks: the object (address). Else 0.
    pub object: u64,
    /// The process that interfered, or ended the wait.
    pub process: ProcessIx,
    /// The place in a phase that several threads run at once, where the last of them still was: as samples tell. Then `code` has no name
    /// but that of an annotation.
    pub phase: FrameIx,
    /// The thread that was waited for: the last one at a barrier, or the one that ran alone.
    pub thread: ThreadIx,
    /// The code that this thread ran meanwhile: the innermost annotation that lasts. `Spinning` with no such thread: the function that
    /// spins, or called `name`. `TaskRuntime`, by samples: the library. A lock told by samples that is a file's: `file` and its path.
    pub code: StrIx,
}

/// Time of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ClassSum {
    /// Its key.
    #[schemars(extend("enum" = Class::ALL.map(Class::key)))]
    pub class: &'static str,
    /// Its time.
    pub ns: i64,
    /// The same as CPUs: `ns / wall_ns`.
    pub cpus: f64,
}

/// The classes that have time, in the order of the table.
pub(super) fn class_sums(sums: &Sums, wall_ns: i64) -> Vec<ClassSum> {
    Class::ALL
        .iter()
        .map(|&class| ClassSum {
            class: class.key(),
            ns: sums[class as usize],
            cpus: sums[class as usize] as f64 / wall_ns.max(1) as f64,
        })
        .filter(|row| row.ns != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Class;

    /// One word per idea: JSON and SQL say what people read.
    #[test]
    fn keys_are_the_words_of_the_labels() {
        for class in Class::ALL {
            let words = class.label().to_lowercase().replace('/', "");
            assert_eq!(class.key(), words.replace(' ', "_"));
        }
    }
}
