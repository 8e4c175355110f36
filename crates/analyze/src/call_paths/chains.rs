//! Waits, and the chain of those that ended them.
//!
//! Goal: "the consumer read from a pipe; its writer, the filter, waited for the producer; the producer ran `compress`".
//! Method: at each instant of a wait, the thread that will end it does something. It runs: the chain ends with what it ran. It waits,
//! too: that wait is ended by somebody, and the same is asked of them, at the same instant. So each instant has one chain, and
//! the times of chains add up to the time of the waits. The chains of a class are a tree; a node's time is that of all chains
//! through it.
//!
//! A wait ends later than every wait that it is followed to: a thread that wakes another was woken before. So no chain is endless.
//! Rejected: the waker's last stretch before the wake-up stands for all of the wait. It would say what a producer did last, not
//! what took it so long.
use super::calls::{Call, Channel};
use super::cover::{Cover, Owner};
use super::frames::Frames;
use super::hot::{PathFrame, PathTime, dominant};
use super::sampled::Sampled;
use super::waits::TOLERANCE_NS;
use crate::account::{Cause, Class, Note};
use crate::wakers::{DYING_NS, End, end as end_of_wait, waker};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{
    Duration, PathIx, ProcessIx, SampleKind, SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Most waits of a chain that are told.
const MAX_LINKS: u32 = 8;
/// Most threads that are asked; more than links, as neighbours that are alike are one link.
const MAX_THREADS: u32 = 32;
/// Most nodes; what would need more is told without its end.
const MAX_NODES: usize = 1 << 14;
/// Most wake-ups that are looked at for one thread that ended; a file may have any number within a moment.
const NEAR_MAX: usize = 1 << 12;
/// Most nodes of a class in JSON, and the least share of its time that a node needs.
const MOST_ROWS: usize = 200;
const LEAST_SHARE: f64 = 0.001;

/// What a thread of a chain did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Did {
    /// It waited; what follows is why.
    Waited,
    /// It ran: the end of the chain.
    Ran,
    /// It was ready to run, and had no CPU.
    WasReady,
    /// The time came that the thread before had chosen.
    Timer,
    /// A timer, a device or the network ended the wait.
    Interrupt,
    /// The disk, or another device that was waited for without interruption.
    Device,
    /// A thread of another process ended the wait.
    Process,
    /// The wait did not end in this recording.
    Endless,
    /// The chain goes on, and is not told.
    More,
    /// It is not known.
    Unknown,
}

impl Did {
    const fn key(self) -> &'static str {
        match self {
            Did::Waited => "waited",
            Did::Ran => "ran",
            Did::WasReady => "ready",
            Did::Timer => "timer",
            Did::Interrupt => "interrupt",
            Did::Device => "device",
            Did::Process => "process",
            Did::Endless => "endless",
            Did::More => "more",
            Did::Unknown => "unknown",
        }
    }
}

/// A thread and its code, as far as chains tell it apart: threads by name, code by function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Step {
    did: Did,
    name: StrIx,
    /// [`Frames::use_shown`]; `u32::MAX`: no sample with a path stands for it.
    function: u32,
    /// What it waited for: a function of a library's may wait for a lock of its own, and then for a reader.
    call: Call,
}

/// Before all steps of a class.
const ROOT: Step =
    Step { did: Did::Waited, name: StrIx::NONE, function: u32::MAX - 1, call: Call::Other };

/// A step, behind those that lead to it.
#[derive(Debug)]
struct Node {
    step: Step,
    children: Vec<u32>,
    ns: i64,
    /// One of the threads that did it, and whether there are others.
    thread: ThreadIx,
    is_shared: bool,
    paths: QuickMap<PathIx, i64>,
    /// Where it ended the wait of the step before.
    woke: QuickMap<PathIx, i64>,
    /// Waits (rows of [`Trace::states`]), and their whole length.
    waits: QuickSet<u32>,
    waits_ns: i64,
}

