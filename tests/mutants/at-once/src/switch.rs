//! Which mutant is on: the number in `KASURI_MUTANT`; `KASURI_MUTANT=seen:FILE` appends to FILE the number of each mutant that is reached.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const SEEN: u32 = u32::MAX - 1;
static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

#[inline(always)]
pub fn on(number: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    active == number || active >= SEEN && slow(number)
}

#[cold]
fn slow(number: u32) -> bool {
    let text = std::env::var("KASURI_MUTANT").unwrap_or_default();
    let Some(file) = text.strip_prefix("seen:") else {
        let active = text.parse().unwrap_or(0);
        ACTIVE.store(active, Relaxed);
        return active == number;
    };
    ACTIVE.store(SEEN, Relaxed);
    let bit = 1 << (number % 64);
    if REACHED[number as usize / 64].fetch_or(bit, Relaxed) & bit == 0 {
        let mut options = std::fs::OpenOptions::new();
        if let Ok(mut out) = options.append(true).create(true).open(file) {
            let _ = std::io::Write::write_all(&mut out, format!("{number}\n").as_bytes());
        }
    }
    false
}
