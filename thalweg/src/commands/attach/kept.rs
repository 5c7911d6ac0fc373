//! The calls that were kept one by one, as a table and as JSON, with the names and types of their arguments
//! if the types are known.

use serde_json::{Value, json};
use thalweg_attach::{Argument, Attachment, Call, Form, Number, Parameter, Place, Signature, Wish};

use super::distribution;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column};
use crate::units::duration;

/// How many arguments of a function are shown if its types are not known and the user named none.
const ARGUMENTS: usize = 3;
/// How many bytes of a text are shown.
const TEXT_BYTES: usize = 48;

/// Which values of a function's calls are shown.
#[derive(Default)]
pub(super) struct Columns {
    signature: Option<Signature>,
    /// The arguments that the user asked for; if empty, all known arguments are shown, or else the first ones.
    arguments: Vec<Argument>,
}

/// The calls of a function that were kept one by one.
#[derive(Default)]
pub(super) struct Kept {
    calls: Vec<Row>,
    /// Calls that could not be kept, because another thread was writing their record.
    pub(super) without: u64,
}

struct Row {
    call: Call,
    /// The values of the shown arguments, and the result.
    arguments: Vec<Value>,
    result: Option<Value>,
}

/// How ticks of the clock are converted to times.
pub(super) struct Times<'a> {
    /// The time in ticks at which the figures began.
    pub(super) begin: u64,
    /// Converts a number of ticks to nanoseconds.
    pub(super) ns: &'a dyn Fn(u64) -> u64,
}

impl Columns {
    pub(super) fn new(signature: Option<Signature>, wish: &Wish) -> Columns {
        Columns { signature, arguments: wish.arguments.clone() }
    }

    /// The parameter that is this argument, with its number, if the types are known.
    fn parameter(&self, argument: Argument) -> Option<(usize, &Parameter)> {
        let parameters = self.signature.iter().flat_map(|signature| &signature.parameters);
        parameters.enumerate().find(|(_, parameter)| parameter.place == Some(argument.place))
    }

    /// What an argument is, as C declares it; empty if that is not known.
    pub(super) fn declared(&self, argument: Argument) -> String {
        self.parameter(argument).map(|(_, parameter)| declaration(parameter)).unwrap_or_default()
    }

    /// The number of an argument: that of the parameter if the types are known, else that of the register.
    pub(super) fn number(&self, argument: Argument) -> usize {
        let (Place::Integer(register) | Place::Float(register)) = argument.place;
        self.parameter(argument).map_or(register, |(number, _)| number)
    }

    /// The name of an argument's type, and its form, if they are known.
    pub(super) fn of(&self, argument: Argument) -> Option<(&str, Form)> {
        self.parameter(argument).map(|(_, parameter)| (parameter.of.name.as_str(), argument.form))
    }

    /// The name of the result's type, and its form, if they are known.
    pub(super) fn of_result(&self) -> Option<(&str, Form)> {
        let result = self.signature.as_ref()?.result.as_ref()?;
        Some((result.name.as_str(), result.form))
    }

    /// The parameters that are shown, if the function's types are known.
    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let is_asked = |place| self.arguments.iter().any(|argument| argument.place == place);
        let wanted = move |parameter: &&Parameter| {
            parameter.place.is_some_and(|place| self.arguments.is_empty() || is_asked(place))
        };
        self.signature.iter().flat_map(|signature| &signature.parameters).filter(wanted)
    }

    fn numbers(&self) -> Vec<usize> {
        match &self.arguments[..] {
            [] => (0..ARGUMENTS).collect(),
            arguments => arguments.iter().map(|argument| self.number(*argument)).collect(),
        }
    }

    fn names(&self) -> Vec<String> {
        match &self.signature {
            Some(_) => self.parameters().map(declaration).collect(),
            None => self.numbers().iter().map(|number| format!("ARG {number}")).collect(),
        }
    }

    fn short_names(&self) -> Vec<String> {
        match &self.signature {
            Some(_) => self.parameters().map(|parameter| parameter.name.clone()).collect(),
            None => self.numbers().iter().map(usize::to_string).collect(),
        }
    }

    /// A function's declaration, if that is known; else its name.
    fn heading(&self, name: &str) -> String {
        let Some(signature) = &self.signature else { return name.to_owned() };
        let result = signature.result.as_ref().map_or("void", |result| result.name.as_str());
        let parameters: Vec<String> = signature.parameters.iter().map(declaration).collect();
        let name = name.split('(').next().unwrap_or(name);
        format!("{result} {name}({})", parameters.join(", "))
    }

    fn row(&self, call: Call, attachment: &Attachment) -> Row {
        let arguments = match &self.signature {
            Some(_) => self.parameters().map(|parameter| argument(parameter, &call, attachment)).collect(),
            None => self.numbers().iter().map(|number| untyped(call.arguments[*number])).collect(),
        };
        let result = call.ended.and_then(|ended| ended.result).and_then(|bits| match &self.signature {
            Some(signature) => Some(typed(signature.result.as_ref()?.form, bits, attachment)),
            None => Some(untyped(bits.0)),
        });
        Row { call, arguments, result }
    }
}

