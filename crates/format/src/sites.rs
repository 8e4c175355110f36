//! Site definitions: the places in a program's source that annotate, and their names.
//!
//! A `.sites` file is a header of 64 bytes, then definitions of 24 bytes, each followed by name, file and function with a NUL
//! after each, padded to a multiple of 8 (docs/format.md, "Rings"). Events name a site by its id.
//!
//! A forked child goes on with its parent's ids and writes only new ones to a file of its own. So the header names the parent
//! client and the first id of the child, and [`Sites::resolve`] looks for smaller ids in the parent's table, and on upwards.
use crate::ring::{MAGIC_SITES, SiteDef, SitesHeader, check_head};
use crate::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::size_of;
use zerocopy::FromBytes;

/// One place in source that annotates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// Id within its client; 1..
    pub id: u32,
    /// Name of the slice, counter, ...
    pub name: String,
    /// Source file; may be empty.
    pub file: String,
    /// Function; may be empty.
    pub function: String,
    /// Source line; 0: unknown.
    pub line: u32,
}

/// The sites of one client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteTable {
    /// Process.
    pub pid: u32,
    /// Client of that process.
    pub generation: u32,
    /// The client (pid, generation) that defines the ids below `parent_next_id`.
    pub parent: Option<(u32, u32)>,
    /// See `parent`.
    pub parent_next_id: u32,
    /// Sorted by id, ids unique.
    pub sites: Vec<Site>,
}

impl SiteTable {
    /// Reads a `.sites` file.
    ///
    /// # Errors
    /// When the header is wrong; see [`SiteTable::salvage`] for damage after it.
    pub fn parse(bytes: &[u8]) -> Result<SiteTable> {
        match SiteTable::salvage(bytes)? {
            (table, None) => Ok(table),
            (_, Some(error)) => Err(error),
        }
    }

    /// Reads a `.sites` file up to the first bad definition, and says what was bad. A program killed
    /// in a write(2) leaves half a definition.
    ///
    /// # Errors
    /// When the header is wrong.
    pub fn salvage(bytes: &[u8]) -> Result<(SiteTable, Option<Error>)> {
        let what = "site table header";
        let Ok((header, _)) = SitesHeader::read_from_prefix(bytes) else {
            return Err(Error::truncated(
                what,
                0,
                bytes.len() as u64,
                size_of::<SitesHeader>() as u64,
            ));
        };
        check_head(
            what,
            (header.magic, header.version, header.struct_size),
            MAGIC_SITES,
            size_of::<SitesHeader>() as u32,
        )?;
        let mut table = SiteTable {
            pid: header.pid,
            generation: header.generation,
            parent: (header.parent_pid != 0).then_some((header.parent_pid, header.parent_gen)),
            parent_next_id: header.parent_next_id,
            sites: Vec::new(),
        };
        let mut at = header.struct_size as usize;
        let mut error = None;
        while at < bytes.len() {
            match parse_site(&bytes[at..], at as u64) {
                Ok((site, length)) => {
                    table.sites.push(site);
                    at += length;
                }
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
        }
        table.sites.sort_by_key(|s| s.id);
        table.sites.dedup_by_key(|s| s.id);
        Ok((table, error))
    }

    /// The bytes of a `.sites` file with this content.
    pub fn to_bytes(&self) -> Vec<u8> {
        use zerocopy::IntoBytes;
        let (parent_pid, parent_gen) = self.parent.unwrap_or_default();
        let header = SitesHeader {
            magic: MAGIC_SITES,
            version: crate::ring::ABI_VERSION,
            struct_size: size_of::<SitesHeader>() as u32,
            pid: self.pid,
            generation: self.generation,
            parent_pid,
            parent_gen,
            parent_next_id: self.parent_next_id,
            reserved: [0; 7],
        };
        let mut out = header.as_bytes().to_vec();
        for site in &self.sites {
            let texts = [clip(&site.name), clip(&site.file), clip(&site.function)];
            let length = (size_of::<SiteDef>() + texts.iter().map(|t| t.len() + 1).sum::<usize>())
                .next_multiple_of(8);
            let def = SiteDef {
                bytes: length as u32,
                id: site.id,
                line: site.line,
                name_len: texts[0].len() as u16,
                file_len: texts[1].len() as u16,
                func_len: texts[2].len() as u16,
                reserved: 0,
                reserved2: 0,
            };
            let end = out.len() + length;
            out.extend_from_slice(def.as_bytes());
            for text in texts {
                out.extend_from_slice(text);
                out.push(0);
            }
            out.resize(end, 0);
        }
        out
    }

    /// The site with this id, of this client alone.
    pub fn get(&self, id: u32) -> Option<&Site> {
        self.sites.binary_search_by_key(&id, |s| s.id).ok().map(|ix| &self.sites[ix])
    }
}

fn clip(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(usize::from(u16::MAX))]
}

