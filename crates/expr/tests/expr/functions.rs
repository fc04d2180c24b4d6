//! The generated reference of functions.

use arrow::array::Array;
use millstream_expr::{compile, functions};

use crate::{batch, schema};

#[test]
fn the_reference_is_ordered_complete_and_without_what_is_refused() {
    let docs = functions();
    let names: Vec<&str> = docs.iter().map(|doc| doc.name.as_str()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "each name once, in order");
    for name in [
        "lower",
        "regexp_split",
        "coalesce",
        "date_trunc",
        "array_length",
        "regexp_replace",
        "round",
        "encode",
    ] {
        assert!(names.contains(&name), "{name} is missing");
    }
    for name in [
        "now",
        "random",
        "uuid",
        "current_date",
        "current_time",
        "version",
        "input_file_name",
    ] {
        assert!(!names.contains(&name), "{name} is refused");
    }
    for doc in &docs {
        assert!(
            !doc.syntax.is_empty() && !doc.description.contains('\n'),
            "{doc:?}"
        );
    }
    assert_eq!(docs, functions(), "the order is always the same");
}

#[test]
fn our_own_function_is_documented_like_the_others() {
    let docs = functions();
    let split = docs.iter().find(|doc| doc.name == "regexp_split").unwrap();
    assert_eq!(split.syntax, "regexp_split(text, pattern)");
    assert!(split.description.contains("Empty pieces are kept"));
}

/// One call of each kind: planned, probed without rows, and evaluated with NULLs among the rows.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn functions_of_every_kind_are_planned_and_evaluated() {
    let calls = [
        "abs(m)",
        "ceil(x)",
        "floor(price)",
        "round(x, 1)",
        "power(m, 2)",
        "sqrt(x)",
        "ln(2.5)",
        "log(10, x + 1)",
        "signum(m)",
        "pi()",
        "greatest(n, m)",
        "least(n, m, 3)",
        "gcd(m, 4)",
        "trunc(x)",
        "isnan(x)",
        "nanvl(x, 1.0)",
        "ascii(line)",
        "btrim(line)",
        "chr(65)",
        "concat(line, '-', userId)",
        "concat_ws(',', line, userId)",
        "contains(line, 'o')",
        "ends_with(line, 'd')",
        "initcap(line)",
        "left(line, 2)",
        "right(line, 2)",
        "levenshtein(line, 'x')",
        "lpad(line, 5, '.')",
        "rpad(line, 5, '.')",
        "ltrim(line)",
        "rtrim(line)",
        "octet_length(line)",
        "bit_length(line)",
        "replace(line, 'o', '0')",
        "reverse(line)",
        "split_part(line, ' ', 1)",
        "starts_with(line, 'H')",
        "strpos(line, 'o')",
        "substr(line, 2)",
        "substring(line from 1 for 2)",
        "translate(line, 'lo', 'xy')",
        "to_hex(m)",
        "upper(line)",
        "find_in_set('a', 'b,a')",
        "substr_index(line, 'o', 1)",
        "overlay(line placing 'xx' from 1 for 2)",
        "regexp_count(line, 'o')",
        "regexp_instr(line, 'o')",
        "regexp_match(line, '(o)')",
        "regexp_replace(line, 'o', '0', 'g')",
        "line ~* 'h'",
        "line !~ 'h'",
        "line ilike 'h%'",
        "line similar to 'H%'",
        "encode(line, 'hex')",
        "decode('6162', 'hex')",
        "date_part('hour', at)",
        "date_trunc('day', at)",
        "date_bin(interval '1 hour', at, timestamp '2020-01-01T00:00:00')",
        "to_char(at, '%Y-%m-%d')",
        "to_date('2026-01-31')",
        "to_timestamp('2026-01-31T01:02:03')",
        "to_unixtime(at)",
        "make_date(2026, 1, 31)",
        "from_unixtime(big * 0 + 5)",
        "at + interval '1 day'",
        "at - at",
        "cast(at as date) - date '2020-01-01'",
        "at at time zone 'UTC'",
        "to_timestamp_millis(5)",
        "array_length(list)",
        "array_append(list, 3)",
        "array_concat(list, list)",
        "array_distinct(list)",
        "array_element(list, 1)",
        "array_has_any(list, [1])",
        "array_max(list)",
        "array_position(list, 2)",
        "array_remove(list, 2)",
        "array_reverse(list)",
        "array_slice(list, 1, 1)",
        "array_sort(list)",
        "array_sum(list)",
        "array_to_string(list, ',')",
        "string_to_array(line, ' ')",
        "cardinality(list)",
        "empty(list)",
        "flatten([list])",
        "array_union(list, [5])",
        "list[1:2]",
        "[1, 2, 3]",
        "map(['a'], [m])",
        "map_keys(map(['a'], [m]))",
        "named_struct('a', m)['a']",
        "struct(m, line)",
        "get_field(named_struct('a', m), 'a')",
        "arrow_typeof(m)",
        "nvl(line, '-')",
        "nvl2(line, 'a', 'b')",
        "ifnull(m, 0)",
        "nullif(m, 0)",
        "coalesce(m, n, 7)",
        "line is distinct from userId",
        "ok is unknown",
        "m ^ 1",
        "m & 1",
        "m | 1",
        "m << 1",
        "x::varchar",
        "1e3",
        "1.5e-3 * x",
    ];
    let failures: Vec<String> = calls
        .iter()
        .filter_map(|call| evaluate(call).err())
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

fn evaluate(call: &str) -> Result<(), String> {
    let expression = compile(call, &schema()).map_err(|error| error.render())?;
    let array = expression
        .evaluate(&batch())
        .map_err(|error| error.to_string())?;
    assert_eq!(array.len(), batch().num_rows(), "{call}");
    assert_eq!(array.data_type(), expression.data_type(), "{call}");
    assert!(
        expression.nullable() || array.null_count() == 0,
        "{call} is NULL and must not be"
    );
    Ok(())
}
