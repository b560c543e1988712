//! Why the compaction options of a table are refused.

use std::fmt;

/// Why a strategy could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// `class` is missing.
    NoClass,
    /// There is no strategy of this class; the field is the class as written.
    UnknownClass(String),
    /// The strategy has no option with this name.
    UnknownOption {
        /// The option as written.
        option: String,
        /// The strategy's class.
        class: String,
    },
    /// A value outside the option's bounds.
    Value {
        /// The option as written.
        option: String,
        /// The value as written.
        value: String,
        /// The text after "it must be".
        expected: String,
    },
    /// A value that conflicts with another option or is no longer supported; contains the whole message.
    Refused(String),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass => f.write_str("Missing sub-option 'class' for the 'compaction' option"),
            Self::UnknownClass(class) => write!(f, "Unable to find compaction strategy class '{class}'"),
            Self::UnknownOption { option, class } => {
                write!(f, "Properties specified [{option}] are not understood by {class}")
            }
            Self::Value { option, value, expected } => {
                // Cassandra's text where it has one, followed by the bounds.
                match (option.as_str(), value.parse::<f64>()) {
                    ("min_threshold" | "max_threshold", Err(_)) => {
                        write!(
                            f,
                            "Invalid value {value} for '{option}' compaction sub-option - must be an integer"
                        )?;
                    }
                    ("enabled", _) => write!(f, "enabled should either be 'true' or 'false', not {value}")?,
                    ("tombstone_threshold", Ok(number)) if number <= 0.0 => {
                        write!(f, "tombstone_threshold must be greater than 0, but was {number:.6}")?;
                    }
                    ("compaction_window_unit", _) => {
                        write!(f, "{value} is not valid for compaction_window_unit")?;
                    }
                    ("compaction_window_size", Ok(number)) if number < 1.0 => {
                        write!(f, "{value} must be greater than 1 for compaction_window_size")?;
                    }
                    ("compaction_window_size", Err(_)) => {
                        write!(f, "{value} is not a parsable int (base10) for compaction_window_size")?;
                    }
                    ("scaling_parameters", _) => {
                        write!(f, "Scaling parameter {value} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+")?;
                    }
                    _ => {
                        return write!(
                            f,
                            "{value} is not valid for compaction option '{option}': it must be {expected}"
                        );
                    }
                }
                write!(f, "; it must be {expected}")
            }
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OptionsError {}
