//! Finds out whether this kernel hides switches from its trace.
//!
//! Goal: sched_stat_runtime, which has the time that each thread ran, is recorded where the switches do not show it,
//! and only there: it is one more event for each switch. On one virtual machine (Linux 6.18) every switch from the
//! idle thread to another is missing on one CPU.
//!
//! Method: before the recording begins, the recorder moves to each CPU and sleeps there a few times with tracing on.
//! Each time it wakes up, that CPU's buffer must hold a switch to it. A CPU that is never idle meanwhile shows
//! nothing about switches from idle.
use super::instance::Instance;
use super::open_file;
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{EventFormat, Field, Page, PageLayout};
use rustix::fs::OFlags;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

/// The events that show how long threads ran.
pub const RUN_TIME_EVENTS: &[(&str, &str)] =
    &[("sched/sched_stat_runtime", "CPU time as the kernel counts it")];

const SWITCH: &str = "sched/sched_switch";
/// Number and length of the recorder's sleeps on a CPU: a CPU with little to do is idle in one of them.
const NAPS: usize = 4;
const NAP: Duration = Duration::from_micros(50);
/// Most CPUs that are tried, evenly spread over all.
const MOST_CPUS: usize = 16;
/// Pages of a CPU that are examined. The trial fills far fewer.
const MOST_PAGES: usize = 64;

/// The result of a trial on one CPU or on several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hides {
    /// Every switch from idle was in the trace.
    No,
    /// The CPU was never idle.
    NotKnown,
    /// At least one switch was missing.
    Yes,
}

/// Tries the CPUs that this process may use. Tracing must be off and the buffers empty, before and after.
///
/// # Errors
/// When tracing cannot be switched, or a buffer cannot be read.
pub fn hides_switches(instance: &Instance) -> io::Result<Hides> {
    let Some(format) = instance.formats.get(SWITCH) else {
        return Ok(Hides::NotKnown);
    };
    let format = EventFormat::parse(SWITCH, format).map_err(io::Error::other)?;
    let field = |name| format.find(name).map(|ix| format.fields[ix].clone());
    let (Some(prev), Some(next)) = (field("prev_pid"), field("next_pid")) else {
        return Ok(Hides::NotKnown);
    };
    let layout = PageLayout::from_meta(&KernelMeta {
        page_bytes: instance.page_bytes,
        header_page: instance.header_page.clone(),
        big_endian: cfg!(target_endian = "big"),
        ..KernelMeta::default()
    });
    let layout = layout.map_err(io::Error::other)?;
    let before = sched_getaffinity(None)?;
    let allowed: Vec<u32> = (instance.cpus.iter().copied())
        .filter(|&cpu| (cpu as usize) < CpuSet::MAX_CPU && before.is_set(cpu as usize))
        .collect();
    instance.set_tracing(true)?;
    let tried = try_cpus(&allowed);
    let restored = sched_setaffinity(None, &before);
    instance.set_tracing(false)?;
    restored?;
    let mut hides = Hides::No;
    let switch = Switch { id: format.id, prev, next, layout };
    // Reading empties a buffer, so the buffers of all CPUs are read.
    for &cpu in &instance.cpus {
        let pages = pages(instance, cpu)?;
        if tried.contains(&cpu) {
            hides = hides.max(judge(&switch.own(&pages)));
        }
    }
    Ok(hides)
}

/// Sleeps on each CPU. Returns those to which this thread could move.
fn try_cpus(allowed: &[u32]) -> Vec<u32> {
    let step = allowed.len().div_ceil(MOST_CPUS).max(1);
    let mut tried = Vec::new();
    for &cpu in allowed.iter().step_by(step) {
        let mut one = CpuSet::new();
        one.set(cpu as usize);
        if sched_setaffinity(None, &one).is_ok() {
            (0..NAPS).for_each(|_| std::thread::sleep(NAP));
            tried.push(cpu);
        }
    }
    tried
}

/// Empties a CPU's buffer. Returns its first pages.
fn pages(instance: &Instance, cpu: u32) -> io::Result<Vec<Vec<u8>>> {
    let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
    let mut file = File::from(open_file(instance.dir(), &name, OFlags::NONBLOCK)?);
    let mut pages = Vec::new();
    loop {
        let mut page = vec![0; instance.page_bytes as usize];
        match file.read(&mut page) {
            Ok(0) => return Ok(pages),
            Ok(_) if pages.len() < MOST_PAGES => pages.push(page),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(pages),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The fields of sched_switch.
struct Switch {
    id: u16,
    prev: Field,
    next: Field,
    layout: PageLayout,
}

/// A switch of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    Left,
    CameFromIdle,
    CameFromThread,
}

impl Switch {
    /// The switches of this process, in order.
    fn own(&self, pages: &[Vec<u8>]) -> Vec<Own> {
        let me = i64::from(std::process::id());
        let big_endian = self.layout.big_endian;
        let mut out = Vec::new();
        for page in pages {
            let Ok(page) = Page::parse(page, &self.layout, 0) else {
                continue;
            };
            for event in page.events().map_while(|event| event.ok()) {
                if event.id(big_endian) != Some(self.id) {
                    continue;
                }
                let pid = |field: &Field| field.int(event.data, 0, big_endian);
                match (pid(&self.prev), pid(&self.next)) {
                    (Some(prev), _) if prev == me => out.push(Own::Left),
                    (Some(0), Some(next)) if next == me => out.push(Own::CameFromIdle),
                    (Some(_), Some(next)) if next == me => out.push(Own::CameFromThread),
                    _ => {}
                }
            }
        }
        out
    }
}

/// Judges the switches of a thread on one CPU: it cannot leave twice without coming back in between.
fn judge(own: &[Own]) -> Hides {
    if own.windows(2).any(|two| two == [Own::Left, Own::Left]) {
        Hides::Yes
    } else if own.contains(&Own::CameFromIdle) {
        Hides::No
    } else {
        Hides::NotKnown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Own::*;

    #[test]
    fn a_thread_that_leaves_twice_came_by_a_hidden_switch() {
        assert_eq!(judge(&[Left, CameFromIdle, Left, CameFromThread]), Hides::No);
        assert_eq!(judge(&[Left, CameFromIdle, Left, Left]), Hides::Yes);
        // Its first arrival is by migration, and may be before tracing began.
        assert_eq!(judge(&[CameFromThread, Left, CameFromThread]), Hides::NotKnown);
        assert_eq!(judge(&[]), Hides::NotKnown);
        assert!(Hides::No < Hides::NotKnown && Hides::NotKnown < Hides::Yes);
    }
}
