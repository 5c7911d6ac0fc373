//! What debugging information (DWARF) says about a function: the names and types of its parameters, and the registers that they are in.
//!
//! ```c
//! double scaled(const char *name, double by, int times);   // name: integer register 0, by: float register 0, times: integer register 1
//! ```
//!
//! Registers are those of the System V ABI. If the place of a parameter is not certain, as for a structure
//! that is passed by value, neither that parameter nor any later one has a place. A function whose parameters
//! the compiler has changed, or that is not called by the C ABI, has no signature at all.

use crate::histogram::Scale;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Unit, UnitOffset, constants,
};

/// The greatest number of references from one type to another that are followed.
const DEPTH_MAX: usize = 16;
const INTEGERS: usize = 6;
const FLOATS: usize = 8;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// The parameters and the result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The parameters in the order of the declaration.
    pub parameters: Vec<Parameter>,
    /// The type of the result; `None` if the function returns nothing.
    pub result: Option<Type>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name; empty if it has none.
    pub name: String,
    /// The parameter's type.
    pub of: Type,
    /// The register in which the parameter is on entry, if it is in one.
    pub place: Option<Place>,
}

/// A register with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The register of an integer or pointer, counted from 0 to 5.
    Integer(usize),
    /// The register of a floating-point number, counted from 0 to 7.
    Float(usize),
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type as C writes it.
    pub name: String,
    /// How the bits of a value of the type are read.
    pub form: Form,
}

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A signed integer with this number of bytes.
    Signed(u64),
    /// An unsigned integer with this number of bytes.
    Unsigned(u64),
    /// A `bool`.
    Bool,
    /// A `char` with a sign.
    Character,
    /// A floating-point number with this number of bytes.
    Float(u64),
    /// An address.
    Pointer,
    /// The address of characters that end with a zero.
    Text,
    /// A structure, class or union with this number of bytes that is passed by value.
    Whole(u64),
    /// A structure, class or union that is passed by its address.
    ByAddress,
    /// Anything else.
    Other,
}

impl Form {
    /// How a register is read whose type is not known: as 64 bits without a sign.
    pub const UNKNOWN: Form = Form::Unsigned(8);

    /// Whether a value of this form is one number in a register.
    pub fn is_number(self) -> bool {
        match self {
            Form::Signed(bytes) | Form::Unsigned(bytes) => matches!(bytes, 1 | 2 | 4 | 8),
            Form::Float(bytes) => matches!(bytes, 4 | 8),
            Form::Bool | Form::Character | Form::Pointer | Form::Text | Form::ByAddress => true,
            Form::Whole(_) | Form::Other => false,
        }
    }

    /// How the number is read, and the bytes of the register that it has. What is no number is read as a
    /// register of unknown type.
    pub(crate) fn read(self) -> (Scale, u64) {
        match self {
            form if !form.is_number() => (Scale::Unsigned, 8),
            Form::Signed(bytes) => (Scale::Signed, bytes),
            Form::Unsigned(bytes) => (Scale::Unsigned, bytes),
            Form::Float(bytes) => (Scale::Float, bytes),
            Form::Character => (Scale::Signed, 1),
            Form::Bool => (Scale::Unsigned, 1),
            _ => (Scale::Unsigned, 8),
        }
    }

    /// The bytes of the register that the number has.
    pub fn bytes(self) -> u64 {
        self.read().1
    }

    /// How the number is read.
    pub fn scale(self) -> Scale {
        self.read().0
    }
}

/// The debugging information of a file.
pub(crate) struct Types<'a> {
    dwarf: Dwarf<Bytes<'a>>,
}

impl<'a> Types<'a> {
    /// Reads the sections that `section` returns; it returns an empty slice for a section that the file does
    /// not have.
    pub(crate) fn new(section: impl Fn(&str) -> &'a [u8]) -> Option<Types<'a>> {
        let load =
            |id: gimli::SectionId| Ok::<_, gimli::Error>(EndianSlice::new(section(id.name()), LittleEndian));
        Some(Types { dwarf: Dwarf::load(load).ok()? })
    }

    /// The signature of the function that begins at this address of the file.
    pub(crate) fn signature(&self, address: u64) -> Option<Signature> {
        let mut units = self.dwarf.units();
        while let Some(header) = units.next().ok()? {
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            if has(&self.dwarf, &unit, address)
                && let Some(found) = (Reader { dwarf: &self.dwarf, unit: &unit }).function(address)
            {
                return found;
            }
        }
        None
    }
}

/// Whether a unit has code at this address.
fn has(dwarf: &Dwarf<Bytes<'_>>, unit: &Unit<Bytes<'_>>, address: u64) -> bool {
    let Ok(mut ranges) = dwarf.unit_ranges(unit) else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

struct Reader<'d, 'a> {
    dwarf: &'d Dwarf<Bytes<'a>>,
    unit: &'d Unit<Bytes<'a>>,
}

impl<'a> Reader<'_, 'a> {
    /// Searches for the function that begins at `address`; if it is found, returns its signature, or `None`
    /// inside if the signature is not certain.
    fn function(&self, address: u64) -> Option<Option<Signature>> {
        let mut entries = self.unit.header.entries(&self.unit.abbreviations);
        while let Ok(Some(entry)) = entries.next_dfs() {
            let begin =
                || self.dwarf.attr_address(self.unit, entry.attr_value(constants::DW_AT_low_pc)?).ok()?;
            if entry.tag() == constants::DW_TAG_subprogram && begin() == Some(address) {
                return Some(self.signature(entry.offset()));
            }
        }
        None
    }

    fn entry(&self, offset: UnitOffset) -> Option<Entry<'a>> {
        self.unit.entry(offset).ok()
    }

