use lab::workload::{parse, shipped};
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let text =
        shipped::find(&name).map(str::to_string).unwrap_or_else(|| std::fs::read_to_string(&name).unwrap());
    let workload = parse(&name, &text).unwrap();
    for strategy in workload.strategies() {
        let o = lab::run(&workload, &strategy, Default::default()).unwrap();
        println!(
            "{:8} load {:.0}s total {:.0}s settled {} flushed {:.2} GB compacted {:.2} GB wa {:.2} peak {:.2} (temp {:.2} GB) mean {:.2} end {:.2} GB live {:.2} sst {:.0} spr {:.2}/{:.2} single {:.2} jobs {} wait {:.2} hold {:.2} backlog {:.2} GB  {} x{:.0} rate {:.0}",
            strategy.name,
            o.load_s,
            o.total_s,
            o.is_settled,
            o.flushed_bytes / 1e9,
            o.compacted_bytes / 1e9,
            o.write_amplification(),
            o.peak_space(),
            o.peak_temporary_bytes / 1e9,
            o.mean_space(),
            o.end_disk_bytes / 1e9,
            o.end_live_bytes / 1e9,
            o.end_sstables,
            o.sstables_per_read,
            o.end_sstables_per_read,
            o.end_single_reads,
            o.jobs,
            o.writes_waited,
            o.flushes_waited,
            o.peak_backlog_bytes / 1e9,
            o.sampled_rows,
            o.rows_per_sampled_row,
            o.writes / o.load_s
        );
    }
}
