//! `kasuri sql FILE [QUERY]`.
use crate::duckdb::{Cleaner, DuckDb, quoted};
use crate::message;
use crate::open::Input;
use crate::output::Output;
use crate::program::ProgramArgs;
use crate::scratch::Scratch;
use crate::screen::screen;
use anyhow::{Context, bail};
use kasuri_tables::queries::{QUERIES, Query, query};
use kasuri_tables::{Source, TABLES, Table, dataset, parquet};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Name and version of what `--list` prints as JSON.
const SCHEMA: &str = "kasuri.sql/1";

/// Query a recording with SQL
///
/// FILE is a recording, another tool's trace, or a folder of runs written by `kasuri export --format parquet`. QUERY is SQL or
/// the name of a built-in query (--list). Without QUERY, reads SQL from stdin, or from a prompt with history if stdin is a
/// terminal (.tables, .schema and .help work there). docs/sql.md describes the tables.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri sql run.kasuri top_waits
  kasuri sql run.kasuri 'SELECT name, SUM(dur_ns) FROM slice GROUP BY name ORDER BY 2 DESC'
  kasuri sql --format csv run.kasuri busiest_threads
  kasuri sql runs/ 'FROM lock_wait_trend WHERE lock_wait_share > 0.1'    of all exported runs
  kasuri sql run.kasuri                                                  the prompt

Needs DuckDB: pip install duckdb-cli")]
pub struct Args {
    /// Recording, another tool's trace, or folder of exported runs; - for stdin
    #[arg(value_name = "FILE", required_unless_present_any = ["list", "show"])]
    file: Option<PathBuf>,
    /// SQL, or the name of a built-in query
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// List the built-in queries; with --format json also the tables
    #[arg(long, conflicts_with_all = ["file", "show"])]
    list: bool,
    /// Print the SQL of the built-in query NAME
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    show: Option<String>,
    /// Format of the output
    #[arg(long, short, value_enum, default_value = "pretty")]
    format: Format,
    /// Write to OUT [default: stdout]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Let the query read the recording's tables and nothing else, and write nothing: for queries that others wrote
    #[arg(long, requires = "query", conflicts_with = "output")]
    confined: bool,
    /// Read the undamaged part of a damaged recording
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    program: ProgramArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// A text table
    Pretty,
    /// Comma-separated values with a header
    Csv,
    /// An array of objects
    Json,
    /// A Parquet file; needs --output
    Parquet,
}

/// Answers, or starts the prompt.
///
/// # Errors
/// When the recording cannot be read or DuckDB is not there.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        return list(args.format == Format::Json);
    }
    if let Some(name) = &args.show {
        let query = query(name).with_context(|| format!("{name}: {NO_QUERY}"))?;
        writeln!(screen(), "-- {}\n{};", query.doc(), query.sql())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = args.file else {
        bail!("no recording given");
    };
    if args.format == Format::Parquet && args.output.is_none() {
        bail!("Parquet needs a file; use -o OUT.parquet");
    }
    let engine = DuckDb::find()?;
    let asked = asked(args.query)?;
    if asked.is_none() && (args.output.is_some() || args.format != Format::Pretty) {
        bail!("the prompt writes to the screen; use .mode and .output there, or give a QUERY");
    }
    let scratch = Scratch::new("sql")?;
    let cleaner = Cleaner::of(scratch.path())?;
    let is_set = file.is_dir() && dataset::is_dataset(&file);
    let wanted = asked.as_deref().map_or_else(all_names, names_in);
    let dir = match is_set {
        true if !args.program.is_empty() => bail!(
            "--process and --thread choose in one trace, found a folder of exported runs; `kasuri export` takes them"
        ),
        true => file.clone(),
        false => scratch.path().to_path_buf(),
    };
    if !is_set {
        let input = Input::new(file.clone(), args.salvage);
        extract(&input, &args.program, &dir, &wanted)?;
    }
    let setup = scratch.path().join("setup.sql");
    let confined = args.confined;
    std::fs::write(&setup, statements(&dir, &wanted, asked.is_none(), confined))
        .with_context(|| format!("{}: cannot write", setup.display()))?;
    let Some(text) = asked else {
        banner(&file);
        // Errors at the prompt have been printed already.
        engine.run(&setup, &[], &cleaner)?;
        return Ok(ExitCode::SUCCESS);
    };
    if confined && text.starts_with('.') {
        bail!("the query is a command of the prompt, needed SQL");
    }
    let text = answered(&text, is_set);
    // DuckDB writes into a private directory; Kasuri writes the file that the user named.
    let written = scratch.path().join("answer");
    let answer = quoted(&written.to_string_lossy());
    let (mode, text) = match (args.format, &args.output) {
        (Format::Parquet, Some(_)) => {
            ("-batch", format!("COPY (\n{text}\n) TO {answer} (FORMAT parquet)"))
        }
        (Format::Csv, _) => ("-csv", text),
        (Format::Json, _) => ("-json", text),
        _ => ("-batch", text),
    };
    let output = args.output.map(Output::to).transpose()?;
    let told = output.is_some() && args.format != Format::Parquet;
    let told = told.then(|| format!(".output {answer}"));
    let mut more: Vec<OsString> = vec![mode.into(), "-bail".into()];
    if args.format == Format::Pretty {
        more.extend(["-cmd", ".mode duckbox", "-cmd", ".maxrows 200"].map(OsString::from));
    }
    if confined {
        more.extend(["-cmd", ".safe_mode", "-c", IS_CONFINED].map(OsString::from));
    }
    for command in told.into_iter().chain([text]) {
        more.extend(["-c".into(), OsString::from(command)]);
    }
    let status = engine.run(&setup, &more, &cleaner)?;
    if let Some(output) = output.filter(|_| status.success()) {
        let mut answer = std::fs::File::open(&written)
            .with_context(|| format!("{}: cannot read", written.display()))?;
        output.write(|out| std::io::copy(&mut answer, out))?;
    }
    finished(status)
}

