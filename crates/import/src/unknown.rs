//! Says in words what a file looks like that no reader knows, and what to do about it.
use crate::{File, chrome, ftrace_text};
use serde::de::IgnoredAny;

/// Beginnings of files that people take for a trace, or in which a trace may be.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\xfd7zXZ\0", "is packed by xz: unpack it first (`xz -d -k`)"),
    (b"BZh", "is packed by bzip2: unpack it first (`bzip2 -d -k`)"),
    (b"\x04\x22\x4d\x18", "is packed by lz4: unpack it first (`lz4 -d`)"),
    (b"7z\xbc\xaf\x27\x1c", "is an archive of 7-Zip: unpack it first (`7z x`)"),
    (b"PK\x05\x06", "is a zip archive without files"),
    (b"\xff\xfe", "begins like text in UTF-16: `iconv -f UTF-16 -t UTF-8` makes it readable"),
    (b"\xfe\xff", "begins like text in UTF-16: `iconv -f UTF-16 -t UTF-8` makes it readable"),
    (
        b"\xc1\x1f\xfc\xc1",
        "is one stream of a CTF trace: give the folder that has `metadata` in it",
    ),
    (
        b"\xc1\xfc\x1f\xc1",
        "is one stream of a CTF trace, of the other byte order: give the folder that has `metadata` in it",
    ),
    (b"\x57\x1d\xd1\x75", CTF_METADATA),
    (b"\x75\xd1\x1d\x57", CTF_METADATA),
    (b"SQLite format 3\0", "is a database of SQLite"),
    (b"%PDF-", "is a PDF document"),
    (b"\x89PNG", "is a picture"),
    (b"\xff\xd8\xff", "is a picture"),
    (b"GIF8", "is a picture"),
    (b"MZ", "begins like a program for Windows"),
    (b"\xcf\xfa\xed\xfe", "is a program for macOS"),
    (b"\xca\xfe\xba\xbe", "is a class of Java, or a program for macOS"),
    (b"\0asm", "is a program in WebAssembly"),
    (b"JAVA PROFILE", "is a dump of a Java heap, which tells one moment: no trace"),
    (b"FLR\0", "is a recording of Java's Flight Recorder, which is not read"),
    (b"\xd4\xc3\xb2\xa1", "is a capture of network packets"),
    (b"\x0a\x0d\x0d\x0a", "is a capture of network packets"),
    (b"PAR1", "is a table in Parquet, and no trace"),
    (
        b"PERFFILE",
        "is a perf.data of the first version, which only the perf that wrote it reads: `perf script` prints it as text that is read",
    ),
];

/// Metadata that is not named so, or whose folder was not given.
const CTF_METADATA: &str =
    "is the metadata of a CTF trace: give the folder that it is in, where its name is `metadata`";

/// Beginnings of other tools' text, and what to do about it.
const TEXTS: &[(&str, &str)] = &[
    ("/* CTF ", CTF_METADATA),
    (
        "# To display the perf.data header info",
        "is what `perf report` prints: the perf.data itself is read, and what `perf script` prints of tracepoints",
    ),
    ("Performance counter stats for", "is what `perf stat` prints: sums, and no trace"),
    ("<?xml", "is XML, and no trace"),
    ("<svg", "is a picture"),
];

/// Members that tell of other tools' JSON.
const PROFILES: &[(&str, &str)] = &[
    ("$schema", "is JSON of another kind, as its schema says"),
    (
        "timeDeltas",
        "is a CPU profile of V8 (`.cpuprofile`), which is not read: `node --perf-prof` and `perf record` make one that is",
    ),
];

/// Where tar's magic is.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// Bytes of a file that are looked at for ftrace's text between NUL bytes.
const LOOK_BYTES: usize = 1 << 20;
/// Names and characters in a message.
const NAMED: usize = 5;
const SHOWN: usize = 60;

/// What the file looks like, as the rest of a sentence about it.
pub(crate) fn looks(file: &File<'_>) -> String {
    let bytes = file.bytes;
    if bytes.is_empty() {
        return "is empty".to_owned();
    }
    if bytes.starts_with(b"\x7fELF") {
        return elf(file);
    }
    if bytes.starts_with(b"#!") {
        return format!(
            "begins like a script: did you mean `kasuri record -- {}`?",
            command(file.name)
        );
    }
    if let Some((_, what)) = BEGINNINGS.iter().find(|(head, _)| bytes.starts_with(head)) {
        return (*what).to_owned();
    }
    if bytes.get(TAR.0..).is_some_and(|at| at.starts_with(TAR.1)) {
        return "is an archive of tar: unpack it first (`tar -xf`)".to_owned();
    }
    json(bytes).or_else(|| zeros(bytes)).or_else(|| text(bytes)).unwrap_or_else(|| {
        let head = &bytes[..bytes.len().min(8)];
        format!("begins with the bytes {head:02x?}, which no format has")
    })
}

