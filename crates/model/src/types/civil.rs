//! Text of dates, times of day and timestamps, in the proleptic Gregorian calendar and UTC.
//!
//! The arithmetic is that of [`base::calendar`], because CQL's range is wider than that of the libraries. A
//! time zone is an offset, `Z`, `UTC` or `GMT`, of which the latter two may be followed by an offset, or a
//! region of the IANA time zone database, which is built in (jiff). In a timestamp, a day of 29 to 31 that
//! its month does not have becomes the last day of the month, and 24:00 is the start of the next day. In a
//! date, the day must exist.
//!
//! Source: the texts that Cassandra 5.0 accepts; `serializers/{SimpleDate,Time,Timestamp}Serializer.java`.

use std::fmt::Write;

use base::calendar::{date_of_days, days_in_month, days_of_date};

const MS_PER_DAY: i64 = 86_400_000;
pub(crate) const NS_PER_DAY: i64 = 86_400_000_000_000;
/// Offset of a `date`: the epoch is in the middle of the u32 range.
const DATE_BIAS_DAYS: i64 = 1 << 31;

/// Writes a date like `1970-01-01`; a year above 9999 with `+`, a negative one with `-`.
pub(crate) fn write_date(out: &mut String, date: u32) {
    let (year, month, day) = date_of_days(i64::from(date) - DATE_BIAS_DAYS);
    let sign = if year < 0 {
        "-"
    } else if year > 9_999 {
        "+"
    } else {
        ""
    };
    let _infallible = write!(out, "{sign}{:04}-{month:02}-{day:02}", year.abs());
}

/// Parses a date, or the raw u32 in decimal.
pub(crate) fn parse_date(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let mut scan = Scan { rest: text };
    let (year, month, day) = scan.year_month_day()?;
    let days = days_of_date(year, month, day)?;
    if !scan.rest.is_empty() {
        return None;
    }
    u32::try_from(days + DATE_BIAS_DAYS).ok()
}

/// Writes a time like `13:30:54.234000000`; `None` if the nanoseconds are not within a day.
pub(crate) fn write_time(out: &mut String, time_ns: i64) -> Option<()> {
    if !(0..NS_PER_DAY).contains(&time_ns) {
        return None;
    }
    let (seconds, nanos) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let _infallible = write!(out, "{hour:02}:{minute:02}:{second:02}.{nanos:09}");
    Some(())
}

/// Parses `hh:mm:ss[.fffffffff]`, or the nanoseconds in decimal.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|time_ns| *time_ns < NS_PER_DAY);
    }
    let mut scan = Scan { rest: text };
    let hour = scan.number(1..=2)?;
    scan.literal(":")?;
    let minute = scan.number(1..=2)?;
    scan.literal(":")?;
    let second = scan.number(1..=2)?;
    let nanos = scan.fraction_ns()?;
    let in_range = hour < 24 && minute < 60 && second < 60 && scan.rest.is_empty();
    in_range.then_some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

/// Separator between the date and the time of day.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// `2020-01-31T…`, in CQL.
    T,
    /// `2020-01-31 …`, in JSON.
    Space,
}

/// Writes a timestamp like `2020-01-31T13:30:54.234Z`. The year is the year of its era, as in Cassandra, so
/// the text of a year before 1 or after 9999 cannot be parsed back.
pub(crate) fn write_timestamp(out: &mut String, timestamp_ms: i64, separator: Separator) {
    let (days, ms) = (timestamp_ms.div_euclid(MS_PER_DAY), timestamp_ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = date_of_days(days);
    let year_of_era = if year > 0 { year } else { 1 - year };
    let plus = if year_of_era > 9_999 { "+" } else { "" };
    let separator = if separator == Separator::T { 'T' } else { ' ' };
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let _infallible = write!(
        out,
        "{plus}{year_of_era:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
    );
}

/// Whether the text of [`write_timestamp`] is parsed back to the same timestamp.
pub(crate) fn timestamp_has_text(timestamp_ms: i64) -> bool {
    (1..=9_999).contains(&date_of_days(timestamp_ms.div_euclid(MS_PER_DAY)).0)
}

/// Parses `2020-01-31`, `2020-01-31 13:30`, `…T13:30:54.234+01:00`, `… 13:30 Europe/Berlin` and similar texts
/// (without a zone: UTC), or the milliseconds in decimal. Digits beyond the milliseconds are dropped.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let mut scan = Scan { rest: text };
    let before = scan.rest.len();
    let (year, month, day) = scan.year_month_day_of(1..=2)?;
    let is_short = before - scan.rest.len() < "2020-01-31".len();
    let day = if (29..=31).contains(&day) { day.min(days_in_month(year, month)?) } else { day };
    let days = days_of_date(year, month, day)?;
    let mut of_day_ms = 0;
    // As in Cassandra, month and day may have one digit if a time of day follows.
    let has_time =
        scan.rest.starts_with('T') || scan.rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(digit));
    if is_short && !has_time {
        return None;
    }
    if has_time {
        scan.rest = &scan.rest[1..];
        let hour = scan.number(1..=2)?;
        scan.literal(":")?;
        let minute = scan.number(1..=2)?;
        let mut second = 0;
        let mut nanos = 0;
        if scan.literal(":").is_some() {
            second = scan.number(1..=2)?;
            nanos = scan.fraction_ns()?;
        }
        let is_end_of_day = (hour, minute, second, nanos) == (24, 0, 0, 0);
        if !is_end_of_day && (hour > 23 || minute > 59 || second > 59) {
            return None;
        }
        of_day_ms = ((hour * 60 + minute) * 60 + second) * 1_000 + nanos / 1_000_000;
    }
    let local_ms = days.checked_mul(MS_PER_DAY)?.checked_add(of_day_ms)?;
    let offset_ms = match scan.zone_ms() {
        Some(offset_ms) => offset_ms,
        None => region_offset_ms(scan.rest.strip_prefix(' ')?, local_ms)?,
    };
    local_ms.checked_sub(offset_ms)
}

