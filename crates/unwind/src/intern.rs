//! Gives modules, frames and paths their rows, and the log a record of each new one.
use kasuri_base::quick::QuickMap;
use kasuri_format::call_paths::{
    Call, Frame, LogWriter, Module, NONE, Names, Path, Sample, Tables,
};
use std::collections::HashMap;

/// Most rows of one table; a path takes about 50 bytes.
pub(crate) const ROWS_MAX: usize = if cfg!(test) { 64 } else { 1 << 22 };

/// The tables of a recording that is being made.
#[derive(Debug, Default)]
pub struct Interner {
    tables: Tables,
    modules: HashMap<Module, u32>,
    frames: QuickMap<(u32, u64), u32>,
    paths: QuickMap<(u32, u32), u32>,
    log: LogWriter,
}

impl Interner {
    /// All modules, frames and paths so far.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The records since the last call, for the end of the log.
    pub fn take_log(&mut self) -> Vec<u8> {
        self.log.take()
    }

    /// Bytes of records that were not taken yet.
    pub fn log_bytes(&self) -> usize {
        self.log.bytes().len()
    }

    /// Adds a sample to the log.
    pub fn sample(&mut self, sample: &Sample) {
        self.log.sample(sample);
    }

    /// Forgets the rows that the paths of these samples do not need. The others get new numbers, and the samples the new ones of their
    /// paths. The log is empty then: who keeps one writes the tables anew. Returns the tables before.
    pub fn keep(&mut self, samples: &mut [Sample]) -> Tables {
        let old = std::mem::take(self).tables;
        let mut is_needed = vec![false; old.paths.len()];
        for sample in samples.iter() {
            mark(&mut is_needed, sample.path);
        }
        // A caller has a row before those that it called.
        for (row, path) in old.paths.iter().enumerate().rev() {
            if is_needed[row] {
                mark(&mut is_needed, path.caller);
            }
        }
        let names: HashMap<u32, &Names> = old.names.iter().map(|n| (n.frame, n)).collect();
        let mut rows = vec![NONE; old.paths.len()];
        let row_of = |rows: &[u32], path: u32| rows.get(path as usize).copied().unwrap_or(NONE);
        for (row, path) in old.paths.iter().enumerate() {
            if is_needed[row] {
                let frame = self.keep_frame(&old, path.frame, &names);
                rows[row] = self.path(row_of(&rows, path.caller), frame);
            }
        }
        for sample in samples {
            sample.path = row_of(&rows, sample.path);
        }
        drop(self.log.take());
        old
    }

    /// The new row of a frame of these tables.
    fn keep_frame(&mut self, old: &Tables, row: u32, names: &HashMap<u32, &Names>) -> u32 {
        let Some(&Frame { module, address }) = old.frames.get(row as usize) else {
            return NONE;
        };
        let module = self.keep_module(old, module);
        let n = self.tables.frames.len();
        let new = self.frame(Frame { module, address });
        if new as usize == n
            && let Some(&named) = names.get(&row)
        {
            self.tables.names.push(Names { frame: new, calls: named.calls.clone() });
        }
        new
    }

    /// The row, in these tables, of a module of the tables before [`Interner::keep`].
    pub(crate) fn keep_module(&mut self, old: &Tables, row: u32) -> u32 {
        let module = old.modules.get(row as usize).cloned();
        module.map_or(NONE, |module| self.module(module))
    }

    /// Whether a frame has a row.
    pub fn has(&self, frame: Frame) -> bool {
        self.frames.contains_key(&(frame.module, frame.address))
    }

    /// Rows of all tables.
    pub fn n_rows(&self) -> usize {
        let tables = &self.tables;
        tables.modules.len() + tables.frames.len() + tables.paths.len() + tables.names.len()
    }

    /// Whether a table is full, so that new places get no row.
    pub fn is_full(&self) -> bool {
        self.tables.paths.len() >= ROWS_MAX || self.tables.frames.len() >= ROWS_MAX
    }

    /// The row of a module.
    pub fn module(&mut self, module: Module) -> u32 {
        if let Some(&row) = self.modules.get(&module) {
            return row;
        }
        if self.tables.modules.len() >= ROWS_MAX {
            return NONE;
        }
        self.log.module(&module);
        let row = self.tables.modules.len() as u32;
        self.tables.modules.push(module.clone());
        self.modules.insert(module, row);
        row
    }

