//! What each fuzz target does with its bytes, also run over the corpus by crates/format/tests/corpus.rs.
//!
//! The first bytes choose parameters, so that one corpus file is one case. Drivers panic when a promise is
//! broken: a panic in the reader, an event lost without being counted, or a decoded block that differs from
//! what was encoded.
#![allow(missing_docs, reason = "one driver for each target of the same name")]
use kasuri_format::call_paths::{LogWriter, read_log};
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{
    BlockKind, EncodeOptions, EncodedBlocks, Recording, Writer, encode_annotation_blocks,
    encode_kernel_blocks, encode_perf_blocks, encode_sample_blocks,
};
use kasuri_format::meta::{Anchor, ClientLoss, KernelLoss, KernelMeta, Meta, Proc, parse_lines};
use kasuri_format::perf::parse_records;
use kasuri_format::ring::{SiteTable, Sites, parse_chunks, streams};
use kasuri_format::tracefs::{EventFormat, EventTable, Page, PageLayout};

const FORMATS: [(&str, &str); 5] = [
    ("ftrace/print", include_str!("../../crates/format/tests/data/formats/print")),
    ("raw_syscalls/sys_enter", include_str!("../../crates/format/tests/data/formats/sys_enter")),
    (
        "sched/sched_process_exec",
        include_str!("../../crates/format/tests/data/formats/sched_process_exec"),
    ),
    ("sched/sched_switch", include_str!("../../crates/format/tests/data/formats/sched_switch")),
    ("sched/sched_waking", include_str!("../../crates/format/tests/data/formats/sched_waking")),
];

fn a_meta() -> Meta {
    let mut meta = Meta { version: 1, ..Meta::default() };
    meta.kernel.formats = FORMATS.iter().map(|(n, t)| (n.to_string(), t.to_string())).collect();
    meta
}

/// Packs blocks and decodes all of them; gives the number of events.
fn round_trip(meta: &Meta, blocks: &[EncodedBlocks]) -> u64 {
    let mut writer = Writer::new(Vec::new(), meta).expect("memory takes all");
    for b in blocks {
        writer.blocks(b).expect("memory takes all");
    }
    let file = writer.finish().expect("memory takes all").0;
    let recording = Recording::parse(&file).expect("what was just packed");
    assert_eq!(decode_all(&recording), 0, "what was just packed decodes");
    let n: u64 = recording.blocks().iter().map(|b| b.n_events).sum();
    assert_eq!(n, blocks.iter().map(|b| b.n_events).sum::<u64>());
    n
}

/// Decodes every block and column; gives the number of errors.
fn decode_all(recording: &Recording<'_>) -> usize {
    let mut errors = 0;
    for (ix, info) in recording.blocks().iter().enumerate() {
        match info.kind {
            BlockKind::Annotation => match recording.annotation_block(ix) {
                Ok(block) => assert_eq!(block.events().count() as u64, info.n_events),
                Err(_) => errors += 1,
            },
            BlockKind::Perf => match recording.perf_block(ix) {
                Ok(block) => assert_eq!(block.records.len() as u64, info.n_events),
                Err(_) => errors += 1,
            },
            BlockKind::Samples => match recording.sample_block(ix) {
                Ok(samples) => assert_eq!(samples.len() as u64, info.n_events),
                Err(_) => errors += 1,
            },
            _ => match recording.kernel_block(ix) {
                Ok(block) => {
                    for group in block.groups() {
                        for field in 0..group.format.fields.len() {
                            match group.column(field) {
                                Ok(column) => {
                                    let rows = column.bytes().map_or_else(
                                        || {
                                            column
                                                .ints()
                                                .map_or(0, |i| i.values.len() / i.width.max(1))
                                        },
                                        |b| {
                                            (0..b.len()).for_each(|row| _ = b.text(row));
                                            b.len()
                                        },
                                    );
                                    assert_eq!(rows, group.len);
                                }
                                Err(_) => errors += 1,
                            }
                        }
                    }
                }
                Err(_) => errors += 1,
            },
        }
    }
    errors
}

