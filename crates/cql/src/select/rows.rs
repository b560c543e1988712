//! Builds the rows of a result: one for each row that is read, for each group, or for all rows.

use std::borrow::Cow;

use model::{CqlType, TableSchema};
use protocol::CqlError;
use smallvec::SmallVec;

use super::selection::{CellsOf, Computed, Input, RowComputation, Selection};
use super::value::{Cells, RowView, cell_time};
use crate::function::Accumulator;
use crate::outcome::ResultRows;
use crate::term::{Env, Expr, Value};

type Bytes<'a> = Cow<'a, [u8]>;

/// Converts rows that were read to rows of the result. With aggregates and without GROUP BY, the result has a
/// single row.
pub struct RowsBuilder<'a> {
    schema: &'a TableSchema,
    env: Env<'a>,
    now_s: u32,
    computation: BoundWork<'a>,
    is_grouped: bool,
    /// Whether a group has started and not ended.
    is_group_open: bool,
    pub rows: ResultRows,
}

enum BoundWork<'a> {
    Plain(&'a [crate::restriction::ColumnRef]),
    Computed {
        computed: &'a Computed,
        times: Vec<TimeKeys<'a>>,
    },
    Aggregated {
        computed: &'a Computed,
        times: Vec<TimeKeys<'a>>,
        /// Aggregates of all rows, or of the current group.
        accumulators: Vec<Accumulator>,
        /// Inputs of the first row, which selectors without aggregates are evaluated on.
        first: Option<Vec<Option<Vec<u8>>>>,
    },
}

/// Values of the keys in the [`CellsOf`] of one input.
type TimeKeys<'a> = (Option<Bytes<'a>>, Option<Bytes<'a>>);

impl<'a> RowsBuilder<'a> {
    /// Creates a builder for one page of a result. `now_s` is the time for TTLs, in seconds since the Unix
    /// epoch.
    pub fn new(
        schema: &'a TableSchema,
        selection: &'a Selection,
        is_grouped: bool,
        rows: ResultRows,
        env: Env<'a>,
        now_s: u32,
    ) -> Result<Self, CqlError> {
        let computation = match &selection.computation {
            RowComputation::Plain(columns) => BoundWork::Plain(columns),
            RowComputation::Computed(computed) => {
                let times = computed.inputs.iter().map(|input| time_keys(input, &env));
                let times = times.collect::<Result<Vec<_>, _>>()?;
                if computed.aggregates.is_empty() {
                    BoundWork::Computed { computed, times }
                } else {
                    BoundWork::Aggregated { computed, times, accumulators: start(computed), first: None }
                }
            }
        };
        Ok(Self { schema, env, now_s, computation, is_grouped, is_group_open: false, rows })
    }

    /// Adds a row that was read: to the result, or to the aggregates.
    #[inline]
    pub fn add(&mut self, view: &RowView<'_>) -> Result<(), CqlError> {
        match &mut self.computation {
            BoundWork::Plain(columns) => {
                for column in *columns {
                    view.write(self.schema, *column, &mut self.rows)?;
                }
                self.rows.end_row();
            }
            BoundWork::Computed { computed, times } => {
                let inputs = inputs(self.schema, computed, times, view, self.now_s)?;
                output(computed, &self.env, &inputs, &mut self.rows)?;
            }
            BoundWork::Aggregated { computed, times, accumulators, first } => {
                let inputs = inputs(self.schema, computed, times, view, self.now_s)?;
                let env = Env { inputs: &inputs, ..self.env };
                for (call, accumulator) in computed.aggregates.iter().zip(accumulators.iter_mut()) {
                    let args = call.args.iter().map(|arg| arg.evaluate(&env));
                    let args = args.collect::<Result<SmallVec<[Value<'_>; 2]>, _>>()?;
                    let values = args.iter().map(|arg| match arg {
                        Value::Bytes(bytes) => Some(&**bytes),
                        Value::Null | Value::Unset => None,
                    });
                    accumulator.add(&values.collect::<SmallVec<[Option<&[u8]>; 2]>>())?;
                }
                if first.is_none() {
                    *first = Some(inputs.into_iter().map(|input| input.map(Cow::into_owned)).collect());
                }
            }
        }
        Ok(())
    }

    /// Starts a group with its first row. The previous group must have ended.
    pub fn begin_group(&mut self, view: &RowView<'_>) -> Result<(), CqlError> {
        debug_assert!(!self.is_group_open);
        self.is_group_open = true;
        self.add(view)
    }

    /// Adds a further row to the group. Only aggregates take it into account; other selectors use the first
    /// row.
    pub fn add_to_group(&mut self, view: &RowView<'_>) -> Result<(), CqlError> {
        match self.computation {
            BoundWork::Aggregated { .. } => self.add(view),
            BoundWork::Plain(_) | BoundWork::Computed { .. } => Ok(()),
        }
    }

    /// Adds the group's row to the result; does nothing if no group has started.
    pub fn end_group(&mut self) -> Result<(), CqlError> {
        match std::mem::replace(&mut self.is_group_open, false) {
            true => self.put_aggregates(),
            false => Ok(()),
        }
    }

    pub fn env(&self) -> &Env<'a> {
        &self.env
    }

