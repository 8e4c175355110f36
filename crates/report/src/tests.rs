//! The page holds what the trace holds: the tests decode units and levels with a second implementation, written from the
//! format and not from the encoder.
mod call_paths;
use super::columns::{Raw, UNIT_ITEMS, column};
use super::plan::Kind;
use super::*;
use base64::Engine;
use kasuri_model::*;
use std::io::Read;

/// One column of `n` values; moves `at` behind it.
fn cell(bytes: &[u8], at: &mut usize, n: usize) -> Vec<u64> {
    let width = bytes[*at] as usize;
    *at += 1;
    if width == 0 {
        let value = u64::from_le_bytes(bytes[*at..*at + 8].try_into().unwrap());
        *at += 8;
        return vec![value; n];
    }
    // Planes of bytes: first the lowest byte of all values, then the next.
    let planes = &bytes[*at..*at + width * n];
    *at += width * n;
    (0..n).map(|i| (0..width).rev().fold(0, |v, p| v << 8 | planes[p * n + i] as u64)).collect()
}

/// A recording as it is in a file.
struct Whole {
    layout: blocks::Layout,
    blocks: Vec<blocks::Block>,
    clamped: u64,
}

impl std::ops::Deref for Whole {
    type Target = blocks::Layout;
    fn deref(&self) -> &blocks::Layout {
        &self.layout
    }
}

fn pack(trace: &Trace, plan: &plan::Plan, options: &Options) -> Whole {
    let job = blocks::Job::new(trace, plan.clone(), options);
    let layout = blocks::Layout::of(&job);
    let packed = blocks::pack(&job, &layout);
    Whole { layout, blocks: packed.blocks, clamped: packed.clamped }
}

/// Where `unit` begins in its block, which begins with the offsets of its units.
fn offset(block: &[u8], unit: &columns::Unit) -> usize {
    let at = 4 * unit.part as usize;
    u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) as usize
}

/// Start, end and value of each item of a line, read from the blocks.
fn decode(packed: &Whole, line: usize, kind: Kind) -> Vec<(u64, u64, u64)> {
    let mut items = Vec::new();
    for unit in &packed.units[line] {
        // A unit holds the items of one line; a block holds many units, and is deflated as a whole.
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let bytes = &block[offset(&block, unit)..];
        let n = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        assert_eq!(n, unit.items as usize);
        let mut now = u64::from_le_bytes(bytes[4..12].try_into().unwrap());
        assert_eq!(now, unit.from);
        let mut at = 12;
        let (gap, length) = (cell(bytes, &mut at, n), cell(bytes, &mut at, n));
        let first = cell(bytes, &mut at, n);
        let second = if kind == Kind::Slice { cell(bytes, &mut at, n) } else { vec![0; n] };
        for i in 0..n {
            let start = now + gap[i];
            now = start + length[i];
            items.push((
                start,
                now,
                if kind == Kind::Slice { first[i] << 4 | second[i] & 15 } else { first[i] },
            ));
        }
        // The index has the range of each unit, by which the viewer chooses what to decode.
        assert_eq!(now, unit.to);
    }
    items
}

/// The bytes behind a tag's text: base64 of raw deflate.
fn inflate(text: &str) -> Vec<u8> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut out = Vec::new();
    flate2::read::DeflateDecoder::new(&bytes[..]).read_to_end(&mut out).unwrap();
    out
}

