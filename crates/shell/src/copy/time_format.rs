//! DATETIMEFORMAT: timestamps as `strftime` and `strptime` write and read them.
//!
//! The default is the format of cqlsh's files, `2026-11-24 18:53:01.500+0000`, which has its own code. Other
//! formats use the directives of C, with Python's `%f` for microseconds; `.%f` writes milliseconds, which is
//! all that a timestamp has. A text without a zone is in UTC. A text that the format does not match is read
//! as a CQL timestamp, or as a number of milliseconds. Outside the years 1 to 9999 a timestamp is written as
//! milliseconds.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use model::CqlType;

const DEFAULT: &str = "%Y-%m-%d %H:%M:%S.%f%z";
const YEAR_1_MS: i64 = -62_135_596_800_000;
const YEAR_10000_MS: i64 = 253_402_300_800_000;

/// A format of timestamps; see the head of this file.
#[derive(Clone, Debug)]
pub struct TimeFormat {
    /// Formats to write and to read with; `None`: the default.
    custom: Option<(String, String)>,
}

impl TimeFormat {
    /// # Errors
    /// The format has an unknown directive.
    pub fn new(format: Option<&str>) -> Result<Self, String> {
        let Some(format) = format.filter(|format| !format.is_empty() && *format != DEFAULT) else {
            return Ok(Self { custom: None });
        };
        let written = format.replace(".%f", ".%3f").replace("%f", "%6f");
        let custom = Self { custom: Some((written, format.to_string())) };
        let mut text = String::new();
        match custom.try_write(&mut text, 0) {
            Some(()) => Ok(custom),
            None => Err(format!("DATETIMEFORMAT = '{format}': there is an unknown directive after a %")),
        }
    }

    /// Appends the text of milliseconds since the epoch.
    pub fn write(&self, out: &mut String, ms: i64) {
        let is_in_range = (YEAR_1_MS..YEAR_10000_MS).contains(&ms);
        if !is_in_range || self.try_write(out, ms).is_none() {
            *out += &ms.to_string();
        }
    }

    fn try_write(&self, out: &mut String, ms: i64) -> Option<()> {
        let start = out.len();
        match &self.custom {
            None => {
                let literal = CqlType::Timestamp.text_of(&ms.to_be_bytes());
                let (date, time) = literal.trim_matches('\'').split_once('T')?;
                out.push_str(date);
                out.push(' ');
                out.push_str(time.strip_suffix('Z')?);
                out.push_str("+0000");
            }
            Some((format, _)) => {
                let zoned = Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC);
                match strtime::format(format, &zoned) {
                    Ok(text) => out.push_str(&text),
                    Err(_) => {
                        out.truncate(start);
                        return None;
                    }
                }
            }
        }
        Some(())
    }

    /// The milliseconds of a text.
    ///
    /// # Errors
    /// It has no form of a timestamp.
    pub fn read(&self, text: &str) -> Result<i64, String> {
        let parsed = self.custom.as_ref().and_then(|(_, format)| strtime::parse(format, text).ok());
        let moment = parsed.and_then(|parts| {
            let in_utc = || parts.to_datetime()?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
            parts.to_timestamp().or_else(|_| in_utc()).ok()
        });
        if let Some(moment) = moment {
            return Ok(moment.as_millisecond());
        }
        let bytes = CqlType::Timestamp.bytes_of(&in_milliseconds(text)).map_err(|error| error.to_string())?;
        bytes.try_into().map(i64::from_be_bytes).map_err(|_| format!("no timestamp: {text}"))
    }
}

/// Shortens a fraction of a second to three digits, which is what CQL reads.
fn in_milliseconds(text: &str) -> String {
    let Some(dot) = text.rfind('.') else { return text.to_string() };
    let digits = text[dot + 1..].bytes().take_while(u8::is_ascii_digit).count();
    match digits > 3 {
        true => format!("{}{}", &text[..dot + 4], &text[dot + 1 + digits..]),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Option<&str>, ms: i64) -> String {
        let mut out = String::new();
        TimeFormat::new(format).unwrap().write(&mut out, ms);
        out
    }

    #[test]
    fn formats() {
        assert_eq!(written(None, 1_795_305_731_724), "2026-11-22 00:02:11.724+0000");
        assert_eq!(written(None, 0), "1970-01-01 00:00:00.000+0000");
        assert_eq!(written(None, i64::MAX), "9223372036854775807");
        assert_eq!(written(None, YEAR_1_MS - 1), "-62135596800001");
        assert_eq!(written(Some("%d.%m.%Y %H:%M"), 0), "01.01.1970 00:00");
        assert_eq!(written(Some("%H:%M:%S.%f"), 1), "00:00:00.001");
        assert_eq!(written(Some("%S %f %z"), 1), "00 001000 +0000");
        assert!(TimeFormat::new(Some("%!")).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        for format in [None, Some("%Y/%m/%d %H:%M:%S.%f %z"), Some("%d %b %Y %I:%M:%S.%f %p")] {
            let times = TimeFormat::new(format).unwrap();
            for ms in [0, 1, -1, 1_795_305_731_724, -62_000_000_000_000] {
                let mut out = String::new();
                times.write(&mut out, ms);
                assert_eq!(times.read(&out), Ok(ms), "{out} {format:?}");
            }
        }
    }

    #[test]
    fn other_texts_are_read_as_in_cql() {
        let times = TimeFormat::new(Some("%d.%m.%Y")).unwrap();
        assert_eq!(times.read("02.01.1970"), Ok(86_400_000));
        assert_eq!(times.read("1970-01-01 00:00:00.123456+0000"), Ok(123));
        assert_eq!(times.read("1970-01-01T01:00:00+0100"), Ok(0));
        assert_eq!(times.read("1970-01-01"), Ok(0));
        assert_eq!(times.read("-5"), Ok(-5));
        assert!(times.read("yesterday").is_err());
    }
}
