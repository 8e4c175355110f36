//! `kasuri record`: runs a program, or attaches to one, and writes a `.kasuri` file.
use crate::{exit, message};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_lab::costs::{ANNOTATION, Bench, Costs, learn};
use kasuri_record::output;
use kasuri_record::selection::Selections;
use kasuri_record::{
    Annotated, Error, Flight, LockProbe, Notice, OnSlice, Options, Stacks, Summary, Target, To,
    USDT_LIMIT, UnitCosts,
};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kasuri record -- ./program 8              writes program.kasuri
  kasuri record -o run.kasuri -- make -j8
  ssh board kasuri record -o - -- ./program > board.kasuri    through a pipe, while it runs; what the program prints goes to stderr
  kasuri record --to desk:7117 --key board.key -- ./program   to another machine, on which `kasuri receive` waits
  kasuri record --locks -- ./program        also every pthread lock
  kasuri record --openmp -- ./program       also regions, loops, barriers and tasks of OpenMP
  kasuri record --itt -- ./program          also what oneTBB and others tell VTune
  kasuri record --lock-function spin_lock,spin_unlock -- ./program    also its own spinlocks
  kasuri record --usdt python:gc__* -- ./program.py   also its probes: here, collections of garbage
  kasuri record -p $(pgrep -n server) --duration 10s
  kasuri record -a --duration 5s            the whole system
  kasuri record --flight --keep 5s -- ./server
  kasuri record --budget 2% --syscalls -- ./server    for at most 2 % of its CPU time
  kasuri record --check-overhead -- ./program         measures how much recording slows it down
  kill -USR2 RECORDER                       makes the flight recorder save its last 5 s

Exit status: the program's (128 + N if signal N killed it); 125 if kasuri failed,
126 if the program cannot be executed, 127 if it was not found.";

