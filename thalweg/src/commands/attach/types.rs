//! The types of the functions of which values are kept, as debugging information has them: they say in which
//! register an argument is, and how its bits are read.

use std::collections::HashMap;

use thalweg_attach::{Argument, Attachment, Function, Place, Signature, Type, Which, Wish};

/// The signatures of functions by their addresses; `None` for a function without debugging information.
#[derive(Default)]
pub(super) struct Signatures(HashMap<u64, Option<Signature>>);

impl Signatures {
    pub(super) fn of(&self, function: &Function) -> Option<&Signature> {
        self.0.get(&function.address)?.as_ref()
    }

    /// Looks up the types of the functions of which values are kept, and replaces each argument that was
    /// named by its number by the register and the form of the parameter with that number. An argument or a
    /// result that is in no single register is left out, which is printed.
    pub(super) fn give(&mut self, attachment: &Attachment, wishes: &mut [(Function, Wish)]) {
        let is_shown = |wish: &Wish| wish.keep.is_some_and(|keep| keep.which != Which::Every);
        let has_values = |wish: &Wish| !wish.arguments.is_empty() || wish.results.is_some() || is_shown(wish);
        let mut wishes: Vec<_> = wishes.iter_mut().filter(|(_, wish)| has_values(wish)).collect();
        let functions: Vec<&Function> = wishes.iter().map(|(function, _)| function).collect();
        let found = attachment.signatures(&functions);
        for ((function, wish), signature) in wishes.iter_mut().zip(found) {
            if let Some(signature) = &signature {
                typed(&function.readable(), wish, signature);
            }
            self.0.insert(function.address, signature);
        }
    }
}

/// Gives the arguments and the result that are kept their registers and forms.
fn typed(name: &str, wish: &mut Wish, signature: &Signature) {
    let left_out = |what: &str, of: &Type| {
        print_stderr!(
            "{what} of {name} is left out: it has type {}, which is not in a register by itself",
            of.name
        );
    };
    wish.arguments.retain_mut(|argument| {
        let Place::Integer(number) = argument.place else { return true };
        // An argument that is not declared may be one of a function with any number of arguments.
        let Some(parameter) = signature.parameters.get(number) else { return true };
        match parameter.place.filter(|_| parameter.of.form.is_number()) {
            Some(place) => *argument = Argument { place, form: parameter.of.form },
            None => left_out(&format!("argument {number}"), &parameter.of),
        }
        parameter.place.is_some() && parameter.of.form.is_number()
    });
    if wish.results.is_some() {
        wish.results = match &signature.result {
            Some(of) if of.form.is_number() => Some(of.form),
            Some(of) => {
                left_out("the result", of);
                None
            }
            None => {
                print_stderr!("{name} has no result");
                None
            }
        };
    }
}
