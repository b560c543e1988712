//! Walks a trie on disk, node by node: to a key, to its neighbours, and from one key to the next in either
//! direction.
//!
//! The walk reads pages through [`Pages`] and stores the path from the root to the current node, so it
//! continues without a new descent. A key sorts before all keys of which it is a prefix. Each step down leads
//! towards the start of the file ([`TrieNode::child`]), so every walk ends. Memory: 16 bytes for each byte of
//! a key.

use reader::ReadError;

use crate::component::FormatError;
use crate::component::trie::TrieNode;

/// Upper bound of a key's length in bytes: a partition key of 64 KiB with every byte escaped, or clustering
/// values of that length.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Access to the bytes of a file.
pub(super) trait Pages {
    /// The bytes from `position` to the end of its page.
    async fn page_from(&mut self, position: u64) -> Result<&[u8], ReadError>;

    /// An error about the node at `position`.
    fn corrupt(&self, position: u64, detail: &str) -> ReadError;
}

/// A node on the path.
#[derive(Clone, Copy, Debug)]
struct Stop {
    position: u64,
    /// The slot of the next node on the path. Without meaning in the last node.
    slot: usize,
}

/// Longest payload of any trie in bytes.
const PAYLOAD_BYTES_MAX: usize = 20;

/// The payload of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    /// The payload bits of the node; never 0.
    pub(super) bits: u8,
    bytes: [u8; PAYLOAD_BYTES_MAX],
    len: usize,
}

impl Payload {
    /// The payload's bytes, possibly followed by others.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Copy of a node's properties.
struct Seen {
    payload: Option<Payload>,
    slots: usize,
}

/// See the head of this file.
pub(super) struct Walk {
    root: u64,
    /// The path from the root to the current node; empty if the walk has no current node.
    way: Vec<Stop>,
    /// The bytes that led to the current node: one fewer than nodes in `way`.
    key: Vec<u8>,
    payload: Option<Payload>,
}

/// The direction of a descent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Toward {
    First,
    Last,
}

impl Walk {
    pub(super) fn new(root: u64) -> Self {
        Self { root, way: vec![], key: vec![], payload: None }
    }

    /// The current key.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The payload of the current key; `None` if the walk has no current node.
    pub(super) fn payload(&self) -> Option<Payload> {
        self.payload
    }

    /// Position of the current node.
    pub(super) fn position(&self) -> u64 {
        self.way.last().map_or(self.root, |stop| stop.position)
    }

    fn leave(&mut self) {
        self.way.clear();
        self.key.clear();
        self.payload = None;
    }

    async fn read_node<P: Pages>(&self, pages: &mut P, position: u64) -> Result<Seen, ReadError> {
        let node = Self::node(pages, position).await;
        let seen = node.map(|node| {
            let payload = (node.payload_bits() != 0).then(|| {
                let mut payload = Payload { bits: node.payload_bits(), ..Payload::default() };
                payload.len = node.payload().len().min(PAYLOAD_BYTES_MAX);
                payload.bytes[..payload.len].copy_from_slice(&node.payload()[..payload.len]);
                payload
            });
            Seen { payload, slots: node.slots() }
        });
        seen.map_err(|failed| failed.into_error(pages, position))
    }

