//! Conditional statements: each partition is a register, and all operations on it since the node's start have
//! an order.
//!
//! After a crash, acknowledged operations have happened and unanswered ones may have. Reads and refused
//! conditions show the memory's content, which may not be durable yet; they prove nothing after the crash.

use std::cell::RefCell;
use std::rc::Rc;

use protocol::{Response, Rows};

use super::notes::{Checker, Notes};
use super::order::{self, Answer, Ask, CALLS_MAX, Call};
use super::plain::KEYSPACE;
use super::session::{Answered, Bind, Session, Statement, With};

/// Registers of a table.
const REGISTERS: usize = 3;

struct Register {
    calls: Vec<Call>,
    /// Possible values at the node's start.
    first: Vec<Option<i32>>,
}

/// See the head of this file.
pub struct Registers {
    registers: RefCell<Vec<Register>>,
}

impl Registers {
    pub fn new() -> Rc<Self> {
        let register = || Register { calls: vec![], first: vec![None] };
        Rc::new(Self { registers: RefCell::new((0..REGISTERS).map(|_| register()).collect()) })
    }

    fn values(&self, p: usize) -> Vec<i32> {
        let registers = self.registers.borrow();
        let of_call = |call: &Call| match call.ask {
            Ask::Insert(to) | Ask::Swap { to, .. } => Some(to),
            _ => None,
        };
        let first = registers[p].first.iter().flatten().copied();
        first.chain(registers[p].calls.iter().filter_map(of_call)).collect()
    }

    /// Sends one random statement on a random register.
    pub async fn ask(&self, session: &Session) {
        let p = session.below(REGISTERS as u64) as usize;
        if self.registers.borrow()[p].calls.len() + 8 > CALLS_MAX {
            return;
        }
        let values = self.values(p);
        // The latest values are the likely ones.
        let likely = values.len().saturating_sub(3) + session.below(values.len().clamp(1, 3) as u64) as usize;
        let from = values.get(likely).copied().unwrap_or(0);
        let to = session.home.notes.moment().stamp as i32;
        let ask = match session.below(8) {
            0 | 1 => Ask::Read,
            2 => Ask::Insert(to),
            3 => Ask::Remove,
            _ => Ask::Swap { from, to },
        };
        self.ask_for(session, p, ask).await;
    }

    async fn ask_for(&self, session: &Session, p: usize, ask: Ask) {
        let notes = &session.home.notes;
        let key = Bind::Int(p as i32);
        let table = format!("{KEYSPACE}.registers");
        let statement = match ask {
            Ask::Read => Statement::new(format!("SELECT v FROM {table} WHERE p = ?"), vec![key]),
            Ask::Insert(to) => Statement::new(
                format!("INSERT INTO {table} (p, v) VALUES (?, ?) IF NOT EXISTS"),
                vec![key, Bind::Int(to)],
            ),
            Ask::Swap { from, to } => Statement::new(
                format!("UPDATE {table} SET v = ? WHERE p = ? IF v = ?"),
                vec![Bind::Int(to), key, Bind::Int(from)],
            ),
            Ask::Remove => Statement::new(format!("DELETE FROM {table} WHERE p = ? IF EXISTS"), vec![key]),
        };
        let begun = notes.moment().stamp;
        let at = {
            let calls = &mut self.registers.borrow_mut()[p].calls;
            calls.push(Call { begun, ended: None, ask });
            calls.len() - 1
        };
        notes.count(|counts| counts.conditional += 1);
        let with = With { is_serial: ask == Ask::Read && session.chance(1, 2), ..With::default() };
        let answered = session.run(&statement, &with).await;
        let answer = match answered {
            Answered::Done(Response::Rows(rows)) => answer_of(notes, ask, &rows),
            Answered::Done(other) => {
                notes.fail(Checker::Linear, format!("{}: answered with {other:?}", statement.literal()));
                return;
            }
            Answered::Refused(error) => {
                if matches!(error, protocol::CqlError::Invalid(_)) {
                    notes.fail(Checker::Linear, format!("{}: {error}", statement.literal()));
                }
                // The operation has not happened; as a read without an answer it proves nothing.
                self.registers.borrow_mut()[p].calls[at].ask = Ask::Read;
                return;
            }
            Answered::Unknown(_) => return,
        };
        session.note(&format!("{} -> {answer:?}", statement.literal()));
        self.registers.borrow_mut()[p].calls[at].ended = Some((notes.moment().stamp, answer));
    }

    /// Checks all answers since the node's start.
    pub fn check(&self) -> Result<(), String> {
        for (p, register) in self.registers.borrow().iter().enumerate() {
            order::check(&register.calls, &register.first, None)
                .map_err(|what| format!("register {p} is not linearizable: {what}\n{:#?}", register.calls))?;
        }
        Ok(())
    }

    /// After a restart: reads each register, and compares with the operations that must have survived.
    /// `loses_acknowledged`: acknowledged operations may be lost.
    pub async fn restarted(&self, session: &Session, loses_acknowledged: bool) {
        let notes = &session.home.notes;
        for p in 0..REGISTERS {
            let statement = Statement::new(
                format!("SELECT v FROM {KEYSPACE}.registers WHERE p = ?"),
                vec![Bind::Int(p as i32)],
            );
            let Some(rows) = session.run(&statement, &With::default()).await.rows() else {
                continue;
            };
            let Answer::Value(found) = answer_of(notes, Ask::Read, &rows) else { continue };
            let values = self.values(p);
            let register = &mut self.registers.borrow_mut()[p];
            let is_binding =
                |call: &&Call| call.ask != Ask::Read && !matches!(call.ended, Some((_, Answer::Refused(_))));
            let binding: Vec<Call> = register.calls.iter().filter(is_binding).copied().collect();
            if loses_acknowledged {
                if found.is_some_and(|found| !values.contains(&found)) {
                    notes.fail(
                        Checker::Linear,
                        format!("register {p} has {found:?} after a restart, which no client wrote"),
                    );
                }
            } else if let Err(what) = order::check(&binding, &register.first, Some(found)) {
                notes.fail(
                    Checker::Linear,
                    format!("register {p} has {found:?} after a restart: {what}\n{binding:#?}"),
                );
            }
            register.calls.clear();
            register.first = vec![found];
        }
    }
}

fn answer_of(notes: &Notes, ask: Ask, rows: &Rows) -> Answer {
    let number = |cell: Option<&Vec<u8>>| -> Option<i32> {
        cell.and_then(|cell| cell[..].try_into().ok()).map(i32::from_be_bytes)
    };
    let columns = rows.metadata.columns.as_deref().unwrap_or_default();
    let at = |name: &str| columns.iter().position(|column| column.name == name);
    let row = rows.rows.first();
    let value = at("v").and_then(|at| number(row.and_then(|row| row[at].as_ref())));
    if ask == Ask::Read {
        return Answer::Value(value);
    }
    let applied = at("[applied]").and_then(|at| row.and_then(|row| row[at].clone()));
    match applied.as_deref() {
        Some([1]) => Answer::Applied,
        Some([0]) => Answer::Refused(at("v").map(|_| value)),
        other => {
            notes.fail(
                Checker::Linear,
                format!("a conditional statement is answered with [applied] = {other:?}: {rows:?}"),
            );
            Answer::Refused(None)
        }
    }
}
