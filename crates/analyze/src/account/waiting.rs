//! The blocked threads of the program, in the order in which they are charged for idle CPUs.
//!
//! Five ranks ([`super::sweep`] defines them), each a doubly linked list through the threads, with the thread that began to
//! wait last at the front: entering and leaving take constant time, naming the first k takes time k.

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
    links: Vec<Link>,
    len: usize,
}

impl Waiting {
    pub fn new(n_threads: usize) -> Waiting {
        let link = Link {
            before: NIL,
            after: NIL,
            rank: 0,
        };
        Waiting {
            first: [NIL; RANKS],
            links: vec![link; n_threads],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, thread: usize, rank: u8) {
        let after = std::mem::replace(&mut self.first[usize::from(rank)], thread as u32);
        self.links[thread] = Link {
            before: NIL,
            after,
            rank,
        };
        if after != NIL {
            self.links[after as usize].before = thread as u32;
        }
        self.len += 1;
    }

    pub fn remove(&mut self, thread: usize) {
        let link = self.links[thread];
        match link.before {
            NIL => self.first[usize::from(link.rank)] = link.after,
            before => self.links[before as usize].after = link.after,
        }
        if link.after != NIL {
            self.links[link.after as usize].before = link.before;
        }
        self.len -= 1;
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
            waiting.push(thread, rank);
        }
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [1, 4, 2, 0, 3]);
        for thread in [2, 1, 4] {
            waiting.remove(thread);
        }
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [0, 3]);
        waiting.remove(0);
        waiting.remove(3);
        assert_eq!((waiting.iter().count(), waiting.len()), (0, 0));
    }
}
