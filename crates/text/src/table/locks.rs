//! Locks as text: what `kasuri locks` prints.
//!
//! Facts come first: the ratios, the class and the advice of [`Verdict`]. Then tables, each largest waits first:
//!
//! | table | question |
//! |---|---|
//! | locks | which lock costs how much |
//! | holders, waits | what the holder did while it held the lock, and while others waited |
//! | waiters and holders | which thread waited for which |
//! | call sites | which place in the source took the lock |
//! | other waits | conditions, semaphores, barriers |
//! | threads, tasks, processes | which of them use locks |
//! | programs | which program of a tree of processes, as `make` makes it |
//! | locks taken in both orders | what can deadlock |
//! | system calls, the kernel's own locks | time inside the kernel |
//!
//! A table without rows is left out. Ratios are those of docs/glossary.md.
use super::grid::{Grid, number, text, word};
use super::units::{count, duration, percent, plural, printable};
use super::{Layout, Page};
use crate::verdict::Verdict;
use kasuri_analyze::{Convoy, Inversion, LockRow, Locks, OrderCycle, OrderStep, Use};
use kasuri_predict::Prediction;

/// The locks as text, ending with a line feed. The class needs a prediction.
pub fn render(locks: &Locks, prediction: Option<&Prediction>, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    // Facts before tables: on a screen of 24 lines the tables may have scrolled away the answer.
    page.title(&locks.command);
    page.lock_facts(locks, prediction);
    // Time inside the kernel may be recorded although no lock of the program is.
    if locks.locks.is_empty() {
        page.programs(locks);
        page.kernel_tables(locks);
        let probe = match locks.lock_probe.as_str() {
            "" => "kasuri record --locks records pthread locks; ",
            _ => "",
        };
        page.fact(
            "locks",
            &format!("none recorded. {probe}--lock-function LOCK,UNLOCK records locks with their own functions, also in static programs; KASURI_LOCK_* annotates a lock in the source (docs/guide/locks.md)"),
        );
        return page.text;
    }
    page.lock_table(locks);
    page.hold_table(locks);
    page.waits_table(locks);
    page.sites_table(locks);
    page.other_waits(locks);
    page.owners(locks);
    page.programs(locks);
    page.inversions(locks);
    page.kernel_tables(locks);
    page.text
}

/// A time.
fn ns(value: i64) -> String {
    duration(value as f64)
}

/// A share that may not be known.
fn maybe(share: Option<f64>) -> String {
    share.map_or("-".into(), percent)
}

/// How many acquisitions waited, of how many where all are counted.
fn contended(u: &Use) -> String {
    let waited = plural(u.contended, "contended acquisition");
    match u.contended_share {
        Some(share) => format!(
            "{waited} of {} ({})",
            count(u.holds.max(u.requests)),
            percent(share)
        ),
        None => waited,
    }
}

/// A share of a whole; `-` where the whole is nothing.
fn part(of: i64, whole: i64) -> String {
    if whole > 0 {
        percent(of as f64 / whole as f64)
    } else {
        "-".into()
    }
}

