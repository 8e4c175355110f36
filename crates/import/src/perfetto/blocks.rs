//! The bytes of a trace: those of the file, and those of its compressed packets.
//!
//! Perfetto compresses groups of packets, with zlib or zstd, into one packet each. Blocks are numbered: 0 is the file,
//! n its n-th compressed packet. A [`Place`] is a range in a block, and can be read at any time: the block is unpacked
//! again if necessary. Bundles of one time lie in one compressed packet, and the passes read all CPUs in order of time,
//! so a cache of a few unpacked blocks suffices.
use kasuri_format::Error;
use kasuri_format::perfetto::{Data, MAX_UNPACKED, Packet, unpack_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;

/// Number of unpacked blocks in the cache.
const AT_HAND: usize = 8;

/// The position of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// 0: the file; n: its n-th compressed packet.
    pub block: u32,
    /// Byte range in the block.
    pub start: usize,
    pub end: usize,
}

/// A compressed packet.
#[derive(Clone, Copy, Debug)]
struct Packed<'a> {
    data: Data<'a>,
    /// Its offset in the file.
    offset: u64,
}

/// The bytes of a block.
pub(super) enum Bytes<'a> {
    File(&'a [u8]),
    Unpacked(Rc<Vec<u8>>),
}

impl Bytes<'_> {
    /// All of them.
    pub fn all(&self) -> &[u8] {
        match self {
            Bytes::File(bytes) => bytes,
            Bytes::Unpacked(bytes) => bytes,
        }
    }

    /// A part; none: it is not inside.
    pub fn get(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        self.all().get(range)
    }
}

/// A compressed packet's number and content.
pub(super) type Unpacked = (u32, Rc<Vec<u8>>);

/// All blocks. The cache is a queue: the oldest block makes room for a new one.
pub(super) struct Blocks<'a> {
    file: &'a [u8],
    packed: Vec<Packed<'a>>,
    at_hand: RefCell<VecDeque<Unpacked>>,
}

impl<'a> Blocks<'a> {
    pub fn new(file: &'a [u8]) -> Blocks<'a> {
        Blocks { file, packed: Vec::new(), at_hand: RefCell::new(VecDeque::new()) }
    }

    /// Registers and unpacks a compressed packet. None: the packet is not compressed.
    pub fn add(&mut self, packet: &Packet<'a>) -> Result<Option<Unpacked>, Error> {
        if !matches!(packet.data, Data::Deflated(_) | Data::Zstd(_)) {
            return Ok(None);
        }
        self.packed.push(Packed { data: packet.data, offset: packet.offset });
        let number = self.packed.len() as u32;
        Ok(Some((number, self.unpacked(number)?)))
    }

    /// Number of compressed packets.
    pub fn n_packed(&self) -> u32 {
        self.packed.len() as u32
    }

    /// The offset in the file, for messages; that of the compressed packet for places in one.
    pub fn offset(&self, place: &Place) -> u64 {
        match self.packed.get((place.block as usize).wrapping_sub(1)) {
            Some(packed) => packed.offset,
            None => place.start as u64,
        }
    }

    /// The bytes of a block.
    pub fn get(&self, block: u32) -> Result<Bytes<'a>, Error> {
        match block {
            0 => Ok(Bytes::File(self.file)),
            number => self.unpacked(number).map(Bytes::Unpacked),
        }
    }

    /// The content of a compressed packet, from the cache if it is there.
    fn unpacked(&self, number: u32) -> Result<Rc<Vec<u8>>, Error> {
        let mut at_hand = self.at_hand.borrow_mut();
        if let Some((_, bytes)) = at_hand.iter().find(|(n, _)| *n == number) {
            return Ok(bytes.clone());
        }
        let Some(packed) = self.packed.get(number as usize - 1) else {
            return Ok(Rc::default());
        };
        let bytes = Rc::new(unpack(packed)?);
        if at_hand.len() >= AT_HAND {
            at_hand.pop_front();
        }
        at_hand.push_back((number, bytes.clone()));
        Ok(bytes)
    }
}

/// Unpacks a packet, up to [`MAX_UNPACKED`] bytes.
fn unpack(packed: &Packed) -> Result<Vec<u8>, Error> {
    let wrong = |error: std::io::Error| unpack_error(packed.offset, error.to_string());
    let reader: Box<dyn Read> = match packed.data {
        Data::Deflated(message) => Box::new(flate2::read::ZlibDecoder::new(message.bytes())),
        Data::Zstd(message) => {
            Box::new(zstd::stream::read::Decoder::with_buffer(message.bytes()).map_err(wrong)?)
        }
        _ => return Ok(Vec::new()),
    };
    let mut out = Vec::new();
    let mut reader = reader.take(MAX_UNPACKED + 1);
    reader.read_to_end(&mut out).map_err(wrong)?;
    if out.len() as u64 > MAX_UNPACKED {
        return Err(unpack_error(packed.offset, "more".into()));
    }
    Ok(out)
}