/// Fails, and with it all that follows, where DuckDB is too old to know its safe mode.
const IS_CONFINED: &str = "CREATE TEMP TABLE is_confined AS SELECT CASE WHEN current_setting('lock_configuration') THEN 1 \
    ELSE error('this DuckDB cannot be confined, needed 1.1 or later') END";
/// What a confined query may take of the machine.
const BOUNDS: &str = "SET memory_limit = '2GB';\nSET threads = 2;\nSET temp_directory = '';\n";

const NO_QUERY: &str = "no query of that name; `kasuri sql --list` lists them";

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let mut out = screen();
    if json {
        kasuri_text::json::write(&catalogue(), &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = QUERIES.iter().map(|q| q.name.len()).max().unwrap_or(0);
    for query in QUERIES {
        writeln!(out, "{:width$}  {}", query.name, query.doc())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tables and built-in queries.
#[derive(Serialize, JsonSchema)]
pub struct Catalogue {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The tables.
    tables: Vec<OfTable>,
    /// The queries.
    queries: Vec<OfQuery>,
}

/// A table.
#[derive(Serialize, JsonSchema)]
struct OfTable {
    /// Its name.
    name: &'static str,
    /// What a row is.
    meaning: &'static str,
    /// Its columns, in order.
    columns: Vec<OfColumn>,
}

/// A column.
#[derive(Serialize, JsonSchema)]
struct OfColumn {
    /// Its name.
    name: &'static str,
    /// Its type in SQL.
    #[serde(rename = "type")]
    ty: &'static str,
    /// Whether a value can be missing.
    nullable: bool,
    /// `ns`, `count`, ...; empty: none.
    unit: &'static str,
    /// What it says.
    meaning: &'static str,
}

/// A built-in query.
#[derive(Serialize, JsonSchema)]
struct OfQuery {
    /// Its name.
    name: &'static str,
    /// The question that it answers.
    answers: String,
    /// Its text.
    sql: &'static str,
}

fn catalogue() -> Catalogue {
    let column = |c: &kasuri_tables::Column| OfColumn {
        name: c.name,
        ty: c.ty.sql(),
        nullable: c.nullable,
        unit: c.unit,
        meaning: c.doc(),
    };
    let table = |t: &&Table| OfTable {
        name: t.name,
        meaning: t.doc(),
        columns: t.columns.iter().map(column).collect(),
    };
    let query = |q: &Query| OfQuery { name: q.name, answers: q.doc(), sql: q.sql() };
    Catalogue {
        schema: SCHEMA,
        tables: TABLES.iter().map(table).collect(),
        queries: QUERIES.iter().map(query).collect(),
    }
}

/// The SQL to run; none: the prompt.
fn asked(query: Option<String>) -> anyhow::Result<Option<String>> {
    if let Some(text) = query {
        let text = text.trim().trim_end_matches(';').trim().to_owned();
        if text.is_empty() {
            bail!("the query is empty; leave it out for a prompt");
        }
        return Ok(Some(text));
    }
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).context("stdin: cannot read")?;
    let text = text.trim();
    if text.is_empty() {
        bail!("no query: stdin is empty and no terminal");
    }
    Ok(Some(text.trim_end_matches(';').to_owned()))
}

/// A name stands for its query. For a single recording the column of the run is left out.
fn answered(text: &str, is_set: bool) -> String {
    match query(text) {
        Some(query) if is_set => query.sql().to_owned(),
        Some(query) => format!("SELECT * EXCLUDE (machine, run) FROM (\n{}\n)", query.sql()),
        None => text.to_owned(),
    }
}

fn all_names() -> BTreeSet<&'static str> {
    let tables = TABLES.iter().map(|t| t.name);
    tables.chain(QUERIES.iter().map(|q| q.name)).collect()
}

/// The tables and queries that a text mentions, and those that these mention: the rest need not be read.
fn names_in(text: &str) -> BTreeSet<&'static str> {
    // A question about what there is wants all of it.
    let lower = text.to_lowercase();
    let catalogue = ["show", "describe", "summarize", "duckdb_", "information_schema"];
    if catalogue.iter().any(|word| lower.contains(word)) {
        return all_names();
    }
    let mut found = BTreeSet::new();
    let mut texts = vec![lower];
    while let Some(text) = texts.pop() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words: BTreeSet<&str> = text.split(|c| !is_part(c)).collect();
        let all = all_names().into_iter();
        for name in all.filter(|name| words.contains(name)) {
            if found.insert(name)
                && let Some(query) = query(name)
            {
                texts.push(query.sql().to_lowercase());
            }
        }
    }
    found
}

