// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes as public reports have them (bench/causes/run): a cache behind one lock, a pipeline with
//! a slow stage, a pool whose queue stays locked.
use std::collections::HashMap;
use std::io::Read;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn work(rounds: u64) -> u64 {
    (0..rounds).fold(7, |a, b| std::hint::black_box(a ^ b.wrapping_mul(31)))
}

fn price(key: u64) -> u64 {
    key ^ work(1_500_000)
}

fn look_up(cache: &Mutex<HashMap<u64, u64>>, key: u64) -> u64 {
    *cache
        .lock()
        .unwrap()
        .entry(key)
        .or_insert_with(|| price(key))
}

fn cache() {
    let cache = Mutex::new(HashMap::new());
    thread::scope(|s| {
        for n in 0..3 {
            let cache = &cache;
            s.spawn(move || (0..80).for_each(|i| drop(look_up(cache, n * 1000 + i))));
        }
    });
}

fn encode() -> u64 {
    work(1_500_000)
}

fn channel() {
    let (decoded, to_filter) = mpsc::sync_channel(4);
    let (filtered, to_encode) = mpsc::sync_channel(4);
    thread::scope(|s| {
        s.spawn(move || (0..250).for_each(|_| decoded.send(work(100_000)).unwrap()));
        s.spawn(move || {
            to_filter
                .iter()
                .for_each(|x| filtered.send(x ^ work(150_000)).unwrap())
        });
        s.spawn(move || to_encode.iter().for_each(|_| drop(encode())));
    });
}

/// Reads a file byte by byte, without a buffer.
#[inline(never)]
fn count_lines(file: impl Read) -> usize {
    file.bytes().filter(|b| matches!(b, Ok(b'\n'))).count()
}

fn bytes() {
    let path = std::env::temp_dir().join(format!("kasuri-scene-{}", std::process::id()));
    std::fs::write(&path, "a line of text\n".repeat(100_000)).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    println!("{}", count_lines(file));
}

fn resize(job: u64) -> u64 {
    job ^ work(1_500_000)
}

/// A pool whose threads keep the lock of their queue while they do what they took: the guard lives
/// as long as the loop's body.
#[inline(never)]
fn serve(jobs: Arc<Mutex<mpsc::Receiver<u64>>>) {
    while let Ok(job) = jobs.lock().unwrap().recv() {
        std::hint::black_box(resize(job));
    }
}

fn receiver() {
    let (to_pool, jobs) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let pool: Vec<_> = (0..4)
        .map(|_| {
            let jobs = jobs.clone();
            thread::spawn(move || serve(jobs))
        })
        .collect();
    (0..300).for_each(|i| to_pool.send(i).unwrap());
    drop(to_pool);
    pool.into_iter().for_each(|t| t.join().unwrap());
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("cache") => cache(),
        Some("channel") => channel(),
        Some("bytes") => bytes(),
        Some("receiver") => receiver(),
        _ => std::process::exit(2),
    }
}
