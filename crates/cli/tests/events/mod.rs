//! The text of sched_switch as `perf script` and `trace-cmd report -R` print it, counted for each thread.
use std::collections::HashMap;
use std::ops::Range;

/// What a referee saw of each thread.
#[derive(Debug, Default)]
pub struct Sched {
    /// tid -> (times it left a CPU, time on a CPU in ns)
    threads: HashMap<i32, (u64, i64)>,
}

struct Switch {
    cpu: u32,
    time_ns: i64,
    prev: i32,
    next: i32,
}

impl Sched {
    /// Counts the events whose time is in `window`. Time on a CPU is from a switch to the thread to the next from it
    /// on that CPU; one without the other counts for nothing.
    pub fn parse(text: &str, window: Range<i64>) -> Sched {
        let mut sched = Sched::default();
        let mut running: HashMap<u32, (i32, i64)> = HashMap::new();
        for event in text.lines().filter(|l| l.contains("sched_switch")) {
            let event = switch(event).unwrap_or_else(|| panic!("not understood: {event}"));
            if !window.contains(&event.time_ns) {
                continue;
            }
            let left = sched.threads.entry(event.prev).or_default();
            left.0 += 1;
            if let Some((tid, since)) = running.insert(event.cpu, (event.next, event.time_ns))
                && tid == event.prev
            {
                left.1 += event.time_ns - since;
            }
        }
        sched
    }

    /// Times the thread left a CPU, and its time on one in ns.
    pub fn thread(&self, tid: i32) -> (u64, i64) {
        self.threads.get(&tid).copied().unwrap_or_default()
    }
}

/// `COMM TID [CPU] SECONDS.NANOSECONDS: sched:sched_switch: ... prev_pid=N ... next_pid=N ...`; the names may hold
/// anything, so numbers are looked for from their keys, and the CPU from the time backwards.
fn switch(line: &str) -> Option<Switch> {
    let (head, rest) = line.split_once("sched_switch:")?;
    let head = head
        .trim_end()
        .trim_end_matches("sched:")
        .trim_end()
        .trim_end_matches(':');
    let (head, time) = head.rsplit_once(' ')?;
    let (seconds, fraction) = time.trim().split_once('.')?;
    let time_ns = seconds.parse::<i64>().ok()? * 1_000_000_000
        + format!("{fraction:0<9}").parse::<i64>().ok()?;
    let cpu = head.rsplit_once('[')?.1.split_once(']')?.0.parse().ok()?;
    Some(Switch {
        cpu,
        time_ns,
        prev: number(rest, "prev_pid=")?,
        next: number(rest, "next_pid=")?,
    })
}

fn number(text: &str, key: &str) -> Option<i32> {
    let after = text.rsplit_once(key)?.1;
    let end = after
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(after.len());
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
}
