//! The Perfetto export, taken apart by a wire-format walker that shares no code with the writer, and
//! compared with the recording it was made from.
use crate::common::*;
use crate::wire::{Field, Message};
use kasuri_model::Trace;

/// TracePacket and TrackEvent field numbers, from the public proto files.
const FTRACE: u32 = 1;
const PROCESS_TREE: u32 = 2;
const CLOCKS: u32 = 6;
const TIMESTAMP: u32 = 8;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const TRACK: u32 = 60;

fn packets(trace: &Trace) -> Vec<Message> {
    let mut out = Vec::new();
    kasuri_export::perfetto::write(trace, &mut out).unwrap();
    let whole = Message::parse(&out).expect("the file is one message of packets");
    assert!(whole.fields.iter().all(|(number, _)| *number == 1));
    whole.messages(1)
}

/// (cpu, timestamp, prev_pid, prev_state, next_pid) of each sched_switch, in file order.
fn switches(packets: &[Message]) -> Vec<(u64, u64, u64, u64, u64)> {
    let mut found = Vec::new();
    for bundle in packets.iter().flat_map(|p| p.messages(FTRACE)) {
        for event in bundle.messages(2) {
            for switch in event.messages(4) {
                let n = |field| switch.number(field).unwrap();
                assert_eq!(
                    event.number(2),
                    Some(n(2)),
                    "the event's pid is that of who was on the CPU"
                );
                found.push((bundle.number(1).unwrap(), event.number(1).unwrap(), n(2), n(4), n(6)));
            }
        }
    }
    found
}

#[test]
fn perfetto_switches_are_the_occupancy() {
    let at = |t: u64| ORIGIN as u64 + t;
    let mut found = switches(&packets(&sample()));
    found.sort();
    assert_eq!(
        found,
        [
            (0, at(0), 0, 0, 0),
            (0, at(100), 0, 0, 100),
            (0, at(400), 100, 0x100, 7),
            (0, at(500), 7, 0x80, 100),
            (1, at(200), 0, 0, 101),
            (1, at(600), 101, 1, 0),
            (1, at(800), 0, 0, 101),
        ][1..]
    );
}

#[test]
fn perfetto_wakings_name_waker_and_wakee() {
    let packets = packets(&sample());
    let mut wakings = Vec::new();
    for bundle in packets.iter().flat_map(|p| p.messages(FTRACE)) {
        for event in bundle.messages(2) {
            for (kind, waking) in
                [20, 114].iter().flat_map(|&k| event.messages(k).into_iter().map(move |w| (k, w)))
            {
                let time = event.number(1).unwrap() - ORIGIN as u64;
                wakings.push((
                    time,
                    kind,
                    event.number(2).unwrap(),
                    waking.number(2).unwrap(),
                    waking.number(5).unwrap(),
                ));
            }
        }
    }
    assert_eq!(wakings, [(150, 114, 100, 101, 1), (400, 20, 100, 7, 0), (790, 20, 100, 101, 1)]);
}

#[test]
fn perfetto_events_of_a_cpu_are_in_time_order() {
    let mut last = [0; 2];
    for bundle in packets(&sample()).iter().flat_map(|p| p.messages(FTRACE)) {
        let cpu = bundle.number(1).unwrap() as usize;
        for event in bundle.messages(2) {
            assert!(event.number(1).unwrap() >= last[cpu]);
            last[cpu] = event.number(1).unwrap();
        }
    }
}

/// (track, type, timestamp, name) of the track events, names resolved as an importer does it.
fn track_events(packets: &[Message]) -> Vec<(u64, u64, u64, String)> {
    let mut names = std::collections::HashMap::new();
    let mut found = Vec::new();
    for packet in packets {
        for interned in packet.messages(INTERNED) {
            for entry in interned.messages(2) {
                names.insert(entry.number(1).unwrap(), entry.text(2).unwrap());
            }
        }
        for event in packet.messages(TRACK_EVENT) {
            assert_eq!(packet.number(13), Some(2), "needs the strings sent before");
            let name = event.number(10).map_or(String::new(), |iid| names[&iid].clone());
            let time = packet.number(TIMESTAMP).unwrap() - ORIGIN as u64;
            found.push((event.number(11).unwrap(), event.number(9).unwrap(), time, name));
        }
    }
    found
}

#[test]
fn perfetto_slices_nest_on_each_track() {
    let events = track_events(&packets(&sample()));
    let mut stacks: std::collections::HashMap<u64, Vec<u64>> = Default::default();
    let mut last: std::collections::HashMap<(u64, bool), u64> = Default::default();
    for (track, kind, time, name) in &events {
        let stack = stacks.entry(*track).or_default();
        if *kind == 1 || *kind == 2 {
            let previous = last.insert((*track, true), *time).unwrap_or(0);
            assert!(*time >= previous, "{name}: begins and ends of a track are in time order");
        }
        match kind {
            1 => stack.push(*time),
            2 => assert!(
                stack.pop().is_some_and(|begin| begin <= *time),
                "{name}: an end without a beginning"
            ),
            _ => {}
        }
    }
    assert!(stacks.values().all(Vec::is_empty), "every slice ends");
}

