//! `kasuri overhead --html`: the tables of overheads as a chart, in one self-contained page.
//!
//! The chart has a row for each operation, and in it a dot for each configuration: how many times longer the
//! operation takes, on a logarithmic axis, with the 95 % interval as a line through it. Below are two tables with the
//! same numbers, as factors and as added time. The page has no script and follows the reader's light or dark theme.
use super::{LogAxis, escape, svg};
use std::fmt::Write;

/// The contents of the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// Machine, method: a line each.
    pub facts: Vec<String>,
    /// Name of each configuration and what it is, in order of the cells.
    pub configs: Vec<[String; 2]>,
    /// Operations.
    pub rows: Vec<Row>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// A description, shown as a tooltip.
    pub what: String,
    /// Its time without tracer, in words.
    pub untraced: String,
    /// One for each configuration; none: not measured.
    pub cells: Vec<Option<Dot>>,
}

/// One operation under one configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dot {
    /// Multiple of the untraced time: median, lower and upper end of the interval.
    pub ratio: [f64; 3],
    /// Time added to one operation, in words.
    pub added: String,
}

// Width of the picture and its margins: names of operations stand at the left, ticks above.
const WIDTH: f64 = 1060.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
/// Height of a dot's line, and room above and below the lines of a row.
const STEP: f64 = 9.0;
const PAD: f64 = 5.0;
/// Colours of the configurations: distinct in both themes, and for readers with a red-green deficiency.
const COLOURS: [&str; 8] =
    ["#4c8dff", "#e69f00", "#1fa187", "#cc79a7", "#d55e00", "#8f7ae5", "#56b4e9", "#8a9199"];
/// Colours are variables that the reader's theme chooses. No font and no picture is loaded.
const STYLE: &str = "
:root{--bg:#fff;--text:#1c2128;--muted:#5b6570;--line:#cfd5dc;--grid:#e6e9ed;--head:#f4f6f8;color-scheme:light}
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--text:#e4e8ec;--muted:#98a3af;--line:#343d47;--grid:#242b33;--head:#1a2027;color-scheme:dark}}
body{margin:0 auto;padding:20px 24px 40px;max-width:1120px;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,sans-serif}
h1{font-size:20px;margin:0 0 6px}h2{font-size:15px;margin:28px 0 8px}p{margin:2px 0;color:var(--muted)}
.chart{overflow-x:auto}svg{display:block;min-width:760px;width:100%}
ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 22px;padding:0;margin:14px 0}li{color:var(--muted)}li b{color:var(--text);font-weight:600}
i{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:6px}
.table{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:3px 12px;text-align:right;border-bottom:1px solid var(--grid)}th{background:var(--head);font-weight:600}
th:first-child,td:first-child{text-align:left}small{color:var(--muted);font-size:12px}";

/// The page's content security policy: no script, no network, no plugins, no forms. Names of operations and machines
/// are escaped besides; the policy holds where that is forgotten.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page.
pub fn html(page: &Page) -> String {
    let title = escape(&page.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <title>{title}</title><style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for fact in &page.facts {
        let _ = writeln!(out, "<p>{}</p>", escape(fact));
    }
    out.push_str("<ul>");
    for (ix, [name, what]) in page.configs.iter().enumerate() {
        let (name, what) = (escape(name), escape(&what.replace('`', "")));
        let colour = colour(ix);
        let _ = write!(out, "<li><i style=\"background:{colour}\"></i><b>{name}</b> {what}</li>");
    }
    out.push_str("</ul>\n<div class=\"chart\">\n");
    out.push_str(&chart(page));
    out.push_str("</div>\n");
    table(&mut out, page, "Times the untraced run", |dot| {
        let [median, low, high] = dot.ratio;
        format!("{median:.2} <small>{low:.2}..{high:.2}</small>")
    });
    table(&mut out, page, "Added to one operation (nothing: the interval holds 0)", |dot| {
        escape(&dot.added)
    });
    out.push_str("</html>\n");
    out
}

/// The colour of a configuration; with more than eight, colours repeat.
fn colour(ix: usize) -> &'static str {
    COLOURS[ix % COLOURS.len()]
}

/// The lowest and highest ratio of the axis, with room at both ends.
fn scale(page: &Page) -> (f64, f64) {
    let dots = || page.rows.iter().flat_map(|row| row.cells.iter().flatten());
    let sound = |value: &f64| value.is_finite() && *value > 0.0;
    let high = dots().map(|d| d.ratio[2]).filter(sound);
    let low = dots().map(|d| d.ratio[1]).filter(sound);
    // A measurement with an interval far too wide must not push the other dots together.
    let high = high.fold(1.25, f64::max).min(60.0) * 1.06;
    let low = low.fold(0.9, f64::min).max(0.5) / 1.02;
    (low, high)
}

