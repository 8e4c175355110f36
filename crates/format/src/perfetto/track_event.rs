//! Track events: slices, points, counters, arrows, and their arguments.
//!
//! Begin and end of a slice are two events on the same track; the end has no name and closes the innermost open slice. Names
//! and categories are text, or ids of the sequence's interned data. Older writers put phase, id and length into a `LegacyEvent`, with the
//! phase letters of the Trace Event Format (`X` complete, `B`, `E`, `i`, `C`...).
use super::wire::{Field, Message};
use crate::Result;
use std::borrow::Cow;

/// One event on a track.
#[derive(Clone, Debug, Default)]
pub struct TrackEvent<'a> {
    /// `TrackEvent.Type`: 1 begin, 2 end, 3 point, 4 counter, 5 state; 0: see `legacy`.
    pub kind: u64,
    /// The track; none: the sequence's.
    pub track: Option<u64>,
    /// Name, as text or by id.
    pub name: Cow<'a, str>,
    /// Its id.
    pub name_iid: u64,
    /// First category, as text or by id.
    pub category: Cow<'a, str>,
    /// Its id.
    pub category_iid: u64,
    /// A counter's value.
    pub value: Option<Number>,
    /// More counters' values: int, then double; with their tracks, where given here.
    pub extra: Vec<(Option<u64>, Number)>,
    /// Arrows that go through, or begin at, this event.
    pub flows: Vec<u64>,
    /// Arrows that end here.
    pub ending_flows: Vec<u64>,
    /// Stamp in us: absolute, or since the sequence's one before (old writers).
    pub absolute_us: Option<i64>,
    /// See `absolute_us`.
    pub delta_us: Option<i64>,
    /// Source location's id.
    pub location_iid: u64,
    /// Log message's text id.
    pub log_iid: u64,
    /// Fields of Chrome's older events.
    pub legacy: Option<Legacy<'a>>,
    /// The message, to read arguments from.
    pub message: Option<Message<'a>>,
    /// There are arguments.
    pub has_args: bool,
}

/// A counter's value. Whole numbers stay whole: differences of 64-bit counters add up to more than a double can tell apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// Any other.
    Double(f64),
}

/// `LegacyEvent`.
#[derive(Clone, Debug, Default)]
pub struct Legacy<'a> {
    /// Phase: a character of the Trace Event Format.
    pub phase: u8,
    /// Name's id.
    pub name_iid: u64,
    /// Length of a complete event.
    pub duration_us: Option<i64>,
    /// Id of an asynchronous event or arrow.
    pub id: Option<u64>,
    /// The id is one of its process.
    pub is_local: bool,
    /// Scope of the id.
    pub scope: Cow<'a, str>,
    /// Arrow through this event.
    pub bind_id: Option<u64>,
    /// 1 in, 2 out, 3 both.
    pub direction: u64,
    /// Of another process and thread.
    pub pid: Option<i32>,
    /// See `pid`.
    pub tid: Option<i32>,
}

impl<'a> TrackEvent<'a> {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(message: Message<'a>) -> Result<TrackEvent<'a>> {
        let mut event = TrackEvent { message: Some(message), ..TrackEvent::default() };
        let (mut tracks, mut double_tracks) = (Vec::new(), Vec::new());
        let (mut values, mut doubles) = (Vec::new(), Vec::new());
        let mut fields = message;
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => event.delta_us = Some(field.i64()),
                3 if event.category_iid == 0 => {
                    event.category_iid = field.numbers().next().unwrap_or(0)
                }
                4 => event.has_args = true,
                6 => event.legacy = Some(Legacy::parse(field.message())?),
                9 => event.kind = field.u64(),
                10 => event.name_iid = field.u64(),
                11 => event.track = Some(field.u64()),
                12 => values.extend(field.numbers().map(|v| Number::Int(v as i64))),
                16 => event.absolute_us = Some(field.i64()),
                21 => event.log_iid = log_body(field)?,
                22 if event.category.is_empty() => event.category = field.text(),
                23 => event.name = field.text(),
                30 => event.value = Some(Number::Int(field.i64())),
                31 => tracks.extend(field.numbers()),
                34 => event.location_iid = field.u64(),
                36 => event.flows.extend(field.numbers()),
                42 => event.ending_flows.extend(field.numbers()),
                44 => event.value = Some(Number::Double(field.f64())),
                45 => double_tracks.extend(field.numbers()),
                46 => doubles
                    .extend(field.fixed64s().map(|bits| Number::Double(f64::from_bits(bits)))),
                47 => event.flows.extend(field.fixed64s()),
                48 => event.ending_flows.extend(field.fixed64s()),
                _ => {}
            }
        }
        let with = |tracks: Vec<u64>, values: Vec<Number>| {
            let of = move |i: usize| tracks.get(i).copied();
            values.into_iter().enumerate().map(move |(i, v)| (of(i), v))
        };
        event.extra.extend(with(tracks, values));
        event.extra.extend(with(double_tracks, doubles));
        Ok(event)
    }
}

