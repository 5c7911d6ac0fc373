//! The requested layout of tables: their width and their columns.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// The options of commands that print tables.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ShapeArguments {
    /// The columns of tables, by their titles and in this order, such as in,busy or 'no input,no room'. The
    /// first column is always shown; tables without any of these columns are left out.
    #[arg(long, value_name = "TITLE,…", value_delimiter = ',', conflicts_with = "json")]
    columns: Option<Vec<String>>,
    /// Show all columns of tables, and full names, however narrow the terminal is. Output into a pipe always
    /// has all columns and full names.
    #[arg(long)]
    pub(crate) wide: bool,
}

/// The requested layout of tables.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The number of characters in a line.
    pub(crate) width: usize,
    /// Whether to use colours.
    pub(crate) colour: bool,
    columns: Option<Vec<String>>,
    /// Titles of the tables that were shown.
    met: RefCell<BTreeSet<&'static str>>,
}

impl Shape {
    pub(crate) fn new(arguments: &ShapeArguments, width: usize, colour: bool) -> Shape {
        let upper = |titles: &Vec<String>| titles.iter().map(|title| title.trim().to_uppercase()).collect();
        Shape {
            width: if arguments.wide { usize::MAX } else { width },
            colour,
            columns: arguments.columns.as_ref().map(upper),
            met: RefCell::default(),
        }
    }

    /// A layout of the width `width` that shows all columns that fit.
    #[cfg(test)]
    pub(crate) fn of(width: usize) -> Shape {
        Shape::new(&ShapeArguments::default(), width, false)
    }

    /// The layout with these columns.
    #[cfg(test)]
    pub(crate) fn choosing(width: usize, titles: &[&str]) -> Shape {
        let columns = Some(titles.iter().map(|&title| title.to_owned()).collect());
        Shape::new(&ShapeArguments { columns, wide: false }, width, false)
    }

    /// The chosen titles, if any.
    pub(crate) fn chosen(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    /// Notes that a table with these titles was shown.
    pub(super) fn meet(&self, titles: impl Iterator<Item = &'static str>) {
        self.met.borrow_mut().extend(titles);
    }

    /// The first chosen title that no shown table has.
    pub(crate) fn unknown(&self) -> Option<String> {
        let met = self.met.borrow();
        let known = |title: &&String| met.contains(title.as_str());
        self.columns.iter().flatten().find(|title| !known(title)).cloned()
    }

    /// The titles of the tables shown.
    pub(crate) fn titles(&self) -> Vec<&'static str> {
        self.met.borrow().iter().copied().filter(|title| !title.is_empty()).collect()
    }
}
