//! The kernel's list of symbols, of which a table is kept on the disk until the machine is started again.
//!
//! The kernel takes 25 to 40 ms to format the list, which was half of what call paths cost a short recording. The table holds addresses that the
//! kernel hides from all but root, so it lies where nobody else can read or write ([`kept`](super::kept)).
//! What is not whole, not ours or of another kernel is ignored, and replaced. docs/security.md.
use super::kept::{self, Kept, fact};
use crate::guard::safefs;
use kasuri_symbols::List;
use kasuri_symbols::kallsyms::{HEAD_BYTES, Head, Index, KEY_BYTES, Key, Miss, build};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufReader, Cursor, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the list.
const LIST_BYTES_MAX: u64 = 256 << 20;
const NAME: &str = "kallsyms";

/// The list, or the lines of it that name these addresses; `None`: it cannot be read.
pub(crate) fn list(addresses: &[(u64, u32)]) -> Option<List> {
    Cache::own().list(addresses, &live)
}

fn live() -> Option<List> {
    let list = safefs::open_regular(Path::new("/proc/kallsyms")).ok()?;
    let list = BufReader::with_capacity(64 << 10, list.take(LIST_BYTES_MAX));
    Some(Box::new(list))
}

/// Where tables are kept, and whose is right.
struct Cache {
    /// `None`: nowhere.
    dir: Option<Kept>,
    key: Option<Key>,
}

impl Cache {
    fn own() -> Cache {
        let key = key();
        Cache { dir: key.and_then(|_| Kept::own()), key }
    }

    fn list(&self, addresses: &[(u64, u32)], live: &dyn Fn() -> Option<List>) -> Option<List> {
        match self.part(addresses) {
            Ok(part) => return Some(Box::new(Cursor::new(part))),
            Err(Miss::NotCovered) => return live(),
            Err(Miss::Damaged) => {}
        }
        let (Some(dir), Some(key)) = (&self.dir, self.key) else {
            return live();
        };
        let mut text = Vec::new();
        live()?.read_to_end(&mut text).ok()?;
        // Without a table the next recording asks the kernel again.
        if let Some(table) = build(&mut &text[..], key) {
            dir.put(NAME, &table);
        }
        Some(Box::new(Cursor::new(text)))
    }

    fn part(&self, addresses: &[(u64, u32)]) -> Result<Vec<u8>, Miss> {
        let file = self.dir.as_ref().and_then(|dir| dir.file(NAME));
        let file = file.ok_or(Miss::Damaged)?;
        let head = self.head(&file).ok_or(Miss::Damaged)?;
        let mut read = |place: Range<usize>| {
            let mut bytes = vec![0; place.len()];
            file.read_exact_at(&mut bytes, place.start as u64).ok()?;
            Some(bytes)
        };
        let index = read(head.index()).and_then(|bytes| Index::parse(&head, &bytes));
        let index = index.ok_or(Miss::Damaged)?;
        index.part(addresses.iter().map(|(address, _)| *address), &mut read)
    }

    /// `None`: it is not of this kernel as it is now.
    fn head(&self, file: &File) -> Option<Head> {
        let mut bytes = [0; HEAD_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        Head::parse(&bytes).filter(|head| Some(head.key) == self.key)
    }
}

/// What the table depends on: this boot of the machine, and the modules that are loaded. `None`: not known, or one is on its way.
fn key() -> Option<Key> {
    let boot = kept::boot()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&fact("/sys/kernel/notes").unwrap_or_default());
    hasher.write(env!("CARGO_PKG_VERSION").as_bytes());
    // A kernel without modules has no list of them.
    if let Some(modules) = fact("/proc/modules") {
        for row in std::str::from_utf8(&modules).ok()?.lines() {
            let module = Module::of(row)?;
            hasher.write(module.facts.as_bytes());
            let id = format!("/sys/module/{}/notes/.note.gnu.build-id", module.name);
            hasher.write(&fact(&id).unwrap_or_default());
        }
    }
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&boot);
    key[16..].copy_from_slice(&hasher.finish().to_le_bytes());
    Some(key)
}

/// A row of /proc/modules: name, bytes, users, their names, state, address.
struct Module<'a> {
    name: &'a str,
    facts: String,
}

