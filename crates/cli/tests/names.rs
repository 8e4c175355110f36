//! Names of strangers reach no terminal: every command, over one recording in which each name holds what would steer one.
use crate::support::{copy_program, kasuri, repository, run, scratch};
use std::path::Path;
use std::process::{Command, Output};

/// What commands that read a recording are asked, `FILE` standing for it.
const READERS: [&[&str]; 25] = [
    &["stat", "FILE"],
    &["stat", "FILE", "--all", "-v"],
    &["stat", "FILE", "--json"],
    &["explain", "FILE"],
    &["info", "FILE"],
    &["info", "FILE", "--json"],
    &["flame", "FILE"],
    &["flame", "FILE", "--all"],
    &["flame", "FILE", "--json"],
    &["critical", "FILE"],
    &["critical", "FILE", "--json"],
    &["compare", "FILE", "FILE"],
    &["compare", "FILE", "FILE", "--json"],
    &["report", "FILE", "-o", "out.html"],
    &["locks", "FILE"],
    &["locks", "FILE", "--json"],
    &["predict", "FILE"],
    &["predict", "FILE", "--json"],
    &["plan", "FILE"],
    &["export", "FILE", "--format", "chrome-json", "-o", "out.json"],
    &["merge", "out.json", "out.json", "-o", "out.kasuri"],
    &["recover", "FILE", "-o", "saved.kasuri"],
    &["symbolize", "FILE", "-o", "named.kasuri"],
    &["where", "FILE"],
    &["where", "FILE", "--json"],
];

/// Commands that print nothing of a recording, do not end by themselves, or measure for long. `sql` and `mcp` answer with tables and JSON of a
/// program of their own; `record` is asked below.
const OTHERS: [&str; 16] = [
    "record",
    "top",
    "flight",
    "try",
    "bench",
    "run",
    "view",
    "receive",
    "sql",
    "mcp",
    "overhead",
    "events",
    "doctor",
    "completions",
    "help",
    "what-if",
];

/// Characters that a terminal takes for commands, or that change the order of what is read.
fn steers(c: char) -> bool {
    let turns = ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
    turns || (c.is_control() && c != '\n' && c != '\t') || c == '\u{200e}' || c == '\u{200f}'
}

fn assert_steers_nothing(words: &[&str], output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        if let Some(at) = text.find(steers) {
            let around: String = text[..at].chars().rev().take(60).collect();
            let around: String = around.chars().rev().collect();
            panic!("kasuri {words:?}: {around:?} and then {:?}", &text[at..].chars().next());
        }
    }
}

/// A recording by this command of a program with such names, which its file has, too.
fn record(dir: &Path) -> String {
    let bad = "p\u{1b}[31m\u{7}\n\u{202e}\u{9b}<b>;\"x";
    let source = repository().join("tests/record/names.c");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-w", "-pthread", "-I"])
        .arg(repository().join("annotate/include"))
        .args(["-o", "plain"])
        .arg(source)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    copy_program(dir.join("plain"), dir.join(bad));
    let program = format!("./{bad}");
    let words = ["record", "--", &program, "argument\u{1b}[31m\u{202e}"];
    let output = run(kasuri(dir).args(words));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_steers_nothing(&words, &output);
    let made = std::fs::read_dir(dir).unwrap().flatten();
    let mut names = made.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Its own name is after the program's.
    names.find(|name| name.ends_with(".kasuri")).unwrap()
}

#[test]
fn no_name_of_a_recording_steers_the_terminal() {
    let dir = scratch();
    let file = record(dir.path());
    for words in READERS {
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "FILE" { &*file } else { *word }).collect();
        let output = run(kasuri(dir.path()).args(&words));
        // Some have nothing to say of it, in words.
        assert!(output.status.code().is_some_and(|code| code < 2), "{words:?}: {output:?}");
        assert_steers_nothing(&words, &output);
    }
}

/// A command that is added is asked above, or said to print no names.
#[test]
fn every_command_is_asked_for_its_names() {
    let help = run(Command::new(env!("CARGO_BIN_EXE_kasuri")).arg("--help"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let listed = rest.lines().take_while(|line| !line.is_empty());
    let commands = listed
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty());
    let is_asked =
        |name: &str| READERS.iter().any(|words| words[0] == name) || OTHERS.contains(&name);
    let missing: Vec<&str> = commands.filter(|name| !is_asked(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
