//! Tests of the formats: one program, which is linked once.
mod common;
mod container;
mod corpus;
mod real_pages;
mod real_rings;
