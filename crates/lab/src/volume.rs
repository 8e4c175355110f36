//! `kasuri overhead --volume`: how much each selection of events writes, at rest or while a program runs.
//!
//! Each selection is recorded as `kasuri record -a --events` does it, the recorder's own events among the others.
//! Bytes are counted in the kernel's pages; then the recording is packed. Selections are recorded one after another,
//! not at once, so that the volume of one does not contain the events that recording another one causes.
use crate::error::{Error, Result};
use crate::pages::{bytes_of, each_event};
use kasuri_format::meta::{Host, Meta};
use kasuri_format::tracefs::{EventFormat, PageLayout};
use kasuri_record::{Notice, Options as Record, Target};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name and version of the JSON.
pub const SCHEMA: &str = "kasuri.volume/1";

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of selections, with their events as `system:name`.
    pub selections: Vec<(String, Vec<String>)>,
    /// Longest time for which each is recorded.
    pub time: Duration,
    /// The program that runs meanwhile, once for each selection; empty: the system as it is.
    pub program: Vec<OsString>,
    /// Directory for recordings.
    pub scratch: PathBuf,
    /// Directory in which ring sessions are made.
    pub shm_dir: PathBuf,
}

/// How much each selection of events writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Volume {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Machine, kernel, CPUs.
    #[schemars(with = "serde_json::Value")]
    pub host: Host,
    /// The program that ran; empty: none was started.
    pub program: Vec<String>,
    /// One for each selection.
    pub selections: Vec<Written>,
    /// Parts that were left out, with the reason.
    pub missing: Vec<String>,
}

/// Bytes and events that one selection wrote.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Written {
    /// The selection.
    pub name: String,
    /// The time that the following counts cover: the time asked for, up to the last event; with a program, from its
    /// first event. The time in which hundreds of events are being switched on, and only some are on, is left out.
    pub seconds: f64,
    /// Events that were written.
    pub events: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Bytes of the kernel's pages up to their last event, headers included: the share of these events.
    pub page_bytes: u64,
    /// Bytes of the packed file: the share of these events.
    pub packed_bytes: u64,
    /// CPUs, in the order of `cpu_bytes`.
    pub cpus: Vec<u32>,
    /// By kind, most bytes first.
    pub kinds: Vec<Kind>,
}

/// Bytes and events that one kind of event wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Kind {
    /// `system/name`.
    pub name: String,
    /// Number of events.
    pub events: u64,
    /// Bytes of these events.
    pub bytes: u64,
    /// Bytes of these events on each CPU.
    pub cpu_bytes: Vec<u64>,
}

/// Records each selection. Calls `progress` with the name of each; when that returns false, the measurement ends with
/// the selections recorded so far.
///
/// # Errors
/// When nothing can be recorded.
pub fn measure(options: &Options, progress: &mut dyn FnMut(&str) -> bool) -> Result<Volume> {
    let mut volume = Volume {
        schema: SCHEMA,
        host: kasuri_record::host::host(),
        program: (options.program.iter()).map(|word| word.to_string_lossy().into_owned()).collect(),
        selections: Vec::new(),
        missing: Vec::new(),
    };
    for (name, events) in &options.selections {
        if !progress(name) {
            break;
        }
        let (written, missing) = record(options, name, events)?;
        for text in missing {
            let text = format!("{name}: {text}");
            volume.missing.push(text);
        }
        // Ctrl-C ends a recording early; the user does not want the following ones either.
        let is_cut =
            options.program.is_empty() && written.seconds < 0.9 * options.time.as_secs_f64();
        volume.selections.push(written);
        if is_cut {
            let text = "interrupted: the last selection was recorded for less than was asked for";
            volume.missing.push(text.to_owned());
            break;
        }
    }
    if volume.selections.is_empty() {
        return Err(Error::Interrupted);
    }
    Ok(volume)
}

fn record(options: &Options, name: &str, events: &[String]) -> Result<(Written, Vec<String>)> {
    let output = options.scratch.join("volume.kasuri");
    let mut how = Record::new(Target::System(options.program.clone()), output.clone());
    how.duration = Some(options.time);
    how.events = events.to_vec();
    how.pack = false;
    how.shm_dir = options.shm_dir.clone();
    let mut missing = Vec::new();
    let summary = kasuri_record::record(&how, &mut |notice| match notice {
        Notice::Warning(text) => missing.push(text),
        Notice::Started { missing: lacks } => missing.extend_from_slice(lacks),
        _ => {}
    })?;
    if let Some(failure) = summary.failure {
        return Err(failure.into());
    }
    let dir = summary.dir.ok_or(Error::Interrupted)?;
    let written = read(options, name, &dir, summary.losses.kernel);
    let packed = kasuri_record::pack::pack(&dir, &output, &mut |_| {});
    let removed = std::fs::remove_dir_all(&dir);
    let _ = std::fs::remove_file(&output);
    let (mut written, share) = written?;
    written.page_bytes = (written.page_bytes as f64 * share) as u64;
    written.packed_bytes = (packed?.bytes as f64 * share) as u64;
    removed.map_err(|e| Error::File(dir, e))?;
    Ok((written, missing))
}

