//! Annotations: from the shared memory of programs to files of the recording directory.
//!
//! | module | does |
//! |---|---|
//! | [`session`] | the directory through which programs and recorder meet |
//! | `attach` | switches on the annotations of a running program |
//! | `discover` | finds ring files, however many others lie there |
//! | `openchunk` | a chunk that its owner is still writing |
//! | `ringfile` | one ring file: its chunks, their states |
//! | `slices` | finds slices that take too long while they are written |
//! | `shm` | shared memory that strangers write |
//! | `collector` | copies full chunks to files and frees them |
pub(crate) mod attach;
pub(crate) mod collector;
pub(crate) mod discover;
pub(crate) mod openchunk;
pub(crate) mod ringfile;
pub mod session;
pub(crate) mod shm;
pub(crate) mod slices;
#[cfg(test)]
mod tests;
