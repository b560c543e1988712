//! Schema changes during all other operations: one client makes them, one after the other.
//!
//! The table `shift` is emptied, dropped and created again. The table `plain` gets a column and loses it,
//! which must not affect writes and reads of the other columns. Another table is created and dropped.

use protocol::{CqlError, Response};

use super::notes::{Checker, Excuses};
use super::plain::{KEYSPACE, Table};
use super::session::{Answered, Form, Session, Statement, With};

/// The columns of tables that [`super::facts`] models.
pub const COLUMNS: &str = "(p int, c int, s int static, v int, w text, PRIMARY KEY (p, c))";

/// Executes a change.
pub async fn run(session: &Session, text: String) -> Answered {
    session.note(&text);
    let answered =
        session.run_as(Form::Literal, &Statement::new(text.clone(), vec![]), &With::default()).await;
    session.note(&format!("{text} -> {answered:.60?}"));
    if matches!(answered, Answered::Done(Response::SchemaChange(_) | Response::Void)) {
        session.home.notes.count(|counts| counts.schema_changes += 1);
    }
    answered
}

fn is_done(answered: &Answered) -> bool {
    matches!(answered, Answered::Done(_))
}

/// One random change.
pub async fn change(session: &Session, shift: &Table) {
    match session.below(6) {
        0 | 1 => empty(session, shift, &[format!("TRUNCATE {KEYSPACE}.shift")]).await,
        2 => {
            let make = format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.shift {COLUMNS}");
            empty(session, shift, &[format!("DROP TABLE IF EXISTS {KEYSPACE}.shift"), make]).await;
        }
        // The column may exist already, or not.
        3 => drop(run(session, format!("ALTER TABLE {KEYSPACE}.plain ADD extra int")).await),
        4 => drop(run(session, format!("ALTER TABLE {KEYSPACE}.plain DROP extra")).await),
        _ => own_table(session).await,
    }
}

async fn empty(session: &Session, shift: &Table, steps: &[String]) {
    let notes = &session.home.notes;
    let begun = notes.moment();
    {
        let mut facts = shift.facts.borrow_mut();
        if facts.is_changing {
            // An earlier change may still be in progress.
            return;
        }
        (facts.is_changing, facts.disturbed) = (true, begun.stamp);
    }
    let (mut done, mut is_over) = (0, true);
    for step in steps {
        let answered = run(session, step.clone()).await;
        match answered {
            Answered::Done(_) => done += 1,
            Answered::Refused(CqlError::Invalid(text)) => {
                notes.fail(Checker::Schema, format!("{step}: {text}"));
                break;
            }
            Answered::Refused(_) => break,
            Answered::Unknown(_) => {
                is_over = false;
                break;
            }
        }
    }
    let mut facts = shift.facts.borrow_mut();
    facts.emptied(begun, notes.moment(), done == steps.len());
    // Without an answer it is unknown until a restart whether the table exists.
    facts.is_changing = !is_over || (done > 0 && done < steps.len());
}

async fn own_table(session: &Session) {
    let table = format!("{KEYSPACE}.own");
    let made = run(session, format!("CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY, v int)")).await;
    if !is_done(&made) {
        return;
    }
    let write = Statement::new(format!("INSERT INTO {table} (k, v) VALUES (1, 2)"), vec![]);
    let written = session.run(&write, &With::default()).await;
    // If answers are lost or late, an earlier DROP may still be in progress.
    let Excuses { io, no_space, network, is_small, .. } = session.home.notes.excuses.get();
    if let Answered::Refused(CqlError::Invalid(text)) = &written
        && !(io || no_space || network || is_small)
    {
        session.home.notes.fail(Checker::Schema, format!("{table} was made, and a write is refused: {text}"));
    }
    let read = Statement::new(format!("SELECT k, v FROM {table}"), vec![]);
    if let Some(rows) = session.run(&read, &With::default()).await.rows()
        && is_done(&written)
        && rows.rows.len() != 1
    {
        session
            .home
            .notes
            .fail(Checker::Schema, format!("{table}: a row was written, and {} are read", rows.rows.len()));
    }
    run(session, format!("DROP TABLE IF EXISTS {table}")).await;
}
