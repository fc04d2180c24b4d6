//! Syntax tree to evaluated tree, and the place of what does not fit.
//!
//! The library's planner reports no places. When it fails on a tree, each part of the tree is
//! planned alone; the smallest part that fails is what the error points at, and its own parts,
//! which do plan, have types to name.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, DataFusionError, Result as LibraryResult};
use datafusion_expr::Expr;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_physical_expr::create_physical_expr;
use datafusion_sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, Visit, Visitor,
};

use crate::catalog;
use crate::checked::{self, Physical};
use crate::error::{ErrorKind, ExprError};
use crate::excerpt::Span;
use crate::lazy::COALESCE;
use crate::parse::{self, Ast};
use crate::rules::{self, Misfit};
use crate::types::sql_name;
use crate::widen::Coercion;
use crate::{split, translate};

/// Why a tree could not be planned, before its place is known.
enum Failure {
    /// Operands that do not fit; the message is made from the syntax tree.
    Types,
    /// A whole error.
    Kind(ErrorKind),
    /// The library's words.
    Library(String),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Library(translate::plain(&error.find_root().message()))
    }
}

impl From<Misfit> for Failure {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Types => Self::Types,
            Misfit::Kind(kind) => Self::Kind(kind),
        }
    }
}

/// Plans expressions of one text over one schema.
pub(crate) struct Planner<'a> {
    text: &'a str,
    columns: SchemaRef,
    schema: Arc<DFSchema>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(text: &'a str, columns: &SchemaRef) -> Result<Self, ExprError> {
        let mut names = BTreeSet::new();
        if let Some(twice) = columns
            .fields()
            .iter()
            .find(|field| !names.insert(field.name()))
        {
            let kind = ErrorKind::DuplicateColumn {
                name: twice.name().clone(),
            };
            return Err(ExprError::new(kind, Span::START, text));
        }
        let schema = DFSchema::try_from(Arc::clone(columns)).map_err(|error| {
            let message = translate::plain(&error.find_root().message());
            ExprError::new(ErrorKind::Internal { message }, Span::START, text)
        })?;
        Ok(Self {
            text,
            columns: Arc::clone(columns),
            schema: Arc::new(schema),
        })
    }

    /// Plans a checked syntax tree.
    pub(crate) fn plan(&self, ast: &Ast) -> Result<Physical, ExprError> {
        self.attempt(ast)
            .map_err(|failure| self.blame(ast, failure, Span::START))
    }

    fn attempt(&self, ast: &Ast) -> Result<Physical, Failure> {
        let options = ParserOptions::new()
            .with_enable_ident_normalization(false)
            .with_map_string_types_to_utf8view(false)
            .with_parse_float_as_decimal(true);
        let planner = SqlToRel::new_with_options(catalog::provider(), options);
        let logical = planner.sql_to_expr(ast.clone(), &self.schema, &mut PlannerContext::new())?;
        rules::check(&logical, &self.schema)?;
        let logical = bind(logical)?;
        let logical = logical.rewrite(&mut Coercion::new(&self.schema)).data()?;
        let logical = self.rewrite_calls(logical)?;
        let context = PhysicalPlanningContext::default();
        let physical =
            create_physical_expr(&logical, &self.schema, &ExecutionProps::new(), &context)?;
        // Some functions check their arguments only when asked for their type.
        physical.data_type(&self.columns)?;
        checked::strict(physical, &self.columns)
            .map_err(|fault| Failure::Kind(ErrorKind::AlwaysFails { fault }))
    }

    /// Functions that are defined by others (`coalesce` is a CASE) can be evaluated only in that
    /// form.
    ///
    /// The library's algebra is not used: `a * 0` must still fail where `a` does, and its constant
    /// folding wraps.
    fn rewrite_calls(&self, logical: Expr) -> LibraryResult<Expr> {
        const ROUNDS: usize = 4;
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&self.schema))
            .with_config_options(Arc::new(ConfigOptions::new()))
            .build();
        let mut logical = logical;
        for _ in 0..ROUNDS {
            let round = logical.transform_up(|node| match node {
                Expr::ScalarFunction(call) => self.rewrite_call(call, &context),
                other => Ok(Transformed::no(other)),
            })?;
            logical = round.data;
            if !round.transformed {
                break;
            }
        }
        Ok(logical)
    }

    fn rewrite_call(
        &self,
        call: ScalarFunction,
        context: &SimplifyContext,
    ) -> LibraryResult<Transformed<Expr>> {
        let ScalarFunction { func, args } = call;
        let coalesce = catalog::function(COALESCE);
        match (func.name(), coalesce) {
            // The library's forms of these two double their first argument.
            (COALESCE, _) => {
                return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction {
                    func,
                    args,
                })));
            }
            ("nvl", Some(func)) => {
                return Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction {
                    func,
                    args,
                })));
            }
            _ => {}
        }
        match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(simpler) => Ok(Transformed::yes(simpler)),
            ExprSimplifyResult::Original(args) => {
                Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction {
                    func,
                    args,
                })))
            }
        }
    }

    /// Finds the smallest part that fails. A tree fails if a part does, so on the path of largest
    /// parts the deepest that fails is found by halving: planning takes time quadratic in the depth,
    /// and trying every level would make it cubic.
    fn blame(&self, ast: &Ast, mut failure: Failure, around: Span) -> ExprError {
        let path = path_of_largest(ast);
        let (mut bad, mut good) = (0, path.len());
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match self.attempt(&path[middle]) {
                Ok(_) => good = middle,
                Err(deeper) => (bad, failure) = (middle, deeper),
            }
        }
        // Some nodes keep no place: the next larger one that does is named.
        let places = path[..=bad].iter().rev().map(parse::span);
        let span = places
            .into_iter()
            .find(|span| *span != Span::START)
            .unwrap_or(around);
        let culprit = &path[bad];
        for part in parts(culprit) {
            if let Err(failure) = self.attempt(&part) {
                return self.blame(&part, failure, span);
            }
        }
        let kind = match failure {
            Failure::Kind(kind) => kind,
            Failure::Types => self.describe(culprit, None),
            Failure::Library(words) => {
                self.describe(culprit, Some(words).filter(|w| presentable(w)))
            }
        };
        ExprError::new(kind, span, self.text)
    }

    /// The message for a node whose parts are fine but do not go together.
    fn describe(&self, ast: &Ast, words: Option<String>) -> ErrorKind {
        let types = |parts: &[&Ast]| {
            parts
                .iter()
                .map(|part| self.type_name(part))
                .collect::<Vec<_>>()
        };
        let (message, remedy) = match ast {
            Ast::BinaryOp { left, op, right } => {
                let types = types(&[left, right]);
                let remedy = format!(
                    "Cast one side, for example CAST(... AS {}).",
                    better_type(&types)
                );
                (
                    format!("operator {op} does not take {}", types.join(" and ")),
                    remedy,
                )
            }
            Ast::UnaryOp { op, expr } => (
                format!("operator {op} does not take {}", self.type_name(expr)),
                "Cast the operand.".to_owned(),
            ),
            Ast::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                let args = types(&arguments(function));
                let message = format!("function {name} does not take ({})", args.join(", "));
                (message, format!("It is called {}.", catalog::syntax(&name)))
            }
            Ast::Cast {
                expr, data_type, ..
            } => {
                let message = format!("cannot cast {} to {data_type}", self.type_name(expr));
                (
                    message,
                    "Cast by way of a type that fits both, or drop the cast.".to_owned(),
                )
            }
            _ => match words {
                Some(words) => (
                    words,
                    "See the reference of expressions for what there is.".to_owned(),
                ),
                None => {
                    let owned = parts(ast);
                    let mut types = types(&owned.iter().collect::<Vec<_>>());
                    types.dedup();
                    let message = format!("these types do not go together: {}", types.join(", "));
                    (message, "Cast them to one type.".to_owned())
                }
            },
        };
        ErrorKind::Type { message, remedy }
    }

    fn type_name(&self, ast: &Ast) -> String {
        let data_type = self
            .attempt(ast)
            .ok()
            .and_then(|physical| physical.data_type(&self.columns).ok());
        data_type.map_or_else(
            || "an unknown type".into(),
            |data_type| sql_name(&data_type),
        )
    }
}

