//! Every schedule of a forked task whose parent moves, and of each broken protocol.

use kasuri_model_deque::fork::Between::{Growth, Nothing, Others};
use kasuri_model_deque::fork::{Between, Broken, Fork};
use kasuri_model_deque::machine::search;

const SCRIPTS: &[(Between, bool)] =
    &[(Nothing, false), (Others, false), (Others, true), (Growth, false), (Growth, true)];

fn run(script: (Between, bool), broken: Broken) -> Result<usize, &'static str> {
    search(&Fork { between: script.0, b_resumes: script.1, broken })
}

#[test]
fn a_forked_task_runs_once_wherever_its_parent_is() {
    for &script in SCRIPTS {
        let states =
            run(script, Broken::default()).unwrap_or_else(|wrong| panic!("{script:?}: {wrong}"));
        assert!(states > 50, "{script:?}: {states} states: A and B never met");
    }
}

/// The violation in some script; there must be one.
fn fails(broken: Broken) -> Vec<&'static str> {
    let wrongs: Vec<_> = SCRIPTS.iter().filter_map(|&script| run(script, broken).err()).collect();
    assert!(!wrongs.is_empty(), "the broken protocol passes");
    wrongs
}

#[test]
fn control_not_marked() {
    // The parent comes back, finds the bottom where it was, and takes what is there now.
    fails(Broken { not_marked: true, ..Broken::default() });
}

#[test]
fn control_not_moved() {
    // Another deque lives where the task's slot was.
    let wrongs = fails(Broken { not_moved: true, ..Broken::default() });
    assert!(wrongs.contains(&"the task ran twice"), "{wrongs:?}");
}

#[test]
fn control_end_relaxed() {
    fails(Broken { end_relaxed: true, ..Broken::default() });
}

#[test]
fn control_mark_overwrites() {
    // The parent waits for ever.
    let wrongs = fails(Broken { mark_overwrites: true, ..Broken::default() });
    assert!(wrongs.contains(&"a thread waits for ever"), "{wrongs:?}");
}

#[test]
fn control_no_membarrier() {
    fails(Broken { no_membarrier: true, ..Broken::default() });
}
