//! Benchmark of the run loop's cost per poll: tasks that only yield, on one shard. Under
//! `valgrind --tool=callgrind` it counts instructions.
//!
//! `cargo run --release -p runtime --example yields -- [polls in millions] [groups]`

use runtime::{CpuGroup, Runtime, RuntimeOptions};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let polls = arguments.next().unwrap_or(5) * 1_000_000;
    let groups = arguments.next().unwrap_or(1).clamp(1, 3);
    let runtime = Runtime::start(RuntimeOptions::default(), |_| async {}).expect("a shard starts");
    let took_us = runtime.remote().call(0, CpuGroup::Background, move |shard| async move {
        let began_us = shard.now_us();
        let tasks: Vec<_> = [CpuGroup::Statement, CpuGroup::Compaction, CpuGroup::Memtable]
            [..groups as usize]
            .iter()
            .flat_map(|group| [*group; 4])
            .map(|group| {
                let yielding = shard.clone();
                shard.spawn(group, async move {
                    for _ in 0..polls / (4 * groups) {
                        yielding.yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        shard.now_us() - began_us
    });
    let took_us = took_us.wait().expect("the shard lives");
    println!("{polls} polls in {groups} groups: {:.1} ns each", took_us as f64 * 1000.0 / polls as f64);
}
