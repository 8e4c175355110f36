//! The meaning of `prev_state` of sched_switch, read from the event's own print format.
//!
//! The bits differ between kernels: a preempted thread ("R+") is 0x100 on new ones, 2048, 1024 or plain 0 on older
//! ones, idle kernel threads ("I") are 0x80 or a pair of bits. The format text names each bit
//! (`__print_flags(REC->prev_state & MASK, "|", { 0x1, "S" }, ...)`) and gives the bit of "+" as an expression, so the
//! tables need not be built in. Only the newest one is, as the fallback for a text that cannot be read.
//!
//! The letters are those of `ps`: S sleeping, D uninterruptible sleep, T stopped, t traced, X dead, Z zombie, P parked,
//! I idle; older kernels also have x dead, K wakekill, W waking, N no load. "R" has no bit.
//!
//! A format file comes from the trace, so it is untrusted: the parser limits its nesting and never panics.
use kasuri_model::ThreadState;

/// Meaning of each value of `prev_state`.
#[derive(Clone, Debug)]
pub struct PrevState {
    /// States of all values below [`SMALL`]. Kernels write no larger ones.
    table: Vec<ThreadState>,
    /// Bits and the letter for them; all bits must be set.
    letters: Vec<(u64, char)>,
    /// The bit of "+", the thread was preempted; 0: this kernel has none.
    plus: u64,
}

/// Size of the table: above the largest bit that kernels use, 2048.
const SMALL: u64 = 4096;

impl PrevState {
    /// Reads the text of the event's format file.
    pub fn from_format(text: &str) -> PrevState {
        let print = text.split_once("print fmt:").map_or("", |(_, p)| p);
        let letters = letters(print);
        let plus = plus_bit(print);
        match letters.is_empty() {
            true => PrevState::newest(),
            false => PrevState::new(letters, plus.unwrap_or(0)),
        }
    }

    /// The bits since Linux 4.14: `TASK_REPORT` in include/linux/sched.h.
    pub fn newest() -> PrevState {
        let letters =
            "SDTtXZPI".chars().enumerate().map(|(bit, letter)| (1 << bit, letter)).collect();
        PrevState::new(letters, 0x100)
    }

    fn new(letters: Vec<(u64, char)>, plus: u64) -> PrevState {
        let mut states = PrevState { table: Vec::new(), letters, plus };
        states.table = (0..SMALL).map(|value| states.slow(value)).collect();
        states
    }

    /// The state of a thread that left a CPU with this value.
    #[inline]
    pub fn get(&self, value: i64) -> ThreadState {
        match self.table.get(value as usize) {
            Some(&state) if value >= 0 => state,
            _ => self.slow(value as u64),
        }
    }

    /// Derives a state from the letters. Preemption takes precedence: a preempted thread may already have set the bit
    /// of the state it is about to enter, but it is still able to run.
    fn slow(&self, value: u64) -> ThreadState {
        if value & self.plus != 0 {
            return ThreadState::RunnablePreempted;
        }
        let has = |wanted: &str| {
            self.letters.iter().any(|&(bits, l)| value & bits == bits && wanted.contains(l))
        };
        match () {
            _ if has("XZx") => ThreadState::Dead,
            _ if has("Tt") => ThreadState::Stopped,
            _ if has("IP") || (has("D") && has("N")) => ThreadState::Idle,
            _ if has("D") => ThreadState::DiskSleep,
            _ if has("S") => ThreadState::Sleeping,
            _ if value == 0 || has("R") => ThreadState::RunnablePreempted,
            // A bit without a name, or one that only qualifies others (K, W, N): asleep in an unknown way.
            _ => ThreadState::Sleeping,
        }
    }
}

/// The pairs `{ number, "letter" }` of the first list in the format.
fn letters(print: &str) -> Vec<(u64, char)> {
    let Some((_, list)) = print.split_once("__print_flags(") else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for item in list.split('{').skip(1) {
        let Some((body, _)) = item.split_once('}') else {
            break;
        };
        let Some((number, name)) = body.split_once(',') else {
            break;
        };
        let letter = name.trim().trim_matches('"').chars().next();
        match (constant(number), letter) {
            (Some(value), Some(letter)) if value != 0 => out.push((value, letter)),
            _ => {}
        }
    }
    out
}

