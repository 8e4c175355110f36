//! Decodes the annotation blocks of one stream into events.
//!
//! A stream is one thread of one client; a client is an annotating process, named by pid and generation. The blocks of
//! a stream hold columns: stamp, kind, `aux`, site, shape. The shape of a row tells whether it has an entry in the
//! columns of number pairs, an entry in the column of texts (blobs), or neither; so rows, pairs and blobs have a cursor
//! each.
//!
//! Events name a site, a place in the source; [`SiteNames`] maps sites to strings. Losses that blocks report are
//! collected in [`Clients`].
use crate::ahead::{Ahead, Pool, Producer};
use crate::error::source;
use kasuri_base::annotation::{ArgType, Kind, short_address};
use kasuri_format::Result as FormatResult;
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{AnnotationBlock, Recording, StreamLoss};
use kasuri_format::ring::Shape;
use kasuri_model::input::{Annotation, AnnotationEvents, BATCH};
use kasuri_model::{Error, Places, StrIx, Strings, Time};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A site id beyond this is damage. Names are looked up by index, so the id sizes a table.
const MAX_SITE: u32 = 1 << 22;

/// A loss that a stream reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetLoss {
    pub pid: i32,
    pub generation: u32,
    pub tid: i32,
    pub loss: StreamLoss,
}

/// The part that all streams share.
pub(super) struct Clients<'r> {
    recording: Arc<Recording<'r>>,
    /// Threads that decode ahead.
    pool: Option<Arc<Pool<'r>>>,
    pub clock: ClockMap,
    origin_ns: i64,
    pub losses: RefCell<Vec<MetLoss>>,
}

impl<'r> Clients<'r> {
    pub fn new(
        recording: Arc<Recording<'r>>,
        pool: Option<Arc<Pool<'r>>>,
        clock: ClockMap,
        origin_ns: i64,
    ) -> Clients<'r> {
        Clients { recording, pool, clock, origin_ns, losses: RefCell::new(Vec::new()) }
    }

    /// A stamp of an annotation as time.
    pub fn time(&self, stamp: u64) -> Time {
        Time(self.clock.monotonic_ns(stamp).saturating_sub(self.origin_ns))
    }
}

/// The names of each client's sites, indexed by site id.
pub(super) struct SiteNames {
    by_client: HashMap<(u32, u32), Rc<Vec<StrIx>>>,
}

impl SiteNames {
    /// Interns the names of all sites and notes their places. A process inherits the sites that its parent had
    /// registered before the fork, up to `parent_next_id`.
    pub fn new(recording: &Recording<'_>, strings: &mut Strings, places: &mut Places) -> SiteNames {
        let sites = recording.sites();
        let mut by_client = HashMap::new();
        for table in sites.tables() {
            // Ids count from 1; those of the parent come first.
            let own = table.sites.iter().map(|s| s.id).max().unwrap_or(0);
            let last = own.max(table.parent_next_id.saturating_sub(1)).min(MAX_SITE);
            let mut names = vec![StrIx::NONE; last as usize + 1];
            for id in 1..=last {
                let Some(site) = sites.resolve(table.pid, table.generation, id) else {
                    continue;
                };
                let name = strings.intern(&site.name);
                names[id as usize] = name;
                if site.line > 0 && !site.file.is_empty() {
                    places.entry(name).or_insert_with(|| format!("{}:{}", site.file, site.line));
                }
            }
            by_client.insert((table.pid, table.generation), Rc::new(names));
        }
        SiteNames { by_client }
    }

    /// The names of one client.
    pub fn client(&self, pid: u32, generation: u32) -> Rc<Vec<StrIx>> {
        self.by_client.get(&(pid, generation)).cloned().unwrap_or_default()
    }
}

/// Decodes a stream's blocks.
struct Blocks<'r> {
    recording: Arc<Recording<'r>>,
    /// Indices of those that are left, the last one first.
    left: Vec<usize>,
}

impl Producer for Blocks<'_> {
    type Chunk = FormatResult<AnnotationBlock>;

    fn produce(&mut self) -> Option<FormatResult<AnnotationBlock>> {
        let ix = self.left.pop()?;
        Some(self.recording.annotation_block(ix))
    }
}

/// The events of one thread.
pub(super) struct Stream<'r> {
    clients: Rc<Clients<'r>>,
    names: Rc<Vec<StrIx>>,
    pid: i32,
    generation: u32,
    tid: i32,
    first: Option<Time>,
    /// Indices of its blocks, in order.
    blocks: Vec<usize>,
    /// Blocks read since the last rewind, and the most ever. A block's losses count when it is read for the first time.
    read: usize,
    most_read: usize,
    block: AnnotationBlock,
    /// The blocks after it, one of which is decoded ahead; none: the stream was not read since it was rewound, or there are no threads.
    ahead: Option<Ahead<'r, Blocks<'r>>>,
    times: Vec<i64>,
    /// Cursors in the current block: all rows, rows with numbers, rows with text.
    row: usize,
    pair: usize,
    blob: usize,
}

