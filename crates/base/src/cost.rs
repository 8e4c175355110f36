//! The cost of recording an event, interpolated between measurements.
//!
//! An event costs more if the CPU did something else since the previous one. The recorder therefore measures the cost
//! at several distances between events, and readers look it up at the distance that a recording has.

/// No cost is larger, ns: a second.
const MOST_NS: f64 = 1e9;

/// Whether these are costs that a machine can have, ns: a file may say anything.
pub fn is_possible(ns: &[f64]) -> bool {
    ns.iter().all(|ns| (0.0..=MOST_NS).contains(ns))
}

/// Whether [`cost_at`] can do with these rows: costs that a machine can have, at distances that rise from above 0.
pub fn is_curve(measured: &[[f64; 4]]) -> bool {
    let rows =
        measured.iter().all(|row| row[0] > 0.0 && row[0].is_finite() && is_possible(&row[1..]));
    rows && measured.is_sorted_by(|a, b| a[0] <= b[0])
}

/// The cost of an event, as (median, low, high), at the distance `apart_ns` from the previous event.
///
/// `measured` has rows of (distance, median, low, high), ascending by distance, all in ns. The cost between two rows is
/// interpolated linearly over the logarithm of the distance; outside of all rows it is that of the first or the last.
/// None: there are no rows.
pub fn cost_at(measured: &[[f64; 4]], apart_ns: f64) -> Option<[f64; 3]> {
    let above = measured.partition_point(|m| m[0] < apart_ns);
    let [_, below @ ..] = *measured.get(above.saturating_sub(1))?;
    let (Some(b), true) = (measured.get(above), above > 0) else {
        return Some(below);
    };
    let a = measured[above - 1];
    let share = (apart_ns / a[0]).ln() / (b[0] / a[0]).ln();
    Some(std::array::from_fn(|i| a[i + 1] + (b[i + 1] - a[i + 1]) * share))
}
