//! Numbers and names as text: three significant digits, a unit that fits, groups of thousands.
//!
//! [`printable`] is the gate for all text that comes from a recording: names are chosen by the traced program, and a
//! name with an escape sequence could otherwise rewrite the screen.

use kasuri_base::words::harmless;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `1.23 s`, `45.6 ms`, `789 us`, `0 ns`; negative lengths keep their sign.
pub fn duration(ns: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    // 999.6 us is 1.00 ms, not 1000 us: choose the unit after rounding.
    let size = ns.abs();
    let (scale, unit) =
        UNITS.into_iter().find(|(scale, _)| size >= scale * 0.9995).unwrap_or(UNITS[3]);
    let value = ns / scale;
    if unit == "ns" {
        return format!("{value:.0} ns");
    }
    let decimals = if value.abs() >= 99.95 {
        0
    } else if value.abs() >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if value.abs() >= 9_999.5 {
        format!("{} {unit}", count(value.round() as u64))
    } else {
        format!("{text} {unit}")
    }
}

/// `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of 1 as `12.3 %`. A share above 0 is never printed as 0, and a share below 1 never as 100 %.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 {
        "<0.1 %".into()
    } else if (99.95..100.0).contains(&percent) {
        ">99.9 %".into()
    } else {
        format!("{percent:.1} %")
    }
}

/// `1 thread`, `2 threads`.
pub fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// The text for a screen: names of C++ and Rust functions demangled, and characters replaced that could steer a
/// terminal or reverse the text beside them.
pub fn printable(text: &str) -> String {
    harmless(&kasuri_analyze::demangled(text))
}

/// The file and line of a place, without the folders.
pub fn file_name(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// Most characters of a text for each of its columns: a stranger's name may have any number that take no room.
const MARKS: usize = 2;

/// The text in at most `width` columns, its middle left out: names often differ at their ends.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width && text.chars().count() <= MARKS * width {
        return text.to_string();
    }
    let (head_room, tail_room) =
        ((width.saturating_sub(1)).div_ceil(2), width.saturating_sub(1) / 2);
    let head: String = fitting(text.chars(), head_room).collect();
    let tail: Vec<char> = fitting(text.chars().rev(), tail_room).collect();
    head + "~" + &tail.into_iter().rev().collect::<String>()
}

/// The first characters that fit the room; wide characters take two columns, combining ones none.
fn fitting(chars: impl Iterator<Item = char>, room: usize) -> impl Iterator<Item = char> {
    chars.take(MARKS * room).scan(0, move |used, c| {
        *used += c.width().unwrap_or(0);
        (*used <= room).then_some(c)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_three_digits_and_a_fitting_unit() {
        let cases = [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 us"),
            (1_234.0, "1.23 us"),
            (99_949.0, "99.9 us"),
            (99_950.1, "100 us"),
            (999_499.0, "999 us"),
            (999_500.0, "1.00 ms"),
            (12_345_678.0, "12.3 ms"),
            (61_000_000_000.0, "61.0 s"),
            (-1_500.0, "-1.50 us"),
            (86_400e9, "86,400 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn count_groups_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn percent_never_rounds_to_none_or_all() {
        assert_eq!(
            [0.0, 0.0001, 0.5, 0.9999, 1.0].map(percent),
            ["0.0 %", "<0.1 %", "50.0 %", ">99.9 %", "100.0 %"]
        );
    }

    #[test]
    fn printable_demangles_names() {
        assert_eq!(printable("lock `_ZL5mutex`"), "lock `mutex`");
    }

    #[test]
    fn printable_disarms_escape_sequences() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
