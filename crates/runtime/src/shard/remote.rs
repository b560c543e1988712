//! Access to shards from threads of the host process.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use crate::ShardId;
use crate::group::CpuGroup;
use crate::groups::Groups;
use crate::shard::queue::{Inbox, Message};
use crate::shard::reply::Reply;
use crate::shard::{Shard, call_message};

/// The shards of one runtime, for any thread. Cheap to clone.
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

    /// The scheduling groups of the runtime, for creation, renaming, removal, and shares on all shards.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The number of shards.
    pub fn shard_count(&self) -> u32 {
        self.inboxes.len() as u32
    }

    /// Runs `f` as a task of `group` on shard `target`; `f` itself is called there too. The reply can be
    /// awaited on any executor, or waited for with `wait`. A stopped shard answers
    /// [`ShardGone`](crate::ShardGone).
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
        inbox.deliver([Message::Call(message)]);
        reply
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({} shards)", self.shard_count())
    }
}
