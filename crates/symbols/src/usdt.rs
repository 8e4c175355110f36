//! Probes that a program's author put into it (USDT), as `.note.stapsdt` lists them: places in the file, and how their
//! arguments are read there.
//!
//! A site is a `nop`. The note has its address, the address of a counter (semaphore) that the program may ask whether
//! anyone looks, and for each argument its size and the operand that holds it, in the words of the machine's assembler
//! (`-4@112(%rsp)`). A site's operands are turned into what the kernel's `uprobe_events` can fetch; an operand that it
//! cannot fetch says why. The names and operands are those of a stranger: nothing of them but numbers, and registers of
//! the tables here, gets into a fetch argument, and names that are no identifiers are left out.
use crate::parts::{EXECUTABLE, Elf, ReadAt, WRITABLE};

/// Sites of one file that are read; Java's VM, with the most known, has 567.
pub const MAX_SITES: usize = 1 << 14;
/// Arguments of one site: `sys/sdt.h` has 12 at most.
pub const MAX_ARGS: usize = 12;
/// Bytes of a name.
const MAX_NAME: usize = 128;
/// Bytes of a site's arguments, as text.
const MAX_TEXT: usize = 1024;
/// Type of the notes.
const NT_STAPSDT: u64 = 3;

/// One place of a probe. Inlining makes several places with the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Who provides it: a library's or a program's name.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where it is in the file, in code that is loaded.
    pub offset: u64,
    /// Where its semaphore is in the file, in data that is loaded.
    pub semaphore: Option<u64>,
    /// Its arguments, in order.
    pub args: Vec<Arg>,
}

/// An argument of a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arg {
    /// As the file has it.
    pub operand: String,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it is a signed number.
    pub is_signed: bool,
    /// How it is read.
    pub fetch: Fetch,
}

/// How an argument is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// Always this.
    Constant(i64),
    /// From this place, in the words of `uprobe_events`: `%di`, `+112(%sp)`.
    Place(String),
    /// From this register's second byte (x86: `%ah`).
    HighByte(&'static str),
    /// Not at all, for this reason.
    No(&'static str),
}

impl Arg {
    /// The fetch argument of `uprobe_events` that reads its value; none: it is a constant, or cannot be read.
    pub fn value(&self) -> Option<String> {
        let sign = if self.is_signed { 's' } else { 'u' };
        match &self.fetch {
            Fetch::Place(place) => Some(format!("{place}:{sign}{}", self.bytes * 8)),
            Fetch::HighByte(register) => Some(format!("%{register}:b8@8/16")),
            Fetch::Constant(_) | Fetch::No(_) => None,
        }
    }

    /// The fetch argument that reads the text to which it points; none: it points nowhere that can be read.
    pub fn text(&self) -> Option<String> {
        match &self.fetch {
            Fetch::Place(place) if self.bytes >= 4 => Some(format!("+0({place}):string")),
            _ => None,
        }
    }
}

/// What a file has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probes {
    /// Its sites, in the file's order.
    pub sites: Vec<Site>,
    /// Sites that are damaged, outside of loaded code, or beyond [`MAX_SITES`].
    pub refused: usize,
    /// Whether programs of this file's machine run on this one.
    pub is_native: bool,
}

/// A machine, by the number that ELF files have of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Machine {
    I386,
    X86_64,
    Aarch64,
    Riscv64,
    Other,
}

impl Machine {
    fn of(number: u64, word: usize) -> Machine {
        match (number, word) {
            (3, 4) => Machine::I386,
            (62, 8) => Machine::X86_64,
            (183, 8) => Machine::Aarch64,
            (243, 8) => Machine::Riscv64,
            _ => Machine::Other,
        }
    }

    /// Whether this machine's kernel runs such code, and its probes have the registers of this table.
    fn is_native(self) -> bool {
        match std::env::consts::ARCH {
            "x86_64" => matches!(self, Machine::X86_64 | Machine::I386),
            "aarch64" => self == Machine::Aarch64,
            "riscv64" => self == Machine::Riscv64,
            _ => false,
        }
    }
}

/// The probes of an ELF file; none: it is no ELF file. Any bytes may be given.
pub fn probes(file: &dyn ReadAt) -> Option<Probes> {
    let elf = Elf::of(file)?;
    let machine = Machine::of(elf.machine, elf.word);
    let sections = elf.sections();
    let base = sections.iter().find(|s| s.name == b".stapsdt.base");
    let base = base.map(|section| section.address);
    let mut out = Probes { is_native: machine.is_native(), ..Probes::default() };
    for section in sections.iter().filter(|s| s.name == b".note.stapsdt") {
        let Some(bytes) = elf.piece(section.offset, section.bytes) else {
            out.refused += 1;
            continue;
        };
        let mut rest = &bytes[..];
        while let Some((note, next)) = note(&elf, rest) {
            rest = next;
            let Some(note) = note else { continue };
            match site(&elf, base, note, machine) {
                Some(site) if out.sites.len() < MAX_SITES => out.sites.push(site),
                _ => out.refused += 1,
            }
        }
    }
    Some(out)
}

