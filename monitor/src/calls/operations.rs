//! The operations of all spaces, identified by name and file, and their measurements.

use super::events::What;
use super::symbols::Symbols;
use super::times::Times;
use std::collections::HashMap;
use thalweg_space::reader::SpaceReader;

/// An operation and its calls.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) processes: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) failed: u64,
    pub(super) unwound: u64,
    pub(super) incomplete: u64,
    /// The number of stretches that resumed a call.
    pub(super) resumed: u64,
    pub(super) total: Times,
    pub(super) own: Times,
}

/// The operations of all spaces, and the number of each in the report.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) all: Vec<Operation>,
    /// Operations by name and file: equal names in one file are one operation.
    by_place: HashMap<(String, String), u32>,
    by_what: HashMap<(usize, What), u32>,
    sites: Vec<Sites>,
}

/// The operations' sites in a space's catalog.
#[derive(Debug, Default)]
struct Sites {
    process: String,
    host: String,
    /// Name, file and line, by number.
    sites: HashMap<u64, (String, String, u32)>,
    symbols: Symbols,
}

impl Operations {
    /// The report's number of an operation that the space at place `place` of the feed names by a site or an
    /// address.
    pub(super) fn number(&mut self, place: usize, space: &SpaceReader, what: What) -> u32 {
        if let Some(number) = self.by_what.get(&(place, what)) {
            return *number;
        }
        while self.sites.len() <= place {
            self.sites.push(Sites::default());
        }
        let sites = &mut self.sites[place];
        if sites.process.is_empty() {
            (sites.process, sites.host) = match space.info() {
                Ok(info) => (format!("{} {}", info.name, info.pid), info.host),
                Err(_) => ("?".to_owned(), "?".to_owned()),
            };
        }
        let known = match what {
            What::Site(site) => {
                sites.site(site, space).unwrap_or_else(|| (format!("operation {site}"), String::new(), 0))
            }
            What::Address(address) => sites.address(address, space),
        };
        let (process, host) = (sites.process.clone(), sites.host.clone());
        let (name, file, line) = known;
        let number = *self.by_place.entry((name.clone(), file.clone())).or_insert_with(|| {
            self.all.push(Operation { name, file, line, ..Operation::default() });
            self.all.len() as u32 - 1
        });
        let operation = &mut self.all[number as usize];
        if !operation.processes.contains(&process) {
            operation.processes.push(process);
        }
        if !operation.hosts.contains(&host) {
            operation.hosts.push(host);
        }
        self.by_what.insert((place, what), number);
        number
    }

    /// The name of a counter, a gauge, or a place in the program, by its site.
    pub(super) fn name(&mut self, place: usize, space: &SpaceReader, site: u64) -> String {
        while self.sites.len() <= place {
            self.sites.push(Sites::default());
        }
        self.sites[place].site(site, space).map_or_else(String::new, |(name, ..)| name)
    }
}

impl Sites {
    fn site(&mut self, site: u64, space: &SpaceReader) -> Option<(String, String, u32)> {
        if site != 0 && !self.sites.contains_key(&site) {
            self.read(space);
        }
        self.sites.get(&site).cloned()
    }

    fn read(&mut self, space: &SpaceReader) {
        for site in space.sites().unwrap_or_default() {
            if site.kind == "mapping" {
                self.symbols.map(&site.name, &site.file);
            } else {
                self.sites.insert(site.id.0, (site.name, site.file, site.line));
            }
        }
    }

    fn address(&mut self, address: u64, space: &SpaceReader) -> (String, String, u32) {
        if !self.symbols.has(address) {
            self.read(space);
        }
        match self.symbols.name(address) {
            Some((name, file)) => (name, file, 0),
            None => (format!("{address:#x}"), String::new(), 0),
        }
    }
}

/// The component of an operation: its name up to the last separator, else its file.
pub(super) fn component(name: &str, file: &str) -> String {
    let name = name.split(['<', '(']).next().unwrap_or(name);
    let cut = name.rfind("::").or_else(|| name.rfind('.')).filter(|at| *at > 0);
    match cut {
        Some(at) => name[..at].to_owned(),
        None => file.rsplit('/').next().unwrap_or(file).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::component;

    #[test]
    fn components_from_names_and_files() {
        for (name, file, wanted) in [
            ("shop::Cart::add", "src/a.rs", "shop::Cart"),
            ("com.shop.Cart.add", "", "com.shop.Cart"),
            ("main", "/home/me/x/main.c", "main.c"),
            ("std::map<a::b, c>::at", "m.cpp", "std"),
        ] {
            assert_eq!(component(name, file), wanted, "{name}");
        }
    }
}
