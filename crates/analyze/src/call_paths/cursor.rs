//! Searches by those who ask in order of time.

/// What `partition_point` says, for one who asks in order: near the last answer it is found in a few steps.
pub(super) fn move_on<T>(
    cursor: &mut usize,
    sorted: &[T],
    is_before: impl Fn(&T) -> bool,
) -> usize {
    const STEPS: usize = 8;
    let mut at = (*cursor).min(sorted.len());
    if at > 0 && !is_before(&sorted[at - 1]) {
        at = sorted[..at].partition_point(is_before);
    } else {
        let near = sorted[at..].iter().take(STEPS).take_while(|&x| is_before(x));
        let steps = near.count();
        at += match steps {
            STEPS => steps + sorted[at + steps..].partition_point(is_before),
            _ => steps,
        };
    }
    *cursor = at;
    at
}

#[cfg(test)]
mod tests {
    use super::move_on;

    #[test]
    fn any_cursor_leads_to_the_partition_point() {
        // Each number twice, so that also equal ones are passed or not together.
        for n in 0..24u32 {
            let sorted: Vec<u32> = (0..n).map(|i| i / 2).collect();
            for cursor in 0..sorted.len() + 2 {
                for limit in 0..=n {
                    let mut at = cursor;
                    let found = move_on(&mut at, &sorted, |&x| x < limit);
                    let expected = sorted.partition_point(|&x| x < limit);
                    assert_eq!((found, at), (expected, expected), "{n} {cursor} {limit}");
                }
            }
        }
    }
}
