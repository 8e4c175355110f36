//! Limits that keep a program from CPUs of the machine: CPU limits of cgroups, cpusets, affinity masks.
//!
//! A limit of any cgroup above the program's holds too, so all on the way to the root are read. The kernel has no
//! event for throttling. Its counters (`cpu.stat`) are read at every tick while there is a limit, and the row before
//! a rise is kept too, so the analysis knows within a tick when a queue was released. A program and its children may
//! move to another cgroup after its start (containers and `cgexec` begin that way), so their cgroups are looked up
//! often in the beginning, then at longer distances.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst (`cpu.max`, `cpu.stat`, `cpuset.cpus.effective`) and, for version
//! 1, Documentation/scheduler/sched-bwc.rst (`cpu.cfs_quota_us`, `cpu.cfs_period_us`).
use crate::guard::bounds::MAX_CGROUPS;
use kasuri_format::meta::LimitRow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes, and threads of each, that one look reads. Further ones share the cgroup and mask of some that were
/// read, or are missed.
const MAX_ASKED: usize = 128;
/// Threads, of all processes together, whose masks one look reads.
const MAX_MASKS: usize = 1024;
/// The program's cgroups are looked up whenever a tenth of its time so far has passed, and at least this often.
const SELDOM: Duration = Duration::from_millis(250);
/// Shortest distance between two readings of the counters.
const COUNTERS: Duration = Duration::from_millis(4);

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    dir: PathBuf,
    /// The cgroup at `dir`.
    root: String,
    /// Version 1: the controller in the lines of /proc/PID/cgroup; empty: version 2.
    controller: &'static str,
}

/// The mounts of the controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    cpu: Option<Mount>,
    cpuset: Option<Mount>,
}

/// A CPU limit as its files state it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// `cpu.max 30000 100000`.
    pub text: String,
    /// CPU time in a period, us.
    pub quota_us: u64,
    /// The period, us.
    pub period_us: u64,
}

impl Quota {
    /// The limit as a number of CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }
}

