//! Writes and reads of plain tables, alone and in batches, against [`Facts`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use protocol::{BatchType, Rows};

use super::facts::{Column, Effect, Facts, Scope, Shown};
use super::notes::{Checker, EventTime, Notes};
use super::session::{Answered, Bind, Session, Statement, With};

/// The keyspace of all tables here.
pub const KEYSPACE: &str = "sim";

/// Size of a result's row: the longest text, and four numbers.
const ROW_BYTES_MAX: u64 = 500;

/// State of a table that all clients share.
pub struct Table {
    pub facts: RefCell<Facts>,
    pub numbers: Rc<Numbers>,
}

/// Numbers and timestamps of writes: unique in a world.
pub struct Numbers {
    last: Cell<i32>,
    first_us: i64,
    /// An acknowledged write survives a power failure.
    pub is_durable: Cell<bool>,
    /// Largest partition that is read as one snapshot: the server gathers even an unpaged result from reads
    /// of this many bytes.
    pub page_bytes: Cell<u64>,
}

impl Numbers {
    pub fn new(first_us: i64) -> Self {
        Self { last: Cell::new(0), first_us, is_durable: Cell::new(true), page_bytes: Cell::new(u64::MAX) }
    }

    fn next(&self) -> i32 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Timestamps increase with the numbers, except some that are up to twenty numbers ahead.
    fn timestamp_us(&self, seq: i32, ahead: u64) -> i64 {
        self.first_us + (i64::from(seq) + ahead as i64) * 1000 + i64::from(seq % 1000)
    }
}

/// A write that is not sent yet.
struct Draft {
    p: i32,
    /// Without the table's name and USING; [`Draft::statement`] builds the statement.
    kind: Kind,
    effects: Vec<Effect>,
    seq: i32,
    ttl_s: Option<i64>,
}

enum Kind {
    Insert { c: i32, v: bool, w: bool },
    Update { c: i32, v: Option<bool>, w: Option<bool> },
    Static,
    DeleteCell { c: i32 },
    DeleteRows { from: i32, to: i32 },
    DeletePartition,
}

/// Texts begin with the write's number and are padded, so that rows have a size.
fn text_of(seq: i32, bytes: usize) -> String {
    let mut text = format!("{seq}_");
    while text.len() < bytes {
        text.push('x');
    }
    text
}

impl Draft {
    fn new(session: &Session, facts: &Facts, numbers: &Numbers, p: i32) -> Self {
        let below = |bound: i32| session.below(bound as u64) as i32;
        let c = below(facts.rows);
        let kind = match session.below(12) {
            0..=3 => Kind::Insert { c, v: session.chance(4, 5), w: session.chance(4, 5) },
            4..=6 => {
                let change = || session.chance(2, 3).then(|| session.chance(4, 5));
                let (v, w) = (change(), change());
                Kind::Update { c, v: if w.is_none() { v.or(Some(true)) } else { v }, w }
            }
            7 => Kind::Static,
            8 => Kind::DeleteCell { c },
            9 => Kind::DeleteRows { from: c, to: c },
            10 => Kind::DeleteRows { from: c, to: c + below(facts.rows - c) },
            _ => {
                if session.chance(1, 3) {
                    Kind::DeletePartition
                } else {
                    Kind::Insert { c, v: true, w: true }
                }
            }
        };
        let may_expire = matches!(kind, Kind::Insert { .. } | Kind::Update { .. } | Kind::Static);
        let ttl_s = (may_expire && session.chance(1, 6)).then(|| *pick(session, &[1, 3, 20, 100_000]));
        let cell = |c: Option<i32>, column: Column, is_set: bool| {
            if is_set { Effect::Set(c, column) } else { Effect::Unset(c, column) }
        };
        let effects = match kind {
            Kind::Insert { c, v, w } => {
                let mut effects = vec![Effect::Set(Some(c), Column::Row)];
                // An INSERT with null for a column deletes its cell.
                effects.push(cell(Some(c), Column::V, v));
                effects.push(cell(Some(c), Column::W, w));
                effects
            }
            Kind::Update { c, v, w } => {
                let v = v.map(|is_set| cell(Some(c), Column::V, is_set));
                v.into_iter().chain(w.map(|is_set| cell(Some(c), Column::W, is_set))).collect()
            }
            Kind::Static => vec![Effect::Set(None, Column::Static)],
            Kind::DeleteCell { c } => vec![Effect::Unset(Some(c), Column::V)],
            Kind::DeleteRows { from, to } => vec![Effect::DeleteRows(from, to)],
            Kind::DeletePartition => vec![Effect::DeletePartition],
        };
        Self { p, kind, effects, seq: numbers.next(), ttl_s }
    }

