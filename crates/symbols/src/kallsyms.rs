//! The kernel's list of symbols as a file of which parts can be read.
//!
//! Goal: a few kernel addresses named without the list, for which the kernel formats 100,000 lines and more (25 to 40 ms); it cannot
//! be asked for a part. Definitions: an address is *covered* when everything that the list could say of it is in the file: it lies
//! in the kernel's own code (`_stext` to `_etext`), or between two functions of one module, or after the last one in its
//! page. Code that comes and goes without a module (BPF programs, trampolines) is never covered: the file would name it by its
//! neighbour. Method: [`build`] sorts the lines of covered symbols into leaves of some KiB; [`Index::part`] gives the leaves in which
//! some addresses lie, a list for [`crate::tasks`] in place of the whole. Whose file it is, its key says; the caller compares.
//!
//! The file, all numbers little-endian: head ([`HEAD_BYTES`]): magic, key, numbers of ranges and leaves (u32),
//! CRC-32 of the index, and of the head before it. Index: covered ranges (u64 start, u64 end); leaves (u64 first start, u32 place of its end after the index, u32 CRC-32). Then the leaves.
use crate::text::{hex, is_code, next_line};
use std::io::BufRead;
use std::ops::Range;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 48;
/// Bytes of a key.
pub const KEY_BYTES: usize = 24;
/// Most bytes of a file: six times that of a kernel with 120,000 symbols.
pub const FILE_BYTES_MAX: usize = 32 << 20;

const MAGIC: &[u8; 8] = b"kallsym2";
const PAGE: u64 = 4096;
const RANGE_BYTES: usize = 16;
const LEAF_ROW_BYTES: usize = 16;
/// A leaf is full when it has so many bytes; a line more is no harm.
const LEAF_BYTES: usize = 4096;

/// What a file is of: the boot, and what the kernel's code depends on.
pub type Key = [u8; KEY_BYTES];

/// What the first bytes of a file say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose it is.
    pub key: Key,
    n_ranges: usize,
    n_leaves: usize,
    crc: u32,
}

/// Where what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    ranges: Vec<Range<u64>>,
    leaves: Vec<Leaf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Leaf {
    start: u64,
    /// In the file.
    place: Range<usize>,
    crc: u32,
}

/// Why a file does not name an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It lies in code that comes and goes.
    NotCovered,
    /// The file is not what [`build`] has made.
    Damaged,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    start: u64,
    kind: u8,
    /// Name and, of a module's, `\t[module]`.
    name: Vec<u8>,
}

impl Symbol {
    fn is_code(&self) -> bool {
        is_code(self.kind)
    }

    fn module(&self) -> Option<&[u8]> {
        let at = self.name.iter().position(|b| *b == b'\t')?;
        Some(&self.name[at + 1..])
    }
}

/// Makes a file of a list. `None`: the list has no addresses, because only root may see them, or no kernel code, or it cannot be read.
pub fn build(list: &mut dyn BufRead, key: Key) -> Option<Vec<u8>> {
    let (mut symbols, own) = read(list)?;
    symbols.sort_by_key(|s| (s.start, s.kind));
    // Of several names of one address the first global one holds: `T` before `t`.
    symbols.dedup_by_key(|s| s.start);
    let ranges = covered(&symbols, &own);
    symbols.retain(|s| ranges.iter().any(|range| range.contains(&s.start)));
    let mut index = Vec::new();
    for range in &ranges {
        index.extend(range.start.to_le_bytes());
        index.extend(range.end.to_le_bytes());
    }
    let mut leaves = Vec::new();
    let mut n_leaves = 0;
    let mut rest = symbols.as_slice();
    while let Some(first) = rest.first() {
        let begin = leaves.len();
        while let Some((symbol, after)) = rest.split_first()
            && leaves.len() - begin < LEAF_BYTES
        {
            leaves.extend(format!("{:x} {} ", symbol.start, symbol.kind as char).as_bytes());
            leaves.extend_from_slice(&symbol.name);
            leaves.push(b'\n');
            rest = after;
        }
        index.extend(first.start.to_le_bytes());
        index.extend(u32::try_from(leaves.len()).ok()?.to_le_bytes());
        index.extend(crc32fast::hash(&leaves[begin..]).to_le_bytes());
        n_leaves += 1;
    }
    let head = Head { key, n_ranges: ranges.len(), n_leaves, crc: crc32fast::hash(&index) };
    let bytes = [head.to_bytes(), index, leaves].concat();
    (bytes.len() <= FILE_BYTES_MAX).then_some(bytes)
}

