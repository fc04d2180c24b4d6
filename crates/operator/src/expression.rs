//! Expressions as operators see them; `expr` implements them over DataFusion.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::DataType;

use crate::OperatorError;

/// A compiled expression over the columns of one schema, evaluated a batch at a time.
pub trait Expression: Send + Sync {
    /// The type of its results.
    fn data_type(&self) -> &DataType;

    /// One value per row.
    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, OperatorError>;

    /// For boolean expressions: which rows are true; NULL counts as not.
    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray, OperatorError>;
}
