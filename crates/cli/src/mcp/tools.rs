//! The tools: what they are called, what they take, and the command that answers each.
use super::answer::Question;
use super::roots::{Opened, Place, Roots};
use anyhow::{Context, bail};
use kasuri_analyze::account::Class;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes of any text from the client but a query.
const WORD: usize = 1_000;
/// Bytes of a query, and of a program's arguments in all.
const QUERY: usize = 20_000;
/// Longest recording that a client may ask for.
const RECORD_S: u64 = 600;

/// What answers a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The server itself.
    List,
    /// A command that reads.
    Read,
    /// A command that needs DuckDB.
    Sql,
    /// A command that runs programs.
    Run,
}

/// A tool.
pub struct ToolRow {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub about: &'static str,
    /// See [`Kind`].
    pub kind: Kind,
    /// The arguments that it takes, of those in [`property`]; the first `required` of them are needed.
    pub takes: &'static [&'static str],
    /// See `takes`.
    pub required: usize,
}

const fn tool(
    name: &'static str,
    kind: Kind,
    required: usize,
    takes: &'static [&'static str],
    about: &'static str,
) -> ToolRow {
    ToolRow { name, about, kind, takes, required }
}

/// All of them, in the order in which a client sees them.
pub const TOOLS: [ToolRow; 13] = [
    tool(
        "list_recordings",
        Kind::List,
        0,
        &["folder", "cursor"],
        "List the recordings and folders that may be read.",
    ),
    tool(
        "info",
        Kind::Read,
        1,
        &["recording", "cursor"],
        "Open a recording or another tool's trace: its format, duration, events, losses, and which questions it can answer.",
    ),
    tool(
        "explain",
        Kind::Read,
        1,
        &["recording", "range", "process", "cursor"],
        "Explain where the CPU time went, on one page of Markdown: the account, the causes of each loss with file:line, what to try. Begin with this.",
    ),
    tool(
        "account",
        Kind::Read,
        1,
        &["recording", "section", "range", "process", "thread", "json", "cursor"],
        "Where every CPU-second went, by class and cause; `section` has other tables: threads, cpus, waits, imbalance, migrations...",
    ),
    tool(
        "call_paths",
        Kind::Read,
        1,
        &[
            "recording",
            "class",
            "blocked",
            "invert",
            "thread",
            "range",
            "process",
            "json",
            "cursor",
        ],
        "The functions that CPU time went to, as a tree of calls; of a class of the account, or of blocked time.",
    ),
    tool(
        "locks",
        Kind::Read,
        1,
        &["recording", "range", "process", "json", "cursor"],
        "Locks: how long they were held, who waited for them and why.",
    ),
    tool(
        "critical_path",
        Kind::Read,
        1,
        &["recording", "process", "json", "cursor"],
        "The chain of running and waiting threads that decided how long the run took, and what shortening each part would gain.",
    ),
    tool(
        "thread_time",
        Kind::Read,
        2,
        &["recording", "thread", "range", "process", "json", "cursor"],
        "Where the time of one thread went: running, ready, waiting, and for what.",
    ),
    tool(
        "compare",
        Kind::Read,
        2,
        &["before", "after", "process", "json", "cursor"],
        "What changed between two recordings.",
    ),
    tool(
        "sql_tables",
        Kind::Sql,
        0,
        &["cursor"],
        "The tables and built-in queries that `sql` knows, as JSON.",
    ),
    tool(
        "sql",
        Kind::Sql,
        2,
        &["recording", "query", "process", "cursor"],
        "Ask a recording in SQL (DuckDB), or by the name of a built-in query. The answer is CSV. Only the recording's tables can be read.",
    ),
    tool(
        "record",
        Kind::Run,
        2,
        &["output", "program", "seconds", "locks", "openmp"],
        "Run a program and record it into a new file; its exit status and what it printed are told.",
    ),
    tool(
        "try_remedies",
        Kind::Run,
        1,
        &["program", "seconds"],
        "Run a program many times with settings that its account makes plausible (threads, placement, allocators...), and say which makes it faster.",
    ),
];

