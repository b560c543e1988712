//! Numbers and times in the format of Java's printers, so that the tools print the same text as Cassandra's
//! tools.

use base::calendar::date_of_days;
use model::types::CqlType;

/// The text of Java's `Double.toString`.
pub(super) fn double(value: f64) -> String {
    CqlType::Double.raw_text_of(&value.to_be_bytes())
}

/// A time as `11/14/2023 22:13:20` in UTC; `None` at time 0, for which Cassandra's tools print no date.
pub(super) fn date(time_s: i64) -> Option<String> {
    if time_s == 0 {
        return None;
    }
    let (year, month, day) = date_of_days(time_s.div_euclid(86_400));
    let of_day = time_s.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}"))
}

/// A duration as `1 day 2 hours 3 seconds`, from the first to the last unit that is not 0; `None` for a
/// duration of 0.
pub(super) fn duration(duration_s: i64) -> Option<String> {
    let units = [
        (duration_s / 86_400, "day"),
        (duration_s / 3600 % 24, "hour"),
        (duration_s / 60 % 60, "minute"),
        (duration_s % 60, "second"),
    ];
    let first = units.iter().position(|(count, _)| *count != 0)?;
    let last = units.iter().rposition(|(count, _)| *count != 0)?;
    let words = units[first..=last].iter().map(|(count, unit)| {
        let plural = if *count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural}")
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// A length as `2.2 kB`.
pub(super) fn bytes(bytes: i64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = "kMGTPE".chars();
    let mut unit = units.next().expect("there is a first");
    while value >= 1024.0 {
        value /= 1024.0;
        unit = units.next().expect("64 bits end with E");
    }
    format!("{value:.1} {unit}B")
}

/// `text (note)`, or only the text if there is no note.
pub(super) fn noted(text: impl std::fmt::Display, note: Option<String>) -> String {
    match note {
        Some(note) => format!("{text} ({note})"),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_has_them() {
        assert_eq!(date(1_700_000_000).unwrap(), "11/14/2023 22:13:20");
        assert_eq!(date(0), None);
        assert_eq!(duration(0), None);
        assert_eq!(duration(600).unwrap(), "10 minutes");
        assert_eq!(duration(86_401).unwrap(), "1 day 0 hours 0 minutes 1 second");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(35_425), "34.6 kB");
        assert_eq!(bytes(i64::MAX), "8.0 EB");
        assert_eq!(double(1.0), "1.0");
    }
}
