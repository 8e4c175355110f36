//! The tables from outside: `kasuri export --format parquet|csv`, and `kasuri sql` where there is no DuckDB. What DuckDB then
//! answers is tested in python/tests.
mod sample;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("run.kasuri"), sample::recording()).unwrap();
    dir
}

fn kasuri(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(args)
        .current_dir(dir)
        .env("PATH", "/nowhere")
        .env_remove("KASURI_DUCKDB")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn parquet_puts_runs_beside_each_other() {
    let dir = scratch("tables_parquet");
    for run in ["first", "second", "second"] {
        let args = [
            "export",
            "--format",
            "parquet",
            "-o",
            "runs",
            "--machine",
            "m",
            "--run",
            run,
            "run.kasuri",
        ];
        let output = kasuri(&dir, &args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(&format!("machine m, run {run}")),
            "{}",
            stderr(&output)
        );
    }
    for table in ["run", "slice", "event", "account"] {
        let machine = dir.join("runs").join(table).join("machine=m");
        let mut runs: Vec<_> = std::fs::read_dir(machine)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        runs.sort();
        assert_eq!(runs, ["run=first", "run=second"], "{table}");
    }
}

#[test]
fn csv_has_a_file_for_each_table() {
    let dir = scratch("tables_csv");
    let output = kasuri(
        &dir,
        &[
            "export",
            "--format",
            "csv",
            "-o",
            "out",
            "--label",
            "commit=1a2b",
            "run.kasuri",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let label = std::fs::read_to_string(dir.join("out/label.csv")).unwrap();
    assert_eq!(label, "key,value\ncommit,1a2b\n");
    let slices = std::fs::read_to_string(dir.join("out/slice.csv")).unwrap();
    assert!(slices.starts_with("slice_id,thread_id,"), "{slices}");
    assert!(slices.lines().count() > 1, "{slices}");
}

#[test]
fn labels_and_folders_are_checked() {
    let dir = scratch("tables_bad");
    let output = kasuri(
        &dir,
        &[
            "export",
            "--format",
            "csv",
            "--label",
            "commit",
            "run.kasuri",
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("needed KEY=VALUE"),
        "{}",
        stderr(&output)
    );
    let output = kasuri(
        &dir,
        &[
            "export",
            "--format",
            "parquet",
            "-o",
            "run.kasuri",
            "run.kasuri",
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("is a file, needed a folder"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn sql_without_duckdb_says_how_to_get_it() {
    let dir = scratch("tables_sql");
    let output = kasuri(&dir, &["sql", "run.kasuri", "top_waits"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("pip install duckdb-cli"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stderr(&output).lines().count(), 1);
    let list = kasuri(&dir, &["sql", "--list"]);
    assert_eq!(list.status.code(), Some(0));
    assert!(
        String::from_utf8(list.stdout)
            .unwrap()
            .contains("top_waits ")
    );
    let show = kasuri(&dir, &["sql", "--show", "nothing"]);
    assert_eq!(show.status.code(), Some(1));
    assert!(stderr(&show).contains("--list"), "{}", stderr(&show));
}
