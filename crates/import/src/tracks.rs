//! Slices that belong to no thread: asynchronous marks, tracks of other tools. They may overlap in any way, and rows of
//! the model hold slices that nest; so each is put in the first lane of its track where it follows or nests in what is
//! there. A lane is a stream of its process with a negative thread id and the track's name.
use kasuri_base::annotation::Kind;
use kasuri_model::input::Annotation;
use kasuri_model::{AnnotationVec, StrIx, Strings, Time};
use std::collections::{BTreeMap, HashMap};

/// More slices of one track at once are a program that begins and never ends; the rest shares the last lane.
const LANES_MAX: usize = 256;

/// Slices and instants on tracks, in any order.
#[derive(Default, Debug)]
pub(crate) struct Tracks {
    events: Vec<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    time: Time,
    pid: i32,
    track: StrIx,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Begin(u64, StrIx),
    End(u64),
    Instant(StrIx),
}

/// A slice: from, to; none: not seen.
#[derive(Clone, Copy, Debug)]
struct Slice {
    begin: Option<Time>,
    end: Option<Time>,
    name: StrIx,
}

#[derive(Default, Debug)]
struct Lane {
    /// Ends of the slices that are open where the next begins, outermost first.
    open: Vec<Time>,
    events: Vec<Annotation>,
}

impl Lane {
    /// Whether a slice fits: what is open there encloses it.
    fn takes(&mut self, slice: &Slice) -> bool {
        let begin = slice.begin.unwrap_or(Time::MIN);
        while self.open.last().is_some_and(|&end| end <= begin) {
            self.open.pop();
        }
        let end = slice.end.unwrap_or(Time::MAX);
        self.open.last().is_none_or(|&outer| end <= outer)
    }
}

impl Tracks {
    /// Slice `key` of a track begins.
    pub fn begin(&mut self, time: Time, pid: i32, track: StrIx, key: u64, name: StrIx) {
        self.add(time, pid, track, What::Begin(key, name));
    }

    /// It ends.
    pub fn end(&mut self, time: Time, pid: i32, track: StrIx, key: u64) {
        self.add(time, pid, track, What::End(key));
    }

    /// A point in time on a track.
    pub fn instant(&mut self, time: Time, pid: i32, track: StrIx, name: StrIx) {
        self.add(time, pid, track, What::Instant(name));
    }

    fn add(&mut self, time: Time, pid: i32, track: StrIx, what: What) {
        self.events.push(Event {
            time,
            pid,
            track,
            what,
        });
    }

    /// The lanes.
    pub fn streams(mut self, strings: &mut Strings) -> Vec<AnnotationVec> {
        // Of equal stamps the ends come first: a slice that follows another directly fits in its lane.
        self.events
            .sort_by_key(|e| (e.time, !matches!(e.what, What::End(_))));
        let mut tracks: BTreeMap<(i32, StrIx), Vec<Event>> = BTreeMap::new();
        for event in self.events {
            tracks
                .entry((event.pid, event.track))
                .or_default()
                .push(event);
        }
        let mut out = Vec::new();
        let mut last_tid: HashMap<i32, i32> = HashMap::new();
        for ((pid, track), events) in tracks {
            let mut instants = Vec::new();
            let lanes = lanes(slices(&events, &mut instants));
            let lanes = with_instants(lanes, instants);
            for (number, mut lane) in lanes.into_iter().enumerate() {
                lane.sort_by_key(|e| e.time);
                let tid = last_tid.entry(pid).or_default();
                *tid -= 1;
                let name = match number {
                    0 => track,
                    n => {
                        let text = format!("{} #{}", strings.get(track), n + 1);
                        strings.intern(&text)
                    }
                };
                let first = lane.first().map_or(Time(0), |e| e.time);
                lane.insert(0, annotation(first, Kind::ThreadName, name));
                out.push(AnnotationVec {
                    pid,
                    tid: *tid,
                    events: lane,
                    at: 0,
                });
            }
        }
        out
    }
}

fn annotation(time: Time, kind: Kind, name: StrIx) -> Annotation {
    Annotation {
        time,
        kind: kind as u8,
        name,
        ..Annotation::default()
    }
}

