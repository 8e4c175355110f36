//! fib, UTS, n-queens and quicksort of examples/ito, on rayon, or with `--features ito` on the crate ito: same algorithms, no cut-off, same output.
mod sha1;
mod uts;

#[cfg(feature = "ito")]
use ito::join;
#[cfg(not(feature = "ito"))]
use rayon::join;
use std::process::ExitCode;
use std::time::Instant;

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[derive(Clone, Copy, Default)]
struct Queens {
    all: u32,
    columns: u32,
    down: u32,
    up: u32,
    solutions: u64,
    tasks: u64,
}

fn queens(q: &mut Queens) {
    let mut open = q.all & !(q.columns | q.down | q.up);
    q.solutions = u64::from(q.columns == q.all);
    let n = open.count_ones() as usize;
    if n == 0 {
        return;
    }
    let mut child = [Queens::default(); 18];
    for c in &mut child[..n] {
        let square = open & open.wrapping_neg();
        open &= open - 1;
        *c = Queens {
            all: q.all,
            columns: q.columns | square,
            down: (q.down | square) << 1,
            up: (q.up | square) >> 1,
            ..Queens::default()
        };
    }
    each(&mut child[..n], &queens);
    q.tasks = n as u64;
    for c in &child[..n] {
        q.solutions += c.solutions;
        q.tasks += c.tasks;
    }
}

/// Every element by a task of its own: rayon forks in two.
fn each<T: Send>(all: &mut [T], visit: &(impl Fn(&mut T) + Sync)) {
    match all {
        [] => {}
        [one] => visit(one),
        _ => {
            let (a, b) = all.split_at_mut(all.len() / 2);
            join(|| each(a, visit), || each(b, visit));
        }
    }
}

/// Hoare's partition around the median of three, as examples/ito/quicksort.c has it.
fn partition(x: &mut [i64]) -> usize {
    let n = x.len();
    let middle = n / 2;
    if x[middle] < x[0] {
        x.swap(middle, 0);
    }
    if x[n - 1] < x[0] {
        x.swap(n - 1, 0);
    }
    if x[n - 1] < x[middle] {
        x.swap(n - 1, middle);
    }
    if n <= 3 {
        return middle;
    }
    let pivot = x[middle];
    x.swap(middle, n - 2);
    let (mut i, mut j) = (0, n - 2);
    loop {
        i += 1;
        while x[i] < pivot {
            i += 1;
        }
        j -= 1;
        while pivot < x[j] {
            j -= 1;
        }
        if i >= j {
            break;
        }
        x.swap(i, j);
    }
    x.swap(i, n - 2);
    i
}

fn quicksort(x: &mut [i64]) {
    if x.len() < 2 {
        return;
    }
    let at = partition(x);
    let (low, high) = x.split_at_mut(at);
    join(|| quicksort(low), || quicksort(&mut high[1..]));
}

/// splitmix64, as examples/common/example.h.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs the kernel once; returns seconds and tasks.
fn run(kernel: &str, n: u32, tree: &uts::Tree) -> Result<(f64, u64), String> {
    let timed = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    let right = |is_right: bool, tasks: u64, s: f64| {
        if is_right {
            Ok((s, tasks))
        } else {
            Err(format!("{kernel}: wrong answer"))
        }
    };
    match kernel {
        "fib" => {
            let mut value = 0;
            let s = timed(&mut || value = fib(n));
            let (mut a, mut b) = (0u64, 1u64);
            for _ in 0..n {
                (a, b) = (b, a + b);
            }
            right(value == a, b - 1, s)
        }
        "nqueens" => {
            const SOLUTIONS: [u64; 15] = [
                1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365_596,
            ];
            let mut q = Queens {
                all: (1 << n) - 1,
                ..Queens::default()
            };
            let s = timed(&mut || queens(&mut q));
            right(q.solutions == SOLUTIONS[n as usize], q.tasks, s)
        }
        "quicksort" => {
            let mut state = 1;
            let mut x: Vec<i64> = (0..n).map(|_| (random(&mut state) >> 16) as i64).collect();
            let s = timed(&mut || quicksort(&mut x));
            right(x.is_sorted(), n.into(), s)
        }
        "uts" => {
            let mut counted = (0, 0, 0);
            let s = timed(&mut || counted = uts::count(tree));
            right(
                counted == (tree.nodes, tree.leaves, tree.depth),
                counted.0,
                s,
            )
        }
        _ => Err(format!("no kernel '{kernel}'")),
    }
}

#[cfg(not(feature = "ito"))]
const RUNTIME: &str = "rayon";
#[cfg(not(feature = "ito"))]
struct Pool(rayon::ThreadPool);
#[cfg(not(feature = "ito"))]
impl Pool {
    fn new(workers: u32) -> Option<Pool> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers as usize)
            .stack_size(256 << 20)
            .build();
        pool.ok().map(Pool)
    }
    fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.0.install(f)
    }
}

#[cfg(feature = "ito")]
const RUNTIME: &str = "ito_rust";
#[cfg(feature = "ito")]
struct Pool;
#[cfg(feature = "ito")]
impl Pool {
    fn new(workers: u32) -> Option<Pool> {
        ito::start(workers, 256 << 20).ok().map(|()| Pool)
    }
    fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        ito::scope(|_| f())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|at| arguments.get(at + 1)).cloned()
    };
    let number =
        |name: &str, default: u32| value(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let kernel = arguments.first().cloned().unwrap_or_default();
    let (workers, repeat) = (number("-t", 1), number("--repeat", 1));
    let tree = uts::tree(&value("--tree").unwrap_or("T1".into()));
    let (Some(pool), Some(tree)) = (Pool::new(workers), tree) else {
        eprintln!("{RUNTIME}: error: no such tree, or no threads");
        return ExitCode::from(2);
    };
    let n = number("-n", 30);
    for turn in 0..repeat {
        match pool.install(|| run(&kernel, n, tree)) {
            Ok((s, tasks)) if turn > 0 || repeat == 1 => {
                println!(
                    "elapsed_s: {s:.6}\nns_per_task: {:.3}",
                    s * 1e9 / tasks.max(1) as f64
                );
            }
            Ok(_) => {}
            Err(message) => {
                eprintln!("{RUNTIME}: error: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("runtime: {RUNTIME}\nworkers: {workers}");
    ExitCode::SUCCESS
}
