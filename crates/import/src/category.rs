//! Categories of slices that Kasuri understands.
//!
//! Chrome JSON and Perfetto give each slice a category, a free text. Kasuri's exports write `lock held`,
//! `barrier wait` and others there, so that an import brings back waits and critical sections instead of plain slices.
//! Other writers may use the same texts; a slice of any other category is work.
//!
//! [`Category::begin`] and [`Category::end`] make the annotations of such a slice. A wait or a critical section has an
//! argument `object`: the address of the lock, or of the thing waited for.
use kasuri_base::annotation::{ArgType, Kind, LockMode, WaitKind};
use kasuri_model::input::Annotation;
use kasuri_model::{ArgValue, StrIx, Time};

/// The meaning of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Category {
    /// Work: every category that is not listed here.
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
    /// The category with this name.
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

    /// Whether the argument `object` names the lock or the thing waited for. Otherwise it is an ordinary argument.
    pub fn has_object(self) -> bool {
        !matches!(self, Category::Work | Category::Arrow)
    }

    /// The event that begins such a slice. Locks count as exclusive: the category does not record the mode.
    pub fn begin(self, time: Time, name: StrIx, object: u64) -> Annotation {
        let (kind, aux) = match self {
            Category::Work | Category::Arrow => (Kind::Begin, 0),
            Category::Wait(wait) => (Kind::WaitBegin, wait as u16),
            Category::LockWait => (Kind::LockRequest, LockMode::Exclusive as u16),
            Category::LockHold => (Kind::LockAcquired, LockMode::Exclusive as u16),
        };
        event(time, kind, aux, name, object)
    }

    /// The event that ends such a slice. A lock wait ends as given up; if a hold begins at the same time, `AnnotationLog::seal`
    /// removes this event, because the acquisition implies the end of the wait.
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

/// An annotation whose second number (`b`) is 0.
pub(crate) fn event(time: Time, kind: Kind, aux: u16, name: StrIx, a: u64) -> Annotation {
    Annotation { time, kind: kind as u8, aux, name, a, b: 0 }
}

/// An argument of the preceding slice or instant. `aux` holds the type, `a` the value's bits.
pub(crate) fn argument(time: Time, name: StrIx, value: ArgValue) -> Annotation {
    let (kind, bits) = match value {
        ArgValue::Int(v) => (ArgType::I64, v as u64),
        ArgValue::Uint(v) => (ArgType::U64, v),
        ArgValue::Float(v) => (ArgType::F64, v.to_bits()),
        ArgValue::Str(s) => (ArgType::Str, s.0.into()),
    };
    event(time, Kind::Arg, kind as u16, name, bits)
}

/// The name of a series of a counter of Chrome, from the counter's name, its `[id]` or "", and the argument's name.
pub(crate) fn series_name(counter: &str, id: &str, series: &str) -> String {
    match series == "value" || series == counter {
        true => format!("{counter}{id}"),
        false => format!("{counter}{id}: {series}"),
    }
}
