//! The histories of the objects that tasks compete for ([`crate::registers`]), and when they are judged: what
//! a client keeps of them.

use model::TableId;
use uuid::Uuid;

use crate::linear::{self, Ask, Call, Counter, Model, Register};

pub const SWAPS_ID: Uuid = Uuid::from_u128(0x5e9a_0001);
pub const SUMS_ID: Uuid = Uuid::from_u128(0x5e9a_0002);

/// Objects of each table: few, so that tasks meet.
pub const OBJECTS: usize = 2;

/// The history of one object.
#[derive(Debug)]
pub struct Object<M: Model> {
    pub initial: M::State,
    pub calls: Vec<Call<M::Input, M::Output>>,
}

impl<M: Model> Object<M> {
    fn new(initial: M::State) -> Self {
        Self { initial, calls: vec![] }
    }

    pub fn called(&mut self, stamp: u64, input: M::Input) {
        self.calls.push(Call { called: stamp, input, returned: None });
    }

    pub fn returned(&mut self, called: u64, stamp: u64, output: M::Output) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.called == called) {
            call.returned = Some((stamp, output));
        }
    }

    pub fn refused(&mut self, called: u64) {
        self.calls.retain(|call| call.called != called);
    }

    fn check(&self) -> Result<(), String> {
        linear::check::<M>(&self.initial, &self.calls)
    }
}

/// All objects, as a client knows them.
#[derive(Debug)]
pub struct Registers {
    pub swaps: Vec<Object<Register>>,
    pub sums: Vec<Object<Counter>>,
    /// What was acknowledged may be lost: the next comparison begins all histories anew.
    pub is_lost: bool,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            swaps: (0..OBJECTS).map(|_| Object::new(None)).collect(),
            sums: (0..OBJECTS).map(|_| Object::new(0)).collect(),
            is_lost: false,
        }
    }
}

impl Registers {
    /// Judges the answers so far.
    pub fn check(&self) -> Result<(), String> {
        for (at, swap) in self.swaps.iter().enumerate() {
            swap.check().map_err(|error| format!("register {at}: {error}"))?;
        }
        for (at, sum) in self.sums.iter().enumerate() {
            sum.check().map_err(|error| format!("counter {at}: {error}"))?;
        }
        Ok(())
    }

    /// The node died. `loses_acknowledged`: acknowledged operations may be lost too.
    pub fn crashed(&mut self, loses_acknowledged: bool) {
        let changed = |call: &Call<Ask, Option<i64>>| match (&call.input, &call.returned) {
            (Ask::Read, _) => false,
            (Ask::Swap { expected, .. }, Some((_, before))) => before == expected,
            (Ask::Swap { .. }, None) => true,
        };
        for swap in &mut self.swaps {
            swap.calls.retain(changed);
        }
        for sum in &mut self.sums {
            sum.calls.retain(|call| call.input != 0);
        }
        self.is_lost |= loses_acknowledged;
    }

    /// Nothing runs, and what is there has been read: histories begin anew, unless the fate of an operation
    /// is open.
    pub fn settle(&mut self, is_restarted: bool) {
        let is_known = |call: &Call<Ask, Option<i64>>| call.returned.is_some();
        for swap in &mut self.swaps {
            if is_restarted || swap.calls.iter().all(is_known) {
                let last = swap.calls.pop().and_then(|call| call.returned);
                *swap = Object::new(last.map_or(swap.initial, |(_, value)| value));
            }
        }
        for sum in &mut self.sums {
            if is_restarted || sum.calls.iter().all(|call| call.returned.is_some()) {
                let last = sum.calls.pop().and_then(|call| call.returned);
                *sum = Object::new(last.map_or(sum.initial, |(_, value)| value));
            }
        }
    }
}

/// Whether a table is one of those here: its schema never changes.
pub fn is_one(table: TableId) -> bool {
    table == SWAPS_ID || table == SUMS_ID
}
