//! Chrome JSON whose threads mix complete events (`X`) with begins and ends (`B`, `E`): no slice comes or goes, and none
//! gets another length, in whatever order the complete ones stand in the file.
use kasuri_import::{File, Options, load};
use kasuri_model::{Time, Trace, open};

fn read(events: &[String]) -> Trace {
    let text = format!("[{}]", events.join(",\n"));
    let file = File { name: "t.json", bytes: text.as_bytes() };
    let trace = load(&[file], &Options::default()).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new(), "{text}");
    trace
}

fn us(trace: &Trace, time: Time) -> i64 {
    (trace.origin_monotonic_ns + time.ns()) / 1000
}

/// Name, begin, end, depth and [`open`] bits of all slices, in order of their begins.
fn slices(trace: &Trace) -> Vec<(&str, i64, i64, u16, u8)> {
    let s = &trace.slices;
    let row = |i: usize| {
        let (start, end) = (us(trace, s.start[i]), us(trace, s.end[i]));
        (trace.strings.get(s.name[i]), start, end, s.depth[i], s.open[i])
    };
    (0..s.start.len()).map(row).collect()
}

fn begin(ts: i64, name: &str) -> String {
    format!(r#"{{"ph":"B","pid":1,"tid":1,"ts":{ts},"name":"{name}"}}"#)
}

fn end(ts: i64, more: &str) -> String {
    format!(r#"{{"ph":"E","pid":1,"tid":1,"ts":{ts}{more}}}"#)
}

fn complete(ts: i64, end: i64, name: &str) -> String {
    let dur = end - ts;
    format!(r#"{{"ph":"X","pid":1,"tid":1,"ts":{ts},"dur":{dur},"name":"{name}"}}"#)
}

/// A generator of numbers that a seed repeats (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Slices that nest, made at random: begins and ends in order, and complete events.
#[derive(Default)]
struct Nest {
    ordered: Vec<String>,
    complete: Vec<String>,
    expected: Vec<(String, i64, i64)>,
}

impl Nest {
    /// Fills a time with slices: many of them begin or end together, some have no length.
    fn fill(&mut self, random: &mut Random, from: i64, to: i64, depth: u32) {
        let mut at = from + random.below(2) as i64;
        while at <= to && self.expected.len() < 40 {
            let until = match random.below(3) {
                0 => to,
                _ => at + random.below((to - at) as u64 + 1) as i64,
            };
            // Few names: slices inside of others have theirs.
            let name = ["a", "b", "c"][random.below(3) as usize];
            self.expected.push((name.to_owned(), at, until));
            let is_complete = random.below(2) == 0;
            if is_complete {
                self.complete.push(complete(at, until, name));
            } else {
                self.ordered.push(begin(at, name));
            }
            if depth < 5 && until > at {
                self.fill(random, at, until, depth + 1);
            }
            if !is_complete {
                let own = format!(r#","name":"{name}""#);
                let more = ["", &own, r#","name":"other""#][random.below(3) as usize];
                self.ordered.push(end(until, more));
            }
            at = until + random.below(3) as i64;
            if until == to {
                break;
            }
        }
    }

    /// The file's events: complete ones at any place among the others.
    fn events(mut self, random: &mut Random) -> Vec<String> {
        for event in self.complete {
            let at = random.below(self.ordered.len() as u64 + 1) as usize;
            self.ordered.insert(at, event);
        }
        self.ordered
    }
}

#[test]
fn complete_events_among_begins_and_ends_change_nothing() {
    for seed in 1..3000 {
        let mut random = Random(seed << 32 | 0x9e37_79b9);
        let mut nest = Nest::default();
        nest.fill(&mut random, 100, 112, 0);
        let mut expected = std::mem::take(&mut nest.expected);
        let events = nest.events(&mut random);
        let trace = read(&events);
        let mut found: Vec<_> = (slices(&trace).into_iter())
            .map(|(name, from, to, _, open)| {
                assert_eq!(open, 0, "seed {seed}: {name} {from} {to}");
                (name.to_owned(), from, to)
            })
            .collect();
        expected.sort();
        found.sort();
        let text = events.join("\n");
        assert_eq!(found, expected, "seed {seed}:\n{text}");
        assert_eq!(trace.info.missing, Vec::<String>::new(), "seed {seed}:\n{text}");
    }
}

#[test]
fn a_complete_event_and_a_begun_one_that_end_together() {
    // The end stands before the complete event inside, as in files whose writer sorts by begin and then by kind.
    let trace = read(&[
        begin(100, "outer"),
        end(120, r#","name":"outer""#),
        complete(110, 120, "inner"),
        complete(120, 130, "next"),
    ]);
    assert_eq!(
        slices(&trace),
        [("outer", 100, 120, 0, 0), ("inner", 110, 120, 1, 0), ("next", 120, 130, 0, 0)]
    );
}

#[test]
fn the_name_of_an_end_selects_a_slice_and_renames_none() {
    let trace = read(&[
        begin(100, "a"),
        begin(110, "b"),
        complete(115, 118, "x"),
        // No slice has this name: the innermost ends.
        end(120, r#","name":"x""#),
        begin(130, "lost"),
        end(140, r#","name":"a""#),
    ]);
    assert_eq!(
        slices(&trace),
        [
            ("a", 100, 140, 0, 0),
            ("b", 110, 120, 1, 0),
            ("x", 115, 118, 2, 0),
            ("lost", 130, 140, 1, open::END_UNSEEN),
        ]
    );
    assert!(trace.info.missing[0].starts_with("1 slices begin and never end"));
}

#[test]
fn a_slice_that_crosses_a_complete_event_is_cut_and_counted() {
    // Both ways, with arguments that come with an end that is cut.
    let trace = read(&[
        begin(100, "a"),
        complete(105, 115, "x"),
        end(110, ""),
        complete(200, 210, "y"),
        begin(205, "b"),
        end(215, r#","args":{"n":1}"#),
        begin(220, "c"),
        end(230, ""),
    ]);
    assert_eq!(
        slices(&trace),
        [
            ("a", 100, 110, 0, 0),
            ("x", 105, 110, 1, 0),
            ("y", 200, 210, 0, 0),
            ("b", 205, 210, 1, 0),
            ("c", 220, 230, 0, 0)
        ]
    );
    assert!(trace.info.missing[0].starts_with("2 slices overlapped"));
    assert_eq!((trace.args.slice[0].0, trace.args.slice.len()), (3, 1));
}

#[test]
fn arguments_at_an_end_belong_to_the_slice_after_an_instant_inside() {
    let trace = read(&[
        begin(100, "a"),
        r#"{"ph":"i","pid":1,"tid":1,"ts":105,"name":"tick"}"#.to_owned(),
        end(110, r#","args":{"n":1}"#),
    ]);
    assert_eq!(trace.args.slice[0].0, 0);
    assert!(!trace.args.instant[0].is_some());
}

#[test]
fn begins_without_ends_and_ends_without_begins_are_counted() {
    let mut events = vec![end(90, r#","name":"before""#), end(91, "")];
    events.extend((0..9000).map(|n| begin(100 + n, "a")));
    events.push(complete(20_000, 20_010, "deep"));
    let trace = read(&events);
    assert_eq!(
        trace.info.missing,
        [
            "9000 slices begin and never end: they are drawn to the end of the slice around them, or of the trace",
            "2 ends of slices have no begin: those with no slice around them are drawn from the start of the trace",
            "5001 slices are inside of 4000 others: they are left out",
        ]
    );
    // Inside of a slice there is no place for an end without a begin.
    let trace = read(&[complete(100, 120, "x"), end(110, ""), complete(112, 115, "y")]);
    let names: Vec<_> = slices(&trace).iter().map(|s| (s.0, s.2)).collect();
    assert_eq!(names, [("x", 120), ("y", 115)]);
}
