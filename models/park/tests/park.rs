//! Every schedule of parking and of the cancellation of waits, and of each broken protocol.
//!
//! A `control_*` test breaks one step and expects the search to find a violation: it shows that the model can see the mistake
//! that the step prevents.

use kasuri_model_deque::machine::search;
use kasuri_model_park::{lent, look, park, ticket};

fn run(parkers: usize, pieces: i8, broken: park::Broken) -> Result<usize, &'static str> {
    search_with(parkers, pieces, false, broken)
}

fn search_with(
    parkers: usize,
    pieces: i8,
    sends: bool,
    broken: park::Broken,
) -> Result<usize, &'static str> {
    search(&park::Park { parkers, pieces, sends, broken })
}

#[test]
fn no_wake_up_is_lost() {
    for parkers in 1..=3 {
        for pieces in 1..=2 {
            for sends in [false, true] {
                search_with(parkers, pieces, sends, park::Broken::default()).unwrap();
            }
        }
    }
}

fn lost(parkers: usize, pieces: i8, broken: park::Broken) {
    assert_eq!(run(parkers, pieces, broken), Err("work waits while a worker sleeps"));
}

#[test]
fn control_no_membarrier() {
    let broken = park::Broken { no_membarrier: true, ..Default::default() };
    lost(1, 1, broken);
}

#[test]
fn control_ask_first() {
    let broken = park::Broken { ask_first: true, no_last_look: true, ..Default::default() };
    lost(1, 1, broken);
}

/// The parker's membarrier is a fence for the notifier too. The notifier's own fence is for kernels that have no membarrier.
#[test]
fn membarrier_replaces_the_fence_in_notify() {
    let broken = park::Broken { no_fence_in_notify: true, ..Default::default() };
    run(2, 2, broken).unwrap();
}

#[test]
fn control_no_last_look() {
    let broken = park::Broken { no_last_look: true, ..Default::default() };
    lost(1, 1, broken);
}

#[test]
fn control_no_successor() {
    let broken = park::Broken { no_successor: true, ..Default::default() };
    lost(2, 2, broken);
}

#[test]
fn control_count_before_list() {
    let broken = park::Broken { count_before_list: true, ..Default::default() };
    lost(2, 2, broken);
}

#[test]
fn control_no_last_searcher() {
    let broken = park::Broken { no_last_searcher: true, ..Default::default() };
    lost(1, 1, broken);
}

#[test]
fn control_woken_leaves_silently() {
    let broken = park::Broken { woken_leaves_silently: true, ..Default::default() };
    assert_eq!(search_with(2, 1, true, broken), Err("work waits while a worker sleeps"));
}

fn run_look(ended: bool, waits: i8, broken: look::Broken) -> Result<usize, &'static str> {
    search(&look::Look { ended, waits, broken })
}

#[test]
fn cancelled_waits_end_and_objects_are_there() {
    for waits in 1..=2 {
        run_look(true, waits, look::Broken::default()).unwrap();
        run_look(false, waits, look::Broken::default()).unwrap();
    }
}

#[test]
fn cancelled_wait_controls() {
    let (right, for_ever, gone) = (
        look::Broken::default(),
        "a cancelled thread waits for ever",
        "the canceller looks at an object that is gone",
    );
    let no_membarrier = look::Broken { no_membarrier: true, ..right };
    assert_eq!(run_look(true, 1, no_membarrier), Err(gone));
    let looks_once = look::Broken { looks_once: true, ..right };
    assert_eq!(run_look(false, 1, looks_once), Err(for_ever));
    for broken in [
        look::Broken { leaves_at_once: true, ..right },
        look::Broken { looks_silently: true, ..right },
    ] {
        assert_eq!(run_look(true, 1, broken), Err(gone));
    }
}

fn run_ticket(threads: usize, broken: ticket::Broken) -> Result<usize, &'static str> {
    search(&ticket::Ticket { threads, broken })
}

#[test]
fn waiters_of_a_mutex_get_it_in_the_order_of_tickets() {
    for threads in 1..=3 {
        run_ticket(threads, ticket::Broken::default()).unwrap();
    }
}

