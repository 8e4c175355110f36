//! Annotations without a length, by name: instants, messages, counters, flows. Each counts where it lies in the range; a flow where it
//! begins there.
use crate::PointSummary;
use crate::cut::Cut;
use kasuri_model::{StrIx, ThreadIx, Time};
use std::collections::{HashMap, HashSet};

/// What is known of the points of one name.
#[derive(Default)]
struct Group {
    count: u64,
    by: HashSet<u32>,
    span: Option<(Time, Time)>,
    values: Option<[f64; 3]>,
}

impl Group {
    fn add(&mut self, time: Time, by: u32) {
        self.count += 1;
        self.by.insert(by);
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    fn value(&mut self, value: f64) {
        let [min, max, _] = self.values.unwrap_or([value; 3]);
        self.values = Some([min.min(value), max.max(value), value]);
    }
}

/// Rows of all names, most points first.
pub(crate) fn points(cut: &Cut<'_>) -> Vec<PointSummary> {
    let trace = cut.trace;
    let mut out = Vec::new();
    let (instants, flows) = (&trace.instants, &trace.flows);
    let shown = |thread: ThreadIx, time| cut.contains(time) && cut.is_shown(thread);
    let mut groups: HashMap<StrIx, Group> = HashMap::new();
    for (row, &time) in instants.time.iter().enumerate() {
        if shown(instants.thread[row], time) {
            let group = groups.entry(instants.name[row]).or_default();
            group.add(time, instants.thread[row].0);
        }
    }
    add_rows(cut, "instant", groups.drain(), &mut out);
    for (row, &time) in flows.from_time.iter().enumerate() {
        if shown(flows.from_thread[row], time) {
            let group = groups.entry(flows.name[row]).or_default();
            group.add(time, flows.from_thread[row].0);
        }
    }
    add_rows(cut, "flow", groups.drain(), &mut out);
    for counter in &trace.counters {
        let process = trace.processes.get(counter.process.ix());
        let is_shown = cut.all_processes || process.is_some_and(|p| p.is_target);
        for (&time, &value) in counter.time.iter().zip(&counter.value) {
            if is_shown && cut.contains(time) {
                let group = groups.entry(counter.name).or_default();
                group.add(time, counter.process.0);
                group.value(value);
            }
        }
    }
    add_rows(cut, "counter", groups.drain(), &mut out);
    out.sort_by(|a, b| (b.count, &a.name, a.kind).cmp(&(a.count, &b.name, b.kind)));
    out
}

fn add_rows(
    cut: &Cut<'_>,
    kind: &'static str,
    groups: impl Iterator<Item = (StrIx, Group)>,
    out: &mut Vec<PointSummary>,
) {
    out.extend(groups.map(|(name, group)| {
        let (first, last) = group.span.unwrap_or_default();
        PointSummary {
            name: cut.trace.strings.get(name).into(),
            place: cut.trace.places.get(&name).cloned(),
            kind,
            count: group.count,
            threads: group.by.len() as u32,
            first_ns: first.ns(),
            last_ns: last.ns(),
            min: group.values.map(|v| v[0]),
            max: group.values.map(|v| v[1]),
            last: group.values.map(|v| v[2]),
        }
    }));
}
