//! The JSON parts of a recording: `meta.json`, clock anchors, kernel losses, threads. Spec: docs/format.md.
//!
//! `meta.json` is one object, written at the start with `"complete": false` and replaced at the end. The others are lines
//! (`.jsonl`) that are only ever appended, so that a recorder that is killed loses at most part of the last line; readers keep
//! every line that parses. Unknown keys are ignored and absent ones have the default, so files of older and newer recorders
//! of the same version can be read.
use crate::hindrance::Hindrance;
use crate::ring::HINDRANCES;
use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Version of the recording directory and of [`Meta`].
pub const META_VERSION: u32 = 1;

/// Most reasons of [`Meta::uncounted`] that are read: a recorder has fewer kinds of them.
pub const UNCOUNTED_MAX: usize = 16;

/// Facts about a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// [`META_VERSION`].
    pub version: u32,
    /// Name and version of the recorder: `kasuri 0.1.0`.
    pub recorder: String,
    /// False until the recorder ended in order.
    pub complete: bool,
    /// `program`, `pid`, `system`, `flight`.
    pub mode: String,
    /// The recorded command; empty for `system`.
    pub command: Vec<String>,
    /// Process ids that were asked for; empty for `system`.
    pub root_pids: Vec<i32>,
    /// Exit status of the program, as a shell shows it.
    pub exit_status: Option<i32>,
    /// First instant.
    pub start: Anchor,
    /// Last instant.
    pub end: Option<Anchor>,
    /// The machine.
    pub host: Host,
    /// Source of the kernel events.
    pub kernel: KernelMeta,
    /// Clock and policy of the annotation rings.
    pub annotations: AnnotationsMeta,
    /// Things that this recording cannot show, why, and the command that would grant it.
    pub missing: Vec<String>,
    /// Why events may have been lost that nobody counted; empty: all that was lost is counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<String>,
    /// Flight recorder: only this much before `end` was asked for, ns.
    pub keep_ns: Option<u64>,
    /// The lock probe: `full`, `light`, or empty without.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lock_probe: String,
    /// Lock functions seen by uprobes: their names, by the number that ends the names of their events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lock_functions: Vec<String>,
    /// Probes of USDT that were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usdt: Vec<UsdtProbe>,
    /// CPU time the recorder itself took while recording, ns.
    pub recorder_cpu_ns: Option<u64>,
    /// What the recorder's calls took for which threads of programs may have had to wait; none: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_up: Option<HeldUp>,
    /// The recorder's process, as the kernel's events number it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_pid: Option<i32>,
    /// CPU time of the program and its descendants as the kernel accounts it (getrusage), ns; when it was started by the
    /// recorder and has ended.
    pub program_cpu_ns: Option<u64>,
    /// Cost of an event to the thread in which it occurs, as measured on this machine: ns, median and the ends of its 95 %
    /// interval, by `system/event`; `annotation` is an annotation. Events that could not be measured are absent.
    pub event_costs: BTreeMap<String, [f64; 3]>,
    /// The same where the program does something else between two events: ns from one event to the next without tracing, then median
    /// and ends of the interval; rising, the first of them `event_costs`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub event_costs_apart: BTreeMap<String, Vec<[f64; 4]>>,
    /// What parallel work cost on this machine, by name, ns and a factor; empty: not measured.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parallel_costs: BTreeMap<String, f64>,
    /// With a budget: each change of what was on, in time order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<BudgetChange>,
    /// In a recording directory: bytes of each file of events when its recorder ended. A packed file has none of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, u64>,
}

/// One place of a USDT probe.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UsdtProbe {
    /// Its kernel event: `kasuri_PID_X/usdt_N_X`.
    pub event: String,
    /// `PROVIDER:PROBE`.
    pub name: String,
    /// The file that has it.
    pub file: String,
    /// Its arguments: `signed`, `unsigned` or `text` in field `aN` of the event, N from 1; `=NUMBER`: that number; `none: WHY`.
    pub args: Vec<String>,
}

/// Calls of the recorder for which threads of programs may have had to wait, timed by its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldUp {
    /// Those that read memory or list mappings.
    pub memory: TimedCalls,
    /// Those that switch uprobes on or off.
    pub probes: TimedCalls,
}

