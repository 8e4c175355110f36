//! The files of a recording: the directory while it is made, the packed file afterwards.
//!
//! | module | does |
//! |---|---|
//! | [`directory`] | the recording directory |
//! | [`pack`] | the directory into one `.kasuri` file |
//! | `divide` | frames whose memory had several functions in turn |
//! | `recover` | what a killed recorder left |
//! | `stream` | a recording that is sent while it is made |
//! | [`remote`] | its way to another machine |
//! | [`output`] | how any command writes the file that its user named |
//! | [`symbolize`] | names added to a packed file |
//! | `symbols` | names of the locks and calls that probes reported |
//! | `places` | names of the places that probes reported, with their lines |
pub mod directory;
mod divide;
pub mod output;
pub mod pack;
pub(crate) mod places;
pub(crate) mod recover;
pub mod remote;
pub(crate) mod stream;
pub mod symbolize;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
