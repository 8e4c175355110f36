//! The clock of stamps, as tracefs names it.

/// `local [mono] global`: the one in brackets.
pub(super) fn current_clock(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(name, _)| name).to_owned()
}