/// Whether the library's words are for people: some are printed structures of its own.
fn presentable(words: &str) -> bool {
    ![
        "ignature",
        "Some(",
        "::",
        "{",
        "feature flag",
        "likely caused by a bug",
    ]
    .iter()
    .any(|mark| words.contains(mark))
}

/// The type to suggest when two do not fit: the one that is not text.
fn better_type(types: &[String]) -> &str {
    types
        .iter()
        .map(String::as_str)
        .find(|name| *name != "VARCHAR")
        .unwrap_or("BIGINT")
}

fn bind(logical: Expr) -> Result<Expr, Failure> {
    let mut wrong = None;
    let bound = logical.transform_up(|node| match node {
        Expr::ScalarFunction(call) => match split::bind(call) {
            Ok(call) => Ok(Transformed::yes(Expr::ScalarFunction(call))),
            Err(kind) => {
                wrong = Some(kind);
                Err(DataFusionError::Plan(String::new()))
            }
        },
        other => Ok(Transformed::no(other)),
    });
    match (bound, wrong) {
        (_, Some(kind)) => Err(Failure::Kind(kind)),
        (bound, None) => Ok(bound?.data),
    }
}

fn arguments(function: &ast::Function) -> Vec<&Ast> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let args = list.args.iter().filter_map(|arg| match arg {
        FunctionArg::Named { arg, .. }
        | FunctionArg::ExprNamed { arg, .. }
        | FunctionArg::Unnamed(arg) => match arg {
            FunctionArgExpr::Expr(arg) => Some(arg),
            _ => None,
        },
    });
    args.collect()
}

/// A tree, its largest part, the largest part of that, and so on.
fn path_of_largest(ast: &Ast) -> Vec<Ast> {
    let mut path = vec![ast.clone()];
    while let Some(largest) = path
        .last()
        .and_then(|last| parts(last).into_iter().max_by_key(size))
    {
        path.push(largest);
    }
    path
}

/// How many expressions a tree has.
fn size(ast: &Ast) -> usize {
    struct Counter(usize);
    impl Visitor for Counter {
        type Break = ();

        fn pre_visit_expr(&mut self, _part: &Ast) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut counter = Counter(0);
    let _: ControlFlow<()> = ast.visit(&mut counter);
    counter.0
}

/// The expressions directly inside another, in the order of the text.
fn parts(ast: &Ast) -> Vec<Ast> {
    struct Collector {
        depth: usize,
        parts: Vec<Ast>,
    }
    impl Visitor for Collector {
        type Break = ();

        fn pre_visit_expr(&mut self, part: &Ast) -> ControlFlow<()> {
            if self.depth == 1 {
                self.parts.push(part.clone());
            }
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, _part: &Ast) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
    }
    let mut collector = Collector {
        depth: 0,
        parts: Vec::new(),
    };
    let _: ControlFlow<()> = ast.visit(&mut collector);
    collector.parts
}
