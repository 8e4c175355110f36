//! Gates as continuous integration takes them: JUnit, and GitHub's annotations.
use crate::gate::Answer;
use kasuri_text::table::units::printable;
use std::fmt::Write as _;

/// `failed: wall > 5% (+7.1 %, p 0.002)`.
pub fn line(gate: &Answer) -> String {
    let how = match gate.failed {
        true => "failed",
        false => "passed",
    };
    format!("{how}: {gate}")
}

/// A report of one suite, named after the command; `about`: what was judged.
pub fn junit(command: &str, about: &str, gates: &[Answer]) -> String {
    let failures = gates.iter().filter(|gate| gate.failed).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{command}\" tests=\"{}\" failures=\"{failures}\">\n",
        gates.len()
    );
    for gate in gates {
        let _ = write!(
            text,
            "  <testcase classname=\"{}\" name=\"{}\"",
            escaped(about),
            escaped(&gate.gate)
        );
        match gate.failed {
            true => {
                let _ = writeln!(
                    text,
                    ">\n    <failure message=\"{}\"/>\n  </testcase>",
                    escaped(&line(gate))
                );
            }
            false => text.push_str("/>\n"),
        }
    }
    text.push_str("</testsuite>\n");
    text
}

/// Lines that GitHub Actions shows as annotations of the run: an error for each gate that failed, a notice for each other.
pub fn github(command: &str, about: &str, gates: &[Answer]) -> String {
    let mut text = String::new();
    for gate in gates {
        let level = if gate.failed { "error" } else { "notice" };
        let _ = writeln!(
            text,
            "::{level} title={command}::{}",
            message(&format!("{}: {}", line(gate), about))
        );
    }
    text
}

/// As the value of a workflow command, in which a line's end would begin another command.
fn message(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// As text of an attribute in XML, which cannot hold control characters at all.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_give_github_commands() {
        let gate =
            Answer { gate: "wall > 5%".to_owned(), ratio: Some(1.1), p_value: 0.001, failed: true };
        let told = github("kasuri bench", "./x\n::set-env name=A::b", &[gate]);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(
            told.starts_with(
                "::error title=kasuri bench::failed: wall > 5%25 (+10.0 %25, p 0.001): ./x"
            ),
            "{told}"
        );
    }
}
