//! Kernel events that tell what a text in `trace_marker` tells: slices, points and counters of drivers and kprobes, functions of
//! the kernel, and the counters that the kernel itself keeps.
use super::ftrace::{Bundle, EVENT, is_kind, pick};
use super::wire::Field;
use crate::Result;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark<'a> {
    /// A text that a program wrote.
    Text(&'a [u8]),
    /// A slice begins; of a process, 0: not known.
    Begin(i32, &'a [u8]),
    /// The thread's innermost slice ends.
    End,
    /// A point in time.
    Instant(&'a [u8]),
    /// The kernel's function with this number in the interned names begins.
    Call(u64),
    /// A counter of a process, 0: of the machine.
    Counter(i32, &'a [u8], i64),
    /// A quantity of a CPU, an allocator, a clock.
    Gauge(Of<'a>, &'static str, i64),
    /// The resident memory of a process.
    Memory {
        /// Its name.
        what: &'static str,
        /// Bytes.
        bytes: i64,
        /// The kernel's number of the address space; 0: not said.
        space: u32,
        /// It is that of the thread that wrote the event; none: not said.
        is_own: Option<bool>,
    },
}

/// What a quantity belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of<'a> {
    /// The machine.
    Machine,
    /// A CPU.
    Cpu(i64),
    /// A graphics processor.
    Gpu(i64),
    /// A clock or a sensor, by its name.
    Named(&'a [u8]),
}

/// A mark, where it was written.
#[derive(Clone, Copy, Debug)]
pub struct MarkEvent<'a> {
    /// ns of the bundle's clock.
    pub time: u64,
    /// Thread that ran then.
    pub tid: i32,
    /// What it tells.
    pub mark: Mark<'a>,
}

/// Numbers of the events that are marks.
pub const MARKS: &[u32] = &[
    3, 11, 12, 16, 80, 313, 322, 326, 332, 333, 335, 340, 341, 348, 349, 350, 351, 359, 437, 438,
    467, 484, 542,
];

impl<'a> Bundle<'a> {
    /// Calls `each` for the marks, in order of time.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn marks(&self, each: &mut dyn FnMut(MarkEvent<'a>)) -> Result<()> {
        let mut fields = self.fields();
        while let Some(field) = fields.next_field()? {
            if field.number != EVENT {
                continue;
            }
            let (mut time, mut tid, mut kind) = (0, 0, None);
            let mut parts = field.message();
            while let Some(part) = parts.next_field()? {
                match part.number {
                    1 => time = part.u64(),
                    2 => tid = part.i32(),
                    number if is_kind(number) && MARKS.contains(&number) => kind = Some(part),
                    _ => {}
                }
            }
            let Some(kind) = kind else { continue };
            let mut tell = |mark| each(MarkEvent { time, tid, mark });
            decode(kind, &mut tell)?;
        }
        Ok(())
    }
}

/// Numbers of the events are those of `FtraceEvent`, those of the fields of each event's own message.
fn decode<'a>(field: Field<'a>, tell: &mut dyn FnMut(Mark<'a>)) -> Result<()> {
    match field.number {
        3 => {
            let (_, [text]) = pick(field, [], [2])?;
            tell(Mark::Text(text.0));
        }
        // kprobe_event: 1 begin, 2 end, 3 point.
        542 => {
            let ([kind], [name]) = pick(field, [2], [1])?;
            match kind {
                1 => tell(Mark::Begin(0, name.0)),
                2 => tell(Mark::End),
                3 => tell(Mark::Instant(name.0)),
                _ => {}
            }
        }
        437 => {
            let ([function], []) = pick(field, [2], [])?;
            tell(Mark::Call(function as u64));
        }
        438 => tell(Mark::End),
        313 | 359 => memory(field, tell)?,
        80 | 333 | 348 | 349 | 350 | 467 | 484 => driver(field, tell)?,
        _ => gauge(field, tell)?,
    }
    Ok(())
}

/// Marks of drivers. Their messages have the same parts with other numbers: process, value, type ('B', 'E' or 'C'; 0: not said),
/// whether it begins, name.
fn driver<'a>(field: Field<'a>, tell: &mut dyn FnMut(Mark<'a>)) -> Result<()> {
    /// No message has that many fields.
    const NO: u32 = 1000;
    let (numbers, texts) = match field.number {
        80 => ([1, NO, NO, 3], [2, NO]),
        333 => ([1, 4, 3, 5], [2, NO]),
        348 => ([1, 6, 5, 3], [2, 4]),
        349 => ([1, 6, 5, NO], [4, NO]),
        350 => ([2, 4, 3, NO], [1, NO]),
        467 => ([3, 5, 2, NO], [4, NO]),
        _ => ([1, 5, 4, 3], [2, NO]),
    };
    let ([pid, value, kind, begins], [name, other]) = pick(field, numbers, texts)?;
    let name = if name.0.is_empty() { other.0 } else { name.0 };
    let pid = pid as i32;
    match (kind as u8, begins != 0) {
        (b'B', _) | (0, true) => tell(Mark::Begin(pid, name)),
        (b'E', _) | (0, false) => tell(Mark::End),
        (b'C', _) => tell(Mark::Counter(pid, name, value)),
        (b'I', _) => tell(Mark::Instant(name)),
        _ => {}
    }
    Ok(())
}

/// `rss_stat`: which kind of memory (`MM_FILEPAGES` ...), bytes, whose.
fn memory<'a>(field: Field<'a>, tell: &mut dyn FnMut(Mark<'a>)) -> Result<()> {
    let [member, size, own, space] = match field.number {
        313 => [1, 2, 3, 4],
        _ => [2, 4, 1, 3],
    };
    let (mut what, mut bytes, mut is_own, mut of) = (0, 0, None, 0);
    let mut message = field.message();
    while let Some(part) = message.next_field()? {
        match part.number {
            n if n == member => what = part.i64(),
            n if n == size => bytes = part.i64(),
            n if n == own => is_own = Some(part.bool()),
            n if n == space => of = part.u32(),
            _ => {}
        }
    }
    let what = match what {
        0 => "mem.rss.file",
        1 => "mem.rss.anon",
        2 => "mem.swap",
        3 => "mem.rss.shmem",
        _ => return Ok(()),
    };
    tell(Mark::Memory { what, bytes, space: of, is_own });
    Ok(())
}

/// A quantity that the kernel tells when it changes.
fn gauge<'a>(field: Field<'a>, tell: &mut dyn FnMut(Mark<'a>)) -> Result<()> {
    match field.number {
        11 => {
            let ([khz, cpu], []) = pick(field, [1, 2], [])?;
            tell(Mark::Gauge(Of::Cpu(cpu), "cpufreq_khz", khz));
        }
        12 => {
            let ([low, high, cpu], []) = pick(field, [1, 2, 3], [])?;
            tell(Mark::Gauge(Of::Cpu(cpu), "cpufreq_min_khz", low));
            tell(Mark::Gauge(Of::Cpu(cpu), "cpufreq_max_khz", high));
        }
        16 | 322 => {
            let ([hz], [name]) = pick(field, [2], [1])?;
            tell(Mark::Gauge(Of::Named(name.0), "clock_hz", hz));
        }
        326 => {
            let ([score, pid], []) = pick(field, [2, 3], [])?;
            tell(Mark::Counter(pid as i32, b"oom_score_adj", score));
        }
        332 => {
            let ([gpu, khz], []) = pick(field, [1, 2], [])?;
            tell(Mark::Gauge(Of::Gpu(gpu), "gpufreq_khz", khz));
        }
        335 | 351 => {
            let ([change, all], []) = pick(field, [2, 3], [])?;
            let [total, step] = match field.number {
                335 => ["mem.ion", "mem.ion_change"],
                _ => ["mem.dma_heap", "mem.dma_heap_change"],
            };
            tell(Mark::Gauge(Of::Machine, total, all));
            tell(Mark::Gauge(Of::Machine, step, change));
        }
        340 => {
            let ([pid, bytes], []) = pick(field, [2, 3], [])?;
            tell(Mark::Counter(pid as i32, b"mem.gpu", bytes));
        }
        341 => {
            let ([temperature], [zone]) = pick(field, [2], [4])?;
            tell(Mark::Gauge(Of::Named(zone.0), "thermal_mdegc", temperature));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::wire::Value;

    #[test]
    fn each_listed_kind_is_a_mark() {
        for &number in MARKS {
            // Field 2 is the type of a kprobe's event.
            let bytes: &[u8] = if number == 542 { &[0x10, 1] } else { &[] };
            let value = Value::Bytes(bytes);
            let field = Field { number, value, offset: 0 };
            let mut n = 0;
            decode(field, &mut |_| n += 1).unwrap();
            assert!(n > 0, "{number}");
        }
    }
}
