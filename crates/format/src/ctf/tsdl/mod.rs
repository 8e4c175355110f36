//! TSDL, the metadata language of CTF 1.8: C's declarations and blocks of attributes.
//!
//! One pass: types are built where they are declared, names are looked up in the scopes around. Only the byte order is
//! looked for before, because trace blocks may follow the types that depend on it.
mod blocks;
mod lexer;
mod types;

use super::limits::{Limits, MAX_DEPTH};
use super::types::{Metadata, Type};
use crate::{Error, ErrorKind, Result};
use lexer::{Placed, Token};
use std::collections::HashMap;
use std::rc::Rc;

/// Reads metadata text.
///
/// # Errors
/// A description with the offset of the first token that cannot be parsed.
pub fn parse(text: &str) -> Result<Metadata> {
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser {
        big_endian: byte_order(&tokens),
        tokens,
        at: 0,
        depth: 0,
        limits: Limits::default(),
        end: text.len() as u64,
        scopes: vec![Names::default()],
        out: Metadata { major: 1, ..Metadata::default() },
    };
    parser.out.big_endian = parser.big_endian;
    parser.top()?;
    Ok(parser.out)
}

/// The byte order that the trace block declares, wherever that block is.
fn byte_order(tokens: &[Placed]) -> bool {
    let is =
        |ix: usize, word: &str| matches!(tokens.get(ix), Some((Token::Word(w), _)) if w == word);
    let mark = |ix: usize, c: char| matches!(tokens.get(ix), Some((Token::Mark(m), _)) if *m == c);
    let Some(start) = (0..tokens.len()).find(|&ix| is(ix, "trace") && mark(ix + 1, '{')) else {
        return false;
    };
    let mut depth = 0;
    for (ix, (token, _)) in tokens.iter().enumerate().skip(start + 1) {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => depth -= 1,
            Token::Word(word) if word == "byte_order" && depth == 1 && mark(ix + 1, '=') => {
                return is(ix + 2, "be") || is(ix + 2, "network");
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    false
}

/// Names declared in one scope.
#[derive(Default)]
struct Names {
    /// typedef and typealias; the words of a name joined by spaces.
    types: HashMap<String, Rc<Type>>,
    /// `struct x`, `variant x`, `enum x`.
    tags: HashMap<(&'static str, String), Rc<Type>>,
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    depth: u32,
    limits: Limits,
    /// Length of the text.
    end: u64,
    big_endian: bool,
    scopes: Vec<Names>,
    out: Metadata,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|t| &t.0)
    }

    fn place(&self) -> u64 {
        self.tokens.get(self.at).map_or(self.end, |t| t.1)
    }

    /// The error of finding what stands here.
    fn wrong(&self, needed: impl Into<String>) -> Error {
        match self.peek() {
            Some(token) => {
                Error::damaged("CTF metadata", self.place(), token.show(), needed.into())
            }
            None => {
                Error::new(ErrorKind::Truncated, "CTF metadata", self.end, "the end", needed.into())
            }
        }
    }

    fn error_at(&self, place: u64, found: impl Into<String>, needed: impl Into<String>) -> Error {
        Error::damaged("CTF metadata", place, found.into(), needed.into())
    }

    fn is_mark(&self, c: char) -> bool {
        matches!(self.peek(), Some(Token::Mark(m)) if *m == c)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(w)) if w == word)
    }

    fn accept(&mut self, c: char) -> bool {
        let found = self.is_mark(c);
        self.at += usize::from(found);
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { Err(self.wrong(format!("`{c}`"))) }
    }

    fn word(&mut self, needed: &'static str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.wrong(needed)),
        }
    }

    fn number(&mut self) -> Result<i128> {
        match self.peek() {
            Some(&Token::Number(n)) => {
                self.at += 1;
                Ok(n)
            }
            _ => Err(self.wrong("a number")),
        }
    }

    /// Runs `inside` one level deeper.
    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error_at(
                self.place(),
                "more levels",
                format!("at most {MAX_DEPTH} levels of types"),
            ));
        }
        self.depth += 1;
        self.scopes.push(Names::default());
        let result = inside(self);
        self.scopes.pop();
        self.depth -= 1;
        result
    }

    fn find_type(&self, name: &str) -> Option<Rc<Type>> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|s| s.types.get(name)).cloned()
    }

    fn find_tag(&self, kind: &'static str, name: &str) -> Option<Rc<Type>> {
        let key = (kind, name.to_owned());
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|s| s.tags.get(&key)).cloned()
    }

    fn declare_type(&mut self, name: String, ty: Rc<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.types.insert(name, ty);
        }
    }

    fn declare_tag(&mut self, kind: &'static str, name: String, ty: Rc<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.tags.insert((kind, name), ty);
        }
    }
}

#[cfg(test)]
mod tests;
