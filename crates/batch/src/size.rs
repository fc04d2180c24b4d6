//! Bytes that a slice of a column takes when written out.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, GenericByteArray, GenericListArray, OffsetSizeTrait,
    StringViewArray,
};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};

/// Views of at most this length carry their bytes inside.
const INLINE_VIEW_BYTES: u32 = 12;

/// Bytes of this slice: values, offsets and validity of its rows, wherever the buffers are shared.
pub(crate) fn slice_bytes(column: &ArrayRef) -> usize {
    let rows = column.len();
    let validity = if column.nulls().is_some() {
        rows.div_ceil(8)
    } else {
        0
    };
    validity + values_bytes(column)
}

fn values_bytes(column: &ArrayRef) -> usize {
    let rows = column.len();
    match column.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8 => text_bytes::<Utf8Type>(column.as_bytes()),
        DataType::LargeUtf8 => text_bytes::<LargeUtf8Type>(column.as_bytes()),
        DataType::Binary => text_bytes::<BinaryType>(column.as_bytes()),
        DataType::LargeBinary => text_bytes::<LargeBinaryType>(column.as_bytes()),
        DataType::Utf8View => string_view_bytes(column.as_string_view()),
        DataType::BinaryView => binary_view_bytes(column.as_binary_view()),
        DataType::FixedSizeBinary(size) => rows * usize::try_from(*size).unwrap_or(0),
        DataType::List(_) => list_bytes::<i32>(column.as_list()),
        DataType::LargeList(_) => list_bytes::<i64>(column.as_list()),
        DataType::FixedSizeList(_, _) => slice_bytes(column.as_fixed_size_list().values()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(slice_bytes).sum(),
        DataType::Map(_, _) => {
            let map = column.as_map();
            let offsets = map.value_offsets();
            let (from, to) = (offsets[0] as usize, offsets[rows] as usize);
            let entries = map.entries().slice(from, to - from);
            let entries: usize = entries.columns().iter().map(slice_bytes).sum();
            (rows + 1) * size_of::<i32>() + entries
        }
        DataType::Dictionary(_, _) => {
            // The values are written whole: which of them the keys use is not looked at.
            let dictionary = column.as_any_dictionary();
            let width = dictionary.keys().data_type().primitive_width().unwrap_or(8);
            rows * width + slice_bytes(dictionary.values())
        }
        primitive => match primitive.primitive_width() {
            Some(width) => rows * width,
            // Unions, runs and list views are refused at the edges; counted by what they hold.
            None => column.get_buffer_memory_size(),
        },
    }
}

fn text_bytes<T: ByteArrayType>(column: &GenericByteArray<T>) -> usize {
    let offsets = column.value_offsets();
    let (from, to) = (offsets[0], offsets[column.len()]);
    size_of_val(offsets) + (to - from).as_usize()
}

fn list_bytes<O: OffsetSizeTrait>(column: &GenericListArray<O>) -> usize {
    let offsets = column.value_offsets();
    let (from, to) = (offsets[0].as_usize(), offsets[column.len()].as_usize());
    size_of_val(offsets) + slice_bytes(&column.values().slice(from, to - from))
}

fn string_view_bytes(column: &StringViewArray) -> usize {
    column.views().iter().map(|view| view_bytes(*view)).sum()
}

fn binary_view_bytes(column: &BinaryViewArray) -> usize {
    column.views().iter().map(|view| view_bytes(*view)).sum()
}

fn view_bytes(view: u128) -> usize {
    // The low 32 bits of a view are its length.
    let length = view as u32;
    let outside = if length > INLINE_VIEW_BYTES {
        length as usize
    } else {
        0
    };
    size_of::<u128>() + outside
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, DictionaryArray, Int64Array, ListArray, MapBuilder, StringArray,
        StringBuilder, StructArray,
    };
    use arrow::datatypes::{Field, Int32Type, Int64Type};

    use super::*;

    #[test]
    fn a_slice_of_each_layout_counts_its_own_rows_only() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some((0..100).map(Some).collect::<Vec<_>>()),
            Some(vec![Some(1), Some(2)]),
            None,
        ]);
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for key in ["a", "bcd"] {
            map.keys().append_value(key);
            map.values().append_value("xy");
            map.append(true).unwrap();
        }
        let structs = StructArray::from(vec![(
            Arc::new(Field::new("x", DataType::Int64, false)),
            Arc::new(Int64Array::from_iter_values(0..50)) as ArrayRef,
        )]);
        let views = StringViewArray::from(vec!["short", "longer than twelve bytes", "x"]);
        let dictionary: DictionaryArray<Int32Type> = ["aa", "b", "aa"].into_iter().collect();
        let cases: [(&str, ArrayRef, usize, usize, usize); 8] = [
            (
                "nullable",
                Arc::new(Int64Array::from(vec![Some(1), None, None])),
                1,
                2,
                1 + 16,
            ),
            (
                "boolean",
                Arc::new(BooleanArray::from(vec![true; 20])),
                0,
                9,
                2,
            ),
            (
                "text",
                Arc::new(StringArray::from(vec!["abc", "de", ""])),
                0,
                2,
                12 + 5,
            ),
            ("list", Arc::new(list), 1, 2, 1 + 12 + 16),
            ("map", Arc::new(map.finish()), 1, 1, 8 + (8 + 3) + (8 + 2)),
            ("struct", Arc::new(structs), 10, 5, 40),
            ("view", Arc::new(views), 0, 2, 32 + 24),
            ("dictionary", Arc::new(dictionary), 0, 2, 8 + 12 + 3),
        ];
        for (name, column, offset, length, bytes) in cases {
            assert_eq!(slice_bytes(&column.slice(offset, length)), bytes, "{name}");
        }
    }
}
