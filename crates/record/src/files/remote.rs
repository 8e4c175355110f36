//! A recording's way over the network: `record --to` sends, `kasuri receive` takes.
//!
//! Both sides have the same key of 32 bytes. The Noise protocol (`NNpsk0`, by the crate snow) makes keys for one connection of it: a stranger
//! can neither read nor change a recording, nor leave one, and one who learns the key later cannot read what was sent before. The first
//! message might be a copy of an earlier one, so the sender counts as known with its first frame.
//!
//! On the wire: the two messages of the handshake, then frames; each a length (2 bytes, high byte first) and so many bytes, of which 16 are
//! the seal of the rest. A frame's first byte is [`DATA`], [`END`], or in the answer to an end [`STORED`] or [`FAILED`] and the reason.
//!
//! A connection that breaks is not taken up again: what came is a recording without its end, what was not sent remains with the sender.
use crate::guard::safefs::{Access, Held};
use rustix::rand::{GetRandomFlags, getrandom};
use snow::{Builder, HandshakeState, TransportState};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"kasuri stream 1";
/// Bytes of a frame; Noise has no longer messages.
const FRAME_BYTES: usize = 65535;
const SEAL_BYTES: usize = 16;
/// Each message of the handshake: a public key and a seal.
const HANDSHAKE_BYTES: usize = 32 + SEAL_BYTES;
const DATA: u8 = 0;
const END: u8 = 1;
const STORED: u8 = 2;
const FAILED: u8 = 3;
/// The other side has so long for its part of the handshake.
const GREETING: Duration = Duration::from_secs(10);
/// A recorder sends something each second; a connection on which nothing moves for so long is broken.
const SILENCE: Duration = Duration::from_secs(60);

/// What both sides know and nobody else does.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A key as it was found or made.
#[derive(Debug)]
pub struct KeyFile {
    /// The key.
    pub key: Key,
    /// Whether it was made now.
    pub is_new: bool,
    /// Whether other users may read the file.
    pub is_open: bool,
}

impl Key {
    /// Reads a key: 64 hexadecimal digits. With `make`, writes a new one where there is none, for our user alone.
    ///
    /// # Errors
    /// When the file cannot be read or made, or holds no key.
    pub fn file(path: &Path, make: bool) -> io::Result<KeyFile> {
        let (dir, name) = Held::parent_of(path)?;
        match dir.file(&name, Access::Read) {
            Ok(file) => {
                let is_open = rustix::fs::fstat(&file)?.st_mode & 0o077 != 0;
                let text = crate::guard::safefs::read_at_most(file, 4096)?;
                let key = Key::parse(&text).ok_or_else(|| {
                    io::Error::other("it is no key: needed 64 hexadecimal digits")
                })?;
                Ok(KeyFile { key, is_new: false, is_open })
            }
            Err(e) if make && e.kind() == io::ErrorKind::NotFound => {
                let key = Key::random()?;
                let digits: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
                let mut file = dir.file(&name, Access::New)?;
                writeln!(file, "{digits}")?;
                Ok(KeyFile { key, is_new: true, is_open: false })
            }
            Err(e) => Err(e),
        }
    }

    fn parse(text: &[u8]) -> Option<Key> {
        let digits = text.trim_ascii();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut key = [0; 32];
        if digits.len() != 2 * key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Some(Key(key))
    }

    fn random() -> io::Result<Key> {
        let mut key = [0; 32];
        let mut done = 0;
        while done < key.len() {
            done += getrandom(&mut key[done..], GetRandomFlags::empty())?;
        }
        Ok(Key(key))
    }
}

/// The receiver of a recording, as its sender sees it.
pub(crate) struct Remote {
    sealed: Sealed,
}

/// The sender of a recording, as `kasuri receive` sees it.
pub struct Sender {
    sealed: Sealed,
    /// Bytes that came.
    pub bytes: u64,
}

/// How a recording ended.
#[derive(Debug)]
pub enum End {
    /// All of it came.
    Whole,
    /// The connection broke, or the other side sent what no recorder does.
    Cut(io::Error),
}

