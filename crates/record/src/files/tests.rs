//! Recording directories, whole and damaged: made, packed, recovered, removed.
use crate::error::Error;
use crate::files::directory::{self, Directory};
use crate::files::output;
use crate::files::pack::{self, Amend, Packed};
use crate::files::recover::recover;
use crate::guard::safefs::Held;
use crate::notice::Notice;
use crate::rings::session::{Session, SessionOptions};
use kasuri_format::container::Recording;
use kasuri_format::meta::{Anchor, KernelLoss, KernelMeta, LimitRow, META_VERSION, Meta, Proc};
use kasuri_format::ring::{ChunkHeader, Kind, LOST_CAUSES, Lost, Policy};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};

fn anchor(monotonic_ns: u64) -> Anchor {
    Anchor { native: monotonic_ns, monotonic_ns, realtime_ns: monotonic_ns }
}

fn meta() -> Meta {
    Meta {
        version: META_VERSION,
        complete: true,
        mode: "program".to_owned(),
        start: anchor(1_000),
        end: Some(anchor(9_000)),
        kernel: KernelMeta { source: "none".to_owned(), ..KernelMeta::default() },
        ..Meta::default()
    }
}

/// A chunk as a `.chunks` file has it.
fn chunk(stream: u32, seq: u64, n_events: usize, lost_full: u32) -> Vec<u8> {
    const HEADER: usize = size_of::<ChunkHeader>();
    let mut bytes = vec![0; HEADER + 16 * n_events];
    let used = bytes.len() as u32;
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(offset_of!(ChunkHeader, seq), &seq.to_le_bytes());
    put(offset_of!(ChunkHeader, stream), &stream.to_le_bytes());
    put(offset_of!(ChunkHeader, tid), &7u32.to_le_bytes());
    put(offset_of!(ChunkHeader, used), &used.to_le_bytes());
    let lost = offset_of!(ChunkHeader, lost) + 4 * Lost::Full as usize;
    put(lost, &lost_full.to_le_bytes());
    for i in 0..n_events {
        put(HEADER + 16 * i, &(2_000 + 10 * seq + i as u64).to_le_bytes());
        put(HEADER + 16 * i + 8, &(Kind::Instant as u64 | 1 << 8).to_le_bytes());
    }
    bytes
}

/// A recording directory that its recorder has left, complete.
struct Left {
    scratch: tempfile::TempDir,
}

impl Left {
    fn new(meta: &Meta) -> Left {
        let scratch = tempfile::tempdir().unwrap();
        let left = Left { scratch };
        let mut dir = Directory::create(&left.dir()).unwrap();
        dir.write_meta(meta).unwrap();
        dir.add_anchors(&[anchor(1_000), anchor(9_000)]).unwrap();
        left
    }

    fn dir(&self) -> PathBuf {
        self.at("run.kasuri.d")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir().join(name), bytes).unwrap();
    }

    fn pack(&self) -> Result<Packed, Error> {
        pack::pack(&self.dir(), &self.at("run.kasuri"), &mut |_| {})
    }

    fn recover(&self) -> Result<(Packed, Vec<String>), Error> {
        let mut said = Vec::new();
        let recovered = recover(&self.dir(), None, self.scratch.path(), &mut |notice| {
            if let Notice::Warning(text) = notice {
                said.push(text);
            }
        })?;
        assert_eq!(recovered.output, self.at("run.kasuri"));
        Ok((recovered.packed, said))
    }

    fn recording<T>(&self, look: impl FnOnce(&Recording<'_>) -> T) -> T {
        let bytes = std::fs::read(self.at("run.kasuri")).unwrap();
        look(&Recording::parse(&bytes).unwrap())
    }
}