/// Returns the offset from UTC, in milliseconds, of a region of the IANA time zone database (`Europe/Berlin`)
/// at a local time. A local time that a change of the clock skips counts from before the change; of one that
/// occurs twice the first is taken, as in Java.
///
/// `None`: there is no such region, or the year is outside -9999 to 9999.
fn region_offset_ms(region: &str, local_ms: i64) -> Option<i64> {
    let zone = jiff::tz::TimeZone::get(region).ok().filter(|zone| zone.iana_name() == Some(region))?;
    let (year, month, day) = date_of_days(local_ms.div_euclid(MS_PER_DAY));
    let date = jiff::civil::Date::new(year.try_into().ok()?, month as i8, day as i8).ok()?;
    let second = local_ms.rem_euclid(MS_PER_DAY) / 1_000;
    let time = date.at((second / 3_600) as i8, (second / 60 % 60) as i8, (second % 60) as i8, 0);
    let utc_s = zone.to_ambiguous_timestamp(time).compatible().ok()?.as_second();
    Some((local_ms.div_euclid(1_000) - utc_s) * 1_000)
}

fn digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// The text that remains. After a `None` its position is unspecified.
struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn literal(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(len);
        self.rest = rest;
        if !digits.contains(&len) {
            return None;
        }
        number.parse().ok()
    }

    /// A year has four digits, or a sign and more than four; a negative year may have four.
    fn year_month_day(&mut self) -> Option<(i64, i64, i64)> {
        self.year_month_day_of(2..=2)
    }

    /// `digits`: how many a month and a day may have.
    fn year_month_day_of(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<(i64, i64, i64)> {
        let (has_plus, has_minus) = (self.literal("+").is_some(), self.rest.starts_with('-'));
        if has_minus {
            self.literal("-")?;
        }
        let of_year = match (has_plus, has_minus) {
            (true, true) => return None,
            (true, false) => 5..=9,
            (false, true) => 4..=9,
            (false, false) => 4..=4,
        };
        let year = self.number(of_year)?;
        self.literal("-")?;
        let month = self.number(digits.clone())?;
        self.literal("-")?;
        Some((if has_minus { -year } else { year }, month, self.number(digits)?))
    }

    /// Parses an empty text, or a point and one to nine digits.
    fn fraction_ns(&mut self) -> Option<i64> {
        if self.literal(".").is_none() {
            return Some(0);
        }
        let before = self.rest.len();
        let fraction = self.number(1..=9)?;
        let digits = before - self.rest.len();
        Some(fraction * 10i64.pow(9 - digits as u32))
    }

    /// Parses the remaining text as an offset from UTC; an empty text is UTC. The text stays unread.
    fn zone_ms(&self) -> Option<i64> {
        let behind_blank = self.rest.strip_prefix(' ');
        let zone = match behind_blank {
            Some(zone) => zone.strip_prefix("UTC").or(zone.strip_prefix("GMT")).unwrap_or(zone),
            None => self.rest,
        };
        if (zone.is_empty() && self.rest != " ") || zone == "Z" {
            return Some(0);
        }
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        let digits = zone.strip_prefix(['+', '-'])?.as_bytes();
        let two = |tens: u8, ones: u8| {
            (tens.is_ascii_digit() && ones.is_ascii_digit())
                .then(|| i64::from((tens - b'0') * 10 + ones - b'0'))
        };
        let (hours, minutes) = match digits {
            [a, b] => (two(*a, *b)?, 0),
            [a, b, c, d] | [a, b, b':', c, d] => (two(*a, *b)?, two(*c, *d)?),
            _ => return None,
        };
        (hours * 60 + minutes <= 18 * 60 && minutes <= 59).then_some(sign * (hours * 60 + minutes) * 60_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_range_round_trip() {
        for date in [0, 1, 1 << 31, u32::MAX] {
            let mut text = String::new();
            write_date(&mut text, date);
            assert_eq!(parse_date(&text), Some(date), "{text}");
        }
    }

    #[test]
    fn timestamps_are_read_in_every_form() {
        let expect = 1_580_477_454_234;
        for text in [
            "1580477454234",
            "2020-01-31T13:30:54.234Z",
            "2020-01-31 13:30:54.234",
            "2020-01-31 13:30:54.234567+0000",
            "2020-01-31T14:30:54.234+01:00",
            "2020-01-31 8:0:54.234-0530",
            "2020-01-31 14:30:54.234 GMT+01:00",
            "2020-01-31 13:30:54.234 UTC",
            "2020-01-31 15:30:54.234 +02",
        ] {
            assert_eq!(parse_timestamp(text), Some(expect), "{text}");
        }
        for (text, utc) in [
            ("2020-01-31 14:30:54.234 Europe/Berlin", "2020-01-31 13:30:54.234"),
            ("2020-07-31T15:30 Europe/Berlin", "2020-07-31 13:30"),
            ("2020-01-31 America/New_York", "2020-01-31 05:00"),
            ("2020-01-31 24:00 Asia/Kathmandu", "2020-01-31 18:15"),
            // The clock goes from 2 to 3.
            ("2020-03-29 02:30 Europe/Berlin", "2020-03-29 01:30"),
            // And from 3 to 2.
            ("2020-10-25 02:30 Europe/Berlin", "2020-10-25 00:30"),
        ] {
            assert!(parse_timestamp(utc).is_some(), "{utc}");
            assert_eq!(parse_timestamp(text), parse_timestamp(utc), "{text}");
        }
        for wrong in [
            "2020-01-31 13:30Europe/Berlin",
            "2020-01-31 13:30 europe/berlin",
            "2020-01-31 13:30 Europe/Bonn",
        ] {
            assert_eq!(parse_timestamp(wrong), None, "{wrong}");
        }
        assert_eq!(parse_timestamp("2020-01-31"), Some(1_580_428_800_000));
        assert_eq!(parse_timestamp("2020-01-31 +0100"), Some(1_580_425_200_000));
        assert_eq!(parse_timestamp("2020-01-31T13:30"), Some(1_580_477_400_000));
        assert_eq!(parse_timestamp("2020-1-31 13:30"), Some(1_580_477_400_000));
        assert_eq!(parse_timestamp("2020-1-31"), None);
        assert_eq!(parse_timestamp("2020-1-31 +0100"), None);
        for (text, same) in [
            ("2011-02-31", "2011-02-28"),
            ("2012-02-30 01:00", "2012-02-29 01:00"),
            ("2011-04-31", "2011-04-30"),
            ("2011-02-03 24:00", "2011-02-04"),
        ] {
            assert_eq!(parse_timestamp(text), parse_timestamp(same), "{text}");
        }
        // Results of Cassandra 5.0.
        assert_eq!(parse_timestamp("-0001-01-01"), Some(-62_198_755_200_000));
        assert_eq!(parse_timestamp("+12011-02-03"), Some(316_866_211_200_000));
        assert_eq!(parse_timestamp("2011-02-03 04:05+18:00"), Some(1_296_641_100_000));
        assert_eq!(parse_timestamp("-5"), Some(-5));
        for text in [
            "",
            "-",
            "2020-",
            "2020-02-32",
            "2020-13-01",
            "2020-01-31T24:01",
            "2020-1-31",
            "+2020-01-31",
            "20-01-31",
            "12020-01-31",
            "2020-01-31 ",
            "2020-01-31UTC",
            "2020-01-31 utc",
            "2020-01-31  UTC",
            "2020-01-31 04:05+18:30",
            "2020-01-31T1:60",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
        for text in ["2020-01-31 PST", "2020-01-31T13:30:54.", "999999999-01-01", "2020-01-31 +19", "é"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_day_stay_within_the_day() {
        assert_eq!(parse_time("23:59:59.999999999"), Some(NS_PER_DAY - 1));
        assert_eq!(parse_time("1:2:3.5"), Some(3_723_500_000_000));
        assert_eq!(parse_time("86399999999999"), Some(NS_PER_DAY - 1));
        for text in [
            "86400000000000",
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "00:00",
            "00:00:00.",
            "00:00:00.1234567890",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(write_time(&mut String::new(), -1), None);
        assert_eq!(write_time(&mut String::new(), NS_PER_DAY), None);
    }
}
