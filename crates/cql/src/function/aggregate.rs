//! Functions of many rows: `count`, `min`, `max`, `sum`, `avg`.
//!
//! Nulls do not count. Sums of integers wrap round as their type does; averages are calculated without a limit and
//! cut towards zero. Of no rows, `min` and `max` are null and the others zero.
//! Source: Cassandra 4.1 `cql3/functions/AggregateFcts.java`.

use model::CqlType;
use num_bigint::BigInt;

use super::number::{Decimal, Number, is_numeric};
use crate::CqlError;

/// An aggregate of a type.
#[derive(Clone, Debug)]
pub struct Aggregate {
    kind: Kind,
    of: CqlType,
    pub result: CqlType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

/// An aggregate's value so far.
#[derive(Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    count: i64,
    best: Option<Vec<u8>>,
    sum: Sum,
}

#[derive(Debug)]
enum Sum {
    Integers(BigInt),
    Decimals(Decimal),
    /// With what was lost by rounding.
    Floats {
        sum: f64,
        lost: f64,
    },
}

impl Aggregate {
    /// `count(*)`
    pub fn count_rows() -> Self {
        Self { kind: Kind::Count, of: CqlType::Empty, result: CqlType::BigInt }
    }

    /// Whether it is the name of an aggregate.
    pub fn is_name(name: &str) -> bool {
        matches!(name, "count" | "min" | "max" | "sum" | "avg")
    }

    /// The aggregate `name` of values of type `of`; `None` if there is none.
    pub fn named(name: &str, of: Option<&CqlType>) -> Option<Self> {
        let of = of?.without_reversed().clone();
        // Of counters too: their result is typed as a counter, and a client reads it as a bigint.
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
        Accumulator { aggregate: self.clone(), count: 0, best: None, sum }
    }
}

impl Accumulator {
    /// The value of one more row.
    pub fn add(&mut self, value: Option<&[u8]>) -> Result<(), CqlError> {
        let Some(value) = value else { return Ok(()) };
        let ty = if self.aggregate.of.is_counter() { &CqlType::BigInt } else { &self.aggregate.of };
        match self.aggregate.kind {
            Kind::Count => self.count += 1,
            kind @ (Kind::Min | Kind::Max) => {
                let better = self.best.as_ref().is_none_or(|best| {
                    let order = ty.compare(value, best);
                    if kind == Kind::Min { order.is_lt() } else { order.is_gt() }
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

    pub fn finish(self) -> Result<Option<Vec<u8>>, CqlError> {
        let result = &self.aggregate.result;
        match self.aggregate.kind {
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

/// Divided at its own scale, halves to the even neighbour.
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
