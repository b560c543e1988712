//! The life of one world: a node is started, used by many clients, crashed and started again, and all answers
//! are compared.
//!
//! A round is a few concurrent clients, perhaps under faults, perhaps with a crash at an I/O operation chosen
//! beforehand. After some rounds comes a quiet phase, in which paged reads are compared with unpaged ones.
//! After all rounds the clients disconnect, and nothing may be left of them.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use base::join::{self, LocalFuture};
use base::rng::Rng;
use engine::commitlog::SyncMode;
use engine::{node, recover};
use protocol::CqlError;
use runtime::sim::{SimNode, SimOptions, SimStop, SimWorld};
use runtime::{CpuGroup, JoinHandle, Shard};
use server::cql_server::{self, Encryption, Port};

use super::access::{self, Logins};
use super::facts::Facts;
use super::notes::{Checker, Counts, Excuses, Failure, Notes};
use super::plain::{KEYSPACE, Numbers, Table};
use super::registers::Registers;
use super::session::{Answered, Home, Session};
use super::tallies::Tallies;
use super::weather::{self, Climate, address};
use super::{leftovers, pages, rude, schema};
use crate::client::History;

/// Start of the simulated world's wall clock, in microseconds since 1970.
const WALL_START_US: i64 = 1_767_225_600_000_000;

/// Result of a seed: equal for equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub schedule_hash: u64,
    pub disk_hash: u64,
    pub history_hash: u64,
    pub io_ops: u64,
    pub virtual_us: u64,
    pub counts: Counts,
}

/// Runs one seed.
///
/// # Errors
/// A promise was broken.
pub fn run(seed: u64, history: &History) -> Result<Outcome, Failure> {
    let mut run = Run::new(seed, history.clone());
    run.start()?;
    let rounds = 2 + run.rng.below(3);
    for round in 0..rounds {
        run.notes.note(format!("--- round {round}"));
        run.round()?;
    }
    run.stop()?;
    run.start()?;
    run.quiet()?;
    run.world.power_loss();
    Ok(Outcome {
        schedule_hash: run.world.schedule_hash(),
        disk_hash: run.world.disk_snapshot_hash(),
        history_hash: run.notes.digest(),
        io_ops: run.world.io_ops(),
        virtual_us: run.world.now_us(),
        counts: run.notes.counts.get(),
    })
}

/// The clients' model of the node's data.
#[derive(Clone)]
struct Data {
    plain: Rc<Table>,
    wide: Rc<Table>,
    shift: Rc<Table>,
    registers: Rc<Registers>,
    tallies: Rc<Tallies>,
    numbers: Rc<Numbers>,
}

impl Data {
    fn new() -> Self {
        let numbers = Rc::new(Numbers::new(WALL_START_US));
        Self {
            plain: Table::new(Facts::new("plain", 4, 6), &numbers),
            wide: Table::new(Facts::new("wide", 3, 30), &numbers),
            shift: Table::new(Facts::new("shift", 2, 4), &numbers),
            registers: Registers::new(),
            tallies: Tallies::new(),
            numbers,
        }
    }

    fn tables(&self) -> [&Rc<Table>; 3] {
        [&self.plain, &self.wide, &self.shift]
    }
}

struct Run {
    world: SimWorld,
    node: Option<SimNode>,
    /// The machine of the clients.
    clients: Option<SimNode>,
    climate: Climate,
    notes: Rc<Notes>,
    data: Data,
    /// `None`: the node asks for no passwords.
    logins: Option<Rc<Logins>>,
    rng: Rng,
    /// The last crash may have lost acknowledged operations.
    loses_acknowledged: bool,
    clock_goes_back: bool,
}

/// The failure of a world that stopped during `what`.
fn stopped(what: &str, stop: SimStop) -> Failure {
    Failure::new(Checker::Ends, format!("{what}: {stop}"))
}