#[test]
fn tables_and_chunks_of_a_directory_are_in_its_file() {
    let left = Left::new(&meta());
    let mut tables = Directory::create(&left.at("other.kasuri.d")).unwrap();
    let proc = Proc { tid: 7, comm: "worker".to_owned(), ..Proc::default() };
    tables.add_procs(std::slice::from_ref(&proc)).unwrap();
    let limit = LimitRow { cpus: "0-1".to_owned(), ..LimitRow::default() };
    tables.add_limits(std::slice::from_ref(&limit)).unwrap();
    for name in ["procs.jsonl", "limits.jsonl"] {
        std::fs::copy(left.at("other.kasuri.d").join(name), left.dir().join(name)).unwrap();
    }
    left.put("p7-0.chunks", &[chunk(1, 1, 3, 0), chunk(1, 0, 4, 6), chunk(2, 0, 5, 0)].concat());
    let packed = left.pack().unwrap();
    assert_eq!((packed.annotation_events, packed.kernel_events), (12, 0));
    assert_eq!(packed.losses.annotations[Lost::Full as usize], 6);
    assert!(packed.damage.is_empty() && packed.losses.unknown.is_empty(), "{packed:?}");
    assert_eq!(packed.bytes, std::fs::metadata(left.at("run.kasuri")).unwrap().len());
    left.recording(|recording| {
        assert_eq!(recording.procs(), [proc]);
        assert_eq!(recording.limits(), [limit]);
        assert_eq!(recording.meta().end, Some(anchor(9_000)));
    });
    assert!(left.dir().exists(), "packing takes nothing away");
    assert!(!left.at("run.kasuri.part").exists());
}

/// This program's build-id, and the address in its file of a function.
fn own_code(function: usize) -> (PathBuf, Vec<u8>, u64) {
    let exe = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = exe.display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&name)).unwrap();
    let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let id = kasuri_symbols::build_id(&std::fs::read(&exe).unwrap());
    (exe, id, function as u64 - base)
}

#[test]
fn places_in_the_code_have_their_names_in_the_file() {
    use kasuri_format::call_paths::{Frame, LogWriter, Module, ModuleKind, NONE, Tables};
    let (exe, build_id, address) = own_code(own_code as *const () as usize);
    let module = |path: PathBuf, build_id| Module {
        kind: ModuleKind::Elf,
        path: path.display().to_string(),
        build_id,
        pid: 0,
    };
    let tables = Tables {
        modules: vec![module("/nowhere".into(), vec![1]), module(exe, build_id)],
        frames: [(0, 1), (1, address + 1)]
            .map(|(module, address)| Frame { module, address })
            .to_vec(),
        paths: [(NONE, 0), (0, 1)]
            .map(|(caller, frame)| kasuri_format::call_paths::Path { caller, frame })
            .to_vec(),
        names: Vec::new(),
    };
    let mut log = LogWriter::default();
    log.tables(&tables);
    let left = Left::new(&meta());
    left.put("call-paths.log", log.bytes());
    left.pack().unwrap();
    left.recording(|recording| {
        let names = &recording.call_paths().names;
        assert_eq!(names.len(), 1, "{names:?}");
        let call = names[0].calls.last().unwrap();
        assert_eq!(names[0].frame, 1);
        assert!(call.function.contains("own_code") && call.line > 0, "{call:?}");
    });
}

#[test]
fn the_good_part_of_each_damaged_file_is_kept_and_the_rest_is_said() {
    let left = Left::new(&meta());
    left.put("procs.jsonl", b"{\"tid\":1}\n{\"tid\":2}\nnot json\n{\"tid\":4}\n");
    let whole = chunk(1, 0, 4, 0);
    let mut chunks = [whole.clone(), chunk(1, 1, 9, 0)].concat();
    chunks.truncate(whole.len() + 140);
    left.put("p7-0.chunks", &chunks);
    left.put("p7-0.lost", &[0; 63]);
    left.put("p8-0.sites", b"no names");
    // Names that are none of ours, and a file of nothing.
    left.put("p9.chunks", b"");
    left.put("px-0.chunks", b"junk");
    let packed = left.pack().unwrap();
    assert_eq!(packed.annotation_events, 4);
    let about = |name: &str| packed.damage.iter().filter(|d| d.contains(name)).count();
    for name in ["procs.jsonl", "p7-0.chunks", "p7-0.lost", "p8-0.sites"] {
        assert_eq!(about(name), 1, "{name}: {:?}", packed.damage);
    }
    assert_eq!(packed.damage.len(), 4, "{:?}", packed.damage);
    assert_eq!(packed.losses.unknown.len(), 1, "it is not said that nothing was lost");
    left.recording(|recording| assert_eq!(recording.procs().len(), 2));
}

#[test]
fn a_flight_recorder_has_not_lost_what_it_overwrote() {
    for (mode, lost) in [("flight", 4), ("program", 34)] {
        let left = Left::new(&Meta { mode: mode.to_owned(), ..meta() });
        let mut counts = [0u64; LOST_CAUSES];
        (counts[Lost::Overwritten as usize], counts[Lost::Frozen as usize]) = (30, 4);
        let bytes: Vec<u8> = counts.iter().flat_map(|n| n.to_le_bytes()).collect();
        left.put("p7-0.lost", &bytes);
        assert_eq!(left.pack().unwrap().losses.annotations_lost(), lost, "{mode}");
        let held = Held::open(&left.dir()).unwrap();
        assert_eq!(pack::losses(&held).annotations_lost(), lost, "{mode}: before it is packed");
    }
}

