//! `kasuri events`: what each tracepoint of this kernel costs.
//!
//! Goal: ns per hit of a tracepoint that is on, that is on while tracing is paused, and whose filter rejects; against the
//! same operation with it off. A tracepoint that is off is a no-op in the kernel's text (a static key); kernels without
//! it cannot be had for comparison, so "off" is the baseline, not a figure.
//!
//! Method: with every event on, each operation runs once, and the events in the raw pages are counted. These counts
//! show which operation provokes which tracepoint, and how often. Then each tracepoint alone is switched on and off
//! around the operation in which it is hit most per nanosecond: off, on, paused, filtered, off. Its costs are the
//! medians of the differences, divided by the hits.
use crate::error::{Error, Result};
use crate::ops;
use crate::pages::{HEADER_BYTES, each_event};
use crate::stats::{Estimate, median};
use crate::tracer::Kernel;
use crate::worker::Worker;
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{EventFormat, PageLayout};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Operations longer than this per hit cannot resolve the cost of a hit: their own length varies by more.
const RESOLVED_NS: f64 = 20_000.0;
/// Length of a run: shorter than the time slices that other programs may take in between.
const BATCH_NS: f64 = 5e5;
/// Length of a run that is not repeated: short against the changes of speed of a shared machine, long against the
/// switching of events.
const ROUND_NS: f64 = 4e6;
/// An operation provokes an event when it is hit at least this often in each.
const PROVOKED: f64 = 0.4;

/// One tracepoint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EventCost {
    /// `system/name`.
    pub name: String,
    /// Bytes of one event in the buffer; events with text are longer.
    pub bytes: u32,
    /// The operation that provokes it; `None`: none of our operations does.
    pub operation: Option<&'static str>,
    /// Hits in one operation.
    pub hits_per_operation: f64,
    /// ns per hit, switched on and written.
    pub on_ns: Option<Estimate>,
    /// ns per hit, switched on while tracing is paused (`tracing_on` 0).
    pub paused_ns: Option<Estimate>,
    /// ns per hit, switched on with a filter that rejects it.
    pub filtered_ns: Option<Estimate>,
    /// Hits per second in the whole system; `None`: the system was not observed.
    pub per_second: Option<f64>,
}

/// The kernel's tracepoints: name -> id and bytes.
#[derive(Clone, Debug, Default)]
pub struct Table {
    by_id: HashMap<u16, usize>,
    /// In order of their names.
    pub events: Vec<EventCost>,
}

impl Table {
    /// Reads the formats of all events.
    pub fn read(kernel: &Kernel) -> Table {
        let catalogue = kernel.catalogue();
        let mut table = Table::default();
        for name in catalogue.names() {
            let Some(format) =
                catalogue.format(&name).and_then(|text| EventFormat::parse(&name, &text).ok())
            else {
                continue;
            };
            table.by_id.insert(format.id, table.events.len());
            table.events.push(EventCost {
                name,
                bytes: format.fixed_bytes.next_multiple_of(4) + HEADER_BYTES,
                operation: None,
                hits_per_operation: 0.0,
                on_ns: None,
                paused_ns: None,
                filtered_ns: None,
                per_second: None,
            });
        }
        table
    }

    /// Row of an event.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.events.binary_search_by(|e| e.name.as_str().cmp(name)).ok()
    }
}

/// A round in which events were measured together.
#[derive(Clone, Debug)]
pub struct Together {
    /// Time from one event to the next without tracing, ns.
    pub apart_ns: f64,
    /// Time that each event adds, ns.
    pub added_ns: f64,
    /// Number of times each event occurs in one operation, by row of the table.
    pub per_operation: HashMap<usize, f64>,
}

/// The means of a measurement.
pub struct Probe<'a> {
    /// The instance.
    pub kernel: &'a mut Kernel,
    /// Runs the operations.
    pub worker: &'a mut Worker,
    /// The CPU on which the worker runs.
    pub cpu: u32,
    /// Directory for raw pages.
    pub scratch: &'a Path,
}

