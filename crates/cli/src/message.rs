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
    line("error", &causes(error));
}

/// The failure and its causes. Some errors end with the text of their cause: it is not repeated.
pub fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
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
        ErrorKind::DisplayVersion if std::env::args_os().any(|arg| arg == "--version") => {
            let _ = write!(std::io::stdout().lock(), "{}", crate::version::page());
            ExitCode::SUCCESS
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;
    use std::fmt;

    /// An error whose text ends with that of its cause, as those of some libraries do.
    #[derive(Debug)]
    struct WithCause(std::io::Error);

    impl fmt::Display for WithCause {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "cannot write: {}", self.0)
        }
    }

    impl Error for WithCause {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let full = || std::io::Error::other("No space left on device");
        let error = anyhow::Error::new(WithCause(full())).context("run.html");
        assert_eq!(causes(&error), "run.html: cannot write: No space left on device");
        let error = anyhow::Error::new(full()).context("cannot write").context("run.html");
        assert_eq!(causes(&error), "run.html: cannot write: No space left on device");
    }
}
