//! Turns the texts that programs write to `trace_marker` (ftrace's `tracing_mark_write`) into slices, instants and
//! counters.
//!
//! The convention is Android's (`atrace`, `ATrace_beginSection`):
//!
//! | text | meaning |
//! |---|---|
//! | `B\|pid\|name`, `E\|pid` | begin and end of a slice of the writing thread |
//! | `I\|pid\|name` | an instant of the writing thread |
//! | `C\|pid\|name\|value` | a counter's new value |
//! | `S\|pid\|name\|cookie`, `F\|pid\|name\|cookie` | begin and end of a slice of the process; the cookie joins them, and a begin while it is open is a point in time |
//! | `G\|pid\|track\|name\|cookie`, `H\|pid\|track\|cookie` | the same on a named track |
//! | `N\|pid\|track\|name` | an instant of a named track |
//! | `trace_event_clock_sync: realtime_ts=MS` | CLOCK_REALTIME at this moment, in ms |
//!
//! Any other text is a message. Slices of processes may overlap in any way, so they go to [`Tracks`].
use crate::tracks::Tracks;
use kasuri_base::annotation::Kind;
use kasuri_model::input::Annotation;
use kasuri_model::{AnnotationVec, StrIx, Strings, Time};
use std::collections::HashMap;

/// The texts of all threads, in any order: those of one thread may come from the buffers of several CPUs.
#[derive(Debug)]
pub(crate) struct Marks {
    threads: HashMap<i32, Thread>,
    tracks: Tracks,
    realtime_offset_ns: Option<i64>,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            threads: HashMap::new(),
            // Android's programs often begin all slices of a name with the cookie 0.
            tracks: Tracks::once(),
            realtime_offset_ns: None,
        }
    }
}

/// The texts of one thread.
#[derive(Default, Debug)]
struct Thread {
    /// Its process according to the file; 0: the file does not say.
    pid: i32,
    /// Its process according to its own texts. A thread in a container writes the pid of its namespace there, so the
    /// file's pid takes precedence.
    own_pid: i32,
    events: Vec<Annotation>,
}

/// What a text says.
#[derive(Debug, PartialEq)]
pub(crate) enum Mark<'a> {
    Begin(i32, &'a str),
    End,
    Instant(&'a str),
    Counter(&'a str, f64),
    AsyncBegin {
        pid: i32,
        track: &'a str,
        name: &'a str,
        cookie: u64,
    },
    AsyncEnd {
        pid: i32,
        track: &'a str,
        cookie: u64,
    },
    AsyncInstant {
        pid: i32,
        track: &'a str,
        name: &'a str,
    },
    /// CLOCK_REALTIME at this moment, ns.
    Realtime(i64),
    /// Another clock's reading at this moment, which Kasuri does not use.
    OtherClock,
    Message(&'a str),
}

// Parsing cannot fail: a text that breaks the convention is a message.
impl Mark<'_> {
    /// The meaning of a text without its newline.
    fn parse(text: &str) -> Mark<'_> {
        let sync = text.strip_prefix("trace_event_clock_sync: ");
        if let Some((key, value)) = sync.and_then(|s| s.split_once('=')) {
            return clock_sync(key, value).unwrap_or(Mark::Message(text));
        }
        if text == "E" {
            return Mark::End;
        }
        let Some((kind, rest)) = text.split_once('|') else {
            return Mark::Message(text);
        };
        fields(kind, rest).unwrap_or(Mark::Message(text))
    }
}

/// `realtime_ts=1700000000123`: a reading of another clock.
fn clock_sync<'a>(key: &str, value: &str) -> Option<Mark<'a>> {
    match key {
        // In milliseconds.
        "realtime_ts" => {
            let ms: i64 = value.trim().parse().ok()?;
            Some(Mark::Realtime(ms.checked_mul(1_000_000)?))
        }
        // CLOCK_MONOTONIC, in seconds.
        "parent_ts" => Some(Mark::OtherClock),
        _ => None,
    }
}

/// The fields after the first bar; none: they break the convention.
fn fields<'a>(kind: &str, rest: &'a str) -> Option<Mark<'a>> {
    let (pid, rest) = rest.split_once('|').unwrap_or((rest, ""));
    let pid = || pid.trim().parse::<i32>().ok();
    match kind {
        "B" => Some(Mark::Begin(pid()?, rest)),
        "E" => Some(Mark::End),
        "I" => pid().map(|_| Mark::Instant(rest)),
        "C" => {
            let (name, value) = rest.rsplit_once('|')?;
            Some(Mark::Counter(name, value.trim().parse().ok()?))
        }
        _ => on_track(kind, pid, rest),
    }
}

