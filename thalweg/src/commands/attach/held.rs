//! The settings of an attachment, for `thalweg set` and tuners: points, replaced functions and inserted calls on or
//! off, and the values of changed arguments and variables. A change with a lease is undone when the lease ends.

use std::collections::HashSet;

use thalweg_attach::{Attachment, Function, Point, Scale};
use thalweg_space::{Setting, SettingSpec, Space};

use super::kept::Columns;
use super::wishes::Value;

/// The settings, each with the point, argument or variable that it sets.
#[derive(Default)]
pub(super) struct Held {
    settings: Vec<One>,
    names: HashSet<String>,
}

struct One {
    setting: Setting,
    what: What,
    /// The value of the setting that was applied last.
    value: u64,
}

enum What {
    On(usize),
    OneIn(usize),
    Argument(usize),
    Variable(String),
    Switch(Function),
}

impl Held {
    /// The settings of a point: `point/NAME.on`, and the value of an argument that it changes,
    /// `point/NAME.arg2`, if that is an integer.
    pub(super) fn point(
        &mut self,
        space: &Space,
        number: usize,
        point: &Point,
        name: &str,
        columns: &Columns,
    ) {
        let mut name = format!("point/{name}");
        if !self.names.insert(name.clone()) {
            name = format!("point/{}:{}", point.function.module, point.function.readable());
            self.names.insert(name.clone());
        }
        let on = format!("{name}.on");
        let spec =
            SettingSpec { name: &on, doc: "Whether calls are counted", default: 1, ..SettingSpec::SWITCH };
        self.add(space, spec, What::On(number));
        if point.can_be_thinned() {
            let name = format!("{name}.one_in");
            let doc = "Of how many calls one is timed and has its values kept: 1, 2, 4, 8, …";
            let spec = SettingSpec { name: &name, doc, default: 1, ..SettingSpec::PLAIN };
            self.add(space, spec, What::OneIn(number));
        }
        let set = point.wish.set.filter(|(argument, _)| argument.form.scale() != Scale::Float);
        if let Some((argument, value)) = set {
            let name = format!("{name}.arg{}", columns.number(argument));
            let doc = "What the argument is on entry";
            self.add(
                space,
                SettingSpec { name: &name, doc, default: value, ..SettingSpec::PLAIN },
                What::Argument(number),
            );
        }
    }

    /// The setting of a variable: `variable/NAME`.
    pub(super) fn variable(&mut self, space: &Space, name: &str, value: u64) {
        let of_variable = format!("variable/{name}");
        let doc = "The variable's value";
        self.add(
            space,
            SettingSpec { name: &of_variable, doc, default: value, ..SettingSpec::PLAIN },
            What::Variable(name.to_owned()),
        );
    }

    /// The setting of what replaces a function or is inserted at it: `replace/NAME.on`, `insert/NAME.on`.
    pub(super) fn switch(&mut self, space: &Space, name: &str, function: &Function) {
        let doc = "Whether the function is replaced, or the call made";
        let spec = SettingSpec { name, doc, default: 1, ..SettingSpec::SWITCH };
        self.add(space, spec, What::Switch(function.clone()));
    }

    fn add(&mut self, space: &Space, spec: SettingSpec<'_>, what: What) {
        // If the space has no room for more settings, the value cannot be changed from outside, but is still
        // shown.
        if let Ok(setting) = space.setting(spec) {
            self.settings.push(One { value: spec.default, setting, what });
        }
    }

    /// Sets the setting of a point that was removed for its cost to off.
    pub(super) fn switched_off(&mut self, point: usize) {
        self.became(|what| matches!(what, What::On(number) if *number == point), 0);
    }

    /// Sets the setting of a point of which fewer calls are measured now.
    pub(super) fn thinned(&mut self, point: usize, one_in: u32) {
        self.became(|what| matches!(what, What::OneIn(number) if *number == point), one_in.into());
    }

    fn became(&mut self, is_it: impl Fn(&What) -> bool, value: u64) {
        for one in self.settings.iter_mut().filter(|one| is_it(&one.what)) {
            one.value = value;
            let _ = one.setting.set(value);
        }
    }

    /// Applies changed settings. If a change is impossible, prints a message and restores the setting's
    /// former value.
    pub(super) fn adopt(&mut self, attachment: &mut Attachment) {
        for one in &mut self.settings {
            let value = one.setting.load();
            if value == one.value {
                continue;
            }
            match one.what.becomes(value, attachment) {
                Ok(()) => one.value = value,
                Err(error) => {
                    print_stderr!("{} stays {}: {error}", one.setting.name(), one.value);
                    let _ = one.setting.set(one.value);
                }
            }
        }
    }
}

impl What {
    fn becomes(&self, value: u64, attachment: &mut Attachment) -> Result<(), String> {
        let signed = i128::from(value.cast_signed());
        let done = match self {
            What::On(point) if value == 0 => attachment.remove(*point).map(drop),
            What::On(point) => attachment.renew(*point).map(drop),
            What::OneIn(point) => attachment.thin(*point, value).map(drop),
            What::Argument(point) => {
                let set = attachment.points()[*point].wish.set;
                let form = set.map(|(argument, _)| argument.form).unwrap_or(thalweg_attach::Form::UNKNOWN);
                // A setting has no sign: a number below zero is one whose highest bits are set.
                let bits = Value::Whole(signed).bits(form).or(Value::Whole(i128::from(value)).bits(form))?;
                attachment.set_argument(*point, bits).map(drop)
            }
            What::Switch(function) => attachment.switch(function, value != 0).map(drop),
            What::Variable(name) => attachment.set_variable(name, signed).map(drop),
        };
        done.map_err(|error| error.to_string())
    }
}
