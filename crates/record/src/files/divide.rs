//! Divides frames whose address had several functions, one after the other.
//!
//! Code that was made at run time is freed, and other code made in its place. The recorder knows an address only; when the recording is packed a
//! jitdump tells what was there from when on ([`Timed`]). The first of its functions keeps the frame, each other gets a frame of its own, and
//! each sample the path with the frames of its time.
use kasuri_format::call_paths::{Frame, Log, ModuleKind, NONE, Names, Path, Tables};
use kasuri_symbols::Timed;
use std::collections::HashMap;

/// Most rows of a table.
const ROWS_MAX: usize = if cfg!(test) { 8 } else { 1 << 22 };

/// Whether a jitdump may name code of these tables.
pub(super) fn has_dump(tables: &Tables) -> bool {
    let is_it = |m: &kasuri_format::call_paths::Module| {
        m.kind == ModuleKind::Jit && m.pid != 0 && !m.path.is_empty()
    };
    tables.modules.iter().any(is_it)
}

/// Divides frames by `timed`, which is sorted by frame and time, and adds the names.
pub(super) fn divide(log: &mut Log, timed: &[Timed]) {
    let mut divided = Divided::default();
    for of_one in timed.chunk_by(|a, b| a.names.frame == b.names.frame) {
        let frame = of_one[0].names.frame;
        let Some(&Frame { module, address }) = log.tables.frames.get(frame as usize) else {
            continue;
        };
        let rows = divided.frames.entry(frame).or_default();
        for (n, Timed { names, from_ns }) in of_one.iter().enumerate() {
            let row = match n {
                0 => frame,
                _ if log.tables.frames.len() >= ROWS_MAX => NONE,
                _ => {
                    log.tables.frames.push(Frame { module, address });
                    log.tables.frames.len() as u32 - 1
                }
            };
            rows.push((*from_ns, row));
            if row == NONE {
                break;
            }
            log.tables.names.push(Names { frame: row, ..names.clone() });
        }
    }
    if !divided.frames.is_empty() {
        divided.note(&log.tables);
        for sample in &mut log.samples {
            sample.path = divided.path(sample.path, sample.time_ns, &mut log.tables);
        }
    }
}

#[derive(Default)]
struct Divided {
    /// For each frame, its rows and the times from which they hold.
    frames: HashMap<u32, Vec<(u64, u32)>>,
    /// Whether a path has such a frame, by row.
    is_divided: Vec<bool>,
    /// Rows by caller and frame.
    rows: HashMap<(u32, u32), u32>,
}

impl Divided {
    fn note(&mut self, tables: &Tables) {
        for (path, row) in tables.paths.iter().zip(0..) {
            let caller_is = self.is_divided.get(path.caller as usize) == Some(&true);
            self.is_divided.push(caller_is || self.frames.contains_key(&path.frame));
            self.rows.insert((path.caller, path.frame), row);
        }
    }

    /// The path with the frames of this time. Where the tables are full there is none: the rest of it would be another one.
    fn path(&mut self, path: u32, time_ns: u64, tables: &mut Tables) -> u32 {
        let (mut outer, mut frames) = (path, Vec::new());
        while self.is_divided.get(outer as usize) == Some(&true) {
            let Path { caller, frame } = tables.paths[outer as usize];
            frames.push(self.frame(frame, time_ns));
            outer = caller;
        }
        let mut made = outer;
        for frame in frames.into_iter().rev() {
            made = self.row(made, frame, tables);
            if made == NONE {
                return NONE;
            }
        }
        made
    }

    fn frame(&self, frame: u32, time_ns: u64) -> u32 {
        let Some(rows) = self.frames.get(&frame) else {
            return frame;
        };
        let after = rows.partition_point(|(from_ns, _)| *from_ns <= time_ns);
        rows.get(after.saturating_sub(1)).map_or(frame, |r| r.1)
    }

    fn row(&mut self, caller: u32, frame: u32, tables: &mut Tables) -> u32 {
        if let Some(&row) = self.rows.get(&(caller, frame)) {
            return row;
        }
        if frame == NONE || tables.paths.len() >= ROWS_MAX {
            return NONE;
        }
        let row = tables.paths.len() as u32;
        tables.paths.push(Path { caller, frame });
        self.rows.insert((caller, frame), row);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::call_paths::{Call, LogWriter, Module, Sample, read_log};

    fn timed(frame: u32, from_ns: u64, function: &str) -> Timed {
        let call = Call { function: function.to_owned(), ..Call::default() };
        Timed { names: Names { frame, calls: vec![call] }, from_ns }
    }

    /// Names from the innermost frame on.
    fn shown(log: &Log, mut path: u32) -> String {
        let mut names = Vec::new();
        while let Some(row) = log.tables.paths.get(path as usize) {
            let mut of_frame = log.tables.names.iter().filter(|n| n.frame == row.frame);
            names.push(of_frame.next_back().map_or("-", |n| &*n.calls[0].function));
            path = row.caller;
        }
        names.join(" < ")
    }

    #[test]
    fn each_sample_has_the_functions_of_its_time() {
        let frame = |address| Frame { module: 0, address };
        let path = |caller, frame| Path { caller, frame };
        let sample = |time_ns, path| Sample { time_ns, path, ..Sample::default() };
        let mut log = Log {
            tables: Tables {
                modules: vec![Module::default()],
                frames: vec![frame(1), frame(2), frame(3)],
                // Frame 0 begins, 1 and 2 are divided.
                paths: vec![path(NONE, 0), path(0, 1), path(1, 2), path(0, 0)],
                names: vec![timed(0, 0, "main").names],
            },
            samples: vec![
                sample(5, 2),
                sample(10, 2),
                sample(25, 2),
                sample(99, 3),
                sample(30, 1),
                sample(30, NONE),
            ],
        };
        let names = [
            timed(1, 0, "a"),
            timed(1, 20, "b"),
            timed(2, 0, "x"),
            timed(2, 10, "y"),
            timed(2, 30, "z"),
            timed(77, 0, "of no frame"),
        ];
        divide(&mut log, &names);
        let paths: Vec<String> = log.samples.iter().map(|s| shown(&log, s.path)).collect();
        assert_eq!(
            paths,
            ["x < a < main", "y < a < main", "y < b < main", "main < main", "b < main", ""]
        );
        assert_eq!((log.samples[0].path, log.samples[3].path), (2, 3));
        let mut again = LogWriter::default();
        again.tables(&log.tables);
        log.tables.names.iter().for_each(|n| again.names(n));
        assert_eq!(read_log(again.bytes(), 0).0.tables, log.tables);
        assert!(!has_dump(&log.tables));
    }

    #[test]
    fn where_the_tables_are_full_there_is_no_path() {
        let frame = Frame { module: NONE, address: 1 };
        let mut log = Log::default();
        log.tables.frames.push(frame);
        log.tables.paths.push(Path { caller: NONE, frame: 0 });
        log.samples = (0..20).map(|n| Sample { time_ns: n, ..Sample::default() }).collect();
        let names: Vec<Timed> = (0..20).map(|n| timed(0, n, &format!("f{n}"))).collect();
        divide(&mut log, &names);
        for (sample, n) in log.samples.iter().zip(0..) {
            let name = match n < ROWS_MAX {
                true => format!("f{n}"),
                false => String::new(),
            };
            assert_eq!(shown(&log, sample.path), name);
        }
    }
}
