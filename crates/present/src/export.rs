//! What every export reports back.

/// What an export wrote, and what its format has no room for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// Records written: packets or JSON objects.
    pub records: u64,
    /// What a reader of the export will not find in it, in plain words.
    pub left_out: Vec<String>,
}

/// A writer that knows how much went through it.
pub(crate) struct Counted<W> {
    pub out: W,
    pub records: u64,
}
