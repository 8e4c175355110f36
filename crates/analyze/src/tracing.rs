//! The cost of recording to the recorded program: events by kind x measured cost of one.
//!
//! Each event costs the thread in whose time it is written; those written in the time of others, or of an idle CPU, are not the
//! program's. The costs were measured on the machine that recorded (`meta.json`, docs/format.md) as time added to an operation that
//! provokes the event, in a loop of nothing else and with more and more other work before each: the farther apart events are, the
//! less of what the tracer needs is left in the caches. A program's events cost what they did at the program's own distance, its CPU
//! time without tracing for each event. Kinds that nothing provokes there take the middle of the measured kernel kinds, and the
//! whole range of these as their interval. The recorder's own CPU time is listed apart: it runs beside the program, and delays it
//! only where no CPU is free.
use crate::HeldUp;
use crate::summary_rows::{EventKind, TracingCost};
use kasuri_base::cost::cost_at;
use kasuri_base::usdt::COUNTED;
use kasuri_model::{EventCost, Trace};

/// Steps towards a distance and a cost that belong together; each leaves a fraction of the error before.
const STEPS: u32 = 8;

/// The cost of the whole recording; `on_cpu_ns`: CPU time of the target's threads in all of it.
pub fn tracing(trace: &Trace, on_cpu_ns: i64) -> TracingCost {
    let kinds = &trace.info.event_costs;
    // The kernel's own account knows of what ran while the recording was paused.
    let used_ns = match (on_cpu_ns, trace.info.program_cpu) {
        (0, _) => 0,
        (known, Some(cpu)) => known.max(cpu.ns()),
        (known, None) => known,
    };
    // CPU time for each event; less where a program's events came in bursts, or it was recorded in windows.
    let events = kinds.iter().filter(|k| k.name.contains('/'));
    let events: u64 = events.map(|k| k.n_program).sum();
    let apart_ns = used_ns as f64 / events.max(1) as f64;
    let apart_ns = trace.info.events_apart_ns.map_or(apart_ns, |ns| ns.min(apart_ns));
    let kinds = at_their_distance(kinds, apart_ns);
    let guess = guess(&kinds);
    let mut out = TracingCost {
        recorder_cpu_ns: trace.info.recorder_cpu.map(|d| d.ns()),
        held_up: HeldUp::of(&trace.info),
        buffer_bytes: trace.info.buffer_bytes,
        ..TracingCost::default()
    };
    let (mut sums, mut system) = ([0.0; 3], 0.0);
    for kind in &kinds {
        let guessed = kind.ns.is_none();
        let Some(ns) = kind.ns.or(guess) else {
            out.unpriced += kind.n;
            continue;
        };
        let cost = ns.map(|ns| ns * kind.n_program as f64);
        sums.iter_mut().zip(cost).for_each(|(sum, c)| *sum += c);
        system += ns[0] * kind.n as f64;
        out.events.push(EventKind {
            name: kind.name.clone(),
            count: kind.n,
            program: kind.n_program,
            each_ns: ns[0],
            guessed,
            cost_ns: cost[0].round() as i64,
        });
    }
    [out.cost_ns, out.low_ns, out.high_ns] = sums.map(|ns: f64| ns.round() as i64);
    out.system_ns = system.round() as i64;
    out.events.sort_by(|a, b| (b.cost_ns, &a.name).cmp(&(a.cost_ns, &b.name)));
    out.program_cpu_ns = (used_ns > 0).then_some(used_ns);
    let priced = !out.events.is_empty();
    // What tracing cost is part of the CPU time that was used. An estimate of more than all of it is wrong by an unknown amount: the
    // program's events came in another state of the machine than the one in which their costs were measured, or it did not run
    // where its CPU time was counted. Then there is no share.
    out.share =
        (priced && used_ns > 0).then(|| sums[0] / used_ns as f64).filter(|&share| share <= 1.0);
    out
}

/// What one annotation costs, ns; 0 where it was not measured.
pub fn annotation_ns(cost: &TracingCost) -> f64 {
    let mut kinds = cost.events.iter();
    (kinds.find(|kind| kind.name == "annotation")).map_or(0.0, |kind| kind.each_ns)
}

/// Each kind with its cost at the distance between the program's events, ns with tracing.
fn at_their_distance(kinds: &[EventCost], traced_ns: f64) -> Vec<EventCost> {
    let mut kinds = kinds.to_vec();
    // Distances were measured of operations without tracing: what an event costs is to be taken from the distance that tells what it
    // costs. A few steps find both.
    let mut apart_ns = traced_ns;
    for _ in 0..STEPS {
        let (mut n, mut cost_ns) = (0, 0.0);
        for kind in kinds.iter_mut().filter(|k| k.name.contains('/')) {
            if let Some(ns) = cost_at(&kind.apart, apart_ns) {
                kind.ns = Some(ns);
            }
            n += kind.n_program;
            cost_ns += kind.ns.map_or(0.0, |ns| ns[0]) * kind.n_program as f64;
        }
        apart_ns = (traced_ns - cost_ns / n.max(1) as f64).max(1.0);
    }
    kinds
}

