//! The page: its data as one JSON document, for a file and for a live run, and the HTML file that shows it.
//!
//! The file is self-contained. The file includes its scripts and styles, and a content security policy with
//! their hashes forbids all other scripts and requests. The file contains the data in compressed form (zlib,
//! base64), as text that no browser executes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use sha2::{Digest, Sha256};
use thalweg_monitor::{Calls, Comparison, MessageTimes, Report, Story};

use crate::lanes::TimelinePage;
use crate::names;
use crate::network::Network;

/// The name of the schema.
pub const SCHEMA: &str = "thalweg.page";
/// The version of the schema, which is raised when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// The data of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// The [`VERSION`] of the schema.
    pub version: u32,
    /// The report, as `thalweg report --json` prints it.
    pub report: Report,
    /// The report as text, as `thalweg report` prints it.
    pub text: String,
    /// The network: its folded forms first, the complete one last.
    pub networks: Vec<Network>,
    /// The state of every task over time.
    pub timeline: TimelinePage,
    /// The stories of some messages: the slowest, and a sample spread evenly over the run.
    pub stories: Vec<MessageStory>,
    /// The run's settings.
    pub settings: Vec<Setting>,
    /// The calls that probes recorded; null if there are none.
    pub calls: Option<CallsPage>,
    /// Another run for comparison; null if there is none.
    pub other: Option<Other>,
    /// The state of the run, if the page is served; null in a file.
    pub live: Option<Live>,
}

/// A message's story.
#[derive(Clone, Debug, Serialize)]
pub struct MessageStory {
    /// The times of the message, if it is one of the slowest.
    pub times: Option<MessageTimes>,
    /// The story of the message.
    pub story: Story,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The name of the setting.
    pub name: String,
    /// The setting's value in the notation of `thalweg set`.
    pub value: String,
    /// The setting's default value.
    pub default: String,
    /// The values that the setting may have.
    pub range: String,
    /// What the setting does.
    pub about: String,
}

/// The calls of a program with probes, with their dependency graph laid out.
#[derive(Clone, Debug, Serialize)]
pub struct CallsPage {
    /// The calls, as `thalweg calls --json` prints them.
    #[serde(flatten)]
    pub calls: Calls,
    /// The graph: operations as nodes, whose `components` are places in `operations`, and calls as edges,
    /// whose `streams` are places in `edges`.
    pub graph: Network,
}

impl CallsPage {
    /// The page's data on calls, with at most `most` operations drawn: those with the most own time.
    pub fn of(calls: Calls, most: usize) -> CallsPage {
        let drawn = calls.operations.iter().take(most);
        let places: HashMap<u32, usize> =
            drawn.enumerate().map(|(at, operation)| (operation.id, at)).collect();
        let names = calls.operations.iter().take(most).map(|operation| operation.name.clone()).collect();
        let edges = calls
            .edges
            .iter()
            .enumerate()
            .filter_map(|(n, edge)| Some((*places.get(&edge.caller?)?, *places.get(&edge.callee)?, n)));
        let graph = Network::drawn(names, &edges.collect::<Vec<_>>());
        CallsPage { calls, graph }
    }
}

/// Another run with which the page compares its run.
#[derive(Clone, Debug, Serialize)]
pub struct Other {
    /// The report on the other run.
    pub report: Report,
    /// The timeline of the other run, as sums only.
    pub timeline: TimelinePage,
    /// The comparison with the older run; null as long as this run goes on.
    pub comparison: Option<Comparison>,
}

/// The state of a run whose page is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Live {
    /// Whether the run's process lives and has not ended the run.
    pub running: bool,
    /// The number of updates sent.
    pub sequence: u64,
    /// The changes applied from this page that can be undone, the last one first.
    pub applied: Vec<Applied>,
    /// The processor time that serving the page has taken since its start, as a share of one processor.
    pub cost_share: f64,
}

/// A change of the run that was made from the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applied {
    /// The number of the change.
    pub id: u64,
    /// The change, as a command.
    pub what: String,
    /// The result of the change.
    pub result: String,
    /// Whether the change was undone.
    pub undone: bool,
}

impl Page {
    /// A page of a report and a timeline.
    pub fn of(report: Report, text: String, timeline: TimelinePage) -> Page {
        let networks = Network::all_of(&report);
        Page {
            schema: SCHEMA,
            version: VERSION,
            report,
            text,
            networks,
            timeline,
            stories: Vec::new(),
            settings: Vec::new(),
            calls: None,
            other: None,
            live: None,
        }
    }

    /// The page as one file that needs nothing else.
    ///
    /// # Errors
    /// Fails when the data cannot be encoded as JSON, which is a bug.
    pub fn file(&self) -> Result<String, serde_json::Error> {
        Ok(self.made()?.file())
    }

    /// The page with its data encoded, which is stored for a run that has ended.
    ///
    /// # Errors
    /// Fails as [`Page::file`] does.
    pub fn made(&self) -> Result<Made, serde_json::Error> {
        debug_assert!(self.live.is_none(), "what is live is not kept");
        let name = names::cut(&self.report.space.name).into_owned();
        let mut json = String::from("{");
        for (field, value) in self.fields()? {
            let _ = write!(json, "\"{field}\":{value},");
        }
        json += "\"live\":null}";
        Ok(Made { name, text: self.text.clone(), packed: packed(json.as_bytes()) })
    }

