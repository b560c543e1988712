//! The campaign: one data directory after the other, each with a number of kills, and a comparison after each
//! kill.
//!
//! 1. For a new directory, the options of its node are drawn at random, and the tables of every kind of work
//!    are created.
//! 2. The node is started, and all kinds of work compare its content with their notes, concurrently.
//! 3. Clients work; at a random moment the node gets SIGKILL. Sometimes another node is started and killed
//!    before it is ready.
//! 4. Steps 2 and 3 are repeated. After the last kill of the directory, its content is compared once more.
//!
//! After a failed comparison the directory is kept; the seed and the differences are printed, and a new
//! directory begins.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use base::rng::Rng;

use crate::client::{Client, Stop};
use crate::node_process::{NodeOptions, NodeProcess};
use crate::work::{self, KEYSPACE, Workload};
use crate::{Args, Break, Sync};

/// How long clients work before the kill, at most.
const WORK_MS_MAX: u64 = 500;
/// When a starting node is killed, at most.
const START_MS_MAX: u64 = 150;

/// The campaign ends after this number of failed directories.
const FAILURES_MAX: u64 = 3;

/// A kind of work, and the number of its acknowledgements that were confirmed.
type Checked = (&'static str, Result<u64, Stop>);

/// Results of a campaign.
#[derive(Clone, Copy, Debug, Default)]
struct CampaignResults {
    kills: u64,
    while_starting: u64,
    failed: u64,
    acknowledged: u64,
}

/// A data directory with its notes.
struct Life {
    options: NodeOptions,
    works: Vec<Box<dyn Workload>>,
    rng: Rng,
}

pub fn run(args: &Args) -> Result<ExitCode, String> {
    let messina = match &args.messina {
        Some(path) => path.clone(),
        None => messina_beside_executable()?,
    };
    let version = crate::node_process::tool(&messina, &["version"])?;
    let begun = now();
    let dir = absolute(&args.dir)?.join(format!("run-{}", std::process::id()));
    println!("{}: {}, seed {}", messina.display(), version.trim(), args.seed);
    let mut rng = Rng::new(args.seed);
    let (mut results, mut number) = (CampaignResults::default(), 0);
    while results.kills < args.kills {
        number += 1;
        let seed = rng.next_u64();
        let mut life = Life::new(args, &messina, dir.join(number.to_string()), seed);
        let (before, kills_max) = (results, args.kills_per_dir.min(args.kills - results.kills));
        let lived = life.live(args, kills_max, &mut results);
        let NodeOptions { dir, shards, sync, .. } = &life.options;
        match lived {
            Ok(acknowledged) => {
                results.acknowledged += acknowledged;
                println!(
                    "kills {} to {}: {shards} shards, {sync:?}: {acknowledged} acknowledged, all there; {:.1} s since the beginning",
                    before.kills + 1,
                    results.kills,
                    begun.elapsed().as_secs_f64()
                );
                std::fs::remove_dir_all(dir)
                    .map_err(|error| format!("cannot remove {}: {error}", dir.display()))?;
            }
            Err(error) => {
                results.failed += 1;
                println!(
                    "kill {}: {shards} shards, {sync:?}: FAILED: {error}\nthe directory is kept: {}\nto repeat it: --seed {} \
                     (the requests in flight at a kill are random)",
                    results.kills,
                    dir.display(),
                    args.seed
                );
                if args.broken.is_some() || results.failed == FAILURES_MAX {
                    break;
                }
            }
        }
    }
    let CampaignResults { kills, while_starting, failed, acknowledged } = results;
    println!(
        "{kills} kills in {:.1} s, {while_starting} of them while the node started; {acknowledged} acknowledged in directories \
         that passed; {number} directories, {failed} failed",
        begun.elapsed().as_secs_f64()
    );
    if failed > 0 {
        return Ok(ExitCode::FAILURE);
    }
    // Fails if another process has put files there.
    let _ = std::fs::remove_dir(&dir);
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::disallowed_methods, reason = "a campaign says how long it took")]
fn now() -> Instant {
    Instant::now()
}

fn messina_beside_executable() -> Result<PathBuf, String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let messina = myself.with_file_name("messina");
    if messina.exists() {
        return Ok(messina);
    }
    Err(format!(
        "{} is not there: build it with the same profile, or name it by --messina",
        messina.display()
    ))
}

