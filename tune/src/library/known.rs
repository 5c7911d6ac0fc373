//! The packs about libraries: the built-in ones, those in files, and the evaluation of a pack on recorded
//! measures.

use std::collections::HashMap;

use thalweg_attach::{Function, Signature};
use thalweg_pack::{Change, Fits, Glob, Pack, Problem, Schema, TomlText, Values, nearest};

use crate::knowledge::BadPack;

/// The packs that come with the program, by their names.
const OURS: [(&str, &str); 3] = [
    ("pvm", include_str!("../../packs/pvm.toml")),
    ("mpich", include_str!("../../packs/mpich.toml")),
    ("malloc", include_str!("../../packs/malloc.toml")),
];
/// The packs that come with the program and only declare functions.
const DECLARED: [&str; 1] = [include_str!("../../packs/libc.toml")];
/// The area that packs about libraries state.
const AREA: &str = "library";
/// The helpers that an action can name as its gatekeeper.
pub(super) const GATEKEEPERS: [&str; 1] = ["pvm-hoster"];
/// The measures of each process, with the names that packs use and their units.
pub(super) const FIELDS: [(&str, &str); 7] = [
    ("process.descriptors", ""),
    ("process.descriptors_max", ""),
    ("process.memory", "B"),
    ("process.threads", ""),
    ("group.processes", ""),
    ("machine.processors", ""),
    ("window.lasted", "s"),
];

/// The values of fields, at the indices of their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Row(pub(super) Vec<f64>);

impl Row {
    /// Sets the fields with these numbers.
    pub(super) fn set(&mut self, fields: Vec<(usize, f64)>) {
        for (field, value) in fields {
            self.0[field] = value;
        }
    }
}

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        self.0.get(field).copied().unwrap_or(f64::NAN)
    }
}

/// The text of the built-in pack called `name`.
///
/// # Errors
/// Fails when no built-in pack has this name.
pub fn ours(name: &str) -> Result<&'static str, String> {
    if let Some((_, text)) = OURS.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    let names = OURS.map(|(name, _)| name);
    let near = nearest(name, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(format!("no pack is called `{name}`: there are {}, or say a pack's file{near}", names.join(", ")))
}

/// Reads a pack about a library.
///
/// # Errors
/// Fails with all mistakes in the pack.
pub fn read(file: &str, text: &str) -> Result<Pack, BadPack> {
    let bad = |problems| BadPack { file: file.to_owned(), text: text.to_owned(), problems };
    let mut schema = Schema::default();
    for (name, unit) in FIELDS {
        // A test checks that each name of a measure is unique and its unit known.
        let _ = schema.number(name, unit);
    }
    let pack = Pack::read(text, &schema).map_err(bad)?;
    let mut missing = Vec::new();
    if pack.area != AREA {
        missing
            .push(format!("this pack is about `{}`, and those of libraries are about `{AREA}`", pack.area));
    }
    if pack.identity.is_none() {
        missing.push(
            "a pack about a library needs `[identity]`, which says what the library is recognised by"
                .to_owned(),
        );
    }
    if pack.progress.is_none() && (pack.declares.is_empty() || !pack.actions.is_empty()) {
        missing.push(
            "a pack about a library needs `progress`: what is to become faster, such as \"send.rate\""
                .to_owned(),
        );
    }
    for point in pack.points.iter().filter(|point| point.lever.is_none()) {
        missing.push(format!(
            "the point `{}` needs `set`, `argument` or `variable`: how the library is given the value",
            point.setting
        ));
    }
    let undeclared = |declared: &TomlText| {
        let wrong = Signature::declared(&declared.text).err()?;
        Some(Problem::new(declared.span.clone(), wrong))
    };
    let mut problems: Vec<Problem> = pack.declares.iter().filter_map(undeclared).collect();
    for name in pack.actions.iter().filter_map(|action| action.gatekeeper.as_ref()) {
        if !GATEKEEPERS.contains(&name.text.as_str()) {
            let known = GATEKEEPERS.join("`, `");
            let wrong = format!("no gatekeeper is called `{}`: there is `{known}`", name.text);
            problems.push(Problem::new(name.span.clone(), wrong));
        }
    }
    problems.extend(missing.into_iter().map(|message| Problem::new(0..0, message)));
    if problems.is_empty() { Ok(pack) } else { Err(bad(problems)) }
}

