//! Times the account of a recording: load, summary without printing, the account alone, in one process.
//! usage: bench_account RECORDING [ROUNDS]
use anyhow::{Context, Result};
use kasuri_analyze::account::Account;
use kasuri_import::{File, Options, load};
use std::time::Instant;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .context("usage: bench_account RECORDING [ROUNDS]")?;
    let rounds: u32 = args.next().map_or(Ok(5), |n| n.parse())?;
    let bytes = std::fs::read(&path).with_context(|| path.clone())?;
    let trace = load(
        &[File {
            name: &path,
            bytes: &bytes,
        }],
        &Options::default(),
    )?;
    for _ in 0..rounds {
        let start = Instant::now();
        let account = Account::new(&trace, trace.span.clone());
        let alone = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let summary = kasuri_analyze::summary(&trace, &Default::default());
        let all = start.elapsed().as_secs_f64();
        println!(
            "account {alone:.3} s, summary {all:.3} s, {} segments, {} causes",
            account.segments.start.len(),
            summary.account.causes.len()
        );
    }
    Ok(())
}
