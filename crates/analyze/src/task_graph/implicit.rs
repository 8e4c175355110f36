//! Implicit tasks: their beginnings, waits and ends become edges (see `teams`).
use super::NONE;
use super::making::{Doing, Making};
use super::teams::{self, Implicit, Part, Team};
use kasuri_model::{SliceKind, StrIx, TaskIx, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// Tasks that a `taskwait` leaves for the next; where there are more, only the barrier joins them: each wait looks at them again.
const MOST_LEFT: usize = 1000;

/// What is known of a team while its region runs.
#[derive(Default)]
struct State {
    /// The task that came to the region: it goes on when the region is over.
    outer: TaskIx,
    /// Its strand that ended there.
    from: u32,
    parts: Vec<TaskIx>,
    /// Tasks that were created in the region since its last barrier, without those that other tasks join.
    open: Vec<TaskIx>,
    round: Option<Round>,
    /// The implicit task whose `taskloop` began last, by name.
    loops: HashMap<StrIx, TaskIx>,
}

/// Waits at a barrier that belong together.
#[derive(Clone, Copy)]
struct Round {
    /// A strand of no weight: after all that the barrier waits for, before all that goes on after it.
    strand: u32,
    /// When the first thread went on; none: none has.
    left: Option<Time>,
}

#[derive(Clone, Copy)]
struct Waits {
    round: u32,
    is_open: bool,
}

/// A `taskloop`: the strand of its task that ended where it began, and its tasks.
#[derive(Default)]
struct Loop {
    from: u32,
    tasks: Vec<TaskIx>,
}

pub(super) struct Teams {
    pub all: Vec<Team>,
    /// Team of each part, in the order of the teams.
    team_of_part: Vec<u32>,
    /// The tasks after the trace's: implicit ones, in the order of their beginnings.
    pub implicit: Vec<Implicit>,
    /// Team of each of `implicit`; none: the initial task.
    team: Vec<u32>,
    state: Vec<State>,
    n_tasks: usize,
    /// The implicit task from which each task descends, if any.
    root: Vec<TaskIx>,
    is_taskloop: Vec<bool>,
    /// Of each thread that is a master: its initial task, and the end of its last region.
    initial: HashMap<ThreadIx, TaskIx>,
    last: HashMap<ThreadIx, Time>,
    /// What each implicit task has created since its last `taskwait`.
    children: HashMap<TaskIx, Vec<TaskIx>>,
    loops: HashMap<(TaskIx, StrIx), Loop>,
    /// Of each implicit task: how many of the tasks that its next `taskgroup` may wait for its last has looked at.
    looked_at: HashMap<TaskIx, usize>,
    /// The round that each implicit task waits in, or waited in last.
    rounds: HashMap<TaskIx, Waits>,
}

impl Teams {
    pub fn new(trace: &Trace) -> Teams {
        let all = teams::teams(trace);
        let is_taskloop = match all.is_empty() {
            true => Vec::new(),
            false => (trace.strings.iter()).map(|name| name.starts_with("taskloop ")).collect(),
        };
        let mut last: HashMap<ThreadIx, Time> = HashMap::new();
        for team in &all {
            let last = last.entry(team.parts[0].thread).or_insert(team.end);
            *last = team.end.max(*last);
        }
        Teams {
            state: all.iter().map(|_| State::default()).collect(),
            root: match all.is_empty() {
                true => Vec::new(),
                false => vec![TaskIx::NONE; trace.tasks.len()],
            },
            n_tasks: trace.tasks.len(),
            team_of_part: (all.iter().zip(0..))
                .flat_map(|(team, number)| team.parts.iter().map(move |_| number))
                .collect(),
            all,
            implicit: Vec::new(),
            team: Vec::new(),
            is_taskloop,
            initial: HashMap::new(),
            last,
            children: HashMap::new(),
            loops: HashMap::new(),
            looked_at: HashMap::new(),
            rounds: HashMap::new(),
        }
    }

    /// Parts of all teams, in the order of their numbers.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.all.iter().flat_map(|team| &team.parts)
    }

    /// Whether slices of the name are `taskloop` constructs of OpenMP.
    pub fn is_taskloop(&self, name: StrIx) -> bool {
        self.is_taskloop.get(name.ix()) == Some(&true)
    }

    fn is_implicit(&self, task: TaskIx) -> bool {
        task.ix() >= self.n_tasks
    }

    /// The team of an implicit task.
    fn team_of(&self, task: TaskIx) -> Option<usize> {
        let team = self.team.get(task.ix().checked_sub(self.n_tasks)?)?;
        (*team != NONE).then_some(*team as usize)
    }

    /// The implicit task that `task` is, or descends from.
    fn root_of(&self, task: TaskIx) -> TaskIx {
        match self.is_implicit(task) {
            true => task,
            false => self.root.get(task.ix()).copied().unwrap_or_default(),
        }
    }

    fn new_implicit(
        &mut self,
        made: &mut Making<'_, '_>,
        of: Implicit,
        from: u32,
        team: u32,
    ) -> TaskIx {
        self.implicit.push(of);
        self.team.push(team);
        made.new_task(of.thread, from)
    }

    /// A region begins: its master comes to it.
    pub fn fork(&mut self, made: &mut Making<'_, '_>, number: usize, time: Time) {
        let master = self.all[number].parts[0].thread;
        made.count(master, time);
        let outer = match made.doing(master) {
            Some(task) => task,
            None => self.initial(made, master, time),
        };
        self.state[number].outer = outer;
        self.state[number].from = made.next_strand(outer).0;
        self.begin(made, number, 0, time);
    }

    /// A thread begins its part of a region. The master has: what it does before is a part of the region.
    pub fn enter(&mut self, made: &mut Making<'_, '_>, part: usize, time: Time) {
        let number = self.team_of_part[part] as usize;
        let part = part - self.all[number].first_part;
        if part > 0 {
            self.begin(made, number, part, time);
        }
    }

    fn begin(&mut self, made: &mut Making<'_, '_>, number: usize, part: usize, time: Time) {
        let team = &self.all[number];
        let part = team.parts[part];
        let of = Implicit { name: team.name, thread: part.thread, start: time, end: team.end };
        made.count(part.thread, time);
        let task = self.new_implicit(made, of, self.state[number].from, number as u32);
        self.state[number].parts.push(task);
        made.open(part.thread, Some(part.row as usize), Doing::Task(task));
    }

    /// The initial task of a thread, which begins with its first region.
    fn initial(&mut self, made: &mut Making<'_, '_>, thread: ThreadIx, time: Time) -> TaskIx {
        if let Some(&task) = self.initial.get(&thread) {
            return task;
        }
        let of = Implicit {
            name: StrIx::NONE,
            thread,
            start: time,
            end: self.last.get(&thread).copied().unwrap_or(time),
        };
        let task = self.new_implicit(made, of, NONE, NONE);
        self.initial.insert(thread, task);
        made.open(thread, None, Doing::Task(task));
        task
    }

    /// A region is over: its master goes on.
    pub fn leave(&mut self, made: &mut Making<'_, '_>, number: usize, time: Time) {
        let State { outer, parts, open, .. } = std::mem::take(&mut self.state[number]);
        for part in &self.all[number].parts {
            made.count(part.thread, time);
            made.close(part.thread, Some(part.row as usize));
        }
        let (_, now) = made.next_strand(outer);
        for task in parts {
            made.cross.push((now, made.places[task.ix()].now));
            self.children.remove(&task);
            self.rounds.remove(&task);
            self.looked_at.remove(&task);
        }
        made.needs.extend(open.into_iter().map(|task| (now, task)));
        let master = self.all[number].parts[0].thread;
        if self.last.get(&master) == Some(&time) && self.initial.get(&master) == Some(&outer) {
            made.close(master, None);
        }
    }

    /// The strand after which a task comes; none: that is as its parent says.
    pub fn creates(&mut self, made: &mut Making<'_, '_>, row: usize) -> Option<u32> {
        if self.all.is_empty() {
            return None;
        }
        let task = &made.cut.trace.tasks[row];
        let parent = Some(task.parent).filter(|parent| parent.ix() < self.n_tasks);
        let here = parent.or_else(|| made.doing(task.creator))?;
        let root = self.root_of(here);
        let team = self.team_of(root);
        let own = TaskIx(row as u32);
        self.root[row] = root;
        if let Some(team) = team.filter(|_| task.joined == Time::MAX) {
            self.state[team].open.push(own);
        }
        // libgomp's are created where they start, not by the thread that comes to the construct.
        if self.is_taskloop(task.name) {
            let of_team = || self.state[team?].loops.get(&task.name).copied();
            let made = parent.or_else(of_team).map(|maker| (maker, task.name));
            if let Some(made) = made.and_then(|made| self.loops.get_mut(&made)) {
                made.tasks.push(own);
                return Some(made.from);
            }
        }
        if parent.is_some() || !self.is_implicit(here) {
            return None;
        }
        self.children.entry(here).or_default().push(own);
        Some(made.next_strand(here).0)
    }

    /// The thread begins to wait, or comes to a `taskloop`.
    pub fn waits(&mut self, made: &mut Making<'_, '_>, row: usize) {
        let s = &made.cut.trace.slices;
        let (thread, name, time) = (s.thread[row], s.name[row], s.start[row]);
        let Some(task) = made.doing(thread).filter(|_| !self.all.is_empty()) else {
            return;
        };
        if s.kind[row] == SliceKind::Work {
            let (from, _) = made.next_strand(task);
            let tasks = Vec::new();
            self.loops.insert((task, name), Loop { from, tasks });
            if let Some(team) = self.team_of(task) {
                self.state[team].loops.insert(name, task);
            }
        } else if s.kind[row] == SliceKind::Barrier
            && let Some(team) = self.team_of(task)
            && self.all[team].barrier == s.object[row]
        {
            let now = made.places[task.ix()].now;
            // One that came at the stamp at which the first went on was in it; but not one that was in it before.
            let was_in = self.rounds.get(&task).map(|of| of.round);
            let of_now = |round: &Round| {
                round.left.is_none_or(|left| left == time) && was_in != Some(round.strand)
            };
            let round = match self.state[team].round.filter(of_now) {
                Some(round) => round,
                None => Round { strand: made.new_strand(task, now), left: None },
            };
            self.state[team].round = Some(round);
            made.cross.push((round.strand, now));
            let waits = Waits { round: round.strand, is_open: true };
            self.rounds.insert(task, waits);
        }
    }

    /// It goes on.
    pub fn waited(&mut self, made: &mut Making<'_, '_>, row: usize) {
        let trace = made.cut.trace;
        let s = &trace.slices;
        let (name, time) = (s.name[row], s.end[row]);
        let Some(task) = made.doing(s.thread[row]).filter(|_| !self.all.is_empty()) else {
            return;
        };
        let has_ended = |task: &TaskIx| trace.tasks[task.ix()].ended <= time;
        let mut awaited = Vec::new();
        match s.kind[row] {
            SliceKind::Work => {
                if let Some(of) = self.loops.get_mut(&(task, name)) {
                    awaited = std::mem::take(&mut of.tasks);
                    awaited.retain(has_ended);
                }
            }
            SliceKind::Barrier => return self.barrier_ends(made, task, time),
            SliceKind::Join if self.is_implicit(task) => {
                let is_group = trace.strings.get(name).starts_with("taskgroup ");
                awaited = self.awaited(task, is_group);
                let left: Vec<TaskIx> = awaited.extract_if(.., |task| !has_ended(task)).collect();
                // A taskwait with `depend`: the next one may wait for them.
                if !is_group && left.len() <= MOST_LEFT {
                    self.children.insert(task, left);
                }
            }
            _ => {}
        }
        if !awaited.is_empty() {
            let (_, now) = made.next_strand(task);
            made.needs.extend(awaited.into_iter().map(|on| (now, on)));
        }
    }

    /// What an implicit task has created since its last `taskwait`; of a group, with descendants: since its last group or barrier.
    fn awaited(&mut self, task: TaskIx, is_group: bool) -> Vec<TaskIx> {
        let team = self.team_of(task);
        let children = self.children.entry(task).or_default();
        if !is_group {
            if team.is_none() {
                self.looked_at.remove(&task);
            }
            return std::mem::take(children);
        }
        let all = team.map_or(&*children, |team| &self.state[team].open);
        let from = self.looked_at.insert(task, all.len()).unwrap_or(0);
        let own = all[from.min(all.len())..].iter().copied();
        own.filter(|of| self.root[of.ix()] == task).collect()
    }

    fn barrier_ends(&mut self, made: &mut Making<'_, '_>, task: TaskIx, time: Time) {
        let Some(of) = self.rounds.get_mut(&task).filter(|of| of.is_open) else {
            return;
        };
        of.is_open = false;
        self.looked_at.remove(&task);
        let strand = of.round;
        if let Some(team) = self.team_of(task)
            && let State { round, open, .. } = &mut self.state[team]
            && let Some(round) = round.as_mut().filter(|round| round.strand == strand)
            && round.left.is_none()
        {
            round.left = Some(time);
            made.needs.extend(open.drain(..).map(|task| (strand, task)));
        }
        let (_, now) = made.next_strand(task);
        made.cross.push((now, strand));
    }
}
