//! The operators `+ - * / %` and the unary minus.
//!
//! The result of two numbers has the wider type. It is floating-point if one operand is, and a varint or
//! decimal if one operand has unlimited size. Integers wrap around, as in Java. Durations can be added to
//! times. `+` concatenates strings.

use model::CqlType;
use model::types::Duration;
use num_bigint::BigInt;
use protocol::CqlError;
use syntax::{ArithmeticOp, LiteralKind, Term};

use super::calendar;
use super::number::{Decimal, NUMERIC, Number, is_numeric, power_of_ten};
use super::resolve::{Arg, Fit, Signature};
use crate::error::invalid;
use crate::term::{Planner, is_assignable, literal_fits};

/// Minimum number of significant digits and of decimal places of a quotient of decimals, before trailing
/// zeros are removed. Source: Cassandra 5.0 `DecimalType.java`.
const QUOTIENT_DIGITS: i32 = 32;
const QUOTIENT_SCALE_MAX: i32 = 1_000;

/// Resolves the operator for the types of its operands. Error messages call the operands by `names`.
pub fn resolve(
    planner: &Planner<'_>,
    op: ArithmeticOp,
    args: &[Arg<'_>],
    names: [&str; 2],
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    // Constants that fit the wanted type are computed in that type.
    if let Some(wanted) = wanted.filter(|wanted| is_numeric(wanted))
        && args.iter().all(|arg| matches!(arg, Arg::Term(term) if can_be(term, wanted)))
    {
        return Ok(numbers(op, wanted, wanted));
    }
    let operand = |arg: &Arg<'_>| match arg {
        Arg::Term(term) if is_ascii_text(term) => Ok(Some(CqlType::Ascii)),
        arg => arg.natural_type(planner),
    };
    let (left, right) = (operand(&args[0])?, operand(&args[1])?);
    let unsupported =
        || invalid!("the '{}' operation is not supported between {} and {}", op.symbol(), names[0], names[1]);
    let is_duration = |ty: &Option<CqlType>| ty.as_ref().is_none_or(|ty| *ty == CqlType::Duration);
    match (left, right) {
        // A string in a place that wants a time is parsed as that time, and the duration is added.
        (Some(left), right) if is_string(&left) && is_duration(&right) && is_time_text(&args[0], wanted) => {
            let time = wanted.expect("a time is wanted").without_reversed().clone();
            times(op, &time, &CqlType::Duration).map_or_else(unsupported, Ok)
        }
        (None, _) | (_, None) => only_fitting(planner, op, args, names, wanted),
        (Some(left), Some(right)) if is_string(&left) && is_string(&right) && op == ArithmeticOp::Add => {
            Ok(strings(left, right))
        }
        (Some(left), Some(right)) if calendar::is_time(&left) && right == CqlType::Duration => {
            times(op, &left, &right).map_or_else(unsupported, Ok)
        }
        (Some(left), Some(right)) if is_numeric(&left) && is_numeric(&right) => {
            let signature = numbers(op, &left, &right);
            match wanted {
                // Integers are computed as bigints there, by several overloads.
                Some(CqlType::Time | CqlType::Timestamp) if args.iter().all(is_integer) => {
                    ambiguous(op, names)
                }
                Some(wanted) if !is_assignable(wanted, &signature.result) => unsupported(),
                _ => Ok(signature),
            }
        }
        // A timestamp is also a bigint and a varint.
        (Some(left), Some(right)) if is_number_or_timestamp(&left) && is_number_or_timestamp(&right) => {
            ambiguous(op, names)
        }
        (Some(left), Some(_)) if left == CqlType::Date && is_duration_text(&args[1]) => {
            times(op, &left, &CqlType::Duration).map_or_else(unsupported, Ok)
        }
        _ => unsupported(),
    }
}

fn ambiguous<T>(op: ArithmeticOp, names: [&str; 2]) -> Result<T, CqlError> {
    invalid!(
        "Ambiguous '{}' operation with args {} and {}: use type hint to disambiguate, example '(int) ?'",
        op.symbol(),
        names[0],
        names[1]
    )
}

