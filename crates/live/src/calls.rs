//! System calls as they come -> those that take longer than they should (`kasuri flight --on-syscall`).
//!
//! Only the calls that are watched come: the kernel filters the others out. A call is told once, when its time is over, also while it
//! goes on: what a thread hangs in is to be seen while it hangs.
use crate::order::{Order, Taken};
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{EventFormat, EventTable, Field};
use kasuri_format::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A call that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongCall {
    /// The thread that made it.
    pub tid: i32,
    /// The number of the call.
    pub call: i64,
    /// Its length so far, ns.
    pub ns: u64,
    /// It goes on, as far as events say: they do not say that a thread was killed in it.
    pub goes_on: bool,
}

/// Where an event has its thread and the number of its call.
#[derive(Debug)]
struct Kind {
    id: u16,
    tid: Field,
    call: Field,
}

impl Kind {
    fn of(format: &EventFormat) -> Option<Kind> {
        let field = |name: &str| Some(format.fields[format.find(name)?].clone());
        Some(Kind { id: format.id, tid: field("common_pid")?, call: field("id")? })
    }

    fn read(&self, data: &[u8], big_endian: bool) -> Option<(i32, i64)> {
        let int = |field: &Field| field.int(data, 0, big_endian);
        Some((int(&self.tid)? as i32, int(&self.call)?))
    }
}

/// A call that has not ended.
#[derive(Debug)]
struct Open {
    call: i64,
    since: u64,
    is_told: bool,
}

/// Follows the calls that are watched. One owner.
#[derive(Debug)]
pub struct Calls {
    order: Order,
    enter: Kind,
    exit: Kind,
    big_endian: bool,
    /// Most that a call may take, ns.
    limits: HashMap<i64, u64>,
    /// By thread.
    open: HashMap<i32, Open>,
}

impl Calls {
    /// For calls and the most that each may take, ns; `n_cpus`: CPUs that have buffers.
    ///
    /// # Errors
    /// When the layout of pages, or the format of the events, is not understood.
    pub fn new(kernel: &KernelMeta, n_cpus: usize, limits: &[(i64, u64)]) -> Result<Calls> {
        let table = EventTable::from_meta(kernel)?;
        let kind = |name: &'static str| {
            let found = table.types().iter().find(|format| format.name == name);
            let missing = || {
                let needed = "the formats of raw_syscalls/sys_enter and sys_exit";
                Error::damaged("events of the kernel", 0, format!("no {name}"), needed)
            };
            found.and_then(Kind::of).ok_or_else(missing)
        };
        Ok(Calls {
            order: Order::new(kernel, n_cpus)?,
            enter: kind("raw_syscalls/sys_enter")?,
            exit: kind("raw_syscalls/sys_exit")?,
            big_endian: kernel.big_endian,
            limits: limits.iter().copied().collect(),
            open: HashMap::new(),
        })
    }

    /// A page of the CPU at this position. Pages of one CPU come in their order.
    pub fn push(&mut self, cpu: usize, page: Arc<[u8]>) {
        self.order.push(cpu, page);
    }

    /// Applies all events with stamps up to `until_ns`, and returns the calls that took longer than they may. Those that go on come
    /// last.
    pub fn advance(&mut self, until_ns: u64) -> Vec<LongCall> {
        let mut long = Vec::new();
        let Calls { order, enter, exit, big_endian, limits, open } = self;
        order.take_until(until_ns, |_, stamp, taken| {
            let Taken::Event(data) = taken else {
                // What began before the gap may have ended in it.
                return open.clear();
            };
            let id = data.first_chunk::<2>().map(|id| match *big_endian {
                true => u16::from_be_bytes(*id),
                false => u16::from_le_bytes(*id),
            });
            let read = |kind: &Kind| kind.read(data, *big_endian).filter(|_| id == Some(kind.id));
            if let Some((tid, call)) = read(enter).filter(|(_, call)| limits.contains_key(call)) {
                let begun = Open { call, since: stamp, is_told: false };
                open.insert(tid, begun);
            } else if let Some((tid, call)) = read(exit)
                && let Some(begun) = open.remove(&tid)
            {
                let ns = stamp.saturating_sub(begun.since);
                if begun.call == call && !begun.is_told && ns >= limits[&call] {
                    long.push(LongCall { tid, call, ns, goes_on: false });
                }
            }
        });
        for (&tid, begun) in open.iter_mut().filter(|(_, begun)| !begun.is_told) {
            let ns = until_ns.saturating_sub(begun.since);
            if ns >= limits[&begun.call] {
                begun.is_told = true;
                long.push(LongCall { tid, call: begun.call, ns, goes_on: true });
            }
        }
        long
    }

    /// A thread is gone, or in no call.
    pub fn forget(&mut self, tid: i32) {
        self.open.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "ID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n";

    fn calls() -> Calls {
        let mut meta = KernelMeta::default();
        meta.formats.insert("raw_syscalls/sys_enter".to_owned(), FORMAT.to_owned());
        meta.formats.insert("raw_syscalls/sys_exit".to_owned(), FORMAT.replace("ID: 7", "ID: 8"));
        Calls::new(&meta, 1, &[(74, 100), (75, 1000)]).unwrap()
    }

    /// A page with events (stamp, type, thread, call).
    fn page(events: &[(u64, u16, i32, i64)], lost: bool) -> Arc<[u8]> {
        let first = events[0].0;
        let mut page = first.to_le_bytes().to_vec();
        let commit = (events.len() as u64 * 20) | if lost { 1 << 31 } else { 0 };
        page.extend(commit.to_le_bytes());
        let mut before = first;
        for &(stamp, id, tid, call) in events {
            page.extend((4 | ((stamp - before) as u32) << 5).to_le_bytes());
            page.extend([id as u8, 0, 0, 0]);
            page.extend(tid.to_le_bytes());
            page.extend(call.to_le_bytes());
            before = stamp;
        }
        page.resize(4096, 0);
        page.into()
    }

    fn long(tid: i32, ns: u64, goes_on: bool) -> LongCall {
        LongCall { tid, call: 74, ns, goes_on }
    }

    #[test]
    fn a_long_call_is_told_once_while_it_goes_on_or_when_it_ends() {
        let mut calls = calls();
        let events = [
            (1000, 7, 1, 74),
            (1010, 7, 2, 74),
            (1020, 7, 3, 75),
            (1050, 8, 2, 74),
            (1105, 8, 1, 74),
            (1200, 7, 2, 74),
        ];
        calls.push(0, page(&events, false));
        assert_eq!(calls.advance(1250), [long(1, 105, false)]);
        assert_eq!(calls.advance(1310), [long(2, 110, true)]);
        assert_eq!(calls.advance(1320), []);
        calls.push(0, page(&[(1400, 8, 2, 74), (1500, 8, 3, 75)], false));
        assert_eq!(calls.advance(1600), [], "told before; the other was short");
        assert!(calls.open.is_empty());
    }

    #[test]
    fn what_is_not_known_after_a_gap_is_not_told() {
        let mut calls = calls();
        calls.push(0, page(&[(1000, 7, 1, 74)], false));
        calls.push(0, page(&[(5000, 8, 9, 74)], true));
        assert_eq!(calls.advance(9000), []);
        calls.push(0, page(&[(9100, 7, 1, 74)], false));
        assert_eq!(calls.advance(9110), []);
        calls.forget(1);
        assert_eq!(calls.advance(99_000), [], "its thread was gone");
    }
}