fn absolute(dir: &Path) -> Result<PathBuf, String> {
    std::path::absolute(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

impl Life {
    fn new(args: &Args, messina: &Path, dir: PathBuf, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let drawn = (1 + rng.below(2) as u32, *rng.pick(&[Sync::Batch, Sync::Group, Sync::Periodic]));
        let options = NodeOptions {
            messina: messina.to_path_buf(),
            dir,
            shards: args.shards.unwrap_or(drawn.0),
            sync: args.sync.unwrap_or(drawn.1),
            backend: args.backend,
        };
        Self { works: work::all(&options), options, rng }
    }

    /// Kills the directory's nodes `kills` times. Returns the number of confirmed acknowledgements.
    fn live(&mut self, args: &Args, kills: u64, results: &mut CampaignResults) -> Result<u64, String> {
        let mut node = self.start()?;
        self.set_up(&node)?;
        let mut done = 0;
        loop {
            self.work(node)?;
            results.kills += 1;
            done += 1;
            if done < kills && self.rng.chance(1, 4) {
                let starting = self.options.start()?;
                sleep_ms(self.rng.below(START_MS_MAX));
                starting.kill()?;
                results.kills += 1;
                results.while_starting += 1;
                done += 1;
            }
            node = self.start()?;
            if args.broken == Some(Break::LoseOne) {
                return Err(self.claim(&node));
            }
            let acknowledged = self.check(&node)?;
            if done >= kills {
                node.kill()?;
                return Ok(acknowledged);
            }
        }
    }

    fn start(&self) -> Result<NodeProcess, String> {
        let mut node = self.options.start()?;
        node.wait_until_ready()?;
        Ok(node)
    }

    fn set_up(&self, node: &NodeProcess) -> Result<(), String> {
        let mut client = self.client(node)?;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let mut texts = vec![format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")];
        texts.extend(self.works.iter().flat_map(|work| work.setup()));
        for text in texts {
            client.statement(&text).map_err(|stop| format!("{text}: {stop:?}"))?;
        }
        Ok(())
    }

    fn client(&self, node: &NodeProcess) -> Result<Client, String> {
        Client::open(node.cql_port, node.api_port)
            .map_err(|stop| format!("no client can connect: {stop:?}\n{}", node.log_end()))
    }

    /// Runs all kinds of work concurrently until the node is killed.
    fn work(&mut self, node: NodeProcess) -> Result<(), String> {
        let after_ms = self.rng.below(WORK_MS_MAX);
        let mut clients = vec![];
        for work in &self.works {
            for number in 0..work.clients() {
                clients.push((work, number, self.client(&node)?, self.rng.fork()));
            }
        }
        let (describe, stopped) = mpsc::channel();
        std::thread::scope(|scope| {
            for (work, number, mut client, mut rng) in clients {
                let describe = describe.clone();
                scope.spawn(move || {
                    let stop = work.work(number, &mut client, &mut rng).expect_err("it ends with the node");
                    // The parent waits for all of them.
                    let _ = describe.send((work.name(), stop));
                });
            }
            drop(describe);
            sleep_ms(after_ms);
            // A work that stops before the kill has found an error.
            let early = stopped.try_recv().ok();
            let log_end = early.as_ref().map(|_| node.log_end());
            let killed = node.kill();
            let late = stopped.iter();
            let wrong = early.into_iter().chain(late).find_map(|(name, stop)| match stop {
                Stop::Gone => None,
                Stop::Wrong(text) => Some(format!(
                    "{name}, while the node ran: {text}\n{}",
                    log_end.as_deref().unwrap_or_default()
                )),
            });
            killed?;
            wrong.map_or(Ok(()), Err)
        })
    }

    /// All kinds of work compare. Returns the number of confirmed acknowledgements.
    fn check(&self, node: &NodeProcess) -> Result<u64, String> {
        let mut sum = 0;
        let mut wrong = vec![];
        for (name, checked) in self.check_each(node)? {
            match checked {
                Ok(acknowledged) => sum += acknowledged,
                Err(stop) => wrong.push(format!("{name}: {stop:?}")),
            }
        }
        if wrong.is_empty() { Ok(sum) } else { Err(wrong.join("\n")) }
    }

    fn check_each(&self, node: &NodeProcess) -> Result<Vec<Checked>, String> {
        let mut clients = vec![];
        for work in &self.works {
            clients.push((work, self.client(node)?));
        }
        Ok(std::thread::scope(|scope| {
            let checks = clients.into_iter().map(|(work, mut client)| {
                let options = &self.options;
                (work.name(), scope.spawn(move || work.check(&mut client, options)))
            });
            let checks: Vec<_> = checks.collect();
            let join = |(name, check): (_, std::thread::ScopedJoinHandle<'_, _>)| {
                (
                    name,
                    check.join().unwrap_or_else(|_| Err(Stop::Wrong("the comparison panicked".to_string()))),
                )
            };
            checks.into_iter().map(join).collect()
        }))
    }

    /// Notes acknowledgements that never happened, and returns the works that detected it.
    fn claim(&self, node: &NodeProcess) -> String {
        let claimed: Vec<&str> =
            self.works.iter().filter(|work| work.claim()).map(|work| work.name()).collect();
        let checks = match self.check_each(node) {
            Ok(checks) => checks,
            Err(error) => return error,
        };
        let mut text = "claims that were never acknowledged are detected, as they must be:".to_string();
        for (name, checked) in checks {
            match checked {
                Err(Stop::Wrong(error)) if claimed.contains(&name) => {
                    text.push_str(&format!("\n  {name}: {error}"))
                }
                _ if claimed.contains(&name) => text.push_str(&format!("\n  {name} has NOT NOTICED it")),
                _ => {}
            }
        }
        text
    }
}

#[allow(clippy::disallowed_methods, reason = "the moment of a kill is real time")]
fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
