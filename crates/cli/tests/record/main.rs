//! `kasuri record`, `recover` and `doctor` end to end: real programs, a real kernel, real kills.
mod cpu_time;
mod crash;
mod ends;
mod exports;
mod hostile;
mod ito;
mod kills;
mod limits;
mod modes;
mod namespaces;
mod programs;
mod shadow;
mod stacks;
mod strangers;
mod support;
mod throttled;
mod waits;
