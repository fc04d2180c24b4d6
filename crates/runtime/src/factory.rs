//! From a graph's operators to running ones.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use millstream_connectors_basic::{
    BlackholeOperator, GeneratorReader, InjectOperator, PrintOperator, generator_split,
};
use millstream_connectors_file::{FileEnumerator, FileReader, file_sink};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::Env;
use millstream_expr::{Compiled, Predicate};
use millstream_graph::{AggregateColumn, OperatorKind, OperatorNode};
use millstream_operator::{
    Context, Enumerator, ErrorKind, Expression, Operator, OperatorError, OperatorInfo, Progress,
    RowOutput, Split, SplitReader, TwoPhaseSink,
};
use millstream_operators::{Aggregate, AggregateSpec, Filter, FlatMap, Select, Union};

use millstream_types::JobId;

use crate::failure;

/// What an operator of the graph is at run time.
pub(crate) enum Built {
    /// An operator of the chain.
    Operator(Box<dyn Operator>),
    /// The chain's last operator, with commits.
    Sink(TwoPhaseSink),
    /// The head of a source task. Its split where it has no enumerator.
    Reader(Box<dyn SplitReader>, Option<Split>),
    /// The head of an enumerator task.
    Enumerator(Arc<dyn Enumerator>),
}

/// Makes the operator of a node.
pub(crate) fn build(
    node: &OperatorNode,
    info: &OperatorInfo,
    job: JobId,
    env: &Env,
    output: &Arc<dyn RowOutput>,
) -> Result<Built, FailureInfo> {
    let input = info.inputs.first();
    let operator: Box<dyn Operator> = match &node.kind {
        OperatorKind::FileEnumerator(source) => {
            let enumerator = FileEnumerator::new(Arc::clone(env.fs()), source.clone());
            return Ok(Built::Enumerator(Arc::new(enumerator)));
        }
        OperatorKind::FileSource(source) => {
            let fs = Arc::clone(env.fs());
            let reader = FileReader::new(fs, source.clone(), info.uid.as_str());
            return Ok(Built::Reader(Box::new(reader), None));
        }
        OperatorKind::Generator(source) => {
            let reader = GeneratorReader::new(source, Arc::clone(&node.schema));
            let reader = reader.map_err(|error| failure::of_operator(&info.name, &error))?;
            let split = generator_split(info.subtask_index, info.parallelism);
            return Ok(Built::Reader(Box::new(reader), Some(split)));
        }
        OperatorKind::FileSink(sink) => {
            let sink = file_sink(env.fs(), sink, &node.schema, job);
            return sink
                .map(Built::Sink)
                .map_err(|e| failure::of_operator(&info.name, &e));
        }
        OperatorKind::Select { columns } => {
            let input = required(input, info)?;
            let columns = columns
                .iter()
                .map(|column| expression(&column.expr, input, info));
            Box::new(Select::new(columns.collect::<Result<_, _>>()?))
        }
        OperatorKind::Filter { predicate } => {
            let compiled = millstream_expr::compile_predicate(predicate, required(input, info)?);
            let predicate = compiled.map_err(|error| refused(info, &error))?;
            Box::new(Filter::new(Arc::new(PredicateExpression(predicate))))
        }
        OperatorKind::FlatMap { expr, keep, .. } => Box::new(FlatMap::new(
            expression(expr, required(input, info)?, info)?,
            *keep,
        )),
        OperatorKind::Union => Box::new(Union),
        OperatorKind::Aggregate {
            keys,
            aggregates,
            emit,
        } => {
            let input = required(input, info)?;
            let columns = aggregates
                .iter()
                .map(|column| aggregate(column, input, info));
            let spec = AggregateSpec {
                input: Arc::clone(input),
                keys: keys.clone(),
                aggregates: columns.collect::<Result<_, _>>()?,
                emit: *emit,
            };
            let aggregate = Aggregate::new(spec);
            Box::new(aggregate.map_err(|error| failure::of_operator(&info.name, &error))?)
        }
        OperatorKind::Inject(inject) => Box::new(InjectOperator::new(inject.clone())),
        OperatorKind::Print { label } => {
            Box::new(PrintOperator::new(label.clone(), Arc::clone(output)))
        }
        OperatorKind::Blackhole => Box::new(BlackholeOperator),
    };
    Ok(Built::Operator(operator))
}

fn required<'a>(
    input: Option<&'a SchemaRef>,
    info: &OperatorInfo,
) -> Result<&'a SchemaRef, FailureInfo> {
    let missing = || {
        let text = format!("operator {} has no input", info.uid);
        FailureInfo::new(FailureKind::Deployment, text)
    };
    input.ok_or_else(missing)
}

fn refused(info: &OperatorInfo, error: &(dyn std::error::Error + 'static)) -> FailureInfo {
    let mut failure = failure::of_error(FailureKind::Deployment, error);
    failure.operator = Some(info.name.clone());
    failure
}

fn expression(
    text: &str,
    input: &SchemaRef,
    info: &OperatorInfo,
) -> Result<Arc<dyn Expression>, FailureInfo> {
    let compiled = millstream_expr::compile(text, input).map_err(|e| refused(info, &e))?;
    Ok(Arc::new(CompiledExpression::new(compiled)))
}

fn aggregate(
    column: &AggregateColumn,
    input: &SchemaRef,
    info: &OperatorInfo,
) -> Result<(AggregateColumn, Option<Arc<dyn Expression>>), FailureInfo> {
    let function = column.function.name();
    let text = format!("{function}({})", column.argument.as_deref().unwrap_or("*"));
    let call = millstream_expr::parse_aggregate(&text, input).map_err(|e| refused(info, &e))?;
    let argument = call
        .input
        .map(|compiled| -> Arc<dyn Expression> { Arc::new(CompiledExpression::new(compiled)) });
    let mut column = column.clone();
    column.input_type = argument
        .as_ref()
        .map(|argument| argument.data_type().clone());
    Ok((column, argument))
}

/// A compiled expression behind the operators' trait.
struct CompiledExpression {
    compiled: Compiled,
    data_type: DataType,
}

impl CompiledExpression {
    fn new(compiled: Compiled) -> Self {
        let data_type = compiled.data_type().clone();
        Self {
            compiled,
            data_type,
        }
    }
}

fn failed(error: millstream_expr::EvalError) -> OperatorError {
    let remedy = error.remedy().to_string();
    OperatorError::new(ErrorKind::UserCode, error.to_string()).with_remedy(remedy)
}

impl Expression for CompiledExpression {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, OperatorError> {
        self.compiled.evaluate(rows).map_err(failed)
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray, OperatorError> {
        let values = self.evaluate(rows)?;
        values
            .as_any()
            .downcast_ref::<BooleanArray>()
            .cloned()
            .ok_or_else(|| {
                OperatorError::new(
                    ErrorKind::Internal,
                    "an expression that selects is not boolean",
                )
            })
    }
}

/// A compiled predicate behind the operators' trait.
struct PredicateExpression(Predicate);

impl Expression for PredicateExpression {
    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, OperatorError> {
        Ok(Arc::new(self.select(rows)?))
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray, OperatorError> {
        self.0.select(rows).map_err(failed)
    }
}

/// Stands for the head of a source task in its chain, whose rows come from a reader.
pub(crate) struct SourceHead;

impl Operator for SourceHead {
    fn process(
        &mut self,
        _input: u32,
        _batch: millstream_batch::Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let what = format!("rows came to source {}, which has no input", ctx.info.uid);
        Err(OperatorError::new(ErrorKind::Internal, what))
    }
}
