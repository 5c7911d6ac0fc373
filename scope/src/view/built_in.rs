//! The built-in views.

use super::tree::View;

/// A built-in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// The view's name.
    pub name: &'static str,
    /// The text of the view, which users may copy and change.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        const ALL: &[BuiltIn] =
            &[$(BuiltIn { name: $name, text: include_str!(concat!("../../views/", $name, ".toml")) }),+];
    };
}

built_in!(
    "beats",
    "dispatches",
    "events",
    "failures",
    "kinds",
    "latencies",
    "links",
    "losses",
    "overview",
    "paths",
    "settings",
    "slow",
    "streams",
    "tasks",
    "waits",
    "workers",
);

/// The built-in views, by name.
pub fn built_in() -> &'static [BuiltIn] {
    ALL
}

impl BuiltIn {
    /// Parses the text.
    pub fn view(&self) -> View {
        View::read(self.text)
            .unwrap_or_else(|problems| panic!("the view `{}` is wrong: {problems:?}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_view_is_right() {
        for built_in in built_in() {
            let view = View::read(built_in.text).unwrap_or_else(|problems| {
                let rendered: Vec<_> =
                    problems.iter().map(|problem| problem.render(built_in.name, built_in.text)).collect();
                panic!("{}", rendered.join("\n"));
            });
            assert_eq!(view.name, built_in.name);
            assert!(view.about.ends_with('?') && view.about.len() < 110, "{}", view.about);
        }
        assert!(built_in().is_sorted_by_key(|view| view.name));
    }
}
