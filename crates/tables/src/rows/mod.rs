//! The rows of the tables, a file for each subject.
pub(crate) mod account;
pub(crate) mod annotated;
pub(crate) mod events;
pub(crate) mod locks;
pub(crate) mod processes;
pub(crate) mod run;
pub(crate) mod samples;
pub(crate) mod sched;

use crate::batch::Text;
use kasuri_model::{StrIx, Time};

/// The row number as id; none for no row.
pub(crate) fn id(ix: u32) -> Option<i64> {
    (ix != u32::MAX).then_some(ix.into())
}

/// A moment; none for the two that stand for "not seen".
pub(crate) fn moment(time: Time) -> Option<i64> {
    (time != Time::MIN && time != Time::MAX).then_some(time.ns())
}

/// A CPU's number; none when it is not known.
pub(crate) fn cpu(number: u16) -> Option<i32> {
    (number != u16::MAX).then_some(number.into())
}

pub(crate) fn name(ix: StrIx) -> Option<Text> {
    ix.is_some().then_some(Text::Name(ix))
}

/// A word that is not there when empty.
pub(crate) fn word(text: &'static str) -> Option<Text> {
    (!text.is_empty()).then_some(Text::Word(text))
}

/// A text that is not there when empty.
pub(crate) fn made(text: &str) -> Option<Text> {
    (!text.is_empty()).then(|| Text::Made(text.to_owned()))
}

/// A lock's or wait's object.
pub(crate) fn object(address: u64) -> Option<i64> {
    (address != 0).then_some(address.cast_signed())
}