impl Run {
    fn new(seed: u64, history: History) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e_c41e);
        let climate = Climate::new(&mut rng);
        let world = SimWorld::new(SimOptions {
            seed,
            shards: 1,
            faults: climate.faults.clone(),
            run_us_max: 1_200_000_000,
            run_steps_max: 20_000_000,
            ..SimOptions::default()
        });
        let clock = world.clock();
        let notes = Rc::new(Notes::new(history, move || clock.now_us(), WALL_START_US));
        notes.note(format!("{:?}", climate.engine));
        notes.note(format!("{:?}", climate.cql));
        let clock_goes_back = rng.chance(1, 3);
        let data = Data::new();
        data.numbers.page_bytes.set(climate.cql.result_limits.page_bytes);
        data.numbers.is_durable.set(!matches!(climate.engine.commitlog_sync, SyncMode::Periodic { .. }));
        let logins = climate.has_logins.then(Logins::new);
        Self {
            world,
            node: None,
            clients: None,
            climate,
            notes,
            data,
            logins,
            rng,
            loses_acknowledged: false,
            clock_goes_back,
        }
    }

    fn faults_off(&self) {
        let faults = self.climate.faults.clone();
        self.world.set_faults(|now| *now = faults);
        let is_small = self.climate.is_small || self.climate.has_logins;
        let idle = self.climate.cql.idle_timeout_us.is_some();
        self.notes.excuses.set(Excuses { is_small, idle, ..Excuses::default() });
    }

    fn node(&self) -> &SimNode {
        self.node.as_ref().expect("the node runs")
    }

    /// Starts the node and a machine of clients, without faults, and compares all data.
    fn start(&mut self) -> Result<(), Failure> {
        self.faults_off();
        self.world.set_shards(1 + self.rng.below(3) as u32);
        let of_start = |stop| stopped("starting", stop);
        let node = self.world.start_node(|_| async {}).map_err(of_start)?;
        let (engine, cql) = (self.climate.engine.clone(), self.climate.cql.clone());
        self.climate.cql.open_connections.store(0, Ordering::Relaxed);
        let opened = self.world.block_on(&node, 0, |shard| async move {
            recover::open(&shard, engine).await.map_err(|error| error.to_string())?;
            if cql.passwords.is_some() {
                access::make_superuser(&shard).await?;
            }
            let port = Port { address: address(), is_shard_aware: false, encryption: Encryption::Plain };
            cql_server::listen(&shard, cql, vec![port]).await.map_err(|error| error.to_string())
        });
        match opened.map_err(of_start)? {
            Ok(_) => {}
            Err(error) => {
                return Err(Failure::new(Checker::Starts, format!("the node does not start: {error}")));
            }
        }
        self.node = Some(node);
        self.world.set_shards(1);
        self.clients = Some(self.world.start_node(|_| async {}).map_err(of_start)?);
        self.notes.note("=== started");
        self.notes.count(|counts| counts.restarts += 1);
        let (data, logins) = (self.data.clone(), self.logins.clone());
        let loses = self.loses_acknowledged;
        self.as_client("reading all after a start", move |session| async move {
            if let Some(logins) = logins {
                logins.restarted(&session, loses).await;
            }
            make_tables(&session).await;
            for table in data.tables() {
                table.facts.borrow_mut().is_changing = false;
                table.read_all(&session, true).await;
            }
            data.registers.restarted(&session, loses).await;
            data.tallies.restarted(&session).await;
        })?;
        Ok(())
    }

    /// Runs a client without faults to its end.
    fn as_client<F>(
        &mut self,
        what: &str,
        work: impl FnOnce(Rc<Session>) -> F + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = ()> + 'static,
    {
        let clients = self.clients.as_ref().expect("clients have a machine");
        let (notes, logins, rng) = (self.notes.clone(), self.logins.clone(), self.rng.fork());
        let ran = self.world.block_on(clients, 0, |shard| async move {
            let home = Home { shard, notes, address: address(), logins };
            let session = Session::as_superuser(&home, "quiet", rng);
            work(session.clone()).await;
            session.close();
        });
        self.notes.take_failure()?;
        ran.map_err(|stop| stopped(what, stop))
    }

    /// The node dies, alone or with the machine.
    fn crash(&mut self) {
        let power = self.rng.chance(1, 2);
        self.notes.note(if power { "=== power loss" } else { "=== kill" });
        self.notes.count(|counts| counts.crashes += 1);
        // A failed sync may lose earlier writes, from the page cache too.
        let loses_unsynced = power || self.notes.excuses.get().io;
        self.loses_acknowledged = loses_unsynced && !self.data.numbers.is_durable.get();
        let at = self.notes.moment();
        for table in self.data.tables() {
            let facts = &mut *table.facts.borrow_mut();
            if facts.is_changing {
                facts.emptied(at, at, false);
            }
            facts.crashed(at, loses_unsynced);
        }
        self.data.tallies.crashed(loses_unsynced);
        (self.node, self.clients) = (None, None);
        if power {
            self.world.power_loss();
        } else {
            self.world.kill();
        }
    }

    /// Some concurrent clients, perhaps under faults, perhaps up to a crash.
    fn round(&mut self) -> Result<(), Failure> {
        let mut excuses = self.notes.excuses.get();
        weather::make(&mut self.rng, &self.world, &mut excuses);
        self.notes.excuses.set(excuses);
        if excuses.io || excuses.network || excuses.no_space || excuses.vanishing {
            self.notes.note(format!("{excuses:?}"));
        }
        if self.rng.chance(2, 5) {
            self.world.crash_after(1 + self.rng.below(1500));
        }
        let ran = self.maintenance().and_then(|()| self.clients());
        self.world.set_faults(|faults| faults.crash_after_ops = None);
        self.notes.take_failure()?;
        match ran {
            Ok(()) => {}
            Err(SimStop::Crashed) => {
                self.crash();
                return self.start();
            }
            Err(stop) => return Err(stopped("a round", stop)),
        }
        self.data.registers.check().map_err(|what| Failure::new(Checker::Linear, what))?;
        self.no_leftovers()?;
        if excuses.io || excuses.no_space {
            // The log may have failed; only a restart makes the node usable again.
            self.crash();
            return self.start();
        }
        if self.rng.chance(1, 2) {
            self.quiet()?;
        }
        match self.rng.below(4) {
            0 => {
                self.crash();
                self.start()
            }
            1 => {
                self.stop()?;
                self.start()
            }
            _ => Ok(()),
        }
    }

    /// Flushes and compactions beside the clients.
    fn maintenance(&mut self) -> Result<(), SimStop> {
        let mut rng = self.rng.fork();
        let notes = self.notes.clone();
        let work = move |shard: Shard| async move {
            for _ in 0..rng.below(4) {
                shard.sleep_us(rng.below(20_000)).await;
                let done = match rng.below(3) {
                    0 | 1 => node::flush(&shard, vec![]).await.map_err(|error| error.to_string()),
                    _ => node::sync(&shard).await.map_err(|error| error.to_string()),
                };
                notes.note(format!("maintenance: {done:?}"));
            }
        };
        self.world.block_on(self.node(), 0, |shard| async move {
            let running = shard.clone();
            shard.spawn(CpuGroup::Maintenance, work(running)).detach();
        })
    }

    fn clients(&mut self) -> Result<(), SimStop> {
        let (notes, data, clock) = (self.notes.clone(), self.data.clone(), self.world.clock());
        let (logins, mut rng) = (self.logins.clone(), self.rng.fork());
        let idle_us = self.climate.cql.idle_timeout_us;
        let jumps = self.rng.chance(1, 4);
        let goes_back = self.clock_goes_back && self.rng.chance(2, 3);
        let clients = self.clients.as_ref().expect("clients have a machine");
        self.world.block_on(clients, 0, |shard| async move {
            let home = Home {
                shard: shard.clone(),
                notes: notes.clone(),
                address: address(),
                logins: logins.clone(),
            };
            let mut running: Vec<JoinHandle<()>> = vec![];
            for at in 0..1 + rng.below(4) {
                let session = Session::new(&home, &format!("client {at}"), rng.fork());
                let used = use_node(session, data.clone(), 4 + rng.below(12));
                running.push(shard.spawn(CpuGroup::Statement, used));
            }
            for at in 0..rng.below(3) {
                let session = Session::new(&home, &format!("rude {at}"), rng.fork());
                running.push(
                    shard.spawn(CpuGroup::Statement, async move { rude::one(&session, idle_us).await }),
                );
            }
            if rng.chance(1, 2) {
                let session = Session::new(&home, "schema", rng.fork());
                let (shift, changes) = (data.shift.clone(), 1 + rng.below(3));
                let change = async move {
                    for _ in 0..changes {
                        session.home.shard.sleep_us(session.below(5000)).await;
                        schema::change(&session, &shift).await;
                    }
                    session.close();
                };
                running.push(shard.spawn(CpuGroup::Statement, change));
            }
            if let Some(logins) = logins.filter(|_| rng.chance(1, 2)) {
                let session = Session::as_superuser(&home, "roles", rng.fork());
                let change = async move {
                    logins.change(&session).await;
                    session.close();
                };
                running.push(shard.spawn(CpuGroup::Statement, change));
            }
            if jumps {
                shard.sleep_us(rng.below(10_000)).await;
                let by_s = *rng.pick(&[1, 10, 3600, 86_400]);
                let by_s = if goes_back { -by_s } else { by_s };
                notes.jump(&clock, by_s * 1_000_000);
            }
            for one in running {
                one.await;
            }
        })
    }

    /// After all clients have disconnected: nothing may be left of them.
    fn no_leftovers(&mut self) -> Result<(), Failure> {
        let open = self.climate.cql.open_connections.clone();
        let vanishing = self.notes.excuses.get().vanishing;
        let looked = self.world.block_on(self.node(), 0, |shard| async move {
            leftovers::check(&shard, &open, vanishing).await
        });
        match looked.map_err(|stop| stopped("looking for leftovers", stop))? {
            Ok(Ok(())) => Ok(()),
            Ok(Err(what)) => Err(Failure::new(Checker::Leftovers, what)),
            Err(error) => Err(Failure::new(Checker::Leftovers, error.to_string())),
        }
    }

    /// Without writes: compares reads with the model, and with each other.
    fn quiet(&mut self) -> Result<(), Failure> {
        self.faults_off();
        self.notes.note("quiet");
        let data = self.data.clone();
        let reads = 2 + self.rng.below(8);
        self.as_client("quiet reads", move |session| async move {
            for table in data.tables() {
                table.read_all(&session, false).await;
            }
            pages::compare(&session, &[&data.plain, &data.wide, &data.wide], reads).await;
        })?;
        self.no_leftovers()
    }

    /// The node stops regularly, while a client still sends requests.
    fn stop(&mut self) -> Result<(), Failure> {
        self.faults_off();
        self.notes.excuse(|excuses| excuses.is_stopping = true);
        self.notes.note("=== stopping");
        let (notes, data, logins) = (self.notes.clone(), self.data.clone(), self.logins.clone());
        let mut rng = self.rng.fork();
        let clients = self.clients.as_ref().expect("clients have a machine");
        let asked = self.world.block_on(clients, 0, |shard| async move {
            for at in 0..rng.below(3) {
                let (notes, logins) = (notes.clone(), logins.clone());
                let home = Home { shard: shard.clone(), notes, address: address(), logins };
                let session = Session::new(&home, &format!("late {at}"), rng.fork());
                shard.spawn(CpuGroup::Statement, use_node(session, data.clone(), 4)).detach();
            }
            shard.sleep_us(rng.below(4000)).await;
        });
        let stopping = |stop| stopped("stopping", stop);
        asked.map_err(stopping)?;
        let remote = self.node().remote().clone();
        let closed = self.world.block_on(self.node(), 0, |shard| async move {
            cql_server::stop_listening(&remote, address()).await;
            node::close(&shard).await
        });
        self.notes.take_failure()?;
        if let Err(error) = closed.map_err(stopping)? {
            return Err(Failure::new(Checker::Starts, format!("the node does not stop: {error}")));
        }
        self.crash();
        Ok(())
    }
}

