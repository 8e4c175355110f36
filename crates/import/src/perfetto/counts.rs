//! How many packets and kernel events of each kind a trace has, and which of them no pass uses.
//!
//! Perfetto has about a hundred kinds of packets and six hundred of kernel events, of which few are about threads. All are counted by
//! name, so that `kasuri info` shows what was recorded in vain.
use kasuri_format::perfetto::{Data, EventCounts, MARKS, Packet, READ_EVENTS, names};
use kasuri_model::EventCost;
use std::collections::BTreeMap;

/// Numbers of kernel events in `FtraceEvent`.
pub(super) const SCHED_WAKING: u32 = 20;
pub(super) const SCHED_MIGRATE_TASK: u32 = 491;

/// Most kinds of packets that are told apart; the format has about a hundred.
const MAX_KINDS: usize = 1024;
/// Kinds that a sentence names, the most frequent ones.
const NAMED: usize = 8;

/// Packets about the recording itself: nothing that happened is missing without them.
const ABOUT_THE_TRACE: &[&str] = &[
    "trace_config",
    "synchronization_marker",
    "trigger",
    "chrome_metadata",
    "service_event",
    "extension_descriptor",
    "ui_state",
    "trace_uuid",
    "trace_provenance",
    "trace_attributes",
    "clone_snapshot_trigger",
];

/// Numbers of packets and events.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By the number of the kind, with whether it is read.
    packets: BTreeMap<u32, (bool, u64)>,
    /// Packets of kinds for which there was no room.
    rest: u64,
    /// Kernel events of CPUs.
    pub events: EventCounts,
    /// Kernel events of CPUs that no machine has.
    pub no_cpu: EventCounts,
}

impl Counts {
    /// Counts a packet. Those with nothing but state of their writer have no kind; bundles are counted event by event, and
    /// compressed packets packet by packet.
    pub fn packet(&mut self, packet: &Packet) {
        let is_container =
            matches!(packet.data, Data::Ftrace(_) | Data::Deflated(_) | Data::Zstd(_));
        if packet.kind == 0 || is_container {
            return;
        }
        if self.packets.len() < MAX_KINDS || self.packets.contains_key(&packet.kind) {
            let is_read = !matches!(packet.data, Data::Other);
            self.packets.entry(packet.kind).or_insert((is_read, 0)).1 += 1;
        } else {
            self.rest += 1;
        }
    }

    /// All kinds with their numbers.
    pub fn kinds(&self) -> Vec<EventCost> {
        let packets = (self.packets.iter()).map(|(kind, (_, n))| (packet_name(*kind), *n));
        let rest = (self.rest > 0).then(|| ("packets of other kinds".to_owned(), self.rest));
        let events = self.events.kinds().into_iter();
        let all = (events.map(|(name, _, n)| (name, n)).chain(packets)).chain(rest);
        all.map(|(name, n)| EventCost { name, n, n_program: n, ..EventCost::default() }).collect()
    }

    /// What is not read, in sentences.
    pub fn unread(&self) -> Vec<String> {
        let events = self.events.kinds().into_iter();
        let events = events.filter(|(name, number, _)| !is_read(name, *number));
        let packets = (self.packets.iter())
            .filter(|(kind, (is_read, _))| {
                !is_read && !ABOUT_THE_TRACE.contains(&names::packet(**kind))
            })
            .map(|(kind, (_, n))| (packet_name(*kind), *n))
            .chain((self.rest > 0).then(|| ("packets of other kinds".to_owned(), self.rest)));
        let no_cpu = self.no_cpu.kinds().into_iter();
        [
            told(
                "kernel events of kinds that are not read",
                events.map(|(name, _, n)| (name, n)).collect(),
            ),
            told("packets of kinds that are not read", packets.collect()),
            told(
                "kernel events of CPUs with numbers that no machine has: they are left out",
                no_cpu.map(|(name, _, n)| (name, n)).collect(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn is_read(name: &str, number: u32) -> bool {
    match number {
        0 => name == "sched_stat_runtime",
        number => READ_EVENTS.contains(&number) || MARKS.contains(&number),
    }
}

/// As the table of events shows it, beside names of kernel events.
fn packet_name(kind: u32) -> String {
    match names::packet(kind) {
        "" => format!("packet {kind}"),
        name => format!("packet {name}"),
    }
}

/// `12 WHAT: 9 a, 3 b`; none: there are none.
fn told(what: &str, mut kinds: Vec<(String, u64)>) -> Option<String> {
    let all: u64 = kinds.iter().map(|(_, n)| n).sum();
    if all == 0 {
        return None;
    }
    kinds.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let named: Vec<String> = (kinds.iter().take(NAMED))
        .map(|(name, n)| format!("{n} {}", name.escape_debug()))
        .collect();
    let more = match kinds.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} other kinds"),
    };
    Some(format!("{all} {what}: {}{more}", named.join(", ")))
}
