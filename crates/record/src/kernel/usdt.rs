//! `--usdt`: the probes that authors of programs and libraries put into them, as marks and slices.
//!
//! A site of a probe is a `nop`; a uprobe there is an event of the recorder's own group, as those of [`super::uprobes`] are, and
//! goes with the tracing instance. Sites come from the notes of a program, its loader and libraries, or of a file that the user
//! names ([`kasuri_symbols::usdt`]). A site with a semaphore gets it raised by the kernel, so that the program prepares the
//! arguments; the kernel lowers it when the event goes.
//!
//! A uprobe belongs to the file, not to a program: every program that runs this code pays for it, now or later, also when it loads
//! the file only then (dlopen). The kernel is given the open file, not a path, so that it is the one whose notes were read.
//!
//! [`Price`] measures what a hit costs here; [`Watch`] switches a probe off that is hit too often.
use crate::error::{Error, Result};
use crate::guard::bounds::MAX_USDT_SITES;
use crate::kernel::tracefs::{Instance, Probes, Tracefs, Uprobe};
use crate::options::{Options, Target};
use crate::program::code_files::{self, CodeFile};
use kasuri_base::usdt::{Side, stem};
use kasuri_format::meta::UsdtProbe;
pub use kasuri_symbols::usdt::{Arg, Fetch, Site};
use kasuri_symbols::usdt::{Probes as FileProbes, probes};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// First part of the names of our events; the site's number follows, then what makes the name unique. Readers know it.
pub const EVENT: &str = "usdt_";

/// Arguments that are text where the user says nothing, by provider and pattern of probes: as docs.python.org has them.
const KNOWN_TEXTS: &[(&str, &str, &[usize])] = &[
    ("python", "function__*", &[1, 2]),
    ("python", "line", &[1, 2]),
    ("python", "import__find__load__*", &[1]),
    ("python", "audit", &[1]),
];

/// A site to be probed.
#[derive(Clone, Debug)]
pub struct Probe {
    code: Rc<CodeFile>,
    site: Site,
    /// Numbers of the arguments that point to text, from 1.
    texts: Vec<usize>,
}

/// A file and the probes that it has.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub path: PathBuf,
    /// Its sites.
    pub probes: FileProbes,
}

/// The probes of a program or library and of all that it is linked with; only files that have any.
pub fn of_program(name: &std::ffi::OsStr) -> Vec<Listed> {
    listed(code_files::of_program(name))
}

/// The probes of what a process has loaded; only files that have any.
///
/// # Errors
/// When there is no such process, or its files may not be opened.
pub fn of_process(pid: i32) -> io::Result<Vec<Listed>> {
    Ok(listed(code_files::of_process(pid)?))
}

fn listed(files: Vec<CodeFile>) -> Vec<Listed> {
    let list = |code: CodeFile| {
        let probes = probes(&code.file).filter(|p| !p.sites.is_empty())?;
        let path = code.path;
        Some(Listed { path, probes })
    };
    files.into_iter().filter_map(list).collect()
}

/// `[FILE:]PROVIDER[:PROBE][@ARGUMENT,...]` as the user typed it.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    /// Has a slash, by which it is known.
    file: Option<&'a str>,
    provider: &'a str,
    probe: &'a str,
    /// None: as known.
    texts: Option<Vec<usize>>,
}