/// Calls of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TimedCalls {
    /// Their number.
    pub n: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// All together.
    pub sum_ns: u64,
}

/// Events were switched to keep a budget.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetChange {
    /// When it was done, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// From here on no kernel event is recorded.
    pub paused: bool,
    /// Otherwise these are not.
    pub off: Vec<String>,
    /// Cost of tracing just before, as a share of the CPU time used.
    pub cost: f64,
    /// The cost that was allowed.
    pub budget: f64,
}

/// One instant on every clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Anchor {
    /// The CPU's counter, ticks.
    pub native: u64,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

/// The machine that recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Possible CPU numbers: 0..n_cpus.
    pub n_cpus: u32,
    /// CPUs online at the start.
    pub online: Vec<u32>,
}

/// Source of the kernel events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelMeta {
    /// `tracefs`, `perf`, `none`.
    pub source: String,
    /// Clock of the stamps: tracefs name; perf: `mono`.
    pub clock: String,
    /// Bytes of one ring-buffer page.
    pub page_bytes: u32,
    /// Text of `events/header_page`.
    pub header_page: String,
    /// Text of each recorded event's format file, by `system/event`.
    pub formats: BTreeMap<String, String>,
    /// Size of one CPU's buffer, KiB.
    pub buffer_kb: u32,
    /// The machine stores numbers big-endian.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub big_endian: bool,
}

/// Clock, policy and chunk size of the annotation rings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AnnotationsMeta {
    /// `native` or `monotonic`.
    pub clock: String,
    /// `grow`, `discard` or `overwrite`.
    pub policy: String,
    /// Bytes of one chunk.
    pub chunk_bytes: u32,
    /// What kept rings or names of programs from growing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<Hindrance>,
}

/// Cumulative losses of one CPU's kernel buffer at one instant (`per_cpu/cpuN/stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLoss {
    /// When the counts were read, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// Oldest events overwritten.
    pub overrun: u64,
    /// Newest events dropped.
    pub dropped: u64,
    /// Events lost because interrupts nested too deep in one commit.
    pub commit_overrun: u64,
    /// Events that left the buffer or waited in it when the disk had no room for them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unwritten: u64,
}

/// A thread known from /proc.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Proc {
    /// When it was seen, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Thread group.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Parent's thread group.
    pub ppid: i32,
    /// Name.
    pub comm: String,
    /// In a pid name space of its own: what its client's files call the process...
    #[serde(skip_serializing_if = "is_zero")]
    pub ns_pid: i32,
    /// ...and the thread. With `pid` 0: the client was gone before its process was found; `ns_pid` may be a number
    /// out here or in there.
    #[serde(skip_serializing_if = "is_zero")]
    pub ns_tid: i32,
    /// The client of that process.
    #[serde(skip_serializing_if = "is_zero")]
    pub ns_gen: u32,
    /// What it did then, where that was asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// At the end of the recording: more about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_end: Option<AtEnd>,
}

/// Most rows of a recording that say what a thread did at its end: readers take no more, whoever wrote them.
pub const ENDS_MAX: usize = 4096;

/// What a thread does at the end of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AtEnd {
    /// When it last had a CPU, CLOCK_MONOTONIC; 0: it has one, or it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub since_ns: u64,
    /// What it waits for, where its system call tells: `mutex`, `rwlock`, `thread` (its end), `child`, `file lock`, `pipe`, `socket`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// The threads and processes that have it, or its other end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Peer>,
}

/// A thread or process that another waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Process.
    pub pid: i32,
    /// Thread; that of a process is the process's number.
    pub tid: i32,
    /// Name.
    pub comm: String,
}