/// The description of the first note, if it is one of ours, and what follows; none: no note is left.
fn note<'a>(elf: &Elf<'_>, bytes: &'a [u8]) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let word = |at: usize| Some(elf.number(bytes.get(at..at + 4)?));
    let (name, desc, kind) = (word(0)?, word(4)?, word(8)?);
    let padded = |n: u64| usize::try_from(n).ok()?.checked_next_multiple_of(4);
    let begin = padded(name)?.checked_add(12)?;
    let end = begin.checked_add(usize::try_from(desc).ok()?)?;
    let next = begin.checked_add(padded(desc)?)?.min(bytes.len());
    let description = bytes.get(begin..end)?;
    let is_ours = kind == NT_STAPSDT && bytes.get(12..20) == Some(b"stapsdt\0");
    Some((is_ours.then_some(description), &bytes[next..]))
}

/// The site that a description is about; none: it is not whole, or lies nowhere in loaded code. `base_now`: address of
/// `.stapsdt.base`; as far as it lies from where the note has it, the note's other addresses are off (prelink).
fn site(elf: &Elf<'_>, base_now: Option<u64>, note: &[u8], machine: Machine) -> Option<Site> {
    let word = |n: usize| Some(elf.number(note.get(n * elf.word..(n + 1) * elf.word)?));
    let (address, base, semaphore) = (word(0)?, word(1)?, word(2)?);
    let mut texts = note.get(3 * elf.word..)?.split(|&b| b == 0);
    let (provider, name) = (identifier(texts.next()?)?, identifier(texts.next()?)?);
    let args = texts.next()?;
    // The last text ends with a zero too.
    texts.next()?;
    let moved = match base_now {
        Some(now) if base != 0 => now.wrapping_sub(base),
        _ => 0,
    };
    let place = |address: u64, n, flag| elf.place(address.wrapping_add(moved), n, flag);
    Some(Site {
        provider,
        name,
        offset: place(address, 1, EXECUTABLE)?,
        semaphore: match semaphore {
            0 => None,
            address => Some(place(address, 2, WRITABLE)?),
        },
        args: arguments(args, machine)?,
    })
}

/// A name of letters, digits and underscores.
fn identifier(bytes: &[u8]) -> Option<String> {
    let is_one = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let fits = (1..=MAX_NAME).contains(&bytes.len()) && bytes.iter().all(is_one);
    fits.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The arguments: `N@OPERAND`, divided by blanks. None: that is not what it is.
fn arguments(text: &[u8], machine: Machine) -> Option<Vec<Arg>> {
    let text = std::str::from_utf8(text).ok()?;
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    if text.len() > MAX_TEXT || !text.chars().all(is_plain) {
        return None;
    }
    let mut args = Vec::new();
    // `8@[sp, 16]` has a blank of its own.
    let mut depth = 0i32;
    let words = text.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ' ' && depth <= 0
    });
    for word in words.filter(|word| !word.is_empty()) {
        if args.len() == MAX_ARGS {
            return None;
        }
        args.push(argument(word, machine));
    }
    Some(args)
}

fn argument(word: &str, machine: Machine) -> Arg {
    let (size, operand) = word.split_once('@').unwrap_or(("", word));
    let digits = size.trim_start_matches('-');
    let bytes = match digits {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => 0,
    };
    let fetch = match bytes {
        _ if digits.ends_with('f') => Fetch::No("a floating-point register"),
        0 => Fetch::No("its size is none of 1, 2, 4 and 8 bytes"),
        _ => match machine {
            Machine::X86_64 | Machine::I386 => x86(operand),
            Machine::Aarch64 => aarch64(operand),
            Machine::Riscv64 => riscv(operand),
            _ => Fetch::No("operands of this machine are not read"),
        },
    };
    Arg { operand: word.to_owned(), bytes, is_signed: size.starts_with('-'), fetch }
}

const TWO_REGISTERS: Fetch = Fetch::No("an address made of two registers");
const A_SYMBOL: Fetch = Fetch::No("an address that needs a symbol");
const UNKNOWN: Fetch = Fetch::No("an operand of an unknown form");