/// Ring-buffer pages: byte 0 chooses byte order, width of `commit` and page size.
pub fn page(bytes: &[u8]) {
    let Some((&choice, pages)) = bytes.split_first() else {
        return;
    };
    let commit_bytes = if choice & 1 == 0 { 8 } else { 4 };
    let layout = PageLayout {
        page_bytes: 4096 << (choice >> 4 & 1),
        commit_bytes,
        data_offset: 8 + commit_bytes,
        big_endian: choice & 2 != 0,
        ..PageLayout::LE64
    };
    // Short inputs stand for a page that ends in zeros.
    let mut pages = pages.to_vec();
    if choice & 4 == 0 {
        pages.resize(pages.len().next_multiple_of(layout.page_bytes), 0);
    }
    let mut n = 0;
    for (ix, page) in pages.chunks(layout.page_bytes).enumerate() {
        if let Ok(page) = Page::parse(page, &layout, (ix * layout.page_bytes) as u64) {
            n += page.events().filter(Result::is_ok).count() as u64;
        }
    }
    let meta = a_meta();
    let table = EventTable::from_meta(&meta.kernel).expect("good formats");
    let blocks = encode_kernel_blocks(&table, &layout, 0, &pages, &EncodeOptions::default());
    assert_eq!(blocks.n_events, n);
    assert_eq!(round_trip(&meta, &[blocks]), n);
}

/// A format file, then (after a NUL) an event read with it.
pub fn event_format(bytes: &[u8]) {
    let (text, event) = match bytes.iter().position(|&b| b == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let text = String::from_utf8_lossy(text);
    if let Ok(format) = EventFormat::parse("a/b", &text) {
        for field in &format.fields {
            for big_endian in [false, true] {
                let _ = field.bytes(event, big_endian);
                (0..field.width().min(64)).for_each(|ix| _ = field.int(event, ix, big_endian));
            }
        }
        let table = EventTable::new(vec![format]);
        assert!(table.find("a/b").is_some());
    }
    let header = KernelMeta { header_page: text.into_owned(), ..KernelMeta::default() };
    let _ = PageLayout::from_meta(&header);
}

/// A chunk file.
pub fn chunks(bytes: &[u8]) {
    let (chunks, error) = parse_chunks(bytes);
    let whole: usize = chunks.iter().map(|c| c.header.used as usize).sum();
    assert_eq!(error.is_none(), whole == bytes.len());
    let n: usize = chunks.iter().map(|c| c.events().count()).sum();
    let streams = streams(&chunks);
    assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), chunks.len());
    let options = EncodeOptions::default();
    let blocks: Vec<_> =
        streams.iter().map(|s| encode_annotation_blocks(1, 0, s, &options)).collect();
    assert_eq!(round_trip(&a_meta(), &blocks), n as u64);
}

/// A site table.
pub fn sites(bytes: &[u8]) {
    if let Ok((table, _)) = SiteTable::salvage(bytes) {
        let again = SiteTable::parse(&table.to_bytes()).expect("what was just written");
        assert_eq!(again.sites.len(), table.sites.len());
        let (pid, generation) = (table.pid, table.generation);
        let sites = Sites::new(vec![table]);
        (0..50).for_each(|id| _ = sites.resolve(pid, generation, id));
    }
}

/// A packed file.
pub fn container(bytes: &[u8]) {
    if let Ok(recording) = Recording::parse(bytes) {
        decode_all(&recording);
    }
    let (rest, _) = Recording::salvage(bytes);
    decode_all(&rest);
}

