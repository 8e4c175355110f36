//! The published schemas of what commands print as JSON: generated from the structs that are printed, and held against what is.
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

fn path_of(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    format!("{folder}/{name}-1.json")
}

/// The schema in docs/schema.
///
/// # Panics
/// When there is none.
pub fn published(name: &str) -> Value {
    let text = std::fs::read_to_string(path_of(name)).expect(name);
    serde_json::from_str(&text).expect(name)
}

/// The schema that a struct itself gives, and the name of the command that prints it.
pub fn generated<T: JsonSchema>(name: &'static str) -> (&'static str, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    (name, schema.to_value())
}

/// Holds generated schemas against the published ones; with KASURI_BLESS set publishes them instead.
///
/// # Panics
/// When one is old.
pub fn publish(schemas: Vec<(&'static str, Value)>) {
    let mut old = Vec::new();
    for (name, mut schema) in schemas {
        schema["$id"] = format!("kasuri.{name}/1").into();
        let title = match name {
            "baseline" => "kasuri bench --save".to_owned(),
            "sql" => "kasuri sql --list --format json".to_owned(),
            "usdt" => "kasuri events --usdt --json".to_owned(),
            "volume" => "kasuri overhead --volume --json".to_owned(),
            "what_if" => "kasuri try --what-if --json".to_owned(),
            name => format!("kasuri {name} --json"),
        };
        schema["title"] = title.into();
        joined(&mut schema);
        let text = pretty(&schema, 0) + "\n";
        let path = path_of(name);
        if std::env::var_os("KASURI_BLESS").is_some() {
            std::fs::write(&path, text).expect("a schema");
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            old.push(path);
        }
    }
    let bless = "KASURI_BLESS=1 cargo nextest run -E 'test(generated_schemas)'";
    assert!(old.is_empty(), "{old:?} are old: {bless}");
}

/// What of `value` the published schema does not allow.
pub fn violations(name: &str, value: &Value) -> Vec<String> {
    let (schema, mut found) = (published(name), Vec::new());
    violations_of(&schema, &schema, value, "$", &mut found);
    found
}

/// Knows the keywords that the schema uses, and objects to others, so
/// that the schema cannot say something that this does not check.
fn violations_of(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = schema.as_object().expect("a schema");
    let others = schema.get("additionalProperties");
    for (keyword, rule) in schema {
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
                        Some(rule) => {
                            violations_of(root, rule, value, &format!("{at}.{key}"), found)
                        }
                        None if others.is_some() => {}
                        None => found.push(format!("{at}.{key}: not described")),
                    }
                }
                true
            }
            "items" => {
                for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                    violations_of(root, rule, value, &format!("{at}[{i}]"), found);
                }
                true
            }
            "additionalProperties" => {
                let named = schema.get("properties");
                for (key, value) in value.as_object().into_iter().flatten() {
                    if named.is_none_or(|named| named.get(key).is_none()) {
                        violations_of(root, rule, value, &format!("{at}.{key}"), found);
                    }
                }
                true
            }
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten();
                for (i, (value, rule)) in items.zip(rule.as_array().unwrap()).enumerate() {
                    violations_of(root, rule, value, &format!("{at}[{i}]"), found);
                }
                true
            }
            "minItems" => length(value).is_none_or(|n| Some(n) >= rule.as_u64()),
            "maxItems" => length(value).is_none_or(|n| Some(n) <= rule.as_u64()),
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap();
                violations_of(root, target, value, at, found);
                true
            }
            "oneOf" | "anyOf" => {
                let fits = |rule: &&Value| {
                    let mut inner = Vec::new();
                    violations_of(root, rule, value, at, &mut inner);
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

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|all| all.len() as u64)
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

/// JSON with a line for each property, and for each object and array that has none and is no longer than a screen's few lines.
fn pretty(value: &Value, depth: usize) -> String {
    let line = value.to_string();
    let indent = "  ".repeat(depth + 1);
    if line.len() + indent.len() <= 140 || (line.len() <= 500 && value.get("properties").is_none())
    {
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