impl Head {
    /// `None`: the bytes are none of a head.
    pub fn parse(bytes: &[u8]) -> Option<Head> {
        let head = bytes.get(..HEAD_BYTES)?;
        let (before, crc) = head.split_at(HEAD_BYTES - 4);
        if !head.starts_with(MAGIC) || u32_at(crc, 0)? != crc32fast::hash(before) {
            return None;
        }
        let head = Head {
            key: *head.get(8..)?.first_chunk()?,
            n_ranges: u32_at(head, 32)? as usize,
            n_leaves: u32_at(head, 36)? as usize,
            crc: u32_at(head, 40)?,
        };
        (head.index().end <= FILE_BYTES_MAX).then_some(head)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &self.key].concat();
        for number in [self.n_ranges as u32, self.n_leaves as u32, self.crc] {
            bytes.extend(number.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    /// Where its index is in the file.
    pub fn index(&self) -> Range<usize> {
        let bytes = self.n_ranges.saturating_mul(RANGE_BYTES);
        let bytes = bytes.saturating_add(self.n_leaves.saturating_mul(LEAF_ROW_BYTES));
        HEAD_BYTES..bytes.saturating_add(HEAD_BYTES)
    }
}

impl Index {
    /// `None`: the bytes are not those of the head's index.
    pub fn parse(head: &Head, bytes: &[u8]) -> Option<Index> {
        let place = head.index();
        if bytes.len() != place.len() || crc32fast::hash(bytes) != head.crc {
            return None;
        }
        let (ranges, leaves) = bytes.split_at_checked(head.n_ranges * RANGE_BYTES)?;
        let ranges = ranges.chunks_exact(RANGE_BYTES);
        let ranges = ranges.map(|row| Some(u64_at(row, 0)?..u64_at(row, 8)?));
        let mut from = place.end;
        let leaf = |row: &[u8]| {
            let end = place.end.checked_add(u32_at(row, 8)? as usize)?;
            let place = std::mem::replace(&mut from, end)..end;
            let is_right = place.start <= end && end <= FILE_BYTES_MAX;
            is_right.then_some(Leaf { start: u64_at(row, 0)?, place, crc: u32_at(row, 12)? })
        };
        Some(Index {
            ranges: ranges.collect::<Option<_>>()?,
            leaves: leaves.chunks_exact(LEAF_ROW_BYTES).map(leaf).collect::<Option<_>>()?,
        })
    }

    /// A part of the list that names these addresses as the whole would; `read` gives bytes of the file.
    ///
    /// # Errors
    /// [`Miss`], of any of them.
    pub fn part(
        &self,
        addresses: impl IntoIterator<Item = u64>,
        read: &mut dyn FnMut(Range<usize>) -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Miss> {
        let mut part = Vec::new();
        let mut last = None;
        for address in addresses {
            let ix = self.leaf(address).ok_or(Miss::NotCovered)?;
            if last.replace(ix) == Some(ix) {
                continue;
            }
            let Leaf { place, crc, .. } = &self.leaves[ix];
            let bytes = read(place.clone()).ok_or(Miss::Damaged)?;
            if bytes.len() != place.len() || crc32fast::hash(&bytes) != *crc {
                return Err(Miss::Damaged);
            }
            part.extend(bytes);
        }
        Ok(part)
    }

    /// The leaf that has the symbol to which a covered address belongs.
    fn leaf(&self, address: u64) -> Option<usize> {
        let is_covered = self.ranges.iter().any(|range| range.contains(&address));
        let after = self.leaves.partition_point(|leaf| leaf.start <= address);
        is_covered.then_some(after)?.checked_sub(1)
    }
}

/// The symbols, and the bounds of the kernel's own code.
fn read(list: &mut dyn BufRead) -> Option<(Vec<Symbol>, Range<u64>)> {
    let mut symbols = Vec::new();
    let mut own = 0..0;
    let mut line = Vec::new();
    let mut bytes = 0;
    while next_line(list, &mut line).ok()? {
        bytes += line.len();
        let mut words = line.splitn(3, |b| *b == b' ');
        let (Some(start), Some(&[kind]), Some(name)) =
            (words.next().and_then(hex), words.next(), words.next())
        else {
            continue;
        };
        match name {
            b"_stext" => own.start = start,
            b"_etext" => own.end = start,
            _ => {}
        }
        let name = name.to_vec();
        symbols.push(Symbol { start, kind, name });
        if bytes > 8 * FILE_BYTES_MAX {
            return None;
        }
    }
    (own.start != 0 && !own.is_empty()).then_some((symbols, own))
}

/// Of symbols sorted by their starts, those ranges in which there is nothing else: see the module.
fn covered(symbols: &[Symbol], own: &Range<u64>) -> Vec<Range<u64>> {
    let mut ranges = vec![own.clone()];
    // A module's data may lie far from its code, with others' code between.
    let is_outside = |s: &&Symbol| s.is_code() && !own.contains(&s.start);
    let outside: Vec<&Symbol> = symbols.iter().filter(is_outside).collect();
    for run in outside.chunk_by(|a, b| a.module() == b.module()) {
        let (first, last) = (run[0], run[run.len() - 1]);
        // Names in brackets that are no module's: "[bpf]", "[__builtin__kprobes]".
        let is_module =
            first.module().is_some_and(|m| m != b"[bpf]" && !m.starts_with(b"[__builtin__"));
        if is_module {
            ranges.push(first.start..(last.start | (PAGE - 1)).saturating_add(1));
        }
    }
    // A range goes no further than the next symbol that is not of it.
    for range in &mut ranges[1..] {
        let after = outside.partition_point(|s| s.start <= range.start);
        let module = outside[after - 1].module();
        let next = outside[after..].iter().find(|s| s.module() != module);
        range.end = next.map_or(range.end, |s| range.end.min(s.start));
    }
    ranges
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::call_paths::Call;

    const KEY: Key = [7; KEY_BYTES];

    /// The kernel's own code from 0x1000 to 0x4000, in it 400 functions with long names; two modules, beside them a BPF program; data.
    fn list() -> String {
        let mut list =
            "0 A fixed_percpu_data\n1000 T _stext\n1000 t local\n1000 T _text\n1400 t inner\n"
                .to_owned();
        for n in 0..400 {
            let start = 0x1408 + 8 * n;
            list += &format!("{start:x} t function_{n}_{}\n", "x".repeat(40));
        }
        list + "2200 T entry\n2400 W weak\n2800 d table\n3000 T last\n4000 T _etext\n4100 D data\n\
            10010 t one\t[mod]\n10200 t two\t[mod]\n11ff0 t bpf_prog_1\t[bpf]\n\
            12000 t other\t[more]\n13000 t others_last\t[more]\n13800 t near\t[third]\n20000 d data\t[mod]\n"
    }

    fn file() -> Vec<u8> {
        build(&mut list().as_bytes(), KEY).unwrap()
    }

    fn index(file: &[u8]) -> Option<Index> {
        let head = Head::parse(file)?;
        Index::parse(&head, file.get(head.index())?)
    }

    fn part(file: &[u8], addresses: &[u64]) -> Result<Vec<u8>, Miss> {
        let index = index(file).ok_or(Miss::Damaged)?;
        let mut read = |place| file.get(place).map(<[u8]>::to_vec);
        index.part(addresses.iter().copied(), &mut read)
    }

    fn names(list: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
        let addresses: Vec<(u64, u32)> = addresses.iter().map(|a| (*a, 0)).collect();
        let calls = crate::text::kernel(&mut &list[..], &addresses).unwrap();
        let name = |c: Call| c.function;
        calls.into_iter().map(|c| c.map(name)).collect()
    }

    #[test]
    fn what_is_covered_has_the_name_that_the_whole_list_gives() {
        let (file, list) = (file(), list());
        assert!(index(&file).unwrap().leaves.len() > 3);
        let mut covered = Vec::new();
        for address in (0..0x22000).step_by(8) {
            match part(&file, &[address]) {
                Ok(part) => covered.push((address, part)),
                Err(miss) => assert_eq!(miss, Miss::NotCovered),
            }
        }
        for (address, part) in &covered {
            let at = &[*address];
            assert_eq!(names(part, at), names(list.as_bytes(), at), "{address:x}");
        }
        // The kernel's code; of `mod` from 0x10010 to the end of the page; of `more` up to the next module; of that the rest of the page.
        assert_eq!(covered.len(), (0x3000 + 0xff0 + 0x1800 + 0x800) / 8);
        let all: Vec<u64> = covered.iter().map(|(address, _)| *address).collect();
        let of_all = part(&file, &all).unwrap();
        assert_eq!(names(&of_all, &all), names(list.as_bytes(), &all));
        let two = [all[0], all[all.len() - 1]];
        let of_two = part(&file, &two).unwrap();
        assert!(of_two.len() < of_all.len() / 2, "not all of it is read");
        assert_eq!(names(&of_two, &two), names(list.as_bytes(), &two));
    }

    #[test]
    fn code_that_may_come_and_go_is_not_covered() {
        let file = file();
        for address in [0xfff, 0x4000, 0x10000, 0x11000, 0x11ff8, 0x14000, 0x20000, u64::MAX] {
            let missed = part(&file, &[0x1000, address]);
            assert_eq!(missed, Err(Miss::NotCovered), "{address:x}");
        }
    }

    #[test]
    fn a_damaged_file_names_nothing_wrong() {
        let file = file();
        let head = Head::parse(&file).unwrap();
        assert_eq!(head.key, KEY);
        let all: Vec<u64> = (0x1000..0x4000).step_by(64).collect();
        let good = part(&file, &all).unwrap();
        for at in (0..file.len()).step_by(7) {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            let answer = part(&damaged, &all);
            // Leaves of other ranges are not read.
            assert!(
                answer.as_ref().is_ok_and(|p| *p == good) || answer == Err(Miss::Damaged),
                "byte {at}"
            );
            if at < head.index().end {
                assert_eq!(answer, Err(Miss::Damaged), "byte {at}");
            }
            let cut = part(&file[..at], &all);
            assert_eq!(cut, Err(Miss::Damaged), "cut at {at}");
        }
    }

    #[test]
    fn claims_of_a_file_with_right_sums_lead_nowhere() {
        let file = file();
        let end = Head::parse(&file).unwrap().index().end;
        for at in 32..end {
            for value in [0, 0x7f, 0xff] {
                let mut forged = file.clone();
                forged[at] = value;
                let crc = crc32fast::hash(&forged[HEAD_BYTES..end]).to_le_bytes();
                forged[HEAD_BYTES - 8..HEAD_BYTES - 4].copy_from_slice(&crc);
                let crc = crc32fast::hash(&forged[..HEAD_BYTES - 4]).to_le_bytes();
                forged[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&crc);
                for address in [0, 0x1000, 0x2208, 0x3fff, 0x10020, 0x20000, u64::MAX] {
                    let _ = part(&forged, &[address]);
                }
            }
        }
    }

    #[test]
    fn a_list_without_addresses_or_kernel_code_makes_no_file() {
        for list in
            ["", "0 T _stext\n0 T _etext\n", "1000 T other\n", "2000 T _stext\n1000 T _etext\n"]
        {
            assert_eq!(build(&mut list.as_bytes(), KEY), None, "{list}");
        }
    }
}
