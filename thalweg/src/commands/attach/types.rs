//! The types of the functions of which values are kept, compared or changed, as debugging information has them:
//! they say in which register an argument is, and how its bits are read.

use std::collections::HashMap;

use thalweg_attach::{Argument, Attachment, Function, Place, Signature, Type, Wish};
use thalweg_pack::Pack;
use thalweg_tune::library::Declarations;

use crate::failure::Failure;

/// The signatures of functions.
pub(super) struct Signatures {
    /// The signatures by addresses; `None` for a function without debugging information that no pack declares.
    known: HashMap<u64, Option<Signature>>,
    declared: Declarations,
}

impl Signatures {
    /// Also functions that these packs declare, files or names of the program's own, are known.
    ///
    /// # Errors
    /// A pack cannot be read, or has mistakes.
    pub(super) fn new(packs: &[String]) -> Result<Signatures, Failure> {
        let read = |name: &String| crate::commands::tune::library_pack(name);
        let packs: Vec<Pack> = packs.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Signatures { known: HashMap::new(), declared: Declarations::new(&packs) })
    }

    pub(super) fn of(&self, function: &Function) -> Option<&Signature> {
        self.known.get(&function.address)?.as_ref()
    }

    /// Looks up the types of these functions.
    pub(super) fn look(&mut self, attachment: &Attachment, functions: &[&Function]) {
        let new = functions.iter().filter(|function| !self.known.contains_key(&function.address));
        let new: Vec<&Function> = new.copied().collect();
        let found = attachment.signatures(&new);
        for (function, found) in new.iter().zip(found) {
            let signature = found.or_else(|| self.declared.of(function).cloned());
            self.known.insert(function.address, signature);
        }
    }

    /// The register and the form of an argument: those of the parameter with this number, counted from 0, or,
    /// where the types are not known, the integer register with this number. The error is a sentence.
    pub(super) fn argument(&self, function: &Function, number: usize) -> Result<Argument, String> {
        let Some(signature) = self.of(function) else { return Ok(number.into()) };
        let name = function.readable();
        let Some(parameter) = signature.parameters.get(number) else {
            let count = crate::units::counted(signature.parameters.len() as u64, "parameter");
            return Err(format!("{name} declares {count}, counted from 0: there is no argument {number}"));
        };
        match parameter.place.filter(|_| parameter.of.form.is_number()) {
            Some(place) => Ok(Argument { place, form: parameter.of.form }),
            None => Err(not_by_itself(&format!("argument {number}"), &name, &parameter.of)),
        }
    }

    /// What an argument is called in messages: with its declaration, if that is known.
    pub(super) fn named(&self, function: &Function, number: usize) -> String {
        let parameter = self.of(function).and_then(|signature| signature.parameters.get(number));
        let name = function.readable();
        match parameter {
            Some(parameter) => {
                format!("argument {number} ({}) of {name}", super::kept::declaration(parameter))
            }
            None => format!("argument {number} of {name}, of unknown type,"),
        }
    }

    /// Gives the kept arguments, which have the numbers of the declaration, their registers and forms, and the
    /// result its form. What is in no single register is left out, which is printed.
    pub(super) fn give(&self, function: &Function, wish: &mut Wish) {
        let numbers = wish.arguments.iter().map(|argument| match argument.place {
            Place::Integer(number) | Place::Float(number) => number,
        });
        let found = numbers.map(|number| self.argument(function, number));
        wish.arguments = found
            .filter_map(|argument| argument.map_err(|why| print_stderr!("left out: {why}")).ok())
            .collect();
        let Some(signature) = self.of(function).filter(|_| wish.results.is_some()) else { return };
        wish.results = match &signature.result {
            Some(of) if of.form.is_number() => Some(of.form),
            Some(of) => {
                print_stderr!("left out: {}", not_by_itself("the result", &function.readable(), of));
                None
            }
            None => {
                print_stderr!("{} has no result", function.readable());
                None
            }
        };
    }
}

fn not_by_itself(what: &str, name: &str, of: &Type) -> String {
    format!("{what} of {name} has type {}, which is not in a register by itself", of.name)
}
