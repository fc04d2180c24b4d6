//! Rules that are stricter than the planner of the SQL library, on the tree before it widens types.
//!
//! The library compares text with numbers by casting one to the other, which fails on the first row
//! that is not a number; here that is an error at submission.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{Case, ScalarFunction};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::error::ErrorKind;
use crate::types::Class;
use crate::{growth, pattern};

/// Why an expression is not accepted.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// The types of the operands; the message is made where the syntax tree is known.
    Types,
    /// Something else.
    Kind(ErrorKind),
}

/// Checks every node of a planned expression.
pub(crate) fn check(expr: &Expr, schema: &DFSchema) -> Result<(), Misfit> {
    let mut misfit = None;
    let walk = expr.apply(|node| match check_node(node, schema) {
        Ok(()) => Ok(TreeNodeRecursion::Continue),
        Err(found) => {
            misfit = Some(found);
            Ok(TreeNodeRecursion::Stop)
        }
    });
    match (walk, misfit) {
        (Ok(_), None) => Ok(()),
        (_, Some(misfit)) => Err(misfit),
        (Err(_), None) => Err(Misfit::Types),
    }
}

fn check_node(node: &Expr, schema: &DFSchema) -> Result<(), Misfit> {
    match node {
        Expr::BinaryExpr(binary) => check_binary(binary, schema),
        Expr::Like(like) => all_of(&[&like.expr, &like.pattern], Class::Text, schema),
        Expr::SimilarTo(like) => literal_pattern(&like.pattern),
        Expr::Between(between) => fit_all(&[&between.expr, &between.low, &between.high], schema),
        Expr::InList(list) => list
            .list
            .iter()
            .try_for_each(|item| fit(&list.expr, item, schema)),
        Expr::Case(case) => check_case(case, schema),
        Expr::Not(arg) => all_of(&[arg], Class::Boolean, schema),
        Expr::ScalarFunction(call) => check_call(call, schema),
        _ => Ok(()),
    }
}

fn check_binary(binary: &BinaryExpr, schema: &DFSchema) -> Result<(), Misfit> {
    use Operator::*;
    let operands = [binary.left.as_ref(), binary.right.as_ref()];
    match binary.op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => {
            fit(operands[0], operands[1], schema)
        }
        Plus | Minus | Multiply | Divide | Modulo | IntegerDivide => {
            operands
                .iter()
                .try_for_each(|operand| match class(operand, schema)? {
                    Class::Number | Class::Temporal | Class::Interval | Class::Null => Ok(()),
                    Class::Boolean | Class::Text | Class::Binary | Class::Nested => {
                        Err(Misfit::Types)
                    }
                })
        }
        And | Or => all_of(&operands, Class::Boolean, schema),
        BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight => {
            all_of(&operands, Class::Number, schema)
        }
        LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch => {
            all_of(&operands, Class::Text, schema)
        }
        RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch => {
            all_of(&operands, Class::Text, schema)?;
            literal_pattern(operands[1])
        }
        // Concatenation writes its operands as text, and the rest is the planner's to accept or
        // not.
        _ => Ok(()),
    }
}

fn check_case(case: &Case, schema: &DFSchema) -> Result<(), Misfit> {
    let conditions: Vec<&Expr> = case
        .when_then_expr
        .iter()
        .map(|(when, _)| when.as_ref())
        .collect();
    match &case.expr {
        Some(operand) => conditions
            .iter()
            .try_for_each(|when| fit(operand, when, schema))?,
        None => all_of(&conditions, Class::Boolean, schema)?,
    }
    let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    fit_all(
        &results.chain(case.else_expr.as_deref()).collect::<Vec<_>>(),
        schema,
    )
}

fn check_call(call: &ScalarFunction, schema: &DFSchema) -> Result<(), Misfit> {
    growth::check(call).map_err(Misfit::Kind)?;
    let args: Vec<&Expr> = call.args.iter().collect();
    match call.func.name() {
        "coalesce" | "nvl" | "nullif" | "greatest" | "least" => fit_all(&args, schema),
        "nvl2" => fit_all(args.get(1..).unwrap_or_default(), schema),
        "regexp_like" | "regexp_match" | "regexp_replace" | "regexp_count" | "regexp_instr"
        | "regexp_split" => args.get(1).map_or(Ok(()), |arg| literal_pattern(arg)),
        _ => Ok(()),
    }
}

fn literal_pattern(arg: &Expr) -> Result<(), Misfit> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = arg else {
        return Err(Misfit::Kind(pattern::not_a_literal()));
    };
    pattern::compile(text).map(drop).map_err(Misfit::Kind)
}

fn all_of(operands: &[&Expr], wanted: Class, schema: &DFSchema) -> Result<(), Misfit> {
    operands.iter().try_for_each(|operand| {
        let found = class(operand, schema)?;
        if found == wanted || found == Class::Null {
            Ok(())
        } else {
            Err(Misfit::Types)
        }
    })
}

/// All of the given must be comparable with the first that is not NULL.
fn fit_all(operands: &[&Expr], schema: &DFSchema) -> Result<(), Misfit> {
    operands.iter().enumerate().try_for_each(|(index, right)| {
        operands[..index]
            .iter()
            .try_for_each(|left| fit(left, right, schema))
    })
}

fn fit(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<(), Misfit> {
    match (class(left, schema)?, class(right, schema)?) {
        (Class::Null, _) | (_, Class::Null) => Ok(()),
        (l, r) if l == r => Ok(()),
        // DATE '2026-01-01' is tiresome to write out at every comparison; a column of text must be
        // cast.
        (Class::Text, Class::Temporal | Class::Interval) if is_literal(left) => Ok(()),
        (Class::Temporal | Class::Interval, Class::Text) if is_literal(right) => Ok(()),
        _ => Err(Misfit::Types),
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

fn class(expr: &Expr, schema: &DFSchema) -> Result<Class, Misfit> {
    let data_type: DataType = expr.get_type(schema).map_err(|_| Misfit::Types)?;
    Ok(Class::of(&data_type))
}
