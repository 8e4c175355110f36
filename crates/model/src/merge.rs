//! The CPUs' streams in one time order.
//!
//! The CPU with the smallest key is drained until its key passes the second smallest, so that a run of events on one
//! CPU costs one comparison each. Ties: [`What::rank`], then the CPU's number; within a CPU the recorded order stays,
//! whatever the stamps say.
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

fn key(time: Time, event: &Event, place: usize) -> Key {
    let time = (time.0 as u64) ^ (1 << 63);
    u128::from(time) << 64 | u128::from(event.what.rank()) << 32 | place as u128
}

fn place(key: Key) -> usize {
    key as u32 as usize
}

fn time(key: Key) -> Time {
    Time(((key >> 64) as u64 ^ (1 << 63)) as i64)
}

/// One CPU's events, some at hand.
pub(crate) struct CpuQueue<C> {
    pub number: u16,
    source: C,
    batch: Vec<Event>,
    /// The next event in `batch`.
    at: usize,
    /// Highest stamp so far: one that goes back must not hold up the merge.
    now: Time,
}

impl<C: CpuEvents> CpuQueue<C> {
    pub fn new(number: u16, source: C, strings: &mut Strings) -> Result<CpuQueue<C>, Error> {
        let (batch, now) = (Vec::new(), Time::MIN);
        let mut queue = CpuQueue { number, source, batch, at: 0, now };
        queue.refill(strings)?;
        Ok(queue)
    }

    /// The next event; none at the end.
    pub fn head(&self) -> Option<&Event> {
        self.batch.get(self.at)
    }

    fn refill(&mut self, strings: &mut Strings) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.source.fill(strings, &mut self.batch)?;
        for event in &mut self.batch {
            event.time = event.time.within_horizon();
        }
        Ok(())
    }

    /// Takes the events whose keys do not pass `limit`. Returns the next key; none at the end.
    #[inline]
    fn drain(
        &mut self,
        place: usize,
        limit: Key,
        strings: &mut Strings,
        each: &mut impl FnMut(u16, &Event),
    ) -> Result<Option<Key>, Error> {
        let limit_time = time(limit);
        loop {
            for event in &self.batch[self.at..] {
                let now = self.now.max(event.time);
                if now >= limit_time {
                    let key = key(now, event, place);
                    if key > limit {
                        return Ok(Some(key));
                    }
                }
                self.now = now;
                self.at += 1;
                each(self.number, event);
            }
            self.refill(strings)?;
            if self.batch.is_empty() {
                return Ok(None);
            }
        }
    }
}

/// The place of the smallest key, and the second smallest key; without a second: the highest that there is.
fn smallest(keys: &[Key]) -> Option<(usize, Key)> {
    let (mut at, mut first, mut second) = (0, *keys.first()?, Key::MAX);
    for (ix, &key) in keys.iter().enumerate().skip(1) {
        if key < first {
            (at, second, first) = (ix, first, key);
        } else if key < second {
            second = key;
        }
    }
    Some((at, second))
}

/// Calls `each` for every event with its CPU.
pub(crate) fn merge<C: CpuEvents>(
    mut queues: Vec<CpuQueue<C>>,
    strings: &mut Strings,
    mut each: impl FnMut(u16, &Event),
) -> Result<(), Error> {
    let keys = queues
        .iter()
        .enumerate()
        .filter_map(|(place, queue)| queue.head().map(|e| key(e.time, e, place)));
    if queues.len() > FEW {
        let mut heap: BinaryHeap<Reverse<Key>> = keys.map(Reverse).collect();
        while let Some(Reverse(first)) = heap.pop() {
            let limit = heap.peek().map_or(Key::MAX, |Reverse(k)| *k);
            let place = place(first);
            let next = queues[place].drain(place, limit, strings, &mut each)?;
            heap.extend(next.map(Reverse));
        }
        return Ok(());
    }
    // Few CPUs: looking at all keys is cheaper than keeping a heap of them.
    let mut keys: Vec<Key> = keys.collect();
    while let Some((at, limit)) = smallest(&keys) {
        let place = place(keys[at]);
        match queues[place].drain(place, limit, strings, &mut each)? {
            Some(next) => keys[at] = next,
            None => drop(keys.swap_remove(at)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{CpuVec, What};

    fn at(ns: i64, tid: i32, switch: bool) -> Event {
        let what = if switch { What::In { tid } } else { What::Exit { tid, at_once: false } };
        Event { time: Time(ns), context: 0, in_interrupt: false, what }
    }

    fn order(cpus: Vec<Vec<Event>>) -> Vec<(u16, i64)> {
        let mut strings = Strings::default();
        let queues = cpus
            .into_iter()
            .enumerate()
            .map(|(n, events)| CpuQueue::new(n as u16, CpuVec { events }, &mut strings).unwrap())
            .collect();
        let mut out = Vec::new();
        merge(queues, &mut strings, |cpu, e| out.push((cpu, e.time.0))).unwrap();
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
                    (0..50).map(|i| at((i * 7 + c * 3) % 40 + i, 1, (i + c) % 3 == 0)).collect()
                })
                .collect()
        };
        let few = order(streams(FEW as i64));
        let padded = order(streams(FEW as i64).into_iter().chain(vec![Vec::new(); 5]).collect());
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
