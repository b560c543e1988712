//! Snapshots of a table, and loads of them into another table, alternately by `import` and by `refresh`.
//!
//! An acknowledged snapshot is verified after the kill by `messina sstable verify`, and has every row that
//! was acknowledged before it was requested. An acknowledged load is in its target table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use base::rng::Rng;

use super::{KEYSPACE, Workload, some, value};
use crate::client::{Cells, Client, Stop};
use crate::node_process::{NodeOptions, tool};

const ROWS_AT_A_TIME: i32 = 5;

#[derive(Default)]
struct Notes {
    /// Rows below this number may be in the first table; those below `kept` must be.
    begun: i32,
    kept: i32,
    /// The same for the table that is loaded into.
    may_be_loaded: i32,
    loaded: i32,
    /// Number of requested snapshots.
    snapshots: u64,
    /// Acknowledged snapshots that are not verified yet, with the number of rows that they must have.
    taken: BTreeMap<u64, i32>,
    acknowledged: u64,
}

pub struct Copies {
    options: NodeOptions,
    notes: Mutex<Notes>,
}

impl Copies {
    pub fn new(options: NodeOptions) -> Self {
        Self { options, notes: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        change(&mut self.notes.lock().expect("no thread panics while it holds the lock"))
    }

    fn write(&self, connection: &mut Client) -> Result<(), Stop> {
        let first = self.with(|notes| {
            notes.begun = notes.begun.max(notes.kept + ROWS_AT_A_TIME);
            notes.kept
        });
        let texts = (first..first + ROWS_AT_A_TIME).map(|number| {
            let value = value(i64::from(number), 0);
            format!("INSERT INTO {KEYSPACE}.kept (p, v) VALUES ({number}, '{value}')")
        });
        let texts: Vec<String> = texts.collect();
        let mut answered = 0;
        connection.statements(&texts, |_, answer| {
            answered += i32::from(answer.is_some());
            Ok(())
        })?;
        if answered == ROWS_AT_A_TIME {
            self.with(|notes| notes.kept += ROWS_AT_A_TIME);
        }
        Ok(())
    }

    fn snapshot_dir(&self, number: u64) -> Result<PathBuf, String> {
        Ok(self.options.table_dir(KEYSPACE, "kept")?.join("snapshots").join(format!("s{number}")))
    }

    fn copy(&self, connection: &mut Client) -> Result<(), Stop> {
        let (number, rows) = self.with(|notes| {
            notes.snapshots += 1;
            (notes.snapshots, notes.kept)
        });
        connection.post(&format!("/v1/snapshots?keyspace={KEYSPACE}&table=kept&tag=s{number}"))?;
        let begun = self.with(|notes| {
            notes.taken.insert(number, rows);
            notes.acknowledged += 1;
            notes.begun
        });
        let from = self.snapshot_dir(number)?;
        // Rows that were not acknowledged may be in the snapshot too.
        self.with(|notes| notes.may_be_loaded = begun);
        let path = if number % 2 == 0 {
            format!("/v1/import?keyspace={KEYSPACE}&table=loaded&dir={}", from.display())
        } else {
            let upload = self.options.table_dir(KEYSPACE, "loaded")?.join("upload");
            link_all(&from, &upload).map_err(|error| format!("{}: {error}", upload.display()))?;
            format!("/v1/refresh?keyspace={KEYSPACE}&table=loaded")
        };
        connection.post(&path)?;
        self.with(|notes| {
            notes.loaded = rows;
            notes.acknowledged += 1;
        });
        Ok(())
    }

    /// Verifies an acknowledged snapshot, and removes it.
    fn verify(&self, number: u64, rows: i32) -> Result<(), String> {
        let dir = self.snapshot_dir(number)?;
        let (messina, path) = (&self.options.messina, dir.display().to_string());
        tool(messina, &["sstable", "verify", &path])?;
        // The table's name is its directory's.
        let select = format!("SELECT count(*) FROM s{number}");
        let counted = tool(messina, &["sstable", "query", "--format", "csv", "-e", &select, &path])?;
        let count = counted.lines().find_map(|line| line.trim().parse::<i32>().ok());
        if count.is_none_or(|count| count < rows) {
            return Err(format!("snapshot {path} has {counted:?} rows, and has to have {rows}"));
        }
        std::fs::remove_dir_all(&dir).map_err(|error| format!("{path}: {error}"))
    }
}

/// Links the files of one directory into another; removes leftovers of an interrupted refresh there.
fn link_all(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::hard_link(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

impl Workload for Copies {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn setup(&self) -> Vec<String> {
        let table = |name: &str| format!("CREATE TABLE {KEYSPACE}.{name} (p int PRIMARY KEY, v text)");
        vec![table("kept"), table("loaded")]
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            for _ in 0..1 + rng.below(3) {
                self.write(connection)?;
            }
            self.copy(connection)?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let (mut wrong, mut acknowledged) = (vec![], 0);
        for (table, least, most) in self.with(|notes| {
            acknowledged = notes.acknowledged;
            [("kept", notes.kept, notes.begun), ("loaded", notes.loaded, notes.may_be_loaded)]
        }) {
            let mut there = vec![];
            for row in connection.rows(&format!("SELECT p, v FROM {KEYSPACE}.{table}"))? {
                let (number, text) = (Cells(&row).int(0)?, Cells(&row).text(1)?);
                if !(0..most).contains(&number) || text != value(i64::from(number), 0) {
                    wrong.push(format!("row {number} of {table} is not as any client wrote it"));
                }
                there.push(number);
            }
            let missing: Vec<i32> = (0..least).filter(|number| !there.contains(number)).collect();
            if !missing.is_empty() {
                wrong.push(format!("{} rows of {table} are missing: {missing:?} of {least}", missing.len()));
            }
        }
        // Only the latest: each verification costs two processes.
        let taken = self.with(|notes| std::mem::take(&mut notes.taken));
        for (number, rows) in taken.into_iter().rev().take(1) {
            if let Err(error) = self.verify(number, rows) {
                wrong.push(error);
            }
        }
        some(wrong)?;
        Ok(acknowledged)
    }

    fn claim(&self) -> bool {
        self.with(|notes| {
            notes.loaded += 1;
            notes.may_be_loaded += 1;
            // Only a row that was kept can be loaded by chance.
            notes.loaded = notes.loaded.max(notes.begun + 1);
        });
        true
    }
}
