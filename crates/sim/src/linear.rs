//! Linearizability of a history of concurrent operations on one object: Wing and Gong's search with Lowe's
//! memo.
//!
//! An operation takes effect at one moment between its call and its return. The search appends operations one
//! after the other. A candidate is an operation whose call precedes the first return of the operations not
//! taken yet; it is possible if the model, in the current state, gives the client's answer. Each pair
//! (operations taken, state) is tried once.
//!
//! An operation without a return is *unknown*: its client got no answer, or the node died. It may take effect
//! at any moment after its call, or never, with any answer. The search succeeds when every operation with a
//! return has been taken.
//!
//! Guarantees: `Ok` if and only if there is such an order. Objects are independent of each other, so a
//! history is checked per object (Herlihy and Wing's locality). The objects and the engine's operations are
//! in `registers`.

use std::fmt::Debug;
use std::hash::Hash;

use base::HashSet;

/// Sequential specification of an object.
pub trait Model {
    type State: Clone + Eq + Hash + Debug;
    type Input: Debug;
    type Output: Debug;

    /// The state after `input`, if it may give `output`; `None`: any output is allowed.
    fn step(state: &Self::State, input: &Self::Input, output: Option<&Self::Output>) -> Option<Self::State>;
}

/// An operation of a history. Times increase with each call and each return.
#[derive(Clone, Debug)]
pub struct Call<I, O> {
    pub called: u64,
    pub input: I,
    /// The time of the return, and the answer.
    pub returned: Option<(u64, O)>,
}

/// The operations taken, one bit each.
type Taken = Box<[u64]>;

fn has(taken: &Taken, at: usize) -> bool {
    taken[at / 64] & 1 << (at % 64) != 0
}

/// Checks a history that began in state `initial`. The error describes the longest valid order and the
/// operations that cannot follow it.
pub fn check<M: Model>(initial: &M::State, calls: &[Call<M::Input, M::Output>]) -> Result<(), String> {
    let mut order: Vec<&Call<M::Input, M::Output>> = calls.iter().collect();
    order.sort_by_key(|call| call.called);
    let nothing: Taken = vec![0; order.len().div_ceil(64)].into();
    let mut tried = HashSet::default();
    // Branches to follow: the operations taken, the state, and the order.
    let mut open: Vec<(Taken, M::State, Vec<usize>)> = vec![(nothing, initial.clone(), vec![])];
    let mut longest: (Vec<usize>, M::State) = (vec![], initial.clone());
    while let Some((taken, state, path)) = open.pop() {
        let left = || (0..order.len()).filter(|at| !has(&taken, *at));
        let Some(first_return) = left().filter_map(|at| Some(order[at].returned.as_ref()?.0)).min() else {
            return Ok(());
        };
        if path.len() > longest.0.len() {
            longest = (path.clone(), state.clone());
        }
        // The branch pushed last is followed first: operations with a return, the earliest first, before
        // unknown ones.
        let possible = |at: &usize| order[*at].called <= first_return;
        let mut next: Vec<usize> = left().filter(possible).collect();
        next.sort_by_key(|at| order[*at].returned.as_ref().map_or(u64::MAX, |(when, _)| *when));
        for at in next.into_iter().rev() {
            let output = order[at].returned.as_ref().map(|(_, output)| output);
            let Some(after) = M::step(&state, &order[at].input, output) else { continue };
            let mut taken = taken.clone();
            taken[at / 64] |= 1 << (at % 64);
            if tried.insert((taken.clone(), after.clone())) {
                let mut path = path.clone();
                path.push(at);
                open.push((taken, after, path));
            }
        }
    }
    let (path, state) = longest;
    let left: Vec<String> =
        (0..order.len()).filter(|at| !path.contains(at)).map(|at| format!("  {:?}", order[at])).collect();
    let taken: Vec<String> = path.iter().map(|at| format!("  {:?}", order[*at])).collect();
    Err(format!(
        "no order explains the answers; from {initial:?} the longest valid order is\n{}\nto {state:?}, which cannot be followed \
         by\n{}",
        taken.join("\n"),
        left.join("\n")
    ))
}

/// A register: compare-and-set, and read.
#[derive(Debug)]
pub struct Register;

/// Operation on a [`Register`]. Its answer is the value before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Read,
    /// Sets the new value if the register has the expected one.
    Swap {
        expected: Option<i64>,
        new: Option<i64>,
    },
}

impl Model for Register {
    type State = Option<i64>;
    type Input = Ask;
    type Output = Option<i64>;

    fn step(state: &Self::State, input: &Ask, output: Option<&Self::Output>) -> Option<Self::State> {
        if output.is_some_and(|before| before != state) {
            return None;
        }
        match input {
            Ask::Swap { expected, new } if expected == state => Some(*new),
            Ask::Swap { .. } | Ask::Read => Some(*state),
        }
    }
}

/// A counter: adds a number, 0 to read it. Its answer is the sum before.
#[derive(Debug)]
pub struct Counter;

impl Model for Counter {
    type State = i64;
    type Input = i64;
    type Output = i64;

