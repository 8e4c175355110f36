//! Text of strangers (names of programs, threads, files, functions), for a screen and for a shell.
use std::ffi::OsStr;

/// Whether a character shows nothing of its own and changes how others show: a control character, or one of Unicode's
/// marks, embeddings, overrides and isolates of direction (UAX #9), with which `a<U+202E>cod.exe` reads as another
/// name.
pub fn steers(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns
}

/// The text with what could steer a terminal, or reverse the text beside it, replaced.
pub fn harmless(text: &str) -> String {
    text.replace(steers, "\u{fffd}")
}

/// A name of any content as one word of a shell command, which a user may paste. What would steer a terminal, and what is no UTF-8, is
/// written as bash, zsh, ksh and busybox read it. What needs no quotes stays unchanged.
pub fn shell_word(name: impl AsRef<OsStr>) -> String {
    let bytes = name.as_ref().as_encoded_bytes();
    let text = std::str::from_utf8(bytes).ok().filter(|t| !t.contains(steers));
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match text {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => return text.to_owned(),
        Some(text) => return format!("'{}'", text.replace('\'', r"'\''")),
        None => {}
    }
    let mut word = String::from("$'");
    let escape = |word: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| word.push_str(&format!("\\x{byte:02x}")));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => word.extend(['\\', c]),
                c if steers(c) => escape(&mut word, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => word.push(c),
            }
        }
        escape(&mut word, chunk.invalid());
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_shell_reads_back_any_name_and_runs_nothing() {
        let names: [&[u8]; 10] = [
            b"/tmp/run.kasuri.d",
            b"/tmp/a b",
            b"",
            b"$(touch pwned)/`id`",
            b"it's",
            b"\x1b[31mred\x07'a",
            b"back\\slash 'n",
            "\u{202e}drisakt \u{e9}".as_bytes(),
            b"\xff\nline\xe2\x80",
            "sch\u{f6}n".as_bytes(),
        ];
        for name in names {
            let word = shell_word(OsStr::from_bytes(name));
            assert!(!word.contains(steers), "{word:?}");
            let said = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {word}")])
                .output()
                .expect("bash");
            assert_eq!(said.stdout, name, "{word}");
        }
        assert_eq!(shell_word("/a/b-1.d"), "/a/b-1.d");
        assert_eq!(shell_word("a b's"), r"'a b'\''s'");
        assert_eq!(shell_word("\u{1b}[31m'\\\u{202e}é"), r"$'\x1b[31m\'\\\xe2\x80\xaeé'");
    }

    #[test]
    fn what_steers_is_replaced_and_other_writing_stays() {
        let marks = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{1b}\n\r\u{9b}";
        assert_eq!(harmless(marks), "\u{fffd}".repeat(16));
        let names =
            "sch\u{f6}n \u{7d63} \u{627}\u{644}\u{639} \u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{1f980}";
        assert_eq!(harmless(names), names);
    }
}
