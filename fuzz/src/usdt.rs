//! Any bytes as an ELF file with USDT probes and libraries. Shared by the fuzz target and `crates/symbols/tests/usdt.rs`.
use kasuri_symbols::links;
use kasuri_symbols::usdt::{MAX_ARGS, MAX_SITES, Site, probes};

/// Reads them. Returns the sites; what the kernel would be given is of its own words only.
pub fn usdt(bytes: &[u8]) -> Vec<Site> {
    links(&bytes);
    let found = probes(&bytes).unwrap_or_default();
    assert!(found.sites.len() <= MAX_SITES);
    for site in &found.sites {
        assert!(site.args.len() <= MAX_ARGS);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in [&site.provider, &site.name] {
            assert!(!name.is_empty() && name.chars().all(is_name));
        }
        let size = bytes.len() as u64;
        assert!(site.offset < size && site.semaphore.is_none_or(|at| at < size));
        let fetched = site.args.iter().flat_map(|a| [a.value(), a.text()]);
        for text in fetched.flatten() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "%:()+-@/".contains(c);
            assert!(text.chars().all(is_plain), "{text}");
        }
    }
    found.sites
}
