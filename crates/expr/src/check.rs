//! What an expression may not contain, and names that do not exist: found on the syntax tree, where
//! places are known.

use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Spanned, Value,
    Visit, Visitor,
};

use crate::catalog::{self, Lookup};
use crate::error::{ErrorKind, ExprError};
use crate::excerpt::Span;
use crate::parse::{self, Ast};

/// Checks a scalar expression; the first offence in the order of the text is reported.
pub(crate) fn scalar(ast: &Ast, text: &str, schema: &Schema) -> Result<(), ExprError> {
    match ast.visit(&mut Checker { text, schema }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// A call without arguments' clauses: what DISTINCT, FILTER, OVER and their like are refused by.
pub(crate) fn plain_call(function: &Function) -> Result<(), ErrorKind> {
    if function.over.is_some() {
        return Err(window());
    }
    let clauses = match &function.args {
        FunctionArguments::List(list) if list.duplicate_treatment.is_some() => {
            return Err(ErrorKind::Refused {
                what: "DISTINCT in a call".into(),
                why: "would keep every value ever seen in state",
                remedy: "Put a key-by on the value before the aggregate step, and count the keys."
                    .into(),
            });
        }
        FunctionArguments::List(list) => !list.clauses.is_empty(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => false,
    };
    if clauses
        || function.filter.is_some()
        || function.null_treatment.is_some()
        || !function.within_group.is_empty()
        || !matches!(function.parameters, FunctionArguments::None)
    {
        return Err(ErrorKind::Refused {
            what: "a clause inside a call (FILTER, ORDER BY, WITHIN GROUP, IGNORE NULLS)".into(),
            why: "has no effect in a stream's expression",
            remedy: "Keep rows out with a filter step before this one, or use CASE.".into(),
        });
    }
    Ok(())
}

fn window() -> ErrorKind {
    ErrorKind::Refused {
        what: "a window function".into(),
        why: "needs other rows, an expression sees one row",
        remedy: "Use a key-by and an aggregate step.".into(),
    }
}

struct Checker<'a> {
    text: &'a str,
    schema: &'a Schema,
}

impl Visitor for Checker<'_> {
    type Break = ExprError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<ExprError> {
        self.refuse(subquery(), parse::span_of(query.span()))
    }

    fn pre_visit_expr(&mut self, ast: &Expr) -> ControlFlow<ExprError> {
        let span = || parse::span(ast);
        match ast {
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(path) => path
                .first()
                .map_or(ControlFlow::Continue(()), |name| self.column(name)),
            Expr::Function(function) => self.function(function),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                self.refuse(subquery(), span())
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.refuse(quantified(), span()),
            Expr::Between { expr, .. } if has_between(expr) => {
                self.refuse(nested_between(), span())
            }
            Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => self.refuse(wildcard(), span()),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => self.refuse(placeholder(name), span()),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Checker<'_> {
    fn refuse(&self, kind: ErrorKind, span: Span) -> ControlFlow<ExprError> {
        ControlFlow::Break(ExprError::new(kind, span, self.text))
    }

    fn column(&self, ident: &Ident) -> ControlFlow<ExprError> {
        if self.schema.index_of(&ident.value).is_ok() {
            return ControlFlow::Continue(());
        }
        let columns: Vec<String> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        let suggestion = nearest(&ident.value, columns.iter().map(String::as_str));
        let kind = ErrorKind::UnknownColumn {
            name: ident.value.clone(),
            suggestion,
            columns,
        };
        self.refuse(kind, parse::span_of(ident.span))
    }

    fn function(&self, function: &Function) -> ControlFlow<ExprError> {
        let name = function.name.to_string().to_lowercase();
        let span = parse::span_of(function.name.span());
        let verdict = match catalog::lookup(&name) {
            Lookup::Found => plain_call(function),
            Lookup::Aggregate => Err(ErrorKind::Refused {
                what: format!("the aggregate {name}()"),
                why: "needs many rows, an expression sees one row",
                remedy: "Use it in the select of an aggregate step, alone: arithmetic goes into a select step after it."
                    .into(),
            }),
            Lookup::Window => Err(window()),
            Lookup::Refused { why, remedy } => {
                Err(ErrorKind::Refused { what: format!("{name}()"), why, remedy: remedy.into() })
            }
            Lookup::Unknown => {
                let suggestion = nearest(&name, catalog::names());
                Err(ErrorKind::UnknownFunction { name: function.name.to_string(), suggestion })
            }
        };
        match verdict {
            Err(kind) => self.refuse(kind, span),
            Ok(()) if has_wildcard(function) => self.refuse(wildcard(), span),
            Ok(()) => ControlFlow::Continue(()),
        }
    }
}

fn has_wildcard(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    list.args.iter().any(|arg| match arg {
        FunctionArg::Named { arg, .. }
        | FunctionArg::ExprNamed { arg, .. }
        | FunctionArg::Unnamed(arg) => !matches!(arg, FunctionArgExpr::Expr(_)),
    })
}

fn subquery() -> ErrorKind {
    ErrorKind::Refused {
        what: "a subquery".into(),
        why: "needs other rows, an expression sees one row",
        remedy: "Bring the other input in with its own steps.".into(),
    }
}

/// The library writes these out with several copies of both sides, which doubles with each level.
fn quantified() -> ErrorKind {
    ErrorKind::Refused {
        what: "a comparison with ANY or ALL".into(),
        why: "is not supported",
        remedy: "Use array_has(list, x), or compare with array_min(list) or array_max(list)."
            .into(),
    }
}

/// `x BETWEEN a AND b` evaluates `x` twice, so nesting it in `x` doubles the work with each level.
fn nested_between() -> ErrorKind {
    ErrorKind::Refused {
        what: "a BETWEEN on the left of BETWEEN".into(),
        why: "would be computed twice for each level",
        remedy: "Write the outer one with >= and <=, or compute the inner one in a step before."
            .into(),
    }
}

fn has_between(ast: &Ast) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, part: &Expr) -> ControlFlow<()> {
            match part {
                Expr::Between { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    ast.visit(&mut Finder).is_break()
}

fn wildcard() -> ErrorKind {
    ErrorKind::Refused {
        what: "*".into(),
        why: "stands for many columns, an expression has one value",
        remedy: "Name the columns; count(*) belongs in an aggregate step.".into(),
    }
}

fn placeholder(name: &str) -> ErrorKind {
    ErrorKind::Refused {
        what: format!("the placeholder {name}"),
        why: "has no value, a job is complete when it is submitted",
        remedy: "Write the value itself.".into(),
    }
}

/// The known name that was probably meant: the same in another case, or few edits away.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    let tolerated = (lower.chars().count() / 3).clamp(1, 3);
    known
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(edits, _)| *edits <= tolerated)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_is_suggested_only_when_it_is_near() {
        let known = ["userId", "amount", "id"];
        assert_eq!(nearest("userid", known.into_iter()), Some("userId".into()));
        assert_eq!(nearest("amuont", known.into_iter()), Some("amount".into()));
        assert_eq!(nearest("line", known.into_iter()), None);
    }
}
