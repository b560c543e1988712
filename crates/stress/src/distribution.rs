//! Distributions of whole numbers, in the notation of cassandra-stress: `uniform(1..1M)`,
//! `gaussian(1..100,5)`.
//!
//! | notation | meaning |
//! |---|---|
//! | `fixed(N)` | always N |
//! | `uniform(A..B)` | each number from A to B with the same probability |
//! | `gaussian(A..B)`, `(A..B,S)` | mean (A+B)/2; S (3 if absent) standard deviations from the mean to A and to B |
//! | `gaussian(A..B,M,D)` | mean M, standard deviation D |
//! | `exp(A..B)` | exponential from A; B is reached with the probability sqrt(1/(B-A)) |
//! | `extreme(A..B,K)` | Weibull of shape K from A; scaled as `exp` |
//! | `qextreme(A..B,K,Q)` | `extreme`, divided into Q parts; within a part, uniform |
//!
//! `~` before a name mirrors the distribution: `~exp(1..10)` yields 10 most often. Numbers may end in `k`,
//! `m` or `b` (thousand, million, billion). Numbers beyond a bound become the bound. Source:
//! cassandra-stress's documentation, and the bounds of its `OptionDistribution`.

use std::f64::consts::TAU;

use base::rng::Rng;

/// A distribution of whole numbers between two bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    shape: Shape,
    /// Inclusive.
    min: i64,
    /// Inclusive; at least `min`.
    max: i64,
    is_mirrored: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Fixed,
    Uniform,
    Gaussian {
        mean: f64,
        deviation: f64,
    },
    /// Weibull from `min`; with `shape` 1 it is the exponential distribution.
    Weibull {
        shape: f64,
        scale: f64,
    },
    /// `bounds`: the first number of each part, rising.
    Quantized {
        shape: f64,
        scale: f64,
        bounds: Vec<i64>,
    },
}

impl Distribution {
    /// Always `value`.
    pub fn fixed(value: i64) -> Self {
        Self { shape: Shape::Fixed, min: value, max: value, is_mirrored: false }
    }

    /// Each number from `min` to `max`, which is at least `min`, with the same probability.
    pub fn uniform(min: i64, max: i64) -> Self {
        assert!(min <= max, "{min} is above {max}");
        Self { shape: Shape::Uniform, min, max, is_mirrored: false }
    }

    /// Gaussian with three standard deviations from the mean to each bound. `max` is at least `min`.
    pub fn gaussian(min: i64, max: i64) -> Self {
        assert!(min <= max, "{min} is above {max}");
        let (mean, deviation) = mean_and_deviation(min, max, 3.0);
        Self { shape: Shape::Gaussian { mean, deviation }, min, max, is_mirrored: false }
    }

