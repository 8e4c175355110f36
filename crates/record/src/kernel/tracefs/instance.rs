//! A private tracing instance: its own buffers, clock and event switches, invisible to every other tracer.
//!
//! Goal: the kernel is left exactly as found. Normal ends, errors and panics remove the instance in `Drop`; after
//! SIGKILL the next recorder does. It must never remove the instance of a recorder that lives, so each recorder holds
//! a flock(2) on its instance's directory. The kernel releases the lock when the holder dies, whatever kills it. A
//! pid and start time in the name would do the same, but not across pid namespaces, and the code would have to be
//! right about pid reuse.
use super::events::{Catalogue, Formats, page_bytes};
use super::probes::{self, Probes, Uprobe};
use super::{Tracefs, once_free, open_dir, patience, read, write};
use crate::guard::{held, safefs};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, flock, mkdirat, unlinkat};
use rustix::process::{Pid, test_kill_process};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Prefix of our instances' names. The recorder's pid, `-` and eight hexadecimal digits follow.
const PREFIX: &str = "kasuri-";

/// Whether a recorder made the instance of this name; a user may have an instance of their own called `kasuri-test`.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok() && random.len() == 8 && u32::from_str_radix(random, 16).is_ok()
    })
}

/// The events to record, and the way to record them.
#[derive(Clone, Debug)]
pub struct InstanceOptions {
    /// Buffer of each CPU, KiB.
    pub buffer_kb: u64,
    /// Whether to request the `x86-tsc` clock: the caller has seen that the kernel trusts the TSC.
    pub tsc: bool,
    /// Events wanted, with the information that is lost without each.
    pub events: Vec<(String, String)>,
    /// Uprobes to make, which go with the instance.
    pub uprobes: Vec<Uprobe>,
}

/// A live instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    parent: OwnedFd,
    name: String,
    dir: Option<OwnedFd>,
    catalogue: Option<Catalogue>,
    probes: Option<Probes>,
    /// Events that were switched off for good.
    dropped: BTreeSet<String>,
    /// CPUs it has buffers for, ascending.
    pub cpus: Vec<u32>,
    /// The clock in use, as tracefs names it.
    pub clock: String,
    /// Buffer of each CPU, KiB, as granted.
    pub buffer_kb: u64,
    /// Bytes of a sub-buffer of the ring: the unit that tracefs hands over.
    pub page_bytes: u32,
    /// Text of `header_page`.
    pub header_page: String,
    /// Formats of the enabled events.
    pub formats: Formats,
    /// Events that were wanted and are not recorded, with the information that is lost: "name: loss".
    pub missing: Vec<String>,
}

impl Instance {
    /// Makes an instance with all events switched on and tracing itself still off.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind then.
    pub fn create(tracefs: &Tracefs, options: &InstanceOptions) -> io::Result<Instance> {
        let mut instance = Instance::make(tracefs)?;
        let mut events = options.events.clone();
        if !options.uprobes.is_empty() {
            let group = instance.group();
            instance.probes = Some(Probes::add(tracefs.root(), &group, &options.uprobes)?);
            let named = options.uprobes.iter();
            events.extend(named.map(|u| (u.name(&group), u.use_of_it.to_owned())));
        }
        instance.set_up(options, &events)?;
        Ok(instance)
    }

    fn make(tracefs: &Tracefs) -> io::Result<Instance> {
        let parent = open_dir(tracefs.root(), "instances")?;
        for _ in 0..16 {
            let name =
                format!("{PREFIX}{}-{:08x}", std::process::id(), crate::random::random_u32());
            mkdirat(&parent, name.as_str(), Mode::from_raw_mode(0o700))?;
            let dir = open_dir(&parent, &name)?;
            // Between mkdir and here another recorder's clean-up may have seen the directory without a lock and be
            // about to remove it. Then either the lock or the file below is refused, and we try again.
            let ours = flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
                && read(&dir, "tracing_on").is_ok();
            let instance = Instance {
                parent: rustix::io::fcntl_dupfd_cloexec(&parent, 3)?,
                name,
                dir: Some(dir),
                catalogue: None,
                probes: None,
                dropped: BTreeSet::new(),
                cpus: Vec::new(),
                clock: String::new(),
                buffer_kb: 0,
                page_bytes: 4096,
                header_page: String::new(),
                formats: Formats::new(),
                missing: Vec::new(),
            };
            if ours {
                return Ok(instance);
            }
        }
        Err(io::Error::other("instances disappear as soon as they are created"))
    }

