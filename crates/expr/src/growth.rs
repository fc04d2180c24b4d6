//! Functions whose result can be any number of times larger than their arguments.
//!
//! `repeat(line, 1000000000)` or `range(0, 1000000000)` would take the memory of a slot with one
//! row, at submission already when all is constant. Their counts are literals and small, and they
//! are not nested in each other.

use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use datafusion_expr::expr::ScalarFunction;

use crate::error::ErrorKind;

/// Largest count.
const MAX_COUNT: i64 = 65_536;

/// Checks one call.
pub(crate) fn check(call: &ScalarFunction) -> Result<(), ErrorKind> {
    let name = call.func.name();
    if !grows(name) {
        return Ok(());
    }
    if let Some(inner) = call.args.iter().find_map(first_growing_call) {
        return Err(refused(
            name,
            format!("Compute {inner}() in a step before, or do without one of the two."),
        ));
    }
    let count = match name {
        "range" | "generate_series" => elements(&call.args),
        _ => call.args.get(1).and_then(integer),
    };
    match count {
        Some(count) if count <= MAX_COUNT => Ok(()),
        // A wrong number of arguments is the planner's to report.
        None if call.args.len() < 2 && !matches!(name, "range" | "generate_series") => Ok(()),
        _ => Err(refused(
            name,
            format!("Write the count as a number of at most {MAX_COUNT}."),
        )),
    }
}

fn grows(name: &str) -> bool {
    matches!(
        name,
        "repeat" | "lpad" | "rpad" | "array_repeat" | "array_resize" | "range" | "generate_series"
    )
}

fn refused(name: &str, remedy: String) -> ErrorKind {
    ErrorKind::Refused {
        what: format!("this use of {name}()"),
        why: "has no small fixed bound of its result",
        remedy,
    }
}

/// How many elements a range of integer literals has.
fn elements(args: &[Expr]) -> Option<i64> {
    let numbers: Vec<i64> = args.iter().map(integer).collect::<Option<_>>()?;
    let (start, stop, step) = match numbers[..] {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] if step != 0 => (start, stop, step),
        _ => return None,
    };
    (stop.checked_sub(start)?.checked_div(step)?)
        .max(0)
        .checked_add(1)
}

fn integer(arg: &Expr) -> Option<i64> {
    match arg {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => Some(*number),
        _ => None,
    }
}

fn first_growing_call(arg: &Expr) -> Option<String> {
    let mut found = None;
    let walk = arg.apply(|node| {
        Ok(match node {
            Expr::ScalarFunction(call) if grows(call.func.name()) => {
                found = Some(call.func.name().to_owned());
                TreeNodeRecursion::Stop
            }
            _ => TreeNodeRecursion::Continue,
        })
    });
    walk.ok().and(found)
}
