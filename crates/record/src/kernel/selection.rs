//! Named selections of kernel events, and the purpose of each event.
//!
//! `kasuri record --events locks,irq` and `kasuri events` know the same names. A user's own selections are in a small
//! file, `$XDG_CONFIG_HOME/kasuri/selections` (usually `~/.config/kasuri/selections`), one per line: `NAME = EVENT,
//! EVENT, ...`, where EVENT is `system:name`, `system:*` or another selection; `#` begins a comment.
//!
//! Inside the recorder an event is written `system/name`, as its directory below `events/`.
use crate::kernel::tracefs::{DEFAULT_EVENTS, IRQ_EVENTS, RUN_TIME_EVENTS, SYSCALL_EVENTS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A selection that comes with Kasuri.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The question it answers.
    pub what: &'static str,
    /// `system/name` (or `system/*`), with what is lost without it.
    pub events: &'static [(&'static str, &'static str)],
}

const LOCK_EVENTS: &[(&str, &str)] = &[
    ("lock/contention_begin", "waits for kernel locks"),
    ("lock/contention_end", "waits for kernel locks"),
    ("syscalls/sys_enter_futex", "waits for locks of programs"),
    ("syscalls/sys_exit_futex", "waits for locks of programs"),
];

const IO_EVENTS: &[(&str, &str)] = &[
    ("block/block_rq_issue", "requests to disks"),
    ("block/block_rq_complete", "requests to disks"),
    ("writeback/writeback_start", "writing dirty pages back"),
    ("net/net_dev_queue", "packets sent"),
    ("net/netif_receive_skb", "packets received"),
];

/// All selections that come with Kasuri.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "timeline",
        what: "thread states, CPUs, wake-ups, migrations: always recorded",
        events: DEFAULT_EVENTS,
    },
    Builtin {
        name: "run-time",
        what: "CPU time of each thread as the kernel counts it: recorded unasked where a kernel hides switches",
        events: RUN_TIME_EVENTS,
    },
    Builtin { name: "locks", what: "contention of kernel locks, futex calls", events: LOCK_EVENTS },
    Builtin { name: "syscalls", what: "each system call (as --syscalls)", events: SYSCALL_EVENTS },
    Builtin { name: "io", what: "disk requests and network packets", events: IO_EVENTS },
    Builtin { name: "irq", what: "interrupts and softirqs (as --irq)", events: IRQ_EVENTS },
    Builtin {
        name: "all",
        what: "every event of the kernel",
        events: &[("*/*", "everything else")],
    },
];

/// The purpose of an event in words; "" when no analysis uses it.
pub fn purpose(event: &str) -> &'static str {
    BUILTIN
        .iter()
        .flat_map(|s| s.events)
        .find(|(name, _)| *name == event)
        .map_or("", |(_, purpose)| purpose)
}

/// An error in a selection.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectionError {
    /// Neither an event nor a selection.
    #[error("{0:?} is neither system:name nor a selection ({1}); `kasuri events` lists both")]
    Unknown(String, String),
    /// A line of the file that is no definition.
    #[error("{file}:{line}: found {found:?}, needed NAME = EVENT, EVENT, ...")]
    Line {
        /// Path.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The line.
        found: String,
    },
    /// A selection that contains itself.
    #[error("selection {0:?} contains itself; take it out of its own definition in {1}")]
    Circle(String, String),
    /// The file is there but cannot be read.
    #[error("{0}: {1}")]
    File(String, String),
}

/// The selections of Kasuri and of the user.
#[derive(Clone, Debug, Default)]
pub struct Selections {
    own: BTreeMap<String, Vec<String>>,
    file: String,
}

/// The path of the file with the user's selections.
pub fn path() -> Option<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(config.join("kasuri/selections"))
}

impl Selections {
    /// Reads the user's file; if there is none, only our own selections exist.
    ///
    /// # Errors
    /// When the file cannot be read, or a line of it is no definition.
    pub fn load() -> Result<Selections, SelectionError> {
        let Some(path) = path() else {
            return Ok(Selections::default());
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => Selections::parse(&path, &text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Selections::default()),
            // $HOME is the home of another user, as after dropping root.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Ok(Selections::default()),
            Err(e) => Err(SelectionError::File(path.display().to_string(), e.to_string())),
        }
    }

