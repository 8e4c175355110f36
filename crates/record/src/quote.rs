//! Quotes names in commands that a user may paste into a shell.
use std::path::Path;

/// A path with any content as one word of a shell command. Only plain text reaches the terminal. A path that needs no
/// quotes stays unchanged.
pub fn shell_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return path.display().to_string();
    }
    let is_printable = |b: &u8| (0x20..0x7f).contains(b);
    if bytes.iter().all(is_printable) {
        let text = path.display().to_string();
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    // bash, zsh, ksh and busybox know `$'...'`. Neither escape sequences nor text that runs from right to left reach
    // a terminal.
    let mut word = String::from("$'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', byte as char]),
            0x20..0x7f => word.push(byte as char),
            _ => word.push_str(&format!("\\x{byte:02x}")),
        }
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
        let names: [&[u8]; 8] = [
            b"/tmp/run.kasuri.d",
            b"/tmp/a b",
            b"$(touch pwned)/`id`",
            b"it's",
            b"\x1b[31mred\x07",
            b"back\\slash 'n",
            "\u{202e}drisakt".as_bytes(),
            b"\xff\nline",
        ];
        for name in names {
            let word = shell_word(Path::new(std::ffi::OsStr::from_bytes(name)));
            assert!(word.bytes().all(|b| (0x20..0x7f).contains(&b)), "{word}");
            let said = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {word}")])
                .output()
                .expect("bash");
            assert_eq!(said.stdout, name, "{word}");
        }
        assert_eq!(shell_word(Path::new("/a/b-1.d")), "/a/b-1.d");
    }
}
