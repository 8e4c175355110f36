//! `kasuri run --ito -- PROGRAM`: an unmodified program on light threads.
use crate::{exit, message};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Run a pthread program with light threads, unmodified
///
/// Each thread that the program creates becomes a light thread of ito: it costs a few KiB and no kernel thread, and while it
/// waits for a socket, a lock or a sleep, its worker runs others. It suits programs with many threads that wait, as a server
/// with a thread for each connection. The program's file is not changed.
///
/// A program that cannot be run so (static, Go, Java, musl, a sanitizer, set-user-id) is run with kernel threads, and the
/// reason is told. x86-64 and glibc only.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri run --ito -- ./server --port 8080
  kasuri run --ito --workers 2 --stats -- ./server   # and which calls waited

Exit status: the program's; 126 if it cannot be executed, 127 if it was not found; 1 if libito-pthread.so was not found.")]
pub struct Args {
    /// Light threads in place of kernel threads
    #[arg(long, required = true)]
    ito: bool,
    /// Kernel threads that run the light ones (default: one for each CPU that the program may use)
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroU32>,
    /// Print at the end which calls waited, and how many were handed over to another kernel thread
    #[arg(long)]
    stats: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Becomes the program.
///
/// # Errors
/// When the library is not found.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    debug_assert!(args.ito, "clap wants it");
    let mut command = kasuri_record::inherited::command(&args.command[0]);
    command.args(&args.command[1..]);
    let shown = args.command[0].display();
    match kasuri_record::ito::refusal(&args.command[0]) {
        Some(why) => message::note(format_args!("{shown} gets kernel threads: {why}")),
        None => {
            command.envs(kasuri_record::ito::environment()?);
        }
    }
    if let Some(workers) = args.workers {
        command.env("ITO_WORKERS", workers.to_string());
    }
    if args.stats {
        command.env("ITO_STATS", "1");
    }
    let error = command.exec();
    let kind = error.kind();
    message::error(&anyhow::anyhow!("cannot run {shown}: {error}"));
    Ok(ExitCode::from(if kind == ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_RUN }))
}
