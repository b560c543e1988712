//! Quantities of workload files: bytes (`10MB`, `1GiB`), durations (`90s`, `10d`), counts (`4M`) and rates.
//!
//! Each reads a plain number or a number with a unit. Units of bytes are decimal (`kB`, `MB`, …) or binary
//! (`KiB`, `MiB`, …). An error names the value and the accepted forms.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Bytes(pub f64);

/// A duration in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Seconds(pub f64);

/// A number of rows, partitions, writes or reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Count(pub f64);

/// Operations per second; `max`: as many as the node accepts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Rate {
    PerSecond(f64),
    Max,
}

const BYTE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const TIME_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
];
const COUNT_UNITS: &[(&str, f64)] =
    &[("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("B", 1e9), ("T", 1e12)];

/// The number in `text` times its unit; `None` if it is not a finite number of at least 0 with a known unit.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text: String = text.trim().chars().filter(|c| *c != '_').collect();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

struct Reading {
    units: &'static [(&'static str, f64)],
    expects: &'static str,
}

impl Visitor<'_> for Reading {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expects)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        if value.is_finite() && value >= 0.0 {
            return Ok(value);
        }
        Err(E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<f64, E> {
        parse(value, self.units).ok_or_else(|| E::invalid_value(de::Unexpected::Str(value), &self))
    }
}

const BYTES: Reading = Reading { units: BYTE_UNITS, expects: "bytes, as 4096, 10MB or 1GiB" };
const SECONDS: Reading = Reading { units: TIME_UNITS, expects: "a duration, as 90s, 10m, 2h or 10d" };
const COUNT: Reading = Reading { units: COUNT_UNITS, expects: "a number of at least 0, as 5000, 30k or 4M" };
const RATE: Reading = Reading { units: COUNT_UNITS, expects: "operations per second, as 10000, 10k or max" };

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BYTES).map(Self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SECONDS).map(Self)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(COUNT).map(Self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RateOrMax;
        impl Visitor<'_> for RateOrMax {
            type Value = Rate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                RATE.expecting(f)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Rate, E> {
                RATE.visit_u64(value).map(Rate::PerSecond)
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Rate, E> {
                RATE.visit_f64(value).map(Rate::PerSecond)
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Rate, E> {
                if value == "max" {
                    return Ok(Rate::Max);
                }
                RATE.visit_str(value).map(Rate::PerSecond)
            }
        }
        deserializer.deserialize_any(RateOrMax)
    }
}

impl Rate {
    /// Operations per second; infinite for [`Rate::Max`].
    pub fn per_s(self) -> f64 {
        match self {
            Self::PerSecond(rate) => rate,
            Self::Max => f64::INFINITY,
        }
    }
}

/// A value with the unit, of those with a decimal prefix, that leaves one to three digits before the point.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (factor, unit) =
        units.iter().rev().find(|(factor, _)| value.abs() >= *factor * 0.9995).unwrap_or(&units[0]);
    let shown = value / factor;
    let decimals = if shown == 0.0 || shown >= 99.95 {
        0
    } else if shown >= 9.995 {
        1
    } else {
        2
    };
    format!("{shown:.decimals$} {unit}")
}

/// `1.20 GB`.
pub fn bytes_text(bytes: f64) -> String {
    scaled(bytes, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
}

/// `4.00 M`; small numbers without a unit.
pub fn count_text(count: f64) -> String {
    scaled(count, &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")]).trim_end().to_string()
}

/// `1.50 h`.
pub fn duration_text(seconds: f64) -> String {
    scaled(seconds, &[(1.0, "s"), (60.0, "min"), (3600.0, "h"), (86_400.0, "d")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let bytes = |text| parse(text, BYTE_UNITS);
        assert_eq!(
            [bytes("10MB"), bytes("1 GiB"), bytes("4096"), bytes("1_000")].map(Option::unwrap),
            [1e7, 1_073_741_824.0, 4096.0, 1000.0]
        );
        assert_eq!([bytes("10 mb"), bytes("-1"), bytes(""), bytes("1e400"), bytes("x")], [None; 5]);
        assert_eq!((parse("1.5h", TIME_UNITS), parse("30k", COUNT_UNITS)), (Some(5400.0), Some(30_000.0)));
    }

    #[test]
    fn texts_are_short() {
        assert_eq!(bytes_text(1.2e9), "1.20 GB");
        assert_eq!(bytes_text(0.0), "0 B");
        assert_eq!(bytes_text(999.9e6), "1.00 GB");
        assert_eq!(count_text(4e6), "4.00 M");
        assert_eq!(count_text(12.0), "12.0");
        assert_eq!(duration_text(86_400.0 * 30.0), "30.0 d");
    }
}
