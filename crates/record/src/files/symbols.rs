//! Names for the addresses that the lock probe left in its sites.
//!
//! The probe in the program finds only the module and the offset in it (probes/common/site.c). Symbol tables are read
//! here, at packing, when no thread waits for the result. A site `module+0xoffset` of function `kasuri.call` or
//! `kasuri.data` becomes the symbol at that offset; without a symbol (stripped, or the file has changed) it keeps its
//! name.
use kasuri_format::ring::SiteTable;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::path::Path;

/// A place in code: the address is the one after the call.
const CALL: &str = "kasuri.call";
/// A variable.
const DATA: &str = "kasuri.data";

/// Symbol tables read so far.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    modules: HashMap<String, Module>,
}

/// Functions and variables of one file, sorted by address.
#[derive(Debug, Default)]
struct Module {
    /// Lowest address at which the file wants to be loaded.
    base: u64,
    functions: Vec<Symbol>,
    data: Vec<Symbol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    start: u64,
    size: u64,
    name: String,
}

impl Symbols {
    /// Names the sites of a client.
    pub fn name_sites(&mut self, table: &mut SiteTable) {
        for site in &mut table.sites {
            let is_call = site.function == CALL;
            if !is_call && site.function != DATA {
                continue;
            }
            let offset = (site.name.rsplit_once("+0x"))
                .and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok());
            if let Some(offset) = offset
                && let Some(name) = self.name(&site.file, offset, is_call)
            {
                site.function.clone_from(&name);
                site.name = written(name);
            } else {
                site.function.clear();
            }
        }
    }

    fn name(&mut self, file: &str, offset: u64, is_call: bool) -> Option<String> {
        if !self.modules.contains_key(file) {
            let module = Module::read(Path::new(file)).unwrap_or_default();
            self.modules.insert(file.to_owned(), module);
        }
        let module = &self.modules[file];
        let address = module.base + offset;
        let (symbols, address) = match is_call {
            true => (&module.functions, address - 1),
            false => (&module.data, address),
        };
        let symbol = containing(symbols, address)?;
        let inside = address - symbol.start;
        Some(match (is_call, inside) {
            (true, _) | (false, 0) => symbol.name.clone(),
            (false, inside) => format!("{}+{inside}", symbol.name),
        })
    }
}

/// The variable that gcc and clang make for `#pragma omp critical(NAME)` has the section's name.
fn written(symbol: String) -> String {
    match symbol.strip_prefix(".gomp_critical_user_") {
        Some(name) => format!("critical {}", name.strip_suffix(".var").unwrap_or(name)),
        None => symbol,
    }
}

impl Module {
    fn read(path: &Path) -> Option<Module> {
        // The program chose the file name: it may name a FIFO or a device, or cut the file.
        let file = crate::guard::safefs::open_regular(path).ok()?;
        let map = crate::guard::sigbus::Guarded::read_only(&file).ok()?;
        let elf = object::File::parse(map.bytes()).ok()?;
        let lowest = elf.segments().map(|s| s.address()).min()?;
        let mut module = Module { base: lowest & !0xfff, ..Module::default() };
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            let to = match symbol.kind() {
                SymbolKind::Text => &mut module.functions,
                SymbolKind::Data => &mut module.data,
                _ => continue,
            };
            if symbol.is_undefined() {
                continue;
            }
            if let Ok(name) = symbol.name()
                && !name.is_empty()
            {
                to.push(Symbol {
                    start: symbol.address(),
                    size: symbol.size(),
                    name: name.to_owned(),
                });
            }
        }
        for symbols in [&mut module.functions, &mut module.data] {
            symbols.sort_by(|a, b| (a.start, b.size, &a.name).cmp(&(b.start, a.size, &b.name)));
            symbols.dedup_by_key(|s| s.start);
        }
        Some(module)
    }
}

/// The symbol that covers the address. A symbol of size 0 (assembly) extends to the next one.
fn containing(symbols: &[Symbol], address: u64) -> Option<&Symbol> {
    let at = symbols.partition_point(|s| s.start <= address);
    let symbol = symbols.get(at.checked_sub(1)?)?;
    let open_ended = symbol.size == 0 && at < symbols.len();
    (open_ended || address < symbol.start + symbol.size).then_some(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::ring::Site;

    #[test]
    fn this_programs_own_function_is_found_by_its_address() {
        let here = this_programs_own_function_is_found_by_its_address as *const () as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let exe = std::env::current_exe().unwrap().display().to_string();
        let line = maps.lines().find(|line| line.ends_with(&exe)).unwrap();
        let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let site = |name: String, function: &str| Site {
            id: 1,
            name,
            file: exe.clone(),
            function: function.to_owned(),
            line: 0,
        };
        let mut table = SiteTable {
            sites: vec![
                site(format!("x+0x{:x}", here - base + 1), CALL),
                site(format!("x+0x{:x}", 1u64 << 40), CALL),
                site("x+0x10".to_owned(), "main"),
            ],
            ..SiteTable::default()
        };
        Symbols::default().name_sites(&mut table);
        let names: Vec<&str> = table.sites.iter().map(|s| s.name.as_str()).collect();
        assert!(
            names[0].contains("this_programs_own_function_is_found_by_its_address"),
            "{names:?}"
        );
        assert_eq!(names[1..], ["x+0x10000000000", "x+0x10"]);
    }
}
