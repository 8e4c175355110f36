//! How many threads of the program do what at the moment of the sweep, and which of them alone could run.
use kasuri_model::ThreadIx;

/// Activities of a thread, as far as the account distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activity {
    /// Not alive.
    NotAlive,
    /// Not known.
    Unknown,
    Running,
    /// On a CPU, and samples say that it only waits for another thread.
    Spinning,
    Ready,
    Blocked,
}

/// The threads by what they do.
#[derive(Default)]
pub(super) struct Crowd {
    pub ready: u32,
    running: u32,
    pub spinning: u32,
    pub alive: u32,
    pub has_lived: bool,
    /// The numbers of those that run or are ready, all by exclusive or: when there is one, it is that one. Those that spin have
    /// nothing to run.
    runnable_xor: u32,
}

impl Crowd {
    /// A thread begins to do this.
    pub fn enter(&mut self, thread: usize, activity: Activity) {
        self.count(thread, activity, 1);
        self.has_lived |= activity != Activity::NotAlive;
    }

    /// A thread has done this.
    pub fn leave(&mut self, thread: usize, activity: Activity) {
        self.count(thread, activity, -1);
    }

    fn count(&mut self, thread: usize, activity: Activity, by: i32) {
        let n = match activity {
            // All that are there begin without a life.
            Activity::NotAlive => {
                self.alive = self.alive.wrapping_add_signed(-by);
                return;
            }
            Activity::Unknown | Activity::Blocked => return,
            Activity::Spinning => &mut self.spinning,
            Activity::Running => &mut self.running,
            Activity::Ready => &mut self.ready,
        };
        *n = n.wrapping_add_signed(by);
        if activity != Activity::Spinning {
            self.runnable_xor ^= thread as u32;
        }
    }

    /// Those that run or are ready.
    pub fn runnable(&self) -> u32 {
        self.running + self.ready
    }

    /// The only one that runs or is ready; none: there are others, or none.
    pub fn alone(&self) -> ThreadIx {
        match self.runnable() {
            1 => ThreadIx(self.runnable_xor),
            _ => ThreadIx::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_that_can_run_is_known_whatever_the_others_did() {
        let all = [Activity::Running, Activity::Ready, Activity::Spinning, Activity::Blocked];
        let mut crowd = Crowd::default();
        assert_eq!((crowd.alone(), crowd.has_lived), (ThreadIx::NONE, false));
        for (thread, &activity) in all.iter().enumerate() {
            crowd.leave(thread, Activity::NotAlive);
            crowd.enter(thread, activity);
        }
        let counts = |c: &Crowd| [c.alive, c.runnable(), c.ready, c.spinning];
        assert_eq!((counts(&crowd), crowd.alone()), ([4, 2, 1, 1], ThreadIx::NONE));
        for (thread, left) in [(0, ThreadIx(1)), (1, ThreadIx::NONE)] {
            crowd.leave(thread, all[thread]);
            crowd.enter(thread, Activity::NotAlive);
            assert_eq!(crowd.alone(), left);
        }
        // One that spins has nothing to run; one that is woken has.
        crowd.leave(3, Activity::Blocked);
        crowd.enter(3, Activity::Ready);
        assert_eq!((counts(&crowd), crowd.alone()), ([2, 1, 1, 1], ThreadIx(3)));
    }
}
