//! A command with its environment: read from a line as a shell would, shown as a line to paste.
use std::ffi::{OsStr, OsString};

/// Something to run: `env NAME=VALUE... COMMAND...`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Variables set for it; without a value: removed for it.
    pub env: Vec<(String, Option<OsString>)>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Line {
    /// A command as the user gave it.
    pub fn of(command: &[OsString]) -> Line {
        Line { env: Vec::new(), command: command.to_vec() }
    }

    /// Reads a line. Words, quotes, backslashes and variables in front are understood here, so that no shell's start is timed; with
    /// anything else that a shell would act on it is `/bin/sh -c LINE`.
    ///
    /// # Errors
    /// A line without a command, or with a quote that does not end.
    pub fn read(text: &str) -> Result<Line, String> {
        let words = match words(text)? {
            Some(words) => words,
            None => ["/bin/sh", "-c", text].map(|word| (word.to_owned(), false)).to_vec(),
        };
        let mut line = Line::default();
        for (word, quoted) in words {
            match word.split_once('=') {
                Some((name, value)) if line.command.is_empty() && !quoted && is_name(name) => {
                    line.env.push((name.to_owned(), Some(value.into())));
                }
                _ => line.command.push(word.into()),
            }
        }
        match line.command.is_empty() {
            true => Err("no command in it".to_owned()),
            false => Ok(line),
        }
    }

    /// The line as a shell takes it; `quote` quotes one word where it must be.
    pub fn show(&self, quote: impl Fn(&OsStr) -> String) -> String {
        let mut words: Vec<String> = Vec::new();
        if self.env.iter().any(|(_, value)| value.is_none()) {
            words.push("env".to_owned());
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => words.push(format!("{name}={}", quote(value))),
                None => words.push(format!("-u {name}")),
            }
        }
        // `env` takes what it removes before what it sets.
        words.sort_by_key(|word| match word.as_str() {
            "env" => 0,
            word if word.starts_with("-u ") => 1,
            _ => 2,
        });
        words.extend(self.command.iter().map(|word| quote(word)));
        words.join(" ")
    }
}

fn is_name(name: &str) -> bool {
    let first = name.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Words, and whether each began quoted; none where a shell is needed.
fn words(text: &str) -> Result<Option<Vec<(String, bool)>>, String> {
    let mut words = Vec::new();
    let mut word: Option<(String, bool)> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_with(|| (String::new(), true));
                loop {
                    match rest.next() {
                        None => return Err(format!("a {c} without its end")),
                        Some(end) if end == c => break,
                        Some('$' | '`' | '\\') if c == '"' => return Ok(None),
                        Some(inside) => word.0.push(inside),
                    }
                }
            }
            '\\' => match rest.next() {
                Some('\n') | None => return Ok(None),
                Some(c) => word.get_or_insert_with(|| (String::new(), true)).0.push(c),
            },
            '$' | '`' | '*' | '?' | '[' | ']' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '{'
            | '}' | '~' | '#' | '!' | '\n' => {
                return Ok(None);
            }
            c => word.get_or_insert_with(|| (String::new(), false)).0.push(c),
        }
    }
    words.extend(word);
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let line = Line::read(text).unwrap();
        let env = line
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_ref().unwrap().display()));
        (env.collect(), line.command.iter().map(|word| word.display().to_string()).collect())
    }

    #[test]
    fn words_quotes_and_variables() {
        let (env, command) = read("A=1 B='x y' ./prog  'two words' \"3 4\" a\\ b C=D");
        assert_eq!(env, ["A=1", "B=x y"]);
        assert_eq!(command, ["./prog", "two words", "3 4", "a b", "C=D"]);
        assert_eq!(read("'A=1' x").1, ["A=1", "x"], "quoted: a command of that name");
        assert_eq!(read("1=2 x").1, ["1=2", "x"]);
    }

    #[test]
    fn what_a_shell_acts_on_is_left_to_a_shell() {
        for text in ["a | b", "a > b", "echo $HOME", "\"$x\" y", "ls *.c", "a; b", "a # b", "cd ~"]
        {
            assert_eq!(read(text).1, ["/bin/sh", "-c", text]);
        }
        assert_eq!(read("echo '$HOME|'").1, ["echo", "$HOME|"]);
    }

    #[test]
    fn no_command_is_refused() {
        for text in ["", "  ", "A=1", "'a", "\"a"] {
            assert!(Line::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_line_is_shown_as_it_can_be_pasted() {
        let line = Line {
            env: vec![("A".into(), Some("1".into())), ("B".into(), None)],
            command: vec!["./p".into()],
        };
        assert_eq!(line.show(|word| word.display().to_string()), "env -u B A=1 ./p");
    }
}
