//! The tree of functions that threads ran or waited in: a flame graph.
//!
//! A node is a function below the nodes of its callers; its time is that of all paths through it. Lines of one function are
//! one node, and so are nameless places of one module.
use super::certainty::Independent;
use super::cover::Cover;
use super::frames::Frames;
use super::hot::{PathFrame, PathTime, path_frame};
use super::join::{Join, Question};
use crate::Options;
use crate::account::{Account, Class};
use crate::cut::Cut;
use crate::session::Session;
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameIx, PathIx, SampleKind, ThreadIx, ThreadState, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// Name and version of the JSON that [`Flame`] serialises to.
pub const FLAME_SCHEMA: &str = "kasuri.flame/1";

/// Time to show in the tree.
#[derive(Clone, Debug, Default)]
pub struct FlameOptions {
    /// Part of the recording; strangers' threads too, or only the program's.
    pub options: Options,
    /// CPU time of this class of the account, by what explains it; none: all time on a CPU.
    pub class: Option<Class>,
    /// Threads with this id; none: all. Of a class: the part that the code of these threads explains.
    pub tid: Option<i32>,
    /// Without a class: the time that threads were blocked instead of that on a CPU.
    pub blocked: bool,
    /// Begin with the innermost functions.
    pub inverted: bool,
}

/// A tree of functions. The time of the roots, `unsampled_ns` and `without_code_ns` add up to `ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Flame {
    /// The name and version of this schema.
    #[schemars(extend("const" = FLAME_SCHEMA))]
    pub schema: &'static str,
    /// Class of the account; "" for the time that threads were on a CPU, or blocked.
    #[schemars(extend("enum" = std::iter::once("").chain(Class::ALL.map(Class::key)).collect::<Vec<_>>()))]
    pub class: &'static str,
    /// The time that threads were blocked: asleep, in uninterruptible sleep, stopped, idle or dead.
    pub blocked: bool,
    /// The time that the tree is about.
    pub ns: i64,
    /// No sample with a call path stands for it.
    pub unsampled_ns: i64,
    /// No code was there to sample.
    pub without_code_ns: i64,
    /// On-CPU time: so many samples of equal weight n would tell shares of it as certainly: 95 of 100 shares s are within
    /// `2 sqrt(s (1 - s) / n)`, a little more where s is near 0 or 1 (Wilson's interval). Null for other times, and where samples may be in step with
    /// the program.
    pub independent_samples: Option<u64>,
    /// Functions, each before those that it calls (inverted: its callers), the most time first.
    pub nodes: Vec<FlameNode>,
}

/// A function at its place in the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FlameNode {
    /// 0: a root; a node's caller (--invert: callee) is the nearest node before it that is one less deep.
    pub depth: u32,
    /// Time of all paths through it.
    pub ns: i64,
    /// Of this: in the function itself and in none that it called. Inverted, only roots have such a time.
    pub self_ns: i64,
    /// The function; of its lines one.
    pub frame: PathFrame,
}

/// The tree of a recording.
pub fn flame(trace: &Trace, options: &FlameOptions) -> Flame {
    let session = Session::new(trace, &options.options);
    let (cut, cover) = (session.cut(), session.cover());
    let mut out = Flame {
        schema: FLAME_SCHEMA,
        class: options.class.map_or("", Class::key),
        blocked: options.blocked && options.class.is_none(),
        ..Flame::default()
    };
    let times = match options.class {
        Some(class) => of_class(&session, class, options.tid, &mut out),
        None => of_states(&cut, cover, options, &mut out),
    };
    let sampled: i64 = times.iter().map(|time| time.ns).sum();
    out.ns = sampled + out.unsampled_ns + out.without_code_ns;
    out.nodes = Tree::of(trace, &times, options.inverted).rows(trace);
    out
}

fn of_class(
    session: &Session<'_>,
    class: Class,
    tid: Option<i32>,
    out: &mut Flame,
) -> Vec<PathTime> {
    let cut = session.cut();
    let join = std::cell::RefCell::new(Join::new(cut.trace, session.cover()));
    let add = |stretch: &crate::account::Stretch| join.borrow_mut().add(stretch);
    let (range, sampled) = (cut.from..cut.to, session.sampled());
    Account::telling(cut.trace, range, sampled, Some(Box::new(add)));
    let is_wanted = |thread: ThreadIx| {
        tid.is_none_or(|tid| thread.is_some() && cut.trace.threads[thread.ix()].tid == tid)
    };
    let join = join.into_inner();
    let (times, rest) = join.of_threads(class, Question::First, is_wanted);
    (out.unsampled_ns, out.without_code_ns) = (rest.unsampled, rest.without_code);
    times
}

