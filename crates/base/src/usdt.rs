//! Names of USDT probes: which two of them are the beginning and the end of one thing.

/// Before the name of a probe whose hits are counted among the kinds of events: `usdt/python:gc__start`.
pub const COUNTED: &str = "usdt/";

/// What a probe marks, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The beginning of something, if there is a probe for its end too.
    Begin,
    /// The end of it.
    End,
    /// A point in time.
    Point,
}

/// The last words of names.
const WORDS: [(&str, Side); 11] = [
    ("entry", Side::Begin),
    ("enter", Side::Begin),
    ("start", Side::Begin),
    ("begin", Side::Begin),
    ("return", Side::End),
    ("exit", Side::End),
    ("done", Side::End),
    ("complete", Side::End),
    ("end", Side::End),
    ("stop", Side::End),
    ("finish", Side::End),
];

/// The part of `PROVIDER:PROBE` that the two ends of one thing share, and which of them it is: `python:gc__start` is
/// the beginning of `python:gc`. Other names are their own stem.
pub fn stem(name: &str) -> (&str, Side) {
    let at = name.rfind(['_', ':']).unwrap_or(0);
    let word = name.get(at + 1..).unwrap_or_default();
    let known = WORDS.iter().find(|(known, _)| *known == word);
    match known {
        Some((_, side)) if at > 0 => (name[..at].trim_end_matches(['_', ':']), *side),
        _ => (name, Side::Point),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_one_thing_have_one_stem() {
        for (begin, end, both) in [
            ("python:gc__start", "python:gc__done", "python:gc"),
            ("a:function__entry", "a:function__return", "a:function"),
            ("rtld:map_start", "rtld:map_complete", "rtld:map"),
            ("app:start", "app:stop", "app"),
        ] {
            assert_eq!(stem(begin), (both, Side::Begin));
            assert_eq!(stem(end), (both, Side::End));
        }
        for point in ["libstdcxx:throw", "a:restart", "a:weekend", "start", ":start", ""] {
            assert_eq!(stem(point), (point, Side::Point), "{point}");
        }
    }
}
