//! Patterns of names, with one meaning wherever Thalweg takes one: for settings, kinds of event, probes, components, libraries.
//!
//! `*` stands for any characters but `/`, `**` for any at all, `?` for one character but `/`, any other character for itself. The whole
//! name has to be as the pattern says.
//!
//! ```
//! use thalweg_glob::Glob;
//!
//! assert!(Glob::new("exec.*").matches("exec.quantum_us"));
//! assert!(!Glob::new("exec").matches("exec.quantum_us"));
//! assert!(Glob::new("**/round").matches("des/rounds/round"));
//! assert!(!Glob::new("*/round").matches("des/rounds/round"));
//! ```
//!
//! **Why a crate of its own?** What names are compared on both sides of a space and in packs, which know nothing of each other.
#![forbid(unsafe_code)]

/// A pattern, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    AnyOne,
    /// Any number of characters; of `/`, too.
    Any {
        slashes: bool,
    },
}

impl Glob {
    /// Reads a pattern; every text is one.
    pub fn new(text: &str) -> Glob {
        let mut parts: Vec<Part> = Vec::new();
        for letter in text.chars() {
            match (letter, parts.last_mut()) {
                ('*', Some(Part::Any { slashes })) => *slashes = true,
                ('*', _) => parts.push(Part::Any { slashes: false }),
                ('?', _) => parts.push(Part::AnyOne),
                (other, _) => parts.push(Part::One(other)),
            }
        }
        Glob { parts }
    }

    /// Whether the whole of `text` is as the pattern says: at most as many steps as the text has characters times the pattern's.
    pub fn matches(&self, text: &str) -> bool {
        // Which parts of the pattern could come next.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip_any(&mut reached);
        for letter in text.chars() {
            let mut next = vec![false; reached.len()];
            for (at, part) in self.parts.iter().enumerate().filter(|&(at, _)| reached[at]) {
                match *part {
                    Part::One(wanted) => next[at + 1] |= wanted == letter,
                    Part::AnyOne => next[at + 1] |= letter != '/',
                    Part::Any { slashes } => next[at] |= slashes || letter != '/',
                }
            }
            self.skip_any(&mut next);
            reached = next;
        }
        reached[self.parts.len()]
    }

    /// Any number of characters may be none.
    fn skip_any(&self, reached: &mut [bool]) {
        for (at, part) in self.parts.iter().enumerate() {
            if reached[at] && matches!(part, Part::Any { .. }) {
                reached[at + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, wanted) in [
            ("des/round", "des/round", true),
            ("des/round", "des/rounds", false),
            ("des/*", "des/round", true),
            ("des/*", "des/star/round", false),
            ("des/**", "des/star/round", true),
            ("**/round", "des/star/round", true),
            ("r?und", "round", true),
            ("r?und", "r/und", false),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "aXbYbZc", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), wanted, "{pattern} {text}");
        }
    }
}