fn is_number_or_timestamp(ty: &CqlType) -> bool {
    is_numeric(ty) || *ty.without_reversed() == CqlType::Timestamp
}

fn is_integer(arg: &Arg<'_>) -> bool {
    matches!(arg, Arg::Term(term)
        if matches!(&**term, Term::Literal(literal) if literal.kind == LiteralKind::Integer))
}

/// Whether the argument is a constant from which a duration can be read.
fn is_duration_text(arg: &Arg<'_>) -> bool {
    matches!(arg, Arg::Term(term)
        if matches!(&**term, Term::Literal(literal) if literal_fits(literal.kind, &CqlType::Duration)))
}

/// Whether the term is a constant string of ASCII characters. Its type is ascii beside another string.
fn is_ascii_text(term: &Term) -> bool {
    matches!(term, Term::Literal(literal) if literal.kind == LiteralKind::String && literal.text.is_ascii())
}

/// Returns the only overload of the operator that accepts the operands and gives the wanted type. This is how
/// bind markers get their types.
fn only_fitting(
    planner: &Planner<'_>,
    op: ArithmeticOp,
    args: &[Arg<'_>],
    names: [&str; 2],
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    const STRINGS: [CqlType; 2] = [CqlType::Text, CqlType::Ascii];
    let pairs = |types: &'static [CqlType]| {
        types.iter().flat_map(move |left| types.iter().map(move |right| (left, right)))
    };
    let numeric = pairs(&NUMERIC).map(|(left, right)| numbers(op, left, right));
    let of_times = [CqlType::Timestamp, CqlType::Date];
    let of_times = of_times.iter().filter_map(|ty| times(op, ty, &CqlType::Duration));
    let of_strings = pairs(&STRINGS).filter(|_| op == ArithmeticOp::Add);
    let of_strings = of_strings.map(|(left, right)| strings(left.clone(), right.clone()));
    let mut fitting = vec![];
    for overload in numeric.chain(of_times).chain(of_strings) {
        if wanted.is_some_and(|wanted| !is_assignable(wanted, &overload.result)) {
            continue;
        }
        let fits = [args[0].fits(planner, &overload.args[0])?, args[1].fits(planner, &overload.args[1])?];
        if !fits.contains(&Fit::No) {
            fitting.push(overload);
        }
    }
    // As in Cassandra, a timestamp is also a bigint, so the other operand may be a duration or a number.
    let is_timestamp = |arg: &Arg<'_>| {
        let natural = arg.natural_type(planner);
        natural.is_ok_and(|ty| ty.is_some_and(|ty| *ty.without_reversed() == CqlType::Timestamp))
    };
    let is_any_number = wanted.is_none() && args.iter().any(is_timestamp);
    match &fitting[..] {
        [only] if !is_any_number => Ok(only.clone()),
        [] => {
            invalid!("the '{}' operation is not supported between {} and {}", op.symbol(), names[0], names[1])
        }
        _ => ambiguous(op, names),
    }
}

/// Whether the argument is a constant string in a place that wants a date or a timestamp.
fn is_time_text(arg: &Arg<'_>, wanted: Option<&CqlType>) -> bool {
    let is_constant = matches!(arg, Arg::Term(term) if matches!(**term, Term::Literal(_)));
    is_constant && wanted.is_some_and(|wanted| calendar::is_time(wanted.without_reversed()))
}

pub fn is_string(ty: &CqlType) -> bool {
    matches!(ty.without_reversed(), CqlType::Text | CqlType::Ascii)
}

/// Concatenates two strings. The result is ASCII if both are.
fn strings(left: CqlType, right: CqlType) -> Signature {
    let (left, right) = (left.without_reversed().clone(), right.without_reversed().clone());
    let result =
        if left == CqlType::Ascii && right == CqlType::Ascii { CqlType::Ascii } else { CqlType::Text };
    Signature::new(name(ArithmeticOp::Add), [left, right], result, |args| {
        Ok(Some([args[0], args[1]].concat()))
    })
}

