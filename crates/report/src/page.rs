//! Puts the parts into the template that `make viewer` builds.
//!
//! The template is the viewer's page with four places to fill:
//!
//! | place | filled with |
//! |---|---|
//! | `<!--kasuri:title-->` | the heading |
//! | `/*kasuri:more-policy*/`, in the page's policy | nothing; served: leave to ask where the page came from |
//! | `<!--kasuri:first-->`, before the viewer's code | the index of each recording, and the tags of the first picture |
//! | `<!--kasuri:rest-->`, behind it | all other tags |
//!
//! A tag is `<script type="kasuri/data" id="PREFIX-NUMBER">`: the browser does not run it, and the viewer reads its
//! text. A page that is served has no such tags, but one of the type `kasuri/served` that says of how many recordings it asks
//! the server.
use super::blocks::{Packed, deflated};
use flate2::{Compress, Compression};
use kasuri_text::chart::escape;
use std::io::{self, Write};

const TEMPLATE: &str = include_str!(env!("KASURI_VIEWER_HTML"));
/// Places in the template that the parts replace; viewer/build.mjs checks that each stands there once.
const PLACES: [&str; 4] =
    ["/*kasuri:more-policy*/", "<!--kasuri:title-->", "<!--kasuri:first-->", "<!--kasuri:rest-->"];

/// One recording of a page.
pub struct Part {
    /// Heading.
    pub title: String,
    /// JSON.
    pub index: Vec<u8>,
    /// Everything else.
    pub packed: Packed,
    /// Deflate level of the index.
    pub level: u32,
}

/// Prefixes of the ids of each recording's tags: the viewer looks for the second one to find out whether the page holds
/// two recordings.
const PREFIXES: [&str; 2] = ["kasuri", "kasuri-b"];

/// Writes the page of one or two recordings; returns its size in bytes.
pub fn write(parts: &[Part], out: &mut impl Write) -> io::Result<u64> {
    let mut out = Counted { out, bytes: 0 };
    let [head, titles, styles, viewer, foot] = template()?;
    out.write_all(head.as_bytes())?;
    out.write_all(titles.as_bytes())?;
    out.write_all(heading(parts.iter().map(|part| part.title.as_str())).as_bytes())?;
    out.write_all(styles.as_bytes())?;
    for (part, prefix) in parts.iter().zip(PREFIXES) {
        let mut deflate = Compress::new(Compression::new(part.level.clamp(1, 9)), false);
        writeln!(
            out,
            "<script type=\"kasuri/index\" id=\"{prefix}-index\">{}</script>",
            deflated(&mut deflate, &part.index, &[])
        )?;
        for tag in 0..part.packed.first_tags {
            write_tag(&part.packed, prefix, tag, &mut out)?;
        }
    }
    out.write_all(viewer.as_bytes())?;
    for (part, prefix) in parts.iter().zip(PREFIXES) {
        for tag in part.packed.first_tags..part.packed.tags.len() {
            write_tag(&part.packed, prefix, tag, &mut out)?;
        }
    }
    out.write_all(foot.as_bytes())?;
    out.flush()?;
    Ok(out.bytes)
}

/// The page of recordings with these titles that asks the server that it came from for everything else, and its policy.
pub fn served(titles: &[String]) -> io::Result<(String, String)> {
    const MORE: &str = "; connect-src 'self'";
    let [head, before, styles, viewer, foot] = template()?;
    let title = heading(titles.iter().map(String::as_str));
    let tag =
        format!("<script type=\"kasuri/served\" id=\"kasuri-served\">{}</script>\n", titles.len());
    let page = [head, MORE, before, &title, styles, &tag, viewer, foot].concat();
    // The policy is the last thing before its place.
    let policy = head.rsplit_once('"').map_or("", |(_, policy)| policy);
    Ok((page, format!("{policy}{MORE}")))
}

/// The heading of a page, as markup.
fn heading<'a>(titles: impl Iterator<Item = &'a str>) -> String {
    escape(&titles.collect::<Vec<_>>().join(" | "))
}

/// The template between its places.
fn template() -> io::Result<[&'static str; 5]> {
    let (head, rest) = split(TEMPLATE, PLACES[0])?;
    let (before, rest) = split(rest, PLACES[1])?;
    let (styles, rest) = split(rest, PLACES[2])?;
    let (viewer, foot) = split(rest, PLACES[3])?;
    Ok([head, before, styles, viewer, foot])
}

/// The text before and after a place.
fn split<'a>(text: &'a str, at: &str) -> io::Result<(&'a str, &'a str)> {
    text.split_once(at)
        .ok_or_else(|| io::Error::other(format!("the viewer's template has no {at}")))
}

/// Writes one tag with all its blocks.
fn write_tag(packed: &Packed, prefix: &str, tag: usize, out: &mut impl Write) -> io::Result<()> {
    write!(out, "<script type=\"kasuri/data\" id=\"{prefix}-{tag}\">")?;
    for block in &packed.blocks[packed.tags[tag].clone()] {
        out.write_all(block.text.as_bytes())?;
    }
    out.write_all(b"</script>\n")
}

/// Counts the bytes that are written.
struct Counted<'a, W: Write> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
