//! The mask of a column: a function that replaces the column's values for users without the permission
//! UNMASK.
//!
//! The function's first argument is the value; the mask has the others. The CQL layer checks that the
//! function exists and returns the column's type.

use model::CqlType;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// A function of the keyspace `system`.
    pub function: String,
    /// The arguments after the first.
    pub arguments: Vec<MaskArgument>,
}

/// A constant argument of a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskArgument {
    pub ty: CqlType,
    /// `None` is null.
    pub value: Option<Vec<u8>>,
}

impl MaskArgument {
    /// The value as a literal of CQL.
    fn literal(&self) -> String {
        self.value.as_ref().map_or("null".to_string(), |bytes| self.ty.text_of(bytes))
    }
}

impl ColumnMask {
    /// The call without its first argument, such as `system.mask_inner(1, null)`.
    pub fn cql(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(MaskArgument::literal).collect();
        format!("system.{}({})", self.function, arguments.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_prints_as_the_call_without_the_value() {
        let argument =
            |ty: CqlType, value: Option<&[u8]>| MaskArgument { ty, value: value.map(<[u8]>::to_vec) };
        let mask = ColumnMask {
            function: "mask_inner".to_string(),
            arguments: vec![
                argument(CqlType::Int, Some(&[0, 0, 0, 1])),
                argument(CqlType::Int, None),
                argument(CqlType::Text, Some(b"'")),
            ],
        };
        assert_eq!(mask.cql(), "system.mask_inner(1, null, '''')");
        let default = ColumnMask { function: "mask_default".to_string(), arguments: vec![] };
        assert_eq!(default.cql(), "system.mask_default()");
    }
}
