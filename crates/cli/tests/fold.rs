//! Golden text, one row a line.

/// Columns of a line, the longest row of a table (a thread's) among them.
const WIDTH: usize = 500;

/// Indented text (pretty JSON, `{:#?}`), each block that fits in one line folded into one.
pub fn fold(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut open = Vec::new();
    for line in text.lines() {
        let word = line.trim_start();
        lines.push(line.to_owned());
        if word.ends_with(['{', '[', '(']) {
            open.push(lines.len() - 1);
        } else if word.starts_with(['}', ']', ')'])
            && let Some(start) = open.pop()
        {
            let body = &lines[start..];
            let words = body.iter().map(|line| line.trim_start().len() + 1);
            if words.sum::<usize>() <= WIDTH {
                let (first, rest) = body.split_first().expect("the block's first line");
                let words = rest.iter().map(|line| line.trim_start());
                let folded = words.fold(first.clone(), |text, word| text + " " + word);
                lines.truncate(start);
                lines.push(folded);
            }
        }
    }
    lines.join("\n")
}

#[test]
fn blocks_that_fit_become_lines() {
    let rows: Vec<_> = (0..60).map(|n| serde_json::json!({"n": n, "of": [n, [], {}]})).collect();
    let pretty = serde_json::to_string_pretty(&rows).expect("JSON");
    let folded = fold(&pretty);
    assert_eq!(folded.lines().count(), 62, "{folded}");
    assert_eq!(folded.lines().nth(8), Some(r#"  { "n": 7, "of": [ 7, [], {} ] },"#));
    let again: serde_json::Value = serde_json::from_str(&folded).expect("JSON");
    assert_eq!(again, serde_json::Value::from(rows));
    assert_eq!(fold("S {\n    a: Some(\n        3,\n    ),\n}"), "S { a: Some( 3, ), }");
}
