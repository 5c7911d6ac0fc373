//! The names that an expression may use.

use std::fmt;

use crate::unit::{Dimension, Unit};

/// The type of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number of this dimension.
    Number(Dimension),
    /// True or false.
    Truth,
    /// A text.
    Text,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Number(dimension) => dimension.fmt(f),
            Type::Truth => f.write_str("a truth value"),
            Type::Text => f.write_str("a text"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) of: Type,
    /// The factor that converts a value to the units of computation.
    pub(crate) factor: f64,
}

/// Fields by name, numbered in the order in which they were declared.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(crate) fields: Vec<Field>,
}

impl Schema {
    /// Declares a number with its unit (`ns`, `B/s`, `messages`, `share`, `%`, …); returns the field's number.
    ///
    /// # Errors
    /// When the name is declared already, or the unit is unknown.
    pub fn number(&mut self, name: &str, unit: &str) -> Result<usize, Refused> {
        let found = Unit::parse(unit).ok_or_else(|| Refused::Unit(unit.to_owned()))?;
        self.declare(Field { name: name.to_owned(), of: Type::Number(found.dimension), factor: found.factor })
    }

    /// Declares a truth value, given as 1 for true and 0 for false.
    ///
    /// # Errors
    /// When the name is declared already.
    pub fn truth(&mut self, name: &str) -> Result<usize, Refused> {
        self.declare(Field { name: name.to_owned(), of: Type::Truth, factor: 1.0 })
    }

    /// Declares a text.
    ///
    /// # Errors
    /// When the name is declared already.
    pub fn text(&mut self, name: &str) -> Result<usize, Refused> {
        self.declare(Field { name: name.to_owned(), of: Type::Text, factor: 1.0 })
    }

    pub(crate) fn declare(&mut self, field: Field) -> Result<usize, Refused> {
        if self.find(&field.name).is_some() {
            return Err(Refused::Twice(field.name));
        }
        self.fields.push(field);
        Ok(self.fields.len() - 1)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }
}

/// Why a field cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The unit is unknown.
    Unit(String),
    /// A field of this name is already declared.
    Twice(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Unit(unit) => write!(f, "there is no unit `{unit}`"),
            Refused::Twice(name) => write!(f, "`{name}` is declared twice"),
        }
    }
}

impl std::error::Error for Refused {}
