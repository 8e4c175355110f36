//! What a recording's samples will be taken with: the events that this user may have.
use super::calibrate;
use super::events::STACK_BYTES_MAX;
use crate::kernel::perf::{self, Reach, may_lock_more};
use crate::options::{Options, Stacks, Target};
use kasuri_unwind::Cpu;

/// Bytes of the stack that are copied at first. The kernel copies no more than there is, but a record takes its full size in the ring.
const STACK_BYTES: u32 = 32 << 10;
/// At first, in the small ring of a user without privileges.
const STACK_BYTES_OWN: u32 = 16 << 10;

/// What a recording's samples will be taken with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// CPU time between two samples, on average.
    pub(super) period_ns: u64,
    pub(super) reach: Reach,
    pub(super) cpu: Cpu,
    pub(super) stack_bytes: u32,
    pub(super) everyone: bool,
    pub(super) is_deep: bool,
}

impl Plan {
    #[cfg(test)]
    pub(super) fn of(cpu: Cpu, reach: Reach, everyone: bool) -> Plan {
        Plan {
            period_ns: 1_000_000,
            reach,
            cpu,
            stack_bytes: STACK_BYTES,
            everyone,
            is_deep: false,
        }
    }

    /// Chooses the source that this user may have. `Err`: there is none, and why.
    pub(crate) fn choose(options: &Options) -> Result<Plan, String> {
        let Some(cpu) = Cpu::own() else {
            return Err("no call paths: stacks of this kind of CPU cannot be followed (x86-64 and 64-bit Arm can)".to_owned());
        };
        let everyone = matches!(options.target, Target::System(_));
        let reach = perf::reach().ok_or_else(|| {
            format!("no call paths: perf_event_open is refused; {}", perf::remedy())
        })?;
        if everyone && reach == Reach::Own {
            return Err("no call paths with -a: this user may not see other users' threads; `sudo kasuri record -a ...`".to_owned());
        }
        let stack_bytes = match options.stacks {
            Stacks::Deep => STACK_BYTES_MAX,
            _ if !may_lock_more() => STACK_BYTES_OWN,
            _ => STACK_BYTES,
        };
        Ok(Plan {
            period_ns: calibrate::period_ns(),
            reach,
            cpu,
            stack_bytes,
            everyone,
            is_deep: options.stacks == Stacks::Deep,
        })
    }

    /// Whether the events see all threads, so that they may be opened before the program is there; and the kernel's code, and where waits
    /// begin.
    pub(crate) fn sees_all(&self) -> bool {
        self.reach == Reach::System
    }

    /// The clock in words.
    pub(crate) fn describe(&self) -> String {
        let kernel = match self.reach {
            Reach::System => "",
            Reach::Own => "; not while the kernel works for a thread",
        };
        let ms = self.period_ns as f64 / 1e6;
        format!("each {ms:.1} ms of CPU time{kernel}")
    }
}