/// The fields of a slice or instant of a process. Names may hold a bar, so cookies are split off at the last one.
fn on_track<'a>(kind: &str, pid: impl Fn() -> Option<i32>, rest: &'a str) -> Option<Mark<'a>> {
    match kind {
        // Without a track of their own, slices of one name share one.
        "S" | "F" => {
            let (name, number) = rest.rsplit_once('|')?;
            let (pid, cookie, track) = (pid()?, cookie(number)?, name);
            Some(match kind {
                "S" => Mark::AsyncBegin { pid, track, name, cookie },
                _ => Mark::AsyncEnd { pid, track, cookie },
            })
        }
        "G" => {
            let (track, rest) = rest.split_once('|')?;
            let (name, number) = rest.rsplit_once('|')?;
            Some(Mark::AsyncBegin { pid: pid()?, track, name, cookie: cookie(number)? })
        }
        "H" => {
            // Older writers repeat the name before the cookie.
            let (track, rest) = rest.split_once('|')?;
            let number = rest.rsplit('|').next()?;
            Some(Mark::AsyncEnd { pid: pid()?, track, cookie: cookie(number)? })
        }
        "N" => {
            let (track, name) = rest.split_once('|')?;
            let pid = pid()?;
            Some(Mark::AsyncInstant { pid, track, name })
        }
        _ => None,
    }
}

/// The number that joins begin and end. Java's are signed.
fn cookie(text: &str) -> Option<u64> {
    let text = text.trim();
    let signed = || text.parse::<i64>().map(|n| n as u64);
    text.parse::<u64>().or_else(|_| signed()).ok()
}

impl Marks {
    /// Adds a text that thread `tid` wrote. `pid` is its process; 0: the file does not say.
    ///
    /// The kernel stores the text with a newline and a final zero; bytes after the zero are padding.
    pub fn add(&mut self, time: Time, tid: i32, pid: i32, text: &[u8], strings: &mut Strings) {
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(&text[..end]);
        let text = text.trim_end_matches('\n');
        self.tell(time, tid, pid, Mark::parse(text), strings);
    }

    /// Adds what thread `tid` said; `pid` as for [`Marks::add`].
    pub fn tell(&mut self, time: Time, tid: i32, pid: i32, mark: Mark<'_>, strings: &mut Strings) {
        let thread = self.threads.entry(tid).or_default();
        if pid != 0 {
            thread.pid = pid;
        }
        let event = |kind: Kind, name: StrIx| Annotation {
            time,
            kind: kind as u8,
            name,
            ..Annotation::default()
        };
        let event = match mark {
            Mark::Begin(pid, name) => {
                if thread.own_pid == 0 {
                    thread.own_pid = pid;
                }
                event(Kind::Begin, strings.intern(name))
            }
            Mark::End => event(Kind::End, StrIx::NONE),
            Mark::Instant(name) => event(Kind::Instant, strings.intern(name)),
            Mark::Counter(name, value) => {
                Annotation { a: value.to_bits(), ..event(Kind::Counter, strings.intern(name)) }
            }
            Mark::Message(text) => event(Kind::Message, strings.intern(text)),
            Mark::AsyncBegin { pid, track, name, cookie } => {
                let (track, name) = (strings.intern(track), strings.intern(name));
                return self.tracks.begin(time, pid, track, cookie, name);
            }
            Mark::AsyncEnd { pid, track, cookie } => {
                let track = strings.intern(track);
                return self.tracks.end(time, pid, track, cookie);
            }
            Mark::AsyncInstant { pid, track, name } => {
                let (track, name) = (strings.intern(track), strings.intern(name));
                return self.tracks.instant(time, pid, track, name);
            }
            Mark::Realtime(ns) => {
                self.realtime_offset_ns = Some(ns.saturating_sub(time.0));
                return;
            }
            Mark::OtherClock => return,
        };
        thread.events.push(event);
    }