impl Cgroups {
    /// The cgroup mounts in this process's mount name space.
    pub fn find() -> Cgroups {
        Cgroups::parse(&read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(mountinfo: &str) -> Cgroups {
        let mount = |controller: &'static str| {
            mountinfo.lines().find_map(|line| {
                let (front, back) = line.split_once(" - ")?;
                let front: Vec<&str> = front.split(' ').collect();
                let back: Vec<&str> = back.split(' ').collect();
                let (fs, options) = (*back.first()?, *back.get(2)?);
                let fits = match controller {
                    "" => fs == "cgroup2",
                    name => fs == "cgroup" && options.split(',').any(|o| o == name),
                };
                fits.then(|| Mount {
                    dir: PathBuf::from(front[4]),
                    root: front[3].to_owned(),
                    controller,
                })
            })
        };
        // Where both versions are mounted, a controller is in one of them only: version 1 first.
        Cgroups {
            cpu: mount("cpu").or_else(|| mount("")),
            cpuset: mount("cpuset").or_else(|| mount("")),
        }
    }

    /// The cgroup that limits a process's CPU time, from the text of /proc/PID/cgroup.
    fn group(mount: &Mount, text: &str) -> Option<String> {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let fits = match mount.controller {
                "" => id == "0" && controllers.is_empty(),
                name => controllers.split(',').any(|c| c == name),
            };
            fits.then(|| path.to_owned())
        })
    }

    /// `group` and all cgroups above it, as far as they are mounted, the innermost first.
    fn upwards(mount: &Mount, group: &str) -> Vec<(String, PathBuf)> {
        let mut out = Vec::new();
        let mut at = group;
        loop {
            let below = match mount.root.as_str() {
                "/" => Some(at),
                root => at.strip_prefix(root),
            };
            match below {
                Some(below) if !below.contains("..") => {
                    out.push((at.to_owned(), mount.dir.join(below.trim_start_matches('/'))));
                }
                _ => break,
            }
            match at.rfind('/') {
                Some(end) if at.len() > 1 => at = if end == 0 { "/" } else { &at[..end] },
                _ => break,
            }
        }
        if out.is_empty() {
            out.push((group.to_owned(), mount.dir.clone()));
        }
        out
    }

    /// The CPU limits that hold for a process, the innermost cgroup first.
    pub fn quotas(&self, pid: i32) -> Vec<(String, Quota)> {
        let text = read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let Some(mount) = &self.cpu else {
            return Vec::new();
        };
        let group = Cgroups::group(mount, &text).unwrap_or_else(|| "/".to_owned());
        Cgroups::upwards(mount, &group)
            .into_iter()
            .filter_map(|(group, dir)| Some((group, quota(&dir)?)))
            .collect()
    }

    /// The limits of a process's cgroup and all above it, and how long they held off its threads so far; `None`: there are none.
    pub fn throttling(&self, pid: i32) -> Option<Throttling> {
        let text = read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mount = self.cpu.as_ref()?;
        let group = Cgroups::group(mount, &text)?;
        let mut found: Option<Throttling> = None;
        for (_, dir) in Cgroups::upwards(mount, &group) {
            let Some(quota) = quota(&dir) else { continue };
            let stat = read_to_string(dir.join("cpu.stat")).unwrap_or_default();
            let of_this = Throttling { cpus: quota.cpus(), throttled_ns: throttled(&stat).1 };
            found = Some(match found {
                None => of_this,
                Some(inner) => Throttling {
                    cpus: inner.cpus.min(of_this.cpus),
                    throttled_ns: inner.throttled_ns.max(of_this.throttled_ns),
                },
            });
        }
        found
    }

    /// The CPUs that a process's cpuset allows; empty when unknown.
    pub fn cpuset(&self, pid: i32) -> String {
        let text = read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let Some(mount) = &self.cpuset else {
            return String::new();
        };
        let group = Cgroups::group(mount, &text).unwrap_or_else(|| "/".to_owned());
        let files = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
        let mut found = Cgroups::upwards(mount, &group)
            .into_iter()
            .flat_map(|(_, dir)| files.map(|file| dir.join(file)))
            .filter_map(|path| read_to_string(path).ok())
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty());
        found.next().unwrap_or_default()
    }
}

/// CPU limits of a process, of all its cgroups together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttling {
    /// The strictest limit, as a number of CPUs.
    pub cpus: f64,
    /// For how long the cgroup that was throttled most was throttled so far, ns.
    pub throttled_ns: u64,
}

/// The CPU limit of the cgroup at `dir`, of either version.
pub fn quota(dir: &Path) -> Option<Quota> {
    let read = |name: &str| read_to_string(dir.join(name)).ok();
    if let Some(text) = read("cpu.max") {
        let mut words = text.split_ascii_whitespace();
        let quota_us = words.next()?.parse().ok()?;
        let period_us = words.next()?.parse().ok()?;
        return Some(Quota { text: format!("cpu.max {}", text.trim()), quota_us, period_us });
    }
    let quota_us = read("cpu.cfs_quota_us")?.trim().parse().ok()?;
    let period_us = read("cpu.cfs_period_us")?.trim().parse().ok()?;
    Some(Quota {
        text: format!("cpu.cfs_quota_us {quota_us}, cpu.cfs_period_us {period_us}"),
        quota_us,
        period_us,
    })
}

/// `nr_throttled` and the throttled time, ns, of a `cpu.stat` of either version.
fn throttled(stat: &str) -> (u64, u64) {
    let value = |key: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(k, _)| *k == key)?.1.trim().parse::<u64>().ok()
    };
    let ns = value("throttled_time").or_else(|| Some(value("throttled_usec")? * 1000));
    (value("nr_throttled").unwrap_or(0), ns.unwrap_or(0))
}