/// Time on a CPU, or blocked.
fn of_states(
    cut: &Cut<'_>,
    cover: &Cover,
    options: &FlameOptions,
    out: &mut Flame,
) -> Vec<PathTime> {
    let (trace, tid, blocked) = (cut.trace, options.tid, options.blocked);
    let is_meant = |state: ThreadState| match blocked {
        true => state.is_blocked(),
        false => state == ThreadState::Running,
    };
    let is_sample_meant = |kind: SampleKind| match blocked {
        true => kind.is_wait(),
        false => kind == SampleKind::OnCpu,
    };
    let mut by_path: QuickMap<PathIx, i64> = QuickMap::default();
    let mut by_sample = vec![0; trace.samples.time.len()];
    let is_wanted = |t: &ThreadIx| tid.is_none_or(|tid| trace.threads[t.ix()].tid == tid);
    let weights = trace.is_weighed().then(|| cover.weights(trace, cut.from..cut.to));
    for thread in cut.threads().filter(|&t| cut.is_shown(t)).filter(is_wanted) {
        if let Some(weights) = &weights {
            let s = &trace.samples;
            for row in trace.samples_of(thread) {
                let ns = weights.sample[row].ns();
                match s.path[row] {
                    // Samples outside of the range weigh nothing.
                    _ if ns == 0 || !is_sample_meant(s.kind[row]) => {}
                    PathIx::NONE => out.unsampled_ns += ns,
                    path => *by_path.entry(path).or_default() += ns,
                }
            }
            continue;
        }
        for row in trace.states_of(thread).filter(|row| is_meant(row.state)) {
            let (from, to) = (row.start.max(cut.from), row.end.min(cut.to));
            for (owner, length) in cover.between(thread, from, to) {
                let sample = owner
                    .sample()
                    .map(|row| (row, trace.samples.path[row]))
                    .filter(|(_, path)| path.is_some());
                match sample {
                    Some((row, path)) => {
                        *by_path.entry(path).or_default() += length.ns();
                        by_sample[row] += length.ns();
                    }
                    None => out.unsampled_ns += length.ns(),
                }
            }
        }
    }
    // The clock of a profile without the scheduler's events is another tool's.
    if !blocked && weights.is_none() {
        let mut independent = Independent::default();
        by_sample.into_iter().for_each(|ns| independent.add(ns));
        out.independent_samples = independent.number(trace);
    }
    let time = |(path, ns)| PathTime { path, ns, is_wait: blocked };
    let mut times: Vec<PathTime> = by_path.into_iter().map(time).collect();
    times.sort_by_key(|time| time.path);
    times
}

/// A node while the tree grows.
struct Node {
    frame: FrameIx,
    ns: i64,
    self_ns: i64,
    children: Vec<u32>,
}

struct Tree {
    /// The first is the root of roots.
    nodes: Vec<Node>,
}

impl Tree {
    fn of(trace: &Trace, times: &[PathTime], inverted: bool) -> Tree {
        let frames = Frames::new(trace);
        let mut tree = Tree {
            nodes: vec![Node { frame: FrameIx::NONE, ns: 0, self_ns: 0, children: Vec::new() }],
        };
        let mut child_of: QuickMap<(u32, u32), u32> = QuickMap::default();
        for time in times {
            let mut path: Vec<FrameIx> = trace.frames_of(time.path).collect();
            if !inverted {
                path.reverse();
            }
            let mut at = 0;
            let innermost = if inverted { 0 } else { path.len() - 1 };
            for (nth, frame) in path.into_iter().enumerate() {
                let next = tree.nodes.len() as u32;
                let key = (at, frames.function(frame));
                let child = *child_of.entry(key).or_insert(next);
                if child == next {
                    tree.nodes[at as usize].children.push(next);
                    tree.nodes.push(Node { frame, ns: 0, self_ns: 0, children: Vec::new() });
                }
                at = child;
                tree.nodes[at as usize].ns += time.ns;
                tree.nodes[at as usize].self_ns += if nth == innermost { time.ns } else { 0 };
            }
        }
        tree
    }

    /// Each node before its children, those with most time first.
    fn rows(mut self, trace: &Trace) -> Vec<FlameNode> {
        for at in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[at].children);
            // Those to come last on a stack are taken first.
            children.sort_by_key(|&c| (self.nodes[c as usize].ns, std::cmp::Reverse(c)));
            self.nodes[at].children = children;
        }
        let mut out = Vec::with_capacity(self.nodes.len());
        let mut open: Vec<(u32, u32)> = self.nodes[0].children.iter().map(|&c| (c, 0)).collect();
        while let Some((at, depth)) = open.pop() {
            let node = &self.nodes[at as usize];
            out.push(FlameNode {
                depth,
                ns: node.ns,
                self_ns: node.self_ns,
                frame: path_frame(trace, node.frame),
            });
            open.extend(node.children.iter().map(|&c| (c, depth + 1)));
        }
        out
    }
}
