//! Chunks and sites that a real program wrote (the quake example, two threads, first 120 slots of each).
#![allow(missing_docs, reason = "a test")]
use kasuri_format::container::{EncodeOptions, Recording, Writer, encode_annotation_blocks};
use kasuri_format::meta::Meta;
use kasuri_format::ring::{Kind, SiteTable, Sites, parse_chunks, streams};

const CHUNKS: &[u8] = include_bytes!("../../../tests/corpus/format/chunks/quake");
const SITES: &[u8] = include_bytes!("../../../tests/corpus/format/sites/quake");

#[test]
fn captured_annotations_have_names_and_nest() {
    let table = SiteTable::parse(SITES).unwrap();
    let (pid, generation) = (table.pid, table.generation);
    assert!(table.sites.iter().all(|s| s.file.ends_with(".c") && s.line > 0));
    let (chunks, error) = parse_chunks(CHUNKS);
    assert_eq!(error, None);
    let mut writer = Writer::new(Vec::new(), &Meta { version: 1, ..Meta::default() }).unwrap();
    writer.sites(&table).unwrap();
    for stream in streams(&chunks) {
        writer
            .blocks(&encode_annotation_blocks(pid, generation, &stream, &EncodeOptions::default()))
            .unwrap();
    }
    let file = writer.finish().unwrap().0;
    let recording = Recording::parse(&file).unwrap();
    assert_eq!(recording.sites(), &Sites::new(vec![table]));
    assert_eq!(recording.blocks().len(), 2);
    for ix in 0..2 {
        let block = recording.annotation_block(ix).unwrap();
        assert!(block.len() > 50 && block.stamps.is_sorted());
        let (mut depth, mut waits) = (0i32, 0i32);
        for event in block.events() {
            if event.site != 0 {
                assert!(
                    recording.sites().resolve(pid, generation, event.site).is_some(),
                    "site {}",
                    event.site
                );
            }
            match Kind::from_number(event.kind).unwrap() {
                Kind::Begin => depth += 1,
                Kind::End => depth -= 1,
                Kind::WaitBegin => waits += 1,
                Kind::WaitEnd => waits -= 1,
                _ => {}
            }
            assert!(
                (0..16).contains(&depth) && (0..=1).contains(&waits),
                "depth {depth}, waits {waits}"
            );
        }
    }
}
