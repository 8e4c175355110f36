//! The members of one event, and the texts, numbers and arguments in them.
//!
//! Serde borrows each member as raw JSON, and the functions here interpret it. This keeps what a typed parser would
//! reject or round: ids as text, numbers as text, times with more digits than a double has.
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The members that Kasuri reads, as raw JSON, with the names that the Trace Event Format gives them. All others are
/// skipped. Which of them an event has depends on its phase; a writer may leave out any, or write another type.
#[derive(Deserialize, Debug, Default)]
pub(super) struct Event<'a> {
    /// The phase: the kind of event, one letter.
    #[serde(borrow, default)]
    pub ph: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    /// Categories, joined by commas.
    #[serde(borrow, default)]
    pub cat: Option<&'a RawValue>,
    /// Process and thread: numbers, or any text.
    #[serde(borrow, default)]
    pub pid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tid: Option<&'a RawValue>,
    /// Time and duration, in microseconds with a fraction.
    #[serde(borrow, default)]
    pub ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub dur: Option<&'a RawValue>,
    /// What joins begin and end of asynchronous slices and arrows; `id2` says whether it counts in its process only.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id2: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub scope: Option<&'a RawValue>,
    /// An arrow that begins or ends at a slice, without events of its own.
    #[serde(borrow, default)]
    pub bind_id: Option<&'a RawValue>,
    #[serde(default)]
    pub flow_in: bool,
    #[serde(default)]
    pub flow_out: bool,
    #[serde(borrow, default)]
    pub args: Option<&'a RawValue>,
}

/// Times that are farther from 0, in ns, are no times.
const LATEST_NS: i64 = 9_000_000_000_000_000_000;

/// A member's text; any other value as written. Only text with escapes is copied.
pub(super) fn text(value: Option<&RawValue>) -> Cow<'_, str> {
    let raw = value.map_or("", RawValue::get);
    let Some(inner) = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')) else {
        return raw.into();
    };
    if inner.contains('\\') {
        serde_json::from_str::<String>(raw).map_or(inner.into(), Cow::Owned)
    } else {
        inner.into()
    }
}

/// The event with quotes around each `NaN` and `Infinity`, which Python's `json` writes and JSON does not know; none: it
/// has no such word.
pub(super) fn quoted_words(event: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let mut out = Vec::new();
    let (mut at, mut is_in_text) = (0, false);
    let mut n_words = 0;
    while let Some(&byte) = event.get(at) {
        let rest = &event[at..];
        let word = WORDS.iter().find(|word| rest.starts_with(word));
        let n = match (byte, word) {
            (b'\\', _) => rest.len().min(2),
            (_, Some(word)) if !is_in_text => {
                out.extend_from_slice(&[b"\"", *word, b"\""].concat());
                n_words += 1;
                at += word.len();
                continue;
            }
            _ => 1,
        };
        is_in_text ^= byte == b'"';
        out.extend_from_slice(&rest[..n]);
        at += n;
    }
    (n_words > 0).then_some(out)
}

/// Converts microseconds as written to nanoseconds, rounded at the fourth digit after the point. A double would lose them
/// after 104 days; times since 1970, which PyTorch and others write, would be wrong by up to 128 ns.
pub(super) fn nanoseconds(micros: &str) -> Option<i64> {
    let (is_negative, number) = match micros.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, micros),
    };
    let (number, exponent) = match number.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) {
        return None;
    }
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|b| i64::from(b - b'0'));
    // So many digits of the number are those of whole nanoseconds.
    let places = whole.len() as i64 + i64::from(exponent) + 3;
    let mut ns = 0i64;
    for _ in 0..places {
        match digits.next() {
            // However large the exponent of 0 is.
            None if ns == 0 => break,
            digit => ns = ns.checked_mul(10)?.checked_add(digit.unwrap_or(0))?,
        }
    }
    if places >= 0 && digits.next().is_some_and(|digit| digit >= 5) {
        ns = ns.checked_add(1)?;
    }
    (ns < LATEST_NS).then_some(if is_negative { -ns } else { ns })
}

/// A number in decimal or, after `0x`, in hexadecimal. Negative ones keep their bits.
pub(super) fn integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(|v| v as u64)),
    }
}

/// An argument's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// Most arguments of one event; the rest is dropped.
const MAX_ARGS: usize = 256;
/// Deeper nesting is kept as one text.
const MAX_DEPTH: usize = 8;

/// Calls `each` for the arguments of an event, in their order. Nested ones get the names of both: `outer.inner`,
/// `list[2]`.
pub(super) fn each_arg<'a>(args: Option<&'a RawValue>, each: &mut dyn FnMut(&str, Value<'a>)) {
    if let Some(args) = args {
        walk(args, "", 0, &mut { MAX_ARGS }, each);
    }
}

/// `name`: that of the value so far; `left`: how many arguments may still follow. The outermost value must be an object:
/// without a name there is nothing to call an argument by.
fn walk<'a>(
    raw: &'a RawValue,
    name: &str,
    depth: usize,
    left: &mut usize,
    each: &mut dyn FnMut(&str, Value<'a>),
) {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') if depth < MAX_DEPTH => {
            let Ok(Pairs(pairs)) = serde_json::from_str(text) else {
                return;
            };
            for (key, value) in pairs {
                let dot = if name.is_empty() { "" } else { "." };
                walk(value, &format!("{name}{dot}{key}"), depth + 1, left, each);
            }
        }
        Some(b'[') if depth < MAX_DEPTH && depth > 0 => {
            let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(text) else {
                return;
            };
            for (i, value) in values.into_iter().enumerate() {
                walk(value, &format!("{name}[{i}]"), depth + 1, left, each);
            }
        }
        _ if depth == 0 || *left == 0 => {}
        _ => {
            *left -= 1;
            each(name, scalar(raw));
        }
    }
}

