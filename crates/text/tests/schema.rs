//! The published schema describes what is printed: every key, its type, and no key more.
use crate::answers;
#[path = "../../export/tests/common/mod.rs"]
mod common;
use serde_json::{Value, json};

fn schema_of(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    let text = std::fs::read_to_string(format!("{folder}/{name}-1.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn schema() -> Value {
    schema_of("stat")
}

fn printed<T: serde::Serialize>(answer: &T) -> Value {
    let mut out = Vec::new();
    kasuri_text::json::write(answer, &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

/// What of `value` the schema does not allow. Knows the keywords that the schema uses, and objects to others, so
/// that the schema cannot say something that this does not check.
fn violations(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        let is_ok = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|t| is_type(value, t)),
                one => is_type(value, one),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.is_null() || value.as_f64() >= rule.as_f64(),
            "required" => {
                let is_there = |key: &Value| value.get(key.as_str().unwrap()).is_some();
                rule.as_array().unwrap().iter().all(is_there)
            }
            "properties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    match rule.get(key) {
                        Some(rule) => violations(root, rule, value, &format!("{at}.{key}"), found),
                        None => found.push(format!("{at}.{key}: not described")),
                    }
                }
                true
            }
            "items" => {
                for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                    violations(root, rule, value, &format!("{at}[{i}]"), found);
                }
                true
            }
            "$ref" => {
                let target = root
                    .pointer(rule.as_str().unwrap().trim_start_matches('#'))
                    .unwrap();
                violations(root, target, value, at, found);
                true
            }
            "oneOf" => {
                let fits = |rule: &&Value| {
                    let mut inner = Vec::new();
                    violations(root, rule, value, at, &mut inner);
                    inner.is_empty()
                };
                rule.as_array().unwrap().iter().filter(fits).count() == 1
            }
            _ => panic!("{at}: schema keyword {keyword} is not checked here"),
        };
        if !is_ok {
            found.push(format!("{at}: {value} is not {keyword} {rule}"));
        }
    }
}

fn is_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    }
}

fn check(value: &Value) -> Vec<String> {
    let (schema, mut found) = (schema(), Vec::new());
    violations(&schema, &schema, value, "$", &mut found);
    found
}

#[test]
fn schema_describes_all_that_is_printed() {
    assert_eq!(check(&printed(&answers::summary())), Vec::<String>::new());
    let of_nothing = kasuri_analyze::summary(&kasuri_model::Trace::default(), &Default::default());
    assert_eq!(check(&printed(&of_nothing)), Vec::<String>::new());
    let of_a_recording = kasuri_analyze::summary(&common::sample(), &Default::default());
    assert!(!of_a_recording.threads.is_empty() && !of_a_recording.annotations.is_empty());
    assert_eq!(check(&printed(&of_a_recording)), Vec::<String>::new());
    let with_samples = kasuri_analyze::summary(&common::sampled(), &Default::default());
    let paths = with_samples.call_paths.as_ref().unwrap();
    assert!(!paths.runtimes.is_empty() && paths.classes.iter().any(|c| c.meanwhile.is_some()));
    assert_eq!(check(&printed(&with_samples)), Vec::<String>::new());
}

#[test]
fn schema_objects_to_what_it_should() {
    let with_samples = kasuri_analyze::summary(&common::sampled(), &Default::default());
    let good = answers::summary();
    let good = printed(&kasuri_analyze::Summary {
        call_paths: with_samples.call_paths,
        ..good
    });
    let wrong = [
        ("/schema", json!("kasuri.stat/2")),
        ("/wall_ns", json!(1.5)),
        ("/threads/0/name", json!(null)),
        ("/threads/0/switches", json!(-1)),
        ("/annotations/0/kind", json!("play")),
        ("/switched_off/0/count", json!(null)),
        ("/call_paths/classes/0/class", json!("play")),
        ("/call_paths/classes/0/meanwhile", json!({"paths": []})),
        ("/wake_latency_ns", json!({"p50": 1})),
        (
            "/known",
            json!({"switches": true, "wakeups": true, "other_processes": true, "more": 1}),
        ),
    ];
    for (at, value) in wrong {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value;
        assert!(!check(&bad).is_empty(), "{at}");
    }
}

