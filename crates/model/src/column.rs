//! [`Column`]: a column that mostly says the same for many rows in a row.
//!
//! Goal: of a slice's columns five hold one value for thousands of rows in most traces (its thread, no task, no object...) and
//! took half of its bytes. Method: rows are stored in blocks; a block whose rows are all the same keeps one value. A
//! row is found without a branch, by an offset and a mask of its block, so reading costs one more load than in a vector, and an index gives a
//! reference as there. Writing to a row of such a block makes it a whole one, at the end of the values. Rejected: runs of equal
//! values, which need a search; narrower numbers, which cannot be referred to.
use std::fmt::{Debug, Formatter};
use std::ops::{Index, IndexMut, Range};

/// Rows of a block.
const ROWS: usize = 4096;
const MASK: u32 = ROWS as u32 - 1;

/// Where a block's values are: at `at`, plus the row's place in the block cut to `mask`, which is 0 where all are the same.
#[derive(Clone, Copy)]
struct Block {
    at: u32,
    mask: u32,
}

/// A column of a table, like a vector. Of 4096 rows that are all the same it holds one.
///
/// The last block is whole, and its values are the last ones.
#[derive(Clone)]
pub struct Column<T> {
    len: usize,
    blocks: Vec<Block>,
    values: Vec<T>,
}

impl<T> Default for Column<T> {
    fn default() -> Column<T> {
        Column { len: 0, blocks: Vec::new(), values: Vec::new() }
    }
}

impl<T> Column<T> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All rows, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { column: self, rows: 0..self.len }
    }

    /// The value of a row, if there is one.
    pub fn get(&self, row: usize) -> Option<&T> {
        (row < self.len).then(|| &self[row])
    }

    /// The last row's value.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    fn place(&self, row: usize) -> usize {
        // Blocks may be followed by others' values: those beyond the end are not this column's rows.
        assert!(row < self.len, "row {row} of {}", self.len);
        let block = self.blocks[row / ROWS];
        block.at as usize + (row as u32 & block.mask) as usize
    }
}

impl<T: Copy + PartialEq> Column<T> {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len.is_multiple_of(ROWS) {
            self.fold_last();
            let at = self.values.len() as u32;
            self.blocks.push(Block { at, mask: MASK });
        }
        self.values.push(value);
        self.len += 1;
    }

    /// The last block is full: one value will do if all are the same.
    fn fold_last(&mut self) {
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        let values = &self.values[block.at as usize..];
        if block.mask != 0 && values.iter().all(|value| *value == values[0]) {
            block.mask = 0;
            self.values.truncate(block.at as usize + 1);
        }
    }

    /// Gives a block values of its own, before those of the last block: the next rows go behind these.
    #[cold]
    fn unfold(&mut self, number: usize) {
        let Some(last) = self.blocks.last_mut() else {
            return;
        };
        let at = last.at;
        last.at += ROWS as u32;
        let block = &mut self.blocks[number];
        let value = self.values[block.at as usize];
        *block = Block { at, mask: MASK };
        let new = std::iter::repeat_n(value, ROWS);
        self.values.splice(at as usize..at as usize, new);
    }

    /// Keeps the first `n` rows.
    pub fn truncate(&mut self, n: usize) {
        if n >= self.len {
            return;
        }
        self.len = n;
        self.blocks.truncate(n.div_ceil(ROWS));
        let Some(&block) = self.blocks.last() else {
            return self.values.clear();
        };
        // Others may have been written to, and so be behind it; what is cut off stays there, which is rare and little.
        let n = n - (self.blocks.len() - 1) * ROWS;
        let kept: Vec<T> = (0..n as u32)
            .map(|row| self.values[(block.at + (row & block.mask)) as usize])
            .collect();
        if self.blocks.iter().all(|other| other.at <= block.at) {
            self.values.truncate(block.at as usize);
        }
        let at = self.values.len() as u32;
        self.values.extend(kept);
        if let Some(block) = self.blocks.last_mut() {
            *block = Block { at, mask: MASK };
        }
    }

    /// Takes the last row off.
    pub fn pop(&mut self) -> Option<T> {
        let last = *self.last()?;
        if self.len % ROWS == 1 {
            self.truncate(self.len - 1);
        } else {
            self.values.pop();
            self.len -= 1;
        }
        Some(last)
    }

    /// The last row, to be written to.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        let last = self.len.checked_sub(1)?;
        Some(&mut self[last])
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;
    #[inline]
    fn index(&self, row: usize) -> &T {
        &self.values[self.place(row)]
    }
}