    /// `timestamp_us`: put into the text, not sent beside it.
    fn statement(&self, session: &Session, table: &str, timestamp_us: Option<i64>) -> Statement {
        let is_deletion =
            matches!(self.kind, Kind::DeleteCell { .. } | Kind::DeleteRows { .. } | Kind::DeletePartition);
        let mut using = vec![];
        if let Some(timestamp_us) = timestamp_us {
            using.push(("TIMESTAMP ?", Bind::BigInt(timestamp_us)));
        }
        if let Some(ttl_s) = self.ttl_s.filter(|_| !is_deletion) {
            using.push(("TTL ?", Bind::Int(ttl_s as i32)));
        }
        let words: Vec<&str> = using.iter().map(|(word, _)| *word).collect();
        let words = if words.is_empty() { String::new() } else { format!(" USING {}", words.join(" AND ")) };
        let using: Vec<Bind> = using.into_iter().map(|(_, bind)| bind).collect();
        let v = |is_set: bool| if is_set { Bind::Int(self.seq) } else { Bind::Null };
        let bytes = *pick(session, &[4_usize, 20, 400]);
        let w = |is_set: bool| if is_set { Bind::Text(text_of(self.seq, bytes)) } else { Bind::Null };
        let key = |c: i32| vec![Bind::Int(self.p), Bind::Int(c)];
        match self.kind {
            Kind::Insert { c, v: has_v, w: has_w } => Statement::new(
                format!("INSERT INTO {table} (p, c, v, w) VALUES (?, ?, ?, ?){words}"),
                [key(c), vec![v(has_v), w(has_w)], using].concat(),
            ),
            Kind::Update { c, v: has_v, w: has_w } => {
                let mut sets = vec![];
                sets.extend(has_v.map(|is_set| ("v = ?", v(is_set))));
                sets.extend(has_w.map(|is_set| ("w = ?", w(is_set))));
                let names: Vec<&str> = sets.iter().map(|(name, _)| *name).collect();
                let values: Vec<Bind> = sets.iter().map(|(_, bind)| bind.clone()).collect();
                Statement::new(
                    format!("UPDATE {table}{words} SET {} WHERE p = ? AND c = ?", names.join(", ")),
                    [using, values, key(c)].concat(),
                )
            }
            Kind::Static => Statement::new(
                format!("UPDATE {table}{words} SET s = ? WHERE p = ?"),
                [using, vec![Bind::Int(self.seq), Bind::Int(self.p)]].concat(),
            ),
            Kind::DeleteCell { c } => Statement::new(
                format!("DELETE v FROM {table}{words} WHERE p = ? AND c = ?"),
                [using, key(c)].concat(),
            ),
            Kind::DeleteRows { from, to } if from == to => Statement::new(
                format!("DELETE FROM {table}{words} WHERE p = ? AND c = ?"),
                [using, key(from)].concat(),
            ),
            Kind::DeleteRows { from, to } => Statement::new(
                format!("DELETE FROM {table}{words} WHERE p = ? AND c >= ? AND c <= ?"),
                [using, key(from), vec![Bind::Int(to)]].concat(),
            ),
            Kind::DeletePartition => Statement::new(
                format!("DELETE FROM {table}{words} WHERE p = ?"),
                [using, vec![Bind::Int(self.p)]].concat(),
            ),
        }
    }
}

pub fn pick<'a, T>(session: &Session, items: &'a [T]) -> &'a T {
    &items[session.below(items.len() as u64) as usize]
}

impl Table {
    pub fn new(facts: Facts, numbers: &Rc<Numbers>) -> Rc<Self> {
        Rc::new(Self { facts: RefCell::new(facts), numbers: numbers.clone() })
    }