#[test]
fn ticket_controls() {
    let right = ticket::Broken::default();
    for broken in [
        ticket::Broken { relaxed_serving: true, ..right },
        ticket::Broken { sleeps_blindly: true, ..right },
    ] {
        assert_eq!(run_ticket(2, broken), Err("a waiter sleeps for ever"));
    }
    let serves_early = ticket::Broken { serves_early: true, ..right };
    assert_eq!(run_ticket(2, serves_early), Err("a waiter was overtaken"));
}

fn taken(waits: i8, sleeps: bool, broken: lent::Broken) -> Result<usize, &'static str> {
    search(&lent::Lent { waits, needs_worker: false, sleeps, computes: false, broken })
}

fn taken_fails(broken: lent::Broken, wrong: &'static str) {
    assert_eq!(taken(2, true, broken), Err(wrong));
}

#[test]
fn a_taken_worker_has_one_kernel_thread() {
    for waits in 1..=3 {
        for sleeps in [false, true] {
            taken(waits, sleeps, lent::Broken::default()).unwrap();
        }
    }
}

#[test]
fn a_wait_that_needs_the_worker_ends() {
    let model = |offers_once| lent::Lent {
        waits: 2,
        needs_worker: true,
        sleeps: true,
        computes: false,
        broken: lent::Broken { offers_once, ..Default::default() },
    };
    search(&model(false)).unwrap();
    assert_eq!(search(&model(true)), Err("a thread waits for ever"));
}

fn interrupted(waits: i8, needs_worker: bool, broken: lent::Broken) -> Result<usize, &'static str> {
    search(&lent::Lent { waits, needs_worker, sleeps: true, computes: true, broken })
}

#[test]
fn a_thread_that_computes_gives_its_worker_away_itself() {
    for waits in 1..=2 {
        for needs_worker in [false, true] {
            interrupted(waits, needs_worker, lent::Broken::default()).unwrap();
        }
    }
}

#[test]
fn controls_of_a_thread_that_computes() {
    let right = lent::Broken::default();
    let (two, stale) =
        ("two kernel threads have the worker", "the worker is not as its thread left it");
    let interrupts_ito = lent::Broken { interrupts_ito: true, ..right };
    assert_eq!(interrupted(2, false, interrupts_ito), Err(two));
    let takes_from_running = lent::Broken { takes_from_running: true, ..right };
    assert_eq!(interrupted(2, false, takes_from_running), Err(two));
    let relaxed_taken = lent::Broken { relaxed_taken: true, ..right };
    assert_eq!(interrupted(2, false, relaxed_taken), Err(stale));
    let no_signal = lent::Broken { no_signal: true, ..right };
    assert_eq!(interrupted(2, true, no_signal), Err("a thread waits for ever"));
}

#[test]
fn control_lent_looks_before_only() {
    let broken = lent::Broken { looks_before_only: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

#[test]
fn control_lent_takes_from_ours() {
    let broken = lent::Broken { takes_from_ours: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

#[test]
fn control_lent_enters_anyway() {
    let broken = lent::Broken { enters_anyway: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

#[test]
fn control_lent_no_turn() {
    let broken = lent::Broken { no_turn: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

#[test]
fn control_lent_reads_once() {
    let broken = lent::Broken { reads_once: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

#[test]
fn control_lent_plain_nobody() {
    let broken = lent::Broken { plain_nobody: true, ..Default::default() };
    taken_fails(broken, "a thread goes on without a worker");
}

#[test]
fn control_lent_plain_home() {
    let broken = lent::Broken { plain_home: true, ..Default::default() };
    taken_fails(broken, "two kernel threads have the worker");
}

/// The kernel's wait until the thread is off its CPU puts the worker's fields into memory. The membarrier alone would not: the
/// thread may write after it, in a turn inside ito that it had begun before. What that is for are loads out of order, which are not
/// modelled.
#[test]
fn control_lent_file_of_running() {
    let mut broken = lent::Broken { file_of_running: true, ..Default::default() };
    taken_fails(broken, "the worker is not as its thread left it");
    broken.no_membarrier = true;
    broken.file_of_running = false;
    taken(2, true, broken).unwrap();
}