/// A value that is no object and no list. Integers stay exact; `true`, `null` and what is nested too deep are texts.
fn scalar(raw: &RawValue) -> Value<'_> {
    let written = raw.get();
    if !written.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Value::Text(text(Some(raw)));
    }
    match (written.parse(), written.parse(), written.parse()) {
        (Ok(int), _, _) => Value::Int(int),
        (_, Ok(uint), _) => Value::Uint(uint),
        (_, _, Ok(float)) => Value::Float(float),
        _ => Value::Text(written.into()),
    }
}

/// The members of an object, in their order. A map of `serde_json` would sort them, or keep only one of two of a name.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(json: &str) -> Vec<String> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let mut found = Vec::new();
        each_arg(Some(raw), &mut |name, value| {
            let value = match value {
                Value::Int(n) => n.to_string(),
                Value::Uint(n) => n.to_string(),
                Value::Float(n) => n.to_string(),
                Value::Text(text) => text.into_owned(),
            };
            found.push(format!("{name}={value}"));
        });
        found
    }

    #[test]
    fn arguments_inside_others_have_the_names_of_both() {
        assert_eq!(
            args(
                r#"{"a": {"b": [1, [2.5, {"c": "x"}]], "d": 18446744073709551615}, "e": [], "f": -3}"#
            ),
            ["a.b[0]=1", "a.b[1][0]=2.5", "a.b[1][1].c=x", "a.d=18446744073709551615", "f=-3"]
        );
        assert!(args("[1, 2]").is_empty() && args("7").is_empty(), "no object");
    }

    #[test]
    fn arguments_are_bounded_in_depth_and_number() {
        let nested = |depth| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(args(&nested(MAX_DEPTH)), ["a.a.a.a.a.a.a.a=1"]);
        let deeper = args(&nested(MAX_DEPTH + 1));
        assert_eq!(deeper, [r#"a.a.a.a.a.a.a.a={"a":1}"#]);
        let lists = format!(r#"{{"a":{}1{}}}"#, "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert_eq!(args(&lists), ["a[0][0][0][0][0][0][0]=[1]"]);
        let many: Vec<String> = (0..=MAX_ARGS).map(|n| format!(r#""a{n}":{n}"#)).collect();
        assert_eq!(args(&format!("{{{}}}", many.join(","))).len(), MAX_ARGS);
    }

    #[test]
    fn microseconds_become_nanoseconds_exactly() {
        for (text, ns) in [
            ("0", 0),
            ("12.345", 12345),
            ("-12.5", -12500),
            ("9007199254740.993", 9_007_199_254_740_993),
            ("1.0004", 1000),
            ("1.0005", 1001),
            ("1.5e3", 1_500_000),
            ("3.1000000000000001", 3100),
            // Microseconds since 1970.
            ("1704067200123457", 1_704_067_200_123_457_000),
            ("1704067200123456.789", 1_704_067_200_123_456_789),
            ("1.704067200123456789e15", 1_704_067_200_123_456_789),
            ("17040672001234567.8E-1", 1_704_067_200_123_456_780),
            ("-8999999999999999.9994", -8_999_999_999_999_999_999),
            ("5e-4", 1),
            ("5e-5", 0),
            ("4e-4", 0),
            ("9e-5", 0),
            ("0e2000000000", 0),
            ("0000000000000000000000001e+2", 100_000),
        ] {
            assert_eq!(nanoseconds(text), Some(ns), "{text}");
        }
        for text in [
            "",
            "x",
            "1e300",
            "-",
            "NaN",
            "1e",
            "1e9999999999",
            "9223372036854775",
            "9223372036854775.8079",
            "9e15",
            "1e2000000000",
        ] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn any_nanosecond_is_read_from_any_way_to_write_it() {
        let mut seed = 0x5eed_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let ns = (seed as i64 >> (seed % 63)) % LATEST_NS;
            let sign = if ns < 0 { "-" } else { "" };
            let (us, rest) = (ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
            // A fourth digit rounds down or not at all.
            let decimal = format!("{sign}{us}.{rest:03}{}", seed % 5);
            let small = format!("{sign}{}E-3", ns.unsigned_abs());
            let digits = ns.unsigned_abs().to_string();
            let exponent = digits.len() as i64 - 4;
            let scientific = format!("{sign}{}.{}e{exponent}", &digits[..1], &digits[1..]);
            for text in [decimal, small, scientific] {
                assert_eq!(nanoseconds(&text), Some(ns), "{text}");
            }
        }
    }

    #[test]
    fn arguments_keep_their_order_and_are_flattened() {
        let raw: &RawValue = serde_json::from_str(
            r#"{"z":-1,"a":{"b":[1.5,"t\n"],"c":true},"u":18446744073709551615,"o":null}"#,
        )
        .unwrap();
        let mut found = Vec::new();
        each_arg(Some(raw), &mut |name, value| found.push((name.to_owned(), format!("{value:?}"))));
        let wanted = [
            ("z", "Int(-1)"),
            ("a.b[0]", "Float(1.5)"),
            ("a.b[1]", "Text(\"t\\n\")"),
            ("a.c", "Text(\"true\")"),
            ("u", "Uint(18446744073709551615)"),
            ("o", "Text(\"null\")"),
        ];
        assert_eq!(found, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        assert_eq!(integer("0x1f"), Some(31));
        assert_eq!(integer("18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer("-1"), Some(u64::MAX));
        assert_eq!(integer("abc"), None);
    }
}