    async fn node<P: Pages>(pages: &mut P, position: u64) -> Result<TrieNode<'_>, Failed> {
        let bytes = pages.page_from(position).await.map_err(Failed::Read)?;
        TrieNode::decode(bytes, position).map_err(Failed::Format)
    }

    /// Byte and position of the child in `slot`.
    async fn child<P: Pages>(
        pages: &mut P,
        position: u64,
        slot: usize,
    ) -> Result<Option<(u8, u64)>, ReadError> {
        let node = Self::node(pages, position).await;
        let child = node.and_then(|node| node.child(slot).map_err(Failed::Format));
        child.map_err(|failed| failed.into_error(pages, position))
    }

    async fn search<P: Pages>(
        pages: &mut P,
        position: u64,
        byte: u8,
    ) -> Result<Result<usize, usize>, ReadError> {
        let found = Self::node(pages, position).await.map(|node| node.search(byte));
        found.map_err(|failed| failed.into_error(pages, position))
    }

    /// Steps into the child in `slot`.
    fn step_into<P: Pages>(&mut self, pages: &P, slot: usize, byte: u8, child: u64) -> Result<(), ReadError> {
        if self.key.len() >= KEY_BYTES_MAX {
            let detail = format!("a key of more than {KEY_BYTES_MAX} bytes leads here");
            return Err(pages.corrupt(child, &detail));
        }
        self.way.last_mut().expect("a step starts at a node").slot = slot;
        self.key.push(byte);
        self.way.push(Stop { position: child, slot: 0 });
        Ok(())
    }

    /// Descends along `key` as far as there are nodes. Returns the number of bytes of `key` that led there.
    pub(super) async fn follow<P: Pages>(&mut self, pages: &mut P, key: &[u8]) -> Result<usize, ReadError> {
        self.leave();
        self.way.push(Stop { position: self.root, slot: 0 });
        let mut at = self.root;
        for byte in key {
            let Ok(slot) = Self::search(pages, at, *byte).await? else { break };
            let (_, child) = Self::child(pages, at, slot).await?.expect("a slot that was found has a child");
            self.step_into(pages, slot, *byte, child)?;
            at = child;
        }
        self.payload = self.read_node(pages, at).await?.payload;
        Ok(self.key.len())
    }

    /// Descends from the current node to its first or last key, and takes the payload of this key.
    async fn descend<P: Pages>(&mut self, pages: &mut P, toward: Toward) -> Result<(), ReadError> {
        loop {
            let at = self.position();
            let seen = self.read_node(pages, at).await?;
            if seen.slots == 0 || (toward == Toward::First && seen.payload.is_some()) {
                self.payload = seen.payload;
                return match self.payload {
                    Some(_) => Ok(()),
                    None => Err(pages.corrupt(at, "a node without children and without content")),
                };
            }
            let mut found = None;
            for number in 0..seen.slots {
                let slot = if toward == Toward::First { number } else { seen.slots - 1 - number };
                if let Some((byte, child)) = Self::child(pages, at, slot).await? {
                    found = Some((slot, byte, child));
                    break;
                }
            }
            let Some((slot, byte, child)) = found else {
                return Err(pages.corrupt(at, "a node whose slots for children are all empty"));
            };
            self.step_into(pages, slot, byte, child)?;
        }
    }

    /// Steps into the first child from `slot` on, and descends to its first key. False if there is no such
    /// child.
    async fn enter_from<P: Pages>(&mut self, pages: &mut P, slot: usize) -> Result<bool, ReadError> {
        let at = self.position();
        let slots = self.read_node(pages, at).await?.slots;
        for slot in slot..slots {
            if let Some((byte, child)) = Self::child(pages, at, slot).await? {
                self.step_into(pages, slot, byte, child)?;
                self.descend(pages, Toward::First).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Steps into the last child before `slot`, and descends to its last key. False if there is no such
    /// child.
    async fn enter_before<P: Pages>(&mut self, pages: &mut P, slot: usize) -> Result<bool, ReadError> {
        let at = self.position();
        for slot in (0..slot).rev() {
            if let Some((byte, child)) = Self::child(pages, at, slot).await? {
                self.step_into(pages, slot, byte, child)?;
                self.descend(pages, Toward::Last).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Steps back to the parent. Returns the slot of the child, or `None` at the root.
    fn step_back(&mut self) -> Option<usize> {
        self.way.pop();
        self.key.pop();
        self.payload = None;
        self.way.last().map(|stop| stop.slot)
    }

    /// Moves to the first key. A sound trie has one.
    pub(super) async fn first<P: Pages>(&mut self, pages: &mut P) -> Result<(), ReadError> {
        self.leave();
        self.way.push(Stop { position: self.root, slot: 0 });
        self.descend(pages, Toward::First).await
    }

    /// Moves to the last key.
    pub(super) async fn last<P: Pages>(&mut self, pages: &mut P) -> Result<(), ReadError> {
        self.leave();
        self.way.push(Stop { position: self.root, slot: 0 });
        self.descend(pages, Toward::Last).await
    }

    /// Moves to the next key. False after the last key; then the walk has no current node.
    pub(super) async fn next<P: Pages>(&mut self, pages: &mut P) -> Result<bool, ReadError> {
        if self.way.is_empty() {
            return Ok(false);
        }
        if self.enter_from(pages, 0).await? {
            return Ok(true);
        }
        self.next_sibling(pages).await
    }

    /// Moves to the next key of which the current one is not a prefix.
    async fn next_sibling<P: Pages>(&mut self, pages: &mut P) -> Result<bool, ReadError> {
        while let Some(slot) = self.step_back() {
            if self.enter_from(pages, slot + 1).await? {
                return Ok(true);
            }
        }
        self.leave();
        Ok(false)
    }

    /// Moves to the previous key. False before the first key; then the walk has no current node.
    pub(super) async fn previous<P: Pages>(&mut self, pages: &mut P) -> Result<bool, ReadError> {
        while let Some(slot) = self.step_back() {
            if self.enter_before(pages, slot).await? {
                return Ok(true);
            }
            let at = self.position();
            self.payload = self.read_node(pages, at).await?.payload;
            if self.payload.is_some() {
                return Ok(true);
            }
        }
        self.leave();
        Ok(false)
    }

    /// Moves to the greatest key that is at most `key`. False if there is none.
    pub(super) async fn floor<P: Pages>(&mut self, pages: &mut P, key: &[u8]) -> Result<bool, ReadError> {
        let led = self.follow(pages, key).await?;
        let Some(byte) = key.get(led) else {
            return if self.payload.is_some() { Ok(true) } else { self.previous(pages).await };
        };
        let slot = match Self::search(pages, self.position(), *byte).await? {
            Ok(slot) | Err(slot) => slot,
        };
        if self.enter_before(pages, slot).await? || self.payload.is_some() {
            return Ok(true);
        }
        self.previous(pages).await
    }

    /// Moves to the smallest key that is at least `key`, after [`Self::follow`] has returned `led` for `key`.
    /// False if there is none.
    pub(super) async fn ceiling<P: Pages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        led: usize,
    ) -> Result<bool, ReadError> {
        let Some(byte) = key.get(led) else {
            return if self.payload.is_some() { Ok(true) } else { self.next(pages).await };
        };
        let slot = match Self::search(pages, self.position(), *byte).await? {
            Ok(slot) | Err(slot) => slot,
        };
        if self.enter_from(pages, slot).await? {
            return Ok(true);
        }
        self.next_sibling(pages).await
    }
}

/// Why a node could not be read.
enum Failed {
    Read(ReadError),
    Format(FormatError),
}

impl Failed {
    fn into_error<P: Pages>(self, pages: &P, position: u64) -> ReadError {
        match self {
            Self::Read(error) => error,
            Self::Format(error) => pages.corrupt(position, &error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use base::rng::Rng;

    use super::*;

    /// A file in memory, as a single page.
    struct InMemory(Vec<u8>);

    impl Pages for InMemory {
        async fn page_from(&mut self, position: u64) -> Result<&[u8], ReadError> {
            Ok(self.0.get(position as usize..).unwrap_or_default())
        }

        fn corrupt(&self, position: u64, detail: &str) -> ReadError {
            ReadError::Corrupt { file: "memory".into(), offset_bytes: position, detail: detail.to_owned() }
        }
    }

    /// Writes the subtrie of `keys`, whose first `depth` bytes lead to it, and returns the position of its
    /// root. `rng` chooses the kind of each node among the suitable ones.
    fn write(rng: &mut Rng, out: &mut Vec<u8>, keys: &[(&[u8], u8)], depth: usize) -> u64 {
        let (own, rest) = match keys.first() {
            Some((key, payload)) if key.len() == depth => (Some(*payload), &keys[1..]),
            _ => (None, keys),
        };
        let mut children: Vec<(u8, u64)> = vec![];
        for group in rest.chunk_by(|a, b| a.0[depth] == b.0[depth]) {
            let child = write(rng, out, group, depth + 1);
            children.push((group[0].0[depth], child));
        }
        let at = out.len() as u64;
        let bits = u8::from(own.is_some());
        let back = |child: u64| (at - child) as u32;
        match children[..] {
            [] => out.push(bits),
            [(byte, child)] if own.is_none() && back(child) < 16 && rng.chance(2, 3) => {
                out.extend([0x10 | back(child) as u8, byte]);
            }
            [(byte, child)] if own.is_none() && back(child) < 4096 && rng.chance(2, 3) => {
                out.extend([0x30 | (back(child) >> 8) as u8, back(child) as u8, byte]);
            }
            _ if rng.chance(1, 2) => {
                out.extend([0x80 | bits, children.len() as u8]);
                out.extend(children.iter().map(|(byte, _)| *byte));
                children.iter().for_each(|(_, child)| out.extend(&back(*child).to_be_bytes()[1..]));
            }
            _ => {
                let (first, last) = (children[0].0, children[children.len() - 1].0);
                out.extend([0xd0 | bits, first, last - first]);
                for byte in first..=last {
                    let child = children.iter().find(|(own, _)| *own == byte);
                    out.extend(child.map_or(0, |(_, child)| back(*child)).to_be_bytes());
                }
            }
        }
        out.extend(own);
        at
    }

    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let len = rng.below(6);
        (0..len).map(|_| *rng.pick(&[0, 1, 2, 0x40, 0xfe, 0xff])).collect()
    }

    #[test]
    fn it_walks_as_a_sorted_map_does() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(40);
            let keys: BTreeSet<Vec<u8>> = (0..count).map(|_| random_key(&mut rng)).collect();
            let model: BTreeMap<Vec<u8>, u8> = keys.into_iter().zip(0..).collect();
            let list: Vec<(&[u8], u8)> = model.iter().map(|(key, payload)| (&key[..], *payload)).collect();
            let mut bytes = vec![0xee];
            let root = write(&mut rng, &mut bytes, &list, 0);
            let mut pages = InMemory(bytes);
            reader::block_on_ready(async {
                let mut walk = Walk::new(root);
                let here = |walk: &Walk| {
                    let payload = walk.payload().map(|payload| payload.bytes()[0]);
                    payload.map(|payload| (walk.key().to_vec(), payload))
                };
                let owned =
                    |entry: Option<(&Vec<u8>, &u8)>| entry.map(|(key, payload)| (key.clone(), *payload));
                walk.first(&mut pages).await.unwrap();
                for expect in &model {
                    assert_eq!(here(&walk), owned(Some(expect)), "seed {seed}");
                    walk.next(&mut pages).await.unwrap();
                }
                assert_eq!(here(&walk), None);
                walk.last(&mut pages).await.unwrap();
                for expect in model.iter().rev() {
                    assert_eq!(here(&walk), owned(Some(expect)), "seed {seed}");
                    walk.previous(&mut pages).await.unwrap();
                }
                assert_eq!(here(&walk), None);
                for _ in 0..60 {
                    let key = random_key(&mut rng);
                    let found = walk.floor(&mut pages, &key).await.unwrap();
                    let expect = owned(model.range(..=key.clone()).next_back());
                    assert_eq!((found, here(&walk)), (expect.is_some(), expect), "seed {seed} {key:x?}");
                    let led = walk.follow(&mut pages, &key).await.unwrap();
                    let found = walk.ceiling(&mut pages, &key, led).await.unwrap();
                    let expect = owned(model.range(key.clone()..).next());
                    assert_eq!((found, here(&walk)), (expect.is_some(), expect), "seed {seed} {key:x?}");
                }
            });
        }
    }

    #[test]
    fn a_damaged_trie_is_an_answer() {
        let mut rng = Rng::new(1);
        let keys: BTreeSet<Vec<u8>> = (0..60).map(|_| random_key(&mut rng)).collect();
        let list: Vec<(&[u8], u8)> = keys.iter().map(Vec::as_slice).zip(0..).collect();
        let mut bytes = vec![0xee];
        let root = write(&mut rng, &mut bytes, &list, 0);
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            let at = rng.index(damaged.len());
            damaged[at] ^= 1 << rng.below(8);
            damaged.truncate(if rng.chance(1, 3) { rng.index(bytes.len()) } else { bytes.len() });
            let mut pages = InMemory(damaged);
            reader::block_on_ready(async {
                let mut walk = Walk::new(root);
                let mut steps = 0;
                let mut going = walk.first(&mut pages).await.is_ok();
                while going {
                    // Shared subtries lead to more keys, but every step down shortens the remaining key.
                    steps += 1;
                    going = steps < 10_000 && walk.next(&mut pages).await.unwrap_or(false);
                }
                let _ = walk.floor(&mut pages, &[0x40, 1, 2]).await;
            });
        }
    }
}
