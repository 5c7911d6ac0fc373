//! `cargo xtask docs`: all pages as one site with search, built by mdBook.
//!
//! Pages are in `docs/`, and beside the crate or the app that they describe. mdBook needs all pages below one
//! folder. Therefore the command copies the pages that `docs/SUMMARY.md` lists, and the files that they link
//! to, into a folder with the same structure, and builds the site from that copy.

use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

/// The list of pages, in the order of the site.
const SUMMARY: &str = "docs/SUMMARY.md";
const BOOK: &str = "docs/book.toml";

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut into = process::target_dir().join("docs");
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("into") => into = std::path::absolute(PathBuf::from(arguments.value()?))?,
            other => return Err(other.unexpected().into()),
        }
    }
    if !process::is_installed("mdbook", "--version") {
        bail!("there is no `mdbook`, which builds the site; `cargo install mdbook` brings it");
    }
    let folder = process::target_dir().join("docs.pages");
    let pages = copy_pages(&folder)?;
    let mut build = Command::new("mdbook");
    process::run(build.arg("build").arg(&folder).arg("--dest-dir").arg(&into))?;
    println!("{pages} pages: {}", into.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

/// Copies the pages and the files to which they link into `folder`, with mdBook's files. Returns the number
/// of pages.
fn copy_pages(folder: &Path) -> Result<usize> {
    let root = process::root();
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("src"))?;
    fs::copy(root.join(BOOK), folder.join("book.toml"))?;
    let summary = read(SUMMARY)?;
    let pages = links_of(SUMMARY, &summary);
    let paths: Vec<String> = pages.iter().map(|page| page.path.clone()).collect();
    let (_, wrong) = checked_links(&paths)?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let mut files = BTreeSet::new();
    for page in &pages {
        files.insert(page.path.clone());
        let links = links_of(&page.path, &read(&page.path)?).into_iter().map(|link| link.path);
        files.extend(links.filter(|path| root.join(path).is_file()));
    }
    for file in &files {
        let to = folder.join("src").join(file);
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        if paths.contains(file) {
            fs::write(&to, for_the_site(&read(file)?))?;
        } else {
            fs::copy(root.join(file), &to).with_context(|| format!("cannot copy {file}"))?;
        }
    }
    fs::write(folder.join("src/SUMMARY.md"), from_root(&summary, &pages))?;
    Ok(pages.len())
}

/// A page with links for the site: mdBook renames `README.md` to `index.html`, but does not change links to
/// it.
fn for_the_site(page: &str) -> String {
    page.replace("README.md)", "index.md)").replace("README.md#", "index.md#")
}

/// The summary with each page's path from the root of the source tree.
fn from_root(summary: &str, pages: &[Link]) -> String {
    let mut parts = summary.split("](");
    let mut text = parts.next().unwrap_or("").to_owned();
    for (part, page) in parts.zip(pages) {
        let rest = part.strip_prefix(&page.target).unwrap_or(part);
        text.extend(["](", &page.path, rest]);
    }
    text
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(process::root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// A link to a file of the source tree, or to a heading.
#[derive(Debug, PartialEq)]
struct Link {
    /// The target as it is written in the page, without the part after `#`.
    target: String,
    /// The file to which the link leads, by its path from the root of the source tree.
    path: String,
    heading: Option<String>,
}

/// The links of a page, without links to other sites and links in code.
fn links_of(page: &str, text: &str) -> Vec<Link> {
    let prose = prose_of(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    local.map(|target| link(page, target)).collect()
}

fn link(page: &str, target: &str) -> Link {
    let (file, heading) = match target.split_once('#') {
        Some((file, heading)) => (file, Some(heading.to_owned())),
        None => (target, None),
    };
    let path = match file {
        "" => page.to_owned(),
        file => normal(&Path::new(page).parent().unwrap_or(Path::new("")).join(file)),
    };
    Link { target: file.to_owned(), path, heading }
}

/// A path without `..` and `.`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir if parts.last().is_some_and(|last| *last != "..") => _ = parts.pop(),
            Component::ParentDir => parts.push(".."),
            Component::Normal(part) => parts.push(part.to_str().unwrap_or("")),
            _ => {}
        }
    }
    parts.join("/")
}

