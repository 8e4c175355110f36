//! Time is a type of its own: a bare number never says its unit or its origin.
//!
//! [`Time`] minus [`Time`] is a [`Duration`]; a [`Duration`] moves a [`Time`]; two times cannot be added.
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in time: nanoseconds since the recording's origin ([`crate::Trace::origin_monotonic_ns`]).
/// May be negative: threads and slices can be known from before tracing was switched on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Time(pub i64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Duration(pub i64);

impl Time {
    /// An unsigned stamp in ns; what lies beyond the range is its end.
    pub fn from_ns(ns: u64) -> Time {
        Time(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// Before everything.
    pub const MIN: Time = Time(i64::MIN);
    /// After everything.
    pub const MAX: Time = Time(i64::MAX);

    /// No event of a [`crate::Trace`] is further from the origin than this, 2.28 years: what a stamp claims beyond it is
    /// damage. Any two times of a trace can so be subtracted, and a length be multiplied by a number of CPUs.
    pub const HORIZON: Time = Time(1 << 56);

    /// The nearest time within [`Time::HORIZON`].
    pub const fn within_horizon(self) -> Time {
        let far = Time::HORIZON.0;
        match self.0 {
            ns if ns > far => Time(far),
            ns if ns < -far => Time(-far),
            _ => self,
        }
    }

    /// Nanoseconds since the recording's origin.
    pub const fn ns(self) -> i64 {
        self.0
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// The length in nanoseconds.
    pub const fn ns(self) -> i64 {
        self.0
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        Duration(self.0 - earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, length: Duration) -> Time {
        Time(self.0 + length.0)
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, length: Duration) -> Time {
        Time(self.0 - length.0)
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        self.0 += other.0;
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        self.0 -= other.0;
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(parts: I) -> Duration {
        Duration(parts.map(|d| d.0).sum())
    }
}