    fn set_up(&mut self, options: &InstanceOptions, events: &[(String, String)]) -> io::Result<()> {
        let dir = self.dir.as_ref().expect("a live instance has its directory");
        write(dir, "tracing_on", "0")?;
        // The clock first: changing it empties the buffers, which costs more when they are large.
        self.clock = if options.tsc && write(dir, "trace_clock", "x86-tsc").is_ok() {
            "x86-tsc".to_owned()
        } else {
            write(dir, "trace_clock", "mono")?;
            "mono".to_owned()
        };
        // sched_switch carries the names itself; record-cmd would double its cost.
        let _ = write(dir, "trace_options", "norecord-cmd");
        // The newest events matter most, and only overwritten pages are flagged in the pages themselves.
        let _ = write(dir, "trace_options", "overwrite");
        self.buffer_kb = set_buffer(dir, options.buffer_kb)?;
        let catalogue = Catalogue::open(dir)?;
        self.header_page = catalogue.header_page()?;
        self.page_bytes = page_bytes(&self.header_page)
            .ok_or_else(|| io::Error::other("events/header_page has no data field"))?;
        self.cpus = cpus(dir)?;
        let events = expand(&catalogue, events);
        self.catalogue = Some(catalogue);
        for (event, use_of_it) in &events {
            self.add_event(event, use_of_it);
        }
        Ok(())
    }

    /// Switches one more event on. An event that the kernel refuses is added to `missing`.
    pub fn add_event(&mut self, event: &str, use_of_it: &str) {
        let catalogue = self.catalogue.as_ref().expect("set up");
        match catalogue.format(event) {
            Some(format) if self.switch(event, true).is_ok() => {
                self.formats.insert(event.to_owned(), format);
            }
            Some(_) => {
                self.missing.push(format!("cannot enable kernel event {event}: no {use_of_it}"))
            }
            None => self.missing.push(format!("this kernel has no event {event}: no {use_of_it}")),
        }
    }

    /// Lets an event be written only when this holds of its fields.
    ///
    /// # Errors
    /// When the kernel does not take the condition.
    pub fn set_filter(&self, event: &str, filter: &str) -> io::Result<()> {
        let catalogue = self.catalogue.as_ref().expect("set up");
        catalogue.set_filter(event, filter)
    }

    /// Its directory.
    pub fn dir(&self) -> &OwnedFd {
        self.dir.as_ref().expect("a live instance has its directory")
    }

    /// Its name below `instances/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The group of its uprobes.
    pub fn group(&self) -> String {
        probes::group_of(&self.name)
    }

    /// Switches each of its events on or off; those that were dropped stay off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn select(&self, on: impl Fn(&str) -> bool) -> io::Result<()> {
        self.formats.keys().try_for_each(|event| {
            let is_on = on(event) && !self.dropped.contains(event);
            self.switch(event, is_on)
        })
    }

    /// Switches an event off for good.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn drop_event(&mut self, event: &str) -> io::Result<()> {
        self.dropped.insert(event.to_owned());
        self.switch(event, false)
    }

    /// Switches an event on or off. Uprobes change code of programs that run, which may have to wait for that.
    fn switch(&self, event: &str, on: bool) -> io::Result<()> {
        let catalogue = self.catalogue.as_ref().expect("set up");
        let switch = || catalogue.enable(event, on);
        match self.probes.is_some() && event.starts_with(&self.group()) {
            true => held::time(held::By::Probe, switch),
            false => switch(),
        }
    }

    /// Does work while one more event is on and tracing too, then forgets what was recorded. Tracing must be off and the buffers
    /// empty before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn with_event<T>(&self, event: &str, work: impl FnOnce() -> T) -> io::Result<T> {
        let catalogue = self.catalogue.as_ref().expect("set up");
        catalogue.enable(event, true)?;
        let done = self.set_tracing(true).map(|()| work());
        let stopped = self.set_tracing(false);
        let disabled = catalogue.enable(event, false);
        super::empty(self.dir())?;
        stopped.and(disabled)?;
        done
    }

    /// Starts or stops writing into the buffers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_tracing(&self, on: bool) -> io::Result<()> {
        write(self.dir(), "tracing_on", if on { "1" } else { "0" })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(catalogue) = self.catalogue.take() {
            let _ = catalogue.disable_all();
        }
        // The lock must outlive the directory's name, or another recorder starts to remove the directory too:
        // harmless, but its message would name an instance that never was stale.
        let dir = self.dir.take();
        let _ = remove(&self.parent, &self.name);
        self.probes = None;
        drop(dir);
    }
}

/// Removes an instance. Open files of it in a dying splice keep it busy for a moment.
fn remove(parent: impl AsFd, name: &str) -> io::Result<()> {
    once_free(patience(), || Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?))
}

