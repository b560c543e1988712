//! Simulated shards, disk and time. A workload keeps a constant number of requests outstanding.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use iosched::{Completion, Direction, Disk, DiskModel, DiskOptions, IoQueue, Ticket};

/// A workload: `depth` requests of `bytes` each are always outstanding on one shard.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub shard: usize,
    pub class: usize,
    pub direction: Direction,
    pub bytes: u64,
    pub depth: usize,
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Load {
    pub fn new(class: usize, direction: Direction, bytes: u64, depth: usize) -> Self {
        Self { shard: 0, class, direction, bytes, depth, from_ns: 0, until_ns: u64::MAX }
    }
}

/// A request that was started.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    pub at_ns: u64,
    pub class: usize,
    pub bytes: u64,
    pub cost_ns: u64,
    pub waited_ns: u64,
    /// Time from the arrival of the request to its completion.
    pub took_ns: u64,
}

pub struct Lab {
    pub disk: Arc<Disk>,
    pub queues: Vec<IoQueue<(usize, u64)>>,
    pub started: Vec<Started>,
    pub inflight_max_ns: u64,
    /// Rates of the simulated disk; the scheduler may have been given others.
    real: DiskModel,
    free_at_ns: u64,
    in_disk: BTreeMap<u64, (usize, usize, Ticket)>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// The next time at which each shard polls its queue.
    looks_at_ns: Vec<u64>,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Issue(usize),
    Complete(u64),
    Look(usize),
}

impl Lab {
    pub fn new(model: DiskModel, real: DiskModel, shards: usize) -> Self {
        Self::with(DiskOptions { model: Some(model), shards: shards as u32, ..DiskOptions::default() }, real)
    }

    pub fn with(options: DiskOptions, real: DiskModel) -> Self {
        let (disk, shards) = (Arc::new(Disk::new(options)), options.shards as usize);
        Self {
            queues: (0..shards).map(|_| IoQueue::new(Arc::clone(&disk))).collect(),
            disk,
            started: vec![],
            inflight_max_ns: 0,
            real,
            free_at_ns: 0,
            in_disk: BTreeMap::new(),
            events: BinaryHeap::new(),
            looks_at_ns: vec![u64::MAX; shards],
            count: 0,
        }
    }

    pub fn set_shares(&mut self, class: usize, shares: u32) {
        self.queues.iter_mut().for_each(|queue| queue.set_shares(class, shares));
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at_ns, self.count, event)));
    }

    pub fn run(&mut self, loads: &[Load], for_ns: u64) {
        for (number, load) in loads.iter().enumerate() {
            (0..load.depth).for_each(|_| self.at(load.from_ns, Event::Issue(number)));
        }
        while let Some(Reverse((now_ns, _, event))) = self.events.pop() {
            if now_ns > for_ns {
                break;
            }
            let shard = match event {
                Event::Issue(number) => {
                    let load = loads[number];
                    if now_ns >= load.until_ns {
                        continue;
                    }
                    let queue = &mut self.queues[load.shard];
                    match queue.start(load.class, load.direction, load.bytes, now_ns) {
                        Some(ticket) => self.begin(loads, number, now_ns, now_ns, ticket),
                        None => queue.push(load.class, load.direction, load.bytes, now_ns, (number, now_ns)),
                    }
                    load.shard
                }
                Event::Complete(id) => {
                    let (shard, number, ticket) = self.in_disk.remove(&id).unwrap();
                    self.queues[shard].complete(
                        ticket,
                        Completion::Moved { bytes: u64::MAX, is_direct: true },
                        now_ns,
                    );
                    self.at(now_ns, Event::Issue(number));
                    shard
                }
                Event::Look(shard) if self.looks_at_ns[shard] == now_ns => {
                    self.looks_at_ns[shard] = u64::MAX;
                    shard
                }
                Event::Look(_) => continue,
            };
            while let Some(((number, since_ns), ticket)) = self.queues[shard].next(now_ns) {
                self.begin(loads, number, since_ns, now_ns, ticket);
            }
            if let Some(wake_ns) = self.queues[shard].wake_at_ns() {
                assert!(wake_ns > now_ns, "looking again at {wake_ns} gets nowhere");
                if wake_ns < self.looks_at_ns[shard] {
                    self.looks_at_ns[shard] = wake_ns;
                    self.at(wake_ns, Event::Look(shard));
                }
            }
        }
    }

    fn begin(&mut self, loads: &[Load], number: usize, since_ns: u64, now_ns: u64, ticket: Ticket) {
        let Load { shard, class, direction, bytes, .. } = loads[number];
        let cost_ns = self.disk.model().cost_ns(direction, bytes);
        self.inflight_max_ns = self.inflight_max_ns.max(self.disk.inflight_ns());
        self.free_at_ns = self.free_at_ns.max(now_ns) + self.real.cost_ns(direction, bytes);
        // 50 us of latency for the way to the disk and back.
        let completes_ns = self.free_at_ns + 50_000;
        let (waited_ns, took_ns) = (now_ns - since_ns, completes_ns - since_ns);
        self.started.push(Started { at_ns: now_ns, class, bytes, cost_ns, waited_ns, took_ns });
        self.count += 1;
        let id = self.count;
        self.in_disk.insert(id, (shard, number, ticket));
        self.at(completes_ns, Event::Complete(id));
    }

    /// 95th percentile of the time that requests of a class took that started in a period.
    pub fn p95_ns(&self, class: usize, from_ns: u64, until_ns: u64) -> u64 {
        let started = self.started.iter().filter(|started| started.class == class);
        let started = started.filter(|started| (from_ns..until_ns).contains(&started.at_ns));
        let mut took_ns: Vec<u64> = started.map(|started| started.took_ns).collect();
        took_ns.sort_unstable();
        took_ns[took_ns.len() * 95 / 100]
    }

    /// Total cost of the requests of a class that started in a period.
    pub fn cost_ns(&self, class: usize, from_ns: u64, until_ns: u64) -> u64 {
        let started = self.started.iter().filter(|started| started.class == class);
        started
            .filter(|started| (from_ns..until_ns).contains(&started.at_ns))
            .map(|started| started.cost_ns)
            .sum()
    }
}