    fn name(&self) -> String {
        format!("{KEYSPACE}.{}", self.facts.borrow().name)
    }

    /// Whether the table's schema was changed since.
    fn was_disturbed(&self, since: EventTime) -> bool {
        let facts = self.facts.borrow();
        facts.is_changing || facts.disturbed > since.stamp
    }

    fn learn(&self, notes: &Notes, answered: &Answered, seqs: &[i32], begun: EventTime) {
        let at = notes.moment();
        if matches!(answered, Answered::Refused(protocol::CqlError::Invalid(_))) && !self.was_disturbed(begun)
        {
            notes.fail(Checker::Errors, format!("{}: refused without a reason: {answered:?}", self.name()));
        }
        let mut facts = self.facts.borrow_mut();
        for seq in seqs {
            match answered {
                Answered::Done(_) => facts.acknowledged(at, *seq, self.numbers.is_durable.get()),
                Answered::Refused(_) => notes.check(Checker::Reads, facts.refused(at, *seq)),
                Answered::Unknown(_) => facts.unknown(*seq),
            }
        }
    }

    /// Sends one write.
    pub async fn write(&self, session: &Session) {
        let notes = &session.home.notes;
        let (p, draft) = {
            let facts = self.facts.borrow();
            let p = session.below(facts.partitions as u64) as i32;
            (p, Draft::new(session, &facts, &self.numbers, p))
        };
        let timestamp_us = self.numbers.timestamp_us(draft.seq, session.below(20));
        let in_text = session.chance(1, 2);
        let statement = draft.statement(session, &self.name(), in_text.then_some(timestamp_us));
        let with = With { timestamp_us: (!in_text).then_some(timestamp_us), ..With::default() };
        let begun = notes.moment();
        let effects = draft.effects.clone();
        self.facts.borrow_mut().began(begun, draft.seq, p, timestamp_us, draft.ttl_s, effects);
        session.note(&format!("write {}: {}", draft.seq, statement.literal()));
        notes.count(|counts| counts.writes += 1);
        let answered = session.run(&statement, &with).await;
        session.note(&format!("write {}: {answered:.40?}", draft.seq));
        self.learn(notes, &answered, &[draft.seq], begun);
    }

    /// Sends a batch: its statements on one partition are one write.
    pub async fn write_batch(&self, session: &Session) {
        let notes = &session.home.notes;
        let count = 2 + session.below(4) as usize;
        let begun = notes.moment();
        let partitions = self.facts.borrow().partitions;
        let p = session.below(partitions as u64) as i32;
        let is_spread = session.chance(1, 2);
        let mut drafts = vec![];
        for at in 0..count {
            let p = if is_spread { (p + at as i32) % partitions } else { p };
            if drafts.iter().any(|draft: &Draft| draft.p == p) && is_spread {
                break;
            }
            drafts.push(Draft::new(session, &self.facts.borrow(), &self.numbers, p));
        }
        // A write of one partition has one number.
        if !is_spread {
            let ttl_s = drafts[0].ttl_s;
            let seq = drafts[0].seq;
            drafts.iter_mut().for_each(|draft| (draft.seq, draft.ttl_s) = (seq, ttl_s));
        }
        let timestamp_us = self.numbers.timestamp_us(drafts[0].seq, session.below(20));
        let mut seqs = vec![];
        for draft in &drafts {
            if seqs.contains(&draft.seq) {
                continue;
            }
            seqs.push(draft.seq);
            let of_seq = drafts.iter().filter(|other| other.seq == draft.seq);
            let effects = of_seq.flat_map(|other| other.effects.clone()).collect();
            let ttl_s = draft.ttl_s;
            self.facts.borrow_mut().began(begun, draft.seq, draft.p, timestamp_us, ttl_s, effects);
        }
        let name = self.name();
        let statements: Vec<Statement> =
            drafts.iter().map(|draft| draft.statement(session, &name, None)).collect();
        let with = With { timestamp_us: Some(timestamp_us), ..With::default() };
        let kind = if session.chance(1, 2) { BatchType::Logged } else { BatchType::Unlogged };
        if kind == BatchType::Logged {
            self.facts.borrow_mut().began_batch(&seqs);
        }
        let texts: Vec<String> = statements.iter().map(Statement::literal).collect();
        session.note(&format!("batch {seqs:?} at {timestamp_us}: {}", texts.join("; ")));
        notes.count(|counts| counts.writes += 1);
        let answered = session.batch(kind, &statements, &with).await;
        session.note(&format!("batch {seqs:?}: {answered:.40?}"));
        self.learn(notes, &answered, &seqs, begun);
    }

