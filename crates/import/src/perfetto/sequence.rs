//! The state that the packets of one writer refer to.
//!
//! A writer (`trusted_packet_sequence_id`) sends each name once, with a number (`interned_data`), and defaults for
//! clock and track (`trace_packet_defaults`). Later packets refer to them. A packet may clear the state
//! (SEQ_INCREMENTAL_STATE_CLEARED); after a lost packet, names may be missing until the next such packet, and events
//! that need them are left out.
use crate::category::Category;
use kasuri_format::Error;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{Packet, interned};
use kasuri_model::{StrIx, Strings};
use std::collections::HashMap;

/// The state of one writer.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The names are complete: no packet was dropped since the state was cleared.
    is_whole: bool,
    pub event_names: HashMap<u64, StrIx>,
    /// With their texts.
    pub categories: HashMap<u64, (Category, StrIx)>,
    pub arg_names: HashMap<u64, StrIx>,
    pub arg_texts: HashMap<u64, StrIx>,
    pub log_texts: HashMap<u64, StrIx>,
    /// Functions of the kernel.
    pub kernel_symbols: HashMap<u64, StrIx>,
    /// Source locations: `file:line`.
    pub locations: HashMap<u64, String>,
    pub clock: Option<u32>,
    pub track: Option<u64>,
    /// Default tracks of the counter values that an event may carry.
    pub extra_tracks: Vec<u64>,
    /// Old writers: pid and tid of their thread, its process, and its last stamp in microseconds.
    pub thread: Option<(i32, i32)>,
    pub pid: Option<i32>,
    pub last_us: i64,
    /// Sums of the counters whose values are differences, by track: of whole numbers, and of others.
    pub sums: HashMap<u64, (i64, f64)>,
}

impl Sequence {
    /// Takes in the state changes of a packet, which apply before its data. False: the data cannot be understood,
    /// because names are missing.
    pub fn enter(&mut self, packet: &Packet, strings: &mut Strings) -> Result<bool, Error> {
        if packet.state_cleared {
            *self = Sequence {
                is_whole: true,
                thread: self.thread,
                pid: self.pid,
                last_us: self.last_us,
                ..Sequence::default()
            };
        } else if packet.previous_dropped {
            self.is_whole = false;
        }
        if let Some(data) = packet.interned {
            self.learn(data, strings)?;
        }
        if let Some(defaults) = packet.defaults {
            self.defaults(defaults)?;
        }
        Ok(!packet.needs_state || self.is_whole)
    }

    /// Takes in names. Kinds are field numbers of `InternedData`
    /// (protos/perfetto/trace/interned_data/interned_data.proto).
    fn learn(&mut self, data: Message, strings: &mut Strings) -> Result<(), Error> {
        interned(data, |kind, iid, text, line| {
            let mut name = || strings.intern(&text);
            match kind {
                1 => drop(self.categories.insert(iid, (Category::of(&text), name()))),
                2 => drop(self.event_names.insert(iid, name())),
                3 => drop(self.arg_names.insert(iid, name())),
                4 => drop(self.locations.insert(iid, format!("{text}:{line}"))),
                20 => drop(self.log_texts.insert(iid, name())),
                26 => drop(self.kernel_symbols.insert(iid, name())),
                _ => drop(self.arg_texts.insert(iid, name())),
            }
        })
    }

    /// Takes in defaults: field 58 is the clock; 11 are those of track events, with 11 the track, 31 and 45 the tracks
    /// of extra counters (protos/perfetto/trace/trace_packet_defaults.proto).
    fn defaults(&mut self, mut defaults: Message) -> Result<(), Error> {
        // They replace those before as a whole.
        (self.clock, self.track) = (None, None);
        self.extra_tracks.clear();
        while let Some(field) = defaults.next_field()? {
            match field.number {
                58 => self.clock = Some(field.u32()),
                11 => {
                    let mut parts = field.message();
                    while let Some(part) = parts.next_field()? {
                        match part.number {
                            11 => self.track = Some(part.u64()),
                            31 | 45 => self.extra_tracks.extend(part.numbers()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
