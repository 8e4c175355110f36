//! The tables as files: a folder of CSV, or of Parquet with as many runs as are put there.
use crate::message;
use crate::open::Input;
use crate::program::ProgramArgs;
use anyhow::bail;
use kasuri_model::Trace;
use kasuri_record::output::Readers;
use kasuri_tables::{Source, TABLES, Table, dataset, parquet};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// How the tables are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A folder of Parquet files, one for each table and run.
    Parquet,
    /// A folder of CSV files, one for each table.
    Csv,
}

impl Kind {
    /// Both.
    pub const ALL: [Kind; 2] = [Kind::Parquet, Kind::Csv];

    /// Its name for users; also the extension.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Parquet => "parquet",
            Kind::Csv => "csv",
        }
    }

    /// One line about it.
    pub const fn about(self) -> &'static str {
        match self {
            Kind::Parquet => "A folder of Parquet files, one for each table and run",
            Kind::Csv => "A folder of CSV files, one for each table",
        }
    }
}

/// Labels of a run among others.
#[derive(clap::Args, Debug)]
pub struct Tables {
    /// parquet: name of the run, unique on its machine [default: FILE without folder and extension]
    #[arg(long, value_name = "NAME", help_heading = "Tables")]
    run: Option<String>,
    /// parquet: name of the machine [default: the recording's host]
    #[arg(long, value_name = "NAME", help_heading = "Tables")]
    machine: Option<String>,
    /// parquet, csv: row of the table `label`, such as commit=1a2b3c; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, help_heading = "Tables")]
    label: Vec<(String, String)>,
    /// parquet, csv: only this table; may be repeated
    #[arg(long, value_name = "NAME", value_parser = table_named, help_heading = "Tables")]
    table: Vec<&'static Table>,
}

fn table_named(name: &str) -> Result<&'static Table, String> {
    let names: Vec<&str> = TABLES.iter().map(|t| t.name).collect();
    kasuri_tables::table(name).ok_or_else(|| format!("needed one of {}", names.join(", ")))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("needed KEY=VALUE".into()),
    }
}

/// The name of the machine that a recording was made on.
pub fn machine_of(trace: &Trace) -> String {
    match trace.info.host.as_str() {
        "" => "unknown".into(),
        host => host.into(),
    }
}

/// Writes the tables below `dir`.
pub fn run(
    input: &Input,
    program: &ProgramArgs,
    dir: &Path,
    kind: Kind,
    args: Tables,
) -> anyhow::Result<ExitCode> {
    if dir.as_os_str() == "-" {
        bail!("tables are several files, needed a folder; use -o DIR");
    }
    if dir.is_file() {
        bail!("{}: is a file, needed a folder", dir.display());
    }
    let mut trace = input.load()?;
    program.choose(&mut trace, &input.name())?;
    let labels: BTreeMap<String, String> = args.label.into_iter().collect();
    let key = dataset::Key {
        machine: args.machine.unwrap_or_else(|| machine_of(&trace)),
        run: args.run.unwrap_or_else(|| input.label()),
    };
    let source = Source::new(&trace, labels);
    let tables = match args.table.is_empty() {
        true => TABLES,
        false => &args.table,
    };
    let mode = Readers::of_file(&input.file).mode();
    let written = match kind {
        Kind::Csv => dataset::write_csv(dir, &source, tables, mode)?,
        _ => dataset::write(dir, &key, &source, tables, parquet::Packing::Small, mode)?,
    };
    let place = match kind {
        Kind::Csv => String::new(),
        _ => format!(", machine {}, run {}", key.machine, key.run),
    };
    message::note(format!(
        "wrote {} files with {} rows below {}{place}",
        written.files,
        written.rows,
        dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}
