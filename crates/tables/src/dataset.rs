//! Where the files of many runs lie: `DIR/TABLE/machine=M/run=R/TABLE.parquet`.
//!
//! A folder for each table, below it Hive's way of writing keys: the layout that DuckDB's
//! `read_parquet('DIR/slice/**/*.parquet', hive_partitioning = true)` and Spark's `spark.read.parquet("DIR/slice")` both turn
//! into a table with the columns `machine` and `run`, of which they open only the files that a query asks for.
use crate::{Error, Result, Source, TABLES, Table, csv, parquet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Which run it is: the two columns that every table has before its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// The machine.
    pub machine: String,
    /// The run, unique on its machine.
    pub run: String,
}

/// Counts of what was written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Written {
    /// Files.
    pub files: u64,
    /// Rows.
    pub rows: u64,
}

/// Writes the tables as Parquet below `dir`, in the places of this run. A run that is there already is replaced, file by
/// file; each file appears when it is whole. `mode`: the files' permissions, of which the umask takes some.
///
/// # Errors
/// Those of the file system, with the path.
pub fn write(
    dir: &Path,
    key: &Key,
    source: &Source<'_>,
    tables: &[&Table],
    packing: parquet::Packing,
    mode: u32,
) -> Result<Written> {
    let mut written = Written::default();
    for table in tables {
        let folder = dir
            .join(table.name)
            .join(format!("machine={}", escaped(&key.machine)))
            .join(format!("run={}", escaped(&key.run)));
        written.rows += write_file(&folder, table.name, "parquet", mode, |out| {
            parquet::write(table, source, packing, out)
        })?;
        written.files += 1;
    }
    Ok(written)
}

/// Writes the tables as CSV into `dir`: `DIR/TABLE.csv`, with the permissions of [`write`].
///
/// # Errors
/// Those of the file system, with the path.
pub fn write_csv(dir: &Path, source: &Source<'_>, tables: &[&Table], mode: u32) -> Result<Written> {
    let mut written = Written::default();
    for table in tables {
        written.rows +=
            write_file(dir, table.name, "csv", mode, |out| csv::write(table, source, out))?;
        written.files += 1;
    }
    Ok(written)
}

fn write_file(
    folder: &Path,
    name: &str,
    extension: &str,
    mode: u32,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<u64>,
) -> Result<u64> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let path = folder.join(format!("{name}.{extension}"));
    // A name that neither engine reads, should this process be killed.
    let unfinished = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let result = (|| {
        // Files only: a link or a device of that name is not ours, and is neither followed nor replaced.
        if fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            let why = io::Error::other("is there and no regular file");
            return Err(Error::file(&path)(why));
        }
        let _ = fs::remove_file(&unfinished);
        let mut new = File::options();
        let file = new.write(true).create_new(true).mode(mode).open(&unfinished);
        let file = file.map_err(Error::file(&unfinished))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let rows = write(&mut out)?;
        out.flush().map_err(Error::file(&unfinished))?;
        fs::rename(&unfinished, &path).map_err(Error::file(&path))?;
        Ok(rows)
    })();
    if result.is_err() {
        // The first error is the one that is reported.
        let _ = fs::remove_file(&unfinished);
    }
    result
}

/// Whether `dir` looks like one that [`write`] wrote: it has a folder of a table with a machine in it.
pub fn is_dataset(dir: &Path) -> bool {
    !tables_in(dir).is_empty()
}

/// The tables that are there.
pub fn tables_in(dir: &Path) -> Vec<&'static Table> {
    let has_machine = |table: &&&Table| {
        let entries = fs::read_dir(dir.join(table.name));
        entries.is_ok_and(|entries| {
            entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("machine="))
        })
    };
    TABLES.iter().filter(has_machine).copied().collect()
}

/// The name of a table's files for `read_parquet`.
pub fn pattern(dir: &Path, table: &Table) -> PathBuf {
    dir.join(table.name).join("machine=*/run=*/*.parquet")
}

/// A value as Hive writes it in the name of a folder: what file names cannot hold as %XX.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'+' | b'@' | b',' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if out.is_empty() {
        // Both engines read this as a missing value.
        out.push_str("__HIVE_DEFAULT_PARTITION__");
    }
    out
}
