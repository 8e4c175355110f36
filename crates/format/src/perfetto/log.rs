//! Messages that programs logged: Android's log, and systemd's journal.
use super::wire::Message;
use crate::Result;
use std::borrow::Cow;

/// One message.
#[derive(Clone, Debug, Default)]
pub struct LogEntry<'a> {
    /// The process; 0: not known.
    pub pid: i32,
    /// Its thread; 0: not known.
    pub tid: i32,
    /// ns since 1970; none: the packet's stamp holds.
    pub realtime_ns: Option<i64>,
    /// The part of the program, or its name.
    pub tag: Cow<'a, str>,
    /// The message.
    pub text: Cow<'a, str>,
}

/// Calls `each` for the entries of an `AndroidLogPacket`.
///
/// # Errors
/// Bytes that are no fields.
pub fn android_log<'a>(mut log: Message<'a>, mut each: impl FnMut(LogEntry<'a>)) -> Result<()> {
    while let Some(field) = log.next_field()? {
        if field.number != 1 {
            continue;
        }
        let (mut entry, mut message) = (LogEntry::default(), field.message());
        while let Some(field) = message.next_field()? {
            match field.number {
                2 => entry.pid = field.i32(),
                3 => entry.tid = field.i32(),
                5 => entry.realtime_ns = Some(field.i64()),
                6 => entry.tag = field.text(),
                8 => entry.text = field.text(),
                _ => {}
            }
        }
        each(entry);
    }
    Ok(())
}

/// A `SystemdJournaldEvent`; none: it only has counts.
///
/// # Errors
/// Bytes that are no fields.
pub fn journal_entry(mut message: Message<'_>) -> Result<Option<LogEntry<'_>>> {
    let (mut entry, mut is_message) = (LogEntry::default(), false);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => entry.pid = field.i32(),
            2 => entry.tid = field.i32(),
            6 => entry.tag = field.text(),
            7 => (entry.text, is_message) = (field.text(), true),
            _ => {}
        }
    }
    Ok(is_message.then_some(entry))
}
