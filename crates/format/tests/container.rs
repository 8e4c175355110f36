//! The packed file: lossless, and readable as far as it is whole.
//!
//! Generated recordings go in and must come out the same. Then the file is cut at every byte and each byte is changed: parsing
//! must give an error or the same content, and salvage keeps every block that is whole. A file written by version 1 is kept
//! in the repository and must read the same for ever.
use crate::common;
use crate::common::{Ev, PageBuilder, Random, put_chunk, small, switch};
use kasuri_format::container::{
    BlockKind, Column, EncodeOptions, Gap, Recording, Writer, encode_annotation_blocks,
    encode_kernel_blocks,
};
use kasuri_format::ring::{Shape, parse_chunks, streams};
use kasuri_format::tracefs::{EventTable, FieldKind, Page, PageLayout};
use kasuri_format::{Error, ErrorKind};
use proptest::prelude::*;

/// Everything a recording says, as text, block by block. An error counts as content: `Err` and the kind.
fn content(recording: &Recording<'_>) -> Result<Vec<String>, Error> {
    let mut out = vec![format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        recording.call_paths(),
        recording.sampling(),
        recording.anchors(),
        recording.procs(),
        recording.kernel_losses(),
        recording.client_losses(),
        recording.sites().tables()
    )];
    for ix in 0..recording.blocks().len() {
        out.push(block_content(recording, ix)?);
    }
    Ok(out)
}

fn block_content(recording: &Recording<'_>, ix: usize) -> Result<String, Error> {
    Ok(match recording.blocks()[ix].kind {
        BlockKind::Annotation => format!("{:?}", recording.annotation_block(ix)?),
        BlockKind::Perf => format!("{:?}", recording.perf_block(ix)?),
        BlockKind::Samples => format!("{:?}", recording.sample_block(ix)?),
        _ => {
            let block = recording.kernel_block(ix)?;
            let mut text =
                format!("{} {:?} {:?} {:?}", block.cpu, block.stamps, block.types, block.gaps);
            for group in block.groups() {
                for field in 0..group.format.fields.len() {
                    text += &format!("{:?}", group.column(field)?);
                }
            }
            text
        }
    })
}

#[test]
fn small_recording_says_what_went_in() {
    let small = small(1);
    let file = small.pack();
    let recording = Recording::parse(&file).unwrap();
    assert_eq!(recording.meta(), &small.meta);
    assert_eq!(recording.anchors(), &small.anchors[..]);
    assert_eq!(recording.sites().tables(), std::slice::from_ref(&small.sites));
    assert_eq!(recording.sites().resolve(500, 0, 2).unwrap().name, "exchange");
    let kinds: Vec<BlockKind> = recording.blocks().iter().map(|b| b.kind).collect();
    assert_eq!(
        kinds,
        [BlockKind::Kernel, BlockKind::Annotation, BlockKind::Annotation, BlockKind::Perf]
    );
    let kernel = recording.kernel_block(0).unwrap();
    assert_eq!((kernel.cpu, kernel.stamps.len()), (1, 80));
    assert_eq!(
        kernel.gaps,
        [
            Gap { before: 40, count: None, damaged: false },
            Gap { before: 60, count: Some(17), damaged: false }
        ]
    );
    let types = recording.event_types();
    let exec = types.iter().position(|t| t.name == "sched/sched_process_exec").unwrap();
    let exec = kernel.group(exec as u16).unwrap();
    assert_eq!(exec.len, 5);
    assert_eq!(exec.column_by_name("filename").unwrap().bytes().unwrap().text(4), "/bin/true");
    assert_eq!(exec.column_by_name("no_such").unwrap_err().kind, ErrorKind::Absent);
    let second = recording.annotation_block(2).unwrap();
    assert_eq!((second.pid, second.stream, second.tid, second.len()), (500, 2, 1002, 24));
    assert_eq!(second.losses.len(), 1);
    assert_eq!((second.losses[0].count, second.losses[0].first, second.losses[0].last), (3, 5, 9));
    let texts: Vec<&[u8]> = second.events().filter(|e| e.kind == 18).map(|e| e.blob).collect();
    assert_eq!(texts, [&b"hello"[..]; 6]);
    assert_eq!(recording.perf_block(3).unwrap().records.len(), 10);
    assert_eq!(recording.kernel_block(1).unwrap_err().kind, ErrorKind::Absent);
}

