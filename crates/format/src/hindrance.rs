//! What kept rings or names of programs from growing: limits of the programs, and full file systems.
//!
//! A program writes it into the session's control page, the recorder into `meta.json`; both come from strangers, so all that is
//! taken is numbers. Spec: docs/format.md.
use crate::ring::{HINDRANCES, Lost};
use serde::{Deserialize, Serialize};

kasuri_base::numbered!(
    /// `enum kasuri_hindrance`.
    Cause: u8 {
        /// The file system of the rings was full.
        Space = 0,
        /// The user's share of it was.
        Quota = 1,
        /// RLIMIT_FSIZE.
        FileSize = 2,
        /// RLIMIT_NOFILE.
        Files = 3,
        /// RLIMIT_AS.
        Addresses = 4,
        /// RLIMIT_DATA.
        Data = 5,
        /// RLIMIT_MEMLOCK.
        Locked = 6,
        /// The error says what.
        Other = 7,
    }
);

impl Cause {
    /// The key in `meta.json`.
    pub const fn key(self) -> &'static str {
        match self {
            Cause::Space => "space",
            Cause::Quota => "quota",
            Cause::FileSize => "file_size",
            Cause::Files => "files",
            Cause::Addresses => "addresses",
            Cause::Data => "data",
            Cause::Locked => "locked",
            Cause::Other => "other",
        }
    }

    fn of_key(key: &str) -> Option<Cause> {
        let mut all = (0..HINDRANCES as u8).filter_map(Cause::from_number);
        all.find(|cause| cause.key() == key)
    }
}

/// One of them: the first error of its cause in a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hindrance {
    /// [`Cause::key`].
    pub cause: String,
    /// What the system call said, as the program's machine numbers errors.
    pub errno: i32,
    /// The limit of the program that goes with it, as `getrlimit` gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl Hindrance {
    /// Those that a control page tells: `errors` and `limits` by the number of their [`Cause`], from programs of any intent.
    pub fn all(errors: [u32; HINDRANCES], limits: [u64; HINDRANCES]) -> Vec<Hindrance> {
        let told = |number: usize| {
            let cause = Cause::from_number(number as u8)?;
            let errno = i32::try_from(errors[number]).ok().filter(|e| (1..=4095).contains(e))?;
            let limit = Some(limits[number]).filter(|&limit| limit != u64::MAX);
            Some(Hindrance { cause: cause.key().to_owned(), errno, limit })
        };
        (0..HINDRANCES).filter_map(told).collect()
    }

    fn cause(&self) -> Cause {
        Cause::of_key(&self.cause).unwrap_or(Cause::Other)
    }

    /// Whether a larger place for the rings is the remedy.
    pub fn is_of_space(&self) -> bool {
        matches!(self.cause(), Cause::Space | Cause::Quota)
    }

    /// Whether events may have been lost for it with this cause.
    fn goes_with(&self, lost: Lost) -> bool {
        match lost {
            Lost::Space => self.is_of_space(),
            Lost::Limit => !self.is_of_space(),
            Lost::Site => true,
            _ => false,
        }
    }
}

impl std::fmt::Display for Hindrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let refused = |f: &mut std::fmt::Formatter<'_>, what, letter, name, limit| {
            write!(f, "{what} was refused where `ulimit -{letter}` allows {limit} bytes ({name})")
        };
        match (self.cause(), self.limit) {
            (Cause::Space, _) => f.write_str("their file system was full"),
            (Cause::Quota, _) => f.write_str("the user's quota of their file system was used up"),
            (Cause::FileSize, Some(n)) => {
                write!(f, "`ulimit -f` allows files of {n} bytes (RLIMIT_FSIZE)")
            }
            (Cause::Files, Some(n)) => {
                write!(f, "`ulimit -n` allows {n} open files (RLIMIT_NOFILE)")
            }
            (Cause::Addresses, Some(n)) => refused(f, "memory", 'v', "RLIMIT_AS", n),
            (Cause::Data, Some(n)) => refused(f, "memory", 'd', "RLIMIT_DATA", n),
            (Cause::Locked, Some(n)) => refused(f, "locked memory", 'l', "RLIMIT_MEMLOCK", n),
            // Not only limits: as many mappings as a process may have, as many files as the system may.
            _ => write!(f, "{}", std::io::Error::from_raw_os_error(self.errno)),
        }
    }
}

/// In words, what kept programs from having more when events were `lost`; none: nothing told.
pub fn words(all: &[Hindrance], lost: Option<Lost>) -> Option<String> {
    let with = all.iter().filter(|one| lost.is_none_or(|lost| one.goes_with(lost)));
    let words: Vec<String> = with.map(Hindrance::to_string).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_write_is_numbers() {
        assert_eq!(Hindrance::all([0; HINDRANCES], [7; HINDRANCES]), []);
        assert_eq!(Hindrance::all([u32::MAX; HINDRANCES], [7; HINDRANCES]), []);
        assert_eq!(Hindrance::all([4096; HINDRANCES], [7; HINDRANCES]), []);
        let mut limits = [u64::MAX; HINDRANCES];
        limits[Cause::Files as usize] = 64;
        let all = Hindrance::all([1; HINDRANCES], limits);
        assert_eq!(all.len(), HINDRANCES);
        assert!(all.iter().all(|one| one.limit.is_some() == (one.cause == "files")), "{all:?}");
        // A file may have any text for a cause.
        let evil = Hindrance { cause: "\x1b[31m".into(), errno: i32::MIN, limit: Some(1) };
        assert!(!evil.to_string().contains('\x1b') && !evil.is_of_space());
    }

    #[test]
    fn each_limit_goes_with_its_loss() {
        let one = |cause: Cause| Hindrance { cause: cause.key().into(), errno: 12, limit: Some(5) };
        let all: Vec<Hindrance> =
            (0..HINDRANCES as u8).filter_map(Cause::from_number).map(one).collect();
        assert_eq!(all.len(), HINDRANCES);
        let of_space = words(&all, Some(Lost::Space)).unwrap();
        assert_eq!(
            of_space,
            "their file system was full; the user's quota of their file system was used up"
        );
        let of_limit = words(&all, Some(Lost::Limit)).unwrap();
        for name in ["FSIZE", "NOFILE", "AS", "DATA", "MEMLOCK"] {
            assert!(of_limit.contains(&format!("RLIMIT_{name}")), "{of_limit}");
        }
        assert!(of_limit.ends_with("(os error 12)"), "{of_limit}");
        assert!(!of_limit.contains("full"), "{of_limit}");
        for letter in ["f", "n", "v", "d", "l"] {
            assert!(of_limit.contains(&format!("`ulimit -{letter}` allows ")), "{of_limit}");
        }
        let keys: Vec<&str> = all.iter().map(|one| &*one.cause).collect();
        assert_eq!(
            keys,
            ["space", "quota", "file_size", "files", "addresses", "data", "locked", "other"]
        );
        assert!(words(&all, None).is_some() && words(&all, None) == words(&all, Some(Lost::Site)));
        assert_eq!(words(&all, Some(Lost::Full)), None);
        assert_eq!(words(&[], None), None);
    }
}
