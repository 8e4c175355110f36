//! Tests of names and probes in real files: one program, which is linked once.
mod names;
mod usdt;
