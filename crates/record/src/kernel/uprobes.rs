//! `--lock-function`: records locks that the lock probe cannot wrap, by uprobes on the functions that acquire and release them.
//!
//! For each pair of functions there are three events in a group of the recorder's own: the lock function's entry
//! (request), its return (acquired), and the unlock function's entry (released). They are removed with the recorder's
//! tracing instance, however the recorder ends: see [`crate::kernel::tracefs::Instance`].
//! crates/model/src/lock_calls.rs turns them into locks.
use crate::error::{Error, Result};
use crate::kernel::tracefs::Uprobe;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// First part of the names of our events; the function's number follows. The model knows these names.
pub const REQUEST: &str = "lock_request_";
/// As [`REQUEST`].
pub const ACQUIRED: &str = "lock_acquired_";
/// As [`REQUEST`].
pub const RELEASED: &str = "lock_released_";

/// A pair of functions, with their places in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFunction {
    /// The lock function's name as the user wrote it.
    pub name: String,
    binary: PathBuf,
    lock: ProbePoint,
    unlock: Option<ProbePoint>,
}

/// The place of a function in the file, and the argument that identifies the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProbePoint {
    offset: u64,
    /// A fetch argument of uprobe_events (`%di:x64`); `None`: there is only one lock.
    lock: Option<String>,
}

/// Finds the functions that `--lock-function` names.
///
/// # Errors
/// When one cannot be found; the message lists similar functions.
pub fn find(wanted: &[String], command: &[OsString]) -> Result<Vec<LockFunction>> {
    wanted.iter().map(|text| find_one(text, command)).collect()
}

fn find_one(text: &str, command: &[OsString]) -> Result<LockFunction> {
    let unfit = |why: String| Error::LockFunction { wanted: text.to_owned(), why };
    let (binary, functions) = split_binary(text);
    let binary = match binary {
        Some(name) => program_file(name.as_ref()),
        None => match command.first() {
            Some(program) => program_file(program),
            None => {
                return Err(unfit(
                    "without a program to start, name the file: BINARY:LOCK,UNLOCK".into(),
                ));
            }
        },
    };
    let binary = binary.canonicalize().map_err(|e| unfit(format!("{}: {e}", binary.display())))?;
    let path = binary.as_os_str().as_bytes();
    if path.iter().any(|b| b.is_ascii_whitespace()) {
        return Err(unfit(format!(
            "{}: the kernel rejects paths with spaces; use a link without spaces",
            binary.display()
        )));
    }
    let file =
        crate::guard::safefs::open_regular(&binary).map_err(|e| Error::file("open", &binary, e))?;
    let map = crate::guard::sigbus::Guarded::read_only(&file);
    let map = map.map_err(|e| Error::file("map", &binary, e))?;
    let elf = object::File::parse(map.bytes())
        .map_err(|e| unfit(format!("{}: {e}", binary.display())))?;
    if elf.section_by_name(".gopclntab").is_some() || elf.section_by_name(".go.buildinfo").is_some()
    {
        return Err(unfit(format!(
            "{} is a Go program: its stacks move, and a probe on a function's return would make it crash; \
             `kasuri record --syscalls` shows its futex calls",
            binary.display()
        )));
    }
    let (lock, unlock) = match functions.split_once(',') {
        Some((lock, unlock)) => (lock, Some(unlock)),
        None => (functions, None),
    };
    let place = |function: &str| {
        place(&elf, function).map_err(|why| unfit(format!("{}: {why}", binary.display())))
    };
    Ok(LockFunction {
        name: lock.split('@').next().unwrap_or(lock).to_owned(),
        lock: place(lock)?,
        unlock: unlock.map(place).transpose()?,
        binary,
    })
}

/// `BINARY:FUNCTIONS`; a double colon is part of a name.
fn split_binary(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((binary, rest)) if !rest.starts_with(':') && !binary.contains(',') => {
            (Some(binary), rest)
        }
        _ => (None, text),
    }
}

/// The file of a program: a path, or a command of PATH.
fn program_file(name: &std::ffi::OsStr) -> PathBuf {
    crate::program::locks::find_program(name).unwrap_or_else(|| name.into())
}

