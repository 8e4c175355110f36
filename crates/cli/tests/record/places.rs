//! Call paths of programs that are stripped, removed while they run, elsewhere than their path says, forked, replaced by others, or not for 64 bits.
use crate::stacks::{Taken, perf_allows, taken};
use crate::support::*;
use kasuri_format::call_paths::{NONE, PathEnd, SampleKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// tests/record/places.c, compiled to `dir/sub/places`.
fn compile_to(dir: &Path, sub: &str, options: &[&str]) -> PathBuf {
    std::fs::create_dir_all(dir.join(sub)).unwrap();
    let program = dir.join(sub).join("places");
    let built = Command::new("cc")
        .args(["-Wl,--build-id"])
        .args(options)
        .arg("-o")
        .args([&program, &repository().join("tests/record/places.c")])
        .status();
    assert!(built.expect("a C compiler").success());
    program
}

/// Records what a shell does in `dir`.
fn record_shell(dir: &Path, script: &str) -> PathBuf {
    let mut command = kasuri(dir);
    command.args(["record", "-q", "-o", "run.kasuri", "--", "sh", "-c", script]);
    let output = run(&mut command);
    assert!(output.status.success(), "{script}: {}", said(&output));
    dir.join("run.kasuri")
}

/// Each sample in `compute` has the whole path, and `parents` are the callers that were met.
fn assert_paths(taken: &Taken, how: &str, parents: &[&str]) {
    let computes = taken.of(SampleKind::OnCpu).filter_map(|(sample, names)| {
        let at = names.iter().position(|name| name == "compute")?;
        Some((sample, &names[at + 1..]))
    });
    let mut met: Vec<&str> = Vec::new();
    let mut n = 0;
    for (sample, callers) in computes {
        n += 1;
        let callers: Vec<&str> = callers.iter().map(String::as_str).collect();
        let [parent, "main", ref rest @ ..] = callers[..] else {
            panic!("{how}: {callers:?} of {sample:?}");
        };
        // Of a static program also the C library's.
        assert!(rest.iter().all(|name| name.starts_with('_')), "{how}: {rest:?}");
        assert_eq!(sample.end, PathEnd::Complete, "{how}: {sample:?}");
        if !met.contains(&parent) {
            met.push(parent);
        }
    }
    assert!(n >= 20, "{how}: {n} samples");
    assert_eq!(met, parents, "{how}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn programs_without_symbols_or_a_path_and_children_have_their_paths() {
        if !perf_allows() {
            return;
        }
        let dir = scratch();
        let at = |path: &str| dir.path().join(path);
        let whole = compile_to(dir.path(), "whole", &["-O2", "-fomit-frame-pointer"]);
        std::fs::create_dir(at("stripped")).unwrap();
        let strip = Command::new("strip").arg("-o").args([&at("stripped/places"), &whole]).status();
        assert!(strip.expect("strip").success());
        let fixed = compile_to(dir.path(), "static", &["-O2", "-static-pie"]);
        // Removed while it runs, before the recorder needs its file, or after.
        let gone = "mkdir gone; cp whole/places gone/places; gone/places run & sleep 0.1; rm gone/places; wait";
        for (how, script, program, parents) in [
            ("stripped", "exec stripped/places run", &whole, &["in_last"][..]),
            ("static-pie", "exec static/places run", &fixed, &["in_last"]),
            ("fork", "exec whole/places fork", &whole, &["in_child"]),
            ("vfork", "exec whole/places vfork", &whole, &["in_child"]),
            ("exec", "exec whole/places exec", &whole, &["in_first", "in_last"]),
            ("removed", gone, &whole, &["in_last"]),
        ] {
            if how == "removed" && !is_root() {
                // Only root may open what a mapping has behind it.
                continue;
            }
            measure(|| {
                let _ = std::fs::remove_dir_all(at("gone"));
                let _ = std::fs::remove_file(at("run.kasuri"));
                let file = record_shell(dir.path(), script);
                assert_paths(&taken(&file, program), how, parents);
            });
        }
    }

    #[test]
    fn another_file_at_the_same_path_in_a_mount_name_space_is_the_one_that_ran() {
        if !perf_allows() || !is_root() {
            return skip("needs root and perf_event_open");
        }
        let dir = scratch();
        let outside = compile_to(dir.path(), "outside", &["-O0"]);
        let inside = compile_to(dir.path(), "inside", &["-O2", "-fomit-frame-pointer"]);
        let works = Command::new("unshare").args(["-m", "true"]).status();
        if !works.is_ok_and(|status| status.success()) {
            return skip("unshare -m is refused");
        }
        measure(|| {
            let _ = std::fs::remove_file(dir.path().join("run.kasuri"));
            let script = "exec unshare -m sh -c 'mount --bind inside/places outside/places && exec outside/places run'";
            let file = record_shell(dir.path(), script);
            let taken = taken(&file, &inside);
            assert_paths(&taken, "mount name space", &["in_last"]);
            let [here, there] = [&outside, &inside].map(|path| {
                let id = kasuri_symbols::build_id(&std::fs::read(path).unwrap());
                assert!(!id.is_empty());
                id
            });
            let modules = &taken.tables.modules;
            assert!(modules.iter().any(|m| m.build_id == there), "{modules:?}");
            assert!(modules.iter().all(|m| m.build_id != here), "{modules:?}");
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_program_for_32_bits_has_one_frame_and_no_wrong_caller() {
        if !perf_allows() {
            return;
        }
        let dir = scratch();
        let source = dir.path().join("old.c");
        let text = "void _start(void) { for (volatile int i = 0; i < 400000000; i++); __asm__(\"mov $1, %eax; xor %ebx, %ebx; int $0x80\"); }";
        std::fs::write(&source, text).unwrap();
        let program = dir.path().join("old");
        let built = Command::new("cc")
            .args(["-m32", "-nostdlib", "-static", "-o"])
            .args([&program, &source])
            .status();
        let runs = || Command::new(&program).status().is_ok_and(|s| s.success());
        if !built.is_ok_and(|status| status.success()) || !runs() {
            return skip("32-bit programs cannot be built or run here");
        }
        measure(|| {
            let _ = std::fs::remove_file(dir.path().join("run.kasuri"));
            let file = record_shell(dir.path(), "exec ./old");
            let taken = taken(&file, &program);
            let tables = &taken.tables;
            let mut n = 0;
            for (sample, _) in taken.of(SampleKind::OnCpu) {
                let Some(innermost) = tables.paths.get(sample.path as usize) else {
                    continue;
                };
                let frame = tables.frames[innermost.frame as usize];
                let module = tables.modules.get(frame.module as usize);
                if module.is_some_and(|m| m.path.ends_with("/old")) {
                    n += 1;
                    assert_eq!(innermost.caller, NONE, "{sample:?}");
                    assert_ne!(sample.end, PathEnd::Complete, "{sample:?}");
                }
            }
            assert!(n >= 10, "{n} samples");
        });
    }
}