impl<'a> Wanted<'a> {
    fn parse(text: &'a str) -> std::result::Result<Wanted<'a>, String> {
        let names_at = match text.rfind('/') {
            None => 0,
            Some(slash) => match text[slash..].find(':') {
                Some(colon) => slash + colon + 1,
                None => text.len(),
            },
        };
        let (names, texts) = match text[names_at..].split_once('@') {
            None => (&text[names_at..], None),
            Some((names, numbers)) => {
                let number = |n: &str| n.parse().ok().filter(|n| (1..=12).contains(n));
                let numbers: Option<Vec<usize>> = numbers.split(',').map(number).collect();
                let why = "after @ come numbers of arguments that are text, as in @1,2";
                (names, Some(numbers.ok_or(why)?))
            }
        };
        let (provider, probe) = names.split_once(':').unwrap_or((names, "*"));
        let is_pattern = |c: char| c.is_ascii_alphanumeric() || "_*?".contains(c);
        for part in [provider, probe] {
            if part.is_empty() || !part.chars().all(is_pattern) {
                return Err(format!(
                    "`{names}` is no PROVIDER:PROBE of letters, digits, _, * and ?"
                ));
            }
        }
        Ok(Wanted {
            file: (names_at > 0).then(|| text[..names_at].trim_end_matches(':')),
            provider,
            probe,
            texts,
        })
    }

    fn matches(&self, site: &Site) -> bool {
        matches(self.provider, &site.provider) && matches(self.probe, &site.name)
    }

    fn texts_of(&self, site: &Site) -> Vec<usize> {
        if let Some(texts) = &self.texts {
            return texts.clone();
        }
        let known = KNOWN_TEXTS
            .iter()
            .find(|(provider, probe, _)| *provider == site.provider && matches(probe, &site.name));
        known.map_or_else(Vec::new, |(_, _, texts)| texts.to_vec())
    }
}

/// Whether a pattern with `*` and `?` matches a whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on when what follows the last `*` does not fit.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, n) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Finds the sites that `--usdt` names.
///
/// # Errors
/// When a name matches none, or all together match too many.
pub fn find(options: &Options) -> Result<Vec<Probe>> {
    if options.usdt.is_empty() {
        return Ok(Vec::new());
    }
    let mut of_target: Option<Vec<Read>> = None;
    let mut out: Vec<Probe> = Vec::new();
    for text in &options.usdt {
        let unfit = |why: String| Error::Usdt { wanted: text.clone(), why };
        let wanted = Wanted::parse(text).map_err(unfit)?;
        let named;
        let files = match wanted.file {
            Some(path) => {
                let code = CodeFile::open(Path::new(path));
                let code = code.map_err(|e| unfit(format!("{path}: {e}")))?;
                named = [Read::of(code)];
                &named[..]
            }
            None => {
                if of_target.is_none() {
                    of_target = Some(read_target(options).map_err(unfit)?);
                }
                of_target.as_deref().unwrap_or_default()
            }
        };
        let before = out.len();
        for read in files.iter().filter(|read| read.probes.is_native) {
            for site in read.probes.sites.iter().filter(|site| wanted.matches(site)) {
                let is_known = |p: &Probe| p.is_at(&read.code, site);
                if !out.iter().any(is_known) {
                    out.push(Probe {
                        code: read.code.clone(),
                        site: site.clone(),
                        texts: wanted.texts_of(site),
                    });
                }
            }
        }
        let is_meant = |p: &Probe| wanted.matches(&p.site);
        if out.len() == before && !out.iter().any(is_meant) {
            return Err(unfit(none_matches(files)));
        }
        if out.len() > MAX_USDT_SITES {
            return Err(unfit(format!(
                "{} places have such probes, and {MAX_USDT_SITES} may be probed at once; name fewer",
                out.len()
            )));
        }
    }
    Ok(out)
}

/// A file whose notes were read.
struct Read {
    code: Rc<CodeFile>,
    probes: FileProbes,
}

impl Read {
    fn of(code: CodeFile) -> Read {
        Read { probes: probes(&code.file).unwrap_or_default(), code: Rc::new(code) }
    }
}

fn read_target(options: &Options) -> std::result::Result<Vec<Read>, String> {
    let files = match (&options.target, options.command().first()) {
        (Target::Process(pid), _) => code_files::of_process(*pid)
            .map_err(|e| format!("cannot list the files of process {pid}: {e}"))?,
        (_, Some(program)) => code_files::of_program(program),
        (_, None) => {
            return Err(
                "without a program, name the file that has the probe: FILE:PROVIDER:PROBE".into()
            );
        }
    };
    Ok(files.into_iter().map(Read::of).collect())
}

/// What there is instead.
fn none_matches(files: &[Read]) -> String {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut foreign, mut refused) = (0, 0);
    for read in files {
        for site in &read.probes.sites {
            *names.entry(&site.provider).or_default() += 1;
        }
        foreign += usize::from(!read.probes.is_native && !read.probes.sites.is_empty());
        refused += read.probes.refused;
    }
    let mut said = match files.len() {
        0 => "the program was not found".to_owned(),
        1 => "the file has no such probe".to_owned(),
        n => format!("the program and its libraries ({n} files) have no such probe"),
    };
    if !names.is_empty() {
        let names = names.iter().take(8).map(|(name, n)| format!("{name} ({n})"));
        let names: Vec<String> = names.collect();
        let _ = write!(said, "; there are probes of {}", names.join(", "));
    }
    if foreign > 0 {
        said += "; some are of programs of another machine";
    }
    if refused > 0 {
        let _ = write!(said, "; {refused} are damaged");
    }
    said + "; `kasuri events --usdt PROGRAM` lists them, a library that is loaded later is named FILE:PROVIDER:PROBE"
}

