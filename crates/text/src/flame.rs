//! A tree of functions for people and programs: text, folded stacks, a picture.
//!
//! The picture is an SVG file without a script: each function is a box as wide as its share of the time, below its caller, and its name and time
//! are a tooltip. Names come from the recorded program: they are escaped, and cut to the box.
use crate::chart::escape;
use crate::table::cut;
use crate::table::units::{duration, file_name, percent, printable};
use kasuri_analyze::call_paths::{Flame, FlameNode, PathFrame, points_off};
use kasuri_analyze::short_name;
use std::fmt::Write;

/// Functions with less of the time are left out of the text and the picture.
const LEAST: f64 = 0.005;

/// The function, or its module where it has no name.
fn name(frame: &PathFrame) -> String {
    match (frame.function.as_str(), frame.module.as_str()) {
        ("", "") => "[unknown]".into(),
        ("", module) if module.starts_with('[') => printable(module),
        ("", module) => format!("[{}]", printable(module)),
        (function, _) => printable(function),
    }
}

/// Share of the tree's whole time, what has no sample included; 0 for an empty tree.
fn share(flame: &Flame, ns: i64) -> f64 {
    ns as f64 / flame.ns.max(1) as f64
}

/// As a table: total and own share, and the functions, indented where callers have more than one of them.
pub fn text(flame: &Flame, width: usize) -> String {
    let class = match (flame.class, flame.blocked) {
        ("", false) => "on-CPU time".into(),
        ("", true) => "blocked time".into(),
        (class, _) => format!("{} (class of the account)", class.replace('_', " ")),
    };
    // Of all shares, a half is the least certain one.
    let certainty = match flame.independent_samples.map(|n| points_off(0.5, n)) {
        Some(points) => format!("; shares are within {points:.1} points (95 of 100 are)"),
        None => String::new(),
    };
    let mut out = format!(
        "{} of {class}{certainty}\n\n   TOTAL     SELF  FUNCTION\n",
        duration(flame.ns as f64)
    );
    let is_shown = |node: &&FlameNode| share(flame, node.ns) >= LEAST;
    let shown: Vec<&FlameNode> = flame.nodes.iter().filter(is_shown).collect();
    for (node, indent) in shown.iter().zip(indents(&shown, width / 4)) {
        let place = match node.frame.file.as_str() {
            "" => String::new(),
            file => format!(" ({}:{})", printable(file_name(file)), node.frame.line),
        };
        let name = short_name(&name(&node.frame));
        let (total, own) = (share(flame, node.ns), share(flame, node.self_ns));
        let spaces = " ".repeat(indent * 2);
        let (total, own) = (percent(total), percent(own));
        let line = format!("{total:>8} {own:>8}  {spaces}{name}{place}");
        let _ = writeln!(out, "{}", cut(&line, width));
    }
    for (ns, what) in
        [(flame.unsampled_ns, "without a sample"), (flame.without_code_ns, "no code to sample")]
    {
        if ns > 0 {
            let _ = writeln!(out, "{:>8}           {what}", percent(share(flame, ns)));
        }
    }
    out
}

/// The indent of each of the nodes, at most `most`: deep trees keep half of the screen for names.
///
/// A function that is its caller's only callee stays at its caller's indent: long chains without a branch would otherwise
/// run off the screen.
fn indents(nodes: &[&FlameNode], most: usize) -> Vec<usize> {
    let mut all = Vec::with_capacity(nodes.len());
    // Of the callers of the next node, outermost first.
    let mut open: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let depth = node.depth as usize;
        open.truncate(depth);
        let is_first = at == 0 || nodes[at - 1].depth < node.depth;
        let mut rest = nodes[at + 1..].iter().take_while(|n| n.depth >= node.depth);
        let is_only = is_first && !rest.any(|n| n.depth == node.depth);
        let above = open.last().copied().unwrap_or(0);
        let indent = (above + usize::from(!is_only && depth > 0)).min(most);
        open.push(indent);
        all.push(indent);
    }
    all
}

/// The paths with their own time in ns, a line each: `main;worker;compress 1200`, as flamegraph.pl and other tools read.
pub fn folded(flame: &Flame) -> String {
    let mut out = String::new();
    let mut open: Vec<String> = Vec::new();
    for (node, ns) in flame.nodes.iter().zip(ends_ns(&flame.nodes)) {
        open.truncate(node.depth as usize);
        // A semicolon is the format's own, a line feed too.
        // Nodes come in the order of a walk from the roots down, so the open ones are the callers of the next.
        open.push(name(&node.frame).replace(';', ":"));
        if ns > 0 {
            let _ = writeln!(out, "{} {ns}", open.join(";"));
        }
    }
    // So that all lines add up to the time.
    for (ns, what) in
        [(flame.unsampled_ns, "[without a sample]"), (flame.without_code_ns, "[no code to sample]")]
    {
        if ns > 0 {
            let _ = writeln!(out, "{what} {ns}");
        }
    }
    out
}

/// The time of the paths that end at each node: what the nodes below it do not have.
fn ends_ns(nodes: &[FlameNode]) -> Vec<i64> {
    let mut ends: Vec<i64> = nodes.iter().map(|node| node.ns).collect();
    let mut open: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        open.truncate(node.depth as usize);
        if let Some(&above) = open.last() {
            ends[above] -= node.ns;
        }
        open.push(at);
    }
    ends
}

