//! The kinds of work that clients do until the node is killed, each with its notes and its comparison.
//!
//! | work | what must hold after a kill |
//! |---|---|
//! | [`rows`] | an acknowledged INSERT, UPDATE or DELETE is present, and nothing that no client wrote |
//! | [`batches`] | an acknowledged batch is present; its part in one partition is whole, and so is a logged batch |
//! | [`conditions`] | no version has two winners, versions never go back, and an answered version stays |
//! | [`counters`] | at least the acknowledged and at most the sent increments |
//! | [`changes`] | an acknowledged CREATE, ALTER or DROP has happened, and rows belong to the table they were written to |
//! | [`truncates`] | an acknowledged TRUNCATE leaves nothing, one in flight everything or nothing |
//! | [`copies`] | an acknowledged snapshot is complete, an acknowledged load is present |
//! | [`views`] | the views of a table have the rows that follow from it |
//! | [`maintenance`] | nothing: flushes and compactions are in progress when the node is killed |

mod batches;
mod changes;
mod conditions;
mod copies;
mod counters;
mod maintenance;
mod rows;
mod truncates;
mod views;

use base::rng::Rng;

use crate::client::{Client, Stop};
use crate::node_process::NodeOptions;

/// The keyspace of all tables except those of [`changes`].
pub const KEYSPACE: &str = "ledger";

/// One kind of work on one data directory.
pub trait Workload: Sync {
    fn name(&self) -> &'static str;

    /// Statements that create its tables.
    fn setup(&self) -> Vec<String>;

    /// Number of concurrent clients.
    fn clients(&self) -> u64 {
        1
    }

    /// Works until the node is killed. `client` is a number below [`Self::clients`].
    ///
    /// # Errors
    /// [`Stop::Gone`] is the normal end.
    fn work(&self, client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop>;

    /// Compares the content with the notes; the content found is certain from then on. Returns the number of
    /// acknowledgements that were compared.
    ///
    /// # Errors
    /// The differences.
    fn check(&self, connection: &mut Client, options: &NodeOptions) -> Result<u64, Stop>;

    /// Notes an acknowledgement that never came. `false`: this work has no acknowledgements.
    fn claim(&self) -> bool;
}

/// All kinds of work.
pub fn all(options: &NodeOptions) -> Vec<Box<dyn Workload>> {
    vec![
        Box::<rows::Rows>::default(),
        Box::<batches::Batches>::default(),
        Box::<conditions::Conditions>::default(),
        Box::<counters::Counters>::default(),
        Box::<changes::Changes>::default(),
        Box::<truncates::Truncates>::default(),
        Box::new(copies::Copies::new(options.clone())),
        Box::<views::Views>::default(),
        Box::new(maintenance::Maintenance),
    ]
}

/// A value derived from two numbers, of 8 to 300 characters.
fn value(number: i64, version: u32) -> String {
    let mut rng = Rng::new(number as u64 ^ u64::from(version) << 48);
    let len = 8 + rng.below(293) as usize;
    let mut text = format!("{number}.{version}.");
    while text.len() < len {
        text.push(char::from(b'a' + rng.below(26) as u8));
    }
    text
}

/// An error with some of the differences.
fn some(mut wrong: Vec<String>) -> Result<(), Stop> {
    if wrong.is_empty() {
        return Ok(());
    }
    let count = wrong.len();
    wrong.truncate(5);
    Err(Stop::Wrong(format!("{count} wrong, such as: {}", wrong.join("; "))))
}
