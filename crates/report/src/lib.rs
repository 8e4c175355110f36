//! One recording as one self-contained HTML file: the report that `kasuri report` writes.
//!
//! Goal: ten million slices in a file that a browser opens in a second, offline. Method (docs/design/viewer.md has
//! the format and the measurements): every row of the chart is a *line*, a sequence of items that do not overlap; a
//! line is cut into *units* of [`columns::UNIT_ITEMS`] items, stored as byte planes; units are deflated as *blocks*,
//! which the viewer inflates when it needs them. Lines too long to draw item by item get a *level-of-detail* pyramid,
//! whose coarse part stands before the viewer's code, so that the picture is there before the rest of the file is
//! parsed.
//!
//! [`plan`] says what the rows are and [`lines`] lays them out, [`columns`] and [`lod`] turn them into bytes,
//! [`blocks`] deflates on all CPUs, [`index`] describes the rest as JSON, and [`page`] puts the parts into the
//! template built by `make viewer`.
mod account;
mod blocks;
mod call_paths;
mod columns;
mod index;
mod lines;
mod locks;
mod lod;
mod names;
mod page;
mod panel;
mod plan;
pub mod planned;
#[cfg(test)]
mod tests;

pub use panel::MOST_ROWS;

use kasuri_answers::document::Document;
use kasuri_model::{Places, Trace};
use std::io::Write;

/// Version of the data inside the file; the viewer beside it reads exactly this one.
pub const FORMAT_VERSION: u32 = 10;

/// Contents and form of a report.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Heading of the page; empty: the recorded command.
    pub title: String,
    /// A short name that tells it from another recording in the same page; empty: the title.
    pub label: String,
    /// The account in one sentence, above all else; empty: none.
    pub headline: String,
    /// The answer of `kasuri stat --json` about the recording; a panel shows its readable parts.
    pub summary: Option<serde_json::Value>,
    /// Places in the source of annotations, for the details panel; none: those that the trace has.
    pub places: Option<&'a Places>,
    /// The account, drawn as a stacked area and added up for any part of the chart.
    pub account: Option<&'a kasuri_analyze::account::Account>,
    /// What the summary says of this account's losses ([`kasuri_analyze::account::AccountSummary::causes`]); empty: their classes alone.
    pub causes: &'a [kasuri_analyze::account::CauseSummary],
    /// By class of the account, its largest waits and what these waited for, a line each ([`kasuri_answers::class_paths::waits`]).
    pub waits: Vec<(kasuri_analyze::account::Class, Vec<String>)>,
    /// The code that explains the account, by CPU and in order of time ([`kasuri_analyze::Answers::pieces`]): flame graphs of
    /// its classes; empty: there are none.
    pub pieces: &'a [kasuri_analyze::call_paths::Piece],
    /// The samples that instants belong to; none: it is worked out again.
    pub cover: Option<&'a kasuri_analyze::call_paths::Cover>,
    /// The answer about locks, for the numbers in their rows; none: the sums of their slices.
    pub locks: Option<&'a kasuri_analyze::Locks>,
    /// Names of planned tasks, with how late these were ([`planned::add`]).
    pub lateness: Vec<(kasuri_model::StrIx, planned::Lateness)>,
    /// Which processes may be the program, the busiest first; empty where the recording names it. The page offers them.
    pub candidates: Vec<Candidate>,
    /// Answers of other analyses, a tab each.
    pub panels: Vec<Document>,
    /// Deflate level 1 (fast) to 9 (small).
    pub level: u32,
    /// Threads that encode and deflate; 0: one for each CPU.
    pub workers: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            title: String::new(),
            label: String::new(),
            headline: String::new(),
            summary: None,
            places: None,
            account: None,
            causes: &[],
            waits: Vec::new(),
            pieces: &[],
            cover: None,
            locks: None,
            lateness: Vec::new(),
            candidates: Vec::new(),
            panels: Vec::new(),
            level: 5,
            workers: 0,
        }
    }
}

/// Processes of one name, which may be the program of a trace that names none.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Candidate {
    /// Their name; "" for none.
    pub name: String,
    /// Some of their ids.
    pub pids: Vec<i32>,
    /// Number of them.
    pub n_processes: u32,
    /// Their CPU time; none: not known.
    pub on_cpu_ns: Option<i64>,
    /// The command that makes a page of them alone.
    pub command: String,
}