/// `n` slices on one thread: every seventh long, one name that is there once, and one gap of a minute.
fn trace(n: u32) -> Trace {
    let mut trace = Trace::default();
    let names: Vec<StrIx> =
        ["a", "b", "once"].iter().map(|name| trace.strings.intern(name)).collect();
    let mut now = -50;
    for i in 0..n {
        now += if i == n / 2 { 60_000_000_000 } else { (i % 5) as i64 };
        let name = if i == n / 3 { names[2] } else { names[i as usize % 2] };
        let length = if i % 7 == 0 { 100_000 } else { 900 + (i as i64 * 37) % 100 };
        let s = &mut trace.slices;
        s.start.push(Time(now));
        s.end.push(Time(now + length));
        s.thread.push(ThreadIx(0));
        s.name.push(name);
        s.depth.push(0);
        s.parent.push(SliceIx::NONE);
        s.kind.push(if i % 3 == 0 { SliceKind::Barrier } else { SliceKind::Work });
        s.task.push(TaskIx::NONE);
        s.object.push((i as u64 % 4) * 0x1000);
        s.open.push(0);
        now += length;
    }
    let process = trace.strings.intern("p");
    trace.span = Time(0)..Time(now);
    trace.processes.push(Process {
        pid: 1,
        name: process,
        is_target: true,
        threads: 0..1,
        ..Process::default()
    });
    let alive = Time(0)..Time(now);
    trace.threads.push(Thread {
        process: ProcessIx(0),
        tid: 1,
        alive,
        slices: 0..n,
        slice_levels: 1,
        ..Thread::default()
    });
    trace
}

#[test]
fn every_slice_is_in_the_page_with_its_times_and_name() {
    for n in [1, 2, 100, UNIT_ITEMS as u32, UNIT_ITEMS as u32 + 1, 40_000] {
        let trace = trace(n);
        let plan = lines::plan(&trace);
        let packed = pack(&trace, &plan, &Options::default());
        assert_eq!(plan.lines.len(), 1);
        assert_eq!(packed.clamped, 0);
        let items = decode(&packed, 0, Kind::Slice);
        assert_eq!(items.len(), n as usize);
        for (i, &(start, end, value)) in items.iter().enumerate() {
            assert_eq!(start as i64 + plan.base, trace.slices.start[i].0);
            assert_eq!(end as i64 + plan.base, trace.slices.end[i].0);
            assert_eq!(value >> 4, trace.slices.name[i].0 as u64);
            assert_eq!(value & 15, trace.slices.kind[i] as u64);
        }
    }
}

#[test]
fn workers_and_level_change_no_item() {
    let trace = trace(40_000);
    let plan = lines::plan(&trace);
    let one = pack(&trace, &plan, &Options { workers: 1, level: 1, ..Options::default() });
    let four = pack(&trace, &plan, &Options { workers: 4, level: 9, ..Options::default() });
    assert_eq!(decode(&one, 0, Kind::Slice), decode(&four, 0, Kind::Slice));
}

#[test]
fn a_level_is_empty_exactly_where_nothing_was() {
    let trace = trace(40_000);
    let plan = lines::plan(&trace);
    let n = 8192;
    let level =
        lod::build(&trace, &plan, &lod::longest(&trace, &plan), &plan.lines[0], n, &mut Vec::new());
    let mut touched = vec![false; n];
    let width = plan.length as f64 / n as f64;
    for i in 0..40_000 {
        let item = plan.item(&trace, &plan.lines[0], i);
        let (from, to) = ((item.start as f64 / width) as usize, (item.end as f64 / width) as usize);
        // What the level must show, from the items themselves.
        touched[from..=to.min(n - 1)].fill(true);
    }
    // An item that ends on a bucket's edge touches the next one by nothing.
    let holes = (0..n).filter(|&b| touched[b] && level.cover[b] == 0).count();
    let ghosts = (0..n).filter(|&b| !touched[b] && level.cover[b] != 0).count();
    assert!(holes <= 1, "{holes} buckets hide what is in them");
    assert_eq!(ghosts, 0);
}