/// Whether the term is a constant that fits the type, or is computed from such constants.
fn can_be(term: &Term, ty: &CqlType) -> bool {
    match term {
        Term::Literal(literal) => literal_fits(literal.kind, ty.without_reversed()),
        Term::Arithmetic { left, right, .. } => can_be(left, ty) && can_be(right, ty),
        Term::Negate { term, .. } => can_be(term, ty),
        Term::Tuple { elements, .. } => elements.len() == 1 && can_be(&elements[0], ty),
        _ => false,
    }
}

/// Resolves the unary minus for the type of its operand. `wanted` is the type of the place that receives the
/// result.
pub fn resolve_negate(
    planner: &Planner<'_>,
    arg: &Arg<'_>,
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    let wanted = wanted.filter(|wanted| is_numeric(wanted));
    let ty = match (arg.natural_type(planner)?, wanted) {
        (_, Some(wanted)) if matches!(arg, Arg::Term(term) if can_be(term, wanted)) => wanted.clone(),
        (Some(natural), _) => natural,
        (None, Some(wanted)) => wanted.clone(),
        (None, None) => {
            return invalid!("Ambiguous negation: use type casts to disambiguate");
        }
    };
    if *ty.without_reversed() == CqlType::Timestamp {
        return invalid!("Ambiguous negation: use type casts to disambiguate");
    }
    if !is_numeric(&ty) {
        let known = NUMERIC.iter().map(CqlType::to_cql);
        let known: Vec<String> = known.map(|ty| format!("system.\"_negate\" : ({ty}) -> {ty}")).collect();
        return invalid!(
            "Invalid call to function system._negate, none of its type signatures match (known type \
             signatures: {})",
            known.join(", ")
        );
    }
    let own = ty.clone();
    Ok(Signature::new("_negate", [ty.clone()], ty, move |args| {
        Ok(match Number::read(&own, args[0])? {
            None => None,
            Some(Number::Float(value)) => Some(Number::Float(-value).write(&own)?),
            Some(Number::Double(value)) => Some(Number::Double(-value).write(&own)?),
            Some(Number::Int(value)) => Some(Number::Int(value.wrapping_neg()).write(&own)?),
            Some(Number::Big(value)) => Some(Number::Big(-value).write(&own)?),
            Some(Number::Decimal(Decimal { unscaled, scale })) => {
                Some(Number::Decimal(Decimal { unscaled: -unscaled, scale }).write(&own)?)
            }
        })
    }))
}

fn name(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => "_add",
        ArithmeticOp::Subtract => "_substract",
        ArithmeticOp::Multiply => "_multiply",
        ArithmeticOp::Divide => "_divide",
        ArithmeticOp::Remainder => "_modulo",
    }
}

/// Size of a numeric type in bytes; `None` for types of unlimited size.
fn width(ty: &CqlType) -> Option<u8> {
    match ty {
        CqlType::TinyInt => Some(1),
        CqlType::SmallInt => Some(2),
        CqlType::Int | CqlType::Float => Some(4),
        CqlType::BigInt | CqlType::Counter | CqlType::Double => Some(8),
        _ => None,
    }
}

/// Returns the type of the result of an operation on two numbers.
fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    let is_floating = |ty: &CqlType| matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal);
    let widest = width(left).zip(width(right)).map(|(left, right)| left.max(right));
    match (is_floating(left) || is_floating(right), widest) {
        (true, Some(..=4)) => CqlType::Float,
        (true, Some(_)) => CqlType::Double,
        (true, None) => CqlType::Decimal,
        (false, Some(1)) => CqlType::TinyInt,
        (false, Some(2)) => CqlType::SmallInt,
        (false, Some(..=4)) => CqlType::Int,
        (false, Some(_)) => CqlType::BigInt,
        (false, None) => CqlType::Varint,
    }
}

