//! Tests of unwinding: one program, which is linked once.
mod framed;
mod garbage;
mod landing;
mod plain;
mod programs;
