//! Names of threads: the name alone, or with the id where several threads share it.
//!
//! Names are compared over all threads of a page, so that a thread is called the same everywhere on it.
use crate::units::printable;
use kasuri_analyze::Summary;
use std::collections::{HashMap, HashSet};

/// The names that more than one thread has.
pub struct ThreadNames<'a> {
    shared: HashSet<&'a str>,
}

impl<'a> ThreadNames<'a> {
    /// From the name and id of each thread; a thread may be given several times.
    pub fn new(threads: impl Iterator<Item = (&'a str, i32)>) -> ThreadNames<'a> {
        let mut first: HashMap<&str, i32> = HashMap::new();
        let mut shared = HashSet::new();
        for (name, tid) in threads {
            if *first.entry(name).or_insert(tid) != tid {
                shared.insert(name);
            }
        }
        ThreadNames { shared }
    }

    /// `solver`, `xz (4711)` where several are called xz, `4711` where the name is not known.
    pub fn text(&self, name: &str, tid: i32) -> String {
        match name {
            "" => tid.to_string(),
            name if self.shared.contains(name) => format!("{} ({tid})", printable(name)),
            name => printable(name),
        }
    }
}

/// The names of the threads that the summary mentions.
pub fn thread_names(s: &Summary) -> ThreadNames<'_> {
    let threads = s.threads.iter().map(|t| (t.name.as_str(), t.tid));
    let of_causes = s.account.causes.iter();
    let of_causes = of_causes.filter_map(|c| Some((c.thread.as_str(), c.tid?)));
    ThreadNames::new(threads.chain(of_causes))
}

#[cfg(test)]
mod tests {
    use super::ThreadNames;

    #[test]
    fn threads_of_one_name_are_told_apart_by_their_ids() {
        let threads = [("main", 1), ("xz", 2), ("xz", 3), ("main", 1), ("", 4)];
        let names = ThreadNames::new(threads.into_iter());
        let text = threads.map(|(name, tid)| names.text(name, tid));
        assert_eq!(text, ["main", "xz (2)", "xz (3)", "main", "4"]);
    }
}
