//! Lines of tracefs's `trace` and `trace_pipe`, of `trace-cmd report`, and of `perf script`.
//!
//! ```text
//!          odd - ] x-28412   (  28407) [001] d..2.  12565.649544: sched_switch: prev_comm=...
//!           comm    tid       tgid     CPU   flags  time          event        text
//! ```
//! The columns of tgid and flags may be missing. A name may hold anything but a line feed, so a line is read from its CPU
//! backwards and forwards: the first `[digits]` that has a thread before it and a time behind it is the CPU.
//!
//! perf has no dash and no flags, and names the event's system; of a tracepoint, its lines are else the kernel's:
//!
//! ```text
//!      odd - ] x 28412 [001] 12565.649544: sched:sched_switch: prev_comm=...
//! ```

/// Raised in a hardware interrupt: this and the next are bits of `common_flags` (include/linux/trace_events.h), which a line
/// has as one letter.
pub const HARDIRQ: u8 = 0x08;
/// Raised in a softirq.
pub const SOFTIRQ: u8 = 0x10;
/// Raised in an NMI.
pub const NMI: u8 = 0x40;

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
    /// Where it was raised: [`HARDIRQ`], [`SOFTIRQ`], [`NMI`].
    pub flags: u8,
    /// When, ns of the trace's clock (ticks of clocks that count none).
    pub time: i64,
    /// `sched_switch`, `tracing_mark_write`.
    pub event: &'a [u8],
    /// Its content.
    pub text: &'a [u8],
    /// As perf prints it.
    pub is_perf: bool,
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
    if text.starts_with(b"cpus=") || text.starts_with(b"version = ") || is_between(text) {
        return Kind::Comment;
    }
    lost(text).unwrap_or(Kind::Other)
}

