//! The planned tree made strict: checked arithmetic, per-row short circuits, constants computed
//! once.
//!
//! The library wraps on overflow by default, negates with wrapping, and evaluates the right side of
//! AND on all rows of a batch unless few of them need it, so that a division behind a guard fails
//! or not by how the batch was cut.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::numeric::neg;
use arrow::compute::{and_kleene, or_kleene};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Literal, NegativeExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::error::EvalFault;
use crate::lazy::Coalesce;
use crate::translate;

/// An evaluated tree.
pub(crate) type Physical = Arc<dyn PhysicalExpr>;

/// One row without columns: what constants are evaluated on.
static ONE_ROW: LazyLock<RecordBatch> = LazyLock::new(|| {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .expect("a batch without columns fits a schema without columns")
});

/// Makes a tree strict and folds its constants; fails when it would fail for every row.
pub(crate) fn strict(
    physical: Physical,
    schema: &SchemaRef,
) -> std::result::Result<Physical, EvalFault> {
    let mut unreadable = None;
    let folded = physical
        .transform_up(|node| {
            let node = strict_node(node, schema);
            match fold(&node) {
                Fold::To(literal) => Ok(Transformed::yes(literal)),
                Fold::Not => Ok(Transformed::yes(node)),
                Fold::Fails(error) => {
                    unreadable = Some(translate::fault(&error));
                    Err(error)
                }
            }
        })
        .data();
    match (folded, unreadable) {
        (Ok(physical), _) => always_fails(&physical, schema).map_or(Ok(physical), Err),
        (Err(_), Some(fault)) => Err(fault),
        (Err(error), None) => Err(translate::fault(&error)),
    }
}

/// The fault of an expression that fails whatever the row is: evaluated without rows, it meets only
/// what is written in it, such as `1 / 0` or the 'fortnight' of `date_trunc('fortnight', at)`.
///
/// Both sides of AND and OR count, because a mistake in a literal is far likelier than a guard before
/// it. Branches of CASE and COALESCE do not: `CASE WHEN bad THEN 1 / 0 END` is how SQL raises an error.
fn always_fails(physical: &Physical, schema: &SchemaRef) -> Option<EvalFault> {
    if physical
        .exists(|node| Ok(node.is::<CaseExpr>()))
        .unwrap_or(true)
    {
        let parts = if physical.is::<CaseExpr>() {
            Vec::new()
        } else {
            physical.children()
        };
        return parts
            .into_iter()
            .find_map(|part| always_fails(part, schema));
    }
    let no_rows = RecordBatch::new_empty(Arc::clone(schema));
    physical
        .evaluate(&no_rows)
        .err()
        .map(|error| translate::fault(&error))
}

fn strict_node(node: Physical, schema: &Schema) -> Physical {
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                let strict = Arc::new(binary.clone().with_fail_on_overflow(true));
                return Digits::checked(strict, schema);
            }
            Operator::Divide | Operator::Modulo => return Digits::checked(node, schema),
            Operator::And | Operator::Or => {
                return Arc::new(Guard {
                    inner: Arc::new(binary.clone()),
                });
            }
            _ => return node,
        }
    }
    if let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() {
        return Coalesce::of(call)
            .map_or_else(|| Arc::clone(&node), |lazy| Arc::new(lazy) as Physical);
    }
    match node.downcast_ref::<NegativeExpr>() {
        Some(negative) => Arc::new(Negate {
            arg: Arc::clone(negative.arg()),
        }),
        None => node,
    }
}

enum Fold {
    To(Physical),
    Not,
    Fails(DataFusionError),
}

/// A node over literals becomes a literal. One that fails stays as it is, since the rows that reach
/// it may be none; but a literal that cannot be cast is a mistake of the author wherever it stands.
fn fold(node: &Physical) -> Fold {
    let children = node.children();
    if children.is_empty()
        || node.is_volatile_node()
        || !children.iter().all(|child| child.is::<Literal>())
    {
        return Fold::Not;
    }
    let value = node.evaluate(&ONE_ROW).and_then(|value| match value {
        ColumnarValue::Scalar(scalar) => Ok(scalar),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    });
    match value {
        Ok(scalar) => Fold::To(Arc::new(Literal::new(scalar))),
        Err(error) if node.is::<CastExpr>() => Fold::Fails(error),
        Err(_) => Fold::Not,
    }
}

/// Arithmetic whose result is a DECIMAL of the largest precision. The library checks that it fits
/// the 128 bits, which hold somewhat more than 38 digits.
#[derive(Debug, Eq)]
struct Digits {
    inner: Physical,
}