impl Probe<'_> {
    /// Finds the operation that provokes each event. Returns the operations that cannot be run here, with the reason.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn scan(
        &mut self,
        table: &mut Table,
        operations: &[usize],
    ) -> Result<Vec<(&'static str, String)>> {
        let mut best = vec![0.0f64; table.events.len()];
        let (mut counts, mut missing) = (Vec::new(), Vec::new());
        for &ix in operations {
            match self.worker.calibrate(ix, 1e6) {
                Ok(n) => counts.push((ix, n.min(2000))),
                Err(Error::Operation(name, why)) => missing.push((name, why)),
                Err(e) => return Err(e),
            }
        }
        // Once for all operations: switching two thousand events takes a good part of a second.
        self.kernel.all_on(self.scratch)?;
        for (ix, n) in counts {
            self.kernel.drain_rest()?;
            self.kernel.new_files(self.scratch)?;
            let ns = self.worker.run(ix, n, false)?;
            let counts = self.collect(Some(self.cpu))?;
            for (id, count) in counts {
                let Some(&row) = table.by_id.get(&id) else {
                    continue;
                };
                let hits = count as f64 / n as f64;
                // Most hits in the least time: there, chance changes the measured time least.
                let weight = hits / (ns / n as f64);
                if hits >= PROVOKED && weight > 1.5 * best[row] && weight >= 1.0 / RESOLVED_NS {
                    best[row] = weight;
                    table.events[row].operation = Some(ops::ALL[ix].name);
                    table.events[row].hits_per_operation = hits;
                }
            }
        }
        self.kernel.off()?;
        Ok(missing)
    }

    /// Measures one event from `rounds` differences, or from up to four times as many while its cost cannot be told
    /// from zero. Does nothing with an event that no operation provokes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn measure(&mut self, event: &mut EventCost, rounds: u32) -> Result<()> {
        let Some(ix) =
            event.operation.and_then(|name| ops::ALL.iter().position(|op| op.name == name))
        else {
            return Ok(());
        };
        let n = self.worker.calibrate(ix, BATCH_NS)?;
        let hits = n as f64 * event.hits_per_operation;
        let refused = |what: &str| {
            let what = format!("{what} {}", event.name);
            move |source| Error::Tracefs { what, source }
        };
        let mut samples = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..4 * rounds {
            let unclear = median(&samples[0]).is_none_or(|e: Estimate| e.low <= 0.0);
            if round >= rounds && !unclear {
                break;
            }
            let before = self.worker.shortest(ix, n, false)?;
            self.kernel.switch_on(std::slice::from_ref(&event.name), self.scratch)?;
            let on = self.worker.shortest(ix, n, false)?;
            self.kernel.drain()?;
            let tracing = |on: bool| self.kernel.instance.set_tracing(on);
            tracing(false).map_err(refused("pause"))?;
            let paused = self.worker.shortest(ix, n, false)?;
            tracing(true).map_err(refused("go on with"))?;
            let catalogue = self.kernel.catalogue();
            // Every event has the field; no thread has this id.
            let filtered = match catalogue.set_filter(&event.name, "common_pid == -7") {
                Ok(()) => Some(self.worker.shortest(ix, n, false)?),
                Err(_) => None,
            };
            let catalogue = self.kernel.catalogue();
            if filtered.is_some() {
                let _ = catalogue.set_filter(&event.name, "0");
            }
            catalogue.enable(&event.name, false).map_err(refused("switch off"))?;
            let after = self.worker.shortest(ix, n, false)?;
            let off = (before + after) / 2.0;
            for (list, ns) in samples.iter_mut().zip([Some(on), Some(paused), filtered]) {
                list.extend(ns.map(|ns| (ns - off) / hits));
            }
        }
        let [on, paused, filtered] = samples.map(|list| median(&list));
        (event.on_ns, event.paused_ns, event.filtered_ns) = (on, paused, filtered);
        Ok(())
    }

    /// Measures one round: ns per hit while all of `rows` are on together, in operation `ix`; `None` when it provokes
    /// none of them.
    ///
    /// Events share costs: the first event of system calls sends each call through the kernel's slow path, and a
    /// second one does not do so again. So the costs of events measured one by one add up to more than both cost
    /// together. `work` is the amount of other work before each operation ([`ops::set_work`]).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn measure_together(
        &mut self,
        table: &Table,
        rows: &[usize],
        ix: usize,
        work: u32,
    ) -> Result<Option<Together>> {
        self.worker.set_work(work)?;
        let measured = self.together(table, rows, ix);
        self.worker.set_work(0)?;
        measured
    }

    fn together(&mut self, table: &Table, rows: &[usize], ix: usize) -> Result<Option<Together>> {
        let names: Vec<String> = rows.iter().map(|&r| table.events[r].name.clone()).collect();
        let n = self.worker.calibrate(ix, ROUND_NS)?;
        // A single run: the shortest of several would give the cost of an event at the machine's best, but a program
        // runs beside others that share the host's cores, and so do neighbouring runs.
        let before = self.worker.run(ix, n, false)?;
        self.kernel.switch_on(&names, self.scratch)?;
        let on = self.worker.run(ix, n, false)?;
        let counts = self.collect(Some(self.cpu))?;
        self.kernel.off()?;
        let after = self.worker.run(ix, n, false)?;
        let of_row = |(id, count): (u16, u64)| Some((*table.by_id.get(&id)?, count));
        let hits = counts.into_iter().filter_map(of_row);
        let hits: HashMap<usize, f64> = hits
            .filter(|(row, count)| rows.contains(row) && *count as f64 >= PROVOKED * n as f64)
            .map(|(row, count)| (row, count as f64))
            .collect();
        if hits.is_empty() {
            return Ok(None);
        }
        let all: f64 = hits.values().sum();
        let off = (before + after) / 2.0;
        Ok(Some(Together {
            apart_ns: off / all,
            added_ns: (on - off) / all,
            per_operation: hits.into_iter().map(|(row, h)| (row, h / n as f64)).collect(),
        }))
    }

    /// Counts every event of the system for `time`, which starts when `begin` returns, and puts the hits per second
    /// into the table.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn look(&mut self, table: &mut Table, time: Duration, begin: impl FnOnce()) -> Result<()> {
        self.kernel.all_on(self.scratch)?;
        self.kernel.drain_rest()?;
        self.kernel.new_files(self.scratch)?;
        begin();
        let start = Instant::now();
        while start.elapsed() < time {
            std::thread::sleep(Duration::from_millis(5).min(time));
            self.kernel.drain()?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let counts = self.collect(None)?;
        self.kernel.off()?;
        for event in &mut table.events {
            event.per_second = Some(0.0);
        }
        for (id, count) in counts {
            if let Some(&row) = table.by_id.get(&id) {
                table.events[row].per_second = Some(count as f64 / seconds);
            }
        }
        Ok(())
    }

    /// Counts the events in the files by event id, for one CPU or for all.
    fn collect(&mut self, cpu: Option<u32>) -> Result<HashMap<u16, u64>> {
        let i = &self.kernel.instance;
        let layout = PageLayout::from_meta(&KernelMeta {
            page_bytes: i.page_bytes,
            header_page: i.header_page.clone(),
            big_endian: cfg!(target_endian = "big"),
            ..KernelMeta::default()
        })
        .unwrap_or(PageLayout::LE64);
        let cpus: Vec<u32> = match cpu {
            Some(cpu) => vec![cpu],
            None => i.cpus.clone(),
        };
        self.kernel.drain_rest()?;
        let mut counts = HashMap::new();
        for cpu in cpus {
            let path = self.scratch.join(format!("cpu{cpu}.raw"));
            each_event(&path, &layout, |id, _| *counts.entry(id).or_insert(0u64) += 1)?;
        }
        Ok(counts)
    }
}

