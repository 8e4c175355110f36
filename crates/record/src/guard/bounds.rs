//! Bounds of the resources that a session can make the recorder use. docs/security.md has a table with the same names.
//!
//! They are far above what programs need (thousands of processes, a hundred thousand threads), and low enough that
//! memory stays below a GiB. Anything beyond is refused, and the recording says so.

/// Entries of a directory that are read.
pub const MAX_NAMES: usize = 1 << 18;
/// Bytes of a small file of a recording directory: `meta.json`, loss counts.
pub const MAX_META_BYTES: u64 = 64 << 20;
/// Bytes of one client's site definitions that are copied: enough for the names of half a million places.
pub const MAX_SITES_BYTES: u64 = 64 << 20;
/// Bytes of a table of a recording directory: threads, anchors, losses.
pub const MAX_TABLE_BYTES: u64 = 1 << 30;
/// Clients of a session, one after the other or at once; packing maps a file of each.
pub const MAX_CLIENTS: usize = 50_000;
/// Ring files that are open at once; each is a mapping, of which the kernel allows 65,530.
pub const MAX_RINGS: usize = 1 << 15;
/// Streams, threads and runs of chunk numbers of all clients that are remembered at once, some 300 bytes each. A
/// client has one for each of its threads; beyond the bound, the recorder gives up the client with the most.
pub const MAX_STREAMS: usize = 1 << 19;
/// Files of clients that are kept open for writing; others are opened again when there is something to write.
pub const MAX_OPEN_FILES: usize = 256;
/// Cgroups whose CPU limits are watched: the files of each are read up to 250 times a second.
pub const MAX_CGROUPS: usize = 64;
/// Files of a program's or process's code that are looked into.
pub const MAX_CODE_FILES: usize = 4096;
/// Places of USDT probes that are probed at once: each is a uprobe, an event and a format in `meta.json`.
pub const MAX_USDT_SITES: usize = 256;
/// Gates of a process that are asked to open: each is an object file that annotates.
pub const MAX_GATES: usize = 1 << 16;
/// Bytes of a process's memory in which gates of replaced files are looked for.
pub const MAX_SEARCHED: u64 = 256 << 20;