/// The signatures that packs declare for the functions of libraries.
#[derive(Debug)]
pub struct Declarations(Vec<(Glob, HashMap<String, Signature>)>);

impl Declarations {
    /// The declarations of these packs, and after them those of the packs that come with the program.
    pub fn new(packs: &[Pack]) -> Declarations {
        let ours = OURS.iter().map(|(_, text)| *text).chain(DECLARED);
        // A test checks that the program's own packs can be read.
        let ours: Vec<Pack> = ours.filter_map(|text| read("", text).ok()).collect();
        let of = |pack: &Pack| {
            let read = pack.declares.iter().filter_map(|text| Signature::declared(&text.text).ok());
            Some((pack.identity.as_ref()?.library.clone(), read.collect()))
        };
        Declarations(packs.iter().chain(&ours).filter_map(of).collect())
    }

    /// The signature of a function of the target, if a pack declares it.
    pub fn of(&self, function: &Function) -> Option<&Signature> {
        let named = self.0.iter().filter(|(library, _)| library.matches(&function.module));
        named.filter_map(|(_, declared)| declared.get(&function.name)).next()
    }
}

/// The evaluation of a pack on the measures of one process in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    /// The coefficients that were fitted to the measures so far; empty if there are none.
    pub fitted: String,
    /// The names of measures and models, with their values.
    pub figures: Vec<(String, f64)>,
    /// The conditions that hold, with the texts that explain them.
    pub holds: Vec<(String, String)>,
    /// The points that would be set, with their values, and with the reason if something forbids the change.
    pub sets: Vec<(String, f64, Option<String>)>,
}

/// Evaluates a pack's conditions and actions on the given measures, which have the names of the pack. The pack's
/// coefficients are those of `fits`, to which the measures are then added.
pub fn tried(pack: &Pack, fits: &mut Fits, measures: &[(String, f64)]) -> Tried {
    let value = |name: &String| {
        measures.iter().find(|(known, _)| known == name).map_or(f64::NAN, |(_, value)| *value)
    };
    let mut row = Row(pack.names.iter().map(value).collect());
    row.set(fits.coefficients(pack, &row));
    let measured = pack.measured(&row);
    fits.add(pack, &measured);
    let mut tried = Tried { fitted: fits.fitted(pack, &row), ..Tried::default() };
    for (name, is) in pack
        .measures
        .iter()
        .map(|it| (&it.name, &it.is))
        .chain(pack.models.iter().map(|it| (&it.name, &it.is)))
    {
        tried.figures.push((name.clone(), is.number(&measured)));
    }
    for condition in pack.conditions.iter().filter(|condition| condition.when.holds(&measured)) {
        tried.holds.push((condition.name.clone(), condition.says.clone()));
    }
    for (action, to) in pack.due(&measured) {
        let (Change::Setting { point, .. }, Some(to)) = (&action.change, to) else { continue };
        tried.sets.push((pack.points[*point].setting.clone(), to, forbidden(pack, action, &measured)));
    }
    tried
}

