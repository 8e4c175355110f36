//! Replays the profiles of the corpus, good and bad, with the stable toolchain; see fuzz/README.md.
#[path = "../../../fuzz/src/profiles.rs"]
mod driver;

use std::path::Path;

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

#[test]
fn profiles_of_the_corpus_and_damaged_ones_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/profiles");
    let mut files: Vec<Vec<u8>> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(files.len() > 2);
    files.iter().for_each(|bytes| driver::profiles(bytes));
    let mut random = Random(0x5eed);
    for bytes in &mut files {
        let good = bytes.clone();
        for _ in 0..300 {
            let mut bad = good.clone();
            for _ in 0..=random.below(3) {
                let (at, byte) = (random.below(bad.len()), random.below(256) as u8);
                match random.below(4) {
                    0 => bad.truncate(at),
                    1 => bad.insert(at, byte),
                    // Other numbers, which JSON bears more often than other bytes.
                    2 => bad
                        .iter_mut()
                        .skip(at)
                        .filter(|b| b.is_ascii_digit())
                        .take(1)
                        .for_each(|b| *b = b'0' + byte % 10),
                    _ => bad.iter_mut().skip(at).take(1).for_each(|b| *b = byte),
                }
            }
            driver::profiles(&bad);
        }
    }
}
