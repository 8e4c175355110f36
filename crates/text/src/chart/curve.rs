//! The speed-up curve as a picture, for the report and for files.
use crate::label::limit;
use kasuri_predict::Prediction;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 46.0;

/// Predicted speed-ups with their range, measured points, the ideal line, and what limits from where on. Both axes in
/// powers of two; colours follow the page it is in (`currentColor`).
pub fn speedup(p: &Prediction) -> String {
    let cpus = p.points.iter().map(|q| q.cpus as f64).fold(2.0, f64::max);
    let high = p
        .points
        .iter()
        .map(|q| q.high.max(q.more_threads.unwrap_or(0.0)))
        .fold(2.0, f64::max)
        * 1.1;
    let low = p.points.iter().map(|q| q.low).fold(1.0, f64::min).max(0.05);
    let x = |c: f64| LEFT + (WIDTH - LEFT - RIGHT) * c.ln() / cpus.ln();
    let y = |s: f64| {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (s.max(low) / low).ln() / (high / low).ln()
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" \
         fill=\"currentColor\" role=\"img\" aria-label=\"predicted speed-up by number of CPUs\">\n"
    );
    grid(&mut out, p, (low, high), (&x, &y));
    let end = cpus.min(high);
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"currentColor\" stroke-dasharray=\"2 4\" opacity=\".6\"/><text x=\"{:.1}\" y=\"{:.1}\" opacity=\".7\" text-anchor=\"end\">ideal</text>",
        x(1.0),
        y(1.0),
        x(end),
        y(end),
        x(end) - 8.0,
        y(end) + 4.0
    );
    let start = (1.0, 1.0);
    let line = |values: &mut dyn Iterator<Item = (f64, f64)>| {
        values
            .map(|(c, s)| format!("{:.1} {:.1}", x(c), y(s)))
            .collect::<Vec<_>>()
            .join("L")
    };
    let up =
        line(&mut std::iter::once(start).chain(p.points.iter().map(|q| (q.cpus as f64, q.high))));
    let down = line(&mut p.points.iter().rev().map(|q| (q.cpus as f64, q.low)));
    let _ = writeln!(
        out,
        "<path d=\"M{up}L{down}Z\" fill=\"#3b82f6\" opacity=\".18\"/>"
    );
    let more: Vec<(f64, f64)> = p
        .points
        .iter()
        .filter_map(|q| Some((q.cpus as f64, q.more_threads?)))
        .collect();
    if more.len() > 1 {
        let path = line(&mut more.iter().copied());
        let _ = writeln!(
            out,
            "<path d=\"M{path}\" fill=\"none\" stroke=\"#3b82f6\" stroke-dasharray=\"6 4\"/>"
        );
    }
    let middle = line(
        &mut std::iter::once(start).chain(p.points.iter().map(|q| (q.cpus as f64, q.speedup))),
    );
    let _ = writeln!(
        out,
        "<path d=\"M{middle}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"2\"/>"
    );
    for q in &p.points {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#2563eb\"><title>{} CPUs: {:.2}x ({:.2} .. {:.2}); {}</title></circle>",
            x(q.cpus as f64),
            y(q.speedup),
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
            x(m.cpus as f64),
            y(m.speedup),
            m.cpus,
            m.speedup
        );
    }
    limits(&mut out, p, &x);
    out + "</svg>\n"
}

type Scale<'a> = &'a dyn Fn(f64) -> f64;

fn grid(out: &mut String, p: &Prediction, (low, high): (f64, f64), (x, y): (Scale<'_>, Scale<'_>)) {
    for s in [
        0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0,
    ] {
        if s >= low * 0.99 && s <= high {
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {0:.1}H{1}\" stroke=\"currentColor\" opacity=\".12\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{s}x</text>",
                y(s),
                WIDTH - RIGHT,
                LEFT - 8.0,
                y(s) + 4.0
            );
        }
    }
    for c in std::iter::once(1)
        .chain(p.points.iter().map(|q| q.cpus))
        .filter(|c| c.is_power_of_two())
    {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{c}</text>",
            x(c as f64),
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

/// The first CPU count of each kind of limit carries its words.
fn limits(out: &mut String, p: &Prediction, x: Scale<'_>) {
    let mut last = None;
    let mut n = 0;
    for q in &p.points {
        let kind = std::mem::discriminant(&q.limit);
        if last == Some(kind) {
            continue;
        }
        last = Some(kind);
        let words = escape(&limit(&q.limit));
        let at = x(q.cpus as f64);
        let (anchor, dx) = if at > WIDTH * 0.55 {
            ("end", -6.0)
        } else {
            ("start", 6.0)
        };
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

pub(crate) fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '&' => "&amp;".into(),
            '"' => "&quot;".into(),
            c if crate::table::units::steers(c) => " ".into(),
            c => c.to_string(),
        })
        .collect()
}
