//! Options of both versions. Ids are the same in both; those that only point at sections are in `v7`.
//!
//! An option is u16 id, u32 length and that many bytes, whose meaning depends on the id (man trace-cmd.dat(5), "OPTIONS"). Options
//! say what pages do not: the clock, how its ticks become ns, the offset to the time of day, counts of lost events, and the
//! buffers besides the top one. An unknown id is noted and stepped over.
use super::TraceDat;
use super::buffer::OptionBuffer;
use super::clock::current_clock;
use super::reader::Reader;
use crate::Result;

/// Facts about the recording that options hold; what no option says is empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// Offset added to all stamps after conversion, ns: to make them the time of day (`--date`), or as asked for.
    pub offset_ns: i64,
    /// Whether [`Options::offset_ns`] makes stamps the time of day.
    pub is_date: bool,
    /// Statistics of each CPU's buffer at the end.
    pub cpu_stats: Vec<CpuStat>,
    /// The clock that was in use, as tracefs names it.
    pub clock: String,
    /// The useful parts of `uname -a`: system, host name, release, machine.
    pub uname: String,
    /// trace-cmd's version.
    pub writer: String,
    /// CPUs of the machine.
    pub cpu_count: u32,
    /// Id of this tracing session.
    pub trace_id: Option<u64>,
    /// Conversion of this guest's stamps to those of its host.
    pub time_shift: Option<TimeShift>,
    /// Guests that were traced in the same session.
    pub guests: Vec<Guest>,
    /// Conversion of TSC stamps to ns.
    pub tsc_to_ns: Option<TscToNs>,
    /// Ids of options that were not understood.
    pub unknown: Vec<u16>,
}

/// `ns = ticks * mult >> shift`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TscToNs {
    /// Multiplier.
    pub mult: u32,
    /// Shift.
    pub shift: u32,
    /// Subtracted from guest stamps when they become those of the host.
    pub offset: u64,
}

impl TscToNs {
    /// The ns of so many ticks. Saturates.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        let wide = u128::from(ticks) * u128::from(self.mult);
        u64::try_from(wide >> self.shift.min(127)).unwrap_or(u64::MAX)
    }
}

/// One `per_cpu/cpuN/stats` file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStat {
    /// The CPU.
    pub cpu: u32,
    /// Oldest events overwritten.
    pub overrun: u64,
    /// Events lost because interrupts nested too deep.
    pub commit_overrun: u64,
    /// Newest events dropped.
    pub dropped: u64,
}

/// A guest of this host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The session id of its file.
    pub trace_id: u64,
    /// For each of its CPUs the host's thread that plays it.
    pub cpus: Vec<(u32, i32)>,
}

/// Corrections of a guest's clock.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TimeShift {
    /// The session id of its host's file.
    pub peer: u64,
    /// Bit 0: between two corrections the offset is interpolated.
    pub flags: u32,
    /// For each CPU its corrections by time.
    pub cpus: Vec<Vec<Shift>>,
}

/// One correction: `host = guest * scaling >> fraction_bits + offset` from `time` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shift {
    /// From here on, guest's clock.
    pub time: u64,
    /// Added.
    pub offset: i64,
    /// Multiplied before.
    pub scaling: i64,
    /// Bits of the fraction in `scaling`.
    pub fraction_bits: u32,
}

impl TimeShift {
    /// The host's stamp of a guest's.
    pub fn apply(&self, cpu: u32, stamp: u64) -> u64 {
        let cpu = self.cpus.get(cpu as usize).or(self.cpus.first());
        let Some(all) = cpu.filter(|c| !c.is_empty()) else {
            return stamp;
        };
        let at = all.partition_point(|s| s.time <= stamp);
        let shift = all[at.saturating_sub(1)];
        let scaled = if shift.scaling == 0 {
            i128::from(stamp)
        } else {
            (i128::from(stamp) * i128::from(shift.scaling)) >> shift.fraction_bits.min(64)
        };
        let mut offset = i128::from(shift.offset);
        if self.flags & 1 != 0 && at > 0 && at < all.len() {
            let next = all[at];
            let (along, whole) = (stamp - shift.time, next.time - shift.time);
            let rise = i128::from(next.offset) - offset;
            offset += rise * i128::from(along) / i128::from(whole.max(1));
        }
        u64::try_from(scaled + offset).unwrap_or(stamp)
    }
}

/// Ids of options.
pub(super) mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const HOOK: u16 = 6;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const PROCMAPS: u16 = 10;
    pub const TRACEID: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
    pub const TSC2NSEC: u16 = 14;
    pub const STRINGS: u16 = 15;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

