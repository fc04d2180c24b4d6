//! COALESCE that computes an argument only for the rows it is needed for.
//!
//! The library rewrites `coalesce(a, b)` to `CASE WHEN a IS NOT NULL THEN a ELSE b END`, which doubles
//! `a`: thirty calls nested in their first argument would be a billion nodes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::is_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::checked::Physical;

/// The name of the call that becomes a [`Coalesce`].
pub(crate) const COALESCE: &str = "coalesce";

/// The first of its arguments that is not NULL; all have one type.
#[derive(Debug, Eq)]
pub(crate) struct Coalesce {
    args: Vec<Physical>,
}

impl Coalesce {
    /// The lazy form of a planned call of COALESCE.
    pub(crate) fn of(call: &ScalarFunctionExpr) -> Option<Self> {
        let is_coalesce = call.fun().name() == COALESCE && !call.args().is_empty();
        is_coalesce.then(|| Self {
            args: call.args().to_vec(),
        })
    }
}

impl PartialEq for Coalesce {
    fn eq(&self, other: &Self) -> bool {
        self.args.eq(&other.args)
    }
}

impl Hash for Coalesce {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.args.hash(state);
    }
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.args.iter().map(ToString::to_string).collect();
        write!(f, "{COALESCE}({})", args.join(", "))
    }
}

impl PhysicalExpr for Coalesce {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.args[0].data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        for arg in &self.args {
            if !arg.nullable(schema)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let n_rows = batch.num_rows();
        let mut result = self.args[0].evaluate(batch)?.into_array(n_rows)?;
        for arg in &self.args[1..] {
            if result.logical_null_count() == 0 {
                break;
            }
            let open = is_null(&result)?;
            let next = arg.evaluate_selection(batch, &open)?.into_array(n_rows)?;
            result = zip(&open, &next, &result)?;
        }
        Ok(ColumnarValue::Array(result))
    }

    fn children(&self) -> Vec<&Physical> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Physical>) -> Result<Physical> {
        if children.len() != self.args.len() {
            return Err(DataFusionError::Internal(format!(
                "{COALESCE} keeps its arguments"
            )));
        }
        Ok(Arc::new(Self { args: children }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
