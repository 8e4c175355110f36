//! The costs of parallel work on a machine: the recorder measures them, recordings carry them, predictions use them.

use crate::cost;
use std::ops::RangeInclusive;

/// How many times longer the same arithmetic may take while another CPU computes.
const SLOWDOWNS: RangeInclusive<f64> = 0.5..=100.0;

/// Declares [`ParallelCosts`] with the name of each cost beside it, as files have it.
macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Typical values on one machine.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct ParallelCosts { $($(#[$doc])* pub $name: f64,)* }

        impl ParallelCosts {
            /// Each cost with its name.
            pub fn named(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// From the value that `of` has for each name. `None` where it lacks one, or one is none that a machine can have:
            /// a file may say anything.
            pub fn from_named(of: impl Fn(&str) -> Option<f64>) -> Option<ParallelCosts> {
                let possible = |name| {
                    of(name).filter(|value| match name {
                        "slowdown" => SLOWDOWNS.contains(value),
                        _ => cost::is_possible(&[*value]),
                    })
                };
                Some(ParallelCosts { $($name: possible(stringify!($name))?,)* })
            }
        }
    };
}

costs! {
    /// From the call that wakes until the sleeper runs on its own CPU, idle for 50 us, ns.
    wake_latency_ns,
    /// The same where it was idle for 3 us...
    wake_latency_short_ns,
    /// ...and for 1 ms.
    wake_latency_long_ns,
    /// What that takes longer where each of the two CPUs is idle while the other works for 10 us.
    relay_ns,
    /// Time after the kernel put the sleeper into the futex's queue during which waking it is still cheap.
    fall_ns,
    /// The waker's part of that, where the CPU was idle for 50 us.
    wake_call_ns,
    /// The same where it was idle for 3 us...
    wake_call_short_ns,
    /// ...and for 1 ms.
    wake_call_long_ns,
    /// The waker's part when the sleeper is put in the waker's own queue.
    wake_local_ns,
    /// From one thread to another on one CPU.
    switch_ns,
    /// A futex call that finds the word changed.
    retry_ns,
    /// A cache line from one CPU to another.
    transfer_ns,
    /// Arithmetic on one CPU takes this many times longer while the other computes too.
    slowdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_have_names_and_come_back_by_them_unless_one_is_missing_or_impossible() {
        let mut next = 0.0;
        let costs = ParallelCosts::from_named(|_| Some(7.0)).expect("all are there");
        let named = costs.named();
        assert!(named.iter().all(|&(name, value)| !name.is_empty() && value == 7.0));
        for bad in [None, Some(-1.0), Some(f64::NAN), Some(f64::INFINITY), Some(1e10)] {
            for &(wrong, _) in &named {
                next += 1.0;
                let of = |name: &str| if name == wrong { bad } else { Some(next) };
                assert_eq!(ParallelCosts::from_named(of), None, "{wrong} is {bad:?}");
            }
        }
        for times in [0.0, 0.1, 1e6] {
            let of = |name: &str| Some(if name == "slowdown" { times } else { 7.0 });
            assert_eq!(
                ParallelCosts::from_named(of),
                None,
                "arithmetic takes {times} times as long"
            );
        }
    }
}
