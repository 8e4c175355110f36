//! Messages for the user on stderr: lower case, no full stop, prefix `kasuri: error:`, `warning:` or `note:`.
//! Errors of writing to a closed stderr are ignored.
//!
//! Messages name files and programs, and whoever named those may have wanted to talk to the terminal: whatever could steer it is
//! replaced here, once for all messages.
use clap::error::ErrorKind;
use kasuri_text::table::units::printable;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Prints a failure with its causes on one line, outermost first.
pub fn error(error: &anyhow::Error) {
    line("error", &format!("{error:#}"));
}

/// Prints something that needs the user's attention but stops nothing.
pub fn warning(text: impl Display) {
    line("warning", &text.to_string());
}

/// Prints something that is good to know.
pub fn note(text: impl Display) {
    line("note", &text.to_string());
}

/// A text of several lines keeps them; its later ones are set in, so that none can pass for a message of its own.
fn line(severity: &str, text: &str) {
    let lines: Vec<String> = text.lines().map(printable).collect();
    let text = lines.join("\n  ");
    let _ = writeln!(std::io::stderr().lock(), "kasuri: {severity}: {text}");
}

/// Prints what clap found wrong with the command line, or the help that was asked for.
pub fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(crate::exit::USAGE)
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let _ = writeln!(std::io::stderr().lock(), "kasuri: error: {text}");
            ExitCode::from(crate::exit::USAGE)
        }
    }
}

/// Whether the reader of our output went away.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
