//! Finds the threads whose annotations come from a client in a pid name space of its own.
//!
//! A client calls itself and its threads by inner numbers, the kernel's events by outer ones; the same number often means
//! another thread outside. Three sources, the surest first:
//! 1. the recorder translated the thread while it lived ([`Setup::inner`]);
//! 2. the kernel's events: a thread that annotates at an instant is on a CPU at that instant. The threads that were on a CPU at
//!    (nearly) all stamps of a stream are its candidates; one is its owner. Where several are left - as many as there are streams of
//!    that process - numbers were given out in the same order inside and outside. The same order binds all: a thread with a higher
//!    number than a translated one was born after it (where inner numbers began anew meanwhile, no thread fits);
//! 3. else the stream gets a thread of its own, "thread N of PID (name space)", without states: never a stranger's.
//!
//! Where the recorder could not tell a client's process ([`Setup::in_doubt`]: it was gone before the recorder looked), its numbers
//! are first taken for outer ones; they are believed when that thread belongs to the program and was on a CPU.
use crate::input::{AnnotationEvents, InnerThread, Setup};
use crate::sched::{IDLE, Sched};
use crate::table::NONE;
use crate::{StrIx, Strings, ThreadIx, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Stamps of a stream that are compared with who was on a CPU.
pub(crate) const SAMPLES: usize = 256;

/// So many make up for switches that the kernel hid.
const MANY_SAMPLES: usize = 8;

/// (pid, generation) as the client's files are named.
pub(crate) type ClientId = (i32, u32);

/// A thread's number in its pid name space, for what the program itself said of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerName {
    /// The client: the process's inner number, and which of that number it is.
    pub client: (i32, u32),
    /// The thread's inner number.
    pub tid: i32,
    /// The thread.
    pub thread: ThreadIx,
}

/// A stream whose thread is to be found.
struct Wanted {
    stream: usize,
    tid: i32,
    first: Time,
    /// Rows that were on a CPU at nearly all its stamps.
    candidates: Vec<u32>,
    /// Share of its stamps at which the thread of its number out here was on a CPU; none: nothing is known of them.
    as_named: Option<f64>,
}

/// The thread of each stream, as a row of the table; and the inner names among them.
pub(crate) fn stream_owners<S: AnnotationEvents>(
    sched: &mut Sched,
    streams: &mut [S],
    setup: &Setup,
    strings: &mut Strings,
) -> (Vec<u32>, Vec<(ClientId, i32, u32)>) {
    let mut owners = Owners {
        by_tid: sched.table.by_tid(),
        rows: vec![NONE; streams.len()],
        inner: Vec::new(),
        taken: HashMap::new(),
        unseen: HashMap::new(),
    };
    let mut translated_of: HashMap<ClientId, Vec<&InnerThread>> = HashMap::new();
    for thread in &setup.inner {
        translated_of.entry(thread.client).or_default().push(thread);
    }
    let translated_of = |client| translated_of.get(&client).map_or(&[][..], |threads| threads);
    let outer: HashMap<ClientId, i32> = setup.inner.iter().map(|t| (t.client, t.pid)).collect();
    let doubt: HashSet<ClientId> = setup.in_doubt.iter().copied().collect();
    let mut unknown: BTreeMap<ClientId, Vec<usize>> = BTreeMap::new();
    for (ix, stream) in streams.iter().enumerate() {
        let client = (stream.pid(), stream.generation());
        match outer.get(&client) {
            Some(&pid) => match translated(translated_of(client), stream.tid(), first(stream)) {
                Some(tid) => {
                    let row = owners.take(sched, ix, pid, tid, first(stream));
                    owners.inner.push((client, stream.tid(), row));
                }
                None => unknown.entry(client).or_default().push(ix),
            },
            None if doubt.contains(&client) => unknown.entry(client).or_default().push(ix),
            None => {
                owners.take(sched, ix, client.0, stream.tid(), first(stream));
            }
        }
    }
    let rows = owners.rows.iter().zip(streams.iter());
    owners.taken = rows.filter(|(row, _)| **row != NONE).map(|(&row, s)| (row, s.tid())).collect();
    for (client, of_client) in unknown {
        let wanted = of_client
            .into_iter()
            .map(|ix| {
                let times = streams[ix].sample(strings, SAMPLES);
                Wanted {
                    stream: ix,
                    tid: streams[ix].tid(),
                    first: first(&streams[ix]),
                    as_named: as_named(sched, setup, &owners.by_tid, &streams[ix], &times),
                    candidates: candidates(sched, setup, &times),
                }
            })
            .collect();
        let outer = outer.get(&client).copied();
        let births = births(sched, translated_of(client), &owners.by_tid);
        owners.resolve(sched, strings, (client, outer), wanted, &births);
    }
    (owners.rows, owners.inner)
}

fn first<S: AnnotationEvents>(stream: &S) -> Time {
    stream.first_time().map_or(Time::MIN, Time::within_horizon)
}

