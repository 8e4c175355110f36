//! Every schedule of parking and of the biased lock, and of each broken protocol.
//!
//! A `control_*` test breaks one step and expects the search to find a violation: it shows that the model can see the mistake
//! that the step prevents.

use kasuri_model_deque::machine::search;
use kasuri_model_park::{biased, park};

fn run(parkers: usize, pieces: i8, broken: park::Broken) -> Result<usize, &'static str> {
    search(&park::Park {
        parkers,
        pieces,
        broken,
    })
}

#[test]
fn no_wake_up_is_lost() {
    for parkers in 1..=3 {
        for pieces in 1..=2 {
            run(parkers, pieces, park::Broken::default()).unwrap();
        }
    }
}

fn lost(parkers: usize, pieces: i8, broken: park::Broken) {
    assert_eq!(
        run(parkers, pieces, broken),
        Err("work waits while a worker sleeps")
    );
}

#[test]
fn control_no_membarrier() {
    let broken = park::Broken {
        no_membarrier: true,
        ..Default::default()
    };
    lost(1, 1, broken);
}

#[test]
fn control_ask_first() {
    let broken = park::Broken {
        ask_first: true,
        no_last_look: true,
        ..Default::default()
    };
    lost(1, 1, broken);
}

/// The parker's membarrier is a fence for the notifier too. The notifier's own fence is for kernels that have no membarrier.
#[test]
fn membarrier_replaces_the_fence_in_notify() {
    let broken = park::Broken {
        no_fence_in_notify: true,
        ..Default::default()
    };
    run(2, 2, broken).unwrap();
}

#[test]
fn control_no_last_look() {
    let broken = park::Broken {
        no_last_look: true,
        ..Default::default()
    };
    lost(1, 1, broken);
}

#[test]
fn control_no_successor() {
    let broken = park::Broken {
        no_successor: true,
        ..Default::default()
    };
    lost(2, 2, broken);
}

fn run_biased(broken: biased::Broken) -> Result<usize, &'static str> {
    search(&biased::Biased { visits: 2, broken })
}

#[test]
fn biased_lock_lets_one_in() {
    run_biased(biased::Broken::default()).unwrap();
}

#[test]
fn biased_lock_controls() {
    let right = biased::Broken::default();
    for broken in [
        biased::Broken {
            no_membarrier: true,
            ..right
        },
        biased::Broken {
            no_wait: true,
            ..right
        },
        biased::Broken {
            no_lock: true,
            ..right
        },
    ] {
        assert_eq!(run_biased(broken), Err("owner and thief are both inside"));
    }
    let broken = biased::Broken {
        relaxed_leave: true,
        ..right
    };
    assert_eq!(run_biased(broken), Err("a change of the queue was lost"));
}
