//! The speed-up curve in letters: CPUs to the right, speed-up upwards, both logarithmic.
//!
//! A cell of the screen has one letter, and later letters cover earlier ones: the expected value covers the range,
//! and the range the ideal line. A measured value is a cell further left, so it is seen beside the expected one. Rows
//! near a round speed-up have a label and `+` on the axis.
use super::LogAxis;
use kasuri_predict::{Point, Prediction};

/// Rows of the picture, without the axis.
const HEIGHT: usize = 14;
/// Columns for each CPU count of the table.
const STEP: usize = 4;
/// Columns left and right of them.
const AXIS: usize = 14;

/// The picture's lines, with as many CPU counts as fit the width.
///
/// `*` expected, `|` range, `o` measured, `.` the ideal line.
pub fn speedup(p: &Prediction, width: usize) -> Vec<String> {
    let room = (width.saturating_sub(AXIS) / STEP).max(2) - 1;
    // The last one always: that is where the curve leads.
    let every = p.points.len().div_ceil(room).max(1);
    let points: Vec<&Point> = p.points.iter().rev().step_by(every).rev().collect();
    let scale = Scale::of(p);
    let cells = cells(p, &points, &scale);
    let mut lines: Vec<String> = cells
        .iter()
        .zip(scale.labels())
        .rev()
        .map(|(cells, label)| {
            let line: String = cells.iter().collect();
            let edge = if label.is_empty() { '|' } else { '+' };
            format!("{label:>6} {edge}{line}").trim_end().to_string()
        })
        .collect();
    lines.push(format!("       +{}", "-".repeat(STEP * (points.len() + 1))));
    let axis: String = points
        .iter()
        .map(|p| format!("{:>STEP$}", p.cpus))
        .collect();
    lines.push(format!("        {axis}  CPUs"));
    lines
}

/// The range of speed-ups, from the bottom row to the top one.
struct Scale {
    bottom: f64,
    top: f64,
    axis: LogAxis,
}

impl Scale {
    /// All of the prediction's ranges, with room above. Never a range of nothing, also where every speed-up is 1.
    fn of(p: &Prediction) -> Scale {
        let top = p.points.iter().map(|p| p.high).fold(2.0, f64::max) * 1.15;
        let bottom = p.points.iter().map(|p| p.low).fold(1.0, f64::min).max(0.05);
        Scale {
            bottom,
            top,
            axis: LogAxis::new((bottom, top), (0.0, (HEIGHT - 1) as f64)),
        }
    }

    /// The row of a speed-up, counted from the bottom.
    fn row(&self, s: f64) -> usize {
        self.axis.at(s).round() as usize
    }

    /// The speed-up of a row: the inverse of [`Scale::row`].
    fn value(&self, row: usize) -> f64 {
        self.bottom * (self.top / self.bottom).powf(row as f64 / (HEIGHT - 1) as f64)
    }

    /// Whether a speed-up is in the picture. The bottom row has a little room for rounding.
    fn contains(&self, s: f64) -> bool {
        s <= self.top && s >= self.bottom * 0.99
    }

    /// For each row its label; "" for most. A label stands where a round speed-up lies nearest.
    fn labels(&self) -> Vec<String> {
        let mut labels = vec![String::new(); HEIGHT];
        let mut last = usize::MAX;
        for value in [
            0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0,
            96.0, 128.0, 256.0,
        ] {
            if self.contains(value) && (last == usize::MAX || self.row(value) > last) {
                last = self.row(value);
                labels[last] = format!("{value}x");
            }
        }
        labels
    }
}

/// The letters, by row from the bottom and by column. What is put later covers what was there.
fn cells(p: &Prediction, points: &[&Point], scale: &Scale) -> Vec<Vec<char>> {
    let width = STEP * (points.len() + 1);
    let mut cells = vec![vec![' '; width]; HEIGHT];
    let mut put = |x: usize, s: f64, c: char| {
        if scale.contains(s) {
            cells[scale.row(s).min(HEIGHT - 1)][x] = c;
        }
    };
    for (i, point) in points.iter().enumerate() {
        let x = STEP * (i + 1) - 1;
        put(x, point.cpus as f64, '.');
        for y in scale.row(point.low)..=scale.row(point.high).min(HEIGHT - 1) {
            put(x, scale.value(y), '|');
        }
        put(x, point.speedup, '*');
        if let Some(measured) = p.measured.iter().find(|m| m.cpus == point.cpus) {
            put(x - 1, measured.speedup, 'o');
        }
    }
    cells
}