/// Counts the content of a recording directory. Also returns the share of all its events that was counted.
fn read(options: &Options, name: &str, dir: &Path, lost: u64) -> Result<(Written, f64)> {
    let path = dir.join("meta.json");
    let refused = |e| Error::File(path.clone(), e);
    let text = std::fs::read(&path).map_err(refused)?;
    let meta: Meta = serde_json::from_slice(&text).map_err(|e| refused(e.into()))?;
    let layout = PageLayout::from_meta(&meta.kernel).unwrap_or(PageLayout::LE64);
    let names: HashMap<u16, &str> = (meta.kernel.formats.iter())
        .filter_map(|(name, text)| Some((EventFormat::parse(name, text).ok()?.id, name.as_str())))
        .collect();
    let files: Vec<(u32, PathBuf)> = (meta.host.online.iter())
        .map(|&cpu| (cpu, dir.join(format!("cpu{cpu}.raw"))))
        .filter(|(_, path)| path.is_file())
        .collect();
    let span = Span::find(options, &meta, &layout, &files)?;
    let mut written = Written {
        name: name.to_owned(),
        seconds: span.seconds,
        lost,
        cpus: files.iter().map(|(cpu, _)| *cpu).collect(),
        ..Written::default()
    };
    let mut kinds: HashMap<u16, Kind> = HashMap::new();
    for (ix, (_, path)) in files.iter().enumerate() {
        written.page_bytes += each_event(path, &layout, |id, event| {
            if event.stamp < span.from {
                return;
            }
            let kind = kinds.entry(id).or_insert_with(|| Kind {
                name: names.get(&id).map_or_else(|| format!("event {id}"), |n| (*n).to_owned()),
                cpu_bytes: vec![0; files.len()],
                ..Kind::default()
            });
            kind.events += 1;
            kind.bytes += bytes_of(event);
            kind.cpu_bytes[ix] += bytes_of(event);
        })?;
    }
    written.kinds = kinds.into_values().collect();
    written.kinds.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
    written.events = written.kinds.iter().map(|k| k.events).sum();
    let share = written.events as f64 / span.events.max(1) as f64;
    Ok((written, share))
}

/// The part of a recording in which everything was on.
struct Span {
    /// Its first stamp.
    from: u64,
    seconds: f64,
    /// Events of the whole recording.
    events: u64,
}

