//! `regexp_split` and the lower-casing of text: what a word count counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use arrow::record_batch::RecordBatch;
use millstream_expr::{compile, sql_name};

use crate::shown;

/// Splits lines with an expression over the column `line` and counts the pieces that are not empty.
fn counts(text: &str, lines: ArrayRef) -> BTreeMap<String, usize> {
    let batch = RecordBatch::try_from_iter_with_nullable([("line", lines, true)]).unwrap();
    let pieces = compile(text, &batch.schema())
        .unwrap()
        .evaluate(&batch)
        .unwrap();
    let words = pieces.as_list::<i32>().values().clone();
    let mut counts = BTreeMap::new();
    for word in words
        .as_string::<i32>()
        .iter()
        .flatten()
        .filter(|word| !word.is_empty())
    {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

fn expected(words: &[(&str, usize)]) -> BTreeMap<String, usize> {
    words
        .iter()
        .map(|(word, count)| ((*word).to_owned(), *count))
        .collect()
}

fn line(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

const WORDS: &str = r"regexp_split(lower(line), '[^\w]+')";

/// Proves HND-034: the dotted capital I becomes two code points and one word.
#[test]
fn lower_casing_a_dotted_capital_i_splits_no_word() {
    let counted = counts(WORDS, line("İSTANBUL istanbul ISTANBUL STRASSE straße"));
    assert_eq!(
        counted,
        expected(&[
            ("istanbul", 2),
            ("i\u{307}stanbul", 1),
            ("strasse", 1),
            ("straße", 1)
        ])
    );
}

/// Proves HND-035: the final sigma is the string's, so that each spelling is one key with the same
/// bytes.
#[test]
fn a_final_sigma_is_lower_cased_by_its_place_in_the_word() {
    let counted = counts(WORDS, line("ΟΔΟΣ οδος ΟΔΟΣ"));
    assert_eq!(counted, expected(&[("οδος", 3)]));
    // In whatever layout the text arrives.
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["ΟΔΟΣ οδος ΟΔΟΣ"]));
    let view: ArrayRef = Arc::new(StringViewArray::from(vec!["ΟΔΟΣ οδος ΟΔΟΣ"]));
    assert_eq!(counts(WORDS, large), counted);
    assert_eq!(counts(WORDS, view), counted);
}

#[test]
fn ascii_words_split_as_tr_does() {
    let counted = counts(
        "regexp_split(lower(line), '[^a-z0-9]+')",
        line("The cat, the hat; THE 2 ends."),
    );
    assert_eq!(
        counted,
        expected(&[("the", 3), ("cat", 1), ("hat", 1), ("2", 1), ("ends", 1)])
    );
}

#[test]
fn empty_pieces_are_kept_and_null_stays_null() {
    let lines: ArrayRef = Arc::new(StringArray::from(vec![
        Some(",a,,b"),
        Some(""),
        None,
        Some("a"),
    ]));
    let batch = RecordBatch::try_from_iter_with_nullable([("line", lines, true)]).unwrap();
    let expression = compile("regexp_split(line, ',')", &batch.schema()).unwrap();
    assert_eq!(sql_name(expression.data_type()), "ARRAY<VARCHAR>");
    assert_eq!(
        shown(&expression.evaluate(&batch).unwrap()),
        ["[, a, , b]", "[]", "NULL", "[a]"]
    );
    let lengths = compile("array_length(regexp_split(line, ','))", &batch.schema()).unwrap();
    assert_eq!(
        shown(&lengths.evaluate(&batch).unwrap()),
        ["4", "1", "NULL", "1"]
    );
}

#[test]
fn a_slice_of_a_batch_is_split_from_its_own_rows() {
    let lines: ArrayRef = Arc::new(StringArray::from(vec!["a b", "c d", "e f"]));
    let batch = RecordBatch::try_from_iter([("line", lines)]).unwrap();
    let expression = compile("regexp_split(line, ' ')", &batch.schema()).unwrap();
    assert_eq!(
        shown(&expression.evaluate(&batch.slice(1, 1)).unwrap()),
        ["[c, d]"]
    );
}

#[test]
fn constant_text_is_split_once() {
    let batch = RecordBatch::try_from_iter([("line", line("x"))]).unwrap();
    let expression = compile("regexp_split('a-b', '-')", &batch.schema()).unwrap();
    assert_eq!(shown(&expression.evaluate(&batch).unwrap()), ["[a, b]"]);
}
