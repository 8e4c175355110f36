//! The pprof export, taken apart by the wire format alone: tables without holes, stacks and inlined functions, and times that add up to the
//! nanosecond.
use crate::common::*;
use crate::wire::{Field, Message};
use kasuri_analyze::account::{Account, Class};
use kasuri_model::Trace;
use std::collections::BTreeMap;
use std::io::Read;

/// A sample: its stack (innermost first; functions of one location joined by `<`), values by type, labels.
#[derive(Debug)]
struct Sample {
    stack: Vec<String>,
    values: BTreeMap<String, i64>,
    labels: BTreeMap<String, String>,
}

struct Profile {
    message: Message,
    texts: Vec<String>,
    samples: Vec<Sample>,
}

fn number(message: &Message, field: u32) -> u64 {
    message.number(field).unwrap_or(0)
}

/// Numbers that lie one behind the other.
fn packed(message: &Message, field: u32) -> Vec<u64> {
    let mut out = Vec::new();
    for (_, value) in message.fields.iter().filter(|(n, _)| *n == field) {
        let Field::Bytes(bytes) = value else { panic!("{value:?} is not packed") };
        let (mut value, mut shift) = (0u64, 0);
        for byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                out.push(value);
                (value, shift) = (0, 0);
            }
        }
        assert_eq!(shift, 0, "a number is cut");
    }
    out
}

impl Profile {
    /// Reads the export of a trace. The rules of profile.proto: the first text is empty, ids are those of rows that are there.
    fn of(trace: &Trace) -> Profile {
        let mut bytes = Vec::new();
        kasuri_export::pprof::write(trace, &mut bytes).unwrap();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        let message = Message::parse(&plain).expect("fields");
        let texts = message.fields.iter().filter(|(n, _)| *n == 6);
        let texts = texts.map(|(_, value)| match value {
            Field::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{other:?} is no text"),
        });
        let texts: Vec<String> = texts.collect();
        assert_eq!(texts[0], "");
        let mut out = Profile { message, texts, samples: Vec::new() };
        out.samples = out.message.messages(2).iter().map(|s| out.sample(s)).collect();
        out
    }

    fn text(&self, message: &Message, field: u32) -> &str {
        &self.texts[number(message, field) as usize]
    }

    /// The row with this id.
    fn row(&self, table: u32, id: u64) -> Message {
        let rows = self.message.messages(table);
        let mut found = rows.into_iter().filter(|row| number(row, 1) == id);
        let row = found.next().expect("a row with this id");
        assert!(found.next().is_none(), "id {id} of table {table} is there twice");
        row
    }

    fn types(&self) -> Vec<String> {
        let types = self.message.messages(1);
        types.iter().map(|t| format!("{}/{}", self.text(t, 1), self.text(t, 2))).collect()
    }

    fn sample(&self, sample: &Message) -> Sample {
        let function = |line: &Message| {
            let function = self.row(5, number(line, 1));
            let place = match (self.text(&function, 4), number(line, 2)) {
                ("", _) => String::new(),
                (file, line) => format!(" {file}:{line}"),
            };
            format!("{}{place}", self.text(&function, 2))
        };
        let location = |id: u64| {
            let lines = self.row(4, id).messages(4);
            lines.iter().map(function).collect::<Vec<_>>().join(" < ")
        };
        let values = packed(sample, 2);
        let types = self.types();
        assert_eq!(values.len(), types.len());
        let label = |label: &Message| {
            let text = self.text(label, 2);
            let value = match text {
                "" => number(label, 3).to_string(),
                text => text.to_owned(),
            };
            (self.text(label, 1).to_owned(), value)
        };
        Sample {
            stack: packed(sample, 1).into_iter().map(location).collect(),
            values: types.into_iter().zip(values.into_iter().map(|v| v as i64)).collect(),
            labels: sample.messages(3).iter().map(label).collect(),
        }
    }

    /// Times of one type by thread and stack, outermost first.
    fn by_stack(&self, of: &str) -> BTreeMap<String, i64> {
        let mut out = BTreeMap::new();
        for sample in self.samples.iter().filter(|s| s.values[of] != 0) {
            let stack: Vec<&str> = sample.stack.iter().rev().map(String::as_str).collect();
            let key = format!("{} {}", sample.labels["tid"], stack.join("; "));
            assert!(out.insert(key, sample.values[of]).is_none(), "a stack is there twice");
        }
        out
    }
}

fn rows<const N: usize>(rows: [(&str, i64); N]) -> BTreeMap<String, i64> {
    rows.map(|(stack, ns)| (stack.to_owned(), ns)).into()
}