/// Sets the size, halving it while the kernel has no memory for it.
fn set_buffer(dir: &OwnedFd, wanted_kb: u64) -> io::Result<u64> {
    let page_kb = rustix::param::page_size() as u64 / 1024;
    let mut kb = wanted_kb;
    let mut sub_buffer_kb = sub_buffer_kb(kb).max(page_kb);
    loop {
        // Kernels before 6.8 have sub-buffers of a page and no such file.
        let _ = write(dir, "buffer_subbuf_size_kb", &sub_buffer_kb.to_string());
        match write(dir, "buffer_size_kb", &kb.to_string()) {
            Ok(()) => return Ok(kb),
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && sub_buffer_kb > page_kb => {
                // There may be free pages, but not next to each other.
                sub_buffer_kb = page_kb;
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && kb > 512 => kb /= 2,
            Err(e) => return Err(e),
        }
    }
}

/// The size of a sub-buffer, the unit that goes from the kernel to us. Each one costs the traced program and us about
/// the same whatever its size, so they are large (`bench/overhead/run --part programs`, dd: 2.1 times the untraced
/// CPU time; with 4 KiB here, 2.35). Small buffers are still divided into many.
fn sub_buffer_kb(buffer_kb: u64) -> u64 {
    const MOST_KB: u64 = 64;
    const SUB_BUFFERS: u64 = 64;
    let kb = (buffer_kb / SUB_BUFFERS).clamp(1, MOST_KB);
    1 << kb.ilog2()
}

/// Expands `system/*` and `*/*` to the events that exist.
fn expand(catalogue: &Catalogue, events: &[(String, String)]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut push = |name: String, lost: &str| {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, lost.to_owned()));
        }
    };
    for (event, lost) in events {
        match event.strip_suffix("/*") {
            None => push(event.clone(), lost),
            Some(system) => catalogue
                .names()
                .into_iter()
                .filter(|name| {
                    let own = name.split('/').next();
                    // ftrace's own formats are not events that can be switched on.
                    own != Some("ftrace") && (system == "*" || own == Some(system))
                })
                .for_each(|name| push(name, lost)),
        }
    }
    all
}

fn cpus(dir: &OwnedFd) -> io::Result<Vec<u32>> {
    let mut cpus: Vec<u32> = names(open_dir(dir, "per_cpu")?)?
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .collect();
    cpus.sort_unstable();
    Ok(cpus)
}

fn names(dir: OwnedFd) -> io::Result<Vec<String>> {
    let entries = Dir::new(dir)?.filter_map(|entry| entry.ok());
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Names of instances whose recorder is dead.
pub fn stale(tracefs: &Tracefs) -> Vec<String> {
    for_each_dead(tracefs, |_, _, _| {})
}

/// Removes the instances of recorders that were killed. Returns their names.
pub fn reap_dead(tracefs: &Tracefs) -> Vec<String> {
    let dead = for_each_dead(tracefs, |parent, dir, name| {
        let _ = write(dir, "tracing_on", "0");
        if let Ok(catalogue) = Catalogue::open(dir) {
            let _ = catalogue.disable_all();
        }
        let _ = remove(parent, name);
    });
    // Without the list, no instance is known to be dead.
    let instances = || open_dir(tracefs.root(), "instances").and_then(names);
    if instances().is_ok() {
        probes::reap(tracefs.root(), is_ours, || instances().unwrap_or_default());
    }
    dead
}

/// Whether no process here has the number in an instance's name.
fn is_gone(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let pid = pid.and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?));
    pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn for_each_dead(tracefs: &Tracefs, mut act: impl FnMut(&OwnedFd, &OwnedFd, &str)) -> Vec<String> {
    let Ok(parent) = open_dir(tracefs.root(), "instances") else {
        return Vec::new();
    };
    let Ok(listing) = open_dir(&parent, ".").and_then(names) else {
        return Vec::new();
    };
    let mut dead = Vec::new();
    for name in listing.into_iter().filter(|name| is_ours(name)) {
        let Ok(dir) = open_dir(&parent, &name) else {
            continue;
        };
        let is_free = match is_gone(&name) {
            true => safefs::lock_soon(&dir).is_ok(),
            false => flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok(),
        };
        if is_free {
            act(&parent, &dir, &name);
            dead.push(name);
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::{is_ours, sub_buffer_kb};

    #[test]
    fn buffers_are_divided_into_many_sub_buffers() {
        let kb = [16384, 4096, 4095, 512, 64, 1].map(sub_buffer_kb);
        assert_eq!(kb, [64, 64, 32, 8, 1, 1]);
    }

    #[test]
    fn only_names_that_a_recorder_gives_are_ours() {
        assert!(is_ours("kasuri-4711-00c0ffee"));
        for other in [
            "kasuri-referee",
            "kasuri-4711",
            "kasuri-4711-c0ffee",
            "kasuri-4711-00c0ffee-2",
            "kasuri-x-00c0ffee",
            "other-4711-00c0ffee",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
