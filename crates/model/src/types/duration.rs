//! Durations: months, days and nanoseconds with the same sign, encoded as three zigzag vints.
//!
//! The text form is `1y2mo3d4h5m6s7ms8us9ns` (units in this order, each at most once, also weeks), or ISO
//! 8601: `P1Y2M3DT4H5M6S`, `P4W`, `P0001-02-03T04:05:06`. A leading `-` makes all parts negative. Source:
//! Cassandra 4.1 `cql3/Duration.java`.

use std::fmt::Write;

use base::bytes::Take;
use base::vint;

/// The parts of a duration. Months and days have no fixed length, so they are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Duration {
    /// Months; not convertible to days.
    pub months: i32,
    /// Days; not convertible to nanoseconds.
    pub days: i32,
    /// Nanoseconds. All three have the same sign, or are 0.
    pub nanoseconds: i64,
}

/// A unit: its suffix, the part to which it contributes, and its size in that part.
struct Unit {
    suffix: &'static str,
    part: Part,
    size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Months,
    Days,
    Nanoseconds,
}

const fn unit(suffix: &'static str, part: Part, size: u64) -> Unit {
    Unit { suffix, part, size }
}

const UNITS: [Unit; 10] = [
    unit("y", Part::Months, 12),
    unit("mo", Part::Months, 1),
    unit("w", Part::Days, 7),
    unit("d", Part::Days, 1),
    unit("h", Part::Nanoseconds, 3_600_000_000_000),
    unit("m", Part::Nanoseconds, 60_000_000_000),
    unit("s", Part::Nanoseconds, 1_000_000_000),
    unit("ms", Part::Nanoseconds, 1_000_000),
    unit("us", Part::Nanoseconds, 1_000),
    unit("ns", Part::Nanoseconds, 1),
];
/// The units' names in errors.
const NAMES: [&str; 10] = [
    "years",
    "months",
    "weeks",
    "days",
    "hours",
    "minutes",
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
];
const YEARS: usize = 0;
const MONTHS: usize = 1;
const WEEKS: usize = 2;
const DAYS: usize = 3;
const HOURS: usize = 4;
const MINUTES: usize = 5;
const SECONDS: usize = 6;

impl Duration {
    /// Decodes a duration; `None` if the bytes are not exactly three vints that fit.
    pub fn from_bytes(bytes: &[u8]) -> Option<Duration> {
        let mut take = Take::new(bytes);
        let months = take.vint_signed().ok()?.try_into().ok()?;
        let days = take.vint_signed().ok()?.try_into().ok()?;
        let nanoseconds = take.vint_signed().ok()?;
        take.is_empty().then_some(Duration { months, days, nanoseconds })
    }

    /// The encoded duration: three zigzag vints.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![];
        for part in [i64::from(self.months), i64::from(self.days), self.nanoseconds] {
            vint::write_signed(&mut out, part);
        }
        out
    }

    /// Appends text like `-1y2mo…`; an empty text for a duration of zero.
    pub(crate) fn write(self, out: &mut String) {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            out.push('-');
        }
        let magnitude = |part: Part| match part {
            Part::Months => u64::from(self.months.unsigned_abs()),
            Part::Days => u64::from(self.days.unsigned_abs()),
            Part::Nanoseconds => self.nanoseconds.unsigned_abs(),
        };
        let mut part = Part::Months;
        let mut left = magnitude(part);
        for (i, unit) in UNITS.iter().enumerate() {
            if unit.part != part {
                part = unit.part;
                left = magnitude(part);
            }
            if i != WEEKS && left >= unit.size {
                let _infallible = write!(out, "{}{}", left / unit.size, unit.suffix);
                left %= unit.size;
            }
        }
    }

    /// Parses a duration.
    ///
    /// # Errors
    /// The text is no duration, or a part does not fit: the reason in Cassandra's words, or `None` for a text
    /// that has not the form of a duration.
    pub fn parse(text: &str) -> Result<Duration, Option<String>> {
        let (negative, source) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut sum = Sum::default();
        match source.strip_prefix('P') {
            Some(iso) if iso.contains('-') => sum.add_iso_alternative(iso)?,
            Some(iso) => match iso.strip_suffix('W') {
                Some(weeks) => sum.add(WEEKS, number(weeks).ok_or(None)?)?,
                None => sum.add_iso(iso)?,
            },
            None => sum.add_standard(source)?,
        }
        sum.finish(negative)
    }
}

impl std::fmt::Display for Duration {
    /// The CQL text, like `-1y2mo…`; empty for a duration of zero.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

fn number(digits: &str) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

/// Splits off digits and the following text up to the next digit: `12mo3d` gives (12, "mo", "3d").
fn number_and_suffix(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, rest) = text.split_at(digits);
    let suffix = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (suffix, rest) = rest.split_at(suffix);
    Some((number(count)?, suffix, rest))
}

/// Why a text is no duration: Cassandra's words for a wrong unit or a part that does not fit, otherwise
/// `None`.
type Wrong = Option<String>;

/// Sums units, which must come in falling order.
#[derive(Default)]
struct Sum {
    /// Indexed by [`Part`].
    parts: [u64; 3],
    next_unit: usize,
}

impl Sum {
    fn add(&mut self, unit: usize, count: u64) -> Result<(), Wrong> {
        if unit + 1 == self.next_unit {
            return Err(Some(format!("Invalid duration. The {} are specified multiple times", NAMES[unit])));
        }
        if unit < self.next_unit {
            let (name, last) = (NAMES[unit], NAMES[self.next_unit - 1]);
            return Err(Some(format!("Invalid duration. The {last} should be after {name}")));
        }
        self.next_unit = unit + 1;
        let part = UNITS[unit].part;
        let sum =
            count.checked_mul(UNITS[unit].size).and_then(|more| self.parts[part as usize].checked_add(more));
        self.parts[part as usize] = sum.ok_or_else(|| too_large(part))?;
        Ok(())
    }