#[test]
fn flame_schema_describes_all_that_is_printed() {
    use kasuri_analyze::account::Class;
    use kasuri_analyze::call_paths::{FlameOptions, flame};
    let schema = schema_of("flame");
    let found = |value: &Value| {
        let mut found = Vec::new();
        violations(&schema, &schema, value, "$", &mut found);
        found
    };
    let classes = Class::ALL.into_iter().map(Some).chain([None]);
    for (class, blocked) in classes.flat_map(|class| [(class, false), (class, true)]) {
        let options = FlameOptions {
            class,
            blocked,
            ..FlameOptions::default()
        };
        let tree = printed(&flame(&common::sampled(), &options));
        assert_eq!(found(&tree), Vec::<String>::new(), "{class:?}");
    }
    let good = printed(&flame(&common::sampled(), &FlameOptions::default()));
    assert!(good["nodes"].as_array().unwrap().len() > 2);
    for (at, value) in [
        ("/schema", json!("kasuri.flame/2")),
        ("/class", json!("play")),
        ("/nodes/0/ns", json!(-1)),
        ("/nodes/0/frame/line", json!("7")),
        ("/nodes/0/frame", json!({"function": "main"})),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value;
        assert!(!found(&bad).is_empty(), "{at}");
    }
}

#[test]
fn comparison_schema_describes_all_that_is_printed() {
    let schema = schema_of("compare");
    let found = |value: &Value| {
        let mut found = Vec::new();
        violations(&schema, &schema, value, "$", &mut found);
        found
    };
    let of = |n| vec![answers::summary(); n];
    for (before, after) in [(1, 1), (4, 5), (0, 1)] {
        let printed = printed(&kasuri_analyze::compare::compare(&of(before), &of(after)));
        assert_eq!(found(&printed), Vec::<String>::new());
    }
    let mut bad = printed(&kasuri_analyze::compare::compare(&of(1), &of(1)));
    *bad.pointer_mut("/totals/0/unit").unwrap() = json!("s");
    assert!(!found(&bad).is_empty());
}

#[test]
fn info_schema_describes_all_that_is_printed() {
    let schema = schema_of("info");
    let found = |value: &Value| {
        let mut found = Vec::new();
        violations(&schema, &schema, value, "$", &mut found);
        found
    };
    for trace in [common::sample(), kasuri_model::Trace::default()] {
        let printed = printed(&kasuri_analyze::contents(&trace));
        assert_eq!(found(&printed), Vec::<String>::new());
    }
    let mut bad = printed(&kasuri_analyze::contents(&common::sample()));
    *bad.pointer_mut("/answers/0/can").unwrap() = json!("perhaps");
    assert!(!found(&bad).is_empty());
}

#[test]
fn explain_schema_describes_all_that_is_printed() {
    use kasuri_text::table::explain::explanation;
    let schema = schema_of("explain");
    let found = |value: &Value| {
        let mut found = Vec::new();
        violations(&schema, &schema, value, "$", &mut found);
        found
    };
    let of = |trace| kasuri_analyze::summary(&trace, &Default::default());
    let of_nothing = of(kasuri_model::Trace::default());
    for summary in [answers::summary(), of(common::sampled()), of_nothing] {
        let printed = printed(&explanation(&summary, "run.kasuri", 0));
        assert_eq!(found(&printed), Vec::<String>::new());
    }
    let mut bad = printed(&explanation(&answers::summary(), "run.kasuri", 0));
    *bad.pointer_mut("/classes/0/ns").unwrap() = json!("long");
    assert!(!found(&bad).is_empty());
}

#[test]
fn plan_schema_describes_all_that_is_printed() {
    use kasuri_predict::plan::{Input, Options, Recorded, Scheduler, plan};
    let schema = schema_of("plan");
    let mut input = Input {
        workers: 2,
        notes: vec!["a note".into()],
        ..Input::default()
    };
    for (strand, needs) in [vec![], vec![0], vec![0], vec![1, 2]]
        .into_iter()
        .enumerate()
    {
        input.graph.push(10, needs);
        input.task.push(strand as u32);
        input.tasks.push(Recorded {
            name: "t".into(),
            id: strand as u64,
            start_ns: Some(10 * strand as i64),
            end_ns: Some(10 * strand as i64 + 10),
            slack_ns: 0,
            is_point: false,
        });
    }
    let options = Options {
        workers: vec![1, 2],
        schedulers: Scheduler::ALL.into(),
        transfer_ns: 0,
    };
    let answer = plan(&input, &options).unwrap();
    // Four of ten on two workers, two of them beside each other: 30, and the recorded run took 40.
    assert_eq!((answer.points[1].bound_ns, answer.recorded_ns), (30, 40));
    assert!(
        answer.points[1]
            .schedules
            .iter()
            .all(|s| s.makespan_ns == 30)
    );
    // Against one worker nothing is late.
    assert_eq!((answer.lateness.len(), answer.lateness[0].late_ns), (4, 0));
    let mut found = Vec::new();
    violations(&schema, &schema, &printed(&answer), "$", &mut found);
    assert_eq!(found, Vec::<String>::new());
    let page = kasuri_text::table::plan(&answer, &kasuri_text::table::Layout::default());
    assert!(
        page.contains("on 2 workers") && page.contains("dt-misf"),
        "{page}"
    );
}
