//! The bytes of a trace: the file's, and those that its compressed packets unpack to. Bundles of one time lie in one
//! compressed packet, and all CPUs' events are read in order of time: a few unpacked ones at hand are enough.
use kasuri_format::Error;
use kasuri_format::perfetto::{Data, MAX_UNPACKED, Packet, unpack_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;

/// Unpacked packets at hand.
const AT_HAND: usize = 8;

/// Where a message lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// 0: the file; n: the n-th compressed packet.
    pub block: u32,
    /// In the block.
    pub start: usize,
    pub end: usize,
}

/// A compressed packet.
#[derive(Clone, Copy, Debug)]
struct Packed<'a> {
    data: Data<'a>,
    /// In the file.
    offset: u64,
}

/// Bytes of a block.
pub(super) enum Bytes<'a> {
    File(&'a [u8]),
    Unpacked(Rc<Vec<u8>>),
}

impl Bytes<'_> {
    pub fn all(&self) -> &[u8] {
        match self {
            Bytes::File(bytes) => bytes,
            Bytes::Unpacked(bytes) => bytes,
        }
    }

    pub fn get(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        self.all().get(range)
    }
}

/// A compressed packet's number and content.
pub(super) type Unpacked = (u32, Rc<Vec<u8>>);

/// All blocks.
pub(super) struct Blocks<'a> {
    file: &'a [u8],
    packed: Vec<Packed<'a>>,
    at_hand: RefCell<VecDeque<Unpacked>>,
}

impl<'a> Blocks<'a> {
    pub fn new(file: &'a [u8]) -> Blocks<'a> {
        Blocks {
            file,
            packed: Vec::new(),
            at_hand: RefCell::new(VecDeque::new()),
        }
    }

    /// A compressed packet of the file; its number and content. None: it is no such packet.
    pub fn add(&mut self, packet: &Packet<'a>) -> Result<Option<Unpacked>, Error> {
        if !matches!(packet.data, Data::Deflated(_) | Data::Zstd(_)) {
            return Ok(None);
        }
        self.packed.push(Packed {
            data: packet.data,
            offset: packet.offset,
        });
        let number = self.packed.len() as u32;
        Ok(Some((number, self.unpacked(number)?)))
    }

    /// Number of compressed packets.
    pub fn n_packed(&self) -> u32 {
        self.packed.len() as u32
    }

    /// A place in the file, for messages: of what is packed that of the packet.
    pub fn offset(&self, place: &Place) -> u64 {
        match self.packed.get((place.block as usize).wrapping_sub(1)) {
            Some(packed) => packed.offset,
            None => place.start as u64,
        }
    }

    /// A block's bytes.
    pub fn get(&self, block: u32) -> Result<Bytes<'a>, Error> {
        match block {
            0 => Ok(Bytes::File(self.file)),
            number => self.unpacked(number).map(Bytes::Unpacked),
        }
    }

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
