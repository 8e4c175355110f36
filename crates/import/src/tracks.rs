//! Slices that belong to no thread: asynchronous texts of `trace_marker`, and tracks of other tools.
//!
//! Such slices may overlap in any way, but a row of the model holds only slices that nest. A track is therefore split
//! into lanes: each slice goes to the first lane of its track where it follows the open slices or nests in them. For
//! example, `a` from 0 to 10 and `b` from 5 to 15 need two lanes, which are named `net` and `net #2`.
//!
//! A lane becomes a stream of its process with a negative thread id. The model treats it as a thread that never runs.
//! Finding a lane costs the number of lanes of the track, at most [`LANES_MAX`].
use crate::category::argument;
use kasuri_base::annotation::Kind;
use kasuri_model::input::Annotation;
use kasuri_model::{AnnotationVec, ArgValue, StrIx, Strings, Time};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most lanes of one track. A program with more simultaneous slices begins slices and never ends them; further slices
/// share the last lane.
const LANES_MAX: usize = 256;

/// Slices and instants on tracks, in any order.
#[derive(Default, Debug)]
pub(crate) struct Tracks {
    events: Vec<Event>,
    args: Vec<(StrIx, ArgValue)>,
    /// The begin of a slice whose key is open is a point in time.
    once: bool,
}

/// One event on a track; `track` is the track's name, unique in its process.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: Time,
    pid: i32,
    track: StrIx,
    what: What,
    /// Its arguments in [`Tracks::args`].
    args: Args,
}

/// Arguments: index of the first, and number.
type Args = (u32, u16);

/// The kind of an event. Numbers are keys that join the begin and the end of a slice.
#[derive(Clone, Copy, Debug)]
enum What {
    Begin(u64, StrIx),
    End(u64),
    Instant(StrIx),
}

/// A slice. A missing begin or end lies outside the trace.
#[derive(Clone, Copy, Debug)]
struct Slice {
    begin: Option<Time>,
    end: Option<Time>,
    name: StrIx,
    /// Arguments that came with its begin, and those that came with its end.
    args: [Args; 2],
}

/// A row of slices that nest, with what they became.
#[derive(Default, Debug)]
struct Lane {
    /// Ends of the open slices, outermost first. Except in a shared last lane, no end exceeds the one before it.
    open: Vec<Time>,
    events: Vec<Annotation>,
}

impl Lane {
    /// Whether a slice fits: the innermost open slice encloses it. Slices must come in order of their begins.
    fn takes(&mut self, slice: &Slice) -> bool {
        let begin = slice.begin.unwrap_or(Time::MIN);
        while self.open.last().is_some_and(|&end| end <= begin) {
            self.open.pop();
        }
        // Without an end it lasts to the end of the trace, and so must what encloses it.
        let end = slice.end.unwrap_or(Time::MAX);
        self.open.last().is_none_or(|&outer| end <= outer)
    }
}

impl Tracks {
    /// Tracks whose writer means one slice from the first begin of a key to its first end.
    pub fn once() -> Tracks {
        Tracks { once: true, ..Tracks::default() }
    }

    /// The slice `key` of a track begins.
    pub fn begin(&mut self, time: Time, pid: i32, track: StrIx, key: u64, name: StrIx) {
        self.add(time, pid, track, What::Begin(key, name));
    }

    /// The slice `key` of a track ends.
    pub fn end(&mut self, time: Time, pid: i32, track: StrIx, key: u64) {
        self.add(time, pid, track, What::End(key));
    }

    /// A point in time on a track.
    pub fn instant(&mut self, time: Time, pid: i32, track: StrIx, name: StrIx) {
        self.add(time, pid, track, What::Instant(name));
    }

    fn add(&mut self, time: Time, pid: i32, track: StrIx, what: What) {
        self.events.push(Event { time, pid, track, what, args: (0, 0) });
    }

    /// Adds an argument of the slice that began or ended last, or of the last point in time.
    pub fn arg(&mut self, name: StrIx, value: ArgValue) {
        let (Some(event), Ok(at)) = (self.events.last_mut(), u32::try_from(self.args.len())) else {
            return;
        };
        if event.args.1 == 0 {
            event.args.0 = at;
        }
        event.args.1 = event.args.1.saturating_add(1);
        self.args.push((name, value));
    }

    /// All lanes as streams: by process, track and lane.
    pub fn streams(mut self, strings: &mut Strings) -> Vec<AnnotationVec> {
        // At equal times ends come first, so a slice that directly follows another fits into the same lane.
        self.events.sort_by_key(|e| (e.time, !matches!(e.what, What::End(_))));
        let mut tracks: BTreeMap<(i32, StrIx), Vec<Event>> = BTreeMap::new();
        for event in self.events {
            tracks.entry((event.pid, event.track)).or_default().push(event);
        }
        let mut out = Vec::new();
        let mut last_tid: HashMap<i32, i32> = HashMap::new();
        for ((pid, track), events) in tracks {
            let mut instants = Vec::new();
            let slices = slices(&events, &mut instants, &self.args, self.once);
            let lanes = lanes(slices, &self.args);
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
                out.push(AnnotationVec { pid, tid: *tid, events: lane, at: 0 });
            }
        }
        out
    }
}

