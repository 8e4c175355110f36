//! What to try next, in plain words, each with what it may gain and, where there is one, the command.
//!
//! A hint is a rule over the answers of the other modules. Rules name a cause only where the numbers can mean nothing
//! else; below [`WORTH`] of the capacity they are silent.
use crate::cut::Cut;
use crate::{Hint, Summary};
use kasuri_model::{StateRow, ThreadState, Time};
use std::collections::HashMap;

/// Share of the capacity that a cause must cost before it is worth a line.
const WORTH: f64 = 0.02;
/// Waits shorter than this end before the kernel could have moved the thread: it is no finding that it did not.
const MISPLACED_NS: i64 = 500_000;

/// The hints, most to gain first.
pub(crate) fn hints(cut: &Cut<'_>, summary: &Summary) -> Vec<Hint> {
    if !summary.known.switches || summary.capacity_ns <= 0 {
        return Vec::new();
    }
    let worth = (summary.capacity_ns as f64 * WORTH) as i64;
    let ready = long_ready(cut);
    let mut out = Vec::new();
    out.extend(oversubscription(summary));
    out.extend(interference(summary));
    out.extend(misplaced(cut, &ready));
    out.extend(interrupts(summary));
    out.extend(migrations(summary));
    out.retain(|hint| hint.cost_ns >= worth);
    out.sort_by_key(|hint| (std::cmp::Reverse(hint.cost_ns), hint.kind));
    out
}