impl PartialEq for Digits {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Hash for Digits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Digits {
    fn checked(inner: Physical, schema: &Schema) -> Physical {
        match inner.data_type(schema) {
            Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)) => Arc::new(Self { inner }),
            _ => inner,
        }
    }

    fn check(array: &ArrayRef) -> Result<()> {
        let DataType::Decimal128(precision, scale) = array.data_type() else {
            return Ok(());
        };
        let values = array.as_primitive::<Decimal128Type>();
        if values.validate_decimal_precision(*precision).is_ok() {
            return Ok(());
        }
        let detail = format!("a result has more digits than DECIMAL({precision}, {scale})");
        Err(ArrowError::ArithmeticOverflow(detail).into())
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Digits {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.inner.evaluate(batch)?;
        match &value {
            ColumnarValue::Array(array) => Self::check(array)?,
            ColumnarValue::Scalar(scalar) => Self::check(&scalar.to_array()?)?,
        }
        Ok(value)
    }

    fn children(&self) -> Vec<&Physical> {
        self.inner.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Physical>) -> Result<Physical> {
        let inner = Arc::clone(&self.inner).with_new_children(children)?;
        Ok(Arc::new(Self { inner }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// Negation that fails where the result does not fit: `-(-128)` is no TINYINT.
#[derive(Debug, Eq)]
struct Negate {
    arg: Physical,
}

impl PartialEq for Negate {
    fn eq(&self, other: &Self) -> bool {
        self.arg.eq(&other.arg)
    }
}

impl Hash for Negate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.arg.hash(state);
    }
}

impl fmt::Display for Negate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(- {})", self.arg)
    }
}

impl PhysicalExpr for Negate {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.arg.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.arg.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.arg.evaluate(batch)? {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(neg(&array)?)),
            ColumnarValue::Scalar(scalar) => {
                let negated = neg(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                    &negated, 0,
                )?))
            }
        }
    }

    fn children(&self) -> Vec<&Physical> {
        vec![&self.arg]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Physical>) -> Result<Physical> {
        let arg = children
            .into_iter()
            .next()
            .unwrap_or_else(|| Arc::clone(&self.arg));
        Ok(Arc::new(Self { arg }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(- ")?;
        self.arg.fmt_sql(f)?;
        write!(f, ")")
    }
}

/// AND or OR whose right side counts only for the rows that the left side leaves open.
///
/// The library's evaluation is tried first: it is faster and, where it succeeds, gives the same.
/// Only when it fails is the right side evaluated again on the open rows alone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Guard {
    inner: Arc<BinaryExpr>,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Guard {
    fn is_and(&self) -> bool {
        *self.inner.op() == Operator::And
    }

    fn evaluate_open_rows(
        &self,
        batch: &RecordBatch,
        cause: DataFusionError,
    ) -> Result<ColumnarValue> {
        let left = boolean(self.inner.left().evaluate(batch)?, batch.num_rows())?;
        let decided = !self.is_and();
        let open: BooleanArray = left
            .as_boolean()
            .iter()
            .map(|value| Some(value != Some(decided)))
            .collect();
        if !open.has_false() {
            return Err(cause);
        }
        let right = boolean(
            self.inner.right().evaluate_selection(batch, &open)?,
            batch.num_rows(),
        )?;
        let (left, right) = (left.as_boolean(), right.as_boolean());
        let combined = if self.is_and() {
            and_kleene(left, right)?
        } else {
            or_kleene(left, right)?
        };
        Ok(ColumnarValue::Array(Arc::new(combined)))
    }
}

fn boolean(value: ColumnarValue, n_rows: usize) -> Result<ArrayRef> {
    let array = value.into_array(n_rows)?;
    // NULL AND x: an untyped NULL is no array of booleans yet.
    if array.data_type() == &DataType::Null {
        Ok(arrow::compute::cast(&array, &DataType::Boolean)?)
    } else {
        Ok(array)
    }
}

impl PhysicalExpr for Guard {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.inner
            .evaluate(batch)
            .or_else(|cause| self.evaluate_open_rows(batch, cause))
    }

    fn children(&self) -> Vec<&Physical> {
        vec![self.inner.left(), self.inner.right()]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Physical>) -> Result<Physical> {
        let [left, right]: [Physical; 2] = children
            .try_into()
            .map_err(|_| DataFusionError::Internal("a guard has two operands".into()))?;
        Ok(Arc::new(Self {
            inner: Arc::new(BinaryExpr::new(left, *self.inner.op(), right)),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
