//! Decimals: an i32 scale and an unscaled value in two's complement. The number is `unscaled × 10^-scale`.
//!
//! Comparison is by number (`1.0` and `1.00` are equal). Scales come from outside and may be ±2^31, so a
//! number is scaled up only if the two operands have about the same magnitude. The difference of their scales
//! is then bounded by the length of the operands.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::varint;

/// The scale and the unscaled value. An empty unscaled value (four bytes in total, which Cassandra accepts
/// but cannot compare) counts as zero.
pub(crate) fn split(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*scale), unscaled))
}

/// Compares two numbers, given as the parts returned by [`split`].
pub(crate) fn compare(a: (i32, &[u8]), b: (i32, &[u8])) -> Ordering {
    if a.0 == b.0 {
        return match (varint::to_i128(a.1), varint::to_i128(b.1)) {
            (Some(value_a), Some(value_b)) => value_a.cmp(&value_b),
            _ => varint::compare(zero_if_empty(a.1), zero_if_empty(b.1)),
        };
    }
    let (sign_a, sign_b) = (sign(a.1), sign(b.1));
    if sign_a != sign_b || sign_a == 0 {
        return sign_a.cmp(&sign_b);
    }
    let magnitudes = compare_magnitudes(a, b);
    if sign_a < 0 { magnitudes.reverse() } else { magnitudes }
}

fn zero_if_empty(unscaled: &[u8]) -> &[u8] {
    if unscaled.is_empty() { &[0] } else { unscaled }
}

/// The sign of the number: -1, 0 or 1.
fn sign(unscaled: &[u8]) -> i8 {
    match varint::minimal(unscaled) {
        [] | [0] => 0,
        [first, ..] if *first >= 0x80 => -1,
        _ => 1,
    }
}

/// Compares magnitudes. The numbers have the same sign, neither is zero, and their scales differ.
fn compare_magnitudes(a: (i32, &[u8]), b: (i32, &[u8])) -> Ordering {
    // The magnitude of `unscaled` is in [2^(bits-9), 2^bits], which bounds log10 of the number to an interval
    // of less than three digits.
    let exponent = |(scale, unscaled): (i32, &[u8])| {
        let bits = varint::minimal(unscaled).len() as f64 * 8.0;
        let high = bits * std::f64::consts::LOG10_2 - f64::from(scale);
        let low = high - 9.0 * std::f64::consts::LOG10_2;
        (low - 0.01, high + 0.01)
    };
    let ((low_a, high_a), (low_b, high_b)) = (exponent(a), exponent(b));
    if low_a > high_b {
        return Ordering::Greater;
    }
    if low_b > high_a {
        return Ordering::Less;
    }
    // The intervals overlap: the difference of the scales is at most that of the unscaled lengths in digits,
    // plus a few.
    let shift = a.0.abs_diff(b.0);
    if let Some(order) = compare_small(a, b, shift) {
        return order;
    }
    let magnitude = |unscaled: &[u8]| BigInt::from_signed_bytes_be(unscaled).into_parts().1;
    let scale_up = num_bigint::BigUint::from(10u8).pow(shift);
    let (mut value_a, mut value_b) = (magnitude(a.1), magnitude(b.1));
    if a.0 < b.0 {
        value_a *= scale_up;
    } else {
        value_b *= scale_up;
    }
    value_a.cmp(&value_b)
}

/// [`compare_magnitudes`] in 128-bit arithmetic; `None` if the numbers do not fit.
fn compare_small(a: (i32, &[u8]), b: (i32, &[u8]), shift: u32) -> Option<Ordering> {
    let value_a = varint::to_i128(a.1)?.unsigned_abs();
    let value_b = varint::to_i128(b.1)?.unsigned_abs();
    let scale_up = 10u128.checked_pow(shift)?;
    if a.0 < b.0 {
        Some(value_a.checked_mul(scale_up)?.cmp(&value_b))
    } else {
        Some(value_a.cmp(&value_b.checked_mul(scale_up)?))
    }
}

/// Encodes a decimal.
pub(crate) fn join(scale: i32, unscaled: &BigInt) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    if unscaled.sign() == Sign::NoSign {
        out.push(0);
    } else {
        out.extend_from_slice(&unscaled.to_signed_bytes_be());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(unscaled: i128, scale: i32) -> Vec<u8> {
        join(scale, &BigInt::from(unscaled))
    }

    fn order(a: &[u8], b: &[u8]) -> Ordering {
        let forward = compare(split(a).unwrap(), split(b).unwrap());
        assert_eq!(compare(split(b).unwrap(), split(a).unwrap()), forward.reverse());
        forward
    }

    #[test]
    fn order_is_that_of_the_values() {
        use Ordering::{Equal, Greater, Less};
        assert_eq!(order(&of(10, 1), &of(100, 2)), Equal, "1.0 and 1.00");
        assert_eq!(order(&of(99, 1), &of(10, 0)), Less, "9.9 and 10");
        assert_eq!(order(&of(-99, 1), &of(-10, 0)), Greater);
        assert_eq!(order(&of(0, 5), &of(0, -5)), Equal);
        assert_eq!(order(&of(1, i32::MAX), &of(1, i32::MIN)), Less, "no number of 2^32 digits is made");
        assert_eq!(order(&of(-1, i32::MAX), &of(-1, i32::MIN)), Greater);
        assert_eq!(order(&of(1, i32::MAX), &of(0, i32::MIN)), Greater);
        assert_eq!(order(&of(-1, 0), &of(1, 3)), Less);
        assert_eq!(order(&of(i128::MAX, 38), &of(2, 0)), Less, "1.70… and 2");
        assert_eq!(order(&of(i128::MIN, 38), &of(-1, 0)), Less);

        let long = |digits: usize, last: u8| {
            let text = format!("{}{last}", "1".repeat(digits));
            join(digits as i32, &text.parse().unwrap())
        };
        assert_eq!(order(&long(300, 1), &long(301, 1)), Less, "1.11…1 with one more digit");
        assert_eq!(order(&long(300, 2), &long(301, 1)), Greater);
        let mut padded = of(7, 0);
        padded.splice(4..4, [0; 40]);
        assert_eq!(order(&padded, &of(70, 1)), Equal, "leading zero bytes change nothing");
        assert_eq!(order(&[0, 0, 0, 3], &of(0, 0)), Equal, "no unscaled bytes are zero");
        assert_eq!(order(&[0, 0, 0, 0], &of(-1, 0)), Greater);
    }
}
