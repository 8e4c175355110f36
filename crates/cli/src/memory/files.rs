//! Blocks in files without names: each has a file of its own, mapped whole.
//!
//! The file's space is taken before it is mapped, because a page that a full disk has no room for would kill the command when
//! it is written; where that cannot be done, or there is no room, the block stays in memory. Nobody else can open a file that
//! has no name, and it is gone with the command however that ends. What was not written out when the block is given back never is.
//! Forked children do not get the mappings: they would share them.
use rustix::fs::{FallocateFlags, fallocate, ftruncate, statfs};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mremap, munmap};
use rustix::param::page_size;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Files at once: well below the number that a process may have open, and far more than there are columns.
const FILES_MAX: usize = 256;

/// File systems that are no place for it: tmpfs and ramfs, where memory would be written to memory, and FUSE, where what is read back is
/// another program's word.
const NO_PLACE: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x6573_5546];

struct Block {
    at: usize,
    bytes: usize,
    file: File,
}

/// Who holds it allocates nothing but this list, which never counts as a large block: so the allocator may call itself.
static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
/// Their number, so that nobody takes the lock while there are none. Relaxed: who has a block's address has seen it come.
static N_BLOCKS: AtomicUsize = AtomicUsize::new(0);
static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Chooses the directory: one on a disk.
pub fn find_place() {
    PLACE.get_or_init(|| {
        let asked = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
        let usual = ["/var/tmp", "/tmp"].map(PathBuf::from);
        let places = asked.map(PathBuf::from).into_iter().chain(usual);
        places.into_iter().find(|dir| {
            statfs(dir).is_ok_and(|facts| !NO_PLACE.contains(&(facts.f_type as u64 & 0xffff_ffff)))
        })
    });
}

fn blocks() -> MutexGuard<'static, Vec<Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(page_size())
}

/// Takes the disk's space for so many bytes.
fn reserve(file: &File, bytes: usize) -> Option<()> {
    fallocate(file, FallocateFlags::empty(), 0, bytes as u64).ok()
}

/// A block of zeros; none: there is no room for it.
pub fn take(bytes: usize) -> Option<*mut u8> {
    let dir = PLACE.get()?.as_ref()?;
    if N_BLOCKS.load(Relaxed) >= FILES_MAX {
        return None;
    }
    let bytes = pages(bytes);
    let file = tempfile::tempfile_in(dir).ok()?;
    // Its mode is the umask's, which matters to whoever may look into /proc/PID/fd.
    file.set_permissions(Permissions::from_mode(0o600)).ok()?;
    reserve(&file, bytes)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at a place of the kernel's choice, of a file that nobody else can open and cut.
    let at = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }.ok()?;
    // SAFETY: advice about a mapping of our own.
    if unsafe { madvise(at, bytes, Advice::LinuxDontFork) }.is_err() {
        // SAFETY: as above; nobody has its address.
        let _ = unsafe { munmap(at, bytes) };
        return None;
    }
    let mut blocks = blocks();
    let block = Block { at: at.addr(), bytes, file };
    blocks.push(block);
    N_BLOCKS.store(blocks.len(), Relaxed);
    Some(at.cast())
}

fn position(blocks: &[Block], block: *mut u8) -> Option<usize> {
    blocks.iter().position(|b| b.at == block.addr())
}

/// Whether the block is in a file.
pub fn has(block: *mut u8) -> bool {
    N_BLOCKS.load(Relaxed) > 0 && position(&blocks(), block).is_some()
}

/// Grows or shrinks a block that is in a file; none: there is no room, and it is as it was.
pub fn resize(block: *mut u8, bytes: usize) -> Option<*mut u8> {
    let mut blocks = blocks();
    let at = position(&blocks, block)?;
    let found = &mut blocks[at];
    let bytes = pages(bytes);
    if bytes > found.bytes {
        reserve(&found.file, bytes)?;
    }
    // SAFETY: a mapping of our own, which the kernel may move; its file is as long as it will be.
    let new = unsafe { mremap(block.cast(), found.bytes, bytes, MremapFlags::MAYMOVE) }.ok()?;
    if bytes < found.bytes {
        // What stays too long is only disk space.
        let _ = ftruncate(&found.file, bytes as u64);
    }
    (found.at, found.bytes) = (new.addr(), bytes);
    Some(new.cast())
}

/// Gives a block back; false: it is in no file.
pub fn give_back(block: *mut u8) -> bool {
    if N_BLOCKS.load(Relaxed) == 0 {
        return false;
    }
    let mut blocks = blocks();
    let Some(at) = position(&blocks, block) else {
        return false;
    };
    let gone = blocks.swap_remove(at);
    N_BLOCKS.store(blocks.len(), Relaxed);
    drop(blocks);
    // SAFETY: the owner of the block gives it back, and it has the mapping for itself. It cannot fail but by a mistake of ours.
    let _ = unsafe { munmap(block.cast(), gone.bytes) };
    true
}
