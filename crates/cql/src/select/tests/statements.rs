//! Single statements.

use super::*;

fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}
