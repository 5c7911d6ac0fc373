//! What is known of the types of a target's functions, and the texts that their arguments point to.

use super::Attachment;
use crate::modules::Function;
use crate::types::{Signature, Types};

impl Attachment {
    /// The parameters and the result of each of these functions, if there is debugging information that
    /// describes them: in the function's file, or in a separate file for the same build below
    /// `/usr/lib/debug`. Compressed sections are not read.
    pub fn signatures(&self, functions: &[&Function]) -> Vec<Option<Signature>> {
        let mut found = vec![None; functions.len()];
        let Ok(maps) = self.process.maps() else { return found };
        let mut modules: Vec<usize> = functions.iter().map(|function| function.module_index).collect();
        modules.sort_unstable();
        modules.dedup();
        for index in modules {
            let module = self.modules.get(index);
            let Some(sections) = module.debugging(&self.process, &maps) else { continue };
            let section = |name: &str| sections.get(name).map_or(&[][..], Vec::as_slice);
            let Some(types) = Types::new(section) else { continue };
            for (function, found) in functions.iter().zip(&mut found) {
                // A copy that the compiler made, such as `f.constprop.0`, has other parameters than the
                // function from which it was made.
                if function.module_index == index && !function.name.contains('.') {
                    *found = types.signature(function.address.wrapping_sub(module.bias));
                }
            }
        }
        found
    }

    /// The characters at an address of the target up to a zero, as they are now, but at most `limit` of them;
    /// and whether the text goes on after these.
    pub fn text(&self, address: u64, limit: usize) -> Option<(String, bool)> {
        let mut bytes = vec![0; limit + 1];
        let read = self.process.read_some(address, &mut bytes);
        let bytes = &bytes[..read];
        let end = memchr::memchr(0, bytes);
        let is_cut = end.is_none() && read > limit;
        (end.is_some() || is_cut).then(|| {
            let bytes = &bytes[..end.unwrap_or(limit)];
            (String::from_utf8_lossy(bytes).escape_debug().to_string(), is_cut)
        })
    }
}
