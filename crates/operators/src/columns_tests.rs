use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListArray, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type};

use super::{Filter, FlatMap, Select};
use crate::testing::{ColumnExpr, Harness, batch, schema};

fn numbers(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[test]
fn select_keeps_only_what_it_names_in_its_order() {
    let input = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let output = schema(&[("y", DataType::Utf8), ("x", DataType::Int64)]);
    let select = Select::new(vec![
        Arc::new(ColumnExpr(1, DataType::Utf8)),
        Arc::new(ColumnExpr(0, DataType::Int64)),
    ]);
    let mut harness = Harness::new(select, &input, &output);
    let b: ArrayRef = Arc::new(StringArray::from(vec!["p", "q"]));
    harness
        .process(batch(vec![("a", numbers(&[Some(1), None])), ("b", b)]))
        .unwrap();
    assert_eq!(harness.rows(), ["p|1", "q|NULL"]);
}

#[test]
fn filter_keeps_true_and_drops_false_and_null() {
    let input = schema(&[("keep", DataType::Boolean), ("n", DataType::Int64)]);
    let mut harness = Harness::new(
        Filter::new(Arc::new(ColumnExpr(0, DataType::Boolean))),
        &input,
        &input,
    );
    for (keep, expected) in [
        (
            [Some(true), None, Some(false), Some(true)],
            vec!["true|1", "true|4"],
        ),
        (
            [Some(true); 4],
            vec!["true|1", "true|2", "true|3", "true|4"],
        ),
        ([None; 4], vec![]),
    ] {
        let keep: ArrayRef = Arc::new(BooleanArray::from(keep.to_vec()));
        let n = numbers(&[Some(1), Some(2), Some(3), Some(4)]);
        harness
            .process(batch(vec![("keep", keep), ("n", n)]))
            .unwrap();
        assert_eq!(harness.rows(), expected);
    }
}

#[test]
fn flat_map_makes_a_row_per_element_and_none_for_empty_or_null_lists() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(3)]),
    ]);
    let list_type = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let input = schema(&[("id", DataType::Int64), ("list", list_type.clone())]);
    let rows = || {
        let id = numbers(&[Some(10), Some(20), Some(30), Some(40)]);
        batch(vec![("id", id), ("list", Arc::new(lists.clone()))])
    };
    let element = schema(&[("element", DataType::Int64)]);
    let list = || Arc::new(ColumnExpr(1, list_type.clone()));
    let mut alone = Harness::new(FlatMap::new(list(), false), &input, &element);
    alone.process(rows()).unwrap();
    assert_eq!(alone.rows(), ["1", "NULL", "3"]);

    let all = schema(&[
        ("id", DataType::Int64),
        ("list", list_type.clone()),
        ("element", DataType::Int64),
    ]);
    let mut kept = Harness::new(FlatMap::new(list(), true), &input, &all);
    kept.process(rows().slice(3, 1)).unwrap();
    assert_eq!(kept.rows(), ["40|[3]|3"]);
}
