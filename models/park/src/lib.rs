//! Parking ([`park`], `threads/src/park.c`) and the biased lock of the ready queue ([`biased`], `threads/src/queue.c`),
//! every schedule of them, on the machine of the deque's model.

pub mod biased;
pub mod park;
