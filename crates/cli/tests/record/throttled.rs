//! CPU limits and affinity: what they take is in the account by name, as much as the kernel's own counters say.
use crate::support::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cgroup with a CPU limit; removed when dropped.
struct Group(PathBuf);

impl Group {
    /// `quota_us` of each `period_us`. None: cgroups cannot be made here.
    fn make(name: &str, quota_us: u32, period_us: u32) -> Option<Group> {
        let name = format!("kasuri-test-{name}-{}", std::process::id());
        let (one, two) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let place = if one.exists() { one } else { two };
        let group = Group(place.join(name));
        std::fs::create_dir(&group.0).ok()?;
        let put = |file: &str, text: String| std::fs::write(group.0.join(file), text).ok();
        if place == one {
            put("cpu.cfs_period_us", period_us.to_string())?;
            put("cpu.cfs_quota_us", quota_us.to_string())?;
        } else {
            // Where the controller is not handed down there is no such file.
            put("cpu.max", format!("{quota_us} {period_us}"))?;
        }
        Some(group)
    }

    /// What it lost on all CPUs so far, ns.
    fn throttled_ns(&self) -> i64 {
        let stat = std::fs::read_to_string(self.0.join("cpu.stat")).expect("cpu.stat");
        let value = |key: &str| {
            let mut lines = stat.lines().filter_map(|l| l.split_once(' '));
            Some(lines.find(|(k, _)| *k == key)?.1.parse::<i64>().expect("a number"))
        };
        value("throttled_time").unwrap_or_else(|| value("throttled_usec").expect("v2") * 1000)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may still be on its way out.
        wait_until("the cgroup is empty", || {
            std::fs::remove_dir(&self.0).is_ok() || !self.0.exists()
        });
    }
}

/// Records `sh -c SCRIPT`; what `kasuri stat` says as JSON, and as text.
fn account(dir: &Path, script: &str) -> (Value, String) {
    let mut command = kasuri(dir);
    command.args(["record", "-q", "-o", "run.kasuri", "--", "sh", "-c", script]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", said(&output));
    let stat = |words: &[&str]| {
        let output = run(kasuri(dir).arg("stat").args(words).arg("run.kasuri"));
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let json: Value = serde_json::from_str(&stat(&["--json"])).expect("JSON");
    let classes = json["account"]["classes"].as_array().expect("classes");
    let sum: i64 = classes.iter().map(|c| c["ns"].as_i64().expect("ns")).sum();
    assert_eq!(Some(sum), json["account"]["capacity_ns"].as_i64());
    (json, stat(&[]))
}

fn class_ns(stat: &Value, class: &str) -> i64 {
    let mut classes = stat["account"]["classes"].as_array().expect("classes").iter();
    let found = classes.find(|c| c["class"] == class);
    found.map_or(0, |c| c["ns"].as_i64().expect("ns"))
}

fn plant_throttling() {
    let spin = program("spin");
    for (threads, share) in [(1, 40), (1, 100), (2, 95)] {
        let dir = scratch();
        let Some(group) = Group::make(&format!("{threads}-{share}"), 2000, 20_000) else {
            return skip("no cgroup with a CPU limit can be made");
        };
        let place = group.0.display();
        let script = format!(
            "echo $$ > {place}/cgroup.procs; exec {} {threads} {share} 1000",
            spin.display()
        );
        let (stat, text) = account(dir.path(), &script);
        let (found, truth) = (class_ns(&stat, "throttled_by_cpu_limit"), group.throttled_ns());
        let capacity = stat["account"]["capacity_ns"].as_i64().expect("capacity");
        let points = (found - truth) as f64 / capacity as f64 * 100.0;
        assert!(truth > 0, "the kernel throttled nothing");
        assert!(
            points.abs() <= 2.0,
            "{points:.2} points off: {found} of {truth} of {capacity}\n{text}"
        );
        assert!(text.contains("its CPU limit, "), "{text}");
        let cpus = stat["account"]["bounds"]["cpus"].as_f64().expect("a number");
        assert!((cpus - 0.1).abs() < 1e-9, "{cpus}");
    }
}

#[test]
fn a_limit_that_is_not_reached_takes_nothing() {
    if !is_root() || !can_trace() {
        return;
    }
    let dir = scratch();
    let Some(group) = Group::make("wide", 1_000_000, 100_000) else {
        return skip("no cgroup with a CPU limit can be made");
    };
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {} 3 100 200",
        group.0.display(),
        program("spin").display()
    );
    let (stat, text) = account(dir.path(), &script);
    assert_eq!((class_ns(&stat, "throttled_by_cpu_limit"), group.throttled_ns()), (0, 0), "{text}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// About a fifth, a half and four fifths of two CPUs; how much it was the kernel says, also on a loaded machine.
    #[test]
    fn throttling_is_what_the_kernel_counted() {
        if !is_root() || !can_trace() {
            return;
        }
        measure(plant_throttling);
    }

    #[test]
    fn affinity_bounds_the_cpus_that_count() {
        if !is_root() || !can_trace() {
            return;
        }
        let own = std::thread::available_parallelism().map_or(1, |n| n.get());
        let taskset = Command::new("taskset").arg("--version").output().is_ok();
        if own < 2 || !taskset {
            return skip("needs two CPUs and taskset");
        }
        // Where others have the CPUs, the shell may take longer to become taskset than the program then runs.
        measure(|| {
            let dir = scratch();
            let script = format!("exec taskset -c 0 {} 2 100 600", program("spin").display());
            let (stat, text) = account(dir.path(), &script);
            assert_eq!(stat["account"]["n_cpus"], 1, "{text}");
            assert_eq!(stat["account"]["bounds"]["closed_by"], "affinity");
            assert!(text.contains("of the 1 CPU its affinity allows (machine: "), "{text}");
        });
    }
}
