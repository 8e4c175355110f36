//! What samples cost the recorder that are to be followed at once: it is woken for each, and asks
//! for memory.
/// How long samples are followed at once after one that needed it, ns.
pub(super) const PROMPT_NS: u64 = 100_000_000;
/// Samples after which all before count half, and fewest that say something.
const SAMPLES_MAX: u64 = 128;
const SAMPLES_MIN: u64 = 16;
/// How long the price holds after samples were to be followed at once. Programs that wait now and
/// then are to keep their clock.
const HOLDS_NS: u64 = 10 * PROMPT_NS;

/// CPU time of the recorder and of who reads memory for it, and samples of the program that were
/// taken in it.
#[derive(Debug, Default)]
pub(super) struct Price {
    used_ns: u64,
    samples: u64,
    until_ns: u64,
}

impl Price {
    /// Adds what the recorder has done from one wait to the next.
    pub(super) fn add(&mut self, used_ns: u64, samples: u64, now: u64) {
        self.used_ns += used_ns;
        self.samples += samples;
        self.until_ns = now + HOLDS_NS;
        if self.samples >= SAMPLES_MAX {
            (self.used_ns, self.samples) = (self.used_ns / 2, self.samples / 2);
        }
    }

    /// Of one sample, ns; 0 where none need be followed at once.
    pub(super) fn each_ns(&self, now: u64) -> u64 {
        match self.samples >= SAMPLES_MIN && now < self.until_ns {
            true => self.used_ns / self.samples,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_is_that_of_the_last_samples() {
        let mut price = Price::default();
        (1..SAMPLES_MIN).for_each(|n| price.add(900, 1, n));
        assert_eq!(price.each_ns(SAMPLES_MIN), 0, "few samples say little");
        price.add(900, 1, 16);
        assert_eq!(price.each_ns(17), 900);
        // Who is woken for others' samples pays too.
        price.add(1600, 0, 18);
        assert_eq!(price.each_ns(19), 1000);
        (0..1000).for_each(|n| price.add(100, 1, 20 + n));
        assert_eq!(price.each_ns(1020), 100);
        assert_eq!(price.each_ns(1020 + HOLDS_NS), 0);
    }
}