/// Parses `SYMBOL[+OFFSET][@ARGUMENT]`.
fn place(elf: &object::File<'_>, text: &str) -> std::result::Result<ProbePoint, String> {
    let (function, argument) = match text.rsplit_once('@') {
        Some((function, argument)) => (function, argument),
        None => (text, "1"),
    };
    let (name, inside) = match function.rsplit_once('+') {
        Some((name, offset)) => {
            let digits = offset.strip_prefix("0x").unwrap_or(offset);
            let inside = u64::from_str_radix(digits, 16);
            (name, inside.map_err(|_| format!("`{offset}` is no offset such as 0x10"))?)
        }
        None => (function, 0),
    };
    let address = symbol(elf, name)? + inside;
    let segment = elf
        .segments()
        .find(|s| (s.address()..s.address() + s.size()).contains(&address))
        .ok_or_else(|| format!("`{name}` lies in no segment that is loaded"))?;
    Ok(ProbePoint {
        offset: address - segment.address() + segment.file_range().0,
        lock: fetch(argument)?,
    })
}

/// The address of a function: by its whole name, or by a part of a name that only one function has.
fn symbol(elf: &object::File<'_>, wanted: &str) -> std::result::Result<u64, String> {
    let mut functions: Vec<(String, u64)> = elf
        .symbols()
        .chain(elf.dynamic_symbols())
        .filter(|s| s.kind() == SymbolKind::Text && !s.is_undefined())
        .filter_map(|s| Some((s.name().ok()?.to_owned(), s.address())))
        .collect();
    functions.sort();
    functions.dedup();
    if let Some((_, address)) = functions.iter().find(|(name, _)| name == wanted) {
        return Ok(*address);
    }
    if functions.is_empty() {
        return Err(
            "it has no symbols (stripped); build it with symbols, or name a file that has them"
                .into(),
        );
    }
    // C++ and Rust write `a::b` in symbols with the length before each part.
    let mangled = wanted.split("::").fold(String::new(), |mut out, part| {
        let _ = write!(out, "{}{part}", part.len());
        out
    });
    let parts = |text: &str| -> Vec<&(String, u64)> {
        functions.iter().filter(|f| f.0.contains(text)).collect()
    };
    let mut found = parts(&mangled);
    // Names of closures contain the name of their function.
    let whole: Vec<_> = found.iter().filter(|f| ends_with(&f.0, &mangled)).collect();
    match (&whole[..], &found[..]) {
        ([(_, address)], _) | (_, [(_, address)]) => return Ok(*address),
        _ => {}
    }
    if found.is_empty() {
        found = parts(wanted.rsplit("::").next().unwrap_or(wanted));
    }
    if found.is_empty() {
        return Err(format!(
            "no function `{wanted}`; it may be inlined (`nm` lists the functions)"
        ));
    }
    let shown: Vec<&str> = found.iter().take(6).map(|(name, _)| name.as_str()).collect();
    let more = if found.len() > 6 { ", ..." } else { "" };
    Err(format!("no function `{wanted}`; did you mean: {}{more}", shown.join(", ")))
}

/// Whether a mangled name ends with these parts: after them come only arguments (C++) or a hash (Rust).
fn ends_with(name: &str, parts: &str) -> bool {
    let rest = name.rsplit_once(parts).map_or("", |(_, rest)| rest);
    rest.starts_with('E') || rest.starts_with("17h") && rest.len() == 20
}

/// The registers of the first arguments of a function.
const fn argument_registers() -> &'static [&'static str] {
    if cfg!(target_arch = "x86_64") {
        &["di", "si", "dx", "cx", "r8", "r9"]
    } else if cfg!(target_arch = "aarch64") {
        &["x0", "x1", "x2", "x3", "x4", "x5"]
    } else if cfg!(target_arch = "riscv64") {
        &["a0", "a1", "a2", "a3", "a4", "a5"]
    } else if cfg!(target_arch = "arm") {
        &["r0", "r1", "r2", "r3"]
    } else {
        &[]
    }
}

/// The register of the first argument of a function; none: not known of this machine.
pub(crate) fn first_argument() -> Option<&'static str> {
    argument_registers().first().copied()
}

