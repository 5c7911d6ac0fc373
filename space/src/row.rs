//! Kinds of live row: what a row describes, and what its cells mean.
//!
//! ```
//! use thalweg_space::{Row, Space, SpaceOptions, reader::SpaceReader};
//! use std::sync::atomic::Ordering;
//!
//! /// A lock.
//! #[derive(Row)]
//! #[row(name = "example.lock")]
//! struct LockRow {
//!     /// How many wait for it.
//!     waiters: u32,
//!     /// For how long it was held so far.
//!     #[field(unit = "ns")]
//!     held_ns: u64,
//! }
//! # let parent = std::env::temp_dir().join(format!("thalweg-row-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let space = Space::create(SpaceOptions { parent: Some(parent.clone()), ..Default::default() })?;
//! let kind = space.row_kind::<LockRow>()?;
//! let row = space.live_row(kind, 7)?;
//! row.cell(LockRow::HELD_NS).store(1500, Ordering::Relaxed);
//!
//! let rows = SpaceReader::open(space.path())?.live_rows()?;
//! assert_eq!((rows[0].id, rows[0].cell("held_ns")), (7, Some(1500)));
//! assert_eq!(rows[0].read::<LockRow>().map(|row| row.waiters), Some(0));
//! # drop(row);
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::kind::FieldSpec;
use crate::layout::live;

pub use thalweg_space_derive::Row;

/// A kind of live row, as one space knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKind(pub(crate) u8);

/// The name and the cells of a kind of live row.
#[derive(Clone, Copy, Debug)]
pub struct RowSpec {
    /// `crate.noun`.
    pub name: &'static str,
    /// What a row of the kind describes.
    pub doc: &'static str,
    /// The code that rows of the kind have in spaces of former versions, which have no descriptions of kinds;
    /// `None` if former versions had no such rows.
    pub former: Option<u8>,
    /// The cells of a row of the kind, in order, 12 at most.
    pub cells: &'static [FieldSpec],
}

/// A struct that describes a kind of live row: each field is a cell. The derive macro also makes a constant
/// for each field, such as `HELD_NS`, which is the index of the cell `held_ns`.
pub trait Row: Sized {
    /// The name and the cells of the kind.
    const SPEC: RowSpec;
    /// The cells' values.
    fn cells(&self) -> [u64; live::CELL_COUNT];
    /// Makes a row of the values that `cell` returns for the indices of the cells in [`RowSpec::cells`].
    fn from_cells(cell: &mut dyn FnMut(usize) -> Option<u64>) -> Option<Self>;
}