/// Record a program, a process or the whole system.
///
/// Writes the program's annotations (kasuri.h) and the kernel's scheduler events into one file. Kernel events of the whole
/// system are recorded, because filtering them would cost more; the other commands show only the program unless told otherwise.
/// Without root, kasuri records annotations and the program's own context switches. `kasuri doctor` shows what this machine
/// allows.
///
/// Ctrl-C goes to the program, and the recording ends when the program does. A second Ctrl-C, at least a second after the
/// first, ends the recording immediately.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write the recording to FILE, or to standard output while it is made: - [default: PROGRAM.kasuri, PID.kasuri or system.kasuri]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Send the recording to another machine while it is made, to `kasuri receive` there
    #[arg(long, value_name = "HOST:PORT", requires = "key", conflicts_with_all = ["output", "flight", "no_pack", "check_overhead"])]
    to: Option<String>,

    /// File with the key that both machines have, which `kasuri receive` makes
    #[arg(long, value_name = "FILE", requires = "to")]
    key: Option<PathBuf>,

    /// Record the running process PID until it ends
    #[arg(short, long, value_name = "PID", allow_hyphen_values = true, value_parser = super::process_number, conflicts_with_all = ["all", "program"])]
    pid: Option<i32>,

    /// Record the whole system until Ctrl-C, --duration or the end of PROGRAM
    #[arg(short, long)]
    all: bool,

    /// Stop recording after TIME: 5s, 500ms, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// Keep only the last seconds in memory; save them on SIGUSR2, on a trigger annotation and at the end
    #[arg(long)]
    flight: bool,

    /// Length of what --flight keeps
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", requires = "flight")]
    keep: Duration,

    /// With --flight: save when a slice of this name takes so long, as in render=50ms, once in --keep at most; may be repeated
    #[arg(long, value_name = "NAME=TIME", value_parser = on_slice, requires = "flight")]
    on_slice: Vec<OnSlice>,

    /// Take at most SIZE of memory for the recorder, the kernel's buffers and one program's annotations: 16M, at least 8M. What finds no
    /// room is counted as lost
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "flight")]
    memory: Option<u64>,

    /// Size of the kernel's buffer for each CPU, in MiB [default: 16, or less if memory is short]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    buffer_mb: Option<u64>,

    /// Memory that one process may use for annotations not yet written to the file, in MiB [default: a quarter of the free memory, at most 4096]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    ring_mb: Option<u64>,

    /// Stop recording when less than this is free on the recording's disk, in MiB [default: 256, once the recording is that large]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30), conflicts_with = "flight")]
    keep_free: Option<u64>,

    /// Drop (and count) annotations instead of using more memory when the recorder falls behind
    #[arg(long, conflicts_with = "flight")]
    discard: bool,

    /// Also record interrupts and softirqs
    #[arg(long)]
    irq: bool,

    /// Also record system calls (adds 0.2 to 0.5 us to each)
    #[arg(long)]
    syscalls: bool,

    /// Also record these kernel events: SYSTEM:NAME, or a selection such as locks, io, irq, syscalls, all (see `kasuri events`)
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    events: Vec<String>,

    /// Also record pthread locks and waits for kernel locks
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "full", conflicts_with = "pid")]
    locks: Option<Locks>,

    /// Also record OpenMP of an unmodified program: regions, loops and their chunks, barriers, critical sections, locks, tasks
    #[arg(long, conflicts_with = "pid")]
    openmp: bool,

    /// Also record what the program and its libraries (oneTBB, PyTorch...) tell other tools by Intel's ITT
    #[arg(long, conflicts_with = "pid")]
    itt: bool,

    /// Also record what they tell by NVIDIA's NVTX
    #[arg(long, conflicts_with = "pid")]
    nvtx: bool,

    /// Also record locks that --locks does not (static programs, parking_lot, your own): LOCK and UNLOCK are the functions
    /// that acquire and release them, [BINARY:]LOCK,UNLOCK. The lock is their first argument; NAME@2 means the second, NAME@0
    /// that the functions share a single lock
    #[arg(long, value_name = "FUNCTIONS")]
    lock_function: Vec<String>,

    /// Also record probes that the authors of the program and its libraries put there (USDT): PROVIDER, PROVIDER:PROBE (* and ?
    /// match any letters) or FILE:PROVIDER:PROBE; @1,2 after it: arguments 1 and 2 are text. `kasuri events --usdt PROGRAM`
    /// lists them. A hit costs about 1 us, in every program that runs this code
    #[arg(long, value_name = "PROBE", conflicts_with = "no_kernel")]
    usdt: Vec<String>,

    /// Switch off the most frequent of these probes when all are hit more than N times a second; 0: never
    #[arg(long, value_name = "N", default_value_t = USDT_LIMIT, requires = "usdt")]
    usdt_limit: u64,

    /// Record which code runs, as samples of call paths: `deep` copies more of each stack [default: on; with --memory off]
    #[arg(long, value_name = "HOW", value_enum)]
    stacks: Option<HowStacks>,

    /// Limit the cost of kernel events to PERCENT of the program's CPU time, for example 2%. If needed, kasuri first disables
    /// events that the timeline can do without, then records only windows of time; the report shows which
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with_all = ["flight", "no_kernel"])]
    budget: Option<f64>,

    /// Run the program alternately with and without recording, and print by how much recording slows it down
    #[arg(long, conflicts_with_all = ["pid", "all", "flight", "duration", "no_pack"])]
    check_overhead: bool,

    /// Number of pairs of runs for --check-overhead
    #[arg(long, value_name = "N", default_value_t = 7, requires = "check_overhead", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Record annotations only
    #[arg(long, conflicts_with = "all")]
    no_kernel: bool,

    /// Keep the recording directory instead of packing it into one file
    #[arg(long)]
    no_pack: bool,

    /// End when this process, which started us, has ended
    #[arg(long, value_name = "PID", hide = true)]
    end_with: Option<i32>,

    /// Print errors only
    #[arg(short, long)]
    quiet: bool,

    /// Program to record, with its arguments
    // After the program, words with a hyphen belong to the program; before it, they are mistyped options of ours.
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// How much the lock probe records.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Locks {
    /// Record every acquisition and every wait
    Full,
    /// Count acquisitions, record about one hold in 64 and every wait
    Light,
}

/// How much is recorded of call paths.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum HowStacks {
    /// No samples
    Off,
    /// As many samples as cost less than 1 % of the program's CPU time
    On,
    /// Deeper stacks and more of them, at a higher cost
    Deep,
}

