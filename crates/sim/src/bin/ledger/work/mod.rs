//! The kinds of work that clients do until the node is killed, each with its notes and its comparison.
//!
//! | work | what must hold after a kill |
//! |---|---|
//! | [`rows`] | an acknowledged INSERT, UPDATE or DELETE is there, and nothing that nobody wrote |
//! | [`batches`] | an acknowledged batch is there; what it has in one partition is whole, and so is a logged one on one shard |
//! | [`conditions`] | no version has two winners, versions never go back, and a told version stays |
//! | [`counters`] | not less than was acknowledged, not more than was sent |
//! | [`changes`] | an acknowledged CREATE, ALTER or DROP has happened, and rows belong to the table they were written to |
//! | [`truncates`] | an acknowledged TRUNCATE leaves nothing, one under way everything or nothing |
//! | [`copies`] | an acknowledged snapshot is complete, an acknowledged load is there |
//! | [`upkeep`] | nothing: flushes and compactions are under way when the node is killed |

mod batches;
mod changes;
mod conditions;
mod copies;
mod counters;
mod rows;
mod truncates;
mod upkeep;

use base::rng::Rng;

use crate::client::{Client, Stop};
use crate::node::NodeOptions;

/// The keyspace of all tables but those of [`changes`].
pub const KEYSPACE: &str = "ledger";

/// One kind of work on one data directory.
pub trait Work: Sync {
    fn name(&self) -> &'static str;

    /// Statements that make its tables.
    fn setup(&self) -> Vec<String>;

    /// How many clients do it at a time.
    fn clients(&self) -> u64 {
        1
    }

    /// Works until the node is gone; `client` of [`Self::clients`] is doing it.
    ///
    /// # Errors
    /// [`Stop::Gone`] is the rule.
    fn work(&self, client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop>;

    /// Compares what is there with the notes, and takes what it finds for certain. Gives the number of acknowledgements that
    /// were held against it.
    ///
    /// # Errors
    /// What is missing or too much.
    fn check(&self, connection: &mut Client, options: &NodeOptions) -> Result<u64, Stop>;

    /// Notes an acknowledgement that never came. `false`: there is nothing to be acknowledged.
    fn claim(&self) -> bool;
}

/// All kinds of work; `shards` is how many the node has.
pub fn all(shards: u32, options: &NodeOptions) -> Vec<Box<dyn Work>> {
    vec![
        Box::<rows::Rows>::default(),
        Box::new(batches::Batches::new(shards)),
        Box::<conditions::Conditions>::default(),
        Box::<counters::Counters>::default(),
        Box::<changes::Changes>::default(),
        Box::<truncates::Truncates>::default(),
        Box::new(copies::Copies::new(options.clone())),
        Box::new(upkeep::Upkeep),
    ]
}

/// A value that follows from two numbers, of 8 to 300 characters.
fn value(number: i64, version: u32) -> String {
    let mut rng = Rng::new(number as u64 ^ u64::from(version) << 48);
    let len = 8 + rng.below(293) as usize;
    let mut text = format!("{number}.{version}.");
    while text.len() < len {
        text.push(char::from(b'a' + rng.below(26) as u8));
    }
    text
}

/// Some of what is wrong, for an error.
fn some(mut wrong: Vec<String>) -> Result<(), Stop> {
    if wrong.is_empty() {
        return Ok(());
    }
    let count = wrong.len();
    wrong.truncate(5);
    Err(Stop::Wrong(format!("{count} wrong, such as: {}", wrong.join("; "))))
}