// Units of the picture's own coordinates (viewBox); a browser scales them to its window. `LETTER` is the width of a
// monospace letter of 11 units, rounded up, so that a name stays in its box.
const WIDTH: f64 = 1200.0;
const ROW: u32 = 18;
const LETTER: f64 = 7.0;

/// As a picture, the roots at the top.
pub fn svg(flame: &Flame) -> String {
    // A thin box can still be seen and has a tooltip, where a line of text would only be in the way: so a fifth of
    // the text's limit.
    let is_shown = |node: &&FlameNode| share(flame, node.ns) >= LEAST / 5.0;
    let deepest = flame.nodes.iter().filter(is_shown).map(|n| n.depth + 1).max().unwrap_or(0);
    let height = (deepest + 2) * ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"4\" y=\"13\">{} {}</text>\n",
        duration(flame.ns as f64),
        match (flame.class, flame.blocked) {
            ("", false) => "on a CPU".into(),
            ("", true) => "blocked".into(),
            (class, _) => escape(&class.replace('_', " ")),
        }
    );
    // Where the next box of each depth begins.
    let mut next = vec![0.0; deepest as usize + 2];
    for node in &flame.nodes {
        let depth = node.depth as usize;
        if share(flame, node.ns) < LEAST / 5.0 {
            continue;
        }
        let (x, width) = (next[depth], share(flame, node.ns) * WIDTH);
        next[depth] += width;
        // The first callee begins where its caller does. Callees are never wider together than their caller.
        next[depth + 1] = x;
        svg_box(&mut out, flame, node, x, width);
    }
    out + "</svg>\n"
}

/// The box of one function, with its name as far as it fits.
fn svg_box(out: &mut String, flame: &Flame, node: &FlameNode, x: f64, width: f64) {
    let y = (node.depth + 1) * ROW;
    let (name, time) = (name(&node.frame), duration(node.ns as f64));
    let label = format!("{name}: {time}, {}", percent(share(flame, node.ns)));
    let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
    // One or two letters say nothing.
    let shown = if letters < 3 { String::new() } else { cut(&short_name(&name), letters) };
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"hsl({},65%,78%)\"/>\
         <text x=\"{:.1}\" y=\"{}\">{}</text></g>",
        escape(&label),
        // Half a unit of white keeps neighbours of one module apart.
        (width - 0.5).max(0.5),
        ROW - 1,
        hue(&node.frame.module),
        x + 2.0,
        y + 13,
        escape(&shown)
    );
}

/// A colour for each module, the same in every picture.
fn hue(module: &str) -> u32 {
    // FNV-1a of 32 bits: the standard library's hash may change with its version, and colours with it.
    let hash =
        module.bytes().fold(2_166_136_261_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(16_777_619));
    hash % 360
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    fn node(depth: u32, ns: i64, self_ns: i64, function: &str) -> FlameNode {
        let frame =
            PathFrame { function: function.into(), module: "prog".into(), ..PathFrame::default() };
        FlameNode { depth, ns, self_ns, frame }
    }

    fn flame() -> Flame {
        Flame {
            ns: 1000,
            unsampled_ns: 100,
            nodes: vec![
                node(0, 900, 0, "main"),
                node(1, 900, 100, "run<a;b>(\"&\")"),
                node(2, 500, 500, "compress"),
                node(2, 300, 300, "write"),
            ],
            ..Flame::default()
        }
    }

    #[test]
    fn text_steers_no_terminal() {
        let evil = |text: &str| format!("{text}\u{1b}[31m\n\u{9b}\u{202e}");
        let mut flame = flame();
        flame.nodes[0].frame.file = evil("a.c");
        flame.nodes[1].frame.function = evil("run");
        for (node, module) in [(2, evil("lib")), (3, evil("[heap"))] {
            flame.nodes[node].frame.function.clear();
            flame.nodes[node].frame.module = module;
        }
        let page = text(&flame, 200);
        assert_eq!(page.lines().count(), 3 + 4 + 1, "{page:?}");
        let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!page.chars().any(steers), "{page:?}");
    }

    #[test]
    fn text_indents_where_the_tree_branches() {
        let page = text(&flame(), 80);
        let lines: Vec<&str> = page.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "   TOTAL     SELF  FUNCTION",
                "  90.0 %    0.0 %  main",
                "  90.0 %   10.0 %  run",
                "  50.0 %   50.0 %    compress",
                "  30.0 %   30.0 %    write",
                "  10.0 %           without a sample",
            ]
        );
        let mut long = flame();
        long.nodes[2].frame.function = "f".repeat(200);
        assert!(text(&long, 80).lines().all(|line| line.width() <= 80));
    }

    #[test]
    fn folded_stacks_have_own_times() {
        assert_eq!(
            folded(&flame()),
            "main;run<a:b>(\"&\") 100\nmain;run<a:b>(\"&\");compress 500\nmain;run<a:b>(\"&\");write 300\n[without a sample] 100\n"
        );
    }

    #[test]
    fn a_picture_has_boxes_of_the_right_width_and_no_markup_of_the_program() {
        let mut flame = flame();
        flame.nodes[3].frame.function = "</title><script>".into();
        let svg = svg(&flame);
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("x=\"600.0\" y=\"54\" width=\"359.5\""), "{svg}");
        assert_eq!(svg.matches("<g>").count(), 4);
    }
}