/// Builds the operation for two numeric types.
fn numbers(op: ArithmeticOp, left: &CqlType, right: &CqlType) -> Signature {
    let (left, right) = (left.without_reversed().clone(), right.without_reversed().clone());
    let result = result_type(&left, &right);
    let (result_of, args) = (result.clone(), [left.clone(), right.clone()]);
    Signature::new(name(op), args, result, move |args| {
        calculated(op, [&left, &right], [args[0], args[1]], &result_of)
    })
}

/// Computes the result for two serialized numbers; `None` if one of them is the empty value.
fn calculated(
    op: ArithmeticOp,
    types: [&CqlType; 2],
    values: [&[u8]; 2],
    result: &CqlType,
) -> Result<Option<Vec<u8>>, CqlError> {
    let (Some(a), Some(b)) = (Number::read(types[0], values[0])?, Number::read(types[1], values[1])?) else {
        return Ok(None);
    };
    let number = calculate(op, &a, &b, result).map_err(|text| {
        let [left, right] = types.map(CqlType::to_cql);
        CqlError::FunctionFailure {
            keyspace: "system".to_string(),
            function: name(op).to_string(),
            text: format!("the operation '{left} {} {right}' failed: {text}", op.symbol()),
            arguments: vec![left, right],
        }
    })?;
    Ok(Some(number.write(result)?))
}

/// Computes the new value of a column by `column = column op operand`. `ty` is a numeric type or a text.
pub fn of_column(
    ty: &CqlType,
    op: ArithmeticOp,
    value: &[u8],
    operand: &[u8],
) -> Result<Option<Vec<u8>>, CqlError> {
    let ty = ty.without_reversed();
    if is_string(ty) {
        Ok(Some([value, operand].concat()))
    } else {
        calculated(op, [ty, ty], [value, operand], ty)
    }
}

fn calculate(op: ArithmeticOp, a: &Number, b: &Number, result: &CqlType) -> Result<Number, String> {
    use ArithmeticOp as Op;
    let text = |error: CqlError| error.to_string();
    let by_zero = || match result {
        CqlType::Varint => "BigInteger divide by zero".to_string(),
        _ => "/ by zero".to_string(),
    };
    match result {
        CqlType::Float => {
            let (a, b) = (a.to_f64() as f32, b.to_f64() as f32);
            Ok(Number::Float(match op {
                Op::Add => a + b,
                Op::Subtract => a - b,
                Op::Multiply => a * b,
                Op::Divide => a / b,
                Op::Remainder => a % b,
            }))
        }
        CqlType::Double => {
            let (a, b) = (a.to_f64(), b.to_f64());
            Ok(Number::Double(match op {
                Op::Add => a + b,
                Op::Subtract => a - b,
                Op::Multiply => a * b,
                Op::Divide => a / b,
                Op::Remainder => a % b,
            }))
        }
        CqlType::Decimal => {
            let (a, b) = (a.to_decimal_operand().map_err(text)?, b.to_decimal_operand().map_err(text)?);
            decimals(op, &a, &b).map(Number::Decimal)
        }
        CqlType::Varint => {
            let (a, b) = (a.to_big().map_err(text)?, b.to_big().map_err(text)?);
            let zero = b == BigInt::from(0);
            Ok(Number::Big(match op {
                Op::Add => a + b,
                Op::Subtract => a - b,
                Op::Multiply => a * b,
                Op::Divide | Op::Remainder if zero => return Err(by_zero()),
                Op::Divide => a / b,
                Op::Remainder => a % b,
            }))
        }
        // Smaller integers are truncated to their size when they are serialized.
        _ => {
            let (a, b) = (a.to_i64().map_err(text)?, b.to_i64().map_err(text)?);
            Ok(Number::Int(match op {
                Op::Add => a.wrapping_add(b),
                Op::Subtract => a.wrapping_sub(b),
                Op::Multiply => a.wrapping_mul(b),
                Op::Divide | Op::Remainder if b == 0 => return Err(by_zero()),
                Op::Divide => a.wrapping_div(b),
                Op::Remainder => a.wrapping_rem(b),
            }))
        }
    }
}

