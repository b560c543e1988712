//! The order of reads when more wait than a shard admits at once.

use std::cell::Cell;
use std::rc::Rc;

use engine::{ReadCommand, node, recover};
use model::{PartitionKey, PartitionRange};
use runtime::CpuGroup;
use runtime::sim::{SimOptions, SimWorld};

use crate::support::{insert, test_table};

const SCANS: usize = 300;

/// Hundreds of scans wait; a point read that arrives after them ends when only a few of them have ended.
#[test]
fn a_point_read_does_not_wait_for_the_scans_before_it() {
    let world = SimWorld::new(SimOptions { shards: 1, ..SimOptions::default() });
    let node_1 = world.start_node(|_| async {}).unwrap();
    let ended = world.block_on(&node_1, 0, |shard| async move {
        recover::open(&shard, engine::EngineOptions::new("/data")).await.unwrap();
        node::change_schema(&shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
            .await
            .unwrap();
        node::change_schema(&shard, |catalog| catalog.create_table(test_table(), Default::default()))
            .await
            .unwrap();
        let table = node::catalog(&shard).unwrap().schema("ks", "t").unwrap().clone();
        for c in 0..400 {
            let row = insert(&table, &format!("k{}", c % 50), c, &"v".repeat(200), 1);
            node::apply(&shard, row, node::Deadline::NONE).await.unwrap();
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
        let of = |partitions| ReadCommand { bypass_cache: true, ..ReadCommand::new(table.id, partitions) };
        let ended = Rc::new(Cell::new(0));
        let scans: Vec<_> = (0..SCANS)
            .map(|_| {
                let (scan, of_scan, ended) = (of(PartitionRange::all()), shard.clone(), ended.clone());
                shard.spawn(CpuGroup::Statement, async move {
                    node::read(&of_scan, scan, node::Deadline::NONE).await.unwrap();
                    ended.set(ended.get() + 1);
                })
            })
            .collect();
        shard.yield_now().await;
        let point = of(PartitionRange::Key(PartitionKey::new("k7")));
        let page = node::read(&shard, point, node::Deadline::NONE).await.unwrap();
        assert_eq!(page.partitions[0].rows.len(), 8);
        let before = ended.get();
        for scan in scans {
            scan.await;
        }
        assert_eq!(ended.get(), SCANS);
        before
    });
    let ended = ended.unwrap_or_else(|stop| panic!("{stop}"));
    // 100 scans are admitted before it, and it is the next; others end while it reads.
    assert!(ended < 200, "{ended} scans ended before the point read");
}