struct Sealed {
    stream: TcpStream,
    noise: TransportState,
    frame: Vec<u8>,
    plain: Vec<u8>,
}

fn noise_error(e: snow::Error) -> io::Error {
    match e {
        snow::Error::Decrypt => io::Error::other("the keys differ"),
        e => io::Error::other(e.to_string()),
    }
}

fn handshake(key: &Key, is_sender: bool) -> io::Result<HandshakeState> {
    let pattern = PATTERN.parse().map_err(noise_error)?;
    let builder = Builder::new(pattern).psk(0, &key.0).map_err(noise_error)?;
    let builder = builder.prologue(PROLOGUE).map_err(noise_error)?;
    match is_sender {
        true => builder.build_initiator(),
        false => builder.build_responder(),
    }
    .map_err(noise_error)
}

impl Sealed {
    fn new(stream: TcpStream, noise: HandshakeState) -> io::Result<Sealed> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        Ok(Sealed {
            stream,
            noise: noise.into_transport_mode().map_err(noise_error)?,
            frame: vec![0; FRAME_BYTES],
            plain: vec![0; FRAME_BYTES],
        })
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let message = [&[kind], bytes].concat();
        let noise = &mut self.noise;
        let n = noise.write_message(&message, &mut self.frame);
        let n = n.map_err(noise_error)?;
        let mut out = (n as u16).to_be_bytes().to_vec();
        out.extend_from_slice(&self.frame[..n]);
        self.stream.write_all(&out).map_err(silence)
    }

    /// The next frame's kind and content.
    fn receive(&mut self) -> io::Result<(u8, &[u8])> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).map_err(silence)?;
        let n = usize::from(u16::from_be_bytes(length));
        self.stream.read_exact(&mut self.frame[..n]).map_err(silence)?;
        self.open(n)
    }

    /// The frame of `n` bytes that has come.
    fn open(&mut self, n: usize) -> io::Result<(u8, &[u8])> {
        let n = self.noise.read_message(&self.frame[..n], &mut self.plain);
        let n = n.map_err(|_| io::Error::other("a damaged frame"))?;
        match self.plain[..n].split_first() {
            Some((&kind, content)) => Ok((kind, content)),
            None => Err(io::Error::other("an empty frame")),
        }
    }
}

/// Reads all of `bytes` until `deadline`, however slowly they come.
fn read_until(stream: &mut TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes = &mut bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {} // the deadline
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// What a time-out is called on a socket says nothing to the user.
fn silence(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("nothing moved for {} s", SILENCE.as_secs()),
        ),
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the connection broke")
        }
        _ => e,
    }
}

impl Remote {
    /// Connects to `kasuri receive` at HOST:PORT.
    ///
    /// # Errors
    /// When nobody answers there, or has another key.
    pub(crate) fn connect(address: &str, key: &Key) -> io::Result<Remote> {
        let mut last = io::Error::other("no such address");
        for place in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&place, GREETING) {
                Ok(stream) => return Remote::greet(stream, key),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn greet(mut stream: TcpStream, key: &Key) -> io::Result<Remote> {
        let deadline = Instant::now() + GREETING;
        stream.set_write_timeout(Some(GREETING))?;
        stream.set_nodelay(true)?;
        let mut noise = handshake(key, true)?;
        let mut message = [0; HANDSHAKE_BYTES];
        let n = noise.write_message(&[], &mut message).map_err(noise_error)?;
        stream.write_all(&message[..n])?;
        let answered = read_until(&mut stream, &mut message, deadline);
        answered.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::other(
                "it hung up: the keys differ, or it receives another recording already",
            ),
            _ => e,
        })?;
        let answered = noise.read_message(&message, &mut [0; HANDSHAKE_BYTES]);
        answered.map_err(noise_error)?;
        let mut sealed = Sealed::new(stream, noise)?;
        // By this the receiver knows that it is no copy of an earlier greeting.
        sealed.send(DATA, &[])?;
        Ok(Remote { sealed })
    }

    /// Says that the recording is whole, and waits until the other side has stored it.
    ///
    /// # Errors
    /// When it did not arrive.
    pub(crate) fn close(mut self) -> io::Result<()> {
        let sent = self.sealed.send(END, &[]);
        match self.sealed.receive() {
            Ok((STORED, _)) => sent,
            // It may have said so before the end, and hung up.
            Ok((FAILED, why)) => {
                let why = String::from_utf8_lossy(&why[..why.len().min(200)]).into_owned();
                Err(io::Error::other(format!("the other side could not store it: {why}")))
            }
            Ok(_) => Err(io::Error::other("the other side sent no answer")),
            Err(e) => sent.and(Err(e)),
        }
    }
}