/// The outer number of a thread that called itself `ns_tid` at `time`: a number may be given out again.
fn translated(of_client: &[&InnerThread], ns_tid: i32, time: Time) -> Option<i32> {
    let named = of_client.iter().filter(|t| t.ns_tid == ns_tid);
    named.min_by_key(|t| t.time.0.abs_diff(time.0)).map(|t| t.tid)
}

struct Owners {
    by_tid: HashMap<i32, Vec<u32>>,
    rows: Vec<u32>,
    inner: Vec<(ClientId, i32, u32)>,
    /// Rows that have streams, with what those call them.
    taken: HashMap<u32, i32>,
    /// Rows of threads that no event knows.
    unseen: HashMap<(ClientId, i32), u32>,
}

impl Owners {
    /// The stream is that of thread `tid` of process `pid`, numbers of the kernel's events.
    fn take(&mut self, sched: &mut Sched, stream: usize, pid: i32, tid: i32, first: Time) -> u32 {
        let n_rows = sched.table.rows.len();
        let row = sched.table.for_annotations(&self.by_tid, pid, tid, first);
        if sched.table.rows.len() > n_rows {
            self.by_tid.entry(tid).or_default().push(row);
        }
        self.rows[stream] = row;
        row
    }

    /// The streams of a client whose threads the recorder did not translate; `outer`: its process, when known; `births`: of translated
    /// threads.
    fn resolve(
        &mut self,
        sched: &mut Sched,
        strings: &mut Strings,
        (client, outer): (ClientId, Option<i32>),
        mut wanted: Vec<Wanted>,
        births: &[(i32, Time)],
    ) {
        let is_named = |w: &Wanted| w.as_named.is_none_or(|share| share >= 0.5);
        if outer.is_none() && wanted.iter().all(is_named) {
            for w in wanted {
                let row = self.take(sched, w.stream, client.0, w.tid, w.first);
                self.taken.insert(row, w.tid);
            }
            return;
        }
        for w in &mut wanted {
            w.candidates.retain(|row| self.taken.get(row).is_none_or(|&tid| tid == w.tid));
            w.candidates.retain(|&row| {
                let born = sched.table.rows[row as usize].start;
                births.iter().all(|&(tid, other)| match tid.cmp(&w.tid) {
                    Ordering::Less => other <= born,
                    Ordering::Equal => true,
                    Ordering::Greater => born <= other,
                })
            });
        }
        let process = match outer {
            Some(pid) => sched.table.current_process(pid),
            None => only_process(sched, &wanted),
        };
        for w in &mut wanted {
            w.candidates.retain(|&row| sched.table.rows[row as usize].process == process);
            // Its main thread bears the number of the process, inside and outside.
            if w.tid == client.0 && process != NONE {
                let pid = sched.table.processes[process as usize].pid;
                w.candidates.retain(|&row| sched.table.rows[row as usize].tid == pid);
            }
        }
        by_elimination(sched, &mut wanted);
        let pid = match process {
            NONE => None,
            process => Some(sched.table.processes[process as usize].pid),
        };
        for w in wanted {
            let row = match w.candidates[..] {
                [row] => row,
                _ => {
                    let text = format!("thread {} of {} (name space)", w.tid, client.0);
                    let name = strings.intern(&text);
                    self.unresolved(sched, client, pid, w.tid, name, w.first)
                }
            };
            self.rows[w.stream] = row;
            self.taken.insert(row, w.tid);
            self.inner.push((client, w.tid, row));
        }
    }

    /// A thread that no event knows: its number is negative, so that no other thread has it.
    fn unresolved(
        &mut self,
        sched: &mut Sched,
        client: ClientId,
        pid: Option<i32>,
        tid: i32,
        name: StrIx,
        first: Time,
    ) -> u32 {
        if let Some(&row) = self.unseen.get(&(client, tid)) {
            return row;
        }
        let process = match pid {
            Some(pid) => sched.table.process_of(pid, 0, NONE),
            // Clients of one number in two name spaces are two processes.
            None => {
                let pid = -(client.0 + ((client.1 as i32 & 0xff) << 22));
                let process = sched.table.process_of(pid, 0, NONE);
                sched.table.processes[process as usize].is_ours = true;
                process
            }
        };
        let row = sched.table.add_unseen(-tid, first, process, name);
        self.unseen.insert((client, tid), row);
        row
    }
}

/// When translated threads of one client were born, by their inner numbers.
fn births(
    sched: &Sched,
    of_client: &[&InnerThread],
    by_tid: &HashMap<i32, Vec<u32>>,
) -> Vec<(i32, Time)> {
    let born = of_client.iter().filter_map(|t| {
        let rows = by_tid.get(&t.tid)?.iter();
        let lived = rows.map(|&row| &sched.table.rows[row as usize]);
        let row = lived.filter(|row| row.start <= t.time).max_by_key(|row| row.start)?;
        Some((t.ns_tid, row.start))
    });
    born.collect()
}

