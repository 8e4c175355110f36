//! The recorder's uprobes: in a group with the name of the tracing instance that records them, and removed with it.
//!
//! A group belongs to the instance of its name. The instance is made before its probes and removed before them, so a
//! group without an instance has no owner: the next recorder removes such groups, which a killed one left behind.
use super::{once_free, patience, read};
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

const FILE: &str = "uprobe_events";

/// A uprobe to be made.
#[derive(Clone, Debug)]
pub struct Uprobe {
    /// `p`: when the place is reached; `r`: when the function that begins there returns.
    pub kind: char,
    /// The event's name, without its group.
    pub event: String,
    /// File, place and what is fetched, as uprobe_events takes them.
    pub text: String,
    /// The information that is lost without it.
    pub use_of_it: &'static str,
}

impl Uprobe {
    /// The event's whole name.
    pub fn name(&self, group: &str) -> String {
        format!("{group}/{}", self.event)
    }
}

/// Probes that exist; removed when dropped.
#[derive(Debug)]
pub struct Probes {
    root: OwnedFd,
    names: Vec<String>,
}

/// The group of an instance's probes: only letters, digits and underscores may be in it.
pub fn group_of(instance: &str) -> String {
    instance.replace('-', "_")
}

impl Probes {
    /// Makes the probes in a group.
    ///
    /// # Errors
    /// When the kernel refuses one; the others are removed then.
    pub fn add(root: &OwnedFd, group: &str, uprobes: &[Uprobe]) -> io::Result<Probes> {
        let mut probes =
            Probes { root: rustix::io::fcntl_dupfd_cloexec(root, 3)?, names: Vec::new() };
        for uprobe in uprobes {
            let name = uprobe.name(group);
            append(root, &format!("{}:{name} {}", uprobe.kind, uprobe.text))?;
            probes.names.push(name);
        }
        Ok(probes)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        remove(&self.root, self.names.iter().map(String::as_str));
    }
}

/// Removes probes. One that another tracer has switched on stays; the next recorder tries again.
fn remove<'a>(root: &OwnedFd, names: impl Iterator<Item = &'a str>) {
    let until = patience();
    for name in names {
        let _ = once_free(until, || append(root, &format!("-:{name}")));
    }
}

/// Appends a line to uprobe_events. The file must be opened for appending: otherwise opening it removes all probes.
fn append(root: impl AsFd, text: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    let fd = openat(root, FILE, flags, Mode::empty())?;
    File::from(fd).write_all(format!("{text}\n").as_bytes())
}

/// Removes the probes of our groups that have no instance. Does nothing when this kernel has no uprobes. `instances`
/// is called after the probes are known: an instance whose probes are made in between is alive.
pub fn reap(
    root: &OwnedFd,
    is_ours: impl Fn(&str) -> bool,
    instances: impl FnOnce() -> Vec<String>,
) {
    let text = read(root, FILE).unwrap_or_default();
    // `p:GROUP/EVENT PATH:OFFSET ...`
    let ours: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split([':', ' ']).nth(1))
        .filter_map(|name| Some((name, name.split_once('/')?.0)))
        .filter(|(_, group)| is_ours(&group.replace('_', "-")))
        .collect();
    if ours.is_empty() {
        return;
    }
    let alive: Vec<String> = instances().iter().map(|name| group_of(name)).collect();
    let dead = ours.iter().filter(|(_, group)| !alive.iter().any(|alive| alive == group));
    remove(root, dead.map(|(name, _)| *name));
}
