//! Operations of the tree for caches: removing single entries, changing the values of a range, and finding
//! neighbours.
//!
//! Nodes are not merged; a node is removed with its last entry. A branch's key may then be less than the
//! least key under it, which does not affect searches.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{
    Node, Root, Tree, TreeKey, branch_entry_bytes, child_of, count_before, find, make_mut, node_bytes,
};

impl<K: TreeKey, V: Clone> Tree<K, V> {
    /// The first entry for which `order` does not return `Less`.
    pub fn first_from(&self, order: impl Fn(&K) -> Ordering) -> Option<&(K, V)> {
        match &self.root {
            Root::Empty => None,
            Root::One(entry) => (!order(&entry.0).is_lt()).then_some(entry),
            Root::Node(root) => first_from(root, &order),
        }
    }

    /// The last entry for which `order` returns `Less`.
    pub fn last_before(&self, order: impl Fn(&K) -> Ordering) -> Option<&(K, V)> {
        match &self.root {
            Root::Empty => None,
            Root::One(entry) => order(&entry.0).is_lt().then_some(entry),
            Root::Node(root) => last_before(root, &order),
        }
    }

    /// Changes, in order, the values of the entries for which `from` does not return `Less` and `until` does.
    /// Ends early when `change` returns false.
    pub fn for_each_mut(
        &mut self,
        from: impl Fn(&K) -> Ordering,
        until: impl Fn(&K) -> Ordering,
        change: &mut impl FnMut(&K, &mut V) -> bool,
    ) {
        match &mut self.root {
            Root::Empty => {}
            Root::One((key, value)) => {
                if !from(key).is_lt() && until(key).is_lt() {
                    change(key, value);
                }
            }
            Root::Node(root) => {
                for_each_mut(root, &from, &until, change, &mut self.heap_bytes);
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, order: impl Fn(&K) -> Ordering) -> Option<V> {
        self.get(&order)?;
        self.len -= 1;
        let root = match std::mem::replace(&mut self.root, Root::Empty) {
            Root::Empty => unreachable!("it was found"),
            Root::One((_, value)) => return Some(value),
            Root::Node(root) => root,
        };
        let mut root = root;
        let value = remove(&mut root, &order, &mut self.heap_bytes);
        loop {
            let below = match &*root {
                Node::Leaf(entries) if entries.is_empty() => {
                    self.heap_bytes -= bytes_of(&root);
                    return Some(value);
                }
                Node::Branch(children) if children.len() == 1 => children[0].1.clone(),
                _ => break,
            };
            self.heap_bytes -= bytes_of(&root);
            root = below;
        }
        self.root = Root::Node(root);
        Some(value)
    }
}

fn first_from<'a, K: TreeKey, V>(
    node: &'a Node<K, V>,
    order: &impl Fn(&K) -> Ordering,
) -> Option<&'a (K, V)> {
    match node {
        Node::Leaf(entries) => entries.get(count_before(entries, |key| order(key).is_lt())),
        Node::Branch(children) => {
            let at = count_before(children, |key| order(key).is_lt()).saturating_sub(1);
            children[at..].iter().find_map(|(_, child)| first_from(child, order))
        }
    }
}

fn last_before<'a, K: TreeKey, V>(
    node: &'a Node<K, V>,
    order: &impl Fn(&K) -> Ordering,
) -> Option<&'a (K, V)> {
    match node {
        Node::Leaf(entries) => {
            let count = count_before(entries, |key| order(key).is_lt());
            count.checked_sub(1).map(|at| &entries[at])
        }
        Node::Branch(children) => {
            let count = count_before(children, |key| order(key).is_lt());
            children[..count].iter().rev().find_map(|(_, child)| last_before(child, order))
        }
    }
}