/// Records; passes the program's exit status on.
///
/// # Errors
/// Command lines that name nothing to record.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    kasuri_record::inherited::outlive_long_files();
    if args.flight {
        // Before there is anything to save, a request ends nothing and saves nothing.
        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::default())?;
    }
    if let Some(parent) = args.end_with {
        end_with(parent)?;
    }
    let mut options = options(&args)?;
    if args.check_overhead {
        let price = |options: &Options| unit_costs(options, args.quiet, true);
        return super::check_overhead::run(&mut options, price, args.repeat, args.quiet);
    }
    // Before some seconds of measuring.
    if let Err(error) = kasuri_record::may_record(&options.target) {
        return Ok(could_not_begin(error));
    }
    options.costs = unit_costs(&options, args.quiet, false);
    let mut reporter = Reporter { quiet: args.quiet, bar: None };
    let summary = match kasuri_record::record(&options, &mut |notice| reporter.notice(notice)) {
        Ok(summary) => summary,
        Err(error) => return Ok(could_not_begin(error)),
    };
    reporter.close_bar();
    if let Some(failure) = &summary.failure {
        message::error(&anyhow::anyhow!("{failure}"));
    }
    for damage in &summary.damage {
        message::warning(format_args!("left out: {damage}"));
    }
    if !args.quiet {
        message::note(summary_line(&summary));
    }
    // Said in any case: only the user can make the room.
    if let (Some(left), Some(dir)) = (&summary.left, &summary.dir) {
        message::warning(format_args!(
            "{:.1} MB of annotations could not be written and wait in {}: make room (or name a file elsewhere with -o), then \
             `kasuri recover {}`; they last as long as the machine runs",
            left.bytes as f64 / 1e6,
            left.session.display(),
            kasuri_base::words::shell_word(dir)
        ));
    }
    Ok(exit_code(&summary))
}

/// Has the kernel send SIGTERM when the parent ends, which is the process of this number.
fn end_with(parent: i32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    // It may have ended before.
    if rustix::process::getppid().map(|pid| pid.as_raw_pid()) != Some(parent) {
        bail!("process {parent}, which was to be served, has ended");
    }
    Ok(())
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let target = match (args.pid, args.all) {
        (Some(pid), _) => Target::Process(pid),
        (None, true) => Target::System(args.program.clone()),
        (None, false) if args.program.is_empty() => {
            bail!("nothing to record: name a program (`kasuri record -- ./program`), -p PID or -a")
        }
        (None, false) => Target::Program(args.program.clone()),
    };
    let to = match (&args.to, &args.key) {
        (Some(address), Some(file)) => {
            Some(To { address: address.clone(), key: super::receive::key(file, false)? })
        }
        _ => None,
    };
    let output = match &args.output {
        _ if to.is_some() => PathBuf::from(args.to.as_deref().unwrap_or_default()),
        Some(output) if output == Path::new("-") => PathBuf::from(output::STANDARD),
        Some(output) => output.clone(),
        None => PathBuf::from(default_name(&target)),
    };
    if output::is_standard(&output) {
        can_be_piped(args)?;
    }
    if to.is_none()
        && let Err(why) = output::kind(&output)
    {
        bail!("cannot write {}: {why}", output.display());
    }
    let mut options = Options::new(target, output);
    options.to = to;
    options.duration = args.duration;
    options.flight = args.flight.then_some(Flight { keep: args.keep });
    options.on_slices = args.on_slice.clone();
    options.kernel = !args.no_kernel;
    options.memory = args.memory;
    options.buffer_mb = args.buffer_mb;
    options.ring_mb = args.ring_mb;
    options.keep_free = args.keep_free.map(|mib| mib << 20);
    options.discard = args.discard;
    options.irq = args.irq;
    options.syscalls = args.syscalls;
    options.events = Selections::load()?
        .resolve(&args.events)?
        .into_iter()
        .map(|(event, _)| event.replacen('/', ":", 1))
        .collect();
    options.locks = args.locks.map(|how| match how {
        Locks::Full => LockProbe::Full,
        Locks::Light => LockProbe::Light,
    });
    options.openmp = args.openmp;
    options.annotated.extend(args.itt.then_some(Annotated::Itt));
    options.annotated.extend(args.nvtx.then_some(Annotated::Nvtx));
    options.lock_functions = args.lock_function.clone();
    options.usdt = args.usdt.clone();
    options.usdt_limit = args.usdt_limit;
    options.budget = args.budget;
    options.stacks = match args.stacks {
        Some(HowStacks::Off) => Stacks::Off,
        Some(HowStacks::On) => Stacks::On,
        Some(HowStacks::Deep) => Stacks::Deep,
        // Their buffers take up to 8 MiB for each CPU.
        None if args.memory.is_some() => Stacks::Off,
        None => Stacks::On,
    };
    options.pack = !args.no_pack;
    if let Some(dir) = std::env::var_os("KASURI_SHM_DIR") {
        options.shm_dir = PathBuf::from(dir);
    }
    Ok(options)
}