/// A program, or another kind of ELF file.
fn elf(file: &File<'_>) -> String {
    // e_type, whose byte order e_ident[EI_DATA] tells.
    let kind = match (file.bytes.get(5), file.bytes.get(16..18)) {
        (Some(2), Some(&[high, low])) => u16::from_be_bytes([high, low]),
        (_, Some(&[low, high])) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    match kind {
        1 => "is an ELF object file, not a program and no trace".to_owned(),
        4 => "is the core dump of a program, which tells one moment: no trace".to_owned(),
        _ => format!(
            "begins like an ELF program: did you mean `kasuri record -- {}`?",
            command(file.name)
        ),
    }
}

/// The path as the shell needs it to run the file.
fn command(path: &str) -> String {
    if ["-", "stdin"].contains(&path) || path.starts_with("/dev/") {
        return "PROGRAM".to_owned();
    }
    let path = if path.contains('/') { path.to_owned() } else { format!("./{path}") };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if path.chars().all(is_plain) {
        return path;
    }
    let quoted = path.chars().map(|c| match c {
        '\'' => r"'\''".to_owned(),
        c if c.is_control() => c.escape_debug().to_string(),
        c => c.to_string(),
    });
    format!("'{}'", quoted.collect::<String>())
}

/// JSON without events.
fn json(bytes: &[u8]) -> Option<String> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = text.trim_ascii_start();
    match text.first()? {
        // Lines of logs begin with brackets, too.
        b'[' if text[1..].trim_ascii_start().starts_with(b"]") => {
            Some("is JSON, a list without events".to_owned())
        }
        b'[' if text[1..].trim_ascii_start().starts_with(b"{") => {
            Some("begins like a JSON list whose first event has no phase (`ph`)".to_owned())
        }
        // Of lists, strings or numbers. Lines of logs, `[    0.000000] Linux`, are no JSON.
        b'[' if is_json_list(text) => Some("is a JSON list, but not of events".to_owned()),
        b'{' => {
            let (names, is_cut) = chrome::members(bytes, NAMED + 1);
            if names.is_empty() && is_cut {
                return None;
            }
            let known = PROFILES.iter().find(|(name, _)| names.iter().any(|n| n == name));
            if let Some((_, what)) = known {
                return Some((*what).to_owned());
            }
            let shown: Vec<String> = names.iter().take(NAMED).map(|name| shown(name)).collect();
            let more = if names.len() > NAMED { ", ..." } else { "" };
            let found = match shown.is_empty() {
                true => "it has no members".to_owned(),
                false => format!("its members are {}{more}", shown.join(", ")),
            };
            Some(format!("is JSON without `traceEvents`: {found}"))
        }
        _ => None,
    }
}

/// Whether a list of JSON begins here, whose first element is neither an object nor cut off.
fn is_json_list(text: &[u8]) -> bool {
    let head = &text[1..text.len().min(LOOK_BYTES)];
    let mut values = serde_json::Deserializer::from_slice(head).into_iter::<IgnoredAny>();
    let is_value = matches!(values.next(), Some(Ok(_)));
    let after = head[values.byte_offset()..].trim_ascii_start();
    is_value
        && matches!(after.first(), Some(b',' | b']'))
        && (after[0] == b',' || after[1..].trim_ascii().is_empty())
}

/// Text of ftrace that has NUL bytes in it, as a crash or a full disk leave them; or nothing but these.
fn zeros(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(LOOK_BYTES)];
    let at = head.iter().position(|&b| b == 0)?;
    let n = bytes[at..].iter().take_while(|&&b| b == 0).count();
    if n == bytes.len() {
        return Some(format!(
            "has nothing but NUL bytes in its first {n} bytes: it was never written"
        ));
    }
    let text: Vec<u8> = head.iter().copied().filter(|&b| b != 0).collect();
    let file = File { name: "", bytes: &text };
    if !ftrace_text::detect(&[file]) {
        return None;
    }
    Some(format!(
        "is ftrace text with a run of {n} NUL bytes at byte {at}: `tr -d '\\000'` leaves the text, from which events may be missing"
    ))
}

/// Other text: its first line says what it is.
fn text(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(4096)];
    let line = head.trim_ascii_start().split(|&b| b == b'\n').next()?;
    let is_text = |b: &u8| *b >= b' ' && *b != 0x7f || b"\t\r\n".contains(b);
    let is_empty = line.trim_ascii().is_empty();
    if is_empty || !head.iter().all(is_text) {
        return None;
    }
    let line = std::str::from_utf8(line.trim_ascii()).ok()?;
    if let Some((_, what)) = TEXTS.iter().find(|(head, _)| line.starts_with(head)) {
        return Some((*what).to_owned());
    }
    if line.contains(": sched:sched_") && !line.contains('[') {
        return Some(
            "is what `perf script` prints without the CPU of each event: `-F +cpu` adds it".into(),
        );
    }
    Some(format!("is text, but of no trace: it begins with \"{}\"", shown(line)))
}

