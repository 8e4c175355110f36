//! docs/glossary.md defines what users read.
use kasuri_analyze::account::Class;

const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

#[test]
fn every_class_has_an_entry() {
    for class in Class::ALL {
        let entry = format!("| **{}** | `{}` | ", class.label(), class.key());
        assert!(GLOSSARY.contains(&entry), "no entry begins {entry}");
    }
}

#[test]
fn every_term_has_an_entry() {
    for term in [
        "account",
        "capacity",
        "stretch",
        "hold",
        "lock ratio",
        "wait ratio",
        "cap",
        "thread",
        "task",
        "slice",
        "chunk",
        "ring",
        "session",
        "loss",
        "limitation",
        "call path",
        "sample",
        "weight",
        "unsampled",
        "misfit",
        "spinning",
    ] {
        let defined = GLOSSARY.contains(&format!("**{term}**"));
        assert!(defined || GLOSSARY.contains(&format!("**{term}s**")), "{term}");
    }
}

/// At 80 columns the table of the account has room for a class and its meaning.
#[test]
fn meanings_of_classes_fit_80_columns() {
    for class in Class::ALL {
        let cell = format!("{}: {}", class.label(), class.meaning());
        assert!(cell.len() <= 52, "{cell}: {}", cell.len());
    }
}