impl Write for Remote {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(FRAME_BYTES - SEAL_BYTES - 1);
        self.sealed.send(DATA, &bytes[..n])?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sender {
    /// Answers a connection; returns when the other side has shown that it has the key.
    ///
    /// # Errors
    /// When it has another key, or takes too long.
    pub fn answer(mut stream: TcpStream, key: &Key) -> io::Result<Sender> {
        let deadline = Instant::now() + GREETING;
        stream.set_write_timeout(Some(GREETING))?;
        let mut noise = handshake(key, false)?;
        let mut message = [0; HANDSHAKE_BYTES];
        read_until(&mut stream, &mut message, deadline)?;
        let known = noise.read_message(&message, &mut [0; HANDSHAKE_BYTES]);
        known.map_err(noise_error)?;
        let n = noise.write_message(&[], &mut message).map_err(noise_error)?;
        stream.write_all(&message[..n])?;
        let mut first = [0; 2 + 1 + SEAL_BYTES];
        read_until(&mut stream, &mut first, deadline)?;
        let mut sealed = Sealed::new(stream, noise)?;
        let (length, frame) = first.split_at(2);
        sealed.frame[..frame.len()].copy_from_slice(frame);
        let is_known = length == (frame.len() as u16).to_be_bytes();
        match sealed.open(frame.len()) {
            Ok((DATA, [])) if is_known => Ok(Sender { sealed, bytes: 0 }),
            _ => Err(io::Error::other("an unknown greeting")),
        }
    }

    /// The connection, which another thread may shut down to end [`Sender::receive`].
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn stream(&self) -> io::Result<TcpStream> {
        self.sealed.stream.try_clone()
    }

    /// Takes the recording. `room` is asked now and then whether there is room for more.
    ///
    /// # Errors
    /// When `out` cannot be written; the sender is told.
    pub fn receive(
        &mut self,
        out: &mut dyn Write,
        room: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<End> {
        const ASK: u64 = 4 << 20;
        let mut next_ask = 0;
        loop {
            let content = match self.sealed.receive() {
                Ok((DATA, content)) => content,
                Ok((END, _)) => return Ok(End::Whole),
                Ok(_) => return Ok(End::Cut(io::Error::other("an unknown frame"))),
                Err(e) => return Ok(End::Cut(e)),
            };
            out.write_all(content)?;
            self.bytes += content.len() as u64;
            if self.bytes >= next_ask {
                next_ask = self.bytes + ASK;
                room()?;
            }
        }
    }

    /// Tells the sender what became of its recording.
    ///
    /// # Errors
    /// When it is gone.
    pub fn tell(&mut self, stored: &Result<(), String>) -> io::Result<()> {
        match stored {
            Ok(()) => self.sealed.send(STORED, &[]),
            Err(why) => {
                let end = why.len().min(200);
                self.sealed.send(FAILED, &why.as_bytes()[..end])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};
    use std::thread::JoinHandle;

    type Received = io::Result<(Vec<u8>, End)>;

    fn key(byte: u8) -> Key {
        Key([byte; 32])
    }

    /// A receiver for one connection: what it stored, and how that ended.
    fn receiver(key: Key) -> (SocketAddr, JoinHandle<Received>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut sender = Sender::answer(listener.accept()?.0, &key)?;
            let mut stored = Vec::new();
            let end = sender.receive(&mut stored, &|| Ok(()))?;
            if matches!(end, End::Whole) {
                sender.tell(&Ok(()))?;
            }
            Ok((stored, end))
        });
        (address, thread)
    }

    #[test]
    fn what_was_sent_is_stored() {
        let (address, thread) = receiver(key(1));
        let mut remote = Remote::connect(&address.to_string(), &key(1)).unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
        remote.write_all(&bytes).unwrap();
        remote.close().unwrap();
        let (stored, end) = thread.join().unwrap().unwrap();
        assert!(stored == bytes && matches!(end, End::Whole));
    }

    #[test]
    fn a_sender_that_goes_away_leaves_what_it_sent() {
        let (address, thread) = receiver(key(1));
        let mut remote = Remote::connect(&address.to_string(), &key(1)).unwrap();
        remote.write_all(b"the beginning").unwrap();
        drop(remote);
        let (stored, end) = thread.join().unwrap().unwrap();
        assert!(stored == b"the beginning" && matches!(end, End::Cut(_)));
    }

    #[test]
    fn another_key_is_refused_on_both_sides() {
        let (address, thread) = receiver(key(1));
        let sent = Remote::connect(&address.to_string(), &key(2));
        assert!(sent.is_err_and(|e| e.to_string().contains("the keys differ")));
        assert!(thread.join().unwrap().is_err());
    }

    /// Strangers: random bytes, a recorded greeting without what must follow, a frame that was changed on its way.
    #[test]
    fn strangers_leave_nothing() {
        for n in [1, HANDSHAKE_BYTES, 1000] {
            let (address, thread) = receiver(key(1));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&vec![0x5a; n]).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(thread.join().unwrap().is_err(), "{n} bytes");
        }
        let mut greeting = [0; HANDSHAKE_BYTES];
        let mut noise = handshake(&key(1), true).unwrap();
        noise.write_message(&[], &mut greeting).unwrap();
        let (address, thread) = receiver(key(1));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&greeting).unwrap();
        stream.write_all(&[0; 100]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(thread.join().unwrap().is_err(), "a copied greeting");

        let (address, thread) = receiver(key(1));
        let mut remote = Remote::connect(&address.to_string(), &key(1)).unwrap();
        remote.write_all(b"good").unwrap();
        let mut frame = [0; 100];
        let noise = &mut remote.sealed.noise;
        let n = noise.write_message(&[DATA, 1, 2, 3], &mut frame).unwrap();
        frame[0] ^= 1;
        let stream = &mut remote.sealed.stream;
        stream.write_all(&(n as u16).to_be_bytes()).unwrap();
        stream.write_all(&frame[..n]).unwrap();
        let (stored, end) = thread.join().unwrap().unwrap();
        assert!(stored == b"good" && matches!(end, End::Cut(_)), "{end:?}");
    }

    /// A byte now and then would hold a place for as long as the stranger likes.
    #[test]
    fn a_greeting_that_drips_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut stream = listener.accept().unwrap().0;
        let mut more_than_comes = vec![0; 1 << 20];
        let deadline = Instant::now() + Duration::from_millis(100);
        let read = read_until(&mut stream, &mut more_than_comes, deadline);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(stream);
        stranger.join().unwrap();
    }

    #[test]
    fn a_receiver_without_room_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut sender = Sender::answer(listener.accept().unwrap().0, &key(1)).unwrap();
            let full = sender.receive(&mut Vec::new(), &|| Err(io::Error::other("full")));
            sender.tell(&Err(full.unwrap_err().to_string())).unwrap();
        });
        let mut remote = Remote::connect(&address.to_string(), &key(1)).unwrap();
        remote.write_all(b"some").unwrap();
        let why = remote.close().unwrap_err().to_string();
        assert!(why.contains("full"), "{why}");
        thread.join().unwrap();
    }

    #[test]
    fn keys_are_made_once_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("board.key");
        assert!(Key::file(&path, false).is_err());
        let made = Key::file(&path, true).unwrap();
        let read = Key::file(&path, true).unwrap();
        assert!(made.is_new && !read.is_new && !read.is_open && made.key == read.key);
        assert!(made.key != Key::file(&dir.path().join("other"), true).unwrap().key);
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            std::fs::write(&path, text).unwrap();
            assert!(Key::file(&path, true).is_err(), "{text:?}");
        }
    }
}
