//! Tunables: values that may be changed while a program runs, each declared once by [`settings!`](crate::settings).
//!
//! In a process with a space a tunable is one of the space's [settings](Setting); without a space it keeps
//! its initial value. Loading it costs one relaxed load in both cases.
//!
//! ```
//! thalweg_space::settings! {
//!     /// The settings of this program, which observers may change.
//!     struct Settings {
//!         /// Lines that are read at a time.
//!         batch: { name: "example.batch", unit: "lines", min: 1, max: 4096, default: 64 },
//!         /// Whether lines are sorted.
//!         sort: SWITCH { name: "example.sort" },
//!     }
//! }
//!
//! let mut declared = Settings::DECLARED;
//! declared.batch.default = 128; // As somebody asked for at the start.
//! let settings = declared.make(None)?; // With a space: `Some(&space)`.
//! assert_eq!((settings.batch.load(), settings.sort.load()), (128, 0));
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::error::Error;
use crate::kind::NameRef;
use crate::setting::{Setting, SettingSpec};
use crate::space::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that may be changed while the program runs: a setting of the space, or a plain value if there is
/// no space.
#[derive(Debug)]
pub struct Tunable {
    setting: Option<Setting>,
    plain: u64,
    min: u64,
    max: u64,
    name: NameRef,
    /// The value whose adoption was recorded last. Of several threads that see a new value, the one that
    /// stores it here first records the change. No other data depends on the stored value, so all accesses
    /// are relaxed.
    adopted: AtomicU64,
}

impl Tunable {
    /// Makes a tunable from `spec`, which is a setting of `space` if there is one.
    ///
    /// # Errors
    /// Fails when its default is out of range, or the space cannot hold another setting.
    pub fn new(space: Option<&Space>, spec: &SettingSpec<'_>) -> Result<Tunable, Error> {
        spec.check()?;
        let SettingSpec { min, max, default, .. } = *spec;
        let setting = space.map(|space| space.setting(*spec)).transpose()?;
        let name = space.map_or(Ok(NameRef::NONE), |space| space.name(spec.name))?;
        Ok(Tunable { setting, plain: default, min, max, name, adopted: AtomicU64::new(default) })
    }

    /// The current value, clamped to its limits; one relaxed load.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        match &self.setting {
            Some(setting) => setting.load().clamp(self.min, self.max),
            None => self.plain,
        }
    }

    /// The current value; none if there is no space, and so nothing can set the value.
    pub fn set_value(&self) -> Option<u64> {
        self.setting.as_ref().map(|_| self.load())
    }

    /// The word that holds the value, into which the process can store a figure that it publishes; none
    /// without a space.
    pub fn cell(&self) -> Option<&AtomicU64> {
        self.setting.as_ref().map(Setting::cell)
    }

    /// The name of the tunable in the space.
    pub fn name(&self) -> NameRef {
        self.name
    }

    /// Publishes in the setting the value that the process uses, also if another process set a different one.
    ///
    /// # Errors
    /// Fails when the value is out of range, or the file of settings cannot be written any more.
    pub fn show(&self, value: u64) -> Result<(), Error> {
        let differs = self.setting.as_ref().filter(|setting| setting.load() != value);
        differs.map_or(Ok(()), |setting| setting.set(value))
    }

    /// Whether `value` is the one that was adopted last; the check costs one relaxed load.
    #[inline(always)]
    pub fn is_adopted(&self, value: u64) -> bool {
        value == self.adopted.load(Ordering::Relaxed)
    }

    /// The current value; also the former one, if this is the first call since the value changed.
    #[inline]
    pub fn adopt(&self) -> (u64, Option<u64>) {
        let value = self.load();
        let before = self.adopted.load(Ordering::Relaxed);
        if value == before {
            return (value, None);
        }
        let first =
            self.adopted.compare_exchange(before, value, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (value, first.then_some(before))
    }
}

/// Declares settings: a struct with a field for each. A [`SettingSpec`] follows each field; members that it
/// omits are those of [`SettingSpec::PLAIN`], or of the constant before the brace. The field's documentation
/// becomes the setting's. See [`tunable`](crate::tunable) for an example.
///
/// `Settings::DECLARED` has the specifications of the settings, `all` lists the fields' values in the order
/// of their declaration, and `make` makes a [`Tunable`] of each specification.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        $visibility:vis struct $Settings:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $($like:ident)? { $($key:ident: $value:expr),+ $(,)? }),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $visibility struct $Settings<T = $crate::Tunable> {
            $($(#[doc = $doc])+ $visibility $field: T,)+
        }

        impl $Settings<$crate::SettingSpec<'static>> {
            /// The specifications of the settings, in the order of their declaration.
            $visibility const DECLARED: Self = $Settings {
                $($field: $crate::SettingSpec {
                    doc: concat!($($doc),+).trim_ascii(),
                    $($key: $value,)+
                    ..$crate::settings!(@like $($like)?)
                }
                .bounded(),)+
            };

            /// Makes the specified tunables, which are settings of `space` if there is one.
            ///
            /// # Errors
            /// Fails when a default is out of range, or the space cannot hold that many settings.
            #[allow(dead_code)]
            $visibility fn make(
                &self,
                space: ::core::option::Option<&$crate::Space>,
            ) -> ::core::result::Result<$Settings, $crate::Error> {
                Ok($Settings { $($field: $crate::Tunable::new(space, &self.$field)?,)+ })
            }
        }

        impl<T> $Settings<T> {
            /// The values of all settings, in the order of their declaration.
            #[allow(dead_code)]
            $visibility fn all(&self) -> ::std::vec::Vec<&T> {
                ::std::vec![$(&self.$field),+]
            }
        }
    };
    (@like) => { $crate::SettingSpec::PLAIN };
    (@like $like:ident) => { $crate::SettingSpec::$like };
}
