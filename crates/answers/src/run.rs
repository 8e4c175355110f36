//! What is said of the run as a whole, and of how far its recording can be trusted.
use crate::units::{count, duration, percent, plural, printable};
use kasuri_analyze::{LossSummary, Summary};

/// CPU time that the kernel counted and no event showed is worth a line from this share on.
const WORTH_A_LINE: f64 = 0.01;

/// `2.48 s on 2 CPUs, exited with 0 (AMD EPYC, Linux 6.18.44)`.
pub fn run_text(s: &Summary) -> String {
    let kernel = match s.kernel.as_str() {
        "" => String::new(),
        release => format!("Linux {release}"),
    };
    let machine: Vec<String> = [&s.cpu_model, &kernel]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| printable(part))
        .collect();
    let machine = match machine.is_empty() {
        true => String::new(),
        false => format!(" ({})", machine.join(", ")),
    };
    let (wall, exit) = (duration(s.wall_ns as f64), exit_text(s.exit_status));
    // A trace that says nothing of CPUs.
    let cpus = match s.n_cpus {
        0 => String::new(),
        n => format!(" on {}", plural(n.into(), "CPU")),
    };
    format!("{wall}{cpus}{exit}{machine}")
}

/// How far the recording can be trusted, and what it cost.
pub fn quality_text(s: &Summary) -> String {
    let mut parts = vec![losses_text(&s.losses)];
    if let Some(share) = s.tracing.share {
        parts.push(format!("tracing cost the program {} of its CPU time", percent(share)));
    }
    if let Some(cpu) = &s.cpu_time
        && cpu.unseen_share.abs() >= WORTH_A_LINE
    {
        let (share, than) = (percent(cpu.unseen_share.abs()), "than the kernel counted");
        parts.push(match cpu.unseen_ns > 0 {
            true => format!("the events show {share} less CPU time {than}"),
            false => format!("the events show {share} more CPU time {than}"),
        });
    }
    if let Some([from, to]) = s.without_stray_ns {
        parts.push(format!(
            "all but a few time stamps stand within {}",
            duration((to - from) as f64)
        ));
    }
    if !s.missing.is_empty() {
        let n = s.missing.len() as u64;
        parts.push(format!("{} (--section losses)", plural(n, "limitation")));
    }
    parts.join("; ")
}

/// How many events were lost; a loss of an unknown number makes the sum a lower bound. What a
/// flight recorder overwrote, as it was asked to, is no loss.
fn losses_text(losses: &[LossSummary]) -> String {
    let (overwritten, lost): (Vec<_>, Vec<_>) = losses.iter().partition(|l| l.is_by_design());
    // A program that misbehaved may claim any number.
    let sum = |of: &[&LossSummary]| of.iter().fold(0, |sum: u64, l| sum.saturating_add(l.count));
    let more = lost.iter().any(|l| l.count == 0);
    let text = match (lost.is_empty(), sum(&lost), more) {
        (true, ..) => "no events lost".to_owned(),
        (_, 0, _) => "what was lost is not known".to_owned(),
        (_, n, false) => format!("{} lost", plural(n, "event")),
        (_, n, true) => format!("{} or more events lost", count(n)),
    };
    let older = match sum(&overwritten) {
        0 => String::new(),
        n => format!(", {} older ones overwritten", count(n)),
    };
    match losses {
        [] => text,
        _ => format!("{text}{older} (--section losses)"),
    }
}

/// `, exited with 0`; "" where it is not known.
pub fn exit_text(status: Option<i32>) -> String {
    match status {
        Some(status @ 129..=192) => format!(", killed by signal {}", status - 128),
        Some(status) => format!(", exited with {status}"),
        None => String::new(),
    }
}

/// A loss: how many events, where, when and why.
pub fn loss_text(loss: &LossSummary) -> String {
    // Tracers that overwrite old events tell that they did, and not always how many: 0 stands for
    // that.
    let n = if loss.count == 0 { "an unknown number of".into() } else { count(loss.count) };
    let place = match (loss.cpu, loss.tid) {
        (Some(cpu), _) => format!(" on CPU {cpu}"),
        (None, Some(tid)) => format!(" of thread {tid}"),
        (None, None) => String::new(),
    };
    let gaps = if loss.gaps > 1 { format!(" in {} gaps", count(loss.gaps)) } else { String::new() };
    let (from, to) = (duration(loss.from_ns as f64), duration(loss.to_ns as f64));
    format!("{n} events{place}{gaps} between {from} and {to}: {}", printable(&loss.cause))
}