/// A limit on the CPUs of the program, at one instant. Four kinds of rows: a process and its cgroup
/// (`pid`, `group`), a cgroup's CPU limit and how often it bit (`group`, `text`...), CPUs that the
/// program may use (`cpus`), threads and their mask (`mask`, `tids`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRow {
    /// When it was read, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Process.
    #[serde(skip_serializing_if = "is_zero")]
    pub pid: i32,
    /// Path of the cgroup, as /proc/PID/cgroup has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The limit as its files have it: `cpu.max 30000 100000`; absent: no limit any more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// So much CPU time in each period, us.
    #[serde(skip_serializing_if = "is_zero")]
    pub quota_us: u64,
    /// The period, us.
    #[serde(skip_serializing_if = "is_zero")]
    pub period_us: u64,
    /// `nr_throttled` of `cpu.stat`: periods in which it ran out.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_throttled: u64,
    /// Time for which its queues were kept from their CPUs, all CPUs together (`throttled_usec`, `throttled_time`).
    #[serde(skip_serializing_if = "is_zero")]
    pub throttled_ns: u64,
    /// CPUs that at least one thread of the program may use, by its affinity mask: `0-2,5`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    /// CPUs that its cpuset allows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpuset: String,
    /// An affinity mask: `0-2,5`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mask: String,
    /// Threads that have this mask, and had another one, or none that was read, before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tids: Vec<i32>,
}

/// A change in how call paths are sampled, or samples that were lost, at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingRow {
    /// When, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// `cpu-clock`, of older recordings `tick` (on-CPU samples), `switch`, `read` (waits), `wake`, `lock`.
    pub source: String,
    /// Whether it samples from now on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on: bool,
    /// A CPU; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// CPU time from one sample to the next as asked for, on average, ns; absent where each event is one.
    #[serde(skip_serializing_if = "is_zero")]
    pub period_ns: u64,
    /// Samples that were lost since the row before of this source and CPU.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// The reason of the change or loss, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// How much of an event file went into a stream, and is not in the file any more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SentRow {
    /// The file's name.
    pub file: String,
    /// Bytes from its beginning.
    pub bytes: u64,
}

impl LimitRow {
    /// `0-2,5` as rising numbers, each once; what is no such list counts as nothing, and so do numbers from 8,192 on: no
    /// machine has them, and a text of a few bytes may name them all, again and again.
    pub fn cpu_list(text: &str) -> Vec<u32> {
        const CPUS_MAX: u32 = 8192;
        let mut ranges = Vec::new();
        for part in text.trim().split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
                ranges.push((from, to.min(CPUS_MAX - 1)));
            }
        }
        ranges.sort_unstable();
        let mut cpus = Vec::new();
        for (from, to) in ranges {
            let next = cpus.last().map_or(0, |last| last + 1);
            cpus.extend(from.max(next)..=to);
        }
        cpus
    }
}

fn is_zero<T: Default + PartialEq>(n: &T) -> bool {
    *n == T::default()
}

/// Events lost by threads of one client that never got a chunk (`p<pid>-<gen>.lost`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientLoss {
    /// Process.
    pub pid: u32,
    /// Client of that process.
    #[serde(rename = "gen")]
    pub generation: u32,
    /// Events lost, by [`crate::ring::Lost`].
    pub lost: [u64; 8],
}

impl ClientLoss {
    /// Reads a `.lost` file: eight u64.
    ///
    /// # Errors
    /// When it is not 64 bytes long.
    pub fn parse(pid: u32, generation: u32, bytes: &[u8]) -> Result<ClientLoss> {
        let mut cursor = crate::bytes::Cursor::new(bytes, 0, "lost-event counts of a client");
        let mut lost = [0; 8];
        for count in &mut lost {
            *count = cursor.u64()?;
        }
        if cursor.left() != 0 {
            return Err(cursor.damaged(format!("{} more bytes", cursor.left()), "the end"));
        }
        Ok(ClientLoss { pid, generation, lost })
    }
}

impl Meta {
    /// Reads `meta.json`.
    ///
    /// # Errors
    /// When it is no JSON object of this shape, or of a newer version.
    pub fn parse(json: &[u8]) -> Result<Meta> {
        if json.is_empty() {
            return Err(Error::new(
                ErrorKind::Truncated,
                "meta.json",
                0,
                "an empty file",
                "a JSON object",
            )
            .remedy("the recorder ended before it began; record again"));
        }
        let mut meta: Meta =
            serde_json::from_slice(json).map_err(|e| json_error("meta.json", json, 0, &e))?;
        if meta.version != META_VERSION {
            return Err(Error::new(
                ErrorKind::Version,
                "meta.json",
                0,
                format!("version {}", meta.version),
                format!("version {META_VERSION}"),
            )
            .remedy("read it with the kasuri that recorded it"));
        }
        // A stranger's file may name any number, and readers compare each with all.
        meta.uncounted.truncate(UNCOUNTED_MAX);
        meta.annotations.hindrances.truncate(HINDRANCES);
        Ok(meta)
    }

