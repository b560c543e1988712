//! Times in a dump: as a decimal number, or in the format of Java's `Instant.toString`.

use std::fmt::Write;

use base::calendar::date_of_days;

/// A write timestamp in microseconds since 1970.
pub(crate) fn timestamp_text(timestamp_us: i64, raw: bool) -> String {
    if raw {
        return timestamp_us.to_string();
    }
    // Cassandra rounds the seconds towards zero and the nanoseconds down. So a fraction of a second before
    // 1970 is printed one second late, and the nanoseconds saturate at the range of 64 bits, in 2262.
    instant(timestamp_us / 1_000_000, timestamp_us.saturating_mul(1000).rem_euclid(1_000_000_000))
}

/// A local deletion time in seconds since 1970.
pub(crate) fn seconds_text(time_s: u32, raw: bool) -> String {
    if raw { time_s.to_string() } else { instant(i64::from(time_s), 0) }
}

/// A time as `2023-11-14T22:13:20.000105Z`, with as many groups of three decimals as necessary.
fn instant(time_s: i64, nanos: i64) -> String {
    let (year, month, day) = date_of_days(time_s.div_euclid(86_400));
    let of_day = time_s.rem_euclid(86_400);
    let sign = match year {
        i64::MIN..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let mut out = format!("{sign}{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", year.abs());
    let fraction = match nanos {
        0 => Ok(()),
        _ if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => write!(out, ".{:06}", nanos / 1000),
        _ => write!(out, ".{nanos:09}"),
    };
    fraction.expect("a String takes all");
    out + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_java_prints_an_instant() {
        let of = |timestamp_us: i64| timestamp_text(timestamp_us, false);
        assert_eq!(of(1_700_000_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(of(1_700_000_000_001_000), "2023-11-14T22:13:20.001Z");
        assert_eq!(of(1_700_000_000_000_105), "2023-11-14T22:13:20.000105Z");
        assert_eq!(of(951_782_400_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(of(-1_000_000), "1969-12-31T23:59:59Z");
        assert_eq!(of(-1), "1970-01-01T00:00:00.999999Z");
        assert_eq!(of(i64::MAX), "+294247-01-10T04:00:54.854775807Z");
        assert_eq!(seconds_text(1_700_000_000, false), "2023-11-14T22:13:20Z");
        assert_eq!(seconds_text(1_700_000_000, true), "1700000000");
    }
}
