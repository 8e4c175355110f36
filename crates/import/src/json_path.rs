//! Where in a JSON text an offset lies, in words: `threads[3].samples.time[17]`.

/// Longest path, in bytes: what is deeper has its beginning.
const LEN_MAX: usize = 200;

/// One step of a path.
enum Step<'a> {
    /// In an object, behind this key; none: before the first.
    Key(Option<&'a str>),
    /// In an array.
    Index(usize),
}

/// The path of the value that has the byte at `offset`, or ends there; of a closing bracket that of what it closes. Text that is no JSON is followed
/// as far as its brackets, commas and strings go. Empty: the outermost value.
pub(crate) fn json_path(text: &str, offset: usize) -> String {
    let bytes = text.as_bytes();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let (mut at, mut is_key) = (0, false);
    while at < offset.min(bytes.len()) {
        match bytes[at] {
            b'{' => {
                steps.push(Step::Key(None));
                is_key = true;
            }
            b'[' => {
                steps.push(Step::Index(0));
                is_key = false;
            }
            b'}' | b']' => {
                steps.pop();
                is_key = false;
            }
            b',' => match steps.last_mut() {
                Some(Step::Index(n)) => *n += 1,
                Some(Step::Key(_)) => is_key = true,
                None => {}
            },
            b'"' => {
                let end = end_of_text(bytes, at);
                if is_key && let Some(Step::Key(key)) = steps.last_mut() {
                    *key = text.get(at + 1..end);
                    is_key = false;
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    if matches!(bytes.get(offset), Some(b'}' | b']')) {
        steps.pop();
    }
    shown(&steps)
}

/// The quote that ends the text which begins with the quote at `at`.
fn end_of_text(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += 1 + usize::from(bytes[end] == b'\\');
    }
    end
}

fn shown(steps: &[Step<'_>]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            Step::Key(Some(key)) if out.is_empty() => out.push_str(key),
            Step::Key(Some(key)) => out.extend([".", key]),
            Step::Key(None) => {}
            Step::Index(n) => out.push_str(&format!("[{n}]")),
        }
        if out.len() > LEN_MAX {
            let cut = (0..=LEN_MAX).rev().find(|at| out.is_char_boundary(*at));
            out.truncate(cut.unwrap_or(0));
            out.push_str("...");
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_path_that_leads_to_it() {
        let text = r#"{"a": {"x, }\"": [1, [2, 3], {"k": true}], "b": 7}, "c": []}"#;
        for (value, path) in [
            ("1,", r#"a.x, }\"[0]"#),
            ("3]", r#"a.x, }\"[1][1]"#),
            ("true", r#"a.x, }\"[2].k"#),
            ("7", "a.b"),
            ("]}", "c"),
            ("{\"a", ""),
        ] {
            assert_eq!(json_path(text, text.find(value).unwrap()), path, "{value}");
        }
        assert_eq!(json_path(text, text.len() - 1), "", "the last bracket");
    }

    #[test]
    fn any_text_has_a_path() {
        let text = r#"{"a": [{"b\\": "c"}, "\u0041"], "d": {"#;
        for offset in 0..text.len() + 5 {
            for cut in 0..text.len() {
                let _ = json_path(&text[..cut], offset);
            }
        }
        assert_eq!(json_path(text, text.len()), "d");
        let deep = "[".repeat(100_000);
        assert_eq!(json_path(&deep, deep.len()).len(), LEN_MAX + "...".len());
        let _ = json_path("}}]],,\"", 7);
    }
}
