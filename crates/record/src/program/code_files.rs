//! The files whose code a program runs: itself, what interprets it, its loader and its libraries.
//!
//! Of a program that does not run yet they are looked up as the loader will: what it names, in the directories that it
//! names, that LD_LIBRARY_PATH names, that /etc/ld.so.conf names, and in the usual ones. Nothing is run for it (`ldd` runs the
//! program), so libraries that it loads later by their names (dlopen) are not among them. Of a running process they are what
//! it has mapped.
use crate::guard::bounds::MAX_CODE_FILES;
use crate::guard::reader::Readers;
use crate::guard::safefs::open_regular;
use kasuri_symbols::ReadAt;
use kasuri_unwind::Backing;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file of code.
#[derive(Debug)]
pub struct CodeFile {
    /// The name under which it was found.
    pub path: PathBuf,
    /// The file itself: what its name stands for later does not matter.
    pub file: File,
}

impl CodeFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// When there is none, or it may not be read.
    pub fn open(path: &Path) -> io::Result<CodeFile> {
        Ok(CodeFile { path: path.to_owned(), file: open_regular(path)? })
    }
}

/// The files of a program, the program first; none: there is no such program.
pub fn of_program(name: &OsStr) -> Vec<CodeFile> {
    let mut found = Found::default();
    found.add(super::locks::find_program(name).unwrap_or_else(|| name.into()));
    for preloaded in list("LD_PRELOAD", " :") {
        found.wanted.push(preloaded);
    }
    let mut at = 0;
    while at < found.files.len() {
        found.follow(at);
        at += 1;
    }
    found.files
}

/// The files that a process has mapped as code, in the order of their addresses.
///
/// # Errors
/// When they cannot be listed.
pub fn of_process(pid: i32) -> io::Result<Vec<CodeFile>> {
    let readers = Readers::default();
    // It may take a while on a busy machine; who does not answer is given up meanwhile.
    let Some(maps) = (0..20).find_map(|_| readers.maps(pid)) else {
        let cause = match std::fs::File::open(format!("/proc/{pid}/maps")) {
            Err(cause) => cause,
            Ok(_) => io::Error::other("they cannot be read, or did not come in time"),
        };
        return Err(cause);
    };
    let mut found = Found::default();
    for mapping in kasuri_unwind::parse_maps(&String::from_utf8_lossy(&maps)) {
        let Backing::File { path, device, .. } = &mapping.backing else {
            continue;
        };
        let path = Path::new(path);
        // The mapping itself: also of a removed file, and in another mount name space.
        if let Some(file) = readers.open_mapping(pid, mapping.start..mapping.end, *device) {
            found.keep(CodeFile { path: path.to_owned(), file });
        }
    }
    Ok(found.files)
}

/// The directories of the C library's loader, where a program names none.
const USUAL: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/usr/local/lib64"];

#[derive(Default)]
struct Found {
    files: Vec<CodeFile>,
    /// Device and inode of each.
    seen: HashSet<(u64, u64)>,
    /// Libraries by name that were looked for.
    names: HashSet<String>,
    /// Libraries that the environment asks for.
    wanted: Vec<String>,
}

impl Found {
    fn add(&mut self, path: PathBuf) -> bool {
        CodeFile::open(&path).is_ok_and(|file| {
            self.keep(file);
            true
        })
    }

    fn keep(&mut self, file: CodeFile) {
        let Ok(meta) = file.file.metadata() else {
            return;
        };
        if self.files.len() < MAX_CODE_FILES && self.seen.insert((meta.dev(), meta.ino())) {
            self.files.push(file);
        }
    }

