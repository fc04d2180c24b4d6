//! Minima and maxima of text, by code points, and last texts.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use millstream_state::ValueBuffer;

use super::accumulator::{Accumulators, AggregateError, EncodedColumn, take};
use super::fold::Pick;

/// The lowest, highest or last text of each group. A text of the
/// slice stays where it is until it is stored.
pub(super) struct PickedText<P> {
    /// Texts out of the state, one behind the other.
    loaded: String,
    /// The column that was taken in.
    taken: StringArray,
    values: Vec<Place>,
    pick: PhantomData<P>,
}

/// Where the text of a group is.
#[derive(Clone)]
enum Place {
    Nowhere,
    Loaded(Range<usize>),
    Taken(usize),
}

impl<P> Default for PickedText<P> {
    fn default() -> Self {
        Self {
            loaded: String::new(),
            taken: StringArray::new_null(0),
            values: Vec::new(),
            pick: PhantomData,
        }
    }
}

impl<P: Pick> PickedText<P> {
    fn text(&self, place: &Place) -> Option<&str> {
        match place {
            Place::Nowhere => None,
            Place::Loaded(range) => Some(&self.loaded[range.clone()]),
            Place::Taken(row) => Some(self.taken.value(*row)),
        }
    }

    fn texts(&self) -> impl Iterator<Item = Option<&str>> {
        self.values.iter().map(|place| self.text(place))
    }

    fn load_one(&mut self, bytes: &[u8], position: &mut usize) -> Result<Place, AggregateError> {
        let [seen] = take(bytes, position)?;
        let length = u32::from_le_bytes(take(bytes, position)?) as usize;
        let text = bytes.get(*position..).and_then(|rest| rest.get(..length));
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or(AggregateError::Corrupt)?;
        *position += length;
        if seen == 0 {
            return Ok(Place::Nowhere);
        }
        let start = self.loaded.len();
        self.loaded.push_str(text);
        Ok(Place::Loaded(start..self.loaded.len()))
    }

    fn fold(&mut self, group: usize, row: usize) {
        let value = self.taken.value(row);
        let before = self.text(&self.values[group]);
        if before.is_none_or(|before| P::replaces(value.cmp(before))) {
            self.values[group] = Place::Taken(row);
        }
    }
}

impl<P: Pick> Accumulators for PickedText<P> {
    fn reset(&mut self, groups: usize) {
        self.loaded.clear();
        self.taken = StringArray::new_null(0);
        self.values.clear();
        self.values.resize(groups, Place::Nowhere);
    }

    fn load(
        &mut self,
        values: &ValueBuffer,
        positions: &mut [usize],
    ) -> Result<(), AggregateError> {
        for (group, position) in positions.iter_mut().enumerate() {
            if let Some(value) = values.get(group) {
                self.values[group] = self.load_one(value.bytes, position)?;
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
        let text = cast(argument, &DataType::Utf8).map_err(AggregateError::Cast)?;
        let text = text.as_string::<i32>();
        self.taken = text.clone();
        // The last text after a row is that row's own, where it has one.
        let as_it_is = P::IS_LAST && text.null_count() == 0;
        let build = each && !as_it_is;
        let rows = if build { group_of_row.len() } else { 0 };
        let mut after = StringBuilder::with_capacity(rows, 0);
        for (row, group) in group_of_row.iter().enumerate() {
            let group = *group as usize;
            if text.is_valid(row) {
                self.fold(group, row);
            }
            if build {
                after.append_option(self.text(&self.values[group]));
            }
        }
        Ok(each.then(|| match as_it_is {
            true => Arc::new(text.clone()) as ArrayRef,
            false => Arc::new(after.finish()),
        }))
    }

    fn store(&self, out: &mut EncodedColumn) {
        for text in self.texts() {
            out.bytes.push(u8::from(text.is_some()));
            let text = text.unwrap_or_default();
            out.bytes
                .extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.bytes.extend_from_slice(text.as_bytes());
            out.end_piece();
        }
    }

    fn finish(&self) -> Result<ArrayRef, AggregateError> {
        Ok(Arc::new(self.texts().collect::<StringArray>()))
    }
}