/// For kinds that could not be measured. Probes, whose price is another, tell nothing of them.
fn guess(kinds: &[EventCost]) -> Option<[f64; 3]> {
    let known: Vec<[f64; 3]> = kinds
        .iter()
        .filter(|kind| kind.name.contains('/') && !kind.name.starts_with(COUNTED))
        .filter_map(|kind| kind.ns)
        .collect();
    let mut middles: Vec<f64> = known.iter().map(|ns| ns[0]).collect();
    middles.sort_by(f64::total_cmp);
    let middle = *middles.get(middles.len() / 2)?;
    let low = known.iter().map(|ns| ns[1]).fold(f64::INFINITY, f64::min);
    let high = known.iter().map(|ns| ns[2]).fold(0.0, f64::max);
    Some([middle, low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, n: u64, ns: Option<[f64; 3]>) -> EventCost {
        EventCost { name: name.to_owned(), n, n_program: n, ns, apart: Vec::new() }
    }

    fn trace(kinds: Vec<EventCost>) -> Trace {
        let mut trace = Trace::default();
        trace.info.event_costs = kinds;
        trace
    }

    #[test]
    fn cost_is_count_times_cost_of_one() {
        let t = trace(vec![
            kind("sched/sched_switch", 1000, Some([50.0, 40.0, 60.0])),
            kind("annotation", 5000, Some([10.0, 9.0, 11.0])),
            kind("irq/irq_handler_entry", 10, None),
        ]);
        let cost = tracing(&t, 10_000_000);
        // 50,000 + 50,000 + 10 x 50, the only measured kernel kind.
        assert_eq!((cost.cost_ns, cost.low_ns, cost.high_ns), (100_500, 85_400, 115_600));
        assert_eq!(cost.share, Some(0.010_05));
        assert!(cost.events[2].guessed && !cost.events[0].guessed);
        assert_eq!(cost.unpriced, 0);
    }

    #[test]
    fn the_farther_apart_the_events_the_more_each_costs() {
        let each = |n: u64, used_ns: i64| {
            let mut events = kind("sched/sched_switch", n, Some([100.0, 90.0, 110.0]));
            events.apart = vec![
                [50.0, 100.0, 90.0, 110.0],
                [500.0, 200.0, 180.0, 220.0],
                [5000.0, 400.0, 380.0, 420.0],
            ];
            tracing(&trace(vec![events]), used_ns).events[0].each_ns
        };
        // 1 ns and 1 ms apart: as the first and the last that was measured.
        assert!((each(1_000_000, 101_000_000) - 100.0).abs() < 0.1);
        assert!((each(1000, 1_000_000_000) - 400.0).abs() < 0.1);
        // 500 ns apart without tracing, 700 ns with it; the square root of ten times 500 ns, and half way to 400 ns.
        assert!((each(1000, 700_000) - 200.0).abs() < 1.0);
        assert!((each(1000, 1_581_139 + 300_000) - 300.0).abs() < 1.0);
    }

    #[test]
    fn what_others_met_is_not_the_programs() {
        let mut events = kind("sched/sched_switch", 1000, Some([50.0, 40.0, 60.0]));
        events.n_program = 300;
        let cost = tracing(&trace(vec![events]), 1_500_000);
        assert_eq!((cost.cost_ns, cost.system_ns), (15_000, 50_000));
        assert_eq!(cost.share, Some(0.01));
        assert_eq!((cost.events[0].count, cost.events[0].program), (1000, 300));
    }

    /// `kasuri info` and `kasuri stat --json` say the same of it.
    #[test]
    fn what_the_recorder_held_up_is_as_the_recording_has_it() {
        let mut trace = trace(Vec::new());
        assert_eq!(tracing(&trace, 0).held_up, None, "not measured");
        let memory = kasuri_model::TimedCalls {
            n: 3,
            longest: kasuri_model::Duration(20),
            sum: kasuri_model::Duration(45),
        };
        trace.info.held_up = Some(kasuri_model::HeldUp { memory, ..Default::default() });
        let held = tracing(&trace, 0).held_up.expect("measured");
        assert_eq!(held.memory, crate::TimedCalls { n: 3, longest_ns: 20, sum_ns: 45 });
        assert_eq!(held.probes.n, 0);
    }

    #[test]
    fn a_cost_above_all_that_was_used_has_no_share() {
        let cost = |used_ns| {
            let events = kind("annotation", 1000, Some([50.0, 40.0, 60.0]));
            tracing(&trace(vec![events]), used_ns)
        };
        assert_eq!(cost(50_000).share, Some(1.0));
        assert_eq!((cost(49_999).share, cost(49_999).cost_ns), (None, 50_000));
        assert_eq!(cost(26).share, None);
    }

    #[test]
    fn nothing_measured_is_not_nothing_spent() {
        let cost = tracing(&trace(vec![kind("sched/sched_switch", 7, None)]), 1000);
        assert_eq!((cost.unpriced, cost.share), (7, None));
    }
}
