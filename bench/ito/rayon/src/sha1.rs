//! SHA-1 of a short message of big-endian words (FIPS 180-4), as examples/ito/sha1.c.

/// The digest of `message`, at most 13 words.
pub fn short(message: &[u32]) -> [u32; 5] {
    let mut w = [0u32; 16];
    w[..message.len()].copy_from_slice(message);
    w[message.len()] = 0x8000_0000;
    w[15] = message.len() as u32 * 32;
    let start: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let [mut a, mut b, mut c, mut d, mut e] = start;
    macro_rules! twenty {
        ($from:expr, $k:expr, $f:expr) => {
            for t in $from..$from + 20 {
                let word = if t < 16 {
                    w[t]
                } else {
                    let next = w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15];
                    w[t & 15] = next.rotate_left(1);
                    w[t & 15]
                };
                let f: u32 = $f(b, c, d);
                let next = a
                    .rotate_left(5)
                    .wrapping_add(f)
                    .wrapping_add(e)
                    .wrapping_add($k)
                    .wrapping_add(word);
                (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
            }
        };
    }
    let parity = |b: u32, c: u32, d: u32| b ^ c ^ d;
    twenty!(0, 0x5a82_7999u32, |b: u32, c: u32, d: u32| d
        ^ (b & (c ^ d)));
    twenty!(20, 0x6ed9_eba1u32, parity);
    twenty!(40, 0x8f1b_bcdcu32, |b: u32, c: u32, d: u32| (b & c)
        | (d & (b | c)));
    twenty!(60, 0xca62_c1d6u32, parity);
    let mut out = start;
    for (word, add) in out.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
    out
}
