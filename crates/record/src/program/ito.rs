//! Light threads for an unmodified program: finds libito-pthread.so, and says of a program why it cannot have them. Design:
//! docs/design/pthread.md.
use super::locks::find_program;
use super::preload::{self, Probe};
use crate::error::Result;
use object::read::elf::ElfFile64;
use object::{Architecture, Object, ObjectSymbol, elf};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) const LIBRARY: Probe = Probe {
    file: "libito-pthread.so",
    variable: "KASURI_ITO_LIBRARY",
    folder: "threads/pthread",
    option: "run --ito",
};

/// Symbols beyond these are not looked through: a program with more is refused nothing by its symbols.
const SYMBOLS_MAX: usize = 4_000_000;

/// Functions of a program that show what it is.
const TELLING: [(&str, &str); 6] = [
    ("__asan_init", SANITIZER),
    ("__tsan_init", SANITIZER),
    ("__msan_init", SANITIZER),
    ("__hwasan_init", SANITIZER),
    ("ito_init", "it uses libito itself"),
    ("runtime.rt0_go", GO),
];
const SANITIZER: &str = "it is built with a sanitizer, which knows kernel threads only";
const GO: &str = "it is a Go program: its runtime starts threads by system calls of its own, and has light threads already";
const JAVA: &str =
    "it is a Java virtual machine, which manages stacks and signals of its threads itself";

/// Libraries that show the same, by the beginnings of their names.
const LIBRARIES: [(&str, &str); 6] = [
    ("libasan.so", SANITIZER),
    ("libtsan.so", SANITIZER),
    ("libhwasan.so", SANITIZER),
    ("libito.so", "it uses libito itself"),
    ("libjli.so", JAVA),
    ("libjvm.so", JAVA),
];

/// The CPU of the programs that the library beside this command can carry (threads/pthread/arch).
const OURS: Option<Architecture> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64"))
{
    Some(Architecture::X86_64)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(Architecture::Aarch64)
} else {
    None
};

/// Variables that the program's environment needs for light threads.
///
/// # Errors
/// When the library is not found.
pub fn environment() -> Result<Vec<(OsString, OsString)>> {
    let mut variables = Vec::new();
    preload::add(&mut variables, LIBRARY.library()?);
    Ok(variables)
}

/// Why the threads of this program, named as for a shell, stay kernel threads; `None`: they do not, or its file does not show it. Of a script,
/// its interpreter is judged.
pub fn refusal(program: &OsStr) -> Option<String> {
    if OURS.is_none() {
        return Some(
            "light threads for unmodified programs are there on x86-64 and aarch64 only".into(),
        );
    }
    let mut path = find_program(program)?;
    if let Some(interpreter) = with_bytes(&path, |bytes, _| interpreter_of(bytes)).flatten() {
        path = interpreter;
    }
    with_bytes(&path, |bytes, mode| why_not(&path, bytes, mode)).flatten()
}

fn with_bytes<T>(path: &Path, read: impl FnOnce(&[u8], u32) -> T) -> Option<T> {
    let file = crate::guard::safefs::open_regular(path).ok()?;
    let mode = file.metadata().ok()?.permissions().mode();
    let map = crate::guard::sigbus::Guarded::read_only(&file).ok()?;
    Some(read(map.bytes(), mode))
}

/// What `#!` names: `/usr/bin/env NAME` is NAME.
fn interpreter_of(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.get(..256.min(bytes.len()))?.strip_prefix(b"#!")?;
    let line = line.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b" \t".contains(b)).filter(|w| !w.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    if first.file_name() == Some(OsStr::new("env")) {
        let name = words.find(|w| !w.starts_with(b"-") && !w.contains(&b'='))?;
        return find_program(OsStr::from_bytes(name));
    }
    Some(first.to_owned())
}

