//! A sorted map with cheap snapshots: a persistent B+tree whose shared nodes are copied on write.
//!
//! 1. Entries are in the leaves, in order. A branch has, for each child, the least key under it.
//! 2. A snapshot is the root pointer. While a snapshot exists, a writer copies the shared nodes on its path
//!    (`Rc::make_mut`), so the snapshot does not change; without a snapshot nothing is copied.
//! 3. A cursor holds its path, so it can move in both directions and needs no borrow of the tree.
//! 4. A single entry is stored in the map itself, without a node: in many tables most partitions have one
//!    row.
//!
//! Guarantees: `heap_bytes` is the memory that the current tree's nodes have requested from the allocator, to
//! the byte (the values' own memory is accounted by the caller). A memtable is freed as a whole; the further
//! operations of a cache are in [`edit`].

mod edit;

use std::cmp::Ordering;
use std::rc::Rc;

/// Limit of entries in a leaf and of children in a branch. Measured: larger leaves make inserts move more,
/// smaller ones make lookups deeper; 24 was level with 32 and 16 within noise.
const NODE_MAX: usize = 24;

/// The two reference counts before the value of an `Rc`.
pub const RC_BYTES: usize = 2 * size_of::<usize>();

#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Branch(Vec<(K, Rc<Node<K, V>>)>),
}

#[derive(Clone)]
enum Root<K, V> {
    Empty,
    One((K, V)),
    Node(Rc<Node<K, V>>),
}

/// See the head of this file. A clone is a snapshot.
#[derive(Clone)]
pub struct Tree<K, V> {
    root: Root<K, V>,
    len: usize,
    heap_bytes: usize,
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Self { root: Root::Empty, len: 0, heap_bytes: 0 }
    }
}

/// Properties of a tree's keys.
pub trait TreeKey: Clone {
    /// Comparing two keys costs about as much as reading one. A node is then searched linearly: the CPU
    /// prefetches and waits for all of the node's memory at once, while each step of a binary search waits
    /// for the step before.
    const IS_CHEAP: bool;
}

/// Nearly always decided by the tokens.
impl TreeKey for model::PartitionKey {
    const IS_CHEAP: bool = true;
}

/// Compared value by value, by type.
impl TreeKey for model::ClusteringKey {
    const IS_CHEAP: bool = false;
}

impl TreeKey for model::Position {
    const IS_CHEAP: bool = false;
}

/// Number of keys at the beginning of `entries` for which `before` is true; it is false for all others.
#[inline]
fn count_before<K: TreeKey, E>(entries: &[(K, E)], before: impl Fn(&K) -> bool) -> usize {
    if K::IS_CHEAP {
        return entries.iter().position(|(key, _)| !before(key)).unwrap_or(entries.len());
    }
    entries.partition_point(|(key, _)| before(key))
}

/// The index of the key, or the index at which it would be inserted.
#[inline]
fn find<K: TreeKey, E>(entries: &[(K, E)], order: impl Fn(&K) -> Ordering) -> Result<usize, usize> {
    let at = count_before(entries, |key| order(key).is_lt());
    if entries.get(at).is_some_and(|(key, _)| order(key).is_eq()) { Ok(at) } else { Err(at) }
}

