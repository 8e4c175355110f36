//! `kasuri mcp` as a client sees it, byte for byte on its pipes: the protocol, the answers, and what hostile clients, names and files get.
//!
//! The client here is written from the protocol's specification and shares no code with the SDK that the server uses. python/tests/test_mcp.py asks with the
//! protocol's own client for Python, and in SQL.
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/kasuri")
}

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    fn start(args: &[&str], dir: &Path) -> Client {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kasuri"))
            .arg("mcp")
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built with this test");
        let mut client = Client {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            id: 0,
        };
        let hello = client.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "kasuri", "{hello}");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// The next message of the server.
    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server has ended");
        assert!(line.len() < 100_000, "{} bytes", line.len());
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        loop {
            let answer = self.hear();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// What a tool answers: whether it failed, its first text, and its notes.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, String, String) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let texts = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let mut texts = texts.iter().map(|block| block["text"].as_str().unwrap().to_owned());
        let first = texts.next().unwrap_or_default();
        (result["isError"] == true, first, texts.collect::<Vec<_>>().join("\n"))
    }

    fn good(&mut self, tool: &str, arguments: Value) -> String {
        let (failed, text, _) = self.call(tool, arguments.clone());
        assert!(!failed, "{tool} {arguments}: {text}");
        text
    }

    fn bad(&mut self, tool: &str, arguments: Value) -> String {
        let (failed, text, _) = self.call(tool, arguments.clone());
        assert!(failed, "{tool} {arguments}: {text}");
        text
    }

    fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Hangs up; the server ends in order.
    fn end(mut self) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the command line prints.
fn printed(args: &[&str], dir: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(args)
        .current_dir(dir)
        .env("COLUMNS", "120")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn answers_are_those_of_the_command_line() {
    let roots = ["--root", ".", "--root", "../perf_profile"];
    let mut client = Client::start(&roots, &golden());
    let tools = client.tools();
    assert!(
        tools.contains(&"explain".to_owned()) && !tools.contains(&"record".to_owned()),
        "{tools:?}"
    );
    let list = client.good("list_recordings", json!({}));
    assert!(list.contains("\"mix.kasuri\" "), "{list}");
    let recording = json!({"recording": "mix.kasuri"});
    let same = [
        ("explain", &["explain", "mix.kasuri"] as &[&str]),
        ("info", &["info", "--top=50", "mix.kasuri"]),
        ("account", &["stat", "--top=50", "mix.kasuri"]),
        ("critical_path", &["critical", "--top=30", "mix.kasuri"]),
    ];
    for (tool, args) in same {
        assert_eq!(client.good(tool, recording.clone()), printed(args, &golden()), "{tool}");
    }
    let absolute = golden().canonicalize().unwrap().join("mix.kasuri");
    let more = [
        ("account", json!({"recording": "mix.kasuri", "section": "threads"}), "planted"),
        ("account", json!({"recording": absolute, "range": "10ms..20ms"}), "where the time went"),
        ("locks", json!({"recording": "locks.kasuri"}), "lock"),
        ("call_paths", json!({"recording": "clock.data", "invert": true}), "SELF"),
        ("thread_time", json!({"recording": "mix.kasuri", "thread": "planted 1"}), "planted 1"),
        ("compare", json!({"before": "mix.kasuri", "after": "mix.kasuri"}), "mix"),
    ];
    for (tool, arguments, word) in more {
        let text = client.good(tool, arguments.clone());
        assert!(text.contains(word), "{tool} {arguments}: {text}");
        assert!(!text.contains("/proc/"), "{text}");
    }
    client.end();
}

#[test]
fn long_answers_come_in_pages() {
    let mut client = Client::start(&[], &golden());
    let asked = json!({"recording": "mix.kasuri", "json": true});
    let (_, mut all, mut note) = client.call("account", asked.clone());
    while let Some((_, rest)) = note.split_once("\"cursor\": \"") {
        let mut next = asked.clone();
        next["cursor"] = rest.split('"').next().unwrap().into();
        let (failed, text, more) = client.call("account", next);
        assert!(!failed && text.len() <= 10_000, "{text}");
        all += &text;
        note = more;
    }
    let whole = printed(&["stat", "--json", "--top=50", "mix.kasuri"], &golden());
    assert!(whole.len() > 20_000 && all == whole, "{} of {}", all.len(), whole.len());
    let why = client.bad("account", json!({"recording": "mix.kasuri", "cursor": "0.5"}));
    assert!(why.contains("cursor"), "{why}");
}

#[test]
fn hostile_requests_get_errors_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret.kasuri");
    std::fs::copy(golden().join("mix.kasuri"), &secret).unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::copy(golden().join("mix.kasuri"), root.join("-v")).unwrap();
    std::fs::write(root.join("a\u{1b}[2J\nb"), b"no recording").unwrap();
    std::os::unix::fs::symlink(&secret, root.join("link.kasuri")).unwrap();
    let mut client = Client::start(&[], &root);
    for name in [
        "../secret.kasuri",
        "link.kasuri",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "/proc/self/environ",
    ] {
        let why = client.bad("explain", json!({"recording": name}));
        assert!(why.contains("leads out"), "{name}: {why}");
    }
    let list = client.good("list_recordings", json!({}));
    assert!(!list.contains('\u{1b}') && list.lines().count() == 2, "{list}");
    assert!(client.bad("list_recordings", json!({"folder": ".."})).contains("leads out"));
    // Words that look like options are names, and names of no thread are told.
    assert!(client.good("explain", json!({"recording": "-v"})).contains("planted"));
    assert!(
        client
            .bad("thread_time", json!({"recording": "-v", "thread": "--help"}))
            .contains("--help")
    );
    let why = client.bad("info", json!({"recording": "a\u{1b}[2J\nb"}));
    assert!(!why.contains('\u{1b}'), "{why}");
    for wrong in [
        json!({}),
        json!({"recording": 1}),
        json!({"recording": "x", "output": "y"}),
        json!({"recording": "x".repeat(5000)}),
    ] {
        client.bad("explain", wrong);
    }
    let refused = client.ask(
        "tools/call",
        json!({"name": "record", "arguments": {"output": "x.kasuri", "program": ["id"]}}),
    );
    assert!(refused["error"]["message"].as_str().unwrap().contains("no tool"), "{refused}");
    // What is no request at all.
    let deep = "[".repeat(100_000);
    for garbage in ["{", "nonsense", "[]", "{\"jsonrpc\":\"2.0\",\"id\":{}}", &deep, "\u{0}\u{1}"] {
        client.send(garbage);
    }
    client.send(&"x".repeat(3 << 20));
    let text = client.good("explain", json!({"recording": "-v"}));
    assert!(text.contains("planted"), "{text}");
    client.end();
}

#[test]
fn programs_run_only_where_the_command_line_allows_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::start(&["--allow-record"], dir.path());
    assert!(client.tools().contains(&"record".to_owned()));
    std::fs::write(dir.path().join("there.kasuri"), b"kept").unwrap();
    for name in ["../out.kasuri", "/tmp/out.kasuri", "there.kasuri", "out"] {
        client.bad("record", json!({"output": name, "program": ["true"]}));
    }
    assert_eq!(std::fs::read(dir.path().join("there.kasuri")).unwrap(), b"kept");
    let text = client
        .good("record", json!({"output": "new.kasuri", "program": ["echo", "hello from it"]}));
    assert!(text.contains("hello from it"), "{text}");
    assert!(
        client.good("explain", json!({"recording": "new.kasuri"})).contains("`echo hello from it`")
    );
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    client.end();
}