/// The payload of one block with right checksums: byte 0 its kind, bytes 1..4 its number of events.
pub fn block(bytes: &[u8]) {
    let Some((head, payload)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let kind = match head[0] {
        k if k < 128 => u16::from(k % 7),
        k => 16 + u16::from(k % 3),
    };
    let n_events = u32::from_le_bytes([head[1], head[2], head[3] & 1, 0]);
    let meta = a_meta();
    let mut file = Writer::new(Vec::new(), &meta)
        .expect("memory takes all")
        .finish()
        .expect("memory takes all")
        .0;
    // Cut off index (one entry) and trailer: the walk without an index reads what follows.
    file.truncate(file.len() - 32 - 64 - 72);
    let mut header = b"KBLK".to_vec();
    header.extend_from_slice(&kind.to_le_bytes());
    header.extend_from_slice(&64u16.to_le_bytes());
    header.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    header.extend_from_slice(&u64::from(n_events).to_le_bytes());
    header.extend_from_slice(&[0; 32]);
    header.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    file.extend_from_slice(&header);
    file.extend_from_slice(payload);
    file.resize(file.len().next_multiple_of(8), 0);
    let (recording, _) = Recording::salvage(&file);
    assert!(recording.blocks().len() == usize::from(kind >= 16));
    decode_all(&recording);
}

/// A perf ring: byte 0 chooses the byte order.
pub fn perf(bytes: &[u8]) {
    let Some((&choice, records)) = bytes.split_first() else {
        return;
    };
    let big_endian = choice & 1 != 0;
    let n = parse_records(records, big_endian).filter(Result::is_ok).count() as u64;
    let blocks = encode_perf_blocks(0, records, big_endian, &EncodeOptions::default());
    assert_eq!(round_trip(&a_meta(), &[blocks]), n);
}

/// The JSON parts.
pub fn meta(bytes: &[u8]) {
    if let Ok(meta) = Meta::parse(bytes) {
        assert_eq!(Meta::parse(meta.to_json().as_bytes()).as_ref(), Ok(&meta));
        let _ = PageLayout::from_meta(&meta.kernel);
        let _ = EventTable::salvage(&meta.kernel);
    }
    let (anchors, _) = parse_lines::<Anchor>("anchors", bytes);
    if let Ok(map) = ClockMap::from_anchors(&anchors) {
        let stamps = [0, 1, u64::MAX, anchors[0].native];
        let mut out = Vec::new();
        map.convert(&stamps, &mut out);
        assert_eq!(out, stamps.map(|s| map.monotonic_ns(s)));
        let _ = map.stamp_at(anchors[0].monotonic_ns);
    }
    let _ = parse_lines::<Proc>("procs", bytes);
    let _ = parse_lines::<KernelLoss>("losses", bytes);
    let _ = ClientLoss::parse(1, 0, bytes);
}

/// A trace.dat: any bytes give an error or records; salvaging gives no less than parsing.
pub fn trace_dat(bytes: &[u8]) {
    use kasuri_format::trace_dat::TraceDat;
    let strict = TraceDat::parse(bytes);
    let salvaged = TraceDat::salvage(bytes);
    let file = match (strict, salvaged) {
        (Ok(file), Ok((kept, errors))) => {
            assert_eq!(file.buffers, kept.buffers);
            assert!(errors.is_empty(), "{errors:?}");
            file
        }
        (Err(_), Ok((kept, errors))) => {
            assert!(!errors.is_empty(), "salvaged without a reason");
            kept
        }
        (Ok(_), Err(error)) => panic!("salvage gives less: {error}"),
        (Err(_), Err(_)) => return,
    };
    for buffer in &file.buffers {
        let Ok(layout) = PageLayout::from_meta(&file.page_meta(buffer)) else {
            continue;
        };
        for cpu in buffer.cpus.iter().take(64) {
            for chunk in buffer.chunks(cpu, bytes, file.big_endian).take(64) {
                let Ok(chunk) = chunk else { break };
                for page in chunk.pages.chunks(layout.page_bytes) {
                    if let Ok(page) = Page::parse(page, &layout, chunk.offset) {
                        page.events().take_while(Result::is_ok).for_each(drop);
                    }
                }
            }
        }
    }
}

/// A CTF trace: two bytes length of the metadata, the metadata, a stream file. Reading ends, and what packets claim is
/// inside the file.
pub fn ctf(bytes: &[u8]) {
    use kasuri_format::ctf::{Layout, Metadata, Reader, packets};
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (metadata, stream) =
        rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
    let Ok(layout) = Metadata::parse(metadata).and_then(Layout::new) else {
        return;
    };
    let layout = std::rc::Rc::new(layout);
    let (found, error) = packets(&layout, stream);
    let whole: u64 = found.iter().map(|p| p.bytes).sum();
    assert_eq!(error.is_none(), whole == stream.len() as u64);
    let mut reader = Reader::new(layout, stream);
    for packet in &found {
        if reader.enter(packet).is_err() {
            continue;
        }
        while let Ok(Some(head)) = reader.head() {
            if reader.body(head, |_, _| ()).is_err() {
                break;
            }
        }
    }
}

/// A file of `perf record`: read whole both ways, each CPU's records in time order.
pub fn perf_data(bytes: &[u8]) {
    use kasuri_format::perf_data::PerfData;
    let data = match (PerfData::parse(bytes), PerfData::salvage(bytes)) {
        (Ok(_), Ok((kept, errors))) => {
            assert!(errors.is_empty(), "{errors:?}");
            kept
        }
        (Err(_), Ok((kept, _))) => kept,
        (Ok(_), Err(error)) => panic!("salvage gives less: {error}"),
        (Err(_), Err(_)) => return,
    };
    for (cpu, n) in data.cpus() {
        let mut reader = data.reader(cpu);
        let (mut last, mut met) = (0, 0);
        while let Some(record) = reader.next(&data) {
            met += 1;
            if let Ok(record) = record {
                assert!(record.time >= last, "back from {last} to {}", record.time);
                last = record.time;
            }
        }
        assert_eq!(met, n, "CPU {cpu}: noted {n} records, met {met}");
    }
    for record in data.code(|_| true) {
        if let kasuri_format::perf_data::CodeWhat::Sample { at } = record.what {
            data.code_sample(at);
        }
    }
}

/// Lines of ftrace's text.
pub fn ftrace_text(bytes: &[u8]) {
    for line in bytes.split(|&b| b == b'\n') {
        kasuri_format::ftrace_text::parse(line);
    }
}

/// Perfetto packets: every message that is read, to its arguments and events.
pub fn perfetto(bytes: &[u8]) {
    use kasuri_format::perfetto::{
        Bundle, ClockSnapshot, Data, EventCounts, FtraceStats, Packets, TaskState, TrackDescriptor,
        TrackEvent, android_log, cpu_frequency, each_arg, interned, is_trace, journal_entry,
        process_stats, processes, service_buffers, sys_stats, task_rename, tasks,
    };
    let _ = is_trace(bytes);
    let mut packets = Packets::new(bytes, 0);
    let mut counts = EventCounts::default();
    let mut at = 0;
    loop {
        let packet = match packets.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            // A packet that is damaged inside is passed by; at a damaged frame reading stays where it is.
            Err(_) if packets.offset() > at => {
                at = packets.offset();
                continue;
            }
            Err(_) => break,
        };
        at = packets.offset();
        if let Some(data) = packet.interned {
            let _ = interned(data, |_, _, _, _| ());
        }
        match packet.data {
            Data::Ftrace(message) => {
                if let Ok(bundle) = Bundle::parse(message) {
                    let _ = bundle.marks(&mut |_| ());
                    let _ = counts.add(&bundle);
                    let _ = bundle.events(&mut |_| ());
                }
            }
            Data::TrackEvent(message) => {
                let _ = TrackEvent::parse(message);
                let _ = each_arg(message, &|_| String::new(), &mut |_, _, _| ());
            }
            Data::ProcessTree(message) => {
                let _ = processes(message, |_| ());
            }
            Data::ClockSnapshot(message) => {
                let _ = ClockSnapshot::parse(message);
            }
            Data::TrackDescriptor(message) => {
                let _ = TrackDescriptor::parse(message);
            }
            Data::SysStats(message) => {
                let _ = sys_stats(message, |_, _| ());
            }
            Data::FtraceStats(message) => {
                let _ = FtraceStats::parse(message);
            }
            Data::TraceStats(message) => {
                let _ = service_buffers(message);
            }
            Data::TaskState(message) => {
                let _ = TaskState::parse(message);
            }
            Data::TaskRename(message) => {
                let _ = task_rename(message);
            }
            Data::CpuFrequency(message) => {
                let _ = cpu_frequency(message);
            }
            Data::GenericTree(message) => {
                let _ = tasks(message, |_| ());
            }
            Data::ProcessStats(message) => {
                let _ = process_stats(message, |_, _, _| ());
            }
            Data::AndroidLog(message) => {
                let _ = android_log(message, |_| ());
            }
            Data::Journal(message) => {
                let _ = journal_entry(message);
            }
            _ => {}
        }
    }
    let _ = counts.kinds();
}