impl Page<'_> {
    /// Ratios, limitations of the recording, class and advice.
    fn lock_facts(&mut self, locks: &Locks, prediction: Option<&Prediction>) {
        self.ratios(locks);
        self.time_beside_locks(locks);
        // Class and advice need a prediction, and a recording that holds what they are derived from.
        let verdict = Verdict::new(locks, prediction);
        if let Some(class) = verdict.class_text() {
            self.fact("class", &printable(&class));
        }
        if let Some(advice) = verdict.advice {
            self.fact("look at", &printable(&advice.text()));
        }
    }

    /// The lock ratio and the wait ratio, or why they are not known.
    fn ratios(&mut self, locks: &Locks) {
        let t = &locks.total;
        // Locks that were not seen do not make the ratio 0.
        if let Some(why) = &locks.not_seen {
            self.fact("lock ratio", &format!("not known: {why}"));
            self.fact("wait ratio", "not known");
        } else if t.lock_ratio.is_none() {
            self.fact("ratios", "not known: the recording has no scheduler events (kasuri info says how to record them)");
            // Waits are known without the scheduler: they are the client's own stamps. Only CPU time is not.
            self.fact("waits", &format!("{} in {}", ns(t.wait_ns), contended(t)));
        } else {
            self.fact(
                "lock ratio",
                &format!(
                    "{}: {} of {} CPU time inside critical sections ({} by the wall clock)",
                    maybe(t.lock_ratio),
                    ns(t.inside_cpu_ns),
                    ns(locks.cpu_ns),
                    ns(t.hold_wall_ns)
                ),
            );
            self.fact(
                "wait ratio",
                &format!(
                    "{}: {} waiting in {}",
                    maybe(t.wait_ratio),
                    ns(t.wait_ns),
                    contended(t)
                ),
            );
        }
    }

    /// Time in the kernel, and in waits that the recorded locks do not explain.
    fn time_beside_locks(&mut self, locks: &Locks) {
        if let Some(share) = locks.syscall_ratio {
            self.fact("syscalls", &format!("{} of the CPU time", percent(share)));
        }
        if let Some(share) = locks.kernel_contention_ratio {
            self.fact(
                "kernel",
                &format!("{} waiting for the kernel's own locks", percent(share)),
            );
        }
        // Below 1 % of the CPU time, sleep in other futex calls is not worth a line.
        if let Some(unseen) = locks.unseen_futex_ns
            && unseen > locks.cpu_ns / 100
        {
            self.fact(
                "unrecorded",
                &format!(
                    "{} asleep in futex calls outside every recorded wait: locks that --locks does not record (Rust's std, OpenMP, Go, static programs); --lock-function may record them (docs/guide/locks.md)",
                    ns(unseen)
                ),
            );
        }
        if locks.sampled {
            self.fact("sampled", "the recording keeps a sample of the holds: ratios and numbers of holds are too low, waits are complete (--locks=full records all)");
        }
    }

    /// A row for each lock.
    fn lock_table(&mut self, locks: &Locks) {
        self.heading(
            "locks",
            "most waited for first; waits under 300 ns are the cost of taking a free lock",
        );
        // The second number of a column is its rank among those that a narrow screen drops, highest first;
        // those with 0, the ratios, always stay.
        let mut grid = Grid::new(&[
            text("LOCK"),
            text("SOURCE"),
            number("PID", 7),
            number("LOCK RATIO", 0),
            number("WAIT RATIO", 0),
            number("WAITED", 1),
            number("HOLDS", 2),
            number("CONTENDED", 1),
            number("HOLD P50", 3),
            number("P99", 4),
            number("MAX", 5),
            number("WAIT MAX", 6),
            number("SPUN", 6),
            number("ON PATH", 3),
            number("THREADS", 7),
        ]);
        let of_states = |of: i64, whole: i64| match locks.knows_states {
            true => part(of, whole),
            false => "-".into(),
        };
        let shown = self.shown(locks.locks.len());
        for lock in &locks.locks[..shown] {
            let u = &lock.used;
            grid.row([
                printable(&lock.name),
                lock.source.into(),
                lock.pid.to_string(),
                maybe(u.lock_ratio),
                maybe(u.wait_ratio),
                ns(u.wait_ns),
                count(u.holds),
                maybe(u.contended_share),
                ns(u.hold_p50_ns),
                ns(u.hold_p99_ns),
                ns(u.hold_max_ns),
                ns(u.wait_max_ns),
                of_states(u.wait_spin_ns, u.wait_ns),
                maybe(lock.path_share),
                count(lock.threads.into()),
            ]);
        }
        self.grid(grid, shown, locks.locks.len());
    }

    /// What holders did: of the time that they held a lock, and of the time that others waited for it. Only with thread
    /// states, and only for locks that threads waited for: another one costs nothing, whatever its holders did.
    fn hold_table(&mut self, locks: &Locks) {
        let rows: Vec<&LockRow> = locks
            .locks
            .iter()
            .filter(|l| l.used.wait_ns > 0 || l.convoy.is_some())
            .collect();
        if !rows.is_empty() && locks.knows_states {
            self.holders(&rows);
            self.holders_meanwhile(&rows);
        }
    }

    /// What holders did while they held the lock.
    fn holders(&mut self, rows: &[&LockRow]) {
        self.heading("holders", "what they did, of the time they held the lock");
        let mut grid = Grid::new(&[
            text("LOCK"),
            number("HELD", 0),
            number("RUNNING", 0),
            number("PREEMPTED", 0),
            number("BLOCKED", 0),
            word("LONGEST CONVOY", 2),
        ]);
        let shown = self.shown(rows.len());
        for lock in &rows[..shown] {
            let u = &lock.used;
            grid.row([
                printable(&lock.name),
                ns(u.hold_wall_ns),
                // These three add up to the hold, as far as states are known.
                part(u.hold_cpu_ns, u.hold_wall_ns),
                part(u.hold_preempted_ns, u.hold_wall_ns),
                part(u.hold_blocked_ns, u.hold_wall_ns),
                lock.convoy.map_or("-".into(), convoy),
            ]);
        }
        self.grid(grid, shown, rows.len());
    }

    /// What holders did while others waited. What is left to the whole wait is time in which no thread held the lock.
    fn holders_meanwhile(&mut self, rows: &[&LockRow]) {
        self.heading(
            "waits",
            "what the holder did meanwhile; FREE: no thread held the lock, the waiter was on its way to a CPU",
        );
        let mut grid = Grid::new(&[
            text("LOCK"),
            number("WAITED", 0),
            number("RUNNING", 0),
            number("PREEMPTED", 0),
            number("BLOCKED", 0),
            number("FREE", 0),
        ]);
        let shown = self.shown(rows.len());
        for lock in &rows[..shown] {
            let waited = lock.used.wait_ns;
            grid.row([
                printable(&lock.name),
                ns(waited),
                part(lock.holder_running_ns, waited),
                part(lock.holder_preempted_ns, waited),
                part(lock.holder_blocked_ns, waited),
                match lock.used.holds {
                    // Without recorded holds it is not known when the lock was free.
                    0 => "-".into(),
                    _ => part((waited - lock.holder_ns).max(0), waited),
                },
            ]);
        }
        self.grid(grid, shown, rows.len());
    }

    /// A row for each pair of waiter and holder of a lock. A holder with TID 0 and no name stands for "no thread": the
    /// lock was free, and the waiter was on its way to a CPU.
    fn waits_table(&mut self, locks: &Locks) {
        if locks.waits_for.is_empty() {
            return;
        }
        self.heading("waiters and holders", "and what the holder did meanwhile");
        let mut grid = Grid::new(&[
            text("WAITER"),
            number("TID", 0),
            text("HOLDER"),
            number("TID", 0),
            text("LOCK"),
            number("TIME", 0),
            number("RUNNING", 1),
            number("PREEMPTED", 1),
            number("BLOCKED", 1),
        ]);
        let shown = self.shown(locks.waits_for.len());
        for w in &locks.waits_for[..shown] {
            let is_free = w.holder.is_empty() && w.holder_tid == 0;
            // TID 0 stands for tasks, which have no thread of their own; -1 for many holders, of which none is named.
            let tid = |tid: i32| match tid {
                0 => "tasks".into(),
                tid => tid.to_string(),
            };
            // Someone held the lock: if in none of these states, then in one that is not known.
            let is_known = w.running_ns + w.preempted_ns + w.blocked_ns > 0;
            let of_wait = |ns: i64| match is_free || !is_known {
                true => "-".into(),
                false => part(ns, w.ns),
            };
            grid.row([
                printable(&w.waiter),
                tid(w.waiter_tid),
                match is_free {
                    true => "(free, waking up)".into(),
                    false => printable(&w.holder),
                },
                match w.holder_tid {
                    // Nobody held the lock, so there is no thread to name and no state to show.
                    _ if is_free => "-".into(),
                    -1 => "-".into(),
                    other => tid(other),
                },
                printable(&w.lock),
                ns(w.ns),
                of_wait(w.running_ns),
                of_wait(w.preempted_ns),
                of_wait(w.blocked_ns),
            ]);
        }
        self.grid(grid, shown, locks.waits_for.len());
    }

    /// Conditions, semaphores, barriers: no locks, but what threads wait for.
    fn other_waits(&mut self, locks: &Locks) {
        if locks.waits.is_empty() {
            return;
        }
        self.heading("other waits", "for what no thread holds");
        let mut grid = Grid::new(&[
            text("FOR"),
            text("PLACE"),
            // The address tells waits of one place for several objects apart.
            number("OBJECT", 4),
            number("WAITED", 0),
            number("TIMES", 0),
            number("MAX", 1),
            number("THREADS", 3),
        ]);
        let shown = self.shown(locks.waits.len());
        for w in &locks.waits[..shown] {
            grid.row([
                w.kind.into(),
                printable(&w.place),
                format!("{:#x}", w.object),
                ns(w.wait_ns),
                count(w.count),
                ns(w.wait_max_ns),
                count(w.threads.into()),
            ]);
        }
        self.grid(grid, shown, locks.waits.len());
    }

    /// A row for each place in the source that took a lock.
    fn sites_table(&mut self, locks: &Locks) {
        if locks.sites.is_empty() {
            return;
        }
        self.heading("call sites", "places in the source that took a lock");
        let mut grid = Grid::new(&[
            text("PLACE"),
            text("LOCK"),
            number("WAITED", 0),
            number("CONTENDED", 0),
            number("HOLDS", 1),
        ]);
        let shown = self.shown(locks.sites.len());
        for site in &locks.sites[..shown] {
            let u = &site.used;
            grid.row([
                printable(&site.place),
                printable(&site.lock),
                ns(u.wait_ns),
                count(u.contended),
                count(u.holds),
            ]);
        }
        self.grid(grid, shown, locks.sites.len());
    }

    /// Threads, tasks by name, and processes if there are several: the same columns for each.
    fn owners(&mut self, locks: &Locks) {
        self.heading("threads", "");
        let threads = locks.threads.iter();
        self.owner_table(
            ["THREAD", "TID"],
            threads.map(|t| owner_row(&t.name, t.tid, &t.used)),
        );
        if !locks.tasks.is_empty() {
            self.heading("tasks", "by name; ratios are of their own CPU time");
            // Tasks of one name are a row; their number stands where the others have an id.
            let tasks = locks.tasks.iter();
            self.owner_table(
                ["TASK", "TASKS"],
                tasks.map(|t| owner_row(&t.name, t.tasks as i32, &t.used)),
            );
        }
        if locks.processes.len() > 1 {
            self.heading("processes", "");
            let processes = locks.processes.iter();
            self.owner_table(
                ["PROCESS", "PID"],
                processes.map(|p| owner_row(&p.name, p.pid, &p.used)),
            );
        }
    }

    /// A row for each program of the tree. A ratio that was not recorded is `-`.
    fn programs(&mut self, locks: &Locks) {
        if locks.programs.is_empty() {
            return;
        }
        self.heading(
            "programs",
            "all processes of one name; ratios are of their own CPU time",
        );
        let mut grid = Grid::new(&[
            text("PROGRAM"),
            number("PROCESSES", 0),
            number("CPU TIME", 0),
            number("LOCK RATIO", 0),
            number("WAIT RATIO", 0),
            number("SYSTEM CALLS", 1),
            number("KERNEL LOCKS", 1),
        ]);
        let shown = self.shown(locks.programs.len());
        for p in &locks.programs[..shown] {
            grid.row([
                printable(&p.name),
                p.processes.to_string(),
                match locks.knows_states {
                    true => ns(p.cpu_ns),
                    false => "-".into(),
                },
                maybe(p.used.lock_ratio),
                maybe(p.used.wait_ratio),
                maybe(p.syscall_ratio),
                maybe(p.kernel_contention_ratio),
            ]);
        }
        self.grid(grid, shown, locks.programs.len());
    }

    /// A table of those that take locks. Ratios are shares of the CPU time of that thread, task or process.
    fn owner_table(
        &mut self,
        [what, id]: [&'static str; 2],
        rows: impl ExactSizeIterator<Item = [String; 7]>,
    ) {
        let mut grid = Grid::new(&[
            text(what),
            number(id, 1),
            number("LOCK RATIO", 0),
            number("WAIT RATIO", 0),
            number("WAITED", 0),
            number("HOLDS", 1),
            number("CONTENDED", 1),
        ]);
        let all = rows.len();
        // `take` before the rows are made: a program may have ten thousand threads.
        let shown = self.shown(all);
        rows.take(shown).for_each(|row| grid.row(row));
        self.grid(grid, shown, all);
    }

    /// System calls, and waits for the kernel's own locks.
    fn kernel_tables(&mut self, locks: &Locks) {
        if !locks.syscalls.is_empty() {
            self.syscalls(locks);
        }
        if !locks.kernel_locks.is_empty() {
            self.kernel_locks(locks);
        }
    }

    /// A row for each process and system call. CPU TIME is less than TIME by what the thread slept in the call.
    fn syscalls(&mut self, locks: &Locks) {
        self.heading("system calls", "most CPU time first");
        let mut grid = Grid::new(&[
            text("PROCESS"),
            number("PID", 1),
            text("CALL"),
            number("CALLS", 0),
            number("CPU TIME", 0),
            number("TIME", 0),
            number("MAX", 1),
        ]);
        let shown = self.shown(locks.syscalls.len());
        for s in &locks.syscalls[..shown] {
            grid.row([
                printable(&s.process),
                s.pid.to_string(),
                printable(&s.name),
                count(s.count),
                match locks.knows_states {
                    true => ns(s.cpu_ns),
                    false => "-".into(),
                },
                ns(s.wall_ns),
                ns(s.max_ns),
            ]);
        }
        self.grid(grid, shown, locks.syscalls.len());
    }

    /// A row for each kind of lock inside the kernel, and the system call that waited for it: the kernel's event has no
    /// caller, so that is known only when system calls were recorded.
    fn kernel_locks(&mut self, locks: &Locks) {
        let note = match locks.syscalls.is_empty() {
            true => "waits; record --syscalls to see their callers",
            false => "waits",
        };
        self.heading("the kernel's own locks", note);
        let mut grid = Grid::new(&[
            text("TYPE"),
            text("CALLER"),
            number("WAITS", 0),
            number("WAITED", 0),
            number("MAX", 0),
        ]);
        let shown = self.shown(locks.kernel_locks.len());
        for l in &locks.kernel_locks[..shown] {
            grid.row([
                printable(&l.kind),
                match l.caller.is_empty() {
                    true => "-".into(),
                    false => printable(&l.caller),
                },
                count(l.count),
                ns(l.wait_ns),
                ns(l.max_ns),
            ]);
        }
        self.grid(grid, shown, locks.kernel_locks.len());
    }

    /// Orders of locks that contradict each other.
    fn inversions(&mut self, locks: &Locks) {
        if locks.inversions.is_empty() && locks.order_cycles.is_empty() {
            return;
        }
        self.heading(
            "locks taken in both orders",
            "two threads that do so at the same time deadlock",
        );
        let shown = self.shown(locks.inversions.len());
        for i in &locks.inversions[..shown] {
            self.item(&printable(&inversion(i)));
        }
        if shown < locks.inversions.len() {
            let more = locks.inversions.len() - shown;
            self.item(&format!("... and {more} more (--top 0 shows all)"));
        }
        // Circles of three locks and more are few, and are shown whatever `--top` says.
        for cycle in &locks.order_cycles {
            self.item(&printable(&circle(cycle)));
        }
    }
}

