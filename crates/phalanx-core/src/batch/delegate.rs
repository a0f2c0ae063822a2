//! For batches that stand before another one.

/// Inside of an `impl Batch`: everything that a batch which changes only what a step is leaves to the one behind it, in
/// the field of this name. [`spec`](crate::batch::Batch::spec), [`autoreset`](crate::batch::Batch::autoreset),
/// [`step_into`](crate::batch::Batch::step_into) and [`advance`](crate::batch::Batch::advance) remain to be written.
#[macro_export]
macro_rules! delegate_batch {
    ($inner:ident) => {
        $crate::delegate_batch! { $inner;
            fn num_envs(&self) -> usize;
            fn reset_into(&mut self, reset: $crate::batch::Reset<'_>, obs: $crate::batch::ObsMut<'_>) -> $crate::Result<()>;
            fn observe_into(&self, obs: $crate::batch::ObsMut<'_>) -> $crate::Result<()>;
            fn action_masks_into(&self, masks: &mut [bool]) -> $crate::Result<()>;
            fn decide_into(
                &mut self,
                rollout: &mut $crate::rollout::Rollout,
                actions: $crate::batch::ActionsMut<'_>
            ) -> $crate::Result<()>;
            fn ended_into(&self, ended: &mut [bool]) -> $crate::Result<()>;
            fn stats(&self) -> &$crate::stats::EpisodeStats;
            fn state(&self, env: usize) -> $crate::Result<Vec<f64>>;
            fn set_state(&mut self, env: usize, state: &[f64]) -> $crate::Result<()>;
            fn param(&self, name: &str, env: usize) -> $crate::Result<f64>;
            fn set_param(&mut self, name: &str, values: &[f64]) -> $crate::Result<()>;
            fn snapshot(&self) -> Vec<u8>;
            fn restore(&mut self, snapshot: &[u8]) -> $crate::Result<()>;
            fn restore_some(&mut self, snapshot: &[u8], mask: &[bool]) -> $crate::Result<()>;
            fn bytes_per_env(&self) -> f64;
            fn lanes(&self) -> usize;
            fn goes_by_rows(&self, policy: &$crate::policy::Policy) -> bool;
            fn threads(&self) -> usize;
        }
    };
    ($inner:ident; $(fn $name:ident(& $($self:ident)+ $(, $arg:ident: $type:ty)*) -> $result:ty;)+) => {
        $($crate::delegate_batch! { @one $inner; $name; $($self)+; ($($arg: $type),*); $result })+
    };
    (@one $inner:ident; $name:ident; mut $self:ident; ($($arg:ident: $type:ty),*); $result:ty) => {
        fn $name(&mut $self, $($arg: $type),*) -> $result {
            $self.$inner.$name($($arg),*)
        }
    };
    (@one $inner:ident; $name:ident; $self:ident; ($($arg:ident: $type:ty),*); $result:ty) => {
        fn $name(&$self, $($arg: $type),*) -> $result {
            $self.$inner.$name($($arg),*)
        }
    };
}
