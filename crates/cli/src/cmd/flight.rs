//! `kasuri flight`: the flight recorder as a service.
use crate::flight::{self, Settings, unit};
use crate::message;
use anyhow::{Context, bail};
use clap::Subcommand;
use kasuri_text::table::units::printable;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  kasuri flight install --print                        the unit, to read first
  sudo kasuri flight install --on-wait 50ms --on-pressure cpu=40%
  sudo kasuri flight install --on-wait 50ms --on-syscall fsync=100ms
  sudo kasuri flight status
  sudo kill -USR2 $(systemctl show -P MainPID kasuri-flight)   save now
  sudo kasuri flight run --dir /var/lib/flight --on-log /var/log/app.log=timeout   without systemd";

/// Keep a flight recorder running, and save its last seconds when something goes wrong
///
/// The service records the whole system into memory (`kasuri record --flight -a`) and watches: threads that wait for a CPU, long system calls, pressure, CPU limits, lines of
/// logs, SIGUSR2, requests on loopback. When one of these fires it saves a recording; old ones are removed. docs/guide/flight.md
/// has containers and Kubernetes.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Run it here, until SIGTERM or Ctrl-C
    Run(Settings),
    /// Install it as a systemd service with few privileges, and start it
    Install {
        #[command(flatten)]
        settings: Settings,
        /// Print the unit and change nothing
        #[arg(long)]
        print: bool,
    },
    /// Stop and remove the service; its recordings stay
    Uninstall,
    /// Show whether the service runs, and what it has saved
    Status {
        /// Directory of its recordings
        #[arg(long, value_name = "DIR", default_value = flight::DIR)]
        dir: PathBuf,
    },
}

/// Does it.
///
/// # Errors
/// When the service cannot run here, or systemd refuses.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Run(settings) => flight::run(&settings)?,
        Action::Install { settings, print } => install(&settings, print)?,
        Action::Uninstall => uninstall()?,
        Action::Status { dir } => status(&dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install(settings: &Settings, print: bool) -> anyhow::Result<()> {
    settings.check()?;
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let text = unit::text(&program, &settings.dir, &settings.words())?;
    if print {
        return Ok(crate::screen::screen().write_all(text.as_bytes())?);
    }
    if !Path::new("/run/systemd/system").is_dir() {
        bail!(
            "systemd does not run here; `kasuri flight install --print` prints the unit, `kasuri flight run` runs without it"
        );
    }
    only_roots(&program)?;
    // The service finds a read-only file system.
    flight::keep::Kept::own(&settings.dir)?;
    let (mut file, pending) =
        kasuri_record::output::create(Path::new(unit::PATH), kasuri_record::output::Readers::Umask)
            .with_context(|| format!("{}: cannot write", unit::PATH))?;
    file.write_all(text.as_bytes())?;
    pending.commit()?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", unit::NAME])?;
    message::note(format!(
        "{} runs; recordings go to {}; `sudo kasuri flight status`",
        unit::NAME,
        settings.dir.display()
    ));
    Ok(())
}

/// Refuses a program that others could replace: root's service would run theirs.
fn only_roots(program: &Path) -> anyhow::Result<()> {
    for part in program.ancestors() {
        let facts = std::fs::metadata(part)
            .with_context(|| format!("{}: cannot look at", part.display()))?;
        if facts.uid() != 0 || facts.mode() & 0o022 != 0 {
            bail!(
                "{}: others than root may change it, and root's service would run it; install kasuri in /usr/local/bin first",
                part.display()
            );
        }
    }
    Ok(())
}

fn uninstall() -> anyhow::Result<()> {
    if !Path::new(unit::PATH).exists() {
        bail!("{}: is not there, so nothing is installed", unit::PATH);
    }
    systemctl(&["disable", "--now", unit::NAME])?;
    std::fs::remove_file(unit::PATH).with_context(|| format!("{}: cannot remove", unit::PATH))?;
    systemctl(&["daemon-reload"])
}

fn status(dir: &Path) -> anyhow::Result<()> {
    let state = Command::new("systemctl").args(["is-active", unit::NAME]).output();
    let state = state.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let state = state.unwrap_or_default();
    let state = match state.as_str() {
        "" => "not known: systemd does not run here",
        state => state,
    };
    let mut out = crate::screen::screen();
    writeln!(out, "service  {}", printable(state))?;
    let kept = flight::keep::Kept::open(dir)?.list()?;
    let bytes: u64 = kept.iter().map(|file| file.bytes).sum();
    writeln!(
        out,
        "saved    {} recordings, {:.1} MB, in {}",
        kept.len(),
        bytes as f64 / 1e6,
        dir.display()
    )?;
    for file in kept.iter().rev().take(10) {
        writeln!(out, "  {}  {:.1} MB", file.name, file.bytes as f64 / 1e6)?;
    }
    Ok(())
}

fn systemctl(args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("systemctl").args(args).status().context("cannot run systemctl")?;
    if !status.success() {
        bail!("systemctl {} failed", args.join(" "));
    }
    Ok(())
}

impl Settings {
    /// The options as words, for the unit.
    fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("--dir={}", self.dir.display()),
            format!("--keep={}us", self.keep.as_micros()),
            format!("--pause={}us", self.pause.as_micros()),
            format!("--max-mb={}", self.max_mb),
            format!("--max-age={}s", self.max_age.as_secs()),
        ];
        words.extend(self.on_wait.iter().map(|time| format!("--on-wait={}us", time.as_micros())));
        words.extend(self.on_syscall.iter().map(|on| format!("--on-syscall={on}")));
        words.extend(
            self.on_throttled.iter().map(|time| format!("--on-throttled={}us", time.as_micros())),
        );
        words.extend(self.on_pressure.iter().map(|on| format!("--on-pressure={on}")));
        words.extend(self.on_log.iter().map(|on| format!("--on-log={on}")));
        words.extend(self.listen.iter().map(|port| format!("--listen={port}")));
        words.extend(self.syscalls.then(|| "--syscalls".to_owned()));
        words
    }
}
