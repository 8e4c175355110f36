//! Columns: name, type, unit and meaning.

/// Type of a column, by names that DuckDB and Spark share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// 64 bits with sign.
    BigInt,
    /// 32 bits with sign.
    Integer,
    /// IEEE 754, 64 bits.
    Double,
    /// True or false.
    Boolean,
    /// UTF-8.
    Varchar,
}

impl Type {
    /// Its SQL name.
    pub const fn sql(self) -> &'static str {
        match self {
            Type::BigInt => "BIGINT",
            Type::Integer => "INTEGER",
            Type::Double => "DOUBLE",
            Type::Boolean => "BOOLEAN",
            Type::Varchar => "VARCHAR",
        }
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// Whether a value can be missing.
    pub nullable: bool,
    /// `ns`, `count`, ...; "" without.
    pub unit: &'static str,
    pub(crate) doc: &'static str,
}

impl Column {
    /// Its meaning.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }
}
