//! A recording as its parts, written into a file: event types with their format files, events of each CPU, chunks, sites and
//! metadata, each of which a test may change or leave out.
#[path = "../../../format/tests/common/mod.rs"]
mod common;

use common::Ev;
pub use common::{PageBuilder, put_chunk};
use kasuri_format::call_paths::Log;
use kasuri_format::container::{
    EncodeOptions, Writer, encode_annotation_blocks, encode_kernel_blocks, encode_perf_blocks,
    encode_sample_blocks,
};
use kasuri_format::meta::{
    Anchor, ClientLoss, Host, KernelLoss, LimitRow, Meta, Proc, SamplingRow,
};
use kasuri_format::ring::{SiteTable, parse_chunks, streams};
use kasuri_format::tracefs::EventTable;
pub use kasuri_format::tracefs::PageLayout;
use kasuri_import::{File, Options};
use kasuri_model::Trace;

/// CLOCK_MONOTONIC when the recording begins.
pub const START: u64 = 1_000_000;

/// Event types: name, and the fields behind the common ones with their sizes; below 0: signed.
const TYPES: [(&str, &[(&str, i32)]); 12] = [
    (
        "sched/sched_switch",
        &[
            ("prev_comm", 16),
            ("prev_pid", -4),
            ("prev_state", -8),
            ("next_comm", 16),
            ("next_pid", -4),
        ],
    ),
    ("sched/sched_waking", &[("comm", 16), ("pid", -4), ("target_cpu", -4)]),
    ("sched/sched_migrate_task", &[("pid", -4), ("orig_cpu", -2), ("dest_cpu", -2)]),
    ("task/task_newtask", &[("pid", -4), ("comm", 16), ("clone_flags", 8)]),
    ("task/task_rename", &[("pid", -4), ("newcomm", 16)]),
    ("irq/irq_handler_entry", &[("irq", -4), ("name", 16)]),
    ("irq/irq_handler_exit", &[("irq", -4)]),
    ("irq/softirq_entry", &[("vec", 1)]),
    ("irq/softirq_exit", &[("vec", 1)]),
    ("raw_syscalls/sys_enter", &[("id", -8)]),
    ("raw_syscalls/sys_exit", &[("id", -8)]),
    ("lock/contention_begin", &[("flags", 4)]),
];
const LOCK_END: (&str, &[(&str, i32)]) = ("lock/contention_end", &[("ret", -4)]);