/// Creates the tables that do not exist.
async fn make_tables(session: &Session) {
    let columns = schema::COLUMNS;
    let texts = [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ),
        format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.plain {columns}"),
        format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.wide {columns}"),
        format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.shift {columns}"),
        format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.registers (p int PRIMARY KEY, v int)"),
        format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.tallies (p int PRIMARY KEY, n counter)"),
    ];
    for text in texts {
        if let Answered::Refused(CqlError::Invalid(why)) = schema::run(session, text.clone()).await {
            session.home.notes.fail(Checker::Schema, format!("{text}: {why}"));
        }
    }
}

/// A well-behaved client: operations one after the other, some concurrent; sometimes it disconnects.
async fn use_node(session: Rc<Session>, data: Data, operations: u64) {
    for _ in 0..operations {
        if session.chance(1, 20) {
            let (leaving, after_us) = (session.clone(), session.below(3000));
            let leave = async move {
                leaving.home.shard.sleep_us(after_us).await;
                leaving.close();
            };
            session.home.shard.spawn(CpuGroup::Statement, leave).detach();
        }
        let at_once = if session.chance(1, 4) { 2 + session.below(4) } else { 1 };
        let each: Vec<LocalFuture<'_, Result<(), ()>>> = (0..at_once)
            .map(|_| -> LocalFuture<'_, Result<(), ()>> { Box::pin(one(&session, &data)) })
            .collect();
        // Failures are recorded in the notes.
        let _ = join::join_all(each).await;
    }
    session.close();
}

async fn one(session: &Session, data: &Data) -> Result<(), ()> {
    match session.below(20) {
        0..=4 => data.plain.write(session).await,
        5..=7 => data.plain.read(session).await,
        8 => data.plain.write_batch(session).await,
        9 | 10 => data.wide.write(session).await,
        11 => data.wide.write_batch(session).await,
        12 => data.shift.write(session).await,
        13 => data.shift.read(session).await,
        14..=16 => data.registers.ask(session).await,
        17 | 18 => data.tallies.add(session, data.numbers.is_durable.get()).await,
        _ => data.tallies.read(session).await,
    }
    Ok(())
}
