//! Tests of what is printed: one program, which is linked once.
mod answers;
mod explain_text;
mod glossary;
mod predict_text;
mod schema;
mod stat_text;
mod verdict;
