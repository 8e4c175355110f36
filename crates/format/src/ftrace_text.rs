//! Lines of tracefs's `trace` and `trace_pipe`, and of `trace-cmd report`.
//!
//! ```text
//!          odd - ] x-28412   (  28407) [001] d..2.  12565.649544: sched_switch: prev_comm=...
//!           comm    tid       tgid     CPU   flags  time          event        text
//! ```
//! The columns of tgid and flags may be missing. A name may hold anything but a line feed, so a line is read from its CPU
//! backwards and forwards: the first `[digits]` that has a thread before it and a time behind it is the CPU.

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Name of the thread that was on the CPU.
    pub comm: &'a [u8],
    /// Its id; 0: idle.
    pub tid: i32,
    /// Its process, when there is that column and it is known.
    pub pid: Option<i32>,
    /// CPU.
    pub cpu: u32,
    /// Raised inside a hardware interrupt, as the flags say.
    pub in_interrupt: bool,
    /// When, ns of the trace's clock (ticks of clocks that count none).
    pub time: i64,
    /// `sched_switch`, `tracing_mark_write`.
    pub event: &'a [u8],
    /// Its content.
    pub text: &'a [u8],
}

/// Kinds of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind<'a> {
    /// An event.
    Event(Line<'a>),
    /// `CPU:1 [LOST 23 EVENTS]`: events of that CPU are missing here; 0: not known how many.
    Lost {
        /// CPU.
        cpu: u32,
        /// Number of events; 0: not known.
        count: u64,
    },
    /// `# entries-in-buffer/entries-written: 20/30   #P:2`: kept, written, CPUs.
    Header {
        /// Events in the buffer.
        kept: u64,
        /// Events that were written to it.
        written: u64,
        /// CPUs.
        cpus: u32,
    },
    /// Nothing to be read: a comment, an empty line, `cpus=2`, a function of a stack.
    Comment,
    /// Not understood.
    Other,
}

/// Reads a line, without its line feed.
#[inline]
pub fn parse(line: &[u8]) -> Kind<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(event) = event(line) {
        return Kind::Event(event);
    }
    let text = line.trim_ascii();
    if text.is_empty() || text.starts_with(b"=>") || text.starts_with(b"<stack trace>") {
        return Kind::Comment;
    }
    if text.starts_with(b"#") {
        return header(text).unwrap_or(Kind::Comment);
    }
    if text.starts_with(b"cpus=") || text.starts_with(b"version = ") {
        return Kind::Comment;
    }
    lost(text).unwrap_or(Kind::Other)
}

fn header(text: &[u8]) -> Option<Kind<'_>> {
    let rest = text.strip_prefix(b"# entries-in-buffer/entries-written:")?;
    let rest = std::str::from_utf8(rest).ok()?;
    let (counts, cpus) = rest.split_once("#P:")?;
    let (kept, written) = counts.trim().split_once('/')?;
    Some(Kind::Header {
        kept: kept.parse().ok()?,
        written: written.parse().ok()?,
        cpus: cpus.trim().parse().ok()?,
    })
}

/// trace_pipe: `CPU:1 [LOST 23 EVENTS]`; trace-cmd: `CPU:1 [23 EVENTS DROPPED]`.
fn lost(text: &[u8]) -> Option<Kind<'_>> {
    let rest = std::str::from_utf8(text).ok()?.strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(" [")?;
    if !rest.contains("LOST") && !rest.contains("DROPPED") {
        return None;
    }
    let number = |word: &str| word.parse().ok();
    Some(Kind::Lost {
        cpu: cpu.trim().parse().ok()?,
        count: rest.split(' ').find_map(number).unwrap_or(0),
    })
}

#[inline]
fn event(line: &[u8]) -> Option<Line<'_>> {
    let mut from = 0;
    loop {
        let open = from + line[from..].iter().position(|&b| b == b'[')?;
        from = open + 1;
        let digits = line[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if digits == 0 || open == 0 || line.get(from + digits) != Some(&b']') {
            continue;
        }
        let Some(who) = thread(&line[..open]) else {
            continue;
        };
        let Some(what) = rest(&line[from + digits + 1..]) else {
            continue;
        };
        return Some(Line {
            comm: who.0,
            tid: who.1,
            pid: who.2,
            cpu: u32::try_from(number(&line[from..from + digits])?).ok()?,
            in_interrupt: what.0,
            time: what.1,
            event: what.2,
            text: what.3,
        });
    }
}