/// Operations whose time can be divided by their hits: all but those that subtract their own overhead.
pub fn provokers() -> Vec<usize> {
    (0..ops::ALL.len()).filter(|&ix| !ops::ALL[ix].subtracts).collect()
}

/// The operation that provokes the events of a subsystem best; `None`: none of our operations does.
pub fn provoker_of(system: &str) -> Option<usize> {
    let name = match system {
        "sched" => "pipe",
        "raw_syscalls" | "syscalls" => "null call",
        "exceptions" => "page fault",
        "kmem" | "maple_tree" | "mmap" => "mmap",
        "sock" | "skb" => "AF_UNIX",
        "signal" => "sig hndl",
        _ => return None,
    };
    ops::ALL.iter().position(|op| op.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsystems_have_an_operation_that_can_be_divided_by_its_hits() {
        let provokers = provokers();
        for system in ["sched", "raw_syscalls", "exceptions", "kmem", "sock", "signal"] {
            let ix = provoker_of(system).expect(system);
            assert!(provokers.contains(&ix), "{system}: {}", ops::ALL[ix].name);
        }
        assert_eq!(provoker_of("no such subsystem"), None);
        assert!(provokers.len() < ops::ALL.len(), "some subtract their own overhead");
    }

    #[test]
    fn events_are_found_by_name() {
        let event = |name: &str| EventCost {
            name: name.to_owned(),
            bytes: 0,
            operation: None,
            hits_per_operation: 0.0,
            on_ns: None,
            paused_ns: None,
            filtered_ns: None,
            per_second: None,
        };
        let table = Table {
            events: ["irq/a", "sched/a", "sched/b"].map(event).to_vec(),
            ..Table::default()
        };
        assert_eq!(["irq/a", "sched/b"].map(|name| table.find(name)), [Some(0), Some(2)]);
        assert_eq!(["", "sched", "sched/c"].map(|name| table.find(name)), [None; 3]);
    }
}