/// A log of call paths: what was kept is written again, as a log and packed, and reads the same.
pub fn call_paths(bytes: &[u8]) {
    let (log, _) = read_log(bytes, 0);
    let mut again = LogWriter::default();
    again.tables(&log.tables);
    log.tables.names.iter().for_each(|n| again.names(n));
    log.samples.iter().for_each(|s| again.sample(s));
    assert_eq!(read_log(again.bytes(), 0), (log.clone(), None));

    let mut writer = Writer::new(Vec::new(), &a_meta()).expect("memory takes all");
    writer.call_paths(&log.tables).expect("memory takes all");
    writer.names(&log.tables.names).expect("memory takes all");
    let blocks = encode_sample_blocks(&log.samples, &EncodeOptions::default());
    assert_eq!(blocks.n_events, log.samples.len() as u64);
    writer.blocks(&blocks).expect("memory takes all");
    let file = writer.finish().expect("memory takes all").0;
    let recording = Recording::parse(&file).expect("what was just packed");
    assert_eq!(recording.call_paths(), &log.tables);
    let mut samples = log.samples;
    samples.sort_by_key(|s| s.time_ns);
    let packed: Vec<_> = (0..recording.blocks().len())
        .flat_map(|ix| recording.sample_block(ix).expect("what was just packed"))
        .collect();
    assert_eq!(packed, samples);
}