/// Operands of x86: `$5`, `%rdi`, `-80(%rbx)`.
fn x86(operand: &str) -> Fetch {
    if let Some(number) = operand.strip_prefix('$') {
        return integer(number).map_or(A_SYMBOL, Fetch::Constant);
    }
    if let Some(name) = operand.strip_prefix('%') {
        let high = ["ah", "bh", "ch", "dh"].iter().position(|&r| r == name);
        if let Some(at) = high {
            return Fetch::HighByte(["ax", "bx", "cx", "dx"][at]);
        }
        return x86_register(name)
            .map_or(Fetch::No("a register that is not among the general ones"), |r| {
                Fetch::Place(format!("%{r}"))
            });
    }
    let Some((displacement, rest)) = operand.split_once('(') else {
        return A_SYMBOL;
    };
    let Some(inner) = rest.strip_suffix(')') else {
        return UNKNOWN;
    };
    if inner.contains(',') {
        return TWO_REGISTERS;
    }
    let register = inner.strip_prefix('%').and_then(x86_register);
    match (offset(displacement), register) {
        (Some(offset), Some(register)) => Fetch::Place(format!("{offset}(%{register})")),
        _ => A_SYMBOL,
    }
}

/// The kernel's name of a general register, by the name of it or of its lower part.
fn x86_register(name: &str) -> Option<&'static str> {
    const OLD: [&str; 4] = ["ax", "bx", "cx", "dx"];
    const POINTERS: [&str; 4] = ["si", "di", "bp", "sp"];
    const NEW: [&str; 8] = ["r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let whole = name.strip_prefix(['r', 'e']).unwrap_or(name);
    let find = |table: &'static [&str], text: &str| table.iter().copied().find(|&r| r == text);
    find(&OLD, whole)
        .or_else(|| find(&POINTERS, whole))
        .or_else(|| find(&NEW, name.trim_end_matches(['d', 'w', 'b'])))
        .or_else(|| match name.strip_suffix('l')? {
            one if one.len() == 1 => OLD.iter().copied().find(|r| r.starts_with(one)),
            two => find(&POINTERS, two),
        })
}

/// Operands of aarch64: `5`, `x0`, `w0`, `[sp, 16]`.
fn aarch64(operand: &str) -> Fetch {
    let register = |name: &str| -> Option<String> {
        let number = name.strip_prefix(['x', 'w']).map(str::parse::<u8>);
        match (name, number) {
            ("sp" | "wsp", _) => Some("sp".to_owned()),
            (_, Some(Ok(n))) if n <= 30 => Some(format!("x{n}")),
            _ => None,
        }
    };
    if matches!(operand, "xzr" | "wzr") {
        return Fetch::Constant(0);
    }
    if let Some(number) = integer(operand.trim_start_matches('#')) {
        return Fetch::Constant(number);
    }
    let inner = operand.strip_prefix('[').and_then(|o| o.strip_suffix(']'));
    let Some(inner) = inner else {
        return register(operand).map_or(UNKNOWN, |r| Fetch::Place(format!("%{r}")));
    };
    let (base, displacement) = inner.split_once(',').unwrap_or((inner, "0"));
    let displacement = displacement.trim().trim_start_matches('#');
    match (register(base.trim()), offset(displacement)) {
        (Some(register), Some(offset)) => Fetch::Place(format!("{offset}(%{register})")),
        (Some(_), None) => TWO_REGISTERS,
        _ => UNKNOWN,
    }
}

/// Operands of riscv64: `5`, `a0`, `-20(s0)`.
fn riscv(operand: &str) -> Fetch {
    let register = |name: &str| {
        let is_numbered = |letter: char, last: u8| {
            let number = name.strip_prefix(letter).map(str::parse::<u8>);
            number.is_some_and(|n| n.is_ok_and(|n| n <= last))
        };
        let is_one = matches!(name, "ra" | "sp" | "gp" | "tp")
            || is_numbered('a', 7)
            || is_numbered('s', 11)
            || is_numbered('t', 6);
        // "a07" is a number too, and no register.
        (is_one && name.len() <= 3 && !name[1..].starts_with("0") || is_one && name.len() == 2)
            .then(|| name.to_owned())
    };
    if operand == "zero" {
        return Fetch::Constant(0);
    }
    if let Some(number) = integer(operand) {
        return Fetch::Constant(number);
    }
    match operand.split_once('(') {
        None => register(operand).map_or(UNKNOWN, |r| Fetch::Place(format!("%{r}"))),
        Some((displacement, rest)) => {
            let register = rest.strip_suffix(')').and_then(register);
            match (offset(displacement), register) {
                (Some(offset), Some(register)) => Fetch::Place(format!("{offset}(%{register})")),
                _ => A_SYMBOL,
            }
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1i128, digits),
        None => (1, text),
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse::<u64>(),
    };
    // An unsigned constant of 64 bits keeps its bits.
    number.ok().map(|n| (sign * i128::from(n)) as i64)
}

