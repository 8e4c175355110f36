//! CTF 2 metadata: a JSON text sequence (RFC 7464) of fragments.
//!
//! ```text
//! <1e>{"type":"preamble","version":2}
//! <1e>{"type":"clock-class","name":"mono","frequency":1000000000,...}
//! <1e>{"type":"data-stream-class","event-record-header-field-class":{...},...}
//! <1e>{"type":"event-record-class","name":"sched_switch","payload-field-class":{...}}
//! ```
//!
//! A fragment refers to earlier ones by name (field class aliases, clocks) or id (streams), so one pass is enough. The result is
//! the same [`Metadata`] as TSDL's, and everything after this file is common to both. Unknown kinds of fragments are
//! skipped.
//!
//! Also read is what LTTng's and others' writers took from the drafts of CTF 2 (2020 to 2022), where the meaning is clear: field classes of
//! enumerations, locations of fields as a list that begins with the scope, UUIDs as lists of numbers, clocks that are known by name.
use super::limits::Limits;
use super::types::*;
use crate::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Begins each fragment.
const RECORD_SEPARATOR: u8 = 0x1e;

type Object = Map<String, Value>;

/// Reads metadata.
///
/// # Errors
/// At the first fragment that makes no sense.
pub fn parse(bytes: &[u8]) -> Result<Metadata> {
    let mut reader = Reader::default();
    reader.out.major = 2;
    let mut start = 0;
    for fragment in bytes.split(|&b| b == RECORD_SEPARATOR) {
        reader.place = start as u64;
        start += fragment.len() + 1;
        let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0;
        if fragment.iter().all(blank) {
            continue;
        }
        let value: Value = serde_json::from_slice(fragment)
            .map_err(|e| reader.error(e.to_string(), "a fragment: a JSON object"))?;
        match value {
            Value::Object(object) => reader.fragment(&object)?,
            _ => return Err(reader.error("another JSON value", "a fragment: a JSON object")),
        }
    }
    if reader.n_fragments == 0 {
        return Err(reader.error("no fragment", "a preamble"));
    }
    Ok(reader.out)
}

#[derive(Default)]
struct Reader {
    out: Metadata,
    aliases: HashMap<String, Rc<Type>>,
    limits: Limits,
    n_fragments: usize,
    /// Offset of the current fragment.
    place: u64,
    depth: u32,
}

impl Reader {
    fn error(&self, found: impl Into<String>, needed: impl Into<String>) -> Error {
        Error::damaged("CTF metadata", self.place, found.into(), needed.into())
    }

