//! Recording under a budget: chooses which events are on, so that their cost stays within a share of the busy CPU
//! time.
//!
//! Goal: sum(events x cost of one) + (time to switch events) <= budget x busy CPU time, over the whole recording,
//! also when rates change a hundredfold within it. Within that limit, the answers that need the fewest events are
//! kept longest.
//!
//! Method: a bank account. Busy time pays in `budget` of itself, events draw their cost. While the account holds
//! something, all events are on. When it is empty:
//! 1. events beyond the timeline go off, dearest first, until the rest would fit the budget at the present rates;
//! 2. with only the timeline left everything goes off until half of the account is full again: the recording
//!    becomes a sample of whole windows, whose bounds are in the recording.
//!
//! Events that step 1 switched off come back when the account has been full for a while. Each failure doubles that
//! while. The account holds at most [`BANK_S`] seconds of budget: a quiet hour must not pay for a storm that then
//! stops a program for a minute.
//!
//! Rejected: `tracing_on` for the pauses. A tracepoint that is on while tracing is paused still costs a third to a
//! half of a recorded hit (`kasuri events`, column PAUSED); off it is a no-op. Switching costs milliseconds, so windows are
//! tenths of seconds, and the switching is charged to the account.
//!
//! Pure arithmetic: time, counts and costs come from the caller.
use std::collections::BTreeMap;

/// Most that the account holds, in seconds of budget.
const BANK_S: f64 = 2.0;
/// First wait until something that went off is tried again, seconds of wall time.
const RETRY_S: f64 = 1.0;
/// Longest such wait.
const RETRY_MAX_S: f64 = 30.0;

/// An instruction to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Whether everything is to be off; if not, `off` lists the events to be off.
    pub paused: bool,
    /// Events to be off; all others are on.
    pub off: Vec<String>,
    /// Cost of tracing in the last step, as a share of the CPU time used.
    pub rate: f64,
}

/// One kind of event.
#[derive(Clone, Debug)]
struct Kind {
    /// Cost of one event, ns.
    cost: f64,
    /// Whether the timeline needs it: such a kind never goes off alone.
    timeline: bool,
    /// Share of busy time that it cost when it was last on.
    rate: f64,
    off: bool,
}

/// The account.
#[derive(Clone, Debug)]
pub struct Governor {
    budget: f64,
    kinds: BTreeMap<String, Kind>,
    bank_ns: f64,
    bank_max_ns: f64,
    paused: bool,
    /// Wall time since something went off, and the value that it must reach before that is tried again, s.
    quiet_s: f64,
    retry_s: f64,
    /// All that was paid in and drawn, ns.
    busy_ns: f64,
    cost_ns: f64,
}

impl Governor {
    /// `budget`: share of busy CPU time, 0..1. `costs`: ns of one event; `timeline`: events that only go off together. Kinds
    /// without a cost take `unknown_ns`.
    pub fn new(
        budget: f64,
        events: &[String],
        costs: &BTreeMap<String, f64>,
        unknown_ns: f64,
        timeline: &[&str],
    ) -> Governor {
        let kind = |name: &String| Kind {
            cost: costs.get(name).copied().unwrap_or(unknown_ns),
            timeline: timeline.contains(&name.as_str()),
            rate: 0.0,
            off: false,
        };
        let bank_max_ns = budget * BANK_S * 1e9;
        Governor {
            budget,
            kinds: events.iter().map(|e| (e.clone(), kind(e))).collect(),
            bank_ns: bank_max_ns / 4.0,
            bank_max_ns,
            paused: false,
            quiet_s: 0.0,
            retry_s: RETRY_S,
            busy_ns: 0.0,
            cost_ns: 0.0,
        }
    }

    /// Sets the cost of one event, ns.
    pub fn set_costs(&mut self, cost: impl Fn(&str) -> Option<f64>) {
        for (name, kind) in &mut self.kinds {
            kind.cost = cost(name).unwrap_or(kind.cost);
        }
    }

