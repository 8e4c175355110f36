//! The few paths that stand for many: by the innermost function, each with the callers that lead to it.
//!
//! Thousands of stacks may differ in a line or a turn of a recursion, and then no stack has a share that is worth a line.
//! So time is added up by the innermost function. What the kernel or a library did is divided by the functions of the program that
//! called it, if one of them led to at least half. Callers are followed outwards as long as one function leads to nearly all of the
//! time: so a time is that of the whole path which stands beside it. Where they part, those with a fifth are named.
use super::calls::public_name;
use super::frames::{Frames, module_name};
use crate::demangle::short_name;
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameIx, PathIx, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// Callers that are followed.
const MAX_CALLERS: usize = 64;

/// One caller leads to nearly all of the time; stacks that end before are no other callers.
const NEARLY_ALL: f64 = 0.95;

/// A phase is named after functions with this part of its time.
const MOST: f64 = 2.0 / 3.0;

/// The outermost functions of a runtime say only that it runs: `main`, `Start`, its loop.
const RUNTIME_BEGINS: usize = 3;

/// Where callers part, those with this part of the path's time are named.
const WORTH_A_NAME: f64 = 0.2;

/// A function of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathFrame {
    /// Its name, demangled; "" where it is not known.
    pub function: String,
    /// Program or library, without its folders; "" where it is not known.
    pub module: String,
    /// Source file; "" where it is not known.
    pub file: String,
    /// Line in it of one of its places; 0: not known.
    pub line: u32,
}

/// A function in which threads ran or waited, and its callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HotPath {
    /// Time.
    pub ns: i64,
    /// Share of the time of the class.
    pub share: f64,
    /// Of `ns`: for which threads waited there; the rest they ran.
    pub waited_ns: i64,
    /// Of `ns`: in system calls that read or write bytes.
    #[serde(skip)]
    pub moves_ns: i64,
    /// Of `ns`: in the kernel's code that sends a signal, or begins its handler.
    #[serde(skip)]
    pub signals_ns: i64,
    /// Of `ns`: in the kernel's code that copies a page which processes share.
    #[serde(skip)]
    pub copies_ns: i64,
    /// The function, its caller, and so on, as long as one caller leads to nearly all of the time. Calls into the kernel
    /// or libraries are one frame; what begins every thread is left out.
    pub frames: Vec<PathFrame>,
    /// The callers of the last of `frames` that lead to at least a fifth of the time each, most first; none where stacks end there.
    pub callers: Vec<Caller>,
}

/// One of several callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Caller {
    /// Time.
    pub ns: i64,
    /// Share of the time of the class.
    pub share: f64,
    /// The function.
    pub frame: PathFrame,
}

/// Time at one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathTime {
    pub path: PathIx,
    pub is_wait: bool,
    pub ns: i64,
}

/// The functions with the most time, at most `most` of them, and the time of the others.
pub(super) fn hot_paths(
    trace: &Trace,
    frames: &mut Frames<'_>,
    times: &[PathTime],
    all_ns: i64,
    most: usize,
) -> (Vec<HotPath>, i64) {
    let share = |ns: i64| ns as f64 / all_ns.max(1) as f64;
    let mut groups: Vec<Group> = Vec::new();
    for group in grouped(times, |path| {
        let innermost = frames.shown(path)[0];
        frames.function(innermost)
    }) {
        let owns = grouped(&group.times, |path| frames.use_shown(path));
        match owns[0].ns * 2 >= group.ns {
            true => groups.extend(owns),
            false => groups.push(group),
        }
    }
    groups.sort_by_key(|group| (std::cmp::Reverse(group.ns), group.key));
    let others = groups.iter().skip(most).map(|group| group.ns).sum();
    let hot = groups.into_iter().take(most).map(|Group { ns, times, .. }| {
        let waited = times.iter().filter(|t| t.is_wait).map(|t| t.ns).sum();
        let moves = times.iter().filter(|t| !t.is_wait && frames.moves_bytes(t.path));
        let moves_ns = moves.map(|t| t.ns).sum();
        let signals = times.iter().filter(|t| !t.is_wait && frames.signals(t.path));
        let signals_ns = signals.map(|t| t.ns).sum();
        let copies = times.iter().filter(|t| !t.is_wait && frames.copies_page(t.path));
        let copies_ns = copies.map(|t| t.ns).sum();
        let (path, callers) = common(trace, frames, times);
        let callers = callers.into_iter().map(|(ns, frame)| Caller { ns, share: share(ns), frame });
        HotPath {
            ns,
            share: share(ns),
            waited_ns: waited,
            moves_ns,
            signals_ns,
            copies_ns,
            frames: path,
            callers: callers.collect(),
        }
    });
    (hot.collect(), others)
}

/// Times that are added up.
struct Group {
    key: u32,
    ns: i64,
    times: Vec<PathTime>,
}

/// By key, most time first.
fn grouped(times: &[PathTime], mut key: impl FnMut(PathIx) -> u32) -> Vec<Group> {
    let mut groups: QuickMap<u32, Group> = QuickMap::default();
    for &time in times {
        let key = key(time.path);
        let empty = || Group { key, ns: 0, times: Vec::new() };
        let group = groups.entry(key).or_insert_with(empty);
        group.ns += time.ns;
        group.times.push(time);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.ns), group.key));
    groups
}

/// The innermost function of these paths and the callers that nearly all of them share.
pub(super) fn dominant(
    trace: &Trace,
    frames: &mut Frames<'_>,
    times: Vec<PathTime>,
) -> Vec<PathFrame> {
    common(trace, frames, times).0
}