    /// The row of a frame; [`NONE`]: the table is full.
    pub fn frame(&mut self, frame: Frame) -> u32 {
        let key = (frame.module, frame.address);
        if let Some(&row) = self.frames.get(&key) {
            return row;
        }
        if self.is_full() {
            return NONE;
        }
        self.log.frame(frame);
        let row = self.tables.frames.len() as u32;
        self.tables.frames.push(frame);
        self.frames.insert(key, row);
        row
    }

    /// The row of a frame whose name is known.
    pub fn named(&mut self, frame: Frame, call: Call) -> u32 {
        let n = self.tables.frames.len();
        let row = self.frame(frame);
        if row as usize == n {
            let calls = vec![call];
            let names = Names { frame: row, calls };
            self.log.names(&names);
            self.tables.names.push(names);
        }
        row
    }

    /// The row of the path of a frame that `caller` called; [`NONE`]: the table is full.
    pub fn path(&mut self, caller: u32, frame: u32) -> u32 {
        if let Some(&row) = self.paths.get(&(caller, frame)) {
            return row;
        }
        if self.is_full() || frame == NONE {
            return NONE;
        }
        let path = Path { caller, frame };
        self.log.path(path);
        let row = self.tables.paths.len() as u32;
        self.tables.paths.push(path);
        self.paths.insert((caller, frame), row);
        row
    }
}

/// Marks a row, if it is one.
fn mark(rows: &mut [bool], row: u32) {
    if let Some(is_needed) = rows.get_mut(row as usize) {
        *is_needed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::call_paths::ModuleKind;

    fn module(path: &str) -> Module {
        Module { kind: ModuleKind::Elf, path: path.to_owned(), ..Module::default() }
    }

    /// Path, module, address and name of each frame of a path, innermost first.
    fn told(tables: &Tables, mut path: u32) -> Vec<(String, u64, String)> {
        let mut out = Vec::new();
        while let Some(&Path { caller, frame }) = tables.paths.get(path as usize) {
            let Frame { module, address } = tables.frames[frame as usize];
            let name = tables.names.iter().find(|n| n.frame == frame);
            let name = name.map_or(String::new(), |n| n.calls[0].function.clone());
            let module = tables.modules.get(module as usize);
            let file = module.map_or(String::new(), |m| m.path.clone());
            out.push((file, address, name));
            path = caller;
        }
        out
    }

    #[test]
    fn paths_that_are_kept_say_the_same_in_fewer_rows() {
        let mut interner = Interner::default();
        let mut samples = Vec::new();
        for n in 0..20u64 {
            let own = interner.module(module(&format!("/bin/{n}")));
            let libc = interner.module(module("/lib/libc.so.6"));
            let outer = interner.frame(Frame { module: libc, address: 1 });
            let inner = interner.frame(Frame { module: own, address: n });
            let call = Call { function: format!("wait {n}"), ..Call::default() };
            let named = interner.named(Frame { module: libc, address: 100 + n }, call);
            let path = interner.path(NONE, outer);
            let path = interner.path(path, inner);
            let path = interner.path(path, named);
            samples.push(Sample { path, ..Sample::default() });
        }
        samples.push(Sample { path: NONE, ..Sample::default() });
        let before = interner.n_rows();
        let expected: Vec<_> =
            samples[17..].iter().map(|s| told(interner.tables(), s.path)).collect();
        let old = interner.keep(&mut samples[17..]);
        assert_eq!(old.paths.len(), 41);
        let kept: Vec<_> = samples[17..].iter().map(|s| told(interner.tables(), s.path)).collect();
        assert_eq!(kept, expected);
        assert_eq!(kept[2][0].2, "wait 19");
        assert_eq!(samples[20].path, NONE, "one without a path has none");
        assert_eq!(interner.tables().paths.len(), 1 + 3 * 2);
        assert!(interner.n_rows() * 4 < before, "{} of {before}", interner.n_rows());
        assert_eq!(interner.log_bytes(), LogWriter::default().bytes().len());
        // And again, of nothing.
        interner.keep(&mut []);
        assert_eq!(interner.n_rows(), 0);
    }
}