impl Kept {
    pub(super) fn new(
        (calls, without): (Vec<Call>, u64),
        columns: &Columns,
        attachment: &Attachment,
    ) -> Kept {
        let calls = calls.into_iter().map(|call| columns.row(call, attachment)).collect();
        Kept { calls, without }
    }

    pub(super) fn print(
        &self,
        name: &str,
        shown: &Columns,
        times: &Times<'_>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if self.calls.is_empty() {
            return Ok(());
        }
        output.line(&format!("\ncalls of {}", shown.heading(name)))?;
        let columns = [number("AT", 0), number("LASTED", 0), column("ARGUMENTS").loose(), column("RESULT")];
        let mut table = Table::new(&columns);
        let names = shown.short_names();
        for row in &self.calls {
            let ended = row.call.ended.map(|ended| duration((times.ns)(ended.ticks) as f64));
            let at = duration(times.at(&row.call) as f64);
            let arguments = names.iter().zip(&row.arguments);
            let arguments: Vec<String> =
                arguments.map(|(name, value)| format!("{name}: {}", cell(value))).collect();
            let result = row.result.as_ref().map(cell).unwrap_or_default();
            table.row(vec![at, ended.unwrap_or_default(), arguments.join(", "), result], false);
        }
        output.table(&table)
    }

    pub(super) fn object(&self, shown: &Columns, times: &Times<'_>) -> Value {
        let names = shown.names();
        let calls = self.calls.iter().map(|row| {
            let named = names.iter().zip(&row.arguments).map(|(name, value)| json!([name, value]));
            json!({
                "at_ns": times.at(&row.call), "thread": row.call.thread, "lasted_ns": row.call.ended.map(|ended| (times.ns)(ended.ticks)),
                "arguments": named.collect::<Value>(), "result": row.result,
            })
        });
        calls.collect()
    }
}

impl Times<'_> {
    fn at(&self, call: &Call) -> u64 {
        (self.ns)(call.begin.saturating_sub(self.begin))
    }
}

pub(super) fn declaration(parameter: &Parameter) -> String {
    let (name, of) = (&parameter.name, &parameter.of.name);
    let space = if of.ends_with(['*', '&']) || name.is_empty() { "" } else { " " };
    format!("{of}{space}{name}")
}

fn argument(parameter: &Parameter, call: &Call, attachment: &Attachment) -> Value {
    match parameter.place {
        Some(Place::Integer(number)) => typed(parameter.of.form, (call.arguments[number], 0), attachment),
        Some(Place::Float(number)) => typed(parameter.of.form, (0, call.floats[number]), attachment),
        None => Value::Null,
    }
}

/// A value of a known type, taken from an integer register or a floating-point register.
fn typed(form: Form, (integer, float): (u64, u64), attachment: &Attachment) -> Value {
    let unused = |bytes: u64| 64 - 8 * bytes.clamp(1, 8) as u32;
    match form {
        Form::Signed(bytes) => json!(integer.cast_signed() << unused(bytes) >> unused(bytes)),
        Form::Unsigned(bytes) => json!(integer << unused(bytes) >> unused(bytes)),
        Form::Bool => json!(integer as u8 != 0),
        Form::Character => {
            let character = i64::from((integer as u8).cast_signed());
            match distribution::text(form, Number::Signed(character)) {
                quoted if quoted.starts_with('\'') => json!(quoted),
                _ => json!(character),
            }
        }
        Form::Float(4) => json!(f32::from_bits(float as u32)),
        Form::Float(8) => json!(f64::from_bits(float)),
        Form::Text => match attachment.text(integer, TEXT_BYTES) {
            Some((text, is_cut)) => json!(format!("\"{text}\"{}", if is_cut { "…" } else { "" })),
            None => json!(format!("{integer:#x}")),
        },
        Form::Pointer | Form::ByAddress => json!(format!("{integer:#x}")),
        // A value that lay in memory, or in several registers, was not kept.
        _ => Value::Null,
    }
}

/// A register of unknown type as text for people: a small number, which may be negative, in decimal; other
/// values, which may be addresses, in hexadecimal.
fn untyped(bits: u64) -> Value {
    const SMALL: i64 = 1 << 32;
    match bits.cast_signed() {
        small if (-SMALL..SMALL).contains(&small) => json!(small),
        _ => json!(format!("{bits:#x}")),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_numbers_or_addresses() {
        for (bits, expected) in [(12, "12"), (u64::MAX, "-1"), (0x7fff_0000_1000, "0x7fff00001000")] {
            assert_eq!(cell(&untyped(bits)), expected);
        }
    }

    #[test]
    fn parameters_are_declared_as_in_c() {
        let parameter = |of: &str, name: &str| Parameter {
            name: name.to_owned(),
            of: thalweg_attach::Type { name: of.to_owned(), form: Form::Text },
            place: Some(Place::Integer(0)),
        };
        assert_eq!(declaration(&parameter("const char *", "name")), "const char *name");
        assert_eq!(declaration(&parameter("size_t", "count")), "size_t count");
        assert_eq!(declaration(&parameter("int", "")), "int");
    }
}
