//! Tests of the prediction from outside: one program, which is linked once.
mod deadlocks;
mod extract;
mod plan;
mod referee;
mod refusal;
mod reliable;
mod spinning;
mod tasks_at_barriers;
