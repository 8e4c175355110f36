//! TSDL text -> tokens.
//!
//! The words, numbers and texts of C, without its preprocessor and without the operators that metadata does not need; `:=` and `...`
//! are one token each. Numbers are kept as i128, which holds every u64 and i64 with the sign as written. Each token has its
//! offset in the text, for errors.
use crate::{Error, Result};

/// Kinds of tokens.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Token {
    Word(String),
    /// A number, and whether it was written with a minus.
    Number(i128),
    Text(String),
    /// `{ } [ ] ( ) < > , ; : . * =`
    Mark(char),
    /// `:=`
    Assign,
    /// `...`
    Dots,
}

impl Token {
    pub fn show(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(n) => n.to_string(),
            Token::Text(text) => format!("{text:?}"),
            Token::Mark(c) => format!("`{c}`"),
            Token::Assign => "`:=`".into(),
            Token::Dots => "`...`".into(),
        }
    }
}

/// A token and where it begins, in bytes of the text.
pub(crate) type Placed = (Token, u64);

/// All tokens of a text.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>> {
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0 };
    let mut out = Vec::new();
    loop {
        lexer.space()?;
        let start = lexer.at as u64;
        match lexer.token()? {
            Some(token) => out.push((token, start)),
            None => return Ok(out),
        }
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn error(&self, at: usize, found: impl Into<String>, needed: &'static str) -> Error {
        Error::damaged("CTF metadata", at as u64, found.into(), needed)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
    }

    /// White space and comments. A zero is the padding of a metadata packet.
    fn space(&mut self) -> Result<()> {
        loop {
            self.skip_while(|c| c.is_ascii_whitespace() || c == 0);
            if self.rest().starts_with(b"//") {
                self.skip_while(|c| c != b'\n');
            } else if self.rest().starts_with(b"/*") {
                let end = self.rest().windows(2).position(|w| w == b"*/");
                let Some(end) = end else {
                    return Err(self.error(self.at, "a comment without an end", "`*/`"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Option<Token>> {
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        let token = match first {
            b'"' => self.text()?,
            // A wide string or character of C, which TSDL has too.
            b'L' if self.bytes.get(self.at + 1) == Some(&b'"') => {
                self.at += 1;
                self.text()?
            }
            b'\'' => self.character()?,
            b'L' if self.bytes.get(self.at + 1) == Some(&b'\'') => {
                self.at += 1;
                self.character()?
            }
            b'0'..=b'9' => self.number(false)?,
            b'-' | b'+' => {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_whitespace());
                self.number(first == b'-')?
            }
            c if c.is_ascii_alphabetic() || c == b'_' => {
                let start = self.at;
                self.skip_while(|c| c.is_ascii_alphanumeric() || c == b'_');
                let word = &self.bytes[start..self.at];
                Token::Word(String::from_utf8_lossy(word).into_owned())
            }
            _ if self.rest().starts_with(b":=") => {
                self.at += 2;
                Token::Assign
            }
            _ if self.rest().starts_with(b"...") => {
                self.at += 3;
                Token::Dots
            }
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b',' | b';' | b':' | b'.'
            | b'*' | b'=' => {
                self.at += 1;
                Token::Mark(char::from(first))
            }
            // `->` and others have no use in what readers need.
            c => {
                return Err(self.error(
                    self.at,
                    format!("byte {c:#04x}"),
                    "a word, a number, text or a mark",
                ));
            }
        };
        Ok(Some(token))
    }

    fn number(&mut self, minus: bool) -> Result<Token> {
        let start = self.at;
        self.skip_while(|c| c.is_ascii_alphanumeric());
        let word = String::from_utf8_lossy(&self.bytes[start..self.at]).to_lowercase();
        let digits = word.trim_end_matches(['u', 'l']);
        let value = if let Some(hex) = digits.strip_prefix("0x") {
            u64::from_str_radix(hex, 16)
        } else if let Some(binary) = digits.strip_prefix("0b") {
            u64::from_str_radix(binary, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        match value {
            Ok(value) if minus => Ok(Token::Number(-i128::from(value))),
            Ok(value) => Ok(Token::Number(value.into())),
            Err(_) => Err(self.error(start, format!("`{word}`"), "a number of at most 64 bits")),
        }
    }

    fn text(&mut self) -> Result<Token> {
        let start = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return Err(self.error(start, "text without an end", "`\"`"));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(Token::Text(String::from_utf8_lossy(&out).into_owned())),
                b'\\' => out.push(self.escape()),
                byte => out.push(byte),
            }
        }
    }

    /// A character constant is a number, as in C.
    fn character(&mut self) -> Result<Token> {
        let start = self.at;
        self.at += 1;
        let value = match self.peek() {
            Some(b'\'' | b'\n') | None => None,
            Some(b'\\') => {
                self.at += 1;
                Some(self.escape())
            }
            Some(byte) => {
                self.at += 1;
                Some(byte)
            }
        };
        match (value, self.peek()) {
            (Some(value), Some(b'\'')) => {
                self.at += 1;
                Ok(Token::Number(value.into()))
            }
            _ => Err(self.error(start, "`'`", "a character between two `'`")),
        }
    }

    fn escape(&mut self) -> u8 {
        let Some(c) = self.peek() else { return b'\\' };
        self.at += 1;
        match c {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'x' => self.digits(16, 2),
            b'0'..=b'7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            other => other,
        }
    }

    fn digits(&mut self, base: u32, max: usize) -> u8 {
        let mut value = 0u32;
        for _ in 0..max {
            let Some(digit) = self.peek().and_then(|c| char::from(c).to_digit(base)) else {
                break;
            };
            value = value * base + digit;
            self.at += 1;
        }
        value as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|t| t.0).collect()
    }

    #[test]
    fn words_numbers_text_and_marks() {
        use Token::*;
        assert_eq!(
            lex("a.b := -0x10 ... 017 \"x\\\"\\x41\\n\"; // c\n/* d */ 5ULL"),
            [
                Word("a".into()),
                Mark('.'),
                Word("b".into()),
                Assign,
                Number(-16),
                Dots,
                Number(15),
                Text("x\"A\n".into()),
                Mark(';'),
                Number(5)
            ]
        );
    }

    #[test]
    fn what_has_no_end_or_no_meaning_is_an_error_with_its_place() {
        for (text, at) in [("a /* b", 2), ("x \"abc", 2), ("  99999999999999999999", 2), (" @", 1)]
        {
            assert_eq!(tokens(text).unwrap_err().offset, at, "{text}");
        }
    }

    #[test]
    fn a_character_is_a_number() {
        for (text, value) in [
            ("'A'", 65),
            ("L'z'", 122),
            ("'\\n'", 10),
            ("'\\''", 39),
            ("'\\x41'", 65),
            ("'\\101'", 65),
        ] {
            let found = tokens(text).unwrap();
            assert_eq!(found, [(Token::Number(value), 0)], "{text}");
        }
        for bad in ["'", "''", "'ab'", "'a", "'\n'", "'\\"] {
            assert!(tokens(bad).is_err(), "{bad:?}");
        }
    }
}
