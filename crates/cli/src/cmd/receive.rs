//! `kasuri receive`: takes a recording that another machine sends while it is made.
use crate::message;
use anyhow::{Context, bail};
use kasuri_record::output::{self, Readers};
use kasuri_record::remote::{End, Key, Sender};
use kasuri_record::{KEEP_FREE, host};
use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender as Channel};

const EXAMPLES: &str = "\
Examples:
  kasuri receive --key board.key -o board.kasuri    makes the key when there is none, waits for one recording
  kasuri record --to desk:7117 --key board.key -- ./program    on the board, with a copy of the key

A recording that is cut short, by Ctrl-C, or because the connection broke or the board lost its power, is kept as far as it came; then the exit status is 1.";

/// Connections that are being answered; more wait in the kernel's queue or are refused.
const GREETINGS: usize = 16;

/// Receive a recording that another machine sends (`kasuri record --to`).
///
/// For machines without room for a recording: it is sent while it is made. Both machines have the same key; without it nobody can leave a
/// recording, and nobody on the way can read it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File with the key; made when there is none
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Write the recording to FILE
    #[arg(short, long, value_name = "FILE", default_value = "received.kasuri")]
    output: PathBuf,

    /// Wait for it at this address of this machine
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:7117")]
    listen: SocketAddr,

    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Receives one recording.
///
/// # Errors
/// When the key, the address or the file cannot be used, or nothing that came can be read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let key = key(&args.key, true)?;
    if let Err(why) = output::kind(&args.output) {
        bail!("cannot write {}: {why}", args.output.display());
    }
    let listener = TcpListener::bind(args.listen);
    let listener = listener.with_context(|| format!("cannot wait at {}", args.listen))?;
    let address = listener.local_addr()?;
    if !args.quiet {
        message::note(format_args!(
            "waiting for a recording at {address}; on the other machine, with a copy of {0}: `kasuri record --to HOST:{1} --key {0} -- PROGRAM`",
            kasuri_base::words::shell_word(&args.key),
            address.port()
        ));
    }
    let mut sender = first_with_the_key(listener, &key)?;
    let name = args.output.display();
    let interrupted = end_on_signals(&sender)?;
    let taken = take(&mut sender, &args.output);
    let told = match &taken {
        Ok(_) => Ok(()),
        Err(e) => Err(message::causes(e)),
    };
    let is_whole = matches!(taken, Ok(End::Whole));
    if is_whole || told.is_err() {
        // Gone by now: its recorder says so itself.
        let _ = sender.tell(&told);
    }
    let megabytes = sender.bytes as f64 / 1e6;
    if let End::Cut(mut why) = taken? {
        // ORDER relaxed: set before the connection was shut down, which is what `take` has seen.
        if interrupted.load(Ordering::Relaxed) {
            why = io::Error::other("it was interrupted");
        }
        save(&args.output).with_context(|| format!("{name}: nothing of it can be read"))?;
        message::warning(format_args!(
            "the recording was cut after {megabytes:.1} MB: {why}; {name} has what came"
        ));
        return Ok(ExitCode::FAILURE);
    }
    if !args.quiet {
        message::note(format_args!("{name}: {megabytes:.1} MB"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The key in a file; with `make`, a new one when there is none.
///
/// # Errors
/// When there is none.
pub fn key(path: &Path, make: bool) -> anyhow::Result<Key> {
    let found = Key::file(path, make);
    let found = found.with_context(|| format!("cannot use the key {}", path.display()))?;
    if found.is_open {
        message::warning(format_args!(
            "other users may read the key: `chmod 600 {}`",
            kasuri_base::words::shell_word(path)
        ));
    }
    if found.is_new {
        message::note(format_args!("made a key: {}", path.display()));
    }
    Ok(found.key)
}

/// Answers whoever connects, a few at a time, until one has the key.
fn first_with_the_key(listener: TcpListener, key: &Key) -> io::Result<Sender> {
    let (found, first): (Channel<io::Result<Sender>>, Receiver<_>) = mpsc::channel();
    let key = key.clone();
    let in_hand = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                // The other side has gone already, or no descriptor is free at the moment.
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    continue;
                }
            };
            // ORDER relaxed: a count; nothing else is handed over by it.
            if in_hand.fetch_add(1, Ordering::Relaxed) >= GREETINGS {
                // ORDER relaxed: as above.
                in_hand.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (found, key, in_hand) = (found.clone(), key.clone(), Arc::clone(&in_hand));
            std::thread::spawn(move || {
                match Sender::answer(stream, &key) {
                    Ok(sender) => {
                        let _ = found.send(Ok(sender));
                    }
                    Err(why) => message::note(format_args!("somebody was refused: {why}")),
                }
                // ORDER relaxed: as above.
                in_hand.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    let ended = |_| io::Error::other("the thread that waits has ended");
    first.recv().map_err(ended)?
}

/// From here on a signal that would end the command ends the recording, and what came is kept. Returns whether one came.
fn end_on_signals(sender: &Sender) -> anyhow::Result<Arc<AtomicBool>> {
    let (mut stop, stream) = (super::end_signals()?, sender.stream()?);
    let interrupted = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupted);
    std::thread::spawn(move || {
        if stop.read_exact(&mut [0]).is_ok() {
            // ORDER relaxed: see the load.
            told.store(true, Ordering::Relaxed);
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    Ok(interrupted)
}

/// Writes the recording to the file; also when it is cut.
fn take(sender: &mut Sender, output: &Path) -> anyhow::Result<End> {
    let failed = || format!("cannot write {}", output.display());
    let (mut file, pending) = output::create(output, Readers::Private).with_context(failed)?;
    let disk = file.try_clone().with_context(failed)?;
    // Without a buffer: what came is in the file, whatever happens to us.
    let end = sender.receive(&mut file, &|| room(&disk));
    let end = end.with_context(failed)?;
    file.sync_all().or_else(pipes_do_not).with_context(failed)?;
    pending.commit().with_context(failed)?;
    Ok(end)
}

/// A pipe or a device has nothing to synchronise.
fn pipes_do_not(e: io::Error) -> io::Result<()> {
    match e.kind() {
        io::ErrorKind::InvalidInput => Ok(()),
        _ => Err(e),
    }
}

/// Leaves others their part of the disk.
fn room(disk: &File) -> io::Result<()> {
    match host::free_on_disk(disk) {
        Some(free) if free < KEEP_FREE => Err(io::Error::other(format!(
            "only {} MB are free on the disk, and {} are to stay free",
            free >> 20,
            KEEP_FREE >> 20
        ))),
        _ => Ok(()),
    }
}

/// Makes a recording of what came of one.
fn save(output: &Path) -> anyhow::Result<()> {
    if output::kind(output).ok() != Some(output::Kind::File) {
        return Ok(());
    }
    kasuri_record::recover(output, Some(output), &super::shm_dir(), &mut |_| {})?;
    Ok(())
}
