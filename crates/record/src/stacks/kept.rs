//! The samples that a flight recorder keeps, and when to forget what they needed.
use kasuri_format::call_paths::Sample;
use std::collections::VecDeque;

/// Most samples that a flight recorder keeps, 40 bytes each.
pub(super) const KEPT_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// What the tables of a flight recorder may remember, in rows of about 100 bytes, before it is
/// looked at what of it is needed; then twice as much as was.
const ROWS_LEAST: usize = if cfg!(test) { 32 } else { 1 << 16 };

/// The last samples.
#[derive(Debug, Default)]
pub(super) struct Kept {
    samples: VecDeque<Sample>,
    /// Samples of the kept time that it had no room for, by when they were taken, to the second.
    dropped: VecDeque<(u64, u64)>,
    /// What was remembered after what nobody needs was forgotten last.
    n_needed: usize,
    looks: Looks,
}

impl Kept {
    /// Keeps one more, and of `KEPT_MAX` the oldest no longer.
    pub(super) fn push(&mut self, sample: Sample) {
        if self.samples.len() >= KEPT_MAX
            && let Some(first) = self.samples.pop_front()
        {
            count_dropped(&mut self.dropped, first.time_ns);
        }
        self.samples.push_back(sample);
    }

    /// Forgets samples that are older.
    pub(super) fn forget_before(&mut self, from_ns: u64) {
        while self.samples.front().is_some_and(|s| s.time_ns < from_ns) {
            self.samples.pop_front();
        }
        while self.dropped.front().is_some_and(|d| d.0 < from_ns) {
            self.dropped.pop_front();
        }
    }

    /// All of them, in order of time.
    pub(super) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Samples of the kept time that there was no room for.
    pub(super) fn n_dropped(&self) -> u64 {
        self.dropped.iter().map(|d| d.1).sum()
    }

    /// Whether to look now at what of so many rows in tables is needed; `from_ns`: the oldest time
    /// that is kept.
    pub(super) fn is_due(&self, n_rows: usize, from_ns: u64) -> bool {
        self.is_much(n_rows) || (n_rows > ROWS_LEAST && from_ns > self.looks.next_ns)
    }

    fn is_much(&self, n_rows: usize) -> bool {
        n_rows > ROWS_LEAST.max(2 * self.n_needed)
    }

    /// The samples, for which rows are needed.
    pub(super) fn needed(&mut self) -> &mut [Sample] {
        self.samples.make_contiguous()
    }

    /// It was looked: of `before` rows so many are left.
    pub(super) fn looked(&mut self, before: usize, left: usize, from_ns: u64) {
        self.samples.shrink_to(self.samples.len() * 2);
        let newest_ns = self.samples.back().map_or(from_ns, |sample| sample.time_ns);
        let was_for_nothing = !self.is_much(before) && left > before / 2;
        self.n_needed = left;
        self.looks.set_next(was_for_nothing, from_ns, newest_ns);
    }

    /// The oldest kept time at which it is looked again.
    #[cfg(test)]
    pub(super) fn next_look_ns(&self) -> u64 {
        self.looks.next_ns
    }
}

/// When to look again at what is needed.
#[derive(Debug, Default)]
struct Looks {
    /// Once this is the oldest time that is kept.
    next_ns: u64,
    /// Kept times between two looks: more and more where most of it is still needed, since that was
    /// work for nothing.
    rest: u64,
}

impl Looks {
    const REST_MAX: u64 = 64;

    fn set_next(&mut self, was_for_nothing: bool, from_ns: u64, newest_ns: u64) {
        self.rest = match was_for_nothing {
            true => (self.rest * 2).clamp(1, Looks::REST_MAX),
            false => 1,
        };
        let kept_ns = newest_ns.saturating_sub(from_ns);
        self.next_ns = from_ns.saturating_add(self.rest.saturating_mul(kept_ns));
    }
}

/// Counts a sample that there is no room for; those of a second together.
fn count_dropped(dropped: &mut VecDeque<(u64, u64)>, time_ns: u64) {
    const TOGETHER_NS: u64 = 1_000_000_000;
    match dropped.back_mut() {
        Some((began_ns, n)) if time_ns < began_ns.saturating_add(TOGETHER_NS) => *n += 1,
        _ => dropped.push_back((time_ns, 1)),
    }
}
