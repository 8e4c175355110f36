//! Recordings made up in memory, from a seed: pages as a kernel writes them, chunks, sites, anchors and metadata.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]
use kasuri_format::container::{
    EncodeOptions, Writer, encode_annotation_blocks, encode_kernel_blocks, encode_perf_blocks,
};
use kasuri_format::meta::{Anchor, ClientLoss, KernelLoss, Meta, Proc};
use kasuri_format::ring::{ChunkHeader, Site, SiteTable, parse_chunks, streams};
use kasuri_format::tracefs::{EventTable, PageLayout};
use zerocopy::{FromZeros, IntoBytes};

pub const FORMATS: [(&str, &str); 6] = [
    ("ftrace/print", include_str!("../data/formats/print")),
    ("raw_syscalls/sys_enter", include_str!("../data/formats/sys_enter")),
    ("sched/sched_migrate_task", include_str!("../data/formats/sched_migrate_task")),
    ("sched/sched_process_exec", include_str!("../data/formats/sched_process_exec")),
    ("sched/sched_switch", include_str!("../data/formats/sched_switch")),
    ("sched/sched_waking", include_str!("../data/formats/sched_waking")),
];

pub const LE64: PageLayout = PageLayout::LE64;

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub fn meta() -> Meta {
    let mut meta = Meta {
        version: 1,
        recorder: "kasuri test".into(),
        mode: "program".into(),
        complete: true,
        ..Meta::default()
    };
    meta.kernel.source = "tracefs".into();
    meta.kernel.clock = "mono".into();
    meta.kernel.page_bytes = 4096;
    meta.kernel.formats = FORMATS.iter().map(|(n, t)| (n.to_string(), t.to_string())).collect();
    meta
}

/// One ring event as the tests think of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ev {
    pub stamp: u64,
    pub kind: u8,
    pub aux: u16,
    pub site: u32,
    pub payload: Vec<u8>,
}

/// Appends a chunk holding `events`.
pub fn put_chunk(out: &mut Vec<u8>, stream: u32, seq: u64, lost_full: u32, events: &[Ev]) {
    let start = out.len();
    let mut header = ChunkHeader::new_zeroed();
    (header.seq, header.stream, header.tid) = (seq, stream, 1000 + stream);
    header.lost[0] = lost_full;
    (header.lost_first, header.lost_last) = if lost_full == 0 { (0, 0) } else { (5, 9) };
    out.extend_from_slice(header.as_bytes());
    for e in events {
        let slots = 1 + e.payload.len().div_ceil(16);
        let word = u64::from(e.kind)
            | (slots as u64) << 8
            | u64::from(e.aux) << 16
            | u64::from(e.site) << 32;
        out.extend_from_slice(&e.stamp.to_le_bytes());
        out.extend_from_slice(&word.to_le_bytes());
        let end = out.len() + (slots - 1) * 16;
        out.extend_from_slice(&e.payload);
        out.resize(end, 0);
    }
    let used = (out.len() - start) as u32;
    out[start + 16..start + 20].copy_from_slice(&used.to_le_bytes());
}

/// Builds pages of one CPU: stamps that go backwards or far ahead become absolute or extended stamps.
pub struct PageBuilder {
    pub layout: PageLayout,
    pub out: Vec<u8>,
    page: Vec<u8>,
    stamp: u64,
    missed: Option<Option<u64>>,
}

impl PageBuilder {
    pub fn new(layout: PageLayout) -> PageBuilder {
        PageBuilder { layout, out: Vec::new(), page: Vec::new(), stamp: 0, missed: None }
    }

    fn number(&self, value: u64, bytes: usize) -> Vec<u8> {
        match self.layout.big_endian {
            true => value.to_be_bytes()[8 - bytes..].to_vec(),
            false => value.to_le_bytes()[..bytes].to_vec(),
        }
    }

    fn put(&mut self, value: u64, bytes: usize) {
        let number = self.number(value, bytes);
        self.page.extend_from_slice(&number);
    }

    fn header(&mut self, type_len: u32, delta: u64) {
        let delta = delta as u32;
        let word =
            if self.layout.big_endian { type_len << 27 | delta } else { type_len | delta << 5 };
        self.put(word.into(), 4);
    }

    /// Ends the page; the next one says that events were missed before it.
    pub fn miss(&mut self, count: Option<u64>) {
        self.end_page();
        self.missed = Some(count);
    }

