//! What the commands write, and the programs they start: nothing is replaced that is no file, and no program comes from the working
//! directory.
use crate::sample;

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn kasuri(dir: &Path, args: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output();
    command.expect("kasuri runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    std::fs::write(dir.path().join("run.kasuri"), sample::recording()).unwrap();
    dir
}

/// Commands that write a file, without its name.
const WRITERS: [&[&str]; 4] = [
    &["report", "run.kasuri", "-o"],
    &["export", "--format", "chrome-json", "run.kasuri", "-o"],
    &["export", "--format", "perfetto", "run.kasuri", "-o"],
    &["merge", "run.kasuri", "-o"],
];

#[test]
fn links_are_refused_and_devices_written_through() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("victim"), "precious").unwrap();
    symlink(at("victim"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    let null = Command::new("mknod").arg(at("null")).args(["c", "1", "3"]).output();
    let has_device = null.is_ok_and(|o| o.status.success());
    for writer in WRITERS {
        for name in ["link", "dangling"] {
            let output = kasuri(dir.path(), &[writer, &[name]].concat());
            assert!(!output.status.success(), "{writer:?}");
            assert!(said(&output).contains("symbolic link"), "{}", said(&output));
        }
        if has_device {
            let output = kasuri(dir.path(), &[writer, &["null"]].concat());
            assert!(output.status.success(), "{writer:?}: {}", said(&output));
            let kind = at("null").metadata().unwrap().file_type();
            assert!(kind.is_char_device(), "{writer:?}");
        }
        let output = kasuri(dir.path(), &[writer, &["result"]].concat());
        assert!(output.status.success(), "{writer:?}: {}", said(&output));
        assert!(at("result").metadata().unwrap().len() > 0);
        std::fs::remove_file(at("result")).unwrap();
    }
    // A folder of tables: its files as well.
    std::fs::create_dir(at("tables")).unwrap();
    symlink(at("victim"), at("tables/slice.csv")).unwrap();
    let output = kasuri(dir.path(), &["export", "--format", "csv", "run.kasuri", "-o", "tables"]);
    assert!(said(&output).contains("no regular file"), "{}", said(&output));
    assert_eq!(std::fs::read(at("victim")).unwrap(), b"precious");
    assert!(
        at("link").is_symlink() && at("tables/slice.csv").is_symlink() && !at("nowhere").exists()
    );
}

#[test]
fn nothing_of_the_working_directory_is_run() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    let python = "open('ran','w').write('x')\n";
    for name in ["duckdb_cli.py", "os.py", "duckdb.py", "site.py"] {
        std::fs::write(at(name), python).unwrap();
    }
    for name in ["duckdb", "python3", "xdg-open"] {
        std::fs::write(at(name), "#!/bin/sh\ntouch ran; echo v1\n").unwrap();
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    // The user's PATH leads here by its empty entry and by its dot, and PYTHONPATH does.
    for path in [":/usr/bin:/bin", ".:/usr/bin:/bin", "/usr/bin:/bin:"] {
        for args in [&["sql", "run.kasuri", "select 1"][..], &["report", "--open", "run.kasuri"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
                .args(args)
                .current_dir(dir.path())
                .env("PATH", path)
                .env("PYTHONPATH", dir.path())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(!at("ran").exists(), "{path} {args:?}: {}", said(&output));
        }
    }
}

#[test]
fn messages_cannot_steer_the_terminal() {
    let dir = scratch();
    let output = kasuri(dir.path(), &["stat", "no\u{1b}[2J\u{7}such\nkasuri: note: all is well"]);
    let text = said(&output);
    assert!(text.starts_with("kasuri: error:"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert_eq!(text.lines().filter(|l| l.starts_with("kasuri:")).count(), 1, "{text}");
}

/// `sudo kasuri record` in a folder of one's own leaves a recording that `kasuri stat` can read; elsewhere root's stays root's.
#[test]
fn what_sudo_writes_into_its_callers_folder_is_the_callers() {
    const CALLER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        kasuri_testkit::skip("only root can be called by sudo");
        return;
    }
    let dir = scratch();
    let owner = |args: &[&str], uid: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
            .args(args)
            .current_dir(dir.path())
            .envs([("SUDO_UID", uid), ("SUDO_GID", "65534")])
            .stdin(Stdio::null())
            .output()
            .expect("kasuri runs");
        assert!(output.status.success(), "{}", said(&output));
        let made = dir.path().join("made").metadata().unwrap();
        std::fs::remove_file(dir.path().join("made")).unwrap();
        made.uid()
    };
    let write = ["report", "run.kasuri", "-o", "made"];
    let record = ["record", "-q", "-o", "made", "--", "true"];
    assert_eq!(owner(&write, "65534"), 0, "root's folder");
    chown(dir.path(), Some(CALLER), None).unwrap();
    assert_eq!(owner(&write, "65534"), CALLER);
    assert_eq!(owner(&record, "65534"), CALLER);
    for nobody in ["0", "-1", "4294967295", "1000", "", "x"] {
        assert_eq!(owner(&write, nobody), 0, "SUDO_UID={nobody}");
    }
}
