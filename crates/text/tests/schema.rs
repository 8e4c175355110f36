//! The published schema describes what is printed: every key, its type, and no key more.
use crate::answers;
#[path = "../../export/tests/common/mod.rs"]
mod common;
use kasuri_analyze::call_paths::Flame;
use kasuri_analyze::compare::{Comparison, compare};
use kasuri_analyze::{AtEnd, Summary};
use kasuri_answers::locks::LocksAnswer;
use kasuri_predict::Prediction;
use kasuri_predict::plan::Plan;
use kasuri_text::table::explain::Explanation;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

fn path_of(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    format!("{folder}/{name}-1.json")
}

fn schema_of(name: &str) -> Value {
    let text = std::fs::read_to_string(path_of(name)).unwrap();
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
            "$schema" | "$id" | "$defs" | "title" | "description" | "format" | "default" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|t| is_type(value, t)),
                one => is_type(value, one),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.is_null() || value.as_f64() >= rule.as_f64(),
            "maximum" => value.is_null() || value.as_f64() <= rule.as_f64(),
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
            "oneOf" | "anyOf" => {
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

/// The schemas that the structs themselves give, by command.
fn generated() -> Vec<(&'static str, Schema)> {
    let generator = || {
        SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
    };
    vec![
        ("stat", generator().into_root_schema_for::<Summary>()),
        ("flame", generator().into_root_schema_for::<Flame>()),
        ("explain", generator().into_root_schema_for::<Explanation>()),
        (
            "locks",
            generator().into_root_schema_for::<LocksAnswer<'_>>(),
        ),
        ("predict", generator().into_root_schema_for::<Prediction>()),
        ("plan", generator().into_root_schema_for::<Plan>()),
        ("compare", generator().into_root_schema_for::<Comparison>()),
        (
            "info",
            generator().into_root_schema_for::<kasuri_text::info::Info>(),
        ),
        ("where", generator().into_root_schema_for::<AtEnd>()),
    ]
}

/// Comments break their lines, descriptions do not.
fn joined(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "description" => *text = text.replace('\n', " "),
                    other => joined(other),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(joined),
        _ => {}
    }
}

/// JSON with a line for each object and array that fits it.
fn pretty(value: &Value, depth: usize) -> String {
    let line = value.to_string();
    let indent = "  ".repeat(depth + 1);
    if line.len() + indent.len() <= 140 {
        return line;
    }
    let (open, close, items): (_, _, Vec<String>) = match value {
        Value::Object(fields) => {
            let field = |(key, value)| format!("{}: {}", json!(key), pretty(value, depth + 1));
            ('{', '}', fields.iter().map(field).collect())
        }
        Value::Array(all) => {
            let item = |value| pretty(value, depth + 1);
            ('[', ']', all.iter().map(item).collect())
        }
        _ => return line,
    };
    let items = items.join(&format!(",\n{indent}"));
    format!("{open}\n{indent}{items}\n{}{close}", "  ".repeat(depth))
}

#[test]
fn generated_schemas_are_what_the_structs_say() {
    let mut old = Vec::new();
    for (name, schema) in generated() {
        let mut schema = schema.to_value();
        schema["$id"] = format!("kasuri.{name}/1").into();
        schema["title"] = format!("kasuri {name} --json").into();
        joined(&mut schema);
        let text = pretty(&schema, 0) + "\n";
        let path = path_of(name);
        if std::env::var_os("KASURI_BLESS").is_some() {
            std::fs::write(&path, text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap() != text {
            old.push(path);
        }
    }
    let bless = "KASURI_BLESS=1 cargo test -p kasuri-text generated";
    assert!(old.is_empty(), "{old:?} are old: {bless}");
}

#[test]
fn generated_schemas_describe_all_that_is_printed() {
    let trace = common::sampled();
    let session = kasuri_analyze::Session::new(&trace, &Default::default());
    let prediction = kasuri_answers::predict::predict(&session, None, &Default::default());
    let prediction = prediction.unwrap();
    let locks = LocksAnswer::new(session.locks(), Some(&prediction));
    let summaries = vec![answers::summary(); 4];
    let one_sided = compare(&[], &summaries);
    for (name, answer) in [
        ("locks", printed(&locks)),
        ("predict", printed(&prediction)),
        ("compare", printed(&compare(&summaries, &summaries))),
        ("compare", printed(&one_sided)),
        ("info", printed(&kasuri_text::info::info(&trace))),
        (
            "info",
            printed(&kasuri_text::info::info(&Default::default())),
        ),
    ] {
        let (schema, mut found) = (schema_of(name), Vec::new());
        violations(&schema, &schema, &answer, "$", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
    let mut bad = printed(&locks);
    *bad.pointer_mut("/locks/0/pid").unwrap() = json!("7");
    let (schema, mut found) = (schema_of("locks"), Vec::new());
    violations(&schema, &schema, &bad, "$", &mut found);
    assert!(!found.is_empty());
}