/// An event of a lane.
fn annotation(time: Time, kind: Kind, name: StrIx) -> Annotation {
    Annotation { time, kind: kind as u8, name, ..Annotation::default() }
}

/// The arguments of the slice or instant before them; those that come with the end of a slice (`is_end`), of the innermost one.
fn arguments(
    time: Time,
    (first, n): Args,
    is_end: bool,
    args: &[(StrIx, ArgValue)],
) -> impl Iterator<Item = Annotation> {
    let first = first as usize;
    let own = args.get(first..first + usize::from(n)).unwrap_or_default();
    own.iter().map(move |&(name, value)| Annotation {
        b: u64::from(is_end),
        ..argument(time, name, value)
    })
}

/// Joins begins and ends by key, and sorts the slices by begin. Instants go to `instants`. An end without a begin
/// closes a slice that began before the trace. A key may be used again inside itself: the last begin ends first.
fn slices(
    events: &[Event],
    instants: &mut Vec<Annotation>,
    args: &[(StrIx, ArgValue)],
    once: bool,
) -> Vec<Slice> {
    let mut out: Vec<Slice> = Vec::new();
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    for event in events {
        match event.what {
            What::Begin(key, name) if once && open.get(&key).is_some_and(|o| !o.is_empty()) => {
                instants.push(annotation(event.time, Kind::Instant, name));
            }
            What::Begin(key, name) => {
                open.entry(key).or_default().push(out.len());
                out.push(Slice {
                    begin: Some(event.time),
                    end: None,
                    name,
                    args: [event.args, (0, 0)],
                });
            }
            What::End(key) => match open.get_mut(&key).and_then(Vec::pop) {
                Some(ix) => {
                    out[ix].end = Some(event.time);
                    out[ix].args[1] = event.args;
                }
                None => out.push(Slice {
                    begin: None,
                    end: Some(event.time),
                    name: event.track,
                    args: [(0, 0), event.args],
                }),
            },
            What::Instant(name) => {
                instants.push(annotation(event.time, Kind::Instant, name));
                instants.extend(arguments(event.time, event.args, false, args));
            }
        }
    }
    // The longest of the slices that begin together is the outermost.
    out.sort_by_key(|s| (s.begin, std::cmp::Reverse(s.end.unwrap_or(Time::MAX))));
    out
}

/// Puts each slice into the first lane that takes it.
fn lanes(slices: Vec<Slice>, args: &[(StrIx, ArgValue)]) -> Vec<Vec<Annotation>> {
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
        // The caller's stable sort by time keeps this order for equal times: a slice of no length begins before it
        // ends, and an end stays before the begin of a slice that follows directly.
        lane.open.push(end);
        if let Some(begin) = slice.begin {
            lane.events.push(annotation(begin, Kind::Begin, slice.name));
            // Those of its end too: where several slices end at once, the innermost would get them.
            for own in slice.args {
                (lane.events).extend(arguments(begin, own, false, args));
            }
        }
        if let Some(end) = slice.end {
            // The end of a slice whose begin is there needs no name.
            let name = slice.begin.map_or(slice.name, |_| StrIx::NONE);
            if slice.begin.is_none() {
                (lane.events).extend(arguments(end, slice.args[1], true, args));
            }
            lane.events.push(annotation(end, Kind::End, name));
        }
    }
    lanes.into_iter().map(|lane| lane.events).collect()
}

/// Adds the instants of a track to its first lane.
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

/// Joins the parts of a key into one number.
pub(crate) fn hash(value: impl Hash) -> u64 {
    // The hasher has no random seed, so a file gives the same ids each time.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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
            let (track, a, b, c, d) =
                (s.intern("net"), s.intern("a"), s.intern("b"), s.intern("c"), s.intern("d"));
            t.end(Time(30), 5, track, 1);
            t.begin(Time(10), 5, track, 1, a);
            t.begin(Time(12), 5, track, 2, b);
            t.end(Time(20), 5, track, 2);
            t.begin(Time(25), 5, track, 3, c);
            t.end(Time(40), 5, track, 3);
            t.begin(Time(30), 5, track, 4, d);
            t.end(Time(40), 5, track, 4);
        });
        assert_eq!(lanes, ["5/-1: T10net B10a B12b E20 E30 B30d E40", "5/-2: T25net #2 B25c E40"]);
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