/// The cells of [`Page::owner_table`].
fn owner_row(name: &str, id: i32, u: &Use) -> [String; 7] {
    [
        printable(name),
        id.to_string(),
        maybe(u.lock_ratio),
        maybe(u.wait_ratio),
        ns(u.wait_ns),
        count(u.holds),
        maybe(u.contended_share),
    ]
}

/// A queue that did not end: as long as one holder handed the lock to the next.
fn convoy(c: Convoy) -> String {
    format!(
        "{} holds by {}, {}",
        c.length,
        plural(c.threads.into(), "thread"),
        ns(c.to_ns - c.from_ns)
    )
}

/// A place in the source, to be appended to a phrase.
fn place(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!(" at {place}"),
    }
}

/// Two locks in both orders: how often, by which threads, where, and whether that can deadlock. A common lock held around
/// both (a guard) prevents it, and so does a single thread that does both.
pub fn inversion(i: &Inversion) -> String {
    let whether = match &i.guard {
        // Whether it can is decided by the analysis; a guard alone is not the reason.
        _ if i.can_deadlock => "can deadlock".into(),
        Some(guard) => format!("not while `{guard}` is held around both, as it was every time"),
        None => format!("only by thread {}", i.tid_a),
    };
    format!(
        "`{a}` then `{b}`: {}, thread {}{}; `{b}` then `{a}`: {}, thread {}{}: {whether}",
        plural(i.first_then_second, "time"),
        i.tid_a,
        place(&i.place_a),
        plural(i.second_then_first, "time"),
        i.tid_b,
        place(&i.place_b),
        a = i.first,
        b = i.second,
    )
}

/// Three or more locks in a circle, step by step: each step's second lock is the next step's first.
fn circle(cycle: &OrderCycle) -> String {
    // Names are quoted: a lock may be called by an expression with spaces.
    let step = |s: &OrderStep| {
        let times = plural(s.times, "time");
        format!(
            "`{}` then `{}` ({times}, thread {}{})",
            s.held,
            s.taken,
            s.tid,
            place(&s.place)
        )
    };
    let steps: Vec<String> = cycle.steps.iter().map(step).collect();
    format!("in a circle: {}: can deadlock", steps.join(", "))
}
