//! Live rows, and the kinds that describe their cells.

use super::fields::NO_CHOICE;
use crate::catalog::FieldInfo;
use crate::error::Error;
use crate::file;
use crate::kind::{FieldSpec, FieldType};
use crate::layout::live;
use crate::live::LIVE_CELLS;
use crate::read_map::ReadMap;
use crate::row::{Row, RowSpec};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A kind of live row as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowInfo {
    /// The name of the kind.
    pub name: String,
    /// What a row of the kind describes.
    pub doc: String,
    /// The cells of the kind, in order.
    pub cells: Vec<FieldInfo>,
}

/// The kinds of live row that a catalog describes, by code.
pub(super) type RowKinds = HashMap<u8, Arc<RowInfo>>;

/// A live row, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveView {
    /// The row's kind; `None` if the space describes no rows of this code, as in spaces of former versions.
    pub kind: Option<Arc<RowInfo>>,
    /// The number of the row's kind in the space.
    pub code: u8,
    /// The id of the object that the row describes.
    pub id: u64,
    /// How many owners the row has had.
    pub generation: u64,
    /// The row's cells. Each cell is loaded atomically, but at a slightly different time than the others.
    pub cells: [u64; LIVE_CELLS],
}

impl LiveView {
    /// Whether the row is of this kind.
    pub fn is(&self, spec: &RowSpec) -> bool {
        is(self.kind.as_deref(), self.code, spec)
    }

    /// The name of the row's kind; empty where the space does not describe the kind.
    pub fn kind_name(&self) -> &str {
        self.kind.as_ref().map_or("", |kind| &kind.name)
    }

    /// The value of the cell called `name`.
    pub fn cell(&self, name: &str) -> Option<u64> {
        let at = self.kind.as_ref()?.cells.iter().position(|cell| cell.name == name)?;
        self.cells.get(at).copied()
    }

    /// The row as a value of kind `R`, if it is of that kind.
    pub fn read<R: Row>(&self) -> Option<R> {
        if !self.is(&R::SPEC) {
            return None;
        }
        let cells = Cells::find(self.kind.as_deref(), R::SPEC.cells);
        R::from_cells(&mut |n| Some(cells.u64(self, n)))
    }
}

fn is(kind: Option<&RowInfo>, code: u8, spec: &RowSpec) -> bool {
    kind.map_or(spec.former == Some(code), |kind| kind.name == spec.name)
}

/// Where a kind's rows have the cells that a reader knows.
#[derive(Debug)]
pub struct Cells {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    /// The index of the cell in the kind; `None` if the kind lacks the cell.
    cell: Option<usize>,
    /// The value that is used if the kind lacks the cell.
    absent: u64,
    /// Pairs of numbers of one choice: the number in the catalog, and the number in the reader's description;
    /// `None` if the cell is no enum.
    choices: Option<Vec<(u64, u64)>>,
}

impl Cells {
    /// Finds the cells of `specs` in a kind by their names. If the space does not describe the kind, its
    /// cells are taken to have the order of `specs`.
    pub fn find(kind: Option<&RowInfo>, specs: &[FieldSpec]) -> Cells {
        let place = |(n, spec): (usize, &FieldSpec)| {
            let absent = spec.absent.unwrap_or(0) as u64;
            let Some(kind) = kind else { return Place { cell: Some(n), absent, choices: None } };
            let found = kind.cells.iter().position(|cell| cell.name == spec.name);
            let cell = found.filter(|at| *at < LIVE_CELLS);
            let choices = cell.map(|at| &kind.cells[at]).filter(|cell| cell.field_type == FieldType::Enum);
            let ours =
                |name: &str| spec.choices.iter().find(|(_, ours)| *ours == name).map(|(number, _)| *number);
            let choices = choices.map(|cell| {
                cell.choices.iter().filter_map(|(number, name)| Some((*number, ours(name)?))).collect()
            });
            Place { cell, absent, choices }
        };
        Cells { places: specs.iter().enumerate().map(place).collect() }
    }

    /// The value of the `n`-th cell.
    pub fn u64(&self, view: &LiveView, n: usize) -> u64 {
        let place = &self.places[n];
        place.cell.and_then(|at| view.cells.get(at).copied()).unwrap_or(place.absent)
    }

    /// The choice of the `n`-th cell: its number in the reader's description, or [`NO_CHOICE`].
    pub fn choice(&self, view: &LiveView, n: usize) -> u64 {
        let number = self.u64(view, n);
        match &self.places[n].choices {
            Some(choices) => {
                choices.iter().find(|(theirs, _)| *theirs == number).map_or(NO_CHOICE, |(_, ours)| *ours)
            }
            None => number,
        }
    }
}

/// Finds the kind of a row and its cells, with one search for each kind of a space.
#[derive(Debug)]
pub struct RowFinder {
    specs: &'static [RowSpec],
    /// For each code of a kind: the index of the kind in `specs` and its cells, or `None` for another kind.
    found: HashMap<u8, Option<(usize, Cells)>>,
}

impl RowFinder {
    /// Makes a finder for the rows of one space whose kinds are in `specs`.
    pub fn new(specs: &'static [RowSpec]) -> RowFinder {
        RowFinder { specs, found: HashMap::new() }
    }

    /// The index in `specs` of the row's kind, and the row's cells; `None` for a row of another kind.
    pub fn find(&mut self, view: &LiveView) -> Option<(usize, &Cells)> {
        let specs = self.specs;
        let found = self.found.entry(view.code).or_insert_with(|| {
            let number = specs.iter().position(|spec| view.is(spec))?;
            Some((number, Cells::find(view.kind.as_deref(), specs[number].cells)))
        });
        found.as_ref().map(|(number, cells)| (*number, cells))
    }
}

/// A chunk of the live table, mapped, because its rows are read again and again.
#[derive(Debug)]
pub(super) struct Chunk {
    map: ReadMap,
    path: PathBuf,
    rows: usize,
}

impl Chunk {
    pub(super) fn open(path: PathBuf) -> Result<Chunk, Error> {
        let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
        let mut header = [0; 24];
        file::read_exact_at(&file, &path, &mut header, 0)?;
        file::check_magic(&path, &header, live::MAGIC_VALUE, "a live table")?;
        let rows = file::word(&header, 16);
        if rows > live::CHUNK_ROWS_MAX as u64 {
            return Err(Error::new(format!("{} is damaged: it claims {rows} rows", path.display())));
        }
        let rows = rows as usize;
        let map = ReadMap::of(&file, &path, live::ROWS + rows * live::ROW_BYTES)?;
        Ok(Chunk { map, path, rows })
    }

    /// Copies the rows that have an owner.
    pub(super) fn read(&self, kinds: &RowKinds, views: &mut Vec<LiveView>) -> Result<(), Error> {
        let mut words = [0; live::ROW_BYTES / 8];
        for row in 0..self.rows {
            // A row without an owner, or that changed its owner while it was copied, is left out.
            let is_whole = self.map.owned(live::ROWS + row * live::ROW_BYTES, &mut words);
            if !is_whole {
                continue;
            }
            let (tag, id) = (words[live::TAG / 8], words[live::ID / 8]);
            let code = tag as u8;
            let cells = std::array::from_fn(|n| words[live::CELLS / 8 + n]);
            views.push(LiveView { kind: kinds.get(&code).cloned(), code, id, generation: tag >> 8, cells });
        }
        self.map.check(|| &self.path)
    }
}
