//! From bytes to fragments.

pub(crate) mod columns;
pub(crate) mod parse;
pub(crate) mod row;
pub(crate) mod unfiltered;
