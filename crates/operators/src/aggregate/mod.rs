//! Running aggregates per key.
//!
//! A slice is grouped by key first; then the accumulators of its distinct keys are read with one
//! multi-get, updated a column at a time and written back with one multi-put. Two rows of one key
//! in a slice see each other's updates, in the order of rows.

mod accumulator;
mod average;
mod codec;
mod emit;
mod fold;
mod picked_text;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use millstream_batch::{Batch, Grouper, KeyBuffer, KeyCodec};
use millstream_graph::{AggregateColumn, Emit};
use millstream_operator::{
    Context, Declaration, ErrorKind, Event, Expression, Operator, OperatorError, Progress,
};
use millstream_state::{SchemaIndex, StateDescriptor, StateId, StateKeys, StateKind, ValueBuffer};

use accumulator::{Accumulators, AggregateError};
use emit::{Dirty, EndScan};

const STATE: StateId = StateId(0);

/// What an aggregate operator is made of.
pub struct AggregateSpec {
    /// Schema of the input.
    pub input: SchemaRef,
    /// Key columns by position.
    pub keys: Vec<usize>,
    /// The aggregates with their compiled arguments; none for `count(*)`.
    pub aggregates: Vec<(AggregateColumn, Option<Arc<dyn Expression>>)>,
    /// When results leave.
    pub emit: Emit,
}

/// Running aggregates per key.
pub struct Aggregate {
    keys: KeyCodec,
    key_columns: Vec<usize>,
    columns: Vec<Column>,
    emit: Emit,
    schema_version: String,
    scratch: Scratch,
    dirty: Dirty,
    end: Option<EndScan>,
}

struct Column {
    label: String,
    argument: Option<Arc<dyn Expression>>,
    accumulators: Box<dyn Accumulators>,
}

/// Memory that is used again for every slice.
#[derive(Default)]
struct Scratch {
    keys: KeyBuffer,
    grouper: Grouper,
    state_keys: StateKeys,
    values: ValueBuffer,
    codec: codec::Rows,
}

impl Aggregate {
    /// Checks that keys and arguments have types that can be aggregated.
    pub fn new(spec: AggregateSpec) -> Result<Self, OperatorError> {
        let keys = KeyCodec::new(&spec.input, &spec.keys).map_err(|error| {
            OperatorError::new(ErrorKind::UserCode, "key columns cannot be grouped by")
                .with_source(error)
        })?;
        let mut columns = Vec::new();
        let mut schema_version = String::from("1");
        for (column, argument) in spec.aggregates {
            let label = label(&column);
            schema_version.push_str(&format!(";{}", codec::version(&column)));
            let accumulators = accumulator::make(&column).map_err(|error| error.of(&label))?;
            columns.push(Column {
                label,
                argument,
                accumulators,
            });
        }
        Ok(Self {
            keys,
            key_columns: spec.keys,
            columns,
            emit: spec.emit,
            schema_version,
            scratch: Scratch::default(),
            dirty: Dirty::default(),
            end: None,
        })
    }

    /// Groups the slice and loads the accumulators of its keys.
    fn load(&mut self, batch: &Batch, ctx: &mut Context<'_>) -> Result<(), OperatorError> {
        let scratch = &mut self.scratch;
        self.keys
            .encode(batch.records(), &mut scratch.keys)
            .map_err(|error| {
                OperatorError::new(ErrorKind::Internal, "keys cannot be encoded").with_source(error)
            })?;
        let groups = scratch.grouper.group(&scratch.keys);
        scratch.state_keys.clear();
        let keys = groups.first_row.iter().map(|row| {
            (
                scratch.keys.key(*row as usize),
                scratch.keys.hash(*row as usize),
            )
        });
        let max = ctx.info.max_parallelism;
        scratch
            .state_keys
            .extend(STATE, max, keys, &[])
            .map_err(state_error)?;
        ctx.keyed()?
            .get(&scratch.state_keys, &mut scratch.values)
            .map_err(state_error)?;
        self.load_values()
    }

    fn load_values(&mut self) -> Result<(), OperatorError> {
        let count = self.scratch.values.len();
        self.scratch.codec.start(count);
        for column in &mut self.columns {
            column.accumulators.reset(count);
            column
                .accumulators
                .load(&self.scratch.values, &mut self.scratch.codec.positions)
                .map_err(|error| error.of(&column.label))?;
        }
        Ok(())
    }

    /// Writes the accumulators of the slice's keys back.
    fn store(&mut self, ctx: &mut Context<'_>) -> Result<(), OperatorError> {
        let scratch = &mut self.scratch;
        let backend = ctx.keyed()?;
        let schema: SchemaIndex = backend.table().current_schema(STATE);
        scratch.codec.encode(
            self.columns
                .iter()
                .map(|column| column.accumulators.as_ref()),
            schema,
            scratch.state_keys.len(),
            &mut scratch.values,
        );
        backend
            .put(&scratch.state_keys, &scratch.values)
            .map_err(state_error)
    }

