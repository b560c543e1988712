//! Cost model of a disk.
//!
//! The model is one straight line. Let `B` and `O` be the bytes and the requests per second, of reads `r` and
//! of writes `w`. The disk can serve every load with `Br/Br_max + Bw/Bw_max + Or/Or_max + Ow/Ow_max <= 1`.
//! One request therefore occupies the whole disk for `1/O_max + bytes/B_max` seconds, and a load is possible
//! if its costs add up to at most one second per second. The line is the diagonal in the plane of read
//! requests × bytes written. ScyllaDB's `io_properties.yaml` uses the same model.

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// Rates of a disk, each measured with no other load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Bytes per second of large reads; not 0.
    pub read_bandwidth_bytes_s: u64,
    /// Bytes per second of large writes; not 0.
    pub write_bandwidth_bytes_s: u64,
    /// Small reads per second; not 0.
    pub read_iops: u64,
    /// Small writes per second; not 0.
    pub write_iops: u64,
    /// Length in bytes from which reads reach full bandwidth.
    pub read_saturation_bytes: Option<u64>,
    /// Length in bytes from which writes reach full bandwidth.
    pub write_saturation_bytes: Option<u64>,
    /// Whether reads and writes do not slow each other down. Each direction then has a limit of its own.
    pub duplex: bool,
}

impl DiskModel {
    /// A disk of medium speed. Used for a disk that was never measured, so that the costs of large and small
    /// requests can be compared.
    pub const NOMINAL: Self = Self {
        read_bandwidth_bytes_s: 1 << 30,
        write_bandwidth_bytes_s: 1 << 30,
        read_iops: 100_000,
        write_iops: 100_000,
        read_saturation_bytes: None,
        write_saturation_bytes: None,
        duplex: false,
    };

    /// The nanoseconds for which a request occupies the whole disk; at least 1.
    pub fn cost_ns(&self, direction: Direction, bytes: u64) -> u64 {
        let (iops, bandwidth_bytes_s) = match direction {
            Direction::Read => (self.read_iops, self.read_bandwidth_bytes_s),
            Direction::Write => (self.write_iops, self.write_bandwidth_bytes_s),
        };
        let per_s = 1e9;
        let cost_ns = per_s / iops as f64 + bytes as f64 * (per_s / bandwidth_bytes_s as f64);
        (cost_ns as u64).max(1)
    }

    /// The same disk with all four rates multiplied by `factor`; each is at least 1.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |rate: u64| ((rate as f64 * factor) as u64).max(1);
        Self {
            read_bandwidth_bytes_s: scale(self.read_bandwidth_bytes_s),
            write_bandwidth_bytes_s: scale(self.write_bandwidth_bytes_s),
            read_iops: scale(self.read_iops),
            write_iops: scale(self.write_iops),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: DiskModel = DiskModel {
        read_bandwidth_bytes_s: 2_000_000_000,
        write_bandwidth_bytes_s: 500_000_000,
        read_iops: 100_000,
        write_iops: 50_000,
        ..DiskModel::NOMINAL
    };

    #[test]
    fn a_request_costs_its_part_of_requests_and_of_bytes() {
        assert_eq!(MODEL.cost_ns(Direction::Read, 0), 10_000);
        assert_eq!(MODEL.cost_ns(Direction::Read, 4_000), 12_000);
        assert_eq!(MODEL.cost_ns(Direction::Write, 0), 20_000);
        assert_eq!(MODEL.cost_ns(Direction::Write, 1_000_000), 2_020_000);
    }

    #[test]
    fn what_the_line_allows_costs_one_second_a_second() {
        // Half of the read requests, and a quarter of the write bandwidth in requests that use the remaining
        // half.
        let reads = MODEL.cost_ns(Direction::Read, 0) * 50_000;
        let writes = MODEL.cost_ns(Direction::Write, 10_000) * 12_500;
        assert_eq!(reads + writes, 1_000_000_000);
    }

    #[test]
    fn a_slower_disk_costs_more() {
        let half = MODEL.scaled(0.5);
        assert_eq!(half.cost_ns(Direction::Read, 4_000), 24_000);
    }
}