/// The fetch argument that reads the lock's address at the function's entry.
fn fetch(argument: &str) -> std::result::Result<Option<String>, String> {
    let bits = usize::BITS;
    let registers = argument_registers();
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let register = match argument.parse::<usize>() {
        Ok(0) => return Ok(None),
        Ok(n) => *registers.get(n - 1).ok_or_else(|| {
            format!("argument {n} is not passed in a register here; name one with @REGISTER")
        })?,
        Err(_) if is_name(argument) => argument,
        Err(_) => {
            return Err(format!(
                "`@{argument}`: the argument's number, 0 for none, or a register's name"
            ));
        }
    };
    Ok(Some(format!("%{register}:x{bits}")))
}

/// The uprobes of each function.
pub(crate) fn definitions(functions: &[LockFunction]) -> Vec<Uprobe> {
    let mut out = Vec::new();
    for (n, f) in functions.iter().enumerate() {
        let mut add = |kind: char, event: &str, place: &ProbePoint, fetched: bool| {
            let mut text = format!("{}:{:#x}", f.binary.display(), place.offset);
            if let Some(lock) = place.lock.as_ref().filter(|_| fetched) {
                let _ = write!(text, " lock={lock}");
            }
            out.push(Uprobe {
                kind,
                event: format!("{event}{n}"),
                text,
                use_of_it: "locks seen by uprobes",
            });
        };
        add('p', REQUEST, &f.lock, true);
        add('r', ACQUIRED, &f.lock, false);
        if let Some(unlock) = &f.unlock {
            add('p', RELEASED, unlock, true);
        }
    }
    out
}

/// The reason why the kernel refused the probes, with a remedy.
pub(crate) fn unavailable(cause: &std::io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::ENOENT) => "this kernel has no uprobes (CONFIG_UPROBE_EVENTS): annotate the program with kasuri.h instead".into(),
        Some(libc::EACCES | libc::EPERM) => "uprobes need root; `sudo kasuri record ...`".into(),
        _ => format!("the kernel rejects the probe: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_with_its_remedy() {
        let said = |code| unavailable(&std::io::Error::from_raw_os_error(code));
        assert!(said(libc::ENOENT).contains("CONFIG_UPROBE_EVENTS"));
        assert!(said(libc::EPERM).contains("sudo kasuri record"));
        assert_eq!(said(libc::EACCES), said(libc::EPERM));
        assert!(said(libc::EINVAL).contains("Invalid argument"));
    }

    #[test]
    fn the_file_comes_before_a_single_colon() {
        assert_eq!(split_binary("./a:lock,unlock"), (Some("./a"), "lock,unlock"));
        assert_eq!(split_binary("lock,unlock"), (None, "lock,unlock"));
        assert_eq!(split_binary("a::b::lock,a::b::unlock"), (None, "a::b::lock,a::b::unlock"));
        assert_eq!(split_binary("./a:b::lock"), (Some("./a"), "b::lock"));
    }

    #[test]
    fn the_argument_is_a_number_a_register_or_none() {
        assert_eq!(fetch("0"), Ok(None));
        assert_eq!(fetch("ax"), Ok(Some(format!("%ax:x{}", usize::BITS))));
        assert!(fetch("1").unwrap().unwrap().starts_with('%'));
        assert!(fetch("99").is_err() && fetch("a b").is_err() && fetch("").is_err());
    }

    /// Looks in this test program for functions with known names: by whole name, by part, and by a name that none
    /// has.
    #[test]
    fn functions_are_found_by_name_or_part_of_it() {
        let exe = std::env::current_exe().unwrap();
        let one = |functions: &str| find_one(&format!("{}:{functions}", exe.display()), &[]);
        let found = one("main").unwrap();
        assert_eq!(found.name, "main");
        assert!(found.unlock.is_none() && found.lock.lock.is_some());
        let part = one("uprobes::split_binary,uprobes::find_one@0").unwrap();
        assert_ne!(part.lock.offset, part.unlock.as_ref().unwrap().offset);
        let text = definitions(&[part]);
        assert_eq!(text.len(), 3);
        assert!(
            text[0].text.contains(" lock=%")
                && !text[1].text.contains("lock=%")
                && !text[2].text.contains("lock=%")
        );
        let error = one("no_such_function_at_all").unwrap_err().to_string();
        assert!(error.contains("no function `no_such_function_at_all`"), "{error}");
        assert!(one("uprobes").unwrap_err().to_string().contains("did you mean: "));
        assert!(find_one("lock,unlock", &[]).unwrap_err().to_string().contains("BINARY:"));
    }
}