/// The waits of each class.
pub(super) struct Chains<'t> {
    trace: &'t Trace,
    cover: &'t Cover,
    frames: Frames<'t>,
    sampled: &'t Sampled,
    nodes: Vec<Node>,
    child: QuickMap<(u32, Step), u32>,
    roots: Vec<(Class, u32)>,
    /// What the chains of the part that was added last end with: a bit for each [`Did`].
    ends: u16,
    has_annotated_waits: bool,
}

fn is_wait(kind: &SliceKind) -> bool {
    !matches!(kind, SliceKind::Work | SliceKind::TaskRun | SliceKind::LockHold)
}

/// A part of a thread's time that a chain has come to.
#[derive(Clone, Copy)]
struct Part {
    thread: ThreadIx,
    from: Time,
    to: Time,
}

/// How a chain got there.
#[derive(Clone, Copy)]
struct Way {
    /// The node behind which the next step stands.
    node: u32,
    links: u32,
    threads: u32,
    /// The wake-up that ended the wait before; none at the beginning.
    woke: Option<Time>,
}

impl<'t> Chains<'t> {
    pub fn new(trace: &'t Trace, cover: &'t Cover, sampled: &'t Sampled) -> Chains<'t> {
        Chains {
            trace,
            cover,
            sampled,
            frames: Frames::new(trace),
            nodes: Vec::new(),
            child: QuickMap::default(),
            roots: Vec::new(),
            ends: 0,
            has_annotated_waits: trace.slices.kind.iter().any(is_wait),
        }
    }

    /// Adds a part of a thread's wait, which the account charges to `cause`.
    pub fn add(&mut self, cause: Cause, thread: ThreadIx, from: Time, to: Time) {
        let class = cause.class;
        let known = self.roots.iter().find(|root| root.0 == class);
        let root = match known {
            Some(&(_, root)) => root,
            None => {
                let root = self.push(ROOT);
                self.roots.push((class, root));
                root
            }
        };
        self.nodes[root as usize].ns += (to - from).ns();
        let way = Way { node: root, links: 0, threads: 0, woke: None };
        self.ends = 0;
        self.follow(way, Part { thread, from, to });
        debug_assert!(
            self.agrees(cause),
            "{cause:?} of {thread:?} {from:?}..{to:?} ends with {:#b}",
            self.ends
        );
    }

    /// Whether the cause, which is printed as the headline, and the chain below it agree that a device was waited for, as far as both
    /// know. At annotated waits the account knows more than the wake-ups tell: the last thread at a barrier.
    fn agrees(&self, cause: Cause) -> bool {
        let bit = |did: Did| 1 << did as u16;
        let is_known = self.ends & bit(Did::Unknown) == 0 && cause.note != Note::Stopped;
        match cause.class {
            _ if self.has_annotated_waits || !is_known => true,
            Class::IoWait => self.ends & !(bit(Did::Device) | bit(Did::More)) == 0,
            Class::ExternalWait | Class::WaitingForOwnThreads => self.ends & bit(Did::Device) == 0,
            _ => true,
        }
    }

    fn push(&mut self, step: Step) -> u32 {
        self.nodes.push(Node {
            step,
            children: Vec::new(),
            ns: 0,
            thread: ThreadIx::NONE,
            is_shared: false,
            paths: QuickMap::default(),
            woke: QuickMap::default(),
            waits: QuickSet::default(),
            waits_ns: 0,
        });
        self.nodes.len() as u32 - 1
    }

    /// The node of a step behind `parent`, with so much more time. A step like the one before is the same.
    fn step(&mut self, parent: u32, step: Step, ns: i64) -> Option<u32> {
        if step.did == Did::Waited && self.nodes[parent as usize].step == step {
            return Some(parent);
        }
        let node = match self.child.get(&(parent, step)) {
            Some(&node) => node,
            None if self.nodes.len() >= MAX_NODES => return None,
            None => {
                let node = self.push(step);
                self.child.insert((parent, step), node);
                self.nodes[parent as usize].children.push(node);
                node
            }
        };
        self.nodes[node as usize].ns += ns;
        Some(node)
    }

    /// Follows what the thread did in its part of the wait.
    fn follow(&mut self, way: Way, part: Part) {
        let Part { thread, from, to } = part;
        let states = &self.trace.states;
        let rows = &self.trace.threads[thread.ix()].states;
        let (first, end) = (rows.start as usize, rows.end as usize);
        let begun = states.start[first..end].partition_point(|&start| start <= from);
        let mut row = first + begun.saturating_sub(1);
        let mut at = from;
        if begun == 0 {
            // Not born, or not known yet: until then its maker is waited for.
            at = to.min(states.start.get(first).copied().filter(|_| first < end).unwrap_or(to));
            self.before_its_birth(way, Part { to: at, ..part });
        }
        while at < to {
            let next = if row + 1 < end { states.start[row + 1] } else { Time::MAX };
            let until = next.min(to);
            let piece = Part { from: at, to: until, ..part };
            if until > at {
                match states.state[row] {
                    ThreadState::Running => self.ran(way, piece),
                    ThreadState::Unknown => self.end(way, Did::Unknown, StrIx::NONE, piece),
                    state if state.is_runnable() => {
                        self.end(way, Did::WasReady, self.name(thread), piece)
                    }
                    _ => self.waited(way, piece, row, end),
                }
            }
            (at, row) = (until, row + 1);
        }
    }

    fn before_its_birth(&mut self, way: Way, part: Part) {
        if part.to <= part.from {
            return;
        }
        let rows = &self.trace.threads[part.thread.ix()].states;
        let by = &self.trace.states.by;
        let maker = match rows.is_empty() {
            true => ThreadIx::NONE,
            false => by[rows.start as usize],
        };
        if !self.is_own(maker) || maker == part.thread || way.threads >= MAX_THREADS {
            return self.end(way, Did::Unknown, StrIx::NONE, part);
        }
        let threads = way.threads + 1;
        self.follow(Way { threads, ..way }, Part { thread: maker, ..part });
    }

    fn name(&self, thread: ThreadIx) -> StrIx {
        self.trace.threads[thread.ix()].name
    }

    fn is_own(&self, thread: ThreadIx) -> bool {
        self.trace.is_target(thread)
    }

    /// The chain ends with the code that the thread ran.
    fn ran(&mut self, way: Way, part: Part) {
        self.ends |= 1 << Did::Ran as u16;
        let cover = self.cover;
        for (owner, length) in cover.between(part.thread, part.from, part.to) {
            let path = self.path_of(owner);
            self.put(way, Did::Ran, part.thread, path, length.ns());
        }
    }

    /// The chain ends, at no code.
    fn end(&mut self, way: Way, did: Did, name: StrIx, part: Part) {
        self.ends |= 1 << did as u16;
        let step = Step { did, name, function: u32::MAX, call: Call::Other };
        self.step(way.node, step, (part.to - part.from).ns());
    }

    fn path_of(&self, owner: Owner) -> PathIx {
        let path = owner.sample().map(|row| self.trace.samples.path[row]);
        path.unwrap_or(PathIx::NONE)
    }

    /// Adds a step at a place in the code; its node.
    fn put(&mut self, way: Way, did: Did, thread: ThreadIx, path: PathIx, ns: i64) -> Option<u32> {
        let function = match path.is_some() {
            true => self.frames.use_shown(path),
            false => u32::MAX,
        };
        let call = match did == Did::Waited && path.is_some() {
            true => self.frames.call(path),
            false => Call::Other,
        };
        let step = Step { did, name: self.name(thread), function, call };
        let node = self.step(way.node, step, ns)?;
        let woke = way.woke.and_then(|time| self.where_it_woke(thread, time));
        let row = &mut self.nodes[node as usize];
        row.is_shared |= row.thread.is_some() && row.thread != thread;
        row.thread = thread;
        if path.is_some() {
            *row.paths.entry(path).or_default() += ns;
        }
        if let Some(path) = woke {
            *row.woke.entry(path).or_default() += ns;
        }
        Some(node)
    }

    /// The thread waited, too, in the state at `row`; its states end at `end`.
    fn waited(&mut self, way: Way, part: Part, row: usize, end: usize) {
        if way.links >= MAX_LINKS || way.threads >= MAX_THREADS {
            return self.end(way, Did::More, StrIx::NONE, part);
        }
        let (thread, ns) = (part.thread, (part.to - part.from).ns());
        let owner = self.cover.between(thread, part.from, part.to).next();
        let path = owner.map_or(PathIx::NONE, |(owner, _)| self.path_of(owner));
        let Some(node) = self.put(way, Did::Waited, thread, path, ns) else {
            return;
        };
        let states = &self.trace.states;
        let whole = self.sampled.rearmed.whole(row);
        let next = whole.end;
        let ends = match next < end {
            true => states.start[next],
            false => self.trace.threads[thread.ix()].alive.end,
        };
        let info = &mut self.nodes[node as usize];
        if info.waits.insert(whole.start as u32) {
            info.waits_ns += (ends - states.start[whole.start]).ns();
        }
        let way = Way {
            node,
            links: way.links + u32::from(node != way.node),
            threads: way.threads + 1,
            woke: Some(ends),
        };
        if next >= end || self.sampled.killed.has(next - 1) {
            return self.end(way, Did::Endless, StrIx::NONE, part);
        }
        let call = match path.is_some() {
            true => self.frames.call(path),
            false => Call::Other,
        };
        let is_sleep = call == Call::Sleep;
        let did = match end_of_wait(self.trace, thread, next) {
            End::Thread(by) if call == Call::Lock && self.was_killed(thread, next, by) => {
                return self.end(way, Did::Endless, StrIx::NONE, part);
            }
            End::Thread(by) if by != thread && self.is_own(by) => {
                return self.follow(way, Part { thread: by, ..part });
            }
            End::Thread(by) if by != thread => {
                let process = self.trace.process_of(by);
                return self.end(way, Did::Process, process.name, part);
            }
            End::Device => Did::Device,
            _ if is_sleep => Did::Timer,
            End::Interrupt => Did::Interrupt,
            End::Thread(_) | End::Unknown => Did::Unknown,
        };
        self.end(way, did, StrIx::NONE, part);
    }

    /// Whether a thread that waited for a lock until this row never got it: another process
    /// woke it, or a thread that ended its own process and woke
    /// several so, and it did nothing but end. Who kills it is no holder.
    fn was_killed(&self, thread: ThreadIx, row: usize, by: ThreadIx) -> bool {
        let (trace, woken) = (self.trace, self.trace.states.start[row]);
        if !self.only_ends(thread, woken) {
            return false;
        }
        let process = trace.threads[thread.ix()].process;
        if trace.threads[by.ix()].process != process {
            return true;
        }
        let w = &trace.wakeups;
        let first = w.time.partition_point(|&time| (woken - time).ns() > DYING_NS);
        let near = (first..w.time.len().min(first + NEAR_MAX))
            .take_while(|&row| (w.time[row] - woken).ns() <= DYING_NS);
        let mut wakees =
            near.filter(|&row| w.waker[row] == by).map(|row| (w.wakee[row], w.time[row]));
        let is_its =
            |wakee: ThreadIx| wakee.is_some() && trace.threads[wakee.ix()].process == process;
        let ends = trace.threads[by.ix()].alive.end < trace.span.end;
        ends && wakees
            .any(|(wakee, at)| wakee != thread && is_its(wakee) && self.only_ends(wakee, at))
    }

    /// Whether a thread that was woken then ended: it hardly ran, however long it waited
    /// for a CPU, and never waited again.
    fn only_ends(&self, thread: ThreadIx, woken: Time) -> bool {
        let (info, states) = (&self.trace.threads[thread.ix()], &self.trace.states);
        let rows = info.states.start as usize..info.states.end as usize;
        let mut row =
            rows.start + states.start[rows.clone()].partition_point(|&start| start < woken);
        let mut ran = 0;
        while row < rows.end && ran < DYING_NS && !states.state[row].is_blocked() {
            let end = if row + 1 < rows.end { states.start[row + 1] } else { info.alive.end };
            if states.state[row] == ThreadState::Running {
                ran += (end - states.start[row]).ns();
            }
            row += 1;
        }
        row == rows.end && ran < DYING_NS && info.alive.end < self.trace.span.end
    }

    /// Who held the lock for which `thread` is blocked from `from` to `to`: whoever will end the wait, or where that one waits for a lock,
    /// whoever will end that. In order, without gaps; none: it is not known.
    pub fn holders(
        &mut self,
        thread: ThreadIx,
        from: Time,
        to: Time,
    ) -> Vec<(ThreadIx, Time, Time)> {
        let mut out = Vec::new();
        self.add_holders(Part { thread, from, to }, MAX_THREADS, &mut out);
        out
    }

    fn add_holders(&mut self, part: Part, left: u32, out: &mut Vec<(ThreadIx, Time, Time)>) {
        let (thread, states) = (part.thread, &self.trace.states);
        let rows = self.trace.threads[thread.ix()].states.clone();
        let rows = rows.start as usize..rows.end as usize;
        let mut at = part.from;
        let mut row = states.start[rows.clone()].partition_point(|&start| start <= at) + rows.start;
        while at < part.to {
            let next = states.start.get(row).filter(|_| row < rows.end).copied();
            let until = next.unwrap_or(part.to).min(part.to);
            // The state before `row` lasts until then.
            let is_blocked = row > rows.start && states.state[row - 1].is_blocked();
            let piece = Part { from: at, to: until, ..part };
            let by = (is_blocked && row < rows.end && self.waits_for_lock(piece)).then(|| {
                let by = waker(self.trace, thread, row);
                match by.is_some() && self.was_killed(thread, row, by) {
                    true => ThreadIx::NONE,
                    false => by,
                }
            });
            match by {
                None if left == MAX_THREADS => out.push((ThreadIx::NONE, at, until)),
                None => out.push((thread, at, until)),
                Some(by) if left > 0 && by != thread && self.is_own(by) => {
                    self.add_holders(Part { thread: by, ..piece }, left - 1, out);
                }
                Some(_) => out.push((ThreadIx::NONE, at, until)),
            }
            (at, row) = (until, row + 1);
        }
    }

    fn waits_for_lock(&self, part: Part) -> bool {
        let owner = self.cover.between(part.thread, part.from, part.to).next();
        let path = owner.map_or(PathIx::NONE, |(owner, _)| self.path_of(owner));
        path.is_some() && self.frames.call(path) == Call::Lock
    }

    /// The path of the wake-up that a thread made at this time.
    fn where_it_woke(&self, thread: ThreadIx, time: Time) -> Option<PathIx> {
        let (rows, s) = (self.trace.samples_of(thread), &self.trace.samples);
        let tolerance = Duration(TOLERANCE_NS);
        let (first, last) = (time - tolerance, time + tolerance);
        let begin = rows.start + s.time[rows.clone()].partition_point(|&t| t < first);
        let near = (begin..rows.end).take_while(|&row| s.time[row] <= last);
        let near = near.filter(|&row| s.kind[row] == SampleKind::Waker && s.path[row].is_some());
        let nearest = near.min_by_key(|&row| s.time[row].0.abs_diff(time.0));
        nearest.map(|row| s.path[row])
    }

    /// The tree of a class; none: no thread of it was followed.
    pub fn of(&mut self, class: Class) -> Option<WaitChains> {
        let root = self.roots.iter().find(|root| root.0 == class)?.1;
        let ns = self.nodes[root as usize].ns;
        let mut out = WaitChains { ns, rest_ns: 0, nodes: Vec::new() };
        let least = (ns as f64 * LEAST_SHARE) as i64;
        let shown = self.largest(root, least);
        out.rest_ns = self.rest(root, &shown);
        let mut open: Vec<(u32, u32)> = self.ordered(root, &shown, 0);
        while let Some((node, depth)) = open.pop() {
            out.nodes.push(self.row(node, depth, ns, &shown));
            open.extend(self.ordered(node, &shown, depth + 1));
        }
        Some(out)
    }

    /// The nodes with the most time below `root`. A node has no more time than the one before it, so none lacks that.
    fn largest(&self, root: u32, least: i64) -> QuickSet<u32> {
        let mut shown = QuickSet::default();
        let mut open = std::collections::BinaryHeap::new();
        let push = |open: &mut std::collections::BinaryHeap<_>, of: u32| {
            for &child in &self.nodes[of as usize].children {
                let ns = self.nodes[child as usize].ns;
                if ns >= least.max(1) {
                    open.push((ns, std::cmp::Reverse(child)));
                }
            }
        };
        push(&mut open, root);
        while shown.len() < MOST_ROWS
            && let Some((_, std::cmp::Reverse(node))) = open.pop()
        {
            shown.insert(node);
            push(&mut open, node);
        }
        shown
    }

    /// The shown nodes behind this one, the least time first.
    fn ordered(&self, node: u32, shown: &QuickSet<u32>, depth: u32) -> Vec<(u32, u32)> {
        let children = self.nodes[node as usize].children.iter().copied();
        let mut rows: Vec<u32> = children.filter(|child| shown.contains(child)).collect();
        rows.sort_by_key(|&child| (self.nodes[child as usize].ns, std::cmp::Reverse(child)));
        rows.into_iter().map(|child| (child, depth)).collect()
    }

    /// Of a node's time, what the shown nodes behind it do not have; of an end, nothing.
    fn rest(&self, node: u32, shown: &QuickSet<u32>) -> i64 {
        let node = &self.nodes[node as usize];
        if node.step.did != Did::Waited {
            return 0;
        }
        let children = node.children.iter().filter(|child| shown.contains(child));
        node.ns - children.map(|&child| self.nodes[child as usize].ns).sum::<i64>()
    }

    fn row(&mut self, node: u32, depth: u32, all_ns: i64, shown: &QuickSet<u32>) -> ChainNode {
        let rest_ns = self.rest(node, shown);
        let info = &self.nodes[node as usize];
        let times = |paths: &QuickMap<PathIx, i64>| {
            let mut times: Vec<PathTime> =
                (paths.iter()).map(|(&path, &ns)| PathTime { path, is_wait: false, ns }).collect();
            times.sort_by_key(|time| time.path);
            times
        };
        let (paths, woke) = (times(&info.paths), times(&info.woke));
        let most = paths.iter().max_by_key(|time| (time.ns, time.path));
        let waits = info.step.did == Did::Waited;
        let call = most.filter(|_| waits).map(|time| self.frames.call(time.path));
        let channels = paths.iter().filter(|_| waits);
        let channels = channels.map(|time| self.frames.channel(time.path));
        let mut channels = channels.filter(|&channel| channel != Channel::Unknown);
        // One function may read from a pipe here and from a socket there.
        let first = channels.next();
        let channel = first.filter(|&first| channels.all(|channel| channel == first));
        let mut files = (paths.iter().filter(|_| waits))
            .map(|time| self.frames.file(time.path))
            .filter(|file| !file.is_empty());
        let file = files.next().unwrap_or_default();
        let file = match files.all(|other| other == file) {
            true => file.to_owned(),
            false => String::new(),
        };
        let thread = self.trace.threads.get(info.thread.ix());
        let is_process = info.step.did == Did::Process;
        let name = self.trace.strings.get(info.step.name).to_string();
        ChainNode {
            depth,
            did: info.step.did.key(),
            ns: info.ns,
            share: info.ns as f64 / all_ns.max(1) as f64,
            rest_ns,
            thread: if is_process { String::new() } else { name.clone() },
            tid: thread.filter(|_| !info.is_shared).map(|thread| thread.tid),
            process: match (is_process, thread.map(|thread| thread.process)) {
                (true, _) => name,
                (false, Some(process)) if process != ProcessIx::NONE => {
                    let name = self.trace.processes[process.ix()].name;
                    self.trace.strings.get(name).into()
                }
                _ => String::new(),
            },
            call: call.unwrap_or_default().key(),
            channel: channel.unwrap_or_default().key(),
            file,
            waits: info.waits.len() as u64,
            waits_ns: info.waits_ns,
            frames: dominant(self.trace, &mut self.frames, paths),
            woke: dominant(self.trace, &mut self.frames, woke),
        }
    }
}

/// The waits of a class and what ended them: a tree, whose nodes each stand behind those that lead to them. The times of the nodes
/// of depth 0 and `rest_ns` add up to `ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitChains {
    /// Time of the class for which a thread was blocked.
    pub ns: i64,
    /// Of it: in waits that are too few for a row.
    pub rest_ns: i64,
    /// Each before those behind it, the most time first.
    pub nodes: Vec<ChainNode>,
}

