//! What the categories of other tools' slices say, where they say what Kasuri knows: its own exports write these, and
//! other writers may.
use kasuri_base::annotation::{ArgType, Kind, LockMode, WaitKind};
use kasuri_model::input::Annotation;
use kasuri_model::{ArgValue, StrIx, Time};

/// What a slice of a category is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Category {
    /// Work: all that is not listed here.
    #[default]
    Work,
    /// A wait.
    Wait(WaitKind),
    /// From requesting a lock to acquiring it.
    LockWait,
    /// From acquiring it to releasing it.
    LockHold,
    /// The two ends of an arrow, drawn as points.
    Arrow,
}

impl Category {
    /// By its name.
    pub fn of(name: &str) -> Category {
        match name {
            "barrier wait" => Category::Wait(WaitKind::Barrier),
            "join wait" => Category::Wait(WaitKind::Join),
            "condition wait" => Category::Wait(WaitKind::Cond),
            "I/O wait" => Category::Wait(WaitKind::Io),
            "wait" => Category::Wait(WaitKind::Other),
            "lock wait" => Category::LockWait,
            "lock held" => Category::LockHold,
            "arrow" => Category::Arrow,
            _ => Category::Work,
        }
    }

    /// Whether its argument `object` is what is waited for, or the lock.
    pub fn has_object(self) -> bool {
        !matches!(self, Category::Work | Category::Arrow)
    }

    /// The event with which such a slice begins.
    pub fn begin(self, time: Time, name: StrIx, object: u64) -> Annotation {
        let (kind, aux) = match self {
            Category::Work | Category::Arrow => (Kind::Begin, 0),
            Category::Wait(wait) => (Kind::WaitBegin, wait as u16),
            Category::LockWait => (Kind::LockRequest, LockMode::Exclusive as u16),
            Category::LockHold => (Kind::LockAcquired, LockMode::Exclusive as u16),
        };
        event(time, kind, aux, name, object)
    }

    /// The event with which it ends.
    pub fn end(self, time: Time, name: StrIx, object: u64) -> Annotation {
        let (kind, aux) = match self {
            Category::Work | Category::Arrow => (Kind::End, 0),
            Category::Wait(wait) => (Kind::WaitEnd, wait as u16),
            Category::LockWait => (Kind::LockGivenUp, LockMode::Exclusive as u16),
            Category::LockHold => (Kind::LockReleased, LockMode::Exclusive as u16),
        };
        event(time, kind, aux, name, object)
    }
}

/// An annotation without a second number.
pub(crate) fn event(time: Time, kind: Kind, aux: u16, name: StrIx, a: u64) -> Annotation {
    Annotation {
        time,
        kind: kind as u8,
        aux,
        name,
        a,
        b: 0,
    }
}

/// An argument of the slice or instant before it.
pub(crate) fn argument(time: Time, name: StrIx, value: ArgValue) -> Annotation {
    let (kind, bits) = match value {
        ArgValue::Int(v) => (ArgType::I64, v as u64),
        ArgValue::Uint(v) => (ArgType::U64, v),
        ArgValue::Float(v) => (ArgType::F64, v.to_bits()),
        ArgValue::Str(s) => (ArgType::Str, s.0.into()),
    };
    event(time, Kind::Arg, kind as u16, name, bits)
}
