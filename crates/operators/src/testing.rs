//! Runs one operator over scripts of batches, with a memory backend.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use millstream_batch::Batch;
use millstream_operator::{
    Context, Emitted, Event, Expression, Operator, OperatorError, OperatorInfo, Progress,
};
use millstream_state::{KeyedStateBackend, MemoryBackend, StateTable};
use millstream_types::{Epoch, KeyGroupRange, MaxParallelism, MonoTime, OperatorUid};

/// The column at a position.
pub(crate) struct ColumnExpr(pub(crate) usize, pub(crate) DataType);

impl Expression for ColumnExpr {
    fn data_type(&self) -> &DataType {
        &self.1
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, OperatorError> {
        Ok(Arc::clone(rows.column(self.0)))
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray, OperatorError> {
        Ok(BooleanArray::from(rows.column(self.0).to_data()))
    }
}

/// An operator with everything around it.
pub(crate) struct Harness<O> {
    pub(crate) operator: O,
    pub(crate) info: OperatorInfo,
    pub(crate) backend: MemoryBackend,
    pub(crate) wake_at: MonoTime,
    pub(crate) now: MonoTime,
    output: Vec<Emitted>,
}

impl<O: Operator> Harness<O> {
    pub(crate) fn new(operator: O, input: &SchemaRef, output: &SchemaRef) -> Self {
        let max_parallelism = MaxParallelism::new(128).unwrap();
        let table = StateTable::declare(operator.declare().keyed).unwrap();
        Self {
            operator,
            info: OperatorInfo {
                uid: OperatorUid::new("op").unwrap(),
                name: "op".to_owned(),
                subtask_index: 0,
                parallelism: 1,
                max_parallelism,
                attempt: 0,
                epoch: Epoch(1),
                inputs: vec![Arc::clone(input)],
                output: Arc::clone(output),
            },
            backend: MemoryBackend::new(
                table,
                KeyGroupRange::all(max_parallelism),
                max_parallelism,
            ),
            wake_at: MonoTime::NEVER,
            now: MonoTime::ZERO,
            output: Vec::new(),
        }
    }

    fn call(
        &mut self,
        call: impl FnOnce(&mut O, &mut Context<'_>) -> Result<Progress, OperatorError>,
    ) -> Result<Progress, OperatorError> {
        let backend: &mut dyn KeyedStateBackend = &mut self.backend;
        let (output, wake_at) = (&mut self.output, &mut self.wake_at);
        let mut ctx = Context::new(&self.info, self.now, Some(backend), output, wake_at);
        call(&mut self.operator, &mut ctx)
    }

    pub(crate) fn process(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let mut progress = self.call(|operator, ctx| operator.process(0, batch, ctx))?;
        while progress == Progress::More {
            progress = self.call(|operator, ctx| operator.resume(ctx))?;
        }
        Ok(())
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), OperatorError> {
        let mut progress = self.call(|operator, ctx| operator.event(event, ctx))?;
        while progress == Progress::More {
            progress = self.call(|operator, ctx| operator.resume(ctx))?;
        }
        Ok(())
    }

    /// The rows emitted since the last call, each as its values joined by `|`.
    pub(crate) fn rows(&mut self) -> Vec<String> {
        let batches = std::mem::take(&mut self.output);
        batches
            .iter()
            .flat_map(|emitted| rows(&emitted.batch))
            .collect()
    }
}

pub(crate) fn rows(batch: &Batch) -> Vec<String> {
    let cell = |column: &ArrayRef, row| {
        if column.is_null(row) {
            "NULL".to_owned()
        } else {
            array_value_to_string(column, row).unwrap()
        }
    };
    let columns = batch.records().columns();
    (0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| cell(column, row))
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect()
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Batch {
    Batch::new(
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
            .unwrap(),
    )
}

pub(crate) fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| {
        arrow::datatypes::Field::new(*name, data_type.clone(), true)
    };
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}