/// What a thread did while the thread of the node before it waited, which it then woke. Of a node that waited, the times of the
/// nodes behind it and `rest_ns` add up to its `ns`: they say what it waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChainNode {
    /// Number of nodes before it; 0: a thread whose wait the class has.
    pub depth: u32,
    /// `waited`; the others are ends: `ran`, `ready` (it had no CPU), `timer` (a time that the node before chose came), `interrupt` (a timer, a device, the network), `device` (in uninterruptible sleep), `process` (a thread of another process ended the wait), `endless` (the
    /// wait did not end), `more` (the chain is longer), `unknown`.
    #[schemars(extend("enum" = ["waited", "ran", "ready", "timer", "interrupt", "device", "process", "endless", "more", "unknown"]))]
    pub did: &'static str,
    /// Time.
    pub ns: i64,
    /// Share of the time of the class for which a thread was blocked.
    pub share: f64,
    /// Of a node that waited: time whose cause is too small for a row.
    pub rest_ns: i64,
    /// The thread, or all of this name; "" for ends without one.
    pub thread: String,
    /// Its id; null for several threads of this name.
    pub tid: Option<i32>,
    /// Its process, or the process that ended the wait.
    pub process: String,
    /// What it waited for: `sleep`, `read`, `write`, `poll`, `lock`, `condition`, `join`; "" where that is not known.
    #[schemars(extend("enum" = ["sleep", "read", "write", "poll", "lock", "condition", "join", ""]))]
    pub call: &'static str,
    /// The kind of file of a read or write: `pipe`, `socket`, `eventfd`, `timer`, `file` (one with a name, a terminal, a device); "" where that is not known, or where there are several kinds.
    #[schemars(extend("enum" = ["pipe", "socket", "eventfd", "timer", "file", ""]))]
    pub channel: &'static str,
    /// The path of that file; "" where it has none, or where there are several.
    pub file: String,
    /// Number of its waits.
    pub waits: u64,
    /// Their length, whole, also where the class has only a part of them.
    pub waits_ns: i64,
    /// Where it waited or ran: the function with its callers; empty without a sample.
    pub frames: Vec<PathFrame>,
    /// Where it ended the wait of the node before; empty where that was not sampled.
    pub woke: Vec<PathFrame>,
}