/// The beginning of a text that comes from a file.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bytes: &[u8]) -> String {
        looks(&File { name, bytes })
    }

    #[test]
    fn a_program_is_told_from_other_elf_files() {
        let elf = |order: u8, kind: [u8; 2]| {
            [&b"\x7fELF\x02"[..], &[order], &[0; 10], &kind, &[0; 8]].concat()
        };
        for (name, shown) in [
            ("gt2", "./gt2"),
            ("bin/gt2", "bin/gt2"),
            ("stdin", "PROGRAM"),
            ("/a b/it's", r"'/a b/it'\''s'"),
        ] {
            for (order, kind) in [(1, [3, 0]), (2, [0, 2])] {
                assert_eq!(
                    of(name, &elf(order, kind)),
                    format!("begins like an ELF program: did you mean `kasuri record -- {shown}`?")
                );
            }
        }
        assert!(of("core", &elf(1, [4, 0])).contains("core dump"));
        assert!(of("a.o", &elf(2, [0, 1])).contains("object file"));
        assert!(of("gt2", b"\x7fELF").contains("-- ./gt2"));
        assert!(of("run", b"#!/bin/sh\n").contains("`kasuri record -- ./run`"));
    }

    #[test]
    fn json_without_events_is_told_by_its_members() {
        for (text, told) in [
            ("{}", "is JSON without `traceEvents`: it has no members"),
            (
                r#" {"nodes": [1, {"traceEvents": 2}], "a\nb": 3}"#,
                r"is JSON without `traceEvents`: its members are nodes, a\\nb",
            ),
            (
                r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}"#,
                "is JSON without `traceEvents`: its members are a, b, c, d, e, ...",
            ),
            (r#"[{"x": 1}]"#, "begins like a JSON list whose first event has no phase (`ph`)"),
            ("[[1, 2], [3]]", "is a JSON list, but not of events"),
            ("[1]", "is a JSON list, but not of events"),
            ("[1] 4711", "is text, but of no trace: it begins with \"[1] 4711\""),
            ("[ 0.000000] Linux", "is text, but of no trace: it begins with \"[ 0.000000] Linux\""),
            ("{ some C }", "is text, but of no trace: it begins with \"{ some C }\""),
        ] {
            assert_eq!(of("t.json", text.as_bytes()), told);
        }
    }

    #[test]
    fn nul_bytes_in_ftrace_text_are_told_with_their_place() {
        let line =
            "  x-1  [000] .....  1.000001: sched_waking: comm=y pid=2 prio=120 target_cpu=000\n";
        let whole = format!("{line}{}{line}", "\0".repeat(512));
        assert!(of("t", whole.as_bytes()).starts_with(&format!(
            "is ftrace text with a run of 512 NUL bytes at byte {}: ",
            line.len()
        )));
        assert_eq!(
            of("t", &[0; 9]),
            "has nothing but NUL bytes in its first 9 bytes: it was never written"
        );
        assert_eq!(
            of("t", b"\0\x01\x02"),
            "begins with the bytes [00, 01, 02], which no format has"
        );
    }

    #[test]
    fn other_files_are_told_by_their_beginnings() {
        assert_eq!(of("t", b""), "is empty");
        assert!(of("t", b"\xfd7zXZ\0\0").contains("xz -d"));
        assert!(of("t", b"\xff\xfe#\0 \0").contains("UTF-16"));
        assert!(of("t", b"\xc1\xfc\x1f\xc1").contains("other byte order"));
        for (head, told) in [
            (&b"\xff\xd8\xff\xe0"[..], "is a picture"),
            (b"MZ\x90\0", "begins like a program for Windows"),
            (b"FLR\0\0\x02", "is a recording of Java's Flight Recorder"),
            (b"PERFFILE\0", "is a perf.data of the first version"),
            (b"PAR1\x15", "is a table in Parquet"),
            (b"/* CTF 1.8 */\n", "is the metadata of a CTF trace"),
            (b"\x57\x1d\xd1\x75\x2a\x64", "is the metadata of a CTF trace"),
            (b"\n Performance counter stats for 'ls':", "is what `perf stat` prints"),
            (
                b"a 7 1.000001: sched:sched_waking: comm=b",
                "is what `perf script` prints without the CPU",
            ),
            (b"[ ]", "is JSON, a list without events"),
            (b"{\"nodes\": [], \"timeDeltas\": []}", "is a CPU profile of V8"),
            (b"{\"$schema\": \"x\"}", "is JSON of another kind"),
            (b"caf\xe9 latin one\n", "begins with the bytes"),
        ] {
            let found = of("t", head);
            assert!(found.starts_with(told), "{found}");
        }
        let tar = [&[b'a'; 257][..], b"ustar\x0000"].concat();
        assert!(of("t.tar", &tar).contains("tar -xf"));
        let long = format!("\n{}\nmore", "e".repeat(100));
        let told = format!("is text, but of no trace: it begins with \"{}...\"", "e".repeat(60));
        assert_eq!(of("t", long.as_bytes()), told);
        assert!(of("t", b"a\x1b[2J").starts_with("begins with the bytes"));
    }
}
