//! A stored baseline of `kasuri bench`: what runs took, and on which machine.
use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most of a file that is read: a thousand runs take less.
const BYTES: u64 = 4 << 20;
/// Fewest runs that can show anything, and as many as `kasuri bench` makes at most.
const RUNS: std::ops::RangeInclusive<usize> = 6..=1000;

/// Its name and version.
const SCHEMA: &str = "kasuri.baseline/1";

/// Runs of a command, and the machine that they are of: what `--save` writes and `--baseline` reads.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Baseline {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// What was run, as a shell takes it.
    pub command: String,
    /// Where.
    pub machine: Machine,
    /// Each measure's runs.
    pub measures: Vec<Measure>,
}

/// What makes times comparable.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Machine {
    /// As the kernel names it: `x86_64`.
    pub architecture: String,
    /// As the CPU names itself.
    pub cpu_model: String,
    /// Number of CPUs that the command could use.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
}

/// A measure.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Measure {
    /// `wall` and `cpu` (ns), `switches`, `preemptions`, `faults`, or `metric`.
    pub name: String,
    /// In the order of runs.
    #[schemars(length(min = *RUNS.start(), max = *RUNS.end()))]
    pub runs: Vec<f64>,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let host = kasuri_record::host::host();
        Machine {
            architecture: host.machine,
            cpu_model: host.cpu_model,
            cpus: kasuri_record::host::allowed_cpus().len(),
            kernel: host.kernel,
        }
    }

    /// Why times of `self` say nothing of `now`; none: they may.
    fn differs(&self, now: &Machine) -> Option<String> {
        if (&self.architecture, &self.cpu_model) != (&now.architecture, &now.cpu_model) {
            return Some(format!(
                "it is of a {} ({}), this is a {} ({})",
                self.cpu_model, self.architecture, now.cpu_model, now.architecture
            ));
        }
        (self.cpus != now.cpus).then(|| format!("it had {} CPUs, here are {}", self.cpus, now.cpus))
    }
}

impl Baseline {
    /// Of runs here and now.
    pub fn new(command: String, measures: Vec<Measure>) -> Baseline {
        Baseline { schema: SCHEMA.to_owned(), command, machine: Machine::this(), measures }
    }

    /// Reads a file, whoever wrote it. The second part is a warning, for what may matter and may not.
    ///
    /// # Errors
    /// When it is no baseline, or of another machine.
    pub fn read(path: &Path) -> anyhow::Result<(Baseline, Option<String>)> {
        let shown = path.display();
        let mut text = String::new();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        file.take(BYTES)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {shown}"))?;
        let baseline: Baseline = serde_json::from_str(&text)
            .with_context(|| format!("{shown}: no baseline; kasuri bench --save makes one"))?;
        if baseline.schema != SCHEMA {
            bail!("{shown}: schema {}, needed {SCHEMA}", baseline.schema);
        }
        for measure in &baseline.measures {
            if let Some(wrong) = measure.runs.iter().find(|run| !run.is_finite() || **run < 0.0) {
                bail!(
                    "{shown}: {} has a run of {wrong}, needed a number of 0 or more",
                    measure.name
                );
            }
            if !RUNS.contains(&measure.runs.len()) {
                bail!(
                    "{shown}: {} runs of {}, needed {} to {}",
                    measure.runs.len(),
                    measure.name,
                    RUNS.start(),
                    RUNS.end()
                );
            }
        }
        let now = Machine::this();
        if let Some(why) = baseline.machine.differs(&now) {
            bail!(
                "{shown}: {why}; times of another machine say nothing: make the baseline here, or use --against"
            );
        }
        let warning = (baseline.machine.kernel != now.kernel).then(|| {
            format!("{shown}: its kernel was {}, this is {}", baseline.machine.kernel, now.kernel)
        });
        Ok((baseline, warning))
    }

    /// The runs of a measure; none where it was not measured.
    pub fn runs(&self, name: &str) -> Option<&[f64]> {
        let found = self.measures.iter().find(|measure| measure.name == name);
        found.map(|measure| measure.runs.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(change: impl FnOnce(&mut Baseline)) -> Result<Option<String>, String> {
        let measure = Measure { name: "wall".to_owned(), runs: vec![1.0; 6] };
        let mut baseline = Baseline::new("./p".to_owned(), vec![measure]);
        change(&mut baseline);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.json");
        std::fs::write(&path, serde_json::to_vec(&baseline).unwrap()).unwrap();
        match Baseline::read(&path) {
            Ok((read, warning)) => {
                assert_eq!(read.runs("wall"), Some(&[1.0; 6][..]));
                assert_eq!(read.runs("cpu"), None);
                Ok(warning)
            }
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn a_baseline_is_for_its_machine() {
        assert_eq!(written(|_| ()), Ok(None));
        let warned = written(|b| b.machine.kernel = "2.4.0".to_owned()).unwrap().unwrap();
        assert!(warned.contains("its kernel was 2.4.0"), "{warned}");
        for refused in [
            written(|b| b.machine.cpus += 1),
            written(|b| b.machine.cpu_model = "Z80".to_owned()),
            written(|b| b.machine.architecture = "pdp11".to_owned()),
        ] {
            assert!(refused.as_ref().unwrap_err().contains("another machine"), "{refused:?}");
        }
    }

    #[test]
    fn what_is_no_baseline_is_refused() {
        for (refused, why) in [
            (written(|b| b.schema = "kasuri.bench/1".to_owned()), "schema"),
            (written(|b| b.measures[0].runs.truncate(5)), "needed 6"),
            (written(|b| b.measures[0].runs = vec![1.0; 1001]), "needed 6 to 1000"),
            (written(|b| b.measures[0].runs[2] = -1.0), "a run of -1"),
            (written(|b| b.measures[0].runs[2] = f64::NAN), "no baseline"),
        ] {
            assert!(refused.as_ref().unwrap_err().contains(why), "{refused:?}");
        }
    }
}
