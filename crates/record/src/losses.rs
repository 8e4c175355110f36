//! Events that a recording lacks, counted by cause or marked as unknown. A recording claims that nothing was lost
//! only if all counts are known.
use kasuri_format::hindrance::{self, Hindrance};
use kasuri_format::ring::{LOST_CAUSES, Lost};

/// Events that were emitted and not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Kernel events that found their buffer full, as the kernel counts them.
    pub kernel: u64,
    /// Kernel events that the recorder had no room for on the disk.
    pub kernel_unwritten: u64,
    /// Annotations, by [`Lost`].
    pub annotations: [u64; LOST_CAUSES],
    /// Annotations that a flight recorder dropped by design: older than those that it kept.
    pub overwritten: u64,
    /// The rings were kept small, because shared memory has little room.
    pub rings_were_small: bool,
    /// What kept rings or names of programs from growing.
    pub hindrances: Vec<Hindrance>,
    /// Losses whose number is unknown, with the reason.
    pub unknown: Vec<String>,
}

impl Losses {
    /// Adds the losses of another file of the same recording.
    pub fn add(&mut self, other: &Losses) {
        // The kernel's counters continue over all snapshots.
        self.kernel = self.kernel.max(other.kernel);
        self.kernel_unwritten = self.kernel_unwritten.saturating_add(other.kernel_unwritten);
        for (sum, n) in self.annotations.iter_mut().zip(other.annotations) {
            *sum = sum.saturating_add(n);
        }
        self.overwritten = self.overwritten.saturating_add(other.overwritten);
        self.rings_were_small |= other.rings_were_small;
        for one in &other.hindrances {
            if !self.hindrances.contains(one) {
                self.hindrances.push(one.clone());
            }
        }
        for why in &other.unknown {
            if !self.unknown.contains(why) {
                self.unknown.push(why.clone());
            }
        }
    }

    /// Annotations lost, all causes.
    pub fn annotations_lost(&self) -> u64 {
        self.annotations.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// A line for each loss, most important first: the number of events, their kind, the cause, and a remedy for the
    /// next time.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |n: u64, what: &str, why: &str| {
            if n > 0 {
                lines.push(format!("{n} {what} LOST ({why})"));
            }
        };
        add(self.kernel, "kernel events", "buffer full: try --buffer-mb 64");
        add(self.kernel_unwritten, "kernel events", "disk full");
        for (cause, &n) in self.annotations.iter().enumerate() {
            let cause_of = Lost::from_number(cause as u8);
            let met = cause_of.and_then(|lost| hindrance::words(&self.hindrances, Some(lost)));
            let why = match cause_of {
                Some(Lost::Full) if self.rings_were_small => {
                    "ring full, as shared memory has little room: a larger /dev/shm, in a container by --shm-size".to_owned()
                }
                // A program that confined itself by seccomp gets no more rings; how many of them did is not recorded.
                Some(Lost::Full) => {
                    "ring full: try --ring-mb; no help to a program that confined itself".to_owned()
                }
                Some(lost) => match (lost, met) {
                    (Lost::Space, None) => {
                        "no space for rings: make their file system larger, /dev/shm as a rule, in a container by --shm-size".to_owned()
                    }
                    (Lost::Space, Some(met)) => {
                        format!("no space for rings: {met}; /dev/shm as a rule, in a container larger by --shm-size")
                    }
                    (_, Some(met)) => format!("{}: {met}", lost.as_str()),
                    (Lost::Limit, None) => {
                        "limit of the program: `ulimit -f`, `-n`, `-v`, or its mappings, leave no room for more rings".to_owned()
                    }
                    (_, None) => lost.as_str().to_owned(),
                },
                None => format!("cause {cause}, unknown to this kasuri"),
            };
            add(n, "annotations", &why);
        }
        lines
    }
}

