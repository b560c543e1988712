//! State of one thing that clients write: its certain value, and the value that an unanswered request may
//! have given it.

/// `None` means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedValue<T> {
    sure: Option<T>,
    /// The value that the request in flight gives it.
    asked: Option<Option<T>>,
}

impl<T> Default for TrackedValue<T> {
    fn default() -> Self {
        Self { sure: None, asked: None }
    }
}

impl<T: Clone + PartialEq + std::fmt::Debug> TrackedValue<T> {
    /// A value that was acknowledged.
    pub fn sure(value: T) -> Self {
        Self { sure: Some(value), asked: None }
    }

    /// Records that a request for this value is sent.
    pub fn ask(&mut self, value: Option<T>) {
        self.asked = Some(value);
    }

    /// Records that the request was acknowledged.
    pub fn acknowledge(&mut self) {
        if let Some(value) = self.asked.take() {
            self.sure = value;
        }
    }

    /// The last certain value.
    pub fn last(&self) -> Option<&T> {
        self.sure.as_ref()
    }

    /// Whether no request is in flight, so that another one can be noted.
    pub fn is_settled(&self) -> bool {
        self.asked.is_none()
    }

    /// Compares with the value found after a restart, which is certain from then on.
    ///
    /// # Errors
    /// It is neither the acknowledged value nor the requested one.
    pub fn settle(&mut self, found: Option<T>) -> Result<(), String> {
        if found != self.sure && self.asked.as_ref() != Some(&found) {
            let asked = match &self.asked {
                Some(asked) => format!(", {} was requested", text(asked)),
                None => String::new(),
            };
            return Err(format!("{} is present; {} was acknowledged{asked}", text(&found), text(&self.sure)));
        }
        self.sure = found;
        self.asked = None;
        Ok(())
    }
}

fn text<T: std::fmt::Debug>(value: &Option<T>) -> String {
    value.as_ref().map_or("nothing".to_string(), |value| format!("{value:?}"))
}

#[cfg(test)]
mod tests {
    use super::TrackedValue;

    #[test]
    fn what_was_asked_for_may_be_there_and_what_was_acknowledged_must_be() {
        let mut known = TrackedValue::default();
        known.ask(Some(1));
        assert!(known.clone().settle(None).is_ok() && known.clone().settle(Some(1)).is_ok());
        assert!(known.clone().settle(Some(2)).is_err());
        known.acknowledge();
        assert!(known.clone().settle(None).is_err());
        known.ask(None);
        assert!(known.clone().settle(Some(1)).is_ok());
        known.settle(None).expect("the deletion may have been carried out");
        assert!(known.settle(Some(1)).is_err(), "and then it stays so");
    }
}
