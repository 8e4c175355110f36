//! The tables as a document.
use crate::{TABLES, queries};
use std::fmt::Write;

/// The reference part of docs/sql.md: tables, then queries.
pub fn markdown() -> String {
    let mut out = String::from("## Tables\n");
    for table in TABLES {
        let _ = write!(
            out,
            "\n### {}\n\n{}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n",
            table.name,
            table.doc()
        );
        for c in table.columns {
            let null = if c.nullable { ", may be NULL" } else { "" };
            let _ = writeln!(
                out,
                "| `{}` | {}{null} | {} | {} |",
                c.name,
                c.ty.sql(),
                c.unit,
                c.doc().replace('|', "\\|")
            );
        }
    }
    out.push_str("\n## Queries\n\n| name | answers |\n|---|---|\n");
    for q in queries::QUERIES {
        let _ = writeln!(out, "| `{}` | {} |", q.name, q.doc());
    }
    out
}
