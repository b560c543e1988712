//! Scaling parameters: the trade-off between many SSTables and many rewrites, for a density level.
//!
//! `W = 0` (`N`): two overlapping SSTables of similar density are merged. Above 0 (`T4`: tiered, fan-out 4, W
//! = 2), a merge waits until as many SSTables as the fan-out overlap. Below 0 (`L10`: leveled, fan-out 10, W
//! = -8), any two SSTables are merged until the output is denser by the fan-out.

/// The parameter W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling(pub i32);

impl Scaling {
    /// Parses `T4`, `L10`, `N` or W itself; `None` if the text is none of these.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_uppercase();
        let fanout = |digits: &str| digits.parse::<i32>().ok().filter(|fanout| *fanout >= 2);
        if text == "N" {
            return Some(Self(0));
        }
        if let Some(digits) = text.strip_prefix('T') {
            return fanout(digits).map(|fanout| Self(fanout - 2));
        }
        if let Some(digits) = text.strip_prefix('L') {
            return fanout(digits).map(|fanout| Self(2 - fanout));
        }
        text.parse().ok().filter(|w: &i32| w.unsigned_abs() < 1 << 30).map(Self)
    }

    /// Density ratio of the next level to this one.
    pub fn fanout(self) -> u64 {
        2 + u64::from(self.0.unsigned_abs())
    }

    /// Number of overlapping SSTables from which on they are merged.
    pub fn threshold(self) -> usize {
        if self.0 <= 0 { 2 } else { 2 + self.0 as usize }
    }
}

/// Parses the parameters of the levels, lowest first. The last one applies to all higher levels.
pub fn parse_list(text: &str) -> Option<Vec<Scaling>> {
    text.split(',').map(Scaling::parse).collect()
}

/// Parses a number of bytes with an optional unit: `100MiB`, `1.5 GB`; `None` if the text is invalid.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok()?;
    (number >= 0.0 && number.is_finite()).then_some((number * unit) as u64)
}
