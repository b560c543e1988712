//! How threads of the host process reach shards.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use crate::ShardId;
use crate::group::CpuGroup;
use crate::groups::Groups;
use crate::queue::{Inbox, Parcel};
use crate::reply::Reply;
use crate::shard::{Shard, call_message};

/// The shards of one runtime, as seen from any thread. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    inboxes: Arc<[Arc<Inbox>]>,
    groups: Arc<Groups>,
    may_block: bool,
}

impl Remote {
    pub(crate) fn new(inboxes: Arc<[Arc<Inbox>]>, groups: Arc<Groups>, may_block: bool) -> Self {
        Self { inboxes, groups, may_block }
    }

    /// The scheduling groups of the runtime: to create, rename, remove, and to give shares on all shards.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// How many shards there are.
    pub fn shard_count(&self) -> u32 {
        self.inboxes.len() as u32
    }

    /// Runs `f` as a task of `group` on shard `target`; `f` itself runs there too. Await the reply on any executor,
    /// or `wait` for it. A stopped shard answers [`ShardGone`](crate::ShardGone).
    #[track_caller]
    pub fn call<T, F, Fut>(&self, target: ShardId, group: CpuGroup, f: F) -> Reply<T>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let Some(inbox) = self.inboxes.get(target as usize) else {
            panic!("shard {target} of {}", self.shard_count());
        };
        let (message, reply) = call_message(group, Location::caller(), f, self.may_block);
        inbox.deliver([Parcel::Call(message)]);
        reply
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({} shards)", self.shard_count())
    }
}
