//! The functions that threads ran in, and the calls of theirs that they waited in, as samples tell.
//!
//! Goal: the path and its what-ifs name code of a program that nobody annotated. Method: at each instant the sample that stands for it
//! ([`Cover`]) says which of the program's functions it is, with the call that this one made into a library or the kernel. Paths that people
//! would call the same are one use ([`Frames::use_shown`]).
use crate::account::track::{self, Track};
use crate::call_paths::{Cover, Frames, PathFrame, path_frame};
use kasuri_base::call_path::SPIN_LOOP;
use kasuri_model::{PathIx, ThreadIx, ThreadState, Trace};
use std::collections::{HashMap, HashSet};

/// Not known.
pub(super) const NONE: u32 = track::NONE;

/// A use in words.
pub(super) struct Named {
    pub name: String,
    pub place: Option<String>,
}

/// See the module.
pub(super) struct Uses {
    /// By thread: what it ran or waited in, while it did either.
    pub tracks: Vec<Track>,
    names: HashMap<u32, Vec<PathFrame>>,
    spins: HashSet<u32>,
}

impl Uses {
    /// Nothing is known.
    pub fn none(trace: &Trace) -> Uses {
        Uses {
            tracks: vec![Track::default(); trace.threads.len()],
            names: HashMap::new(),
            spins: HashSet::new(),
        }
    }

    /// Of these threads; nothing is known without samples.
    pub fn new(trace: &Trace, is_target: &[bool]) -> Uses {
        let mut uses = Uses::none(trace);
        if trace.samples.time.is_empty() {
            return uses;
        }
        let cover = Cover::new(trace);
        let mut frames = Frames::new(trace);
        for thread in (0..trace.threads.len()).filter(|&t| is_target[t]) {
            let (ix, mut begun) = (ThreadIx(thread as u32), 0);
            for row in trace.states_of(ix) {
                if row.state != ThreadState::Running && !row.state.is_blocked() {
                    uses.tracks[thread].change_to(row.start, NONE);
                    continue;
                }
                let mut from = row.start;
                for (owner, length) in cover.between_from(&mut begun, ix, row.start, row.end) {
                    let path = owner.sample().map(|row| trace.samples.path[row]);
                    let at = path.map_or(NONE, |path| uses.number(trace, &mut frames, path));
                    uses.tracks[thread].change_to(from, at);
                    from = from + length;
                }
            }
        }
        uses
    }

    fn number(&mut self, trace: &Trace, frames: &mut Frames<'_>, path: PathIx) -> u32 {
        if !path.is_some() {
            return NONE;
        }
        let at = frames.use_shown(path);
        if frames.spins(path) {
            self.spins.insert(at);
        }
        self.names.entry(at).or_insert_with(|| {
            let n = 1 + usize::from(frames.is_call(path));
            let shown: Vec<_> = frames.shown(path).iter().copied().take(n).collect();
            shown.into_iter().map(|f| path_frame(trace, f)).collect()
        });
        at
    }

    /// Whether threads waited in it, on a CPU.
    pub fn spins(&self, at: u32) -> bool {
        self.spins.contains(&at)
    }

    /// Its name: the program's function, or the call with the function that made it; none: neither has one.
    pub fn named(&self, at: u32) -> Option<Named> {
        let frames = self.names.get(&at)?;
        let named = |frame: &PathFrame| !frame.function.is_empty();
        // The program's own, where that has one.
        let own = frames.iter().rposition(|f| !f.file.is_empty());
        let name = match &frames[..] {
            [call, caller] if named(call) && named(caller) => {
                format!("{} < {}", crate::call_paths::public_name(&call.function), caller.function)
            }
            [function, ..] if named(function) => function.function.clone(),
            [function, ..] if !function.module.is_empty() => format!("[{}]", function.module),
            _ => return None,
        };
        let place = own.map(|at| format!("{}:{}", frames[at].file, frames[at].line));
        let name = match self.spins(at) && !name.starts_with(SPIN_LOOP) {
            true => format!("spinning in {name}"),
            false => name,
        };
        Some(Named { name, place })
    }
}
