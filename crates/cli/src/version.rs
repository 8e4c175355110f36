//! `kasuri --version`: what a report of a fault should say.
use kasuri_format::container::FORMAT_VERSION;
use kasuri_record::libraries;
use std::fmt::Write;

/// What is asked of a newcomer who types `kasuri` alone.
pub const FIRST_MINUTE: &str = "\
See what a parallel program did, and what the kernel did to it.

  kasuri record -- ./program    record ./program, as it is, into program.kasuri
  kasuri stat program.kasuri    show where the CPU time went, and what to try
  kasuri report program.kasuri  write the timeline as one HTML file

As root a recording also has the kernel's events: `kasuri doctor` says what this
machine allows. `kasuri --help` lists all commands.
";

/// Version, commit, machine, format of recordings, and the libraries for programs that are installed.
pub fn page() -> String {
    let mut page = format!("kasuri {}\n", env!("CARGO_PKG_VERSION"));
    let commit = option_env!("KASURI_COMMIT").filter(|name| !name.is_empty());
    let mut fact = |name: &str, text: &str| _ = writeln!(page, "{name:<12}{text}");
    fact("commit", commit.unwrap_or("not known"));
    fact("built for", &format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    fact("recordings", &format!("format {FORMAT_VERSION}"));
    let (found, absent): (Vec<_>, Vec<_>) = (libraries::ALL.iter())
        .map(|probe| (probe.option, probe.library().is_ok()))
        .partition(|&(_, is_there)| is_there);
    for (name, libraries) in [("libraries", found), ("not there", absent)] {
        let options: Vec<_> = libraries.iter().map(|&(option, _)| option).collect();
        if !options.is_empty() {
            fact(name, &format!("for {}", options.join("; ")));
        }
    }
    page
}