/// The same, and the callers at which they part, with the time of each.
fn common(
    trace: &Trace,
    frames: &mut Frames<'_>,
    mut times: Vec<PathTime>,
) -> (Vec<PathFrame>, Vec<(i64, PathFrame)>) {
    let all: i64 = times.iter().map(|t| t.ns).sum();
    let mut out = Vec::new();
    for depth in 0..=MAX_CALLERS {
        let at = |frames: &mut Frames<'_>, path| frames.shown(path).get(depth).copied();
        times.retain(|time| at(frames, time.path).is_some());
        let functions = grouped(&times, |path| {
            let frame = at(frames, path).expect("the others were left out");
            frames.function(frame)
        });
        let known: i64 = functions.iter().map(|group| group.ns).sum();
        let Some(best) = functions.first() else {
            break;
        };
        // The line with the most time.
        let mut place = |group: &Group| {
            let lines =
                grouped(&group.times, |path| at(frames, path).map_or(0, |frame| frame.ix() as u32));
            path_frame(trace, FrameIx(lines[0].key))
        };
        if depth > 0 && (best.ns as f64) < NEARLY_ALL * known as f64 {
            let worth = functions.iter();
            let worth = worth.take_while(|g| g.ns as f64 >= WORTH_A_NAME * all as f64);
            return (out, worth.map(|g| (g.ns, place(g))).collect());
        }
        // Most stacks end before.
        if known * 2 < all {
            break;
        }
        out.push(place(best));
        times = functions.into_iter().next().map_or_else(Vec::new, |g| g.times);
    }
    (out, Vec::new())
}

/// What a phase is named after: of the program's own functions that most of the time was spent in or below, the innermost, and the one that called it
/// ("" if that is the outermost). Where all is a runtime's, of its functions; where stacks end too early to tell callers, the function that ran most.
pub(super) fn trunk(
    trace: &Trace,
    frames: &mut Frames<'_>,
    times: Vec<PathTime>,
    all_ns: i64,
) -> Option<(PathFrame, String)> {
    let own = trunk_of(trace, frames, times.clone(), all_ns, 0, |path| frames.own(path));
    let any = |path| frames.named(path);
    let found = own.or_else(|| trunk_of(trace, frames, times.clone(), all_ns, RUNTIME_BEGINS, any));
    found.or_else(|| {
        let best = grouped(&times, |path| frames.use_shown(path)).into_iter().next()?;
        let is_most = best.ns >= (all_ns as f64 * MOST) as i64;
        let innermost = frames.shown(best.times.first()?.path)[0];
        let (most, says) = (path_frame(trace, innermost), !frames.runs_code(innermost));
        (is_most && says && !most.function.is_empty()).then_some((most, String::new()))
    })
}

/// The same, of these functions of each path, innermost first; none where these are not more than `begins`.
fn trunk_of(
    trace: &Trace,
    frames: &Frames<'_>,
    mut times: Vec<PathTime>,
    all_ns: i64,
    begins: usize,
    functions: impl Fn(PathIx) -> Vec<FrameIx>,
) -> Option<(PathFrame, String)> {
    let least = (all_ns as f64 * MOST) as i64;
    let mut trunk: Vec<FrameIx> = Vec::new();
    for depth in 0..MAX_CALLERS {
        let at = |path| {
            let all = functions(path);
            all.len().checked_sub(depth + 1).map(|at| all[at])
        };
        times.retain(|time| at(time.path).is_some());
        let frame = |path| at(path).expect("the others were left out");
        let best = grouped(&times, |path| frames.function(frame(path)));
        let Some(best) = best.into_iter().next().filter(|best| best.ns >= least) else {
            break;
        };
        let lines = grouped(&best.times, |path| frame(path).ix() as u32);
        trunk.push(FrameIx(lines[0].key));
        times = best.times;
    }
    if trunk.len() <= begins {
        return None;
    }
    let innermost = path_frame(trace, trunk.pop()?);
    let caller = trunk.pop().filter(|_| !trunk.is_empty());
    let caller = caller.map_or(String::new(), |caller| path_frame(trace, caller).function);
    Some((innermost, caller))
}

/// The name of a function, or of its module where it has none.
pub fn frame_name(frame: &PathFrame) -> String {
    match (frame.function.as_str(), frame.module.as_str()) {
        ("", "") => "[unknown]".into(),
        // The kernel's own notation, such as `[kernel]` or `[vdso]`, has its brackets already.
        ("", module) if module.starts_with('[') => module.into(),
        ("", module) => format!("[{module}]"),
        // Few people know what the C library's functions are called inside of it.
        (function, module) if is_libc(module) => public_name(function).into(),
        (function, _) => short_name(function),
    }
}

/// Whether it is the C library, or a part of it. `module`: without its folders.
pub fn is_libc(module: &str) -> bool {
    let begins = ["libc.so", "libc-", "libpthread", "ld-musl"];
    begins.iter().any(|begin| module.starts_with(begin))
}

/// A frame with its texts.
pub fn path_frame(trace: &Trace, frame: FrameIx) -> PathFrame {
    let f = &trace.frames;
    let text = |ix| trace.strings.get(ix);
    PathFrame {
        function: crate::demangled(text(f.function[frame.ix()])).into_owned(),
        module: module_name(text(f.module[frame.ix()])).into(),
        file: text(f.file[frame.ix()]).into(),
        line: f.line[frame.ix()],
    }
}
