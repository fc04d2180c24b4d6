//! Minima and maxima of text, by code points, and last texts.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use millstream_state::ValueBuffer;

use super::accumulator::{Accumulators, AggregateError, EncodedColumn, take};
use super::fold::Pick;

/// The lowest, highest or last text of each group.
pub(super) struct PickedText<P> {
    values: Vec<Option<String>>,
    pick: PhantomData<P>,
}

impl<P> Default for PickedText<P> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            pick: PhantomData,
        }
    }
}

impl<P: Pick> PickedText<P> {
    fn fold(&mut self, group: usize, value: &str) {
        match &mut self.values[group] {
            Some(before) => {
                if P::replaces(value.cmp(before.as_str())) {
                    before.clear();
                    before.push_str(value);
                }
            }
            empty => *empty = Some(value.to_owned()),
        }
    }
}

impl<P: Pick> Accumulators for PickedText<P> {
    fn reset(&mut self, groups: usize) {
        self.values.clear();
        self.values.resize(groups, None);
    }

    fn load(
        &mut self,
        values: &ValueBuffer,
        positions: &mut [usize],
    ) -> Result<(), AggregateError> {
        for (group, position) in positions.iter_mut().enumerate() {
            let Some(value) = values.get(group) else {
                continue;
            };
            let [seen] = take(value.bytes, position)?;
            let length = u32::from_le_bytes(take(value.bytes, position)?) as usize;
            let text = value.bytes.get(*position..*position + length);
            let text = text.and_then(|text| std::str::from_utf8(text).ok());
            *position += length;
            self.values[group] = match (seen, text) {
                (_, None) => return Err(AggregateError::Corrupt),
                (0, Some(_)) => None,
                (_, Some(text)) => Some(text.to_owned()),
            };
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
        let text = cast(argument, &DataType::Utf8).map_err(AggregateError::Cast)?;
        let text = text.as_string::<i32>();
        let mut after = StringBuilder::new();
        for (row, group) in group_of_row.iter().enumerate() {
            let group = *group as usize;
            if text.is_valid(row) {
                self.fold(group, text.value(row));
            }
            if each {
                after.append_option(self.values[group].as_deref());
            }
        }
        Ok(each.then(|| Arc::new(after.finish()) as ArrayRef))
    }

    fn store(&self, out: &mut EncodedColumn) {
        for value in &self.values {
            let text = value.as_deref().unwrap_or_default();
            out.bytes.push(u8::from(value.is_some()));
            out.bytes
                .extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.bytes.extend_from_slice(text.as_bytes());
            out.end_piece();
        }
    }

    fn finish(&self) -> Result<ArrayRef, AggregateError> {
        Ok(Arc::new(
            self.values
                .iter()
                .map(Option::as_deref)
                .collect::<StringArray>(),
        ))
    }
}