/// The extent of a report that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Annotated slices in it.
    pub slices: u64,
    /// Everything that can be drawn: slices, states, occupancies, kernel spans, instants, counter values.
    pub items: u64,
    /// Rows of the chart.
    pub lines: u32,
    /// Items whose time had to be changed because they overlapped the one before them in the same row: 0 unless the
    /// model broke its own rule.
    pub clamped: u64,
}

/// Why no report was written.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The output could not be written.
    #[error("cannot write the report: {0}")]
    Write(#[from] std::io::Error),
    /// The recording's facts could not be put into JSON.
    #[error("cannot encode the report's index: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes `trace` as one HTML file to `out`, which needs no buffering of its own.
///
/// Memory: the deflated file is held before it is written (about 6 bytes for each slice). Threads: `options.workers`
/// are started and joined.
///
/// # Errors
/// [`Error::Write`] when `out` fails; what was written until then is not a valid page. [`Error::Json`] when the summary
/// cannot be encoded.
pub fn write(trace: &Trace, options: &Options, out: &mut impl Write) -> Result<Stats, Error> {
    write_all(&[(trace, options)], out)
}

/// Writes two recordings as one HTML file that shows them one above the other, on aligned time axes.
///
/// # Errors
/// Those of [`write`].
pub fn write_pair(
    first: (&Trace, &Options),
    second: (&Trace, &Options),
    out: &mut impl Write,
) -> Result<Stats, Error> {
    write_all(&[first, second], out)
}

fn write_all(recordings: &[(&Trace, &Options)], out: &mut impl Write) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    let mut parts = Vec::new();
    for &(trace, options) in recordings {
        let (job, layout) = prepare(trace, options);
        let packed = blocks::pack(&job, &layout);
        let index = index::encode(&job, &layout, Some(&packed), options)?;
        stats.slices += trace.slices.start.len() as u64;
        stats.items += (job.plan.lines.iter()).map(|line| line.rows.len() as u64).sum::<u64>();
        stats.lines += job.plan.lines.len() as u32;
        stats.clamped += packed.clamped;
        parts.push(page::Part {
            title: index::title(trace, options),
            index,
            packed,
            level: options.level,
        });
    }
    stats.bytes = page::write(&parts, out)?;
    Ok(stats)
}

/// Lays out a recording, and builds its levels of detail.
fn prepare<'a>(trace: &'a Trace, options: &Options<'a>) -> (blocks::Job<'a>, blocks::Layout) {
    let mut plan = lines::plan(trace);
    account::add(trace, options, &mut plan);
    if let Some(answer) = options.locks {
        locks::fill_from_analysis(trace, answer, &mut plan.locks);
    }
    let job = blocks::Job::new(trace, plan, options);
    let layout = blocks::Layout::of(&job);
    (job, layout)
}

/// A recording whose page asks for the parts that it shows: `kasuri view`. Memory: about 1.7 bytes for each item of a long
/// row, beside the trace.
pub struct Served<'a> {
    job: blocks::Job<'a>,
    layout: blocks::Layout,
    title: String,
    index: Vec<u8>,
}

impl<'a> Served<'a> {
    /// Lays out `trace`, and builds its levels of detail on all CPUs.
    ///
    /// # Errors
    /// [`Error::Json`] when the summary cannot be encoded.
    pub fn new(trace: &'a Trace, options: &Options<'a>) -> Result<Served<'a>, Error> {
        let (job, layout) = prepare(trace, options);
        let index = index::encode(&job, &layout, None, options)?;
        Ok(Served { title: index::title(trace, options), job, layout, index })
    }

    /// What the page reads first: JSON.
    pub fn index(&self) -> &[u8] {
        &self.index
    }

    /// Block `number` of those that the index names, encoded now; none: there is no such block.
    pub fn block(&self, number: usize) -> Option<Vec<u8>> {
        self.layout.bytes(&self.job, number)
    }
}

/// The page of one or two recordings that asks for `N/index` and `N/block/B` beside itself, and the policy
/// (Content-Security-Policy) that it is to be served with.
///
/// # Errors
/// [`Error::Write`] when the viewer was built of another template.
pub fn served_page(recordings: &[Served]) -> Result<(String, String), Error> {
    let titles: Vec<String> = recordings.iter().map(|r| r.title.clone()).collect();
    Ok(page::served(&titles)?)
}
