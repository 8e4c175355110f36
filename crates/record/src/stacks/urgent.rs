//! The recorder before all ordinary threads, while samples need it at once.
//!
//! A thread that wakes waits for its CPU until the next tick of the scheduler, often for two or three, where all CPUs are busy: by
//! then most functions of a program in Python have returned. A real-time thread does not wait. A program can make
//! work for the recorder, which other threads must not wait for: when it needed more than [`SHARE_MAX`] of a CPU, it is ordinary for a while.
use crate::clock;
use std::io;

/// Share of a CPU over [`JUDGE_NS`] above which the recorder is ordinary for [`REST_NS`].
const SHARE_MAX: f64 = 0.25;
const JUDGE_NS: u64 = 100_000_000;
const REST_NS: u64 = 1_000_000_000;

/// Whether this thread comes before others.
#[derive(Debug, Default)]
pub(crate) struct Urgent {
    is_on: bool,
    /// It may not, or was told by its user how it is to be scheduled.
    is_refused: bool,
    /// Since when its CPU time is judged, and that time then; until when it stays ordinary (CLOCK_MONOTONIC, ns).
    judged_ns: u64,
    used_ns: u64,
    rests_until_ns: u64,
}

impl Urgent {
    /// Changes it for the calling thread, which must be the same each time. Without the right to, nothing changes.
    pub(crate) fn set(&mut self, on: bool) {
        let on = on && !self.rests(clock::monotonic_ns(), clock::thread_cpu_ns());
        if on == self.is_on || self.is_refused {
            return;
        }
        let is_ordinary = self.is_on || policy().is_ok_and(|p| p == libc::SCHED_OTHER);
        let (policy, priority) = match on {
            true => (libc::SCHED_FIFO, 1),
            false => (libc::SCHED_OTHER, 0),
        };
        // Processes that it starts are ordinary.
        match is_ordinary && set_policy(policy | libc::SCHED_RESET_ON_FORK, priority).is_ok() {
            true => self.is_on = on,
            false => self.is_refused = true,
        }
    }
}

impl Urgent {
    /// Whether it took too much of a CPU to be urgent, at a time, after `used_ns` of CPU time.
    fn rests(&mut self, now: u64, used_ns: u64) -> bool {
        let passed = now.saturating_sub(self.judged_ns);
        if passed >= JUDGE_NS {
            let used = used_ns.saturating_sub(self.used_ns);
            // The first time there is nothing to compare with.
            if self.judged_ns > 0 && used as f64 > passed as f64 * SHARE_MAX {
                self.rests_until_ns = now + REST_NS;
            }
            (self.judged_ns, self.used_ns) = (now, used_ns);
        }
        now < self.rests_until_ns
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// How the calling thread is scheduled.
fn policy() -> io::Result<i32> {
    // SAFETY: the call has no pointers. Not the C library's function: musl's only says that there is none.
    match unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } {
        policy @ 0.. => Ok(policy as i32 & !libc::SCHED_RESET_ON_FORK),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_policy(policy: i32, priority: i32) -> io::Result<()> {
    // The kernel's struct sched_param.
    let param = priority;
    // SAFETY: the kernel reads the four bytes of `param`.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_much_to_do_is_ordinary_for_a_while() {
        let mut urgent = Urgent::default();
        let ms = 1_000_000;
        let rests: Vec<bool> =
            [(1000, 900), (1100, 920), (1200, 950), (1300, 951), (2199, 952), (2200, 952)]
                .map(|(now, used)| urgent.rests(now * ms, used * ms))
                .into();
        assert_eq!(rests, [false, false, true, true, true, false]);
    }

    #[test]
    fn a_thread_is_urgent_until_it_is_told_otherwise() {
        let before = policy().unwrap();
        let mut urgent = Urgent::default();
        urgent.set(true);
        if urgent.is_refused {
            assert_eq!(policy().unwrap(), before);
            let why = "no right to be a real-time thread";
            return kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, why);
        }
        assert_eq!(policy().unwrap(), libc::SCHED_FIFO);
        let child = std::process::Command::new("sh")
            .args(["-c", "cut -d' ' -f41 /proc/self/stat"])
            .output();
        assert_eq!(child.unwrap().stdout, b"0\n", "a program is ordinary");
        drop(urgent);
        assert_eq!(policy().unwrap(), before);
    }
}
