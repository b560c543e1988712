//! Linearizability of a history of one register: whether its operations have an order in which every
//! operation that ended before another began precedes it, and in which each has its answer.
//!
//! Wing and Gong's search with Lowe's memo: depth first over the operations that may come next; each pair
//! (operations done, value) is tried once. An operation without an answer may take effect at any time after
//! its call, or never.

use std::collections::BTreeSet;

/// Operation on the register. `None` is a register without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Read,
    /// Sets the value if there is none.
    Insert(i32),
    /// Sets `to` if the value is `from`.
    Swap {
        from: i32,
        to: i32,
    },
    /// Removes the value if there is one.
    Remove,
}

/// The answer to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Value(Option<i32>),
    Applied,
    /// The condition did not hold. Some answers contain the current value.
    Refused(Option<Option<i32>>),
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub begun: u64,
    /// `None`: no answer.
    pub ended: Option<(u64, Answer)>,
    pub ask: Ask,
}

/// Limit of the operations that are searched.
pub const CALLS_MAX: usize = 128;

impl Call {
    /// The register's value after the operation; `None` if its answer is impossible.
    fn after(&self, value: Option<i32>) -> Option<Option<i32>> {
        let holds = match self.ask {
            Ask::Read => {
                return match self.ended {
                    Some((_, Answer::Value(read))) if read != value => None,
                    _ => Some(value),
                };
            }
            Ask::Insert(_) => value.is_none(),
            Ask::Swap { from, .. } => value == Some(from),
            Ask::Remove => value.is_some(),
        };
        match self.ended {
            Some((_, Answer::Applied)) if !holds => return None,
            Some((_, Answer::Refused(_))) if holds => return None,
            Some((_, Answer::Refused(Some(shown)))) if shown != value => return None,
            _ => {}
        }
        Some(match self.ask {
            Ask::Insert(to) | Ask::Swap { to, .. } if holds => Some(to),
            Ask::Remove if holds => None,
            _ => value,
        })
    }
}

/// Checks whether the calls have an order that begins with one of the values `first` and, if `last` is given,
/// ends with that value. The error describes the longest order.
///
/// # Panics
/// There are more than [`CALLS_MAX`] calls.
pub fn check(calls: &[Call], first: &[Option<i32>], last: Option<Option<i32>>) -> Result<(), String> {
    assert!(calls.len() <= CALLS_MAX, "{} calls of one register", calls.len());
    let mut seen: BTreeSet<(u128, Option<i32>)> = BTreeSet::new();
    let mut stack: Vec<(u128, Option<i32>)> = first.iter().map(|value| (0, *value)).collect();
    let answered = calls.iter().enumerate().filter(|(_, call)| call.ended.is_some());
    let answered = answered.fold(0_u128, |all, (at, _)| all | 1 << at);
    let mut best: (u32, u128, Option<i32>) = (0, 0, None);
    while let Some((done, value)) = stack.pop() {
        if !seen.insert((done, value)) {
            continue;
        }
        if done & answered == answered && last.is_none_or(|last| last == value) {
            return Ok(());
        }
        let so_far = (done & answered).count_ones();
        if so_far >= best.0 {
            best = (so_far, done, value);
        }
        // A candidate must begin before the first end of the operations left.
        let left = || calls.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
        let first_end = left().filter_map(|(_, call)| call.ended.map(|(at, _)| at)).min().unwrap_or(u64::MAX);
        for (at, call) in left().filter(|(_, call)| call.begun < first_end) {
            if let Some(after) = call.after(value) {
                stack.push((done | 1 << at, after));
            }
        }
    }
    let (_, done, value) = best;
    let left: Vec<&Call> =
        calls.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0).map(|(_, call)| call).collect();
    Err(format!(
        "no order: from {first:?} to {last:?}; the longest order ends at {value:?} and cannot continue with {left:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begun: u64, ended: u64, ask: Ask, answer: Answer) -> Call {
        Call { begun, ended: Some((ended, answer)), ask }
    }

    const SWAP: Ask = Ask::Swap { from: 1, to: 2 };

    #[test]
    fn one_after_the_other() {
        let calls = [
            call(1, 2, Ask::Insert(1), Answer::Applied),
            call(3, 4, SWAP, Answer::Applied),
            call(5, 6, Ask::Read, Answer::Value(Some(2))),
            call(7, 8, Ask::Remove, Answer::Applied),
            call(9, 10, SWAP, Answer::Refused(Some(None))),
        ];
        assert_eq!(check(&calls, &[None], Some(None)), Ok(()));
        assert!(check(&calls, &[Some(7)], None).is_err());
        assert!(check(&calls, &[None], Some(Some(2))).is_err());
    }

    #[test]
    fn what_was_applied_is_not_lost() {
        let lost = [call(1, 2, SWAP, Answer::Applied), call(3, 4, Ask::Read, Answer::Value(Some(1)))];
        assert!(check(&lost, &[Some(1)], None).is_err());
        // Concurrent: the read may come first.
        let beside = [call(1, 4, SWAP, Answer::Applied), call(2, 3, Ask::Read, Answer::Value(Some(1)))];
        assert_eq!(check(&beside, &[Some(1)], None), Ok(()));
    }

    #[test]
    fn only_one_wins() {
        let other = Ask::Swap { from: 1, to: 3 };
        let both = [call(1, 4, SWAP, Answer::Applied), call(2, 3, other, Answer::Applied)];
        assert!(check(&both, &[Some(1)], None).is_err());
        let refused = Answer::Refused(Some(Some(2)));
        let one = [call(1, 4, SWAP, Answer::Applied), call(2, 3, other, refused)];
        assert_eq!(check(&one, &[Some(1)], None), Ok(()));
    }

    #[test]
    fn what_has_no_answer_happens_or_not() {
        let swap = Call { begun: 1, ended: None, ask: SWAP };
        for read in [1, 2] {
            let calls = [swap, call(3, 4, Ask::Read, Answer::Value(Some(read)))];
            assert_eq!(check(&calls, &[Some(1)], None), Ok(()));
        }
        let back = [
            swap,
            call(3, 4, Ask::Read, Answer::Value(Some(2))),
            call(5, 6, Ask::Read, Answer::Value(Some(1))),
        ];
        assert!(check(&back, &[Some(1)], None).is_err());
        let early = [call(0, 1, Ask::Read, Answer::Value(Some(2))), Call { begun: 2, ..swap }];
        assert!(check(&early, &[Some(1)], None).is_err());
    }
}
