//! Conditional writes: two clients race for the next version of a few rows, `IF version = …`.
//!
//! Every version of a row has one winner. A version that a client was answered, as winner or as loser, is
//! never taken back: not while the node runs, and not by a kill.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::rng::Rng;
use protocol::{Response, Rows};

use super::{KEYSPACE, Workload, some};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;

const ROWS: i32 = 6;

/// State of a row.
#[derive(Clone, Debug, Default)]
struct Register {
    /// The highest version in any answer, and its owner.
    reported: Option<(i64, String)>,
    /// The winner of each version, as far as it was answered.
    winners: BTreeMap<i64, String>,
    /// The clients that requested each version and got no answer.
    unanswered: BTreeMap<i64, Vec<String>>,
    acknowledged: u64,
}

#[derive(Default)]
pub struct Conditions(Mutex<BTreeMap<i32, Register>>);

impl Register {
    fn describe(&mut self, version: i64, owner: &str) -> Result<(), String> {
        match self.winners.get(&version) {
            Some(winner) if winner != owner => {
                return Err(format!("version {version} has two winners, {winner} and {owner}"));
            }
            _ => self.winners.insert(version, owner.to_string()),
        };
        if self.reported.as_ref().is_none_or(|(reported, _)| *reported < version) {
            self.reported = Some((version, owner.to_string()));
        }
        Ok(())
    }

    fn reported_version(&self) -> Option<i64> {
        self.reported.as_ref().map(|(version, _)| *version)
    }
}

impl Conditions {
    fn with<T>(&self, row: i32, change: impl FnOnce(&mut Register) -> T) -> T {
        let mut registers = self.0.lock().expect("no thread panics while it holds the lock");
        change(registers.entry(row).or_default())
    }

    /// One attempt at the next version of a row.
    fn race(&self, client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        let row = rng.below(ROWS as u64) as i32;
        let owner = format!("{client}-{:x}", rng.next_u64());
        let floor = self.with(row, |register| register.reported_version());
        let next = floor.map_or(0, |version| version + 1);
        self.with(row, |register| register.unanswered.entry(next).or_default().push(owner.clone()));
        let text = match floor {
            None => format!(
                "INSERT INTO {KEYSPACE}.versions (k, version, owner) VALUES ({row}, 0, '{owner}') IF NOT EXISTS"
            ),
            Some(version) => format!(
                "UPDATE {KEYSPACE}.versions SET version = {next}, owner = '{owner}' WHERE k = {row} IF version = {version}"
            ),
        };
        let Some(answer) = connection.statement(&text)? else { return Ok(()) };
        let Response::Rows(Rows { metadata, rows }) = answer else {
            return Err(Stop::Wrong(format!("{text}: {answer:?}")));
        };
        let cells = Cells(rows.first().map_or(&[], Vec::as_slice));
        if cells.cell(0)? == [1] {
            return self.with(row, |register| {
                register.forget(next, &owner);
                register.acknowledged += 1;
                register.describe(next, &owner).map_err(|error| Stop::Wrong(format!("row {row}: {error}")))
            });
        }
        // The condition was not met: the answer has the values that were compared.
        let place = |name: &str| {
            let columns = metadata.columns.as_deref().unwrap_or_default();
            columns.iter().position(|column| column.name == name)
        };
        let version = cells.bigint(place("version").ok_or("no version in the answer".to_string())?)?;
        if floor.is_some_and(|floor| version < floor) {
            return Err(Stop::Wrong(format!("row {row} is at version {version}, and was at {floor:?}")));
        }
        let owner_told = place("owner").map(|place| cells.text(place)).transpose()?;
        self.with(row, |register| {
            register.forget(next, &owner);
            match owner_told {
                Some(owner) => register.describe(version, &owner),
                None => {
                    register.reported_at_least(version);
                    Ok(())
                }
            }
        })
        .map_err(|error| Stop::Wrong(format!("row {row}: {error}")))
    }
}

impl Register {
    fn forget(&mut self, version: i64, owner: &str) {
        if let Some(owners) = self.unanswered.get_mut(&version) {
            owners.retain(|known| known != owner);
        }
    }

    /// If the condition names no other column, a loser's answer has only the version.
    fn reported_at_least(&mut self, version: i64) {
        if self.reported_version().is_none_or(|reported| reported < version) {
            let owner = self.winners.get(&version).cloned().unwrap_or_default();
            self.reported = Some((version, owner));
        }
    }

    fn check(&mut self, found: Option<(i64, String)>) -> Result<(), String> {
        let Some((version, owner)) = found else {
            return match &self.reported {
                Some((reported, _)) => Err(format!("it is absent; version {reported} was answered")),
                None => Ok(()),
            };
        };
        if let Some(reported) = self.reported_version()
            && version < reported
        {
            return Err(format!("it is at version {version}; version {reported} was answered"));
        }
        let is_known = self.winners.get(&version) == Some(&owner);
        let is_unanswered = self.unanswered.get(&version).is_some_and(|owners| owners.contains(&owner));
        if !is_known && !is_unanswered {
            return Err(format!(
                "version {version} belongs to {owner}; {:?} has won it, and the attempts of {:?} have no answer",
                self.winners.get(&version),
                self.unanswered.get(&version)
            ));
        }
        self.unanswered.clear();
        self.reported = None;
        self.describe(version, &owner)
    }
}

impl Workload for Conditions {
    fn name(&self) -> &'static str {
        "conditions"
    }

    fn setup(&self) -> Vec<String> {
        vec![format!("CREATE TABLE {KEYSPACE}.versions (k int PRIMARY KEY, version bigint, owner text)")]
    }

    fn clients(&self) -> u64 {
        2
    }

    fn work(&self, client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            self.race(client, connection, rng)?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let mut there = BTreeMap::new();
        for row in connection.rows(&format!("SELECT k, version, owner FROM {KEYSPACE}.versions"))? {
            let cells = Cells(&row);
            there.insert(cells.int(0)?, (cells.bigint(1)?, cells.text(2)?));
        }
        let mut registers = self.0.lock().expect("no thread panics while it holds the lock");
        let mut wrong = vec![];
        for (row, register) in registers.iter_mut() {
            if let Err(error) = register.check(there.remove(row)) {
                wrong.push(format!("row {row}: {error}"));
            }
        }
        wrong.extend(there.keys().map(|row| format!("row {row} was never written")));
        some(wrong)?;
        Ok(registers.values().map(|register| register.acknowledged).sum())
    }

    fn claim(&self) -> bool {
        self.with(0, |register| register.reported = Some((i64::from(u32::MAX), "nobody".to_string())));
        true
    }
}
