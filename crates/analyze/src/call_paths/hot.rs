//! The few paths that stand for many: by the innermost function, each with the callers that lead to most of it.
//!
//! Thousands of stacks may differ in a line or a turn of a recursion, and then no stack has a share that is worth a line.
//! So time is added up by the innermost function, and its callers are followed outwards as long as one function leads to
//! at least half of the time.
use super::frames::{Frames, module_name};
use crate::quick_map::QuickMap;
use kasuri_model::{FrameIx, PathIx, Trace};
use serde::Serialize;

/// Callers that are followed.
const MAX_CALLERS: usize = 64;

/// A function of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathFrame {
    /// Its name, demangled; "" where it is not known.
    pub function: String,
    /// Program or library, without its folders; "" where it is not known.
    pub module: String,
    /// Source file; "" where it is not known.
    pub file: String,
    /// Line in it with the most time; 0: not known.
    pub line: u32,
}

/// A function in which threads ran or waited, and its callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HotPath {
    /// Time.
    pub ns: i64,
    /// Share of the time of the class.
    pub share: f64,
    /// Of `ns`: for which threads waited there; the rest they ran.
    pub waited_ns: i64,
    /// The function, its caller, and so on, as long as one caller leads to at least half of the time. Calls into the kernel
    /// or the C library are one frame; what begins every thread is left out.
    pub frames: Vec<PathFrame>,
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
    let mut groups: QuickMap<u32, (i64, Vec<PathTime>)> = QuickMap::default();
    for &time in times {
        let innermost = frames.shown(time.path)[0];
        let group = groups.entry(frames.function(innermost)).or_default();
        group.0 += time.ns;
        group.1.push(time);
    }
    let mut groups: Vec<(u32, (i64, Vec<PathTime>))> = groups.into_iter().collect();
    groups.sort_by_key(|&(function, (ns, _))| (std::cmp::Reverse(ns), function));
    let others = groups.iter().skip(most).map(|(_, (ns, _))| ns).sum();
    let hot = groups
        .into_iter()
        .take(most)
        .map(|(_, (ns, times))| HotPath {
            ns,
            share: ns as f64 / all_ns.max(1) as f64,
            waited_ns: times.iter().filter(|t| t.is_wait).map(|t| t.ns).sum(),
            frames: dominant(trace, frames, times),
        });
    (hot.collect(), others)
}

/// The innermost function of these paths and the callers that most of them share.
pub(super) fn dominant(
    trace: &Trace,
    frames: &mut Frames<'_>,
    mut times: Vec<PathTime>,
) -> Vec<PathFrame> {
    let all: i64 = times.iter().map(|t| t.ns).sum();
    let mut out = Vec::new();
    for depth in 0..=MAX_CALLERS {
        // By function: its time, and that of each of its lines.
        let mut by_function: QuickMap<u32, (i64, QuickMap<FrameIx, i64>)> = QuickMap::default();
        for time in &times {
            if let Some(&frame) = frames.shown(time.path).get(depth) {
                let entry = by_function.entry(frames.function(frame)).or_default();
                entry.0 += time.ns;
                *entry.1.entry(frame).or_default() += time.ns;
            }
        }
        let best = by_function
            .into_iter()
            .max_by_key(|&(f, (ns, _))| (ns, std::cmp::Reverse(f)));
        let Some((function, (ns, lines))) = best else {
            break;
        };
        if depth > 0 && ns * 2 < all {
            break;
        }
        let line = lines
            .into_iter()
            .max_by_key(|&(frame, ns)| (ns, std::cmp::Reverse(frame)));
        out.extend(line.map(|(frame, _)| path_frame(trace, frame)));
        times.retain(|time| {
            let frame = frames.shown(time.path).get(depth).copied();
            frame.is_some_and(|frame| frames.function(frame) == function)
        });
    }
    out
}

/// A frame with its texts.
pub(super) fn path_frame(trace: &Trace, frame: FrameIx) -> PathFrame {
    let f = &trace.frames;
    let text = |ix| trace.strings.get(ix);
    PathFrame {
        function: crate::demangled(text(f.function[frame.ix()])).into_owned(),
        module: module_name(text(f.module[frame.ix()])).into(),
        file: text(f.file[frame.ix()]).into(),
        line: f.line[frame.ix()],
    }
}
