//! Event classes, and metadata that describes them in either language.
//!
//! [`Description`] has what both languages need: [`tsdl`] writes it as CTF 1.8's TSDL, [`json`] as CTF 2's JSON text
//! sequence (each fragment begins with byte 0x1e, RFC 7464). Streams are the same bytes for both; only what describes
//! them differs. The packet header, packet context and event header described here are those that `stream.rs` writes;
//! change both together. All numbers lie at byte boundaries and are little-endian, as LTTng writes them on x86.
//!
//! The event header is LTTng's "large" one: a 16-bit id with the low 32 bits of the stamp, or 65535 followed by a
//! 32-bit id and a 64-bit stamp.
use serde_json::{Value, json};
use std::fmt::Write;

/// A field's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ty {
    U32,
    I32,
    U64,
    I64,
    F64,
    /// A thread's name: 16 bytes.
    Comm,
    /// Text that ends with a zero.
    Text,
}

/// One kind of event.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub name: String,
    pub fields: &'static [(&'static str, Ty)],
}

impl Class {
    pub fn new(name: &str, fields: &'static [(&'static str, Ty)]) -> Class {
        Class { name: name.to_owned(), fields }
    }
}

/// One trace: a stream class with its events, and where it was made.
pub(super) struct Description<'a> {
    pub uuid: [u8; 16],
    /// Context of every event.
    pub context: &'static [(&'static str, Ty)],
    pub has_cpu: bool,
    pub env: Vec<(&'static str, Value)>,
    /// ns since 1970 where the clock is 0; none: not known.
    pub clock_offset_ns: Option<i64>,
    pub classes: &'a [Class],
}

impl Description<'_> {
    /// Name, description and offset of the clock: that of the machine, or of an imported trace that counts from 1970.
    fn clock(&self) -> (&'static str, &'static str, i64) {
        match self.clock_offset_ns {
            Some(0) => ("realtime", "Nanoseconds since 1970", 0),
            offset => ("monotonic", "Monotonic Clock", offset.unwrap_or(0)),
        }
    }
}

/// Identifies the clock: readers correlate traces whose clocks have the same UUID.
const CLOCK_UUID: &str = "b1c0b07a-0ad8-4c6f-9f0d-6b3d3b0a5a11";

/// `8-4-4-4-12` hexadecimal digits.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut out = String::new();
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// A string of TSDL.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A field's declaration. Names begin with `_`, which readers remove, so that a field may be called like a keyword.
fn tsdl_field(name: &str, ty: Ty) -> String {
    let int = |bits, signed| {
        format!(
            "integer {{ size = {bits}; align = 8; signed = {signed}; encoding = none; base = 10; }} _{name};"
        )
    };
    match ty {
        Ty::U32 => int(32, 0),
        Ty::I32 => int(32, 1),
        Ty::U64 => int(64, 0),
        Ty::I64 => int(64, 1),
        Ty::F64 => format!("floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} _{name};"),
        Ty::Comm => {
            format!(
                "integer {{ size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }} _{name}[16];"
            )
        }
        Ty::Text => format!("string _{name};"),
    }
}

/// A structure of fields.
fn tsdl_fields(fields: &[(&str, Ty)]) -> String {
    let lines = fields.iter().map(|(name, ty)| format!("\t\t{}\n", tsdl_field(name, *ty)));
    format!("struct {{\n{}\t}}", lines.collect::<String>())
}

/// The event header in TSDL: LTTng's large one, see the head of this file.
const EVENT_HEADER: &str = "struct event_header_large {
\tenum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
\tvariant <id> {
\t\tstruct {
\t\t\tuint32_clock_t timestamp;
\t\t} compact;
\t\tstruct {
\t\t\tuint32_t id;
\t\t\tuint64_clock_t timestamp;
\t\t} extended;
\t} v;
} align(8);
";