/// The main thread ran 800 ns; on this axis its samples lie at 50, 150, 250 and 750, so that the borders are at 100, 200 and 500. The worker ran
/// 600 ns with samples at 50, 350 and 450, and slept for 200.
#[test]
fn pprof_times_are_those_of_the_states() {
    let profile = Profile::of(&sampled());
    assert_eq!(
        profile.types(),
        ["samples/count", "on_cpu/nanoseconds", "blocked/nanoseconds", "account/nanoseconds"]
    );
    let run = "work::run() /src/work.c:7";
    assert_eq!(
        profile.by_stack("on_cpu/nanoseconds"),
        rows([
            (&format!("100 {run} < main /src/main.c:3"), 400),
            ("100 main /src/main.c:3; do_spin", 100),
            ("100 [no call path]", 300),
            (&format!("101 {run} < quake+0x1234"), 400),
            ("101 quake+0x1234", 200),
        ])
    );
    assert_eq!(
        profile.by_stack("blocked/nanoseconds"),
        rows([("101 main /src/main.c:3; read; vfs_read", 200)])
    );
    assert_eq!(
        profile.by_stack("samples/count"),
        rows([
            (&format!("100 {run} < main /src/main.c:3"), 2),
            ("100 main /src/main.c:3; do_spin", 1),
            ("100 [no call path]", 1),
            (&format!("101 {run} < quake+0x1234"), 2),
            ("101 quake+0x1234", 1),
            ("101 main /src/main.c:3; read; vfs_read", 1),
        ])
    );
    let worker = profile.samples.iter().find(|s| s.labels["tid"] == "101").unwrap();
    assert_eq!(
        (&*worker.labels["thread"], &*worker.labels["process"], &*worker.labels["pid"]),
        (NASTY, "quake", "100")
    );
}

#[test]
fn pprof_classes_add_up_to_the_account() {
    let trace = sampled();
    let profile = Profile::of(&trace);
    let account = Account::new(&trace, trace.span.clone());
    let sums = account.sums(account.from, account.to);
    assert_eq!(sums.iter().sum::<i64>(), 2000, "2 CPUs");
    let of = "account/nanoseconds";
    for class in Class::ALL {
        let own = profile
            .samples
            .iter()
            .filter(|s| s.labels.get("class").is_some_and(|c| c == class.key()));
        assert_eq!(own.map(|s| s.values[of]).sum::<i64>(), sums[class as usize], "{}", class.key());
    }
    assert_eq!(profile.samples.iter().map(|s| s.values[of]).sum::<i64>(), 2000);
    let has_class = |s: &Sample| s.labels.contains_key("class");
    assert!(profile.samples.iter().all(|s| has_class(s) == (s.values[of] != 0)));
}

#[test]
fn pprof_mappings_have_build_ids_and_the_program_is_the_first() {
    let mut trace = sampled();
    let module = trace.strings.intern("/bin/quake");
    trace.build_ids.insert(module, [0xde, 0xad, 0x01].into());
    let profile = Profile::of(&trace);
    let mappings: Vec<(String, String)> = (profile.message.messages(3).iter())
        .map(|m| (profile.text(m, 5).to_owned(), profile.text(m, 6).to_owned()))
        .collect();
    let expected = [
        ("/bin/quake", "dead01"),
        ("/usr/lib/libgomp.so.1", ""),
        ("[kernel]", ""),
        ("/usr/lib/libc.so.6", ""),
    ];
    assert_eq!(mappings, expected.map(|(path, id)| (path.to_owned(), id.to_owned())));
    let nameless = (profile.message.messages(4).into_iter()).find(|l| number(l, 3) != 0).unwrap();
    assert_eq!((number(&nameless, 2), number(&nameless, 3)), (1, 0x1234));
    assert_eq!(profile.text(&profile.message, 14), "on_cpu");
    assert_eq!(
        (number(&profile.message, 9), number(&profile.message, 10)),
        (1_800_000_000_000_000_000, 1000)
    );
    let period = &profile.message.messages(11)[0];
    assert_eq!((profile.text(period, 1), number(&profile.message, 12)), ("on_cpu", 100));
}

#[test]
fn pprof_of_a_profile_has_its_own_weights_and_no_account() {
    let mut trace = sampled();
    trace.samples.weight = (1..=8).map(kasuri_model::Duration).collect();
    trace.states = kasuri_model::States::default();
    trace.threads.iter_mut().for_each(|thread| thread.states = 0..0);
    let profile = Profile::of(&trace);
    assert_eq!(profile.types(), ["samples/count", "on_cpu/nanoseconds", "blocked/nanoseconds"]);
    let sum = |of: &str| profile.samples.iter().map(|s| s.values[of]).sum::<i64>();
    assert_eq!((sum("on_cpu/nanoseconds"), sum("blocked/nanoseconds")), (36 - 7, 7));
}

#[test]
fn pprof_says_what_it_leaves_out() {
    let done = kasuri_export::pprof::write(&sampled(), &mut Vec::new()).unwrap();
    let text = done.left_out.join("; ");
    for what in ["when anything happened", "other programs", "annotations", "counters", "losses"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}