    fn step(state: &i64, input: &i64, output: Option<&i64>) -> Option<i64> {
        output.is_none_or(|before| before == state).then_some(state + input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap(called: u64, expected: i64, new: i64, returned: Option<(u64, i64)>) -> Call<Ask, Option<i64>> {
        let input = Ask::Swap { expected: Some(expected), new: Some(new) };
        Call { called, input, returned: returned.map(|(when, before)| (when, Some(before))) }
    }

    fn read(called: u64, returned: u64, value: i64) -> Call<Ask, Option<i64>> {
        Call { called, input: Ask::Read, returned: Some((returned, Some(value))) }
    }

    fn register(calls: &[Call<Ask, Option<i64>>]) -> bool {
        check::<Register>(&Some(0), calls).is_ok()
    }

    fn add(called: u64, delta: i64, returned: Option<(u64, i64)>) -> Call<i64, i64> {
        Call { called, input: delta, returned }
    }

    #[test]
    fn operations_at_the_same_time_have_either_order() {
        // Both swaps run from 1 to 9; the second of the list takes effect first.
        assert!(register(&[swap(1, 1, 2, Some((9, 1))), swap(2, 0, 1, Some((8, 0))), read(10, 11, 2)]));
        // One after the other: the first cannot have seen the second.
        assert!(!register(&[swap(1, 1, 2, Some((2, 1))), swap(3, 0, 1, Some((8, 0))), read(10, 11, 2)]));
    }

    #[test]
    fn a_lost_update_has_no_order() {
        assert!(!register(&[swap(1, 0, 1, Some((5, 0))), swap(2, 0, 2, Some((6, 0)))]));
        let both_saw_none = [add(1, 1, Some((5, 0))), add(2, 1, Some((6, 0)))];
        assert!(check::<Counter>(&0, &both_saw_none).is_err());
        let one_saw_the_other = [add(1, 1, Some((5, 1))), add(2, 1, Some((6, 0))), add(7, 0, Some((8, 2)))];
        check::<Counter>(&0, &one_saw_the_other).unwrap();
    }

    #[test]
    fn a_read_after_a_write_has_returned_sees_it() {
        assert!(!register(&[swap(1, 0, 1, Some((2, 0))), read(3, 4, 0)]));
        // During the swap a read may return either value; after one has returned the new value, later ones
        // must too.
        assert!(register(&[swap(1, 0, 1, Some((9, 0))), read(2, 3, 0), read(4, 5, 1)]));
        assert!(!register(&[swap(1, 0, 1, Some((9, 0))), read(2, 3, 1), read(4, 5, 0)]));
    }

    #[test]
    fn an_unknown_operation_happens_late_or_never_but_not_before_its_call() {
        assert!(register(&[swap(3, 0, 1, None), read(4, 5, 0)]));
        assert!(register(&[swap(3, 0, 1, None), read(4, 5, 0), read(6, 7, 1)]));
        assert!(!register(&[swap(3, 0, 1, None), read(4, 5, 1), read(6, 7, 0)]));
        assert!(!register(&[swap(3, 0, 1, None), read(1, 2, 1)]));
        let unknown = [add(1, 5, None), add(1, 7, None), add(2, 0, Some((3, 7))), add(4, 0, Some((5, 12)))];
        check::<Counter>(&0, &unknown).unwrap();
        let twice = [add(1, 5, None), add(2, 0, Some((3, 5))), add(4, 0, Some((5, 10)))];
        assert!(check::<Counter>(&0, &twice).is_err());
    }

    /// Many unknown operations, which a search without a memo would try in every order.
    #[test]
    fn a_memo_keeps_the_search_small() {
        let mut calls: Vec<Call<i64, i64>> = (0..24).map(|at| add(at, 1, None)).collect();
        calls.push(add(100, 0, Some((101, 25))));
        let refused =
            check::<Counter>(&0, &calls[..16].iter().chain(&calls[24..]).cloned().collect::<Vec<_>>());
        assert!(refused.unwrap_err().contains("no order"));
    }

    /// Histories generated from random moments are linearizable; with one answer changed, hardly ever.
    #[test]
    fn random_histories_are_judged_as_they_were_made() {
        let mut refused = 0;
        for seed in 0..200 {
            let mut rng = base::rng::Rng::new(seed);
            let mut sum = 0;
            let mut calls: Vec<Call<i64, i64>> = (0..30)
                .map(|at| {
                    let (moment, delta) = (100 * at + 50, 1 << rng.below(20));
                    let (called, returned) = (moment - rng.below(150).min(moment), moment + rng.below(150));
                    let before = sum;
                    sum += delta;
                    add(called, delta, Some((returned, before)))
                })
                .collect();
            check::<Counter>(&0, &calls).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let at = rng.index(calls.len());
            calls[at].returned = calls[at].returned.map(|(when, before)| (when, before + 1));
            refused += u64::from(check::<Counter>(&0, &calls).is_err());
        }
        assert!(refused > 190, "{refused} of 200 wrong histories were refused");
    }
}
