//! Recording: kernel events and annotations -> a recording directory -> one `.kasuri` file.
//!
//! [`record`] makes a recording, [`recover`] saves one whose recorder was killed, [`doctor::examine`] says
//! what a machine allows. Nothing here prints or exits: progress and messages are [`Notice`]s.
//!
//! | module | does |
//! |---|---|
//! | `recorder` | a recording from start to end |
//! | `kernel` | chooses tracefs, perf or nothing |
//! | [`tracefs`] | private instances, raw pages |
//! | [`selection`] | named selections of events |
//! | [`governor`], `budget` | which events are on so that they stay within a budget |
//! | [`perf`] | context switches without privileges |
//! | [`session`], `rings`, `ringfile` | annotations out of shared memory |
//! | [`costs`] | what waking, sleeping and sharing data cost on this machine |
//! | `namespaces` | programs in pid name spaces of their own |
//! | `limits` | CPU limits, cpusets, affinity |
//! | `attach` | annotations of a running program |
//! | [`directory`], [`pack`] | the files |
//! | [`safefs`], `sigbus`, `bounds` | what keeps strangers out |
mod attach;
mod bounds;
mod budget;
mod child;
pub mod clock;
pub mod costs;
pub mod directory;
mod discover;
pub mod doctor;
mod error;
mod flight;
pub mod governor;
pub mod host;
mod kernel;
mod limits;
pub mod locks;
mod losses;
mod namespaces;
mod options;
pub mod output;
pub mod pack;
pub mod perf;
pub mod prim;
pub mod procs;
mod quote;
mod recorder;
mod recover;
mod ringfile;
mod rings;
pub mod safefs;
pub mod selection;
pub mod session;
mod shm;
mod sigbus;
mod signals;
mod symbols;
mod testhook;
pub mod tracefs;
pub mod uprobes;

pub use error::{Error, Result};
pub use losses::Losses;
pub use options::{Flight, LockProbe, Options, Target, UnitCosts};
pub use quote::shell_word;
pub use recorder::{LeftInRings, Notice, Notify, Summary, children_cpu_ns, record};
pub use recover::{Recovered, recover};

/// A number nobody guesses, for names.
fn random_u32() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    // RandomState is seeded by the system and differs at each call.
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish() as u32
}