impl<'r> Stream<'r> {
    /// `blocks`: indices of the stream's blocks, in order; at least one.
    pub fn new(clients: Rc<Clients<'r>>, names: &SiteNames, blocks: Vec<usize>) -> Stream<'r> {
        let infos = clients.recording.blocks();
        // pid, generation, number of the stream, thread: docs/format.md.
        let ids = blocks.first().map_or([0; 4], |&ix| infos[ix].ids);
        // A block may hold nothing but losses; it has no stamp.
        let first = blocks
            .iter()
            .filter(|&&ix| infos[ix].n_events > 0)
            .map(|&ix| infos[ix].first_stamp)
            .min();
        Stream {
            names: names.client(ids[0], ids[1]),
            pid: ids[0] as i32,
            generation: ids[1],
            tid: ids[3] as i32,
            first: first.map(|stamp| clients.time(stamp)),
            clients,
            blocks,
            read: 0,
            most_read: 0,
            block: AnnotationBlock::default(),
            ahead: None,
            times: Vec::new(),
            row: 0,
            pair: 0,
            blob: 0,
        }
    }

    /// The next block, which is block `ix`.
    fn decode(&mut self, ix: usize) -> FormatResult<AnnotationBlock> {
        let recording = &self.clients.recording;
        let Some(pool) = self.clients.pool.as_ref().filter(|_| self.blocks.len() > 1) else {
            return recording.annotation_block(ix);
        };
        let ahead = self.ahead.get_or_insert_with(|| {
            let blocks = Blocks {
                recording: recording.clone(),
                left: self.blocks[self.read..].iter().rev().copied().collect(),
            };
            Ahead::new(pool, blocks, 1)
        });
        match ahead.next() {
            Some(block) => block,
            None => recording.annotation_block(ix),
        }
    }

    /// Decodes the next block and converts its stamps. False: there is none.
    fn read_block(&mut self) -> Result<bool, Error> {
        let Some(&ix) = self.blocks.get(self.read) else {
            return Ok(false);
        };
        self.block = self.decode(ix).map_err(source)?;
        self.times.clear();
        self.clients.clock.convert(&self.block.stamps, &mut self.times);
        let origin = self.clients.origin_ns;
        self.times.iter_mut().for_each(|t| *t = t.saturating_sub(origin));
        (self.row, self.pair, self.blob) = (0, 0, 0);
        self.read += 1;
        // The passes may rewind a stream and read it again.
        if self.read > self.most_read {
            self.most_read = self.read;
            let met = self.block.losses.iter().map(|&loss| MetLoss {
                pid: self.pid,
                generation: self.generation,
                tid: self.tid,
                loss,
            });
            self.clients.losses.borrow_mut().extend(met);
        }
        Ok(true)
    }

    /// Appends the events of the current block from the cursor to `stop`.
    fn events(&mut self, stop: usize, strings: &mut Strings, out: &mut Vec<Annotation>) {
        let (block, rows) = (&self.block, self.row..stop);
        self.row = stop;
        for row in rows {
            let site = block.sites[row] as usize;
            let mut e = Annotation {
                time: Time(self.times[row]),
                kind: block.kinds[row],
                aux: block.aux[row],
                name: self.names.get(site).copied().unwrap_or(StrIx::NONE),
                a: 0,
                b: 0,
            };
            let shape = block.shapes[row];
            if e.kind == Kind::LockTaken as u8 || e.kind == Kind::LockLeft as u8 {
                e.a = short_address(block.aux[row], block.sites[row]);
                (e.aux, e.name) = (0, StrIx::NONE);
            }
            if shape == Shape::Pair as u8 {
                (e.a, e.b) = (block.a[self.pair], block.b[self.pair]);
                self.pair += 1;
            } else if shape == Shape::Blob as u8 {
                add_text(&mut e, block.blobs.row(self.blob), strings);
                self.blob += 1;
            }
            out.push(e);
        }
    }
}

/// Interns the payload of an event with text: a message, a thread's name, a text argument.
#[cold]
fn add_text(e: &mut Annotation, bytes: &[u8], strings: &mut Strings) {
    let text = String::from_utf8_lossy(bytes);
    match Kind::from_number(e.kind) {
        Some(Kind::Message | Kind::ThreadName) => e.name = strings.intern(&text),
        Some(Kind::Arg) if e.aux & 15 == ArgType::Str as u16 => {
            e.a = u64::from(strings.intern(&text).0)
        }
        _ => {}
    }
}

impl AnnotationEvents for Stream<'_> {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn tid(&self) -> i32 {
        self.tid
    }

    fn generation(&self) -> u32 {
        self.generation
    }

    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        while out.len() < BATCH {
            if self.row < self.times.len() {
                let stop = self.times.len().min(self.row + BATCH - out.len());
                self.events(stop, strings, out);
            } else if !self.read_block()? {
                break;
            }
        }
        Ok(())
    }

    fn first_time(&self) -> Option<Time> {
        self.first
    }

    fn rewind(&mut self) {
        self.read = 0;
        self.ahead = None;
        self.row = 0;
        self.times.clear();
    }
}