/// A pprof profile: what is kept refers to what is there, and parsing refuses what salvaging passes over.
pub fn pprof(bytes: &[u8]) {
    use kasuri_format::pprof::{self, Profile};
    let _ = pprof::is(bytes);
    let (kept, first, errors) = Profile::salvage(bytes);
    assert_eq!(first.as_ref(), errors.first());
    match Profile::parse(bytes) {
        Ok(whole) => assert!(whole == kept && first.is_none()),
        Err(error) => assert_eq!(Some(error), first),
    }
    assert_eq!(kept.values.len(), kept.samples.len() * kept.types.len());
    let (mut stack, mut label) = (0, 0);
    for sample in &kept.samples {
        assert_eq!((sample.stack.start, sample.labels.start), (stack, label));
        (stack, label) = (sample.stack.end, sample.labels.end);
    }
    assert_eq!(stack as usize, kept.stacks.len());
    assert_eq!(label as usize, kept.labels.len());
    assert!(kept.stacks.iter().all(|&row| (row as usize) < kept.locations.len()));
    for location in &kept.locations {
        assert!(location.mapping.is_none_or(|row| (row as usize) < kept.mappings.len()));
        for line in &kept.lines[location.lines.start as usize..location.lines.end as usize] {
            assert!(line.function.is_none_or(|row| (row as usize) < kept.functions.len()));
        }
    }
}