#[test]
fn perfetto_slices_are_the_models() {
    let events = track_events(&packets(&sample()));
    let begins: Vec<(u64, &str)> =
        events.iter().filter(|e| e.1 == 1).map(|e| (e.2, e.3.as_str())).collect();
    let expected = [
        (110, "time"),
        (110, "solve"),
        (200, "lock held"),
        (300, NASTY),
        (210, "rows"),
        (590, "barrier wait"),
        (410, "virtio0"),
        (120, "clone3"),
        (0, "lost events"),
    ];
    assert_eq!(begins, expected);
}

#[test]
fn perfetto_arguments_keep_type_and_value() {
    let packets = packets(&sample());
    let arguments: Vec<Message> =
        packets.iter().flat_map(|p| p.messages(TRACK_EVENT)).flat_map(|e| e.messages(4)).collect();
    assert!(arguments.iter().any(|a| a.number(4) == Some(-3i64 as u64)));
    assert!(arguments.iter().any(|a| a.number(7) == Some(0xffff_8000_1234_5678)));
    assert!(arguments.iter().any(|a| a.number(3) == Some(42)), "the task's id");
    assert!(arguments.iter().any(|a| a.number(3) == Some(u64::MAX)), "the instant's");
    assert!(
        arguments.iter().any(|a| a.text(6).as_deref() == Some("end")),
        "the barrier's end was not seen"
    );
    assert!(arguments.iter().any(|a| a.double(5).is_some_and(f64::is_nan)));
}

#[test]
fn perfetto_counters_flows_and_tracks() {
    let packets = packets(&sample());
    let events: Vec<Message> = packets.iter().flat_map(|p| p.messages(TRACK_EVENT)).collect();
    let values: Vec<f64> = events.iter().filter_map(|e| e.double(44)).collect();
    assert_eq!(values, [0.5, 7.0]);
    let ends = |field| events.iter().filter_map(|e| e.fixed64(field)).collect::<Vec<_>>();
    assert_eq!(ends(47), [1, 2]);
    assert_eq!(ends(47), ends(48), "each arrow has a head");
    let tracks: Vec<Message> = packets.iter().flat_map(|p| p.messages(TRACK)).collect();
    let threads: Vec<_> =
        tracks.iter().flat_map(|t| t.messages(4)).map(|t| (t.number(1), t.number(2))).collect();
    assert_eq!(threads, [(Some(100), Some(100)), (Some(100), Some(101))]);
    let known: Vec<_> = tracks.iter().filter_map(|t| t.number(1)).collect();
    assert!(
        events.iter().all(|e| known.contains(&e.number(11).unwrap())),
        "every event's track is described"
    );
}

#[test]
fn perfetto_clock_snapshot_equates_the_clocks() {
    let packets = packets(&sample());
    let clocks = packets.iter().flat_map(|p| p.messages(CLOCKS)).next().unwrap();
    let stamps: Vec<_> =
        clocks.messages(1).iter().map(|c| (c.number(1).unwrap(), c.number(2).unwrap())).collect();
    assert_eq!(stamps, [(6, ORIGIN as u64), (3, ORIGIN as u64), (1, 1_800_000_000_000_000_000)]);
}

#[test]
fn perfetto_process_tree_names_every_thread() {
    let packets = packets(&sample());
    let trees: Vec<Message> = packets.iter().flat_map(|p| p.messages(PROCESS_TREE)).collect();
    let names: Vec<_> =
        trees.iter().flat_map(|t| t.messages(1)).map(|p| p.text(3).unwrap()).collect();
    assert_eq!(names, ["kworker/0:1", "quake"]);
    let threads: Vec<_> = trees
        .iter()
        .flat_map(|t| t.messages(2))
        .map(|t| (t.number(1), t.text(2).unwrap()))
        .collect();
    assert_eq!(threads, [(Some(101), NASTY.to_string())]);
}