    /// Reads definitions.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(path: &Path, text: &str) -> Result<Selections, SelectionError> {
        let file = path.display().to_string();
        let mut own = BTreeMap::new();
        for (ix, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let bad = || SelectionError::Line {
                file: file.clone(),
                line: ix + 1,
                found: whole.to_owned(),
            };
            let (name, events) = line.split_once('=').ok_or_else(bad)?;
            let name = name.trim();
            let events: Vec<String> =
                events.split(',').map(|e| e.trim().to_owned()).filter(|e| !e.is_empty()).collect();
            if !sound(name) || events.is_empty() {
                return Err(bad());
            }
            own.insert(name.to_owned(), events);
        }
        Ok(Selections { own, file })
    }

    /// Names of all selections, ours first.
    pub fn names(&self) -> Vec<&str> {
        let ours = BUILTIN.iter().map(|b| b.name);
        ours.chain(self.own.keys().map(String::as_str)).collect()
    }

    /// The events of `wanted`, which holds selections and events (`system:name`), as `system/name` with the
    /// information that is lost without each. Each event appears once, in the order of first mention.
    ///
    /// # Errors
    /// When a name is neither an event nor a selection.
    pub fn resolve(&self, wanted: &[String]) -> Result<Vec<(String, String)>, SelectionError> {
        let mut events = Vec::new();
        for name in wanted {
            self.add(name, &mut events, &mut Vec::new())?;
        }
        Ok(events)
    }

    fn add(
        &self,
        name: &str,
        events: &mut Vec<(String, String)>,
        within: &mut Vec<String>,
    ) -> Result<(), SelectionError> {
        if within.iter().any(|w| w == name) {
            return Err(SelectionError::Circle(name.to_owned(), self.file.clone()));
        }
        let mut push = |event: &str, lost: &str| {
            if !events.iter().any(|(known, _)| known == event) {
                events.push((event.to_owned(), lost.to_owned()));
            }
        };
        if let Some(own) = self.own.get(name) {
            within.push(name.to_owned());
            for part in own {
                self.add(part, events, within)?;
            }
            within.pop();
        } else if let Some(ours) = BUILTIN.iter().find(|b| b.name == name) {
            ours.events.iter().for_each(|(event, lost)| push(event, lost));
        } else if let Some((system, event)) = name.split_once([':', '/'])
            && sound(system)
            && (event == "*" || sound(event))
        {
            push(&format!("{system}/{event}"), &format!("{system}:{event}, which was asked for"));
        } else {
            return Err(SelectionError::Unknown(name.to_owned(), self.names().join(", ")));
        }
        Ok(())
    }
}

/// Whether `part` can be the name of a directory below `events/`, and of no place outside of it.
fn sound(part: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    !part.is_empty() && part.chars().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Selections, SelectionError> {
        Selections::parse(Path::new("s"), text)
    }

    fn names(selections: &Selections, wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
        let events = selections.resolve(&wanted).unwrap();
        events.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn selections_combine_and_repeat_nothing() {
        let s = parse("# mine\nweb = irq, net:net_dev_queue, sched:sched_switch\n both=web,irq\n")
            .unwrap();
        let web = names(&s, &["web"]);
        assert_eq!(web.len(), IRQ_EVENTS.len() + 2);
        assert_eq!(names(&s, &["both"]), web);
        assert_eq!(names(&s, &["all"]), ["*/*"]);
        assert!(s.names().contains(&"both"));
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        let found = "web irq".to_owned();
        let file = "s".to_owned();
        assert_eq!(
            parse("\nweb irq\n").unwrap_err(),
            SelectionError::Line { file, line: 2, found }
        );
        for text in ["= irq", "a b = irq", "x =", "x = ,"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let circle = parse("a = b\nb = a").unwrap();
        assert!(matches!(circle.resolve(&["a".to_owned()]), Err(SelectionError::Circle(..))));
        for name in ["nonsense", "../../x:y", "a:b/../c", "sched:", ":x"] {
            let unknown = Selections::default().resolve(&[name.to_owned()]);
            assert!(matches!(unknown, Err(SelectionError::Unknown(..))), "{name}");
        }
    }

    #[test]
    fn every_event_of_ours_has_a_purpose() {
        for event in BUILTIN.iter().flat_map(|s| s.events) {
            assert!(!purpose(event.0).is_empty(), "{}", event.0);
        }
    }
}
