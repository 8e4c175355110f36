//! The blocked threads of the program, in the order in which they are charged for idle CPUs.
//!
//! Five ranks ([`super::sweep`] defines them), each a doubly linked list through the threads, with the thread that began to
//! wait last at the front: entering and leaving take constant time, naming the first k takes time k. A wait that began before its time
//! limit came and that is begun again is no new one: it stands at the end.

/// No thread.
const NIL: u32 = u32::MAX;
/// Ranks, see [`super::sweep`].
pub(super) const RANKS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    rank: u8,
}

/// The lists.
#[derive(Debug)]
pub(super) struct Waiting {
    first: [u32; RANKS],
    last: [u32; RANKS],
    links: Vec<Link>,
    len: usize,
}

impl Waiting {
    pub fn new(n_threads: usize) -> Waiting {
        let link = Link { before: NIL, after: NIL, rank: 0 };
        Waiting { first: [NIL; RANKS], last: [NIL; RANKS], links: vec![link; n_threads], len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// `is_old`: its wait began before that of any other of this rank.
    pub fn push(&mut self, thread: usize, rank: u8, is_old: bool) {
        let (before, after) = match is_old {
            true => (self.last[usize::from(rank)], NIL),
            false => (NIL, self.first[usize::from(rank)]),
        };
        self.links[thread] = Link { before, after, rank };
        self.join(rank, before, thread as u32);
        self.join(rank, thread as u32, after);
        self.len += 1;
    }

    pub fn remove(&mut self, thread: usize) {
        let Link { before, after, rank } = self.links[thread];
        self.join(rank, before, after);
        self.len -= 1;
    }

    /// Makes two of a list neighbours; none of one side: the other is at that end.
    fn join(&mut self, rank: u8, before: u32, after: u32) {
        match before {
            NIL => self.first[usize::from(rank)] = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NIL => self.last[usize::from(rank)] = before,
            after => self.links[after as usize].before = before,
        }
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.first.iter().flat_map(move |&first| {
            std::iter::successors((first != NIL).then_some(first), move |&t| {
                Some(self.links[t as usize].after).filter(|&after| after != NIL)
            })
            .map(|t| t as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_goes_by_rank_then_by_who_came_last() {
        let mut waiting = Waiting::new(6);
        for (thread, rank) in [(0, 1), (1, 0), (2, 1), (3, 4), (4, 1)] {
            waiting.push(thread, rank, false);
        }
        waiting.push(5, 1, true);
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [1, 4, 2, 0, 5, 3]);
        for thread in [2, 1, 4, 5] {
            waiting.remove(thread);
        }
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [0, 3]);
        waiting.remove(0);
        waiting.remove(3);
        assert_eq!((waiting.iter().count(), waiting.len()), (0, 0));
    }
}
