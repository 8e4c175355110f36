//! What the recording cost the recorded program: events by kind x measured cost of one.
//!
//! Each event costs the thread that meets it the time of writing it. The costs were measured on the machine that
//! recorded (`meta.json`, docs/format.md) as time added to an operation that provokes the event; they are per event, in
//! cache-warm loops. Kinds that nothing provokes there take the middle of the measured kernel kinds, and the
//! whole range of these as their interval. The recorder's own CPU time is told apart: it runs beside the program, and delays it
//! only where no CPU is free.
use crate::summary::{EventKind, TracingCost};
use kasuri_model::{EventCost, Trace};

/// The cost of the whole recording; `on_cpu_ns`: CPU time of the target's threads in all of it.
pub fn tracing(trace: &Trace, on_cpu_ns: i64) -> TracingCost {
    let kinds = &trace.info.event_costs;
    let guess = guess(kinds);
    let mut out = TracingCost {
        recorder_cpu_ns: trace.info.recorder_cpu.map(|d| d.ns()),
        buffer_bytes: trace.info.buffer_bytes,
        ..TracingCost::default()
    };
    let mut sums = [0.0; 3];
    for kind in kinds {
        let guessed = kind.ns.is_none();
        let Some(ns) = kind.ns.or(guess) else {
            out.unpriced += kind.n;
            continue;
        };
        let cost = ns.map(|ns| ns * kind.n as f64);
        sums.iter_mut().zip(cost).for_each(|(sum, c)| *sum += c);
        out.events.push(EventKind {
            name: kind.name.clone(),
            count: kind.n,
            each_ns: ns[0],
            guessed,
            cost_ns: cost[0].round() as i64,
        });
    }
    [out.cost_ns, out.low_ns, out.high_ns] = sums.map(|ns: f64| ns.round() as i64);
    out.events
        .sort_by(|a, b| (b.cost_ns, &a.name).cmp(&(a.cost_ns, &b.name)));
    // The kernel's own account knows of what ran while the recording was paused.
    let used_ns = match (on_cpu_ns, trace.info.program_cpu) {
        (0, _) => 0,
        (known, Some(cpu)) => known.max(cpu.ns()),
        (known, None) => known,
    };
    let priced = !out.events.is_empty();
    out.share = (priced && used_ns > 0).then(|| sums[0] / used_ns as f64);
    out
}

/// For kinds that could not be measured.
fn guess(kinds: &[EventCost]) -> Option<[f64; 3]> {
    let known: Vec<[f64; 3]> = kinds
        .iter()
        .filter(|kind| kind.name.contains('/'))
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
        EventCost {
            name: name.to_owned(),
            n,
            ns,
        }
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
        assert_eq!(
            (cost.cost_ns, cost.low_ns, cost.high_ns),
            (100_500, 85_400, 115_600)
        );
        assert_eq!(cost.share, Some(0.010_05));
        assert!(cost.events[2].guessed && !cost.events[0].guessed);
        assert_eq!(cost.unpriced, 0);
    }

    #[test]
    fn nothing_measured_is_not_nothing_spent() {
        let cost = tracing(&trace(vec![kind("sched/sched_switch", 7, None)]), 1000);
        assert_eq!((cost.unpriced, cost.share), (7, None));
    }
}