impl<K: TreeKey, V: Clone> Tree<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all nodes, including keys and values stored in them, without memory that those refer to.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The value at the key for which `order` (the order of a key relative to the searched one) returns
    /// `Equal`.
    #[inline]
    pub fn get(&self, order: impl Fn(&K) -> Ordering) -> Option<&V> {
        let mut node = match &self.root {
            Root::Empty => return None,
            Root::One((key, value)) => return order(key).is_eq().then_some(value),
            Root::Node(node) => &**node,
        };
        loop {
            match node {
                Node::Branch(children) => node = &children[child_of(children, &order)?].1,
                Node::Leaf(entries) => {
                    let at = find(entries, &order).ok()?;
                    return Some(&entries[at].1);
                }
            }
        }
    }

    /// The first value, if it can be reached without descending the tree.
    #[inline]
    pub fn near_first(&self) -> Option<&V> {
        match &self.root {
            Root::One((_, value)) => Some(value),
            Root::Node(node) => match &**node {
                Node::Leaf(entries) => entries.first().map(|(_, value)| value),
                Node::Branch(_) => None,
            },
            Root::Empty => None,
        }
    }

    /// Lets `update` change the value at `key`, which `make` creates if the key is new. Returns whether it
    /// was new, and the result of `update`.
    #[inline]
    pub fn upsert<R>(
        &mut self,
        key: &K,
        order: impl Fn(&K) -> Ordering,
        make: impl FnOnce() -> V,
        update: impl FnOnce(&mut V) -> R,
    ) -> (bool, R) {
        match &mut self.root {
            Root::Empty => {
                let mut value = make();
                let result = update(&mut value);
                self.root = Root::One((key.clone(), value));
                self.len = 1;
                return (true, result);
            }
            Root::One((only, value)) if order(only).is_eq() => return (false, update(value)),
            root => self.heap_bytes += root.make_node(),
        };
        let Root::Node(root) = &mut self.root else { unreachable!("made above") };
        let mut done = Upsert { make: Some(make), update: Some(update), inserted: false, result: None };
        let split = insert(root, key, &order, &mut done, &mut self.heap_bytes);
        if let Some((separator, right)) = split {
            let left = root.clone();
            let mut children = Vec::with_capacity(NODE_MAX);
            children.push((first_key(&left), left));
            children.push((separator, right));
            self.heap_bytes += node_bytes::<K, V>() + children.capacity() * branch_entry_bytes::<K, V>();
            self.root = Root::Node(Rc::new(Node::Branch(children)));
        }
        self.len += usize::from(done.inserted);
        (done.inserted, done.result.expect("update ran"))
    }

    /// A cursor before the first key for which `order` does not return `Less`.
    pub fn cursor(&self, order: impl Fn(&K) -> Ordering) -> Cursor<K, V> {
        let mut path = Vec::new();
        let mut next = match &self.root {
            Root::Empty => None,
            Root::One(entry) => return Cursor::One { passed: order(&entry.0).is_lt(), entry: entry.clone() },
            Root::Node(root) => Some(root.clone()),
        };
        while let Some(node) = next.take() {
            let at = match &*node {
                Node::Branch(children) => {
                    let at = count_before(children, |key| order(key).is_lt()).saturating_sub(1);
                    next = Some(children[at].1.clone());
                    at
                }
                Node::Leaf(entries) => count_before(entries, |key| order(key).is_lt()),
            };
            path.push((node, at));
        }
        Cursor::Path(Path(path))
    }

    /// The entries, one leaf at a time and in no particular order; nodes are freed on the way. Nodes shared
    /// with a snapshot are skipped.
    pub fn drain_in_steps(self) -> impl Iterator<Item = Vec<(K, V)>> {
        let (mut nodes, mut one) = match self.root {
            Root::Empty => (vec![], None),
            Root::One(entry) => (vec![], Some(vec![entry])),
            Root::Node(root) => (vec![root], None),
        };
        std::iter::from_fn(move || {
            while let Some(node) = nodes.pop() {
                match Rc::try_unwrap(node) {
                    Ok(Node::Leaf(entries)) => return Some(entries),
                    Ok(Node::Branch(children)) => nodes.extend(children.into_iter().map(|(_, child)| child)),
                    Err(_shared) => {}
                }
            }
            one.take()
        })
    }

    /// Recomputes [`Self::heap_bytes`] from the nodes.
    #[cfg(test)]
    pub fn recount(&self) -> usize {
        fn count<K, V>(node: &Node<K, V>) -> usize {
            node_bytes::<K, V>()
                + match node {
                    Node::Leaf(entries) => entries.capacity() * size_of::<(K, V)>(),
                    Node::Branch(children) => {
                        let below: usize = children.iter().map(|(_, child)| count(child)).sum();
                        children.capacity() * branch_entry_bytes::<K, V>() + below
                    }
                }
        }
        match &self.root {
            Root::Node(root) => count(root),
            Root::Empty | Root::One(_) => 0,
        }
    }
}