/// The chart alone.
fn chart(page: &Page) -> String {
    let (low, high) = scale(page);
    // A row has a line for each configuration, so that intervals do not cover each other.
    let row_height = 2.0 * PAD + STEP * page.configs.len().max(2) as f64;
    let height = TOP + row_height * page.rows.len() as f64 + 24.0;
    let axis = LogAxis::new((low, high), (LEFT, WIDTH - RIGHT));
    let x = |ratio: f64| axis.within(ratio);
    let mut out = svg(WIDTH, height, &page.title);
    let bottom = height - 24.0;
    let mut last = f64::NEG_INFINITY;
    for tick in [0.5, 0.7, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0] {
        // Labels must not touch.
        if tick < low || tick > high || x(tick) - last < 34.0 {
            continue;
        }
        last = x(tick);
        // 1x is the time without a tracer: all others are read against it.
        let strong = if tick == 1.0 { ".6" } else { ".16" };
        let _ = writeln!(
            out,
            "<path d=\"M{0:.1} {TOP}V{bottom:.1}\" stroke=\"currentColor\" opacity=\"{strong}\"/>\
             <text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\" opacity=\".75\">{tick}x</text>",
            x(tick),
            TOP - 9.0
        );
    }
    for (ix, row) in page.rows.iter().enumerate() {
        let top = TOP + row_height * ix as f64;
        let _ = writeln!(
            out,
            "<path d=\"M0 {top:.1}H{WIDTH}\" stroke=\"currentColor\" opacity=\".16\"/>\
             <text x=\"4\" y=\"{0:.1}\" font-weight=\"600\">{1}<title>{2}</title></text>\
             <text x=\"{3}\" y=\"{0:.1}\" text-anchor=\"end\" opacity=\".7\">{4}</text>",
            top + row_height / 2.0 + 4.0,
            escape(&row.name),
            escape(&row.what),
            LEFT - 14.0,
            escape(&row.untraced)
        );
        let dots = row.cells.iter().zip(&page.configs).enumerate();
        for (c, (dot, [config, _])) in dots {
            let Some(dot) = dot else { continue };
            let y = top + PAD + STEP * (c as f64 + 0.5);
            draw(&mut out, (&x, y), dot, (row, config), colour(c));
        }
    }
    let _ = writeln!(
        out,
        "<path d=\"M0 {bottom:.1}H{WIDTH}\" stroke=\"currentColor\" opacity=\".16\"/>\
         <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" opacity=\".75\">times the untraced run</text>",
        WIDTH - RIGHT,
        bottom + 16.0
    );
    out + "</svg>\n"
}

/// A dot with its interval and its tooltip.
fn draw(
    out: &mut String,
    (x, y): (&dyn Fn(f64) -> f64, f64),
    dot: &Dot,
    (row, config): (&Row, &str),
    colour: &str,
) {
    let [median, low, high] = dot.ratio;
    let words =
        format!("{}, {config}: {median:.3}x ({low:.3}..{high:.3}), {} added", row.name, dot.added);
    let _ = writeln!(
        out,
        "<g><title>{0}</title><path d=\"M{1:.1} {y:.1}H{2:.1}\" stroke=\"{colour}\" stroke-width=\"2\" opacity=\".55\"/>\
         <circle cx=\"{3:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/></g>",
        escape(&words),
        x(low),
        x(high),
        x(median)
    );
}

/// A table with a row for each operation and a column for each configuration.
fn table(out: &mut String, page: &Page, heading: &str, cell: impl Fn(&Dot) -> String) {
    let _ = write!(
        out,
        "<h2>{heading}</h2>\n<div class=\"table\"><table><tr><th>operation</th><th>untraced</th>"
    );
    for [name, _] in &page.configs {
        let _ = write!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("</tr>\n");
    for row in &page.rows {
        let (name, what) = (escape(&row.name), escape(&row.what));
        let untraced = escape(&row.untraced);
        let _ = write!(out, "<tr><td title=\"{what}\">{name}</td><td>{untraced}</td>");
        for dot in &row.cells {
            let text = dot.as_ref().map_or_else(|| "-".to_owned(), &cell);
            let _ = write!(out, "<td>{text}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(ratio: [f64; 3]) -> Option<Dot> {
        Some(Dot { ratio, added: "5 ns".to_owned() })
    }

    fn page(cells: Vec<Option<Dot>>) -> Page {
        Page {
            title: "a <b> & c".to_owned(),
            configs: vec![["one".into(), "1".into()], ["two".into(), "2".into()]],
            rows: vec![Row { name: "null call".to_owned(), cells, ..Row::default() }],
            ..Page::default()
        }
    }

    /// Where the dots are, left to right.
    fn centres(html: &str) -> Vec<f64> {
        html.split("<circle cx=\"")
            .skip(1)
            .map(|s| s.split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn dots_stand_in_order_of_their_ratios_and_inside() {
        let html = html(&page(vec![dot([1.0, 0.98, 1.02]), dot([31.0, 30.0, 33.0])]));
        let [one, two] = centres(&html)[..] else {
            panic!("two dots: {html}");
        };
        assert!(LEFT < one && one < two && two < WIDTH - RIGHT, "{one} {two}");
        assert!(html.contains("a &lt;b&gt; &amp; c") && !html.contains("a <b>"));
        assert!(html.contains("31.00 <small>30.00..33.00</small>"));
    }

    #[test]
    fn what_was_not_measured_is_not_drawn_and_nonsense_stays_on_the_page() {
        let html = html(&page(vec![None, dot([1e9, f64::NAN, f64::INFINITY])]));
        let [only] = centres(&html)[..] else {
            panic!("one dot: {html}");
        };
        assert!((LEFT..=WIDTH).contains(&only), "{only}");
        assert!(html.contains("<td>-</td>"));
    }
    #[test]
    fn page_allows_no_script_and_no_network() {
        let html = html(&page(Vec::new()));
        let policy =
            html.find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'");
        // It holds from where it stands on: before anything that could load.
        assert!(policy.expect("a policy") < html.find("<style>").expect("a style"));
        assert!(!html.contains("<script"));
    }
}
