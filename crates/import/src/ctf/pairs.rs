//! Gives user-space events a meaning by their names.
//!
//! CTF has no slices, only events. Three kinds of names are understood; any other event is an instant:
//!
//! - providers of LTTng's own libraries: `lttng_ust_tracef`, `lttng_ust_pthread`, `lttng_ust_cyg_profile`;
//! - the provider `kasuri`, which Kasuri's export writes;
//! - pairs: `NAME_begin` and `NAME_end` make slices `NAME`, likewise `_entry` and `_exit`, `_start` and `_stop`,
//!   `_enter` and `_leave`, `_entry` and `_return`. Both names must be in the metadata: an event that merely ends in
//!   `_start` stays an instant.
use kasuri_base::annotation::Kind;
use kasuri_format::ctf::{EventLayout, Layout};
use kasuri_model::{StrIx, Strings};
use std::collections::HashSet;

/// The effect of an event on its thread. Numbers are indices of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// A point in time.
    Instant,
    /// A point in time whose name is the text of this field.
    Message(u32),
    /// A slice begins.
    Begin,
    /// The innermost slice of the same name ends.
    End,
    /// A function was entered: a slice named after the address in this field.
    Call(u32),
    /// A function returned.
    Return,
    /// An annotation of Kasuri's export.
    Own(Kind),
    /// A step of a lock. Fields: the lock, and the result, if there is one; anything but 0 is a failure.
    Lock(LockStep, u32, Option<u32>),
}

/// The steps of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LockStep {
    Request,
    Acquired,
    Tried,
    Released,
}

/// The meaning of an event, and its names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub meaning: Meaning,
    /// The name of the slice or instant.
    pub name: StrIx,
    /// The event's own name, used where the meaning does not apply.
    pub plain: StrIx,
}

/// Endings of names that make slices.
const PAIRS: [(&str, &str); 5] = [
    ("_begin", "_end"),
    ("_entry", "_exit"),
    ("_start", "_stop"),
    ("_enter", "_leave"),
    ("_entry", "_return"),
];

/// The meanings of all events of a trace, by stream class and event.
pub(super) fn meanings(layout: &Layout, strings: &mut Strings) -> Vec<Vec<Named>> {
    let events = || layout.streams.iter().flat_map(|s| &s.events);
    let names: HashSet<&str> = events().map(|e| e.name.as_str()).collect();
    let streams = layout.streams.iter().map(|stream| {
        let events = stream.events.iter();
        events.map(|e| meaning(e, &names, strings)).collect()
    });
    streams.collect()
}

/// The meaning of one event. `names`: those of all events of the trace.
fn meaning(event: &EventLayout, names: &HashSet<&str>, strings: &mut Strings) -> Named {
    let name = event.name.as_str();
    let plain = strings.intern(name);
    let field = |name: &str| event.program.leaf(name);
    let own = own_provider(name, &field);
    if let Some(meaning) = own {
        let name = StrIx::NONE;
        return Named { meaning, name, plain };
    }
    for (first, last) in PAIRS {
        for (suffix, other, meaning) in [(first, last, Meaning::Begin), (last, first, Meaning::End)]
        {
            if let Some(base) = name.strip_suffix(suffix).filter(|base| !base.is_empty())
                && names.contains(format!("{base}{other}").as_str())
            {
                let name = strings.intern(base);
                return Named { meaning, name, plain };
            }
        }
    }
    Named { meaning: Meaning::Instant, name: plain, plain }
}

/// The meaning of events of LTTng's libraries and of Kasuri's export; none: another provider.
fn own_provider(name: &str, field: &dyn Fn(&str) -> Option<u32>) -> Option<Meaning> {
    let (provider, event) = name.split_once(':')?;
    let lock = |step| Some(Meaning::Lock(step, field("mutex")?, field("status")));
    match (provider, event) {
        ("lttng_ust_tracef", "event") => Some(Meaning::Message(field("msg")?)),
        ("lttng_ust_tracelog", _) => Some(Meaning::Message(field("msg")?)),
        ("lttng_ust_cyg_profile" | "lttng_ust_cyg_profile_fast", "func_entry") => {
            Some(Meaning::Call(field("addr")?))
        }
        ("lttng_ust_cyg_profile" | "lttng_ust_cyg_profile_fast", "func_exit") => {
            Some(Meaning::Return)
        }
        ("lttng_ust_pthread", "pthread_mutex_lock_req") => lock(LockStep::Request),
        ("lttng_ust_pthread", "pthread_mutex_lock_acq") => lock(LockStep::Acquired),
        ("lttng_ust_pthread", "pthread_mutex_trylock") => lock(LockStep::Tried),
        ("lttng_ust_pthread", "pthread_mutex_unlock") => lock(LockStep::Released),
        ("kasuri", event) => own_kind(event).map(Meaning::Own),
        _ => None,
    }
}

/// The annotation behind an event of Kasuri's export (crates/export/src/ctf/user.rs).
fn own_kind(event: &str) -> Option<Kind> {
    Some(match event {
        "slice_begin" => Kind::Begin,
        "slice_end" => Kind::End,
        "instant" => Kind::Instant,
        "counter" => Kind::Counter,
        "wait_begin" => Kind::WaitBegin,
        "wait_end" => Kind::WaitEnd,
        "lock_request" => Kind::LockRequest,
        "lock_acquired" => Kind::LockAcquired,
        "lock_released" => Kind::LockReleased,
        "lock_given_up" => Kind::LockGivenUp,
        "flow_out" => Kind::FlowOut,
        "flow_in" => Kind::FlowIn,
        "arg_int" | "arg_uint" | "arg_float" | "arg_text" => Kind::Arg,
        "thread_name" => Kind::ThreadName,
        _ => return None,
    })
}
