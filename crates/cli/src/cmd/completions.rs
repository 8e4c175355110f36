//! `kasuri completions SHELL`.
use std::io::Write;
use std::process::ExitCode;

/// Print a shell's completion script
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri completions bash > ~/.local/share/bash-completion/completions/kasuri
  kasuri completions fish > ~/.config/fish/completions/kasuri.fish")]
pub struct Args {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the script.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "kasuri", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