fn why_not(path: &Path, bytes: &[u8], mode: u32) -> Option<String> {
    if bytes.get(..4) != Some(b"\x7fELF") {
        return None;
    }
    if bytes.get(4) == Some(&1) {
        return Some("it is a 32-bit program".into());
    }
    let file = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
    if Some(file.architecture()) != OURS {
        return Some("it is a program for another kind of CPU".into());
    }
    if let Some(why) = by_its_code(&file) {
        return Some(why.into());
    }
    let Some(loader) = loader_of(&file, bytes) else {
        return Some(
            "it is statically linked, so nothing can stand in front of its C library".into(),
        );
    };
    if !loader.contains("ld-linux") {
        let which = if loader.contains("ld-musl") { " (musl)" } else { "" };
        return Some(format!("it is linked with a C library other than glibc{which}"));
    }
    if (mode & 0o6000 != 0 || has_capabilities(path)) && !rustix::process::geteuid().is_root() {
        return Some("it runs with more rights than you have (set-user-id, set-group-id or capabilities): the loader ignores preloaded libraries".into());
    }
    None
}

/// Sections, libraries and functions that only programs of one kind have.
fn by_its_code(file: &ElfFile64<'_, object::Endianness>) -> Option<&'static str> {
    if file.section_by_name(".go.buildinfo").is_some() {
        return Some(GO);
    }
    let libraries = needed(file);
    let known = |name: &[u8], (start, why): &(&str, &'static str)| {
        name.starts_with(start.as_bytes()).then_some(*why)
    };
    if let Some(why) =
        libraries.iter().find_map(|name| LIBRARIES.iter().find_map(|row| known(name, row)))
    {
        return Some(why);
    }
    let symbols = file.dynamic_symbols().take(SYMBOLS_MAX).chain(file.symbols().take(SYMBOLS_MAX));
    symbols.filter_map(|symbol| symbol.name().ok()).find_map(|name| {
        let row = TELLING.iter().find(|(telling, _)| *telling == name);
        row.map(|(_, why)| *why)
    })
}

/// The names of the libraries that it is linked with.
fn needed<'d>(file: &ElfFile64<'d, object::Endianness>) -> Vec<&'d [u8]> {
    use object::read::elf::{Dyn, FileHeader};
    let (endian, data) = (file.endian(), file.data());
    let Ok(sections) = file.elf_header().sections(endian, data) else {
        return Vec::new();
    };
    let Ok(Some((entries, link))) = sections.dynamic(endian, data) else {
        return Vec::new();
    };
    let Ok(strings) = sections.strings(endian, data, link) else {
        return Vec::new();
    };
    let entries = entries.iter().filter(|e| e.tag(endian) == elf::DT_NEEDED);
    entries.filter_map(|e| e.string(endian, strings).ok()).take(1000).collect()
}

/// PT_INTERP.
fn loader_of(file: &ElfFile64<'_, object::Endianness>, bytes: &[u8]) -> Option<String> {
    use object::read::elf::ProgramHeader;
    let endian = file.endian();
    let segments = file.elf_program_headers().iter();
    segments.filter(|s| s.p_type(endian) == elf::PT_INTERP).find_map(|s| {
        let name = s.interpreter(endian, bytes).ok()??;
        Some(String::from_utf8_lossy(name).into_owned())
    })
}

fn has_capabilities(path: &Path) -> bool {
    let mut room = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut room).is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let of = |text: &str| interpreter_of(text.as_bytes());
        assert_eq!(of("#!/bin/sh\necho"), Some("/bin/sh".into()));
        assert_eq!(of("#! /bin/sh -e"), Some("/bin/sh".into()));
        assert_eq!(of("#!/usr/bin/env -S X=1 sh"), find_program(OsStr::new("sh")));
        assert_eq!(of("#!"), None);
        assert_eq!(of("echo"), None);
    }

    #[test]
    fn this_test_can_have_light_threads_and_damaged_files_are_not_judged() {
        let me = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&me).unwrap();
        if OURS.is_some() {
            assert_eq!(refusal(me.as_os_str()), None);
        }
        for cut in [0, 4, 5, 40, 64, 200, 4096, bytes.len() / 2] {
            let _ = why_not(&me, &bytes[..cut.min(bytes.len())], 0o755);
        }
    }

    #[test]
    fn other_machines_and_32_bits_are_said() {
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes[18] = 243; // riscv64
        let why = |bytes: &[u8]| why_not(Path::new("x"), bytes, 0o755).unwrap();
        assert!(why(&bytes).contains("another kind of CPU"));
        bytes[4] = 1;
        assert!(why(&bytes).contains("32-bit"));
    }
}
