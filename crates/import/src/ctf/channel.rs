//! Iterates over the events of one stream file, and over the losses between them.
//!
//! [`Channel::next`] goes from packet to packet and reads the headers of events. After [`Next::Event`] the caller must
//! read the body, with [`Channel::fixed`] or [`Channel::body`], or skip it with the reader.
//!
//! Packets show losses in two ways: a counter of discarded events (`events_discarded`), which rises when the ring was
//! full, and a sequence number (`packet_seq_num`), which jumps when packets were overwritten or not sent. Damage within
//! a packet loses the rest of it, since the length of an event is known only by decoding it.
use super::clocks::ToNs;
use super::files::{Stream, named};
use crate::Options;
use kasuri_format::ctf::{Head, Layout, Packet, Reader, Value};
use kasuri_model::Time;
use std::cell::RefCell;
use std::rc::Rc;

/// A loss; times in ns.
#[derive(Clone, Debug)]
pub(super) struct FoundLoss {
    pub cause: String,
    pub cpu: Option<u16>,
    pub from: i64,
    pub to: i64,
    pub count: u64,
    pub remedy: &'static str,
}

/// The losses of all channels.
pub(super) type Losses = Rc<RefCell<Vec<FoundLoss>>>;

/// An item of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// An event: its time in ns, and its header. Its body is not read yet.
    Event(i64, Head),
    /// Events are missing from this time on.
    Lost(i64),
}

/// The reader of a stream file.
pub(super) struct Channel<'a> {
    name: &'a str,
    pub reader: Reader<'a>,
    packets: Vec<Packet>,
    /// The packet being read is `packets[at - 1]`.
    at: usize,
    in_packet: bool,
    /// Stream class of the current packet.
    pub stream: usize,
    clocks: Rc<Vec<ToNs>>,
    losses: Losses,
    salvage: bool,
    /// The counter of discarded events and the sequence number, as of the last packet.
    discarded: u64,
    sequence: Option<u64>,
    /// Time of the last event, ns; `i64::MIN`: there was none.
    last: i64,
    /// How often the stamp of an event was below that of the event before it, and the two stamps of the first such pair.
    back: Option<(u64, i64, i64)>,
    /// The CPU that wrote the stream; none: packets do not say.
    pub cpu: Option<u16>,
}

