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

/// (time, rank, place among the CPUs) as one number: compared at once.
type Key = u128;

/// Up to so many CPUs no heap is kept.
const FEW: usize = 12;

fn key<C: CpuEvents>(cpus: &[(u16, C)], ix: usize, floor: Time) -> Option<Key> {
    let event = cpus[ix].1.head()?;
    // A stamp that goes back within a CPU must not hold up the merge.
    let time = (event.time.max(floor).0 as u64) ^ (1 << 63);
    Some(u128::from(time) << 64 | u128::from(event.what.rank()) << 32 | ix as u128)
}

fn place(key: Key) -> usize {
    key as u32 as usize
}

fn time(key: Key) -> Time {
    Time(((key >> 64) as u64 ^ (1 << 63)) as i64)
}

/// The smallest two keys, the first with its index.
fn smallest(keys: &[Key]) -> Option<(usize, Key, Option<Key>)> {
    let (mut at, mut first, mut second) = (0, *keys.first()?, Key::MAX);
    for (ix, &key) in keys.iter().enumerate().skip(1) {
        if key < first {
            (at, second, first) = (ix, first, key);
        } else if key < second {
            second = key;
        }
    }
    Some((at, first, (keys.len() > 1).then_some(second)))
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
    while let Some((at, first, limit)) = smallest(&keys) {
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
    let ix = place(first);
    let number = cpus[ix].0;
    loop {
        if let Some(event) = cpus[ix].1.head() {
            each(number, event);
        }
        cpus[ix].1.advance(strings)?;
        let Some(next) = key(cpus, ix, time(now)) else {
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