    /// # Errors
    /// The mistake in the text, and the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fail = || {
            format!(
                "{text:?} is not a distribution; there are fixed(N), uniform(A..B), gaussian(A..B), \
                 gaussian(A..B,DEVIATIONS), gaussian(A..B,MEAN,DEVIATION), exp(A..B), extreme(A..B,SHAPE) and \
                 qextreme(A..B,SHAPE,PARTS)"
            )
        };
        let trimmed = text.trim();
        let (is_mirrored, plain) = match trimmed.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, trimmed),
        };
        let (name, rest) = plain.split_once('(').ok_or_else(fail)?;
        let arguments: Vec<&str> =
            rest.strip_suffix(')').ok_or_else(fail)?.split(',').map(str::trim).collect();
        let number = |at: usize| -> Result<f64, String> {
            let parsed =
                arguments[at].parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
            parsed.ok_or_else(|| format!("{:?} in {text:?} is not a number above 0", arguments[at]))
        };
        let range = || -> Result<(i64, i64), String> {
            let (min, max) = arguments[0].split_once("..").ok_or_else(fail)?;
            let (min, max) = (parse_number(min)?, parse_number(max.trim_start_matches('.'))?);
            match min <= max {
                true => Ok((min, max)),
                false => Err(format!("in {text:?} the lower bound {min} is above the upper bound {max}")),
            }
        };
        let name = name.trim().to_ascii_lowercase();
        let (shape, (min, max)) = match (name.as_str(), arguments.len()) {
            ("fixed", 1) => {
                let value = parse_number(arguments[0])?;
                (Shape::Fixed, (value, value))
            }
            ("uniform", 1) => (Shape::Uniform, range()?),
            ("gaussian" | "gauss" | "normal" | "norm", count @ 1..=3) => {
                let (min, max) = range()?;
                let (mean, deviation) = match count {
                    3 => (arguments[1].parse().map_err(|_| fail())?, number(2)?),
                    2 => mean_and_deviation(min, max, number(1)?),
                    _ => mean_and_deviation(min, max, 3.0),
                };
                (Shape::Gaussian { mean, deviation }, (min, max))
            }
            ("exp", 1) => {
                let (min, max) = range()?;
                (Shape::Weibull { shape: 1.0, scale: scale(min, max, 1.0) }, (min, max))
            }
            ("extreme" | "extr" | "weibull", 2) => {
                let ((min, max), shape) = (range()?, number(1)?);
                (Shape::Weibull { shape, scale: scale(min, max, shape) }, (min, max))
            }
            ("qextreme" | "qextr", 3) => {
                let ((min, max), shape) = (range()?, number(1)?);
                let parts = number(2)?;
                if !(1.0..=1000.0).contains(&parts) {
                    return Err(format!("in {text:?} the number of parts must be 1 to 1000"));
                }
                let scale = scale(min, max, shape);
                (
                    Shape::Quantized { shape, scale, bounds: bounds(min, max, shape, scale, parts as usize) },
                    (min, max),
                )
            }
            _ => return Err(fail()),
        };
        Ok(Self { shape, min, max, is_mirrored })
    }

    /// The smallest number.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The largest number.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// A number between the bounds, drawn with `rng`.
    pub fn sample(&self, rng: &mut Rng) -> i64 {
        let drawn = match &self.shape {
            Shape::Fixed => self.min,
            Shape::Uniform => within(rng, self.min, self.max),
            Shape::Gaussian { mean, deviation } => (mean + deviation * standard_normal(rng)).round() as i64,
            Shape::Weibull { shape, scale } => {
                self.min.saturating_add(weibull(unit(rng), *shape, *scale) as i64)
            }
            Shape::Quantized { shape, scale, bounds } => {
                let at = self.min.saturating_add(weibull(unit(rng), *shape, *scale) as i64);
                let part = bounds.partition_point(|bound| *bound <= at).max(1) - 1;
                let end = bounds.get(part + 1).map_or(self.max, |next| next - 1);
                within(rng, bounds[part], end.max(bounds[part]))
            }
        };
        let drawn = drawn.clamp(self.min, self.max);
        match self.is_mirrored {
            true => self.max - (drawn - self.min),
            false => drawn,
        }
    }
}

/// A whole number; `k`, `m` and `b` at its end are thousand, million and billion.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_number(text: &str) -> Result<i64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, factor) = match lower.char_indices().next_back() {
        Some((at, 'k')) => (&lower[..at], 1_000),
        Some((at, 'm')) => (&lower[..at], 1_000_000),
        Some((at, 'b')) => (&lower[..at], 1_000_000_000),
        _ => (lower.as_str(), 1),
    };
    let number = digits.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("{text:?} is not a whole number such as 1000, 50k, 10m or 1b"))
}

fn mean_and_deviation(min: i64, max: i64, deviations: f64) -> (f64, f64) {
    ((min as f64 + max as f64) / 2.0, (max as f64 - min as f64) / 2.0 / deviations)
}

/// The scale at which `max` is reached with the probability sqrt(1 / (max - min)).
fn scale(min: i64, max: i64, shape: f64) -> f64 {
    let width = max as f64 - min as f64;
    if width <= 1.0 {
        return 1.0;
    }
    width / (0.5 * width.ln()).powf(1.0 / shape)
}

