//! Tests of the exports: one program, which is linked once.
mod chrome;
mod common;
mod ctf;
mod firefox;
mod paraver;
mod perfetto;
mod pprof;
mod profile_round_trip;
mod round_trip;
mod sched_round_trip;
mod speedscope;
mod weights;
mod wire;
