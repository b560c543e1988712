//! Counters: each addition is another power of two, so a counter's value shows which additions it contains.
//!
//! An acknowledged addition is in every value that is read later. An addition with an unknown result is in it
//! once or not at all, and stays once it was seen. A refused addition is never in it.

use std::cell::RefCell;
use std::rc::Rc;

use protocol::BatchType;

use super::notes::{Checker, Notes};
use super::plain::KEYSPACE;
use super::session::{Answered, Bind, Session, Statement, With};

const COUNTERS: usize = 2;
/// Additions of one counter: powers of two of a positive bigint.
const ADDITIONS_MAX: usize = 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Possible,
    /// Since this stamp.
    Certain(u64),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Addition {
    state: State,
    is_acknowledged: bool,
    is_durable: bool,
}

/// See the head of this file.
pub struct Tallies {
    counters: RefCell<Vec<Vec<Addition>>>,
}

impl Tallies {
    pub fn new() -> Rc<Self> {
        Rc::new(Self { counters: RefCell::new(vec![vec![]; COUNTERS]) })
    }

    /// One addition, or a batch of several.
    pub async fn add(&self, session: &Session, is_durable: bool) {
        let notes = &session.home.notes;
        let p = session.below(COUNTERS as u64) as usize;
        let in_batch = session.chance(1, 4);
        let mut begun = vec![];
        for p in if in_batch { (0..COUNTERS).collect() } else { vec![p] } {
            let additions = &mut self.counters.borrow_mut()[p];
            if additions.len() < ADDITIONS_MAX {
                additions.push(Addition {
                    state: State::Possible,
                    is_acknowledged: false,
                    is_durable: false,
                });
                begun.push((p, additions.len() - 1));
            }
        }
        let statement = |(p, at): &(usize, usize)| {
            Statement::new(
                format!("UPDATE {KEYSPACE}.tallies SET n = n + ? WHERE p = ?"),
                vec![Bind::BigInt(1 << at), Bind::Int(*p as i32)],
            )
        };
        let statements: Vec<Statement> = begun.iter().map(statement).collect();
        notes.count(|counts| counts.counted += begun.len() as u64);
        let answered = match &statements[..] {
            [] => return,
            [one] => session.run(one, &With::default()).await,
            several => session.batch(BatchType::Counter, several, &With::default()).await,
        };
        let texts: Vec<String> = statements.iter().map(Statement::literal).collect();
        session.note(&format!("{} -> {answered:.40?}", texts.join("; ")));
        let stamp = notes.moment().stamp;
        let is_one = begun.len() == 1;
        for (p, at) in begun {
            let addition = &mut self.counters.borrow_mut()[p][at];
            match &answered {
                Answered::Done(_) => {
                    addition.is_acknowledged = true;
                    addition.is_durable = is_durable;
                    if addition.state == State::Possible {
                        addition.state = State::Certain(stamp);
                    }
                }
                Answered::Refused(error) => {
                    if matches!(error, protocol::CqlError::Invalid(_)) {
                        notes.fail(Checker::Counters, format!("a counter: {error}"));
                    }
                    // A part of a batch may have been executed.
                    if is_one {
                        if addition.state != State::Possible {
                            notes.fail(
                                Checker::Counters,
                                format!("addition {at} to counter {p} was seen, and then refused"),
                            );
                        }
                        addition.state = State::Gone;
                    }
                }
                Answered::Unknown(_) => {}
            }
        }
    }

    /// One read of a counter, which is compared.
    pub async fn read(&self, session: &Session) {
        let p = session.below(COUNTERS as u64) as usize;
        self.read_one(session, p).await;
    }

    async fn read_one(&self, session: &Session, p: usize) -> bool {
        let notes = &session.home.notes;
        let begun = notes.moment().stamp;
        let statement = Statement::new(
            format!("SELECT n FROM {KEYSPACE}.tallies WHERE p = ?"),
            vec![Bind::Int(p as i32)],
        );
        let Some(rows) = session.run(&statement, &With::default()).await.rows() else { return false };
        let cell = rows.rows.first().and_then(|row| row[0].as_deref());
        let value = cell.map_or(Some(0), |cell| cell.try_into().ok().map(i64::from_be_bytes));
        session.note(&format!("counter {p} -> {value:?}"));
        match value {
            Some(value) => notes.check(Checker::Counters, self.compare(notes, p, value, begun)),
            None => notes.fail(Checker::Counters, format!("a counter of other bytes: {cell:?}")),
        }
        true
    }

    fn compare(&self, notes: &Notes, p: usize, value: i64, begun: u64) -> Result<(), String> {
        let stamp = notes.moment().stamp;
        let additions = &mut self.counters.borrow_mut()[p];
        if value < 0 || value >> additions.len() != 0 {
            return Err(format!("counter {p} is {value:#b}, and {} additions were made", additions.len()));
        }
        for (at, addition) in additions.iter_mut().enumerate() {
            let is_in = value & (1 << at) != 0;
            match addition.state {
                State::Certain(since) if since < begun && !is_in => {
                    return Err(format!(
                        "counter {p} is {value:#b} and has lost addition {at}: {addition:?}"
                    ));
                }
                State::Gone if is_in => {
                    return Err(format!(
                        "counter {p} is {value:#b} and has addition {at}, which was refused"
                    ));
                }
                State::Possible if is_in => addition.state = State::Certain(stamp),
                _ => {}
            }
        }
        Ok(())
    }

    /// Records that the node died; see [`super::facts::Facts::crashed`].
    pub fn crashed(&self, loses_unsynced: bool) {
        for addition in self.counters.borrow_mut().iter_mut().flatten() {
            let stays = addition.is_durable || (addition.is_acknowledged && !loses_unsynced);
            if !stays && addition.state != State::Gone {
                addition.state = State::Possible;
            }
        }
    }

    /// After a restart: additions that were seen are durable, and all others are lost.
    pub async fn restarted(&self, session: &Session) {
        for p in 0..COUNTERS {
            if !self.read_one(session, p).await {
                continue;
            }
            for addition in &mut self.counters.borrow_mut()[p] {
                match addition.state {
                    State::Certain(_) => (addition.is_acknowledged, addition.is_durable) = (true, true),
                    State::Possible => addition.state = State::Gone,
                    State::Gone => {}
                }
            }
        }
    }
}