/// The metadata in CTF 1.8's language, TSDL.
pub(super) fn tsdl(trace: &Description<'_>) -> String {
    let env = tsdl_env(trace);
    let cpu = if trace.has_cpu { "\tuint32_t cpu_id;\n" } else { "" };
    let context = match trace.context {
        [] => String::new(),
        fields => format!("\tevent.context := {};\n", tsdl_fields(fields)),
    };
    let (clock, description, offset) = trace.clock();
    let mut out = format!(
        "/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
\tmajor = 1;
\tminor = 8;
\tuuid = \"{uuid}\";
\tbyte_order = le;
\tpacket.header := struct {{
\t\tuint32_t magic;
\t\tuint8_t uuid[16];
\t\tuint32_t stream_id;
\t\tuint64_t stream_instance_id;
\t}};
}};

env {{
{env}}};

clock {{
\tname = \"{clock}\";
\tuuid = \"{CLOCK_UUID}\";
\tdescription = \"{description}\";
\tfreq = 1000000000;
\tabsolute = {absolute};
\toffset = {offset};
}};

typealias integer {{ size = 32; align = 8; signed = false; map = clock.{clock}.value; }} := uint32_clock_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.{clock}.value; }} := uint64_clock_t;

struct packet_context {{
\tuint64_clock_t timestamp_begin;
\tuint64_clock_t timestamp_end;
\tuint64_t content_size;
\tuint64_t packet_size;
\tuint64_t packet_seq_num;
\tuint64_t events_discarded;
{cpu}}};

{EVENT_HEADER}
stream {{
\tid = 0;
\tevent.header := struct event_header_large;
\tpacket.context := struct packet_context;
{context}}};
",
        uuid = uuid_text(&trace.uuid),
        absolute = trace.clock_offset_ns.is_some(),
    );
    for (id, class) in trace.classes.iter().enumerate() {
        out.push_str(&tsdl_event(id, class));
    }
    out
}

/// The environment: facts about the traced machine, as assignments.
fn tsdl_env(trace: &Description<'_>) -> String {
    let mut env = String::new();
    for (name, value) in &trace.env {
        let value = match value {
            Value::String(text) => quoted(text),
            other => other.to_string(),
        };
        let _ = writeln!(env, "\t{name} = {value};");
    }
    env
}

/// The declaration of an event type.
fn tsdl_event(id: usize, class: &Class) -> String {
    format!(
        "\nevent {{\n\tname = {};\n\tid = {id};\n\tstream_id = 0;\n\tfields := {};\n}};\n",
        quoted(&class.name),
        tsdl_fields(class.fields)
    )
}

/// An unsigned number in CTF 2. A role says what readers use it for, where TSDL goes by the field's name.
fn uint(bits: u32, roles: &[&str]) -> Value {
    let mut out = json!({"type": "fixed-length-unsigned-integer", "length": bits, "byte-order": "little-endian", "alignment": 8});
    if !roles.is_empty() {
        out["roles"] = json!(roles);
    }
    out
}

/// A structure in CTF 2.
fn structure(members: &[(&str, Value)]) -> Value {
    let members = members.iter().map(|(name, class)| json!({"name": name, "field-class": class}));
    json!({"type": "structure", "minimum-alignment": 8, "member-classes": members.collect::<Vec<_>>()})
}

/// A structure of an event's fields in CTF 2.
fn json_fields(fields: &[(&str, Ty)]) -> Value {
    let class = |ty| match ty {
        Ty::U32 => uint(32, &[]),
        Ty::U64 => uint(64, &[]),
        Ty::I32 | Ty::I64 => {
            let mut int = uint(if ty == Ty::I32 { 32 } else { 64 }, &[]);
            int["type"] = json!("fixed-length-signed-integer");
            int
        }
        Ty::F64 => {
            let mut float = uint(64, &[]);
            float["type"] = json!("fixed-length-floating-point-number");
            float
        }
        Ty::Comm => json!({"type": "static-length-string", "length": 16}),
        Ty::Text => json!({"type": "null-terminated-string"}),
    };
    let members: Vec<(&str, Value)> = fields.iter().map(|(name, ty)| (*name, class(*ty))).collect();
    structure(&members)
}

