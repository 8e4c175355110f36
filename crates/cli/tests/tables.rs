//! The tables from outside: `kasuri export --format parquet|csv`, and `kasuri sql` where there is no DuckDB. What DuckDB then
//! answers is tested in python/tests.
use crate::sample;
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
        assert!(stderr(&output).contains(&format!("machine m, run {run}")), "{}", stderr(&output));
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
        &["export", "--format", "csv", "-o", "out", "--label", "commit=1a2b", "run.kasuri"],
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
    let output = kasuri(&dir, &["export", "--format", "csv", "--label", "commit", "run.kasuri"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("needed KEY=VALUE"), "{}", stderr(&output));
    let output = kasuri(&dir, &["export", "--format", "parquet", "-o", "run.kasuri", "run.kasuri"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is a file, needed a folder"), "{}", stderr(&output));
}

#[test]
fn sql_without_duckdb_says_how_to_get_it() {
    let dir = scratch("tables_sql");
    let output = kasuri(&dir, &["sql", "run.kasuri", "top_waits"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("pip install duckdb-cli"), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1);
    let json = kasuri(&dir, &["sql", "--list", "--format", "json"]);
    let json = serde_json::from_slice(&json.stdout).expect("JSON");
    let odd = kasuri_testkit::schema::violations("sql", &json);
    assert_eq!(odd, Vec::<String>::new());
    let list = kasuri(&dir, &["sql", "--list"]);
    assert_eq!(list.status.code(), Some(0));
    assert!(String::from_utf8(list.stdout).unwrap().contains("top_waits "));
    let show = kasuri(&dir, &["sql", "--show", "nothing"]);
    assert_eq!(show.status.code(), Some(1));
    assert!(stderr(&show).contains("--list"), "{}", stderr(&show));
}

/// A DuckDB that is asked for something long, and a user who gives up.
#[test]
fn a_signal_leaves_no_process_and_no_columns() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch("tables_signal");
    let engine = dir.join("duckdb");
    let text = "#!/bin/sh\n[ \"$1\" != --version ] || { echo v1.4.0; exit; }\necho $$ >pid.new; mv pid.new pid\nexec sleep 600\n";
    std::fs::write(&engine, text).unwrap();
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
    let temporary = dir.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut asked = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(["sql", "run.kasuri", "FROM threads"])
        .current_dir(&dir)
        .env("KASURI_DUCKDB", &engine)
        .env("TMPDIR", &temporary)
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = loop {
        if let Ok(text) = std::fs::read_to_string(dir.join("pid")) {
            break text.trim().to_owned();
        }
        assert!(asked.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    let own = rustix::process::Pid::from_child(&asked);
    rustix::process::kill_process(own, rustix::process::Signal::TERM).unwrap();
    assert_eq!(asked.wait().unwrap().code(), Some(128 + 15));
    assert!(!Path::new("/proc").join(pid).exists());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
