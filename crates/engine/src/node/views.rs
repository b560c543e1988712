//! Writes to tables with materialized views or a change log.
//!
//! Such a write changes its partition, rows of the views, and the log together:
//!
//! 1. On the shard of the request it passes the gate of its tables, which a truncate closes.
//! 2. It takes the lock of each partition on the shard that owns it, in the order of shards, tables and keys,
//!    so that two writes never wait for each other.
//! 3. Under the lock it reads the stored rows that it affects, and [`ViewPlan::mutations`] computes the
//!    writes to the views.
//! 4. All mutations are applied as a whole ([`apply_all`]): after a crash base table and views agree, on any
//!    number of shards. The same holds for unlogged batches. What has begun is completed, even if no task
//!    waits for it.
//!
//! The plans are those of the shard of the request. A write that began there before a view was known is not
//! part of the view: a build waits for such writes ([`Views::drained`]) before it reads anything.
//!
//! A change log gets its entries in the same way: [`model::ChangeLog::mutation`] computes them under the
//! lock, from the stored rows if the log has preimages or postimages.
//!
//! **Cost for other tables:** a look into a map that is empty in a node without views and change logs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;

use base::HashMap;
use catalog::Catalog;
use model::{ChangeLog, Mutation, Partition, PartitionKey, PartitionRange, TableId, ViewPlan};
use runtime::{CpuGroup, Event, Shard};

use super::write::apply_all;
use super::{Deadline, NodeShard, on_all, owner};
use crate::error::EngineError;
use crate::read::{Page, ReadCommand};
use crate::shard::EngineShard;

/// The plans of a base table's views, and of its change log.
pub(super) type Plans = Arc<Followers>;

/// What follows from the writes to a base table.
#[derive(Default)]
pub(super) struct Followers {
    pub(super) views: Vec<Arc<ViewPlan>>,
    log: Option<ChangeLog>,
}

impl Followers {
    /// Whether the table with this id is one of them.
    fn has(&self, id: TableId) -> bool {
        self.views.iter().any(|plan| plan.view.id == id)
            || self.log.as_ref().is_some_and(|log| log.log.id == id)
    }
}

/// The views of this shard's catalog, and the writes that are under way here.
#[derive(Default)]
pub struct Views {
    by_base: RefCell<HashMap<TableId, Rc<Base>>>,
    under_way: RefCell<Rc<UnderWay>>,
}

/// A table with views or a change log.
struct Base {
    plans: Plans,
    gate: Rc<Gate>,
}

/// Holds back writes to a base table and its views while they are truncated.
#[derive(Default)]
pub(super) struct Gate {
    closed: Cell<bool>,
    inside: Cell<usize>,
    changed: Event,
}

/// The writes that began between two changes of the views.
#[derive(Default)]
struct UnderWay {
    count: Cell<usize>,
    ended: Event,
}

/// A write under way. It ends when this is dropped.
pub(super) struct Write(Rc<UnderWay>);

impl Drop for Write {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        if self.0.count.get() == 0 {
            self.0.ended.signal();
        }
    }
}

/// A passage through gates. They count it until this is dropped.
pub(super) struct Passage(Vec<Rc<Gate>>);

impl Drop for Passage {
    fn drop(&mut self) {
        for gate in &self.0 {
            gate.inside.set(gate.inside.get() - 1);
            if gate.inside.get() == 0 {
                gate.changed.signal();
            }
        }
    }
}

impl Views {
    /// Counts a write that begins now.
    #[inline]
    pub(super) fn begin(&self) -> Write {
        let under_way = self.under_way.borrow().clone();
        under_way.count.set(under_way.count.get() + 1);
        Write(under_way)
    }

    /// The plans of the table's views and its change log; `None` if it has neither.
    #[inline]
    pub(super) fn of(&self, table: TableId) -> Option<Plans> {
        let by_base = self.by_base.borrow();
        if by_base.is_empty() {
            return None;
        }
        by_base.get(&table).map(|base| base.plans.clone())
    }

