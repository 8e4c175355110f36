// SPDX-License-Identifier: MIT OR Apache-2.0
// Workers take jobs from a queue until it is empty.
use std::sync::Mutex;
use std::thread;

static QUEUE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn run(job: u64) -> f64 {
    let mut x = job as f64;
    for _ in 0..2_000_000 {
        x = x * 0.999 + 1.0;
    }
    x
}

fn worker() -> f64 {
    let mut sum = 0.0;
    while let Some(job) = QUEUE.lock().unwrap().pop() {
        sum += run(job);
    }
    sum
}

fn main() {
    QUEUE.lock().unwrap().extend(0..200);
    let n = thread::available_parallelism().map_or(2, usize::from);
    let workers: Vec<_> = (0..n).map(|_| thread::spawn(worker)).collect();
    let sums = workers.into_iter().map(|w| w.join().unwrap());
    println!("{}", sums.sum::<f64>());
}
