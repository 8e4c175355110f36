//! What the kernel events of USDT probes mean, from the recording's list of them.
//!
//! Two probes with the names of a beginning and an end (`gc__start`, `gc__done`) are one pair when both were recorded. The probes
//! of the C library's mutexes are lock calls, as those of named lock functions are.
use kasuri_base::annotation::ArgType;
use kasuri_base::usdt::{COUNTED, Side, stem};
use kasuri_format::meta::UsdtProbe;
use kasuri_model::input::LockStep;
use std::collections::HashMap;

/// The first number of locks of probes; lower ones are the recording's lock functions.
pub(crate) const FIRST_LOCK: u16 = 0x8000;

/// How one kind of event is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// `PROVIDER:PROBE`.
    pub probe: String,
    /// The name of its slice.
    pub name: String,
    /// Which end of a slice it is.
    pub side: Side,
    /// The same for both ends.
    pub pair: u16,
    /// Its arguments that can be read.
    pub args: Vec<Arg>,
    /// The argument, in `args`, whose text names the slice.
    pub named_by: Option<usize>,
    /// It is a step of a mutex, with this number.
    pub lock: Option<(LockStep, u16)>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arg {
    /// What users see.
    pub name: String,
    /// How its value is to be understood.
    pub kind: ArgType,
    /// Where its value is.
    pub from: From,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// In this field of the event.
    Field(String),
    /// In the program's code.
    Constant(i64),
}

/// The meaning of each event, by its name.
pub(crate) fn meanings(probes: &[UsdtProbe]) -> HashMap<String, Meaning> {
    let mut pairs: HashMap<&str, (u16, [bool; 2])> = HashMap::new();
    for probe in probes {
        let (stem, side) = stem(&probe.name);
        let n = pairs.len() as u16;
        let pair = pairs.entry(stem).or_insert((n, [false; 2]));
        match side {
            Side::Begin => pair.1[0] = true,
            Side::End => pair.1[1] = true,
            Side::Point => {}
        }
    }
    let meaning = |probe: &UsdtProbe| {
        let (stem, side) = stem(&probe.name);
        let (pair, both) = pairs.get(stem).copied().unwrap_or_default();
        let side = if both == [true; 2] { side } else { Side::Point };
        let args: Vec<Arg> =
            (probe.args.iter().zip(1..)).filter_map(|(text, n)| argument(text, n, side)).collect();
        // Of a function, its file and its name are given: the name is the last text.
        let names_itself = ["function", "method", "sub"];
        let is_function = names_itself.iter().any(|word| stem.ends_with(word));
        let text = args.iter().rposition(|a| a.kind == ArgType::Str);
        let meaning = Meaning {
            probe: probe.name.clone(),
            name: if side == Side::Point { &probe.name } else { stem }.to_owned(),
            side,
            pair,
            named_by: text.filter(|_| is_function && side != Side::Point),
            lock: lock(&probe.name).filter(|_| !args.is_empty()),
            args,
        };
        (probe.event.clone(), meaning)
    };
    probes.iter().map(meaning).collect()
}

fn argument(text: &str, n: usize, side: Side) -> Option<Arg> {
    let field = || From::Field(format!("a{n}"));
    let (kind, from) = match text {
        "signed" => (ArgType::I64, field()),
        "unsigned" => (ArgType::U64, field()),
        "text" => (ArgType::Str, field()),
        _ => {
            let number = text.strip_prefix('=')?.parse().ok()?;
            (ArgType::I64, From::Constant(number))
        }
    };
    let name = match side {
        Side::End => format!("end_arg{n}"),
        _ => format!("arg{n}"),
    };
    Some(Arg { name, kind, from })
}

/// The step of a mutex that a probe of the C library tells of: its first argument is the mutex.
fn lock(name: &str) -> Option<(LockStep, u16)> {
    let (provider, probe) = name.split_once(':')?;
    if !matches!(provider, "libc" | "libpthread") {
        return None;
    }
    let step = match probe {
        "mutex_entry" | "mutex_timedlock_entry" | "mutex_clocklock_entry" => LockStep::Request,
        "mutex_acquired" | "mutex_timedlock_acquired" | "mutex_clocklock_acquired" => {
            LockStep::Acquired
        }
        "mutex_release" => LockStep::Released,
        _ => return None,
    };
    Some((step, FIRST_LOCK))
}

/// The name under which the hits of a probe are counted.
pub(crate) fn counted_as(probe: &str) -> String {
    format!("{COUNTED}{probe}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(event: &str, name: &str, args: &[&str]) -> UsdtProbe {
        UsdtProbe {
            event: event.to_owned(),
            name: name.to_owned(),
            file: String::new(),
            args: args.iter().map(|a| (*a).to_owned()).collect(),
        }
    }

    #[test]
    fn only_two_recorded_ends_make_a_slice() {
        let found = meanings(&[
            probe("g/usdt_0", "python:gc__start", &["signed"]),
            probe("g/usdt_1", "python:gc__done", &["signed"]),
            probe("g/usdt_2", "python:import__find__load__start", &["text"]),
            probe("g/usdt_3", "libstdcxx:throw", &["unsigned", "none: why"]),
        ]);
        let of = |n: usize| &found[&format!("g/usdt_{n}")];
        assert_eq!((&*of(0).name, of(0).side), ("python:gc", Side::Begin));
        assert_eq!((of(1).side, of(1).pair), (Side::End, of(0).pair));
        assert_eq!(of(1).args[0].name, "end_arg1");
        assert_eq!(of(2).side, Side::Point);
        assert_eq!(of(2).name, "python:import__find__load__start");
        assert_eq!(of(3).args.len(), 1);
    }

    #[test]
    fn a_function_is_named_by_its_last_text() {
        let args = ["text", "text", "signed"];
        let found = meanings(&[
            probe("e", "python:function__entry", &args),
            probe("r", "python:function__return", &args),
        ]);
        assert_eq!((found["e"].named_by, found["r"].named_by), (Some(1), Some(1)));
    }

    #[test]
    fn mutexes_of_the_c_library_are_locks() {
        let found = meanings(&[
            probe("a", "libc:mutex_entry", &["unsigned"]),
            probe("b", "libc:mutex_acquired", &["unsigned"]),
            probe("c", "libc:mutex_release", &["unsigned"]),
            probe("d", "mine:mutex_release", &["unsigned"]),
            probe("e", "libc:mutex_init", &["unsigned"]),
        ]);
        let step = |name: &str| found[name].lock.map(|l| l.0);
        assert_eq!(step("a"), Some(LockStep::Request));
        assert_eq!(step("b"), Some(LockStep::Acquired));
        assert_eq!(step("c"), Some(LockStep::Released));
        assert_eq!((step("d"), step("e")), (None, None));
    }

    #[test]
    fn constants_are_arguments_and_nonsense_is_none() {
        let constant = argument("=-7", 2, Side::Point).unwrap();
        assert_eq!((constant.from, &*constant.name), (From::Constant(-7), "arg2"));
        assert_eq!(argument("=x", 1, Side::Point), None);
        assert_eq!(argument("", 1, Side::Point), None);
    }
}