    /// The text of `meta.json`.
    pub fn to_json(&self) -> String {
        // Plain data with string keys: serialising it cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn json_error(what: &'static str, bytes: &[u8], base: u64, error: &serde_json::Error) -> Error {
    let line_start = bytes
        .split_inclusive(|&b| b == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    let offset = base + (line_start + error.column().saturating_sub(1)).min(bytes.len()) as u64;
    let kind = if error.is_eof() { ErrorKind::Truncated } else { ErrorKind::Damaged };
    Error::new(kind, what, offset, error.to_string(), "JSON as in docs/format.md")
}

/// Reads a `.jsonl` file: one JSON object a line. Gives the lines before the first bad one, and the
/// error there; a last line without a newline that does not parse is what a killed recorder leaves, and is
/// left out with an error of kind [`ErrorKind::Truncated`].
pub fn parse_lines<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> (Vec<T>, Option<Error>) {
    let mut rows = Vec::new();
    let mut offset = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        let text = line.trim_ascii();
        if !text.is_empty() {
            match serde_json::from_slice(text) {
                Ok(row) => rows.push(row),
                Err(e) => {
                    let mut error = json_error(what, text, offset as u64, &e);
                    if line.last() != Some(&b'\n') {
                        error.kind = ErrorKind::Truncated;
                    }
                    return (rows, Some(error));
                }
            }
        }
        offset += line.len();
    }
    (rows, None)
}

/// The text of a `.jsonl` file.
pub fn to_lines<T: Serialize>(rows: &[T]) -> String {
    let mut text = String::new();
    for row in rows {
        // As above: cannot fail for the types of this module.
        text.push_str(&serde_json::to_string(row).unwrap_or_default());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_readers_compare_with_themselves_are_short() {
        let mut meta = Meta { version: META_VERSION, ..Meta::default() };
        meta.uncounted = (0..100_000).map(|n| n.to_string()).collect();
        meta.annotations.hindrances =
            (0..100_000).map(|errno| Hindrance { errno, ..Hindrance::default() }).collect();
        let read = Meta::parse(meta.to_json().as_bytes()).unwrap();
        assert_eq!(read.uncounted[..], meta.uncounted[..UNCOUNTED_MAX]);
        let all = &meta.annotations.hindrances;
        assert_eq!(read.annotations.hindrances[..], all[..HINDRANCES]);
    }

    #[test]
    fn meta_round_trips_and_ignores_unknown_keys() {
        let mut meta =
            Meta { version: 1, mode: "program".into(), exit_status: Some(3), ..Meta::default() };
        meta.kernel.formats.insert("sched/sched_switch".into(), "text".into());
        assert_eq!(Meta::parse(meta.to_json().as_bytes()).unwrap(), meta);
        let more = br#"{"version":1,"new_key":{"a":[1]},"host":{"n_cpus":2}}"#;
        assert_eq!(Meta::parse(more).unwrap().host.n_cpus, 2);
    }

    #[test]
    fn meta_of_another_version_is_refused_by_name() {
        let e = Meta::parse(br#"{"version":2}"#).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Version);
        assert!(e.to_string().contains("version 2"), "{e}");
    }

    #[test]
    fn lines_before_a_bad_one_are_kept_and_it_is_named() {
        let text = b"{\"native\":1}\n{\"native\":2}\n{\"native\":x}\n{\"native\":4}\n";
        let (rows, error) = parse_lines::<Anchor>("anchors", text);
        assert_eq!(rows.len(), 2);
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Damaged);
        assert!((26..39).contains(&error.offset), "{error}");
    }

    #[test]
    fn half_a_last_line_is_a_truncation() {
        let (rows, error) = parse_lines::<Anchor>("anchors", b"{\"native\":1}\n{\"nat");
        assert_eq!(rows.len(), 1);
        assert_eq!(error.unwrap().kind, ErrorKind::Truncated);
    }
}