    /// All fields of a page except `live`, as JSON with long names cut.
    ///
    /// # Errors
    /// Fails as [`Page::file`] does.
    pub fn fields(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        let mut fields = self.fields_of_report()?;
        fields.push(("timeline", names::json(&self.timeline)?));
        Ok(fields)
    }

    /// All fields except `live` and the timeline; these change only with a new report.
    ///
    /// # Errors
    /// Fails as [`Page::file`] does.
    pub fn fields_of_report(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        use names::json;
        Ok(vec![
            ("schema", json(&self.schema)?),
            ("version", json(&self.version)?),
            ("report", json(&self.report)?),
            // The report as text is not cut here, because its names were cut before the text was laid out.
            ("text", serde_json::to_string(&self.text)?),
            ("networks", json(&self.networks)?),
            ("stories", json(&self.stories)?),
            ("settings", json(&self.settings)?),
            ("calls", json(&self.calls)?),
            ("other", json(&self.other)?),
        ])
    }
}

/// The stored page of a run that has ended, encoded once.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The name of the run.
    pub name: String,
    /// The report as text.
    pub text: String,
    /// The data, compressed.
    pub packed: Vec<u8>,
}

impl Made {
    /// The page as one file that needs nothing else.
    pub fn file(&self) -> String {
        document(&self.name, Some(&STANDARD.encode(&self.packed)), &self.text)
    }

    /// The page's data; `None` if the stored bytes are damaged.
    pub fn json(&self) -> Option<Json> {
        let mut json = String::new();
        ZlibDecoder::new(&self.packed[..]).read_to_string(&mut json).ok()?;
        Some(Json(json))
    }
}

/// The data of a page that is served, as JSON.
#[derive(Clone, Debug)]
pub struct Json(String);

impl Json {
    /// The page's data with `live` as the state of the run.
    ///
    /// # Errors
    /// Fails as [`Page::file`] does.
    pub fn with(&self, live: &Live) -> Result<String, serde_json::Error> {
        let live = serde_json::to_string(live)?;
        // `live` is the last field of the JSON object, so the end of the object is replaced by the new state.
        let data = self.0.strip_suffix("null}").unwrap_or("{\"live\":");
        Ok(format!("{data}{live}}}"))
    }
}

/// The served page, which contains no data and requests them from the server.
pub fn served() -> String {
    document("", None, "")
}

/// The content-security policy of a served page.
pub fn policy() -> String {
    format!("{} connect-src 'self';", policy_of(&script(), STYLE))
}

const STYLE: &str = include_str!("../page/page.css");
const BODY: &str = include_str!("../page/body.html");

/// The page's modules, each after the modules that it imports.
pub(crate) const MODULES: &[(&str, &str)] = &[
    ("words", include_str!("../page/words.js")),
    ("numbers", include_str!("../page/numbers.js")),
    ("dom", include_str!("../page/dom.js")),
    ("pixels", include_str!("../page/pixels.js")),
    ("data", include_str!("../page/data.js")),
    ("verdict", include_str!("../page/verdict.js")),
    ("graph", include_str!("../page/graph.js")),
    ("timeline", include_str!("../page/timeline.js")),
    ("more", include_str!("../page/more.js")),
    ("tabs", include_str!("../page/tabs.js")),
    ("live", include_str!("../page/live.js")),
    ("main", include_str!("../page/main.js")),
];

/// All modules as one script, in which `import` and `export` are removed because everything imported is in
/// the same script.
fn script() -> String {
    let mut script = String::from("'use strict';\n");
    for (_, module) in MODULES {
        for line in module.lines().filter(|line| !line.starts_with("import ")) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

fn policy_of(script: &str, style: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none';",
        hash(script),
        hash(style)
    )
}

fn document(name: &str, data: Option<&str>, text: &str) -> String {
    let script = script();
    let mut page = String::with_capacity(script.len() + data.map_or(0, str::len) + text.len() + (1 << 16));
    let policy = match data {
        Some(_) => format!("{} connect-src 'none';", policy_of(&script, STYLE)),
        None => policy(),
    };
    page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    let _ = writeln!(page, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    page += "<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"referrer\" content=\"no-referrer\">\n";
    let _ = writeln!(page, "<title>{} – Thalweg</title>", escaped(name));
    let _ = writeln!(page, "<style>{STYLE}</style>\n</head>");
    page += BODY;
    let _ =
        writeln!(page, "<section id=\"text-report\"><h2>Report</h2><pre>{}</pre></section>", escaped(text));
    if let Some(data) = data {
        let _ = writeln!(page, "<script type=\"application/octet-stream\" id=\"data\">{data}</script>");
    }
    let _ = writeln!(page, "<script type=\"module\">{script}</script>\n</body>\n</html>");
    page
}

/// Compresses bytes for `DecompressionStream('deflate')`.
pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(6));
    // Writing to memory cannot fail.
    packer.write_all(bytes).and_then(|()| packer.finish()).unwrap_or_default()
}

