//! The rates of the data directory's disk: as configured, and as learned from the requests that it serves.

use axum::Json;
use axum::extract::State;
use iosched::{DiskModel, Learned, Rate, STEPS, WINDOW_NS};

use super::{Answer, OfNode};
use crate::api::answers::{DiskRates, IoModel, LearnedRate, PlaneCell};

pub async fn io_model(State(node): OfNode) -> Answer<IoModel> {
    let shards = node.engine.remote().shard_count();
    let mut learned = Learned::default();
    let mut configured = None;
    for shard in 0..shards {
        let asked = node.engine.ask(shard, |shard| async move {
            let disk = shard.disk();
            Ok((shard.learned_disk(), disk.is_throttled().then(|| *disk.model())))
        });
        let (of_shard, model) = asked.get().await?;
        learned.merge(&of_shard);
        configured = model;
    }
    Ok(Json(answer(node.config.data_dir.display().to_string(), configured, &learned)))
}

fn answer(data_dir: String, configured: Option<DiskModel>, learned: &Learned) -> IoModel {
    let rate = |rate: &Rate| LearnedRate { greatest_s: rate.greatest_s, fitted_s: rate.fitted_s };
    let plane = &learned.plane;
    let (rows, columns) = plane.extent();
    let places = (0..STEPS).flat_map(|row| (0..STEPS).map(move |column| (row, column)));
    let cell = |(row, column)| {
        let cell = plane.cell(row, column)?;
        let reads = cell.latencies.count();
        Some(PlaneCell {
            row,
            column,
            windows: cell.windows,
            reads,
            in_flight: cell.in_flight as f64 / reads.max(1) as f64,
            p50_us: cell.latencies.percentile_ns(0.5) as f64 / 1e3,
            p95_us: cell.latencies.percentile_ns(0.95) as f64 / 1e3,
        })
    };
    IoModel {
        data_dir,
        configured: configured.map(|model| DiskRates {
            read_iops: model.read_iops,
            read_bandwidth: model.read_bandwidth_bytes_s,
            write_iops: model.write_iops,
            write_bandwidth: model.write_bandwidth_bytes_s,
        }),
        window_ms: WINDOW_NS / 1_000_000,
        windows: learned.windows,
        busy_windows: learned.busy_windows,
        read_iops: rate(&learned.read_iops),
        read_bandwidth: rate(&learned.read_bandwidth),
        write_iops: rate(&learned.write_iops),
        write_bandwidth: rate(&learned.write_bandwidth),
        reads_s_step: plane.reads_s_step(),
        write_bytes_s_step: plane.write_bytes_s_step(),
        rows,
        columns,
        cells: places.filter_map(cell).collect(),
    }
}

#[cfg(test)]
mod tests {
    use iosched::{Direction, Learner, Observation, Traffic};

    use super::*;

    #[test]
    fn the_plane_is_printed_cell_by_cell() {
        let mut learner = Learner::new(DiskModel::NOMINAL);
        let mut traffic = Traffic::default();
        for number in 1..=3000_u64 {
            traffic.reads += 1;
            traffic.write_bytes += 4096;
            let read =
                Observation { direction: Direction::Read, bytes: 4096, in_flight: 2, latency_ns: 80_000 };
            learner.observe(read, number * 1_000_000, || traffic);
        }
        let shown = answer("/d".to_string(), Some(DiskModel::NOMINAL), &learner.learned());
        assert_eq!((shown.rows, shown.columns, shown.windows), (5, 4, 30));
        let cell = shown.cells.last().unwrap();
        assert_eq!((cell.row, cell.column, cell.in_flight), (4, 3, 2.0));
        assert!((cell.p95_us / 80.0 - 1.0).abs() < 0.04);
        assert!((shown.read_iops.greatest_s - 1000.0).abs() < 20.0 && shown.read_iops.fitted_s.is_none());
        let text = serde_json::to_string(&shown).unwrap();
        let back: IoModel = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}