#[test]
fn the_kernels_counters_only_rise() {
    let left = Left::new(&meta());
    let row = |cpu, overrun, unwritten| KernelLoss {
        cpu,
        overrun,
        unwritten,
        dropped: 1,
        ..KernelLoss::default()
    };
    let mut tables = Directory::create(&left.at("other.kasuri.d")).unwrap();
    tables.add_losses(&[row(0, 5, 0), row(1, 0, 0), row(0, 9, 2)]).unwrap();
    std::fs::copy(
        left.at("other.kasuri.d/kernel-loss.jsonl"),
        left.dir().join("kernel-loss.jsonl"),
    )
    .unwrap();
    let losses = left.pack().unwrap().losses;
    assert_eq!((losses.kernel, losses.kernel_unwritten), (9 + 1 + 1, 2));
}

#[test]
fn what_is_known_better_than_the_directory_says_goes_into_the_file() {
    let left = Left::new(&Meta { complete: false, end: None, ..meta() });
    let rest = Directory::create(&left.at("rest.d")).unwrap();
    left.put("p7-0.chunks", &chunk(1, 0, 4, 0));
    std::fs::write(left.at("rest.d/p7-0.chunks"), chunk(1, 1, 2, 0)).unwrap();
    // Counts replace each other, chunks add up.
    left.put("p7-0.lost", &[0; 64]);
    let mut lost = [0u8; 64];
    lost[0] = 3;
    std::fs::write(left.at("rest.d/p7-0.lost"), lost).unwrap();
    let amend = Amend { meta: Some(meta()), anchors: vec![anchor(12_000)], memory: Some(8 << 20) };
    let held = Held::open(&left.dir()).unwrap();
    let (output, dirs) = (left.at("run.kasuri"), [&held, rest.held()]);
    let mut progress = Vec::new();
    let packed = pack::pack_amended(&dirs, &output, &amend, &|| false, &mut |notice| {
        if let Notice::Packing { done, total } = notice {
            progress.push((done, total));
        }
    });
    let packed = packed.unwrap();
    assert_eq!((packed.annotation_events, packed.losses.annotations[0]), (6, 3));
    assert!(
        progress.last().is_some_and(|(done, total)| done == total && *total > 0),
        "{progress:?}"
    );
    left.recording(|recording| {
        assert!(recording.meta().complete);
        assert_eq!(recording.anchors().last(), Some(&anchor(12_000)));
    });
}