fn parse_site(bytes: &[u8], offset: u64) -> Result<(Site, usize)> {
    let what = "site definition";
    let Ok((def, _)) = SiteDef::read_from_prefix(bytes) else {
        return Err(Error::truncated(
            what,
            offset,
            bytes.len() as u64,
            size_of::<SiteDef>() as u64,
        ));
    };
    let lengths = [def.name_len, def.file_len, def.func_len].map(usize::from);
    let need = size_of::<SiteDef>() + lengths.iter().map(|l| l + 1).sum::<usize>();
    let length = def.bytes as usize;
    if length < need || length > need.next_multiple_of(8) + 64 || !length.is_multiple_of(8) {
        return Err(Error::damaged(
            what,
            offset,
            format!("{length} bytes"),
            format!("{need}, padded to a multiple of 8"),
        ));
    }
    if def.id == 0 {
        return Err(Error::damaged(what, offset + 4, "id 0", "an id from 1"));
    }
    let Some(record) = bytes.get(..length) else {
        return Err(Error::truncated(what, offset, bytes.len() as u64, length as u64));
    };
    let mut at = size_of::<SiteDef>();
    let mut text = |length: usize| {
        let text = String::from_utf8_lossy(&record[at..at + length]).into_owned();
        at += length + 1;
        text
    };
    let (name, file, function) = (text(lengths[0]), text(lengths[1]), text(lengths[2]));
    Ok((Site { id: def.id, name, file, function, line: def.line }, length))
}

/// The sites of all clients of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sites {
    tables: Vec<SiteTable>,
    index: HashMap<(u32, u32), usize>,
}

impl Sites {
    /// Puts tables together: a later one of the same client adds to the earlier, and of two definitions of an id the later holds.
    pub fn new(parts: Vec<SiteTable>) -> Sites {
        let (mut tables, mut index) = (Vec::<SiteTable>::new(), HashMap::new());
        for part in parts {
            match index.entry((part.pid, part.generation)) {
                Entry::Vacant(free) => {
                    free.insert(tables.len());
                    tables.push(part);
                }
                Entry::Occupied(ix) => {
                    let sites = &mut tables[*ix.get()].sites;
                    // Those of the part first: a stable sort leaves each before the one it replaces.
                    let earlier = std::mem::replace(sites, part.sites);
                    sites.extend(earlier);
                    sites.sort_by_key(|s| s.id);
                    sites.dedup_by_key(|s| s.id);
                }
            }
        }
        Sites { tables, index }
    }

    /// All tables.
    pub fn tables(&self) -> &[SiteTable] {
        &self.tables
    }

    /// The table of one client.
    pub fn table(&self, pid: u32, generation: u32) -> Option<&SiteTable> {
        self.index.get(&(pid, generation)).map(|&ix| &self.tables[ix])
    }

