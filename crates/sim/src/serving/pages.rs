//! Checks pages of idle data: a paged read returns the rows of an unpaged read, over dead and expired rows
//! too.

use protocol::Rows;

use super::notes::Checker;
use super::plain::{KEYSPACE, Table, pick, raw_pages};
use super::session::{Bind, Session, Statement};

/// Random reads, each unpaged and in pages of several sizes. There are no writes meanwhile.
pub async fn compare(session: &Session, tables: &[&Table], reads: u64) {
    let notes = &session.home.notes;
    for _ in 0..reads {
        let table = *pick(session, tables);
        let statement = any_read(session, table);
        let begun = notes.moment();
        let Ok(at_once) = raw_pages(session, &statement, None, None).await else { continue };
        let page_rows = 1 + session.below(7) as i32;
        let Ok(in_pages) = raw_pages(session, &statement, Some(page_rows), None).await else { continue };
        notes.count(|counts| counts.paged += 1);
        let ended = notes.moment();
        session.note(&format!("{} in {} pages", statement.literal(), in_pages.len()));
        let (at_once, in_pages) = (cells(at_once), cells(in_pages));
        // A cell that expires meanwhile is in the first read and not in the second.
        if table.facts.borrow().may_expire(notes, begun, ended) {
            continue;
        }
        if at_once != in_pages {
            notes.fail(Checker::Pages, format!(
                "{}: {} rows at once, and {} in pages of {page_rows}\n  at once  {at_once:?}\n  in pages {in_pages:?}",
                statement.literal(),
                at_once.len(),
                in_pages.len()
            ));
        }
    }
}

type Cells = Vec<Vec<Option<Vec<u8>>>>;

fn cells(pages: Vec<Rows>) -> Cells {
    pages.into_iter().flat_map(|page| page.rows).collect()
}

fn any_read(session: &Session, table: &Table) -> Statement {
    let facts = table.facts.borrow();
    let name = format!("{KEYSPACE}.{}", facts.name);
    let p = || Bind::Int(session.below(facts.partitions as u64) as i32);
    let c = || Bind::Int(session.below(facts.rows as u64) as i32);
    let of_one = format!("SELECT p, c, s, v, w FROM {name} WHERE p = ?");
    let (mut text, mut binds) = match session.below(12) {
        0 | 1 => (format!("SELECT p, c, s, v, w FROM {name}"), vec![]),
        2 => (of_one, vec![p()]),
        3 => (format!("{of_one} ORDER BY c DESC"), vec![p()]),
        4 => (format!("{of_one} AND c > ?"), vec![p(), c()]),
        5 => (format!("{of_one} AND c <= ? ORDER BY c DESC"), vec![p(), c()]),
        6 => (format!("SELECT DISTINCT p, s FROM {name}"), vec![]),
        7 => (
            format!("SELECT p, c, v FROM {name} PER PARTITION LIMIT ?"),
            vec![Bind::Int(1 + session.below(3) as i32)],
        ),
        8 => (format!("SELECT p, c, v FROM {name} WHERE p IN (?, ?)"), vec![p(), p()]),
        9 => (
            format!("SELECT p, c, v FROM {name} WHERE token(p) > ?"),
            vec![Bind::BigInt(session.fork().next_u64() as i64)],
        ),
        10 => (format!("SELECT p, c, w FROM {name} WHERE v > 0 ALLOW FILTERING"), vec![]),
        _ => (format!("SELECT p, count(*), max(v) FROM {name} GROUP BY p"), vec![]),
    };
    let is_filtered = text.contains("FILTERING");
    if session.chance(1, 4) && !text.contains("PER PARTITION") && !is_filtered {
        text.push_str(" LIMIT ?");
        binds.push(Bind::Int(1 + session.below(20) as i32));
    }
    if session.chance(1, 3) {
        text.push_str(" BYPASS CACHE");
    }
    Statement::new(text, binds)
}
