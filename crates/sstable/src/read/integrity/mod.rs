//! Verification and salvage, and walks for the tools.

pub(crate) mod check;
pub(crate) mod damaged;
pub(crate) mod salvage;
pub(crate) mod values;
pub(crate) mod walk;
