//! Annotations of one stream (a thread's events in one client) as columns.
//!
//! Sections of a block (docs/format.md, "The packed file"):
//!
//! | section | content |
//! |---|---|
//! | 0 | losses: cause, count, first and last stamp |
//! | 1 | table of codes: kind, shape of the payload, aux and site as one u64 |
//! | 2 | stamps |
//! | 3 | each event's code |
//! | 4, 5 | the two numbers of the events that have them |
//! | 6 | texts and other payloads |
//!
//! (kind, aux, site) of an event comes from few places in a program, so it is one code per event and a table of codes. Events
//! are sorted by stamp first: a signal handler's event is stored in the ring before the event that it interrupted.
use super::column::{
    BytesColumn, BytesEncoder, decode_bytes, decode_ints, encode_ints, no_earlier,
};
use super::frame::BlockInfo;
use super::pack::{Sections, join_sections};
use super::{BLOCK_BYTES, BLOCK_EVENTS, BlockKind, EncodeOptions, EncodedBlocks};
use crate::Result;
use crate::bytes::Cursor;
use crate::ring::{Chunk, RingEvent, Shape};
use kasuri_base::quick::QuickMap;

const HEAD: usize = 0;
const CODE_TABLE: usize = 1;
const STAMPS: usize = 2;
const CODES: usize = 3;
const A: usize = 4;
const B: usize = 5;
const BLOBS: usize = 6;

/// Annotations that a thread could not store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamLoss {
    /// [`crate::ring::Lost`] as a number.
    pub cause: u8,
    /// Number of events lost.
    pub count: u64,
    /// Stamp of the first (of any cause) in that place; 0: unknown.
    pub first: u64,
    /// Stamp of the last.
    pub last: u64,
}

/// Encodes the chunks of one stream, given in order of `seq` ([`crate::ring::streams`]). Events are sorted by stamp, stable:
/// a signal handler's may stand before that of the code it interrupted.
pub fn encode_annotation_blocks(
    pid: u32,
    generation: u32,
    chunks: &[Chunk<'_>],
    options: &EncodeOptions,
) -> EncodedBlocks {
    let Some(first) = chunks.first() else {
        return EncodedBlocks::default();
    };
    let ids = [pid, generation, first.header.stream, first.header.tid];
    let mut encoder = Encoder {
        ids,
        options,
        pending: Vec::new(),
        bytes: 0,
        losses: Vec::new(),
        out: EncodedBlocks::default(),
    };
    for chunk in chunks {
        encoder.chunk(chunk);
    }
    encoder.flush(true);
    encoder.out
}

struct Encoder<'a> {
    ids: [u32; 4],
    options: &'a EncodeOptions,
    pending: Vec<RingEvent<'a>>,
    bytes: usize,
    losses: Vec<StreamLoss>,
    out: EncodedBlocks,
}

impl<'a> Encoder<'a> {
    fn chunk(&mut self, chunk: &Chunk<'a>) {
        let mut events = chunk.events();
        for event in &mut events {
            if self.options.keeps(event.stamp) {
                self.bytes += event.payload.len();
                self.pending.push(event);
            } else {
                self.out.n_cut += 1;
            }
        }
        self.out.n_open += u64::from(events.open);
        self.out.n_damaged += u64::from(events.damaged);
        let header = &chunk.header;
        for (cause, &count) in header.lost.iter().enumerate().filter(|(_, count)| **count != 0) {
            let (first, last) = (header.lost_first, header.lost_last);
            self.losses.push(StreamLoss { cause: cause as u8, count: count.into(), first, last });
        }
        if self.pending.len() >= 2 * BLOCK_EVENTS || self.bytes >= BLOCK_BYTES {
            self.flush(false);
        }
    }

