//! `kasuri overhead --with-lmbench`: LMbench's own programs in place of our operations.
//!
//! Kasuri neither contains nor builds any part of LMbench. The user names the directory of an installed LMbench, and
//! the output of its programs is parsed. They are those of version 3 (`-N` repetitions). Each does one operation and
//! prints microseconds to stderr:
//!
//! | program | prints |
//! |---|---|
//! | most | `Some words: 0.0830 microseconds` |
//! | `lat_ctx` | `"size=16k ovr=3.13`, then `2 5.04`: processes, microseconds |
//! | `lat_mmap` | `1.048576 102`: megabytes, microseconds |
use crate::error::{Error, Result};
use crate::ops;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Least time that LMbench measures for one figure, us. It goes into LMbench's own variable; the default takes
/// seconds.
const ENOUGH_US: &str = "20000";
/// The program that `lat_proc exec` and `lat_proc shell` run.
const HELLO: &str = "/tmp/hello";

/// The programs for one of our operations: the mean of their figures is the time of one operation. `FILE` stands for
/// a file of ours.
fn programs(operation: &str) -> &'static [&'static str] {
    match operation {
        "null call" => &["lat_syscall -N 1 null"],
        "null I/O" => &["lat_syscall -N 1 read", "lat_syscall -N 1 write"],
        "stat" => &["lat_syscall -N 1 stat FILE"],
        "open/close" => &["lat_syscall -N 1 open FILE"],
        "select TCP" => &["lat_select -N 1 -n 100 tcp"],
        "sig inst" => &["lat_sig -N 1 install"],
        "sig hndl" => &["lat_sig -N 1 catch"],
        "fork proc" => &["lat_proc -N 1 fork"],
        "exec proc" => &["lat_proc -N 1 exec"],
        "sh proc" => &["lat_proc -N 1 shell"],
        "2p/0K" => &["lat_ctx -N 1 -s 0 2"],
        "2p/16K" => &["lat_ctx -N 1 -s 16 2"],
        "2p/64K" => &["lat_ctx -N 1 -s 64 2"],
        "8p/16K" => &["lat_ctx -N 1 -s 16 8"],
        "8p/64K" => &["lat_ctx -N 1 -s 64 8"],
        "16p/16K" => &["lat_ctx -N 1 -s 16 16"],
        "16p/64K" => &["lat_ctx -N 1 -s 64 16"],
        "pipe" => &["lat_pipe -N 1"],
        "AF_UNIX" => &["lat_unix -N 1"],
        "page fault" => &["lat_pagefault -N 1 FILE"],
        "mmap" => &["lat_mmap -N 1 1m FILE"],
        _ => &[],
    }
}

/// An installed LMbench.
#[derive(Debug)]
pub struct Lmbench {
    /// The directory of its programs.
    dir: PathBuf,
    cpu: u32,
    /// The file that some operations read.
    file: PathBuf,
    /// [`HELLO`] was made by us, and is removed when this value is dropped.
    made_hello: bool,
}

impl Lmbench {
    /// Looks for the programs in `dir`, `dir/bin` and the directories in that (LMbench builds into `bin/OS`).
    ///
    /// # Errors
    /// When there is no `lat_syscall`, or no file can be made in `scratch`.
    pub fn open(dir: &Path, cpu: u32, scratch: &Path) -> Result<Lmbench> {
        let bin = dir.join("bin");
        let below = std::fs::read_dir(&bin).into_iter().flatten();
        let mut places = vec![dir.to_owned(), bin];
        places.extend(below.filter_map(|e| e.ok()).map(|e| e.path()));
        let found = places.into_iter().find(|p| p.join("lat_syscall").is_file());
        let dir = found.ok_or_else(|| Error::NoLmbench(dir.to_owned()))?;
        // The programs may run elsewhere than here.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        let file = scratch.join("lmbench-file");
        // lat_pagefault needs at least a megabyte; pages of zeros would all be one.
        let bytes = vec![1u8; 8 << 20];
        std::fs::write(&file, bytes).map_err(|e| Error::File(file.clone(), e))?;
        let made_hello = copy_hello(&dir.join("hello")).is_ok();
        Ok(Lmbench { dir, cpu, file, made_hello })
    }