    /// One read, which is compared.
    pub async fn read(&self, session: &Session) {
        let notes = &session.home.notes;
        let (partitions, row_count) = (self.facts.borrow().partitions, self.facts.borrow().rows);
        let p = session.below(partitions as u64) as i32;
        let from = session.below(row_count as u64) as i32;
        let to = from + session.below((row_count - from) as u64) as i32;
        let is_all = session.chance(1, 6);
        let rows = (!is_all && session.chance(1, 3)).then_some((from, to));
        let page_rows = session.chance(1, 3).then(|| 1 + session.below(5) as i32);
        let is_at_once =
            page_rows.is_none() && self.numbers.page_bytes.get() >= row_count as u64 * ROW_BYTES_MAX;
        let scope = Scope { p: (!is_all).then_some(p), rows, is_snapshot: !is_all && is_at_once };
        let columns = if session.chance(1, 3) { "*" } else { "p, c, s, v, w" };
        let mut text = format!("SELECT {columns} FROM {}", self.name());
        let mut binds = vec![];
        if !is_all {
            text.push_str(" WHERE p = ?");
            binds.push(Bind::Int(p));
        }
        match rows {
            Some((from, to)) if from == to => {
                text.push_str(" AND c = ?");
                binds.push(Bind::Int(from));
            }
            Some((from, to)) => {
                text.push_str(" AND c >= ? AND c <= ?");
                binds.extend([Bind::Int(from), Bind::Int(to)]);
            }
            None => {}
        }
        if !is_all && session.chance(1, 3) {
            text.push_str(" ORDER BY c DESC");
        }
        if session.chance(1, 4) {
            text.push_str(" BYPASS CACHE");
        }
        self.read_and_compare(session, Statement::new(text, binds), scope, page_rows).await;
        notes.count(|counts| counts.reads += 1);
    }

    async fn read_and_compare(
        &self,
        session: &Session,
        statement: Statement,
        scope: Scope,
        page_rows: Option<i32>,
    ) {
        let notes = &session.home.notes;
        let begun = notes.moment();
        match read_pages(session, &statement, page_rows, None).await {
            Ok(rows) => {
                let ended = notes.moment();
                session.note(&format!("{} -> {} rows", statement.literal(), rows.len()));
                if self.was_disturbed(begun) {
                    return;
                }
                let compared = self.facts.borrow_mut().compare(notes, scope, &rows, begun, ended);
                notes.check(
                    Checker::Reads,
                    compared.map_err(|what| format!("{}: {what}", statement.literal())),
                );
            }
            Err(Answered::Refused(protocol::CqlError::Invalid(text))) if !self.was_disturbed(begun) => {
                notes.fail(
                    Checker::Errors,
                    format!("{}: refused without a reason: {text}", statement.literal()),
                );
            }
            Err(_) => {}
        }
    }

    /// Reads everything, retrying as needed, and compares. `is_restarted`: the node has just started, and
    /// nothing is in flight.
    pub async fn read_all(&self, session: &Session, is_restarted: bool) {
        const TRIES: usize = 50;
        let notes = &session.home.notes;
        let checker = if is_restarted { Checker::Restart } else { Checker::Reads };
        let statement = Statement::new(format!("SELECT p, c, s, v, w FROM {}", self.name()), vec![]);
        for _ in 0..TRIES {
            let begun = notes.moment();
            match read_pages(session, &statement, None, None).await {
                Ok(rows) => {
                    let ended = notes.moment();
                    if self.was_disturbed(begun) && !is_restarted {
                        return;
                    }
                    let scope = Scope { p: None, rows: None, is_snapshot: is_restarted };
                    let facts = &mut *self.facts.borrow_mut();
                    let compared = facts.compare(notes, scope, &rows, begun, ended);
                    notes.check(checker, compared.map_err(|what| format!("all of it: {what}")));
                    if is_restarted {
                        notes.check(Checker::Batches, facts.settle(ended, &rows));
                    }
                    return;
                }
                // The table was dropped, or never created.
                Err(Answered::Refused(protocol::CqlError::Invalid(_))) if self.facts.borrow().is_changing => {
                    return;
                }
                Err(_) => session.home.shard.sleep_us(500_000).await,
            }
        }
        let excuses = notes.excuses.get();
        if !(excuses.io || excuses.no_space || excuses.network) {
            notes.fail(checker, format!("{} cannot be read: {TRIES} tries", self.name()));
        }
    }
}

