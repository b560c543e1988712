//! Repeats measurements on a shared machine, selects the rounds that count, and computes their medians.
//!
//! A virtual machine sometimes loses its core for milliseconds, and reads that are due then have to wait with
//! any scheduler. The kernel counts this steal time ([`crate::machine::stolen_us`]). Rounds with much steal
//! time are repeated, and the rounds with the least steal time count.

use crate::BenchError;

/// Maximum fraction of steal time of an undisturbed round.
const STOLEN_MAX: f64 = 0.01;
/// Maximum number of rounds, as a multiple of the wanted number.
const REPEATED: u32 = 3;

/// The result of one round.
#[derive(Clone, Copy, Debug)]
pub struct Round<T> {
    pub measured: T,
    /// The fraction of its time during which other virtual machines had the core.
    pub stolen: f64,
}

/// Measures until `wanted` rounds were undisturbed, but at most three times `wanted` rounds. Returns the
/// `wanted` least disturbed rounds.
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

/// The middle value, or the mean of the two middle values; 0 if there are none.
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
