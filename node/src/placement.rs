//! The user's placement of components on nodes.

use std::path::Path;

use thalweg_glob::Glob;
use thalweg_host::Error;

/// Patterns of components' paths, each with a node. The first pattern that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    lines: Vec<(String, String)>,
}

impl Placement {
    /// Reads a file with one `COMPONENT = NODE` on each line; `#` begins a comment.
    ///
    /// # Errors
    /// The file cannot be read, or a line has another form.
    pub fn read(path: &Path) -> Result<Placement, Error> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::coded("E0901", format!("cannot read the placement {shown}")).because(error)
        })?;
        Placement::parse(&text).map_err(|(line, what)| Error::usage(format!("{shown}, line {line}: {what}")))
    }

    /// Reads a placement from a text. `Err`: the line, from 1, and what is wrong with it.
    ///
    /// # Errors
    /// A line has another form.
    pub fn parse(text: &str) -> Result<Placement, (usize, String)> {
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let parts = line.split_once('=').map(|(component, node)| (component.trim(), node.trim()));
            match parts {
                Some((component, node)) if !component.is_empty() && !node.is_empty() => {
                    lines.push((component.to_owned(), node.to_owned()));
                }
                _ => {
                    return Err((
                        at + 1,
                        format!("`{line}`: a line is COMPONENT = NODE, such as `main/star = b`"),
                    ));
                }
            }
        }
        Ok(Placement { lines })
    }

    /// Whether the placement has no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines, as pattern and node.
    pub(crate) fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    pub(crate) fn of_lines(lines: Vec<(String, String)>) -> Placement {
        Placement { lines }
    }

    /// The node of the component with this path.
    pub(crate) fn node_of(&self, path: &str) -> Option<&str> {
        self.lines.iter().find(|(pattern, _)| Glob::new(pattern).matches(path)).map(|(_, node)| node.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_fits_decides() {
        let placement = Placement::parse("# where\nmain/star = b\n\nmain/s* = a # the rest\n").unwrap();
        assert_eq!(placement.node_of("main/star"), Some("b"));
        assert_eq!(placement.node_of("main/split"), Some("a"));
        assert_eq!(placement.node_of("main/box"), None);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, line) in [("a\n", 1), ("a = b\n= c", 2), ("\n\na =", 3)] {
            assert_eq!(Placement::parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
