//! The speed-up curve as a picture, in SVG.
//!
//! The picture is drawn from back to front: grid, ideal line, band and curve, dots, words for the limits. x is the
//! number of CPUs, y the speed-up; both axes are logarithmic, so the ideal speed-up is a straight line. Sizes are in
//! the units of the picture's `viewBox`; a page may scale it.
use super::{LogAxis, escape, svg};
use kasuri_answers::predict::limit;
use kasuri_predict::Prediction;
use std::fmt::Write;

/// Size of the picture, and the margins around the area in which curves are drawn.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
// Margins: room for the numbers of the axes, at the left and below.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 46.0;

/// A curve's points: number of CPUs, speed-up.
type Points = Vec<(f64, f64)>;

/// The whole picture: predicted speed-ups with their range, measured points, the ideal line, and the limit from each
/// number of CPUs on.
pub fn speedup(p: &Prediction) -> String {
    let picture = Picture::new(p);
    let mut out = svg(WIDTH, HEIGHT, "predicted speed-up by number of CPUs");
    picture.grid(&mut out, p);
    picture.ideal(&mut out);
    picture.predicted(&mut out, p);
    picture.points(&mut out, p);
    picture.limits(&mut out, p);
    out + "</svg>\n"
}

/// The ranges and axes.
struct Picture {
    /// Most CPUs, lowest and highest speed-up.
    cpus: f64,
    low: f64,
    high: f64,
    x: LogAxis,
    y: LogAxis,
}

impl Picture {
    fn new(p: &Prediction) -> Picture {
        let cpus = p.points.iter().map(|q| q.cpus as f64).fold(2.0, f64::max);
        let tops = p.points.iter().map(|q| q.high.max(q.more_threads.unwrap_or(0.0)));
        // Room above the highest point.
        let high = tops.fold(2.0, f64::max) * 1.1;
        let low = p.points.iter().map(|q| q.low).fold(1.0, f64::min).max(0.05);
        Picture {
            cpus,
            low,
            high,
            x: LogAxis::new((1.0, cpus), (LEFT, WIDTH - RIGHT)),
            y: LogAxis::new((low, high), (HEIGHT - BOTTOM, TOP)),
        }
    }

    /// A path through points, without its first letter. One decimal is a tenth of a pixel, which no screen shows.
    fn path(&self, points: &[(f64, f64)]) -> String {
        let places = points.iter();
        let places = places.map(|&(c, s)| format!("{:.1} {:.1}", self.x.at(c), self.y.at(s)));
        places.collect::<Vec<_>>().join("L")
    }

    /// The line on which each CPU counts in full.
    fn ideal(&self, out: &mut String) {
        // Up to the edge of the picture that it meets first.
        let end = self.cpus.min(self.high);
        let path = self.path(&[(1.0, 1.0), (end, end)]);
        let _ = writeln!(
            out,
            "<path d=\"M{path}\" stroke=\"currentColor\" stroke-dasharray=\"2 4\" opacity=\".6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" opacity=\".7\" text-anchor=\"end\">ideal</text>",
            self.x.at(end) - 8.0,
            self.y.at(end) + 4.0
        );
    }

    /// The curve, its range as a band, and the curve of a program that has as many threads as there are CPUs.
    fn predicted(&self, out: &mut String, p: &Prediction) {
        let of = |f: &dyn Fn(&kasuri_predict::Point) -> f64| -> Points {
            p.points.iter().map(|q| (q.cpus as f64, f(q))).collect()
        };
        // On one CPU the speed-up is 1 by definition.
        let from_one = |mut points: Points| {
            points.insert(0, (1.0, 1.0));
            points
        };
        // The band's outline: the upper edge from left to right, then the lower one back.
        let mut band = from_one(of(&|q| q.high));
        band.extend(of(&|q| q.low).into_iter().rev());
        let band = self.path(&band);
        let _ = writeln!(out, "<path d=\"M{band}Z\" fill=\"#3b82f6\" opacity=\".18\"/>");
        // A program that cannot start more threads has no such points.
        let more = p.points.iter();
        let more = more.filter_map(|q| Some((q.cpus as f64, q.more_threads?)));
        let more: Points = more.collect();
        if more.len() > 1 {
            let path = self.path(&more);
            let _ = writeln!(
                out,
                "<path d=\"M{path}\" fill=\"none\" stroke=\"#3b82f6\" stroke-dasharray=\"6 4\"/>"
            );
        }
        let middle = self.path(&from_one(of(&|q| q.speedup)));
        let _ = writeln!(
            out,
            "<path d=\"M{middle}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"2\"/>"
        );
    }

    /// A dot for each prediction, with its numbers and limit as a tooltip, and a ring for each measurement.
    fn points(&self, out: &mut String, p: &Prediction) {
        for q in &p.points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#2563eb\"><title>{} CPUs: {:.2}x ({:.2} .. {:.2}); {}</title></circle>",
                self.x.at(q.cpus as f64),
                self.y.at(q.speedup),
                q.cpus,
                q.speedup,
                q.low,
                q.high,
                escape(&limit(&q.limit))
            );
        }
        for m in &p.measured {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"none\" stroke=\"#dc2626\" stroke-width=\"2\"><title>measured on {} CPUs: {:.2}x</title></circle>",
                self.x.at(m.cpus as f64),
                self.y.at(m.speedup),
                m.cpus,
                m.speedup
            );
        }
    }

    /// Lines and labels at round speed-ups, labels at powers of two of CPUs.
    fn grid(&self, out: &mut String, p: &Prediction) {
        for s in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0] {
            if s >= self.low * 0.99 && s <= self.high {
                let y = self.y.at(s);
                let _ = writeln!(
                    out,
                    "<path d=\"M{LEFT} {y:.1}H{0}\" stroke=\"currentColor\" opacity=\".12\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{s}x</text>",
                    WIDTH - RIGHT,
                    LEFT - 8.0,
                    y + 4.0
                );
            }
        }
        let counts = std::iter::once(1).chain(p.points.iter().map(|q| q.cpus));
        for c in counts.filter(|c| c.is_power_of_two()) {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{c}</text>",
                self.x.at(c as f64),
                HEIGHT - BOTTOM + 18.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" opacity=\".7\">CPUs</text>",
            WIDTH - RIGHT,
            HEIGHT - 8.0
        );
    }

    /// The first number of CPUs of each kind of limit has a line and the limit's words, each a line lower than the one
    /// before.
    fn limits(&self, out: &mut String, p: &Prediction) {
        let mut last = None;
        let mut n = 0;
        for q in &p.points {
            let kind = std::mem::discriminant(&q.limit);
            if last == Some(kind) {
                continue;
            }
            last = Some(kind);
            let words = escape(&limit(&q.limit));
            let at = self.x.at(q.cpus as f64);
            // Words in the right half of the picture end at their line instead of starting there.
            let (anchor, dx) = if at > WIDTH * 0.55 { ("end", -6.0) } else { ("start", 6.0) };
            let y = TOP + 14.0 + 16.0 * n as f64;
            let _ = writeln!(
                out,
                "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"currentColor\" opacity=\".25\"/><text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{} CPUs: {words}</text>",
                y - 10.0,
                HEIGHT - BOTTOM,
                at + dx,
                q.cpus
            );
            n += 1;
        }
    }
}
