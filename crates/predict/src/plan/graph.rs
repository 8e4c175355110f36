//! Strands with their weights, and which ones each needs.

/// A task graph. Edges go from lower to higher numbers.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Weight of each strand, ns.
    pub ns: Vec<u64>,
    /// `after[start[s]..start[s + 1]]`: what strand s needs.
    start: Vec<u32>,
    after: Vec<u32>,
}

impl Graph {
    /// Adds a strand; what it needs was added before. Returns its number.
    ///
    /// # Panics
    /// When it needs one that was not.
    pub fn push(&mut self, ns: u64, after: impl IntoIterator<Item = u32>) -> u32 {
        if self.start.is_empty() {
            self.start.push(0);
        }
        let strand = self.ns.len() as u32;
        self.ns.push(ns);
        self.after.extend(after);
        let from = self.start[strand as usize] as usize;
        assert!(self.after[from..].iter().all(|&p| p < strand));
        self.start.push(self.after.len() as u32);
        strand
    }

    /// Number of strands.
    pub fn len(&self) -> usize {
        self.ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ns.is_empty()
    }

    /// What it needs.
    pub fn after(&self, strand: usize) -> &[u32] {
        &self.after[self.start[strand] as usize..self.start[strand + 1] as usize]
    }

    /// Sum of the weights, ns.
    pub fn work(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// Weight of the heaviest chain, ns.
    pub fn span(&self) -> u64 {
        self.levels(0).into_iter().max().unwrap_or(0)
    }

    /// Of each strand the weight of the heaviest chain that begins with it, with `edge_ns` for each edge.
    pub(super) fn levels(&self, edge_ns: u64) -> Vec<u64> {
        let mut below = vec![0; self.len()];
        for s in (0..self.len()).rev() {
            below[s] += self.ns[s];
            for &p in self.after(s) {
                below[p as usize] = below[p as usize].max(below[s] + edge_ns);
            }
        }
        below
    }

    /// The strands that need each, as ranges of a list.
    pub(super) fn followers(&self) -> Followers {
        let n = self.len();
        let mut start = vec![0u32; n + 1];
        for &p in &self.after {
            start[p as usize + 1] += 1;
        }
        for s in 0..n {
            start[s + 1] += start[s];
        }
        let mut at = start.clone();
        let mut strand = vec![0; self.after.len()];
        for s in 0..n {
            for &p in self.after(s) {
                strand[at[p as usize] as usize] = s as u32;
                at[p as usize] += 1;
            }
        }
        Followers { start, strand }
    }

    /// How many strands each needs.
    pub(super) fn missing(&self) -> Vec<u32> {
        (0..self.len()).map(|s| self.after(s).len() as u32).collect()
    }
}

/// The strands that need each.
pub(super) struct Followers {
    start: Vec<u32>,
    strand: Vec<u32>,
}

impl Followers {
    pub fn of(&self, strand: usize) -> &[u32] {
        &self.strand[self.start[strand] as usize..self.start[strand + 1] as usize]
    }
}
