//! What a writer's packets refer to: names by number, defaults. A packet says when all of it begins anew.
use crate::category::Category;
use kasuri_format::Error;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{Packet, interned};
use kasuri_model::{StrIx, Strings};
use std::collections::HashMap;

/// One writer.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Its names are whole: nothing was dropped since they began.
    is_whole: bool,
    pub event_names: HashMap<u64, StrIx>,
    pub categories: HashMap<u64, Category>,
    pub arg_names: HashMap<u64, StrIx>,
    pub arg_texts: HashMap<u64, StrIx>,
    pub log_texts: HashMap<u64, StrIx>,
    /// `file:line`.
    pub locations: HashMap<u64, String>,
    pub clock: Option<u32>,
    pub track: Option<u64>,
    /// Tracks of an event's further counters.
    pub extra_tracks: Vec<u64>,
    /// Old writers: thread, and its last stamp.
    pub thread: Option<(i32, i32)>,
    pub pid: Option<i32>,
    pub last_us: i64,
    /// Counters whose values are differences: the sum.
    pub sums: HashMap<u64, f64>,
}

impl Sequence {
    /// Takes in what a packet says before its data. False: its data cannot be understood, names are missing.
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

    fn learn(&mut self, data: Message, strings: &mut Strings) -> Result<(), Error> {
        interned(data, |kind, iid, text, line| {
            let mut name = || strings.intern(&text);
            match kind {
                1 => drop(self.categories.insert(iid, Category::of(&text))),
                2 => drop(self.event_names.insert(iid, name())),
                3 => drop(self.arg_names.insert(iid, name())),
                4 => drop(self.locations.insert(iid, format!("{text}:{line}"))),
                20 => drop(self.log_texts.insert(iid, name())),
                _ => drop(self.arg_texts.insert(iid, name())),
            }
        })
    }

    fn defaults(&mut self, mut defaults: Message) -> Result<(), Error> {
        while let Some(field) = defaults.next_field()? {
            match field.number {
                58 => self.clock = Some(field.u32()),
                11 => {
                    self.extra_tracks.clear();
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