/// The metadata in CTF 2's language, JSON: fragments, each after a record separator (RFC 7464).
pub(super) fn json(trace: &Description<'_>) -> String {
    let mut fragments = vec![
        json!({"type": "preamble", "version": 2, "uuid": trace.uuid}),
        trace_class(trace),
        clock_class(trace),
        stream_class(trace),
    ];
    fragments.extend(trace.classes.iter().enumerate().map(|(number, class)| {
        json!({
            "type": "event-record-class",
            "id": number,
            "data-stream-class-id": 0,
            "name": class.name,
            "payload-field-class": json_fields(class.fields),
        })
    }));
    let texts = fragments.iter().map(|f| format!("\u{1e}{f}\n"));
    texts.collect()
}

/// The environment and what each packet begins with.
fn trace_class(trace: &Description<'_>) -> Value {
    let env: serde_json::Map<String, Value> =
        trace.env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({
        "type": "trace-class",
        "uid": uuid_text(&trace.uuid),
        "environment": env,
        "packet-header-field-class": structure(&[
            ("magic", uint(32, &["packet-magic-number"])),
            ("uuid", json!({"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]})),
            ("stream_id", uint(32, &["data-stream-class-id"])),
            ("stream_instance_id", uint(64, &["data-stream-id"])),
        ]),
    })
}

/// The clock: it counts nanoseconds. Its offset is in whole seconds and cycles.
fn clock_class(trace: &Description<'_>) -> Value {
    let second = 1_000_000_000;
    let (name, description, offset) = trace.clock();
    // `div_euclid`: an offset before 1970 has negative seconds and positive cycles.
    let (seconds, cycles) = (offset.div_euclid(second), offset.rem_euclid(second));
    let mut clock = json!({
        "type": "clock-class",
        "id": name,
        "name": name,
        "uid": CLOCK_UUID,
        "description": description,
        "frequency": second,
        "offset-from-origin": {"seconds": seconds, "cycles": cycles},
    });
    if trace.clock_offset_ns.is_some() {
        clock["origin"] = json!("unix-epoch");
    }
    clock
}

/// What packets and events of a stream have in common.
fn stream_class(trace: &Description<'_>) -> Value {
    let (clock, ..) = trace.clock();
    let mut stream = json!({
        "type": "data-stream-class",
        "id": 0,
        "default-clock-class-id": clock,
        "packet-context-field-class": packet_context(trace.has_cpu),
        "event-record-header-field-class": event_header(),
    });
    if !trace.context.is_empty() {
        stream["event-record-common-context-field-class"] = json_fields(trace.context);
    }
    stream
}

/// The role of a field that is a time.
const STAMP: &str = "default-clock-timestamp";

/// What each packet has after its header.
fn packet_context(has_cpu: bool) -> Value {
    let field = |name, role| (name, uint(64, &[role]));
    let mut packet = vec![
        field("timestamp_begin", STAMP),
        field("timestamp_end", "packet-end-default-clock-timestamp"),
        field("content_size", "packet-content-length"),
        field("packet_size", "packet-total-length"),
        field("packet_seq_num", "packet-sequence-number"),
        field("events_discarded", "discarded-event-record-counter-snapshot"),
    ];
    if has_cpu {
        packet.push(("cpu_id", uint(32, &[])));
    }
    structure(&packet)
}

/// What each event begins with: id and time, in few bits where they fit.
fn event_header() -> Value {
    let id = "event-record-class-id";
    let option = |name: &str, from: u32, to: u32, class: Value| json!({"name": name, "selector-field-ranges": [[from, to]], "field-class": class});
    structure(&[
        ("id", uint(16, &[id])),
        (
            "v",
            json!({
                "type": "variant",
                "selector-field-location": {"origin": "event-record-header", "path": ["id"]},
                "options": [
                    option("compact", 0, 65_534, structure(&[("timestamp", uint(32, &[STAMP]))])),
                    option("extended", 65_535, 65_535, structure(&[("id", uint(32, &[id])), ("timestamp", uint(64, &[STAMP]))])),
                ],
            }),
        ),
    ])
}