/// The reason that forbids an action, if any.
pub(super) fn forbidden(pack: &Pack, action: &thalweg_pack::Action, values: &impl Values) -> Option<String> {
    let conditions = action.forbidden.iter().map(|at| &pack.conditions[*at]);
    conditions
        .into_iter()
        .find(|condition| condition.when.holds(values))
        .map(|condition| condition.says.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_packs_are_right() {
        for (name, text) in OURS {
            let pack = read(name, text).unwrap_or_else(|bad| panic!("{bad}"));
            assert_eq!((pack.name.as_str(), ours(name)), (name, Ok(text)));
        }
        for text in DECLARED {
            let pack = read("libc", text).unwrap_or_else(|bad| panic!("{bad}"));
            assert!(pack.declares.len() > 40 && pack.points.is_empty(), "{}", pack.name);
        }
        assert!(ours("pvn").is_err_and(|why| why.contains("did you mean `pvm`")));
    }

    #[test]
    fn the_example_of_the_page_is_right() {
        let page = include_str!("../../../docs/library-packs.md");
        let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let pack =
            read("library-packs.md", example.expect("an example")).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(pack.name, "zlib-level");
    }

    #[test]
    fn fits_on_the_page_are_those_of_the_packs() {
        let page = include_str!("../../../docs/library-packs.md");
        let packs = [include_str!("../../packs/pvm.toml"), include_str!("../../tests/packs/farm.toml")];
        let line = |line: &str| line.split('#').next().unwrap_or("").trim().to_owned();
        let known: Vec<String> = packs.iter().flat_map(|pack| pack.lines().map(line)).collect();
        let parts = page.split("```toml,part\n").skip(1).filter_map(|rest| rest.split("```").next());
        let fits: Vec<&str> = parts.filter(|part| part.contains("[[fit]]")).collect();
        assert_eq!(fits.len(), 2);
        for shown in fits.iter().flat_map(|part| part.lines().map(line)) {
            assert!(known.contains(&shown), "no pack has `{shown}`");
        }
        let farm = read("farm.toml", packs[1]).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!((farm.fits.len(), farm.points.len()), (1, 2));
    }

    #[test]
    fn mistakes_of_declarations_have_their_places() {
        let text = "format = 1\nname = \"x\"\nabout = \"y\"\narea = \"library\"\n\
                    declares = [\"int f(int a)\", \"int g(mystery b)\"]\n[identity]\nlibrary = \"x.so\"\n";
        let bad = read("x.toml", text).expect_err("a type is unknown");
        assert_eq!(bad.problems.len(), 1, "{bad}");
        assert_eq!(text[bad.problems[0].span.clone()], *"\"int g(mystery b)\"");
        let right = text.replace("mystery", "short");
        assert!(read("x.toml", &right).is_ok_and(|pack| pack.declares.len() == 2));
    }

    #[test]
    fn a_gatekeeper_has_to_be_known() {
        let text = ours("pvm").expect("ours").replace("\"pvm-hoster\"", "\"pvm-host\"");
        let bad = read("pvm.toml", &text).expect_err("there is none of this name");
        assert_eq!(text[bad.problems[0].span.clone()], *"\"pvm-host\"");
        assert!(bad.to_string().contains("`pvm-hoster`"), "{bad}");
        let text = text.replace("gatekeeper = \"pvm-host\"", "gatekeeper = 1");
        assert!(read("pvm.toml", &text).is_err());
    }

    #[test]
    fn what_a_pack_lacks_is_reported() {
        let text =
            "format = 1\nname = \"x\"\nabout = \"y\"\narea = \"network\"\n[[point]]\nsetting = \"p\"\n";
        let bad = read("x.toml", text).expect_err("it lacks much").to_string();
        for part in ["about `network`", "[identity]", "`progress`", "point `p`"] {
            assert!(bad.contains(part), "{bad}");
        }
    }

    #[test]
    fn recorded_measures_are_judged_without_a_target() {
        let pack = read("pvm", ours("pvm").expect("ours")).expect("it is right");
        let mut measures: Vec<(String, f64)> = [
            ("initsend.calls", 100.0),
            ("initsend.rate", 2000.0),
            ("initsend.encoding.most", 0.0),
            ("ints.calls", 100.0),
            ("ints.items.sum", 2_500_000.0),
            ("ints.items.p99", 25_000.0),
            ("pvm.fragment", 4080.0),
            ("pvm.route", 2.0),
            ("pvm.encoding", 0.0),
            ("pvm.architectures", 1.0),
            ("process.descriptors", 10.0),
            ("process.descriptors_max", 1024.0),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        let sets = |measures: &[(String, f64)]| tried(&pack, &mut Fits::default(), measures).sets;
        let names = |measures: &[(String, f64)]| {
            let free = sets(measures).into_iter().filter(|(_, _, forbidden)| forbidden.is_none());
            free.map(|(name, _, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&measures), ["pvm.fragment", "pvm.encoding", "pvm.route"]);
        let fragment = sets(&measures)[0].1;
        assert!((100_000.0..=200_000.0).contains(&fragment), "{fragment}");
        measures.iter_mut().find(|(name, _)| name == "process.descriptors_max").expect("there").1 = 12.0;
        assert_eq!(names(&measures), ["pvm.fragment", "pvm.encoding"]);
        assert!(
            sets(&measures)
                .iter()
                .any(|(_, _, why)| why.as_ref().is_some_and(|why| why.contains("descriptor")))
        );
        measures.iter_mut().find(|(name, _)| name == "pvm.architectures").expect("there").1 = 2.0;
        assert_eq!(names(&measures), ["pvm.fragment"]);
    }
}
