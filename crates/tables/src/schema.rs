//! Tables: their columns with types, units and meaning. docs/sql.md is made from this.
use crate::batch::Batch;
use crate::column::Column;
use crate::{Result, Source};

pub(crate) type Fill = fn(&Source<'_>, &mut Out<'_>) -> Result<()>;

/// One table.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    pub(crate) doc: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    pub(crate) fill: Fill,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish()
    }
}

impl Table {
    /// The meaning of a row.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Gives all rows to `sink`, a batch at a time; no batch is empty.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn read(
        &self,
        source: &Source<'_>,
        sink: &mut dyn FnMut(&Batch<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut out = Out { batch: Batch::new(self.columns, &source.trace().strings), sink };
        (self.fill)(source, &mut out)?;
        out.flush()
    }
}

/// Rows on their way out.
pub(crate) struct Out<'o> {
    batch: Batch<'o>,
    sink: &'o mut dyn FnMut(&Batch<'_>) -> Result<()>,
}

/// Rows of a batch: enough that a batch's fixed cost vanishes, few enough for the columns to stay in cache.
const BATCH_ROWS: usize = 1 << 14;

impl Out<'_> {
    pub fn push(&mut self, row: impl Row) -> Result<()> {
        row.put(&mut self.batch);
        if self.batch.n_rows >= BATCH_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.batch.n_rows > 0 {
            (self.sink)(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }
}

/// A row of a certain table.
pub(crate) trait Row {
    const COLUMNS: &'static [Column];
    fn put(self, batch: &mut Batch<'_>);
}

/// Declares a table: a struct for its rows, and the documentation of each column beside it.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $vis:vis static $TABLE:ident = $name:literal, $row:ident from $fill:path;
        $( $(#[doc = $cdoc:literal])+ $col:ident : $ty:ty $(, $unit:literal)? ; )+
    ) => {
        #[derive(Default)]
        $vis struct $row {
            $(pub $col: $ty,)+
        }

        impl $crate::schema::Row for $row {
            const COLUMNS: &'static [$crate::column::Column] = &[$(
                $crate::column::Column {
                    name: stringify!($col),
                    ty: <$ty as $crate::batch::Cell>::TYPE,
                    nullable: <$ty as $crate::batch::Cell>::NULLABLE,
                    unit: concat!("" $(, $unit)?),
                    doc: concat!($($cdoc),+),
                },
            )+];

            fn put(self, batch: &mut $crate::batch::Batch<'_>) {
                let mut column = 0;
                $(
                    $crate::batch::Cell::put(self.$col, &mut batch.columns[column]);
                    column += 1;
                )+
                debug_assert_eq!(column, batch.columns.len());
                batch.n_rows += 1;
            }
        }

        $(#[doc = $doc])+
        $vis static $TABLE: $crate::schema::Table = $crate::schema::Table {
            name: $name,
            doc: concat!($($doc),+),
            columns: <$row as $crate::schema::Row>::COLUMNS,
            fill: $fill,
        };
    };
}
pub(crate) use table;
