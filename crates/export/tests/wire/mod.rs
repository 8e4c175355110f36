//! The protobuf wire format, just enough to take a message apart.
#![allow(dead_code, reason = "not every test uses every part")]

/// One field's value.
#[derive(Clone, Debug)]
pub enum Field {
    Varint(u64),
    Fixed64(u64),
    Bytes(Vec<u8>),
    Fixed32,
}

/// A message: its fields in order.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub fields: Vec<(u32, Field)>,
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(head)
}

impl Message {
    pub fn parse(mut bytes: &[u8]) -> Option<Message> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = match key & 7 {
                0 => Field::Varint(varint(&mut bytes)?),
                1 => Field::Fixed64(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
                2 => {
                    let length = varint(&mut bytes)? as usize;
                    Field::Bytes(take(&mut bytes, length)?.to_vec())
                }
                5 => {
                    take(&mut bytes, 4)?;
                    Field::Fixed32
                }
                _ => return None,
            };
            fields.push(((key >> 3) as u32, field));
        }
        Some(Message { fields })
    }

    fn all(&self, number: u32) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |(n, _)| *n == number).map(|(_, f)| f)
    }

    pub fn messages(&self, number: u32) -> Vec<Message> {
        let parse = |f: &Field| match f {
            Field::Bytes(b) => Message::parse(b),
            _ => None,
        };
        self.all(number).map(|f| parse(f).expect("a message")).collect()
    }

    pub fn number(&self, number: u32) -> Option<u64> {
        self.all(number).find_map(|f| if let Field::Varint(v) = f { Some(*v) } else { None })
    }

    pub fn numbers(&self, number: u32) -> Vec<u64> {
        let varint = |f: &Field| match f {
            Field::Varint(v) => *v,
            other => panic!("{other:?} is no number"),
        };
        self.all(number).map(varint).collect()
    }

    pub fn fixed64(&self, number: u32) -> Option<u64> {
        self.all(number).find_map(|f| if let Field::Fixed64(v) = f { Some(*v) } else { None })
    }

    pub fn double(&self, number: u32) -> Option<f64> {
        self.fixed64(number).map(f64::from_bits)
    }

    pub fn text(&self, number: u32) -> Option<String> {
        self.all(number).find_map(|f| {
            if let Field::Bytes(b) = f { String::from_utf8(b.clone()).ok() } else { None }
        })
    }
}