/// The JSON Schema of an argument.
fn property(name: &str) -> Value {
    let text = |about: &str| json!({"type": "string", "description": about, "maxLength": WORD});
    let flag = |about: &str| json!({"type": "boolean", "description": about});
    match name {
        "recording" => text("Path of the recording, as list_recordings shows it."),
        "before" => text("Path of the first recording."),
        "after" => text("Path of the second recording."),
        "folder" => text("Folder to list; default: the top."),
        "range" => text("Only this range, from the recording's start: 1.5s..2s, 100ms.., ..20%"),
        "process" => text("Take this process (name or PID) and what it started for the program."),
        "thread" => text("Take this thread only: its name or TID; for call_paths its TID."),
        "section" => {
            json!({"type": "string", "enum": sections(), "description": "The table to print; default: where the time went, on one screen."})
        }
        "class" => {
            json!({"type": "string", "enum": Class::ALL.map(Class::key), "description": "What explains this class of the account."})
        }
        "blocked" => flag("The calls that threads were blocked in, instead of what ran."),
        "invert" => flag("Innermost functions first."),
        "json" => flag("Answer in JSON (docs/schema) instead of text."),
        "cursor" => text("From the answer before, for its next page."),
        "query" => {
            json!({"type": "string", "description": "SQL, or the name of a built-in query (sql_tables).", "maxLength": QUERY})
        }
        "output" => text("Name of the new recording; ends with .kasuri."),
        "program" => {
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "The program and its arguments; no shell."})
        }
        "seconds" => {
            json!({"type": "integer", "minimum": 1, "maximum": RECORD_S, "description": "Longest time that it may take; default 60."})
        }
        "locks" => flag("Also record each pthread lock, condition variable and barrier."),
        "openmp" => flag("Also record OpenMP's regions, loops and barriers."),
        other => unreachable!("{other} has no schema"),
    }
}

fn sections() -> Vec<&'static str> {
    let all = kasuri_text::table::Section::ALL;
    all.map(kasuri_text::table::Section::name).to_vec()
}

impl ToolRow {
    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> Value {
        let properties = self.takes.iter().map(|&name| (name.to_owned(), property(name)));
        json!({
            "type": "object",
            "properties": properties.collect::<serde_json::Map<String, Value>>(),
            "required": self.takes[..self.required],
            "additionalProperties": false,
        })
    }
}

/// What a client gave. Which of it a tool takes is checked by name first.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    recording: Option<String>,
    before: Option<String>,
    after: Option<String>,
    folder: Option<String>,
    range: Option<String>,
    process: Option<String>,
    thread: Option<String>,
    section: Option<String>,
    class: Option<String>,
    blocked: bool,
    invert: bool,
    json: bool,
    /// See `property`.
    pub cursor: Option<String>,
    query: Option<String>,
    output: Option<String>,
    program: Vec<String>,
    seconds: Option<u64>,
    locks: bool,
    openmp: bool,
}

impl Given {
    /// Understands the arguments of a call.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(tool: &ToolRow, arguments: serde_json::Map<String, Value>) -> anyhow::Result<Given> {
        for name in arguments.keys() {
            if !tool.takes.contains(&name.as_str()) {
                bail!("{} takes no such argument, only {}", tool.name, tool.takes.join(", "));
            }
        }
        for name in &tool.takes[..tool.required] {
            if !arguments.contains_key(*name) {
                bail!("{} needs the argument {name}", tool.name);
            }
        }
        let given: Given = serde_json::from_value(Value::Object(arguments))?;
        let words = [
            &given.recording,
            &given.before,
            &given.after,
            &given.folder,
            &given.range,
            &given.process,
            &given.thread,
            &given.section,
            &given.class,
            &given.cursor,
            &given.output,
        ];
        for word in words.into_iter().flatten() {
            if word.len() > WORD || word.contains('\0') {
                bail!(
                    "an argument has {} bytes, or NUL, needed a text of at most {WORD}",
                    word.len()
                );
            }
        }
        let long = given.query.iter().chain(&given.program);
        if long.clone().map(String::len).sum::<usize>() > QUERY
            || long.into_iter().any(|text| text.contains('\0'))
        {
            bail!(
                "needed a query, or a program with its arguments, of at most {QUERY} bytes without NUL"
            );
        }
        Ok(given)
    }

    /// The folder to list.
    pub fn folder(&self) -> &str {
        self.folder.as_deref().filter(|folder| !folder.is_empty()).unwrap_or(".")
    }
}

/// A question, and what has to stay open until it is answered.
pub struct Asked {
    /// The command.
    pub question: Question,
    /// Its own limit of time.
    pub time: Option<Duration>,
    _files: Vec<Opened>,
    _place: Option<Place>,
}