impl Probe {
    /// `PROVIDER:PROBE`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.site.provider, self.site.name)
    }

    fn is_at(&self, code: &Rc<CodeFile>, site: &Site) -> bool {
        let same = |a: &CodeFile, b: &CodeFile| {
            use std::os::unix::fs::MetadataExt;
            let id = |f: &CodeFile| f.file.metadata().map(|m| (m.dev(), m.ino())).ok();
            id(a).is_some() && id(a) == id(b)
        };
        // Two probes may be at one place.
        let of = |s: &Site| (s.offset, s.provider.clone(), s.name.clone());
        of(&self.site) == of(site) && (Rc::ptr_eq(&self.code, code) || same(&self.code, code))
    }

    /// For `meta.json`. The event's field `aN` has argument N.
    fn meta(&self, event: String) -> UsdtProbe {
        let args = self.site.args.iter().zip(1..).map(|(arg, n)| {
            match (&arg.fetch, self.texts.contains(&n) && arg.text().is_some()) {
                (_, true) => "text".to_owned(),
                (Fetch::Constant(n), _) => format!("={n}"),
                (Fetch::No(why), _) => format!("none: {why}"),
                _ if arg.is_signed => "signed".to_owned(),
                _ => "unsigned".to_owned(),
            }
        });
        UsdtProbe {
            event,
            name: self.name(),
            file: self.code.path.to_string_lossy().into_owned(),
            args: args.collect(),
        }
    }

    /// Its place and what is fetched there, as uprobe_events takes them.
    fn text(&self) -> String {
        let site = &self.site;
        let fd = self.code.file.as_raw_fd();
        let mut text = format!("/proc/self/fd/{fd}:{:#x}", site.offset);
        if let Some(semaphore) = site.semaphore {
            let _ = write!(text, "({semaphore:#x})");
        }
        for (arg, n) in site.args.iter().zip(1..) {
            let as_text = arg.text().filter(|_| self.texts.contains(&n));
            if let Some(fetch) = as_text.or_else(|| arg.value()) {
                let _ = write!(text, " a{n}={fetch}");
            }
        }
        text
    }
}

/// The uprobe of each probe.
pub(crate) fn definitions(probes: &[Probe]) -> Vec<Uprobe> {
    // The kernel's counts of hits have the event's name only: no other recorder may have the same.
    let own = crate::random::random_u32();
    let one = |(n, probe): (usize, &Probe)| Uprobe {
        kind: 'p',
        event: format!("{EVENT}{n}_{own:08x}"),
        text: probe.text(),
        use_of_it: "a probe that --usdt names",
    };
    probes.iter().enumerate().map(one).collect()
}

/// What the events of an instance's group mean.
pub(crate) fn meanings(probes: &[Probe], uprobes: &[Uprobe], group: &str) -> Vec<UsdtProbe> {
    let both = probes.iter().zip(uprobes);
    both.map(|(probe, uprobe)| probe.meta(uprobe.name(group))).collect()
}

/// Hits of one measurement, and measurements.
const HITS: u32 = 200;
const ROUNDS: usize = 9;

/// What a hit of a probe costs here, ns.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Without arguments: median, and the second least and second most of nine means of 200 hits in a loop of nothing else.
    hit: [f64; 3],
    /// More for each number, and for each text of 16 letters.
    number: f64,
    text: f64,
}

/// Numbers of the probe by which the price of one is measured.
const NUMBERS: usize = 4;
/// A text of 16 letters.
const TEXT: &std::ffi::CStr = c"sixteen letters.";

impl Price {
    /// Measured on code of our own, before the recording begins; the instance's buffers are empty afterwards.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn measured(tracefs: &Tracefs, instance: &Instance) -> io::Result<Price> {
        let place = own_place(nothing as *const () as usize);
        let place = place.ok_or_else(|| io::Error::other("own code is in no mapping"))?;
        let without = measure()[ROUNDS / 2];
        let with = |event: &str, args: &str| {
            let uprobe = Uprobe {
                kind: 'p',
                event: event.to_owned(),
                text: format!("/proc/self/exe:{place:#x}{args}"),
                use_of_it: "",
            };
            let group = instance.group();
            let probe = Probes::add(tracefs.root(), &group, std::slice::from_ref(&uprobe))?;
            let means = instance.with_event(&uprobe.name(&group), measure);
            drop(probe);
            means.map(|means| means.map(|ns| (ns - without).max(0.0)))
        };
        let hit = with("price", "")?;
        let each = hit[ROUNDS / 2];
        let more = |means: [f64; ROUNDS], n: usize| (means[ROUNDS / 2] - each).max(0.0) / n as f64;
        let numbers = " a=%sp:u64 b=%sp:u64 c=%sp:u64 d=%sp:u64";
        let text = match super::uprobes::first_argument() {
            Some(register) => more(with("price_text", &format!(" a=+0(%{register}):string"))?, 1),
            None => 0.0,
        };
        Ok(Price {
            hit: [each, hit[1], hit[ROUNDS - 2]],
            number: more(with("price_numbers", numbers)?, NUMBERS),
            text,
        })
    }

    /// Of a hit of this probe: median, and ends of a range.
    pub fn of(&self, probe: &UsdtProbe) -> [f64; 3] {
        let n = |is_one: &dyn Fn(&str) -> bool| probe.args.iter().filter(|a| is_one(a)).count();
        let numbers = n(&|arg| matches!(arg, "signed" | "unsigned")) as f64;
        let texts = n(&|arg| arg == "text") as f64;
        self.hit.map(|ns| ns + numbers * self.number + texts * self.text)
    }
}