impl<'a> Channel<'a> {
    /// `clocks`: the conversion of each stream class.
    pub fn new(
        layout: &Rc<Layout>,
        stream: &Stream<'a>,
        clocks: Rc<Vec<ToNs>>,
        losses: Losses,
        options: &Options,
    ) -> Channel<'a> {
        let cpu = stream.packets.iter().find_map(|p| p.cpu);
        Channel {
            name: stream.name,
            reader: Reader::new(layout.clone(), stream.bytes),
            packets: stream.packets.clone(),
            at: 0,
            in_packet: false,
            stream: stream.packets.first().map_or(0, |p| p.stream),
            clocks,
            losses,
            salvage: options.salvage,
            discarded: 0,
            sequence: None,
            last: i64::MIN,
            back: None,
            cpu: cpu.and_then(|cpu| u16::try_from(cpu).ok()),
        }
    }

    /// A stamp of the current stream class in ns.
    pub fn ns(&self, cycles: u64) -> i64 {
        self.clocks.get(self.stream).map_or(0, |clock| clock.ns(cycles))
    }

    /// The next item; none: the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Next>, kasuri_format::Error> {
        loop {
            if self.in_packet {
                match self.reader.head() {
                    Ok(Some(head)) => {
                        let ns = self.ns(head.cycles);
                        if ns < self.last {
                            let (n, ..) = self.back.get_or_insert((0, self.last, ns));
                            *n += 1;
                        }
                        self.last = ns;
                        return Ok(Some(Next::Event(self.last, head)));
                    }
                    Ok(None) => {
                        self.in_packet = false;
                        if let Some(lost) = self.after_packet() {
                            return Ok(Some(lost));
                        }
                    }
                    Err(error) => return self.damaged(error).map(Some),
                }
            }
            let Some(&packet) = self.packets.get(self.at) else {
                self.tell_back();
                return Ok(None);
            };
            let lost = self.before_packet(&packet);
            self.at += 1;
            self.stream = packet.stream;
            match self.reader.enter(&packet) {
                Ok(()) => self.in_packet = true,
                Err(error) => return self.damaged(error).map(Some),
            }
            if lost.is_some() {
                return Ok(lost);
            }
        }
    }

    /// Leaves a damaged packet and reports its rest as lost; or returns the error, if the file is not salvaged.
    #[cold]
    pub fn damaged(&mut self, error: kasuri_format::Error) -> Result<Next, kasuri_format::Error> {
        let error = named(self.name, error);
        if !self.salvage {
            return Err(error);
        }
        self.reader.leave();
        self.in_packet = false;
        let packet = self.at.checked_sub(1).and_then(|at| self.packets.get(at));
        let end = packet.and_then(|p| p.end).map_or(self.last, |end| self.ns(end));
        self.losses.borrow_mut().push(FoundLoss {
            cause: error.to_string(),
            cpu: self.cpu,
            from: self.last,
            to: end.max(self.last),
            count: 0,
            remedy: "",
        });
        Ok(Next::Lost(self.last))
    }

    /// Says that stamps went back, once.
    fn tell_back(&mut self) {
        if let Some((n, from, to)) = self.back.take() {
            self.losses.borrow_mut().push(FoundLoss {
                cause: format!(
                    "the clock of {} goes back {n} times, first by {} ns",
                    self.file_name(),
                    from.saturating_sub(to)
                ),
                cpu: self.cpu,
                from: to,
                to: from,
                count: 0,
                remedy: "times around there are not to be trusted",
            });
        }
    }

    /// Detects packets that are missing before this one.
    fn before_packet(&mut self, packet: &Packet) -> Option<Next> {
        let before = std::mem::replace(&mut self.sequence, packet.sequence)?;
        let missing = packet.sequence?.checked_sub(before + 1).filter(|&n| n > 0)?;
        let from = self.last;
        let to = packet.begin.map_or(from, |begin| self.ns(begin));
        self.losses.borrow_mut().push(FoundLoss {
            cause: format!("{missing} packets missing"),
            cpu: self.cpu,
            from,
            to: to.max(from),
            count: 0,
            remedy: "packets were overwritten or not sent: larger sub-buffers (lttng enable-channel --subbuf-size)",
        });
        Some(Next::Lost(from))
    }

    /// Detects events that found no room. They are missing after the last event of the packet that has the counter: the
    /// tracer writes it when it goes on to the next packet.
    fn after_packet(&mut self) -> Option<Next> {
        let packet = self.packets.get(self.at.checked_sub(1)?)?;
        let now = packet.discarded?;
        let count = now.checked_sub(self.discarded).filter(|&n| n > 0)?;
        self.discarded = now;
        let from = match self.last {
            i64::MIN => packet.begin.map_or(0, |begin| self.ns(begin)),
            last => last,
        };
        let next = self.packets.get(self.at).and_then(|p| p.begin).or(packet.end);
        let to = next.map_or(from, |cycles| self.ns(cycles)).max(from);
        self.losses.borrow_mut().push(FoundLoss {
            cause: "ring buffer full".into(),
            cpu: self.cpu,
            from,
            to,
            count,
            remedy: "more or larger sub-buffers: lttng enable-channel --num-subbuf --subbuf-size",
        });
        Some(Next::Lost(from))
    }

    /// The bytes of a body of fixed size.
    pub fn fixed(&mut self, bytes: u32) -> Result<&'a [u8], kasuri_format::Error> {
        self.reader.fixed(bytes)
    }

    /// Decodes a body, and calls `each` with every field.
    pub fn body(
        &mut self,
        head: Head,
        each: impl FnMut(u32, Value<'a>),
    ) -> Result<(), kasuri_format::Error> {
        self.reader.body(head, each)
    }
}

/// Adds the losses to the finished trace, whose times count from its origin.
pub(super) fn publish(losses: &Losses, trace: &mut kasuri_model::Trace) {
    let origin = trace.origin_monotonic_ns;
    for met in losses.borrow().iter() {
        let at = |ns: i64| Time(ns.saturating_sub(origin)).clamp(trace.span.start, trace.span.end);
        trace.losses.push(kasuri_model::Loss {
            cause: met.cause.clone(),
            cpu: met.cpu,
            thread: kasuri_model::ThreadIx::NONE,
            when: at(met.from)..at(met.to),
            count: met.count,
            remedy: met.remedy.to_owned(),
        });
    }
}

impl<'a> Channel<'a> {
    /// The stream file's name.
    pub fn file_name(&self) -> &'a str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    /// Makes it keep its losses to itself, because another channel will read the same file.
    pub fn quiet(mut self) -> Channel<'a> {
        self.losses = Losses::default();
        self
    }
}
