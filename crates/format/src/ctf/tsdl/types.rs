//! Type specifiers and declarations.
//!
//! ```text
//! integer { size = 32; align = 8; signed = false; map = clock.mono.value; }
//! enum : uint8_t { IDLE, BUSY = 2 ... 5 }
//! struct { uint32_t n; uint8_t data[n]; } align(8)
//! variant <kind> { int32_t a; string b; }
//! ```
//!
//! Lengths of arrays and tags of variants stay names here ([`Location`]); `compile` resolves them, because what they refer to
//! depends on where the type is used.
use super::super::types::{Choice, Int, Length, Location, Mapping, Member, Scope, Type};
use super::Parser;
use super::lexer::Token;
use crate::Result;
use std::rc::Rc;

/// An attribute's value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Number(i128),
    Text(String),
    /// Words with dots between.
    Path(Vec<String>),
}

impl Value {
    pub fn word(&self) -> Option<&str> {
        match self {
            Value::Path(path) if path.len() == 1 => Some(&path[0]),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn truth(&self) -> Option<bool> {
        match self {
            Value::Number(n) => Some(*n != 0),
            value => match value.word()?.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
        }
    }
}

impl Parser {
    /// `a.b.c`
    pub(super) fn path(&mut self) -> Result<Vec<String>> {
        let mut path = vec![self.word("a name")?];
        while self.accept('.') {
            path.push(self.word("a name")?);
        }
        Ok(path)
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        match self.peek() {
            Some(Token::Number(n)) => {
                let n = *n;
                self.at += 1;
                Ok(Value::Number(n))
            }
            Some(Token::Text(text)) => {
                let mut all = text.clone();
                self.at += 1;
                // Texts side by side are one, as in C.
                while let Some(Token::Text(more)) = self.peek() {
                    all.push_str(more);
                    self.at += 1;
                }
                Ok(Value::Text(all))
            }
            _ => Ok(Value::Path(self.path()?)),
        }
    }

    /// `{ name = value; ... }` of integer, floating_point and string.
    fn attributes(&mut self) -> Result<Vec<(String, Value, u64)>> {
        let mut out = Vec::new();
        self.expect('{')?;
        while !self.accept('}') {
            if self.accept(';') {
                continue;
            }
            let place = self.place();
            let name = self.word("an attribute or `}`")?;
            self.expect('=')?;
            let value = self.value()?;
            if !self.is_mark('}') {
                self.expect(';')?;
            }
            out.push((name, value, place));
        }
        Ok(out)
    }

    fn order(&self, value: &Value, place: u64) -> Result<bool> {
        match value.word() {
            Some("be" | "network") => Ok(true),
            Some("le") => Ok(false),
            Some("native") => Ok(self.big_endian),
            _ => Err(self.error_at(place, "another byte order", "le, be, network or native")),
        }
    }

    fn alignment(&self, value: i128, place: u64) -> Result<u64> {
        match u64::try_from(value) {
            Ok(align) if align.is_power_of_two() && align <= 1 << 20 => Ok(align),
            _ => Err(self.error_at(
                place,
                format!("an alignment of {value}"),
                "a power of two up to 2^20",
            )),
        }
    }

    fn alignment_value(&self, value: &Value, place: u64) -> Result<u64> {
        match value {
            Value::Number(n) => self.alignment(*n, place),
            _ => Err(self.error_at(place, "no number", "an alignment in bits")),
        }
    }

    fn integer(&mut self) -> Result<Type> {
        let start = self.place();
        let mut int = Int { big_endian: self.big_endian, ..Int::default() };
        let mut align = None;
        for (name, value, place) in self.attributes()? {
            match (name.as_str(), &value) {
                ("size", Value::Number(n @ 1..=64)) => int.bits = *n as u8,
                ("size", Value::Number(n)) => {
                    let needed = "1 to 64 bits";
                    return Err(self.error_at(place, format!("an integer of {n} bits"), needed));
                }
                ("align", value) => align = Some(self.alignment_value(value, place)?),
                ("signed", value) => {
                    let Some(signed) = value.truth() else {
                        return Err(self.error_at(place, "another value", "true or false"));
                    };
                    int.signed = signed;
                }
                ("byte_order", value) => int.big_endian = self.order(value, place)?,
                ("encoding", value) => {
                    int.text =
                        matches!(value.word(), Some("UTF8" | "UTF-8" | "utf8" | "ASCII" | "ascii"));
                }
                ("map", Value::Path(path)) => int.clock = self.clock_of(path),
                // base is for people; what else there is does not change the layout.
                _ => {}
            }
        }
        if int.bits == 0 {
            return Err(self.error_at(start, "an integer without size", "`size = ...;`"));
        }
        let natural = if int.bits.is_multiple_of(8) { 8 } else { 1 };
        int.align = align.unwrap_or(natural);
        Ok(Type::Int(int))
    }

    /// `clock.NAME.value`
    fn clock_of(&mut self, path: &[String]) -> Option<usize> {
        let name = match path {
            [clock, name, ..] if clock == "clock" => name,
            _ => return None,
        };
        Some(self.clock_index(name))
    }

    fn float(&mut self) -> Result<Type> {
        let start = self.place();
        let (mut exponent, mut mantissa, mut align, mut big_endian) = (0, 0, 1, self.big_endian);
        for (name, value, place) in self.attributes()? {
            match (name.as_str(), &value) {
                ("exp_dig", Value::Number(n)) => exponent = *n,
                ("mant_dig", Value::Number(n)) => mantissa = *n,
                ("align", value) => align = self.alignment_value(value, place)?,
                ("byte_order", value) => big_endian = self.order(value, place)?,
                _ => {}
            }
        }
        let bits = match (exponent, mantissa) {
            (5, 11) => 16,
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                let found = format!("a float of {exponent} exponent and {mantissa} mantissa bits");
                return Err(self.error_at(start, found, "5 and 11, 8 and 24, or 11 and 53"));
            }
        };
        Ok(Type::Float { bits, align, big_endian })
    }

    /// The type that is written here.
    pub(super) fn type_specifier(&mut self) -> Result<Rc<Type>> {
        while self.accept_word("const") {}
        let Some(Token::Word(word)) = self.peek() else {
            return Err(self.wrong("a type"));
        };
        let word = word.clone();
        let is_block = matches!(self.peek_at(1), Some(Token::Mark('{')));
        match word.as_str() {
            "struct" => {
                self.at += 1;
                self.structure()
            }
            "variant" => {
                self.at += 1;
                self.variant()
            }
            "enum" => {
                self.at += 1;
                self.enumeration()
            }
            "integer" if is_block => {
                self.at += 1;
                Ok(Rc::new(self.integer()?))
            }
            "floating_point" if is_block => {
                self.at += 1;
                Ok(Rc::new(self.float()?))
            }
            "string" => {
                self.at += 1;
                if self.is_mark('{') {
                    self.attributes()?;
                }
                Ok(Rc::new(Type::Str { unit: 1 }))
            }
            _ => self.named(),
        }
    }

    /// A name declared before; of several words, the last may be what is being declared.
    fn named(&mut self) -> Result<Rc<Type>> {
        let place = self.place();
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.tokens.get(self.at + words.len()).map(|t| &t.0) {
            words.push(word.clone());
        }
        // The longest name that is known.
        for n in (1..=words.len()).rev() {
            let plain: Vec<&str> =
                words[..n].iter().map(String::as_str).filter(|w| *w != "const").collect();
            if let Some(ty) = self.find_type(&plain.join(" ")) {
                self.at += n;
                return Ok(ty);
            }
        }
        Err(self.error_at(
            place,
            format!("`{}`", words.join(" ")),
            "a type that was declared before",
        ))
    }

    fn align_suffix(&mut self) -> Result<u64> {
        if !self.accept_word("align") {
            return Ok(1);
        }
        self.expect('(')?;
        let place = self.place();
        let n = self.number()?;
        self.expect(')')?;
        self.alignment(n, place)
    }

    fn structure(&mut self) -> Result<Rc<Type>> {
        let start = self.place();
        let name = match self.peek() {
            Some(Token::Word(_)) if !self.is_word("align") => Some(self.word("a name")?),
            _ => None,
        };
        if !self.is_mark('{') {
            let place = self.place();
            let name = name.unwrap_or_default();
            let found = self.find_tag("struct", &name);
            return found.ok_or_else(|| {
                self.error_at(place, format!("struct `{name}`"), "one declared before")
            });
        }
        let members = self.deeper(Parser::members)?;
        let align = self.align_suffix()?;
        let ty = self.limits.admit(Type::Struct { members, align }, start)?;
        if let Some(name) = name {
            self.declare_tag("struct", name, ty.clone());
        }
        Ok(ty)
    }

    /// `{ declarations }`
    fn members(&mut self) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        self.expect('{')?;
        while !self.accept('}') {
            if self.accept(';') || self.declaration()? {
                continue;
            }
            let base = self.type_specifier()?;
            loop {
                let (name, ty) = self.declarator(base.clone())?;
                members.push(Member { name, ty });
                if !self.accept(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        Ok(members)
    }

    /// `*name[3][n]`
    fn declarator(&mut self, base: Rc<Type>) -> Result<(String, Rc<Type>)> {
        while self.accept('*') || self.accept_word("const") {}
        let place = self.place();
        let name = self.word("a field's name")?;
        let mut lengths = Vec::new();
        while self.accept('[') {
            lengths.push(match self.peek() {
                Some(Token::Number(_)) => {
                    let place = self.place();
                    let n = self.number()?;
                    let n = u64::try_from(n)
                        .map_err(|_| self.error_at(place, n.to_string(), "a length"))?;
                    Length::Fixed(n)
                }
                _ => Length::Field(location(&self.path()?)),
            });
            self.expect(']')?;
        }
        // As in C, the first bracket is the outermost array.
        let mut ty = base;
        for length in lengths.into_iter().rev() {
            ty = self.limits.admit(array(ty, length), place)?;
        }
        Ok((name, ty))
    }

    fn variant(&mut self) -> Result<Rc<Type>> {
        let start = self.place();
        let name = match self.peek() {
            Some(Token::Word(_)) => Some(self.word("a name")?),
            _ => None,
        };
        let mut selector = None;
        if self.accept('<') {
            selector = Some(location(&self.path()?));
            self.expect('>')?;
        }
        let choices = if self.is_mark('{') {
            let members = self.deeper(Parser::members)?;
            let choice = |m: Member| Choice { name: m.name, spans: None, ty: m.ty };
            members.into_iter().map(choice).collect()
        } else {
            let place = self.place();
            let name = name.clone().unwrap_or_default();
            match self.find_tag("variant", &name).as_deref() {
                Some(Type::Variant { choices, .. }) => choices.clone(),
                _ => {
                    return Err(self.error_at(
                        place,
                        format!("variant `{name}`"),
                        "one declared before",
                    ));
                }
            }
        };
        let ty = self.limits.admit(Type::Variant { selector, choices }, start)?;
        if let Some(name) = name {
            self.declare_tag("variant", name, ty.clone());
        }
        Ok(ty)
    }

    fn enumeration(&mut self) -> Result<Rc<Type>> {
        let place = self.place();
        let name = match self.peek() {
            Some(Token::Word(_)) => Some(self.word("a name")?),
            _ => None,
        };
        let has_base = self.accept(':');
        let base = if has_base { Some(self.type_specifier()?) } else { None };
        if !self.is_mark('{') {
            let name = name.unwrap_or_default();
            let found = self.find_tag("enum", &name);
            return found.ok_or_else(|| {
                self.error_at(place, format!("enum `{name}`"), "one declared before")
            });
        }
        let base = match base {
            Some(base) => Some(base),
            None => self.find_type("int"),
        };
        let Some(Type::Int(int)) = base.as_deref() else {
            return Err(self.error_at(place, "an enum without an integer type", "`enum : TYPE`"));
        };
        let int = int.clone();
        let mappings = self.mappings()?;
        let ty = Rc::new(Type::Int(Int { mappings: Some(Rc::new(mappings)), ..int }));
        if let Some(name) = name {
            self.declare_tag("enum", name, ty.clone());
        }
        Ok(ty)
    }

    /// `{ A, B = 2, "C" = 3 ... 5 }`
    fn mappings(&mut self) -> Result<Vec<Mapping>> {
        let mut out: Vec<Mapping> = Vec::new();
        let mut next = 0i128;
        self.expect('{')?;
        while !self.accept('}') {
            let label = match self.value()? {
                Value::Text(text) => text,
                Value::Path(path) => path.join("."),
                Value::Number(n) => n.to_string(),
            };
            let mut span = (next, next);
            if self.accept('=') {
                span.0 = self.number()?;
                span.1 = span.0;
                if matches!(self.peek(), Some(Token::Dots)) {
                    self.at += 1;
                    span.1 = self.number()?;
                }
            }
            next = span.1 + 1;
            match out.iter_mut().find(|m| m.label == label) {
                Some(mapping) => mapping.spans.push(span),
                None => out.push(Mapping { label, spans: vec![span] }),
            }
            if !self.accept(',') && !self.is_mark('}') {
                return Err(self.wrong("`,` or `}`"));
            }
        }
        Ok(out)
    }

    /// `typealias`, `typedef`, and tags declared by themselves. False: something else stands here.
    pub(super) fn declaration(&mut self) -> Result<bool> {
        if self.accept_word("typealias") {
            let ty = self.type_specifier()?;
            while self.accept('*') {}
            if self.peek() != Some(&Token::Assign) {
                return Err(self.wrong("`:=`"));
            }
            self.at += 1;
            let mut words = Vec::new();
            loop {
                match self.peek() {
                    Some(Token::Word(word)) if word == "const" => {}
                    Some(Token::Word(word)) => words.push(word.clone()),
                    Some(Token::Mark('*')) => words.push("*".into()),
                    _ => break,
                }
                self.at += 1;
            }
            self.expect(';')?;
            self.declare_type(words.join(" "), ty);
            return Ok(true);
        }
        if self.accept_word("typedef") {
            let base = self.type_specifier()?;
            loop {
                let (name, ty) = self.declarator(base.clone())?;
                self.declare_type(name, ty);
                if !self.accept(',') {
                    break;
                }
            }
            self.expect(';')?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// Elements that are characters make text.
fn array(element: Rc<Type>, length: Length) -> Type {
    match &*element {
        Type::Int(int) if int.text && int.bits == 8 && int.align == 8 => {
            Type::Bytes { length, text: true, roles: Vec::new() }
        }
        _ => Type::Array { element, length, align: 1 },
    }
}

/// Words of a path as a location: those that begin with a scope's name are absolute.
fn location(path: &[String]) -> Location {
    const SCOPES: [(&[&str], Scope); 6] = [
        (&["trace", "packet", "header"], Scope::PacketHeader),
        (&["stream", "packet", "context"], Scope::PacketContext),
        (&["stream", "event", "header"], Scope::EventHeader),
        (&["stream", "event", "context"], Scope::CommonContext),
        (&["event", "context"], Scope::SpecificContext),
        (&["event", "fields"], Scope::Payload),
    ];
    for (prefix, scope) in SCOPES {
        if path.len() > prefix.len() && path.iter().zip(prefix).all(|(a, b)| a == b) {
            let rest = path[prefix.len()..].iter().cloned().map(Some);
            return Location { scope: Some(scope), path: rest.collect() };
        }
    }
    Location { scope: None, path: path.iter().cloned().map(Some).collect() }
}
