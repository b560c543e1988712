//! Latency of reads over the plane of reads per second × bytes written per second.
//!
//! The plane is a grid of [`STEPS`] × [`STEPS`] cells. A load outside the grid doubles the step of that axis
//! and merges neighbouring cells, so the grid fits any disk in constant memory. To add the planes of several
//! shards, the finer one is first made as coarse as the other.

use crate::latencies::Latencies;

/// Number of cells along each axis.
pub const STEPS: usize = 16;
const READS_S: f64 = 250.0;
const WRITE_BYTES_S: f64 = (1 << 20) as f64;

/// Observations in one cell of the plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaneCell {
    /// The number of time windows.
    pub windows: u64,
    /// The number of requests in flight when a read started, summed over all short reads.
    pub in_flight: u64,
    /// Latencies of short reads.
    pub latencies: Latencies,
}

/// Grid of observations by load. See the head of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    reads_s_step: f64,
    write_bytes_s_step: f64,
    /// Rows in order of reads per second; within a row, bytes written per second. `None`: not observed.
    cells: Vec<Option<Box<PlaneCell>>>,
}

impl Default for Plane {
    fn default() -> Self {
        let cells = (0..STEPS * STEPS).map(|_| None).collect();
        Self { reads_s_step: READS_S, write_bytes_s_step: WRITE_BYTES_S, cells }
    }
}

impl Plane {
    /// Width of a row, in reads per second.
    pub fn reads_s_step(&self) -> f64 {
        self.reads_s_step
    }

    /// Width of a column, in bytes written per second.
    pub fn write_bytes_s_step(&self) -> f64 {
        self.write_bytes_s_step
    }

    /// The cell of a row and a column, both less than [`STEPS`]; `None`: not observed.
    pub fn cell(&self, row: usize, column: usize) -> Option<&PlaneCell> {
        self.cells[row * STEPS + column].as_deref()
    }

    /// The number of rows and of columns up to the last observed cell.
    pub fn extent(&self) -> (usize, usize) {
        let seen = (0..STEPS * STEPS).filter(|at| self.cells[*at].is_some());
        seen.fold((0, 0), |(rows, columns), at| (rows.max(at / STEPS + 1), columns.max(at % STEPS + 1)))
    }

    /// Adds observations made at this load.
    pub fn add(&mut self, reads_s: f64, write_bytes_s: f64, seen: &PlaneCell) {
        while reads_s >= self.reads_s_step * STEPS as f64 {
            self.coarsen_reads();
        }
        while write_bytes_s >= self.write_bytes_s_step * STEPS as f64 {
            self.coarsen_writes();
        }
        let (row, column) = (reads_s / self.reads_s_step, write_bytes_s / self.write_bytes_s_step);
        self.add_at(row as usize, column as usize, seen);
    }

    /// Adds the observations of another plane of the same disk.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.reads_s_step < other.reads_s_step {
            self.coarsen_reads();
        }
        while other.reads_s_step < self.reads_s_step {
            other.coarsen_reads();
        }
        while self.write_bytes_s_step < other.write_bytes_s_step {
            self.coarsen_writes();
        }
        while other.write_bytes_s_step < self.write_bytes_s_step {
            other.coarsen_writes();
        }
        for (at, cell) in other.cells.iter().enumerate() {
            if let Some(cell) = cell {
                self.add_at(at / STEPS, at % STEPS, cell);
            }
        }
    }

    fn add_at(&mut self, row: usize, column: usize, seen: &PlaneCell) {
        let cell = self.cells[row * STEPS + column].get_or_insert_default();
        cell.windows += seen.windows;
        cell.in_flight += seen.in_flight;
        cell.latencies.merge(&seen.latencies);
    }

    fn coarsen_reads(&mut self) {
        self.reads_s_step *= 2.0;
        self.fold(|row, column| (row / 2, column));
    }

    fn coarsen_writes(&mut self) {
        self.write_bytes_s_step *= 2.0;
        self.fold(|row, column| (row, column / 2));
    }

    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        for at in 1..self.cells.len() {
            let Some(cell) = self.cells[at].take() else { continue };
            let (row, column) = to(at / STEPS, at % STEPS);
            self.add_at(row, column, &cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(latency_ns: u64) -> PlaneCell {
        let mut cell = PlaneCell { windows: 1, in_flight: 3, ..PlaneCell::default() };
        cell.latencies.add(latency_ns);
        cell
    }

    fn windows(plane: &Plane) -> u64 {
        plane.cells.iter().flatten().map(|cell| cell.windows).sum()
    }

    #[test]
    fn the_plane_grows_with_what_was_seen() {
        let mut plane = Plane::default();
        plane.add(100.0, 0.0, &seen(1 << 20));
        plane.add(900.0, 0.0, &seen(1 << 20));
        assert_eq!(plane.extent(), (4, 1));
        plane.add(100_000.0, 900e6, &seen(1 << 24));
        assert_eq!(plane.reads_s_step(), 8000.0);
        assert_eq!(plane.cell(0, 0).unwrap().windows, 2);
        let far = plane.cell(12, 13).unwrap();
        assert_eq!((far.windows, far.in_flight, far.latencies.count()), (1, 3, 1));
        assert_eq!((plane.extent(), windows(&plane)), ((13, 14), 3));
    }

    #[test]
    fn planes_of_shards_are_added_whatever_their_steps() {
        let (mut one, mut other, mut both) = (Plane::default(), Plane::default(), Plane::default());
        for (reads_s, bytes_s) in [(10.0, 0.0), (300.0, 5e6), (3000.0, 1e6)] {
            one.add(reads_s, bytes_s, &seen(100_000));
            both.add(reads_s, bytes_s, &seen(100_000));
        }
        for (reads_s, bytes_s) in [(10.0, 0.0), (40_000.0, 1e6), (30.0, 800e6)] {
            other.add(reads_s, bytes_s, &seen(200_000));
            both.add(reads_s, bytes_s, &seen(200_000));
        }
        one.merge(&other);
        assert_eq!(one, both);
    }
}