    /// What an attribute refers to in this unit.
    fn referred(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<UnitOffset> {
        match entry.attr_value(attribute)? {
            AttributeValue::UnitRef(offset) => Some(offset),
            AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&self.unit.header),
            _ => None,
        }
    }

    /// An attribute of an entry, or of the entry of which it is an instance (`DW_AT_abstract_origin`) or
    /// which it completes (`DW_AT_specification`).
    fn inherited<T>(&self, offset: UnitOffset, get: impl Fn(&Entry<'a>) -> Option<T>) -> Option<T> {
        let mut next = Some(offset);
        for _ in 0..DEPTH_MAX {
            let entry = self.entry(next?)?;
            if let Some(found) = get(&entry) {
                return Some(found);
            }
            next = self
                .referred(&entry, constants::DW_AT_abstract_origin)
                .or_else(|| self.referred(&entry, constants::DW_AT_specification));
        }
        None
    }

    fn name(&self, offset: UnitOffset) -> String {
        let name = self.inherited(offset, |entry| {
            let value = entry.attr_value(constants::DW_AT_name)?;
            Some(self.dwarf.attr_string(self.unit, value).ok()?.to_string_lossy().into_owned())
        });
        name.unwrap_or_default()
    }

    fn of(&self, offset: UnitOffset) -> Option<UnitOffset> {
        self.inherited(offset, |entry| self.referred(entry, constants::DW_AT_type))
    }

    fn signature(&self, function: UnitOffset) -> Option<Signature> {
        let convention = |entry: &Entry<'a>| entry.attr_value(constants::DW_AT_calling_convention);
        let is_changed = self
            .inherited(function, convention)
            .is_some_and(|value| value != AttributeValue::CallingConvention(constants::DW_CC_normal));
        if is_changed || self.is_rust() {
            return None;
        }
        // The entry of a function's instance lacks parameters that are not used; the entry of its abstract
        // origin has all parameters.
        let mut whole = function;
        for _ in 0..DEPTH_MAX {
            match self.referred(&self.entry(whole)?, constants::DW_AT_abstract_origin) {
                Some(origin) => whole = origin,
                None => break,
            }
        }
        let result = self.of(function).map(|of| self.described(of, 0));
        let is_in_memory = match result.as_ref().map(|result| result.form) {
            Some(Form::Whole(bytes)) => bytes > 16,
            Some(Form::ByAddress) => true,
            _ => false,
        };
        let mut places = Places { integers: usize::from(is_in_memory), floats: 0, is_certain: true };
        let mut parameters = Vec::new();
        let mut tree = self.unit.entries_tree(Some(whole)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            if entry.tag() == constants::DW_TAG_formal_parameter {
                let of = self.described(self.of(entry.offset())?, 0);
                let place = places.next(of.form);
                parameters.push(Parameter { name: self.name(entry.offset()), of, place });
            }
        }
        Some(Signature { parameters, result })
    }

    fn is_rust(&self) -> bool {
        let language = self.entry(self.unit.header.root_offset());
        let language = language.and_then(|root| root.attr_value(constants::DW_AT_language));
        language == Some(AttributeValue::Language(constants::DW_LANG_Rust))
    }

    fn described(&self, offset: UnitOffset, depth: usize) -> Type {
        let other = || Type { name: "?".to_owned(), form: Form::Other };
        let Some(entry) = self.entry(offset).filter(|_| depth < DEPTH_MAX) else { return other() };
        let inner = || match self.referred(&entry, constants::DW_AT_type) {
            Some(of) => self.described(of, depth + 1),
            None => Type { name: "void".to_owned(), form: Form::Other },
        };
        let bytes = entry.attr(constants::DW_AT_byte_size).and_then(gimli::Attribute::udata_value);
        match entry.tag() {
            constants::DW_TAG_base_type => {
                let (name, form) = (self.name(offset), base(&entry, bytes.unwrap_or(0)));
                let is_character = name == "char" && form == Form::Signed(1);
                Type { name, form: if is_character { Form::Character } else { form } }
            }
            constants::DW_TAG_enumeration_type => {
                // The type of the constants says whether they have a sign; old compilers do not name it.
                let form = match inner().form {
                    form @ (Form::Signed(_) | Form::Unsigned(_) | Form::Bool | Form::Character) => form,
                    _ => Form::Signed(bytes.unwrap_or(4)),
                };
                Type { name: format!("enum {}", self.name(offset)), form }
            }
            constants::DW_TAG_typedef => Type { name: self.name(offset), ..inner() },
            constants::DW_TAG_const_type => qualified("const", inner()),
            constants::DW_TAG_volatile_type => qualified("volatile", inner()),
            constants::DW_TAG_restrict_type | constants::DW_TAG_atomic_type => inner(),
            constants::DW_TAG_pointer_type => pointer(inner(), '*'),
            constants::DW_TAG_reference_type | constants::DW_TAG_rvalue_reference_type => {
                Type { form: Form::Pointer, ..pointer(inner(), '&') }
            }
            constants::DW_TAG_subroutine_type => Type { name: "function".to_owned(), form: Form::Other },
            constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type => {
                let by = entry.attr_value(constants::DW_AT_calling_convention);
                let is_by_address =
                    by == Some(AttributeValue::CallingConvention(constants::DW_CC_pass_by_reference));
                let form = if is_by_address { Form::ByAddress } else { Form::Whole(bytes.unwrap_or(0)) };
                Type { name: self.name(offset), form }
            }
            _ => other(),
        }
    }
}

fn base(entry: &Entry<'_>, bytes: u64) -> Form {
    match entry.attr_value(constants::DW_AT_encoding) {
        Some(AttributeValue::Encoding(constants::DW_ATE_float)) => Form::Float(bytes),
        Some(AttributeValue::Encoding(constants::DW_ATE_signed | constants::DW_ATE_signed_char)) => {
            Form::Signed(bytes)
        }
        Some(AttributeValue::Encoding(constants::DW_ATE_boolean)) if bytes == 1 => Form::Bool,
        Some(AttributeValue::Encoding(
            constants::DW_ATE_unsigned
            | constants::DW_ATE_unsigned_char
            | constants::DW_ATE_boolean
            | constants::DW_ATE_UTF,
        )) => Form::Unsigned(bytes),
        _ => Form::Other,
    }
}

fn qualified(by: &str, of: Type) -> Type {
    let name = if of.name.ends_with('*') { format!("{}{by}", of.name) } else { format!("{by} {}", of.name) };
    Type { name, form: of.form }
}

fn pointer(to: Type, sign: char) -> Type {
    let is_character = to.name.trim_start_matches("const ") == "char";
    let space = if to.name.ends_with(['*', '&']) { "" } else { " " };
    Type {
        name: format!("{}{space}{sign}", to.name),
        form: if is_character { Form::Text } else { Form::Pointer },
    }
}

/// Assigns registers to the parameters of a function, one after the other.
pub(crate) struct Places {
    integers: usize,
    floats: usize,
    is_certain: bool,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places { integers: 0, floats: 0, is_certain: true }
    }

