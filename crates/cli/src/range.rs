//! `A..B` on the command line: a part of a recording, in time since its start.
use kasuri_model::{Time, Trace};
use std::ops::Range;
use std::str::FromStr;

/// A part of a recording; an end that was left out is the recording's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRange {
    from: Option<Point>,
    to: Option<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    Ns(i64),
    Percent(f64),
}

impl TimeRange {
    /// The range in ns from the recording's start, cut to its length.
    ///
    /// # Errors
    /// A sentence for the user when nothing of the recording is left.
    pub fn resolve(&self, length_ns: i64) -> anyhow::Result<Range<i64>> {
        let at = |point: Point| match point {
            Point::Ns(ns) => ns,
            Point::Percent(p) => (length_ns as f64 * p / 100.0) as i64,
        };
        let asked = [self.from.map_or(0, at), self.to.map_or(length_ns, at)];
        let [from, to] = asked.map(|ns| ns.clamp(0, length_ns));
        anyhow::ensure!(
            from < to,
            "--range selects nothing: the recording is {:.6} s long and {:.6} s .. {:.6} s was asked for",
            length_ns as f64 * 1e-9,
            asked[0] as f64 * 1e-9,
            asked[1] as f64 * 1e-9
        );
        Ok(from..to)
    }
}

impl FromStr for TimeRange {
    type Err = String;
    fn from_str(text: &str) -> Result<TimeRange, String> {
        let (from, to) =
            text.split_once("..").ok_or("needs two dots, as in 1.5s..2s, 100ms.. or ..20%")?;
        let end = |s: &str| {
            if s.trim().is_empty() { Ok(None) } else { point(s.trim()).map(Some) }
        };
        Ok(TimeRange { from: end(from)?, to: end(to)? })
    }
}

fn point(text: &str) -> Result<Point, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let value: f64 = number
        .parse()
        .map_err(|_| format!("\"{text}\" is no time: needs a number and ns, us, ms, s or %"))?;
    match unit.trim() {
        "ns" => Ok(Point::Ns(value as i64)),
        "us" | "µs" => Ok(Point::Ns((value * 1e3) as i64)),
        "ms" => Ok(Point::Ns((value * 1e6) as i64)),
        "" | "s" => Ok(Point::Ns((value * 1e9) as i64)),
        "%" => Ok(Point::Percent(value)),
        other => Err(format!("unit \"{other}\" is not known: needs ns, us, ms, s or %")),
    }
}

/// Options of an analysis: a part of the recording, and which processes.
///
/// # Errors
/// As [`TimeRange::resolve`].
pub fn options(
    trace: &Trace,
    range: Option<TimeRange>,
    all_processes: bool,
) -> anyhow::Result<kasuri_analyze::Options> {
    let start = trace.span.start.ns();
    let length = trace.span.end.ns() - start;
    let range = range.map(|r| r.resolve(length)).transpose()?;
    Ok(kasuri_analyze::Options {
        range: range.map(|r| Time(start + r.start)..Time(start + r.end)),
        all_processes,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, length: i64) -> Range<i64> {
        text.parse::<TimeRange>().unwrap().resolve(length).unwrap()
    }

    #[test]
    fn range_units_and_open_ends() {
        assert_eq!(resolve("1us..2us", 10_000), 1_000..2_000);
        assert_eq!(resolve("..", 10_000), 0..10_000);
        assert_eq!(resolve("0.000002..", 10_000), 2_000..10_000);
        assert_eq!(resolve("25%..75%", 10_000), 2_500..7_500);
        assert_eq!(resolve("1ms..9s", 2_000_000), 1_000_000..2_000_000);
    }

    #[test]
    fn range_that_is_wrong_says_so() {
        for bad in ["1s", "1s-2s", "x..2", "1s..2h", "1..-2"] {
            assert!(bad.parse::<TimeRange>().is_err(), "{bad}");
        }
        for (text, asked) in [
            ("3s..2s", "3.000000 s .. 2.000000 s"),
            ("11s..", "11.000000 s .. 10.000000 s"),
            ("150%..", "15.000000 s .. 10.000000 s"),
        ] {
            let range: TimeRange = text.parse().unwrap();
            let said = range.resolve(10_000_000_000).unwrap_err().to_string();
            assert!(said.contains(asked), "{said}");
        }
    }
}
