//! Tests of the model from outside: one program, which is linked once.
mod annotate;
mod inner;
mod props;
mod rules;
mod sched;
