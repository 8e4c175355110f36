//! A small packed recording, made through the writer that `kasuri record` uses: one thread, annotations only.
use kasuri_format::container::{EncodeOptions, Writer, encode_annotation_blocks};
use kasuri_format::meta::{Anchor, Host, KernelMeta, Meta, Proc};
use kasuri_format::ring::{SiteTable, parse_chunks};

/// Slices named "solve", 500 ns each, one every microsecond.
pub const SLICES: u64 = 200;

const PID: u32 = 4711;
const START_NS: u64 = 1_000_000_000;
/// Of the native counter, each ns.
const TICKS: u64 = 3;

fn anchor(ns: u64) -> Anchor {
    Anchor { native: TICKS * ns, monotonic_ns: ns, realtime_ns: 1_800_000_000_000_000_000 + ns }
}

/// One chunk of the ring format: a 128-byte header, then 16-byte slots.
fn chunk(events: &[(u64, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0u8; 128];
    let used = 128 + 16 * events.len() as u32;
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&PID.to_le_bytes());
    bytes[16..20].copy_from_slice(&used.to_le_bytes());
    for &(stamp, kind, site) in events {
        bytes.extend_from_slice(&stamp.to_le_bytes());
        bytes.extend_from_slice(&(u64::from(kind) | 1 << 8 | u64::from(site) << 32).to_le_bytes());
    }
    bytes
}

/// The file's bytes.
pub fn recording() -> Vec<u8> {
    const BEGIN: u32 = 1;
    const END: u32 = 2;
    let events: Vec<(u64, u32, u32)> = (0..SLICES)
        .flat_map(|i| {
            [
                (TICKS * (START_NS + 1000 * i), BEGIN, 1),
                (TICKS * (START_NS + 1000 * i + 500), END, 1),
            ]
        })
        .collect();
    let bytes = chunk(&events);
    let (chunks, error) = parse_chunks(&bytes);
    assert!(error.is_none(), "{error:?}");
    let end_ns = START_NS + 1000 * SLICES;
    let mut meta = Meta {
        version: 1,
        recorder: "kasuri 0.1.0".into(),
        complete: true,
        mode: "program".into(),
        command: vec!["./sample".into()],
        root_pids: vec![PID as i32],
        exit_status: Some(0),
        start: anchor(START_NS),
        end: Some(anchor(end_ns)),
        host: Host { hostname: "loom".into(), n_cpus: 2, online: vec![0, 1], ..Host::default() },
        kernel: KernelMeta { source: "none".into(), ..KernelMeta::default() },
        ..Meta::default()
    };
    meta.annotations.clock = "native".into();
    let site = kasuri_format::ring::Site {
        id: 1,
        name: "solve".into(),
        file: "sample.c".into(),
        function: "main".into(),
        line: 7,
    };
    let sites = SiteTable { pid: PID, sites: vec![site], ..SiteTable::default() };
    let proc = Proc {
        monotonic_ns: START_NS,
        pid: PID as i32,
        tid: PID as i32,
        ppid: 1,
        comm: "sample".into(),
        ..Proc::default()
    };
    let mut writer = Writer::new(Vec::new(), &meta).unwrap();
    writer.anchors(&[anchor(START_NS), anchor(end_ns)]).unwrap();
    writer.procs(&[proc]).unwrap();
    writer.sites(&sites).unwrap();
    writer.blocks(&encode_annotation_blocks(PID, 0, &chunks, &EncodeOptions::default())).unwrap();
    writer.finish().unwrap().0
}