/// All rows of a statement, in pages if a page size is given.
pub async fn read_pages(
    session: &Session,
    statement: &Statement,
    page_rows: Option<i32>,
    now_s: Option<i32>,
) -> Result<Vec<Shown>, Answered> {
    let mut shown = vec![];
    for rows in raw_pages(session, statement, page_rows, now_s).await? {
        shown.extend(shown_of(&session.home.notes, &rows));
    }
    Ok(shown)
}

/// Limit of the pages of a result; empty pages count too.
const PAGES_MAX: usize = 2000;

/// The pages of a statement, unchanged.
pub async fn raw_pages(
    session: &Session,
    statement: &Statement,
    page_rows: Option<i32>,
    now_s: Option<i32>,
) -> Result<Vec<Rows>, Answered> {
    let mut pages = vec![];
    let mut with = With { page_rows, now_s, ..With::default() };
    loop {
        match session.run(statement, &with).await {
            Answered::Done(protocol::Response::Rows(rows)) => {
                with.paging_state = rows.metadata.paging_state.clone();
                let is_last = with.paging_state.is_none();
                if page_rows.is_some_and(|max| rows.rows.len() > max as usize) {
                    session.home.notes.fail(
                        Checker::Reads,
                        format!(
                            "{}: a page of {} rows, but {page_rows:?} were requested",
                            statement.literal(),
                            rows.rows.len()
                        ),
                    );
                }
                pages.push(rows);
                if is_last {
                    return Ok(pages);
                }
            }
            Answered::Done(other) => {
                session
                    .home
                    .notes
                    .fail(Checker::Reads, format!("{}: answered with {other:?}", statement.literal()));
                return Err(Answered::Unknown(String::new()));
            }
            other => return Err(other),
        }
        if pages.len() > PAGES_MAX {
            session.home.notes.fail(Checker::Reads, format!("{}: pages without end", statement.literal()));
            return Err(Answered::Unknown(String::new()));
        }
    }
}

fn int(notes: &Notes, row: &[Option<Vec<u8>>], at: usize) -> Option<i32> {
    let cell = row[at].as_ref()?;
    match cell[..].try_into() {
        Ok(bytes) => Some(i32::from_be_bytes(bytes)),
        Err(_) => {
            notes.fail(Checker::Reads, format!("an int of {} bytes, value {at} of {row:?}", cell.len()));
            None
        }
    }
}

fn shown_of(notes: &Notes, rows: &Rows) -> Vec<Shown> {
    let Some(columns) = &rows.metadata.columns else {
        notes.fail(Checker::Reads, "rows without metadata, which was not left out");
        return vec![];
    };
    let at = |name: &str| columns.iter().position(|column| column.name == name);
    let places = ["p", "c", "v", "w", "s"].map(at);
    let [Some(p), Some(c), Some(v), Some(w), Some(s)] = places else {
        notes.fail(Checker::Reads, format!("columns are missing: {columns:?}"));
        return vec![];
    };
    let number_in = |cell: Option<&Vec<u8>>| {
        let text = std::str::from_utf8(cell?).ok()?;
        text.split_once('_').and_then(|(number, _)| number.parse().ok())
    };
    let shown = |row: &Vec<Option<Vec<u8>>>| Shown {
        p: int(notes, row, p).unwrap_or(-1),
        c: int(notes, row, c),
        v: int(notes, row, v),
        w: number_in(row[w].as_ref()),
        s: int(notes, row, s),
    };
    rows.rows.iter().map(shown).collect()
}