#[test]
fn packing_that_is_interrupted_leaves_no_file() {
    let left = Left::new(&meta());
    left.put("p7-0.chunks", &chunk(1, 0, 4, 0));
    let held = Held::open(&left.dir()).unwrap();
    let output = left.at("run.kasuri");
    let error = pack::pack_amended(&[&held], &output, &Amend::default(), &|| true, &mut |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("interrupted") && error.contains("kasuri recover"), "{error}");
    let names: Vec<_> = std::fs::read_dir(left.scratch.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_directory_without_readable_metadata_is_no_recording() {
    let left = Left::new(&meta());
    for bytes in [&b""[..], b"{", b"[]", b"{\"version\": 999999}"] {
        left.put("meta.json", bytes);
        let error = left.pack().unwrap_err().to_string();
        assert!(error.contains("meta.json"), "{error}");
        let error = left.recover().unwrap_err();
        assert!(matches!(error, Error::NotARecording { .. }), "{error}");
    }
    std::fs::remove_file(left.dir().join("meta.json")).unwrap();
    let error = left.recover().unwrap_err().to_string();
    assert!(error.contains("it has no meta.json"), "{error}");
    assert!(left.dir().exists() && !left.at("run.kasuri").exists());
}

#[test]
fn a_killed_recording_is_recovered_and_its_directory_removed() {
    let left = Left::new(&Meta { complete: false, end: None, ..meta() });
    let whole = chunk(1, 0, 4, 0);
    left.put("p7-0.chunks", &[&whole[..], &chunk(1, 1, 3, 0)[..100]].concat());
    let (packed, said) = left.recover().unwrap();
    assert_eq!(packed.annotation_events, 4);
    assert!(packed.damage.is_empty(), "half a chunk is what SIGKILL leaves: {packed:?}");
    assert!(said.is_empty() && !left.dir().exists(), "{said:?}");
    left.recording(|recording| {
        let missing = &recording.meta().missing;
        assert!(missing.iter().any(|m| m.contains("the recorder was killed")), "{missing:?}");
        // The machine has restarted since: the present clock tells nothing about that time.
        assert_eq!(recording.anchors(), [anchor(1_000), anchor(9_000)]);
    });
}

#[test]
fn a_whole_recording_is_never_replaced() {
    let left = Left::new(&meta());
    left.put("p7-0.chunks", &chunk(1, 0, 4, 0));
    left.pack().unwrap();
    let file = left.at("run.kasuri");
    let bytes = std::fs::read(&file).unwrap();
    // As its recorder leaves it that is killed while it removes the directory.
    std::fs::remove_file(left.dir().join("p7-0.chunks")).unwrap();
    let recovered = recover(&left.dir(), None, left.scratch.path(), &mut |_| {}).unwrap();
    assert!(recovered.was_whole && !left.dir().exists());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);

    let other = Meta { start: anchor(500), ..meta() };
    Directory::create(&left.dir()).unwrap().write_meta(&other).unwrap();
    let error = left.recover().unwrap_err();
    assert!(matches!(error, Error::Whole { .. }), "{error}");
    assert!(left.dir().exists());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);

    // One that is damaged is no loss.
    std::fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    left.recover().unwrap();
    left.recording(|recording| assert_eq!(recording.meta().start, anchor(500)));
}

#[test]
fn a_directory_that_lacks_events_is_not_called_complete() {
    let (first, second) = (chunk(1, 0, 4, 0), chunk(1, 1, 3, 0));
    let n_bytes = (first.len() + second.len()) as u64;
    let files = [("p7-0.chunks".to_owned(), n_bytes)].into();
    let left = Left::new(&Meta { files, ..meta() });
    // Of the second chunk, which is half there, nothing is kept.
    left.put("p7-0.chunks", &[&first[..], &second[..100]].concat());
    let (packed, _) = left.recover().unwrap();
    let lacks = format!("{} of its {n_bytes} bytes are not there", second.len());
    assert!(packed.damage[0].contains(&lacks), "{:?}", packed.damage);
    assert!(!packed.losses.unknown.is_empty(), "not \"none lost\"");
    left.recording(|recording| {
        assert!(!recording.meta().complete && recording.meta().files.is_empty());
        assert!(recording.meta().missing[0].contains(&lacks));
    });
}