    /// Whether everything is off.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Cost of all events and of switching them so far, as a share of the busy time so far.
    pub fn share(&self) -> f64 {
        self.cost_ns / self.busy_ns.max(1.0)
    }

    /// Charges the CPU time for switching events, ns.
    pub fn charge(&mut self, ns: f64) {
        self.cost_ns += ns;
        self.bank_ns -= ns;
    }

    /// Makes a step of `wall_ns` in which the CPUs together were busy for `busy_ns` and these events came. Returns a
    /// decision when the set of events that are on must change.
    pub fn step(
        &mut self,
        wall_ns: f64,
        busy_ns: f64,
        counts: &BTreeMap<String, f64>,
    ) -> Option<Decision> {
        let busy_ns = busy_ns.max(1.0);
        let mut cost = 0.0;
        for (name, kind) in &mut self.kinds {
            let drawn = counts.get(name).copied().unwrap_or(0.0) * kind.cost;
            cost += drawn;
            if !self.paused && !kind.off {
                kind.rate = drawn / busy_ns;
            }
        }
        self.busy_ns += busy_ns;
        self.cost_ns += cost;
        self.bank_ns = (self.bank_ns + self.budget * busy_ns - cost).min(self.bank_max_ns);
        self.quiet_s += wall_ns * 1e-9;
        let changed =
            if self.bank_ns < 0.0 && !self.paused { self.go_down() } else { self.come_back() };
        changed.then(|| Decision {
            paused: self.paused,
            off: self.names_off(),
            rate: cost / busy_ns,
        })
    }

    fn names_off(&self) -> Vec<String> {
        let off = self.kinds.iter().filter(|(_, kind)| kind.off);
        off.map(|(name, _)| name.clone()).collect()
    }

    fn go_down(&mut self) -> bool {
        let mut rate: f64 = self.recorded_kinds().map(|kind| kind.rate).sum();
        let mut optional: Vec<(String, f64)> = self
            .kinds
            .iter()
            .filter(|(_, kind)| !kind.off && !kind.timeline)
            .map(|(name, kind)| (name.clone(), kind.rate))
            .collect();
        optional.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut any = false;
        for (name, kind_rate) in optional {
            // Half of the budget: the account has to recover as well.
            if rate <= self.budget / 2.0 || kind_rate == 0.0 {
                break;
            }
            self.kinds.get_mut(&name).expect("a key of the map").off = true;
            rate -= kind_rate;
            any = true;
        }
        if any {
            self.quiet_s = 0.0;
        }
        if rate > self.budget || !any {
            self.paused = true;
        }
        true
    }

    fn come_back(&mut self) -> bool {
        if self.paused {
            self.paused = self.bank_ns < self.bank_max_ns / 2.0;
            return !self.paused;
        }
        let some_off = self.kinds.values().any(|kind| kind.off);
        if some_off && self.bank_ns >= 0.75 * self.bank_max_ns && self.quiet_s >= self.retry_s {
            self.kinds.values_mut().for_each(|kind| kind.off = false);
            self.retry_s = (self.retry_s * 2.0).min(RETRY_MAX_S);
            return true;
        }
        false
    }

