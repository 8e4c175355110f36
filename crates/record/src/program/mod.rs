//! The program that is recorded: starts it, and reads the system's information about its processes.
//!
//! | module | does |
//! |---|---|
//! | `child` | starts a program, held until recording has begun |
//! | `code_files` | the files whose code a program runs |
//! | [`inherited`] | signals that it changes for itself and gives back to the program |
//! | `signals` | the signals that end a recording, or are passed on |
//! | [`procs`] | processes and threads, out of /proc |
//! | `ends` | what its threads do at the end, and for whom they wait |
//! | `namespaces` | programs in pid name spaces of their own |
//! | `limits` | CPU limits, cpusets, affinity |
//! | [`preloaded`] | libraries that `kasuri try` puts in front of a program |
//! | [`locks`] | the lock probe's library |
//! | [`ito`] | the library of light threads, and which programs cannot have them |
//! | `openmp` | the OpenMP probe's |
//! | `compilers` | the plugins of kasuri-annotate |
//! | `collector` | of programs annotated with ITT or NVTX |
//! | `preload` | where such libraries are, and how the loader comes to know them |
pub(crate) mod child;
pub(crate) mod code_files;
pub(crate) mod collector;
pub(crate) mod compilers;
pub(crate) mod ends;
pub mod inherited;
pub mod ito;
pub mod libraries;
pub(crate) mod limits;
pub mod locks;
pub(crate) mod namespaces;
pub(crate) mod openmp;
pub(crate) mod preload;
pub mod preloaded;
pub mod procs;
pub(crate) mod signals;
#[cfg(test)]
mod tests;
