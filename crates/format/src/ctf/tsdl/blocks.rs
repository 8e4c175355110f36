//! The blocks of a trace's metadata: trace, env, clock, stream, event.
//!
//! ```text
//! stream {
//!     id = 0;
//!     event.header := struct event_header_large;
//!     packet.context := struct { uint64_clock_t timestamp_begin; ... };
//! };
//! ```
//!
//! A block is a list of statements `a.b = value;` and `a.b := type;`. Blocks may come in any order: a clock
//! that is used before its block gets a row at once, and streams get their clocks at the end (`settle_clocks`).
use super::super::types::{Clock, EnvValue, EventClass, StreamClass, Type};
use super::Parser;
use super::lexer::Token;
use super::types::Value;
use crate::Result;
use std::collections::HashMap;
use std::rc::Rc;

/// Statements in a block: `a.b = value;` and `a.b := type;`.
#[derive(Default)]
struct Block {
    values: HashMap<String, Value>,
    /// In their order, for env.
    order: Vec<String>,
    types: HashMap<String, Rc<Type>>,
}

impl Block {
    fn number(&self, name: &str) -> Option<i128> {
        match self.values.get(name) {
            Some(Value::Number(n)) => Some(*n),
            _ => None,
        }
    }

    fn unsigned(&self, name: &str) -> Option<u64> {
        self.number(name).and_then(|n| u64::try_from(n).ok())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::word)
    }
}

impl Parser {
    /// The whole text.
    pub(super) fn top(&mut self) -> Result<()> {
        while let Some(token) = self.peek() {
            let opens = matches!(self.peek_at(1), Some(Token::Mark('{')));
            let word = match token {
                Token::Word(word) => word.clone(),
                _ => String::new(),
            };
            match word.as_str() {
                "trace" if opens => self.trace()?,
                "env" if opens => self.env()?,
                "clock" if opens => self.clock()?,
                "stream" if opens => self.stream()?,
                "event" if opens => self.event()?,
                "callsite" if opens => drop(self.block()?),
                _ if self.accept(';') || self.declaration()? => {}
                "struct" | "variant" | "enum" | "const" | "integer" | "floating_point" => {
                    self.type_specifier()?;
                    self.expect(';')?;
                }
                _ => {
                    return Err(self.wrong(
                        "trace, env, clock, stream, event, typealias, typedef, struct, variant or enum",
                    ));
                }
            }
        }
        self.settle_clocks();
        Ok(())
    }

    fn block(&mut self) -> Result<Block> {
        self.at += 1;
        let block = self.deeper(|parser| {
            let mut block = Block::default();
            parser.expect('{')?;
            while !parser.accept('}') {
                if parser.accept(';') || parser.declaration()? {
                    continue;
                }
                parser.entry(&mut block)?;
            }
            Ok(block)
        })?;
        self.accept(';');
        Ok(block)
    }