#[test]
fn what_others_put_into_a_recording_stays_and_is_said() {
    let left = Left::new(&meta());
    left.put("diary", b"mine");
    let (_, said) = left.recover().unwrap();
    assert!(said.len() == 1 && said[0].contains("such as diary"), "{said:?}");
    let names: Vec<_> = std::fs::read_dir(left.dir()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

fn session_in(shm_dir: &Path) -> Session {
    let options = SessionOptions {
        policy: Policy::Grow,
        clock: crate::clock::StampClock::Monotonic,
        chunk_bytes: 4096,
        max_bytes: 1 << 20,
        first_chunks: 1,
        flight_chunks: 1,
        shm_dir: shm_dir.to_owned(),
        owner: None,
    };
    Session::create(&options, shm_dir).unwrap()
}

#[test]
fn rings_are_recovered_once_their_recorder_is_gone() {
    let left = Left::new(&Meta { complete: false, end: None, ..meta() });
    let session = session_in(left.scratch.path());
    session.tie(&Held::open(&left.dir()).unwrap()).unwrap();
    let path = session.path().to_owned();
    let error = left.recover().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(path.exists() && left.dir().exists());
    session.keep();
    let (packed, _) = left.recover().unwrap();
    assert_eq!(packed.annotation_events, 0);
    assert!(!path.exists() && !left.dir().exists());
}

#[test]
fn the_session_of_another_recording_is_left_alone() {
    let left = Left::new(&meta());
    let session = session_in(left.scratch.path());
    let other = Directory::create(&left.at("other.kasuri.d")).unwrap();
    session.tie(other.held()).unwrap();
    let path = session.path().to_owned();
    session.keep();
    std::os::unix::fs::symlink(&path, left.dir().join("session")).unwrap();
    let error = left.recover().unwrap_err().to_string();
    assert!(error.contains("it belongs to") && error.contains("remove the link"), "{error}");
    assert!(path.join("control").exists() && left.dir().exists());
    // A link that leads nowhere any more is no hindrance.
    std::fs::remove_dir_all(&path).unwrap();
    left.recover().unwrap();
}

#[test]
fn a_damaged_file_is_recovered_beside_itself() {
    let left = Left::new(&meta());
    left.put("p7-0.chunks", &[chunk(1, 0, 4, 0), chunk(2, 0, 5, 2)].concat());
    left.pack().unwrap();
    let file = left.at("run.kasuri");
    let whole = std::fs::read(&file).unwrap();
    // Without its index, and with rubbish behind it.
    std::fs::write(&file, [&whole[..whole.len() - 30], &b"rubbish"[..]].concat()).unwrap();
    let recovered = recover(&file, None, Path::new("/dev/shm"), &mut |_| {}).unwrap();
    assert_eq!(recovered.output, left.at("run.recovered.kasuri"));
    assert_eq!(recovered.packed.annotation_events, 9);
    assert!(!recovered.packed.damage.is_empty());
    Recording::parse(&std::fs::read(&recovered.output).unwrap()).unwrap();
    for bytes in [&b""[..], b"no recording", &whole[..10]] {
        std::fs::write(&file, bytes).unwrap();
        let error = recover(&file, None, Path::new("/dev/shm"), &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::NotARecording { .. }), "{error}");
    }
}

#[test]
fn a_directory_that_is_there_is_busy_or_left_over() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run.kasuri.d");
    let living = Directory::create(&path).unwrap();
    let error = Directory::create(&path).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    living.write_meta(&meta()).unwrap();
    drop(living);
    let error = Directory::create(&path).unwrap_err();
    assert!(matches!(error, Error::LeftOver { .. }), "{error}");
    // The rest of one that was being removed is no recording; a file of somebody else keeps it.
    std::fs::remove_file(path.join("meta.json")).unwrap();
    std::fs::write(path.join("diary"), "mine").unwrap();
    let error = Directory::create(&path).unwrap_err();
    assert!(matches!(error, Error::LeftOver { .. }), "{error}");
    std::fs::remove_file(path.join("diary")).unwrap();
    Directory::create(&path).unwrap();
    let error = Directory::create(&scratch.path().join("no/run.kasuri.d")).unwrap_err();
    assert!(matches!(error, Error::File { what: "make", .. }), "{error}");
}

#[test]
fn names_of_recordings_and_their_directories_belong_together() {
    for (output, dir) in [("run.kasuri", "run.kasuri.d"), ("a/b.kasuri", "a/b.kasuri.d")] {
        assert_eq!(directory::path_for(Path::new(output)), Path::new(dir));
        assert_eq!(directory::output_for(Path::new(dir)), Path::new(output));
        assert_eq!(directory::output_for(Path::new(&format!("{dir}/"))), Path::new(output));
    }
    assert_eq!(directory::output_for(Path::new("moved")), Path::new("moved.kasuri"));
    assert_eq!(directory::output_for(Path::new("x.d")), Path::new("x.kasuri"));
    // A device has no directory of its own: two recordings into it are in different places.
    let null = || directory::place_for(Path::new("/dev/null")).unwrap();
    assert!(null().starts_with(std::env::temp_dir()) && null() != null());
    assert_eq!(output::kind(Path::new("/dev/null")).unwrap(), output::Kind::Stream);
}

#[test]
fn only_what_a_recorder_makes_is_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run.kasuri.d");
    let dir = Directory::create(&path).unwrap();
    dir.write_meta(&meta()).unwrap();
    dir.reserve();
    assert!(path.join("reserve").metadata().unwrap().len() >= 1 << 16);
    dir.use_reserve();
    assert!(!path.join("reserve").exists());
    let ours =
        ["cpu0.raw", "perf12.raw", "p1-0.chunks", "p1-0.sites", "p1-0.lost", "meta.json.new"];
    let others = ["cpu.raw", "cpu-1.raw", "cpux.raw", "p1.chunks", "meta.json.old", "notes"];
    for name in ours.iter().chain(&others) {
        std::fs::write(path.join(name), "").unwrap();
    }
    assert!(dir.discard().is_some());
    let mut left: Vec<_> = std::fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let mut expected = others.to_vec();
    expected.sort_unstable();
    assert_eq!(left, expected);
}