    /// The reason why operation `ix` cannot be measured; `None`: it can be.
    pub fn lacks(&self, ix: usize) -> Option<String> {
        let name = ops::ALL[ix].name;
        let mut programs = programs(name).iter();
        let Some(first) = programs.next() else {
            return Some(format!("{name}: LMbench has no program for it"));
        };
        let program = first.split(' ').next().unwrap_or_default();
        if !self.dir.join(program).is_file() {
            let dir = self.dir.display();
            return Some(format!("{name}: there is no {program} in {dir}"));
        }
        let needs_hello = matches!(name, "exec proc" | "sh proc");
        (needs_hello && !is_hello_ours())
            .then(|| format!("{name}: LMbench needs a copy of its program hello as {HELLO}"))
    }

    /// Time of one operation, ns; not a number when the overhead that LMbench subtracts came out longer than what it
    /// measured.
    ///
    /// # Errors
    /// When a program fails or prints something else.
    pub fn run(&self, ix: usize) -> Result<f64> {
        let operation = ops::ALL[ix].name;
        let programs = programs(operation);
        let mut sum = 0.0;
        for program in programs {
            let failed = |why: String| Error::Operation(operation, format!("{program}: {why}"));
            let text = self.output(program).map_err(|e| failed(e.to_string()))?;
            let us = microseconds(&text)
                .ok_or_else(|| failed(format!("printed no microseconds but {:?}", text.trim())))?;
            sum += us * 1000.0;
        }
        Ok(sum / programs.len().max(1) as f64)
    }

    fn output(&self, line: &str) -> io::Result<String> {
        let mut words = line.split(' ');
        let program = self.dir.join(words.next().unwrap_or_default());
        let mut command = Command::new(program);
        for word in words {
            match word {
                "FILE" => command.arg(&self.file),
                word => command.arg(word),
            };
        }
        command
            .env("ENOUGH", ENOUGH_US)
            // Ctrl-C is for this process, which then still reports its results so far.
            .process_group(0)
            .stdin(Stdio::null());
        let mut cpus = CpuSet::new();
        cpus.set(self.cpu as usize);
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &cpus)?)) };
        let output = command.output()?;
        let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            let last = text.trim().lines().last().unwrap_or_default();
            return Err(io::Error::other(format!("{} ({last})", output.status)));
        }
        Ok(text)
    }
}

impl Drop for Lmbench {
    fn drop(&mut self) {
        if self.made_hello {
            let _ = std::fs::remove_file(HELLO);
        }
    }
}

/// Makes [`HELLO`], which must not exist yet: a file or link that another user put in its place is neither written nor followed.
fn copy_hello(from: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut to = std::fs::File::create_new(HELLO)?;
    io::copy(&mut std::fs::File::open(from)?, &mut to)?;
    to.set_permissions(std::fs::Permissions::from_mode(0o755))
}

/// Whether the program that LMbench runs as [`HELLO`] belongs to us or to root, and no other user can change it.
fn is_hello_ours() -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(HELLO).is_ok_and(|meta| {
        meta.is_file() && (meta.uid() == me || meta.uid() == 0) && meta.mode() & 0o022 == 0
    })
}

/// The figure in the output of one of the programs.
fn microseconds(text: &str) -> Option<f64> {
    let number = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = match words[..] {
            [.., us, "microseconds"] => us,
            // Two numbers: a size or count, and its time.
            [of, us] if of.parse::<f64>().is_ok() => us,
            _ => return None,
        };
        word.parse::<f64>().ok().filter(|us| us.is_finite())
    };
    text.lines().rev().find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_each_kind_of_output() {
        for (text, us) in [
            ("Simple syscall: 0.0830 microseconds\n", Some(0.083)),
            ("Select on 100 tcp fd's: 23.2 microseconds\n", Some(23.2)),
            ("Process fork+/bin/sh -c: 3802.0000 microseconds", Some(3802.0)),
            ("\n\"size=16k ovr=3.13\n2 5.04\n", Some(5.04)),
            ("1.048576 102\n", Some(102.0)),
            ("hello\nPipe latency: 10.7 microseconds\n", Some(10.7)),
            ("usage: lat_ctx [-P <parallelism>]\n", None),
            ("x nan microseconds", None),
            ("", None),
        ] {
            assert_eq!(microseconds(text), us, "{text:?}");
        }
    }

    #[test]
    fn every_operation_has_its_program() {
        for operation in ops::ALL {
            assert!(!programs(operation.name).is_empty(), "{}", operation.name);
        }
    }

    #[test]
    fn a_directory_without_lmbench_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let none = Lmbench::open(dir.path(), 0, dir.path()).unwrap_err();
        assert!(none.to_string().contains("lat_syscall"), "{none}");
    }
}
