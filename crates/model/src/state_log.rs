//! The log of each thread's states while they are collected ([`StateLog`]).
//!
//! Goal: to collect them in as little memory as possible, because what is collected lives next to the columns that it
//! becomes, and because touching fresh memory costs more than computing: a page fault is worth some 40 rows.
//! Method: a thread's rows are packed words, mostly one or two for each row, in chunks that all threads take from one
//! vector and that are linked. Rejected: a vector of plain rows (16 bytes) for each thread, which took three times as
//! much and was copied as it grew.
//!
//! A row is a head, then what its flags announce, in this order:
//!
//! | bits of the head | |
//! |---|---|
//! | 0..4 | the state; [`LINK`]: the next word is the number of the chunk where the log goes on |
//! | 4 | [`FAR`]: two words follow, the start, low word first |
//! | 5 | [`BY`]: a word follows, [`LoggedState::by`]; without it [`NONE`] |
//! | 6 | [`CPU`]: a word follows, the CPU; without it that of the row before |
//! | 7..32 | without FAR: ns from the start of the row before to this one's |
use crate::{ThreadState, Time};

/// No row.
pub(crate) const NONE: u32 = u32::MAX;

/// One state of a thread, until the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoggedState {
    pub start: Time,
    /// Row of the thread that woke or preempted it.
    pub by: u32,
    pub cpu: u16,
    pub state: ThreadState,
}

/// The row before a log's first; not a row of it.
const BLANK: LoggedState =
    LoggedState { start: Time(0), by: NONE, cpu: u16::MAX, state: ThreadState::Unknown };

const LINK: u32 = 15;
const FAR: u32 = 1 << 4;
const BY: u32 = 1 << 5;
const CPU: u32 = 1 << 6;
const DELTA_SHIFT: u32 = 7;
/// Words in a thread's first chunk, and what the numbers of chunks count: 256 bytes. Each further chunk of a thread is
/// four times as long, up to 4 KiB: a build's thousands of compilers have little to say, and links shall be rare.
const FIRST: usize = 64;
const LONGEST: usize = 1024;
/// Words of the longest row and of a link after it.
const ROOM: usize = 5 + 2;

/// One thread's states so far. The last one may still change, so it is not packed yet.
#[derive(Clone, Debug)]
pub(crate) struct StateLog {
    /// Number of rows, with the last.
    len: u32,
    first_chunk: u32,
    /// Words in the chunk to which the next row goes; 0: there is none yet.
    chunk: u32,
    /// Place of the next row, and the end of its chunk.
    at: usize,
    end: usize,
    packed: LoggedState,
    last: LoggedState,
}

impl Default for StateLog {
    fn default() -> StateLog {
        StateLog { len: 0, first_chunk: 0, chunk: 0, at: 0, end: 0, packed: BLANK, last: BLANK }
    }
}

impl StateLog {
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn last(&self) -> Option<&LoggedState> {
        (self.len > 0).then_some(&self.last)
    }

    /// The row before the last.
    pub fn before_last(&self) -> Option<&LoggedState> {
        (self.len > 1).then_some(&self.packed)
    }

    /// The last row begins at `start`, which is not before the row before it begins.
    pub fn move_last(&mut self, start: Time) {
        debug_assert!(self.before_last().is_none_or(|b| b.start <= start));
        self.last.start = start;
    }

    /// The last row, to be changed; not its start ([`StateLog::move_last`]).
    pub fn last_mut(&mut self) -> Option<&mut LoggedState> {
        (self.len > 0).then_some(&mut self.last)
    }
}

/// The chunks of all logs.
#[derive(Debug, Default)]
pub(crate) struct StateLogs {
    words: Vec<u32>,
}

impl StateLogs {
    /// Puts a row at the end, which starts no earlier than the one before it.
    #[inline]
    pub fn push(&mut self, log: &mut StateLog, row: LoggedState) {
        if log.len > 0 {
            self.pack(log);
        }
        log.len += 1;
        log.last = row;
    }