/// False if it ended early.
fn for_each_mut<K: TreeKey, V: Clone>(
    node: &mut Rc<Node<K, V>>,
    from: &impl Fn(&K) -> Ordering,
    until: &impl Fn(&K) -> Ordering,
    change: &mut impl FnMut(&K, &mut V) -> bool,
    heap_bytes: &mut usize,
) -> bool {
    match &**node {
        Node::Leaf(entries) => {
            let first = count_before(entries, |key| from(key).is_lt());
            if !entries.get(first).is_some_and(|(key, _)| until(key).is_lt()) {
                return true;
            }
            let Node::Leaf(entries) = make_mut(node, heap_bytes) else { unreachable!("it is a leaf") };
            let mut wanted = entries[first..].iter_mut().take_while(|(key, _)| until(key).is_lt());
            wanted.all(|(key, value)| change(key, value))
        }
        Node::Branch(children) => {
            let first = count_before(children, |key| from(key).is_lt()).saturating_sub(1);
            let last = count_before(children, |key| until(key).is_lt());
            if first >= last {
                return true;
            }
            let Node::Branch(children) = make_mut(node, heap_bytes) else { unreachable!("it is a branch") };
            let mut wanted = children[first..last].iter_mut();
            wanted.all(|(_, child)| for_each_mut(child, from, until, change, heap_bytes))
        }
    }
}

/// Removes an entry that exists.
fn remove<K: TreeKey, V: Clone>(
    node: &mut Rc<Node<K, V>>,
    order: &impl Fn(&K) -> Ordering,
    heap_bytes: &mut usize,
) -> V {
    match make_mut(node, heap_bytes) {
        Node::Leaf(entries) => {
            let at = find(entries, order).expect("it was found");
            entries.remove(at).1
        }
        Node::Branch(children) => {
            let at = child_of(children, order).expect("it was found");
            let value = remove(&mut children[at].1, order, heap_bytes);
            let is_empty = match &*children[at].1 {
                Node::Leaf(entries) => entries.is_empty(),
                Node::Branch(children) => children.is_empty(),
            };
            if is_empty {
                *heap_bytes -= bytes_of(&children[at].1);
                children.remove(at);
            }
            value
        }
    }
}

/// Bytes that one node has requested from the allocator.
fn bytes_of<K, V>(node: &Node<K, V>) -> usize {
    node_bytes::<K, V>()
        + match node {
            Node::Leaf(entries) => entries.capacity() * size_of::<(K, V)>(),
            Node::Branch(children) => children.capacity() * branch_entry_bytes::<K, V>(),
        }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::rng::Rng;

    use super::*;

    /// Keys are inserted and removed in any order, with snapshots; the tree equals the model.
    #[test]
    fn entries_come_and_go() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let keys = [10, 300, 3000][rng.index(3)];
            let (mut tree, mut model) = (Tree::<u64, u64>::default(), BTreeMap::new());
            let mut snapshot = None;
            for step in 0..3000 {
                let key = rng.below(keys);
                // First it grows, then it shrinks.
                if rng.chance(if step < 1500 { 2 } else { 1 }, 3) {
                    tree.upsert(&key, |probe| probe.cmp(&key), || 0, |slot| *slot = step);
                    model.insert(key, step);
                } else {
                    assert_eq!(tree.remove(|probe| probe.cmp(&key)), model.remove(&key));
                }
                if rng.chance(1, 100) {
                    snapshot = Some((tree.clone(), model.clone()));
                }
                let (from, until) = (rng.below(keys), rng.below(keys));
                if rng.chance(1, 10) && from <= until {
                    tree.for_each_mut(|k| k.cmp(&from), |k| k.cmp(&until), &mut |_, value| {
                        *value += 1;
                        true
                    });
                    model.range_mut(from..until).for_each(|(_, value)| *value += 1);
                }
                assert_eq!(tree.len(), model.len());
                let first = tree.first_from(|probe| probe.cmp(&key)).copied();
                assert_eq!(first, model.range(key..).next().map(|(k, v)| (*k, *v)));
                let last = tree.last_before(|probe| probe.cmp(&key)).copied();
                assert_eq!(last, model.range(..key).next_back().map(|(k, v)| (*k, *v)));
            }
            for (tree, model) in [Some((tree, model)), snapshot].into_iter().flatten() {
                let mut cursor = tree.cursor(|_| Ordering::Greater);
                let entries: Vec<_> = std::iter::from_fn(|| cursor.next().copied()).collect();
                assert_eq!(entries, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
                drop(cursor);
                assert_eq!(tree.heap_bytes(), tree.recount());
            }
        }
    }
}