#[test]
fn tiles_are_the_levels_they_were_cut_from() {
    let trace = trace(400_000);
    let plan = lines::plan(&trace);
    let packed = pack(&trace, &plan, &Options::default());
    let levels = &packed.levels[0];
    let finest = lod::buckets(400_000);
    assert_eq!(levels.buckets as usize, finest);
    let longest = lod::longest(&trace, &plan);
    let mut level = lod::build(&trace, &plan, &longest, &plan.lines[0], finest, &mut vec![]);
    let stored = lod::stored(finest);
    // The overview, and at least two that are finer, each four times the one before it.
    assert_eq!(stored, [lod::OVERVIEW, finest / 16, finest / 4, finest]);
    let mut end = levels.tiles.len();
    for &n in stored.iter().rev() {
        while level.value.len() > n {
            level = level.halve(Kind::Slice);
        }
        let tiles = &levels.tiles[end - n / lod::OVERVIEW..end];
        end -= tiles.len();
        for (tile, from) in tiles.iter().zip((0..).step_by(lod::OVERVIEW)) {
            let block = inflate(&packed.blocks[tile.block as usize].text);
            let mut at = offset(&block, tile);
            for column in 0..4 {
                let expected: Vec<u64> = (from..from + lod::OVERVIEW)
                    .map(|b| match column {
                        0 => level.value[b].into(),
                        1 => level.cover[b].into(),
                        2 => level.flags[b].into(),
                        _ => level.note[b].into(),
                    })
                    .collect();
                assert!(cell(&block, &mut at, lod::OVERVIEW) == expected, "{n} {from}");
            }
        }
    }
    assert_eq!(end, 0);
}

#[test]
fn what_is_served_is_what_a_file_holds() {
    let trace = trace(40_000);
    let options = Options::default();
    let packed = pack(&trace, &lines::plan(&trace), &options);
    let served = Served::new(&trace, &options).unwrap();
    for (b, block) in packed.blocks.iter().enumerate() {
        assert!(served.block(b).unwrap() == inflate(&block.text), "block {b}");
    }
    assert!(served.block(packed.blocks.len()).is_none());
    let mut in_file = index(&page(&trace, &options));
    in_file["blocks"] = serde_json::json!([]);
    let asked: serde_json::Value = serde_json::from_slice(served.index()).unwrap();
    assert_eq!(asked, in_file);
}

#[test]
fn a_served_page_may_ask_its_server_and_a_file_nobody() {
    let trace = trace(10);
    let options = Options { title: "<b> & co".into(), ..Options::default() };
    let file = page(&trace, &options);
    assert!(file.contains("default-src 'none'") && !file.contains("connect-src"));
    let served = [Served::new(&trace, &options).unwrap()];
    let (page, policy) = served_page(&served).unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.ends_with("; connect-src 'self'"), "{policy}");
    assert!(page.contains(&format!("content=\"{policy}\"")));
    assert!(page.contains("<title>&lt;b&gt; &amp; co - kasuri</title>"));
    for place in ["<!--kasuri:", "/*kasuri:"] {
        assert!(!page.contains(place), "a place was left");
    }
}

#[test]
fn no_level_hides_a_rare_name() {
    let trace = trace(40_000);
    let plan = lines::plan(&trace);
    let once = plan.item(&trace, &plan.lines[0], 40_000 / 3).value;
    let mut level = lod::build(
        &trace,
        &plan,
        &lod::longest(&trace, &plan),
        &plan.lines[0],
        1 << 14,
        &mut Vec::new(),
    );
    loop {
        let shown =
            (0..level.value.len()).any(|b| level.note[b] == once + 1 || level.value[b] == once);
        assert!(shown, "hidden among {} buckets", level.value.len());
        if level.value.len() == 1024 {
            break;
        }
        // Each coarser level is made from the finer one, so that a name lost once would be lost in all that follow.
        level = level.halve(Kind::Slice);
    }
}