fn extract(
    input: &Input,
    program: &ProgramArgs,
    dir: &Path,
    wanted: &BTreeSet<&str>,
) -> anyhow::Result<()> {
    let mut trace = input.load()?;
    program.choose(&mut trace, &input.name())?;
    let tables: Vec<&Table> = TABLES.iter().copied().filter(|t| wanted.contains(t.name)).collect();
    let key = dataset::Key { machine: super::export::machine_of(&trace), run: input.label() };
    let source = Source::new(&trace, BTreeMap::new());
    dataset::write(dir, &key, &source, &tables, parquet::Packing::Fast, 0o600)?;
    Ok(())
}

/// Views of tables and queries; with their documentation when people will look at it. Confined: tables that are read now, as no file can be
/// read later.
fn statements(dir: &Path, wanted: &BTreeSet<&str>, with_docs: bool, confined: bool) -> String {
    let (mut out, kind) = match confined {
        true => (BOUNDS.to_owned(), "TABLE"),
        false => (String::new(), "VIEW"),
    };
    let present = dataset::tables_in(dir);
    for table in present.iter().filter(|t| wanted.contains(t.name)) {
        let columns: Vec<String> =
            table.columns.iter().map(|c| format!("\"{}\"", c.name)).collect();
        let files = dataset::pattern(dir, table);
        let _ = writeln!(
            out,
            "CREATE {kind} \"{}\" AS SELECT machine, run, {} FROM read_parquet({}, hive_partitioning = true, hive_types_autocast = false);",
            table.name,
            columns.join(", "),
            quoted(&files.to_string_lossy()),
        );
        if with_docs {
            let _ = writeln!(out, "COMMENT ON VIEW \"{}\" IS {};", table.name, quoted(table.doc()));
        }
    }
    let has = |name: &str| present.iter().any(|t| t.name == name);
    let complete = |q: &&Query| {
        let needed = names_in(q.sql());
        needed.iter().all(|name| has(name))
    };
    for query in QUERIES.iter().filter(|q| wanted.contains(q.name)).filter(complete) {
        let _ = writeln!(out, "CREATE VIEW \"{}\" AS\n{};", query.name, query.sql());
        if with_docs {
            let _ =
                writeln!(out, "COMMENT ON VIEW \"{}\" IS {};", query.name, quoted(&query.doc()));
        }
    }
    out
}

fn banner(file: &Path) {
    message::note(format!(
        "{}: {} tables, {} queries; .tables lists them, FROM top_waits; asks one, .help helps, .exit leaves",
        file.display(),
        TABLES.len(),
        QUERIES.len()
    ));
}

fn finished(status: std::process::ExitStatus) -> anyhow::Result<ExitCode> {
    // DuckDB has printed the error.
    Ok(match (status.success(), status.signal()) {
        (true, _) => ExitCode::SUCCESS,
        (_, Some(signal)) => ExitCode::from(128 + signal as u8),
        _ => ExitCode::from(crate::exit::ERROR),
    })
}
