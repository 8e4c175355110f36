//! The speedscope export against the rules of its published format: types, frames that exist, events in order, frames that
//! close in the order in which they opened.
mod common;
use common::*;
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
    check(
        file["$schema"] == "https://www.speedscope.app/file-format-schema.json",
        "schema".into(),
    );
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
        check(profile["type"] == "evented", "type".into());
        check(profile["unit"] == "nanoseconds", "unit".into());
        let at = |key: &str| profile[key].as_i64().unwrap();
        let (mut last, mut stack) = (at("startValue"), Vec::new());
        for event in profile["events"].as_array().unwrap() {
            let (time, frame) = (
                event["at"].as_i64().unwrap(),
                event["frame"].as_u64().unwrap(),
            );
            check(
                time >= last && time <= at("endValue"),
                format!("time of {event}"),
            );
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
        ["solve@110-300", "[preempted]@400-500", "time@110-900",]
    );
    assert_eq!(
        drawn(&file, 1),
        [
            "[runnable]@150-200",
            "rows@210-590",
            "[sleeping]@600-800",
            "barrier wait@590-990",
        ]
    );
}

#[test]
fn speedscope_says_what_it_leaves_out() {
    let done = kasuri_export::speedscope::write(&sample(), &mut Vec::new()).unwrap();
    let text = done.left_out.join("; ");
    for what in ["critical sections", "counters", "arrows", "losses", "CPU"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}
