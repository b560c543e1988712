//! Compares write and space amplification of strategies. Runs examples 1 and 2 of the talk "How to ruin your
//! workload's performance by choosing the wrong compaction strategy", in a model of a table over time.
//!
//! ```text
//! cargo run --release -p compaction --example strategies
//! ```

use compaction::testing::{Timeline, WriteLoad};
use compaction::{Incremental, IncrementalOptions, Leveled, SizeTiered, Strategy};

fn main() {
    let loads = [
        ("Example 1: all partitions once, compaction keeps up", WriteLoad::write_once(), 880),
        ("Example 2: all partitions 15 times, jobs write 2 bytes for each of clients", speed(2.0), 120),
        ("Example 2: all partitions 15 times, jobs write 4 bytes for each of clients", speed(4.0), 120),
    ];
    for (title, load, fragments) in loads {
        let fragment_bytes = load.live_bytes() / fragments;
        println!(
            "{title}\n{:>28} {:>14} {:>12} {:>12} {:>6}",
            "", "bytes written", "peak space", "in the end", "jobs"
        );
        let tight = WriteLoad { capacity_bytes: load.live_bytes() * 6 / 5, ..load };
        print("size-tiered", load, &mut SizeTiered::default());
        print("leveled", load, &mut Leveled::new(fragment_bytes, 10));
        print(
            "incremental, as the peers",
            load,
            &mut Incremental::new(options(fragment_bytes).as_the_peers()),
        );
        print("incremental (Hybrid)", load, &mut Incremental::new(options(fragment_bytes)));
        print("the same, disk of 1.2 x live", tight, &mut Incremental::new(options(fragment_bytes)));
        println!();
    }
}

fn speed(speed: f64) -> WriteLoad {
    WriteLoad { speed, ..WriteLoad::overwrite() }
}

fn options(fragment_bytes: u64) -> IncrementalOptions {
    IncrementalOptions { fragment_bytes, ..IncrementalOptions::default() }
}

fn print(name: &str, load: WriteLoad, strategy: &mut dyn Strategy) {
    let outcome = Timeline::run(load, strategy, 1);
    let live = load.live_bytes() as f64;
    println!(
        "{name:>28} {:>12.2} x {:>10.2} x {:>10.2} x {:>6}{}",
        outcome.write_amplification(),
        outcome.peak_bytes as f64 / live,
        outcome.end_bytes as f64 / live,
        outcome.jobs,
        if outcome.waited > 0.0 {
            format!("   writes waited {:.0} % of the time", outcome.waited * 100.0)
        } else {
            String::new()
        }
    );
}