impl<K: Clone, V: Clone> Root<K, V> {
    /// Moves a single entry into a leaf with space for another. Returns the bytes requested for it.
    fn make_node(&mut self) -> usize {
        match std::mem::replace(self, Self::Empty) {
            Self::One(only) => {
                let mut entries = Vec::with_capacity(2);
                entries.push(only);
                let bytes = node_bytes::<K, V>() + entries.capacity() * size_of::<(K, V)>();
                *self = Self::Node(Rc::new(Node::Leaf(entries)));
                bytes
            }
            other => {
                *self = other;
                0
            }
        }
    }
}

const fn node_bytes<K, V>() -> usize {
    RC_BYTES + size_of::<Node<K, V>>()
}

const fn branch_entry_bytes<K, V>() -> usize {
    size_of::<(K, Rc<Node<K, V>>)>()
}

/// The child that has the key, if any has it.
#[inline]
fn child_of<K: TreeKey, V>(
    children: &[(K, Rc<Node<K, V>>)],
    order: impl Fn(&K) -> Ordering,
) -> Option<usize> {
    count_before(children, |key| order(key).is_le()).checked_sub(1)
}

fn first_key<K: Clone, V>(node: &Node<K, V>) -> K {
    match node {
        Node::Leaf(entries) => entries[0].0.clone(),
        Node::Branch(children) => children[0].0.clone(),
    }
}

/// State of an upsert: the functions not yet called, and the result.
struct Upsert<M, U, R> {
    make: Option<M>,
    update: Option<U>,
    inserted: bool,
    result: Option<R>,
}

type Split<K, V> = Option<(K, Rc<Node<K, V>>)>;

/// Upserts under `node`. If it became too large, returns its right half and that half's least key.
fn insert<K: TreeKey, V: Clone, M: FnOnce() -> V, U: FnOnce(&mut V) -> R, R>(
    node: &mut Rc<Node<K, V>>,
    key: &K,
    order: &impl Fn(&K) -> Ordering,
    upsert: &mut Upsert<M, U, R>,
    heap_bytes: &mut usize,
) -> Split<K, V> {
    match make_mut(node, heap_bytes) {
        Node::Leaf(entries) => {
            let update = upsert.update.take().expect("one leaf is reached");
            match find(entries, order) {
                Ok(at) => {
                    upsert.result = Some(update(&mut entries[at].1));
                    None
                }
                Err(at) => {
                    upsert.inserted = true;
                    let mut value = (upsert.make.take().expect("one leaf is reached"))();
                    upsert.result = Some(update(&mut value));
                    let before = entries.capacity();
                    if entries.len() == before {
                        // Grows slowly, because many partitions have few rows.
                        entries.reserve_exact(before.min(NODE_MAX - before).max(1));
                    }
                    entries.insert(at, (key.clone(), value));
                    *heap_bytes += (entries.capacity() - before) * size_of::<(K, V)>();
                    (entries.len() == NODE_MAX).then(|| {
                        // Keys that arrive in order leave full leaves.
                        let cut = if at == NODE_MAX - 1 { NODE_MAX - 1 } else { NODE_MAX / 2 };
                        let mut right = Vec::with_capacity(if cut == NODE_MAX / 2 { NODE_MAX } else { 4 });
                        right.extend(entries.drain(cut..));
                        *heap_bytes += node_bytes::<K, V>() + right.capacity() * size_of::<(K, V)>();
                        (right[0].0.clone(), Rc::new(Node::Leaf(right)))
                    })
                }
            }
        }
        Node::Branch(children) => {
            let at = child_of(children, order).unwrap_or_else(|| {
                // The key is less than every other, so it becomes the least key of the first child.
                children[0].0 = key.clone();
                0
            });
            let (separator, right) = insert(&mut children[at].1, key, order, upsert, heap_bytes)?;
            children.insert(at + 1, (separator, right));
            (children.len() == NODE_MAX).then(|| {
                let cut = if at + 1 == NODE_MAX - 1 { NODE_MAX - 1 } else { NODE_MAX / 2 };
                let mut right = Vec::with_capacity(NODE_MAX);
                right.extend(children.drain(cut..));
                *heap_bytes += node_bytes::<K, V>() + right.capacity() * branch_entry_bytes::<K, V>();
                (right[0].0.clone(), Rc::new(Node::Branch(right)))
            })
        }
    }
}

