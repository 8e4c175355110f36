//! The `kasuri` command.
fn main() {}
