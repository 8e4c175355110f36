//! CTF of other writers: `perf data convert --to-ctf`, and metadata in the words of CTF 2's drafts.
use kasuri_import::{File, Options, load};
use kasuri_model::{ThreadState, Time, Trace};
use serde_json::{Map, Value, json};
use std::path::Path;

fn read(files: &[(String, Vec<u8>)]) -> Trace {
    let files: Vec<File<'_>> = (files.iter()).map(|(name, bytes)| File { name, bytes }).collect();
    let trace = load(&files, &Options::default()).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

/// perf's integer of so many bits.
fn int(bits: u32, name: &str) -> String {
    let signed = bits == 32;
    format!(
        "integer {{ size = {bits}; align = 1; signed = {signed}; encoding = none; base = decimal; byte_order = le; }} {name};\n"
    )
}

/// Metadata as perf writes it. `per_cpu`: packets have the CPU, as today's perf writes them; else the events.
fn metadata(per_cpu: bool) -> String {
    let unsigned = |bits: u32, map: &str| {
        format!(
            "integer {{ size = {bits}; align = 8; signed = false; encoding = none; byte_order = le; {map} }}"
        )
    };
    let (u8, u32, u64) = (unsigned(8, ""), unsigned(32, ""), unsigned(64, ""));
    let stamp = unsigned(64, "map = clock.perf_clock.value;");
    let cpu_id = if per_cpu { format!("{u32} cpu_id;") } else { String::new() };
    let text = |name: &str| format!("string {{ encoding = UTF8; }} {name};\n");
    let common: String = [int(64, "perf_ip"), int(32, "perf_tid")]
        .into_iter()
        .chain((!per_cpu).then(|| int(32, "perf_cpu")))
        .chain(["common_flags", "common_pid"].map(|name| int(32, name)))
        .collect();
    let fields = [
        (
            "sched:sched_switch",
            [
                text("prev_comm"),
                int(32, "prev_pid"),
                int(64, "prev_state"),
                text("next_comm"),
                int(32, "next_pid"),
            ]
            .concat(),
        ),
        ("sched:sched_waking", [text("comm"), int(32, "pid"), int(32, "target_cpu")].concat()),
        ("raw_syscalls:sys_enter", int(64, "id")),
        ("raw_syscalls:sys_exit", int(64, "id")),
        ("lock:contention_begin", [int(64, "lock_addr"), int(32, "flags")].concat()),
        ("lock:contention_end", int(64, "lock_addr")),
    ];
    let events = fields.iter().enumerate().map(|(id, (name, fields))| {
        format!("event {{ id = {id}; name = \"{name}\"; stream_id = 0; fields := struct {{ {common} {fields} }} align(8); }};\n")
    });
    format!(
        "/* CTF 1.8 */\n\
         trace {{ major = 1; minor = 8; uuid = \"8e19a91b-9dc2-429a-9025-b33156bb844a\"; byte_order = le;\n\
         packet.header := struct {{ {u32} magic; {u8} uuid[16]; {u32} stream_id; }} align(8); }};\n\
         env {{ host = \"here\"; release = \"6.1.0\"; machine = \"x86_64\"; domain = \"kernel\"; tracer_name = \"perf\"; }};\n\
         clock {{ name = perf_clock; freq = 1000000000; offset_s = 0; offset = 0; absolute = FALSE; }};\n\
         stream {{ id = 0;\n\
         event.header := struct {{ {u32} id; {stamp} timestamp; }} align(8);\n\
         packet.context := struct {{ {u64} timestamp_begin; {u64} timestamp_end; {u64} content_size; {u64} packet_size; {u64} events_discarded; {cpu_id} }} align(8); }};\n\
         {}",
        events.collect::<String>()
    )
}

/// An event: time, CPU, thread on it, `common_flags`, type, fields.
type Row = (u64, u32, i32, i32, u32, Vec<Field>);

enum Field {
    Text(&'static str),
    I32(i32),
    I64(i64),
}
use Field::{I32, I64, Text};

fn events() -> Vec<Row> {
    let switch = |time, cpu, prev: (&'static str, i32), state, next: (&'static str, i32)| {
        let fields = vec![Text(prev.0), I32(prev.1), I64(state), Text(next.0), I32(next.1)];
        (time, cpu, prev.1, 1, 0, fields)
    };
    vec![
        switch(1000, 0, ("swapper/0", 0), 0, ("one", 11)),
        switch(2000, 1, ("swapper/1", 0), 0, ("two", 22)),
        (3000, 0, 11, 0, 2, vec![I64(202)]),
        (3500, 0, 11, 0, 4, vec![I64(7), I32(1)]),
        (3600, 0, 11, 0, 5, vec![I64(7)]),
        (4000, 0, 11, 0, 3, vec![I64(202)]),
        switch(5000, 1, ("two", 22), 1, ("swapper/1", 0)),
        (6000, 0, 11, 0, 1, vec![Text("two"), I32(22), I32(1)]),
        // In an interrupt: the thread that it interrupted woke nobody.
        (6500, 0, 11, 8, 1, vec![Text("six"), I32(66), I32(1)]),
        switch(7000, 1, ("swapper/1", 0), 0, ("two", 22)),
        switch(9000, 0, ("one", 11), 2, ("swapper/0", 0)),
    ]
}

/// A stream file with one packet of these events.
fn stream(rows: &[Row], cpu: Option<u32>) -> Vec<u8> {
    let mut body = Vec::new();
    for (time, of, tid, flags, id, fields) in rows {
        body.extend(id.to_le_bytes());
        body.extend(time.to_le_bytes());
        body.extend([0; 8]);
        body.extend(tid.to_le_bytes());
        if cpu.is_none() {
            body.extend(of.to_le_bytes());
        }
        body.extend(flags.to_le_bytes());
        body.extend(tid.to_le_bytes());
        for field in fields {
            match field {
                Text(text) => body.extend([text.as_bytes(), b"\0"].concat()),
                I32(n) => body.extend(n.to_le_bytes()),
                I64(n) => body.extend(n.to_le_bytes()),
            }
        }
    }
    let uuid = [
        0x8e, 0x19, 0xa9, 0x1b, 0x9d, 0xc2, 0x42, 0x9a, 0x90, 0x25, 0xb3, 0x31, 0x56, 0xbb, 0x84,
        0x4a,
    ];
    let mut out = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    out.extend(uuid);
    out.extend([0; 4]);
    let bits = 8 * (24 + 40 + if cpu.is_some() { 4 } else { 0 } + body.len()) as u64;
    let (first, last) = (rows.first().unwrap().0, rows.last().unwrap().0);
    for number in [first, last, bits, bits, 0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(cpu.map(u32::to_le_bytes).into_iter().flatten());
    out.extend(body);
    out
}

#[test]
fn tracepoints_that_perf_converted_are_read_from_one_stream_or_from_one_a_cpu() {
    let rows = events();
    let metadata = |per_cpu| ("metadata".to_owned(), metadata(per_cpu).into_bytes());
    let mixed = vec![metadata(false), ("perf_stream_0".into(), stream(&rows, None))];
    let mut per_cpu = vec![metadata(true)];
    for cpu in [0, 1] {
        let rows: Vec<Row> = events().into_iter().filter(|row| row.1 == cpu).collect();
        per_cpu.push((format!("perf_stream_{cpu}"), stream(&rows, Some(cpu))));
    }
    for (files, form) in [(mixed, "mixed"), (per_cpu, "per CPU")] {
        let trace = read(&files);
        assert_eq!(trace.cpus.len(), 2, "{form}");
        assert_eq!((&*trace.info.kernel, &*trace.info.host), ("6.1.0", "here"));
        assert_eq!(trace.span, Time(0)..Time(8000), "{form}");
        let thread = |tid| trace.threads.iter().find(|t| t.tid == tid).unwrap();
        let states = |tid| -> Vec<(i64, ThreadState)> {
            let rows = thread(tid).states.start as usize..thread(tid).states.end as usize;
            rows.map(|row| (trace.states.start[row].0, trace.states.state[row])).collect()
        };
        assert_eq!(trace.strings.get(thread(22).name), "two");
        use ThreadState::*;
        assert_eq!(states(11), [(0, Running), (8000, DiskSleep)], "{form}");
        let of_two = [(1000, Running), (4000, Sleeping), (5000, RunnableWoken), (6000, Running)];
        // perf's packets end with their last event: what ran on CPU 1 after it is known where both CPUs share a packet.
        let of_two = match form {
            "mixed" => of_two.to_vec(),
            _ => [&of_two[..3], &[(6000, Unknown)]].concat(),
        };
        assert_eq!(&states(22)[states(22).len() - of_two.len()..], of_two, "{form}");
        let wakers: Vec<i32> = (trace.wakeups.waker.iter())
            .map(|w| if w.is_some() { trace.threads[w.ix()].tid } else { -1 })
            .collect();
        assert_eq!(wakers, [11, -1], "{form}");
        let spans = &trace.kernel_spans;
        let mut names: Vec<_> = spans.name.iter().map(|&n| trace.strings.get(n)).collect();
        names.sort_unstable();
        assert_eq!(names, ["futex", "spinlock"], "{form}");
    }
}

/// As the drafts had it: enumerations of their own, the scope as the first step of a path, UUIDs of numbers, clocks by name.
fn drafted(value: &Value, uuid: &Value) -> Value {
    let Value::Object(object) = value else {
        return match value {
            Value::Array(all) => all.iter().map(|v| drafted(v, uuid)).collect(),
            other => other.clone(),
        };
    };
    let mut out: Map<String, Value> =
        (object.iter()).map(|(name, value)| (name.clone(), drafted(value, uuid))).collect();
    let kind = out.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
    if out.contains_key("mappings") {
        out.insert("type".into(), kind.replace("integer", "enumeration").into());
    }
    for name in ["length-field-location", "selector-field-location"] {
        let Some(location) = out.get_mut(name) else {
            continue;
        };
        let mut path = location["path"].as_array().unwrap().clone();
        if let Some(origin) = location.get("origin") {
            path.insert(0, origin.clone());
        }
        *location = path.into();
    }
    if kind == "clock-class" {
        let id = out.remove("id");
        out.insert("name".into(), id.unwrap_or_else(|| json!("clock")));
        let offset = out.remove("offset-from-origin");
        out.insert("offset".into(), offset.unwrap_or_else(|| json!({})));
        let origin = out.remove("origin") == Some(json!("unix-epoch"));
        out.insert("origin-is-unix-epoch".into(), origin.into());
        out.insert("uuid".into(), uuid.clone());
    }
    if let Some(clock) = out.remove("default-clock-class-id") {
        out.insert("default-clock-class-name".into(), clock);
    }
    Value::Object(out)
}

#[test]
fn metadata_in_the_words_of_the_drafts_means_the_same() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ctf");
    let mut n_words = [0; 3];
    for name in ["kernel-ctf2/golden", "types-ctf2"] {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for entry in std::fs::read_dir(goldens.join(name)).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            files.push((file, std::fs::read(entry.path()).unwrap()));
        }
        let whole = read(&files);
        let (_, text) = files.iter_mut().find(|f| f.0 == "metadata").unwrap();
        let uuid: Value = (0..16).collect();
        let mut out = Vec::new();
        for fragment in text.split(|&b| b == 0x1e).filter(|f| !f.trim_ascii().is_empty()) {
            let value: Value = serde_json::from_slice(fragment).unwrap();
            let fragment = drafted(&value, &uuid).to_string();
            for (n, word) in n_words.iter_mut().zip([
                "-enumeration\"",
                "[\"event-record-payload\"",
                "default-clock-class-name",
            ]) {
                *n += fragment.matches(word).count();
            }
            out.push(0x1e);
            out.extend(fragment.into_bytes());
        }
        *text = out;
        let draft = read(&files);
        assert_eq!(draft.span.end, whole.span.end, "{name}");
        assert_eq!(draft.states.start, whole.states.start, "{name}");
        assert_eq!(format!("{:?}", draft.args), format!("{:?}", whole.args), "{name}");
        assert_eq!(draft.n_annotation_events, whole.n_annotation_events, "{name}");
    }
    assert!(n_words.iter().all(|n| *n > 0), "{n_words:?}");
}

#[test]
fn stamps_that_go_back_are_told() {
    let metadata = ("metadata".to_owned(), metadata(false).into_bytes());
    let told = |rows: &[Row]| -> Vec<String> {
        let files = vec![metadata.clone(), ("perf_stream_0".into(), stream(rows, None))];
        let losses = read(&files).losses;
        losses.into_iter().map(|loss| loss.cause).collect()
    };
    let mut rows = events();
    assert_eq!(told(&rows), Vec::<String>::new());
    rows[8].0 = 5800;
    let cause = "the clock of perf_stream_0 goes back 1 times, first by 200 ns";
    assert_eq!(told(&rows), [cause]);
}