/// A page without its blocks of code.
fn prose_of(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut prose = String::new();
    for line in text.lines() {
        let mark = line.trim_start();
        let ticks = &mark[..mark.len() - mark.trim_start_matches('`').len()];
        match fence {
            None if ticks.len() >= 3 => fence = Some(ticks),
            Some(opened) if ticks == opened => fence = None,
            None => prose.extend([line, "\n"]),
            Some(_) => {}
        }
    }
    prose
}

/// The anchors that mdBook and code hosts give a page's headings: the heading in lower case, without
/// punctuation, with `-` for each space.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let prose = prose_of(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Checks the links of pages. Returns the number of links, and the links without a target.
fn checked_links(pages: &[String]) -> Result<(usize, Vec<String>)> {
    let (mut links, mut wrong) = (0, Vec::new());
    for page in pages {
        for Link { target, path, heading } in links_of(page, &read(page)?) {
            links += 1;
            if !process::root().join(&path).exists() {
                wrong.push(format!("{page}: {target} does not exist"));
            } else if let Some(heading) = heading
                && !anchors(&read(&path)?).contains(&heading)
            {
                wrong.push(format!("{page}: {path} has no heading #{heading}"));
            }
        }
    }
    Ok((links, wrong))
}

#[cfg(test)]
mod tests {
    use super::{Link, SUMMARY, anchors, checked_links, from_root, link, links_of, normal, prose_of, read};
    use crate::{process, sources};
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every page of the source tree, by its path from the root.
    fn pages() -> Vec<String> {
        sources::ending_with(".md").into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn every_page_is_in_the_summary_once() {
        let summary = links_of(SUMMARY, &read(SUMMARY).expect("the summary"));
        let mut listed: Vec<String> = summary.into_iter().map(|link| link.path).collect();
        listed.sort();
        let there: Vec<String> = pages().into_iter().filter(|page| page != SUMMARY).collect();
        assert_eq!(listed, there);
    }

    #[test]
    fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
        let (links, wrong) = checked_links(&pages()).expect("pages are read");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(links > 100, "{links} links");
    }

    /// A path such as `exec/src/ring/mod.rs` in a page must exist; a path relative to a crate is not checked.
    #[test]
    fn the_map_and_the_design_notes_name_files_that_exist() {
        let mut wrong = Vec::new();
        let mut paths = 0;
        for page in pages() {
            if page != "ARCHITECTURE.md" && !page.ends_with("DESIGN.md") {
                continue;
            }
            let text = prose_of(&read(&page).expect("a page"));
            for code in text.split('`').skip(1).step_by(2) {
                let is_path = code.contains("/src/") && !code.contains([' ', '*', '{', '<']);
                paths += usize::from(is_path);
                if is_path && !process::root().join(code).exists() {
                    wrong.push(format!("{page}: {code}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(paths > 40, "{paths} paths");
    }

    #[test]
    fn links_are_found_outside_code_and_resolved_from_their_page() {
        let text = "[a](b.md#c) [d](../e.md)\n```md\n[no](f.md)\n```\n[g](#h) [i](https://j.k) `x[1](y z)`";
        let found = links_of("docs/page.md", text);
        let wanted = [
            Link { target: "b.md".into(), path: "docs/b.md".into(), heading: Some("c".into()) },
            Link { target: "../e.md".into(), path: "e.md".into(), heading: None },
            Link { target: String::new(), path: "docs/page.md".into(), heading: Some("h".into()) },
        ];
        assert_eq!(found, wanted);
        assert_eq!(link("a/b/c.md", "../../d/./e.md").path, "d/e.md");
        assert_eq!(normal(Path::new("a/../../b")), "../b");
    }

    #[test]
    fn the_summary_of_the_site_has_paths_from_the_root() {
        let summary = "# S\n[a](../README.md)\n- [b](README.md)\n  - [c](x/README.md)\n";
        let site = from_root(summary, &links_of(SUMMARY, summary));
        assert_eq!(site, "# S\n[a](README.md)\n- [b](docs/README.md)\n  - [c](docs/x/README.md)\n");
    }

    #[test]
    fn anchors_are_those_of_code_hosts() {
        let text = "# A *b*: `c d`?\n## One - two\n## One - two\n```sh\n# no\n```\n";
        let wanted = ["a-b-c-d", "one---two", "one---two-1"].map(str::to_owned);
        assert_eq!(anchors(text), BTreeSet::from(wanted));
    }
}
