//! `kasuri predict FILE | -- PROGRAM`.
use crate::message;
use crate::open::Input;
use crate::output::Output;
use crate::program::ProgramArgs;
use crate::show::{layout, show};
use crate::source::Source;
use anyhow::Context;
use kasuri_analyze::Session;
use kasuri_model::{Info, Trace};
use kasuri_predict::{Machine, Options};
use kasuri_text::table::Layout;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Pairs of runs of --second-run, and for how long a further one may be begun: their spread is that of the range.
const PAIRS: usize = 3;
const PAIRS_BEGIN: Duration = Duration::from_secs(10);

/// Predict the speed-up on more CPUs
///
/// Replays the threads of a recording made on one CPU on 2 to 256 CPUs, with the locks they took, their waits for each other
/// and the cost of waking a thread on the machine that recorded. Prints what limits the speed-up at each number of CPUs, and what a change
/// would gain.
///
/// With -- PROGRAM, records the program on one CPU first. --second-run also records it on two CPUs, which shows how much slower
/// its code and its critical sections run there; its speed-up is then the answer for two CPUs, and others follow from it. A
/// program that is over within seconds runs three times on one CPU and on two, and the range has their spread.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri predict -- ./program 8                 records ./program on one CPU first
  kasuri predict --second-run -- ./program 8    more accurate: also a run on two CPUs
  kasuri predict one-cpu.kasuri
  kasuri predict --svg speedup.svg one-cpu.kasuri
  kasuri predict --json run.kasuri | jq '.points[] | [.cpus, .speedup]'")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    program: ProgramArgs,
    /// Also record PROGRAM on two CPUs; a short one, three times
    #[arg(long, requires = "program")]
    second_run: bool,
    /// Recording of the same program on more CPUs
    #[arg(long, value_name = "FILE", conflicts_with = "second_run")]
    second: Option<PathBuf>,
    /// Numbers of CPUs to predict for [default: 2 to 256]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Vec<u16>,
    /// Print JSON (schema kasuri.predict/1)
    #[arg(long)]
    json: bool,
    /// Also write the speed-up curve to OUT as SVG
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Use assumed costs instead of those that were measured
    #[arg(long)]
    other_machine: bool,
    /// Use the costs of another machine, from the output of --json there
    #[arg(long, value_name = "FILE", conflicts_with = "other_machine")]
    machine: Option<PathBuf>,
}

/// Predicts and prints.
///
/// # Errors
/// When there is no recording or it cannot be replayed.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let allowed = kasuri_record::host::allowed_cpus();
    // First: a wrong name is said before the program runs.
    let given = args.machine.as_deref().map(machine_of).transpose()?;
    let cpu = allowed.first().copied().unwrap_or(0);
    let (begin, mut again) = (Instant::now(), Vec::new());
    let mut trace = args.source.load(&|options| {
        options.cpus = vec![cpu];
        // Else a woken thread takes the CPU, and whether the one that woke it would have waited is not recorded.
        options.batch = true;
    })?;
    let name = args.source.name();
    (args.program).choose_or_say(&mut trace, "kasuri predict", &name)?;
    let second = match &args.second {
        Some(path) => {
            let mut second = Input::new(path.clone(), false).load()?;
            args.program.choose(&mut second, &path.display())?;
            Some(second)
        }
        None if args.second_run && allowed.len() < 2 => {
            message::warning("no second run: this process may use only one CPU");
            None
        }
        None if args.second_run => {
            let two: Vec<usize> = allowed.iter().copied().take(2).collect();
            let second = (args.source).record_again(&|options| options.cpus = two.clone())?;
            again = more_pairs(&args.source, &two, begin)?;
            Some(second)
        }
        None => None,
    };
    let costs = match given {
        Some(given) => given,
        None if args.other_machine => Machine::default(),
        None => machine(&trace),
    };
    let mut options = Options { machine: costs, again, ..Options::default() };
    if !args.cpus.is_empty() {
        options.cpus = args.cpus.iter().map(|&n| n.into()).collect();
        options.cpus.sort_unstable();
        options.cpus.dedup();
    }
    let whole = kasuri_analyze::Options::default();
    let session = Session::new(&trace, &whole);
    let there = second.as_ref().map(|trace| Session::new(trace, &whole));
    let prediction = kasuri_answers::predict::predict(&session, there.as_ref(), &options)
        .map_err(|why| anyhow::anyhow!("{}: cannot predict: {why}", args.source.name()))?;
    if let Some(path) = args.svg {
        let output = Output::to(path)?;
        output.write(|out| {
            out.write_all(kasuri_text::chart::curve::speedup(&prediction).as_bytes())
        })?;
    }
    show(&prediction, args.json, &layout(&trace, Layout::default().top))
}

/// Speed-ups of more runs on one CPU and on two, in turns.
fn more_pairs(source: &Source, two: &[usize], begin: Instant) -> anyhow::Result<Vec<f64>> {
    let mut out = Vec::new();
    for _ in 1..PAIRS {
        if begin.elapsed() > PAIRS_BEGIN {
            break;
        }
        let run = |cpus: &[usize]| source.record_again(&|options| options.cpus = cpus.to_vec());
        out.extend(kasuri_predict::speedup_of(&run(&two[..1])?, &run(two)?));
    }
    Ok(out)
}

/// The machine of an earlier answer.
fn machine_of(path: &std::path::Path) -> anyhow::Result<Machine> {
    let name = path.display();
    let text = std::fs::read(path).with_context(|| format!("{name}: cannot read"))?;
    let answer: serde_json::Value = serde_json::from_slice(&text)
        .with_context(|| format!("{name}: not JSON; `kasuri predict --json` writes it"))?;
    serde_json::from_value(answer["machine"].clone()).with_context(|| {
        format!("{name}: no `machine` with all costs; `kasuri predict --json` writes it")
    })
}

/// The machine that made a recording, as the recording has it; else this one, if it may be it, and if it can be measured;
/// else an assumed one.
pub fn machine(trace: &Trace) -> Machine {
    let here = || may_be_here(&trace.info).then(kasuri_lab::parallel::for_reading).flatten();
    let costs = trace.info.parallel_costs.or_else(here);
    costs.map_or_else(Machine::default, Machine::from)
}

/// Whether what a recording says of its machine is true of this one. Some formats say nothing.
fn may_be_here(info: &Info) -> bool {
    let here = kasuri_record::host::host();
    let pairs = [
        (&info.host, here.hostname),
        (&info.kernel, here.kernel),
        (&info.cpu_model, here.cpu_model),
    ];
    pairs.into_iter().all(|(there, here)| there.is_empty() || *there == here)
}
