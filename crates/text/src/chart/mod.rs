//! Charts: pictures as SVG, curves in letters, and what they share.
//!
//! All axes are logarithmic: speed-ups and overheads are factors, and twice as much is as far from once as four times
//! is from twice. Pictures take the colour of their text from the page around them (`currentColor`), so that they
//! follow its light or dark theme, and hold no script.
//!
//! | module | draws |
//! |---|---|
//! | [`curve`] | a prediction's speed-up by number of CPUs, as SVG |
//! | [`letters`] | curves of a document for a terminal |
//! | [`overhead`] | what tracing costs, a page with a chart and its numbers |
//!
//! The report's tab of a prediction is drawn by the viewer, from numbers: it zooms and has a pointer.
pub mod curve;
pub mod letters;
pub mod overhead;

/// A logarithmic axis: maps values to places in a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogAxis {
    /// The value at the axis's beginning, above 0.
    low: f64,
    /// The value at its end, above `low`.
    high: f64,
    /// The axis's begin, in the picture's units.
    from: f64,
    /// Its end; less than `from` when the axis goes upwards.
    to: f64,
}

impl LogAxis {
    /// From `range.0` at `place.0` to `range.1` at `place.1`.
    pub fn new(range: (f64, f64), place: (f64, f64)) -> LogAxis {
        LogAxis { low: range.0, high: range.1, from: place.0, to: place.1 }
    }

    /// The place of a value. Values below the axis are at its beginning; values above it lie beyond its end.
    pub fn at(self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * share
    }

    /// The place of a value; values outside are at the ends of the axis.
    pub fn within(self, value: f64) -> f64 {
        self.at(value.min(self.high))
    }
}

/// The beginning of a picture, with a label for screen readers.
pub(crate) fn svg(width: f64, height: f64, label: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" \
         fill=\"currentColor\" role=\"img\" aria-label=\"{}\">\n",
        escape(label)
    )
}

/// `text` for HTML and SVG, between tags and in quoted attributes. Names come from the traced program: control
/// characters and marks of direction are replaced ([`crate::table::units::printable`]).
pub fn escape(text: &str) -> String {
    let text = crate::table::units::printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equally_far_apart() {
        let axis = LogAxis::new((1.0, 16.0), (100.0, 20.0));
        let at = [1.0, 2.0, 4.0, 16.0].map(|v| axis.at(v));
        assert_eq!(at, [100.0, 80.0, 60.0, 20.0]);
        assert_eq!(axis.at(0.1), 100.0, "below the axis");
        assert_eq!(axis.within(64.0), 20.0, "above it");
    }

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(escape("\"><script>a & b\u{202e}"), "&quot;&gt;&lt;script&gt;a &amp; b\u{fffd}");
    }
}
