//! Reads of one or more pages, each page asked of a random shard.

use std::sync::Arc;

use engine::{EngineError, Page, ReadCommand, node};
use model::sample;
use model::{PartitionRange, RingPosition, TableSchema};
use reader::PartitionPage;
use runtime::Shard;

use crate::client::{Client, SharedClient, on_some_shard};
use crate::content;

/// Why a page is not the requested one.
pub enum NoPage {
    Error(EngineError),
    /// It does not go with the pages before it.
    Nonsense(String),
}

/// The next page of a read, asked of a random shard; false if it was the last.
pub async fn read_next(
    shard: &Shard,
    client: &SharedClient,
    command: &mut ReadCommand,
    content: &mut Vec<PartitionPage>,
) -> Result<bool, NoPage> {
    client.borrow_mut().counts.reads += 1;
    let asked = command.clone();
    let page: Page =
        on_some_shard(
            shard,
            client,
            |shard| async move { node::read(&shard, asked, node::Deadline::NONE).await },
        )
        .await
        .map_err(NoPage::Error)?;
    let next = page.next.clone();
    content::add_page(content, page).map_err(NoPage::Nonsense)?;
    let is_more = next.is_some();
    if is_more {
        command.paging = next;
    }
    Ok(is_more)
}

/// All pages of a read.
pub async fn read_pages(
    shard: &Shard,
    client: &SharedClient,
    command: &ReadCommand,
) -> Result<Vec<PartitionPage>, String> {
    let mut content = vec![];
    let mut command = command.clone();
    for _ in 0..10_000 {
        match read_next(shard, client, &mut command, &mut content).await {
            Ok(true) => {}
            Ok(false) => return Ok(content),
            Err(NoPage::Error(error)) => return Err(format!("{command:?}: {error}")),
            Err(NoPage::Nonsense(what)) => return Err(what),
        }
    }
    Err(format!("the pages have no end: {command:?}"))
}

/// A read of random partitions, rows and limits.
pub fn random_read(client: &mut Client, schema: &Arc<TableSchema>, wall_us: i64) -> ReadCommand {
    let now_s = client.read_now_s(wall_us);
    let variety = client.variety;
    let rng = &mut client.rng;
    let key = |rng: &mut base::rng::Rng| sample::partition_key(rng.below(variety.partitions + 1));
    let partitions = match rng.below(3) {
        0 => PartitionRange::Key(key(rng)),
        1 => {
            let (a, b) = (key(rng), key(rng));
            PartitionRange::Between {
                start: RingPosition::AfterKey(a.clone().min(b.clone())),
                end: RingPosition::AfterKey(a.max(b)),
            }
        }
        _ => PartitionRange::all(),
    };
    let mut command = ReadCommand::new(schema.id, partitions);
    command.now_s = Some(now_s);
    command.reversed = rng.chance(1, 2);
    if rng.chance(1, 2) {
        command.ranges = sample::ranges(rng, schema, &variety).into();
    }
    command.page_rows = *rng.pick(&[1, 2, 5, 50]);
    command.page_bytes = *rng.pick(&[300, 1 << 20]);
    if rng.chance(1, 3) {
        command.limit_rows = 1 + rng.below(12);
    }
    if rng.chance(1, 4) {
        command.partition_limit_rows = 1 + rng.below(4);
    }
    command.bypass_cache = rng.chance(1, 8);
    if rng.chance(1, 4) {
        command.page_tombstones = 1 + rng.below(8);
    }
    command
}
