//! The speedscope export against the rules of its published format: types, frames that exist, events in order, frames that
//! close in the order in which they opened.
use crate::common::*;
use kasuri_model::Trace;
use serde_json::Value;

fn exported(trace: &Trace) -> Value {
    let mut out = Vec::new();
    kasuri_export::speedscope::write(trace, &mut out).unwrap();
    serde_json::from_slice(&out).expect("valid JSON whatever the names")
}

/// What is wrong with a file; nothing when it is a speedscope file.
fn violations(file: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |ok: bool, what: String| {
        if !ok {
            found.push(what);
        }
    };
    let known = ["$schema", "shared", "profiles", "name", "exporter"];
    for key in file.as_object().unwrap().keys() {
        check(known.contains(&key.as_str()), format!("key {key}"));
    }
    check(file["$schema"] == "https://www.speedscope.app/file-format-schema.json", "schema".into());
    let frames = file["shared"]["frames"].as_array().unwrap();
    for frame in frames {
        check(frame["name"].is_string(), format!("frame {frame}"));
        let is_place = frame.get("file").is_none_or(Value::is_string)
            && frame.get("line").is_none_or(Value::is_u64);
        check(is_place, format!("place of {frame}"));
    }
    let profiles = file["profiles"].as_array().unwrap();
    check(!profiles.is_empty(), "no profile".into());
    for profile in profiles {
        if profile["type"] == "sampled" {
            check(profile["unit"] == "nanoseconds", "unit".into());
            let stacks = profile["samples"].as_array().unwrap();
            let weights = profile["weights"].as_array().unwrap();
            check(stacks.len() == weights.len(), "weights".into());
            let sum: i64 = weights.iter().map(|w| w.as_i64().unwrap()).sum();
            check(profile["startValue"] == 0, "start".into());
            check(profile["endValue"] == sum, "end".into());
            for frame in stacks.iter().flat_map(|s| s.as_array().unwrap()) {
                let is_known = frame.as_u64().is_some_and(|f| (f as usize) < frames.len());
                check(is_known, format!("frame {frame} of a sample"));
            }
            continue;
        }
        check(profile["type"] == "evented", "type".into());
        check(profile["unit"] == "nanoseconds", "unit".into());
        let at = |key: &str| profile[key].as_i64().unwrap();
        let (mut last, mut stack) = (at("startValue"), Vec::new());
        for event in profile["events"].as_array().unwrap() {
            let (time, frame) = (event["at"].as_i64().unwrap(), event["frame"].as_u64().unwrap());
            check(time >= last && time <= at("endValue"), format!("time of {event}"));
            check((frame as usize) < frames.len(), format!("frame of {event}"));
            last = time;
            match event["type"].as_str() {
                Some("O") => stack.push(frame),
                Some("C") => check(stack.pop() == Some(frame), format!("nesting of {event}")),
                _ => check(false, format!("type of {event}")),
            }
        }
        check(stack.is_empty(), "a frame stays open".into());
    }
    found
}

/// `frame@from-to` of a profile, in order of their ends.
fn drawn(file: &Value, profile: usize) -> Vec<String> {
    let (mut stack, mut out) = (Vec::new(), Vec::new());
    for event in file["profiles"][profile]["events"].as_array().unwrap() {
        let at = event["at"].as_i64().unwrap();
        if event["type"] == "O" {
            stack.push(at);
            continue;
        }
        let from = stack.pop().unwrap();
        let frame = event["frame"].as_u64().unwrap() as usize;
        let name = file["shared"]["frames"][frame]["name"].as_str().unwrap();
        if from != at {
            out.push(format!("{name}@{from}-{at}"));
        }
    }
    out
}

#[test]
fn speedscope_file_follows_its_rules() {
    assert_eq!(violations(&exported(&sample())), [""; 0]);
    assert_eq!(violations(&exported(&Trace::default())), [""; 0]);
}

#[test]
fn speedscope_check_finds_wrong_files() {
    let mut file = exported(&sample());
    file["profiles"][0]["events"].as_array_mut().unwrap().pop();
    assert_eq!(violations(&file), ["a frame stays open"]);
}

#[test]
fn speedscope_frames_are_slices_with_the_states_inside() {
    let file = exported(&sample());
    let names: Vec<_> = (file["profiles"].as_array().unwrap().iter())
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["quake 100", &format!("{NASTY} 101")]);
    assert_eq!(
        drawn(&file, 0),
        [
            "[unknown]@0-100",
            "[running]@100-110",
            "solve@110-300",
            "[preempted]@400-500",
            "time@110-900",
            "[running]@900-1000",
        ]
    );
    assert_eq!(
        drawn(&file, 1),
        [
            "[runnable]@150-200",
            "[running]@200-210",
            "rows@210-590",
            "[sleeping]@600-800",
            "barrier wait@590-990",
            "[running]@990-1000",
        ]
    );
}

