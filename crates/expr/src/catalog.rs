//! The functions an expression may call, those it may not and why, and the reference of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, TableReference, plan_err};
use datafusion_expr::planner::{ContextProvider, ExprPlanner};
use datafusion_expr::{
    AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, Volatility, WindowUDF,
};

use crate::split;

/// One line of the reference of functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDoc {
    /// The function's name.
    pub name: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// How it is called, for example `lower(str)`.
    pub syntax: String,
    /// What it gives, one paragraph.
    pub description: String,
}

/// All functions an expression may call, by name: the source of the generated reference.
pub fn functions() -> Vec<FunctionDoc> {
    let catalog = &*CATALOG;
    let primary = catalog
        .functions
        .iter()
        .filter(|(name, function)| name.as_str() == function.name());
    primary.map(|(_, function)| document(function)).collect()
}

/// How a function is called, for messages; `name(...)` where the library does not say.
pub(crate) fn syntax(name: &str) -> String {
    match CATALOG
        .functions
        .get(name)
        .and_then(|function| function.documentation())
    {
        Some(doc) => doc.syntax_example.trim().to_owned(),
        None => format!("{name}(...)"),
    }
}

fn document(function: &ScalarUDF) -> FunctionDoc {
    let text = function.documentation().map(|doc| {
        doc.description
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    });
    let mut aliases = function.aliases().to_vec();
    aliases.sort();
    FunctionDoc {
        name: function.name().to_owned(),
        aliases,
        syntax: syntax(function.name()),
        description: text.unwrap_or_default(),
    }
}

/// What a function name means.
pub(crate) enum Lookup {
    /// A function that may be called.
    Found,
    /// A function of many rows.
    Aggregate,
    /// A function of neighbouring rows.
    Window,
    /// A function that exists and is refused.
    Refused {
        why: &'static str,
        remedy: &'static str,
    },
    /// Nothing we know.
    Unknown,
}

/// Looks up a lower-case function name.
pub(crate) fn lookup(name: &str) -> Lookup {
    if CATALOG.functions.contains_key(name) {
        return Lookup::Found;
    }
    if AGGREGATES.contains(&name) {
        return Lookup::Aggregate;
    }
    if WINDOWS.contains(&name) {
        return Lookup::Window;
    }
    match REFUSED.iter().find(|(names, ..)| names.contains(&name)) {
        Some((_, why, remedy)) => Lookup::Refused { why, remedy },
        None if CATALOG.varying.contains(name) => Lookup::Refused {
            why: VARIES,
            remedy: OF_ROW,
        },
        None => Lookup::Unknown,
    }
}

/// A function that may be called.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    CATALOG.functions.get(name).cloned()
}

/// All names that may be called, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CATALOG.functions.keys().map(String::as_str)
}

/// The catalog as the planner of the SQL library wants it.
pub(crate) fn provider() -> &'static Catalog {
    &CATALOG
}

/// Names of aggregates, also of those that do not exist here: the message is better than "unknown
/// function".
pub(crate) const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "listagg",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nth_value",
    "percentile_cont",
    "percentile_disc",
    "quantile_cont",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var",
    "var_pop",
    "var_samp",
];

const WINDOWS: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "lag",
    "lead",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

const VARIES: &str =
    "gives another value each time it runs, so a replay after a failure would give other results";
const OF_ROW: &str = "Derive the value from columns of the row.";

/// Functions by name that are refused, with the reason and the remedy.
const REFUSED: &[(&[&str], &str, &str)] = &[
    (
        &[
            "now",
            "today",
            "current_date",
            "current_time",
            "current_timestamp",
            "localtime",
            "localtimestamp",
            "proctime",
            "getdate",
            "sysdate",
        ],
        "reads the clock, so a replay after a failure would give other results",
        "Use a column with the time of the event.",
    ),
    (
        &["random", "rand", "uuid", "gen_random_uuid", "newid"],
        VARIES,
        OF_ROW,
    ),
    (
        &[
            "version",
            "current_user",
            "session_user",
            "user",
            "current_catalog",
            "current_database",
            "current_schema",
            "input_file_name",
            "file_row_index",
        ],
        "depends on where the job runs, not on the row",
        OF_ROW,
    ),
    (
        &["unnest", "explode", "flatten_rows"],
        "makes many rows of one, an expression gives one value a row",
        "Use a flat-map step: it makes one row of each element of an array.",
    ),
];

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::new);

/// Functions and settings for planning one expression.
pub(crate) struct Catalog {
    /// By name and alias.
    functions: BTreeMap<String, Arc<ScalarUDF>>,
    /// Functions of the library that are volatile or folded at plan time.
    varying: BTreeSet<String>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
}

impl Catalog {
    fn new() -> Self {
        let library = datafusion_functions::all_default_functions()
            .into_iter()
            .chain(datafusion_functions_nested::all_default_nested_functions())
            .chain([split::function()]);
        let mut functions = BTreeMap::new();
        let mut varying = BTreeSet::new();
        for function in library {
            let names = [function.name().to_owned()]
                .into_iter()
                .chain(function.aliases().iter().cloned());
            for name in names {
                // A library update that adds a function of the clock must not open a hole: the rule
                // is its volatility.
                if function.signature().volatility != Volatility::Immutable {
                    varying.insert(name);
                } else if !REFUSED
                    .iter()
                    .any(|(refused, ..)| refused.contains(&name.as_str()))
                {
                    functions
                        .entry(name)
                        .or_insert_with(|| Arc::clone(&function));
                }
            }
        }
        Self {
            functions,
            varying,
            planners: planners(),
            options: ConfigOptions::new(),
        }
    }
}

fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
        Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
        Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
        Arc::new(datafusion_functions_nested::planner::NestedFunctionPlanner),
        Arc::new(datafusion_functions_nested::planner::FieldAccessPlanner),
    ]
}

impl ContextProvider for Catalog {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("there is no table {name} in an expression")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.functions.get(name).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _name: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _name: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.functions.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
