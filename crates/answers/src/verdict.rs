//! The conclusion of `kasuri locks`: one set of numbers, from which class, prediction and advice all follow, so that
//! none contradicts another.
//!
//! [`Verdict::new`] takes the answer about locks and, if there is one, the prediction. It first drops a prediction
//! that cannot be trusted: threads waited for a lock without recorded holds, which the replay takes to be free, or the replay itself
//! refuses a number. It then chooses one piece of [`Advice`], by the rule at [`Verdict::new`]. docs/guide/locks.md has the rule
//! for users.
use crate::units::percent;
use kasuri_analyze::{Inversion, LockRow, Locks, OrderCycle};
use kasuri_predict::{Class, Prediction};

/// A lock that is waited for less than this share of the time costs this recording nothing worth a look.
pub const WORTH_A_LOOK: f64 = 0.01;

/// The numbers and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'a> {
    /// None: there was no replay (a part of a recording, no locks, no scheduler events), or it cannot be trusted: see
    /// [`Verdict::without_holds`] and [`Verdict::refused`].
    pub prediction: Option<&'a Prediction>,
    /// Why the replay has no number, each a clause; empty: it has one, or there was none.
    pub refused: &'a [String],
    /// A lock that threads waited for and of which no hold is recorded (Python's GIL): the replay takes it to be free.
    pub without_holds: Option<&'a LockRow>,
    /// The most waited for lock's share of this recording; none: not known.
    pub waited: Option<f64>,
    /// What to look at first; none: not enough is known.
    pub advice: Option<Advice<'a>>,
}

