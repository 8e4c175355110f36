//! Files with USDT probes: those of the fuzzers' corpus, each with one probe that has arguments and a semaphore and one that has
//! none, and their damaged copies.
use kasuri_symbols::usdt::{Fetch, probes};
use kasuri_testkit::{Need, skip_for};
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/src/usdt.rs"]
mod driver;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/usdt")
}

/// What the kernel would be told to fetch; `=5`: a constant; `-`: nothing.
fn fetched(file: &str) -> Vec<String> {
    let bytes = std::fs::read(corpus().join(file)).unwrap();
    let found = probes(&&bytes[..]).unwrap();
    assert_eq!(found.refused, 0);
    let [start, done] = &found.sites[..] else {
        panic!("{:?}", found.sites);
    };
    assert_eq!((&*start.provider, &*start.name), ("tiny", "work__start"));
    assert_eq!((&*done.provider, &*done.name), ("tiny", "work__done"));
    assert!(done.args.is_empty() && done.semaphore.is_none());
    // The second place is the first's neighbour, and both are no-ops of the machine.
    let step = (done.offset - start.offset) as usize;
    let at = start.offset as usize;
    assert_eq!(bytes[at..at + step], bytes[at + step..at + 2 * step]);
    let semaphore = start.semaphore.unwrap() as usize;
    assert_eq!(bytes[semaphore..semaphore + 2], [0, 0]);
    let text = |a: &kasuri_symbols::usdt::Arg| match &a.fetch {
        Fetch::Constant(n) => format!("={n}"),
        Fetch::No(_) => "-".to_owned(),
        _ => a.value().unwrap(),
    };
    start.args.iter().map(text).collect()
}

#[test]
fn arguments_of_each_machine_are_understood() {
    let x86 = ["+112(%sp):s32", "%di:u64", "=5", "-"];
    assert_eq!(fetched("x86_64.elf"), x86);
    assert_eq!(fetched("i386.elf"), ["+8(%bp):s32", "%ax:u32"]);
    let arm = ["+12(%sp):s32", "%x0:u64", "%x1:u32", "=5"];
    assert_eq!(fetched("aarch64.elf"), arm);
}

#[test]
fn only_probes_of_this_machine_are_native() {
    let native = |file: &str| {
        let bytes = std::fs::read(corpus().join(file)).unwrap();
        probes(&&bytes[..]).unwrap().is_native
    };
    assert_eq!(native("x86_64.elf"), cfg!(target_arch = "x86_64"));
    assert_eq!(native("aarch64.elf"), cfg!(target_arch = "aarch64"));
}

#[test]
fn damaged_copies_do_no_harm() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let (mut n_files, mut whole_still) = (0, 0);
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let whole = std::fs::read(entry.unwrap().path()).unwrap();
        assert_eq!(driver::usdt(&whole).len(), 2);
        n_files += 1;
        for round in 0..2000 {
            let mut damaged = whole.clone();
            for _ in 0..1 + round % 4 {
                let at = next() % whole.len();
                // Sizes and places that are far off are as likely as any.
                damaged[at] = if round % 3 == 0 { 0xff } else { next() as u8 };
            }
            if round % 7 == 0 {
                damaged.truncate(next() % whole.len());
            }
            whole_still += usize::from(driver::usdt(&damaged).len() == 2);
        }
    }
    assert!(n_files >= 3 && whole_still > 100, "{n_files} {whole_still}");
}

/// A file that says it has more than there is in memory.
#[test]
fn a_section_of_terabytes_is_not_read() {
    let mut bytes = std::fs::read(corpus().join("x86_64.elf")).unwrap();
    let number = |at: usize, n: usize| {
        bytes[at..at + n].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b)) as usize
    };
    let (sections, n) = (number(40, 8), number(60, 2));
    let sizes: Vec<usize> = (0..n).map(|ix| sections + ix * 64 + 32).collect();
    for at in sizes {
        bytes[at..at + 8].copy_from_slice(&(1u64 << 42).to_le_bytes());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    if file.set_len(1 << 43).is_err() {
        return skip_for(Need::Machine, "no files of that size here");
    }
    let file = std::fs::File::open(&path).unwrap();
    assert_eq!(probes(&file).unwrap().sites, []);
}