impl<T: Copy + PartialEq> IndexMut<usize> for Column<T> {
    #[inline]
    fn index_mut(&mut self, row: usize) -> &mut T {
        if row < self.len && self.blocks[row / ROWS].mask == 0 {
            self.unfold(row / ROWS);
        }
        let place = self.place(row);
        &mut self.values[place]
    }
}

impl<T: Copy + PartialEq> Extend<T> for Column<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, rows: I) {
        rows.into_iter().for_each(|value| self.push(value));
    }
}

impl<T: Copy + PartialEq> FromIterator<T> for Column<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Column<T> {
        let mut out = Column::default();
        out.extend(rows);
        out
    }
}

impl<T: Copy + PartialEq> From<Vec<T>> for Column<T> {
    fn from(rows: Vec<T>) -> Column<T> {
        rows.into_iter().collect()
    }
}

/// The rows of a [`Column`].
#[derive(Clone)]
pub struct Iter<'c, T> {
    column: &'c Column<T>,
    rows: Range<usize>,
}

impl<'c, T> Iterator for Iter<'c, T> {
    type Item = &'c T;
    fn next(&mut self) -> Option<&'c T> {
        self.rows.next().map(|row| &self.column[row])
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.rows.next_back().map(|row| &self.column[row])
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'c, T> IntoIterator for &'c Column<T> {
    type Item = &'c T;
    type IntoIter = Iter<'c, T>;
    fn into_iter(self) -> Iter<'c, T> {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Column<T> {
    fn eq(&self, other: &Column<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Column<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.iter().eq(other)
    }
}

impl<T: Debug> Debug for Column<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_base::random::Rng;

    #[test]
    fn equal_rows_take_one_value_until_one_of_them_is_written_to() {
        let mut column: Column<u64> = std::iter::repeat_n(7, 5 * ROWS + 3).collect();
        assert_eq!((column.len(), column.values.len()), (5 * ROWS + 3, 5 + 3));
        column[ROWS + 1] = 8;
        assert_eq!(column.values.len(), 5 + 3 + ROWS);
        assert_eq!((column[ROWS], column[ROWS + 1], column[ROWS + 2]), (7, 8, 7));
        column.push(9);
        assert_eq!(column.iter().filter(|v| **v == 7).count(), 5 * ROWS + 2);
        assert_eq!(column.last(), Some(&9));
    }

    #[test]
    #[should_panic(expected = "row 2 of 2")]
    fn rows_beyond_the_end_are_none() {
        let column: Column<u8> = [1, 2, 3].into_iter().take(2).collect();
        assert_eq!(column[2], 3);
    }

    /// Against a vector: whatever is done, in whatever order.
    #[test]
    fn a_column_is_a_vector() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut column, mut vector) = (Column::<u32>::default(), Vec::new());
            for _ in 0..30 {
                match rng.below(5) {
                    0 | 1 => {
                        let (n, value) = (rng.below(3 * ROWS), rng.below(3) as u32);
                        column.extend(std::iter::repeat_n(value, n));
                        vector.extend(std::iter::repeat_n(value, n));
                    }
                    2 if !vector.is_empty() => {
                        let row = rng.below(vector.len());
                        column[row] = row as u32;
                        vector[row] = row as u32;
                    }
                    3 => {
                        let n = vector.len() - rng.below(vector.len() / 2 + 2).min(vector.len());
                        column.truncate(n);
                        vector.truncate(n);
                    }
                    _ => {
                        assert_eq!(column.pop(), vector.pop());
                        column.push(4);
                        vector.push(4);
                    }
                }
                assert_eq!(column.len(), vector.len());
            }
            assert!(column.iter().eq(&vector), "seed {seed}");
        }
    }
}
