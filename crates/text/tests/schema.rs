//! The published schema describes what is printed: every key, its type, and no key more.
use crate::answers;
#[path = "../../export/tests/common/mod.rs"]
mod common;
use kasuri_analyze::compare::compare;
use kasuri_answers::critical::Critical;
use kasuri_answers::explain::explanation;
use kasuri_answers::info::Info;
use kasuri_answers::locks::LocksAnswer;
use kasuri_testkit::schema::violations;
use serde_json::{Value, json};

fn printed<T: serde::Serialize>(answer: &T) -> Value {
    let mut out = Vec::new();
    kasuri_text::json::write(answer, &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

fn check(value: &Value) -> Vec<String> {
    violations("stat", value)
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
    let good = printed(&kasuri_analyze::Summary { call_paths: with_samples.call_paths, ..good });
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
        ("/known", json!({"switches": true, "wakeups": true, "other_processes": true, "more": 1})),
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
    let found = |value: &Value| violations("flame", value);
    let classes = Class::ALL.into_iter().map(Some).chain([None]);
    for (class, blocked) in classes.flat_map(|class| [(class, false), (class, true)]) {
        let options = FlameOptions { class, blocked, ..FlameOptions::default() };
        let tree = printed(&flame(&common::sampled(), &options));
        assert_eq!(found(&tree), Vec::<String>::new(), "{class:?}");
    }
    let good = printed(&flame(&common::sampled(), &FlameOptions::default()));
    assert!(good["nodes"].as_array().unwrap().len() > 2);
    for (at, value) in [
        ("/schema", json!("kasuri.flame/2")),
        ("/class", json!("play")),
        ("/nodes/0/ns", json!(1.5)),
        ("/nodes/0/frame/line", json!("7")),
        ("/nodes/0/frame", json!({"function": "main"})),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value;
        assert!(!found(&bad).is_empty(), "{at}");
    }
}

#[test]
fn explain_schema_describes_all_that_is_printed() {
    let found = |value: &Value| violations("explain", value);
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
fn generated_schemas_describe_all_that_is_printed() {
    let trace = common::sampled();
    let session = kasuri_analyze::Session::new(&trace, &Default::default());
    let prediction = kasuri_answers::predict::predict(&session, None, &Default::default());
    let prediction = prediction.unwrap();
    let path = kasuri_analyze::critical_path::critical_path(&trace);
    assert!(!path.entries.is_empty() && !path.what_if.is_empty());
    let critical = Critical::new(path, 0);
    let locks = LocksAnswer::new(session.locks(), Some(&prediction));
    let summaries = vec![answers::summary(); 4];
    let one_sided = compare(&[], &summaries);
    for (name, answer) in [
        ("critical", printed(&critical)),
        ("locks", printed(&locks)),
        ("predict", printed(&prediction)),
        ("compare", printed(&compare(&summaries, &summaries))),
        ("compare", printed(&one_sided)),
        ("info", printed(&Info::new("run.kasuri".into(), &trace))),
        ("info", printed(&Info::new(String::new(), &Default::default()))),
    ] {
        assert_eq!(violations(name, &answer), Vec::<String>::new(), "{name}");
    }
    let mut bad = printed(&locks);
    *bad.pointer_mut("/locks/0/pid").unwrap() = json!("7");
    assert!(!violations("locks", &bad).is_empty());
}
