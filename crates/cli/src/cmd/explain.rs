//! `kasuri explain FILE`.
use crate::open::Input;
use crate::program::ProgramArgs;
use crate::range::{self, TimeRange};
use kasuri_answers::Answer;
use kasuri_answers::explain::explanation;
use kasuri_base::words::shell_word;
use std::io::Write;
use std::process::ExitCode;

/// Explain a recording on one page of Markdown, to be quoted
///
/// Prints where the CPU time went, what each loss was caused by and where in the source, what to try, and what the recording cannot show: what
/// `kasuri stat` says, for an issue, a chat or a program. The page is bounded, the same for the same recording, and names from
/// the recording are no markup in it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri explain run.kasuri
  kasuri explain run.kasuri | gh issue comment 12 --body-file -
  kasuri explain --json run.kasuri | jq -r '.classes[].causes[] | [.text, .place] | @tsv'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    program: ProgramArgs,
    /// Print JSON (schema kasuri.explain/1)
    #[arg(long)]
    json: bool,
    /// Explain only this range, counted from the recording's start: 1.5s..2s, 100ms.., ..20%
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
}

/// Prints the page.
///
/// # Errors
/// When the recording cannot be read or stdout not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = args.input.load()?;
    let name = args.input.name();
    args.program.choose_or_say(&mut trace, "kasuri explain", &name)?;
    let options = range::options(&trace, args.range, false)?;
    let summary = kasuri_analyze::summary(&trace, &options);
    let file = shell_word(name.to_string());
    let explanation = explanation(&summary, &file, trace.span.start.ns());
    let mut out = crate::screen::screen();
    if args.json {
        kasuri_text::json::write(&explanation, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = kasuri_text::markdown(&explanation.document(usize::MAX), "kasuri stat -v");
    out.write_all(page.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
