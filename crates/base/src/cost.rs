//! How much an event costs, of measurements at several distances.

/// What an event costs this far from the one before, of rows of (distance, median, low, high) that rise by distance, all in ns: between two measured distances in proportion to
/// their logarithms; nearer or farther than all, as at the first or the last. None of an empty row.
pub fn cost_at(measured: &[[f64; 4]], apart_ns: f64) -> Option<[f64; 3]> {
    let above = measured.partition_point(|m| m[0] < apart_ns);
    let [_, below @ ..] = *measured.get(above.saturating_sub(1))?;
    let (Some(b), true) = (measured.get(above), above > 0) else {
        return Some(below);
    };
    let a = measured[above - 1];
    let share = (apart_ns / a[0]).ln() / (b[0] / a[0]).ln();
    Some(std::array::from_fn(|i| {
        a[i + 1] + (b[i + 1] - a[i + 1]) * share
    }))
}
