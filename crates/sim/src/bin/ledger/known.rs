//! What is known of one thing that clients write: what it surely is, and what an unanswered request may have made of it.

/// `None` is a thing that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    sure: Option<T>,
    /// What the request that is under way makes of it.
    asked: Option<Option<T>>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { sure: None, asked: None }
    }
}

impl<T: Clone + PartialEq + std::fmt::Debug> Known<T> {
    /// It was acknowledged.
    pub fn sure(value: T) -> Self {
        Self { sure: Some(value), asked: None }
    }

    /// A request is sent that makes it so.
    pub fn ask(&mut self, value: Option<T>) {
        self.asked = Some(value);
    }

    /// The request was acknowledged.
    pub fn acknowledge(&mut self) {
        if let Some(value) = self.asked.take() {
            self.sure = value;
        }
    }

    /// What it was when last something was certain.
    pub fn last(&self) -> Option<&T> {
        self.sure.as_ref()
    }

    /// Nothing is under way, so that another request can be noted.
    pub fn is_settled(&self) -> bool {
        self.asked.is_none()
    }

    /// Compares with what is there after a restart, and takes that for certain from then on.
    ///
    /// # Errors
    /// It is neither what was acknowledged nor what was asked for.
    pub fn settle(&mut self, found: Option<T>) -> Result<(), String> {
        if found != self.sure && self.asked.as_ref() != Some(&found) {
            let asked = match &self.asked {
                Some(asked) => format!(", {} was asked for", text(asked)),
                None => String::new(),
            };
            return Err(format!("{} is there; {} was acknowledged{asked}", text(&found), text(&self.sure)));
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
    use super::Known;

    #[test]
    fn what_was_asked_for_may_be_there_and_what_was_acknowledged_must_be() {
        let mut known = Known::default();
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
