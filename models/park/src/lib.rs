//! Parking ([`park`], `threads/src/core/park.c`), the cancellation of waits ([`look`], `threads/pthread/cancel.c`),
//! workers that are taken from threads which wait ([`lent`], `threads/pthread/look.c`), and the queue in front of a
//! mutex ([`ticket`], `probes/mutex/mutex.c`): every schedule of them, on the machine of the deque's model.

pub mod lent;
pub mod look;
pub mod park;
pub mod ticket;
