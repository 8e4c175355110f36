//! What the reading commands print fits the screen, on golden recordings.
use std::path::{Path, PathBuf};
use std::process::Command;
use unicode_width::UnicodeWidthStr;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/kasuri")
}

fn page(words: &[&str], width: Option<usize>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.args(words).current_dir(golden()).env_clear();
    if let Some(width) = width {
        command.env("COLUMNS", width.to_string());
    }
    let output = command.output().expect("the command was built with this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kasuri {words:?}: {errors}");
    String::from_utf8(output.stdout).expect("names are UTF-8")
}

fn assert_fits(words: &[&str], width: Option<usize>) -> String {
    let page = page(words, width);
    let columns = width.unwrap_or(80);
    for line in page.lines() {
        // A command is to be copied whole.
        let is_command = line.contains("kasuri ");
        assert!(line.width() <= columns || is_command, "{words:?}, {columns} columns: {line}");
    }
    page
}

/// In a pipe nothing says how wide a screen is: 80 columns.
const WIDTHS: [Option<usize>; 3] = [None, Some(80), Some(120)];

#[test]
fn every_screen_fits_80_and_120_columns() {
    for name in ["calls", "locks", "loops", "mix", "processes", "tasks"] {
        let file = &format!("{name}.kasuri");
        for width in WIDTHS {
            for command in ["stat", "critical", "info"] {
                assert_fits(&[command, file], width);
            }
            assert_fits(&["stat", "-v", "--top", "0", file], width);
            assert_fits(&["compare", file, file], width);
            if name == "tasks" {
                assert_fits(&["plan", "-P", "2,8", file], width);
            }
        }
    }
}

/// These measure the machine for a second first.
#[test]
fn screens_with_a_prediction_fit_80_and_120_columns() {
    for width in [None, Some(120)] {
        assert_fits(&["locks", "locks.kasuri"], width);
        assert_fits(&["locks", "mix.kasuri"], width);
        assert_fits(&["predict", "calls.kasuri"], width);
        assert_fits(&["predict", "mix.kasuri"], width);
    }
}

#[test]
fn stat_fits_one_screen() {
    for name in ["calls", "locks", "loops", "mix", "processes", "tasks"] {
        let page = assert_fits(&["stat", &format!("{name}.kasuri")], Some(80));
        assert!(page.lines().count() <= 40, "{page}");
    }
}

#[test]
fn stat_names_its_sections() {
    let help = page(&["stat", "--help"], None);
    for section in kasuri_text::table::Section::ALL {
        assert!(help.contains(&format!("\n  {} ", section.name())), "{}", section.name());
        page(&["stat", "--section", section.name(), "mix.kasuri"], None);
    }
}
