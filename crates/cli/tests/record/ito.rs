//! Threads of libito on the timeline: every one of them, with the thread that created it and the one that joined it.
use crate::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// examples/ito's n-queens on ito, compiled with the library's sources: `way` is FORK_ITO or FORK_ITO_FORK.
fn queens(dir: &Path, way: &str) -> PathBuf {
    let root = repository();
    let sources = |folder: &str| {
        let mut found: Vec<PathBuf> = std::fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "c" || e == "S"))
            .collect();
        found.sort();
        found
    };
    let include = |folder: &str| format!("-I{}", root.join(folder).display());
    let program = dir.join(way);
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-mno-red-zone"])
        .args(["-D", way])
        .args(
            [
                "threads/include",
                "threads/src",
                "annotate/include",
                "probes/lock",
            ]
            .map(include),
        )
        .args(["examples/ito/nqueens.c", "examples/common/example.c"].map(|p| root.join(p)))
        .args(
            ["threads/src", "threads/src/prim", "threads/src/context"]
                .map(sources)
                .concat(),
        )
        .args([
            "-o".as_ref(),
            program.as_os_str(),
            "-pthread".as_ref(),
            "-lm".as_ref(),
        ])
        .status()
        .unwrap();
    assert!(status.success(), "{way}: does not compile");
    program
}

/// 8 queens: 2,056 legal squares, each a thread (or a task); and the root thread.
#[test]
fn every_ito_thread_is_seen() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("compiles the library's x86-64 assembly");
    }
    let dir = scratch();
    for (way, name) in [("FORK_ITO", "queens_thread"), ("FORK_ITO_FORK", "queens")] {
        let program = queens(dir.path(), way);
        for workers in ["1", "3"] {
            let output = run(kasuri(dir.path())
                .args(["record", "-q", "-o", "run.kasuri", "--"])
                .arg(&program)
                .args(["-n", "8", "-t", workers]));
            assert!(output.status.success(), "{}", said(&output));
            let output = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
            let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let tasks = &summary["tasks"];
            let case = format!("{way}, {workers} workers: {tasks}");
            assert_eq!(summary["losses"].as_array().unwrap().len(), 0, "{case}");
            assert_eq!(
                (&tasks["count"], &tasks["ended"]),
                (&2057.into(), &2057.into()),
                "{case}"
            );
            let ns = |key: &str| tasks["graph"][key].as_i64().unwrap();
            assert!(
                0 < ns("span_ns") && ns("span_ns") <= ns("work_ns"),
                "{case}"
            );
            let names = summary["annotations"].as_array().unwrap();
            let named = names.iter().find(|a| a["name"] == name).expect(&case);
            assert!(named["count"].as_u64().unwrap() >= 2056, "{case}: {named}");
            std::fs::remove_file(dir.path().join("run.kasuri")).unwrap();
        }
    }
}