/// Many pieces of a value count together, against one longer piece of another.
#[test]
fn a_level_shows_what_filled_most_of_a_bucket() {
    let trace = trace(40_000);
    let plan = lines::plan(&trace);
    let n = 1 << 12;
    let (line, longest) = (&plan.lines[0], lod::longest(&trace, &plan));
    let level = lod::build(&trace, &plan, &longest, line, n, &mut Vec::new());
    let edge = |bucket: usize| (bucket as f64 * (plan.length as f64 / n as f64)) as u64;
    let mut filled = vec![std::collections::BTreeMap::<u32, u64>::new(); n];
    let mut longest_piece = vec![(0, 0); n];
    for item in (0..line.rows.len()).map(|i| plan.item(&trace, line, i)) {
        let first = (item.start as f64 / plan.length as f64 * n as f64) as usize;
        for bucket in first.saturating_sub(1)..n {
            let (from, to) = (item.start.max(edge(bucket)), item.end.min(edge(bucket + 1)));
            if edge(bucket) >= item.end {
                break;
            }
            let ns = to.saturating_sub(from);
            *filled[bucket].entry(item.value).or_default() += ns;
            longest_piece[bucket] = longest_piece[bucket].max((ns, item.value));
        }
    }
    let mut told_apart = 0;
    for (bucket, filled) in filled.iter().enumerate() {
        let mut filled: Vec<(u64, u32)> = filled.iter().map(|(&value, &ns)| (ns, value)).collect();
        filled.sort_unstable();
        let [.., second, first] = filled[..] else {
            continue;
        };
        // Edges are rounded to a nanosecond.
        if first.0 > second.0 + 8 {
            assert_eq!(level.value[bucket], first.1, "bucket {bucket}: {filled:?}");
            told_apart += usize::from(longest_piece[bucket].1 != first.1);
        }
    }
    assert!(told_apart > 10, "{told_apart}: the longest piece is always of what filled most");
}

#[test]
fn overlapping_items_are_cut_and_counted() {
    let mut trace = trace(10);
    // Slices of one line do not overlap in a sound trace; a damaged one must still give a page.
    trace.slices.start[4] = Time(trace.slices.start[4].0 - 500);
    let plan = lines::plan(&trace);
    let packed = pack(&trace, &plan, &Options::default());
    assert_eq!(packed.clamped, 1);
    let items = decode(&packed, 0, Kind::Slice);
    assert!(items.windows(2).all(|pair| pair[0].1 <= pair[1].0));
}

#[test]
fn a_blocked_half_does_not_hide_a_running_one() {
    let level = lod::Level {
        value: vec![ThreadState::Sleeping as u32, ThreadState::Running as u32],
        cover: vec![255, 3],
        flags: vec![0, 0],
        note: vec![0, 0],
    };
    let half = level.halve(Kind::State);
    assert_eq!(
        (half.value[0], half.cover[0], half.flags[0]),
        (ThreadState::Running as u32, 2, lod::MERGED)
    );
    // The control: of two names the one that fills more is shown.
    assert_eq!(level.halve(Kind::Slice).value[0], ThreadState::Sleeping as u32);
}

#[test]
fn columns_hold_any_value() {
    let values = [0, 1, 255, 256, u64::from(u32::MAX), u64::MAX];
    let mut raw = Raw::default();
    column(&mut raw, values.iter().copied());
    assert_eq!(cell(&raw.bytes, &mut 0, values.len()), values);
    let mut constant = Raw::default();
    column(&mut constant, [u64::MAX; 3].into_iter());
    assert_eq!(constant.bytes.len(), 9);
    assert_eq!(cell(&constant.bytes, &mut 0, 3), [u64::MAX; 3]);
}

/// A whole page in memory.
fn page(trace: &Trace, options: &Options) -> String {
    let mut out = Vec::new();
    let stats = write(trace, options, &mut out).unwrap();
    assert_eq!(stats.bytes, out.len() as u64);
    String::from_utf8(out).unwrap()
}

/// The index of a page, found as the viewer finds it: by the id of its tag.
fn index(page: &str) -> serde_json::Value {
    let text = page.split_once("id=\"kasuri-index\">").unwrap().1.split_once('<').unwrap().0;
    serde_json::from_slice(&inflate(text)).unwrap()
}

#[test]
fn an_empty_trace_is_a_page() {
    let index = index(&page(&Trace::default(), &Options::default()));
    assert_eq!(index["version"], FORMAT_VERSION);
    assert_eq!(index["lines"], serde_json::json!([]));
    assert_eq!(index["title"], "whole system");
}