fn decimals(op: ArithmeticOp, a: &Decimal, b: &Decimal) -> Result<Decimal, String> {
    let text = |error: CqlError| error.to_string();
    let scale = a.scale.max(b.scale);
    let aligned = || -> Result<(BigInt, BigInt), String> {
        Ok((a.unscaled_at(scale).map_err(text)?, b.unscaled_at(scale).map_err(text)?))
    };
    let zero = BigInt::from(0);
    Ok(match op {
        ArithmeticOp::Add => {
            let (a, b) = aligned()?;
            Decimal { unscaled: a + b, scale }
        }
        ArithmeticOp::Subtract => {
            let (a, b) = aligned()?;
            Decimal { unscaled: a - b, scale }
        }
        ArithmeticOp::Multiply => {
            let scale = a.scale.checked_add(b.scale).ok_or("the scale is too large")?;
            Decimal { unscaled: &a.unscaled * &b.unscaled, scale }
        }
        ArithmeticOp::Divide | ArithmeticOp::Remainder if b.unscaled == zero => {
            return Err("BigInteger divide by zero".to_string());
        }
        ArithmeticOp::Divide => {
            // Estimated position of the quotient's first digit. The estimate is at most one digit off.
            let first_digit = a.integer_digits() - b.integer_digits();
            let scale = (i64::from(QUOTIENT_DIGITS) - first_digit)
                .max(i64::from(scale))
                .clamp(i64::from(QUOTIENT_DIGITS), i64::from(QUOTIENT_SCALE_MAX));
            let scale = i32::try_from(scale).map_err(|_| "the scale is too large")?;
            divided(a, b, scale).map_err(text)?.without_trailing_zeros()
        }
        ArithmeticOp::Remainder => {
            let (a, b) = aligned()?;
            Decimal { unscaled: a % b, scale }
        }
    })
}

/// Divides to `scale` decimal places, rounding half away from zero.
pub fn divided(a: &Decimal, b: &Decimal, scale: i32) -> Result<Decimal, CqlError> {
    // a × 10^-as / (b × 10^-bs) = q × 10^-scale
    let shift = i64::from(scale) - i64::from(a.scale) + i64::from(b.scale);
    let (mut above, mut below) = (a.unscaled.clone(), b.unscaled.clone());
    if shift >= 0 {
        above *= power_of_ten(shift)?;
    } else {
        below *= power_of_ten(-shift)?;
    }
    let zero = BigInt::from(0);
    let negative = (above < zero) != (below < zero);
    let (above, below) = (BigInt::from(above.magnitude().clone()), BigInt::from(below.magnitude().clone()));
    let quotient: BigInt = (above * 2 + &below) / (below * 2);
    Ok(Decimal { unscaled: if negative { -quotient } else { quotient }, scale })
}

/// Builds the operation on a time and a duration; `None` for any operator other than addition and
/// subtraction.
fn times(op: ArithmeticOp, ty: &CqlType, duration: &CqlType) -> Option<Signature> {
    let sign = match op {
        ArithmeticOp::Add => 1,
        ArithmeticOp::Subtract => -1,
        _ => return None,
    };
    let own = ty.clone();
    Some(Signature::new(name(op), [ty.clone(), duration.clone()], ty.clone(), move |args| {
        let Some(duration) = Duration::from_bytes(args[1]) else { return Ok(None) };
        calendar::plus(&own, args[0], duration, sign).map_err(|error| CqlError::FunctionFailure {
            keyspace: "system".to_string(),
            function: name(op).to_string(),
            arguments: vec![own.to_cql(), CqlType::Duration.to_cql()],
            text: format!(
                "the operation '{} {} duration' failed: {error}. Was: {duration}",
                own.to_cql(),
                op.symbol()
            ),
        })
    }))
}