    /// Encodes what is pending in blocks. Unless this is the end, half a block stays: a handler's event
    /// in the next chunk may belong before the last ones of this.
    fn flush(&mut self, end: bool) {
        if !self.pending.is_sorted_by_key(|e| e.stamp) {
            self.pending.sort_by_key(|e| e.stamp);
        }
        let pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        let stay = if end { 0 } else { BLOCK_EVENTS / 2 };
        while rest.len() > stay + BLOCK_EVENTS
            || (end && !rest.is_empty())
            || self.bytes >= BLOCK_BYTES
        {
            let mut bytes = 0;
            let fits = |e: &&RingEvent<'_>| {
                bytes += e.payload.len();
                bytes <= BLOCK_BYTES
            };
            let n = rest.iter().take(BLOCK_EVENTS).take_while(fits).count();
            let (block, more) = rest.split_at(n);
            self.block(block);
            self.bytes -= block.iter().map(|e| e.payload.len()).sum::<usize>();
            rest = more;
        }
        if end && !self.losses.is_empty() {
            self.block(&[]);
        }
        self.pending = rest.to_vec();
    }

    fn block(&mut self, events: &[RingEvent<'_>]) {
        let level = self.options.level;
        let mut head = (self.losses.len() as u32).to_le_bytes().to_vec();
        for loss in self.losses.drain(..) {
            head.push(loss.cause);
            for word in [loss.count, loss.first, loss.last] {
                head.extend_from_slice(&word.to_le_bytes());
            }
        }
        let (mut code_table, mut index) = (Vec::new(), QuickMap::<u64, u64>::default());
        let mut codes = Vec::with_capacity(events.len());
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut blobs = BytesEncoder::default();
        for event in events {
            let shape = event.shape();
            let key = u64::from(event.kind)
                | (shape as u64) << 8
                | u64::from(event.aux) << 16
                | u64::from(event.site) << 32;
            let next = index.len() as u64;
            let code = *index.entry(key).or_insert(next);
            if code == next {
                code_table.extend_from_slice(&key.to_le_bytes());
            }
            codes.push(code);
            match shape {
                Shape::Bare => {}
                Shape::Pair => {
                    let (x, y) = event.pair();
                    a.push(x);
                    b.push(y);
                }
                Shape::Blob => blobs.push(event.blob()),
            }
        }
        let stamps: Vec<u64> = events.iter().map(|e| e.stamp).collect();
        let mut table = ((code_table.len() / 8) as u32).to_le_bytes().to_vec();
        table.extend_from_slice(&(a.len() as u32).to_le_bytes());
        super::pack::put(&mut table, &code_table, level);
        let [stamp_column, codes, a, b] = [&stamps, &codes, &a, &b].map(|c| encode_ints(c, level));
        let payload = join_sections(&[head, table, stamp_column, codes, a, b, blobs.encode(level)]);
        self.out.push(BlockKind::Annotation, self.ids, &stamps, payload);
    }
}

/// Annotations of one stream, sorted by stamp.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnnotationBlock {
    /// Process.
    pub pid: u32,
    /// Client of that process.
    pub generation: u32,
    /// The thread's number in that client.
    pub stream: u32,
    /// Thread.
    pub tid: u32,
    /// On the recording's annotation clock, ascending.
    pub stamps: Vec<u64>,
    /// [`crate::ring::Kind`] as a number.
    pub kinds: Vec<u8>,
    /// Meaning by kind.
    pub aux: Vec<u16>,
    /// Site id; 0: none.
    pub sites: Vec<u32>,
    /// The payload of each event: 0 nothing, 1 the next row of `a` and `b`, 2 the next row of `blobs`
    /// ([`Shape`] as a number).
    pub shapes: Vec<u8>,
    /// First numbers.
    pub a: Vec<u64>,
    /// Second numbers.
    pub b: Vec<u64>,
    /// Texts, and payloads of kinds this code does not know.
    pub blobs: BytesColumn,
    /// Events that were lost between those of this block.
    pub losses: Vec<StreamLoss>,
}

/// One annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Annotation<'b> {
    /// On the recording's annotation clock.
    pub stamp: u64,
    /// [`crate::ring::Kind`] as a number.
    pub kind: u8,
    /// Meaning by kind.
    pub aux: u16,
    /// Site id; 0: none.
    pub site: u32,
    /// First number; 0 without one.
    pub a: u64,
    /// Second number; 0 without one.
    pub b: u64,
    /// Bytes; empty without any.
    pub blob: &'b [u8],
}

