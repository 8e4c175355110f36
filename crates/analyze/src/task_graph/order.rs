//! An order of the strands in which each comes after all that it needs.
use super::{After, NONE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// `before`: of each strand the one before it, or none; `cross`: (strand, another one that it needs). Returns what each
/// strand needs; the order, empty for that of the numbers; and how many edges are left out.
///
/// Strands are numbered as they begin, so the numbers are such an order but for equal stamps and clocks that differ. Edges
/// that close a circle are left out: only a damaged recording or a wrong annotation has them. Each circle has an edge against
/// the order of the numbers. When all that is left has to wait for each other, the least strand's such edges go.
pub(super) fn order(before: &[u32], mut cross: Vec<(u32, u32)>) -> (After, Vec<u32>, u64) {
    cross.sort_unstable();
    cross.dedup();
    let after = After::new(before, &cross);
    let n = before.len();
    if (0..n).all(|s| after.of(s).iter().all(|&p| (p as usize) < s)) {
        return (after, Vec::new(), 0);
    }
    let mut missing: Vec<u32> = (0..n).map(|s| after.of(s).len() as u32).collect();
    let followers = after.turned();
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..n as u32).filter(|&s| missing[s as usize] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(n);
    let mut is_done = vec![false; n];
    let mut left_out: Vec<(u32, u32)> = Vec::new();
    let mut least = 0;
    while order.len() < n {
        let Some(Reverse(strand)) = ready.pop() else {
            while is_done[least] {
                least += 1;
            }
            let open = after.of(least).iter().filter(|&&p| !is_done[p as usize]);
            left_out.extend(open.map(|&p| (least as u32, p)));
            missing[least] = 0;
            ready.push(Reverse(least as u32));
            continue;
        };
        if std::mem::replace(&mut is_done[strand as usize], true) {
            continue;
        }
        order.push(strand);
        for &next in followers.of(strand as usize) {
            let missing = &mut missing[next as usize];
            // None: it was let go with edges left out.
            if *missing > 0 {
                *missing -= 1;
                if *missing == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
    }
    left_out.sort_unstable();
    let is_in = |s: u32, p: u32| left_out.binary_search(&(s, p)).is_err();
    let kept: Vec<u32> = (before.iter().enumerate())
        .map(|(s, &p)| if is_in(s as u32, p) { p } else { NONE })
        .collect();
    cross.retain(|&(s, p)| is_in(s, p));
    (After::new(&kept, &cross), order, left_out.len() as u64)
}