    /// Takes over the views and change logs of a catalog. `with_new`: also those that were not known before.
    fn take_over(&self, catalog: &Catalog, with_new: bool) -> Result<(), EngineError> {
        let mut found: HashMap<TableId, Followers> = HashMap::default();
        for table in catalog.all_tables() {
            let Some(definition) = &table.schema.view else { continue };
            let Some(base) = catalog.table_by_id(definition.base_id) else { continue };
            if with_new || self.knows(base.schema.id, table.schema.id) {
                let plan = ViewPlan::new(&base.schema, &table.schema);
                let plan = plan.map_err(|error| EngineError::Invalid(error.to_string()))?;
                found.entry(base.schema.id).or_default().views.push(Arc::new(plan));
            }
        }
        for base in catalog.all_tables() {
            let Some(options) = base.settings.change_log() else { continue };
            let Some(log) = catalog.change_log_of(base) else { continue };
            if with_new || self.knows(base.schema.id, log.schema.id) {
                let log = ChangeLog::new(&base.schema, &log.schema, options);
                let log = log.map_err(|error| EngineError::Invalid(error.to_string()))?;
                found.entry(base.schema.id).or_default().log = Some(log);
            }
        }
        let mut by_base = self.by_base.borrow_mut();
        let gates: HashMap<TableId, Rc<Gate>> =
            by_base.iter().map(|(id, base)| (*id, base.gate.clone())).collect();
        *by_base = found
            .into_iter()
            .map(|(id, plans)| {
                let gate = gates.get(&id).cloned().unwrap_or_default();
                (id, Rc::new(Base { plans: Arc::new(plans), gate }))
            })
            .collect();
        Ok(())
    }

    fn knows(&self, base: TableId, follower: TableId) -> bool {
        self.by_base.borrow().get(&base).is_some_and(|base| base.plans.has(follower))
    }

    /// Waits until the writes that are under way now have ended.
    async fn drained(&self) {
        let old = self.under_way.replace(Rc::default());
        old.ended.until(|| old.count.get() == 0).await;
    }

    fn gate(&self, base: TableId) -> Option<Rc<Gate>> {
        self.by_base.borrow().get(&base).map(|base| base.gate.clone())
    }

    /// Waits until the gates of all these tables are open, and passes them together.
    pub(super) async fn pass(&self, bases: impl Iterator<Item = TableId>) -> Passage {
        let mut gates: Vec<Rc<Gate>> = vec![];
        for gate in bases.filter_map(|base| self.gate(base)) {
            if !gates.iter().any(|known| Rc::ptr_eq(known, &gate)) {
                gates.push(gate);
            }
        }
        while let Some(closed) = gates.iter().find(|gate| gate.closed.get()) {
            closed.changed.until(|| !closed.closed.get()).await;
        }
        gates.iter().for_each(|gate| gate.inside.set(gate.inside.get() + 1));
        Passage(gates)
    }

    /// Closes the gate of a table, and waits until no write is inside.
    pub(super) async fn close_gate(&self, base: TableId) {
        let Some(gate) = self.gate(base) else { return };
        gate.closed.set(true);
        gate.changed.until(|| gate.inside.get() == 0).await;
    }

    pub(super) fn open_gate(&self, base: TableId) {
        if let Some(gate) = self.gate(base) {
            gate.closed.set(false);
            gate.changed.signal();
        }
    }
}

/// Makes the views and change logs of a catalog known on all shards, which have its tables. `with_new`: also
/// those that were not known before.
pub(super) async fn take_over(shard: &Shard, catalog: &Catalog, with_new: bool) -> Result<(), EngineError> {
    let catalog = catalog.clone();
    let take_over = move |shard: Shard| {
        let catalog = catalog.clone();
        async move { NodeShard::of(&shard)?.views.take_over(&catalog, with_new) }
    };
    on_all(shard, CpuGroup::Statement, take_over).await.map(drop)
}

/// Waits on all shards until the writes that are under way now have ended.
pub(super) async fn drain(shard: &Shard) -> Result<(), EngineError> {
    let drained = |shard: Shard| async move {
        NodeShard::of(&shard)?.views.drained().await;
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, drained).await.map(drop)
}

/// One partition of a write to tables with views.
struct Part {
    owner: u32,
    table: TableId,
    key: PartitionKey,
    change: Partition,
    plans: Plans,
}

/// The partitions of tables with views. A partition that several mutations change is one part.
fn parts(node: &NodeShard, mutations: &[Mutation]) -> Vec<Part> {
    let mut parts: BTreeMap<(u32, TableId, PartitionKey), Part> = BTreeMap::new();
    for mutation in mutations {
        let table = mutation.schema.id;
        let Some(plans) = node.views.of(table) else { continue };
        let owner = owner(node, &mutation.schema, mutation.key.token());
        let key = mutation.key.clone();
        let part = parts.entry((owner, table, key.clone())).or_insert_with(|| {
            let change = Partition::default();
            Part { owner, table, key, change, plans }
        });
        part.change.merge(&mutation.partition, &mutation.schema);
    }
    parts.into_values().collect()
}

