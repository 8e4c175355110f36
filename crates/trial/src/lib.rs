//! Runs commands in turns and says which is faster, by how much, and with what certainty.
//!
//! | module | does |
//! |---|---|
//! | [`paired`] | differences of pairs -> estimate, interval, p: the exact signed-rank test |
//! | [`race`] | arms in random blocks, dropped early, claimed by rule; knows no process |
//! | [`line`](mod@line) | a command with its environment: read from a line, shown as one |
//! | [`process`] | one run of a line: times, what the kernel counted, its output |
//! | [`remedy`] | what an account makes plausible -> things to try |
//!
//! Nothing here prints or exits. Nothing is changed on the machine: a line is an environment and words in front of a program, and
//! whatever it started is ended before the next begins.
pub mod line;
pub mod paired;
pub mod process;
pub mod race;
pub mod remedy;