    pub fn event(&mut self, stamp: u64, data: &[u8]) {
        assert!(data.len().is_multiple_of(4) && !data.is_empty());
        if self.page.len() + data.len() + 24 > self.layout.page_bytes {
            self.end_page();
        }
        if self.page.is_empty() {
            self.put(stamp, 8);
            self.page.resize(self.layout.data_offset, 0);
            self.stamp = stamp;
        }
        let mut delta = stamp.wrapping_sub(self.stamp);
        let absolute_works =
            stamp >> 59 == self.stamp >> 59 && (stamp >= self.stamp || stamp >> 59 == 0);
        if delta >= 1 << 59 && !absolute_works {
            self.end_page();
            return self.event(stamp, data);
        }
        if delta >= 1 << 59 || (delta >= 1 << 27 && stamp.is_multiple_of(2) && absolute_works) {
            self.header(31, stamp & 0x07ff_ffff);
            self.put(stamp << 5 >> 32, 4);
            delta = 0;
        } else if delta >= 1 << 27 {
            self.header(30, delta & 0x07ff_ffff);
            self.put(delta >> 27, 4);
            delta = 0;
        }
        if data.len() <= 112 {
            self.header(data.len() as u32 / 4, delta);
        } else {
            self.header(0, delta);
            self.put(data.len() as u64 + 4, 4);
        }
        self.page.extend_from_slice(data);
        self.stamp = stamp;
    }

    pub fn end_page(&mut self) {
        if self.page.is_empty() {
            return;
        }
        let layout = self.layout;
        let length = self.page.len() - layout.data_offset;
        let mut commit = length as u64;
        if let Some(count) = self.missed.take() {
            // Sign-extended, as the kernel does it.
            commit |= 0xffff_ffff_8000_0000;
            if let Some(count) = count {
                commit |= 1 << 30;
                self.put(count, layout.commit_bytes);
            }
        }
        let commit = self.number(commit, layout.commit_bytes);
        self.page[layout.commit_offset..][..layout.commit_bytes].copy_from_slice(&commit);
        assert!(self.page.len() <= layout.page_bytes);
        self.page.resize(layout.page_bytes, 0);
        self.out.append(&mut self.page);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.end_page();
        self.out
    }
}

fn id_of(event: &str) -> u16 {
    static TABLE: std::sync::OnceLock<EventTable> = std::sync::OnceLock::new();
    let table = TABLE.get_or_init(|| EventTable::from_meta(&meta().kernel).unwrap());
    table.types()[usize::from(table.find(event).unwrap())].id
}

/// A sched_switch event for the format file in `data/`.
pub fn switch(prev: i32, next: i32, state: i64) -> Vec<u8> {
    let id = id_of("sched/sched_switch");
    let mut data = id.to_le_bytes().to_vec();
    data.extend_from_slice(&[0, 1]);
    data.extend_from_slice(&prev.to_le_bytes());
    for (pid, state) in [(prev, Some(state)), (next, None)] {
        let mut comm = [0u8; 16];
        let text = format!("thread-{pid}");
        comm[..text.len().min(15)].copy_from_slice(&text.as_bytes()[..text.len().min(15)]);
        data.extend_from_slice(&comm);
        data.extend_from_slice(&pid.to_le_bytes());
        data.extend_from_slice(&120i32.to_le_bytes());
        if let Some(state) = state {
            data.extend_from_slice(&state.to_le_bytes());
        }
    }
    data
}

