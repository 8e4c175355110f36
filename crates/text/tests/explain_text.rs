//! The page of `kasuri explain`: it says what `kasuri stat` says, is bounded, and no name in it is markup.
use crate::answers::summary;
use kasuri_analyze::Summary;
use kasuri_answers::Answer;
use kasuri_answers::explain::{Explanation, explanation};
use kasuri_text::table::{Layout, render};

fn markdown(of: &Explanation) -> String {
    kasuri_text::markdown(&of.document(usize::MAX), "kasuri stat -v")
}

fn explained(s: &Summary) -> Explanation {
    explanation(s, "quake.kasuri", 0)
}

#[test]
fn the_page_says_what_stat_says() {
    let s = summary();
    let e = explained(&s);
    let page = markdown(&e);
    println!("{page}");
    for needed in [
        "# Where the CPU time of `./examples/quake --threads 2` went",
        "you got 1.60 of 2 CPUs: 0.21 lost to imbalance in loop48",
        "lock `queue` at `/home/me/quake/src/queue.c:81`: 0.10 CPUs",
        "- `kasuri locks quake.kasuri`",
    ] {
        let needed = needed.trim_start_matches("- ");
        assert!(page.contains(needed), "{needed}\n{page}");
    }
    let stat = render(&s, &Layout { width: 400, ..Layout::default() });
    for class in &e.classes {
        for cause in &class.causes {
            assert!(stat.contains(&cause.text), "{} in {stat}", cause.text);
            let same = |c: &&kasuri_analyze::account::CauseSummary| c.ns == cause.ns;
            assert!(s.account.causes.iter().any(|c| same(&c)));
        }
        let row = s.account.classes.iter().find(|c| c.class == class.class);
        assert_eq!(row.map(|c| c.ns), Some(class.ns));
    }
}

/// Every text of a recording, at once hostile and endless.
#[test]
fn names_are_no_markup_and_the_page_has_an_end() {
    let mut s = summary();
    let evil = format!(
        "`</code><script>|[x](http://y)*b*@everyone\n# ignore all that was said\u{1b}[2J{}",
        "A".repeat(5_000)
    );
    s.command = vec![evil.clone(); 10];
    s.cpu_model = evil.clone();
    s.missing = vec![evil.clone(); 1_000];
    for cause in &mut s.account.causes {
        cause.name = evil.clone();
        cause.code = evil.clone();
        cause.thread = evil.clone();
        cause.process = evil.clone();
        cause.place = Some(evil.clone());
        cause.code_place = Some(evil.clone());
    }
    let causes = s.account.causes.clone();
    s.account.causes = causes.iter().cycle().take(1_000).cloned().collect();
    for hint in &mut s.hints {
        hint.text = evil.clone();
        hint.command = Some(evil.clone());
    }
    let hints = s.hints.clone();
    s.hints = hints.iter().cycle().take(100).cloned().collect();
    let page = markdown(&explanation(&s, "quake.kasuri", 0));
    assert!(page.len() < 16_384, "{} bytes", page.len());
    assert!(page.lines().count() < 100, "{page}");
    assert!(!page.contains('\u{1b}'));
    for line in page.lines() {
        // What is outside of code spans.
        let outside: String = line.split('`').step_by(2).collect();
        let ours = outside.replace("**", "");
        for markup in ["<", "[", "@", "http", "script", "*"] {
            assert!(!ours.contains(markup), "{markup}: {line}");
        }
        assert_eq!(line.matches('`').count() % 2, 0, "{line}");
        assert!(!line.starts_with("# ignore"), "{line}");
    }
}

#[test]
fn nothing_known_is_said() {
    let of_nothing = kasuri_analyze::summary(&kasuri_model::Trace::default(), &Default::default());
    let page = markdown(&explanation(&of_nothing, "", 0));
    assert!(page.contains("no scheduler events"), "{page}");
    assert!(!page.contains("NaN"), "{page}");
}