/// The node, copied first if a snapshot shares it. A copy of a leaf has space for its entries and one more,
/// which may be less than the original had.
fn make_mut<'a, K: Clone, V: Clone>(
    node: &'a mut Rc<Node<K, V>>,
    heap_bytes: &mut usize,
) -> &'a mut Node<K, V> {
    if Rc::get_mut(node).is_none() {
        let (before, after, copy) = match &**node {
            Node::Leaf(entries) => {
                let mut copy = Vec::with_capacity((entries.len() + 1).min(NODE_MAX));
                copy.extend(entries.iter().cloned());
                let entry = size_of::<(K, V)>();
                (entries.capacity() * entry, copy.capacity() * entry, Node::Leaf(copy))
            }
            Node::Branch(children) => {
                let mut copy = Vec::with_capacity(NODE_MAX);
                copy.extend(children.iter().cloned());
                let entry = branch_entry_bytes::<K, V>();
                (children.capacity() * entry, copy.capacity() * entry, Node::Branch(copy))
            }
        };
        *heap_bytes = *heap_bytes + after - before;
        *node = Rc::new(copy);
    }
    Rc::get_mut(node).expect("not shared now")
}

/// A position between two entries of a snapshot.
pub enum Cursor<K, V> {
    /// In a map of a single entry: whether the cursor is after it.
    One {
        entry: (K, V),
        passed: bool,
    },
    Path(Path<K, V>),
}

/// The path from the root to a leaf: each node with the index of the child taken; in the leaf, the index of
/// the next entry.
pub struct Path<K, V>(Vec<(Rc<Node<K, V>>, usize)>);

impl<K, V> Cursor<K, V> {
    /// The entry after the cursor, which moves over it.
    #[inline]
    pub fn next(&mut self) -> Option<&(K, V)> {
        match self {
            Self::One { entry, passed } => (!std::mem::replace(passed, true)).then_some(&*entry),
            Self::Path(path) => path.next(),
        }
    }

    /// The entry before the cursor, which moves back over it.
    #[inline]
    pub fn prev(&mut self) -> Option<&(K, V)> {
        match self {
            Self::One { entry, passed } => std::mem::replace(passed, false).then_some(&*entry),
            Self::Path(path) => path.prev(),
        }
    }

    /// The entries from the cursor to the end of its leaf, which will be needed soon.
    pub fn rest_of_leaf(&self) -> &[(K, V)] {
        let Self::Path(Path(path)) = self else { return &[] };
        match path.last().map(|(node, at)| (&**node, *at)) {
            Some((Node::Leaf(entries), at)) => &entries[at..],
            _ => &[],
        }
    }
}

impl<K, V> Path<K, V> {
    fn next(&mut self) -> Option<&(K, V)> {
        loop {
            let (node, at) = self.0.last_mut()?;
            match &**node {
                Node::Leaf(entries) if *at < entries.len() => {
                    *at += 1;
                    break;
                }
                _ => {
                    if !self.step_leaf(1) {
                        return None;
                    }
                }
            }
        }
        let (node, at) = self.0.last()?;
        match &**node {
            Node::Leaf(entries) => entries.get(*at - 1),
            Node::Branch(_) => unreachable!("a path ends in a leaf"),
        }
    }

    fn prev(&mut self) -> Option<&(K, V)> {
        loop {
            let (_, at) = self.0.last_mut()?;
            if *at > 0 {
                *at -= 1;
                break;
            }
            if !self.step_leaf(-1) {
                return None;
            }
        }
        let (node, at) = self.0.last()?;
        match &**node {
            Node::Leaf(entries) => entries.get(*at),
            Node::Branch(_) => unreachable!("a path ends in a leaf"),
        }
    }

