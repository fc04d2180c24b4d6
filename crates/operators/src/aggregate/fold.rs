//! Sums, minima, maxima and last values of fixed width.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Float64Type, Int64Type};
use millstream_state::ValueBuffer;

use super::accumulator::{Accumulators, AggregateError, EncodedColumn, take};

/// Above the highest DECIMAL(38) without its scale.
pub(super) const DECIMAL_LIMIT: i128 = 10i128.pow(38);

/// A native value with a fixed little-endian form.
pub(super) trait Plain: Copy + Default {
    fn put(self, out: &mut Vec<u8>);
    fn take(bytes: &[u8], position: &mut usize) -> Result<Self, AggregateError>;
}

macro_rules! plain {
    ($($native:ty),*) => {$(
        impl Plain for $native {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(bytes: &[u8], position: &mut usize) -> Result<Self, AggregateError> {
                Ok(Self::from_le_bytes(take(bytes, position)?))
            }
        }
    )*};
}

plain!(i64, i128, f64);

/// How a value joins those before it.
pub(super) trait Fold: Send + 'static {
    type Arrow: ArrowPrimitiveType<Native: Plain>;
    /// The type in an overflow's message.
    const SQL_TYPE: &'static str;

    /// `None` is an overflow.
    fn fold(
        before: <Self::Arrow as ArrowPrimitiveType>::Native,
        value: <Self::Arrow as ArrowPrimitiveType>::Native,
    ) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;
}

pub(super) struct SumInt;
pub(super) struct SumDouble;
pub(super) struct SumDecimal;
struct Picked<T, P>(PhantomData<(T, P)>);

impl Fold for SumInt {
    type Arrow = Int64Type;
    const SQL_TYPE: &'static str = "BIGINT";

    fn fold(before: i64, value: i64) -> Option<i64> {
        before.checked_add(value)
    }
}

impl Fold for SumDouble {
    type Arrow = Float64Type;
    const SQL_TYPE: &'static str = "DOUBLE";

    fn fold(before: f64, value: f64) -> Option<f64> {
        Some(before + value)
    }
}

impl Fold for SumDecimal {
    type Arrow = Decimal128Type;
    const SQL_TYPE: &'static str = "DECIMAL(38)";

    fn fold(before: i128, value: i128) -> Option<i128> {
        before
            .checked_add(value)
            .filter(|sum| sum.abs() < DECIMAL_LIMIT)
    }
}

/// The order of values; NaN is above everything and equal to itself.
trait Ranked: Plain {
    fn rank(self, other: Self) -> Ordering;
}

impl Ranked for i64 {
    fn rank(self, other: Self) -> Ordering {
        self.cmp(&other)
    }
}

impl Ranked for i128 {
    fn rank(self, other: Self) -> Ordering {
        self.cmp(&other)
    }
}

impl Ranked for f64 {
    fn rank(self, other: Self) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (false, false) => self.partial_cmp(&other).unwrap_or(Ordering::Equal),
            (mine, others) => mine.cmp(&others),
        }
    }
}

/// One value of a group that stands for all.
pub(super) trait Pick: Send + 'static {
    /// Whether each value replaces the one before it.
    const IS_LAST: bool = false;

    /// Whether a value takes the place of the one before it, to which it compares so.
    fn replaces(order: Ordering) -> bool;
}

pub(super) struct Least;
pub(super) struct Greatest;
/// In the order of arrival.
pub(super) struct Newest;

impl Pick for Least {
    fn replaces(order: Ordering) -> bool {
        order == Ordering::Less
    }
}

impl Pick for Greatest {
    fn replaces(order: Ordering) -> bool {
        order == Ordering::Greater
    }
}

impl Pick for Newest {
    const IS_LAST: bool = true;

    fn replaces(_order: Ordering) -> bool {
        true
    }
}

impl<T, P: Pick> Fold for Picked<T, P>
where
    T: ArrowPrimitiveType<Native: Ranked> + Send + 'static,
{
    type Arrow = T;
    const SQL_TYPE: &'static str = "value";

    fn fold(before: T::Native, value: T::Native) -> Option<T::Native> {
        Some(match P::replaces(value.rank(before)) {
            true => value,
            false => before,
        })
    }
}

/// `sum` of this type.
pub(super) fn sum(
    input: &DataType,
    output: &DataType,
) -> Result<Box<dyn Accumulators>, AggregateError> {
    match (input, output) {
        (_, DataType::Int64) if input.is_integer() => Ok(Folded::<SumInt>::boxed(output, output)),
        (_, DataType::Float64) if input.is_floating() => {
            Ok(Folded::<SumDouble>::boxed(output, output))
        }
        (DataType::Decimal128(_, _), DataType::Decimal128(_, _)) => {
            Ok(Folded::<SumDecimal>::boxed(output, output))
        }
        _ => Err(AggregateError::Unsupported {
            data_type: input.clone(),
        }),
    }
}

