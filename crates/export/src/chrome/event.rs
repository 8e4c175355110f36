//! One trace event as a line of JSON. Written by hand: the keys are few and fixed, and a tree of values for each of
//! ten million events took three times as long. Text still goes through serde_json, which knows what to escape.
use std::borrow::Cow;
use std::io::Write;

/// One event. What is `None` or empty is not written.
#[derive(Clone, Default)]
pub struct Event<'a> {
    /// Phase: what kind of event.
    pub ph: &'static str,
    /// Category.
    pub cat: Option<&'a str>,
    /// Name.
    pub name: Cow<'a, str>,
    /// Process.
    pub pid: i32,
    /// Row in the process.
    pub tid: i64,
    /// When, in ns.
    pub ts: Option<i64>,
    /// How long, in ns.
    pub dur: Option<i64>,
    /// Joins the ends of arrows and asynchronous slices.
    pub id: Option<u64>,
    /// Binding point of an arrow's head.
    pub bp: Option<&'static str>,
    /// Scope of an instant.
    pub s: Option<&'static str>,
    /// Arguments; names are unique.
    pub args: Vec<(Cow<'a, str>, Arg<'a>)>,
}

/// An argument's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Signed.
    Int(i64),
    /// Unsigned.
    Uint(u64),
    /// Floating point; JSON has no NaN and no infinity: those become text.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
}

impl Event<'_> {
    /// Appends the event.
    pub fn put(&self, out: &mut Vec<u8>) {
        put(out, format_args!("{{\"ph\":\"{}\"", self.ph));
        if let Some(cat) = self.cat {
            out.extend_from_slice(b",\"cat\":");
            text(out, cat);
        }
        out.extend_from_slice(b",\"name\":");
        text(out, &self.name);
        put(
            out,
            format_args!(",\"pid\":{},\"tid\":{}", self.pid, self.tid),
        );
        if let Some(ts) = self.ts {
            micros(out, "ts", ts);
        }
        if let Some(dur) = self.dur {
            micros(out, "dur", dur);
        }
        if let Some(id) = self.id {
            put(out, format_args!(",\"id\":{id}"));
        }
        for (key, value) in [("bp", self.bp), ("s", self.s)] {
            if let Some(value) = value {
                put(out, format_args!(",\"{key}\":\"{value}\""));
            }
        }
        self.put_args(out);
        out.push(b'}');
    }

    fn put_args(&self, out: &mut Vec<u8>) {
        for (i, (name, value)) in self.args.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"args\":{" } else { b"," });
            text(out, name);
            out.push(b':');
            match value {
                Arg::Int(v) => put(out, format_args!("{v}")),
                Arg::Uint(v) => put(out, format_args!("{v}")),
                Arg::Float(v) if v.is_finite() => put(out, format_args!("{v:?}")),
                Arg::Float(v) => text(out, &v.to_string()),
                Arg::Text(v) => text(out, v),
            }
        }
        if !self.args.is_empty() {
            out.push(b'}');
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a Vec takes everything");
}

fn text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a Vec takes everything, and text is always JSON");
}

/// Nanoseconds as microseconds with all three decimals. A float would lose them after 104 days of uptime.
fn micros(out: &mut Vec<u8>, key: &str, ns: i64) {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    put(
        out,
        format_args!(",\"{key}\":{sign}{}.{:03}", ns / 1000, ns % 1000),
    );
}
