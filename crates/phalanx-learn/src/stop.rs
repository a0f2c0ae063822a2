//! Who wants work to end that nobody should have to wait for: Ctrl-C in the midst of a roll-out.

use std::sync::Arc;

use crate::error::{Error, Result};

/// A question that long work asks now and then: whether it should end. By default nobody wants it to.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Ends work soon after `wanted` has answered `true`. It is asked often, by the thread that works, and once it was
    /// `true` it must remain so.
    pub fn when(wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wanted)))
    }

    /// Whether there is anybody who could want it to end.
    pub(crate) fn may_be_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the work should end.
    pub fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|wanted| wanted())
    }

    /// Fails with [`Error::Interrupted`] if the work should end.
    pub fn check(&self) -> Result<()> {
        if self.is_wanted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Stop(asked)" } else { "Stop(never)" })
    }
}
