//! Tests of the analyses from outside: one program, which is linked once.
mod account;
mod call_paths;
mod golden;
mod lock_tables;
mod locks;
mod openmp;
mod openmp_graph;
mod planted;
mod task_graph;
