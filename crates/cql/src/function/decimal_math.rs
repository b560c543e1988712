//! `exp`, `log` and `log10` of decimals.
//!
//! A result has as many digits as the argument, at least 32 and at most 1,000, and is rounded half to even.
//! The computation is in fixed point: integers scaled by `10^digits`, with spare digits for the precision
//! lost in intermediate steps. Source: results of Cassandra 5.0, and its `DecimalType.java`.

use num_bigint::{BigInt, Sign};
use protocol::CqlError;

use super::number::Decimal;
use crate::error::invalid;

const DIGITS_MIN: usize = 32;
const DIGITS_MAX: usize = 1_000;
/// Digits computed beyond those of the result. The repeated squaring and doubling lose some of them.
const SPARE_DIGITS: usize = 20;
/// Largest absolute argument of `exp`. Beyond it the scale of the result does not fit a decimal.
const EXP_MAX: i64 = 4_000_000_000;
/// Number of times that the argument of `exp` is halved, or that the square root of the argument of `log` is
/// taken, so that the series converges quickly.
const HALVINGS: u32 = 12;

/// Fixed-point arithmetic: numbers are scaled by `10^digits`.
struct Fixed {
    digits: usize,
    one: BigInt,
}

impl Fixed {
    fn new(digits: usize) -> Self {
        Self { digits, one: power_of_ten(digits) }
    }

    fn multiply(&self, a: &BigInt, b: &BigInt) -> BigInt {
        a * b / &self.one
    }

    fn of(&self, decimal: &Decimal) -> BigInt {
        let shift = self.digits as i64 - i64::from(decimal.scale);
        match usize::try_from(shift) {
            Ok(shift) => &decimal.unscaled * power_of_ten(shift),
            Err(_) => &decimal.unscaled / power_of_ten(shift.unsigned_abs() as usize),
        }
    }

    /// Natural logarithm of a number between 1 and 10.
    fn log(&self, number: &BigInt) -> BigInt {
        let mut root = number.clone();
        for _ in 0..HALVINGS {
            root = (root * &self.one).sqrt();
        }
        // ln r = 2 artanh((r - 1) / (r + 1))
        let argument = (&root - &self.one) * &self.one / (&root + &self.one);
        let square = self.multiply(&argument, &argument);
        let (mut power, mut sum, mut odd) = (argument.clone(), argument, 1u32);
        while power.sign() != Sign::NoSign {
            power = self.multiply(&power, &square);
            odd += 2;
            sum += &power / odd;
        }
        sum << (HALVINGS + 1)
    }

    fn log_of_ten(&self) -> BigInt {
        self.log(&(&self.one * 10))
    }

    /// Exponential of a number that is not much larger than one.
    fn exp(&self, number: &BigInt) -> BigInt {
        let small = number >> HALVINGS;
        let (mut term, mut sum, mut number) = (self.one.clone(), self.one.clone(), 0u32);
        while term.sign() != Sign::NoSign && term != BigInt::from(-1) {
            number += 1;
            term = self.multiply(&term, &small) / number;
            sum += &term;
        }
        for _ in 0..HALVINGS {
            sum = self.multiply(&sum, &sum);
        }
        sum
    }
}

fn power_of_ten(digits: usize) -> BigInt {
    BigInt::from(10).pow(u32::try_from(digits).unwrap_or(u32::MAX))
}

fn digits_of(number: &BigInt) -> usize {
    number.magnitude().to_string().len()
}

/// Returns the number of digits of the result.
fn precision(decimal: &Decimal) -> Result<usize, CqlError> {
    let digits = digits_of(&decimal.unscaled);
    if digits > DIGITS_MAX {
        return invalid!("A decimal of {digits} digits is too long to calculate with (at most {DIGITS_MAX})");
    }
    Ok(digits.max(DIGITS_MIN))
}

/// Rounds `unscaled × 10^-scale` to at most `precision` digits.
fn rounded(unscaled: BigInt, scale: i64, precision: usize) -> Result<Decimal, CqlError> {
    let (mut unscaled, mut scale) = (unscaled, scale);
    // Rounding up may add a digit.
    while digits_of(&unscaled) > precision {
        let dropped = digits_of(&unscaled) - precision;
        let below = power_of_ten(dropped);
        let (kept, rest) = (&unscaled / &below, &unscaled % &below);
        let twice = BigInt::from(rest.magnitude().clone()) * 2;
        let is_up = twice > below || (twice == below && &kept % 2 != BigInt::ZERO);
        let up = if unscaled.sign() == Sign::Minus { -1 } else { 1 };
        unscaled = if is_up { kept + up } else { kept };
        scale -= dropped as i64;
    }
    match i32::try_from(scale) {
        Ok(scale) => Ok(Decimal { unscaled, scale }),
        Err(_) => invalid!("The result is too large or too small for a decimal"),
    }
}

/// Returns the natural logarithm and its fixed-point arithmetic, with enough digits that `precision` of them
/// are correct.
fn log_fixed(decimal: &Decimal, precision: usize) -> Result<(Fixed, BigInt), CqlError> {
    if decimal.unscaled.sign() != Sign::Plus {
        return invalid!("Natural log of number zero or less");
    }
    let digits = digits_of(&decimal.unscaled);
    // For an argument close to one, the logarithm starts with up to as many zeros as the argument has digits.
    let fixed = Fixed::new(precision + digits + SPARE_DIGITS);
    let exponent = digits as i64 - 1 - i64::from(decimal.scale);
    let leading = Decimal { unscaled: decimal.unscaled.clone(), scale: digits as i32 - 1 };
    let log = fixed.log(&fixed.of(&leading)) + fixed.log_of_ten() * exponent;
    Ok((fixed, log))
}

