//! Boxes that end the process, for tests of the messages about them.

use thalweg_box::{Out, library};

/// Ends the process at `<n> = 2`.
fn ending(n: i64, how: i64, out: &mut Out) {
    if n == 2 {
        end(how);
    }
    out.emit((n,));
}

fn end(how: i64) {
    match how {
        0 => std::process::exit(0),
        1 => std::process::abort(),
        _ => drop(std::hint::black_box(deeper(how as usize))),
    }
}

/// Overflows the stack.
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: usize) -> usize {
    let room = std::hint::black_box([depth; 256]);
    deeper(depth + 1) + room[depth % 256]
}

/// Ends the process at `<n> = 2`, but only when the runtime takes the second record from the box's generator.
fn later(n: i64, out: &mut Out) {
    out.generate((0..3_i64).map(move |k| {
        if n == 2 && k == 1 {
            std::process::exit(0);
        }
        (k,)
    }));
}

library! {
    "box ending ((<n>, <how>) -> (<n>))" => ending,
    "box waiting ((<n>, <how>) -> (<n>))" => blocking ending,
    "box later ((<n>) -> (<n>))" => later,
}
