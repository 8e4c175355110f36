//! `kasuri view FILE`.
use super::report::{MANY, Side, open_in_browser};
use crate::message;
use crate::open::{Input, progress};
use crate::program::ProgramArgs;
use crate::serve::{Server, Site};
use anyhow::Context;
use kasuri_report as html;
use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the timeline in the browser, of recordings of any size
///
/// Serves the page of `kasuri report` on this machine's loopback address and prints its address; ends with Ctrl-C. The page
/// reads only what it shows, so 100 million slices open like one million, and nothing is written. The address holds a random
/// token: who does not know it, also on this machine, gets nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri view run.kasuri                        prints the address to open
  kasuri view --open run.kasuri                 opens it
  kasuri view before.kasuri after.kasuri        shows both, one above the other
  kasuri view --port 8800 run.kasuri            for a tunnel: ssh -L 8800:127.0.0.1:8800 HOST")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    program: ProgramArgs,
    /// Second recording, shown below the first on an aligned time axis
    #[arg(value_name = "FILE2")]
    second: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Listen on port N of 127.0.0.1 and ::1 [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Heading of the page [default: the recorded command]
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
}

/// Serves the page until a signal comes.
///
/// # Errors
/// When a recording cannot be read, the port is taken or the browser cannot be started.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Before the work: a port that is taken is said at once.
    let server = Server::listen(args.port)?;
    let program = (&args.program, "kasuri view");
    let mut sides = vec![Side::load(&args.input, program, &args.title, 1, None)?];
    if let Some(file) = args.second {
        let second = args.input.another(file);
        sides.push(Side::load(&second, program, &args.title, 1, None)?);
    }
    let stop = super::end_signals()?;
    let page = Page::of(&sides)?;
    let mut out = crate::screen::screen();
    writeln!(out, "{}", server.address())?;
    out.flush()?;
    message::note("open this address in a browser; Ctrl-C ends");
    let _link = args.open.then(|| open(&server.address())).transpose()?;
    server.serve(&page, &stop)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the address in the browser. It goes there in a file that only the user can read: the arguments of programs, and so
/// the token, could be read by everybody on the machine.
fn open(address: &str) -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("kasuri-view-")
        .suffix(".html")
        .tempfile()
        .context("cannot make a file for the browser; open the address yourself")?;
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>kasuri view</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">{address}</a>"
    )?;
    file.flush()?;
    open_in_browser(file.path())?;
    Ok(file)
}

/// The page and what it asks for.
struct Page<'a> {
    recordings: Vec<html::Served<'a>>,
    page: String,
    policy: String,
}

impl<'a> Page<'a> {
    fn of(sides: &'a [Side]) -> anyhow::Result<Page<'a>> {
        let slices: usize = sides.iter().map(|side| side.trace.slices.start.len()).sum();
        let progress = progress(slices >= MANY, "building levels of detail");
        let recordings = sides
            .iter()
            .map(|side| html::Served::new(&side.trace, &side.options()))
            .collect::<Result<Vec<_>, _>>()?;
        let (page, policy) = html::served_page(&recordings)?;
        progress.finish_and_clear();
        Ok(Page { recordings, page, policy: format!("{policy}; frame-ancestors 'none'") })
    }
}

impl Site for Page<'_> {
    fn get(&self, path: &str) -> Option<(&'static str, Cow<'_, [u8]>)> {
        if path.is_empty() {
            return Some(("text/html; charset=utf-8", self.page.as_bytes().into()));
        }
        let (recording, part) = path.split_once('/')?;
        let recording = self.recordings.get(number(recording)?)?;
        match part.strip_prefix("block/") {
            Some(block) => {
                let bytes = recording.block(number(block)?)?;
                Some(("application/octet-stream", bytes.into()))
            }
            None if part == "index" => Some(("application/json", recording.index().into())),
            None => None,
        }
    }

    fn policy(&self) -> &str {
        &self.policy
    }
}

/// Digits and nothing else: `parse` would take a sign too.
fn number(text: &str) -> Option<usize> {
    let is_plain = text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}