#[test]
fn the_checked_in_file_of_version_1_still_says_the_same() {
    let golden = include_bytes!("../../../tests/corpus/format/container/small-v1");
    let golden = Recording::parse(golden).unwrap();
    let file = small(1).pack();
    let now = Recording::parse(&file).unwrap();
    assert_eq!(golden.meta(), now.meta());
    assert_eq!(content(&golden).unwrap(), content(&now).unwrap());
}

#[test]
fn every_truncation_is_an_error_and_salvage_keeps_a_prefix() {
    let file = small(2).pack();
    let golden = Recording::parse(&file).unwrap();
    let whole = content(&golden).unwrap();
    let mut kept_before = 0;
    for cut in 0..file.len() {
        let error = Recording::parse(&file[..cut]).unwrap_err();
        assert!(error.offset <= cut as u64, "cut at {cut}: {error}");
        let (rest, errors) = Recording::salvage(&file[..cut]);
        assert!(!errors.is_empty(), "cut at {cut}: silent");
        let kept = rest.blocks().len();
        assert!(kept >= kept_before, "cut at {cut}: {kept} blocks, {kept_before} before");
        assert_eq!(rest.blocks(), &golden.blocks()[..kept], "cut at {cut}");
        if kept > kept_before {
            assert_eq!(block_content(&rest, kept - 1).unwrap(), whole[kept], "cut at {cut}");
        }
        kept_before = kept;
    }
    assert_eq!(kept_before, whole.len() - 1, "all blocks, once only the index is missing");
}

#[test]
fn every_flipped_byte_is_an_error_or_changes_nothing() {
    let file = small(3).pack();
    let golden = Recording::parse(&file).unwrap();
    let whole = content(&golden).unwrap();
    let (mut harmless, mut salvaged_less) = (0, 0);
    for at in 0..file.len() {
        for mask in [1 << (at % 8)] {
            let mut bad = file.clone();
            bad[at] ^= mask;
            match Recording::parse(&bad).and_then(|r| Ok((content(&r)?, r.meta().clone()))) {
                Ok((got, meta)) => {
                    assert_eq!(got, whole, "byte {at} ^ {mask:#x} changed the content silently");
                    assert_eq!(
                        &meta,
                        golden.meta(),
                        "byte {at} ^ {mask:#x} changed the metadata silently"
                    );
                    harmless += 1;
                }
                Err(error) => assert!(error.offset <= file.len() as u64, "byte {at}: {error}"),
            }
            let (rest, _) = Recording::salvage(&bad);
            salvaged_less += usize::from(rest.blocks().len() < golden.blocks().len());
            for (ix, info) in rest.blocks().iter().enumerate() {
                assert!(golden.blocks().contains(info), "byte {at} ^ {mask:#x}: a made-up block");
                let touched =
                    (info.offset..info.offset + 64 + info.payload_bytes).contains(&(at as u64));
                assert!(!touched, "byte {at} ^ {mask:#x}: a damaged block was kept");
                if at % 64 == 0 && rest.meta() == golden.meta() {
                    assert!(
                        whole.contains(&block_content(&rest, ix).unwrap()),
                        "byte {at} ^ {mask:#x}"
                    );
                }
            }
        }
    }
    // Reserved header bytes and padding, nothing else.
    assert!(harmless <= 48 + 8 * 16, "{harmless} flips changed nothing");
    assert!(salvaged_less > 500, "flips in blocks cost those blocks: {salvaged_less}");
}

#[test]
fn foreign_files_are_named_and_salvage_nothing() {
    let parse = |bytes: &[u8]| Recording::parse(bytes).unwrap_err();
    assert_eq!(parse(b"").kind, ErrorKind::Foreign);
    assert!(parse(b"").to_string().contains("empty"));
    assert_eq!(
        parse(b"\x7fELF............................................................").kind,
        ErrorKind::Foreign
    );
    assert_eq!(parse(&[0; 4096]).kind, ErrorKind::Foreign);
    let mut other = small(4).pack();
    other[8] = 2;
    let error = parse(&other);
    assert_eq!((error.kind, error.offset), (ErrorKind::Version, 8));
    assert!(error.to_string().contains("version 2"), "{error}");
    let (nothing, errors) = Recording::salvage(b"\x7fELF");
    assert_eq!((nothing.blocks().len(), errors.is_empty()), (0, false));
}