impl TraceDat<'_> {
    /// Takes one option in. Version 6 keeps what BUFFER says in `buffers`, to read when all options are known.
    pub(super) fn option(
        &mut self,
        id: u16,
        mut data: Reader<'_>,
        buffers: &mut Vec<OptionBuffer>,
    ) -> Result<()> {
        let version = self.version;
        let options = &mut self.options;
        match id {
            id::DATE => {
                // Microseconds.
                options.offset_ns =
                    options.offset_ns.wrapping_add(number(&line(&data)).wrapping_mul(1000));
                options.is_date = true;
            }
            id::OFFSET => options.offset_ns = options.offset_ns.wrapping_add(number(&line(&data))),
            id::CPUSTAT => options.cpu_stats.extend(cpu_stat(&line(&data))),
            id::TRACECLOCK => options.clock = current_clock(&line(&data)),
            id::UNAME => options.uname = line(&data).trim().to_owned(),
            id::VERSION => options.writer = line(&data).trim().to_owned(),
            id::CPUCOUNT => options.cpu_count = data.u32()?,
            id::TRACEID => options.trace_id = Some(data.u64()?),
            id::TIME_SHIFT => options.time_shift = Some(time_shift(data)?),
            id::GUEST => options.guests.push(guest(data)?),
            id::TSC2NSEC => {
                options.tsc_to_ns =
                    Some(TscToNs { mult: data.u32()?, shift: data.u32()?, offset: data.u64()? });
            }
            id::BUFFER => buffers.push(OptionBuffer::read(version, data)?),
            id::BUFFER_TEXT => buffers.push(OptionBuffer::read_text(data)?),
            id::HOOK | id::PROCMAPS | id::STRINGS | id::KALLSYMS | id::PRINTK => {}
            other => options.unknown.push(other),
        }
        Ok(())
    }
}

fn line(data: &Reader<'_>) -> String {
    super::text(data.rest())
}

/// As strtoll reads it: leading digits, with a sign, or hexadecimal.
fn number(text: &str) -> i64 {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (digits, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let value = i128::from_str_radix(&digits[..end], radix).unwrap_or(0);
    let value = if negative { -value } else { value };
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn cpu_stat(text: &str) -> Option<CpuStat> {
    let value = |key: &str| {
        let line = text.lines().find_map(|l| l.trim().strip_prefix(key))?;
        line.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    Some(CpuStat {
        cpu: value("CPU")? as u32,
        overrun: value("overrun").unwrap_or(0),
        commit_overrun: value("commit overrun").unwrap_or(0),
        dropped: value("dropped events").unwrap_or(0),
    })
}

fn guest(mut data: Reader<'_>) -> Result<Guest> {
    let mut guest = Guest { name: data.text()?, trace_id: data.u64()?, cpus: Vec::new() };
    for _ in 0..data.count(8)? {
        guest.cpus.push((data.u32()?, data.u32()? as i32));
    }
    Ok(guest)
}

/// Files of trace-cmd 3.1 and later hold, after the corrections of all CPUs, the fraction bits of each.
fn time_shift(mut data: Reader<'_>) -> Result<TimeShift> {
    let mut shift = TimeShift { peer: data.u64()?, flags: data.u32()?, cpus: Vec::new() };
    for _ in 0..data.count(4)? {
        let n = data.count(24)?;
        let mut all = vec![Shift::default(); n];
        for s in &mut all {
            s.time = data.u64()?;
        }
        for s in &mut all {
            s.offset = data.u64()? as i64;
        }
        for s in &mut all {
            s.scaling = data.u64()? as i64;
        }
        shift.cpus.push(all);
    }
    if data.left() > 0 {
        for cpu in &mut shift.cpus {
            for s in cpu {
                s.fraction_bits = match data.left() {
                    0..8 => 0,
                    _ => u32::try_from(data.u64()?).unwrap_or(0),
                };
            }
        }
    }
    // The search needs them by time, whatever the file says.
    for cpu in &mut shift.cpus {
        cpu.sort_by_key(|s| s.time);
    }
    Ok(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtoll_does() {
        for (text, value) in [
            ("12", 12),
            ("-7\n", -7),
            ("0x10", 16),
            ("-0x10 ", -16),
            ("12us", 12),
            ("", 0),
            ("99999999999999999999999", i64::MAX),
        ] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn the_clock_in_brackets_is_the_current_one() {
        assert_eq!(current_clock("local global [x86-tsc] mono\n"), "x86-tsc");
        assert_eq!(current_clock("mono"), "mono");
    }

    #[test]
    fn a_stats_file() {
        let text = "CPU: 3\nentries: 0\noverrun: 7\ncommit overrun: 1\nbytes: 0\ndropped events: 2\nread events: 9\n";
        let stat = cpu_stat(text).unwrap();
        assert_eq!(stat, CpuStat { cpu: 3, overrun: 7, commit_overrun: 1, dropped: 2 });
    }

    #[test]
    fn corrections_are_interpolated_when_asked_for() {
        let at = |time, offset| Shift { time, offset, scaling: 0, fraction_bits: 0 };
        let mut shift =
            TimeShift { peer: 1, flags: 0, cpus: vec![vec![at(100, 1000), at(200, 2000)]] };
        assert_eq!(shift.apply(0, 150), 1150);
        shift.flags = 1;
        assert_eq!(shift.apply(0, 150), 1650);
        assert_eq!(shift.apply(0, 50), 1050, "before the first: the first");
        assert_eq!(shift.apply(0, 300), 2300, "after the last: the last");
        assert_eq!(shift.apply(9, 200), 2200, "a CPU without its own: CPU 0's");
    }

    #[test]
    fn ticks_become_ns_without_overflow() {
        let c = TscToNs { mult: 1 << 31, shift: 31, offset: 0 };
        assert_eq!(c.ns(u64::MAX), u64::MAX);
        assert_eq!(TscToNs { mult: 3, shift: 200, offset: 0 }.ns(9), 0);
    }
}
