//! `kasuri events --usdt`: the probes that authors put into a program and its libraries.
use anyhow::{Context, bail};
use kasuri_record::usdt::{self, Arg, Fetch, Listed, Site};
use kasuri_text::table::grid::{Grid, number, text, word};
use kasuri_text::table::units;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::process::ExitCode;

/// Its name and version.
const SCHEMA: &str = "kasuri.usdt/1";

/// Prints them.
///
/// # Errors
/// When the process cannot be looked into, or nothing has any.
pub fn run(of: &OsStr, json: bool) -> anyhow::Result<ExitCode> {
    let pid = of.to_str().and_then(|text| text.parse::<i32>().ok());
    let files = match pid {
        Some(pid) => usdt::of_process(pid)
            .with_context(|| format!("cannot list the files of process {pid}"))?,
        None => usdt::of_program(of),
    };
    match pid {
        Some(pid) if files.is_empty() => bail!("process {pid} has loaded no USDT probes"),
        None if files.is_empty() => bail!(
            "{} and what it is linked with have no USDT probes, or it is no program; a library that is loaded later is listed by its own name",
            of.display()
        ),
        _ => {}
    }
    let mut out = crate::screen::screen();
    if json {
        kasuri_text::json::write(&answer(&files), &mut out)?;
    } else {
        out.write_all(page(&files).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The probes that authors put into a program and its libraries.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The program, and its libraries that have any.
    files: Vec<OfFile<'a>>,
}

/// A file's probes.
#[derive(Serialize, JsonSchema)]
struct OfFile<'a> {
    /// Its path.
    file: Cow<'a, str>,
    /// Whether its code is of this machine's architecture.
    of_this_machine: bool,
    /// Notes that make no sense.
    damaged: usize,
    /// The places of probes.
    sites: Vec<OfSite<'a>>,
}

/// A place of a probe; a probe may have several.
#[derive(Serialize, JsonSchema)]
struct OfSite<'a> {
    /// Who provides it: a library's or a program's name.
    provider: &'a str,
    /// Its name.
    probe: &'a str,
    /// Where it is in the file.
    offset: u64,
    /// Where its semaphore is in the file; null: it has none.
    semaphore: Option<u64>,
    /// Its arguments, in order.
    arguments: Vec<OfArgument<'a>>,
}

/// An argument of a probe.
#[derive(Serialize, JsonSchema)]
struct OfArgument<'a> {
    /// As the file has it.
    operand: &'a str,
    /// Bytes: 1, 2, 4 or 8.
    bytes: u8,
    /// Whether it is a signed number.
    signed: bool,
    /// Whether a recording has it.
    readable: bool,
    /// Why not.
    why_not: Option<&'static str>,
}

fn answer(files: &[Listed]) -> Answer<'_> {
    Answer { schema: SCHEMA, files: files.iter().map(of_file).collect() }
}

fn of_file(file: &Listed) -> OfFile<'_> {
    OfFile {
        file: file.path.to_string_lossy(),
        of_this_machine: file.probes.is_native,
        damaged: file.probes.refused,
        sites: file.probes.sites.iter().map(of_site).collect(),
    }
}

fn of_site(site: &Site) -> OfSite<'_> {
    OfSite {
        provider: &site.provider,
        probe: &site.name,
        offset: site.offset,
        semaphore: site.semaphore,
        arguments: site.args.iter().map(of_argument).collect(),
    }
}

fn of_argument(arg: &Arg) -> OfArgument<'_> {
    OfArgument {
        operand: &arg.operand,
        bytes: arg.bytes,
        signed: arg.is_signed,
        readable: why_not(arg).is_none(),
        why_not: why_not(arg),
    }
}

fn why_not(arg: &Arg) -> Option<&'static str> {
    match arg.fetch {
        Fetch::No(why) => Some(why),
        _ => None,
    }
}

fn page(files: &[Listed]) -> String {
    let mut page = String::new();
    for file in files {
        if !page.is_empty() {
            page.push('\n');
        }
        let machine = match file.probes.is_native {
            true => "",
            false => " (of another machine: cannot be recorded here)",
        };
        let path = kasuri_base::words::shell_word(&file.path);
        page.push_str(&format!("{path}{machine}\n"));
        // Several places of a probe may have different operands; those of the first are shown.
        let mut probes: BTreeMap<String, (usize, &Site)> = BTreeMap::new();
        for site in &file.probes.sites {
            let name = format!("{}:{}", site.provider, site.name);
            probes.entry(name).or_insert((0, site)).0 += 1;
        }
        let mut grid = Grid::new(&[
            word("PROBE", 0),
            number("PLACES", 0),
            word("SWITCH", 0),
            text("ARGUMENTS"),
        ]);
        for (name, (n, site)) in probes {
            grid.row([
                name,
                n.to_string(),
                if site.semaphore.is_some() { "yes" } else { "-" }.to_owned(),
                arguments(site),
            ]);
        }
        page.push_str(&grid.page(crate::show::screen_width()));
        if file.probes.refused > 0 {
            let n = units::plural(file.probes.refused as u64, "note");
            page.push_str(&format!("{n} are damaged or point outside of the code\n"));
        }
    }
    page.push_str("\nSWITCH: the program prepares the probe only while it is recorded. ARGUMENTS: as the file has them.\n");
    page
}

/// `8@%rdi -4@112(%rsp)`; what cannot be read in parentheses.
fn arguments(site: &Site) -> String {
    if site.args.is_empty() {
        return "-".to_owned();
    }
    let one = |arg: &Arg| match why_not(arg) {
        None => arg.operand.clone(),
        Some(why) => format!("({}: {why})", arg.operand),
    };
    site.args.iter().map(one).collect::<Vec<_>>().join(" ")
}