/// The question that a call asks.
///
/// # Errors
/// When a file cannot be opened, or an argument is wrong.
pub fn question(tool: &ToolRow, given: &Given, roots: &Roots) -> anyhow::Result<Asked> {
    let files = [&given.recording, &given.before, &given.after];
    let files = files.into_iter().flatten().map(|name| roots.file(name));
    let files = files.collect::<anyhow::Result<Vec<Opened>>>()?;
    let place = given.output.as_deref().map(|name| roots.place(name)).transpose()?;
    let (args, time) = command(tool, given, &files, place.as_ref())?;
    let mut names: Vec<(String, String)> =
        files.iter().map(|file| (file.path(), shown(&file.name))).collect();
    names.extend(place.iter().map(|place| (place.path(), shown(&place.name))));
    // A longer number first: /proc/1/fd/1 begins that of /proc/1/fd/10.
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    Ok(Asked {
        question: Question {
            args,
            names,
            identity: (tool.kind != Kind::Run)
                .then(|| files.iter().map(|file| file.identity).collect()),
            otherwise: "nothing: the recording has no such rows\n".into(),
        },
        time,
        _files: files,
        _place: place,
    })
}

/// The name as it stands in answers, which hold it in commands of a shell, in Markdown and in JSON: whatever any of them could obey is
/// replaced.
fn shown(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The command that answers, and its own limit of time.
fn command(
    tool: &ToolRow,
    given: &Given,
    files: &[Opened],
    place: Option<&Place>,
) -> anyhow::Result<(Vec<String>, Option<Duration>)> {
    let mut args = match tool.name {
        "info" => words(&["info", "--top=50"]),
        "explain" => words(&["explain"]),
        "account" | "thread_time" => words(&["stat", "--top=50"]),
        "call_paths" => words(&["flame"]),
        "locks" => words(&["locks", "--top=30"]),
        "critical_path" => words(&["critical", "--top=30"]),
        "compare" => words(&["compare", "--top=30"]),
        "sql_tables" => words(&["sql", "--list", "--format=json"]),
        "sql" => words(&["sql", "--confined", "--format=csv"]),
        "record" => words(&["record"]),
        "try_remedies" => words(&["try"]),
        other => bail!("no tool {other}"),
    };
    if tool.name == "thread_time" {
        args.push("--section=account,threads,waits,migrations".into());
    }
    // With the value in the same word, no value is taken for an option.
    let values = [
        ("--range", &given.range),
        ("--process", &given.process),
        ("--thread", &given.thread),
        ("--section", &given.section),
        ("--loss", &given.class),
    ];
    for (option, value) in values {
        args.extend(value.iter().map(|value| format!("{option}={value}")));
    }
    let flags = [
        ("--blocked", given.blocked),
        ("--invert", given.invert),
        ("--json", given.json),
        ("--openmp", given.openmp),
        ("--locks", given.locks),
    ];
    args.extend(flags.iter().filter(|flag| flag.1).map(|flag| flag.0.to_owned()));
    let mut time = None;
    let seconds = given.seconds.unwrap_or(60).clamp(1, RECORD_S);
    match tool.kind {
        Kind::Run => {
            if tool.name == "record" {
                let place = place.context("record needs the argument output")?;
                args.extend([
                    format!("--output={}", place.path()),
                    format!("--duration={seconds}s"),
                ]);
            } else {
                args.push(format!("--time={seconds}s"));
            }
            // Packing, or the run that is in progress, comes after.
            time = Some(Duration::from_secs(2 * seconds + 60));
            args.push("--".into());
            args.extend(given.program.iter().cloned());
        }
        // Only paths of descriptors: no word of the client's, and never after `--`, where `kasuri locks` takes a program.
        _ => args.extend(files.iter().map(Opened::path)),
    }
    if let Some(query) = &given.query {
        args.extend(["--".into(), query.clone()]);
    }
    Ok((args, time))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_of_every_tool_has_a_schema() {
        for tool in &TOOLS {
            let schema = tool.schema();
            assert_eq!(schema["required"].as_array().unwrap().len(), tool.required);
            let properties = schema["properties"].as_object().unwrap();
            assert_eq!(properties.len(), tool.takes.len(), "{}", tool.name);
        }
    }

    #[test]
    fn wrong_arguments_are_told() {
        let tool = TOOLS.iter().find(|tool| tool.name == "account").unwrap();
        let given = |value: Value| Given::new(tool, value.as_object().unwrap().clone());
        assert!(given(json!({"recording": "a", "thread": "-v"})).is_ok());
        for bad in [
            json!({}),
            json!({"recording": 7}),
            json!({"recording": "a", "query": "x"}),
            json!({"recording": "a".repeat(2_000)}),
            json!({"recording": "a", "range": "x\0y"}),
            json!({"recording": "a", "json": "yes"}),
        ] {
            assert!(given(bad.clone()).is_err(), "{bad}");
        }
    }
}