    fn text<'v>(&self, object: &'v Object, name: &str) -> Result<&'v str> {
        let value = object.get(name).and_then(Value::as_str);
        value.ok_or_else(|| self.error(format!("no text `{name}`"), format!("\"{name}\": \"...\"")))
    }

    fn number(&self, object: &Object, name: &str) -> Result<u64> {
        let value = object.get(name).and_then(Value::as_u64);
        value.ok_or_else(|| self.error(format!("no number `{name}`"), format!("\"{name}\": N")))
    }

    fn fragment(&mut self, object: &Object) -> Result<()> {
        let kind = self.text(object, "type")?;
        if self.n_fragments == 0 && kind != "preamble" {
            return Err(self.error(format!("a fragment `{kind}` first"), "a preamble"));
        }
        self.n_fragments += 1;
        match kind {
            "preamble" => self.preamble(object),
            "field-class-alias" => self.alias(object),
            "clock-class" => self.clock(object),
            "trace-class" => self.trace(object),
            "data-stream-class" => self.stream(object),
            "event-record-class" => self.event(object),
            // Fragments of kinds to come change nothing that this reader knows.
            _ => Ok(()),
        }
    }

    fn preamble(&mut self, object: &Object) -> Result<()> {
        let version = self.number(object, "version")?;
        if version != 2 {
            return Err(Error::new(
                ErrorKind::Version,
                "CTF metadata",
                self.place,
                format!("version {version}"),
                "version 2",
            ));
        }
        self.out.uuid = object.get("uuid").and_then(uuid);
        Ok(())
    }

    fn alias(&mut self, object: &Object) -> Result<()> {
        let name = self.text(object, "name")?.to_owned();
        let ty = self.member_type(object, "field-class")?;
        let Some(ty) = ty else {
            return Err(self.error("an alias without field class", "\"field-class\""));
        };
        self.aliases.insert(name, ty);
        Ok(())
    }

    fn clock(&mut self, object: &Object) -> Result<()> {
        let text = |name| object.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let name = text("name");
        let id = match text("id") {
            id if id.is_empty() => name.clone(),
            id => id,
        };
        let frequency = self.number(object, "frequency")?;
        if frequency == 0 {
            return Err(self.error("a clock of 0 Hz", "at least 1"));
        }
        let offset = object.get("offset-from-origin").or(object.get("offset"));
        let part = |name| offset.and_then(|o| o.get(name)).and_then(Value::as_i64).unwrap_or(0);
        // Of an origin that is not the epoch, the identity of the clock is all there is.
        let origin = object.get("origin");
        let absolute = origin.and_then(Value::as_str) == Some("unix-epoch")
            || object.get("origin-is-unix-epoch") == Some(&Value::Bool(true));
        let uuid = match (text("uid"), object.get("uuid").and_then(uuid)) {
            (uid, Some(uuid)) if uid.is_empty() => uuid_text(uuid),
            (uid, None) if uid.is_empty() => text("uuid"),
            (uid, _) => uid,
        };
        self.out.clocks.push(Clock {
            id,
            name,
            description: text("description"),
            uuid,
            frequency,
            offset_s: part("seconds"),
            offset: part("cycles"),
            absolute,
        });
        Ok(())
    }

    fn trace(&mut self, object: &Object) -> Result<()> {
        if self.out.uuid.is_none() {
            self.out.uuid = object.get("uuid").and_then(uuid);
        }
        if let Some(Value::Object(env)) = object.get("environment") {
            for (name, value) in env {
                let value = match value {
                    Value::String(text) => EnvValue::Text(text.clone()),
                    Value::Number(n) => EnvValue::Int(n.as_i64().unwrap_or(0)),
                    _ => continue,
                };
                self.out.env.push((name.clone(), value));
            }
        }
        self.out.packet_header = self.member_type(object, "packet-header-field-class")?;
        Ok(())
    }

    fn stream(&mut self, object: &Object) -> Result<()> {
        let clock = object
            .get("default-clock-class-id")
            .or(object.get("default-clock-class-name"))
            .and_then(Value::as_str);
        let clock =
            match clock {
                None => None,
                Some(id) => {
                    let found = self.out.clocks.iter().position(|c| c.id == id);
                    Some(found.ok_or_else(|| {
                        self.error(format!("clock `{id}`"), "one declared before")
                    })?)
                }
            };
        let id = object.get("id").and_then(Value::as_u64).unwrap_or(0);
        if self.out.streams.iter().any(|s| s.id == id) {
            return Err(self.error(format!("stream class {id} again"), "each once"));
        }
        let name = object.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
        let class = StreamClass {
            id,
            name,
            clock,
            packet_context: self.member_type(object, "packet-context-field-class")?,
            event_header: self.member_type(object, "event-record-header-field-class")?,
            event_context: self.member_type(object, "event-record-common-context-field-class")?,
            events: Vec::new(),
        };
        self.out.streams.push(class);
        Ok(())
    }

    fn event(&mut self, object: &Object) -> Result<()> {
        let stream = object.get("data-stream-class-id").and_then(Value::as_u64).unwrap_or(0);
        let Some(ix) = self.out.streams.iter().position(|s| s.id == stream) else {
            return Err(self.error(format!("stream class {stream}"), "one declared before"));
        };
        let name = object.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
        let class = EventClass {
            id: object.get("id").and_then(Value::as_u64).unwrap_or(0),
            name,
            context: self.member_type(object, "specific-context-field-class")?,
            payload: self.member_type(object, "payload-field-class")?,
        };
        self.out.streams[ix].events.push(class);
        Ok(())
    }

    fn member_type(&mut self, object: &Object, name: &str) -> Result<Option<Rc<Type>>> {
        match object.get(name) {
            None => Ok(None),
            Some(value) => self.field_class(value).map(Some),
        }
    }

    /// A field class, or the name of one.
    fn field_class(&mut self, value: &Value) -> Result<Rc<Type>> {
        let object = match value {
            Value::String(name) => {
                let found = self.aliases.get(name).cloned();
                return found.ok_or_else(|| {
                    self.error(format!("field class `{name}`"), "one declared before")
                });
            }
            Value::Object(object) => object,
            _ => return Err(self.error("another JSON value", "a field class")),
        };
        let ty = self.type_of(object)?;
        self.limits.admit(ty, self.place)
    }

    fn type_of(&mut self, object: &Object) -> Result<Type> {
        let kind = self.text(object, "type")?;
        Ok(match kind {
            "fixed-length-unsigned-integer"
            | "fixed-length-unsigned-enumeration"
            | "fixed-length-bit-array"
            | "fixed-length-boolean"
            | "fixed-length-bit-map" => Type::Int(self.int(object, false)?),
            "fixed-length-signed-integer" | "fixed-length-signed-enumeration" => {
                Type::Int(self.int(object, true)?)
            }
            "fixed-length-floating-point-number" => {
                let int = self.int(object, false)?;
                if !matches!(int.bits, 16 | 32 | 64) {
                    return Err(self.error(format!("a float of {} bits", int.bits), "16, 32 or 64"));
                }
                Type::Float { bits: int.bits, align: int.align, big_endian: int.big_endian }
            }
            "variable-length-unsigned-integer"
            | "variable-length-signed-integer"
            | "variable-length-unsigned-enumeration"
            | "variable-length-signed-enumeration" => Type::VarInt {
                signed: kind.starts_with("variable-length-signed"),
                mappings: self.mappings(object)?,
                roles: roles(object),
            },
            "null-terminated-string" => Type::Str { unit: unit(object) },
            "static-length-string" => bytes(Length::Fixed(self.number(object, "length")?), true),
            "dynamic-length-string" => bytes(self.dynamic(object)?, true),
            "static-length-blob" => Type::Bytes {
                length: Length::Fixed(self.number(object, "length")?),
                text: false,
                roles: roles(object),
            },
            "dynamic-length-blob" => bytes(self.dynamic(object)?, false),
            "structure" => self.structure(object)?,
            "static-length-array" => {
                let length = Length::Fixed(self.number(object, "length")?);
                self.array(object, length)?
            }
            "dynamic-length-array" => {
                let length = self.dynamic(object)?;
                self.array(object, length)?
            }
            "optional" => {
                let spans = match object.get("selector-field-ranges") {
                    Some(ranges) => Some(self.spans(ranges)?),
                    None => None,
                };
                Type::Optional {
                    selector: self.location(object, "selector-field-location")?,
                    spans,
                    ty: self.inner(object, "field-class")?,
                }
            }
            "variant" => self.variant(object)?,
            other => {
                return Err(self.error(format!("a field class `{other}`"), "one of CTF 2's types"));
            }
        })
    }

    /// A field class inside another.
    fn inner(&mut self, object: &Object, name: &str) -> Result<Rc<Type>> {
        // The JSON reader bounds the depth too, but by more than a small stack holds.
        if self.depth >= super::limits::MAX_DEPTH {
            return Err(self.error("more levels", "at most 64 levels of field classes"));
        }
        self.depth += 1;
        let ty = match object.get(name) {
            Some(value) => self.field_class(value),
            None => Err(self.error(format!("no `{name}`"), "a field class")),
        };
        self.depth -= 1;
        ty
    }

    fn align(&self, object: &Object, name: &str) -> Result<u64> {
        match object.get(name) {
            None => Ok(1),
            Some(value) => match value.as_u64() {
                Some(align) if align.is_power_of_two() && align <= 1 << 20 => Ok(align),
                _ => Err(self.error(format!("`{name}` {value}"), "a power of two up to 2^20")),
            },
        }
    }

    fn int(&self, object: &Object, signed: bool) -> Result<Int> {
        let bits = self.number(object, "length")?;
        if !(1..=64).contains(&bits) {
            return Err(self.error(format!("a number of {bits} bits"), "1 to 64"));
        }
        let big_endian = match object.get("byte-order").and_then(Value::as_str) {
            Some("big-endian") => true,
            Some("little-endian") | None => false,
            Some(other) => {
                return Err(
                    self.error(format!("byte order `{other}`"), "big-endian or little-endian")
                );
            }
        };
        let first_to_last = match object.get("bit-order").and_then(Value::as_str) {
            Some(order) => order == "first-to-last",
            None => !big_endian,
        };
        Ok(Int {
            bits: bits as u8,
            align: self.align(object, "alignment")?,
            signed,
            big_endian,
            reversed: first_to_last == big_endian,
            text: false,
            mappings: self.mappings(object)?,
            clock: None,
            roles: roles(object),
        })
    }

    /// `[[1, 2], [5, 5]]`
    fn spans(&self, value: &Value) -> Result<Vec<Span>> {
        let number = |v: &Value| v.as_i64().map(i128::from).or(v.as_u64().map(i128::from));
        let span = |v: &Value| Some((number(v.get(0)?)?, number(v.get(1)?)?));
        let spans = value.as_array().and_then(|all| all.iter().map(span).collect());
        spans.ok_or_else(|| self.error("another value", "ranges: [[FROM, TO], ...]"))
    }

    fn mappings(&self, object: &Object) -> Result<Option<Rc<Vec<Mapping>>>> {
        let Some(Value::Object(mappings)) = object.get("mappings").or(object.get("flags")) else {
            return Ok(None);
        };
        if object.contains_key("flags") {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(mappings.len());
        for (label, ranges) in mappings {
            out.push(Mapping { label: label.clone(), spans: self.spans(ranges)? });
        }
        Ok(Some(Rc::new(out)))
    }

    fn location(&self, object: &Object, name: &str) -> Result<Location> {
        let (origin, path) = match object.get(name) {
            Some(Value::Object(location)) => {
                let path = location.get("path").and_then(Value::as_array);
                (location.get("origin"), path.map(Vec::as_slice))
            }
            // Before the first release it was the path alone, or the scope and the path.
            Some(Value::Array(list)) => match list.split_first() {
                Some((first, path)) if scope(first).is_some() && !path.is_empty() => {
                    (Some(first), Some(path))
                }
                _ => (None, Some(list.as_slice())),
            },
            _ => return Err(self.error(format!("no `{name}`"), "a field location")),
        };
        let scope = match origin {
            None => None,
            Some(origin) => Some(scope(origin).ok_or_else(|| {
                self.error(format!("origin `{origin}`"), "one of CTF 2's origins")
            })?),
        };
        let step = |v: &Value| match v {
            Value::Null => Some(None),
            Value::String(name) => Some(Some(name.clone())),
            _ => None,
        };
        let path = path.and_then(|p| p.iter().map(step).collect::<Option<Vec<_>>>());
        match path {
            Some(path) if !path.is_empty() => Ok(Location { scope, path }),
            _ => Err(self.error(format!("`{name}` without path"), "a list of names")),
        }
    }

    fn dynamic(&self, object: &Object) -> Result<Length> {
        Ok(Length::Field(self.location(object, "length-field-location")?))
    }

    fn array(&mut self, object: &Object, length: Length) -> Result<Type> {
        Ok(Type::Array {
            length,
            align: self.align(object, "minimum-alignment")?,
            element: self.inner(object, "element-field-class")?,
        })
    }

    fn structure(&mut self, object: &Object) -> Result<Type> {
        let mut members = Vec::new();
        if let Some(Value::Array(classes)) = object.get("member-classes") {
            for class in classes {
                let Value::Object(class) = class else {
                    return Err(self.error("another JSON value", "a member class"));
                };
                members.push(Member {
                    name: self.text(class, "name")?.to_owned(),
                    ty: self.inner(class, "field-class")?,
                });
            }
        }
        let align = self.align(object, "minimum-alignment")?;
        Ok(Type::Struct { members, align })
    }

    fn variant(&mut self, object: &Object) -> Result<Type> {
        let selector = Some(self.location(object, "selector-field-location")?);
        let Some(Value::Array(options)) = object.get("options") else {
            return Err(self.error("a variant without options", "\"options\""));
        };
        let mut choices = Vec::new();
        for option in options {
            let Value::Object(option) = option else {
                return Err(self.error("another JSON value", "an option"));
            };
            let ranges = option.get("selector-field-ranges").unwrap_or(&Value::Null);
            choices.push(Choice {
                name: option.get("name").and_then(Value::as_str).unwrap_or("").to_owned(),
                spans: Some(self.spans(ranges)?),
                ty: self.inner(option, "field-class")?,
            });
        }
        Ok(Type::Variant { selector, choices })
    }
}