/// Refuses what cannot go to standard output.
fn can_be_piped(args: &Args) -> anyhow::Result<()> {
    if args.flight {
        bail!("-o - holds one recording, and --flight saves several: name a file")
    }
    if args.no_pack {
        bail!("-o - holds one file, and --no-pack leaves a directory: name a file")
    }
    if args.check_overhead {
        bail!("-o - holds one recording, and --check-overhead makes several: name a file")
    }
    if std::io::stdout().is_terminal() {
        bail!(
            "a recording is no text for a terminal: `kasuri record -o - ... > FILE`, or name a file with -o"
        )
    }
    Ok(())
}

/// `2%`, `0.5 %` or `2`: a share of 1.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("write a percentage above 0 and up to 100, as in 2%".to_owned()),
    }
}

/// The costs of the events to be recorded on this machine: remembered; else, or with `anew`, measured now. A recording without them only lacks its
/// own price, so nothing here is an error.
fn unit_costs(options: &Options, quiet: bool, anew: bool) -> UnitCosts {
    let mut wanted = vec![ANNOTATION.to_owned()];
    if options.kernel {
        let events = options.kernel_events().into_iter().map(|(name, _)| name);
        wanted.extend(events.filter(|name| !name.ends_with("/*")));
    }
    let mut costs = Costs::load();
    if anew {
        costs.age();
    }
    if !costs.missing(&wanted).is_empty()
        && let Ok(place) = crate::lab::Place::new(None)
    {
        let lacked = costs.lack(&wanted);
        if !quiet && lacked {
            message::note("measuring what tracing costs on this machine: a few seconds, once");
        }
        let bench = Bench {
            cpu: place.cpu,
            worker: place.worker.clone(),
            scratch: place.scratch.path().to_owned(),
            shm_dir: place.shm_dir.clone(),
        };
        // Without tracefs the annotations' cost is still learnt.
        let _ = learn(&mut costs, &wanted, &bench);
        if !costs.store() && lacked && !quiet {
            message::note(
                "it cannot be remembered and will be measured again: name a directory of yours in XDG_CACHE_HOME",
            );
        }
    }
    UnitCosts { parallel: kasuri_lab::parallel::for_recording(), ..costs.of(&wanted) }
}

/// The file's name when none was given.
fn default_name(target: &Target) -> String {
    let stem = match target {
        Target::Process(pid) => pid.to_string(),
        Target::Program(command) | Target::System(command) => match command.first() {
            Some(program) => Path::new(program)
                .file_name()
                .map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned()),
            None => "system".to_owned(),
        },
    };
    format!("{stem}.kasuri")
}

fn could_not_begin(error: Error) -> ExitCode {
    let code = match error {
        Error::ProgramNotFound { .. } => exit::NOT_FOUND,
        Error::ProgramNotRunnable { .. } => exit::CANNOT_RUN,
        _ => exit::RECORDER_FAILED,
    };
    message::error(&anyhow::Error::new(error));
    ExitCode::from(code)
}

/// A program that failed says so; a recording that failed must not look like success.
fn exit_code(summary: &Summary) -> ExitCode {
    match (summary.exit_status, &summary.failure) {
        (Some(status), None) => ExitCode::from(status as u8),
        (Some(status), Some(_)) if status != 0 => ExitCode::from(status as u8),
        (_, Some(_)) => ExitCode::from(exit::RECORDER_FAILED),
        (None, None) => ExitCode::SUCCESS,
    }
}

