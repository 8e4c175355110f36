//! An answer: what a `kasuri` command prints, bounded and given a page at a time.
//!
//! Each question is a process of its own: a recording that makes its reader crash, hang or take all memory ends that process and not the server, and the answers are
//! those of the command line to the byte. It opens the recording through a descriptor of this process, so nothing can come between check and use.
use super::roots::Identity;
use anyhow::{Context, bail};
use kasuri_text::table::units::printable;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Bytes of a page.
const PAGE: usize = 10_000;
/// Bytes of an answer; what is beyond is left out, and said.
const ANSWER: u64 = 4 << 20;
/// Bytes of messages that are passed on.
const MESSAGES: u64 = 4_000;
/// Answers that are kept for their next pages.
const KEPT: usize = 8;
/// Bytes of files for which room is added to it.
const FILES: u64 = 64 << 30;
/// Address space of one answer's process, beside what its files take.
const MEMORY: u64 = 8 << 30;
/// Time to end in order once asked to.
const GRACE: Duration = Duration::from_secs(10);

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Question {
    /// Its arguments.
    pub args: Vec<String>,
    /// What stands in its output for what: paths of descriptors, and the names that people know.
    pub names: Vec<(String, String)>,
    /// The files that the answer depends on. None: it runs a program, so that the answer is not kept, and its memory is the program's.
    pub identity: Option<Vec<Identity>>,
    /// Standard output begins with this if the command prints nothing.
    pub otherwise: String,
}

/// What a command printed.
#[derive(Debug)]
pub struct Answer {
    /// The answer.
    text: String,
    /// Its messages.
    pub messages: String,
}

/// A page of an answer.
#[derive(Debug)]
pub struct Page {
    /// The page.
    pub text: String,
    /// Where it is, and how to get the next.
    pub note: Option<String>,
}

/// Answers that were given.
#[derive(Default)]
pub struct Answers(Mutex<VecDeque<(Question, Arc<Answer>)>>);

impl Answers {
    /// The answer to a question, from memory or from a process.
    ///
    /// # Errors
    /// What the command says, or that it took too long.
    pub async fn get(
        &self,
        question: Question,
        dir: &Path,
        limit: Duration,
    ) -> anyhow::Result<Arc<Answer>> {
        let kept = |(asked, answer): &(Question, Arc<Answer>)| {
            let is_same =
                asked.args == plain(&question).args && asked.identity == question.identity;
            is_same.then(|| answer.clone())
        };
        let is_kept = question.identity.is_some();
        if is_kept && let Some(answer) = self.0.lock().expect("no panic").iter().find_map(kept) {
            return Ok(answer);
        }
        let answer = Arc::new(run(&question, dir, limit).await?);
        if is_kept {
            let mut all = self.0.lock().expect("no panic");
            all.push_front((plain(&question), answer.clone()));
            all.truncate(KEPT);
        }
        Ok(answer)
    }
}

/// The question with the names that people know: descriptors have other numbers the next time.
fn plain(question: &Question) -> Question {
    Question {
        args: (question.args.iter()).map(|arg| named(arg, &question.names)).collect(),
        ..question.clone()
    }
}

fn named(text: &str, names: &[(String, String)]) -> String {
    (names.iter()).fold(text.to_owned(), |text, (path, name)| text.replace(path, name))
}

impl Answer {
    /// An answer that is known.
    pub fn new(text: String) -> Answer {
        Answer { text, messages: String::new() }
    }

    /// The page at a cursor; without one, the first.
    ///
    /// # Errors
    /// When the cursor is none of this answer's.
    pub fn page(&self, cursor: Option<&str>) -> anyhow::Result<Page> {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let mark = format!("{:016x}", hasher.finish());
        let from = match cursor.map(|cursor| cursor.split_once('.')) {
            None => 0,
            Some(Some((of, at))) if of == mark => at.parse().unwrap_or(usize::MAX),
            Some(_) => bail!(
                "this cursor is none of this answer's, or the recording has changed; ask again without it"
            ),
        };
        if from > self.text.len() || !self.text.is_char_boundary(from) {
            bail!("this cursor is none of this answer's; ask again without it");
        }
        let rest = &self.text[from..];
        let mut end = rest.len().min(PAGE);
        if end < rest.len() {
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            end = rest[..end].rfind('\n').map_or(end, |at| at + 1);
        }
        let to = from + end;
        let note = (from > 0 || to < self.text.len()).then(|| {
            let next = match to < self.text.len() {
                true => format!("; the next page: the same call with \"cursor\": \"{mark}.{to}\""),
                false => "; this is the last page".into(),
            };
            format!("bytes {from} to {to} of {}{next}", self.text.len())
        });
        Ok(Page { text: rest[..end].to_owned(), note })
    }
}

