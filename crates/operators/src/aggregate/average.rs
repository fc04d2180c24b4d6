//! Means: an exact sum (or a DOUBLE one) and a count.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use millstream_state::ValueBuffer;

use super::accumulator::{Accumulators, AggregateError, EncodedColumn, take};
use super::fold::{DECIMAL_LIMIT, Plain, convert};

/// `avg` of this type.
pub(super) fn make(
    input: &DataType,
    output: &DataType,
) -> Result<Box<dyn Accumulators>, AggregateError> {
    match (input, output) {
        (DataType::Decimal128(_, scale), DataType::Decimal128(_, out_scale))
            if scale <= out_scale =>
        {
            Ok(Box::new(Average::<i128>::new(input, output)))
        }
        // Whole numbers are summed exactly; only the division is DOUBLE.
        (_, DataType::Float64) if input.is_integer() => Ok(Box::new(Average::<i128>::new(
            &DataType::Decimal128(38, 0),
            output,
        ))),
        (_, DataType::Float64) if input.is_floating() => {
            Ok(Box::new(Average::<f64>::new(&DataType::Float64, output)))
        }
        _ => Err(AggregateError::Unsupported {
            data_type: input.clone(),
        }),
    }
}

/// A sum that means are made of.
trait Sum: Plain + Send {
    fn add(self, value: Self) -> Option<Self>;
    fn values(array: &ArrayRef) -> &[Self];
    fn means(
        sums: &[Self],
        counts: &[i64],
        kept: &DataType,
        output: &DataType,
    ) -> Result<ArrayRef, AggregateError>;
}

struct Average<S> {
    sums: Vec<S>,
    counts: Vec<i64>,
    kept: DataType,
    output: DataType,
}

impl<S: Sum> Average<S> {
    fn new(kept: &DataType, output: &DataType) -> Self {
        Self {
            sums: Vec::new(),
            counts: Vec::new(),
            kept: kept.clone(),
            output: output.clone(),
        }
    }
}

impl<S: Sum> Accumulators for Average<S> {
    fn reset(&mut self, groups: usize) {
        self.sums.clear();
        self.sums.resize(groups, S::default());
        self.counts.clear();
        self.counts.resize(groups, 0);
    }

    fn load(
        &mut self,
        values: &ValueBuffer,
        positions: &mut [usize],
    ) -> Result<(), AggregateError> {
        for (group, position) in positions.iter_mut().enumerate() {
            if let Some(value) = values.get(group) {
                self.counts[group] = i64::from_le_bytes(take(value.bytes, position)?);
                self.sums[group] = S::take(value.bytes, position)?;
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
        let (values, nulls) = (S::values(&kept), kept.nulls());
        let (mut sums, mut counts) = (Vec::new(), Vec::new());
        for (row, group) in group_of_row.iter().enumerate() {
            let group = *group as usize;
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let overflow = AggregateError::Overflow {
                    sql_type: "sum of the mean:",
                };
                self.sums[group] = self.sums[group].add(values[row]).ok_or(overflow)?;
                self.counts[group] += 1;
            }
            if each {
                sums.push(self.sums[group]);
                counts.push(self.counts[group]);
            }
        }
        if !each {
            return Ok(None);
        }
        S::means(&sums, &counts, &self.kept, &self.output).map(Some)
    }

    fn store(&self, out: &mut EncodedColumn) {
        for (sum, count) in self.sums.iter().zip(&self.counts) {
            out.bytes.extend_from_slice(&count.to_le_bytes());
            sum.put(&mut out.bytes);
            out.end_piece();
        }
    }

    fn finish(&self) -> Result<ArrayRef, AggregateError> {
        S::means(&self.sums, &self.counts, &self.kept, &self.output)
    }
}

impl Sum for f64 {
    fn add(self, value: Self) -> Option<Self> {
        Some(self + value)
    }

    fn values(array: &ArrayRef) -> &[Self] {
        array.as_primitive::<Float64Type>().values()
    }

    fn means(
        sums: &[Self],
        counts: &[i64],
        _kept: &DataType,
        _output: &DataType,
    ) -> Result<ArrayRef, AggregateError> {
        let mean = |(sum, count): (&f64, &i64)| (*count > 0).then(|| sum / *count as f64);
        let means: Float64Array = sums.iter().zip(counts).map(mean).collect();
        Ok(Arc::new(means))
    }
}

impl Sum for i128 {
    fn add(self, value: Self) -> Option<Self> {
        self.checked_add(value)
    }

    fn values(array: &ArrayRef) -> &[Self] {
        array.as_primitive::<Decimal128Type>().values()
    }

    fn means(
        sums: &[Self],
        counts: &[i64],
        kept: &DataType,
        output: &DataType,
    ) -> Result<ArrayRef, AggregateError> {
        let pairs = sums.iter().zip(counts);
        let (DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) = (kept, output)
        else {
            let mean =
                |(sum, count): (&i128, &i64)| (*count > 0).then(|| *sum as f64 / *count as f64);
            return Ok(Arc::new(pairs.map(mean).collect::<Float64Array>()));
        };
        let shift = u32::try_from(to - from).unwrap_or(0);
        let overflow = || AggregateError::Overflow {
            sql_type: "DECIMAL",
        };
        let mut means = Vec::with_capacity(sums.len());
        for (sum, count) in pairs {
            if *count == 0 {
                means.push(None);
                continue;
            }
            let scaled = sum.checked_mul(10i128.pow(shift)).ok_or_else(overflow)?;
            let mean = divide_rounded(scaled, i128::from(*count));
            if mean.abs() >= DECIMAL_LIMIT {
                return Err(overflow());
            }
            means.push(Some(mean));
        }
        let means = Decimal128Array::from(means)
            .with_precision_and_scale(*precision, *to)
            .map_err(AggregateError::Cast)?;
        Ok(Arc::new(means))
    }
}

/// Halves are rounded away from zero. `count` is above zero.
fn divide_rounded(sum: i128, count: i128) -> i128 {
    let (quotient, rest) = (sum / count, sum % count);
    if rest.abs() >= count - rest.abs() {
        quotient + sum.signum()
    } else {
        quotient
    }
}