impl Module<'_> {
    /// `None`: it is being loaded or unloaded.
    fn of(row: &str) -> Option<Module<'_>> {
        let words: Vec<&str> = row.split(' ').collect();
        let [name, bytes, _, _, "Live", address, ..] = words[..] else {
            return None;
        };
        let is_plain = !name.contains('/') && !name.starts_with('.');
        is_plain.then(|| Module { name, facts: format!("{name} {bytes} {address}\n") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    const LIST: &str = "1000 T _stext\n1900 T do_it\n2000 T _etext\n";
    const KEY: Key = [1; KEY_BYTES];

    /// Asks for the name of an address; whether the kernel was asked for its list.
    fn asks(dir: &Path, key: Key, address: u64) -> bool {
        let asked = Cell::new(0);
        let live = || {
            asked.set(asked.get() + 1);
            Some(Box::new(LIST.as_bytes()) as List)
        };
        let cache = Cache { dir: Kept::at(dir), key: Some(key) };
        let mut text = String::new();
        let mut list = cache.list(&[(address, 0)], &live).unwrap();
        list.read_to_string(&mut text).unwrap();
        assert!(text.contains("1900 T do_it"), "{text}");
        asked.get() > 0
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("kasuri");
        (scratch, dir)
    }

    #[test]
    fn the_kernel_is_asked_once_in_a_boot() {
        let (_scratch, dir) = scratch();
        assert!(asks(&dir, KEY, 0x1950));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(NAME))), (0o700, 0o600));
        for _ in 0..3 {
            assert!(!asks(&dir, KEY, 0x1950));
        }
        // Another boot, other modules; then the first again, which is forgotten: there is one table.
        let other = [2; KEY_BYTES];
        assert!(asks(&dir, other, 0x1950));
        assert!(!asks(&dir, other, 0x1950));
        assert!(asks(&dir, KEY, 0x1950));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        // Code that the table does not cover.
        assert!(asks(&dir, KEY, 0x5000));
    }

    /// What another user, or a crash, may leave under the name of the table.
    #[test]
    fn what_was_put_in_the_tables_place_is_neither_followed_nor_believed() {
        let (scratch, dir) = scratch();
        let table = dir.join(NAME);
        asks(&dir, KEY, 0x1950);
        let good = std::fs::read(&table).unwrap();
        let bait = scratch.path().join("bait");
        let put_back = || {
            assert!(!asks(&dir, KEY, 0x1950), "it was replaced");
            assert_eq!(std::fs::read(&table).unwrap(), good);
            std::fs::remove_file(&table).unwrap();
        };
        put_back();
        std::fs::write(&bait, &good).unwrap();
        std::fs::set_permissions(&bait, PermissionsExt::from_mode(0o600)).unwrap();
        symlink(&bait, &table).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "a link");
        put_back();
        std::fs::hard_link(&bait, &table).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "a second name");
        put_back();
        for (what, bytes) in [
            ("cut", &good[..good.len() - 1]),
            ("empty", &[]),
            ("the head alone", &good[..HEAD_BYTES]),
        ] {
            std::fs::write(&table, bytes).unwrap();
            std::fs::set_permissions(&table, PermissionsExt::from_mode(0o600)).unwrap();
            assert!(asks(&dir, KEY, 0x1950), "{what}");
            put_back();
        }
        std::fs::write(&table, &good).unwrap();
        std::fs::set_permissions(&table, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "others may read it");
        put_back();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &table, fifo, mode, 0).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "a FIFO");
        put_back();
        std::fs::create_dir(&table).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "a directory");
        std::fs::remove_dir(&table).unwrap();
        assert_eq!(std::fs::read(&bait).unwrap(), good);
        if rustix::process::geteuid().is_root() {
            std::fs::write(&table, &good).unwrap();
            std::fs::set_permissions(&table, PermissionsExt::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&table, Some(65534), None).unwrap();
            assert!(asks(&dir, KEY, 0x1950), "another user's");
            put_back();
        }
    }

    #[test]
    fn a_directory_that_others_may_change_is_not_used() {
        let (scratch, dir) = scratch();
        asks(&dir, KEY, 0x1950);
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "all may write");
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(!asks(&dir, KEY, 0x1950));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&dir, Some(65534), None).unwrap();
            assert!(asks(&dir, KEY, 0x1950), "another user's");
            std::os::unix::fs::chown(&dir, Some(0), None).unwrap();
        }
        let moved = scratch.path().join("moved");
        std::fs::rename(&dir, &moved).unwrap();
        symlink(&moved, &dir).unwrap();
        assert!(asks(&dir, KEY, 0x1950), "a link");
        let nowhere = scratch.path().join("no/such");
        assert!(asks(&nowhere, KEY, 0x1950), "no place for it");
    }

    #[test]
    fn modules_are_told_by_name_size_and_address_and_not_by_their_users() {
        let facts = |row| Module::of(row).map(|m| m.facts);
        let live = facts("ext4 983040 2 a,b, Live 0xffffffffc0000000 (E)");
        assert_eq!(live, facts("ext4 983040 7 - Live 0xffffffffc0000000 (E)"));
        assert_ne!(live, facts("ext4 983040 2 a,b, Live 0xffffffffc0100000 (E)"));
        for strange in ["ext4 983040 1 - Loading 0x0", "", "../x 1 0 - Live 0x1"] {
            assert_eq!(facts(strange), None);
        }
    }

    #[test]
    fn this_kernels_key_stays_the_same() {
        assert_eq!(key(), key());
    }
}
