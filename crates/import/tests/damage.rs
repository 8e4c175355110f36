//! A recording with one byte changed or cut at any place: an error or a trace that keeps its rules, never a panic.
//!
//! The recording is small enough to try each of its bytes: kernel events of one CPU, annotations of one thread, tables.
use kasuri_format::container::{
    EncodeOptions, Writer, encode_annotation_blocks, encode_kernel_blocks,
};
use kasuri_format::meta::{Anchor, Host, KernelLoss, Meta, Proc};
use kasuri_format::ring::parse_chunks;
use kasuri_format::tracefs::{EventTable, PageLayout};
use kasuri_import::{File, Options};
use kasuri_model::Trace;

fn load(bytes: &[u8], salvage: bool) -> Result<Trace, kasuri_import::Error> {
    let file = File { name: "run.kasuri", bytes };
    let options = Options { salvage, ..Options::default() };
    kasuri_import::load(&[file], &options)
}

const EXIT: &str = "name: sched_process_exit\nID: 3\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

fn meta() -> Meta {
    let mut meta = Meta {
        version: 1,
        complete: true,
        mode: "program".into(),
        root_pids: vec![7],
        ..Meta::default()
    };
    meta.host = Host { n_cpus: 2, online: vec![0, 1], ..Host::default() };
    meta.start = Anchor { native: 1000, monotonic_ns: 1000, realtime_ns: 5 };
    meta.end = Some(Anchor { native: 9000, monotonic_ns: 9000, realtime_ns: 8005 });
    meta.kernel.source = "tracefs".into();
    meta.kernel.clock = "mono".into();
    meta.annotations.clock = "native".into();
    meta.kernel.formats.insert("sched/sched_process_exit".into(), EXIT.into());
    meta
}

/// One page of exits.
fn page() -> Vec<u8> {
    let mut page = Vec::from(2000u64.to_le_bytes());
    page.extend_from_slice(&[0; 8]);
    for tid in 7..20u32 {
        page.extend_from_slice(&(7u32 | 50 << 5).to_le_bytes());
        page.extend_from_slice(&3u32.to_le_bytes());
        page.extend_from_slice(&tid.to_le_bytes());
        page.extend_from_slice(b"somebody\0\0\0\0\0\0\0\0");
        page.extend_from_slice(&tid.to_le_bytes());
    }
    let commit = page.len() as u64 - 16;
    page[8..16].copy_from_slice(&commit.to_le_bytes());
    page.resize(4096, 0);
    page
}

/// One chunk: slices, a lock, a task, a message.
fn chunk() -> Vec<u8> {
    let mut out = vec![0u8; 128];
    out[8] = 1;
    out[12] = 7;
    let mut put = |stamp: u64, kind: u64, aux: u64, payload: &[u64]| {
        let slots = 1 + payload.len() as u64 / 2;
        for word in [stamp, kind | slots << 8 | aux << 16 | 1 << 32].iter().chain(payload) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    };
    for (n, kind) in [1u64, 7, 8, 10, 11, 1, 12, 13, 2, 14, 9, 15, 16, 4, 2].into_iter().enumerate()
    {
        let payload: &[u64] = if kind > 2 { &[9, 0] } else { &[] };
        put(3000 + 10 * n as u64, kind, 0, payload);
    }
    put(4000, 18, 5, &[u64::from_le_bytes(*b"hello\0\0\0"), 0]);
    let used = out.len() as u32;
    out[16..20].copy_from_slice(&used.to_le_bytes());
    out
}

fn recording() -> Vec<u8> {
    let (meta, options) = (meta(), EncodeOptions::default());
    let mut writer = Writer::new(Vec::new(), &meta).unwrap();
    writer.anchors(&[meta.start, meta.end.unwrap()]).unwrap();
    writer
        .procs(&[Proc {
            monotonic_ns: 1000,
            pid: 7,
            tid: 7,
            ppid: 1,
            comm: "seven".into(),
            ..Proc::default()
        }])
        .unwrap();
    let loss =
        |ns, overrun| KernelLoss { monotonic_ns: ns, cpu: 0, overrun, ..KernelLoss::default() };
    writer.kernel_losses(&[loss(1000, 0), loss(9000, 4)]).unwrap();
    let table = EventTable::from_meta(&meta.kernel).unwrap();
    writer.blocks(&encode_kernel_blocks(&table, &PageLayout::LE64, 0, &page(), &options)).unwrap();
    let raw = chunk();
    writer.blocks(&encode_annotation_blocks(7, 0, &parse_chunks(&raw).0, &options)).unwrap();
    writer.finish().unwrap().0
}

#[test]
fn the_whole_one_loads() {
    let file = recording();
    let trace = load(&file, false).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    assert_eq!((trace.n_kernel_events, trace.n_annotation_events), (13, 16));
    assert!(trace.processes.iter().find(|p| p.pid == 7).unwrap().is_target);
    assert_eq!(trace.tasks.len(), 1);
    assert_eq!(trace.strings.get(trace.instants.name[0]), "hello");
    assert_eq!(trace.losses.iter().map(|l| l.count).sum::<u64>(), 4);
}

#[test]
fn any_byte_changed_or_missing() {
    let file = recording();
    let mut loaded = 0;
    let mut check = |bytes: &[u8]| {
        if let Ok(trace) = load(bytes, true) {
            assert_eq!(trace.broken_rules(), Vec::<String>::new());
            loaded += 1;
        }
    };
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x41;
        check(&bad);
        if at % 8 == 0 {
            check(&file[..at]);
        }
    }
    assert!(
        loaded > file.len() / 2,
        "most damage leaves something: {loaded} loads of {} bytes",
        file.len()
    );
}