fn log_body(field: Field<'_>) -> Result<u64> {
    let (mut message, mut iid) = (field.message(), 0);
    while let Some(field) = message.next_field()? {
        if field.number == 2 {
            iid = field.u64();
        }
    }
    Ok(iid)
}

impl<'a> Legacy<'a> {
    fn parse(mut message: Message<'a>) -> Result<Legacy<'a>> {
        let mut legacy = Legacy::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => legacy.name_iid = field.u64(),
                2 => legacy.phase = u8::try_from(field.u64()).unwrap_or(0),
                3 => legacy.duration_us = Some(field.i64()),
                6 | 11 => legacy.id = Some(field.u64()),
                7 => legacy.scope = field.text(),
                8 => legacy.bind_id = Some(field.u64()),
                10 => (legacy.id, legacy.is_local) = (Some(field.u64()), true),
                13 => legacy.direction = field.u64(),
                18 => legacy.pid = Some(field.i32()),
                19 => legacy.tid = Some(field.i32()),
                _ => {}
            }
        }
        Ok(legacy)
    }
}

/// An argument's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgValue<'a> {
    /// True or false.
    Bool(bool),
    /// Unsigned.
    Uint(u64),
    /// Signed.
    Int(i64),
    /// Floating point.
    Double(f64),
    /// An address.
    Pointer(u64),
    /// Text.
    Text(Cow<'a, str>),
    /// Text, by id.
    TextIid(u64),
}

/// Most arguments that one event gives: a bomb has millions.
pub const MAX_ARGS: usize = 256;
const MAX_DEPTH: usize = 8;

/// Calls `each` with name, the name's id and value of each argument. Those inside others have the names of both:
/// `outer.inner`, `list[2]`; `names` gives the text of a name's id for these.
///
/// # Errors
/// Bytes that are no fields.
pub fn each_arg<'a>(
    event: Message<'a>,
    names: &dyn Fn(u64) -> String,
    each: &mut dyn FnMut(&str, u64, ArgValue<'a>),
) -> Result<()> {
    let (mut left, mut fields) = (MAX_ARGS, event);
    while let Some(field) = fields.next_field()? {
        if field.number == 4 {
            arg(field.message(), "", 0, names, &mut left, each)?;
        }
    }
    Ok(())
}

fn arg<'a>(
    message: Message<'a>,
    prefix: &str,
    depth: usize,
    names: &dyn Fn(u64) -> String,
    left: &mut usize,
    each: &mut dyn FnMut(&str, u64, ArgValue<'a>),
) -> Result<()> {
    let (mut name, mut iid, mut value, mut has_inner) = (Cow::default(), 0, None, false);
    let mut fields = message;
    while let Some(field) = fields.next_field()? {
        match field.number {
            1 => iid = field.u64(),
            2 => value = Some(ArgValue::Bool(field.bool())),
            3 => value = Some(ArgValue::Uint(field.u64())),
            4 => value = Some(ArgValue::Int(field.i64())),
            5 => value = Some(ArgValue::Double(field.f64())),
            6 | 9 => value = Some(ArgValue::Text(field.text())),
            7 => value = Some(ArgValue::Pointer(field.u64())),
            10 => name = field.text(),
            11 | 12 => has_inner = true,
            17 => value = Some(ArgValue::TextIid(field.u64())),
            _ => {}
        }
    }
    if let Some(value) = value
        && *left > 0
    {
        *left -= 1;
        if prefix.is_empty() {
            each(&name, iid, value);
        } else {
            let own = own_name(&name, iid, names);
            let dot = if own.is_empty() { "" } else { "." };
            each(&format!("{prefix}{dot}{own}"), 0, value);
        }
    }
    if !has_inner || depth >= MAX_DEPTH {
        return Ok(());
    }
    let own = own_name(&name, iid, names);
    let dot = if prefix.is_empty() || own.is_empty() { "" } else { "." };
    let (mut fields, mut n) = (message, 0);
    while let Some(field) = fields.next_field()? {
        if *left == 0 {
            break;
        }
        match field.number {
            11 => {
                arg(field.message(), &format!("{prefix}{dot}{own}"), depth + 1, names, left, each)?
            }
            12 => {
                let name = format!("{prefix}{dot}{own}[{n}]");
                n += 1;
                arg(field.message(), &name, depth + 1, names, left, each)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn own_name(name: &str, iid: u64, names: &dyn Fn(u64) -> String) -> String {
    match (name, iid) {
        ("", 0) => String::new(),
        ("", iid) => names(iid),
        (name, _) => name.to_owned(),
    }
}