    /// Takes out the begins and ends of a thread's slices, in order of time: where another stream has slices of this thread,
    /// an end must not be taken for that of the other's slice.
    pub fn take_slices(&mut self, tid: i32) -> Vec<Annotation> {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return Vec::new();
        };
        let is_end = |e: &Annotation| [Kind::Begin as u8, Kind::End as u8].contains(&e.kind);
        let (mut slices, rest) =
            (thread.events.iter()).partition::<Vec<Annotation>, _>(|e| is_end(e));
        thread.events = rest;
        slices.sort_by_key(|e| e.time);
        slices
    }

    /// CLOCK_REALTIME minus the trace's clock, precise to a millisecond; none: no text had it.
    pub fn realtime_offset_ns(&self) -> Option<i64> {
        self.realtime_offset_ns
    }

    /// One stream for each thread that wrote a text, by thread id, and then those of the tracks.
    pub fn streams(self, strings: &mut Strings) -> Vec<AnnotationVec> {
        let mut threads: Vec<(i32, Thread)> = self.threads.into_iter().collect();
        threads.retain(|(_, thread)| !thread.events.is_empty());
        threads.sort_by_key(|(tid, _)| *tid);
        let mut out: Vec<AnnotationVec> = threads
            .into_iter()
            .map(|(tid, mut thread)| {
                thread.events.sort_by_key(|e| e.time);
                // A thread of an unknown process counts as a process of its own.
                let said = [thread.pid, thread.own_pid, tid];
                AnnotationVec {
                    pid: said.into_iter().find(|&pid| pid != 0).unwrap_or(tid),
                    tid,
                    events: thread.events,
                    at: 0,
                }
            })
            .collect();
        out.extend(self.tracks.streams(strings));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood() {
        for (text, mark) in [
            ("B|12|draw|x", Mark::Begin(12, "draw|x")),
            ("B|12|", Mark::Begin(12, "")),
            ("E", Mark::End),
            ("E|12", Mark::End),
            ("I|12|vsync", Mark::Instant("vsync")),
            ("C|12|bytes free|-3", Mark::Counter("bytes free", -3.0)),
            ("S|12|load|7", Mark::AsyncBegin { pid: 12, track: "load", name: "load", cookie: 7 }),
            ("F|12|load|-1", Mark::AsyncEnd { pid: 12, track: "load", cookie: u64::MAX }),
            ("G|12|net|get|7", Mark::AsyncBegin { pid: 12, track: "net", name: "get", cookie: 7 }),
            ("H|12|net|7", Mark::AsyncEnd { pid: 12, track: "net", cookie: 7 }),
            ("H|12|net|get|7", Mark::AsyncEnd { pid: 12, track: "net", cookie: 7 }),
            ("N|12|net|up", Mark::AsyncInstant { pid: 12, track: "net", name: "up" }),
            ("trace_event_clock_sync: parent_ts=12.5", Mark::OtherClock),
            (
                "trace_event_clock_sync: realtime_ts=1700000000123",
                Mark::Realtime(1_700_000_000_123_000_000),
            ),
            ("B|x|y", Mark::Message("B|x|y")),
            ("C|1|y|z", Mark::Message("C|1|y|z")),
            ("S|1|y", Mark::Message("S|1|y")),
            ("hello", Mark::Message("hello")),
            ("", Mark::Message("")),
            ("B", Mark::Message("B")),
            ("trace_event_clock_sync: x=y", Mark::Message("trace_event_clock_sync: x=y")),
        ] {
            assert_eq!(Mark::parse(text), mark, "{text:?}");
        }
    }

    #[test]
    fn each_thread_has_its_stream_in_time_order() {
        let mut strings = Strings::default();
        let mut marks = Marks::default();
        marks.add(Time(20), 6, 0, b"E\n", &mut strings);
        marks.add(Time(10), 6, 0, b"B|5|a\n\0junk", &mut strings);
        marks.add(Time(15), 7, 5, b"C|5|n|2.5\n", &mut strings);
        let streams = marks.streams(&mut strings);
        let who: Vec<(i32, i32, usize)> =
            (streams.iter()).map(|s| (s.pid, s.tid, s.events.len())).collect();
        assert_eq!(who, [(5, 6, 2), (5, 7, 1)]);
        assert_eq!(streams[0].events[0].time, Time(10));
        assert_eq!(strings.get(streams[0].events[0].name), "a");
        assert_eq!(f64::from_bits(streams[1].events[0].a), 2.5);
    }
}