/// A displacement as `uprobe_events` takes it: with a sign. None: it is no number, or none that the kernel could add.
fn offset(text: &str) -> Option<String> {
    let number = if text.is_empty() { 0 } else { integer(text)? };
    i32::try_from(number).ok().map(|n| format!("{n:+}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(word: &str, machine: Machine) -> Result<String, Fetch> {
        let arg = argument(word, machine);
        arg.value().ok_or(arg.fetch)
    }

    #[test]
    fn operands_of_x86_become_fetch_arguments() {
        let one = |word: &str| fetched(word, Machine::X86_64);
        for (word, wanted) in [
            ("8@%rdi", "%di:u64"),
            ("-4@%eax", "%ax:s32"),
            ("-2@%r12w", "%r12:s16"),
            ("1@%r13b", "%r13:u8"),
            ("1@%sil", "%si:u8"),
            ("1@%al", "%ax:u8"),
            ("1@%ah", "%ax:b8@8/16"),
            ("-4@112(%rsp)", "+112(%sp):s32"),
            ("8@-80(%rbx)", "-80(%bx):u64"),
            ("8@(%r9)", "+0(%r9):u64"),
            ("4@0x10(%rbp)", "+16(%bp):u32"),
        ] {
            assert_eq!(one(word).as_deref(), Ok(wanted), "{word}");
        }
        assert_eq!(one("-4@$-7"), Err(Fetch::Constant(-7)));
        assert_eq!(one("8@$0xffffffffffffffff"), Err(Fetch::Constant(-1)));
        assert_eq!(one("8@8(%rax,%rbx,4)"), Err(TWO_REGISTERS));
        assert_eq!(one("4@counter(%rip)"), Err(A_SYMBOL));
        assert_eq!(one("8@$main"), Err(A_SYMBOL));
        for odd in ["8f@%xmm0", "8@%xmm0", "8@%rip", "16@%rax", "%rax", "8@%fs:0", "8@", "@"] {
            assert!(matches!(one(odd), Err(Fetch::No(_))), "{odd}");
        }
        let text = argument("8@112(%rsp)", Machine::X86_64).text();
        assert_eq!(text.as_deref(), Some("+0(+112(%sp)):string"));
        assert_eq!(argument("1@%al", Machine::X86_64).text(), None);
    }

    #[test]
    fn operands_of_aarch64_and_riscv_become_fetch_arguments() {
        let arm = |word: &str| fetched(word, Machine::Aarch64);
        for (word, wanted) in [
            ("8@x0", "%x0:u64"),
            ("-4@w19", "%x19:s32"),
            ("8@sp", "%sp:u64"),
            ("-4@[sp, 12]", "+12(%sp):s32"),
            ("8@[x29,-16]", "-16(%x29):u64"),
            ("8@[x0]", "+0(%x0):u64"),
        ] {
            assert_eq!(arm(word).as_deref(), Ok(wanted), "{word}");
        }
        assert_eq!(arm("-4@5"), Err(Fetch::Constant(5)));
        assert_eq!(arm("4@wzr"), Err(Fetch::Constant(0)));
        assert_eq!(arm("8@[x0, x1]"), Err(TWO_REGISTERS));
        assert!(arm("8@x31").is_err() && arm("8@d0").is_err());
        let riscv = |word: &str| fetched(word, Machine::Riscv64);
        assert_eq!(riscv("8@a0").as_deref(), Ok("%a0:u64"));
        assert_eq!(riscv("-4@-20(s0)").as_deref(), Ok("-20(%s0):s32"));
        assert_eq!(riscv("4@s11").as_deref(), Ok("%s11:u32"));
        assert_eq!(riscv("4@7"), Err(Fetch::Constant(7)));
        assert!(riscv("4@a8").is_err() && riscv("4@a07").is_err() && riscv("4@fa0").is_err());
    }

    #[test]
    fn arguments_are_divided_by_blanks_outside_of_brackets() {
        let words = |text: &str, machine| {
            let args = arguments(text.as_bytes(), machine)?;
            Some(args.into_iter().map(|a| a.operand).collect::<Vec<_>>())
        };
        let arm = words("8@[sp, 16] -4@w0", Machine::Aarch64).unwrap();
        assert_eq!(arm, ["8@[sp, 16]", "-4@w0"]);
        assert_eq!(words("", Machine::X86_64), Some(Vec::new()));
        let many = "8@%rax ".repeat(MAX_ARGS);
        assert_eq!(words(&many, Machine::X86_64).unwrap().len(), MAX_ARGS);
        assert_eq!(words(&format!("{many} 8@%rax"), Machine::X86_64), None);
        assert_eq!(words("8@%rax\n-:other", Machine::X86_64), None);
    }

    #[test]
    fn only_identifiers_are_names() {
        assert_eq!(identifier(b"gc__start").as_deref(), Some("gc__start"));
        for odd in ["", "a b", "a/b", "a\x1b[2J", "\u{e4}", &"a".repeat(MAX_NAME + 1)] {
            assert_eq!(identifier(odd.as_bytes()), None, "{odd:?}");
        }
    }
}