/// Begins and ends joined by key, by begin; an end without a begin begins unseen.
fn slices(events: &[Event], instants: &mut Vec<Annotation>) -> Vec<Slice> {
    let mut out: Vec<Slice> = Vec::new();
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    for event in events {
        match event.what {
            What::Begin(key, name) => {
                open.entry(key).or_default().push(out.len());
                out.push(Slice {
                    begin: Some(event.time),
                    end: None,
                    name,
                });
            }
            What::End(key) => match open.get_mut(&key).and_then(Vec::pop) {
                Some(ix) => out[ix].end = Some(event.time),
                None => out.push(Slice {
                    begin: None,
                    end: Some(event.time),
                    name: event.track,
                }),
            },
            What::Instant(name) => {
                instants.push(annotation(event.time, Kind::Instant, name));
            }
        }
    }
    // Of those that begin together the longest is the outermost.
    out.sort_by_key(|s| (s.begin, std::cmp::Reverse(s.end.unwrap_or(Time::MAX))));
    out
}

/// Each slice in the first lane that takes it.
fn lanes(slices: Vec<Slice>) -> Vec<Vec<Annotation>> {
    let mut lanes: Vec<Lane> = Vec::new();
    for slice in slices {
        let at = lanes.iter_mut().position(|lane| lane.takes(&slice));
        let at = at.unwrap_or_else(|| {
            if lanes.len() < LANES_MAX {
                lanes.push(Lane::default());
            }
            lanes.len() - 1
        });
        let lane = &mut lanes[at];
        let end = slice.end.unwrap_or(Time::MAX);
        // In the order in which a thread would have said it: what ends before comes before.
        lane.open.push(end);
        if let Some(begin) = slice.begin {
            lane.events.push(annotation(begin, Kind::Begin, slice.name));
        }
        if let Some(end) = slice.end {
            // One that is known to be open needs no name.
            let name = slice.begin.map_or(slice.name, |_| StrIx::NONE);
            lane.events.push(annotation(end, Kind::End, name));
        }
    }
    lanes.into_iter().map(|lane| lane.events).collect()
}

fn with_instants(
    mut lanes: Vec<Vec<Annotation>>,
    instants: Vec<Annotation>,
) -> Vec<Vec<Annotation>> {
    if instants.is_empty() {
        return lanes;
    }
    match lanes.first_mut() {
        Some(first) => first.extend(instants),
        None => lanes.push(instants),
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes as `name@begin-end` lists of what the model would draw.
    fn drawn(build: impl FnOnce(&mut Tracks, &mut Strings)) -> Vec<String> {
        let (mut tracks, mut strings) = (Tracks::default(), Strings::default());
        build(&mut tracks, &mut strings);
        let streams = tracks.streams(&mut strings);
        let mut out = Vec::new();
        for s in &streams {
            let events = s.events.iter().map(|e| {
                let kind = match e.kind {
                    k if k == Kind::Begin as u8 => "B",
                    k if k == Kind::End as u8 => "E",
                    k if k == Kind::Instant as u8 => "I",
                    _ => "T",
                };
                format!("{kind}{}{}", e.time.0, strings.get(e.name))
            });
            let events: Vec<String> = events.collect();
            out.push(format!("{}/{}: {}", s.pid, s.tid, events.join(" ")));
        }
        out
    }

    #[test]
    fn overlapping_slices_get_lanes_and_nested_ones_share() {
        let lanes = drawn(|t, s| {
            let (track, a, b, c, d) = (
                s.intern("net"),
                s.intern("a"),
                s.intern("b"),
                s.intern("c"),
                s.intern("d"),
            );
            t.end(Time(30), 5, track, 1);
            t.begin(Time(10), 5, track, 1, a);
            t.begin(Time(12), 5, track, 2, b);
            t.end(Time(20), 5, track, 2);
            t.begin(Time(25), 5, track, 3, c);
            t.end(Time(40), 5, track, 3);
            t.begin(Time(30), 5, track, 4, d);
            t.end(Time(40), 5, track, 4);
        });
        assert_eq!(
            lanes,
            [
                "5/-1: T10net B10a B12b E20 E30 B30d E40",
                "5/-2: T25net #2 B25c E40"
            ]
        );
    }

    #[test]
    fn ends_without_begins_and_begins_without_ends_are_kept() {
        let lanes = drawn(|t, s| {
            let (track, a) = (s.intern("net"), s.intern("a"));
            t.end(Time(5), 1, track, 9);
            t.begin(Time(7), 1, track, 9, a);
            t.instant(Time(8), 1, track, a);
        });
        assert_eq!(lanes, ["1/-1: T5net E5net B7a I8a"]);
    }

    #[test]
    fn what_never_ends_is_bounded() {
        let lanes = drawn(|t, s| {
            let track = s.intern("x");
            for n in 0..2000 {
                t.begin(Time(n), 1, track, n as u64, track);
                t.end(Time(100_000 + n), 1, track, n as u64);
            }
        });
        assert_eq!(lanes.len(), LANES_MAX);
    }
}