impl Span {
    fn find(
        options: &Options,
        meta: &Meta,
        layout: &PageLayout,
        files: &[(u32, PathBuf)],
    ) -> Result<Span> {
        let root = meta.root_pids.first().copied();
        // The second field of each event is the thread that met it (`common_pid`, after type, flags and preempt_count).
        let tid = |data: &[u8]| data.get(4..8)?.first_chunk::<4>().map(|b| i32::from_ne_bytes(*b));
        let (mut first, mut last, mut begun, mut events) = (u64::MAX, 0, u64::MAX, 0);
        for (_, path) in files {
            each_event(path, layout, |_, event| {
                first = first.min(event.stamp);
                last = last.max(event.stamp);
                events += 1;
                if root.is_some() && tid(event.data) == root {
                    begun = begun.min(event.stamp);
                }
            })?;
        }
        let end = meta.end.unwrap_or(meta.start);
        let ns = end.monotonic_ns.saturating_sub(meta.start.monotonic_ns) as f64;
        let ticks = end.native.saturating_sub(meta.start.native) as f64;
        let per_ns = match meta.kernel.clock == "x86-tsc" && ns > 0.0 {
            true => ticks / ns,
            false => 1.0,
        };
        let asked = (options.time.as_nanos() as f64 * per_ns) as u64;
        let from = match root {
            Some(_) if begun != u64::MAX => begun,
            _ => last.saturating_sub(asked),
        }
        .max(first);
        Ok(Span {
            from,
            seconds: last.saturating_sub(from) as f64 / per_ns.max(1e-9) * 1e-9,
            events,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::page;
    use kasuri_format::meta::{Anchor, KernelMeta};

    fn format(name: &str, id: u32) -> (String, String) {
        let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        let text = format!("name: {name}\nID: {id}\nformat:\n{common}\n\nprint fmt: \"\"\n");
        (format!("sched/{name}"), text)
    }

    /// A recording of two CPUs, 1 s long by CLOCK_MONOTONIC.
    fn recording(root_pids: Vec<i32>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let anchor = |second: u64| Anchor {
            native: second * 1_000_000_000,
            monotonic_ns: second * 1_000_000_000,
            realtime_ns: 0,
        };
        let mut meta = Meta {
            version: kasuri_format::meta::META_VERSION,
            start: anchor(1),
            end: Some(anchor(2)),
            root_pids,
            kernel: KernelMeta {
                source: "tracefs".to_owned(),
                clock: "mono".to_owned(),
                page_bytes: 4096,
                formats: [format("a", 7), format("b", 8)].into_iter().collect(),
                ..KernelMeta::default()
            },
            ..Meta::default()
        };
        meta.host.online = vec![0, 1, 2];
        std::fs::write(dir.path().join("meta.json"), meta.to_json()).unwrap();
        let second = 1_000_000_000;
        let early = page(second, &[[0, 7, 8]]);
        let late = page(2 * second - 1000, &[[0, 7, 8], [500, 8, 24], [500, 7, 8]]);
        std::fs::write(dir.path().join("cpu0.raw"), [early, late].concat()).unwrap();
        std::fs::write(dir.path().join("cpu1.raw"), page(2 * second - 200, &[[0, 9, 8]])).unwrap();
        dir
    }

    fn options(time: Duration) -> Options {
        Options {
            selections: Vec::new(),
            program: Vec::new(),
            time,
            scratch: PathBuf::new(),
            shm_dir: PathBuf::new(),
        }
    }

    #[test]
    fn what_each_kind_of_event_wrote_is_counted_on_each_cpu() {
        let dir = recording(Vec::new());
        let options = options(Duration::from_secs(10));
        let (written, share) = read(&options, "all", dir.path(), 3).unwrap();
        assert_eq!((written.events, written.lost, share), (5, 3, 1.0));
        assert_eq!(written.cpus, [0, 1], "CPU 2 has no file");
        let kinds: Vec<_> = written
            .kinds
            .iter()
            .map(|k| (k.name.as_str(), k.events, k.bytes, k.cpu_bytes.clone()))
            .collect();
        let expected = [
            ("sched/a", 3, 36, vec![36, 0]),
            ("sched/b", 1, 28, vec![28, 0]),
            ("event 9", 1, 12, vec![0, 12]),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(written.page_bytes, 3 * 16 + 36 + 28 + 12);
    }

    #[test]
    fn what_came_while_events_were_switched_on_is_left_out() {
        let dir = recording(Vec::new());
        // The last 700 ns: the first event of all, and the first of the second page, are earlier.
        let (written, share) =
            read(&options(Duration::from_nanos(700)), "all", dir.path(), 0).unwrap();
        assert_eq!((written.events, share), (3, 3.0 / 5.0));
        assert!((written.seconds - 700e-9).abs() < 1e-12, "{}", written.seconds);
    }

    #[test]
    fn of_a_program_the_time_begins_with_its_first_event() {
        let dir = recording(vec![77]);
        // Nothing of it was met: as if there were none.
        let options = options(Duration::from_nanos(700));
        assert_eq!(read(&options, "all", dir.path(), 0).unwrap().0.events, 3);
        let path = dir.path().join("cpu0.raw");
        let mut bytes = std::fs::read(&path).unwrap();
        // The thread of the second event of the second page.
        let at = 4096 + 16 + 12 + 4 + 4;
        bytes[at..at + 4].copy_from_slice(&77i32.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&options, "all", dir.path(), 0).unwrap().0.events, 3);
        let at = 16 + 4 + 4;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at..at + 4].copy_from_slice(&77i32.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let written = read(&options, "all", dir.path(), 0).unwrap().0;
        assert_eq!(written.events, 5, "it was there from the beginning");
        assert!((written.seconds - 1.0).abs() < 1e-9, "{}", written.seconds);
    }

    #[test]
    fn a_directory_without_metadata_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(Duration::from_secs(1));
        assert!(read(&options, "all", dir.path(), 0).is_err());
        std::fs::write(dir.path().join("meta.json"), "not json").unwrap();
        let error = read(&options, "all", dir.path(), 0).unwrap_err().to_string();
        assert!(error.contains("meta.json"), "{error}");
    }
}