    /// Adds what a file brings with it.
    fn follow(&mut self, at: usize) {
        let code = &self.files[at];
        let path = code.path.clone();
        if let Some(interpreter) = interpreter(&code.file) {
            self.add(interpreter);
            return;
        }
        let Some(links) = kasuri_symbols::links(&code.file) else {
            return;
        };
        if let Some(loader) = links.loader {
            self.add(loader.into());
        }
        let origin = path.parent().unwrap_or(Path::new("/"));
        let own = links.directories.iter().map(|d| {
            let origin = origin.display().to_string();
            PathBuf::from(d.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin))
        });
        let mut directories: Vec<PathBuf> = own.collect();
        directories.extend(list("LD_LIBRARY_PATH", ":;").into_iter().map(PathBuf::from));
        directories.extend(configured());
        for name in std::mem::take(&mut self.wanted).into_iter().chain(links.needed) {
            if !self.names.insert(name.clone()) {
                continue;
            }
            if name.contains('/') {
                self.add(name.into());
            } else {
                directories.iter().any(|d| self.add(d.join(&name)));
            }
        }
    }
}

/// The program that interprets a script; with `env`, the one that it will find.
fn interpreter(file: &File) -> Option<PathBuf> {
    let n = file.bytes().min(256) as usize;
    let mut line = vec![0; n];
    file.read_at(0, &mut line)?;
    let line = line.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_whitespace();
    let program = Path::new(words.next()?);
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    let asked = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    super::locks::find_program(OsStr::new(asked))
}

/// The words of a variable of the environment, which the program will inherit.
fn list(variable: &str, dividers: &str) -> Vec<String> {
    let text = std::env::var(variable).unwrap_or_default();
    let words = text.split(|c| dividers.contains(c));
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// The directories that /etc/ld.so.conf and the files it includes name, then the usual ones.
fn configured() -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut texts = vec![small("/etc/ld.so.conf".as_ref())];
    // The one `include` that distributions write: /etc/ld.so.conf.d/*.conf
    let included = Path::new("/etc/ld.so.conf.d");
    let names = crate::guard::safefs::Held::open(included)
        .and_then(|dir| dir.names(MAX_CODE_FILES))
        .unwrap_or_default();
    let mut names: Vec<String> = names.into_iter().filter(|n| n.ends_with(".conf")).collect();
    names.sort_unstable();
    texts.extend(names.iter().map(|name| small(&included.join(name))));
    for text in texts {
        let lines = text.lines().map(str::trim);
        out.extend(lines.filter(|l| l.starts_with('/')).map(PathBuf::from));
    }
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    out.push(multiarch.into());
    out.extend(USUAL.map(PathBuf::from));
    out
}

fn small(path: &Path) -> String {
    let read = || {
        let file = open_regular(path).ok()?;
        let mut bytes = vec![0; file.bytes().min(64 << 10) as usize];
        file.read_at(0, &mut bytes)?;
        String::from_utf8(bytes).ok()
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[CodeFile]) -> Vec<String> {
        let name = |f: &CodeFile| Some(f.path.file_name()?.to_string_lossy().into_owned());
        files.iter().filter_map(name).collect()
    }

    #[test]
    fn a_program_and_a_process_of_it_have_the_same_libraries() {
        let me = std::env::current_exe().unwrap();
        let before = of_program(me.as_os_str());
        assert_eq!(before[0].path, me);
        let names_before = names(&before);
        assert!(names_before.iter().any(|n| n.starts_with("libc.so")));
        assert!(names_before.iter().any(|n| n.starts_with("ld-")));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let inode = |f: &CodeFile| f.file.metadata().unwrap().ino();
        let now = of_process(std::process::id() as i32).unwrap();
        let now: HashSet<u64> = now.iter().map(inode).collect();
        assert!(before.iter().all(|f| now.contains(&inode(f))), "{before:?}");
    }

    #[test]
    fn of_a_script_its_interpreter_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        for first in ["#!/bin/sh\n", "#! /usr/bin/env -S A=1 sh\n"] {
            std::fs::write(&script, first).unwrap();
            let files = of_program(script.as_os_str());
            assert!(files.len() > 2 && names(&files)[1].ends_with("sh"), "{files:?}");
        }
        assert!(of_program(OsStr::new("/nowhere/at-all")).is_empty());
        // A script that interprets itself.
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(of_program(script.as_os_str()).len(), 1);
    }
}