/// A piece of advice: the lock, or locks, to look at first.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice<'a> {
    /// Two locks in both orders.
    Inversion(&'a Inversion),
    /// Three or more locks in a circle.
    Circle(&'a OrderCycle),
    /// Class low (or not known), and next to no waits here.
    Nothing(&'a LockRow),
    /// Next to no waits here, but a higher class: this lock causes it.
    NotHereYet(&'a str),
    /// Its holders sleep while others wait.
    HolderSleeps(&'a LockRow),
    /// It is taken very often for very short times.
    Short(&'a LockRow),
    /// Its holders have no CPU while others wait.
    HolderPreempted(&'a LockRow),
    /// It is free while others wait: they are waking up.
    WakingUp(&'a LockRow),
    /// The work inside.
    WorkInside(&'a LockRow),
}

impl<'a> Verdict<'a> {
    /// Applies the rule, in this order:
    /// 1. a deadlock that is possible;
    /// 2. a lock that this recording waits for, with its cause: measurements go before predictions;
    /// 3. without such waits, where the class is medium or high: the lock that causes the class;
    /// 4. without such waits, and the class low or not known: nothing.
    pub fn new(locks: &'a Locks, prediction: Option<&'a Prediction>) -> Verdict<'a> {
        let worst = locks.locks.first();
        let without_holds = without_holds(locks);
        let refused = prediction.map_or(&[][..], |p| &p.refused);
        let is_known = |p: &Prediction| p.class.is_some() && p.refused.is_empty();
        let prediction = prediction.filter(|p| is_known(p) && without_holds.is_none());
        let waited = worst.and_then(|w| w.used.wait_ratio);
        Verdict {
            prediction,
            refused,
            without_holds,
            waited,
            advice: advice(locks, prediction, waited),
        }
    }

    /// The class in words, or why it is not known; none without a prediction.
    pub fn class_text(&self) -> Option<Result<String, String>> {
        if let Some(lock) = self.without_holds {
            return Some(Err(format!(
                "threads wait for `{}`, and its holders are not recorded",
                lock.name
            )));
        }
        if !self.refused.is_empty() {
            return Some(Err(self.refused.join("; and ")));
        }
        let p = self.prediction?;
        let (class, efficiency) = (p.class?, p.lock_efficiency?);
        let two = p.at(2).map_or(String::new(), |q| {
            format!(
                " (predicted speed-up {:.2}x, without locks {:.2}x)",
                q.speedup, p.without_locks
            )
        });
        let cap = p
            .cap
            .as_ref()
            .map_or(String::new(), |cap| format!("; `{}` {}", cap.lock, cap_text(cap.speedup)));
        Some(Ok(format!(
            "{}: on two CPUs the locks leave {} of the speed{two}{cap}",
            class.word(),
            percent(efficiency)
        )))
    }
}

/// A lock that threads wait for while no hold of it is recorded: a replay would take it for free.
pub fn without_holds(locks: &Locks) -> Option<&LockRow> {
    locks.locks.iter().find(|lock| {
        let share = lock.used.wait_ratio;
        lock.used.holds == 0 && lock.used.wait_ns > 0 && share.is_none_or(|w| w >= WORTH_A_LOOK)
    })
}

/// How far a lock limits the speed-up, in words.
fn cap_text(speedup: f64) -> String {
    if speedup < 1000.0 {
        format!("limits the speed-up on any number of CPUs to {speedup:.1}x")
    } else {
        "sets no limit below 1,000x".into()
    }
}

/// Chooses the advice; see [`Verdict::new`].
fn advice<'a>(
    locks: &'a Locks,
    prediction: Option<&'a Prediction>,
    waited: Option<f64>,
) -> Option<Advice<'a>> {
    if let Some(inversion) = locks.inversions.iter().find(|i| i.can_deadlock) {
        return Some(Advice::Inversion(inversion));
    }
    if let Some(circle) = locks.order_cycles.first() {
        return Some(Advice::Circle(circle));
    }
    let worst = locks.locks.first()?;
    if waited.is_some_and(|w| w >= WORTH_A_LOOK) {
        return cause(worst);
    }
    match prediction.and_then(|p| Some((p, p.class?))) {
        Some((p, Class::Medium | Class::High)) => {
            let busiest = p.locks.first().map(|l| l.name.as_str());
            let cap = p.cap.as_ref().map(|c| c.lock.as_str());
            cap.or(busiest).map(Advice::NotHereYet)
        }
        // Without a wait ratio, waits are not known to be negligible.
        _ if waited.is_none() && worst.used.wait_ns > 0 => cause(worst),
        _ => Some(Advice::Nothing(worst)),
    }
}

/// A lock that is taken so often, and most times for so short: to hand it to another CPU costs about a microsecond.
const MANY_HOLDS: u64 = 100_000;
const SHORT_HOLD_NS: i64 = 500;

/// The cause of the waits for a lock; none where it is not known what its holders did.
///
/// A holder that sleeps is the cause if it did so for more than 30 % of the wait time. Else that the lock is taken so often, and for so
/// short times, that handing it over costs more than what is done inside; else a holder that was preempted. If the lock was free for more
/// than half of the wait time, the waiters were waking up. What remains is the work inside, if the holder's state is known for more than half of the time that there was a holder.
fn cause(lock: &LockRow) -> Option<Advice<'_>> {
    let waited = lock.used.wait_ns as f64;
    let known = lock.holder_running_ns + lock.holder_preempted_ns + lock.holder_blocked_ns;
    // Without recorded holds (Python's GIL) the holder is not known.
    if lock.used.holds == 0 {
        return None;
    }
    if lock.holder_blocked_ns as f64 > 0.3 * waited {
        Some(Advice::HolderSleeps(lock))
    } else if lock.used.holds >= MANY_HOLDS && lock.used.hold_p50_ns <= SHORT_HOLD_NS {
        Some(Advice::Short(lock))
    } else if lock.holder_preempted_ns as f64 > 0.3 * waited {
        Some(Advice::HolderPreempted(lock))
    } else if (lock.holder_ns as f64) < 0.5 * waited {
        Some(Advice::WakingUp(lock))
    } else if known * 2 > lock.holder_ns {
        Some(Advice::WorkInside(lock))
    } else {
        None
    }
}

impl Advice<'_> {
    /// As people read it.
    pub fn text(&self) -> String {
        match self {
            Advice::Inversion(i) => format!(
                "the program takes `{}` and `{}` in both orders: it can deadlock",
                i.first, i.second
            ),
            Advice::Circle(circle) => {
                let names: Vec<String> =
                    circle.steps.iter().map(|s| format!("`{}`", s.held)).collect();
                format!("the program takes {} in a circle: it can deadlock", names.join(", "))
            }
            Advice::Nothing(lock) if lock.used.wait_ns == 0 => {
                "nothing: no thread waited for a lock".into()
            }
            Advice::Nothing(lock) => format!(
                "nothing: even `{}`, the most waited for, costs {} of the time",
                lock.name,
                lock.used.wait_ratio.map_or("next to nothing".into(), percent)
            ),
            Advice::NotHereYet(name) => format!(
                "`{name}`: almost no waits in this recording, but waits on more CPUs; hold it for less time, take it less often, or split it (kasuri predict shows the gain)"
            ),
            Advice::HolderSleeps(lock) => format!(
                "`{}`: its holders sleep while others wait; move I/O and other waits out of it",
                lock.name
            ),
            Advice::Short(lock) => format!(
                "`{}`: taken {} times, half of them for {} or less; give each thread a part of its own and add them up at the end (OpenMP: reduction), take it in batches, or use an atomic",
                lock.name,
                crate::units::count(lock.used.holds),
                crate::units::duration(lock.used.hold_p50_ns as f64)
            ),
            Advice::HolderPreempted(lock) => format!(
                "`{}`: its holders lose their CPU while others wait; hold it for less time (kasuri stat says who has the CPU: other programs, or more threads than CPUs)",
                lock.name
            ),
            Advice::WakingUp(lock) => format!(
                "`{}`: most of the wait time is wake-up time, not work inside (holds p50 {}); take it less often, take it in batches, or spin before sleeping",
                lock.name,
                crate::units::duration(lock.used.hold_p50_ns as f64)
            ),
            Advice::WorkInside(lock) => format!(
                "`{}`: the work inside makes others wait; move work out of it, or split it (kasuri predict shows the gain)",
                lock.name
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_analyze::Use;

    /// Waited for 1 s in all; what its holders did meanwhile, ns, and its holds.
    fn lock(preempted_ns: i64, blocked_ns: i64, holds: u64, hold_p50_ns: i64) -> LockRow {
        LockRow {
            name: "l".into(),
            holder_preempted_ns: preempted_ns,
            holder_blocked_ns: blocked_ns,
            holder_ns: preempted_ns + blocked_ns,
            used: Use { wait_ns: 1_000_000_000, holds, hold_p50_ns, ..Use::default() },
            ..LockRow::default()
        }
    }

    fn said(lock: &LockRow) -> String {
        cause(lock).map_or(String::new(), |advice| advice.text())
    }

    #[test]
    fn a_lock_taken_millions_of_times_is_to_be_taken_less_often() {
        let text = said(&lock(900_000_000, 0, 8_000_000, 10));
        assert!(
            text.starts_with("`l`: taken 8,000,000 times, half of them for 10 ns or less;"),
            "{text}"
        );
        assert!(text.contains("reduction"), "{text}");
        // Not where the holders sleep, nor where there are few holds, or long ones.
        assert!(said(&lock(0, 900_000_000, 8_000_000, 10)).contains("holders sleep"));
        for (holds, p50) in [(99_999, 10), (8_000_000, 501)] {
            assert!(said(&lock(900_000_000, 0, holds, p50)).contains("lose their CPU"));
        }
    }

    /// Who has the CPU is not known here: other programs, perhaps.
    #[test]
    fn fewer_threads_are_never_advised_because_a_holder_was_preempted() {
        let text = said(&lock(900_000_000, 0, 100, 1_000_000));
        assert!(!text.contains("fewer"), "{text}");
    }
}
