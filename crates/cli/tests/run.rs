//! `kasuri run --ito`: real programs on light threads; those that cannot have them are said, and run all the same.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
use kasuri_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 20 threads that wait; prints how many kernel threads the process has, exits with 7.
const WAITERS: &str = r#"
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *waits(void *unused) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); return unused; }
int main(void) {
    pthread_t t[20];
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 20; i++)
        pthread_create(&t[i], NULL, waits, NULL);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(tasks));)
        n += e->d_name[0] != '.';
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 20; i++)
        pthread_join(t[i], NULL);
    printf("%d\n", n);
    return 7;
}
"#;

/// Null: this machine's compiler cannot do that.
fn compiled(dir: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    fs::write(&from, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(&to).arg(&from).args(options);
    let made = cc.output().unwrap().status.success();
    made.then_some(to)
}

fn run(options: &[&str], program: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.args(["run", "--ito"]).args(options).arg("--").arg(program);
    command.env_remove("ITO_STATS").env_remove("ITO_WORKERS");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn kernel_threads(output: &Output) -> u32 {
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{text}: {}", said(output)))
}

fn is_built() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = root.join("build/threads/pthread/libito-pthread.so").exists();
    if !built {
        skip("libito-pthread.so is not built: make c");
    }
    built
}

#[test]
fn the_threads_of_an_unmodified_program_are_light_and_its_status_is_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let program = compiled(dir.path(), "waiters", WAITERS, &[]).expect("a C compiler");
    if !is_built() {
        return;
    }
    let plain = Command::new(&program).output().unwrap();
    assert_eq!(kernel_threads(&plain), 21);
    let light = run(&["--workers", "1"], &program);
    assert_eq!((light.status.code(), said(&light)), (Some(7), String::new()));
    assert!(kernel_threads(&light) < 10, "{}", kernel_threads(&light));
    let counted = run(&["--stats"], &program);
    assert!(said(&counted).contains("handed over"), "{}", said(&counted));
}

#[test]
fn what_cannot_have_light_threads_is_said_and_runs_on_kernel_threads() {
    let dir = tempfile::tempdir().unwrap();
    let go = format!(
        "char build[32] __attribute__((section(\".go.buildinfo\"), used)) = \"go\";\n{WAITERS}"
    );
    let asan = format!("void __asan_init(void);\nvoid __asan_init(void) {{}}\n{WAITERS}");
    let ito =
        format!("int ito_init(void *c);\nint ito_init(void *c) {{ return c != 0; }}\n{WAITERS}");
    let cases: [(&str, &str, &[&str], &str); 4] = [
        ("static", WAITERS, &["-static"], "statically linked"),
        ("go", &go, &[], "Go program"),
        ("asan", &asan, &[], "sanitizer"),
        ("ito", &ito, &[], "uses libito"),
    ];
    for (name, source, options, why) in cases {
        let Some(program) = compiled(dir.path(), name, source, options) else {
            skip(&format!("cannot compile `{name}`"));
            continue;
        };
        let output = run(&[], &program);
        assert!(said(&output).contains(why), "{name}: {}", said(&output));
        assert_eq!(output.status.code(), Some(7), "{name}");
        assert_eq!(kernel_threads(&output), 21, "{name}");
    }
}

/// These cannot run here at all, or not everywhere: only what is said of them counts.
#[test]
fn other_c_libraries_and_other_word_sizes_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let musl = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let small = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie"];
    let nothing = "void _start(void) { for (;;) __builtin_trap(); }";
    let musl = compiled(dir.path(), "musl", WAITERS, &[musl]).expect("a C compiler");
    let output = run(&[], &musl);
    assert!(said(&output).contains("(musl)"), "{}", said(&output));
    let Some(small) = compiled(dir.path(), "small", nothing, &small) else {
        return skip("no 32-bit compiler");
    };
    let output = run(&[], &small);
    assert!(said(&output).contains("32-bit"), "{}", said(&output));
}

#[test]
fn a_script_is_run_by_its_interpreter_and_what_is_not_there_is_127() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    fs::write(&script, "#!/bin/sh\nexit 5\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    if is_built() {
        assert_eq!(run(&[], &script).status.code(), Some(5));
        let output = run(&[], Path::new("/no/such/program"));
        assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    }
}