    pub(crate) fn next(&mut self, form: Form) -> Option<Place> {
        match form {
            // A value of form `ByAddress` is passed as a pointer to a copy.
            Form::Signed(1..=8)
            | Form::Unsigned(1..=8)
            | Form::Bool
            | Form::Character
            | Form::Pointer
            | Form::Text
            | Form::ByAddress => {
                self.integers += 1;
                (self.is_certain && self.integers <= INTEGERS).then(|| Place::Integer(self.integers - 1))
            }
            Form::Float(4 | 8) => {
                self.floats += 1;
                (self.is_certain && self.floats <= FLOATS).then(|| Place::Float(self.floats - 1))
            }
            // Values longer than two registers are passed in memory.
            Form::Float(16) => None,
            Form::Whole(bytes) if bytes > 16 => None,
            _ => {
                self.is_certain = false;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(forms: &[Form]) -> Vec<Option<Place>> {
        let mut places = Places::new();
        forms.iter().map(|form| places.next(*form)).collect()
    }

    #[test]
    fn registers_are_taken_in_order() {
        let (integer, float) = (|n| Some(Place::Integer(n)), |n| Some(Place::Float(n)));
        let forms = [Form::Text, Form::Float(8), Form::Signed(4), Form::Float(4)];
        assert_eq!(places(&forms), [integer(0), float(0), integer(1), float(1)]);
        let forms = [Form::Whole(24), Form::Pointer, Form::Whole(16), Form::Pointer];
        assert_eq!(places(&forms), [None, integer(0), None, None]);
        assert_eq!(places(&[Form::Pointer; 7])[5..], [integer(5), None]);
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(Types::new(|_| &[]).expect("no information").signature(4096), None);
    }
}
