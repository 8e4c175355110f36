//! `kasuri symbolize`: names are added to a recording that has none, by the files that ran and by no others.
use kasuri_format::call_paths::{Frame, Module, ModuleKind, NONE, Path as CallPath, Tables};
use kasuri_format::container::{Recording, Writer};
use kasuri_format::meta::Meta;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = "static int in(int x) { return x * 3 + 1; }\n\
    __attribute__((noinline)) int hot(int *p) { int s = 0;\n\
    for (int i = 0; i < *p; i++) s += in(p[i]);\n\
    return s; }\n\
    int main(int n, char **v) { (void)v; return hot(&n); }\n";

/// A program and a recording that was in its function `hot`.
struct Case {
    dir: PathBuf,
}

impl Case {
    /// None, said: there is no compiler.
    fn new(name: &str) -> Option<Case> {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let case = Case { dir };
        std::fs::write(case.path("p.c"), SOURCE).unwrap();
        if !case.tool("cc", &["-O2", "-g", "-Wl,--build-id", "-o", "p", "p.c"]) {
            kasuri_testkit::skip("needs cc");
            return None;
        }
        case.write_recording();
        Some(case)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn tool(&self, tool: &str, args: &[&str]) -> bool {
        let run = Command::new(tool).args(args).current_dir(&self.dir).status();
        run.is_ok_and(|status| status.success())
    }

    fn hot(&self) -> u64 {
        let nm = Command::new("nm").args(["-S", "p"]).current_dir(&self.dir).output().unwrap();
        let text = String::from_utf8(nm.stdout).unwrap();
        let row = text.lines().find(|l| l.ends_with(" hot")).unwrap();
        let mut numbers = row.split(' ').map(|w| u64::from_str_radix(w, 16));
        numbers.next().unwrap().unwrap() + numbers.next().unwrap().unwrap() / 2
    }

    fn write_recording(&self) {
        let bytes = std::fs::read(self.path("p")).unwrap();
        let module = |path: PathBuf, build_id| Module {
            kind: ModuleKind::Elf,
            path: path.display().to_string(),
            build_id,
            pid: 0,
        };
        let gone = module("/gone/lib.so".into(), vec![1, 2, 3]);
        let tables = Tables {
            modules: vec![module(self.path("p"), kasuri_symbols::build_id(&bytes)), gone],
            frames: vec![
                Frame { module: 0, address: self.hot() },
                Frame { module: 1, address: 0x1234 },
            ],
            paths: vec![CallPath { caller: NONE, frame: 0 }, CallPath { caller: 0, frame: 1 }],
            names: Vec::new(),
        };
        let meta = Meta { version: 1, ..Meta::default() };
        let mut writer = Writer::new(Vec::new(), &meta).unwrap();
        writer.call_paths(&tables).unwrap();
        let (file, _) = writer.finish().unwrap();
        std::fs::write(self.path("run.kasuri"), file).unwrap();
    }

    fn symbolize(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
        command.args(["symbolize", "run.kasuri"]).args(args).current_dir(&self.dir);
        command.env_remove("DEBUGINFOD_URLS").envs(env.iter().copied());
        command.output().unwrap()
    }

    /// The names in a recording: `frame function line` of the outermost call.
    fn names(&self, file: &str) -> Vec<String> {
        let bytes = std::fs::read(self.path(file)).unwrap();
        let recording = Recording::parse(&bytes).unwrap();
        assert_eq!(recording.call_paths().frames.len(), 2, "all is still there");
        let names = recording.call_paths().names.iter().map(|n| {
            let call = n.calls.last().unwrap();
            format!("{} {} {}", n.frame, call.function, call.line)
        });
        names.collect()
    }
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn names_are_added_in_place_and_what_is_missing_is_said() {
    let Some(case) = Case::new("symbolize_in_place") else {
        return;
    };
    let output = case.symbolize(&[], &[]);
    let (stdout, stderr) = said(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stdout.starts_with("2 places in the code: 1 named, before 0; 1 with lines, before 0\n"),
        "{stdout}"
    );
    assert!(stdout.contains("       1  /gone/lib.so: file not found\n"), "{stdout}");
    assert!(stdout.contains("written: run.kasuri\n"), "{stdout}");
    assert_eq!(case.names("run.kasuri"), ["0 hot 3"]);
    // There is nothing left to do.
    let before = std::fs::metadata(case.path("run.kasuri")).unwrap().modified().unwrap();
    let (stdout, _) = said(&case.symbolize(&[], &[]));
    assert!(stdout.contains("1 named, before 1;") && stdout.contains("nothing to add"), "{stdout}");
    let after = std::fs::metadata(case.path("run.kasuri")).unwrap().modified().unwrap();
    assert_eq!(before, after);
}

#[test]
fn another_program_at_the_same_path_gives_no_names() {
    let Some(case) = Case::new("symbolize_replaced") else {
        return;
    };
    std::fs::write(case.path("p.c"), SOURCE.replace("hot", "new")).unwrap();
    assert!(case.tool("cc", &["-O2", "-g", "-Wl,--build-id", "-o", "p", "p.c"]));
    let (stdout, _) = said(&case.symbolize(&["-o", "out.kasuri"], &[]));
    assert!(stdout.contains("0 named, before 0;"), "{stdout}");
    assert!(stdout.contains("/p: file replaced since\n"), "{stdout}");
    assert_eq!(case.names("out.kasuri"), [""; 0]);
}

#[test]
fn a_directory_of_debug_files_adds_functions_then_lines() {
    let Some(case) = Case::new("symbolize_dir") else {
        return;
    };
    std::fs::create_dir(case.path("symbols")).unwrap();
    assert!(case.tool("objcopy", &["--strip-debug", "p", "symbols/p"]));
    std::fs::rename(case.path("p"), case.path("elsewhere")).unwrap();
    let json = |args: &[&str]| {
        let (stdout, stderr) =
            said(&case.symbolize(&[&["--json", "--debug-dir", "symbols"], args].concat(), &[]));
        serde_json::from_str::<serde_json::Value>(&stdout)
            .unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"))
    };
    let first = json(&[]);
    let odd = kasuri_testkit::schema::violations("symbolize", &first);
    assert_eq!(odd, Vec::<String>::new());
    assert_eq!(first["after"], serde_json::json!({ "named": 1, "with_lines": 0 }));
    assert_eq!(first["unnamed"][0]["why"], "file not found");
    assert!(case.tool("cp", &["elsewhere", "symbols/p"]));
    let second = json(&[]);
    assert_eq!(second["before"], first["after"]);
    assert_eq!(second["after"], serde_json::json!({ "named": 1, "with_lines": 1 }));
    // The earlier name is there too; of two the later holds.
    assert_eq!(case.names("run.kasuri"), ["0 hot 0", "0 hot 3"]);
    assert_eq!(json(&[])["output"], serde_json::Value::Null);
}

#[test]
fn debuginfod_is_asked_on_request_only_and_its_absence_is_said() {
    let Some(case) = Case::new("symbolize_debuginfod") else {
        return;
    };
    std::fs::rename(case.path("p"), case.path("fetched")).unwrap();
    let fetched = case.path("fetched").display().to_string();
    let script =
        format!("#!/bin/sh\necho \"$*\" >> asked\n[ \"$2\" = 010203 ] && exit 2\necho {fetched}\n");
    std::fs::create_dir(case.path("bin")).unwrap();
    std::fs::write(case.path("bin/debuginfod-find"), script).unwrap();
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(case.path("bin/debuginfod-find"), mode).unwrap();
    let bin = format!("{}:/bin:/usr/bin", case.path("bin").display());
    let urls = ("DEBUGINFOD_URLS", "http://localhost:9");
    let output = case.symbolize(&["--debuginfod"], &[("PATH", &bin)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).1.contains("DEBUGINFOD_URLS is not set"), "{output:?}");
    let output = case.symbolize(&["--debuginfod"], &[("PATH", "/nowhere"), urls]);
    assert!(said(&output).1.contains("is not installed"), "{output:?}");
    let (stdout, _) = said(&case.symbolize(&[], &[("PATH", &bin), urls]));
    assert!(stdout.contains("0 named") && !case.path("asked").exists(), "{stdout}");
    let (stdout, stderr) = said(&case.symbolize(&["--debuginfod"], &[("PATH", &bin), urls]));
    assert!(stdout.contains("1 named, before 0; 1 with lines"), "{stdout}{stderr}");
    assert!(stdout.contains("1 debug files from debuginfod"), "{stdout}");
    let asked = std::fs::read_to_string(case.path("asked")).unwrap();
    assert_eq!(asked.lines().count(), 2, "{asked}");
}

#[test]
fn a_debuginfod_find_without_an_end_is_ended() {
    let Some(case) = Case::new("symbolize_endless") else {
        return;
    };
    let bin = case.path("bin").display().to_string();
    std::fs::create_dir_all(&bin).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::write(case.path("bin/debuginfod-find"), "#!/bin/sh\nexec /usr/bin/yes /etc/shadow\n")
        .unwrap();
    std::fs::set_permissions(case.path("bin/debuginfod-find"), mode).unwrap();
    let urls = ("DEBUGINFOD_URLS", "http://localhost:1");
    let output = case.symbolize(&["--debuginfod"], &[("PATH", &bin), urls]);
    let (stdout, stderr) = said(&output);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(!stdout.contains("from debuginfod"), "{stdout}{stderr}");
    assert!(stderr.contains("debuginfod, file 1"), "it was asked: {stderr}");
}

#[test]
fn a_damaged_recording_is_not_replaced() {
    let Some(case) = Case::new("symbolize_damaged") else {
        return;
    };
    let mut bytes = std::fs::read(case.path("run.kasuri")).unwrap();
    bytes.truncate(bytes.len() - 10);
    std::fs::write(case.path("run.kasuri"), &bytes).unwrap();
    let output = case.symbolize(&[], &[]);
    let message = said(&output).1;
    assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{message}");
    assert!(message.contains("run.kasuri") && message.contains("-o FILE"), "{message}");
    assert_eq!(std::fs::read(case.path("run.kasuri")).unwrap(), bytes);
    let output = case.symbolize(&["-o", "out.kasuri"], &[]);
    assert!(output.status.success() && said(&output).1.contains("left out"), "{output:?}");
    assert_eq!(case.names("out.kasuri"), ["0 hot 3"]);
    // What is no recording, and what is no file.
    std::fs::write(case.path("run.kasuri"), "nothing").unwrap();
    for (args, words) in [(&["-o", "x"][..], "run.kasuri"), (&["-o", "."], "directory")] {
        let output = case.symbolize(args, &[]);
        let message = said(&output).1;
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

/// `perf.data` comes from anyone: code in it lies in files of any name.
#[test]
fn a_profile_that_names_devices_and_other_files_has_no_names_of_theirs() {
    let golden = "../../tests/golden/perf_profile/clock.data";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    let whole = std::fs::read(golden).unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strange-profile");
    std::fs::create_dir_all(&dir).unwrap();
    let own = b"/tmp/pingpong-golden/profile";
    let places = |bytes: &[u8]| -> Vec<usize> {
        let starts = 0..bytes.len() - own.len();
        starts.filter(|&at| bytes[at..].starts_with(own)).collect()
    };
    assert!(places(&whole).len() >= 2);
    // Devices are no files of code at all.
    let others = [
        ("/dev/zero", "[unknown]"),
        ("/proc/self/mem", "[mem]"),
        ("/etc/shadow", "[shadow]"),
        ("/bin/sh", "[sh]"),
    ];
    for (other, shown) in others {
        let mut bytes = whole.clone();
        for at in places(&whole) {
            bytes[at..at + own.len()].fill(0);
            bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
        }
        let file = dir.join("perf.data");
        std::fs::write(&file, bytes).unwrap();
        let kasuri = env!("CARGO_BIN_EXE_kasuri");
        let output = Command::new(kasuri).arg("flame").arg(&file).output();
        let output = output.unwrap();
        let (out, err) = said(&output);
        assert!(output.status.success(), "{other}: {err}");
        assert!(out.contains(shown), "{other}: {out}");
    }
}
