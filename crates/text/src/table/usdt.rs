//! The hits of USDT probes, and what they cost.
use super::Page;
use super::grid::{Grid, number, text};
use super::units::{count, duration, percent, plural, printable};
use kasuri_analyze::{EventKind, Summary};

impl Page<'_> {
    /// A row for each probe.
    pub(super) fn usdt(&mut self, s: &Summary) {
        let probes = probes(s);
        let Some(cost) = usdt_text(s) else {
            return;
        };
        self.heading("USDT probes", "dearest first");
        self.note(&cost);
        let mut grid = Grid::new(&[
            text("PROBE"),
            number("HITS", 0),
            number("OTHERS", 2),
            number("EACH", 1),
            number("COST", 0),
        ]);
        let shown = self.shown(probes.len());
        for (name, kind) in &probes[..shown] {
            grid.row([
                printable(name),
                count(kind.program),
                count(kind.count - kind.program),
                duration(kind.each_ns),
                duration(kind.cost_ns as f64),
            ]);
        }
        self.grid(grid, shown, probes.len());
        if probes.iter().any(|(_, kind)| kind.count > kind.program) {
            self.note("OTHERS: hits of other programs that ran the same code; a probe is on the file, and all of them paid for it");
        }
    }
}

fn probes(s: &Summary) -> Vec<(&str, &EventKind)> {
    let kinds = s.tracing.events.iter();
    kinds.filter_map(|kind| Some((kind.probe()?, kind))).collect()
}

/// `USDT: 41,200 hits, about 1.90 us each: 78.3 ms, 2.1 % of the program's CPU time`; none: no probe was recorded.
pub(super) fn usdt_text(s: &Summary) -> Option<String> {
    let probes = probes(s);
    if probes.is_empty() {
        return None;
    }
    let hits: u64 = probes.iter().map(|(_, kind)| kind.program).sum();
    let cost: i64 = probes.iter().map(|(_, kind)| kind.cost_ns).sum();
    let mut out = format!("USDT: {}", plural(hits, "hit"));
    if hits > 0 {
        let (each, all) = (cost as f64 / hits as f64, cost as f64);
        out += &format!(", about {} each: {}", duration(each), duration(all));
        // A share of the same base as that of all tracing, and unknown with it.
        if let (Some(_), Some(cpu)) = (s.tracing.share, s.tracing.program_cpu_ns) {
            let share = percent(all / cpu.max(1) as f64);
            out += &format!(", {share} of the program's CPU time");
        }
    }
    Some(out)
}
