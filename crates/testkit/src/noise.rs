//! Whether this machine is quiet enough for a claim about time.
//!
//! **The floor** is how much of a CPU a thread gets that wants all of it for 50 ms of wall time: what it does not get is other programs'
//! ([`Noise::run_queue_delay`]) or the host's ([`Noise::steal`]), and [`Noise::spin_excess`] is both as the thread itself sees it. It is measured
//! before and after a claim; what the host takes is counted all through it. Other programs during the claim alone are not seen: the
//! claim's own programs run then, and a defect that makes those use more must not excuse itself.
//!
//! **Rejected:** to repeat the claim. That hides a defect which shows half of the time, and nobody sees how often.
use crate::{say, test_name};
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// How long a floor takes.
const SPIN: Duration = Duration::from_millis(50);
/// The largest share of a floor that may be others'.
const MOST: f64 = 0.1;

/// What others took of the time that one thread wanted for itself; shares of 1. What this machine does not tell is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The host took from a CPU: by the kernel's count, in its ticks, of all CPUs together.
    pub steal: f64,
    /// Wall time in which the thread's own CPU clock stood still.
    pub spin_excess: f64,
    /// The thread was ready and waited for a CPU.
    pub run_queue_delay: f64,
}

impl Noise {
    /// Whether times measured now say nothing.
    pub fn is_noisy(&self) -> bool {
        self.steal.max(self.spin_excess).max(self.run_queue_delay) > MOST
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        write!(
            f,
            "{:.0} % of a CPU not had, {:.0} % waited for one, {:.0} % stolen",
            percent(self.spin_excess),
            percent(self.run_queue_delay),
            percent(self.steal)
        )
    }
}

/// Measures the floor: spins for 50 ms.
pub fn noise() -> Noise {
    let (stolen, delay) = (stolen(), delayed());
    let (start, cpu) = (Instant::now(), cpu_time());
    while start.elapsed() < SPIN {
        std::hint::spin_loop();
    }
    let wall = start.elapsed().as_secs_f64();
    let got = cpu_time().saturating_sub(cpu).as_secs_f64();
    Noise {
        steal: stolen_since(stolen, wall),
        spin_excess: (1.0 - got / wall).max(0.0),
        run_queue_delay: (delayed().saturating_sub(delay).as_secs_f64() / wall).min(1.0),
    }
}

/// Runs a claim about what is measured. If it panics though the machine was quiet, so does this.
///
/// Where the machine was not quiet, one line says `too noisy to say`, the test and the figures, on standard error and in the file
/// that `KASURI_NOISY` names, and this returns: neither a pass nor a failure, and counted.
///
/// # Panics
/// As the claim does on a quiet machine; if that file cannot be written.
pub fn measure(claim: impl FnOnce()) {
    if let Some(line) = judge(claim, noise) {
        say(&line, "KASURI_NOISY");
    }
}

/// As [`measure`], with the floor measured by `floor`; the line to say if it was too noisy.
fn judge(claim: impl FnOnce(), mut floor: impl FnMut() -> Noise) -> Option<String> {
    let before = floor();
    let (start, stolen) = (Instant::now(), stolen());
    let Err(panic) = catch_unwind(AssertUnwindSafe(claim)) else {
        return None;
    };
    let during =
        Noise { steal: stolen_since(stolen, start.elapsed().as_secs_f64()), ..Noise::default() };
    let after = floor();
    if ![before, during, after].iter().any(Noise::is_noisy) {
        resume_unwind(panic);
    }
    Some(format!(
        "too noisy to say: {}: before: {before}; after: {after}; meanwhile {:.0} % stolen",
        test_name(),
        100.0 * during.steal
    ))
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// How long this thread has been ready without a CPU; 0 where the kernel does not say.
fn delayed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Ticks that the host took from all CPUs so far, and their number.
fn stolen() -> (u64, usize) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse().ok());
    let cpus = text.lines().skip(1).take_while(|line| line.starts_with("cpu"));
    (ticks.unwrap_or(0), cpus.count())
}

/// The share of all CPUs' time that the host took in the last `wall` seconds. One tick of 10 ms is no share of 50 ms: it may have
/// been a moment.
fn stolen_since((before, _): (u64, usize), wall: f64) -> f64 {
    let (now, cpus) = stolen();
    let ticks = now.saturating_sub(before).saturating_sub(1);
    let seconds = ticks as f64 / clock_ticks_per_second() as f64;
    (seconds / (wall * cpus.max(1) as f64)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Noise = Noise { steal: 0.0, spin_excess: 0.02, run_queue_delay: 0.01 };
    const BUSY: Noise = Noise { spin_excess: 0.5, ..QUIET };

    fn judged(claim: fn(), floors: [Noise; 2]) -> std::thread::Result<Option<String>> {
        let mut floors = floors.into_iter();
        catch_unwind(AssertUnwindSafe(|| judge(claim, || floors.next().unwrap())))
    }

    #[test]
    fn a_claim_that_holds_passes_however_busy_the_machine_is() {
        assert_eq!(judged(|| {}, [BUSY, BUSY]).unwrap(), None);
    }

    #[test]
    fn a_claim_that_fails_on_a_quiet_machine_fails() {
        // The host may take a CPU away in this very moment: then it is no quiet machine.
        let failed = judged(|| panic!("a defect"), [QUIET, QUIET]);
        match failed {
            Err(panic) => assert_eq!(panic.downcast_ref(), Some(&"a defect")),
            Ok(line) => assert!(line.unwrap().ends_with("% stolen")),
        }
    }

    #[test]
    fn a_claim_that_fails_beside_noise_says_so() {
        for floors in [[BUSY, QUIET], [QUIET, BUSY]] {
            let line = judged(|| panic!("who knows"), floors).unwrap().unwrap();
            let begin = "too noisy to say: noise::tests::a_claim_that_fails_beside_noise_says_so: ";
            assert!(line.starts_with(begin), "{line}");
            assert!(line.contains("50 % of a CPU not had"), "{line}");
        }
    }

    #[test]
    fn the_floor_is_shares() {
        let Noise { steal, spin_excess, run_queue_delay } = noise();
        for share in [steal, spin_excess, run_queue_delay] {
            assert!((0.0..=1.01).contains(&share), "{share}");
        }
    }
}
