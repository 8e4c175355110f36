//! Prints the columns of a trace as JSON, times on the trace's own clock: for comparisons with other readers.
//! `cargo run -p kasuri-import --example columns -- FILE`
use kasuri_import::{File, Options, load};
use kasuri_model::{ArgValue, StrIx, Time, Trace};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: columns FILE")?;
    let bytes = std::fs::read(&path)?;
    let file = File { name: &path, bytes: &bytes };
    let trace = load(&[file], &Options::default())?;
    println!("{}", columns(&trace));
    Ok(())
}

fn columns(trace: &Trace) -> Value {
    let at = |time: Time| time.0.saturating_add(trace.origin_monotonic_ns);
    let text = |name: StrIx| trace.strings.get(name);
    let processes = (trace.processes.iter())
        .map(|p| json!({"pid": p.pid, "name": text(p.name), "parent": p.parent.0}));
    let threads = (trace.threads.iter())
        .map(|t| json!({"tid": t.tid, "process": t.process.0, "name": text(t.name)}));
    let s = &trace.slices;
    let slices = (0..s.start.len()).map(|i| {
        json!({"start": at(s.start[i]), "end": at(s.end[i]), "thread": s.thread[i].0,
            "name": text(s.name[i]), "depth": s.depth[i], "open": s.open[i]})
    });
    let i = &trace.instants;
    let instants = (0..i.time.len())
        .map(|k| json!({"time": at(i.time[k]), "thread": i.thread[k].0, "name": text(i.name[k])}));
    let a = &trace.args;
    let args = (0..a.name.len()).map(|k| {
        let value = match a.value[k] {
            ArgValue::Int(v) => json!(v),
            ArgValue::Uint(v) => json!(v),
            ArgValue::Float(v) => json!(v),
            ArgValue::Str(v) => json!(text(v)),
        };
        json!({"slice": a.slice[k].0, "instant": a.instant[k].0, "name": text(a.name[k]), "value": value})
    });
    let counters = trace.counters.iter().map(|c| {
        let times: Vec<i64> = c.time.iter().map(|&t| at(t)).collect();
        json!({"process": c.process.0, "name": text(c.name), "time": times, "value": c.value})
    });
    let f = &trace.flows;
    let flows = (0..f.id.len()).map(|k| {
        json!([f.id[k], at(f.from_time[k]), f.from_thread[k].0, at(f.to_time[k]), f.to_thread[k].0])
    });
    let k = &trace.kernel_spans;
    let spans = (0..k.start.len()).map(|j| {
        json!({"kind": format!("{:?}", k.kind[j]), "start": at(k.start[j]), "end": at(k.end[j]),
            "thread": k.thread[j].0, "name": text(k.name[j]), "cpu": k.cpu[j]})
    });
    let states = trace.threads.iter().enumerate().flat_map(|(ix, t)| {
        (t.states.start as usize..t.states.end as usize).map(move |j| {
            json!({"thread": ix, "start": at(trace.states.start[j]), "cpu": trace.states.cpu[j],
                "state": format!("{:?}", trace.states.state[j])})
        })
    });
    json!({
        "start": at(trace.span.start),
        "end": at(trace.span.end),
        "processes": processes.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "slices": slices.collect::<Vec<_>>(),
        "instants": instants.collect::<Vec<_>>(),
        "args": args.collect::<Vec<_>>(),
        "counters": counters.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "spans": spans.collect::<Vec<_>>(),
        "states": states.collect::<Vec<_>>(),
        "missing": trace.info.missing,
    })
}
