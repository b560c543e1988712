//! Whether a read uses indexes, and which. Pure.
//!
//! The clause with the fewest candidates is enumerated. Others cut candidates down if they have not many
//! more; one that has would cost more than the rows that it saves. If even the best has a large part of the
//! table, all of the table is read in order, which costs less for each row.

/// Candidates below this number are always read one by one.
const CANDIDATES_FEW: u64 = 1000;
/// Reading a candidate costs about as much as this number of rows of a scan.
const ROWS_A_CANDIDATE: u64 = 4;
/// A clause with this many times the candidates of the best one does not cut any down.
const TIMES_MAX: u64 = 8;

/// What is known of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// About how many postings it has.
    pub postings: u64,
    /// It has one term, so its postings are in the order of the table and can be sought.
    pub is_one_term: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Read the wanted partitions in order, without an index.
    Scan,
    /// Enumerate the clause of this number; the others cut down.
    Index { first: usize, others: Vec<usize> },
}

/// Chooses between indexes with these estimates, of a table of about `rows`. `is_one_partition`: only one
/// partition is wanted.
pub fn choose(estimates: &[Estimate], rows: u64, is_one_partition: bool) -> Choice {
    // Within one partition a clause of one term costs what the partition has of it; others cost all they
    // have.
    let cost = |estimate: &Estimate| match is_one_partition && estimate.is_one_term {
        true => estimate.postings.min(CANDIDATES_FEW),
        false => estimate.postings,
    };
    let Some(first) = (0..estimates.len()).min_by_key(|at| cost(&estimates[*at])) else {
        return Choice::Scan;
    };
    let least = cost(&estimates[first]);
    let rows = if is_one_partition { rows.min(ROWS_A_CANDIDATE * CANDIDATES_FEW) } else { rows };
    if least > CANDIDATES_FEW && least.saturating_mul(ROWS_A_CANDIDATE) >= rows {
        return Choice::Scan;
    }
    let bound = least.max(CANDIDATES_FEW / TIMES_MAX).saturating_mul(TIMES_MAX);
    // One of many terms is enumerated anew for each window of candidates.
    let can_cut = |estimate: &Estimate| {
        cost(estimate) <= bound && (estimate.is_one_term || least <= ROWS_A_CANDIDATE * CANDIDATES_FEW)
    };
    let others = (0..estimates.len()).filter(|at| *at != first && can_cut(&estimates[*at])).collect();
    Choice::Index { first, others }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(postings: &[u64], rows: u64, expect: Choice) {
        let estimates: Vec<_> =
            postings.iter().map(|postings| Estimate { postings: *postings, is_one_term: true }).collect();
        assert_eq!(choose(&estimates, rows, false), expect);
    }

    fn index(first: usize, others: &[usize]) -> Choice {
        Choice::Index { first, others: others.to_vec() }
    }

    #[test]
    fn the_most_selective_is_enumerated_and_a_large_part_is_scanned() {
        check(&[], 10, Choice::Scan);
        check(&[900], 900, index(0, &[]));
        check(&[5000], 1_000_000, index(0, &[]));
        check(&[300_000], 1_000_000, Choice::Scan);
        check(&[50_000, 10, 700], 1_000_000, index(1, &[2]));
        check(&[30_000, 20_000], 1_000_000, index(1, &[0]));
    }

    #[test]
    fn in_one_partition_a_term_is_sought_and_a_range_is_not() {
        let many = |is_one_term| [Estimate { postings: 1_000_000, is_one_term }];
        assert_eq!(choose(&many(true), 2_000_000, true), index(0, &[]));
        assert_eq!(choose(&many(false), 2_000_000, true), Choice::Scan);
    }
}
