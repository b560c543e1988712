//! Big-endian two's complement integers of any length, compared without a big-number library.

use std::cmp::Ordering;

/// The shortest encoding of the same number, without leading bytes that only repeat the sign.
pub(crate) fn minimal(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let redundant = matches!((first, second), (0, 0..=0x7f) | (0xff, 0x80..=0xff));
        if !redundant {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

/// Compares by number. An empty value sorts first; redundant leading bytes are ignored.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (minimal(a), minimal(b));
    match (a.first(), b.first()) {
        (None, _) | (_, None) => a.len().cmp(&b.len()),
        (Some(first_a), Some(first_b)) => {
            let (negative_a, negative_b) = (*first_a >= 0x80, *first_b >= 0x80);
            if negative_a != negative_b {
                return negative_b.cmp(&negative_a);
            }
            let longer = if negative_a { b.len().cmp(&a.len()) } else { a.len().cmp(&b.len()) };
            // With the same sign and length, two's complement compares as unsigned bytes.
            longer.then_with(|| a.cmp(b))
        }
    }
}

/// The number as i128, if it fits.
pub(crate) fn to_i128(bytes: &[u8]) -> Option<i128> {
    let bytes = minimal(bytes);
    if bytes.len() > 16 {
        return None;
    }
    let fill = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let mut wide = [fill; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    #[test]
    fn order_is_that_of_the_numbers() {
        let mut samples: Vec<Vec<u8>> = vec![vec![0], vec![0, 0], vec![0xff, 0xff, 0xff], vec![0, 0x80]];
        for value in
            [-70_000i64, -32_769, -32_768, -257, -256, -129, -128, -1, 0, 1, 127, 128, 255, 256, 65_536]
        {
            samples.push(BigInt::from(value).to_signed_bytes_be());
            samples.push(value.to_be_bytes().to_vec());
        }
        samples.push((BigInt::from(1i32) << 200i32).to_signed_bytes_be());
        samples.push((-(BigInt::from(1i32) << 200i32)).to_signed_bytes_be());
        for a in &samples {
            for b in &samples {
                let expect = BigInt::from_signed_bytes_be(a).cmp(&BigInt::from_signed_bytes_be(b));
                assert_eq!(compare(a, b), expect, "{a:?} {b:?}");
            }
            let wide = to_i128(a).map(BigInt::from);
            assert!(wide.is_none() || wide == Some(BigInt::from_signed_bytes_be(a)), "{a:?}");
        }
        assert_eq!(compare(&[], &[0xff]), Ordering::Less);
        assert_eq!(compare(&[], &[]), Ordering::Equal);
    }
}
