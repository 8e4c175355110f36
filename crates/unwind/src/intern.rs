//! Gives modules, frames and paths their rows, and the log a record of each new one.
use kasuri_format::call_paths::{
    Call, Frame, LogWriter, Module, NONE, Names, Path, Sample, Tables,
};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Most rows of one table; a path takes about 50 bytes.
pub(crate) const ROWS_MAX: usize = if cfg!(test) { 64 } else { 1 << 22 };

/// A hash of a few numbers: a multiplication each. Nobody outside chooses enough of the keys to make them collide at a
/// cost that matters, since tables are bounded.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b.into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// The tables of a recording that is being made.
#[derive(Debug, Default)]
pub struct Interner {
    tables: Tables,
    modules: HashMap<Module, u32>,
    frames: Numbered<(u32, u64), u32>,
    paths: Numbered<(u32, u32), u32>,
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