/// The CPUs that a thread may use.
pub fn affinity(tid: i32) -> Option<BTreeSet<u32>> {
    let pid = rustix::process::Pid::from_raw(tid)?;
    let set = rustix::thread::sched_getaffinity(Some(pid)).ok()?;
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    Some(cpus.filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Writes a list such as `0-2,5`.
pub fn list(cpus: &BTreeSet<u32>) -> String {
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

/// One cgroup on the way from the program's cgroup to the root.
#[derive(Debug, Default)]
struct Watched {
    dir: PathBuf,
    quota: Option<Quota>,
    /// The last reading, and whether the recording has it.
    last: LimitRow,
    is_written: bool,
}

/// Watches the limits of a program.
#[derive(Debug)]
pub struct Limits {
    cgroups: Cgroups,
    online: BTreeSet<u32>,
    groups: BTreeMap<String, Watched>,
    /// The program was in more cgroups than can be watched.
    is_crowded: bool,
    of_process: BTreeMap<i32, String>,
    cpus: (String, String),
    /// By thread the mask that the recording has last.
    masks: BTreeMap<i32, String>,
    /// The time of the first look, at which the program exists.
    began: Option<Instant>,
    looked: Option<Instant>,
    counted: Option<Instant>,
}

impl Limits {
    /// A watch that has not looked at anything yet.
    pub fn new(online: &[u32]) -> Limits {
        Limits {
            cgroups: Cgroups::find(),
            online: online.iter().copied().collect(),
            groups: BTreeMap::new(),
            is_crowded: false,
            of_process: BTreeMap::new(),
            cpus: Default::default(),
            masks: BTreeMap::new(),
            began: None,
            looked: None,
            counted: None,
        }
    }

    /// The limits that the recording does not show, in words.
    pub fn missing(&self) -> Option<String> {
        self.is_crowded.then(|| {
            format!(
                "CPU limits of more than {MAX_CGROUPS} cgroups: the program was in more, and what the limits of the others took \
                 counts as interference or scheduling delay"
            )
        })
    }

    /// New rows for `limits.jsonl`. `roots`: the program's processes. With `end`, all is read once more.
    pub fn look(&mut self, roots: &[i32], end: bool) -> Vec<LimitRow> {
        let now = Instant::now();
        let mut rows = Vec::new();
        let is_due = |last: Option<Instant>, pause| last.is_none_or(|at| now >= at + pause);
        let began = *self.began.get_or_insert(now);
        let pause = ((now - began) / 10).min(SELDOM);
        if end || is_due(self.looked, pause) {
            self.looked = Some(now);
            let pids = family(roots);
            self.find_groups(&pids, &mut rows);
            self.find_cpus(&pids, &mut rows);
            self.counted = None;
        }
        if end || is_due(self.counted, COUNTERS) {
            self.counted = Some(now);
            for (group, watched) in &mut self.groups {
                watched.count(group, end, &mut rows);
            }
        }
        rows
    }

    fn find_groups(&mut self, pids: &[i32], rows: &mut Vec<LimitRow>) {
        let Some(mount) = &self.cgroups.cpu else {
            return;
        };
        for &pid in pids {
            let Ok(text) = read_to_string(format!("/proc/{pid}/cgroup")) else {
                continue;
            };
            let Some(group) = Cgroups::group(mount, &text) else {
                continue;
            };
            if self.of_process.get(&pid) == Some(&group) {
                continue;
            }
            for (path, dir) in Cgroups::upwards(mount, &group) {
                if self.groups.len() >= MAX_CGROUPS && !self.groups.contains_key(&path) {
                    self.is_crowded = true;
                    continue;
                }
                self.groups.entry(path).or_insert_with(|| Watched { dir, ..Watched::default() });
            }
            rows.push(LimitRow {
                monotonic_ns: crate::clock::monotonic_ns(),
                pid,
                group: group.clone(),
                ..LimitRow::default()
            });
            self.of_process.insert(pid, group);
        }
        self.of_process.retain(|pid, _| pids.contains(pid));
        // A limit may be set, changed or lifted at any time.
        for watched in self.groups.values_mut() {
            let quota = quota(&watched.dir);
            if quota != watched.quota {
                watched.quota = quota;
                watched.last = LimitRow::default();
            }
        }
    }

    /// The threads' masks, and what they allow together.
    fn find_cpus(&mut self, pids: &[i32], rows: &mut Vec<LimitRow>) {
        let mut union = BTreeSet::new();
        let threads = |&pid: &i32| crate::program::procs::threads(pid).into_iter().take(MAX_ASKED);
        let read = pids.iter().flat_map(threads).take(MAX_MASKS);
        let masks: BTreeMap<i32, String> = read
            .filter_map(|tid| {
                let mut mask = affinity(tid)?;
                mask.retain(|cpu| self.online.contains(cpu));
                union.extend(&mask);
                (!mask.is_empty()).then(|| (tid, list(&mask)))
            })
            .collect();
        self.add_masks(masks, rows);
        let Some(&first) = pids.first().filter(|_| !union.is_empty()) else {
            return;
        };
        let cpus = (list(&union), self.cgroups.cpuset(first));
        if cpus != self.cpus {
            self.cpus = cpus.clone();
            rows.push(LimitRow {
                monotonic_ns: crate::clock::monotonic_ns(),
                cpus: cpus.0,
                cpuset: cpus.1,
                ..LimitRow::default()
            });
        }
    }

    /// A row for each mask that threads have and had not at the look before.
    fn add_masks(&mut self, masks: BTreeMap<i32, String>, rows: &mut Vec<LimitRow>) {
        let mut changed: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (&tid, mask) in masks.iter().filter(|(tid, mask)| self.masks.get(tid) != Some(mask)) {
            changed.entry(mask.as_str()).or_default().push(tid);
        }
        rows.extend(changed.into_iter().map(|(mask, tids)| LimitRow {
            monotonic_ns: crate::clock::monotonic_ns(),
            mask: mask.to_owned(),
            tids,
            ..LimitRow::default()
        }));
        self.masks = masks;
    }
}

impl Watched {
    /// Reads the counters. The reading before a rise is written with it: throttling took place in between.
    fn count(&mut self, group: &str, end: bool, rows: &mut Vec<LimitRow>) {
        let had_none = self.last.quota_us == 0;
        let Some(quota) = &self.quota else {
            if !had_none {
                self.last = LimitRow::default();
                rows.push(LimitRow {
                    monotonic_ns: crate::clock::monotonic_ns(),
                    group: group.to_owned(),
                    ..LimitRow::default()
                });
            }
            return;
        };
        let Ok(stat) = read_to_string(self.dir.join("cpu.stat")) else {
            return;
        };
        let (n_throttled, throttled_ns) = throttled(&stat);
        let row = LimitRow {
            monotonic_ns: crate::clock::monotonic_ns(),
            group: group.to_owned(),
            text: quota.text.clone(),
            quota_us: quota.quota_us,
            period_us: quota.period_us,
            n_throttled,
            throttled_ns,
            ..LimitRow::default()
        };
        let rose =
            row.throttled_ns != self.last.throttled_ns || n_throttled != self.last.n_throttled;
        if rose && !had_none && !self.is_written {
            rows.push(self.last.clone());
        }
        self.is_written = rose || had_none || end;
        if self.is_written {
            rows.push(row.clone());
        }
        self.last = row;
    }
}

/// The processes and their descendants, up to the number that one look reads.
fn family(roots: &[i32]) -> Vec<i32> {
    let mut all: Vec<i32> = roots.to_vec();
    let mut at = 0;
    while at < all.len() && all.len() < MAX_ASKED {
        let pid = all[at];
        at += 1;
        for tid in crate::program::procs::threads(pid).into_iter().take(MAX_ASKED) {
            let children = read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            let children = children.unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|c| c.parse().ok());
            for child in children {
                if all.len() < MAX_ASKED && !all.contains(&child) {
                    all.push(child);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(dir).expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.join(name), text).expect("a file");
        }
    }

    #[test]
    fn mounts_of_both_versions_are_found() {
        let hybrid = "30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                      31 24 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let found = Cgroups::parse(hybrid);
        let cpu = found.cpu.expect("a cpu controller");
        assert_eq!((cpu.dir.as_path(), cpu.controller), (Path::new("/sys/fs/cgroup/cpu"), "cpu"));
        assert_eq!(found.cpuset.expect("version 2").controller, "");
        let own = "9:cpuset:/x\n3:cpu,cpuacct:/docker/1/q\n0::/init.scope\n";
        assert_eq!(Cgroups::group(&cpu, own).as_deref(), Some("/docker/1/q"));
        let two = Cgroups::parse("1 2 0:1 /docker/1 /sys/fs/cgroup rw - cgroup2 none rw\n").cpu;
        assert_eq!(Cgroups::group(&two.expect("version 2"), own).as_deref(), Some("/init.scope"));
    }

    #[test]
    fn every_cgroup_on_the_way_up_counts() {
        let mount =
            |root: &str| Mount { dir: PathBuf::from("/m"), root: root.to_owned(), controller: "" };
        let names = |root: &str, group: &str| -> Vec<(String, String)> {
            let up = Cgroups::upwards(&mount(root), group).into_iter();
            up.map(|(g, d)| (g, d.display().to_string())).collect()
        };
        let row = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(names("/", "/a/b"), [row("/a/b", "/m/a/b"), row("/a", "/m/a"), row("/", "/m/")]);
        // A container's mount begins at its own cgroup.
        assert_eq!(names("/d/1", "/d/1/q"), [row("/d/1/q", "/m/q"), row("/d/1", "/m/")]);
        // In a cgroup name space the cgroups above it are invisible.
        assert_eq!(names("/", "/../x"), [row("/../x", "/m")]);
    }

    #[test]
    fn limits_and_counters_of_version_2() {
        let dir = tempfile::tempdir().expect("a directory");
        files(dir.path(), &[("cpu.max", "30000 100000\n")]);
        let found = quota(dir.path()).expect("a limit");
        assert_eq!((found.text.as_str(), found.cpus()), ("cpu.max 30000 100000", 0.3));
        files(dir.path(), &[("cpu.max", "max 100000\n")]);
        assert_eq!(quota(dir.path()), None);
        let stat = "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 70\nnr_bursts 0\n";
        assert_eq!(throttled(stat), (4, 70_000));
    }

    #[test]
    fn limits_and_counters_of_version_1() {
        let dir = tempfile::tempdir().expect("a directory");
        let period = ("cpu.cfs_period_us", "100000\n");
        files(dir.path(), &[("cpu.cfs_quota_us", "3000\n"), period]);
        let found = quota(dir.path()).expect("a limit");
        assert_eq!(found.text, "cpu.cfs_quota_us 3000, cpu.cfs_period_us 100000");
        assert_eq!((found.quota_us, found.period_us), (3000, 100_000));
        files(dir.path(), &[("cpu.cfs_quota_us", "-1\n")]);
        assert_eq!(quota(dir.path()), None);
        assert_eq!(
            throttled("nr_periods 1\nnr_throttled 17\nthrottled_time 1270320348\n"),
            (17, 1_270_320_348)
        );
    }

    #[test]
    fn a_reading_is_written_when_it_rises_together_with_the_one_before() {
        let dir = tempfile::tempdir().expect("a directory");
        files(dir.path(), &[("cpu.max", "1000 10000\n")]);
        let mut watched =
            Watched { dir: dir.path().to_owned(), quota: quota(dir.path()), ..Watched::default() };
        let mut counts = Vec::new();
        for (throttled, end) in [(5, false), (5, false), (5, false), (9, false), (9, true)] {
            let stat = format!("nr_periods 1\nnr_throttled 1\nthrottled_usec {throttled}\n");
            files(dir.path(), &[("cpu.stat", &stat)]);
            let mut rows = Vec::new();
            watched.count("/q", end, &mut rows);
            counts.push(rows.iter().map(|r| r.throttled_ns / 1000).collect::<Vec<_>>());
        }
        assert_eq!(counts, [vec![5], vec![], vec![], vec![5, 9], vec![9]]);
    }

    #[test]
    fn a_program_that_makes_cgroups_without_end_makes_the_recorder_watch_some() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut limits = Limits::new(&[0]);
        assert_eq!(limits.missing(), None);
        // This process's cgroup, below more cgroups than are watched.
        let path = std::fs::read_to_string("/proc/self/cgroup").expect("cgroups");
        let Some(mut mount) = limits.cgroups.cpu.take() else {
            return;
        };
        let Some(own) = Cgroups::group(&mount, &path) else {
            return;
        };
        mount.dir = dir.path().to_owned();
        limits.cgroups.cpu = Some(mount);
        for n in 0..MAX_CGROUPS {
            limits.groups.insert(format!("/other-{n}"), Watched::default());
        }
        limits.of_process.insert(i32::MAX, "/gone".to_owned());
        let mut rows = Vec::new();
        limits.find_groups(&[std::process::id() as i32], &mut rows);
        assert_eq!(limits.groups.len(), MAX_CGROUPS);
        assert!(limits.missing().is_some());
        assert_eq!(rows.len(), 1, "where the process is is written all the same");
        assert_eq!((rows[0].group.as_str(), limits.of_process.len()), (own.as_str(), 1));
    }

    /// A thread with the mask it had is no news; a mask of another thread, or another mask, is.
    #[test]
    fn masks_are_written_when_they_change() {
        let mut limits = Limits::new(&[0, 1, 2]);
        let mut look = |masks: &[(i32, &str)]| {
            let mut rows = Vec::new();
            let masks = masks.iter().map(|(tid, mask)| (*tid, (*mask).to_owned()));
            limits.add_masks(masks.collect(), &mut rows);
            rows.into_iter().map(|row| (row.mask, row.tids)).collect::<Vec<_>>()
        };
        let row = |mask: &str, tids: &[i32]| (mask.to_owned(), tids.to_vec());
        assert_eq!(look(&[(7, "0-2"), (8, "0"), (9, "0")]), [row("0", &[8, 9]), row("0-2", &[7])]);
        assert_eq!(look(&[(7, "0-2"), (8, "0"), (9, "1")]), [row("1", &[9])]);
        assert_eq!(look(&[(7, "0-2"), (9, "1")]), []);
        assert_eq!(look(&[(8, "0")]), [row("0", &[8])], "the number of another thread");
    }

    /// This process's threads, each with its own mask.
    #[test]
    fn the_mask_of_each_thread_is_read() {
        let own = affinity(std::process::id() as i32).expect("a mask");
        let online: Vec<u32> = own.iter().copied().collect();
        let one = online[0];
        let mut limits = Limits::new(&online);
        let rows = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut set = rustix::thread::CpuSet::new();
                set.set(one as usize);
                rustix::thread::sched_setaffinity(None, &set).expect("a mask of its own");
                let mut rows = Vec::new();
                limits.find_cpus(&[std::process::id() as i32], &mut rows);
                (rustix::thread::gettid().as_raw_nonzero().get(), rows)
            });
            thread.join().expect("its rows")
        });
        let of_thread = |row: &&LimitRow| row.tids.contains(&rows.0);
        let found: Vec<_> = rows.1.iter().filter(of_thread).map(|row| &*row.mask).collect();
        assert_eq!(found, [one.to_string()]);
        let union = rows.1.iter().find(|row| !row.cpus.is_empty()).expect("what all may use");
        assert_eq!(union.cpus, list(&own));
    }

    #[test]
    fn this_process_may_use_some_cpus() {
        let own = affinity(std::process::id() as i32).expect("a mask");
        assert!(!own.is_empty());
        assert_eq!(LimitRow::cpu_list(&list(&own)), own.into_iter().collect::<Vec<_>>());
    }
}