/// The recorded command as a shell would read it; `PROGRAM` when there is none.
fn program(summary: &Summary) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    let word = |w: &String| match !w.is_empty() && w.chars().all(is_plain) {
        true => w.clone(),
        false => format!("'{}'", w.replace('\'', "'\\''")),
    };
    match summary.command.is_empty() {
        true => "PROGRAM".into(),
        false => summary
            .command
            .iter()
            .map(word)
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn seconds(ns: i64) -> String {
    format!("{:.3} s", ns as f64 * 1e-9)
}

/// `3`, or `0-2,5`: as taskset takes it.
fn cpu_list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |(a, b): &(u32, u32)| match a == b {
        true => a.to_string(),
        false => format!("{a}-{b}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// More of the program's threads than CPUs want to run.
fn oversubscription(summary: &Summary) -> Option<Hint> {
    let own = summary.interference.iter().filter(|i| i.is_target);
    let cost_ns: i64 = own.map(|i| i.delayed_ns).sum();
    // Threads that did not want a tenth of a CPU are helpers, not workers.
    let wants = |t: &&crate::ThreadSummary| {
        t.is_target && (t.on_cpu_ns + t.runnable_ns) * 10 > summary.wall_ns
    };
    let workers: Vec<_> = summary.threads.iter().filter(wants).collect();
    if workers.len() <= summary.n_cpus as usize {
        return None;
    }
    let wanted: i64 = workers.iter().map(|t| t.on_cpu_ns + t.runnable_ns).sum();
    let mean = wanted as f64 / summary.wall_ns.max(1) as f64;
    Some(Hint {
        kind: "oversubscription",
        cost_ns,
        text: format!(
            "oversubscribed: {} threads on {} CPUs; {mean:.1} of them wanted to run at any time, and they waited {} for each other; start one thread for each CPU",
            workers.len(),
            summary.n_cpus,
            seconds(cost_ns),
        ),
        command: None,
    })
}

/// Somebody else took the CPU.
fn interference(summary: &Summary) -> Option<Hint> {
    let others: Vec<_> = (summary.interference.iter())
        .filter(|i| !i.is_target && i.delayed_ns > 0)
        .collect();
    let cost_ns = others.iter().map(|i| i.delayed_ns).sum();
    let first = others.first()?;
    let free: Vec<u32> = (summary.cpus.iter())
        .filter(|c| c.other_ns * 20 < summary.wall_ns)
        .map(|c| c.cpu)
        .collect();
    let more = match others.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let who = format!("{} ({}){more}", first.process, first.pid);
    let is_partial = !free.is_empty() && free.len() < summary.cpus.len();
    let (cure, command) = match is_partial {
        true => (
            format!("CPU {} had no such company", cpu_list(&free)),
            format!("taskset -c {} {}", cpu_list(&free), program(summary)),
        ),
        false => (
            "stop it, or run it with a lower priority".into(),
            format!("sudo renice -n 19 -p {}", first.pid),
        ),
    };
    Some(Hint {
        kind: "interference",
        cost_ns,
        text: format!(
            "interference: {who} ran while threads of the program were ready, and cost them {}; {cure}",
            seconds(cost_ns)
        ),
        command: Some(command),
    })
}

/// Target threads' long waits for a CPU, in order of their start.
fn long_ready(cut: &Cut<'_>) -> Vec<StateRow> {
    let mut out: Vec<StateRow> = Vec::new();
    for thread in cut.threads().filter(|t| cut.is_target(*t)) {
        out.extend(cut.trace.states_of(thread).filter(|row| {
            matches!(
                row.state,
                ThreadState::RunnableWoken | ThreadState::RunnablePreempted
            ) && cut.overlap(row.start, row.end) >= MISPLACED_NS
        }));
    }
    out.sort_by_key(|row| row.start);
    out
}

/// Threads wait in one CPU's queue while another CPU is idle: pinned together, or balanced late.
fn misplaced(cut: &Cut<'_>, ready: &[StateRow]) -> Option<Hint> {
    let idle: Vec<Vec<(Time, Time)>> = (0..cut.trace.cpus.len())
        .map(|cpu| {
            let rows = cut.trace.occupancy_of(cpu).filter(|row| row.idle);
            rows.map(|row| (row.start.max(cut.from), row.end.min(cut.to)))
                .collect()
        })
        .collect();
    // Idle time before this moment has been promised to a thread already.
    let mut taken = vec![cut.from; idle.len()];
    let mut found: HashMap<(u16, usize), i64> = HashMap::new();
    for row in ready {
        let free_on = |cpu: usize| {
            let (from, to) = (row.start.max(taken[cpu]), row.end.min(cut.to));
            let first = idle[cpu].partition_point(|i| i.1 <= from);
            let inside = idle[cpu][first..].iter().take_while(|i| i.0 < to);
            inside
                .map(|i| (i.1.min(to) - i.0.max(from)).ns().max(0))
                .sum::<i64>()
        };
        let others = (0..idle.len()).filter(|&cpu| cpu != usize::from(row.cpu));
        let best = others.map(|cpu| (free_on(cpu), cpu)).max();
        if let Some((ns, cpu)) = best.filter(|b| b.0 > 0) {
            taken[cpu] = taken[cpu].max(row.end);
            *found.entry((row.cpu, cpu)).or_default() += ns;
        }
    }
    let cost_ns = found.values().sum();
    let (&(queue, idle), _) = found
        .iter()
        .max_by_key(|((queue, idle), ns)| (**ns, std::cmp::Reverse((*queue, *idle))))?;
    Some(Hint {
        kind: "misplaced",
        cost_ns,
        text: format!(
            "a CPU was idle while threads waited for another: {} in all, most of it on CPU {queue} with CPU {idle} idle; either two threads are pinned to one CPU (while it runs: grep Cpus_allowed_list /proc/PID/task/*/status), or they run so briefly that the kernel moves them too late: pin them to CPUs of their own",
            seconds(cost_ns)
        ),
        command: None,
    })
}

/// One CPU handles the interrupts of all.
fn interrupts(summary: &Summary) -> Option<Hint> {
    let of = |c: &crate::CpuSummary| c.irq_ns.unwrap_or(0);
    let total: i64 = summary.cpus.iter().map(of).sum();
    let worst = summary.cpus.iter().max_by_key(|c| of(c))?;
    if summary.cpus.len() < 2 || of(worst) * 10 < total * 8 {
        return None;
    }
    let rest: Vec<u32> = (summary.cpus.iter())
        .map(|c| c.cpu)
        .filter(|&cpu| cpu != worst.cpu)
        .collect();
    Some(Hint {
        kind: "interrupts",
        cost_ns: of(worst),
        text: format!(
            "CPU {} takes {:.0} % of the interrupts, {} in all; keep the program off it, or spread them (/proc/irq/*/smp_affinity_list)",
            worst.cpu,
            of(worst) as f64 / total as f64 * 100.0,
            seconds(total)
        ),
        command: Some(format!(
            "taskset -c {} {}",
            cpu_list(&rest),
            program(summary)
        )),
    })
}

/// Threads that move while they could run.
fn migrations(summary: &Summary) -> Option<Hint> {
    let moved = |g: &&crate::MigrationGroup| g.why == "balance";
    let groups: Vec<_> = summary.migration_groups.iter().filter(moved).collect();
    let (cost_ns, count) = (
        groups.iter().map(|g| g.off_cpu_ns).sum(),
        groups.iter().map(|g| g.count).sum::<u64>(),
    );
    let busy =
        (summary.threads.iter()).filter(|t| t.is_target && t.on_cpu_ns * 10 > summary.wall_ns);
    let busy = busy.count();
    if busy == 0 || busy > summary.n_cpus as usize {
        return None;
    }
    let (how, command) = match busy {
        1 => {
            let quiet = summary.cpus.iter().min_by_key(|c| c.other_ns)?;
            let command = format!("taskset -c {} {}", quiet.cpu, program(summary));
            ("pin it".to_string(), command)
        }
        n => (
            format!(
                "pin its {n} threads to CPUs of their own (OpenMP: as below; pthreads: pthread_setaffinity_np)"
            ),
            format!("OMP_PROC_BIND=true OMP_PLACES=cores {}", program(summary)),
        ),
    };
    Some(Hint {
        kind: "migrations",
        cost_ns,
        text: format!(
            "the kernel moved ready threads to another CPU {count} times, after {} without one; {how}",
            seconds(cost_ns)
        ),
        command: Some(command),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_as_taskset_takes_them() {
        assert_eq!(cpu_list(&[3]), "3");
        assert_eq!(cpu_list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn commands_are_quoted() {
        let summary = Summary {
            command: vec!["sh".into(), "-c".into(), "it's".into()],
            ..Summary::default()
        };
        assert_eq!(program(&summary), "sh -c 'it'\\''s'");
    }
}