/// Natural logarithm.
pub fn log(decimal: &Decimal) -> Result<Decimal, CqlError> {
    let precision = precision(decimal)?;
    if is_one(decimal) {
        return Ok(Decimal { unscaled: BigInt::ZERO, scale: 0 });
    }
    let (fixed, log) = log_fixed(decimal, precision)?;
    rounded(log, fixed.digits as i64, precision)
}

/// Logarithm to base 10.
pub fn log10(decimal: &Decimal) -> Result<Decimal, CqlError> {
    let precision = precision(decimal)?;
    if is_one(decimal) {
        return Ok(Decimal { unscaled: BigInt::ZERO, scale: 0 });
    }
    let (fixed, log) = log_fixed(decimal, precision)?;
    if decimal.unscaled == BigInt::from(10) && decimal.scale == 0 {
        return Ok(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    let log = log * &fixed.one / fixed.log_of_ten();
    rounded(log, fixed.digits as i64, precision)
}

fn is_one(decimal: &Decimal) -> bool {
    usize::try_from(decimal.scale).is_ok_and(|scale| {
        scale <= DIGITS_MAX
            && decimal.unscaled.bits() <= 4 * (scale as u64 + 1)
            && decimal.unscaled == power_of_ten(scale)
    })
}

/// Exponential.
pub fn exp(decimal: &Decimal) -> Result<Decimal, CqlError> {
    let precision = precision(decimal)?;
    if decimal.unscaled.sign() == Sign::NoSign {
        return Ok(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    let exponent = digits_of(&decimal.unscaled) as i64 - i64::from(decimal.scale);
    if exponent > 10 {
        return invalid!("The result is too large or too small for a decimal");
    }
    // The argument is so small that the result, rounded to its precision, is one.
    if exponent < -(precision as i64) {
        return rounded(power_of_ten(precision - 1), precision as i64 - 1, precision);
    }
    let fixed = Fixed::new(precision + SPARE_DIGITS + exponent.max(0) as usize);
    let argument = fixed.of(decimal);
    if BigInt::from(argument.magnitude().clone()) > &fixed.one * EXP_MAX {
        return invalid!("The result is too large or too small for a decimal");
    }
    // e^x = 10^n e^(x - n ln 10)
    let log_of_ten = fixed.log_of_ten();
    let tens = &argument / &log_of_ten;
    let rest = argument - &tens * log_of_ten;
    let tens = i64::try_from(tens).unwrap_or(i64::MAX / 2);
    rounded(fixed.exp(&rest), fixed.digits as i64 - tens, precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
        let unscaled = format!("{integer}{fraction}").parse().unwrap();
        Decimal { unscaled, scale: fraction.len() as i32 }
    }

    #[track_caller]
    fn check(of: fn(&Decimal) -> Result<Decimal, CqlError>, argument: &str, digits: &str, scale: i32) {
        let expect = Decimal { unscaled: digits.parse().unwrap(), scale };
        assert_eq!(of(&decimal(argument)).unwrap(), expect, "{argument}");
    }

    /// Expected values are those of Cassandra 5.0.
    #[test]
    fn as_many_digits_as_cassandra_prints() {
        check(exp, "0", "1", 0);
        check(exp, "1", "27182818284590452353602874713527", 31);
        check(exp, "-1", "36787944117144232159552377016146", 32);
        check(exp, "10.25", "28282541920334979089893745772150", 27);
        check(exp, "0.0000001", "10000001000000050000001666666708", 31);
        check(exp, "100", "26881171418161354484126255515800", -12);
        check(exp, "-100.5", "22563401359170363132028182824153", 75);
        let third = "1.33333333333333333333333333333333";
        check(exp, third, "379366789468317773539630436050515", 32);
        check(log, third, "287682072451780927439219005993825", 33);
        check(log10, third, "124938736608299953132449886193870", 33);
        check(log, "2", "69314718055994530941723212145818", 32);
        check(log, "10", "23025850929940456840179914546844", 31);
        check(log, "0.5", "-69314718055994530941723212145818", 32);
        check(log, "123456.789", "11723646487185880981139958983910", 30);
        check(log, "1", "0", 0);
        check(log10, "2", "30102999566398119521373889472449", 32);
        check(log10, "10", "1", 0);
        check(log10, "1000", "30000000000000000000000000000000", 31);
        check(log10, "0.001", "-30000000000000000000000000000000", 31);
    }

    #[test]
    fn one_undoes_the_other_with_many_digits() {
        for digits in [40, 300, 1_000] {
            let number = decimal(&format!("1.{}", "37".repeat(digits / 2)[1..].to_owned()));
            let back = log(&exp(&number).unwrap()).unwrap();
            let fixed = Fixed::new(digits - 2);
            let difference = fixed.of(&back) - fixed.of(&number);
            assert!(difference.magnitude() <= BigInt::from(20).magnitude(), "{digits} digits: {difference}");
        }
    }

    #[test]
    fn what_has_no_result_is_refused() {
        let refused = |found: Result<Decimal, CqlError>, expect: &str| {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        refused(log(&decimal("0")), "zero or less");
        refused(log10(&decimal("-1")), "zero or less");
        refused(exp(&decimal("99999999999")), "too large or too small");
        refused(exp(&Decimal { unscaled: 1.into(), scale: i32::MIN }), "too large or too small");
        refused(log(&decimal(&"9".repeat(1_001))), "too long");
        let tiny = Decimal { unscaled: 1.into(), scale: i32::MAX };
        assert_eq!(exp(&tiny).unwrap().scale, 31);
        assert!(log(&tiny).unwrap().unscaled < BigInt::ZERO);
    }
}
