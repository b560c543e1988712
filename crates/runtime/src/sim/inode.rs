//! Content of a simulated file: the current bytes, and the bytes that would survive a loss of power.
//!
//! `current` is the state of the page cache; `durable` is the state that the device certainly holds;
//! `unsynced` are the changes between the two, in order. A sync applies the changes that existed when it
//! began. At a loss of power each change is applied completely, applied to some of its 512-byte sectors, or
//! dropped, regardless of earlier changes.

use base::rng::Rng;

/// The unit that the device writes atomically, in bytes.
pub(crate) const SECTOR_BYTES: usize = 512;

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { len: usize },
}

#[derive(Clone, Default)]
pub(crate) struct FileData {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Changes with their numbers, which rise over the life of the file.
    unsynced: Vec<(u64, Change)>,
    changes: u64,
}

impl FileData {
    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.current
    }

    pub(crate) fn durable_bytes(&self) -> &[u8] {
        &self.durable
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        land(&mut self.current, offset, bytes);
        self.note(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn resize(&mut self, len: usize) {
        if len != self.current.len() {
            self.current.resize(len, 0);
            self.note(Change::Resize { len });
        }
    }

    fn note(&mut self, change: Change) {
        self.changes += 1;
        self.unsynced.push((self.changes, change));
    }

    /// The number of the latest change, which a sync that begins now covers.
    pub(crate) fn latest_change(&self) -> u64 {
        self.changes
    }

    /// Makes the changes up to number `covered` durable.
    pub(crate) fn sync(&mut self, covered: u64) {
        let later = self.unsynced.partition_point(|(number, _)| *number <= covered);
        for (_, change) in self.unsynced.drain(..later) {
            match change {
                Change::Write { offset, bytes } => land(&mut self.durable, offset, &bytes),
                Change::Resize { len } => self.durable.resize(len, 0),
            }
        }
    }

    /// Overwrites bytes on the device itself, like bit rot: visible at once, and after any crash.
    pub(crate) fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        for copy in [&mut self.current, &mut self.durable] {
            let end = copy.len().min(offset + bytes.len());
            if offset < end {
                copy[offset..end].copy_from_slice(&bytes[..end - offset]);
            }
        }
    }

    /// Effect of a failed sync. The kernel marks pages clean that it could not write: they are readable until
    /// evicted, but no later sync writes them. Here each unsynced change is at once either dropped or kept.
    pub(crate) fn lose_some(&mut self, rng: &mut Rng) {
        let lost = self.after_power_loss(rng);
        if rng.chance(1, 2) {
            self.durable = lost;
            self.unsynced.clear();
            let len = self.current.len();
            if rng.chance(1, 2) {
                // The pages were evicted: reads return the bytes of the device from now on.
                self.current.clone_from(&self.durable);
                self.current.resize(len, 0);
            }
            if self.durable.len() != len {
                self.note(Change::Resize { len });
            }
        }
    }

    /// Loss of power: the bytes of the device become the content of the file.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        self.durable = self.after_power_loss(rng);
        self.current.clone_from(&self.durable);
        self.unsynced.clear();
    }

    fn after_power_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (_, change) in &self.unsynced {
            match change {
                Change::Write { offset, bytes: written } => match rng.below(3) {
                    0 => land(&mut bytes, *offset, written),
                    1 => land_torn(&mut bytes, *offset, written, rng),
                    _ => (),
                },
                Change::Resize { len } => {
                    if rng.chance(1, 2) {
                        bytes.resize(*len, 0);
                    }
                }
            }
        }
        if !self.unsynced.is_empty() && self.durable.len() != self.current.len() {
            // The length is metadata, and is lost or kept independently of the data.
            match rng.below(4) {
                0 if bytes.len() > self.durable.len() => bytes.truncate(self.durable.len()),
                1 if bytes.len() < self.current.len() => bytes.resize(self.current.len(), 0),
                _ => (),
            }
        }
        bytes
    }
}

fn land(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}

/// Applies some of the sectors of a write.
fn land_torn(target: &mut Vec<u8>, offset: usize, bytes: &[u8], rng: &mut Rng) {
    let mut from = 0;
    while from < bytes.len() {
        let sector_end = (offset + from + 1).next_multiple_of(SECTOR_BYTES) - offset;
        let to = sector_end.min(bytes.len());
        if rng.chance(1, 2) {
            land(target, offset + from, &bytes[from..to]);
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_and_the_rest_may_tear() {
        let (mut whole, mut lost, mut torn) = (0, 0, 0);
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut file = FileData::default();
            file.write(0, &[1; 4096]);
            file.sync(file.latest_change());
            file.write(0, &[2; 2048]);
            file.lose_power(&mut rng);
            assert_eq!(file.len(), 4096);
            assert!(file.bytes()[2048..].iter().all(|byte| *byte == 1), "seed {seed}");
            let landed = file.bytes()[..2048].chunks(SECTOR_BYTES).filter(|sector| sector[0] == 2).count();
            assert!(file.bytes()[..2048].chunks(SECTOR_BYTES).all(|s| s.iter().all(|b| *b == s[0])));
            match landed {
                0 => lost += 1,
                4 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(whole > 50 && lost > 50 && torn > 50, "{whole} whole, {lost} lost, {torn} torn");
    }

    #[test]
    fn a_sync_covers_what_was_there_when_it_began() {
        let mut file = FileData::default();
        file.write(0, b"one");
        let covered = file.latest_change();
        file.write(3, b"two");
        file.sync(covered);
        assert_eq!((file.durable_bytes(), file.bytes()), (&b"one"[..], &b"onetwo"[..]));
    }
}
