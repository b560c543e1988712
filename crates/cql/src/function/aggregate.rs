//! The aggregate functions `count`, `min`, `max`, `sum` and `avg`, and those that users define.
//!
//! Nulls are ignored. Sums of integers wrap around within their type. Averages are computed without a size
//! limit and truncated towards zero. Without rows, `min` and `max` are null and the other functions are zero.
//! Source: Cassandra 4.1 `cql3/functions/AggregateFcts.java`.

use std::sync::Arc;

use catalog::{Scripts, UserAggregate};
use model::CqlType;
use num_bigint::BigInt;
use protocol::CqlError;

use super::number::{Decimal, Number, is_numeric};
use super::user::UserAggregation;

/// An aggregate function for values of one type.
#[derive(Clone, Debug)]
pub struct Aggregate {
    kind: Kind,
    of: CqlType,
    pub result: CqlType,
}

#[derive(Clone, Debug)]
enum Kind {
    Count,
    Min,
    Max,
    Sum,
    Avg,
    User(UserAggregation),
}

/// The intermediate state of an aggregate.
#[derive(Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    count: i64,
    best: Option<Vec<u8>>,
    sum: Sum,
    /// State of a user-defined aggregate.
    state: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Sum {
    Integers(BigInt),
    Decimals(Decimal),
    /// Sum by Neumaier's compensated summation. `lost` is the accumulated rounding error.
    Floats {
        sum: f64,
        lost: f64,
    },
}

impl Aggregate {
    /// Returns `count(*)`.
    pub fn count_rows() -> Self {
        Self { kind: Kind::Count, of: CqlType::Empty, result: CqlType::BigInt }
    }

    /// Returns an aggregate that a user has defined.
    pub fn user(aggregate: &Arc<UserAggregate>, scripts: Option<&Scripts>) -> Self {
        let user = UserAggregation::new(aggregate, scripts);
        Self { of: CqlType::Empty, result: user.result().clone(), kind: Kind::User(user) }
    }

    /// Whether the name is that of a built-in aggregate.
    pub fn is_name(name: &str) -> bool {
        matches!(name, "count" | "min" | "max" | "sum" | "avg")
    }

    /// Returns the aggregate `name` for values of type `of`; `None` if there is none.
    pub fn named(name: &str, of: Option<&CqlType>) -> Option<Self> {
        let of = of?.without_reversed().clone();
        // This includes counters: the result has the type counter, which clients read as a bigint.
        let (kind, result) = match name {
            "count" => (Kind::Count, CqlType::BigInt),
            "min" => (Kind::Min, of.clone()),
            "max" => (Kind::Max, of.clone()),
            "sum" if is_numeric(&of) => (Kind::Sum, of.clone()),
            "avg" if is_numeric(&of) => (Kind::Avg, of.clone()),
            _ => return None,
        };
        Some(Self { kind, of, result })
    }

    pub fn start(&self) -> Accumulator {
        let zero = || BigInt::from(0);
        let sum = match self.result {
            CqlType::Float | CqlType::Double => Sum::Floats { sum: 0.0, lost: 0.0 },
            CqlType::Decimal => Sum::Decimals(Decimal { unscaled: zero(), scale: 0 }),
            _ => Sum::Integers(zero()),
        };
        let state = match &self.kind {
            Kind::User(user) => user.start(),
            _ => None,
        };
        Accumulator { aggregate: self.clone(), count: 0, best: None, sum, state }
    }
}

impl Accumulator {
    /// Adds the values of a row: one, or as many as a user-defined aggregate has arguments.
    pub fn add(&mut self, values: &[Option<&[u8]>]) -> Result<(), CqlError> {
        if let Kind::User(user) = &self.aggregate.kind {
            self.state = user.next(self.state.take(), values)?;
            return Ok(());
        }
        let [Some(value)] = *values else { return Ok(()) };
        let ty = if self.aggregate.of.is_counter() { &CqlType::BigInt } else { &self.aggregate.of };
        match &self.aggregate.kind {
            Kind::User(_) => {}
            Kind::Count => self.count += 1,
            kind @ (Kind::Min | Kind::Max) => {
                let better = self.best.as_ref().is_none_or(|best| {
                    let order = ty.compare(value, best);
                    if matches!(kind, Kind::Min) { order.is_lt() } else { order.is_gt() }
                });
                if better {
                    self.best = Some(value.to_vec());
                }
            }
            Kind::Sum | Kind::Avg => {
                if let Some(number) = Number::read(ty, value)? {
                    self.count += 1;
                    self.sum.add(&number)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the serialized result; `None` is null.
    pub fn finish(self) -> Result<Option<Vec<u8>>, CqlError> {
        let result = &self.aggregate.result;
        match &self.aggregate.kind {
            Kind::User(user) => user.finish(self.state),
            Kind::Count => Ok(Some(self.count.to_be_bytes().to_vec())),
            Kind::Min | Kind::Max => Ok(self.best),
            Kind::Sum => self.sum.total().write(result).map(Some),
            Kind::Avg => self.sum.average(self.count)?.write(result).map(Some),
        }
    }
}

impl Sum {
    fn add(&mut self, number: &Number) -> Result<(), CqlError> {
        match self {
            Self::Integers(sum) => *sum += number.to_big()?,
            Self::Decimals(sum) => {
                let number = number.to_decimal()?;
                let scale = sum.scale.max(number.scale);
                let unscaled = sum.unscaled_at(scale)? + number.unscaled_at(scale)?;
                *sum = Decimal { unscaled, scale };
            }
            Self::Floats { sum, lost } => {
                let value = number.to_f64();
                let next = *sum + value;
                if next.is_finite() {
                    *lost +=
                        if sum.abs() >= value.abs() { (*sum - next) + value } else { (value - next) + *sum };
                } else {
                    *lost = 0.0;
                }
                *sum = next;
            }
        }
        Ok(())
    }

    fn total(&self) -> Number {
        match self {
            Self::Integers(sum) => Number::Big(sum.clone()),
            Self::Decimals(sum) => Number::Decimal(sum.clone()),
            Self::Floats { sum, lost } => Number::Double(sum + lost),
        }
    }

    fn average(&self, count: i64) -> Result<Number, CqlError> {
        if count == 0 {
            return Ok(Number::Int(0));
        }
        Ok(match self {
            Self::Integers(sum) => Number::Big(sum / BigInt::from(count)),
            Self::Decimals(sum) => Number::Decimal(half_even(sum, count)),
            Self::Floats { sum, lost } => Number::Double((sum + lost) / count as f64),
        })
    }
}

/// Divides at the scale of the sum, rounding half to even.
fn half_even(sum: &Decimal, count: i64) -> Decimal {
    let count = BigInt::from(count);
    let (quotient, rest) = (&sum.unscaled / &count, &sum.unscaled % &count);
    let twice = BigInt::from(rest.magnitude().clone()) * 2;
    let zero = BigInt::from(0);
    let odd = &quotient % 2 != zero;
    let away = if sum.unscaled < zero { -1 } else { 1 };
    let unscaled = if twice > count || (twice == count && odd) { quotient + away } else { quotient };
    Decimal { unscaled, scale: sum.scale }
}
