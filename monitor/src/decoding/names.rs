//! The names and component paths for which the numbers in events stand.

use std::collections::HashMap;

use thalweg_space::Error;
use thalweg_space::reader::SpaceReader;

/// The maximal depth of nested components; deeper ones in a catalog are treated as damaged.
const SITE_DEPTH_MAX: usize = 256;
/// The path under which tasks without a component, such as the run's own, are listed.
pub(crate) const NO_COMPONENT: &str = "(no component)";

/// The texts for which the numbers in events stand.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Components by site.
    pub sites: HashMap<u64, SiteName>,
    /// Interned texts.
    pub names: HashMap<u64, String>,
}

/// A component of the network's static structure.
#[derive(Clone, Debug, Default)]
pub struct SiteName {
    /// Path from the network's root.
    pub path: String,
    /// The kind of component.
    pub kind: String,
    /// `file:line:column`, if known.
    pub place: Option<String>,
}

impl Names {
    /// The component of a site. If the catalog lacks the site, the component is named by the site's number.
    pub fn site(&self, site: u64) -> SiteName {
        self.sites.get(&site).cloned().unwrap_or_else(|| SiteName {
            path: if site == 0 { NO_COMPONENT.to_owned() } else { format!("component {site}") },
            ..SiteName::default()
        })
    }

    /// An interned text.
    pub fn text(&self, name: u64) -> Option<String> {
        self.names.get(&name).cloned()
    }

    /// A task's name: the path of its component, and the number of its replica in brackets if the component
    /// has several tasks.
    pub fn task(&self, component: u64, replica: u64, several: bool) -> String {
        let path = self.site(component).path;
        if several { format!("{path}[{replica}]") } else { path }
    }
}

/// Makes equal names of tasks different: if the tasks come in the order in which they were made, the second task of a
/// name gets `~2` behind its name, the third one `~3`.
pub fn number_equal_names<'n>(names: impl Iterator<Item = &'n mut String>) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for name in names {
        let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
        if *count > 1 {
            name.push_str(&format!("~{count}"));
        }
    }
}

/// The names and component paths of a space.
///
/// # Errors
/// When the catalog of the space is damaged.
pub fn names(reader: &SpaceReader) -> Result<Names, Error> {
    let mut names = Names::default();
    for (id, text) in reader.names()? {
        names.names.insert(id.0, text.to_string());
    }
    let sites = reader.sites()?;
    let by_id: HashMap<u64, usize> = sites.iter().enumerate().map(|(n, site)| (site.id.0, n)).collect();
    for site in &sites {
        let mut parts = vec![site.name.as_str()];
        let mut parent = site.parent.0;
        while let Some(&n) = by_id.get(&parent)
            && parts.len() < SITE_DEPTH_MAX
        {
            parts.push(&sites[n].name);
            parent = sites[n].parent.0;
        }
        parts.retain(|part| !part.is_empty());
        parts.reverse();
        let place = (!site.file.is_empty()).then(|| match (site.line, site.column) {
            (0, _) => site.file.clone(),
            (line, 0) => format!("{}:{line}", site.file),
            (line, column) => format!("{}:{line}:{column}", site.file),
        });
        names.sites.insert(site.id.0, SiteName { path: parts.join("/"), kind: site.kind.clone(), place });
    }
    Ok(names)
}