/// `max`, `min` or `last_value` of this type.
pub(super) fn picked<P: Pick>(
    input: &DataType,
    output: &DataType,
) -> Result<Box<dyn Accumulators>, AggregateError> {
    match input {
        DataType::UInt64 => {
            let wide = DataType::Decimal128(20, 0);
            Ok(Folded::<Picked<Decimal128Type, P>>::boxed(&wide, output))
        }
        DataType::Decimal128(_, _) => Ok(Folded::<Picked<Decimal128Type, P>>::boxed(input, output)),
        _ if input.is_floating() => Ok(Folded::<Picked<Float64Type, P>>::boxed(
            &DataType::Float64,
            output,
        )),
        DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => Ok(Folded::<Picked<Int64Type, P>>::boxed(
            &DataType::Int64,
            output,
        )),
        _ if input.is_integer() => Ok(Folded::<Picked<Int64Type, P>>::boxed(
            &DataType::Int64,
            output,
        )),
        _ => Err(AggregateError::Unsupported {
            data_type: input.clone(),
        }),
    }
}

/// Casts between a type and the one it is kept in. Arrow has no direct way from days to BIGINT.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, AggregateError> {
    let via = match (array.data_type(), to) {
        (DataType::Date32 | DataType::Time32(_), DataType::Int64)
        | (DataType::Int64, DataType::Date32 | DataType::Time32(_)) => Some(DataType::Int32),
        _ => None,
    };
    let array = match via {
        Some(via) => cast(array, &via).map_err(AggregateError::Cast)?,
        None => Arc::clone(array),
    };
    cast(&array, to).map_err(AggregateError::Cast)
}

type Native<F> = <<F as Fold>::Arrow as ArrowPrimitiveType>::Native;

struct Folded<F: Fold> {
    values: Vec<Native<F>>,
    seen: Vec<bool>,
    /// The type values are kept in.
    kept: DataType,
    output: DataType,
}

impl<F: Fold> Folded<F> {
    fn boxed(kept: &DataType, output: &DataType) -> Box<dyn Accumulators> {
        Box::new(Self {
            values: Vec::new(),
            seen: Vec::new(),
            kept: kept.clone(),
            output: output.clone(),
        })
    }

    fn fold(&mut self, group: usize, value: Native<F>) -> Result<(), AggregateError> {
        let before = &mut self.values[group];
        if std::mem::replace(&mut self.seen[group], true) {
            let overflow = AggregateError::Overflow {
                sql_type: F::SQL_TYPE,
            };
            *before = F::fold(*before, value).ok_or(overflow)?;
        } else {
            *before = value;
        }
        Ok(())
    }

    fn array(&self, values: Vec<Native<F>>, seen: NullBuffer) -> Result<ArrayRef, AggregateError> {
        let array = PrimitiveArray::<F::Arrow>::new(values.into(), Some(seen));
        let kept: ArrayRef = Arc::new(array.with_data_type(self.kept.clone()));
        convert(&kept, &self.output)
    }
}

impl<F: Fold> Accumulators for Folded<F> {
    fn reset(&mut self, groups: usize) {
        self.values.clear();
        self.values.resize(groups, Native::<F>::default());
        self.seen.clear();
        self.seen.resize(groups, false);
    }

    fn load(
        &mut self,
        values: &ValueBuffer,
        positions: &mut [usize],
    ) -> Result<(), AggregateError> {
        for (group, position) in positions.iter_mut().enumerate() {
            if let Some(value) = values.get(group) {
                let [seen] = take(value.bytes, position)?;
                self.seen[group] = seen != 0;
                self.values[group] = Native::<F>::take(value.bytes, position)?;
            }
        }
        Ok(())
    }

    fn update(
        &mut self,
        group_of_row: &[u32],
        argument: Option<&ArrayRef>,
        each: bool,
    ) -> Result<Option<ArrayRef>, AggregateError> {
        let Some(argument) = argument else {
            return Ok(None);
        };
        let kept = convert(argument, &self.kept)?;
        let array = kept.as_primitive::<F::Arrow>();
        let mut after = Vec::with_capacity(if each { group_of_row.len() } else { 0 });
        let mut known = Vec::with_capacity(after.capacity());
        for (row, group) in group_of_row.iter().enumerate() {
            let group = *group as usize;
            if array.is_valid(row) {
                self.fold(group, array.value(row))?;
            }
            if each {
                after.push(self.values[group]);
                known.push(self.seen[group]);
            }
        }
        if !each {
            return Ok(None);
        }
        self.array(after, NullBuffer::from(known)).map(Some)
    }

    fn store(&self, out: &mut EncodedColumn) {
        for (value, seen) in self.values.iter().zip(&self.seen) {
            out.bytes.push(u8::from(*seen));
            value.put(&mut out.bytes);
            out.end_piece();
        }
    }

    fn finish(&self) -> Result<ArrayRef, AggregateError> {
        self.array(self.values.clone(), NullBuffer::from(self.seen.clone()))
    }
}