    /// Updates the loaded accumulators; with `each` also returns the results after each row.
    fn update(&mut self, batch: &Batch, each: bool) -> Result<Vec<ArrayRef>, OperatorError> {
        let groups = self.scratch.grouper.groups();
        let mut results = Vec::new();
        for column in &mut self.columns {
            let argument = match &column.argument {
                Some(argument) => Some(argument.evaluate(batch.records())?),
                None => None,
            };
            let after = column
                .accumulators
                .update(&groups.group_of_row, argument.as_ref(), each)
                .map_err(|error| error.of(&column.label))?;
            results.extend(after);
        }
        Ok(results)
    }

    /// The results of all loaded keys.
    fn finish(&self) -> Result<Vec<ArrayRef>, OperatorError> {
        let results = self.columns.iter().map(|column| {
            column
                .accumulators
                .finish()
                .map_err(|error| error.of(&column.label))
        });
        results.collect()
    }

    fn emit_each(
        &self,
        batch: &Batch,
        results: Vec<ArrayRef>,
        ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        let mut columns: Vec<ArrayRef> = self
            .key_columns
            .iter()
            .map(|key| Arc::clone(batch.records().column(*key)))
            .collect();
        columns.extend(results);
        let records = crate::columns::record_batch(&ctx.info.output, columns, batch.num_rows())?;
        let mut updated = Batch::new(records);
        if let Some(times) = batch.event_times() {
            updated = updated.with_event_times(times.clone()).map_err(|error| {
                OperatorError::new(ErrorKind::Internal, "event times miscounted").with_source(error)
            })?;
        }
        ctx.emit(updated);
        Ok(())
    }

    /// Emits one row per loaded key, whose encodings are `keys`.
    fn emit_loaded<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        let mut columns = self.keys.decode(keys).map_err(|error| {
            OperatorError::new(ErrorKind::State, "keys in state cannot be decoded")
                .with_source(error)
        })?;
        columns.extend(self.finish()?);
        let rows = self.scratch.values.len();
        let records = crate::columns::record_batch(&ctx.info.output, columns, rows)?;
        ctx.emit(Batch::new(records));
        Ok(())
    }
}

impl Operator for Aggregate {
    fn declare(&self) -> Declaration {
        let kind = StateKind::Aggregating;
        Declaration {
            keyed: vec![StateDescriptor::new(
                "aggregates",
                kind,
                &self.schema_version,
            )],
        }
    }

    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        self.load(&batch, ctx)?;
        let results = self.update(&batch, self.emit == Emit::Each)?;
        self.store(ctx)?;
        match self.emit {
            Emit::Each => self.emit_each(&batch, results, ctx)?,
            Emit::Batch => {
                let scratch = &self.scratch;
                let rows = &scratch.grouper.groups().first_row;
                self.emit_loaded(rows.iter().map(|row| scratch.keys.key(*row as usize)), ctx)?;
            }
            Emit::Interval(interval) => {
                let scratch = &self.scratch;
                for row in &scratch.grouper.groups().first_row {
                    let row = *row as usize;
                    self.dirty
                        .insert(scratch.keys.key(row), scratch.keys.hash(row));
                }
                self.dirty.schedule(interval, ctx);
            }
            Emit::End => {}
        }
        Ok(Progress::Done)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        self.emit_more_at_end(ctx)
    }

    fn event(&mut self, event: &Event, ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        match event {
            // Keys that changed since the last emission are known in memory only: they leave in
            // front of the barrier, so that a restore has nothing to catch up on.
            Event::Wake | Event::PreBarrier(_) => self.emit_dirty(ctx)?,
            Event::EndOfInput => {
                self.emit_dirty(ctx)?;
                if self.emit == Emit::End {
                    self.end = Some(EndScan::new());
                    return self.emit_more_at_end(ctx);
                }
            }
            Event::Watermark(_)
            | Event::Finish
            | Event::CheckpointCompleted(_)
            | Event::CheckpointAborted(_) => {}
        }
        Ok(Progress::Done)
    }
}

fn label(column: &AggregateColumn) -> String {
    let function = column.function.name();
    format!(
        "{} ({function}({}))",
        column.name,
        column.argument.as_deref().unwrap_or("*")
    )
}

fn state_error(error: millstream_state::StateError) -> OperatorError {
    OperatorError::new(ErrorKind::State, "aggregates cannot be read or written").with_source(error)
}

impl AggregateError {
    fn of(self, label: &str) -> OperatorError {
        match self {
            Self::Overflow { sql_type } => OperatorError::new(
                ErrorKind::UserCode,
                format!("{sql_type} overflow in aggregate {label}"),
            )
            .with_remedy(
                "cast the argument to DOUBLE; an integer, or a DECIMAL with many places behind the \
                 point, to DECIMAL(38, 0)",
            ),
            Self::Unsupported { data_type } => OperatorError::new(
                ErrorKind::UserCode,
                format!("aggregate {label} cannot take {data_type}"),
            ),
            Self::Cast(error) => OperatorError::new(
                ErrorKind::Internal,
                format!("aggregate {label} got odd input"),
            )
            .with_source(error),
            Self::Corrupt => OperatorError::new(
                ErrorKind::State,
                format!("stored accumulator of aggregate {label} is cut short"),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