    /// The site of `id` in this client: ids below `parent_next_id` are looked up in the parent, and on.
    pub fn resolve(&self, pid: u32, generation: u32, id: u32) -> Option<&Site> {
        let mut client = (pid, generation);
        // A chain longer than the number of tables is a circle.
        for _ in 0..self.tables.len() {
            let table = self.table(client.0, client.1)?;
            match table.parent {
                Some(parent) if id < table.parent_next_id => client = parent,
                _ => return table.get(id),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn table(pid: u32, parent: Option<(u32, u32)>, parent_next_id: u32, ids: &[u32]) -> SiteTable {
        let site = |&id: &u32| Site {
            id,
            name: format!("p{pid}-{id}"),
            file: "x.c".into(),
            function: String::new(),
            line: id,
        };
        SiteTable {
            pid,
            generation: 0,
            parent,
            parent_next_id,
            sites: ids.iter().map(site).collect(),
        }
    }

    #[test]
    fn tables_round_trip() {
        let t = table(7, Some((3, 1)), 4, &[4, 5, 900]);
        assert_eq!(SiteTable::parse(&t.to_bytes()).as_ref(), Ok(&t));
    }

    #[test]
    fn sites_of_a_forked_child_are_found_in_its_ancestors() {
        let sites = Sites::new(vec![
            table(1, None, 0, &[1, 2, 3]),
            table(2, Some((1, 0)), 3, &[3, 4]),
            table(3, Some((2, 0)), 5, &[5]),
        ]);
        let name = |pid, id| sites.resolve(pid, 0, id).map(|s| s.name.as_str());
        assert_eq!(name(3, 5), Some("p3-5"));
        assert_eq!(name(3, 4), Some("p2-4"));
        assert_eq!(name(3, 3), Some("p2-3"), "defined by the child after the fork");
        assert_eq!(name(3, 2), Some("p1-2"));
        assert_eq!((name(3, 6), name(9, 1), name(1, 0)), (None, None, None));
    }

    /// As a recording has them that was sent while it was made.
    #[test]
    fn a_later_table_of_a_client_adds_to_the_earlier() {
        let mut named = table(1, None, 0, &[2]);
        named.sites[0].name = "named at the end".into();
        let parts = vec![
            table(1, None, 0, &[1, 2]),
            table(2, None, 0, &[1]),
            table(1, None, 0, &[3]),
            named,
        ];
        let sites = Sites::new(parts);
        let name = |pid, id| sites.resolve(pid, 0, id).map(|s| s.name.as_str());
        assert_eq!(sites.tables().len(), 2);
        assert_eq!(
            [name(1, 1), name(1, 2), name(1, 3), name(2, 1)],
            [Some("p1-1"), Some("named at the end"), Some("p1-3"), Some("p2-1")]
        );
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let sites =
            Sites::new(vec![table(1, Some((2, 0)), 10, &[]), table(2, Some((1, 0)), 10, &[])]);
        assert_eq!(sites.resolve(1, 0, 5), None);
    }

    #[test]
    fn definitions_before_half_a_one_are_kept() {
        let bytes = table(1, None, 0, &[1, 2, 3]).to_bytes();
        for cut in 0..bytes.len() {
            match SiteTable::salvage(&bytes[..cut]) {
                Err(e) => assert!(cut < 64 && e.kind == ErrorKind::Truncated, "{cut}: {e}"),
                Ok((t, error)) => {
                    assert_eq!(t.sites.len(), (cut - 64) / 40);
                    assert_eq!(error.is_some(), (cut - 64) % 40 != 0, "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn foreign_and_newer_tables_are_refused() {
        let mut bytes = table(1, None, 0, &[1]).to_bytes();
        bytes[8] = 2;
        assert_eq!(SiteTable::parse(&bytes).unwrap_err().kind, ErrorKind::Version);
        bytes[0] = 0;
        assert_eq!(SiteTable::parse(&bytes).unwrap_err().kind, ErrorKind::Foreign);
    }
}
