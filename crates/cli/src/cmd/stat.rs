//! `kasuri stat FILE`.
use crate::open::Input;
use crate::range::{self, TimeRange};
use kasuri_text::table::{self, Layout};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Show a recording's summary
///
/// Who ran, who waited, for what, and how evenly the work was split.
///
/// The tables fit the terminal: a narrow one shows fewer columns. Times are wall-clock times, `ready` is
/// the time in which a thread could run but had no CPU. What was not recorded is shown as -.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri stat run.kasuri
  kasuri stat --range 1.5s..2s run.kasuri          half a second of it
  kasuri stat --json run.kasuri | jq '.threads[] | {name, switches}'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Print JSON (schema kasuri.stat/1), with every table whole
    #[arg(long)]
    json: bool,
    /// Rows of each table; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Only this part: 1.5s..2s, 100ms.., ..20%; times count from the recording's start
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
    /// Threads of all processes, not only the recorded program's
    #[arg(long)]
    all: bool,
}

/// Prints the summary.
///
/// # Errors
/// When the recording cannot be read or stdout not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trace = args.input.load()?;
    let options = range::options(&trace, args.range, args.all)?;
    let summary = kasuri_analyze::summary(&trace, &options);
    let mut out = std::io::stdout().lock();
    if args.json {
        kasuri_text::json::write(&summary, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let layout = Layout {
        width: screen_width(),
        colour: has_colour(),
        top: args.top,
        start_ns: trace.span.start.ns(),
        next: format!(
            "kasuri report {}",
            shell_word(&args.input.name().to_string())
        ),
    };
    out.write_all(table::render(&summary, &layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// COLUMNS when it says a width, else the terminal's, else wide enough for every column.
pub(super) fn screen_width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = || {
        rustix::termios::tcgetwinsize(std::io::stdout())
            .ok()
            .map(|w| usize::from(w.ws_col))
    };
    asked
        .or_else(terminal)
        .filter(|&w| w > 0)
        .map_or(160, |w: usize| w.max(60))
}

/// Whether stdout takes colours.
pub(super) fn has_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    std::io::stdout().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// The text as one word of a shell command.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
