//! `kasuri symbolize`: adds names to the call paths of a recording.
use super::record::duration;
use crate::{message, programs};
use kasuri_record::Notice;
use kasuri_record::symbolize::{Counts, Options, Symbolized, symbolize};
use kasuri_text::table::units::printable;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kasuri symbolize run.kasuri
  kasuri symbolize run.kasuri --debug-dir ./symbols
  DEBUGINFOD_URLS=https://debuginfod.debian.net kasuri symbolize --debuginfod run.kasuri";

/// Add functions, files and lines to the call paths of a recording
///
/// `kasuri record` names the code that it saw in the two seconds after the program. This command names what is left, on any
/// machine that has the programs or their debug files: a file counts only if its build-id is the recorded one.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the recording to OUT [default: in place of FILE]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Also look for programs and debug files in DIR; may be repeated
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,

    /// Fetch debug files from the servers of DEBUGINFOD_URLS, with debuginfod-find
    #[arg(long)]
    debuginfod: bool,

    /// Stop reading debug information after TIME
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    limit: Duration,

    /// Print JSON (schema kasuri.symbolize/1)
    #[arg(long)]
    json: bool,

    /// Print errors and warnings only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Its name and version.
const SCHEMA: &str = "kasuri.symbolize/1";
/// Rows of files without names that are printed.
const ROWS_MAX: usize = 10;

/// Adds names.
///
/// # Errors
/// When the file is no sound recording or cannot be written, or when debuginfod is asked for and is not there.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let absolute = args.debug_dir.iter().map(std::path::absolute);
    let options = Options {
        debug_dirs: absolute.collect::<Result<_, _>>()?,
        debuginfod: args.debuginfod.then(debuginfod).transpose()?,
        limit: args.limit,
    };
    let quiet = args.quiet || args.json;
    let done = symbolize(&args.file, args.output.as_deref(), &options, &mut |notice| {
        if let Notice::Note(text) = notice
            && !quiet
        {
            message::note(text);
        }
    })?;
    for damage in &done.damage {
        message::warning(format_args!("left out: {damage}"));
    }
    let mut out = crate::screen::screen();
    if args.json {
        kasuri_text::json::write(&answer(&done), &mut out)?;
    } else if !args.quiet {
        out.write_all(text(&done).as_bytes())?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The program that fetches debug files.
fn debuginfod() -> anyhow::Result<PathBuf> {
    if std::env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        anyhow::bail!(
            "DEBUGINFOD_URLS is not set: set it to the server of your distribution, as in \
             DEBUGINFOD_URLS=https://debuginfod.debian.net"
        );
    }
    programs::find("debuginfod-find").ok_or_else(|| {
        anyhow::anyhow!(
            "debuginfod-find is not installed: on Debian and Ubuntu it is in the package debuginfod"
        )
    })
}

fn text(done: &Symbolized) -> String {
    use std::fmt::Write as _;
    let n = done.n_frames;
    if n == 0 {
        return "The recording has no call paths.\n".to_owned();
    }
    let (before, after) = (done.before, done.after);
    let mut text = format!(
        "{n} places in the code: {} named, before {}; {} with lines, before {}\n",
        after.named, before.named, after.with_lines, before.with_lines
    );
    if done.n_fetched > 0 {
        let _ = writeln!(text, "{} debug files from debuginfod", done.n_fetched);
    }
    let missing = &done.unnamed;
    if !missing.is_empty() {
        text.push_str("no names for\n");
    }
    for row in missing.iter().take(ROWS_MAX) {
        let _ = writeln!(
            text,
            "  {:>6}  {}: {}",
            row.n_frames,
            printable(&row.module),
            printable(row.why)
        );
    }
    if missing.len() > ROWS_MAX {
        let _ = writeln!(text, "  and {} more files", missing.len() - ROWS_MAX);
    }
    match &done.output {
        Some(path) => _ = writeln!(text, "written: {}", printable(&path.to_string_lossy())),
        None => text.push_str("nothing to add; the file is as it was\n"),
    }
    text
}

/// What is known about the places of code in a recording, before and after.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The file that was written; null: there was nothing to add.
    output: Option<&'a Path>,
    /// Distinct places of code in the recording.
    frames: u64,
    /// What was known.
    before: Known,
    /// What is known now.
    after: Known,
    /// Where names are still missing, the most places first.
    unnamed: Vec<Nameless<'a>>,
    /// Debug files that debuginfod had.
    fetched: u64,
    /// Damaged parts of the recording that the output lacks.
    damage: &'a [String],
}

/// How much is known.
#[derive(Serialize, JsonSchema)]
struct Known {
    /// Places whose function is known.
    named: u64,
    /// Places whose file and line are known too.
    with_lines: u64,
}

/// Places of code without a name.
#[derive(Serialize, JsonSchema)]
struct Nameless<'a> {
    /// The file of code; [kernel]; [generated code of process PID]; [no file].
    module: &'a str,
    /// The reason that there is no name.
    why: &'static str,
    /// Places.
    frames: u64,
}

fn answer(done: &Symbolized) -> Answer<'_> {
    let known = |counts: Counts| Known { named: counts.named, with_lines: counts.with_lines };
    let nameless = done.unnamed.iter().map(|row| Nameless {
        module: &row.module,
        why: row.why,
        frames: row.n_frames,
    });
    Answer {
        schema: SCHEMA,
        output: done.output.as_deref(),
        frames: done.n_frames,
        before: known(done.before),
        after: known(done.after),
        unnamed: nameless.collect(),
        fetched: done.n_fetched,
        damage: &done.damage,
    }
}
