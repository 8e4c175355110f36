//! The table of formats: what a command must know to offer and write each of them.
//!
//! `kasuri export --format NAME` looks up [`EXPORTS`] by name, and [`Shape`] says how the result lies on the disk. To
//! add a format, write a module with a `write` function and add a row here; the tests below then run it on an empty
//! trace.
use crate::ctf::{self, Directory, Version};
use crate::{Exported, chrome, firefox, paraver, perfetto, pprof, speedscope, trace_dat};
use kasuri_model::Trace;
use std::io::{self, Write};

/// Writes one file.
pub type WriteFile = fn(&Trace, &mut dyn Write) -> io::Result<Exported>;
/// Writes files of a directory, which it asks for by their paths in it.
pub type WriteDirectory = fn(&Trace, &mut Directory<'_>) -> io::Result<Exported>;

/// The files of a format, and the functions that write them.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// One file, which may be a pipe.
    Stream(WriteFile),
    /// Several files of one name, each with an extension of its own; the first is what the result is called.
    Several(&'static [(&'static str, WriteFile)]),
    /// A directory.
    Directory(WriteDirectory),
}

/// A format.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// The name on the command line.
    pub name: &'static str,
    /// One line about it: which tools read it.
    pub about: &'static str,
    /// Extension of the result's name.
    pub extension: &'static str,
    /// Whether the format is binary: such a file is never written to a terminal.
    pub is_binary: bool,
    /// Whether it holds the scheduler's events themselves: from a trace that keeps them ([`Trace::sched_events`]).
    pub has_events: bool,
    /// Whether it holds the program alone: which that is matters then.
    pub is_of_program: bool,
    /// The files, and the functions that write them.
    pub shape: Shape,
}

/// All formats, in the order in which they are offered.
pub const EXPORTS: &[Export] = &[
    Export {
        name: "perfetto",
        about: "Perfetto protobuf",
        extension: "pftrace",
        is_binary: true,
        has_events: true,
        is_of_program: false,
        shape: Shape::Stream(|trace, out| perfetto::write(trace, out)),
    },
    Export {
        name: "chrome-json",
        about: "Chrome Trace Event Format, object form",
        extension: "json",
        is_binary: false,
        has_events: true,
        is_of_program: false,
        shape: Shape::Stream(|trace, out| chrome::write(trace, out)),
    },
    Export {
        name: "firefox",
        about: "Firefox Profiler's processed profile",
        extension: "firefox.json",
        is_binary: false,
        has_events: false,
        is_of_program: true,
        shape: Shape::Stream(|trace, out| firefox::write(trace, out)),
    },
    Export {
        name: "speedscope",
        about: "speedscope's evented profiles",
        extension: "speedscope.json",
        is_binary: false,
        has_events: false,
        is_of_program: true,
        shape: Shape::Stream(|trace, out| speedscope::write(trace, out)),
    },
    Export {
        name: "pprof",
        about: "pprof's profile.proto: times by call path, exact sums",
        extension: "pb.gz",
        is_binary: true,
        has_events: false,
        is_of_program: true,
        shape: Shape::Stream(|trace, out| pprof::write(trace, out)),
    },
    Export {
        name: "paraver",
        about: "Paraver's .prv, .pcf and .row",
        extension: "prv",
        is_binary: false,
        has_events: false,
        is_of_program: false,
        shape: Shape::Several(&[
            ("prv", |trace, out| paraver::write(trace, out)),
            ("pcf", |trace, out| beside(paraver::write_pcf(trace, out))),
            ("row", |trace, out| beside(paraver::write_row(trace, out))),
        ]),
    },
    Export {
        name: "ctf",
        about: "Common Trace Format 2, a directory (babeltrace2 2.1 and later)",
        extension: "ctf",
        is_binary: true,
        has_events: true,
        is_of_program: false,
        shape: Shape::Directory(|trace, files| ctf::write(trace, Version::V2, files)),
    },
    Export {
        name: "ctf1.8",
        about: "Common Trace Format 1.8, a directory (babeltrace2, Trace Compass)",
        extension: "ctf",
        is_binary: true,
        has_events: true,
        is_of_program: false,
        shape: Shape::Directory(|trace, files| ctf::write(trace, Version::V1_8, files)),
    },
    Export {
        name: "trace-dat",
        about: "trace-cmd's trace.dat, version 6",
        extension: "dat",
        is_binary: true,
        has_events: true,
        is_of_program: false,
        shape: Shape::Stream(|trace, out| trace_dat::write(trace, out)),
    },
];

/// The result of a file that accompanies the main one: the main file alone reports what was written and left out.
fn beside(done: io::Result<()>) -> io::Result<Exported> {
    done.map(|()| Exported::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_several_files_have_extensions_of_their_own() {
        for (i, export) in EXPORTS.iter().enumerate() {
            let others = EXPORTS[i + 1..].iter();
            assert!(others.clone().all(|o| o.name != export.name), "{}", export.name);
            if let Shape::Several(files) = export.shape {
                assert_eq!(files[0].0, export.extension);
                let mut extensions: Vec<&str> = files.iter().map(|f| f.0).collect();
                extensions.sort_unstable();
                extensions.dedup();
                assert_eq!(extensions.len(), files.len());
            }
        }
    }

    #[test]
    fn every_format_writes_a_recording_without_anything_in_it() {
        let trace = Trace::default();
        for export in EXPORTS {
            let done = match export.shape {
                Shape::Stream(write) => write(&trace, &mut io::sink()).map(|_| ()),
                Shape::Several(files) => files
                    .iter()
                    .try_for_each(|(_, write)| write(&trace, &mut io::sink()).map(|_| ())),
                Shape::Directory(write) => {
                    write(&trace, &mut |_| Ok(Box::new(io::sink()))).map(|_| ())
                }
            };
            assert!(done.is_ok(), "{}: {done:?}", export.name);
        }
    }
}