/// A process that is asked to end when nobody waits for it any more: it may be a recorder, which has things to give back.
struct Asked(Option<Child>);

impl Asked {
    fn ask(&self) {
        let id = self.0.as_ref().and_then(Child::id);
        if let Some(pid) = id.and_then(|id| Pid::from_raw(id as i32)) {
            let _ = kill_process_group(pid, Signal::TERM);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.ask();
    }
}

async fn run(question: &Question, dir: &Path, limit: Duration) -> anyhow::Result<Answer> {
    // This very program, also where another stands under its name by now.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("kasuri")
        .args(&question.args)
        .current_dir(dir)
        .process_group(0)
        .env("COLUMNS", "120")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // What an answer that is ended leaves behind goes with this directory.
    let scratch = (question.identity.is_some()).then(tempfile::tempdir).transpose()?;
    if let Some(scratch) = &scratch {
        command.env("TMPDIR", scratch.path());
    }
    let mut child = command.spawn().context("cannot run kasuri")?;
    if let Some(files) = &question.identity {
        let files = (files.iter().map(|file| file.2)).fold(0, u64::saturating_add);
        let files = files.min(FILES);
        limit_memory(&child, MEMORY.saturating_add(files.saturating_mul(2)));
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut asked = Asked(Some(child));
    let read = async { tokio::join!(beginning(out, ANSWER), beginning(err, MESSAGES)) };
    let Ok((out, err)) = tokio::time::timeout(limit, read).await else {
        asked.ask();
        if let Some(mut child) = asked.0.take() {
            let group = child.id().and_then(|id| Pid::from_raw(id as i32));
            let _ = tokio::time::timeout(GRACE, child.wait()).await;
            // What it has started, too: a query that prints nothing has no end of its own.
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait().await;
        }
        bail!(
            "no answer within {} s (kasuri mcp --timeout); ask for a part: range, thread",
            limit.as_secs()
        );
    };
    let mut child = asked.0.take().context("the process is gone")?;
    let status = child.wait().await.context("cannot wait for kasuri")?;
    let messages: Vec<String> = named(&err.0, &question.names)
        .lines()
        .map(|line| printable(line.trim_start_matches("kasuri: error: ")))
        .collect();
    let messages = messages.join("\n");
    if !status.success() {
        match messages.is_empty() {
            true => bail!("kasuri ended with {status}"),
            false => bail!("{messages}"),
        }
    }
    let mut text = named(&out.0, &question.names);
    if out.1 {
        text += "\nthe answer is longer; the rest is left out: ask for a part of it\n";
    }
    if text.trim().is_empty() {
        text.clone_from(&question.otherwise);
    }
    Ok(Answer { text, messages })
}

/// Bounds what the process can take; one that is gone needs no bound.
fn limit_memory(child: &Child, bytes: u64) {
    let both = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
        let _ = prlimit(Some(pid), Resource::As, both);
    }
}

/// At most so many bytes as text, whether there were more; reads to the end, so that the writer can go on.
async fn beginning(from: Option<impl AsyncRead + Unpin>, most: u64) -> (String, bool) {
    let Some(mut from) = from else {
        return (String::new(), false);
    };
    let mut bytes = Vec::new();
    // What cannot be read any more has ended.
    let _ = (&mut from).take(most).read_to_end(&mut bytes).await;
    let more = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    (String::from_utf8_lossy(&bytes).into_owned(), more.is_ok_and(|more| more > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_at_lines_and_add_up_to_the_answer() {
        let text: String = (0..5_000).map(|n| format!("line {n} é\n")).collect();
        let answer = Answer::new(text.clone());
        let (mut all, mut cursor, mut pages) = (String::new(), None::<String>, 0);
        loop {
            let page = answer.page(cursor.as_deref()).unwrap();
            assert!(page.text.len() <= PAGE && page.text.ends_with('\n'));
            all += &page.text;
            pages += 1;
            let note = page.note.unwrap();
            match note.split_once("\"cursor\": \"") {
                Some((_, rest)) => cursor = Some(rest.trim_end_matches('"').to_owned()),
                None => break,
            }
        }
        assert_eq!((all == text, pages), (true, text.len().div_ceil(PAGE)));
        let long = Answer::new("é".repeat(20_000));
        assert!(long.page(None).unwrap().text.len() <= PAGE);
        for bad in ["", "x", "0.0", ".", "99999999999999999999999.1", "é.é"] {
            assert!(answer.page(Some(bad)).is_err(), "{bad}");
        }
        let mark = cursor.unwrap();
        let mark = mark.split_once('.').unwrap().0;
        for at in ["-1", "999999999", "7.5"] {
            assert!(answer.page(Some(&format!("{mark}.{at}"))).is_err(), "{at}");
        }
        assert!(Answer::new("short\n".into()).page(None).unwrap().note.is_none());
    }
}