    fn recorded_kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().filter(|kind| !kind.off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: &[&str] = &["sched/sched_switch"];

    /// A machine of two busy CPUs on which `rate(t)` events of each kind per second come.
    struct Machine {
        governor: Governor,
        cost: f64,
        busy: f64,
        on_s: f64,
        seconds: f64,
        switches: u32,
        worst: f64,
    }

    impl Machine {
        fn new(budget: f64, events: &[&str]) -> Machine {
            let events: Vec<String> = events.iter().map(|e| (*e).to_owned()).collect();
            let costs = events.iter().map(|e| (e.clone(), 100.0)).collect();
            Machine {
                governor: Governor::new(budget, &events, &costs, 100.0, TIMELINE),
                cost: 0.0,
                busy: 0.0,
                on_s: 0.0,
                seconds: 0.0,
                switches: 0,
                worst: 0.0,
            }
        }

        fn run(&mut self, seconds: f64, rate: impl Fn(&str) -> f64) {
            const STEP_S: f64 = 0.02;
            let mut t = 0.0;
            while t < seconds {
                t += STEP_S;
                let off = self.governor.names_off();
                let mut counts = BTreeMap::new();
                for name in self.governor.kinds.keys() {
                    if !self.governor.paused() && !off.contains(name) {
                        counts.insert(name.clone(), rate(name) * STEP_S);
                    }
                }
                self.cost += counts.values().sum::<f64>() * 100.0;
                self.busy += 2.0 * STEP_S * 1e9;
                self.on_s += if self.governor.paused() { 0.0 } else { STEP_S };
                self.seconds += STEP_S;
                if self.governor.step(STEP_S * 1e9, 2.0 * STEP_S * 1e9, &counts).is_some() {
                    self.switches += 1;
                    self.governor.charge(8e6);
                    self.cost += 8e6;
                }
                if self.seconds > 4.0 {
                    self.worst = self.worst.max(self.cost / self.busy);
                }
            }
        }
    }

    #[test]
    fn budget_holds_when_the_rate_rises_a_hundredfold_and_falls_again() {
        // 100 ns an event on two CPUs: 40,000 /s are 0.2 %, 4,000,000 /s are 20 %.
        let mut m = Machine::new(0.02, &["sched/sched_switch"]);
        for _ in 0..5 {
            m.run(4.0, |_| 40_000.0);
            m.run(4.0, |_| 4_000_000.0);
        }
        let share = m.cost / m.busy;
        assert!(share <= 0.025 && m.worst <= 0.025, "{share} {}", m.worst);
        // Half of the time at 0.2 %, and 2 % of the rest: a governor that only switched off would be far below.
        assert!(share >= 0.009, "{share}");
        assert!((m.governor.share() - share).abs() < 1e-9);
        assert!(m.switches < 60, "{}", m.switches);
    }

    #[test]
    fn a_steady_storm_uses_its_budget_in_windows() {
        let mut m = Machine::new(0.02, &["sched/sched_switch"]);
        m.run(30.0, |_| 4_000_000.0);
        let share = m.cost / m.busy;
        assert!((0.015..=0.025).contains(&share), "{share}");
        assert!(m.on_s / m.seconds < 0.2, "windows: {}", m.on_s);
    }

    #[test]
    fn what_the_timeline_needs_goes_last() {
        let mut m = Machine::new(0.02, &["sched/sched_switch", "raw_syscalls/sys_enter"]);
        m.run(1.0, |name| match name {
            "sched/sched_switch" => 20_000.0,
            _ => 3_000_000.0,
        });
        assert_eq!(m.governor.names_off(), ["raw_syscalls/sys_enter"]);
        assert!(!m.governor.paused());
        // It comes back when it has become cheap, and stays.
        m.run(20.0, |_| 1000.0);
        assert_eq!(m.governor.names_off(), [""; 0]);
    }

    #[test]
    fn the_dearest_go_off_until_the_rest_takes_half_of_the_budget() {
        let names = ["sched/sched_switch", "a/cheap", "b/dear", "c/middle"];
        let names = names.map(str::to_owned);
        let mut governor = Governor::new(0.02, &names, &BTreeMap::new(), 100.0, TIMELINE);
        // In a second of one CPU, at 100 ns each: 0.4 %, 0.3 %, 10 % and 1 %.
        let counts = [40_000.0, 30_000.0, 1_000_000.0, 100_000.0];
        let counts = names.iter().cloned().zip(counts).collect();
        let decision = governor.step(1e9, 1e9, &counts).expect("far too much");
        assert!((decision.rate - 0.117).abs() < 1e-9, "{}", decision.rate);
        assert_eq!(decision.off, ["b/dear", "c/middle"]);
        assert!(!decision.paused);
    }

    #[test]
    fn below_the_budget_nothing_ever_changes() {
        let mut m = Machine::new(0.02, &["sched/sched_switch", "irq/irq_handler_entry"]);
        m.run(20.0, |_| 100_000.0);
        assert_eq!(m.switches, 0);
    }
}