fn bytes(length: Length, text: bool) -> Type {
    Type::Bytes { length, text, roles: Vec::new() }
}

/// The scope that a location of a field begins in.
fn scope(origin: &Value) -> Option<Scope> {
    Some(match origin.as_str()? {
        "packet-header" => Scope::PacketHeader,
        "packet-context" => Scope::PacketContext,
        "event-record-header" => Scope::EventHeader,
        "event-record-common-context" => Scope::CommonContext,
        "event-record-specific-context" => Scope::SpecificContext,
        "event-record-payload" => Scope::Payload,
        _ => return None,
    })
}

/// Bytes of a code unit.
fn unit(object: &Object) -> u8 {
    match object.get("encoding").and_then(Value::as_str) {
        Some("utf-16be" | "utf-16le") => 2,
        Some("utf-32be" | "utf-32le") => 4,
        _ => 1,
    }
}

fn roles(object: &Object) -> Vec<Role> {
    let Some(Value::Array(roles)) = object.get("roles") else {
        return Vec::new();
    };
    let role = |v: &Value| match v.as_str()? {
        "packet-magic-number" => Some(Role::Magic),
        "metadata-stream-uuid" => Some(Role::Uuid),
        "data-stream-class-id" => Some(Role::StreamClassId),
        "data-stream-id" => Some(Role::StreamId),
        "packet-total-length" => Some(Role::PacketBits),
        "packet-content-length" => Some(Role::ContentBits),
        "default-clock-timestamp" => Some(Role::Stamp),
        "packet-end-default-clock-timestamp" => Some(Role::EndStamp),
        "discarded-event-record-counter-snapshot" => Some(Role::Discarded),
        "packet-sequence-number" => Some(Role::Sequence),
        "event-record-class-id" => Some(Role::EventClassId),
        _ => None,
    };
    roles.iter().filter_map(role).collect()
}

fn uuid(value: &Value) -> Option<[u8; 16]> {
    let bytes: Vec<u8> = value
        .as_array()?
        .iter()
        .map(|v| v.as_u64().and_then(|n| u8::try_from(n).ok()))
        .collect::<Option<_>>()?;
    bytes.try_into().ok()
}

/// A UUID as TSDL writes it.
fn uuid_text(uuid: [u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]];
    parts.map(hex).join("-")
}
