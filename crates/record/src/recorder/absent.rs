//! Annotated programs that never came.
//!
//! kasuri.h joins the recording before a program's `main`. One that cannot open the session can tell nobody: it has no descriptor
//! left, another user, another version of the interface, or no KASURI_SESSION. So the recorder looks itself: does a file that a
//! process had mapped as code have gates, and has the process no ring? What it wrote is then not known. Of a process with another
//! root directory the files are not found afterwards: nothing is said.
use super::Recorder;
use crate::guard::apart;
use crate::notice::{Notice, Notify};
use crate::rings::{attach, session};
use crate::stacks::LoadedFile;
use kasuri_base::words::harmless;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time for looking into all files.
const LIMIT: Duration = Duration::from_millis(400);
/// Files that are named.
const EXAMPLES: usize = 3;
/// What the names of our probes begin with: they join when they have something to tell.
const PROBES: &str = "libkasuri-";

impl Recorder<'_> {
    /// Says which annotated programs never came, if there are such.
    pub(super) fn name_absent(&mut self, notify: Notify<'_>) {
        let live = &mut self.live;
        if !session::READS_RINGS || self.child.is_none() {
            return;
        }
        let told = u64::from(live.session.refused()) + u64::from(live.session.foreign());
        let names = match &live.stacks {
            Some(stacks) => {
                let came = live.collector.came().map(|(pid, is_sure)| (pid as i32, is_sure));
                absent(stacks.loaded(), &came.collect(), told)
            }
            // Without perf's events only the program itself is known.
            None if self.is_annotated && told == 0 && !live.collector.met_any() => vec![
                (self.live.options.command().first())
                    .map_or_else(String::new, |name| harmless(&name.to_string_lossy())),
            ],
            None => Vec::new(),
        };
        if names.is_empty() {
            return;
        }
        let live = &mut self.live;
        let examples = names[..names.len().min(EXAMPLES)].join(", ");
        let more = if names.len() > EXAMPLES { ", ..." } else { "" };
        let text = format!(
            "annotations of {examples}{more}: never reached {} (no descriptor left, as by `ulimit -n`; another user; more rights \
             than its caller; calls that are filtered; no KASURI_SESSION in its environment; or another version of kasuri.h)",
            live.session.path().display()
        );
        notify(Notice::Warning(format!("not recorded: {text}")));
        live.meta.uncounted.push(format!("annotations of {examples}{more}, which never came"));
        live.meta.missing.push(text);
    }
}

/// Annotated files of processes that did not come, by their last names, those of most processes first. None, if no more did not come
/// than have `told` why, or came under a number that may be one of another name space.
fn absent(loaded: Vec<LoadedFile>, came: &BTreeMap<i32, bool>, told: u64) -> Vec<String> {
    let met: BTreeSet<i32> = loaded.iter().flat_map(|file| &file.pids).copied().collect();
    let strange = came.iter().filter(|(pid, is_sure)| !**is_sure && !met.contains(pid)).count();
    let has_not_come = |pid: &&i32| !came.contains_key(pid);
    let name = |file: &LoadedFile| {
        let name = file.path.file_name().unwrap_or(file.path.as_os_str());
        harmless(&name.to_string_lossy())
    };
    let loaded: Vec<LoadedFile> = (loaded.into_iter())
        .filter(|file| file.pids.iter().any(|pid| has_not_come(&pid)))
        .filter(|file| !name(file).starts_with(PROBES))
        .collect();
    // A stranger's file may be on a disk that never answers.
    let look = || loaded.iter().map(|file| u8::from(attach::has_gates(&file.path, file.inode)));
    let annotated = match loaded.is_empty() {
        true => Vec::new(),
        false => apart::ask(LIMIT, || look().collect()).unwrap_or_default(),
    };
    let files = loaded.iter().zip(annotated).filter(|(_, annotated)| *annotated == 1);
    let mut absent: BTreeSet<i32> = BTreeSet::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for (file, _) in files {
        let pids: Vec<i32> = file.pids.iter().filter(has_not_come).copied().collect();
        *by_name.entry(name(file)).or_default() += pids.len();
        absent.extend(pids);
    }
    if absent.len() as u64 <= told + strange as u64 {
        return Vec::new();
    }
    let mut names: Vec<(String, usize)> = by_name.into_iter().collect();
    names.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    names.into_iter().map(|(name, _)| name).collect()
}
