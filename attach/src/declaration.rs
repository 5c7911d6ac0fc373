//! Declarations of functions in C, where no debugging information says what the parameters are.

use crate::types::{Form, Parameter, Places, Signature, Type};

/// Names of types with the forms that these types have on x86-64 with Linux.
const NAMED: [(&str, Form); 26] = [
    ("bool", Form::Bool),
    ("_Bool", Form::Bool),
    ("float", Form::Float(4)),
    ("double", Form::Float(8)),
    ("size_t", Form::Unsigned(8)),
    ("ssize_t", Form::Signed(8)),
    ("ptrdiff_t", Form::Signed(8)),
    ("intptr_t", Form::Signed(8)),
    ("uintptr_t", Form::Unsigned(8)),
    ("off_t", Form::Signed(8)),
    ("off64_t", Form::Signed(8)),
    ("time_t", Form::Signed(8)),
    ("int8_t", Form::Signed(1)),
    ("int16_t", Form::Signed(2)),
    ("int32_t", Form::Signed(4)),
    ("int64_t", Form::Signed(8)),
    ("uint8_t", Form::Unsigned(1)),
    ("uint16_t", Form::Unsigned(2)),
    ("uint32_t", Form::Unsigned(4)),
    ("uint64_t", Form::Unsigned(8)),
    ("socklen_t", Form::Unsigned(4)),
    ("mode_t", Form::Unsigned(4)),
    ("uid_t", Form::Unsigned(4)),
    ("gid_t", Form::Unsigned(4)),
    ("pid_t", Form::Signed(4)),
    ("nfds_t", Form::Unsigned(8)),
];

impl Signature {
    /// Reads the declaration of a function, such as `ssize_t read(int fd, void *buf, size_t count)`. Returns the
    /// function's name and its signature.
    ///
    /// # Errors
    /// The text is no declaration, or a type in it is none of those that are known; the error is a sentence.
    pub fn declared(text: &str) -> Result<(String, Signature), String> {
        let none =
            || format!("`{text}` declares no function, such as `int f(const char *name, size_t bytes)`");
        let whole = text.trim().trim_end_matches(';').trim_end();
        let (before, inside) =
            whole.strip_suffix(')').and_then(|rest| rest.split_once('(')).ok_or_else(none)?;
        if inside.contains(['(', ')', '[']) {
            return Err(format!("`{text}` has a type in parentheses or brackets: write it as `void *`"));
        }
        let (result, name) = typed(before)?;
        if name.is_empty() {
            return Err(none());
        }
        let mut places = Places::new();
        let mut parameters = Vec::new();
        for parameter in inside.split(',').map(str::trim) {
            match parameter {
                "" | "void" if !inside.contains(',') => {}
                "..." => break,
                _ => {
                    let (of, name) = typed(parameter)?;
                    let of = of.ok_or_else(|| format!("the parameter `{parameter}` has no value"))?;
                    let place = places.next(of.form);
                    parameters.push(Parameter { name, of, place });
                }
            }
        }
        Ok((name, Signature { parameters, result }))
    }
}

/// The type of `const char *name`, `None` for `void`, and the name; the name may be missing.
fn typed(text: &str) -> Result<(Option<Type>, String), String> {
    let spaced = text.replace('*', " * ");
    let mut words: Vec<&str> = spaced.split_whitespace().filter(|word| *word != "restrict").collect();
    let is_type = |word: &str| {
        let of_c = ["*", "void", "const", "char", "short", "int", "long", "signed", "unsigned", "volatile"];
        of_c.contains(&word) || NAMED.iter().any(|(name, _)| *name == word)
    };
    let of_kind = words.iter().any(|word| matches!(*word, "struct" | "enum" | "union"));
    // The last word is the name, unless it belongs to the type: `int`, `struct stat *`.
    let has_name =
        words.len() > if of_kind { 2 } else { 1 } && words.last().is_some_and(|last| !is_type(last));
    let name = if has_name { words.pop().unwrap_or_default().to_owned() } else { String::new() };
    let is_word = |word: &str| word == "*" || word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if words.is_empty() || !words.iter().all(|word| is_word(word)) || !is_word(&name) {
        return Err(format!("`{text}` is no type with a name"));
    }
    let written = words.join(" ").replace("* *", "**");
    let base: Vec<&str> =
        words.iter().copied().filter(|word| !matches!(*word, "const" | "volatile")).collect();
    let form = match base[..] {
        ["void"] => return Ok((None, name)),
        ["char", "*"] => Form::Text,
        [.., "*"] => Form::Pointer,
        ["enum", _] => Form::Signed(4),
        _ => named(&base).or_else(|| whole(&base)).ok_or_else(|| {
            format!("the type of `{text}` is not known here: write an integer of C, `double` or a pointer")
        })?,
    };
    Ok((Some(Type { name: written, form }), name))
}

