//! Operators without state: each slice is dealt with on its own.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use millstream_batch::Batch;
use millstream_operator::{Context, ErrorKind, Expression, Operator, OperatorError, Progress};

fn internal(what: &str, error: ArrowError) -> OperatorError {
    OperatorError::new(ErrorKind::Internal, what).with_source(error)
}

/// A record batch of these columns; also right for no columns at all.
pub(crate) fn record_batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, OperatorError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| internal("columns do not fit the operator's schema", error))
}

/// Computes new columns.
pub struct Select {
    columns: Vec<Arc<dyn Expression>>,
}

impl Select {
    /// One expression per column of the output schema.
    pub fn new(columns: Vec<Arc<dyn Expression>>) -> Self {
        Self { columns }
    }
}

impl Operator for Select {
    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let evaluate = |column: &Arc<dyn Expression>| column.evaluate(batch.records());
        let columns = self
            .columns
            .iter()
            .map(evaluate)
            .collect::<Result<Vec<_>, _>>()?;
        let records = record_batch(&ctx.info.output, columns, batch.num_rows())?;
        let selected = batch.with_records(records).map_err(|error| {
            OperatorError::new(ErrorKind::Internal, "select changed the number of rows")
                .with_source(error)
        })?;
        ctx.emit(selected);
        Ok(Progress::Done)
    }
}

/// Keeps the rows for which a predicate is true.
pub struct Filter {
    predicate: Arc<dyn Expression>,
    rows: Vec<u32>,
}

impl Filter {
    /// `predicate` is a boolean expression.
    pub fn new(predicate: Arc<dyn Expression>) -> Self {
        Self {
            predicate,
            rows: Vec::new(),
        }
    }
}

impl Operator for Filter {
    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let selected = self.predicate.select(batch.records())?;
        let kept = selected.true_count();
        if kept == batch.num_rows() {
            ctx.emit(batch);
        } else if kept > 0 {
            self.rows.clear();
            let bits = selected.values();
            self.rows.extend(bits.set_indices().map(|row| row as u32));
            if selected.null_count() > 0 {
                self.rows.retain(|row| selected.is_valid(*row as usize));
            }
            ctx.emit(take(&batch, &self.rows)?);
        }
        Ok(Progress::Done)
    }
}

fn take(batch: &Batch, rows: &[u32]) -> Result<Batch, OperatorError> {
    batch.take(rows).map_err(|error| {
        OperatorError::new(ErrorKind::Internal, "rows cannot be taken").with_source(error)
    })
}

/// One row per element of a list.
pub struct FlatMap {
    list: Arc<dyn Expression>,
    keep: bool,
    rows: Vec<u32>,
}

impl FlatMap {
    /// `list` makes the elements; with `keep` the input's columns stay in front of them.
    pub fn new(list: Arc<dyn Expression>, keep: bool) -> Self {
        Self {
            list,
            keep,
            rows: Vec::new(),
        }
    }

    /// Fills `self.rows` with the input row of each element and returns the elements.
    fn elements<O: OffsetSizeTrait>(
        &mut self,
        lists: &GenericListArray<O>,
    ) -> Result<ArrayRef, OperatorError> {
        self.rows.clear();
        let offsets = lists.value_offsets();
        if lists.null_count() == 0 {
            for (row, bounds) in offsets.windows(2).enumerate() {
                let count = bounds[1].as_usize() - bounds[0].as_usize();
                self.rows.extend(std::iter::repeat_n(row as u32, count));
            }
            let (first, last) = (offsets[0].as_usize(), offsets[lists.len()].as_usize());
            return Ok(lists.values().slice(first, last - first));
        }
        let mut positions: Vec<u64> = Vec::new();
        for (row, bounds) in offsets.windows(2).enumerate() {
            if lists.is_valid(row) {
                let range = bounds[0].as_usize() as u64..bounds[1].as_usize() as u64;
                self.rows.extend(range.clone().map(|_| row as u32));
                positions.extend(range);
            }
        }
        let positions = arrow::array::UInt64Array::from(positions);
        arrow::compute::take(lists.values(), &positions, None)
            .map_err(|error| internal("list elements cannot be taken", error))
    }
}

impl Operator for FlatMap {
    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let lists = self.list.evaluate(batch.records())?;
        let elements = match lists.data_type() {
            DataType::List(_) => self.elements(lists.as_list::<i32>())?,
            DataType::LargeList(_) => self.elements(lists.as_list::<i64>())?,
            other => {
                let what = format!("flat-map {} got {other}, expected a list", ctx.info.uid);
                return Err(OperatorError::new(ErrorKind::Internal, what));
            }
        };
        // What is not kept is not repeated for every element either.
        let kept = if self.keep {
            batch
        } else {
            batch.without_columns()
        };
        let repeated = take(&kept, &self.rows)?;
        let mut columns = repeated.records().columns().to_vec();
        columns.push(elements);
        let records = record_batch(&ctx.info.output, columns, self.rows.len())?;
        let flattened = repeated.with_records(records).map_err(|error| {
            OperatorError::new(ErrorKind::Internal, "flat-map miscounted rows").with_source(error)
        })?;
        ctx.emit(flattened);
        Ok(Progress::Done)
    }
}

/// Passes rows of all inputs on in the order of arrival.
pub struct Union;

impl Operator for Union {
    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        // Inputs agree in names and types; nullability and metadata may differ.
        let records = record_batch(
            &ctx.info.output,
            batch.records().columns().to_vec(),
            batch.num_rows(),
        )?;
        let passed = batch.with_records(records).map_err(|error| {
            OperatorError::new(ErrorKind::Internal, "union changed its rows").with_source(error)
        })?;
        ctx.emit(passed);
        Ok(Progress::Done)
    }
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