impl std::fmt::Display for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut lines = self.lines();
        if !self.unknown.is_empty() {
            lines.push(format!("what else was lost is not known: {}", self.unknown.join("; ")));
            if lines.len() == 1 {
                lines[0] = lines[0].replacen("what else", "what", 1);
            }
        }
        if lines.is_empty() {
            lines.push("none lost".to_owned());
        }
        if self.overwritten > 0 {
            let n = self.overwritten;
            lines.push(format!(
                "{n} older annotations overwritten (a flight recorder keeps the newest)"
            ));
        }
        f.write_str(&lines.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_be_lost_only_when_that_is_known() {
        let mut losses = Losses::default();
        assert_eq!(losses.to_string(), "none lost");
        losses.overwritten = 9;
        assert_eq!(
            losses.to_string(),
            "none lost, 9 older annotations overwritten (a flight recorder keeps the newest)"
        );
        losses.overwritten = 0;
        losses.unknown.push("page 3 is damaged".into());
        assert_eq!(losses.to_string(), "what was lost is not known: page 3 is damaged");
        losses.kernel_unwritten = 7;
        losses.annotations[Lost::Full as usize] = 80_000;
        assert_eq!(
            losses.to_string(),
            "7 kernel events LOST (disk full), 80000 annotations LOST (ring full: try --ring-mb; no help to a program that confined itself), \
             what else was lost is not known: page 3 is damaged"
        );
    }

    #[test]
    fn each_loss_has_its_number_its_cause_and_its_remedy() {
        let mut losses = Losses { kernel: 1, overwritten: 1, ..Losses::default() };
        assert_eq!(losses.lines(), ["1 kernel events LOST (buffer full: try --buffer-mb 64)"]);
        assert!(
            losses.to_string().ends_with(
                ", 1 older annotations overwritten (a flight recorder keeps the newest)"
            )
        );
        losses = Losses { annotations: [1; LOST_CAUSES], ..Losses::default() };
        let line = |losses: &Losses, lost: Lost| losses.lines()[lost as usize].clone();
        assert_eq!(losses.lines().len(), LOST_CAUSES);
        assert!(line(&losses, Lost::Full).contains("(ring full: try --ring-mb;"));
        assert!(line(&losses, Lost::Space).contains("(no space for rings: make their"));
        assert!(line(&losses, Lost::Limit).contains("(limit of the program: `ulimit -f`, `-n`"));
        losses.rings_were_small = true;
        assert!(line(&losses, Lost::Full).contains("(ring full, as shared memory has little room"));
        // With what was in the way, where it was that.
        let met = |cause: &str, limit| Hindrance { cause: cause.into(), errno: 28, limit };
        losses.hindrances = vec![met("space", None), met("files", Some(64))];
        assert!(line(&losses, Lost::Space).contains(
            "(no space for rings: their file system was full; /dev/shm as a rule, in a container"
        ));
        let files = "1 annotations LOST (limit of the program: `ulimit -n` allows 64 open files (RLIMIT_NOFILE))";
        assert_eq!(line(&losses, Lost::Limit), files);
        assert!(!line(&losses, Lost::Big).contains("full"), "{}", line(&losses, Lost::Big));
    }

    #[test]
    fn losses_of_snapshots_add_up() {
        let one = Losses {
            kernel: 5,
            kernel_unwritten: 2,
            annotations: [1; LOST_CAUSES],
            overwritten: 3,
            rings_were_small: true,
            hindrances: vec![Hindrance { errno: 1, ..Hindrance::default() }],
            unknown: vec!["x".into()],
        };
        let mut sum = Losses::default();
        sum.add(&one);
        assert_eq!(sum, one);
        sum.add(&one);
        assert_eq!(
            (sum.kernel, sum.annotations_lost(), sum.overwritten),
            (5, 2 * LOST_CAUSES as u64, 6)
        );
        // The kernel's counters are those since the start; what is said is said once.
        assert_eq!((sum.kernel_unwritten, sum.hindrances.len(), sum.unknown.len()), (4, 1, 1));
    }
}