/// Means of calls of [`nothing`], ns, ascending.
fn measure() -> [f64; ROUNDS] {
    let mut means = [0.0; ROUNDS];
    for mean in &mut means {
        let begin = Instant::now();
        (0..HITS).for_each(|_| {
            std::hint::black_box(nothing as extern "C" fn(*const std::ffi::c_char))(TEXT.as_ptr());
        });
        *mean = begin.elapsed().as_nanos() as f64 / f64::from(HITS);
    }
    means.sort_by(f64::total_cmp);
    means
}

/// A function that begins with what a probe's site is.
#[inline(never)]
extern "C" fn nothing(_: *const std::ffi::c_char) {
    // SAFETY: does nothing.
    unsafe { std::arch::asm!("nop", options(nomem, nostack, preserves_flags)) };
}

/// The place in this program's file of an address of its code.
fn own_place(address: usize) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (from, to, offset) = (number(from)?, number(to)?, number(fields.nth(1)?)?);
        let address = address as u64;
        (from..to).contains(&address).then(|| address - from + offset)
    })
}

/// Distance between two looks at the counts.
const LOOK: Duration = Duration::from_millis(100);

/// Counts hits, and switches probes off that are hit too often.
#[derive(Debug)]
pub struct Watch {
    /// Hits per second that all probes together may have.
    limit: f64,
    /// Each event with its probe's name.
    names: BTreeMap<String, String>,
    /// Hits of each event at the last look.
    before: BTreeMap<String, u64>,
    began: Instant,
    last: Instant,
}

impl Watch {
    /// None: nothing is to be watched.
    pub fn new(probes: &[UsdtProbe], limit: u64) -> Option<Watch> {
        let names: BTreeMap<_, _> =
            probes.iter().map(|p| (p.event.clone(), p.name.clone())).collect();
        let now = Instant::now();
        (limit > 0 && !names.is_empty()).then_some(Watch {
            limit: limit as f64,
            names,
            before: BTreeMap::new(),
            began: now,
            last: now,
        })
    }

    /// The events to be switched off, with a sentence about each probe; from the kernel's counts.
    pub fn look(&mut self, counts: impl FnOnce() -> String) -> Vec<(Vec<String>, String)> {
        let past = self.last.elapsed();
        if past < LOOK || self.names.is_empty() {
            return Vec::new();
        }
        self.last = Instant::now();
        self.judge(&counts(), past)
    }

    fn judge(&mut self, counts: &str, past: Duration) -> Vec<(Vec<String>, String)> {
        let by_event: BTreeMap<&str, &String> =
            self.names.keys().filter_map(|name| Some((name.split_once('/')?.1, name))).collect();
        // FILE EVENT HITS
        let rows = counts.lines().filter_map(|line| {
            let mut words = line.split_whitespace().rev();
            let hits: u64 = words.next()?.parse().ok()?;
            Some(((*by_event.get(words.next()?)?).clone(), hits))
        });
        let now: BTreeMap<String, u64> = rows.collect();
        // Both ends of a slice go together.
        let mut rates: BTreeMap<String, (f64, Vec<String>)> = BTreeMap::new();
        for (event, &hits) in &now {
            let new = hits.saturating_sub(self.before.get(event).copied().unwrap_or(0));
            let stem = stem(&self.names[event]).0.to_owned();
            let entry = rates.entry(stem).or_default();
            entry.0 += new as f64 / past.as_secs_f64();
            entry.1.push(event.clone());
        }
        self.before = now;
        let mut sum: f64 = rates.values().map(|(rate, _)| rate).sum();
        let mut rates: Vec<_> = rates.into_iter().collect();
        rates.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        let mut off = Vec::new();
        for (_, (rate, events)) in rates {
            if sum <= self.limit {
                break;
            }
            sum -= rate;
            // Beginnings first: an end without one is a mark, a beginning without an end would be a slice that lasts.
            let mut events = events;
            events.sort_by_key(|event| stem(&self.names[event]).1 != Side::Begin);
            let mut names: Vec<String> =
                events.iter().filter_map(|event| self.names.remove(event)).collect();
            names.sort_unstable();
            names.dedup();
            let why = format!(
                "USDT: {} switched off {:.1} s after the start: {} hits a second, and --usdt-limit allows {} of all probes; earlier hits are kept",
                names.join(" and "),
                self.began.elapsed().as_secs_f64(),
                rate.round(),
                self.limit
            );
            off.push((events, why));
        }
        off
    }
}
