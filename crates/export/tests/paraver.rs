//! The Paraver export, read back by the rules of the .prv format: objects that the header declares, records in order of
//! time, states without overlap, values that the .pcf names.
use crate::common::*;
use kasuri_model::Trace;
use std::collections::{HashMap, HashSet};

fn exported(trace: &Trace) -> [String; 3] {
    let (mut prv, mut pcf, mut row) = (Vec::new(), Vec::new(), Vec::new());
    kasuri_export::paraver::write(trace, &mut prv).unwrap();
    kasuri_export::paraver::write_pcf(trace, &mut pcf).unwrap();
    kasuri_export::paraver::write_row(trace, &mut row).unwrap();
    [prv, pcf, row].map(|bytes| String::from_utf8(bytes).unwrap())
}

fn numbers(record: &str) -> Vec<u64> {
    record.split(':').map(|n| n.parse().expect(record)).collect()
}

/// Event types with the names of their values; under 0 the states.
fn meanings(pcf: &str) -> HashMap<u64, HashMap<u64, String>> {
    let mut out: HashMap<u64, HashMap<u64, String>> = HashMap::new();
    let (mut types, mut section) = (Vec::new(), "");
    for line in pcf.lines() {
        let mut words = line.split_whitespace();
        match line {
            "EVENT_TYPE" => (types, section) = (Vec::new(), "type"),
            "VALUES" | "STATES" => section = if line == "VALUES" { "value" } else { "state" },
            "STATES_COLOR" | "DEFAULT_OPTIONS" | "DEFAULT_SEMANTIC" => section = "",
            _ => match (section, words.next().and_then(|w| w.parse::<u64>().ok())) {
                ("type", Some(_)) => {
                    let number = words.next().unwrap().parse().unwrap();
                    types.push(number);
                    out.entry(number).or_default();
                }
                ("value", Some(value)) => {
                    let name = words.collect::<Vec<_>>().join(" ");
                    for number in &types {
                        out.entry(*number).or_default().insert(value, name.clone());
                    }
                }
                ("state", Some(state)) => {
                    out.entry(0).or_default().insert(state, words.collect::<Vec<_>>().join(" "));
                }
                _ => {}
            },
        }
    }
    out
}

fn check(trace: &Trace) -> Vec<Vec<u64>> {
    let [prv, pcf, row] = exported(trace);
    let mut lines = prv.lines();
    let header = lines.next().unwrap();
    let (date, rest) = header.split_once("):").unwrap();
    assert!(date.starts_with("#Paraver ("));
    let mut parts = rest.split(':');
    let length: u64 = parts.next().unwrap().strip_suffix("_ns").unwrap().parse().unwrap();
    let nodes = parts.next().unwrap();
    let n_cpus: u64 = nodes.strip_prefix("1(").unwrap().strip_suffix(')').unwrap().parse().unwrap();
    let n_applications: usize = parts.next().unwrap().parse().unwrap();
    let rest: String = parts.collect::<Vec<_>>().join(":");
    // Each application: 1(threads:1).
    let threads: Vec<u64> =
        (rest.split("1(").skip(1)).map(|a| a.split(':').next().unwrap().parse().unwrap()).collect();
    assert_eq!(threads.len(), n_applications);
    let meanings = meanings(&pcf);
    let is_object =
        |o: &[u64]| o[0] <= n_cpus && o[2] == 1 && o[3] >= 1 && o[3] <= threads[o[1] as usize - 1];
    let (mut last, mut busy, mut out) = (0, HashMap::new(), Vec::new());
    for line in lines {
        let n = numbers(line);
        assert!(is_object(&n[1..5]), "{line}");
        assert!(n[5] >= last && n[5] <= length, "{line}: goes back, or beyond the end");
        last = n[5];
        match n[0] {
            1 => {
                assert_eq!(n.len(), 8);
                assert!(meanings[&0].contains_key(&n[7]), "{line}");
                let free: &mut u64 = busy.entry(n[1..5][1..].to_vec()).or_default();
                assert!(*free <= n[5] && n[6] > n[5] && n[6] <= length, "{line}");
                *free = n[6];
            }
            2 => {
                assert_eq!(n.len(), 8);
                let values = &meanings[&n[6]];
                assert!(values.is_empty() || values.contains_key(&n[7]), "{line}");
            }
            3 => {
                assert_eq!(n.len(), 15);
                assert!(is_object(&n[7..11]), "{line}");
                assert!(n[11] >= n[5] && n[11] <= length, "{line}");
            }
            _ => panic!("{line}"),
        }
        out.push(n);
    }
    // Names: as many as each level says.
    let mut rows = row.lines().filter(|l| !l.is_empty()).peekable();
    while let Some(level) = rows.next() {
        let n: usize = level.rsplit(' ').next().unwrap().parse().expect(level);
        assert!(level.starts_with("LEVEL "));
        for _ in 0..n {
            assert!(rows.next_if(|l| !l.starts_with("LEVEL ")).is_some(), "{level}");
        }
    }
    out
}

#[test]
fn paraver_records_follow_their_rules() {
    let records = check(&sample());
    let of = |kind: u64| records.iter().filter(move |r| r[0] == kind);
    // Of each thread: (from, to, state).
    let states: Vec<_> =
        of(1).filter(|r| r[2..5] == [2, 1, 2]).map(|r| (r[5], r[6], r[7])).collect();
    assert_eq!(states, [(150, 200, 3), (200, 600, 1), (600, 800, 5), (800, 1000, 1)]);
    let levels: HashSet<u64> = of(2).map(|r| r[6]).filter(|t| *t < 90_100_000).collect();
    assert_eq!(levels.len(), 3);
    // The wake-ups that somebody made and that led to running, then the arrows: flow and task.
    let comms: Vec<_> = of(3).map(|r| (r[5], r[11], r[14])).collect();
    assert_eq!(comms, [(130, 210, 2), (150, 200, 1), (290, 560, 2), (790, 800, 1)]);
}

#[test]
fn paraver_values_have_names() {
    let [_, pcf, row] = exported(&sample());
    let meanings = meanings(&pcf);
    let names: Vec<&String> = meanings[&90_000_001].values().collect();
    for name in ["End", "time", "rows", "barrier wait"] {
        assert!(names.iter().any(|n| *n == name), "{name}: {names:?}");
    }
    assert_eq!(meanings[&0][&1], "Running");
    assert!(row.contains("\nquake 100\n"));
}

#[test]
fn paraver_empty_recording_is_valid() {
    assert!(check(&Trace::default()).is_empty());
}
