//! Pages made by hand, whole and damaged.
use super::*;
use kasuri_format::meta::KernelMeta;
use proptest::prelude::*;

/// A page of 4 KiB with events of one word each, whose data is their stamp.
fn page(stamps: &[u64], lost: bool) -> Arc<[u8]> {
    let first = stamps.first().copied().unwrap_or(0);
    let mut events = Vec::new();
    let mut before = first;
    for &stamp in stamps {
        let delta = (stamp - before) as u32;
        events.extend((1 | delta << 5).to_le_bytes());
        events.extend((stamp as u32).to_le_bytes());
        before = stamp;
    }
    let mut page = first.to_le_bytes().to_vec();
    let commit = events.len() as u64 | if lost { 1 << 31 } else { 0 };
    page.extend(commit.to_le_bytes());
    page.extend(events);
    page.resize(4096, 0);
    page.into()
}

fn order(n: usize) -> Order {
    Order::new(&KernelMeta::default(), n).unwrap()
}

fn take(order: &mut Order, until: u64) -> Vec<(usize, u64)> {
    let mut taken = Vec::new();
    order.take_until(until, |cpu, stamp, what| {
        if let Taken::Event(data) = what {
            assert_eq!(data, (stamp as u32).to_le_bytes());
            taken.push((cpu, stamp));
        }
    });
    taken
}

#[test]
fn what_is_later_than_asked_for_stays() {
    let mut order = order(2);
    order.push(0, page(&[10, 20, 30], false));
    order.push(1, page(&[15, 25, 26], false));
    order.push(0, page(&[40], false));
    assert_eq!(take(&mut order, 24), [(0, 10), (1, 15), (0, 20)]);
    order.push(1, page(&[27], false));
    assert_eq!(take(&mut order, 30), [(1, 25), (1, 26), (1, 27), (0, 30)]);
    assert_eq!(take(&mut order, u64::MAX), [(0, 40)]);
    assert_eq!(take(&mut order, u64::MAX), []);
    assert_eq!(order.take_damaged(), 0);
}

#[test]
fn a_gap_comes_before_the_events_of_its_page() {
    let mut order = order(1);
    order.push(0, page(&[10], false));
    order.push(0, page(&[], false));
    order.push(0, page(&[20], true));
    let mut seen = Vec::new();
    order.take_until(u64::MAX, |_, stamp, what| seen.push((stamp, matches!(what, Taken::Gap))));
    assert_eq!(seen, [(10, false), (20, true), (20, false)]);
    assert_eq!(order.take_damaged(), 0, "an empty page is no damage");
}

proptest! {
    #[test]
    fn events_come_out_once_and_in_order(stamps in proptest::collection::vec((0..3usize, 1..100u64), 1..200), cuts in proptest::collection::vec(0..20_000u64, 0..5)) {
        let mut now = 0;
        let mut of_cpu = vec![Vec::new(); 3];
        for (cpu, step) in &stamps {
            now += step;
            of_cpu[*cpu].push(now);
        }
        let mut order = order(3);
        for (cpu, stamps) in of_cpu.iter().enumerate() {
            for part in stamps.chunks(7) {
                order.push(cpu, page(part, false));
            }
        }
        let mut cuts = cuts;
        cuts.sort_unstable();
        cuts.push(u64::MAX);
        let taken: Vec<u64> = cuts.iter().flat_map(|&cut| take(&mut order, cut)).map(|(_, stamp)| stamp).collect();
        let mut all: Vec<u64> = of_cpu.concat();
        all.sort_unstable();
        prop_assert_eq!(taken, all);
    }

    #[test]
    fn any_bytes_can_be_pushed(bytes in proptest::collection::vec(any::<u8>(), 0..300), commit in any::<u64>()) {
        let mut order = order(1);
        let mut damaged = bytes;
        damaged.resize(4096, 0x5a);
        damaged[8..16].copy_from_slice(&commit.to_le_bytes());
        order.push(0, damaged.clone().into());
        order.push(0, damaged[..100].into());
        order.push(7, damaged.into());
        order.take_until(u64::MAX, |_, _, _| {});
        prop_assert!(order.take_damaged() >= 2);
        prop_assert!(order.cpus[0].pages.is_empty());
    }
}
