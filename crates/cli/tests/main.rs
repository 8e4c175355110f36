//! Tests of the command from outside, but for those of recording, which are in record: one program, which is linked once.
mod answers;
mod bench;
mod cli;
mod collector;
mod columns;
mod crowd;
mod crowds;
mod events;
mod flight;
mod fold;
mod lock_sources;
mod locks;
mod mcp;
mod memory;
mod merge;
mod names;
mod openmp;
mod planted;
mod price;
mod program;
mod referee;
mod remedies;
mod run;
mod sample;
mod screens;
#[path = "record/support.rs"]
#[allow(dead_code, reason = "tests of recording use the rest of it")]
mod support;
mod symbolize;
mod tables;
mod top;
mod unknown;
mod usdt;
mod view;
mod writers;
