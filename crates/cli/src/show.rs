//! An answer on stdout: as JSON, or as text that fits the screen.
use crate::program::named;
use crate::screen::{has_colour, screen};
use kasuri_answers::Answer;
use kasuri_model::Trace;
use kasuri_text::table::{self, Layout};
use std::io::Write;
use std::process::ExitCode;

/// As wide as the screen, with at most `top` rows of each table; 0: all.
pub fn layout(trace: &Trace, top: usize) -> Layout {
    Layout {
        width: screen_width(),
        colour: has_colour(),
        top,
        program: named(trace),
        ..Layout::default()
    }
}

/// Prints it.
///
/// # Errors
/// When stdout cannot be written.
pub fn show(answer: &impl Answer, json: bool, layout: &Layout) -> anyhow::Result<ExitCode> {
    let mut out = screen();
    if json {
        kasuri_text::json::write(answer, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let document = answer.document(layout.rows());
    out.write_all(table::document(&document, layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The width that COLUMNS names, else the terminal's, else 80.
pub fn screen_width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal =
        || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|w| usize::from(w.ws_col));
    asked.or_else(terminal).filter(|&w| w > 0).map_or(80, |w: usize| w.max(60))
}