fn types() -> impl Iterator<Item = (&'static str, &'static [(&'static str, i32)])> {
    TYPES.into_iter().chain([LOCK_END])
}

/// The text of an event type's format file in tracefs.
fn format_text(id: usize, fields: &[(&str, i32)]) -> String {
    let mut text = format!(
        "name: x\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8;
    for (name, size) in fields {
        let (bytes, signed) = (size.unsigned_abs(), u8::from(*size < 0));
        let declaration = match bytes {
            16 => format!("char {name}[16]"),
            1 => format!("unsigned char {name}"),
            2 => format!("short {name}"),
            4 => format!("int {name}"),
            _ => format!("long {name}"),
        };
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{bytes};\tsigned:{signed};\n");
        offset += bytes;
    }
    text + "\nprint fmt: \"\"\n"
}

/// A field's value.
pub enum Value<'a> {
    Int(i64),
    Text(&'a str),
}
pub use Value::{Int, Text};

/// The bytes of an event, written while `context` was on the CPU.
pub fn event(name: &str, context: i32, flags: u8, values: &[Value<'_>]) -> Vec<u8> {
    let (id, (_, fields)) =
        types().enumerate().find(|(_, (n, _))| *n == name).expect("one of TYPES");
    let mut data = (id as u16 + 1).to_le_bytes().to_vec();
    data.extend_from_slice(&[flags, 0]);
    data.extend_from_slice(&context.to_le_bytes());
    for ((_, size), value) in fields.iter().zip(values) {
        match value {
            Int(n) => data.extend_from_slice(&n.to_le_bytes()[..size.unsigned_abs() as usize]),
            Text(text) => {
                let mut bytes = [0; 16];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                data.extend_from_slice(&bytes);
            }
        }
    }
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

pub fn switch(prev: i32, state: i64, next: i32) -> Vec<u8> {
    let name = |tid| if tid == 0 { "swapper" } else { "worker" };
    let values =
        [Text(name(prev)), Int(prev.into()), Int(state), Text(name(next)), Int(next.into())];
    event("sched/sched_switch", prev, 0, &values)
}

/// The parts of a recording.
#[derive(Default)]
pub struct Parts {
    pub meta: Meta,
    pub anchors: Vec<Anchor>,
    pub procs: Vec<Proc>,
    pub limits: Vec<LimitRow>,
    pub kernel_losses: Vec<KernelLoss>,
    pub client_losses: Vec<ClientLoss>,
    /// Pages of each CPU.
    pub pages: Vec<(u32, Vec<u8>)>,
    /// Chunks of each client: pid, generation.
    pub chunks: Vec<(u32, u32, Vec<u8>)>,
    pub sites: Vec<SiteTable>,
    pub perf: Vec<(u32, Vec<u8>)>,
    pub call_paths: Log,
    pub sampling: Vec<SamplingRow>,
}

/// A program of process 7, that nothing is known of yet.
pub fn program() -> Parts {
    let mut meta = Meta {
        version: 1,
        complete: true,
        mode: "program".into(),
        root_pids: vec![7],
        ..Meta::default()
    };
    meta.host = Host { n_cpus: 2, online: vec![0, 1], machine: "x86_64".into(), ..Host::default() };
    meta.start = Anchor { native: START, monotonic_ns: START, realtime_ns: 5_000_000 };
    meta.end = Some(Anchor {
        native: START + 100_000,
        monotonic_ns: START + 100_000,
        realtime_ns: 5_100_000,
    });
    meta.kernel.source = "tracefs".into();
    meta.kernel.clock = "mono".into();
    meta.kernel.page_bytes = 4096;
    meta.kernel.buffer_kb = 64;
    meta.annotations.clock = "mono".into();
    for (id, (name, fields)) in types().enumerate() {
        let text = format_text(id + 1, fields);
        meta.kernel.formats.insert(name.into(), text);
    }
    Parts { meta, procs: vec![proc(0, 7, 7), proc(0, 7, 8)], ..Parts::default() }
}

pub fn proc(at: u64, pid: i32, tid: i32) -> Proc {
    Proc { monotonic_ns: START + at, pid, tid, ppid: 1, comm: format!("t{tid}"), ..Proc::default() }
}

/// One CPU's events, at so many ns after the start.
pub fn pages(events: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut pages = PageBuilder::new(PageLayout::LE64);
    for (at, data) in events {
        pages.event(START + at, data);
    }
    pages.finish()
}

pub fn annotation(at: u64, kind: u8, aux: u16, site: u32, payload: &[u8]) -> Ev {
    Ev { stamp: START + at, kind, aux, site, payload: payload.to_vec() }
}

pub fn pair(a: u64, b: u64) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

impl Parts {
    pub fn write(&self) -> Vec<u8> {
        let options = EncodeOptions::default();
        let mut writer = Writer::new(Vec::new(), &self.meta).unwrap();
        writer.anchors(&self.anchors).unwrap();
        writer.procs(&self.procs).unwrap();
        writer.limits(&self.limits).unwrap();
        writer.kernel_losses(&self.kernel_losses).unwrap();
        writer.client_losses(&self.client_losses).unwrap();
        for table in &self.sites {
            writer.sites(table).unwrap();
        }
        let table = EventTable::from_meta(&self.meta.kernel).unwrap();
        for (cpu, pages) in &self.pages {
            let blocks = encode_kernel_blocks(&table, &PageLayout::LE64, *cpu, pages, &options);
            writer.blocks(&blocks).unwrap();
        }
        for (pid, generation, bytes) in &self.chunks {
            let (chunks, error) = parse_chunks(bytes);
            assert_eq!(error, None);
            for stream in streams(&chunks) {
                let blocks = encode_annotation_blocks(*pid, *generation, &stream, &options);
                writer.blocks(&blocks).unwrap();
            }
        }
        for (cpu, records) in &self.perf {
            let blocks = encode_perf_blocks(*cpu, records, false, &options);
            writer.blocks(&blocks).unwrap();
        }
        writer.call_paths(&self.call_paths.tables).unwrap();
        writer.names(&self.call_paths.tables.names).unwrap();
        writer.sampling(&self.sampling).unwrap();
        let samples = encode_sample_blocks(&self.call_paths.samples, &options);
        writer.blocks(&samples).unwrap();
        writer.finish().unwrap().0
    }

    pub fn load(&self) -> Trace {
        let bytes = self.write();
        let file = File { name: "run.kasuri", bytes: &bytes };
        let trace = kasuri_import::load(&[file], &Options::default()).unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }
}