#[test]
fn damage_in_the_middle_costs_one_block() {
    let file = small(5).pack();
    let recording = Recording::parse(&file).unwrap();
    let whole = content(&recording).unwrap();
    let victim = recording.blocks()[1];
    for at in [victim.offset + 3, victim.offset + 70] {
        let mut bad = file.clone();
        bad[at as usize] ^= 0x10;
        let (rest, errors) = Recording::salvage(&bad);
        assert_eq!(rest.blocks().len(), 3, "damage at {at}");
        assert!(!errors.is_empty());
        assert_eq!(block_content(&rest, 0).unwrap(), whole[1]);
        assert_eq!(block_content(&rest, 1).unwrap(), whole[3]);
    }
}

#[test]
fn a_format_that_is_not_understood_costs_its_events_fields_only() {
    let mut small = small(10);
    // Before the others by name: it must not shift their numbers.
    small
        .meta
        .kernel
        .formats
        .insert("a/new".into(), "name: new\nID: 372\n\tfield:strange\n".into());
    let table = EventTable::salvage(&small.meta.kernel).0;
    let blocks =
        encode_kernel_blocks(&table, &PageLayout::LE64, 0, &small.pages, &EncodeOptions::default());
    let mut writer = Writer::new(Vec::new(), &small.meta).unwrap();
    writer.blocks(&blocks).unwrap();
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    assert_eq!(recording.format_errors().len(), 1);
    let block = recording.kernel_block(0).unwrap();
    let exec = table.find("sched/sched_process_exec").unwrap();
    assert_eq!(block.group(exec).unwrap().len, 5);
    assert_eq!(block.group(table.unknown()).map_or(0, |g| g.len) % 75, 0);
}

#[test]
fn salvaged_blocks_make_a_sound_file_with_all_tables() {
    let file = small(12).pack();
    let (rest, errors) = Recording::salvage(&file[..file.len() - 10]);
    assert_eq!(errors.len(), 1);
    let mut writer = Writer::new(Vec::new(), rest.meta()).unwrap();
    for info in rest.table_blocks().iter().chain(rest.blocks()) {
        writer.copy_block(info, &file).unwrap();
    }
    let copy = writer.finish().unwrap().0;
    let again = Recording::parse(&copy).unwrap();
    assert_eq!(content(&again).unwrap(), content(&Recording::parse(&file).unwrap()).unwrap());
}

#[test]
fn claims_beyond_reason_are_refused_before_memory_is_taken() {
    // A block header that claims 2^60 events or bytes, its checksum right.
    for (field, value) in [(8usize, 1u64 << 60), (16, 1 << 60), (16, (1 << 17) + 1)] {
        let mut file = small(6).pack();
        file[64 + field..64 + field + 8].copy_from_slice(&value.to_le_bytes());
        let crc = crc32fast::hash(&file[64..64 + 60]);
        file[64 + 60..64 + 64].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Recording::parse(&file).unwrap_err().kind, ErrorKind::Limit);
    }
}

fn pages_of(layout: PageLayout, events: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut pages = PageBuilder::new(layout);
    events.iter().for_each(|(stamp, data)| pages.event(*stamp, data));
    pages.finish()
}

/// Compares a packed CPU with a plain reading of its pages, event by event and field by field.
fn assert_lossless(meta: &kasuri_format::meta::Meta, layout: &PageLayout, pages: &[u8]) -> usize {
    let table = EventTable::from_meta(&meta.kernel).unwrap();
    let blocks = encode_kernel_blocks(&table, layout, 0, pages, &EncodeOptions::default());
    let mut writer = Writer::new(Vec::new(), meta).unwrap();
    writer.blocks(&blocks).unwrap();
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    let mut expected = Vec::new();
    for at in (0..pages.len()).step_by(layout.page_bytes) {
        let page = Page::parse(&pages[at..], layout, at as u64).unwrap();
        expected.extend(page.events().map(|e| e.unwrap()));
    }
    let mut row = 0;
    for ix in 0..recording.blocks().len() {
        let block = recording.kernel_block(ix).unwrap();
        let mut cursors = vec![0; recording.event_types().len()];
        let columns: Vec<(u16, Vec<Column>)> = block
            .groups()
            .map(|g| {
                (g.event_type, (0..g.format.fields.len()).map(|f| g.column(f).unwrap()).collect())
            })
            .collect();
        for (&stamp, &kind) in block.stamps.iter().zip(&block.types) {
            let event = &expected[row];
            row += 1;
            assert_eq!(stamp, event.stamp);
            let at = cursors[usize::from(kind)];
            cursors[usize::from(kind)] += 1;
            let columns = &columns.iter().find(|(k, _)| *k == kind).unwrap().1;
            for (field, column) in
                recording.event_types()[usize::from(kind)].fields.iter().zip(columns)
            {
                match column {
                    Column::Ints(ints) => {
                        for element in 0..ints.width {
                            let found = ints.values[at * ints.width + element];
                            assert_eq!(
                                Some(found),
                                field.int(event.data, element, layout.big_endian),
                                "{}",
                                field.name
                            );
                        }
                    }
                    Column::Bytes(bytes) => {
                        assert_eq!(
                            Some(bytes.row(at)),
                            field.bytes(event.data, layout.big_endian),
                            "{}",
                            field.name
                        );
                        assert!(field.kind != FieldKind::Int);
                    }
                }
            }
        }
    }
    assert_eq!(row, expected.len());
    row
}