/// The value of a Weibull distribution that is exceeded with the probability `above`.
fn weibull(above: f64, shape: f64, scale: f64) -> f64 {
    scale * (-above.ln()).powf(1.0 / shape)
}

/// The first number of each of `parts` parts of equal probability.
fn bounds(min: i64, max: i64, shape: f64, scale: f64, parts: usize) -> Vec<i64> {
    let first_of = |part: usize| {
        let above = 1.0 - part as f64 / parts as f64;
        min.saturating_add(weibull(above, shape, scale) as i64).clamp(min, max)
    };
    let mut bounds: Vec<i64> = (0..parts).map(first_of).collect();
    bounds.dedup();
    bounds
}

fn within(rng: &mut Rng, min: i64, max: i64) -> i64 {
    let width = (max - min) as u64;
    match width {
        u64::MAX => rng.next_u64() as i64,
        _ => min + rng.below(width + 1) as i64,
    }
}

/// A number above 0 and at most 1.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Box and Muller's method.
fn standard_normal(rng: &mut Rng) -> f64 {
    (-2.0 * unit(rng).ln()).sqrt() * (TAU * unit(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> Vec<i64> {
        let distribution = Distribution::parse(text).unwrap();
        let mut rng = Rng::new(7);
        let drawn: Vec<i64> = (0..100_000).map(|_| distribution.sample(&mut rng)).collect();
        assert!(
            drawn.iter().all(|number| (distribution.min()..=distribution.max()).contains(number)),
            "{text}"
        );
        drawn
    }

    fn mean(samples: &[i64]) -> f64 {
        samples.iter().sum::<i64>() as f64 / samples.len() as f64
    }

    fn share(samples: &[i64], is_in: impl Fn(i64) -> bool) -> f64 {
        samples.iter().filter(|number| is_in(**number)).count() as f64 / samples.len() as f64
    }

    #[test]
    fn samples_have_the_shape_that_the_notation_names() {
        assert_eq!(samples("fixed(34)")[..3], [34; 3]);
        let uniform = samples("UNIFORM(1..1k)");
        assert!((mean(&uniform) - 500.5).abs() < 5.0);
        assert!((share(&uniform, |number| number <= 100) - 0.1).abs() < 0.01);
        // Two thirds are within one standard deviation, a third of the way to the bound.
        let gaussian = samples("gaussian(1..601)");
        assert!((mean(&gaussian) - 301.0).abs() < 2.0);
        assert!((share(&gaussian, |number| (201..=401).contains(&number)) - 0.683).abs() < 0.01);
        let narrow = samples("norm(1..1001,100,10)");
        assert!((mean(&narrow) - 100.0).abs() < 1.0);
        // The upper bound is exceeded with the probability sqrt(1/10000) = 0.01.
        let exponential = samples("exp(0..10000)");
        assert!((share(&exponential, |number| number == 10_000) - 0.01).abs() < 0.002);
        assert!((mean(&exponential) - 10_000.0 / (100.0f64).ln() * 0.99).abs() < 40.0);
        let mirrored = samples("~exp(0..10000)");
        assert!((share(&mirrored, |number| number == 0) - 0.01).abs() < 0.002);
        let quantized = samples("qextreme(0..10000,1,10)");
        assert!((mean(&quantized) - mean(&exponential)).abs() < 200.0);
        assert!((share(&samples("extreme(0..10000,2)"), |number| number == 10_000) - 0.01).abs() < 0.002);
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_what_there_is() {
        for text in [
            "",
            "uniform",
            "uniform(1..)",
            "uniform(5..1)",
            "zipf(1..5)",
            "gaussian(1..5,0)",
            "fixed(x)",
            "exp(1..2,3)",
            "qextreme(1..9,1,0)",
            "extreme(1..9)",
            "uniform(1..99999999999999999999)",
            "fixed(99999999999b)",
        ] {
            let error = Distribution::parse(text).unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
        assert_eq!(parse_number("3k"), Ok(3000));
        assert_eq!(parse_number("2B"), Ok(2_000_000_000));
    }
}