#[test]
fn a_name_has_a_row_for_each_kind_of_its_slices() {
    let trace = trace(3000);
    let mut expected = std::collections::BTreeMap::new();
    for (row, name) in trace.slices.name.iter().enumerate() {
        let ns = trace.slices.end[row].0 - trace.slices.start[row].0;
        let kind = trace.slices.kind[row] as u8;
        let sum: &mut (u64, i64, i64) = expected.entry((name.0, kind)).or_default();
        *sum = (sum.0 + 1, sum.1 + ns, sum.2.max(ns));
    }
    assert!(expected.len() > 3, "names with slices of two kinds");
    let index = index(&page(&trace, &Options::default()));
    let rows = index["names"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (row, (&(name, kind), &(count, total, max))) in rows.iter().zip(&expected) {
        assert_eq!(row["name"], name);
        assert_eq!(row["kind"], kind);
        assert_eq!(row["count"], count);
        assert_eq!(row["total"], total);
        assert_eq!(row["max"], max);
        let bins = row["bins"].as_array();
        let in_bins = bins.map(|bins| bins.chunks(2).map(|bin| bin[1].as_u64().unwrap()).sum());
        assert_eq!(in_bins.unwrap_or(1u64), count);
    }
}

#[test]
fn the_headline_stands_in_the_index() {
    let options = Options { headline: "you got 1 of 2 CPUs".into(), ..Options::default() };
    let index = index(&page(&trace(3), &options));
    assert_eq!(index["headline"], "you got 1 of 2 CPUs");
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let mut trace = trace(3);
    let evil = "</script><script>alert(1)</script>&amp;";
    trace.strings.intern(evil);
    trace.info.command = vec![evil.into()];
    let page = page(
        &trace,
        &Options { summary: Some(serde_json::json!({ evil: evil })), ..Options::default() },
    );
    assert!(!page.contains("alert(1)</script>"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;"));
    assert_eq!(index(&page)["summary"][evil], evil);
}

#[test]
fn every_block_is_found_where_the_index_says() {
    let trace = trace(40_000);
    let page = page(&trace, &Options::default());
    let blocks: Vec<u64> = serde_json::from_value(index(&page)["blocks"].clone()).unwrap();
    for block in blocks.chunks(4) {
        let tag = page.split_once(&format!("id=\"kasuri-{}\">", block[0])).unwrap().1;
        let text = &tag[block[1] as usize..(block[1] + block[2]) as usize];
        assert_eq!(inflate(text).len() as u64, block[3]);
    }
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(matches!(
        write(&trace(3), &Options::default(), &mut Full),
        Err(super::Error::Write(_))
    ));
}

#[test]
fn times_outside_the_axis_are_moved_to_its_edge() {
    let mut trace = trace(3);
    trace.slices.start[0] = Time::MIN;
    trace.slices.end[2] = Time::MAX;
    let plan = lines::plan(&trace);
    let (first, last) =
        (plan.item(&trace, &plan.lines[0], 0), plan.item(&trace, &plan.lines[0], 2));
    assert_eq!(first.start, 0);
    assert_eq!(last.end, plan.length);
    page(&trace, &Options::default());
}

/// A trace of locks: `(thread, kind, object, start, end)` of each slice.
fn locks(rows: &[(u32, SliceKind, u64, i64, i64)]) -> Trace {
    let mut trace = trace(1);
    trace.slices = Slices::default();
    let name = trace.strings.intern("queue");
    for &(thread, kind, object, start, end) in rows {
        let s = &mut trace.slices;
        s.start.push(Time(start));
        s.end.push(Time(end));
        s.thread.push(ThreadIx(thread));
        s.name.push(name);
        s.depth.push(0);
        s.parent.push(SliceIx::NONE);
        s.kind.push(kind);
        s.task.push(TaskIx::NONE);
        s.object.push(object);
        s.open.push(0);
    }
    let thread = trace.threads[0].clone();
    trace.threads = (0..4).map(|_| thread.clone()).collect();
    trace
}

#[test]
fn a_lock_has_lanes_for_who_holds_it_and_who_waits() {
    use SliceKind::{LockHold as Hold, LockWait as Wait};
    let trace = locks(&[
        (0, Hold, 7, 0, 100),
        (0, Hold, 7, 200, 300),
        (1, Wait, 7, 50, 100),
        (1, Hold, 7, 100, 150),
        (2, Wait, 7, 60, 150),
        (2, Hold, 7, 150, 160),
        // Another lock, held by two readers at once, for which no thread waited.
        (3, Hold, 9, 0, 10),
        (0, Hold, 9, 5, 20),
        (1, SliceKind::Barrier, 11, 0, 5),
    ]);
    let plan = lines::plan(&trace);
    let of = |lock: u32| -> Vec<Vec<usize>> {
        let lines = plan.lines.iter();
        lines
            .filter(|line| line.kind == Kind::Lock && line.owner == lock)
            .map(|line| (0..line.rows.len()).map(|i| line.rows.get(i)).collect())
            .collect()
    };
    assert_eq!(plan.locks.len(), 2);
    let first = &plan.locks[0];
    assert_eq!((first.object, first.hold_lanes), (7, 1));
    assert_eq!((first.wait_ns, first.hold_ns), (140, 260));
    assert_eq!(of(0), [vec![0, 3, 5, 1], vec![2], vec![4]]);
    assert_eq!(plan.locks[1].hold_lanes, 2);
    assert_eq!(of(1), [[6], [7]]);
    // The holder gives the colour.
    let lane = plan.lines.iter().find(|line| line.kind == Kind::Lock);
    assert_eq!(plan.item(&trace, lane.unwrap(), 1).value, 2);
}

#[test]
fn a_locks_row_has_the_numbers_of_the_tab() {
    use SliceKind::{LockHold as Hold, LockWait as Wait};
    let trace = locks(&[(0, Hold, 7, 0, 900), (1, Wait, 7, 100, 200), (0, Hold, 9, 5, 20)]);
    let pid = trace.processes[trace.threads[0].process.ix()].pid;
    // Slice 1 ends where the task was suspended; it waited until 900.
    let answer = kasuri_analyze::Locks {
        locks: vec![kasuri_analyze::LockRow {
            pid,
            object: 7,
            used: kasuri_analyze::Use {
                holds: 1,
                hold_wall_ns: 900,
                contended: 1,
                wait_ns: 800,
                ..Default::default()
            },
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut plan = lines::plan(&trace);
    assert_eq!(plan.locks[0].wait_ns, 100);
    super::locks::fill_from_analysis(&trace, &answer, &mut plan.locks);
    let [first, second] = &plan.locks[..] else {
        panic!("{:?}", plan.locks);
    };
    assert_eq!((first.waits, first.wait_ns, first.hold_ns), (1, 800, 900));
    // A lock that is not in the tab keeps the numbers of its slices.
    assert_eq!((second.object, second.hold_ns), (9, 15));
}

#[test]
fn waiters_beyond_the_lanes_are_counted() {
    let rows: Vec<_> = (0..9).map(|i| (0, SliceKind::LockWait, 7, i, 100 + i)).collect();
    let plan = lines::plan(&locks(&rows));
    assert_eq!(plan.locks[0].unshown, 3);
    assert_eq!(plan.locks[0].waits, 9);
}

#[test]
fn a_noted_value_survives_being_shown_once() {
    // Bucket 0 shows value 32, which is noted; bucket 1 is filled more by value 16.
    let level = lod::Level {
        value: vec![32, 16],
        cover: vec![40, 255],
        flags: vec![0, 0],
        note: vec![33, 0],
    };
    let half = level.halve(Kind::Slice);
    assert_eq!((half.value[0], half.note[0]), (16, 33));
    let two = lod::Level { note: vec![33, 49], ..level };
    assert_eq!(two.halve(Kind::Slice).flags[0] & lod::SEVERAL, lod::SEVERAL);
}

/// Two CPUs; a thread runs on CPU 0, sleeps, and runs on CPU 1.
fn scheduled() -> Trace {
    let mut trace = trace(1);
    trace.slices = Slices::default();
    trace.threads[0].slices = 0..0;
    trace.span = Time(0)..Time(1000);
    trace.threads[0].alive = Time(0)..Time(1000);
    let rows = [
        (0, ThreadState::Running, 0),
        (300, ThreadState::Sleeping, 0),
        (500, ThreadState::Running, 1),
    ];
    for (start, state, cpu) in rows {
        trace.states.start.push(Time(start));
        trace.states.state.push(state);
        trace.states.cpu.push(cpu);
        trace.states.by.push(ThreadIx::NONE);
    }
    trace.threads[0].states = 0..3;
    let occupancy = [(0, 0, false), (0, 300, true), (1, 0, true), (1, 500, false)];
    for cpu in 0..2u32 {
        let first = trace.occupancy.start.len() as u32;
        for &(_, start, idle) in occupancy.iter().filter(|row| row.0 == cpu) {
            trace.occupancy.start.push(Time(start));
            let thread = if idle { ThreadIx::NONE } else { ThreadIx(0) };
            trace.occupancy.thread.push(thread);
            trace.occupancy.idle.push(idle);
        }
        trace.cpus.push(Cpu {
            recorded: true,
            occupancy: first..trace.occupancy.start.len() as u32,
            ..Cpu::default()
        });
    }
    trace
}

#[test]
fn causes_have_the_words_and_the_sums_of_the_summary() {
    let trace = scheduled();
    let session = kasuri_analyze::Session::new(&trace, &kasuri_analyze::Options::default());
    let answers = session.into_answers();
    let rows = &answers.summary.account.causes;
    let options = Options { account: Some(&answers.account), causes: rows, ..Options::default() };
    let mut plan = lines::plan(&trace);
    account::add(&trace, &options, &mut plan);
    let segments = &plan.segments;
    let mut ns = vec![0; segments.causes.len()];
    for (i, &cause) in segments.cause.iter().enumerate() {
        ns[cause as usize] += (segments.end[i] - segments.start[i]) as i64;
        assert_eq!(segments.causes[cause as usize].class, segments.class[i]);
    }
    assert!(!rows.is_empty());
    assert_eq!(ns[..rows.len()], rows.iter().map(|row| row.ns).collect::<Vec<_>>());
    let names = kasuri_answers::names::thread_names(&answers.summary);
    for (of, row) in segments.causes.iter().zip(rows) {
        let place = kasuri_answers::account::cause_place(row);
        assert_eq!(of.text, kasuri_answers::account::cause_text(row, &names, false, &place));
    }
    // What is no loss, by its class.
    let useful = segments.causes[rows.len()..].iter().map(|cause| cause.text.as_str());
    assert_eq!(useful.collect::<Vec<_>>(), ["work"]);
}

#[test]
fn the_account_of_each_cpu_has_no_gaps_and_its_mix_is_whole() {
    let trace = scheduled();
    let account = kasuri_analyze::account::Account::new(&trace, trace.span.clone());
    let mut plan = lines::plan(&trace);
    let options = Options { account: Some(&account), ..Options::default() };
    account::add(&trace, &options, &mut plan);
    let of_account: Vec<_> = plan.lines.iter().filter(|line| line.kind == Kind::Account).collect();
    assert_eq!(of_account.len(), 2);
    let mut by_class = [0u64; kasuri_analyze::account::N_CLASSES];
    for line in of_account {
        let mut now = 0;
        for i in 0..line.rows.len() {
            let item = plan.item(&trace, line, i);
            assert_eq!(item.start, now);
            now = item.end;
            by_class[item.value as usize] += item.end - item.start;
        }
        assert_eq!(now, 1000);
        let mut raw = Raw::default();
        account::mix(&plan, line, &mut raw);
        let (mut at, n) = (0, plan.segments.buckets);
        let columns: Vec<Vec<u64>> =
            (0..by_class.len()).map(|_| cell(&raw.bytes, &mut at, n)).collect();
        for b in 0..n {
            let sum: u64 = columns.iter().map(|column| column[b]).sum();
            assert!((253..=257).contains(&sum), "bucket {b} holds {sum}");
        }
    }
    let exact = account.sums(trace.span.start, trace.span.end);
    assert_eq!(by_class.map(|ns| ns as i64), exact);
    assert_eq!(by_class[0], 800);
}