fn summary_line(summary: &Summary) -> String {
    let megabytes = summary.bytes as f64 / 1e6;
    let place = match (summary.files.last(), &summary.dir) {
        (Some(file), _) if output::is_standard(file) => "standard output".to_owned(),
        (Some(file), _) => file.display().to_string(),
        (None, Some(dir)) => dir.display().to_string(),
        (None, None) => "nothing kept".to_owned(),
    };
    let lost = summary.losses.to_string();
    let events = match summary.files.is_empty() {
        true => String::new(),
        false => format!(
            "{} kernel events, {} annotations, ",
            summary.kernel_events, summary.annotation_events
        ),
    };
    let budget = summary.budget.map_or(String::new(), |(share, changes)| {
        // Nothing costs more than all there was: such an estimate is none.
        let cost = match share {
            ..=1.0 => format!("kernel events cost {:.2} % of the CPU time used", share * 100.0),
            _ => "what kernel events cost is not known".to_owned(),
        };
        format!("; {cost}, switched {changes} times to keep the budget")
    });
    format!("{place}: {events}{megabytes:.1} MB, {lost}{budget}")
}

/// Turns notices into messages and a progress bar.
struct Reporter {
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl Reporter {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Warning(text) => message::warning(text),
            _ if self.quiet => {}
            Notice::Started { missing } => {
                missing.iter().for_each(|text| message::warning(format_args!("missing: {text}")))
            }
            Notice::Note(text) => message::note(text),
            Notice::Packing { done, total } => self.progress(done, total),
            Notice::Saved(path) => {
                self.close_bar();
                message::note(format_args!("saved {}", path.display()));
            }
            _ => {}
        }
    }

    /// indicatif draws nothing when stderr is no terminal.
    fn progress(&mut self, done: u64, total: u64) {
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) =
                ProgressStyle::with_template("packing {bar:30} {bytes} of {total_bytes}")
            {
                bar.set_style(style);
            }
            bar
        });
        bar.set_position(done);
    }

    fn close_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// `render=50ms`: a slice and the time that is too long for it. A name may have a `=` of its own.
fn on_slice(text: &str) -> Result<OnSlice, String> {
    let (name, least) = text
        .rsplit_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("write NAME=TIME, as in render=50ms")?;
    Ok(OnSlice { name: name.to_owned(), least: duration(least)? })
}

/// "16M", "1G": bytes of memory.
fn memory(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.trim_end_matches(['B', 'i']) {
        text if text.ends_with(['M', 'm']) => (&text[..text.len() - 1], 1u64 << 20),
        text if text.ends_with(['G', 'g']) => (&text[..text.len() - 1], 1 << 30),
        _ => return Err("write a number of MiB or GiB, as in 16M".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "write a number of MiB or GiB, as in 16M".to_owned())?;
    match number.checked_mul(unit) {
        Some(bytes) if bytes >= 8 << 20 => Ok(bytes),
        Some(_) => Err("a recording takes at least 8M".to_owned()),
        None => Err("so much memory does not exist".to_owned()),
    }
}

/// "5s", "500ms", "2m", "5" (seconds).
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!("unknown unit {unit:?}; use ms, s, m or h, as in 500ms"));
        }
    };
    let seconds: f64 = number.parse().map_err(|_| "not a time; write 5s or 500ms".to_owned())?;
    match Duration::try_from_secs_f64(seconds * factor) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("must be more than zero and less than 500 billion years".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(
            duration("0s").is_err() && duration("s").is_err() && duration("5 parsecs").is_err()
        );
        assert!(duration("1e400").is_err() && duration("-1s").is_err());
    }

    #[test]
    fn memory_has_units() {
        assert_eq!(memory("16M"), Ok(16 << 20));
        assert_eq!((memory("1G"), memory("8MiB")), (Ok(1 << 30), Ok(8 << 20)));
        for wrong in ["16", "7M", "M", "", "1T", "99999999999999G", "-9M", "éM"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn budgets_are_percentages() {
        assert_eq!(percent("2%"), Ok(0.02));
        assert_eq!(percent("0.5 %"), Ok(0.005));
        assert!(percent("0").is_err() && percent("101%").is_err() && percent("nan").is_err());
    }

    #[test]
    fn the_file_is_named_after_what_is_recorded() {
        let program = |p: &str| Target::Program(vec![p.into()]);
        assert_eq!(default_name(&program("./bin/quake")), "quake.kasuri");
        assert_eq!(default_name(&Target::Process(7)), "7.kasuri");
        assert_eq!(default_name(&Target::System(vec![])), "system.kasuri");
    }
}