    #[inline]
    fn pack(&mut self, log: &mut StateLog) {
        if log.end - log.at < ROOM {
            self.next_chunk(log);
        }
        let (row, before) = (log.last, log.packed);
        let out = &mut self.words[log.at..log.end];
        let mut n = 1;
        let mut put = |word: u32| {
            out[n] = word;
            n += 1;
        };
        let mut head = row.state as u32;
        let delta = row.start.0.wrapping_sub(before.start.0) as u64;
        if delta >> (32 - DELTA_SHIFT) == 0 {
            head |= (delta as u32) << DELTA_SHIFT;
        } else {
            head |= FAR;
            put(row.start.0 as u32);
            put((row.start.0 >> 32) as u32);
        }
        if row.by != NONE {
            head |= BY;
            put(row.by);
        }
        if row.cpu != before.cpu {
            head |= CPU;
            put(u32::from(row.cpu));
        }
        out[0] = head;
        log.at += n;
        log.packed = row;
    }

    #[cold]
    fn next_chunk(&mut self, log: &mut StateLog) {
        let start = self.words.len();
        let number = (start / FIRST) as u32;
        let length = match log.chunk as usize {
            0 => FIRST,
            before => (4 * before).min(LONGEST),
        };
        self.words.resize(start + length, 0);
        if log.chunk == 0 {
            log.first_chunk = number;
        } else {
            self.words[log.at] = LINK;
            self.words[log.at + 1] = number;
        }
        log.chunk = length as u32;
        (log.at, log.end) = (start, start + length);
    }

    /// Calls `each` for a thread's rows, some at a time.
    pub fn read(&self, log: &StateLog, mut each: impl FnMut(&[LoggedState])) {
        let mut rows = Vec::with_capacity(LONGEST.min(log.len()));
        let mut before = BLANK;
        let mut chunk = log.first_chunk as usize;
        let mut left = log.len().saturating_sub(1);
        while left > 0 {
            let words = &self.words[chunk * FIRST..];
            let mut at = 0;
            while left > 0 {
                let head = words[at];
                if head & 15 == LINK {
                    chunk = words[at + 1] as usize;
                    break;
                }
                before = unpack(words, &mut at, before);
                rows.push(before);
                left -= 1;
            }
            each(&rows);
            rows.clear();
        }
        each(log.last().map_or(&[], std::slice::from_ref));
    }
}

#[inline]
fn unpack(words: &[u32], at: &mut usize, before: LoggedState) -> LoggedState {
    let mut take = || {
        *at += 1;
        words[*at - 1]
    };
    let head = take();
    let mut row = LoggedState {
        start: Time(before.start.0.wrapping_add(i64::from(head >> DELTA_SHIFT))),
        by: NONE,
        cpu: before.cpu,
        state: ThreadState::from_number((head & 15) as u8),
    };
    if head & FAR != 0 {
        row.start = Time(i64::from(take()) | i64::from(take()) << 32);
    }
    if head & BY != 0 {
        row.by = take();
    }
    if head & CPU != 0 {
        row.cpu = take() as u16;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::*;

    fn rows(state_logs: &StateLogs, log: &StateLog) -> Vec<LoggedState> {
        let mut out = Vec::new();
        state_logs.read(log, |rows| out.extend_from_slice(rows));
        out
    }

    #[test]
    fn logs_give_back_what_was_put_into_them_whatever_it_is() {
        let starts = [i64::MIN, -1, 0, 5, (1 << 25) + 4, 1 << 26, i64::MAX];
        let states = [Unknown, Running, RunnableWoken, Sleeping, Idle, Dead];
        let (mut state_logs, mut all) =
            (StateLogs::default(), vec![(StateLog::default(), Vec::new()); 3]);
        for n in 0..3000usize {
            let (log, want) = &mut all[n * n % 3];
            let row = LoggedState {
                start: Time(starts[n * starts.len() / 3000].saturating_add(n as i64)),
                by: if n % 3 == 0 { NONE } else { n as u32 % 5 },
                cpu: [0, 7, 7, u16::MAX][n % 4],
                state: states[n % states.len()],
            };
            state_logs.push(log, row);
            want.push(row);
        }
        assert!(state_logs.words.len() > 3 * LONGEST, "logs go on in other chunks");
        for (log, want) in &all {
            assert_eq!((log.len(), rows(&state_logs, log)), (want.len(), want.clone()));
        }
    }

    #[test]
    fn the_last_row_may_change_until_the_next_one() {
        let (mut state_logs, mut log) = (StateLogs::default(), StateLog::default());
        assert_eq!((log.last(), rows(&state_logs, &log)), (None, Vec::new()));
        state_logs.push(&mut log, BLANK);
        log.last_mut().unwrap().state = Dead;
        state_logs.push(&mut log, BLANK);
        let dead = LoggedState { state: Dead, ..BLANK };
        assert_eq!(rows(&state_logs, &log), [dead, BLANK]);
    }
}
