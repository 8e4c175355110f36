//! What following one stack costs: stops a program again and again, copies its registers and 32 KiB of its stack as the sampler
//! gets them, and times `Unwinder::unwind` on the copies. Prints microseconds a stack: first met (rules are read then), and met again.
//!
//!     cargo run --release -p kasuri-unwind --example unwinding -- STACKS PROGRAM [ARGS]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../tests/plain/mod.rs"]
mod plain;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() {
    x86_64::main();
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {
    eprintln!("cost: x86-64 Linux only");
    std::process::exit(1);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86_64 {
    use super::plain::Plain;
    use kasuri_format::call_paths::PathEnd;
    use kasuri_unwind::{Cpu, NoInterpreter, Registers, Stack, Unwinder, parse_maps};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    const COPIED: usize = 32 << 10;
    const ROUNDS: usize = 20;

    struct Sample {
        maps: String,
        registers: Registers,
        base: u64,
        bytes: Vec<u8>,
    }

    pub fn main() {
        let mut args = std::env::args().skip(1);
        let usage = "unwinding STACKS PROGRAM [ARGS]";
        let n: usize = args.next().and_then(|n| n.parse().ok()).expect(usage);
        let samples = copies(n, Command::new(args.next().expect(usage)).args(args));
        let mut unwinder = Unwinder::new(Cpu::X86_64);
        // The longest ones have the libraries that were loaded meanwhile.
        let maps = samples.iter().map(|s| &s.maps).max_by_key(|m| m.len());
        unwinder.set_maps(1, parse_maps(maps.expect("not empty")));
        let (cold, ends) = round(&mut unwinder, &samples);
        let again: Vec<f64> = (0..ROUNDS).map(|_| round(&mut unwinder, &samples).0).collect();
        let (best, worst) = again.iter().fold((f64::MAX, 0f64), |(b, w), &t| (b.min(t), w.max(t)));
        let tables = unwinder.interner.tables();
        let n_frames = unwinder.counts.frames as f64 / unwinder.counts.stacks as f64;
        println!(
            "{} stacks of {n_frames:.1} frames, {ends} complete; {} distinct frames, {} paths",
            samples.len(),
            tables.frames.len(),
            tables.paths.len()
        );
        println!(
            "us a stack: {cold:.2} first met; met again, {ROUNDS} rounds: mean {:.2} ({best:.2} to {worst:.2})",
            again.iter().sum::<f64>() / ROUNDS as f64
        );
    }

    /// Microseconds of CPU time of each `unwind`, and how many paths were complete.
    fn round(unwinder: &mut Unwinder, samples: &[Sample]) -> (f64, usize) {
        let mut n_complete = 0;
        let start = cpu_s();
        for sample in samples {
            let stack = Stack {
                base: sample.base,
                bytes: &sample.bytes,
                is_cut: sample.bytes.len() == COPIED,
            };
            let (_, end) = unwinder.unwind(
                1,
                Some((&sample.registers, stack)),
                &[],
                &mut Plain,
                &mut NoInterpreter,
            );
            n_complete += usize::from(end == PathEnd::Complete);
        }
        ((cpu_s() - start) * 1e6 / samples.len() as f64, n_complete)
    }

    /// CPU time of this thread, in seconds.
    fn cpu_s() -> f64 {
        // SAFETY: zeroed time is time; the call writes it.
        unsafe {
            let mut t: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t);
            t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
        }
    }

    /// Copies of a running program's stack, one each millisecond, until it ends.
    fn copies(n: usize, command: &mut Command) -> Vec<Sample> {
        let mut child = command.stdout(Stdio::null()).spawn().expect("PROGRAM");
        let pid = child.id() as i32;
        let mut samples = Vec::new();
        while samples.len() < n {
            std::thread::sleep(Duration::from_millis(1));
            match copy(pid) {
                Some(sample) => samples.push(sample),
                None => break,
            }
        }
        // Its end may have come first.
        let _ = child.kill();
        let _ = child.wait();
        assert!(!samples.is_empty(), "the program ended at once");
        samples
    }

    /// Stops a process, copies what the sampler would, and lets it run on. None: it ended.
    fn copy(pid: i32) -> Option<Sample> {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: zeroed registers are registers.
        let mut r: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let mut status = 0;
        // SAFETY: a child of ours; `status` and `r` live as long as the calls.
        let stopped = unsafe {
            libc::ptrace(libc::PTRACE_ATTACH, pid, none, none) == 0
                && libc::waitpid(pid, &raw mut status, 0) == pid
                && libc::WIFSTOPPED(status)
                && libc::ptrace(libc::PTRACE_GETREGS, pid, none, &raw mut r) == 0
        };
        if !stopped {
            return None;
        }
        let mut bytes = vec![0; COPIED];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: r.rsp as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is `bytes`; the kernel checks `remote`.
        let got =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        // SAFETY: the process is stopped and traced by this thread.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, none, none) };
        bytes.truncate(usize::try_from(got).ok()?);
        let mut registers = Registers::new(r.rip);
        let words = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        (0..).zip(words).for_each(|(ix, word)| registers.set(ix, word));
        Some(Sample { maps: maps.ok()?, registers, base: r.rsp, bytes })
    }
}