    fn entry(&mut self, block: &mut Block) -> Result<()> {
        // A type declared by its tag alone.
        let declares = |p: &Parser| {
            let tag = matches!(p.peek(), Some(Token::Word(w)) if w == "struct" || w == "variant" || w == "enum");
            tag && !matches!(p.peek_at(1), Some(Token::Mark('=') | Token::Assign))
        };
        if declares(self) {
            self.type_specifier()?;
            return self.expect(';');
        }
        let name = match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                text
            }
            _ => self.path()?.join("."),
        };
        if self.peek() == Some(&Token::Assign) {
            self.at += 1;
            let ty = self.type_specifier()?;
            block.types.insert(name, ty);
        } else {
            self.expect('=')?;
            let value = self.value()?;
            block.order.push(name.clone());
            block.values.insert(name, value);
        }
        self.expect(';')
    }

    fn trace(&mut self) -> Result<()> {
        let place = self.place();
        let mut block = self.block()?;
        if let Some(major) = block.number("major").filter(|&major| major != 1) {
            return Err(self.error_at(place, format!("CTF {major}"), "CTF 1.8 in this language"));
        }
        self.out.uuid = block.text("uuid").and_then(uuid);
        self.out.packet_header = block.types.remove("packet.header");
        Ok(())
    }

    fn env(&mut self) -> Result<()> {
        let block = self.block()?;
        for name in block.order {
            let value = match &block.values[&name] {
                Value::Number(n) => EnvValue::Int(*n as i64),
                Value::Text(text) => EnvValue::Text(text.clone()),
                Value::Path(path) => EnvValue::Text(path.join(".")),
            };
            self.out.env.push((name, value));
        }
        Ok(())
    }

    /// The clock of that name; one that is used before it is declared is made.
    pub(super) fn clock_index(&mut self, name: &str) -> usize {
        let found = self.out.clocks.iter().position(|c| c.id == name);
        found.unwrap_or_else(|| {
            self.out.clocks.push(Clock {
                id: name.to_owned(),
                name: name.to_owned(),
                ..Clock::default()
            });
            self.out.clocks.len() - 1
        })
    }

    fn clock(&mut self) -> Result<()> {
        let place = self.place();
        let block = self.block()?;
        let name = block.text("name").unwrap_or("").to_owned();
        let frequency = match block.number("freq") {
            None => 1_000_000_000,
            Some(n) => match u64::try_from(n) {
                Ok(n @ 1..) => n,
                _ => return Err(self.error_at(place, format!("a clock of {n} Hz"), "at least 1")),
            },
        };
        let signed = |name| block.number(name).map_or(0, |n| n as i64);
        let (offset_s, offset) = (signed("offset_s"), signed("offset"));
        let uuid = block.text("uuid").unwrap_or("").to_owned();
        // LTTng's clocks are counted from the epoch although they do not say that they are absolute.
        let absolute = block.values.get("absolute").and_then(Value::truth);
        let ix = self.clock_index(&name);
        self.out.clocks[ix] = Clock {
            id: name.clone(),
            name,
            description: block.text("description").unwrap_or("").to_owned(),
            uuid,
            frequency,
            offset_s,
            offset,
            absolute: absolute.unwrap_or(offset_s != 0 || offset != 0),
        };
        Ok(())
    }

    fn stream(&mut self) -> Result<()> {
        let mut block = self.block()?;
        let id = block.unsigned("id").unwrap_or(0);
        let ix = self.stream_index(id);
        let class = &mut self.out.streams[ix];
        class.name = block.text("name").unwrap_or("").to_owned();
        class.packet_context = block.types.remove("packet.context");
        class.event_header = block.types.remove("event.header");
        class.event_context = block.types.remove("event.context");
        Ok(())
    }

    fn stream_index(&mut self, id: u64) -> usize {
        let found = self.out.streams.iter().position(|s| s.id == id);
        found.unwrap_or_else(|| {
            self.out.streams.push(StreamClass { id, ..StreamClass::default() });
            self.out.streams.len() - 1
        })
    }

    fn event(&mut self) -> Result<()> {
        let mut block = self.block()?;
        let stream = block.unsigned("stream_id").unwrap_or(0);
        let ix = self.stream_index(stream);
        let class = EventClass {
            id: block.unsigned("id").unwrap_or(0),
            name: block.text("name").unwrap_or("").to_owned(),
            context: block.types.remove("context"),
            payload: block.types.remove("fields"),
        };
        self.out.streams[ix].events.push(class);
        Ok(())
    }

    /// A stream's clock is the one that its heads are stamps of.
    fn settle_clocks(&mut self) {
        for stream in &mut self.out.streams {
            let heads = [&stream.event_header, &stream.packet_context];
            let clock = heads.into_iter().flatten().find_map(|ty| clock_in(ty));
            // Without a mapping, a trace of one clock means that one.
            stream.clock = clock.or((self.out.clocks.len() == 1).then_some(0));
        }
    }
}

fn clock_in(ty: &Type) -> Option<usize> {
    match ty {
        Type::Int(int) => int.clock,
        Type::Struct { members, .. } => members.iter().find_map(|m| clock_in(&m.ty)),
        Type::Variant { choices, .. } => choices.iter().find_map(|c| clock_in(&c.ty)),
        Type::Array { element, .. } => clock_in(element),
        _ => None,
    }
}

/// The bytes of `8-4-4-4-12`.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|d| d[0] << 4 | d.get(1).copied().unwrap_or(0)).collect();
    bytes.try_into().ok()
}
