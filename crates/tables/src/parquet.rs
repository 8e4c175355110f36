//! One table as a Parquet file: plain INT32, INT64, DOUBLE, BOOLEAN and UTF-8 columns, which every reader knows.
//!
//! Written with the low-level column writers of the `parquet` crate, without Arrow: that would take three times as
//! long to build, and add nothing to files of such simple types.
use crate::{Batch, Column, Data, Result, Source, Table, Type, Values};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type as SchemaType;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group: what an engine reads at least, and gives to one of its threads.
const GROUP_ROWS: usize = 1 << 17;

/// How files are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// For keeping: zstd.
    Small,
    /// For a query that follows at once.
    Fast,
}

/// Writes all rows of a table. Returns how many.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write + Send>(
    table: &Table,
    source: &Source<'_>,
    packing: Packing,
    out: W,
) -> Result<u64> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("kasuri ", env!("CARGO_PKG_VERSION")).into())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_compression(match packing {
            Packing::Small => Compression::ZSTD(ZstdLevel::try_new(1)?),
            Packing::Fast => Compression::UNCOMPRESSED,
        })
        // A dictionary pays for texts only; of times no two are equal.
        .set_dictionary_enabled(false);
    let properties = table
        .columns
        .iter()
        .filter(|c| c.ty == Type::Varchar)
        .fold(properties, |p, c| p.set_column_dictionary_enabled(c.name.into(), true))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema(table)?, Arc::new(properties))?;
    let mut columns: Vec<Buffer> = table.columns.iter().map(Buffer::new).collect();
    let (mut n_rows, mut in_group) = (0u64, 0usize);
    let mut flush = |columns: &mut [Buffer]| -> Result<()> {
        let mut group = writer.next_row_group()?;
        let mut at = 0;
        while let Some(column) = group.next_column()? {
            columns[at].write(column)?;
            at += 1;
        }
        group.close()?;
        Ok(())
    };
    table.read(source, &mut |batch: &Batch<'_>| {
        for (column, data) in columns.iter_mut().zip(batch.columns()) {
            column.add(data, batch.n_rows());
        }
        n_rows += batch.n_rows() as u64;
        in_group += batch.n_rows();
        if in_group >= GROUP_ROWS {
            flush(&mut columns)?;
            in_group = 0;
        }
        Ok(())
    })?;
    if in_group > 0 {
        flush(&mut columns)?;
    }
    writer.close()?;
    Ok(n_rows)
}

fn schema(table: &Table) -> Result<Arc<SchemaType>> {
    let field = |c: &Column| {
        let physical = match c.ty {
            Type::BigInt => parquet::basic::Type::INT64,
            Type::Integer => parquet::basic::Type::INT32,
            Type::Double => parquet::basic::Type::DOUBLE,
            Type::Boolean => parquet::basic::Type::BOOLEAN,
            Type::Varchar => parquet::basic::Type::BYTE_ARRAY,
        };
        let mut field = SchemaType::primitive_type_builder(c.name, physical).with_repetition(
            match c.nullable {
                true => Repetition::OPTIONAL,
                false => Repetition::REQUIRED,
            },
        );
        if c.ty == Type::Varchar {
            field = field
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8);
        }
        Ok(Arc::new(field.build()?))
    };
    let fields = table.columns.iter().map(field).collect::<Result<_>>()?;
    let group = SchemaType::group_type_builder(table.name).with_fields(fields);
    Ok(Arc::new(group.build()?))
}

/// One column of a row group, until the group is full.
struct Buffer {
    nullable: bool,
    /// 1 for each row with a value, 0 for each without; only of columns whose values can be missing.
    levels: Vec<i16>,
    kept: Kept,
}

/// Values that are there.
enum Kept {
    BigInt(Vec<i64>),
    Integer(Vec<i32>),
    Double(Vec<f64>),
    Boolean(Vec<bool>),
    Varchar {
        /// By the index that batches use.
        texts: Vec<ByteArray>,
        values: Vec<ByteArray>,
    },
}

impl Buffer {
    fn new(column: &Column) -> Buffer {
        Buffer {
            nullable: column.nullable,
            levels: Vec::new(),
            kept: match column.ty {
                Type::BigInt => Kept::BigInt(Vec::new()),
                Type::Integer => Kept::Integer(Vec::new()),
                Type::Double => Kept::Double(Vec::new()),
                Type::Boolean => Kept::Boolean(Vec::new()),
                Type::Varchar => Kept::Varchar { texts: Vec::new(), values: Vec::new() },
            },
        }
    }

    fn add(&mut self, data: &Data<'_>, n_rows: usize) {
        if self.nullable {
            let levels = (0..n_rows).map(|row| i16::from(data.is_valid(row)));
            self.levels.extend(levels);
        }
        match (&mut self.kept, &data.values) {
            (Kept::BigInt(kept), Values::BigInt(v)) => keep(kept, v, data),
            (Kept::Integer(kept), Values::Integer(v)) => keep(kept, v, data),
            (Kept::Double(kept), Values::Double(v)) => keep(kept, v, data),
            (Kept::Boolean(kept), Values::Boolean(v)) => keep(kept, v, data),
            (Kept::Varchar { texts, values }, Values::Varchar(v)) => {
                for index in texts.len()..data.n_texts() {
                    texts.push(data.text(index as u32).as_bytes().to_vec().into());
                }
                let rows = (0..n_rows).filter(|&row| data.is_valid(row));
                values.extend(rows.map(|row| texts[v[row] as usize].clone()));
            }
            // Both sides are made from the same `Column`.
            _ => unreachable!("a column's values are of its type"),
        }
    }

    fn write(&mut self, column: SerializedColumnWriter<'_>) -> Result<()> {
        let levels = self.nullable.then_some(self.levels.as_slice());
        match &mut self.kept {
            Kept::BigInt(v) => put::<Int64Type>(column, v, levels),
            Kept::Integer(v) => put::<Int32Type>(column, v, levels),
            Kept::Double(v) => put::<DoubleType>(column, v, levels),
            Kept::Boolean(v) => put::<BoolType>(column, v, levels),
            Kept::Varchar { values, .. } => put::<ByteArrayType>(column, values, levels),
        }?;
        self.levels.clear();
        Ok(())
    }
}

fn keep<T: Copy>(kept: &mut Vec<T>, values: &[T], data: &Data<'_>) {
    if data.valid.is_empty() {
        kept.extend_from_slice(values);
    } else {
        let valid = values.iter().zip(&data.valid).filter(|(_, valid)| **valid);
        kept.extend(valid.map(|(&value, _)| value));
    }
}

fn put<D: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: &mut Vec<D::T>,
    levels: Option<&[i16]>,
) -> Result<()> {
    column.typed::<D>().write_batch(values, levels, None)?;
    column.close()?;
    values.clear();
    Ok(())
}
