//! Keys that are looked up once for each of millions of rows, where std's hash (SipHash) costs more than all the rest.
//!
//! [`QuickMap`] is for keys of our own making, and for maps so small that keys made to collide cost little. Other keys that an
//! input chooses, like addresses of locks, need a hash that withstands them: [`Numbers`] keeps std's map for them, and looks at
//! the keys met last before it.
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map by [`Mixer`].
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;
/// A set by [`Mixer`].
pub type QuickSet<K> = HashSet<K, BuildHasherDefault<Mixer>>;

/// Multiply and rotate.
#[derive(Clone, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    // What an enum's discriminant is hashed as.
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Keys met last; a power of two. 4 KiB, which stay in the nearest cache.
const RECENT: usize = 1024;

/// Numbers keys in the order in which they first come. Whatever the keys are, none costs more than a look into std's map.
#[derive(Clone, Debug)]
pub struct Numbers<K> {
    keys: Vec<K>,
    number: HashMap<K, u32>,
    /// By a quick hash of the key, the number of one that has it.
    recent: Vec<u32>,
}

impl<K> Default for Numbers<K> {
    fn default() -> Numbers<K> {
        Numbers { keys: Vec::new(), number: HashMap::new(), recent: vec![0; RECENT] }
    }
}

impl<K: Copy + Eq + Hash> Numbers<K> {
    fn slot(key: &K) -> usize {
        let mut mixer = Mixer::default();
        key.hash(&mut mixer);
        mixer.finish() as usize % RECENT
    }

    fn recent(&self, slot: usize, key: &K) -> Option<u32> {
        let number = self.recent[slot];
        (self.keys.get(number as usize) == Some(key)).then_some(number)
    }

    /// The number of a key, which gets one if it has none.
    pub fn number(&mut self, key: K) -> u32 {
        let slot = Self::slot(&key);
        if let Some(number) = self.recent(slot, &key) {
            return number;
        }
        let number = match self.number.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.keys.push(key);
                *new.insert(self.keys.len() as u32 - 1)
            }
        };
        self.recent[slot] = number;
        number
    }

    /// The number of a key that has one.
    pub fn get(&self, key: &K) -> Option<u32> {
        self.recent(Self::slot(key), key).or_else(|| self.number.get(key).copied())
    }

    /// The keys in the order of their numbers.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_numbers_in_which_they_came_also_where_their_quick_hashes_are_equal() {
        let mut colliding: Vec<u64> = Vec::new();
        let slot = Numbers::slot(&7u64);
        colliding.extend((0u64..).filter(|key| Numbers::slot(key) == slot).take(5));
        let keys: Vec<u64> = (0..3000).chain(colliding).collect();
        let mut numbers = Numbers::default();
        let mut plain: Vec<u64> = Vec::new();
        for round in 0..3 {
            for &key in &keys {
                let known = plain.iter().position(|&k| k == key);
                assert_eq!(numbers.get(&key), known.map(|n| n as u32), "round {round}");
                let expected = known.unwrap_or_else(|| {
                    plain.push(key);
                    plain.len() - 1
                });
                assert_eq!(numbers.number(key) as usize, expected, "{key}");
            }
        }
        assert_eq!(numbers.keys(), plain);
    }
}
