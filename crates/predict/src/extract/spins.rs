//! Spinning as waits: which thread of the program ended each, and when.
//!
//! Samples tell where a thread was in a loop that only waits; they do not tell for what. The thread that let it go on is taken to
//! be the one of its process that worked last before it did: on one CPU none other can have. The moment lies in what that
//! thread worked while the other spun or waited for a CPU, most often the middle: where in it is not known. Where it still works, on another CPU, the moment
//! is the end of the spinning.
use kasuri_model::Time;

/// A stretch of a thread's time.
pub(super) type Stretch = (Time, Time);

/// What is known of a thread, each in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    /// Threads of one process share memory.
    pub process: u32,
    /// On a CPU.
    pub running: Vec<Stretch>,
    /// Of that, spinning.
    pub spinning: Vec<Stretch>,
    /// Moments at which it went to sleep.
    pub slept: Vec<Time>,
}

/// A wait that a thread spent on a CPU, and what ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpinWait {
    pub thread: usize,
    pub from: Time,
    pub by: usize,
    pub at: Time,
}

/// The waits, and the time of those of which nothing in the program can have been the end, ns.
pub(super) fn waits(tracks: &[Track]) -> (Vec<SpinWait>, u64) {
    let working: Vec<Vec<Stretch>> =
        (tracks.iter()).map(|t| without(&t.running, &t.spinning)).collect();
    let (mut out, mut unknown) = (Vec::new(), 0);
    for (thread, track) in tracks.iter().enumerate() {
        for (from, end, ns) in together(&track.spinning, &working[thread]) {
            let until = goes_on(&track.running, end);
            // It gave up and slept: whoever woke it is in the recording.
            let next_sleep = track.slept.partition_point(|&t| t < end);
            let works_before = |time: Time| {
                let at = working[thread].partition_point(|w| w.1 <= end);
                working[thread].get(at).is_some_and(|w| w.0 < time)
            };
            if track.slept.get(next_sleep).is_some_and(|&t| !works_before(t)) {
                continue;
            }
            let others =
                (0..tracks.len()).filter(|&o| o != thread && tracks[o].process == track.process);
            let last = others.filter_map(|o| Some((last_before(&working[o], from, until)?, o)));
            match last.max_by_key(|&((_, end, _), _)| end) {
                Some(((start, end, goes_on), by)) => {
                    let middle = Time(start.0 + (end - start).ns() / 2);
                    let at = if goes_on { end } else { middle };
                    out.push(SpinWait { thread, from, by, at });
                }
                None => unknown += ns,
            }
        }
    }
    (out, unknown)
}

/// When the thread could see that its wait was over: it was spinning up to `end`, and if it lost its CPU then, when it got one again.
fn goes_on(running: &[Stretch], end: Time) -> Time {
    let run = running.partition_point(|r| r.1 < end);
    match (running.get(run), running.get(run + 1)) {
        (Some(run), Some(next)) if run.1 == end => next.0,
        _ => end,
    }
}

/// The last stretch that has a part in `from..until`: that part, and whether the stretch goes on beyond.
fn last_before(working: &[Stretch], from: Time, until: Time) -> Option<(Time, Time, bool)> {
    let after = working.partition_point(|w| w.0 < until);
    let &(start, end) = working[..after].last()?;
    (end > from).then(|| (start.max(from), end.min(until), end > until))
}

/// Stretches of spinning between which the thread did not work, as one; with the time on a CPU.
fn together(spinning: &[Stretch], working: &[Stretch]) -> Vec<(Time, Time, u64)> {
    let mut out: Vec<(Time, Time, u64)> = Vec::new();
    for &(start, end) in spinning {
        let ns = (end - start).ns().max(0) as u64;
        match out.last_mut() {
            Some(last) if !overlaps(working, last.1, start) => {
                last.1 = end;
                last.2 += ns;
            }
            _ => out.push((start, end, ns)),
        }
    }
    out
}

fn overlaps(stretches: &[Stretch], from: Time, until: Time) -> bool {
    let at = stretches.partition_point(|s| s.1 <= from);
    stretches.get(at).is_some_and(|s| s.0 < until)
}

/// `of` without what lies in `holes`; both in order of time, holes may overlap.
pub(super) fn without(of: &[Stretch], holes: &[Stretch]) -> Vec<Stretch> {
    let mut out = Vec::with_capacity(of.len());
    let mut next = 0;
    for &(mut start, end) in of {
        while holes.get(next).is_some_and(|hole| hole.1 <= start) {
            next += 1;
        }
        for &(from, to) in holes[next..].iter().take_while(|hole| hole.0 < end) {
            if from > start {
                out.push((start, from));
            }
            start = start.max(to);
        }
        if start < end {
            out.push((start, end));
        }
    }
    out
}

/// The part of `of` that lies in `within`.
pub(super) fn inside(of: &[Stretch], within: &[Stretch]) -> Vec<Stretch> {
    without(of, &without(of, within))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(of: &[(i64, i64)]) -> Vec<Stretch> {
        of.iter().map(|&(a, b)| (Time(a), Time(b))).collect()
    }

    fn track(running: &[(i64, i64)], spinning: &[(i64, i64)], slept: &[i64]) -> Track {
        Track {
            process: 1,
            running: stretches(running),
            spinning: stretches(spinning),
            slept: slept.iter().map(|&t| Time(t)).collect(),
        }
    }

    #[test]
    fn on_one_cpu_the_thread_that_ran_meanwhile_ended_the_wait() {
        // 0 works to 10, spins over two turns; 1 works in between, and spins at the end of its turn.
        let tracks = [
            track(&[(0, 30), (60, 70), (100, 130)], &[(10, 30), (60, 70)], &[]),
            track(&[(30, 60), (70, 100)], &[(90, 100)], &[]),
        ];
        let (found, unknown) = waits(&tracks);
        let wait = |thread, from, by, at| SpinWait { thread, from: Time(from), by, at: Time(at) };
        // Of 70..90 the middle; the other's spinning ended with the recording, and none worked: not known.
        assert_eq!(found, [wait(0, 10, 1, 80)]);
        assert_eq!(unknown, 10);
    }

    #[test]
    fn on_two_cpus_the_end_is_where_the_other_works_on() {
        let tracks = [track(&[(0, 100)], &[(20, 50)], &[]), track(&[(0, 100)], &[], &[])];
        let (found, _) = waits(&tracks);
        assert_eq!((found[0].by, found[0].at), (1, Time(50)));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn who_falls_asleep_is_woken_by_a_known_thread() {
        let tracks =
            [track(&[(0, 30), (80, 90)], &[(10, 30)], &[30]), track(&[(30, 80)], &[], &[])];
        assert_eq!(waits(&tracks), (Vec::new(), 0));
        // Another process's work ends no wait.
        let mut apart =
            [track(&[(0, 30), (80, 90)], &[(10, 30)], &[]), track(&[(30, 80)], &[], &[])];
        apart[1].process = 2;
        assert_eq!(waits(&apart), (Vec::new(), 20));
    }

    #[test]
    fn parts_and_holes() {
        let of = stretches(&[(0, 10), (20, 30)]);
        let holes = stretches(&[(-5, 2), (5, 22), (21, 25)]);
        assert_eq!(without(&of, &holes), stretches(&[(2, 5), (25, 30)]));
        assert_eq!(inside(&of, &holes), stretches(&[(0, 2), (5, 10), (20, 25)]));
    }
}
