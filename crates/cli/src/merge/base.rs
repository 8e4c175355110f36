//! A recording that others are added to.
use super::{Frame, Part, missing, recorder};
use crate::open::Base;
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{BlockKind, Writer};
use kasuri_format::meta::{Anchor, Meta};
use kasuri_import::Clock;
use kasuri_model::Time;
use std::io::{self, Write};

impl Base<'_> {
    /// Whether it has kernel events, or could have had some.
    pub(super) fn has_kernel(&self) -> bool {
        self.recording.meta().kernel.source != "none"
    }

    /// Its clock and extent.
    ///
    /// # Errors
    /// When its annotations count ticks and it does not say how long one is.
    pub(super) fn frame(&self) -> anyhow::Result<Frame> {
        let meta = self.recording.meta();
        let time = |anchor: Anchor| Time(i64::try_from(anchor.monotonic_ns).unwrap_or(i64::MAX));
        let offset = |anchor: Anchor| anchor.realtime_ns.wrapping_sub(anchor.monotonic_ns) as i64;
        let stamps = match meta.annotations.clock.as_str() {
            "native" => ClockMap::from_anchors(&self.recording.all_anchors())
                .map_err(|error| anyhow::anyhow!("{}: {error}", self.name))?,
            _ => ClockMap::identity(),
        };
        let is_client = |kind| matches!(kind, BlockKind::Annotation | BlockKind::Sites);
        let blocks = self.recording.blocks().iter();
        let clients = blocks.chain(self.recording.table_blocks());
        let generations = clients.filter(|b| is_client(b.kind)).map(|b| b.ids[1]);
        Ok(Frame {
            name: self.name.clone(),
            clock: Clock::Monotonic,
            realtime_offset_ns: (meta.start.realtime_ns != 0).then(|| offset(meta.start)),
            span: Some(time(meta.start)..meta.end.map_or(Time::MAX, time)),
            stamps,
            generation: generations.max().map_or(0, |g| g.saturating_add(1)),
        })
    }

    /// Its own facts, and what the parts lack.
    pub(super) fn meta(&self, parts: &[Part<'_>]) -> Meta {
        let mut meta = self.recording.meta().clone();
        meta.recorder = recorder(Some(self), parts);
        meta.missing.extend(missing(parts));
        meta
    }

    /// Copies all of it but its facts. Returns how many events that are.
    ///
    /// # Errors
    /// Errors of the output.
    pub(super) fn copy<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<u64> {
        let tables = self.recording.table_blocks().iter();
        let mut n = 0;
        for block in tables.chain(self.recording.blocks()) {
            n += block.n_events;
            writer.copy_block(block, self.bytes)?;
        }
        Ok(n)
    }
}