    /// Moves to the next (`by` = 1) or previous (`by` = -1) leaf; false, without a move, if there is none.
    fn step_leaf(&mut self, by: isize) -> bool {
        let can_step = |(node, at): &(Rc<Node<K, V>>, usize)| match &**node {
            Node::Branch(children) => at.checked_add_signed(by).is_some_and(|to| to < children.len()),
            Node::Leaf(_) => false,
        };
        let Some(depth) = self.0.iter().rposition(can_step) else { return false };
        self.0.truncate(depth + 1);
        let (_, at) = &mut self.0[depth];
        *at = at.checked_add_signed(by).expect("checked above");
        loop {
            let (node, at) = self.0.last().expect("the path is not empty");
            let Node::Branch(children) = &**node else { break };
            let child = children[*at].1.clone();
            let at = match (&*child, by > 0) {
                (_, true) => 0,
                (Node::Branch(children), false) => children.len() - 1,
                (Node::Leaf(entries), false) => entries.len(),
            };
            self.0.push((child, at));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;
    use std::collections::BTreeMap;

    impl TreeKey for u64 {
        const IS_CHEAP: bool = true;
    }

    fn put(tree: &mut Tree<u64, u64>, key: u64, value: u64) -> bool {
        tree.upsert(&key, |probe| probe.cmp(&key), || 0, |slot| *slot = value).0
    }

    fn contents(tree: &Tree<u64, u64>) -> Vec<(u64, u64)> {
        let mut cursor = tree.cursor(|_| Ordering::Greater);
        std::iter::from_fn(|| cursor.next().copied()).collect()
    }

    #[test]
    fn it_is_a_sorted_map_and_snapshots_do_not_change() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let keys = [10, 1000, 100_000][rng.index(3)];
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            let mut snapshots = vec![];
            for step in 0..2000 {
                // Keys in order for some seeds, random for others.
                let key = if seed % 3 == 0 { step } else { rng.below(keys) };
                assert_eq!(put(&mut tree, key, step), model.insert(key, step).is_none());
                if rng.chance(1, 200) {
                    snapshots.push((tree.clone(), model.clone()));
                }
                if rng.chance(1, 50) {
                    snapshots.pop();
                }
            }
            snapshots.push((tree.clone(), model.clone()));
            let mut taken = BTreeMap::new();
            for lot in snapshots.last().expect("pushed above").0.clone().drain_in_steps() {
                taken.extend(lot);
            }
            assert!(taken.is_empty() || tree.len() == 1, "nothing is taken from a snapshot that is shared");
            for (tree, model) in &snapshots {
                assert_eq!(tree.len(), model.len());
                assert_eq!(contents(tree), model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            }
            assert_eq!(tree.heap_bytes(), tree.recount(), "seed {seed}");
            for _ in 0..200 {
                let key = rng.below(keys);
                assert_eq!(tree.get(|probe| probe.cmp(&key)), model.get(&key));
                let mut cursor = tree.cursor(|probe| probe.cmp(&key));
                let mut expect = model.range(key..);
                let mut back = model.range(..key);
                for _ in 0..rng.below(60) {
                    assert_eq!(cursor.next().copied(), expect.next().map(|(k, v)| (*k, *v)));
                }
                let mut cursor = tree.cursor(|probe| probe.cmp(&key));
                for _ in 0..rng.below(60) {
                    assert_eq!(cursor.prev().copied(), back.next_back().map(|(k, v)| (*k, *v)));
                }
            }
        }
    }

    #[test]
    fn taken_apart_it_gives_every_entry_once() {
        for count in [0, 1, 2, 23, 24, 25, 5000] {
            let mut tree = Tree::default();
            (0..count).for_each(|key| assert!(put(&mut tree, key * 7919 % 10_007, key)));
            let expected = contents(&tree);
            let mut taken: Vec<_> = tree.drain_in_steps().flatten().collect();
            taken.sort_unstable();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn a_cursor_turns_round() {
        let mut tree = Tree::default();
        (0..500).for_each(|key| assert!(put(&mut tree, key, key)));
        let mut cursor = tree.cursor(|probe| probe.cmp(&250));
        for key in 250..400 {
            assert_eq!(cursor.next().copied(), Some((key, key)));
        }
        for key in (0..400).rev() {
            assert_eq!(cursor.prev().copied(), Some((key, key)));
        }
        assert_eq!(cursor.prev(), None);
        assert_eq!(cursor.next().copied(), Some((0, 0)));
    }
}
