//! Switching tracers on and off around a batch of operations; the kernel is left as it was found.
use crate::config::{Config, Kind};
use crate::error::{Error, Result};
use kasuri_record::clock::StampClock;
use kasuri_record::safefs::Held;
use kasuri_record::tracefs::{Catalogue, Drain, Instance, InstanceOptions, Tracefs};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Buffer of each CPU, KiB: it holds a batch of the worst configuration.
const BUFFER_KB: u64 = 16 * 1024;

/// A private instance with its files, all events off.
#[derive(Debug)]
pub struct Kernel {
    catalogue: Catalogue,
    drain: Option<Drain>,
    /// The instance.
    pub instance: Instance,
}

impl Kernel {
    /// Makes the instance; tracing is on, events are off.
    ///
    /// # Errors
    /// When the kernel has no tracefs for us.
    pub fn open() -> Result<Kernel> {
        let tracefs =
            Tracefs::open().map_err(|u| Error::Unavailable { why: u.why, remedy: u.remedy })?;
        kasuri_record::tracefs::reap_dead(&tracefs);
        let options = InstanceOptions {
            buffer_kb: BUFFER_KB,
            tsc: StampClock::choose() == StampClock::Native,
            events: Vec::new(),
            uprobes: Vec::new(),
        };
        let refused = |what: &str| {
            let what = what.to_owned();
            move |source| Error::Tracefs { what, source }
        };
        let instance = Instance::create(&tracefs, &options).map_err(refused("make an instance"))?;
        let catalogue = Catalogue::open(instance.dir()).map_err(refused("open events"))?;
        instance.set_tracing(true).map_err(refused("switch tracing on"))?;
        Ok(Kernel { catalogue, drain: None, instance })
    }

    /// The events of this kernel.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Switches `events` on and sends their records to files in `dir`.
    ///
    /// # Errors
    /// When the kernel refuses. Events that it does not have are left out.
    pub fn switch_on(&mut self, events: &[String], dir: &Path) -> Result<()> {
        self.new_files(dir)?;
        for event in events {
            match self.catalogue.enable(event, true) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Tracefs { what: format!("switch {event} on"), source: e });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Switches every event on.
    ///
    /// # Errors
    /// As [`Kernel::on`].
    pub fn all_on(&mut self, dir: &Path) -> Result<()> {
        self.switch_on(&[], dir)?;
        self.catalogue
            .enable_all()
            .map_err(|source| Error::Tracefs { what: "switch all events on".to_owned(), source })
    }

    /// Moves the written pages to the files. Called between batches, so that a batch finds room and writes to fresh
    /// pages, as it does while a recorder drains.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn drain(&mut self) -> Result<()> {
        if let Some(drain) = &mut self.drain {
            drain.full_pages()?;
        }
        Ok(())
    }

    /// Begins new files in `dir`; the content of the buffers goes to the previous files.
    ///
    /// # Errors
    /// When the files cannot be made.
    pub fn new_files(&mut self, dir: &Path) -> Result<()> {
        let i = &self.instance;
        let dir = Held::open(dir).map_err(|e| Error::File(dir.to_owned(), e))?;
        self.drain = Some(Drain::open(i.dir(), &i.cpus, i.page_bytes, &dir)?);
        Ok(())
    }

    /// Moves everything that was written into the files, the last page of each CPU too; events stay on.
    ///
    /// # Errors
    /// When the kernel refuses or the files cannot be written.
    pub fn drain_rest(&mut self) -> Result<()> {
        let refused = |source| Error::Tracefs { what: "pause".to_owned(), source };
        self.instance.set_tracing(false).map_err(refused)?;
        if let Some(mut drain) = self.drain.take() {
            drain.rest()?;
        }
        self.instance.set_tracing(true).map_err(refused)
    }

    /// Switches everything off and empties the buffers.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn off(&mut self) -> Result<()> {
        self.catalogue
            .disable_all()
            .map_err(|source| Error::Tracefs { what: "switch events off".to_owned(), source })?;
        self.drain()?;
        self.drain = None;
        Ok(())
    }
}

/// Number of times that another tracer is started before it is left out.
const STARTS: u32 = 3;

/// Another tracer while it runs; ended when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
}

impl Peer {
    /// Starts it and waits until it has had time to switch its events on. One that ends at once is started again: trace-cmd 3.1 dies of
    /// SIGSEGV in one of some tens of starts.
    ///
    /// # Errors
    /// When it cannot be run, or ends at once again and again.
    pub fn start(config: &Config, command: &str, settle: Duration) -> Result<Peer> {
        let mut started = Peer::start_once(config, command, settle);
        for _ in 1..STARTS {
            if started.is_ok() {
                break;
            }
            started = Peer::start_once(config, command, settle);
        }
        started
    }

    fn start_once(config: &Config, command: &str, settle: Duration) -> Result<Peer> {
        let failed = |why: String| Error::Command { name: config.name.clone(), why };
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A separate process group: SIGINT goes to all processes of the tracer.
            .process_group(0);
        // SAFETY: signal() is async-signal-safe and touches nothing of the parent's.
        unsafe {
            shell.pre_exec(|| {
                // A job in the background ignores SIGINT and passes that on, but SIGINT is how the tracer is ended.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let child = shell.spawn().map_err(|e| failed(e.to_string()))?;
        let mut peer = Peer { child };
        std::thread::sleep(settle);
        match peer.child.try_wait() {
            Ok(None) => Ok(peer),
            Ok(Some(status)) => {
                // Processes that the tracer left behind would hold its buffers. Their group outlives it; without them
                // the group does not exist.
                // SAFETY: no process of ours is in that group.
                unsafe { libc::kill(-(peer.child.id() as i32), libc::SIGKILL) };
                Err(failed(format!("`{command}` ended at once ({status})")))
            }
            Err(e) => Err(failed(e.to_string())),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let group = -(self.child.id() as i32);
        // SAFETY: the child has not been waited for, so the group is still its own.
        unsafe { libc::kill(group, libc::SIGINT) };
        for _ in 0..1000 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: as above.
        unsafe { libc::kill(group, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// The tracer that is switched on; switched off when dropped or by [`On::off`].
#[derive(Debug)]
pub enum On<'a> {
    /// Nothing.
    Nothing,
    /// Kernel events.
    Kernel(&'a mut Kernel),
    /// Another tracer.
    Peer(#[allow(dead_code, reason = "held for its Drop")] Peer),
}

/// Switches a configuration on.
///
/// # Errors
/// When it cannot be.
pub fn switch_on<'a>(
    config: &Config,
    kernel: Option<&'a mut Kernel>,
    dir: &Path,
    settle: Duration,
) -> Result<On<'a>> {
    match (&config.kind, kernel) {
        (Kind::Events(events), Some(kernel)) => {
            kernel.switch_on(events, dir)?;
            Ok(On::Kernel(kernel))
        }
        (Kind::All, Some(kernel)) => {
            kernel.all_on(dir)?;
            Ok(On::Kernel(kernel))
        }
        (Kind::Command(command), _) => Ok(On::Peer(Peer::start(config, command, settle)?)),
        _ => Ok(On::Nothing),
    }
}

impl On<'_> {
    /// Moves the written pages to the files; called between batches.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn drain(&mut self) -> Result<()> {
        match self {
            On::Kernel(kernel) => kernel.drain(),
            _ => Ok(()),
        }
    }

    /// Switches it off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn off(self) -> Result<()> {
        match self {
            On::Kernel(kernel) => kernel.off(),
            _ => Ok(()),
        }
    }
}