fn named(words: &[&str]) -> Option<Form> {
    let [one] = words else { return None };
    NAMED.iter().find(|(name, _)| name == one).map(|(_, form)| *form)
}

/// The form of an integer type in the words of C, in any order.
fn whole(words: &[&str]) -> Option<Form> {
    let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
    let known = ["char", "short", "int", "long", "signed", "unsigned"];
    if words.is_empty() || !words.iter().all(|word| known.contains(word)) {
        return None;
    }
    let bytes = match (count("char"), count("short"), count("long")) {
        (1, 0, 0) if count("int") == 0 => 1,
        (0, 1, 0) => 2,
        (0, 0, 1 | 2) => 8,
        (0, 0, 0) => 4,
        _ => return None,
    };
    match (count("signed"), count("unsigned"), count("int")) {
        (0, 0, 0) if bytes == 1 => Some(Form::Character),
        (0 | 1, 0, 0 | 1) => Some(Form::Signed(bytes)),
        (0, 1, 0 | 1) => Some(Form::Unsigned(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Place;

    #[test]
    fn declarations_of_c_are_read() {
        let (name, read) =
            Signature::declared("ssize_t read(int fd, void *buf, size_t count);").expect("read");
        assert_eq!(name, "read");
        let forms: Vec<Form> = read.parameters.iter().map(|parameter| parameter.of.form).collect();
        assert_eq!(forms, [Form::Signed(4), Form::Pointer, Form::Unsigned(8)]);
        assert_eq!(read.parameters[2].place, Some(Place::Integer(2)));
        assert_eq!(read.parameters[1].of.name, "void *");
        assert_eq!(read.result.map(|of| of.form), Some(Form::Signed(8)));

        let (name, mixed) = Signature::declared(
            "const char *f(double, const char *text, float by, unsigned long long n, ...)",
        )
        .expect("f");
        let place = |n: usize| mixed.parameters[n].place;
        assert_eq!(
            (name.as_str(), place(0), place(1)),
            ("f", Some(Place::Float(0)), Some(Place::Integer(0)))
        );
        assert_eq!((place(2), place(3)), (Some(Place::Float(1)), Some(Place::Integer(1))));
        assert_eq!(mixed.parameters[1].of.form, Form::Text);
        assert_eq!(mixed.parameters[3].of.form, Form::Unsigned(8));
        assert_eq!(mixed.parameters[0].name, "");

        let (_, none) = Signature::declared("void g(void)").expect("g");
        assert_eq!(none, Signature { parameters: Vec::new(), result: None });
        let (_, many) =
            Signature::declared("int h(int a, int b, int c, int d, int e, char f, short g)").expect("h");
        assert_eq!(many.parameters[5].of.form, Form::Character);
        assert_eq!(many.parameters[6].place, None);
        let (_, pointers) =
            Signature::declared("int i(struct pollfd *fds, char **names, enum kind of)").expect("i");
        let forms: Vec<Form> = pointers.parameters.iter().map(|parameter| parameter.of.form).collect();
        assert_eq!(forms, [Form::Pointer, Form::Pointer, Form::Signed(4)]);
        assert_eq!(pointers.parameters[0].of.name, "struct pollfd *");
    }

    #[test]
    fn what_is_no_declaration_is_refused() {
        for text in [
            "",
            "int",
            "int f",
            "f",
            "int f(",
            "int (int a)",
            "int f(struct s whole)",
            "int f(mystery x)",
            "int f(int (*g)(void))",
            "int f(int a[3])",
            "long double f(void)",
            "int f(void a)",
            "int f(int a,)",
            "int f(unsigned signed int a)",
            "int f-g(int a)",
        ] {
            let error = Signature::declared(text).expect_err(text);
            assert!(!error.contains('\n') && !error.is_empty(), "{text}: {error}");
        }
    }
}
