//! Recording: kernel events and annotations -> a recording directory -> one `.kasuri` file.
//!
//! [`record`] makes a recording, [`recover`] saves one whose recorder was killed, [`doctor::examine`] reports which
//! sources a machine allows. Nothing here prints or exits: progress and messages are [`Notice`]s.
//!
//! | module | contents |
//! |---|---|
//! | `recorder`, `flight` | a recording from start to end; the flight recorder |
//! | `tap` | the scheduler's events for whoever follows them live |
//! | `kernel` | kernel events: tracefs, perf, uprobes, selections |
//! | `rings` | annotations: the session in shared memory, its ring files, the collector, attaching |
//! | `stacks` | call paths: samples of what threads run |
//! | `budget` | the choice of the kernel events that are on, so that they stay within a budget |
//! | `program` | the program: its process, name spaces, CPU limits |
//! | `files` | the recording directory, packing, recovering, the output file |
//! | `names` | functions, files and lines of call paths, read by a process of its own |
//! | `guard` | access to files and mappings that other users may change; bounds |
//! | `prim` | everything that depends on the CPU |
//!
//! A module uses those after it in this order: recorder and tap, files, names, stacks, budget, kernel and rings, program, guard. Public
//! modules are re-exported at the root of the crate, so that callers need not know the modules.
mod budget;
pub mod clock;
pub mod doctor;
mod error;
mod files;
mod flight;
mod guard;
pub mod host;
mod kernel;
mod live;
mod losses;
pub mod names;
mod notice;
mod options;
pub mod prim;
mod program;
mod random;
mod recorder;
mod rings;
mod sent;
mod stacks;
pub mod tap;
mod testhook;

pub use budget::governor;
pub use error::{Error, Result};
pub use files::{
    directory, output, pack,
    recover::{Recovered, recover},
    remote, symbolize,
};
pub use guard::safefs;
pub use kernel::{perf, selection, tracefs, uprobes, usdt};
pub use losses::Losses;
pub use notice::{LeftInRings, Notice, Notify, Summary};
pub use options::{
    Annotated, Flight, KEEP_FREE, LockProbe, OnSlice, Options, Stacks, Target, To, USDT_LIMIT,
    UnitCosts,
};
pub use program::{inherited, ito, libraries, locks, preloaded, procs, signals::is_ignored};
pub use recorder::{children_cpu_ns, may_record, record};
pub use rings::session;