fn wild_stamp() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000u64, any::<u64>(), Just(u64::MAX), (0..64u32).prop_map(|s| 1 << s)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn kernel_events_round_trip(
        events in prop::collection::vec((wild_stamp(), any::<i32>(), -1..5i32, any::<i64>()), 1..400),
        page_bytes in prop::sample::select(vec![4096usize, 8192, 65536]),
        wide_commit in any::<bool>(),
        big_endian in any::<bool>(),
    ) {
        let commit_bytes = if wide_commit { 8 } else { 4 };
        let layout = PageLayout { page_bytes, commit_bytes, data_offset: 8 + commit_bytes, big_endian, ..PageLayout::LE64 };
        let events: Vec<_> = events.into_iter().map(|(stamp, prev, next, state)| (stamp, switch(prev, next, state))).collect();
        let n = assert_lossless(&common::meta(), &layout, &pages_of(layout, &events));
        prop_assert_eq!(n, events.len());
    }

    #[test]
    fn unknown_and_short_events_are_kept_whole(
        events in prop::collection::vec((0..1000u64, prop::collection::vec(any::<u8>(), 1..100)), 1..100),
    ) {
        let events: Vec<_> = events.into_iter().map(|(stamp, mut data)| {
            data.resize(data.len().next_multiple_of(4), 0);
            (stamp, data)
        }).collect();
        assert_lossless(&common::meta(), &PageLayout::LE64, &pages_of(PageLayout::LE64, &events));
    }

    #[test]
    fn annotations_round_trip(
        events in prop::collection::vec(
            (wild_stamp().prop_filter("0 is open", |s| *s != 0), 0..30u8, any::<u16>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)),
            0..300,
        ),
        per_chunk in 1..50usize,
    ) {
        let events: Vec<Ev> = events.into_iter().map(|(stamp, kind, aux, site, mut payload)| {
            payload.resize(payload.len().next_multiple_of(16), 0);
            Ev { stamp, kind, aux, site, payload }
        }).collect();
        let mut bytes = Vec::new();
        for (seq, part) in events.chunks(per_chunk).enumerate() {
            put_chunk(&mut bytes, 1, seq as u64, 0, part);
        }
        let (chunks, error) = parse_chunks(&bytes);
        prop_assert_eq!(error, None);
        let raw: Vec<_> = chunks.iter().flat_map(|c| c.events()).collect();
        prop_assert_eq!(raw.len(), events.len());
        let mut sorted = raw.clone();
        sorted.sort_by_key(|e| e.stamp);
        let mut writer = Writer::new(Vec::new(), &common::meta()).unwrap();
        for stream in streams(&chunks) {
            writer.blocks(&encode_annotation_blocks(7, 3, &stream, &EncodeOptions::default())).unwrap();
        }
        let file = writer.finish().unwrap().0;
        let recording = Recording::parse(&file).unwrap();
        let mut row = 0;
        for ix in 0..recording.blocks().len() {
            for got in recording.annotation_block(ix).unwrap().events() {
                let want = sorted[row];
                row += 1;
                prop_assert_eq!((got.stamp, got.kind, got.aux, got.site), (want.stamp, want.kind, want.aux, want.site));
                match want.shape() {
                    Shape::Pair => prop_assert_eq!((got.a, got.b), want.pair()),
                    Shape::Blob => prop_assert_eq!(got.blob, want.blob()),
                    Shape::Bare => prop_assert_eq!((got.a, got.blob), (0, &[][..])),
                }
            }
        }
        prop_assert_eq!(row, sorted.len());
    }
}