/// What stands between events: `CPU 3 is empty` of trace-cmd, the lines that grep puts between its finds, and the functions of a stack that
/// perf prints (`ffffffff810a1b2c schedule+0x1c ([kernel.kallsyms])`).
fn is_between(text: &[u8]) -> bool {
    let is_empty_cpu = text.starts_with(b"CPU ") && text.ends_with(b" is empty");
    let word = text.split(|&b| b == b' ').next().unwrap_or_default();
    let is_address = word.len() >= 4 && word.len() <= 16 && word.iter().all(u8::is_ascii_hexdigit);
    is_empty_cpu || text == b"--" || is_address && text.ends_with(b")")
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
        let digits = line[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || open == 0 || line.get(from + digits) != Some(&b']') {
            continue;
        }
        let behind = &line[from + digits + 1..];
        let (who, what, is_perf) = match thread(&line[..open]) {
            Some(who) => (who, rest(behind), false),
            None => match perf_thread(&line[..open]) {
                Some(who) => (who, perf_rest(behind), true),
                None => continue,
            },
        };
        let Some(what) = what else {
            continue;
        };
        return Some(Line {
            comm: who.0,
            tid: who.1,
            pid: who.2,
            cpu: u32::try_from(number(&line[from..from + digits])?).ok()?,
            flags: what.0,
            time: what.1,
            event: what.2,
            text: what.3,
            is_perf,
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
    // perf's `:-1    -1`: a thread that was gone.
    let is_gone = tid == 1 && text[..dash].trim_ascii_end() == b":-1";
    (!is_gone).then_some((&text[..dash], tid, pid))
}

/// ` comm  1234 `, or ` comm 1200/1234 `: name, thread, process. `perf script -F` can leave out the name.
fn perf_thread(text: &[u8]) -> Option<(&[u8], i32, Option<i32>)> {
    if !text.last()?.is_ascii_whitespace() {
        return None;
    }
    let text = text.trim_ascii();
    let (comm, ids) = match text.iter().rposition(|&b| b == b' ') {
        Some(space) => (text[..space].trim_ascii_end(), &text[space + 1..]),
        None => (&b""[..], text),
    };
    let id = |text: &[u8]| i32::try_from(number(text)?).ok();
    match ids.iter().position(|&b| b == b'/') {
        Some(slash) => Some((comm, id(&ids[slash + 1..])?, Some(id(&ids[..slash])?))),
        // perf has -1 where the thread was gone.
        None if ids == b"-1" => Some((comm, -1, None)),
        None => Some((comm, id(ids)?, None)),
    }
}

/// ` 12565.649544:  250000 sched:sched_switch: text`, of perf: the same as [`rest`]. The event has its system in front, which the
/// kernel does not print, and maybe its period; what is no tracepoint has modifiers behind (`cpu-clock:pppH:`), or nothing.
fn perf_rest(text: &[u8]) -> Option<(u8, i64, &[u8], &[u8])> {
    let (flags, time, event) = stamped(text)?;
    let digits = event.iter().take_while(|b| b.is_ascii_digit()).count();
    let event = match event.get(digits) {
        Some(b' ') => event[digits..].trim_ascii_start(),
        _ => event,
    };
    let end = event.iter().position(|&b| b == b' ').unwrap_or(event.len());
    let word = event[..end].strip_suffix(b":")?;
    let is_modifier = |b: &u8| b"ukhpPGHSDIWeRb".contains(b);
    let name = match word.iter().position(|&b| b == b':') {
        Some(colon) if word[colon + 1..].iter().all(is_modifier) => &word[..colon],
        Some(colon) => &word[colon + 1..],
        None => word,
    };
    if name.is_empty() || name.contains(&b':') {
        return None;
    }
    Some((flags, time, name, event[end..].trim_ascii_start()))
}

/// ` d..2. 12565.649544: event: text`: flags, time, event, text.
#[inline]
fn rest(text: &[u8]) -> Option<(u8, i64, &[u8], &[u8])> {
    let (flags, time, event) = stamped(text)?;
    let end = event.iter().position(|&b| b == b':')?;
    let name = &event[..end];
    if name.is_empty() || name.contains(&b' ') {
        return None;
    }
    Some((flags, time, name, event[end + 1..].trim_ascii_start()))
}

/// ` d..2. 12565.649544: `, and what is behind.
#[inline]
fn stamped(text: &[u8]) -> Option<(u8, i64, &[u8])> {
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
    let (flags, time) = match time(stamp) {
        Some(time) => (flags, time),
        None if flags.is_empty() => without_gap(stamp)?,
        None => return None,
    };
    // Interrupts off, need to schedule, where it was raised, ...
    let flags = match flags.get(2) {
        Some(b'h') => HARDIRQ,
        Some(b'H') => HARDIRQ | SOFTIRQ,
        Some(b's') => SOFTIRQ,
        Some(b'z' | b'Z') => NMI,
        _ => 0,
    };
    Some((flags, time, text[colon + 1..].trim_ascii_start()))
}

/// `....316.196734`: a long time stamp leaves no space behind the flags, of which there are four or, since Linux 5.12, five.
#[cold]
fn without_gap(head: &[u8]) -> Option<(&[u8], i64)> {
    let is_flag = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'#');
    [4, 5].iter().find_map(|&n| {
        let (flags, stamp) = head.split_at_checked(n)?;
        let all_are = flags.iter().all(is_flag) && !flags.iter().take(3).all(u8::is_ascii_digit);
        Some((flags, time(stamp).filter(|_| all_are && stamp.contains(&b'.'))?))
    })
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
        assert_eq!((all.time, all.flags), (12_565_649_544_000, HARDIRQ));
        assert_eq!((all.event, all.text), (&b"sched_waking"[..], &b"comm=a pid=3"[..]));
        let unknown = line("  <idle>-0       (-----) [000] dN.1. 5.000001: x: ");
        assert_eq!((unknown.comm, unknown.pid, unknown.flags), (&b"<idle>"[..], None, 0));
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
        assert_eq!(header, Kind::Header { kept: 20, written: 30, cpus: 2 });
        assert_eq!(parse(b"CPU:3 [LOST 17 EVENTS]"), Kind::Lost { cpu: 3, count: 17 });
        assert_eq!(parse(b"CPU:3 [EVENTS DROPPED]"), Kind::Lost { cpu: 3, count: 0 });
        for comment in
            ["# tracer: nop", "", " => schedule", "cpus=2", "##### CPU 1 buffer started ####"]
        {
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

    #[test]
    fn a_stamp_may_follow_the_flags_without_a_gap() {
        for (text, time, flags) in [
            ("  a-5  [004] ....316.196734: e: t", 316_196_734_000, 0),
            ("  a-5  [004] ..s.316.1967: e: t", 316_196_700_000, SOFTIRQ),
            ("  a-5  [004] d.h2.12345.196734: e: t", 12_345_196_734_000, HARDIRQ),
            ("  a-5  [004] d.H212345.196734: e: t", 12_345_196_734_000, HARDIRQ | SOFTIRQ),
        ] {
            let line = line(text);
            assert_eq!((line.time, line.flags), (time, flags), "{text}");
        }
        for other in ["  a-5  [004] ...316.x: e: t", "  a-5  [004] ....: e: t"] {
            assert_eq!(parse(other.as_bytes()), Kind::Other, "{other}");
        }
    }

    #[test]
    fn lines_of_perf_script() {
        let text = "  kworker/0:1-eve   123 [007]  65.123456789: sched:sched_switch: prev_comm=a prev_pid=1";
        let switch = line(text);
        assert_eq!((switch.comm, switch.tid, switch.pid), (&b"kworker/0:1-eve"[..], 123, None));
        assert_eq!((switch.cpu, switch.time), (7, 65_123_456_789));
        assert_eq!(
            (switch.event, switch.text),
            (&b"sched_switch"[..], &b"prev_comm=a prev_pid=1"[..])
        );
        assert!(switch.is_perf);
        let both = line("a b  120/123 [000] 1.5: raw_syscalls:sys_enter: NR 1 (2)");
        assert_eq!(
            (both.comm, both.tid, both.pid, both.event),
            (&b"a b"[..], 123, Some(120), &b"sys_enter"[..])
        );
        assert_eq!(line("  :-1  -1 [000] 1.5: sched:sched_wakeup: x").tid, -1);
        for (text, name) in [
            ("a 7 [001] 1.000001:     1 sched:sched_waking: comm=b", "sched_waking"),
            ("a 7 [001] 1.000001: 250000 cpu-clock:pppH:  ffffffff81 f+0x1", "cpu-clock"),
            ("a 7 [001] 1.000001: 250000 cycles:  ffffffff81 f::g+0x1", "cycles"),
            ("a 7 [001] 1.000001: sched_waking: comm=b pid=3", "sched_waking"),
            ("   7 [001] 1.000001: sched:sched_waking: comm=b", "sched_waking"),
            ("  6/7 [001] 1.000001: sched:sched_waking: comm=b", "sched_waking"),
        ] {
            let line = line(text);
            assert_eq!((line.event, line.tid, line.is_perf), (name.as_bytes(), 7, true), "{text}");
        }
        assert!(!line("  a 7-5  [000] .... 1.0: e: t").is_perf);
        assert_eq!(parse(b"\tffffffff810a1b2c schedule+0x1c ([kernel.kallsyms])"), Kind::Comment);
        assert_eq!(parse(b"a 5 [000] 1.5: 12 cycles ffff81"), Kind::Other);
    }
}
