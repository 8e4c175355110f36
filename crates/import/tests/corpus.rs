//! Replays what fuzz/ found, and small traces of every tool, good and damaged, with the stable toolchain; see fuzz/README.md.
#[path = "../../../fuzz/src/profiles.rs"]
mod profiles;
#[path = "../../../fuzz/src/traces.rs"]
mod traces;

use std::path::{Path, PathBuf};

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }

    /// The file with up to three damages.
    fn damaged(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bad = good.to_vec();
        for _ in 0..=self.below(3) {
            let (at, byte) = (self.below(bad.len()), self.below(256) as u8);
            match self.below(4) {
                0 => bad.truncate(at),
                1 => bad.insert(at, byte),
                // Other numbers, which text bears more often than other bytes.
                2 => bad
                    .iter_mut()
                    .skip(at)
                    .filter(|b| b.is_ascii_digit())
                    .take(1)
                    .for_each(|b| *b = b'0' + byte % 10),
                _ => bad.iter_mut().skip(at).take(1).for_each(|b| *b = byte),
            }
        }
        bad
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// The files of a folder of the corpus; none where the folder is not there.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let Ok(folder) = std::fs::read_dir(tests().join("corpus").join(name)) else {
        return Vec::new();
    };
    folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

/// Runs `driver` on each file, and on `n` damaged copies of it.
fn replay(files: &[Vec<u8>], n: usize, driver: fn(&[u8])) {
    let mut random = Random(0x5eed);
    for good in files {
        driver(good);
        (0..n).for_each(|_| driver(&random.damaged(good)));
    }
}

#[test]
fn profiles_of_the_corpus_and_damaged_ones_do_no_harm() {
    let files = corpus("profiles");
    assert!(files.len() > 2);
    replay(&files, 300, profiles::profiles);
}

/// A trace that is a directory as the driver takes it.
fn directory(path: &Path) -> Vec<u8> {
    let mut files: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy();
        out.extend_from_slice(format!("\n==> {name} <==\n").as_bytes());
        out.extend(std::fs::read(&file).unwrap());
    }
    out.split_off(1)
}

#[test]
fn traces_of_other_tools_and_damaged_ones_do_no_harm() {
    let golden = tests().join("golden");
    let names = ["chrome/node.json", "ftrace_text/trace.txt", "perfetto/sched.pftrace"];
    let mut files: Vec<_> =
        names.iter().map(|name| std::fs::read(golden.join(name)).unwrap()).collect();
    files.push(directory(&golden.join("ctf/kernel-bt/golden")));
    replay(&files, 30, traces::traces);
    // What was found once.
    replay(&corpus("traces"), 3, traces::traces);
}
