//! `speculative_retry` and `additional_write_policy`: when a coordinator sends a request to an additional
//! replica.
//!
//! `ALWAYS`, `NEVER` (also `NONE`), `99p` (also `99PERCENTILE`), `50ms`, and `MIN(99p,50ms)`, `MAX(…)`; case
//! is ignored. Source: Cassandra 4.1 `service/reads/SpeculativeRetryPolicy.java` and its implementations.

use crate::error::{CatalogError, configuration};

/// The policy in Cassandra's stored spelling.
pub(crate) fn checked(option: &str, text: &str) -> Result<String, CatalogError> {
    let upper = text.trim().to_ascii_uppercase();
    let normal = match upper.as_str() {
        "ALWAYS" => Some("ALWAYS".to_string()),
        "NEVER" | "NONE" => Some("NEVER".to_string()),
        _ => percentile(&upper).or_else(|| fixed(&upper)).or_else(|| hybrid(&upper)),
    };
    match normal {
        Some(normal) => Ok(normal),
        None if is_number(&upper, &["PERCENTILE", "P"]) => configuration!(
            "Invalid value {text} for PERCENTILE option '{option}': must be between (0.0 and 100.0)"
        ),
        None => configuration!("Invalid value {text} for option '{option}'"),
    }
}

/// Whether the text is a number with one of the suffixes.
fn is_number(text: &str, suffixes: &[&str]) -> bool {
    let digits = suffixes.iter().find_map(|suffix| text.strip_suffix(suffix));
    digits.is_some_and(|digits| number(digits.trim_end()).is_some())
}

fn number(text: &str) -> Option<f64> {
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    text.bytes().all(is_number).then(|| text.parse().ok())?
}

fn percentile(text: &str) -> Option<String> {
    let number = number(text.strip_suffix("PERCENTILE").or(text.strip_suffix('P'))?.trim_end())?;
    (number > 0.0 && number < 100.0).then(|| format!("{number}p"))
}

fn fixed(text: &str) -> Option<String> {
    let number = number(text.strip_suffix("MS")?.trim_end())?;
    // Cassandra stores whole milliseconds in an int.
    (number <= f64::from(i32::MAX)).then(|| format!("{}ms", number as i32))
}

fn hybrid(text: &str) -> Option<String> {
    let function = ["MIN", "MAX"].into_iter().find(|function| text.starts_with(function))?;
    let arguments = text[3..].trim().strip_prefix('(')?.strip_suffix(')')?;
    let (first, second) = arguments.split_once(',')?;
    let (first, second) = (first.trim(), second.trim());
    // One percentile and one fixed time, in either order; they are stored in this order.
    let (percentile, fixed) = match (percentile(first), percentile(second)) {
        (Some(percentile), None) => (percentile, fixed(second)?),
        (None, Some(percentile)) => (percentile, fixed(first)?),
        _ => return None,
    };
    Some(format!("{function}({percentile},{fixed})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_becomes_one() {
        for (text, expect) in [
            ("99p", "99p"),
            ("99PERCENTILE", "99p"),
            ("99.0percentile", "99p"),
            ("99.9P", "99.9p"),
            ("50ms", "50ms"),
            ("50.0 MS", "50ms"),
            ("always", "ALWAYS"),
            ("NONE", "NEVER"),
            ("Never", "NEVER"),
            ("min(99p, 50ms)", "MIN(99p,50ms)"),
            ("MAX(50MS,99.5PERCENTILE)", "MAX(99.5p,50ms)"),
        ] {
            assert_eq!(checked("speculative_retry", text).as_deref(), Ok(expect));
            assert_eq!(checked("speculative_retry", expect).as_deref(), Ok(expect));
        }
        for text in
            ["", "p", "ms", "0p", "100p", "-1ms", "1e3ms", "infms", "min(1p,2p)", "max(1ms)", "99", "MIN"]
        {
            let error = checked("additional_write_policy", text).unwrap_err().to_string();
            let expect = match text {
                "0p" | "100p" => format!(
                    "Invalid value {text} for PERCENTILE option 'additional_write_policy': must be between (0.0 and \
                     100.0)"
                ),
                _ => format!("Invalid value {text} for option 'additional_write_policy'"),
            };
            assert_eq!(error, expect);
        }
    }
}