/// A sched_process_exec event.
pub fn exec(pid: i32, filename: &str) -> Vec<u8> {
    let id = id_of("sched/sched_process_exec");
    let mut data = id.to_le_bytes().to_vec();
    data.extend_from_slice(&[0, 1]);
    data.extend_from_slice(&pid.to_le_bytes());
    data.extend_from_slice(&(20 | (filename.len() as u32 + 1) << 16).to_le_bytes());
    data.extend_from_slice(&pid.to_le_bytes());
    data.extend_from_slice(&pid.to_le_bytes());
    data.extend_from_slice(filename.as_bytes());
    data.push(0);
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

/// The parts of a small recording, as they would lie in a recording directory.
pub struct Small {
    pub meta: Meta,
    pub pages: Vec<u8>,
    pub chunks: Vec<u8>,
    pub sites: SiteTable,
    pub perf: Vec<u8>,
    pub anchors: Vec<Anchor>,
}

pub fn small(seed: u64) -> Small {
    let mut random = Random(seed);
    let mut pages = PageBuilder::new(PageLayout::LE64);
    let (mut stamp, mut running) = (1_000_000u64, 0i32);
    for ix in 0..80 {
        stamp += random.below(100_000);
        let next = random.below(4) as i32;
        match ix {
            40 => pages.miss(None),
            60 => pages.miss(Some(17)),
            _ => {}
        }
        pages.event(
            stamp,
            &if ix % 16 == 7 {
                exec(next, "/bin/true")
            } else {
                switch(running, next, random.below(3) as i64)
            },
        );
        running = next;
    }
    let mut chunks = Vec::new();
    for seq in 0..2 {
        for stream in 1..=2 {
            let mut events = Vec::new();
            for ix in 0..12u32 {
                let base = 1_000_000 + seq * 500_000;
                let stamp = base + u64::from(ix) * 1000 + random.below(900);
                events.push(match ix % 4 {
                    0 => Ev { stamp, kind: 1, aux: 0, site: 1 + ix % 3, payload: vec![] },
                    1 => Ev {
                        stamp,
                        kind: 7,
                        aux: 0,
                        site: 0,
                        payload: [0x7000u64.to_le_bytes(), [0; 8]].concat(),
                    },
                    2 => Ev { stamp, kind: 18, aux: 5, site: 2, payload: b"hello".to_vec() },
                    _ => Ev { stamp, kind: 2, aux: 0, site: 0, payload: vec![] },
                });
            }
            put_chunk(&mut chunks, stream, seq, (seq == 1 && stream == 2) as u32 * 3, &events);
        }
    }
    let site = |id, name: &str| Site {
        id,
        name: name.into(),
        file: "a.c".into(),
        function: "main".into(),
        line: 10 + id,
    };
    let sites = SiteTable {
        pid: 500,
        generation: 0,
        parent: None,
        parent_next_id: 0,
        sites: vec![site(1, "solve"), site(2, "exchange"), site(3, "wait")],
    };
    let mut perf = Vec::new();
    for ix in 0..10u64 {
        let header =
            [14u32.to_le_bytes(), (((ix % 2) as u32 * (1 << 13)) | (32 << 16)).to_le_bytes()]
                .concat();
        perf.extend_from_slice(&header);
        for word in [500u64 | 501 << 32, 1_000_000 + ix * 777, 1] {
            perf.extend_from_slice(&word.to_le_bytes());
        }
    }
    let anchor =
        |ix: u64| Anchor { native: ix * 2_600_000, monotonic_ns: ix * 1_000_000, realtime_ns: 0 };
    Small {
        meta: meta(),
        pages: pages.finish(),
        chunks,
        sites,
        perf,
        anchors: vec![anchor(0), anchor(9)],
    }
}

impl Small {
    pub fn pack(&self) -> Vec<u8> {
        let options = EncodeOptions::default();
        let table = EventTable::from_meta(&self.meta.kernel).unwrap();
        let mut writer = Writer::new(Vec::new(), &self.meta).unwrap();
        writer.anchors(&self.anchors).unwrap();
        writer
            .procs(&[Proc { pid: 500, tid: 500, comm: "small".into(), ..Proc::default() }])
            .unwrap();
        writer
            .kernel_losses(&[KernelLoss { cpu: 1, overrun: 17, ..KernelLoss::default() }])
            .unwrap();
        writer
            .client_losses(&[ClientLoss {
                pid: 500,
                generation: 0,
                lost: [1, 0, 0, 0, 0, 0, 0, 0],
            }])
            .unwrap();
        writer.sites(&self.sites).unwrap();
        let kernel = encode_kernel_blocks(&table, &PageLayout::LE64, 1, &self.pages, &options);
        assert!(kernel.errors.is_empty(), "{:?}", kernel.errors);
        writer.blocks(&kernel).unwrap();
        let (chunks, error) = parse_chunks(&self.chunks);
        assert_eq!(error, None);
        for stream in streams(&chunks) {
            writer.blocks(&encode_annotation_blocks(500, 0, &stream, &options)).unwrap();
        }
        writer.blocks(&encode_perf_blocks(1, &self.perf, false, &options)).unwrap();
        let (file, bytes) = writer.finish().unwrap();
        assert_eq!(file.len() as u64, bytes);
        file
    }
}
