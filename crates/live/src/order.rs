//! Pages of many CPUs -> events in the order of time.
//!
//! Each CPU's pages are in order; between CPUs the one with the smallest stamp is next, and goes on until another CPU's stamp is
//! smaller. What lies beyond the moment asked for stays, because another CPU may still
//! write before it. Events are read where they lie: a page is shared with whoever else keeps it, and of the one that a CPU is at, the
//! place is remembered between two turns.
use kasuri_format::Result;
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{Missed, Page, PageLayout, Place};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// What comes out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taken<'a> {
    /// Bytes of an event.
    Event(&'a [u8]),
    /// Events of this CPU were lost before this moment.
    Gap,
}

#[derive(Debug, Default)]
struct Cpu {
    pages: VecDeque<Arc<[u8]>>,
    /// In the first page; `None`: nothing of it was taken.
    place: Option<Place>,
    /// The stamp of the next event; `None`: there is none.
    next: Option<u64>,
}

/// The pages that were pushed and not yet taken.
#[derive(Debug)]
pub(crate) struct Order {
    layout: PageLayout,
    cpus: Vec<Cpu>,
    /// Pages, or ends of pages, that make no sense.
    damaged: u64,
}

impl Order {
    pub(crate) fn new(kernel: &KernelMeta, n_cpus: usize) -> Result<Order> {
        Ok(Order {
            layout: PageLayout::from_meta(kernel)?,
            cpus: (0..n_cpus).map(|_| Cpu::default()).collect(),
            damaged: 0,
        })
    }

    pub(crate) fn push(&mut self, cpu: usize, page: Arc<[u8]>) {
        let (Some(of), Ok(parsed)) = (self.cpus.get_mut(cpu), Page::parse(&page, &self.layout, 0))
        else {
            self.damaged += 1;
            return;
        };
        // An empty page says nothing, and one whose first event makes no sense has none.
        let Some(Ok(first)) = parsed.events().next() else {
            self.damaged += u64::from(parsed.event_bytes() > 0);
            return;
        };
        of.next = of.next.or(Some(first.stamp));
        of.pages.push_back(page);
    }

    /// Count of damaged places since the last call.
    pub(crate) fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// Calls `each` with the position of the CPU, the stamp, and what happened, for all stamps up to `until`.
    pub(crate) fn take_until(&mut self, until: u64, mut each: impl FnMut(usize, u64, Taken<'_>)) {
        let heads = self.cpus.iter().enumerate();
        let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
            heads.filter_map(|(ix, cpu)| Some(Reverse((cpu.next?, ix)))).collect();
        while let Some(Reverse((stamp, ix))) = heap.pop() {
            if stamp > until {
                break;
            }
            let other = heap.peek().map_or(u64::MAX, |Reverse((stamp, _))| *stamp);
            self.run(ix, until.min(other), &mut each);
            heap.extend(self.cpus[ix].next.map(|next| Reverse((next, ix))));
        }
    }

    /// Takes events of one CPU up to a stamp.
    fn run(&mut self, ix: usize, until: u64, each: &mut impl FnMut(usize, u64, Taken<'_>)) {
        let cpu = &mut self.cpus[ix];
        cpu.next = None;
        while let Some(bytes) = cpu.pages.front() {
            let Ok(page) = Page::parse(bytes, &self.layout, 0) else {
                unreachable!("it was parsed when it was pushed");
            };
            let mut events =
                cpu.place.map_or_else(|| page.events(), |place| page.events_from(place));
            let mut gap = cpu.place.is_none() && page.missed != Missed::None;
            loop {
                let place = events.place();
                match events.next() {
                    Some(Ok(event)) if event.stamp <= until => {
                        if std::mem::take(&mut gap) {
                            each(ix, page.stamp, Taken::Gap);
                        }
                        each(ix, event.stamp, Taken::Event(event.data));
                    }
                    Some(Ok(event)) => {
                        cpu.next = Some(event.stamp);
                        // At its start the page is still to say what was lost before it.
                        cpu.place = (place != page.events().place()).then_some(place);
                        return;
                    }
                    Some(Err(_)) => {
                        self.damaged += 1;
                        break;
                    }
                    None => break,
                }
            }
            cpu.pages.pop_front();
            cpu.place = None;
        }
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
