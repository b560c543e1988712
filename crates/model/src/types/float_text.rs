//! Floating-point numbers in Java's format, which `sstabledump` and JSON results use.
//!
//! The format has the fewest digits that parse back to the same number (at least two): plain from 10^-3 to
//! 10^7, otherwise with `E`. Java before version 19 sometimes prints one digit more than necessary; the value
//! is the same.

/// Writes a number like `1.0`, `1.0E10`, `-0.0`, `NaN`, `Infinity`.
pub(crate) fn write_f64(out: &mut String, value: f64) {
    if !value.is_finite() {
        return write_non_finite(out, value.is_nan(), value > 0.0);
    }
    let shortest = format!("{value:e}");
    write_finite(out, if shortest.contains('.') { shortest } else { format!("{value:.1e}") });
}

pub(crate) fn write_f32(out: &mut String, value: f32) {
    if !value.is_finite() {
        return write_non_finite(out, value.is_nan(), value > 0.0);
    }
    let shortest = format!("{value:e}");
    write_finite(out, if shortest.contains('.') { shortest } else { format!("{value:.1e}") });
}

fn write_non_finite(out: &mut String, nan: bool, positive: bool) {
    out.push_str(match (nan, positive) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    });
}

/// `scientific` has the form `-d.ddd`, `e`, exponent.
fn write_finite(out: &mut String, scientific: String) {
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust prints an exponent");
    let exponent: i32 = exponent.parse().expect("Rust prints a small exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    let (first, others) = mantissa.split_once('.').expect("two digits were asked for");
    if !(-3..7).contains(&exponent) {
        out.push_str(mantissa);
        out.push('E');
        out.push_str(&exponent.to_string());
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
        out.push_str(first);
        out.push_str(others.trim_end_matches('0'));
    } else {
        let whole = exponent as usize;
        let padded = format!("{others:0<width$}", width = whole + 1);
        let (integer, fraction) = padded.split_at(whole);
        out.push_str(first);
        out.push_str(integer);
        out.push('.');
        let fraction = fraction.trim_end_matches('0');
        out.push_str(if fraction.is_empty() { "0" } else { fraction });
    }
}

/// Whether `text` has only the characters of CQL numbers. Must be checked before Rust's parser, which accepts
/// more.
pub(crate) fn is_number(text: &str) -> bool {
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    digits && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
}

/// Parses `NaN` and `Infinity` in any case, with an optional sign.
pub(crate) fn parse_non_finite(text: &str) -> Option<f64> {
    let (sign, name) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if name.eq_ignore_ascii_case("infinity") {
        Some(sign * f64::INFINITY)
    } else if name.eq_ignore_ascii_case("nan") {
        Some(f64::NAN)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_prints_them() {
        let cases: [(f64, &str); 19] = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (100.0, "100.0"),
            (123456.789, "123456.789"),
            (9999999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12345678.9, "1.23456789E7"),
            (0.001, "0.001"),
            (0.0012, "0.0012"),
            (0.00099, "9.9E-4"),
            (1e21, "1.0E21"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expect) in cases {
            let mut text = String::new();
            write_f64(&mut text, value);
            assert_eq!(text, expect);
        }
        for (value, expect) in [
            (0.1f32, "0.1"),
            (3.4028235e38, "3.4028235E38"),
            (1.4e-45, "1.4E-45"),
            (16777216.0, "1.6777216E7"),
        ] {
            let mut text = String::new();
            write_f32(&mut text, value);
            assert_eq!(text, expect);
        }
    }
}
