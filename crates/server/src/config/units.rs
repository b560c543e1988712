//! Durations and sizes as Cassandra and ScyllaDB write them: a number and a unit without a space, `10s`,
//! `64MiB`.
//!
//! Sizes are powers of 1024, written `K` or `KiB`. `KB` and `MB` are refused because they are ambiguous.

/// The unit of a number without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultUnit {
    /// None: a unit is required, unless the number is 0.
    Refused,
    Milliseconds,
    Seconds,
    Bytes,
    KiB,
    MiB,
}

pub const DURATION_FORM: &str = "a number with a unit: 500ms, 10s, 5m, 2h or 1d";
pub const SIZE_FORM: &str = "a number with a unit: 512B, 64KiB (or 64K), 32MiB (or 32M), 2GiB (or 2G)";

/// Number and unit of a text; `None` if it does not begin with a number.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

fn whole(value: f64) -> Option<u64> {
    (0.0..1e15).contains(&value).then_some(value.round() as u64)
}

/// A duration in milliseconds. A value between 0 and 1 counts as 1.
pub fn parse_millis(text: &str, default_unit: DefaultUnit) -> Option<u64> {
    parse_duration_ms(text, default_unit).and_then(at_least_one)
}

/// A duration in microseconds. A value between 0 and 1 counts as 1.
pub fn parse_micros(text: &str, default_unit: DefaultUnit) -> Option<u64> {
    parse_duration_ms(text, default_unit).and_then(|millis| at_least_one(millis * 1e3))
}

fn at_least_one(value: f64) -> Option<u64> {
    if value > 0.0 && value < 1.0 { Some(1) } else { whole(value) }
}

fn parse_duration_ms(text: &str, default_unit: DefaultUnit) -> Option<f64> {
    let (number, unit) = split(text)?;
    let unit_ms = match unit {
        "" => match default_unit {
            DefaultUnit::Milliseconds => 1.0,
            DefaultUnit::Seconds => 1e3,
            _ if number == 0.0 => 1.0,
            _ => return None,
        },
        "ns" => 1e-6,
        "us" | "µs" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => return None,
    };
    Some(number * unit_ms)
}

/// A size in bytes.
pub fn parse_bytes(text: &str, default_unit: DefaultUnit) -> Option<u64> {
    let (number, unit) = split(text)?;
    let shift = match unit {
        "" => match default_unit {
            DefaultUnit::Bytes => 0,
            DefaultUnit::KiB => 10,
            DefaultUnit::MiB => 20,
            _ if number == 0.0 => 0,
            _ => return None,
        },
        "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    whole(number * (1u64 << shift) as f64)
}

/// In the largest unit that divides it.
pub fn show_millis(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match units.iter().find(|(unit_ms, _)| millis >= *unit_ms && millis.is_multiple_of(*unit_ms)) {
        Some((unit_ms, unit)) => format!("{}{unit}", millis / unit_ms),
        None => format!("{millis}ms"),
    }
}

/// In the largest unit that divides it.
pub fn show_micros(micros: u64) -> String {
    match micros.is_multiple_of(1000) {
        true => show_millis(micros / 1000),
        false => format!("{micros}us"),
    }
}

/// In the largest unit that divides it.
pub fn show_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, default_unit: DefaultUnit, millis: Option<u64>| {
            assert_eq!(parse_millis(text, default_unit), millis, "{text}");
        };
        check("10s", DefaultUnit::Refused, Some(10_000));
        check("10000ms", DefaultUnit::Refused, Some(10_000));
        check("1.5m", DefaultUnit::Refused, Some(90_000));
        check("2h", DefaultUnit::Refused, Some(7_200_000));
        check("1d", DefaultUnit::Refused, Some(86_400_000));
        check("3us", DefaultUnit::Refused, Some(1));
        check("0", DefaultUnit::Refused, Some(0));
        check("10000", DefaultUnit::Milliseconds, Some(10_000));
        check("10", DefaultUnit::Seconds, Some(10_000));
        for wrong in ["10000", "", "s", "-1s", "10 parsecs", "1e9s", "ten", "10ss"] {
            check(wrong, DefaultUnit::Refused, None);
        }
        check("99999999999999999999d", DefaultUnit::Refused, None);
        for (text, micros) in [("0.75", 750), ("750us", 750), ("2ms", 2000), ("0", 0), ("10ns", 1)] {
            assert_eq!(parse_micros(text, DefaultUnit::Milliseconds), Some(micros), "{text}");
        }
        assert_eq!([750, 2000, 0].map(show_micros), ["750us", "2ms", "0ms"]);
    }

    #[test]
    fn sizes() {
        let check = |text: &str, default_unit: DefaultUnit, bytes: Option<u64>| {
            assert_eq!(parse_bytes(text, default_unit), bytes, "{text}")
        };
        check("32MiB", DefaultUnit::Refused, Some(32 << 20));
        check("2G", DefaultUnit::Refused, Some(2 << 30));
        check("1.5KiB", DefaultUnit::Refused, Some(1536));
        check("32", DefaultUnit::MiB, Some(32 << 20));
        check("5", DefaultUnit::KiB, Some(5 << 10));
        check("4096", DefaultUnit::Bytes, Some(4096));
        for wrong in ["32", "32MB", "MiB", "-1", "1e3", "9999999999999T"] {
            check(wrong, DefaultUnit::Refused, None);
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for millis in [0, 1, 999, 1000, 1500, 60_000, 86_400_000] {
            assert_eq!(parse_millis(&show_millis(millis), DefaultUnit::Refused), Some(millis));
        }
        for bytes in [0, 1, 1023, 1024, 32 << 20, 3 << 30, (3 << 30) + 1] {
            assert_eq!(parse_bytes(&show_bytes(bytes), DefaultUnit::Refused), Some(bytes));
        }
        assert_eq!((show_millis(10_000), show_bytes(32 << 20)), ("10s".into(), "32MiB".into()));
    }
}
