//! Replays the corpus, good and bad, through every reader with the stable toolchain; see fuzz/README.md.
use crate::common;
#[path = "../../../fuzz/src/drivers.rs"]
mod drivers;

use std::fs;
use std::path::{Path, PathBuf};

type Driver = fn(&[u8]);
const DRIVERS: [(&str, Driver); 15] = [
    ("page", drivers::page),
    ("event_format", drivers::event_format),
    ("chunks", drivers::chunks),
    ("sites", drivers::sites),
    ("container", drivers::container),
    ("block", drivers::block),
    ("perf", drivers::perf),
    ("meta", drivers::meta),
    ("perf_data", drivers::perf_data),
    ("pprof", drivers::pprof),
    ("ftrace_text", drivers::ftrace_text),
    ("trace_dat", drivers::trace_dat),
    ("ctf", drivers::ctf),
    ("perfetto", drivers::perfetto),
    ("call_paths", drivers::call_paths),
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/format")
}

#[test]
fn every_reader_survives_every_corpus_file() {
    let mut files = Vec::new();
    for (target, _) in DRIVERS {
        let before = files.len();
        for entry in fs::read_dir(corpus().join(target)).unwrap() {
            files.push(fs::read(entry.unwrap().path()).unwrap());
        }
        assert!(files.len() > before, "no corpus for {target}");
    }
    // Each through all: a file of one kind is a bad file of the others.
    for bytes in &files {
        DRIVERS.iter().for_each(|(_, driver)| driver(bytes));
    }
    println!("{} files", files.len());
}

#[test]
fn every_reader_survives_noise_and_damaged_seeds() {
    let mut random = common::Random(0x5eed);
    for (target, driver) in DRIVERS {
        for entry in fs::read_dir(corpus().join(target)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            for _ in 0..20 {
                let mut bad = bytes.clone();
                for _ in 0..=random.below(4) {
                    let at = random.below(bad.len() as u64 + 1) as usize;
                    match random.below(3) {
                        0 => bad.truncate(at),
                        1 => bad.splice(at..at, random.next().to_le_bytes()).for_each(drop),
                        _ => bad.iter_mut().skip(at).take(1).for_each(|b| *b = random.next() as u8),
                    }
                }
                driver(&bad);
            }
        }
    }
}

/// Writes the seeds: `cargo test -p kasuri-format --test it corpus:: -- --ignored`.
#[test]
#[ignore = "writes the corpus"]
fn write_seeds() {
    let small = common::small(1);
    write_page_seeds(&small);
    for (name, text) in common::FORMATS {
        put(
            "event_format",
            &name.replace('/', "."),
            &[text.as_bytes(), &[0], &common::switch(1, 2, 3)].concat(),
        );
    }
    put("event_format", "header_page", b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n");
    put("event_format", "no-id", b"name: x\n");
    put("chunks", "small", &small.chunks);
    put("chunks", "used-0", &[0; 128]);
    let mut open = small.chunks.clone();
    open[128..136].fill(0);
    put("chunks", "open-record", &open);
    put("sites", "small", &small.sites.to_bytes());
    put("sites", "half-a-definition", &small.sites.to_bytes()[..130]);
    write_container_seeds(&small);
    put("perf", "small", &[&[0], &small.perf[..]].concat());
    put("perf", "size-0", &[0; 9]);
    put("meta", "meta.json", common::meta().to_json().as_bytes());
    put("meta", "anchors.jsonl", kasuri_format::meta::to_lines(&small.anchors).as_bytes());
    put("meta", "half.json", b"{\"version\":1,\"host\":{");
    put("meta", "deep.json", "[".repeat(5000).as_bytes());
}

fn put(target: &str, name: &str, bytes: &[u8]) {
    fs::create_dir_all(corpus().join(target)).unwrap();
    fs::write(corpus().join(target).join(name), bytes).unwrap();
}

/// Pages of the kernel's ring buffer: recorded, made up, damaged.
fn write_page_seeds(small: &common::Small) {
    let sched =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sched/cpu0.raw")).unwrap();
    let missed =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/missed/cpu0.raw")).unwrap();
    put("page", "sched", &[&[0], &sched[..4096]].concat());
    put("page", "missed", &[&[0], &missed[12288..16384]].concat());
    put("page", "small", &[&[0], &small.pages[..]].concat());
    for (name, choice, layout) in [
        (
            "big-endian",
            2u8,
            kasuri_format::tracefs::PageLayout { big_endian: true, ..common::LE64 },
        ),
        (
            "short-commit",
            1,
            kasuri_format::tracefs::PageLayout { commit_bytes: 4, data_offset: 12, ..common::LE64 },
        ),
    ] {
        let mut pages = common::PageBuilder::new(layout);
        for stamp in [5, 1 << 40, (1 << 40) + 7, 3, u64::MAX, 4] {
            pages.event(stamp, &[1u8; 40]);
            pages.event(stamp, &[2u8; 160]);
        }
        put("page", name, &[&[choice], &pages.finish()[..]].concat());
    }
    put("page", "commit-too-long", &[&[0u8][..], &[0; 8], &[0xff; 8]].concat());
    put(
        "page",
        "length-word-0",
        &[&[0u8][..], &[0; 8], &[32, 0, 0, 0, 0, 0, 0, 0], &[0; 8]].concat(),
    );
}

/// A packed recording and damaged ones, and each of its blocks alone.
fn write_container_seeds(small: &common::Small) {
    let file = small.pack();
    put("container", "small-v1", &file);
    put("container", "no-trailer", &file[..file.len() - 40]);
    put("container", "other-version", &[&file[..8], &[9, 0, 0, 0], &file[12..]].concat());
    put("container", "empty", &[]);
    let recording = kasuri_format::container::Recording::parse(&file).unwrap();
    for info in recording.blocks() {
        let from = info.offset as usize + 64;
        let payload = &file[from..from + info.payload_bytes as usize];
        let kind = 128 + ((info.kind as u16 - 16 + 1) % 3) as u8;
        let n = (info.n_events as u32).to_le_bytes();
        put(
            "block",
            &format!("{:?}-{}", info.kind, info.offset),
            &[&[kind, n[0], n[1], n[2]], payload].concat(),
        );
    }
}