/// Whether one of the mutations is to a table with views.
pub(super) fn are_concerned(node: &NodeShard, mutations: &[Mutation]) -> bool {
    mutations.iter().any(|mutation| node.views.of(mutation.schema.id).is_some())
}

/// Applies mutations, among them some to tables with views. See the head of this file.
pub(super) async fn apply(
    shard: &Shard,
    mutations: Vec<Mutation>,
    deadline: Deadline,
) -> Result<(), EngineError> {
    // A task of its own: what has begun is completed.
    let call = shard.call(shard.id(), shard.current_group(), move |shard| async move {
        let node = NodeShard::of(&shard)?;
        let _write = node.views.begin();
        let bases = mutations.iter().map(|mutation| mutation.schema.id);
        let pass = async { Ok(node.views.pass(bases).await) };
        let _passage = deadline.limit(&shard, pin!(pass)).await?;
        let parts = parts(&node, &mutations);
        locked(shard.clone(), parts, mutations, deadline).await
    });
    call.await?
}

/// Takes the lock of the last part and adds the writes to its views to `all`; then those of the other parts.
/// Under all locks it applies everything.
fn locked(
    shard: Shard,
    mut parts: Vec<Part>,
    mut all: Vec<Mutation>,
    deadline: Deadline,
) -> Pin<Box<dyn Future<Output = Result<(), EngineError>>>> {
    Box::pin(async move {
        let Some(part) = parts.pop() else { return apply_all(&shard, all, Deadline::NONE).await };
        let group = shard.current_group();
        let call = shard.call(part.owner, group, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            let lock = async { Ok(engine.lock_partition(part.table, part.key.clone()).await) };
            let _guard = deadline.limit(&shard, pin!(lock)).await?;
            all.extend(consequences(&shard, &engine, &part).await?);
            locked(shard.clone(), parts, all, deadline).await
        });
        call.await?
    })
}

/// The writes to the views and the change log of a table that follow from a change of one of its partitions.
async fn consequences(
    shard: &Shard,
    engine: &EngineShard,
    part: &Part,
) -> Result<Vec<Mutation>, EngineError> {
    let Followers { views, log } = &*part.plans;
    let mut all = vec![];
    if let Some(log) = log {
        let before = match log.reads_before() {
            true => engine.changed(part.table, &part.key, &part.change).await?,
            false => Partition::default(),
        };
        let mut random = || shard.random_u64();
        all.extend(log.mutation(&part.key, &before, &part.change, shard.wall_s(), &mut random));
    }
    if views.is_empty() {
        return Ok(all);
    }
    let before = engine.affected(part.table, &part.key, &part.change).await?;
    for plan in views {
        let writes = plan.mutations(&part.key, &before, &part.change, shard.wall_s());
        all.extend(writes.map_err(|error| EngineError::Invalid(error.to_string()))?);
    }
    Ok(all)
}

/// [`super::read_modify_write`] on a table with views.
pub(super) async fn read_modify_write<E>(
    shard: &Shard,
    target: u32,
    command: ReadCommand,
    deadline: Deadline,
    plans: Plans,
    decide: impl FnOnce(&Shard, &Page) -> Result<Option<Vec<Mutation>>, E> + Send + 'static,
) -> Result<Page, E>
where
    E: From<EngineError> + Send + 'static,
{
    let call = shard.call(target, shard.current_group(), move |shard| async move {
        let node = NodeShard::of(&shard)?;
        let _write = node.views.begin();
        deadline.check(&shard)?;
        let PartitionRange::Key(key) = &command.partitions else {
            let text = "a conditional write must be on one partition".to_string();
            return Err(EngineError::Invalid(text).into());
        };
        let pass = async { Ok(node.views.pass([command.table].into_iter()).await) };
        let _passage = deadline.limit(&shard, pin!(pass)).await?;
        let engine = &node.engine;
        let _guard = engine.lock_partition(command.table, key.clone()).await;
        let page = engine.read(&command).await?;
        let Some(mut all) = decide(&shard, &page)? else {
            // The page may show writes of other tasks that are not acknowledged yet.
            engine.table(command.table)?.log.durable().await.map_err(EngineError::from)?;
            return Ok(page);
        };
        let mut change = Partition::default();
        for mutation in &all {
            if (mutation.schema.id, &mutation.key) == (command.table, key) {
                change.merge(&mutation.partition, &mutation.schema);
            }
        }
        let part = Part { owner: target, table: command.table, key: key.clone(), change, plans };
        all.extend(consequences(&shard, engine, &part).await?);
        apply_all(&shard, all, Deadline::NONE).await?;
        Ok(page)
    });
    call.await.map_err(EngineError::from)?
}
