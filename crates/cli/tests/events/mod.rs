//! The text of sched_switch as `perf script` and `trace-cmd report -R` print it, counted for each thread.
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The events that are read.
const NAMES: [&str; 3] = ["sched_switch:", "sched_waking:", "sched_wakeup_new:"];

/// What a referee saw of each thread.
#[derive(Debug, Default)]
pub struct Sched {
    /// tid -> (times it left a CPU, time on a CPU in ns)
    threads: HashMap<i32, (u64, i64)>,
    /// Events of a thread on a CPU to which it was never switched.
    hidden: u64,
}

/// One line: who ran on which CPU and when, and what happened.
struct Event {
    cpu: u32,
    time_ns: i64,
    /// Who ran on the CPU, up to this event.
    context: i32,
    what: What,
}

enum What {
    Switch { prev: i32, next: i32, can_run: bool },
    Waking { tid: i32 },
}

/// What is known of a CPU: who runs there since when, and the time of its last event.
#[derive(Clone, Copy)]
struct Cpu {
    tid: i32,
    since_ns: i64,
    last_ns: i64,
}

impl Sched {
    /// Counts the events whose time is in `window`. Time on a CPU is from a switch to the thread to the next from it
    /// on that CPU. Some kernels hide switches: then an event finds a thread on the CPU that was not switched
    /// in. If it was ready, it has run since it was woken or preempted, but not since before that CPU's last event.
    pub fn parse(text: &str, window: Range<i64>) -> Sched {
        let mut sched = Sched::default();
        let mut cpus: HashMap<u32, Cpu> = HashMap::new();
        let mut ready: HashMap<i32, i64> = HashMap::new();
        // Woken while still on a CPU: such a thread does not sleep when it leaves.
        let mut early: HashSet<i32> = HashSet::new();
        let lines = text.lines().filter(|line| NAMES.iter().any(|name| line.contains(name)));
        for line in lines {
            let event = event(line).unwrap_or_else(|| panic!("not understood: {line}"));
            if !window.contains(&event.time_ns) {
                continue;
            }
            if let Some(cpu) = cpus.get_mut(&event.cpu) {
                if cpu.tid != event.context {
                    let since = ready.remove(&event.context).filter(|_| event.context != 0);
                    cpu.since_ns = since.map_or(event.time_ns, |since| since.max(cpu.last_ns));
                    cpu.tid = event.context;
                    sched.hidden += 1;
                }
                cpu.last_ns = event.time_ns;
            }
            match event.what {
                What::Waking { tid } if cpus.values().any(|cpu| cpu.tid == tid) => {
                    early.insert(tid);
                }
                What::Waking { tid } => {
                    ready.entry(tid).or_insert(event.time_ns);
                }
                What::Switch { prev, next, can_run } => {
                    let left = sched.threads.entry(prev).or_default();
                    left.0 += 1;
                    let time = event.time_ns;
                    let now = Cpu { tid: next, since_ns: time, last_ns: time };
                    if let Some(before) = cpus.insert(event.cpu, now) {
                        left.1 += time - before.since_ns;
                    }
                    ready.remove(&next);
                    if early.remove(&prev) || can_run {
                        ready.insert(prev, time);
                    }
                }
            }
        }
        sched
    }

    /// Whether every event found on its CPU who was switched in last.
    pub fn is_whole(&self) -> bool {
        self.hidden == 0
    }

    /// Times the thread left a CPU, and its time on one in ns.
    pub fn thread(&self, tid: i32) -> (u64, i64) {
        self.threads.get(&tid).copied().unwrap_or_default()
    }
}

/// `COMM TID [CPU] SECONDS.NANOSECONDS: sched:sched_switch: ... prev_pid=N ... prev_state=S ==> ... next_pid=N ...`, or
/// `sched_waking: ... pid=N ...`; trace-cmd joins COMM-TID. The names may hold anything, so numbers are looked for from
/// their keys, and what is before them from the time backwards.
fn event(line: &str) -> Option<Event> {
    let name = NAMES.iter().find(|name| line.contains(**name))?;
    let (head, rest) = line.split_once(name)?;
    let head = head.trim_end().trim_end_matches("sched:").trim_end().trim_end_matches(':');
    let (head, time) = head.rsplit_once(' ')?;
    let (seconds, fraction) = time.trim().split_once('.')?;
    let time_ns = seconds.parse::<i64>().ok()? * 1_000_000_000
        + format!("{fraction:0<9}").parse::<i64>().ok()?;
    let (who, cpu) = head.rsplit_once('[')?;
    let context = who.trim_end().rsplit([' ', '-']).next()?.parse().ok()?;
    let what = if *name == NAMES[0] {
        let state = rest.rsplit_once("prev_state=")?.1.split_once(' ')?.0;
        What::Switch {
            prev: number(rest, "prev_pid=")?,
            next: number(rest, "next_pid=")?,
            can_run: state.starts_with('R') || state == "0x0" || state == "0x100",
        }
    } else {
        What::Waking { tid: number(rest, " pid=")? }
    };
    Some(Event { cpu: cpu.split_once(']')?.0.parse().ok()?, time_ns, context, what })
}

fn number(text: &str, key: &str) -> Option<i32> {
    let after = text.rsplit_once(key)?.1;
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
    after[..end].parse().ok()
}

#[test]
fn events_of_both_tools_are_understood() {
    let text = "\
          a b:c    18 [000]  3215.000000100: sched:sched_switch: prev_comm=x prev_pid=1 prev_prio=0 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
              a     7 [000]  3215.000000350: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=0 prev_state=S ==> next_comm=b next_pid=0 next_prio=120
          <...>-7     [001]  3215.000000400: sched_switch:         prev_comm=a prev_pid=7 prev_prio=120 prev_state=0x1 next_comm=s next_pid=0 next_prio=120
              a     7 [000]  3216.000000000: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=0 prev_state=S ==> next_comm=b next_pid=0 next_prio=120
";
    let sched = Sched::parse(text, 3_215_000_000_000..3_215_999_999_999);
    assert_eq!(sched.thread(7), (2, 250));
    assert_eq!(sched.thread(1), (1, 0));
    assert!(sched.is_whole());
}

#[test]
fn a_hidden_switch_is_made_good_from_the_wake_up() {
    let text = "\
        b     8 [001]  1.000000100: sched:sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        a     7 [000]  1.000000400: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
        b     8 [001]  1.000000900: sched:sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    let sched = Sched::parse(text, 0..2_000_000_000);
    assert_eq!((sched.thread(8), sched.hidden), ((2, 500), 1));
}
