//! Patterns of names, with the same meaning for settings, kinds of event, probes, components and libraries.
//!
//! `*` matches any characters except `/`, `**` any characters, `?` one character except `/`, and any other
//! character itself. The pattern has to match the whole name.
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
//! **Why a crate of its own?** Patterns are used by the observed side, the observing side and packs, which do
//! not depend on each other.
#![forbid(unsafe_code)]

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    AnyOne,
    /// Any number of characters, and whether they may include `/`.
    Any {
        slashes: bool,
    },
}

impl Glob {
    /// Parses a pattern. Every text is a valid pattern.
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

    /// Whether the pattern matches the whole of `text`. The call takes at most as many steps as the product
    /// of the lengths of pattern and text in characters.
    pub fn matches(&self, text: &str) -> bool {
        // Marks the parts of the pattern that could match next.
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

    /// Marks the parts after a star as reached, because a star also matches the empty text.
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
