//! Assigns the output of a merge of fragments to runs, so that every run stays free of overlaps.
//!
//! A job merges fragments of several runs, and the runs continue to exist without them. A range with input
//! fragments of a run and no other fragment of the run between them is a **place** of the run: data written
//! there overlaps nothing else in the run. Places of different runs overlap, since the inputs do. Each part
//! of the ring that is in some place is assigned to the largest run with a place there. Merged data thereby
//! moves to the larger tier, as in a merge of whole runs, and the part of an input that no other input
//! overlaps stays in its run.
//!
//! There are two alternatives. Making a new run for each such job leaves many small runs with holes, which
//! must be merged again tier by tier. Giving each run its own part of the output requires a merge that
//! remembers the origin of each cell, and leaves as many versions of a partition in as many runs as before.

use model::{PartitionKey, RingPosition};

use crate::plan::RunPiece;
use crate::sstable_id::SSTableId;
use crate::tiers::{Run, runs};
use crate::view::{SSTableView, TableView};

/// A boundary between partitions: before a key (false) or after it (true).
type Bound<'a> = (&'a PartitionKey, bool);

struct Span<'a> {
    first: Bound<'a>,
    end: Bound<'a>,
    /// The place with the highest rank is chosen: by the bytes of the run, then by its id.
    rank: (u64, crate::sstable_id::RunId),
}

/// The pieces of [`crate::Split::Runs`] for a merge of `inputs`. The inputs are distinct.
pub fn pieces(view: &TableView<'_>, inputs: &[&SSTableView]) -> Vec<RunPiece> {
    let involved = |run: &Run<'_>| inputs.iter().any(|input| input.run == run.id());
    let spans: Vec<Span<'_>> =
        runs(view.sstables).iter().filter(|run| involved(run)).flat_map(|run| spans(run, inputs)).collect();
    let mut bounds: Vec<Bound<'_>> = spans.iter().flat_map(|place| [place.first, place.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces: Vec<RunPiece> = vec![];
    for pair in bounds.windows(2) {
        let covers = |place: &&Span<'_>| place.first <= pair[0] && pair[1] <= place.end;
        let Some(place) = spans.iter().filter(covers).max_by_key(|place| place.rank) else { continue };
        let run = place.rank.1;
        let (key, behind) = (pair[1].0.clone(), pair[1].1);
        let end = if behind { RingPosition::AfterKey(key) } else { RingPosition::BeforeKey(key) };
        match pieces.last_mut() {
            // A piece may only extend within one place: between two places of a run there is other data of
            // the run.
            Some(last) if last.run == run && touches(&spans, pair[0], run) => last.end = end,
            _ => pieces.push(RunPiece { end, run }),
        }
    }
    pieces
}

/// Whether one place of the run extends across this boundary.
fn touches(spans: &[Span<'_>], at: Bound<'_>, run: crate::sstable_id::RunId) -> bool {
    spans.iter().any(|place| place.rank.1 == run && place.first < at && at < place.end)
}

/// The places of a run: ranges of input fragments without other fragments of the run between them.
fn spans<'a>(run: &Run<'a>, inputs: &[&SSTableView]) -> Vec<Span<'a>> {
    let is_input = |id: SSTableId| inputs.iter().any(|input| input.id == id);
    let mut spans: Vec<Span<'a>> = vec![];
    let mut joins = false;
    for &sstable in &run.sstables {
        let here = is_input(sstable.id);
        match spans.last_mut() {
            Some(last) if here && joins => last.end = (&sstable.last, true),
            _ if here => spans.push(Span {
                first: (&sstable.first, false),
                end: (&sstable.last, true),
                rank: (run.bytes, run.id()),
            }),
            _ => {}
        }
        joins = here;
    }
    spans
}
