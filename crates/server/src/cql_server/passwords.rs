//! Hashes and checks passwords on a thread of its own: bcrypt takes tens of milliseconds by design, in which
//! a shard serves thousands of requests.
//!
//! A simulation has no other threads: there passwords are checked at once, on the shard.
//!
//! Hashes have Cassandra's form: bcrypt, `$2a$10$…`. The queue is bounded; further logins are refused and may
//! retry.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use bcrypt::Version;
use protocol::CqlError;
use tokio::sync::oneshot;

/// Cassandra's cost: the base-2 logarithm of the number of rounds.
pub const COST_DEFAULT: u32 = 10;
const WAITING_MAX: usize = 1024;

/// A hash of no password. Checking it makes an unknown role take as long as a wrong password.
const NOBODYS_HASH: &str = "$2a$10$abcdefghijklmnopqrstuu8ohKHWppGxmhiKXkqYPAGLglpkalaNu";

type Job = Box<dyn FnOnce() + Send>;

/// Handle of the thread, which ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Passwords {
    /// `None`: jobs run at once.
    jobs: Option<SyncSender<Job>>,
    cost: u32,
}

impl Passwords {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(cost: u32) -> std::io::Result<Self> {
        let (jobs, todo) = sync_channel::<Job>(WAITING_MAX);
        let work = move || todo.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("passwords".to_string()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), cost })
    }

    /// Checks passwords at once, without a thread, for simulations.
    pub fn at_once(cost: u32) -> Self {
        Self { jobs: None, cost }
    }

    /// Hashes a password with a random salt, in the form in which it is stored.
    ///
    /// # Errors
    /// The queue is full, or the password cannot be hashed.
    pub async fn hash(&self, password: &str) -> Result<String, CqlError> {
        let hashed = self.hash_now(password.to_string());
        self.run(hashed).await?
    }

    fn hash_now(&self, password: String) -> impl FnOnce() -> Result<String, CqlError> + Send + use<> {
        let cost = self.cost;
        move || match bcrypt::hash_with_result(password, cost) {
            Ok(parts) => Ok(parts.format_for_version(Version::TwoA)),
            Err(error) => Err(CqlError::Invalid(format!("the password cannot be hashed: {error}"))),
        }
    }

    /// Like [`Self::hash`], for a thread that may block.
    ///
    /// # Errors
    /// Those of [`Self::hash`].
    pub fn hash_blocking(&self, password: &str) -> Result<String, CqlError> {
        self.hash_now(password.to_string())()
    }

    /// Whether the password belongs to the hash. Without a hash the answer is false, after the same time.
    ///
    /// # Errors
    /// The queue is full.
    pub async fn is_right(&self, password: &str, hash: Option<&str>) -> Result<bool, CqlError> {
        let (password, is_known) = (password.to_string(), hash.is_some());
        let hash = hash.unwrap_or(NOBODYS_HASH).to_string();
        // A malformed hash matches no password.
        let check = move || bcrypt::verify(password, &hash).unwrap_or(false);
        Ok(self.run(check).await? && is_known)
    }

    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, CqlError> {
        let Some(jobs) = &self.jobs else { return Ok(job()) };
        let (answer, answered) = oneshot::channel();
        // The answer is dropped if the caller no longer waits.
        let job: Job = Box::new(move || drop(answer.send(job())));
        match jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let text = format!("{WAITING_MAX} logins are waiting; retry later");
                return Err(CqlError::Overloaded(text));
            }
            Err(TrySendError::Disconnected(_)) => {
                return Err(CqlError::Server("the thread that checks passwords has stopped".to_string()));
            }
        }
        let stopped = |_| CqlError::Server("a password could not be checked".to_string());
        answered.await.map_err(stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_hashed_is_recognized() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for passwords in [Passwords::start(4).unwrap(), Passwords::at_once(4)] {
                let hash = passwords.hash("secret").await.unwrap();
                assert!(hash.starts_with("$2a$04$") && hash.len() == 60, "{hash}");
                assert!(passwords.is_right("secret", Some(&hash)).await.unwrap());
                assert!(!passwords.is_right("Secret", Some(&hash)).await.unwrap());
                assert!(!passwords.is_right("secret", None).await.unwrap());
                assert!(!passwords.is_right("secret", Some("no hash")).await.unwrap());
                assert_ne!(passwords.hash("secret").await.unwrap(), hash, "salted");
            }
        });
    }

    #[test]
    fn the_absence_of_a_client_takes_a_check_too() {
        assert!(bcrypt::verify("x", NOBODYS_HASH).is_ok(), "a hash that can be checked");
    }
}