#[test]
#[ignore = "needs the perfetto and protobuf packages from PyPI"]
fn perfetto_official_messages_agree() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join("official.pftrace");
    kasuri_export::perfetto::write(&sampled(), std::fs::File::create(&file).unwrap()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto_official.py");
    let done = std::process::Command::new("python3").arg(script).arg(&file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let seen: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let packets = packets(&sampled());
    assert_eq!(seen["unknown"], 0, "every field is one of theirs");
    assert_eq!(seen["packets"], packets.len());
    assert_eq!(seen["switches"], serde_json::json!(switches(&packets)));
    assert_eq!(seen["wakings"].as_array().unwrap().len(), 3);
    let begins: Vec<_> = track_events(&packets).into_iter().filter(|e| e.1 == 1).collect();
    let begins: Vec<_> = begins.into_iter().map(|e| (e.2 + ORIGIN as u64, e.3)).collect();
    assert_eq!(seen["begins"], serde_json::json!(begins));
    let samples: Vec<_> = perf_samples(&packets)
        .into_iter()
        .map(|(time, pid, tid, cpu, stack)| (time + ORIGIN as u64, pid, tid, cpu.unwrap(), stack))
        .collect();
    assert_eq!(samples.len(), 7);
    assert_eq!(seen["samples"], serde_json::json!(samples));
    assert_eq!(seen["threads"], serde_json::json!([[100, 100], [100, 101]]));
}

/// (timestamp, pid, tid, cpu, stack as `outermost;innermost` of `function (module)`) of each PerfSample, resolved as an importer does it.
fn perf_samples(packets: &[Message]) -> Vec<(u64, u64, u64, Option<u64>, String)> {
    let mut rows = std::collections::HashMap::new();
    let mut found = Vec::new();
    for packet in packets.iter().filter(|p| p.number(10) == Some(3)) {
        for interned in packet.messages(INTERNED) {
            for field in [5, 6, 7, 17, 19] {
                for row in interned.messages(field) {
                    let before = rows.insert((field, row.number(1).unwrap()), row);
                    assert!(before.is_none(), "each row is sent once");
                }
            }
        }
        let sample = packet.messages(66).remove(0);
        let flags = if found.is_empty() { 3 } else { 2 };
        assert_eq!(packet.number(13), Some(flags));
        let frame = |iid: u64| {
            let frame = &rows[&(6, iid)];
            let mapping = &rows[&(19, frame.number(3).unwrap())];
            let name = rows[&(5, frame.number(2).unwrap())].text(2).unwrap();
            let module = rows[&(17, mapping.number(7).unwrap())].text(2).unwrap();
            format!("{name} ({module})")
        };
        let stack = sample.number(4).map_or(Vec::new(), |iid| {
            let stack = &rows[&(7, iid)];
            stack.numbers(2).into_iter().map(frame).collect()
        });
        let time = packet.number(TIMESTAMP).unwrap() - ORIGIN as u64;
        let n = |field| sample.number(field);
        found.push((time, n(2).unwrap(), n(3).unwrap(), n(1), stack.join(";")));
    }
    found
}

#[test]
fn perfetto_samples_are_the_models() {
    let run = "_ZN4work3runEv (/bin/quake)";
    let in_main = format!("main (/bin/quake);{run}");
    let spin = "main (/bin/quake);do_spin (/usr/lib/libgomp.so.1)";
    let nameless = "quake+0x1234 (/bin/quake)";
    let by_address = format!("{nameless};{run}");
    let sample = |time, tid, stack: &str| (time, 100, tid, Some(0), stack.to_owned());
    assert_eq!(
        perf_samples(&packets(&sampled())),
        [
            sample(150, 100, &in_main),
            sample(250, 100, spin),
            sample(350, 100, &in_main),
            sample(950, 100, ""),
            sample(250, 101, &by_address),
            sample(550, 101, &by_address),
            sample(850, 101, nameless),
        ]
    );
    // On CPU 0, in order of time, each sample with the time that it stands for: 150, 250 (both threads), 350, 550, 850, 950.
    let counts: Vec<u64> = (packets(&sampled()).iter())
        .flat_map(|p| p.messages(66))
        .map(|s| s.number(6).unwrap())
        .collect();
    assert_eq!(counts, [100, 200, 700, 1400, 400, 900, 1100]);
    let done = kasuri_export::perfetto::write(&sampled(), &mut Vec::new()).unwrap();
    let waits = "call paths of waits and wake-ups".to_owned();
    assert!(done.left_out.contains(&waits), "{:?}", done.left_out);
}

#[test]
fn perfetto_file_without_samples_has_no_sample_packets() {
    let n = |trace: &Trace| packets(trace).len();
    assert!(perf_samples(&packets(&sample())).is_empty());
    assert_eq!(n(&sampled()), n(&sample()) + 7);
}

#[test]
fn perfetto_empty_recording_is_valid() {
    assert!(switches(&packets(&Trace::default())).is_empty());
}

#[test]
fn wire_walker_rejects_damage() {
    // The control of this file: a walker that accepts anything would prove nothing.
    let mut out = Vec::new();
    kasuri_export::perfetto::write(&sample(), &mut out).unwrap();
    assert!(Message::parse(&out[..out.len() - 1]).is_none());
    out[1] ^= 1;
    let whole = Message::parse(&out);
    assert!(whole.is_none_or(|m| {
        m.fields.iter().any(|(n, f)| *n != 1 || !matches!(f, Field::Bytes(_)))
    }));
}