impl AnnotationBlock {
    pub(crate) fn parse(info: &BlockInfo, file: &[u8]) -> Result<AnnotationBlock> {
        let (payload, base) = info.payload(file)?;
        let sections = Sections::parse(payload, base)?;
        let n = info.n_events as usize;
        let losses = parse_losses(sections.cursor(HEAD, "annotation block")?, payload.len())?;
        let mut head = sections.cursor(CODE_TABLE, "annotation codes")?;
        let (n_codes, n_pairs) = (head.count(n)?, head.count(n)?);
        let table = super::pack::take(&mut head, n_codes * 8)?;
        let table: Vec<u64> = table.chunks_exact(8).map(|c| crate::bytes::uint(c, false)).collect();
        let ints = |section: usize, n: usize| {
            let (bytes, at) = sections.get(section)?;
            decode_ints(bytes, at, n, &no_earlier)
        };
        let codes = ints(CODES, n)?;
        if let Some(bad) = codes.iter().find(|&&c| c >= n_codes as u64) {
            return Err(head.damaged(format!("code {bad}"), format!("below {n_codes}")));
        }
        let column = |f: fn(u64) -> u64| -> Vec<u64> { table.iter().map(|&k| f(k)).collect() };
        let shape_of = column(|k| k >> 8 & 0xff);
        let shapes: Vec<u8> = codes.iter().map(|&c| shape_of[c as usize] as u8).collect();
        let count = |shape: Shape| shapes.iter().filter(|&&s| s == shape as u8).count();
        if count(Shape::Pair) != n_pairs {
            return Err(head.damaged(format!("{} pairs", count(Shape::Pair)), format!("{n_pairs}")));
        }
        let (blobs, at) = sections.get(BLOBS)?;
        Ok(AnnotationBlock {
            pid: info.ids[0],
            generation: info.ids[1],
            stream: info.ids[2],
            tid: info.ids[3],
            stamps: ints(STAMPS, n)?,
            kinds: codes.iter().map(|&c| table[c as usize] as u8).collect(),
            aux: codes.iter().map(|&c| (table[c as usize] >> 16) as u16).collect(),
            sites: codes.iter().map(|&c| (table[c as usize] >> 32) as u32).collect(),
            a: ints(A, n_pairs)?,
            b: ints(B, n_pairs)?,
            blobs: decode_bytes(blobs, at, count(Shape::Blob))?,
            shapes,
            losses,
        })
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// The events in order, each with its payload.
    pub fn events(&self) -> Annotations<'_> {
        Annotations { block: self, row: 0, pair: 0, blob: 0 }
    }
}

fn parse_losses(mut head: Cursor<'_>, payload: usize) -> Result<Vec<StreamLoss>> {
    let n = head.count(payload / 25)?;
    let mut losses = Vec::with_capacity(n);
    for _ in 0..n {
        losses.push(StreamLoss {
            cause: head.u8()?,
            count: head.u64()?,
            first: head.u64()?,
            last: head.u64()?,
        });
    }
    Ok(losses)
}

/// Iterator over the events of an [`AnnotationBlock`].
#[derive(Clone, Debug)]
pub struct Annotations<'b> {
    block: &'b AnnotationBlock,
    row: usize,
    pair: usize,
    blob: usize,
}

impl<'b> Iterator for Annotations<'b> {
    type Item = Annotation<'b>;

    #[inline]
    fn next(&mut self) -> Option<Annotation<'b>> {
        let (block, row) = (self.block, self.row);
        let stamp = *block.stamps.get(row)?;
        self.row += 1;
        let (mut a, mut b, mut blob) = (0, 0, &[][..]);
        match *block.shapes.get(row)? {
            1 => {
                (a, b) = (*block.a.get(self.pair)?, *block.b.get(self.pair)?);
                self.pair += 1;
            }
            2 => {
                blob = block.blobs.row(self.blob);
                self.blob += 1;
            }
            _ => {}
        }
        Some(Annotation {
            stamp,
            kind: *block.kinds.get(row)?,
            aux: *block.aux.get(row)?,
            site: *block.sites.get(row)?,
            a,
            b,
            blob,
        })
    }
}
