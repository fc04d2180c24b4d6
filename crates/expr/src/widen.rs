//! The common type of DOUBLE and DECIMAL is DOUBLE.
//!
//! The library turns the DOUBLE into a DECIMAL of 15 digits behind the point where it compares the
//! two or brings branches together: 1e-20 would be 0, and 1e15 an error. An exact literal such as
//! `0.5` beside a DOUBLE is what users write most, so its type gives way, as in PostgreSQL.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, cast};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

/// The library's coercion, with DECIMAL widened to DOUBLE first where the two meet.
pub(crate) struct Coercion<'a> {
    schema: &'a DFSchema,
    library: TypeCoercionRewriter<'a>,
}

impl<'a> Coercion<'a> {
    pub(crate) fn new(schema: &'a DFSchema) -> Self {
        Self {
            schema,
            library: TypeCoercionRewriter::new(schema),
        }
    }

    fn widened(&self, expr: Expr) -> Result<Expr> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let [left, right] = self.alike([*left, *right])?;
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => {
                let [expr, low, high] = self.alike([*expr, *low, *high])?;
                let [expr, low, high] = [expr, low, high].map(Box::new);
                Expr::Between(Between::new(expr, negated, low, high))
            }
            Expr::InList(InList {
                expr,
                list,
                negated,
            }) => {
                let mut all = vec![*expr];
                all.extend(list);
                let mut all = self.all_alike(all)?;
                let list = all.split_off(1);
                Expr::InList(InList::new(Box::new(all.remove(0)), list, negated))
            }
            Expr::Case(case) => Expr::Case(self.case(case)?),
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let args = self.all_alike(args)?;
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            other => other,
        })
    }

    /// The operand with its conditions, and the results, each for themselves.
    fn case(&self, case: Case) -> Result<Case> {
        let Case {
            expr,
            when_then_expr,
            else_expr,
        } = case;
        let (whens, mut results): (Vec<_>, Vec<_>) = when_then_expr
            .into_iter()
            .map(|(when, then)| (*when, *then))
            .unzip();
        let n_whens = whens.len();
        results.extend(else_expr.map(|other| *other));
        let mut results = self.all_alike(results)?;
        let else_expr = results.split_off(n_whens).pop().map(Box::new);
        let mut conditions = whens;
        conditions.extend(expr.map(|operand| *operand));
        let mut conditions = self.all_alike(conditions)?;
        let expr = conditions.split_off(n_whens).pop().map(Box::new);
        let when_then_expr = conditions
            .into_iter()
            .zip(results)
            .map(|(when, then)| (Box::new(when), Box::new(then)))
            .collect();
        Ok(Case::new(expr, when_then_expr, else_expr))
    }

    fn alike<const N: usize>(&self, operands: [Expr; N]) -> Result<[Expr; N]> {
        if !self.are_mixed(&operands)? {
            return Ok(operands);
        }
        let mut failure = Ok(());
        let widened = operands.map(|operand| {
            self.to_double(operand.clone()).unwrap_or_else(|error| {
                failure = Err(error);
                operand
            })
        });
        failure.map(|()| widened)
    }

    fn all_alike(&self, operands: Vec<Expr>) -> Result<Vec<Expr>> {
        if !self.are_mixed(&operands)? {
            return Ok(operands);
        }
        operands
            .into_iter()
            .map(|operand| self.to_double(operand))
            .collect()
    }

    fn are_mixed(&self, operands: &[Expr]) -> Result<bool> {
        let mut has_double = false;
        let mut has_decimal = false;
        for operand in operands {
            let data_type = operand.get_type(self.schema)?;
            has_double |= is_double(&data_type);
            has_decimal |= data_type.is_decimal();
        }
        Ok(has_double && has_decimal)
    }

    fn to_double(&self, operand: Expr) -> Result<Expr> {
        if !operand.get_type(self.schema)?.is_decimal() {
            return Ok(operand);
        }
        Ok(match &operand {
            Expr::Literal(value, _) => match nearest_double(value) {
                Some(double) => Expr::Literal(ScalarValue::Float64(Some(double)), None),
                None => cast(operand, DataType::Float64),
            },
            _ => cast(operand, DataType::Float64),
        })
    }
}

impl TreeNodeRewriter for Coercion<'_> {
    type Node = Expr;

    // From the leaves up, so that the operands have the types they will be evaluated with.
    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let widened = self.widened(expr)?;
        self.library.f_up(widened)
    }
}

/// Floating point, alone or as the elements of a list.
fn is_double(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_double(item.data_type())
        }
        other => other.is_floating(),
    }
}

/// The DOUBLE that is written with the same digits: 0.1 is 0.1, whatever a division would give.
fn nearest_double(value: &ScalarValue) -> Option<f64> {
    let text = match value {
        ScalarValue::Decimal32(Some(digits), _, scale) => exponential(digits, *scale),
        ScalarValue::Decimal64(Some(digits), _, scale) => exponential(digits, *scale),
        ScalarValue::Decimal128(Some(digits), _, scale) => exponential(digits, *scale),
        ScalarValue::Decimal256(Some(digits), _, scale) => exponential(digits, *scale),
        _ => return None,
    };
    text.parse().ok()
}

fn exponential(digits: impl std::fmt::Display, scale: i8) -> String {
    format!("{digits}e{}", -i16::from(scale))
}
