//! Where the output of a merge of some fragments goes, so that every run stays a run.
//!
//! Fragments of several runs are merged, and the runs live on without them. Where input fragments of a run lie with
//! nothing else of that run between them, the run has a **place**: whatever is written there overlaps nothing of it.
//! Places of different runs overlap, since the inputs do. Each part of the ring that is in some place goes to the
//! largest run that has a place there: what is merged rises to the larger tier, as it does when whole runs are merged,
//! and what of an input nothing else overlaps stays in the run it is from.
//!
//! (The alternatives: a new run for each such job leaves many small runs with holes behind, which must be merged up
//! again tier by tier; to give every run its own part of what is left needs a merge that remembers for each
//! cell where it is from, and leaves as many versions of a partition in as many runs as before.)

use model::{PartitionKey, RingPosition};

use crate::plan::RunPiece;
use crate::tiers::{Run, runs};
use crate::view::{SSTableId, SSTableView, TableView};

/// A boundary between partitions: in front of a key, or behind it.
type Bound<'a> = (&'a PartitionKey, bool);

struct Place<'a> {
    first: Bound<'a>,
    end: Bound<'a>,
    /// The larger, the rather it is chosen: bytes of the run, then its id.
    rank: (u64, crate::view::RunId),
}

/// The pieces of [`crate::Split::Runs`] for a merge of `inputs`, none of which is twice there.
pub fn pieces(view: &TableView<'_>, inputs: &[&SSTableView]) -> Vec<RunPiece> {
    let involved = |run: &Run<'_>| inputs.iter().any(|input| input.run == run.id());
    let places: Vec<Place<'_>> =
        runs(view.sstables).iter().filter(|run| involved(run)).flat_map(|run| places(run, inputs)).collect();
    let mut bounds: Vec<Bound<'_>> = places.iter().flat_map(|place| [place.first, place.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces: Vec<RunPiece> = vec![];
    for pair in bounds.windows(2) {
        let covers = |place: &&Place<'_>| place.first <= pair[0] && pair[1] <= place.end;
        let Some(place) = places.iter().filter(covers).max_by_key(|place| place.rank) else { continue };
        let run = place.rank.1;
        let (key, behind) = (pair[1].0.clone(), pair[1].1);
        let end = if behind { RingPosition::AfterKey(key) } else { RingPosition::BeforeKey(key) };
        match pieces.last_mut() {
            // Only what is one place may be one piece: between two of a run it has something else.
            Some(last) if last.run == run && touches(&places, pair[0], run) => last.end = end,
            _ => pieces.push(RunPiece { end, run }),
        }
    }
    pieces
}

/// Whether one place of the run reaches over this boundary.
fn touches(places: &[Place<'_>], at: Bound<'_>, run: crate::view::RunId) -> bool {
    places.iter().any(|place| place.rank.1 == run && place.first < at && at < place.end)
}

/// Where this run has input fragments and nothing else between them.
fn places<'a>(run: &Run<'a>, inputs: &[&SSTableView]) -> Vec<Place<'a>> {
    let is_input = |id: SSTableId| inputs.iter().any(|input| input.id == id);
    let mut places: Vec<Place<'a>> = vec![];
    let mut joins = false;
    for &sstable in &run.sstables {
        let here = is_input(sstable.id);
        match places.last_mut() {
            Some(last) if here && joins => last.end = (&sstable.last, true),
            _ if here => places.push(Place {
                first: (&sstable.first, false),
                end: (&sstable.last, true),
                rank: (run.bytes, run.id()),
            }),
            _ => {}
        }
        joins = here;
    }
    places
}
