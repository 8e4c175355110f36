//! Curves in letters: both axes logarithmic, the curve upwards.
//!
//! A cell of the screen has one letter, and later letters cover earlier ones: the expected value covers the range,
//! and the range the ideal line. A measured value is a cell further left, so it is seen beside the expected one. Rows
//! near a round factor have a label and `+` on the axis.
use super::LogAxis;
use kasuri_answers::document::{Chart, Series, SeriesStyle};

/// Rows of the picture, without the axis.
const HEIGHT: usize = 14;
/// Columns for each x.
const STEP: usize = 4;
/// Columns left and right of them.
const AXIS: usize = 14;

/// What the letters stand for.
pub fn legend(chart: &Chart) -> String {
    let of = |series: &Series| match series.style {
        SeriesStyle::Line if series.band.is_empty() => format!("* {}", series.name),
        SeriesStyle::Line => format!("* {}, | range", series.name),
        SeriesStyle::Dashed => format!(". {}", series.name),
        SeriesStyle::Dots => format!("o {}", series.name),
    };
    chart.series.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The picture's lines, with as many x of the first curve as fit the width.
pub fn picture(chart: &Chart, width: usize) -> Vec<String> {
    let Some(first) = chart.series.first() else {
        return Vec::new();
    };
    let room = (width.saturating_sub(AXIS) / STEP).max(2) - 1;
    // The last one always: that is where the curve leads.
    let every = first.points.len().div_ceil(room).max(1);
    let all = first.points.iter().map(|point| point.0).rev();
    let mut points: Vec<f64> = all.step_by(every).collect();
    points.reverse();
    let scale = Scale::of(first);
    let cells = cells(chart, &points, &scale);
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
    let axis: String = points.iter().map(|x| format!("{x:>STEP$}")).collect();
    lines.push(format!("        {axis}  {}", chart.x_title));
    lines
}

/// The range of values, from the bottom row to the top one.
struct Scale {
    bottom: f64,
    top: f64,
    axis: LogAxis,
}

impl Scale {
    /// All of the curve's ranges, with room above. Never a range of nothing, also where every value is 1.
    fn of(curve: &Series) -> Scale {
        let top = curve.band.iter().map(|b| b.1).fold(2.0, f64::max) * 1.15;
        let bottom = curve.band.iter().map(|b| b.0).fold(1.0, f64::min).max(0.05);
        Scale { bottom, top, axis: LogAxis::new((bottom, top), (0.0, (HEIGHT - 1) as f64)) }
    }

    /// The row of a value, counted from the bottom.
    fn row(&self, s: f64) -> usize {
        self.axis.at(s).round() as usize
    }

    /// The value of a row: the inverse of [`Scale::row`].
    fn value(&self, row: usize) -> f64 {
        self.bottom * (self.top / self.bottom).powf(row as f64 / (HEIGHT - 1) as f64)
    }

    /// Whether a value is in the picture. The bottom row has a little room for rounding.
    fn contains(&self, s: f64) -> bool {
        s <= self.top && s >= self.bottom * 0.99
    }

    /// For each row its label; "" for most. A label stands where a round factor lies nearest.
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
fn cells(chart: &Chart, xs: &[f64], scale: &Scale) -> Vec<Vec<char>> {
    let width = STEP * (xs.len() + 1);
    let mut cells = vec![vec![' '; width]; HEIGHT];
    let mut put = |x: usize, y: f64, c: char| {
        if scale.contains(y) {
            cells[scale.row(y).min(HEIGHT - 1)][x] = c;
        }
    };
    let of = |style: SeriesStyle| chart.series.iter().filter(move |s| s.style == style);
    for (i, &x) in xs.iter().enumerate() {
        let column = STEP * (i + 1) - 1;
        let ys = |style| {
            let points = of(style).flat_map(|series| &series.points);
            points.filter(move |point| point.0 == x).map(|point| point.1)
        };
        ys(SeriesStyle::Dashed).for_each(|y| put(column, y, '.'));
        for series in of(SeriesStyle::Line) {
            let ranges = series.points.iter().zip(&series.band);
            for (_, &(low, high)) in ranges.filter(|(point, _)| point.0 == x) {
                for y in scale.row(low)..=scale.row(high).min(HEIGHT - 1) {
                    put(column, scale.value(y), '|');
                }
            }
        }
        ys(SeriesStyle::Line).for_each(|y| put(column, y, '*'));
        ys(SeriesStyle::Dots).for_each(|y| put(column - 1, y, 'o'));
    }
    cells
}