/// The bit of "+". In `REC->prev_state & MASK ? "+" : ""` it is the expression between the last `prev_state &` and
/// the question mark.
fn plus_bit(print: &str) -> Option<u64> {
    let before = &print[..print.find("? \"+\"")?];
    let mask = &before[before.rfind("prev_state &")? + "prev_state &".len()..];
    constant(mask)
}

/// The value of a constant expression of numbers, parentheses, `|`, `<<`, `+`, `-`; none: it is something else.
fn constant(text: &str) -> Option<u64> {
    let mut parser = Parser { text: text.trim().as_bytes(), at: 0, depth: 0 };
    let value = parser.or()?;
    parser.space();
    (parser.at == parser.text.len()).then_some(value)
}

/// A recursive-descent parser with C's precedence: `+` and `-` bind tighter than `<<`, and `<<` tighter than `|`.
struct Parser<'a> {
    text: &'a [u8],
    /// Index of the next byte.
    at: usize,
    /// Open parentheses; more than 64 are an error, so that the stack cannot overflow.
    depth: u32,
}

impl Parser<'_> {
    /// Skips spaces.
    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes a token, if it comes next.
    fn accept(&mut self, token: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    /// `shift | shift ...`
    fn or(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.accept("|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    /// `sum << sum ...`; none where C leaves it undefined.
    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        while self.accept("<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    /// `atom + atom - atom ...`
    fn sum(&mut self) -> Option<u64> {
        let mut value = self.atom()?;
        loop {
            if self.accept("+") {
                value = value.wrapping_add(self.atom()?);
            } else if self.accept("-") {
                value = value.wrapping_sub(self.atom()?);
            } else {
                return Some(value);
            }
        }
    }

    /// A number with C's suffixes, or an expression in parentheses.
    fn atom(&mut self) -> Option<u64> {
        if self.accept("(") {
            self.depth += 1;
            let value = if self.depth < 64 { self.or() } else { None };
            self.depth -= 1;
            return value.filter(|_| self.accept(")"));
        }
        self.space();
        let start = self.at;
        while self.text.get(self.at).is_some_and(|c| c.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        let word = std::str::from_utf8(&self.text[start..self.at])
            .ok()?
            .trim_end_matches(['u', 'U', 'l', 'L']);
        match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::*;

    /// The text of Linux 6.18 (x86-64).
    const NEW: &str = r#"print fmt: "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;
    /// The shape of older ones: other order, other bits.
    const OLD: &str = r#"print fmt: "...", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K"}, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : "", REC->next_comm"#;

    #[test]
    fn new_kernel_names_its_bits() {
        let states = PrevState::from_format(NEW);
        let got = [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100].map(|v| states.get(v));
        assert_eq!(
            got,
            [
                RunnablePreempted,
                Sleeping,
                DiskSleep,
                Stopped,
                Stopped,
                Dead,
                Dead,
                Idle,
                Idle,
                RunnablePreempted
            ]
        );
    }

    #[test]
    fn old_kernel_names_its_bits() {
        let states = PrevState::from_format(OLD);
        let got = [0, 1, 2, 16, 32, 128 | 2, 512, 1024 | 2, 2048].map(|v| states.get(v));
        assert_eq!(
            got,
            [
                RunnablePreempted,
                Sleeping,
                DiskSleep,
                Dead,
                Dead,
                DiskSleep,
                Idle,
                Idle,
                RunnablePreempted
            ]
        );
    }

    #[test]
    fn same_number_differs_between_kernels() {
        // Negative control: a built-in table would read 0x80 alike on both.
        assert_eq!(PrevState::from_format(NEW).get(0x80), Idle);
        assert_eq!(PrevState::from_format(OLD).get(0x80), Sleeping);
    }

    #[test]
    fn unreadable_text_falls_back_and_no_value_panics() {
        for text in [
            "",
            "print fmt: __print_flags({",
            "print fmt: __print_flags(x, { (((((, \"S\" }) & ? \"+\"",
        ] {
            let states = PrevState::from_format(text);
            assert_eq!(states.get(0x100), RunnablePreempted);
            for value in [-1, i64::MIN, i64::MAX, 4095, 4096] {
                states.get(value);
            }
        }
    }

    #[test]
    fn constants_are_evaluated() {
        assert_eq!(constant("((0x1 | 2) + 1) << 1"), Some(8));
        assert_eq!(constant("2048-1"), Some(2047));
        assert_eq!(constant("1 << 99"), None);
        assert_eq!(constant("x"), None);
        assert_eq!(constant(&"(".repeat(100_000)), None);
    }
}