/// The one process that has a candidate for each stream; NONE: there is none, or several.
fn only_process(sched: &Sched, wanted: &[Wanted]) -> u32 {
    let of = |w: &Wanted| -> HashSet<u32> {
        w.candidates.iter().map(|&row| sched.table.rows[row as usize].process).collect()
    };
    let mut common: Option<HashSet<u32>> = None;
    for w in wanted {
        common = Some(match common {
            None => of(w),
            Some(common) => &common & &of(w),
        });
    }
    match common {
        Some(common) if common.len() == 1 => common.into_iter().next().unwrap_or(NONE),
        _ => NONE,
    }
}

/// A stream with one candidate takes it from the others. Then, if there are as many threads as streams, they are matched in the order of their numbers.
fn by_elimination(sched: &Sched, wanted: &mut [Wanted]) {
    loop {
        let sure: HashMap<u32, i32> = wanted
            .iter()
            .filter(|w| w.candidates.len() == 1)
            .map(|w| (w.candidates[0], w.tid))
            .collect();
        let mut changed = false;
        for w in wanted.iter_mut().filter(|w| w.candidates.len() > 1) {
            let before = w.candidates.len();
            w.candidates.retain(|row| sure.get(row).is_none_or(|&tid| tid == w.tid));
            changed |= w.candidates.len() < before;
        }
        if !changed {
            break;
        }
    }
    let open = |w: &&Wanted| w.candidates.len() > 1;
    let tids: std::collections::BTreeSet<i32> = wanted.iter().filter(open).map(|w| w.tid).collect();
    let mut rows: Vec<u32> =
        wanted.iter().filter(open).flat_map(|w| w.candidates.clone()).collect();
    rows.sort_unstable_by_key(|&row| (sched.table.rows[row as usize].tid, row));
    rows.dedup();
    if rows.len() != tids.len() {
        return;
    }
    let in_order: HashMap<i32, u32> = tids.into_iter().zip(rows).collect();
    let fits = |w: &Wanted| w.candidates.contains(&in_order[&w.tid]);
    if wanted.iter().filter(open).all(fits) {
        for w in wanted.iter_mut().filter(|w| w.candidates.len() > 1) {
            w.candidates = vec![in_order[&w.tid]];
        }
    }
}

/// Target threads that were on a CPU at nearly all of `times` at which it is known who was.
fn candidates(sched: &Sched, setup: &Setup, times: &[Time]) -> Vec<u32> {
    let mut seen_at: HashMap<u32, usize> = HashMap::new();
    let mut known = 0;
    for &time in times {
        let Some(running) = running_at(sched, time) else {
            continue;
        };
        known += 1;
        for row in running {
            *seen_at.entry(row).or_default() += 1;
        }
    }
    // The threads on CPUs are inferred in part then: a few stamps prove nothing.
    let is_inferred = sched.cpus.iter().any(|cpu| cpu.hidden > 0);
    if is_inferred && known < MANY_SAMPLES {
        return Vec::new();
    }
    let of_target = |row: u32| {
        let process = sched.table.rows[row as usize].process;
        sched.table.is_target(process, &setup.root_pids)
    };
    // A stamp next to a switch may fall on its wrong side: clocks are translated.
    let mut out: Vec<u32> = seen_at
        .into_iter()
        .filter(|&(row, n)| n * 10 >= known * 9 && of_target(row))
        .map(|(row, _)| row)
        .collect();
    out.sort_unstable();
    out
}

/// Share of `times` at which thread (pid, tid) of the program was on a CPU, the numbers taken for outer ones. None: it is not
/// known who was, at any of them. 0: there is no such thread.
fn as_named<S: AnnotationEvents>(
    sched: &Sched,
    setup: &Setup,
    by_tid: &HashMap<i32, Vec<u32>>,
    stream: &S,
    times: &[Time],
) -> Option<f64> {
    let (pid, tid) = (stream.pid(), stream.tid());
    let is_it = |row: u32| {
        let row = &sched.table.rows[row as usize];
        let process = &sched.table.processes[row.process as usize];
        (process.pid == pid || row.guessed) && sched.table.is_target(row.process, &setup.root_pids)
    };
    let rows: Vec<u32> = by_tid
        .get(&tid)
        .map_or(&[][..], |rows| rows)
        .iter()
        .copied()
        .filter(|&r| is_it(r))
        .collect();
    let running: Vec<Vec<u32>> = times.iter().filter_map(|&t| running_at(sched, t)).collect();
    if running.is_empty() {
        return None;
    }
    let n_running = running.iter().filter(|on| on.iter().any(|row| rows.contains(row))).count();
    Some(n_running as f64 / running.len() as f64)
}

/// The threads on the CPUs; none: of some CPU that is not known, or there are no events at all.
fn running_at(sched: &Sched, time: Time) -> Option<Vec<u32>> {
    let mut out = Vec::new();
    let mut any = false;
    for cpu in &sched.cpus {
        let Some(at) = cpu.start.partition_point(|&s| s <= time).checked_sub(1) else {
            if cpu.seen {
                return None;
            }
            continue;
        };
        any = true;
        match cpu.thread[at] {
            NONE => return None,
            IDLE => {}
            row => out.push(row),
        }
    }
    any.then_some(out)
}