/// What each frame has for itself adds up to what the states say; a slice's own time is that in which the thread ran.
#[test]
fn speedscope_frames_leave_out_no_time_of_the_states() {
    for trace in [sample(), sampled()] {
        let file = exported(&trace);
        for (profile, thread) in [MAIN, WORKER].into_iter().enumerate() {
            let evented = file["profiles"].as_array().unwrap().iter();
            let evented: Vec<_> = evented.filter(|p| p["type"] == "evented").collect();
            let mut own: std::collections::BTreeMap<String, i64> = Default::default();
            let (mut stack, mut last): (Vec<String>, i64) = (Vec::new(), 0);
            for event in evented[profile]["events"].as_array().unwrap() {
                let at = event["at"].as_i64().unwrap();
                if let Some(inner) = stack.last() {
                    *own.entry(inner.clone()).or_default() += at - last;
                } else {
                    assert!(at == last || last == 0, "nothing is drawn in {last}..{at}");
                }
                last = at;
                let frame = event["frame"].as_u64().unwrap() as usize;
                let name = file["shared"]["frames"][frame]["name"].as_str().unwrap();
                let name = if name.starts_with('[') { name } else { "[running]" };
                match event["type"] == "O" {
                    true => stack.push(name.to_owned()),
                    false => drop(stack.pop()),
                }
            }
            let mut states: std::collections::BTreeMap<String, i64> = Default::default();
            for row in trace.states_of(thread) {
                let name = format!("[{}]", kasuri_model::label::state(row.state));
                *states.entry(name).or_default() += (row.end - row.start).ns();
            }
            own.retain(|_, ns| *ns > 0);
            states.retain(|_, ns| *ns > 0);
            assert_eq!(own, states);
        }
    }
}

#[test]
fn speedscope_file_holds_the_chosen_program_and_is_called_after_it() {
    let mut trace = sample();
    trace.info.command.clear();
    let choice = kasuri_model::Choice { processes: vec!["7".into()], ..Default::default() };
    trace.choose(&choice).unwrap();
    let file = exported(&trace);
    assert_eq!(file["name"], "process kworker/0:1 (7)");
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 1);
    assert_eq!(profiles[0]["name"], "kworker/0:1 7");
    let done = kasuri_export::speedscope::write(&trace, &mut Vec::new()).unwrap();
    assert_eq!(done.left_out[0], "2 threads of other programs");
}

#[test]
fn speedscope_says_what_it_leaves_out() {
    let done = kasuri_export::speedscope::write(&sample(), &mut Vec::new()).unwrap();
    let text = done.left_out.join("; ");
    for what in ["critical sections", "counters", "arrows", "losses", "CPU"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}

/// Name, unit, stacks as `outermost;innermost` and weights of the sampled profiles.
fn sampled_profiles(file: &Value) -> Vec<(String, String, Vec<String>, Vec<i64>)> {
    let name = |frame: &Value| {
        let frame = frame.as_u64().unwrap() as usize;
        file["shared"]["frames"][frame]["name"].as_str().unwrap()
    };
    let profiles = file["profiles"].as_array().unwrap().iter();
    let sampled = profiles.filter(|p| p["type"] == "sampled").map(|p| {
        let stacks = p["samples"].as_array().unwrap().iter().map(|stack| {
            let names: Vec<&str> = stack.as_array().unwrap().iter().map(name).collect();
            names.join(";")
        });
        let weights = p["weights"].as_array().unwrap().iter();
        (
            p["name"].as_str().unwrap().to_owned(),
            p["unit"].as_str().unwrap().to_owned(),
            stacks.collect(),
            weights.map(|w| w.as_i64().unwrap()).collect(),
        )
    });
    sampled.collect()
}

#[test]
fn speedscope_samples_are_the_models() {
    let file = exported(&sampled());
    assert_eq!(violations(&file), [""; 0]);
    let profile = |name: &str, unit: &str, stacks: &[&str], weights: &[i64]| {
        let stacks = stacks.iter().map(|s| s.to_string()).collect();
        (name.to_owned(), unit.to_owned(), stacks, weights.to_vec())
    };
    let run = "_ZN4work3runEv";
    let (in_main, by_address) = (format!("main;{run}"), format!("quake+0x1234;{run}"));
    assert_eq!(
        sampled_profiles(&file),
        [
            profile(
                "quake 100 (on CPU)",
                "nanoseconds",
                &[&in_main, "main;do_spin", &in_main, "[no call path]"],
                &[100, 100, 300, 300]
            ),
            profile(
                &format!("{NASTY} 101 (on CPU)"),
                "nanoseconds",
                &[&by_address, "quake+0x1234"],
                &[400, 200]
            ),
            profile(
                &format!("{NASTY} 101 (waits)"),
                "nanoseconds",
                &["main;read;vfs_read"],
                &[200]
            ),
        ]
    );
    let frames = file["shared"]["frames"].as_array().unwrap();
    let run = frames.iter().find(|f| f["name"] == run).unwrap();
    assert_eq!(run["file"], "/src/work.c");
    assert_eq!(run["line"], 7);
}

#[test]
fn speedscope_samples_of_a_profile_weigh_what_it_says() {
    let mut trace = sampled();
    trace.samples.weight = (1..=8).map(kasuri_model::Duration).collect();
    let file = exported(&trace);
    assert_eq!(violations(&file), [""; 0]);
    let weights: Vec<Vec<i64>> = sampled_profiles(&file).into_iter().map(|p| p.3).collect();
    assert_eq!(weights, [vec![1, 2, 3, 4], vec![5, 6, 8], vec![7]]);
}

#[test]
fn speedscope_file_without_samples_is_as_if_there_were_no_frames() {
    let mut trace = sampled();
    let with = exported(&trace);
    trace.samples = Default::default();
    let mut plain = exported(&trace);
    let mut sample = exported(&sample());
    assert_ne!(plain["shared"], with["shared"]);
    for file in [&mut plain, &mut sample] {
        file["name"] = Value::Null;
    }
    assert_eq!(plain, sample);
}
