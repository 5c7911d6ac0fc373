//! Numbers formatted for people.

pub(crate) use thalweg_host::amount::{count, counted};
pub(crate) use thalweg_view::units::{age, bytes, duration, rate, ratio, share};
