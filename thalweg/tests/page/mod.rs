//! Pages of `docs/` and the blocks in them.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod session;

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// A page that a test reads, and updates if `UPDATE` is set.
pub(crate) struct Page {
    path: PathBuf,
    text: String,
    as_read: String,
}

/// A piece of a page: a block between fences, or (with the fence "") the text between two blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) fence: &'a str,
    pub(crate) text: &'a str,
}

impl Page {
    /// Reads a page by its path from the root.
    pub(crate) fn read(path: &str) -> Page {
        let path = super::des_run::root().join(path);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Page { path, as_read: text.clone(), text }
    }

    /// The pieces of the page in order; text between blocks is split into paragraphs.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.text.split("```").enumerate().flat_map(|(i, part)| -> Vec<Block<'_>> {
            if i % 2 == 0 {
                return part.split("\n\n").map(|text| Block { fence: "", text }).collect();
            }
            let (fence, text) = part.split_once('\n').expect("a fence ends its line");
            vec![Block { fence, text }]
        })
    }

    /// The blocks between fences.
    pub(crate) fn code(&self) -> impl Iterator<Item = Block<'_>> {
        let parts = self.text.split("```").skip(1).step_by(2);
        parts
            .map(|part| part.split_once('\n').expect("a fence ends its line"))
            .map(|(fence, text)| Block { fence, text })
    }

    /// Replaces each block with the fence `fence` by the text that `anew` makes of the last `snet` block
    /// before the replaced one.
    pub(crate) fn replace(&mut self, fence: &str, anew: impl Fn(&str) -> String) {
        let mut network = "";
        let mut out = Vec::new();
        for (i, part) in self.text.split("```").enumerate() {
            match part.split_once('\n') {
                Some((f, _)) if i % 2 == 1 && f == fence => {
                    out.push(format!("{fence}\n{}", anew(network)));
                    continue;
                }
                Some(("snet", text)) if i % 2 == 1 => network = text,
                _ => {}
            }
            out.push(part.to_owned());
        }
        self.text = out.join("```");
    }

    /// Compares the page with the text that was read, or writes the page.
    #[track_caller]
    pub(crate) fn compare(&self) {
        if std::env::var_os("UPDATE").is_some() {
            if self.text != self.as_read {
                std::fs::write(&self.path, &self.text).expect("the page can be written");
            }
            return;
        }
        for (now, read) in self.text.lines().zip(self.as_read.lines()) {
            assert_eq!(now, read, "{} (UPDATE=1 writes it anew)", self.path.display());
        }
        assert_eq!(self.text.len(), self.as_read.len(), "{} (UPDATE=1 writes it anew)", self.path.display());
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// Whether a line is equal to the line `shown`, in which `…` stands for any characters.
pub(crate) fn is_as_shown(line: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// The name that a first line `// NAME.snet` of a block gives.
pub(crate) fn file_name(network: &str) -> &str {
    let line = network.lines().next().unwrap_or("");
    let name = line.strip_prefix("// ").or_else(|| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
    let name = name.filter(|name| name.contains('.') && !name.contains(' '));
    name.unwrap_or_else(|| panic!("the first line is not `// NAME` or `<!-- NAME -->` in:\n{network}"))
}

/// The complete output of a command, standard error first.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let all = [output.stderr, output.stdout].concat();
    String::from_utf8(all).expect("text").replace("\n\n", "\n")
}