#[test]
fn streams_longer_than_a_block_stay_sorted_across_chunks() {
    let mut random = Random(11);
    let mut bytes = Vec::new();
    let (mut all, mut stamp) = (Vec::new(), 1000);
    for seq in 0..150 {
        let events: Vec<Ev> = (0..2000)
            .map(|_| {
                stamp += random.below(50);
                // A handler's event: reserved later, stamped earlier.
                let stamp = if random.below(100) == 0 {
                    stamp - random.below(400).min(stamp - 1)
                } else {
                    stamp
                };
                Ev { stamp, kind: 3, aux: 0, site: 1, payload: vec![] }
            })
            .collect();
        put_chunk(&mut bytes, 1, seq, 0, &events);
        all.extend(events.iter().map(|e| e.stamp));
    }
    all.sort_unstable();
    let (chunks, _) = parse_chunks(&bytes);
    let blocks = encode_annotation_blocks(1, 0, &chunks, &EncodeOptions::default());
    assert!(blocks.len() >= 4);
    let mut writer = Writer::new(Vec::new(), &common::meta()).unwrap();
    writer.blocks(&blocks).unwrap();
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    let stamps: Vec<u64> =
        (0..blocks.len()).flat_map(|ix| recording.annotation_block(ix).unwrap().stamps).collect();
    assert_eq!(stamps, all);
}

#[test]
fn keep_cuts_to_a_range_and_counts_what_it_cuts() {
    let small = small(8);
    let table = EventTable::from_meta(&small.meta.kernel).unwrap();
    let all =
        encode_kernel_blocks(&table, &PageLayout::LE64, 0, &small.pages, &EncodeOptions::default());
    let keep = EncodeOptions { keep: Some(2_000_000..=3_000_000), ..EncodeOptions::default() };
    let some = encode_kernel_blocks(&table, &PageLayout::LE64, 0, &small.pages, &keep);
    assert_eq!(some.n_events + some.n_cut, all.n_events);
    assert!(some.n_events > 0 && some.n_cut > 0);
    let (chunks, _) = parse_chunks(&small.chunks);
    let keep = EncodeOptions { keep: Some(0..=1_200_000), ..EncodeOptions::default() };
    let some = encode_annotation_blocks(1, 0, &streams(&chunks)[0], &keep);
    assert_eq!((some.n_events, some.n_cut), (12, 12));
}

#[test]
fn a_damaged_page_is_counted_and_leaves_a_gap() {
    let mut small = small(9);
    small.pages[4096 + 8] = 0xff;
    small.pages[4096 + 9] = 0xff;
    let table = EventTable::from_meta(&small.meta.kernel).unwrap();
    let blocks =
        encode_kernel_blocks(&table, &PageLayout::LE64, 0, &small.pages, &EncodeOptions::default());
    assert_eq!((blocks.n_damaged, blocks.errors.len()), (1, 1));
    assert_eq!(blocks.errors[0].offset, 4096 + 8);
    let mut writer = Writer::new(Vec::new(), &small.meta).unwrap();
    writer.blocks(&blocks).unwrap();
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    let block = recording.kernel_block(0).unwrap();
    assert!(block.gaps.iter().any(|g| g.damaged));
    assert!(block.stamps.len() < 80);
}

#[test]
fn a_big_endian_32_bit_machines_events_read_right_here() {
    let mut meta = common::meta();
    let text = "name: x\nID: 300\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                \tfield:int pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n";
    meta.kernel.formats = [("a/x".to_string(), text.to_string())].into();
    let layout =
        PageLayout { commit_bytes: 4, data_offset: 12, big_endian: true, ..PageLayout::LE64 };
    let event = |pid: i32| {
        let loc = 12u32 | 5 << 16;
        [
            &300u16.to_be_bytes()[..],
            &[0; 2],
            &pid.to_be_bytes(),
            &loc.to_be_bytes(),
            b"main\0\0\0\0",
        ]
        .concat()
    };
    let events: Vec<_> =
        (0..200i32).map(|i| ((1 << 33) + 1_000_000_000 * i as u64, event(-i))).collect();
    let pages = pages_of(layout, &events);
    assert_eq!(assert_lossless(&meta, &layout, &pages), 200);
    let table = EventTable::from_meta(&meta.kernel).unwrap();
    let mut writer = Writer::new(Vec::new(), &meta).unwrap();
    writer
        .blocks(&encode_kernel_blocks(&table, &layout, 0, &pages, &EncodeOptions::default()))
        .unwrap();
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    let block = recording.kernel_block(0).unwrap();
    let group = block.group(table.find("a/x").unwrap()).unwrap();
    assert_eq!(group.column_by_name("pid").unwrap().ints().unwrap().values[7], -7);
    assert_eq!(group.column_by_name("name").unwrap().bytes().unwrap().text(199), "main");
    assert_eq!(block.stamps[3] - block.stamps[0], 3_000_000_000);
}