    /// Returns the result, including the row of the last group or of the aggregates of all rows.
    pub fn finish(mut self) -> Result<ResultRows, CqlError> {
        match self.is_grouped {
            true => self.end_group()?,
            false => self.put_aggregates()?,
        }
        Ok(self.rows)
    }

    fn put_aggregates(&mut self) -> Result<(), CqlError> {
        let BoundWork::Aggregated { computed, accumulators, first, .. } = &mut self.computation else {
            return Ok(());
        };
        let ended = std::mem::replace(accumulators, start(computed));
        let results = ended.into_iter().map(Accumulator::finish).collect::<Result<Vec<_>, _>>()?;
        let mut inputs = first.take().unwrap_or_else(|| vec![None; computed.inputs.len()]);
        for (slot, input) in inputs.iter_mut().zip(&computed.inputs) {
            if let Input::Aggregate(number) = input {
                slot.clone_from(&results[*number]);
            }
        }
        let inputs: Vec<Option<Bytes<'_>>> =
            inputs.iter().map(|input| input.as_deref().map(Cow::Borrowed)).collect();
        output(computed, &self.env, &inputs, &mut self.rows)
    }
}

fn start(computed: &Computed) -> Vec<Accumulator> {
    computed.aggregates.iter().map(|call| call.aggregate.start()).collect()
}

fn time_keys<'a>(input: &'a Input, env: &Env<'a>) -> Result<TimeKeys<'a>, CqlError> {
    let key = |expr: &'a Expr| expr.evaluate(env)?.required(|| "the key of an element".to_string());
    Ok(match input {
        Input::Time { of: CellsOf::One(expr), .. } => (key(expr)?, None),
        Input::Time { of: CellsOf::Between(from, to), .. } => {
            let end = |end: &'a Option<Expr>| end.as_ref().map_or(Ok(None), key);
            (end(from)?, end(to)?)
        }
        _ => (None, None),
    })
}

fn inputs<'r>(
    schema: &TableSchema,
    computed: &Computed,
    times: &[TimeKeys<'_>],
    view: &RowView<'r>,
    now_s: u32,
) -> Result<Vec<Option<Bytes<'r>>>, CqlError> {
    let input = |(input, keys): (&Input, &TimeKeys<'_>)| match input {
        Input::Value(column) => view.value(schema, *column),
        Input::Masked(column, masker) => {
            let masked = masker.mask(view.value(schema, *column)?)?;
            Ok(masked.map(Cow::Owned))
        }
        Input::Aggregate(_) => Ok(None),
        Input::Time { what, column, id, of } => {
            let cells = match (of, keys) {
                (CellsOf::All, _) => Cells::All,
                (CellsOf::One(_), (Some(key), _)) => Cells::One(key),
                // No element has the key null.
                (CellsOf::One(_), _) => return Ok(None),
                (CellsOf::Between(..), (from, to)) => Cells::Between(from.as_deref(), to.as_deref()),
            };
            let Some(definition) = schema.column(*id) else { return Ok(None) };
            let time = cell_time(*what, view.data(*column), definition, &cells, now_s);
            Ok(time.map(Cow::Owned))
        }
    };
    computed.inputs.iter().zip(times).map(input).collect()
}

fn output(
    computed: &Computed,
    env: &Env<'_>,
    inputs: &[Option<Bytes<'_>>],
    rows: &mut ResultRows,
) -> Result<(), CqlError> {
    let env = Env { bound: env.bound, inputs, now_us: env.now_us, random: env.random };
    if let Some(fields) = &computed.json {
        let mut json = String::new();
        for (number, (expr, field)) in computed.outputs.iter().zip(fields).enumerate() {
            json.push_str(if number == 0 { "{" } else { ", " });
            json.push_str(&field.name);
            json.push_str(": ");
            match expr.evaluate(&env)? {
                Value::Bytes(bytes) if bytes.is_empty() && field.ty != CqlType::Blob => json.push_str("\"\""),
                Value::Bytes(bytes) => field.ty.write_json(&bytes, &mut json),
                Value::Null | Value::Unset => json.push_str("null"),
            }
        }
        json.push('}');
        rows.cell(Some(json.as_bytes()));
        rows.end_row();
        return Ok(());
    }
    for expr in &computed.outputs {
        match expr.evaluate(&env)? {
            Value::Bytes(bytes) => rows.cell(Some(&bytes)),
            Value::Null | Value::Unset => rows.cell(None),
        }
    }
    rows.end_row();
    Ok(())
}
