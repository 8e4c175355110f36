//! `--fail-if 'wall > 5%'`: a limit on how much more of something a change may cost.
use std::str::FromStr;

/// A gate: fails when the measure rose by more than this share, and by more than noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// What is measured, as [`key`] has it.
    pub measure: String,
    /// The share of its value before: 0.05 for 5 %.
    pub share: f64,
}

/// A gate's answer.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// As it was given: `wall > 5%`.
    pub gate: String,
    /// By which factor the measure became worse; null: there was nothing before.
    pub ratio: Option<f64>,
    /// Corrected for the number of gates (Holm).
    pub p_value: f64,
    /// It rose by more than its percentage, and p is at most 0.05.
    pub failed: bool,
}

/// Share of cases without any change in which chance may let a gate fail.
const LEVEL: f64 = 0.05;

impl Gate {
    /// Judges a ratio with its p. `None` for a ratio without anything before: more than any share.
    pub fn judge(&self, ratio: Option<f64>, p_value: f64) -> Answer {
        Answer {
            gate: self.to_string(),
            ratio,
            p_value,
            failed: ratio.is_none_or(|ratio| ratio > 1.0 + self.share) && p_value <= LEVEL,
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let change = self.ratio.map_or_else(
            || "from nothing".to_owned(),
            |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0),
        );
        write!(f, "{} ({change}, p {})", self.gate, p_text(self.p_value))
    }
}

/// p with as many digits as say something.
pub fn p_text(p_value: f64) -> String {
    match p_value {
        p if p < 0.0001 => "<0.0001".to_owned(),
        p if p < 0.001 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        let wrong = || format!("{text}: needed MEASURE > PERCENT%, as in 'wall > 5%'");
        // A measure may be a template of C++: the last `>` counts.
        let (measure, percent) = text.rsplit_once('>').ok_or_else(wrong)?;
        let percent = percent.trim().strip_suffix('%').ok_or_else(wrong)?;
        let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
        if key(measure).is_empty() || !(0.0..1e6).contains(&percent) {
            return Err(wrong());
        }
        Ok(Gate { measure: key(measure), share: percent / 100.0 })
    }
}

impl std::fmt::Display for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // 0.07 * 100 is not 7.
        let percent = (self.share * 1e6).round() / 1e4;
        write!(f, "{} > {percent}%", self.measure)
    }
}

/// A measure's name as gates have it: `Lock wait` and `lock_wait` are one.
pub fn key(name: &str) -> String {
    let name = name.trim().to_lowercase().replace(',', "");
    name.replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_a_measure_and_a_percentage() {
        let gate: Gate = " Lock wait > 7 % ".parse().unwrap();
        assert_eq!((gate.measure.as_str(), gate.share), ("lock_wait", 0.07));
        assert_eq!(gate.to_string(), "lock_wait > 7%");
        let nested: Gate = "f<g<int>> > 5%".parse().unwrap();
        assert_eq!(key("ready, without a CPU"), "ready_without_a_cpu");
        assert_eq!(nested.measure, "f<g<int>>");
        for wrong in ["wall", "wall > 5", "> 5%", "wall > x%", "wall > -1%", "wall < 5%"] {
            assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_gate_wants_a_rise_above_its_share_and_above_noise() {
        let gate: Gate = "wall > 5%".parse().unwrap();
        let failed = |ratio, p| gate.judge(ratio, p).failed;
        assert!(failed(Some(1.06), 0.05) && failed(None, 0.01));
        assert!(
            !failed(Some(1.04), 0.001) && !failed(Some(1.5), 0.06) && !failed(Some(0.5), 0.001)
        );
    }
}
