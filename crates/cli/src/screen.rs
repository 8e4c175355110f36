//! Standard output for text: the last gate before a terminal.
//!
//! What strangers chose (names of programs, threads, files, functions) is made harmless where it is put into tables, and escaped in JSON.
//! Whatever came past that is replaced here, once for all commands: nothing but line feeds, tabs and our own colours steers the terminal.
//! Files and pipes get the same bytes, so tests see what a terminal does. `tests/lint/raw-prints` finds what goes past this gate.
use kasuri_base::words::steers;
use std::io::{self, IsTerminal, StdoutLock, Write};

/// Text goes out as it comes, line by line.
pub fn screen() -> Screen<StdoutLock<'static>> {
    Screen { out: io::stdout().lock(), colour: has_colour(), begun: Vec::new() }
}

/// Whether stdout takes colours.
pub fn has_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    io::stdout().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// A writer of text.
pub struct Screen<W> {
    out: W,
    colour: bool,
    /// Bytes of a character that is not whole yet.
    begun: Vec<u8>,
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let begun = std::mem::take(&mut self.begun);
        let whole = match std::str::from_utf8(&begun) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => begun.len(),
        };
        let (text, rest) = begun.split_at(whole);
        self.begun = rest.to_vec();
        self.print(&String::from_utf8_lossy(text))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Screen<W> {
    fn print(&mut self, mut text: &str) -> io::Result<()> {
        let is_bad = |c: char| steers(c) && !matches!(c, '\n' | '\t');
        while let Some(at) = text.find(is_bad) {
            let (before, after) = text.split_at(at);
            self.out.write_all(before.as_bytes())?;
            let colour = match self.colour {
                true => colour(after),
                false => 0,
            };
            let (this, rest) = match colour {
                0 => after.split_at(after.chars().next().map_or(0, char::len_utf8)),
                n => after.split_at(n),
            };
            let shown = if colour == 0 { "\u{fffd}" } else { this };
            self.out.write_all(shown.as_bytes())?;
            text = rest;
        }
        self.out.write_all(text.as_bytes())
    }
}

/// Bytes of the change of colour with which the text begins, as our tables write it; 0: it begins with none.
fn colour(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else {
        return 0;
    };
    let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    match rest.as_bytes().get(digits) {
        Some(b'm') => 2 + digits + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(colour: bool, parts: &[&[u8]]) -> String {
        let mut screen = Screen { out: Vec::new(), colour, begun: Vec::new() };
        parts.iter().for_each(|part| screen.write_all(part).unwrap());
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn nothing_but_our_colours_steers_the_terminal() {
        let text = "\x1b[1;31mred\x1b[0m\ta\x1b[2Jb\r\u{202e}c\x07\u{9b}\n".as_bytes();
        let (bad, end) = ("\u{fffd}", "\u{fffd}\u{fffd}c\u{fffd}\u{fffd}\n");
        assert_eq!(printed(true, &[text]), format!("\x1b[1;31mred\x1b[0m\ta{bad}[2Jb{end}"));
        assert_eq!(printed(false, &[text]), format!("{bad}[1;31mred{bad}[0m\ta{bad}[2Jb{end}"));
    }

    #[test]
    fn a_character_may_come_in_parts() {
        assert_eq!(
            printed(true, &[b"a\xe2", b"\x80", b"\xaeb\xc3", b"\xa9\xff."]),
            "a\u{fffd}b\u{e9}\u{fffd}."
        );
    }
}
