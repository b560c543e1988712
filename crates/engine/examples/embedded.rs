//! The engine embedded in a program: opens a directory, creates a table, writes and reads.
//!
//! `cargo run --release -p engine --example embedded [DIRECTORY]`

use catalog::{Keyspace, TableSettings};
use engine::{Engine, EngineError, EngineOptions, ReadCommand};
use model::{Cell, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, PartitionRange, TableSchema};

fn main() -> Result<(), EngineError> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "embedded-data".to_string());
    let engine = Engine::open(EngineOptions::new(&dir))?;
    if engine.table("shop", "orders").is_err() {
        engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("shop")?))?;
        engine.change_schema(|catalog| {
            let table = TableSchema::builder("shop", "orders").partition_key("customer", CqlType::Text);
            let table = table.clustering("number", CqlType::Int).regular("item", CqlType::Text);
            catalog.create_table(table.build().expect("a key and a column"), TableSettings::default())
        })?;
    }
    let orders = engine.table("shop", "orders")?;
    let customer = PartitionKey::new("ada");
    for (number, item) in [(1i32, "lamp"), (2, "rope"), (3, "compass")] {
        let mut order = Mutation::new(orders.clone(), customer.clone());
        let row = order.row_mut(ClusteringPrefix::new([&number.to_be_bytes()[..]]));
        row.liveness = Liveness::new(1);
        row.set(orders.column_named("item").expect("made above"), Cell::live(1, item));
        engine.apply(order).wait()?;
    }
    let mut newest_first = ReadCommand::new(orders.id, PartitionRange::Key(customer));
    newest_first.reversed = true;
    for row in engine.read(newest_first).wait()?.partitions.iter().flat_map(|partition| &partition.rows) {
        println!("{:?} {:?}", row.key, row.row.cells());
    }
    engine.close()
}
