//! Named configurations: the tracers that are switched on while the operations run.
use crate::error::{Error, Result};
use kasuri_record::tracefs::{Catalogue, DEFAULT_EVENTS, SYSCALL_EVENTS};

/// The tracer that is switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tracing instance with no event on, and annotations compiled in without a recorder.
    Present,
    /// Annotations only: one slice around each operation.
    Annotations,
    /// These kernel events (`system/name`, or `system` for all of one).
    Events(Vec<String>),
    /// All kernel events.
    All,
    /// Another tracer, started by a shell command and ended by SIGINT.
    Command(String),
}

/// A configuration with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Heads its column.
    pub name: String,
    /// Description.
    pub what: String,
    /// The tracer that is switched on.
    pub kind: Kind,
}

/// Names of the configurations that are measured unless told otherwise.
pub const STANDARD: &[&str] =
    &["present", "annotations", "sched", "default", "syscalls", "irq", "all"];

fn names(events: &[(&str, &str)]) -> Vec<String> {
    events.iter().map(|(name, _)| (*name).to_owned()).collect()
}

impl Config {
    /// The configuration with this name; any other name is taken for a subsystem.
    ///
    /// # Errors
    /// When neither a configuration nor a subsystem has this name.
    pub fn named(name: &str, catalogue: Option<&Catalogue>) -> Result<Config> {
        let (what, kind) = match name {
            "present" => (
                "a tracing instance with nothing switched on; annotations without a recorder",
                Kind::Present,
            ),
            "annotations" => ("one annotated slice around each operation", Kind::Annotations),
            "sched" => (
                "sched_switch and sched_waking",
                Kind::Events(vec![
                    "sched/sched_switch".to_owned(),
                    "sched/sched_waking".to_owned(),
                ]),
            ),
            "default" => ("what `kasuri record` switches on", Kind::Events(names(DEFAULT_EVENTS))),
            "syscalls" => (
                "`kasuri record --syscalls`",
                Kind::Events([names(DEFAULT_EVENTS), names(SYSCALL_EVENTS)].concat()),
            ),
            "all" => ("every event of the kernel", Kind::All),
            system => {
                let known = catalogue.is_none_or(|c| c.has_system(system));
                if !known || system.contains('/') {
                    return Err(Error::NoConfig {
                        name: name.to_owned(),
                        known: STANDARD.join(", "),
                    });
                }
                return Ok(Config {
                    name: name.to_owned(),
                    what: format!("all events of the kernel's subsystem {system}"),
                    kind: Kind::Events(vec![system.to_owned()]),
                });
            }
        };
        Ok(Config { name: name.to_owned(), what: what.to_owned(), kind })
    }

    /// Another tracer: sh runs `command`, and SIGINT ends it.
    pub fn command(name: &str, command: &str) -> Config {
        Config {
            name: name.to_owned(),
            what: format!("`{command}`"),
            kind: Kind::Command(command.to_owned()),
        }
    }

    /// Whether it needs the kernel's trace file system.
    pub fn needs_tracefs(&self) -> bool {
        matches!(self.kind, Kind::Present | Kind::Events(_) | Kind::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_names_are_known_and_others_are_subsystems() {
        for name in STANDARD {
            assert_eq!(Config::named(name, None).unwrap().name, *name);
        }
        assert_eq!(
            Config::named("kmem", None).unwrap().kind,
            Kind::Events(vec!["kmem".to_owned()])
        );
        assert!(Config::named("a/b", None).is_err());
    }
}
