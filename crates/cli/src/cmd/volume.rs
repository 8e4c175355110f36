//! `kasuri overhead --volume`: how many bytes each selection of events writes, by kind and CPU, and packed.
use crate::lab::Place;
use crate::message;
use crate::scratch::Scratch;

use indicatif::ProgressBar;
use kasuri_lab::volume::{Kind, Options, Volume, Written, measure};
use kasuri_record::selection::Selections;
use kasuri_text::table::grid::{Grid, number, text, word};
use kasuri_text::table::units;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Kinds that a table shows of each selection; the rest are one row.
const KINDS: usize = 10;
/// With more CPUs, columns for each are no longer a table.
const CPUS: usize = 8;

/// Records each selection and prints what it wrote.
///
/// # Errors
/// When nothing can be recorded, or a selection has no such name.
pub fn run(
    time: Duration,
    names: &[String],
    program: &[OsString],
    json: bool,
) -> anyhow::Result<ExitCode> {
    let place = Place::new(None)?;
    let known = Selections::load()?;
    let names: Vec<String> = match names {
        [] => known.names().into_iter().map(str::to_owned).collect(),
        some => some.to_vec(),
    };
    let mut selections = Vec::new();
    for name in names {
        let events = known.resolve(std::slice::from_ref(&name))?;
        let events = events.into_iter().map(|(e, _)| e.replacen('/', ":", 1));
        selections.push((name, events.collect()));
    }
    let scratch = Scratch::new("volume")?;
    let options = Options {
        selections,
        time,
        program: program.to_vec(),
        scratch: scratch.path().to_owned(),
        shm_dir: place.shm_dir.clone(),
    };
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let volume = crate::source::with_stdout_on_stderr(|| {
        measure(&options, &mut |name| {
            bar.set_message(format!("recording {name} for {time:?}"));
            true
        })
    });
    bar.finish_and_clear();
    let volume = volume?;
    for missing in &volume.missing {
        message::warning(missing);
    }
    let mut out = crate::screen::screen();
    if json {
        kasuri_text::json::write(&volume, &mut out)?;
    } else {
        write!(out, "{}", page(&volume, crate::show::screen_width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn mb_per_second(bytes: u64, seconds: f64) -> String {
    format!("{:.3}", bytes as f64 / 1e6 / seconds.max(1e-9))
}

fn page(volume: &Volume, width: usize) -> String {
    let host = &volume.host;
    let what = match &volume.program[..] {
        [] => "of this system as it is".to_owned(),
        words => format!("while {} runs", units::printable(&words.join(" "))),
    };
    let mut page = format!(
        "{}, Linux {}: what each selection writes {what}; the timeline is in all of them\n\n",
        host.cpu_model, host.kernel
    );
    let mut grid = Grid::new(&[
        text("SELECTION"),
        number("SECONDS", 0),
        number("EVENTS/S", 0),
        number("MB/S", 0),
        number("BYTES/EVENT", 0),
        number("PACKED MB/S", 0),
        number("PACKED/EVENT", 0),
        number("SMALLER", 0),
        number("LOST", 0),
    ]);
    for s in &volume.selections {
        grid.row(row(s));
    }
    page.push_str(&grid.page(width));
    for s in &volume.selections {
        page.push_str(&format!("\n{}: MB/s by kind of event and CPU\n", s.name));
        page.push_str(&kinds(s).page(width));
    }
    page
}

fn row(s: &Written) -> Vec<String> {
    let each = |bytes: u64| format!("{:.1}", bytes as f64 / s.events.max(1) as f64);
    vec![
        s.name.clone(),
        format!("{:.1}", s.seconds),
        units::count((s.events as f64 / s.seconds.max(1e-9)).round() as u64),
        mb_per_second(s.page_bytes, s.seconds),
        each(s.page_bytes),
        mb_per_second(s.packed_bytes, s.seconds),
        each(s.packed_bytes),
        format!("{:.1}x", s.page_bytes as f64 / s.packed_bytes.max(1) as f64),
        units::count(s.lost),
    ]
}

fn kinds(s: &Written) -> Grid {
    let by_cpu = s.cpus.len() <= CPUS;
    let mut columns = vec![word("EVENT", 0), number("EVENTS/S", 0), number("ALL CPUs", 0)];
    if by_cpu {
        let heads = s.cpus.iter().map(|cpu| format!("CPU {cpu}"));
        // The grid's heads are static; a run has a handful of them and then ends.
        columns.extend(heads.map(|head| number(&*Box::leak(head.into_boxed_str()), 0)));
    } else {
        columns.push(number("BUSIEST CPU", 0));
    }
    let mut grid = Grid::new(&columns);
    let mut add = |kind: &Kind| {
        let mut cells = vec![
            kind.name.replacen('/', ":", 1),
            units::count((kind.events as f64 / s.seconds.max(1e-9)).round() as u64),
            mb_per_second(kind.bytes, s.seconds),
        ];
        let of_cpus = kind.cpu_bytes.iter().copied();
        match by_cpu {
            true => cells.extend(of_cpus.map(|bytes| mb_per_second(bytes, s.seconds))),
            false => cells.push(mb_per_second(of_cpus.max().unwrap_or(0), s.seconds)),
        }
        grid.row(cells);
    };
    let shown = s.kinds.len().min(KINDS);
    s.kinds[..shown].iter().for_each(&mut add);
    let rest = &s.kinds[shown..];
    if !rest.is_empty() {
        let sum = |of: &dyn Fn(&Kind) -> u64| rest.iter().map(of).sum();
        add(&Kind {
            name: format!("{} more kinds", rest.len()),
            events: sum(&|k| k.events),
            bytes: sum(&|k| k.bytes),
            cpu_bytes: (0..s.cpus.len()).map(|cpu| sum(&|k| k.cpu_bytes[cpu])).collect(),
        });
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(n_cpus: usize) -> Written {
        let kind = |ix: usize| Kind {
            name: format!("a/kind{ix:02}"),
            events: 10,
            bytes: 1_000_000,
            cpu_bytes: vec![1_000_000 / n_cpus as u64; n_cpus],
        };
        Written {
            name: "all".to_owned(),
            seconds: 2.0,
            cpus: (0..n_cpus as u32).collect(),
            kinds: (0..KINDS + 3).map(kind).collect(),
            ..Written::default()
        }
    }

    #[test]
    fn few_cpus_have_columns_of_their_own_and_many_share_one() {
        let two = kinds(&written(2)).page(200);
        assert!(two.contains("CPU 1") && two.contains("0.250"), "{two}");
        let many = kinds(&written(32)).page(200);
        assert!(many.contains("BUSIEST CPU") && !many.contains("CPU 31"), "{many}");
    }

    #[test]
    fn kinds_beyond_the_table_are_added_up() {
        let text = kinds(&written(1)).page(200);
        let rest = text.lines().last().unwrap();
        // Three kinds of 1 MB in 2 s.
        assert!(rest.contains("3 more kinds") && rest.contains("1.500"), "{text}");
    }
}
