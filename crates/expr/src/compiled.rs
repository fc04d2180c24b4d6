//! A compiled expression and how it is evaluated on a batch.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_empty_array};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, Result as LibraryResult};
use datafusion_physical_expr::expressions;
use datafusion_physical_expr::utils::collect_columns;

use crate::checked::Physical;
use crate::error::{ErrorKind, EvalError, EvalFault, ExprError};
use crate::excerpt::Span;
use crate::limits::panic_message;
use crate::translate;
use crate::types::{plain, sql_name};

/// A scalar expression, ready to be evaluated; cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Compiled(Arc<Inner>);

struct Inner {
    text: Arc<str>,
    span: Span,
    schema: SchemaRef,
    columns: Vec<usize>,
    data_type: DataType,
    nullable: bool,
    physical: Physical,
}

impl Compiled {
    /// Wraps a planned tree; its result is brought to a plain layout.
    pub(crate) fn new(
        physical: Physical,
        text: Arc<str>,
        schema: SchemaRef,
        span: Span,
    ) -> Result<Self, ExprError> {
        let describe = || {
            let data_type = plain(&physical.data_type(&schema)?);
            let physical = expressions::cast(Arc::clone(&physical), &schema, data_type.clone())?;
            let nullable = physical.nullable(&schema)?;
            LibraryResult::Ok((physical, data_type, nullable))
        };
        let (physical, data_type, nullable) = describe().map_err(|error: DataFusionError| {
            let message = translate::plain(&error.find_root().message());
            ExprError::new(ErrorKind::Internal { message }, span, &text)
        })?;
        let columns: BTreeSet<usize> = collect_columns(&physical)
            .iter()
            .map(|column| column.index())
            .collect();
        let columns = columns.into_iter().collect();
        Ok(Self(Arc::new(Inner {
            text,
            span,
            schema,
            columns,
            data_type,
            nullable,
            physical,
        })))
    }

    /// The same expression, its result cast to `data_type` with the checks of CAST.
    pub(crate) fn cast_to(&self, data_type: &DataType) -> Result<Self, ExprError> {
        let inner = &self.0;
        let physical = expressions::cast(
            Arc::clone(&inner.physical),
            &inner.schema,
            data_type.clone(),
        );
        let physical = physical.map_err(|error| {
            let message = translate::plain(&error.find_root().message());
            ExprError::new(ErrorKind::Internal { message }, inner.span, &inner.text)
        })?;
        Self::new(
            physical,
            Arc::clone(&inner.text),
            Arc::clone(&inner.schema),
            inner.span,
        )
    }

    /// The type of the result.
    pub fn data_type(&self) -> &DataType {
        &self.0.data_type
    }

    /// Whether the result may be NULL.
    pub fn nullable(&self) -> bool {
        self.0.nullable
    }

    /// The input columns that are read, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.0.columns
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Where the expression stands in its text.
    pub(crate) fn span(&self) -> Span {
        self.0.span
    }

    /// Evaluates the expression on every row of a batch of the schema it was compiled for.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, EvalError> {
        self.check_types(batch)?;
        if batch.num_rows() == 0 {
            return Ok(new_empty_array(&self.0.data_type));
        }
        self.run(batch).map_err(|error| self.explain(batch, &error))
    }

    /// A panic of a function on an extreme value is an error of that row, and does not end the task
    /// without its place.
    fn run(&self, batch: &RecordBatch) -> LibraryResult<ArrayRef> {
        let evaluate = || {
            let values = self.0.physical.evaluate(batch)?;
            values.into_array(batch.num_rows())
        };
        // Functions keep nothing between batches that could be seen half-changed.
        panic::catch_unwind(AssertUnwindSafe(evaluate))
            .unwrap_or_else(|payload| Err(DataFusionError::Execution(panic_message(&*payload))))
    }

    /// A batch of another schema would be a wrong result or a panic deep inside, so it is found
    /// here.
    fn check_types(&self, batch: &RecordBatch) -> Result<(), EvalError> {
        for &index in &self.0.columns {
            let expected = self.0.schema.field(index);
            let found = batch.columns().get(index).map(|column| column.data_type());
            if found != Some(expected.data_type()) {
                let fault = EvalFault::SchemaMismatch {
                    column: expected.name().clone(),
                    found: found.map_or_else(|| "absent".into(), sql_name),
                    expected: sql_name(expected.data_type()),
                };
                return Err(EvalError {
                    expression: Arc::clone(&self.0.text),
                    row_index: None,
                    fault,
                });
            }
        }
        Ok(())
    }

    /// Finds the first row that fails. Rows do not depend on each other, so a prefix fails exactly
    /// if it holds a failing row, and the shortest failing prefix ends with the first one.
    fn explain(&self, batch: &RecordBatch, error: &DataFusionError) -> EvalError {
        let (mut good, mut bad) = (0, batch.num_rows());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match self.run(&batch.slice(good, middle - good)) {
                Ok(_) => good = middle,
                Err(_) => bad = middle,
            }
        }
        let expression = Arc::clone(&self.0.text);
        match self.run(&batch.slice(good, 1)) {
            Err(row_error) => EvalError {
                expression,
                row_index: Some(good),
                fault: translate::fault(&row_error),
            },
            Ok(_) => EvalError {
                expression,
                row_index: None,
                fault: translate::fault(error),
            },
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Compiled({:?}: {})",
            self.0.text,
            sql_name(&self.0.data_type)
        )
    }
}

/// A compiled condition; cheap to clone, shared between threads.
#[derive(Debug, Clone)]
pub struct Predicate(Compiled);

impl Predicate {
    pub(crate) fn new(compiled: Compiled) -> Result<Self, ExprError> {
        match compiled.data_type() {
            DataType::Boolean => Ok(Self(compiled)),
            DataType::Null => compiled.cast_to(&DataType::Boolean).map(Self),
            other => {
                let kind = ErrorKind::NotBoolean {
                    found: sql_name(other),
                };
                Err(ExprError::new(kind, compiled.span(), compiled.text()))
            }
        }
    }

    /// The condition as an expression.
    pub fn expression(&self) -> &Compiled {
        &self.0
    }

    /// The input columns that are read, ascending.
    pub fn columns(&self) -> &[usize] {
        self.0.columns()
    }

    /// Which rows the condition holds for; NULL is not true. The mask has no NULLs.
    pub fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, EvalError> {
        let mask = self.0.evaluate(batch)?;
        let mask = mask.as_boolean();
        Ok(if mask.null_count() > 0 {
            prep_null_mask_filter(mask)
        } else {
            mask.clone()
        })
    }
}