    fn add_standard(&mut self, text: &str) -> Result<(), Wrong> {
        let mut rest = text;
        if rest.is_empty() {
            return Err(None);
        }
        while !rest.is_empty() {
            let (count, suffix, after) = number_and_suffix(rest).ok_or(None)?;
            let lower = suffix.to_lowercase();
            let suffix = if lower == "µs" { "us" } else { &lower };
            self.add(UNITS.iter().position(|unit| unit.suffix == suffix).ok_or(None)?, count)?;
            rest = after;
        }
        Ok(())
    }

    fn add_iso(&mut self, text: &str) -> Result<(), Wrong> {
        let (date, time) = text.split_once('T').unwrap_or((text, ""));
        for (mut rest, letters) in [
            (date, [("Y", YEARS), ("M", MONTHS), ("D", DAYS)]),
            (time, [("H", HOURS), ("M", MINUTES), ("S", SECONDS)]),
        ] {
            while !rest.is_empty() {
                let (count, suffix, after) = number_and_suffix(rest).ok_or(None)?;
                let (_, unit) = letters.iter().find(|(letter, _)| *letter == suffix).ok_or(None)?;
                self.add(*unit, count)?;
                rest = after;
            }
        }
        Ok(())
    }

    /// Parses the alternative ISO form, like `0001-02-03T04:05:06`.
    fn add_iso_alternative(&mut self, text: &str) -> Result<(), Wrong> {
        const SHAPE: &[u8] = b"0000-00-00T00:00:00";
        let fits = text.len() == SHAPE.len()
            && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                other => byte == *other,
            });
        if !fits {
            return Err(None);
        }
        let fields = [
            (YEARS, 0..4),
            (MONTHS, 5..7),
            (DAYS, 8..10),
            (HOURS, 11..13),
            (MINUTES, 14..16),
            (SECONDS, 17..19),
        ];
        for (unit, range) in fields {
            self.add(unit, number(&text[range]).ok_or(None)?)?;
        }
        Ok(())
    }

    fn finish(self, negative: bool) -> Result<Duration, Wrong> {
        let signed = |part: Part| {
            let magnitude = i128::from(self.parts[part as usize]);
            if negative { -magnitude } else { magnitude }
        };
        Ok(Duration {
            months: signed(Part::Months).try_into().map_err(|_| too_large(Part::Months))?,
            days: signed(Part::Days).try_into().map_err(|_| too_large(Part::Days))?,
            nanoseconds: signed(Part::Nanoseconds).try_into().map_err(|_| too_large(Part::Nanoseconds))?,
        })
    }
}

fn too_large(part: Part) -> Wrong {
    let name = match part {
        Part::Months => "months",
        Part::Days => "days",
        Part::Nanoseconds => "nanoseconds",
    };
    // As in Cassandra, the limit of months is named for nanoseconds, too.
    Some(format!("Invalid duration. The total number of {name} must be less or equal to {}", i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let full = Duration { months: 14, days: 3, nanoseconds: 14_706_007_008_009 };
        assert_eq!(Duration::parse("1y2mo3d4h5m6s7ms8us9ns"), Ok(full));
        assert_eq!(Duration::parse("1Y2MO3D4H5M6S7MS8µS9NS"), Ok(full));
        let whole = Duration { nanoseconds: 14_706_000_000_000, ..full };
        assert_eq!(Duration::parse("P1Y2M3DT4H5M6S"), Ok(whole));
        assert_eq!(Duration::parse("P0001-02-03T04:05:06"), Ok(whole));
        assert_eq!(Duration::parse("-P4W"), Ok(Duration { days: -28, ..Duration::default() }));
        assert_eq!(Duration::parse("2w1d"), Ok(Duration { days: 15, ..Duration::default() }));
        assert_eq!(Duration::parse("P"), Ok(Duration::default()));
        for text in
            ["", "-", "1", "y", "1d1y", "1d1d", "1x", "1h 2m", "P1H", "PT1D", "P0001-02-03", "P1W1D", "1.5h"]
        {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
        let words = |text: &str| Duration::parse(text).unwrap_err().unwrap();
        let months = "Invalid duration. The total number of months must be less or equal to 2147483647";
        assert_eq!(words("178956970y8mo"), months, "one month above i32");
        assert_eq!(words("1d1y"), "Invalid duration. The days should be after years");
        assert_eq!(words("1y1y"), "Invalid duration. The years are specified multiple times");
        assert_eq!(Duration::parse("99999999999999999999ns"), Err(None));
        assert!(words("9223372036854775807h").ends_with("nanoseconds must be less or equal to 2147483647"));
    }

    #[test]
    fn text_and_bytes_round_trip_at_the_ends() {
        for duration in [
            Duration { months: 14, days: 3, nanoseconds: 14_706_007_008_009 },
            Duration { months: i32::MAX, days: i32::MAX, nanoseconds: i64::MAX },
            Duration { months: i32::MIN, days: i32::MIN, nanoseconds: i64::MIN },
            Duration { months: 0, days: -1, nanoseconds: 0 },
        ] {
            let mut text = String::new();
            duration.write(&mut text);
            assert_eq!(Duration::parse(&text), Ok(duration), "{text}");
            assert_eq!(Duration::from_bytes(&duration.to_bytes()), Some(duration));
        }
    }
}
