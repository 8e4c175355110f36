//! Annotation streams of other tools as chunks and sites, the form in which programs hand over their own
//! (docs/format.md, Rings).
use kasuri_format::ring::{ArgType, Kind, Site, SiteTable};
use kasuri_model::input::{Annotation, AnnotationEvents};
use kasuri_model::{StrIx, Strings, Time};
use std::collections::HashMap;

const CHUNK: usize = 32 << 10;
const HEADER: usize = 128;
const SLOT: usize = 16;
/// Longer text is cut: an event has at most 127 slots.
const TEXT_MAX: usize = 2032;

/// The sites of one process in one input: a name, an id.
#[derive(Default)]
pub struct Sites {
    ids: HashMap<StrIx, u32>,
    names: Vec<StrIx>,
}

impl Sites {
    fn id(&mut self, name: StrIx) -> u32 {
        if !name.is_some() {
            return 0;
        }
        let next = self.names.len() as u32 + 1;
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.names.push(name);
        }
        id
    }

    /// As a table of client (`pid`, `generation`).
    pub fn table(&self, pid: u32, generation: u32, strings: &Strings) -> SiteTable {
        let site = |(ix, name): (usize, &StrIx)| Site {
            id: ix as u32 + 1,
            name: strings.get(*name).to_owned(),
            ..Site::default()
        };
        SiteTable {
            pid,
            generation,
            sites: self.names.iter().enumerate().map(site).collect(),
            ..SiteTable::default()
        }
    }
}

/// Chunks of one stream.
pub struct Ring {
    stream: u32,
    tid: u32,
    seq: u64,
    start: usize,
    bytes: Vec<u8>,
}

impl Ring {
    fn new(stream: u32, tid: u32) -> Ring {
        let mut ring = Ring { stream, tid, seq: 0, start: 0, bytes: Vec::new() };
        ring.begin();
        ring
    }

    fn begin(&mut self) {
        self.start = self.bytes.len();
        self.bytes.extend_from_slice(&self.seq.to_le_bytes());
        self.bytes.extend_from_slice(&self.stream.to_le_bytes());
        self.bytes.extend_from_slice(&self.tid.to_le_bytes());
        self.bytes.resize(self.start + HEADER, 0);
    }

    fn end(&mut self) {
        let used = (self.bytes.len() - self.start) as u32;
        let at = self.start + SLOT;
        self.bytes[at..at + 4].copy_from_slice(&used.to_le_bytes());
    }

    fn record(&mut self, stamp: u64, kind: u8, aux: u16, site: u32, payload: &[u8]) {
        let slots = 1 + payload.len().div_ceil(SLOT);
        if self.bytes.len() - self.start + slots * SLOT > CHUNK {
            self.end();
            self.seq += 1;
            self.begin();
        }
        let word =
            u64::from(kind) | (slots as u64) << 8 | u64::from(aux) << 16 | u64::from(site) << 32;
        let end = self.bytes.len() + slots * SLOT;
        // A stamp of 0 would say that the record was never committed.
        self.bytes.extend_from_slice(&stamp.max(1).to_le_bytes());
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(end, 0);
    }
}

/// Reads a whole stream into chunks; `stamp`: of each event by its time, or none to leave it out.
///
/// # Errors
/// Damage that the stream meets.
pub fn chunks(
    stream: &mut dyn AnnotationEvents,
    number: u32,
    stamp: &dyn Fn(Time) -> Option<u64>,
    sites: &mut Sites,
    strings: &mut Strings,
) -> Result<Vec<u8>, kasuri_model::Error> {
    let mut ring = Ring::new(number, stream.tid() as u32);
    let mut batch = Vec::new();
    loop {
        batch.clear();
        stream.fill(strings, &mut batch)?;
        if batch.is_empty() {
            ring.end();
            return Ok(ring.bytes);
        }
        for event in &batch {
            if let Some(stamp) = stamp(event.time) {
                add(&mut ring, event, stamp, sites, strings);
            }
        }
    }
}

fn add(ring: &mut Ring, e: &Annotation, stamp: u64, sites: &mut Sites, strings: &Strings) {
    let pair = || [e.a.to_le_bytes(), e.b.to_le_bytes()].concat();
    let Some(kind) = Kind::from_number(e.kind) else {
        return;
    };
    match kind {
        Kind::Begin | Kind::End | Kind::Instant | Kind::Trigger => {
            ring.record(stamp, e.kind, e.aux, sites.id(e.name), &[]);
        }
        Kind::Message | Kind::ThreadName => {
            let text = cut(strings.get(e.name), TEXT_MAX);
            ring.record(stamp, e.kind, text.len() as u16, 0, text.as_bytes());
        }
        Kind::Arg if e.aux & 15 == ArgType::Str as u16 => {
            let text = cut(strings.get(StrIx(e.a as u32)), TEXT_MAX);
            let aux = ArgType::Str as u16 | (text.len() as u16) << 4;
            ring.record(stamp, e.kind, aux, sites.id(e.name), text.as_bytes());
        }
        // These two have their address where others have their site; the long forms say the same.
        Kind::LockTaken => {
            ring.record(stamp, Kind::LockAcquired as u8, 0, 0, &pair());
        }
        Kind::LockLeft => {
            ring.record(stamp, Kind::LockReleased as u8, 0, 0, &pair());
        }
        _ => ring.record(stamp, e.kind, e.aux, sites.id(e.name), &pair()),
    }
}

fn cut(text: &str, max: usize) -> &str {
    let mut n = text.len().min(max);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    &text[..n]
}