/// The text escaped for HTML and SVG, also within attributes. Characters that XML does not allow are removed.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../thalweg/tests/data/report.json")).unwrap()
    }

    /// The names that a module declares at its top level.
    fn declared(module: &str) -> Vec<&str> {
        let words = ["export ", "async ", "function ", "const ", "let ", "class "];
        let mut names = Vec::new();
        for line in module.lines() {
            let mut rest = line;
            while let Some(after) = words.iter().find_map(|word| rest.strip_prefix(word)) {
                rest = after;
            }
            if rest.len() < line.len() {
                names.push(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
            }
        }
        names
    }

    #[test]
    fn modules_can_stand_one_after_the_other() {
        let mut seen = HashSet::new();
        let mut before: HashSet<&str> = HashSet::new();
        for (name, module) in MODULES {
            for line in module.lines().filter(|line| line.starts_with("import ")) {
                let from =
                    line.split("'./").nth(1).and_then(|rest| rest.split(".js'").next()).expect("a module");
                assert!(before.contains(from), "{name} imports {from}, which stands after it");
                assert!(line.ends_with(';'), "{name}: an import is one line");
            }
            for declared in declared(module) {
                assert!(seen.insert(declared), "{name} declares {declared}, which another module does");
            }
            before.insert(name);
        }
        assert!(seen.len() > 40, "{seen:?}");
    }

    #[test]
    fn nothing_in_the_page_reads_text_as_markup_or_fetches_from_elsewhere() {
        let script = script();
        for bad in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "</script",
            "http:",
            "https:",
            "setAttribute('style'",
        ] {
            assert!(!script.contains(bad), "{bad}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !BODY.contains("style="));
        assert!(served().len() < 300_000, "{}", served().len());
        assert!(!policy().contains("unsafe"));
    }

    /// The texts in quotes of a line of a module, without comments and inserted expressions.
    fn quoted(line: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let mut line = line.to_owned();
        while let (Some(begin), Some(end)) = (line.find("/**"), line.find("*/")) {
            line.replace_range(begin..(end + 2).max(begin), "");
        }
        let (mut quote, mut depth) = (None, 0);
        for c in line.chars() {
            match (quote, c) {
                (None, '\'' | '`') => {
                    quote = Some(c);
                    texts.push(String::new());
                }
                (Some(end), c) if c == end && depth == 0 => quote = None,
                (Some('`'), '{') => depth += 1,
                (Some('`'), '}') => depth -= 1,
                (Some(_), c) if depth == 0 => texts.last_mut().expect("one is open").push(c),
                _ => {}
            }
        }
        texts
    }

    #[test]
    fn all_english_text_is_in_one_module() {
        assert_eq!(quoted("a('one', `two ${x ? 'y' : 'z'} three`) /** 'four' */"), ["one", "two $ three"]);
        // Fonts, classes of the style sheet, commands, and errors of the page itself are not translated.
        let known = ["system-ui", "key gap", "thalweg ", "no element", "no canvas"];
        let is_word = |word: &&str| word.len() > 1 && word.chars().all(char::is_alphabetic);
        let mut found = 0;
        for (name, module) in MODULES {
            let lines = module.lines().map(str::trim_start);
            for line in lines.filter(|line| !["//", "*", "/*"].iter().any(|begin| line.starts_with(begin))) {
                for text in quoted(line) {
                    let words = text.split(' ').filter(is_word).count();
                    let is_english = words > 1 && !known.iter().any(|known| text.contains(known));
                    found += usize::from(is_english);
                    assert!(!is_english || *name == "words", "{name}.js has a text for people: {text}");
                }
            }
        }
        assert!(found > 50, "{found} texts were found in words.js");
    }

    #[test]
    fn the_fields_are_all_of_the_page() {
        let page = Page::of(report(), "text".to_owned(), TimelinePage::default());
        let fields = page.fields().unwrap();
        let all: Vec<String> = fields.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
        let all: serde_json::Value =
            serde_json::from_str(&format!("{{{},\"live\":null}}", all.join(","))).unwrap();
        assert_eq!(all, serde_json::to_value(&page).unwrap());
    }

    #[test]
    fn the_file_holds_the_data_and_names_stay_text() {
        let mut report = report();
        report.space.name = "</title><script>alert(1)</script>".to_owned();
        let page = Page::of(report, "a </pre><img src=x> report".to_owned(), TimelinePage::default());
        let file = page.file().unwrap();
        assert!(!file.contains("<script>alert") && !file.contains("<img"), "{}", &file[..2000]);
        assert_eq!(file.matches("</script>").count(), 2);
        let data =
            file.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("data");
        let mut json = String::new();
        let packed = STANDARD.decode(data).unwrap();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_string(&mut json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, serde_json::to_value(&page).unwrap());
        let script = file
            .split("<script type=\"module\">")
            .nth(1)
            .and_then(|rest| rest.split("</script>").next())
            .unwrap();
        assert!(
            file.contains(&STANDARD.encode(Sha256::digest(script.as_bytes()))),
            "the policy lets this script run"
        );
    }
}
