//! One trace event, with the keys of the Trace Event Format as field names.
//!
//! A struct instead of a tree of `serde_json` values: writing ten million events from trees took three times as long.
//! A struct also writes its keys in a fixed order, which keeps the lines of a file easy to compare.
use crate::json::Micros;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// One event. What is `None` or empty is not written.
#[derive(Clone, Default, Serialize)]
pub struct Event<'a> {
    /// Phase: what kind of event.
    pub ph: &'static str,
    /// Category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cat: Option<&'a str>,
    /// Name.
    pub name: Cow<'a, str>,
    /// Process.
    pub pid: i32,
    /// Row in the process.
    pub tid: i64,
    /// CLOCK_MONOTONIC, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<Micros>,
    /// Duration, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<Micros>,
    /// Joins the ends of arrows and asynchronous slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Binding point of an arrow's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bp: Option<&'static str>,
    /// Scope of an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s: Option<&'static str>,
    /// Arguments; names are unique.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_object")]
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

/// Arguments as an object, in their order.
fn as_object<S: Serializer>(
    args: &[(Cow<'_, str>, Arg<'_>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(args.iter().map(|(name, value)| (name, value)))
}

impl Serialize for Arg<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Arg::Int(v) => serializer.serialize_i64(*v),
            Arg::Uint(v) => serializer.serialize_u64(*v),
            Arg::Float(v) if v.is_finite() => serializer.serialize_f64(*v),
            Arg::Float(v) => serializer.collect_str(v),
            Arg::Text(v) => serializer.serialize_str(v),
        }
    }
}
