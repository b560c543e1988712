//! Runs that are repeated on a machine that others use too: which of them count, and the medians of those.
//!
//! A virtual machine is at times taken off its core for milliseconds; reads that are due then wait, whoever schedules them. The kernel counts
//! that time ([`crate::bench::machine::stolen_us`]). Rounds in which much was stolen are repeated, and those with the least count.

use crate::bench::BenchError;

/// A round in which no more than this part of the time was stolen is not repeated.
const STOLEN_MAX: f64 = 0.01;
/// So many times as many rounds as are wanted, and no more.
const REPEATED: u32 = 3;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct Round<T> {
    pub measured: T,
    /// The part of its time that somebody else had the core.
    pub stolen: f64,
}

/// Measures until `wanted` rounds were undisturbed, or three times as often; the `wanted` that were disturbed least.
pub fn least_disturbed<T>(
    wanted: u32,
    mut measure: impl FnMut() -> Result<Round<T>, BenchError>,
) -> Result<Vec<Round<T>>, BenchError> {
    let mut rounds = vec![];
    let mut undisturbed = 0;
    for _ in 0..wanted.saturating_mul(REPEATED) {
        if undisturbed >= wanted {
            break;
        }
        let round = measure()?;
        undisturbed += u32::from(round.stolen <= STOLEN_MAX);
        rounds.push(round);
    }
    rounds.sort_by(|one, other| one.stolen.total_cmp(&other.stolen));
    rounds.truncate(wanted as usize);
    Ok(rounds)
}

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count => (values[(count - 1) / 2] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(wanted: u32, stolen: &[f64]) -> (Vec<usize>, usize) {
        let mut measured = 0;
        let rounds = least_disturbed(wanted, || {
            let round = Round { measured, stolen: stolen[measured] };
            measured += 1;
            Ok(round)
        });
        (rounds.unwrap().iter().map(|round| round.measured).collect(), measured)
    }

    #[test]
    fn rounds_in_which_much_was_stolen_are_repeated() {
        assert_eq!(kept(2, &[0.0, 0.001]), (vec![0, 1], 2));
        assert_eq!(kept(2, &[0.3, 0.0, 0.2, 0.01]), (vec![1, 3], 4));
        assert_eq!(kept(1, &[0.3, 0.1, 0.2]), (vec![1], 3));
    }

    #[test]
    fn the_median() {
        assert_eq!(median([]), 0.0);
        assert_eq!(median([3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median([3.0, 1.0]), 2.0);
    }
}