/// `   comm-123   (  120) `: name, thread, process.
#[inline]
fn thread(text: &[u8]) -> Option<(&[u8], i32, Option<i32>)> {
    if !text.last()?.is_ascii_whitespace() {
        return None;
    }
    let mut text = text.trim_ascii();
    let mut pid = None;
    if let Some(inner) = text.strip_suffix(b")") {
        let open = inner.iter().rposition(|&b| b == b'(')?;
        let inside = inner[open + 1..].trim_ascii();
        pid = number(inside).and_then(|n| i32::try_from(n).ok());
        if pid.is_none() && !inside.iter().all(|&b| b == b'-') {
            return None;
        }
        text = inner[..open].trim_ascii_end();
    }
    let dash = text.iter().rposition(|&b| b == b'-')?;
    let tid = i32::try_from(number(&text[dash + 1..])?).ok()?;
    Some((&text[..dash], tid, pid))
}

/// ` d..2. 12565.649544: event: text`: in an interrupt, time, event, text.
#[inline]
fn rest(text: &[u8]) -> Option<(bool, i64, &[u8], &[u8])> {
    let text = text.strip_prefix(b" ")?.trim_ascii_start();
    let colon = text.iter().position(|&b| b == b':')?;
    let head = &text[..colon];
    let (flags, stamp) = match head.iter().rposition(|&b| b == b' ') {
        Some(space) => (head[..space].trim_ascii_end(), &head[space + 1..]),
        None => (&b""[..], head),
    };
    if flags.contains(&b' ') {
        return None;
    }
    let time = time(stamp)?;
    // Interrupts off, need to schedule, hard or soft interrupt, ...
    let in_interrupt = matches!(flags.get(2), Some(b'h' | b'H' | b'z' | b'Z'));
    let event = text[colon + 1..].trim_ascii_start();
    let end = event.iter().position(|&b| b == b':')?;
    let name = &event[..end];
    if name.is_empty() || name.contains(&b' ') {
        return None;
    }
    Some((
        in_interrupt,
        time,
        name,
        event[end + 1..].trim_ascii_start(),
    ))
}

/// Seconds with 6 or 9 digits behind the point; a whole number of a counter.
#[inline]
fn time(text: &[u8]) -> Option<i64> {
    let Some(point) = text.iter().position(|&b| b == b'.') else {
        return i64::try_from(number(text)?).ok();
    };
    let (seconds, fraction) = (number(&text[..point])?, &text[point + 1..]);
    let digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= 9)?;
    let ns = number(fraction)? * 10u64.pow(9 - digits);
    i64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(ns)?).ok()
}

#[inline]
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line<'_> {
        match parse(text.as_bytes()) {
            Kind::Event(line) => line,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn columns_may_be_missing_and_names_odd() {
        let all = line(
            "       odd - ] x-28412   (  28407) [001] d.h2.  12565.649544: sched_waking: comm=a pid=3",
        );
        assert_eq!(
            (all.comm, all.tid, all.pid, all.cpu),
            (&b"odd - ] x"[..], 28412, Some(28407), 1)
        );
        assert_eq!((all.time, all.in_interrupt), (12_565_649_544_000, true));
        assert_eq!(
            (all.event, all.text),
            (&b"sched_waking"[..], &b"comm=a pid=3"[..])
        );
        let unknown = line("  <idle>-0       (-----) [000] dN.1. 5.000001: x: ");
        assert_eq!(
            (unknown.comm, unknown.pid, unknown.in_interrupt),
            (&b"<idle>"[..], None, false)
        );
        // trace-cmd report: no flags, or ns.
        let plain = line(
            "            sh-77    [010]    65.123456789: sched_switch: sh:77 [120] S ==> a [3] x-1:5 [120]",
        );
        assert_eq!((plain.tid, plain.cpu, plain.time), (77, 10, 65_123_456_789));
        let bracket = line("  a [3] b-5  [000] .... 1.0: e: t [1] 2.0: f: g");
        assert_eq!((bracket.comm, bracket.event), (&b"a [3] b"[..], &b"e"[..]));
        assert_eq!(line("  a-5  [000] .... 123456: e: t").time, 123_456);
    }

    #[test]
    fn other_lines_are_told_apart() {
        let header = parse(b"# entries-in-buffer/entries-written: 20/30   #P:2");
        assert_eq!(
            header,
            Kind::Header {
                kept: 20,
                written: 30,
                cpus: 2
            }
        );
        assert_eq!(
            parse(b"CPU:3 [LOST 17 EVENTS]"),
            Kind::Lost { cpu: 3, count: 17 }
        );
        assert_eq!(
            parse(b"CPU:3 [EVENTS DROPPED]"),
            Kind::Lost { cpu: 3, count: 0 }
        );
        for comment in [
            "# tracer: nop",
            "",
            " => schedule",
            "cpus=2",
            "##### CPU 1 buffer started ####",
        ] {
            assert_eq!(parse(comment.as_bytes()), Kind::Comment, "{comment}");
        }
        for other in [
            "hello",
            "a-5 [0] 1.0",
            "-[1] 1.1: a: b",
            "a-b [000] 1.0: e: t",
            "a-1 [99999999999999999999] 1.0: e: t",
        ] {
            assert_eq!(parse(other.as_bytes()), Kind::Other, "{other}");
        }
    }
}
