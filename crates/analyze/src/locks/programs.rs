//! A row for each program of a tree of processes, as `make` or a pre-forking server makes it: all processes of one name together.
use super::answer::{ProgramRow, Use};
use super::holds::{Acquisition, StatesOf};
use crate::cut::Cut;
use kasuri_model::{KernelSpanKind, ProcessIx, StrIx, ThreadIx};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Time in kernel spans of one kind.
#[derive(Clone, Copy, Default)]
pub(super) struct KernelTime {
    /// From their beginnings to their ends.
    pub all_ns: i64,
    /// Of it on a CPU.
    pub running_ns: i64,
}

impl KernelTime {
    /// As a share. System calls: their CPU time / CPU time; a blocked call is no work. Contention: as a wait ratio, waiting / CPU time and the
    /// time blocked in it.
    pub fn ratio(self, kind: KernelSpanKind, cpu_ns: i64) -> Option<f64> {
        let (part, whole) = match kind {
            KernelSpanKind::Syscall => (self.running_ns, cpu_ns),
            _ => (self.all_ns, cpu_ns + self.all_ns - self.running_ns),
        };
        (cpu_ns > 0).then(|| (part as f64 / whole.max(1) as f64).min(1.0))
    }
}

/// Time in kernel spans of a kind by process, of the shown threads; none: they were not recorded.
pub(super) fn kernel_times(
    cut: &Cut<'_>,
    kind: KernelSpanKind,
) -> Option<HashMap<ProcessIx, KernelTime>> {
    let k = &cut.trace.kernel_spans;
    let mut spans = (0..k.start.len()).filter(|&row| k.kind[row] == kind).peekable();
    spans.peek()?;
    let mut states = StatesOf::new(cut.trace);
    let mut out: HashMap<ProcessIx, KernelTime> = HashMap::new();
    for row in spans.filter(|&row| k.thread[row].is_some() && cut.is_shown(k.thread[row])) {
        let process = cut.trace.threads[k.thread[row].ix()].process;
        let time = out.entry(process).or_default();
        time.all_ns += cut.overlap(k.start[row], k.end[row]);
        time.running_ns += states.on_cpu(cut, k.thread[row], k.start[row], k.end[row]);
    }
    Some(out)
}

/// The sum over all processes.
pub(super) fn total(times: &HashMap<ProcessIx, KernelTime>) -> KernelTime {
    sum(times.values().copied())
}

fn sum(times: impl Iterator<Item = KernelTime>) -> KernelTime {
    times.fold(KernelTime::default(), |sum, time| KernelTime {
        all_ns: sum.all_ns + time.all_ns,
        running_ns: sum.running_ns + time.running_ns,
    })
}

/// Time in the kernel's spans by process, as [`kernel_times`] tells it.
pub(super) struct InKernel {
    pub syscalls: Option<HashMap<ProcessIx, KernelTime>>,
    pub contention: Option<HashMap<ProcessIx, KernelTime>>,
}

/// Programs by name, most CPU time first; empty: there is but one process. `cpu`: CPU time of each shown thread.
pub(super) fn programs(
    cut: &Cut<'_>,
    cpu: &BTreeMap<ThreadIx, i64>,
    all: &[Acquisition],
    in_kernel: &InKernel,
) -> Vec<ProgramRow> {
    let trace = cut.trace;
    let process_of = |thread: ThreadIx| trace.threads[thread.ix()].process;
    let name_of = |process: ProcessIx| trace.processes[process.ix()].name;
    let mut cpus: BTreeMap<ProcessIx, i64> = BTreeMap::new();
    for (&thread, ns) in cpu {
        *cpus.entry(process_of(thread)).or_default() += ns;
    }
    if cpus.len() < 2 {
        return Vec::new();
    }
    let mut uses: HashMap<StrIx, (Use, Vec<i64>)> = HashMap::new();
    for own in all.chunk_by(|a, b| a.thread == b.thread) {
        let sum = uses.entry(name_of(process_of(own[0].thread))).or_default();
        super::add_to(sum, own);
    }
    let mut of_name: HashMap<StrIx, Vec<ProcessIx>> = HashMap::new();
    for &process in cpus.keys() {
        of_name.entry(name_of(process)).or_default().push(process);
    }
    let rows = of_name.into_iter().map(|(name, processes)| {
        let cpu_ns = processes.iter().map(|p| cpus[p]).sum();
        let (mut used, mut lengths) = uses.remove(&name).unwrap_or_default();
        used.finish(&mut lengths, cpu_ns);
        let ratio = |times: &Option<HashMap<ProcessIx, KernelTime>>, kind| {
            let times = times.as_ref()?;
            sum(processes.iter().filter_map(|p| times.get(p).copied())).ratio(kind, cpu_ns)
        };
        ProgramRow {
            name: trace.strings.get(name).into(),
            processes: processes.len() as u32,
            cpu_ns,
            syscall_ratio: ratio(&in_kernel.syscalls, KernelSpanKind::Syscall),
            kernel_contention_ratio: ratio(&in_kernel.contention, KernelSpanKind::LockContention),
            used,
        }
    });
    let mut rows: Vec<ProgramRow> = rows.collect();
    rows.sort_by(|a, b| (Reverse(a.cpu_ns), &a.name).cmp(&(Reverse(b.cpu_ns), &b.name)));
    rows
}
