//! The CPUs' streams in one time order.
//!
//! A heap holds one entry for each CPU. The CPU with the smallest key is drained until its key passes the second
//! smallest, so that a run of events on one CPU costs one comparison each. Ties: [`What::rank`], then the CPU's
//! number; within a CPU the recorded order stays, whatever the stamps say.
//!
//! [`What::rank`]: crate::input::What
use crate::input::{CpuEvents, Event};
use crate::{Error, Strings, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

type Key = (Time, u8, usize);

/// Up to so many CPUs no heap is kept.
const FEW: usize = 12;

fn key<C: CpuEvents>(cpus: &[(u16, C)], ix: usize, floor: Time) -> Option<Key> {
    // A stamp that goes back within a CPU must not hold up the merge.
    cpus[ix]
        .1
        .head()
        .map(|e| (e.time.max(floor), e.what.rank(), ix))
}

/// Calls `each` for every event with its CPU.
pub(crate) fn merge<C: CpuEvents>(
    cpus: &mut [(u16, C)],
    strings: &mut Strings,
    mut each: impl FnMut(u16, &Event),
) -> Result<(), Error> {
    if cpus.len() > FEW {
        return merge_many(cpus, strings, each);
    }
    // Few CPUs: looking at all keys is cheaper than keeping a heap of them.
    let mut keys: Vec<Key> = (0..cpus.len())
        .filter_map(|ix| key(cpus, ix, Time::MIN))
        .collect();
    while let Some((at, &first)) = keys.iter().enumerate().min_by_key(|(_, k)| **k) {
        let limit = keys
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, k)| *k)
            .min();
        match drain(cpus, strings, first, limit, &mut each)? {
            Some(next) => keys[at] = next,
            None => drop(keys.swap_remove(at)),
        }
    }
    Ok(())
}

/// The same with a heap.
fn merge_many<C: CpuEvents>(
    cpus: &mut [(u16, C)],
    strings: &mut Strings,
    mut each: impl FnMut(u16, &Event),
) -> Result<(), Error> {
    let mut heap: BinaryHeap<Reverse<Key>> = (0..cpus.len())
        .filter_map(|ix| key(cpus, ix, Time::MIN))
        .map(Reverse)
        .collect();
    while let Some(Reverse(first)) = heap.pop() {
        let limit = heap.peek().map(|Reverse(k)| *k);
        heap.extend(drain(cpus, strings, first, limit, &mut each)?.map(Reverse));
    }
    Ok(())
}

/// Takes one CPU's events up to another's turn. Returns its next key.
#[inline]
fn drain<C: CpuEvents>(
    cpus: &mut [(u16, C)],
    strings: &mut Strings,
    first: Key,
    limit: Option<Key>,
    each: &mut impl FnMut(u16, &Event),
) -> Result<Option<Key>, Error> {
    let mut now = first;
    let number = cpus[now.2].0;
    loop {
        if let Some(event) = cpus[now.2].1.head() {
            each(number, event);
        }
        cpus[now.2].1.advance(strings)?;
        let Some(next) = key(cpus, now.2, now.0) else {
            return Ok(None);
        };
        now = next;
        if limit.is_some_and(|l| now > l) {
            return Ok(Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::What;
    use crate::vec_source::CpuVec;

    fn at(ns: i64, tid: i32, switch: bool) -> Event {
        let what = if switch {
            What::In { tid }
        } else {
            What::Exit {
                tid,
                at_once: false,
            }
        };
        Event {
            time: Time(ns),
            context: 0,
            in_interrupt: false,
            what,
        }
    }

    fn order(cpus: Vec<Vec<Event>>) -> Vec<(u16, i64)> {
        let mut cpus: Vec<_> = cpus
            .into_iter()
            .enumerate()
            .map(|(n, events)| (n as u16, CpuVec { events, at: 0 }))
            .collect();
        let mut out = Vec::new();
        merge(&mut cpus, &mut Strings::default(), |cpu, e| {
            out.push((cpu, e.time.0))
        })
        .unwrap();
        out
    }

    #[test]
    fn merged_by_time_and_then_wakings_before_switches_then_cpu() {
        let cpus = vec![
            vec![at(1, 1, true), at(5, 1, true)],
            vec![at(0, 2, false), at(5, 2, false)],
            vec![at(5, 3, false)],
        ];
        assert_eq!(order(cpus), [(1, 0), (0, 1), (1, 5), (2, 5), (0, 5)]);
    }

    #[test]
    fn many_cpus_are_merged_like_few() {
        let streams = |n: i64| -> Vec<Vec<Event>> {
            (0..n)
                .map(|c| {
                    (0..50)
                        .map(|i| at((i * 7 + c * 3) % 40 + i, 1, (i + c) % 3 == 0))
                        .collect()
                })
                .collect()
        };
        let few = order(streams(FEW as i64));
        let padded = order(
            streams(FEW as i64)
                .into_iter()
                .chain(vec![Vec::new(); 5])
                .collect(),
        );
        assert_eq!(few, padded);
    }

    #[test]
    fn order_within_a_cpu_stays_even_when_stamps_go_back() {
        assert_eq!(
            order(vec![
                vec![at(9, 1, true), at(3, 1, true)],
                vec![at(5, 2, true), at(20, 2, true)]
            ]),
            [(1, 5), (0, 9), (0, 3), (1, 20)]
        );
    }
}
