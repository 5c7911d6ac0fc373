//! Settings in the form in which a person names and writes them.

use thalweg_space::SettingSpec;
use thalweg_space::reader::SettingView;

use crate::amount::{convertible, whole};
use crate::error::Error;
use crate::run::Published;
use crate::spaces::nearest;

/// The settings that a run of a network declares, by name. Boxes declare further settings: their parameters.
pub fn declared() -> Vec<SettingSpec<'static>> {
    let exec = thalweg_exec::Settings::DECLARED;
    let net = thalweg_net::run::Settings::DECLARED;
    let archive = Published::DECLARED;
    let mut all: Vec<_> = exec.all().into_iter().chain(net.all()).chain(archive.all()).copied().collect();
    all.sort_unstable_by_key(|setting| setting.name);
    all
}

/// The setting with this name; the error for an unknown name suggests the nearest one.
pub fn known<'s>(settings: &'s [SettingView], name: &str) -> Result<&'s SettingView, Error> {
    settings.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let hint = nearest(name, settings.iter().map(|setting| setting.name.as_str())).map_or_else(
            || "`thalweg get` lists the settings".to_owned(),
            |near| format!("did you mean `{near}`? `thalweg get` lists the settings"),
        );
        Error::usage(format!("there is no setting `{name}`: {hint}"))
    })
}

/// Parses a setting's value: one of its choices, or a number within its range, which may have a unit if the
/// setting is a time or a size.
pub fn value_of(setting: &SettingView, text: &str) -> Result<u64, Error> {
    let name = &setting.name;
    if let Some(n) = setting.choices.iter().position(|choice| choice == text) {
        return Ok(n as u64);
    }
    let converted = convertible(&setting.unit).map(|unit| whole(text, unit));
    let plain = || text.replace('_', "").parse::<u64>().map_err(|error| error.to_string());
    if let Ok(value) = converted.clone().unwrap_or_else(plain) {
        if (setting.min..=setting.max).contains(&value) {
            return Ok(value);
        }
        let unit = if setting.unit.is_empty() { String::new() } else { format!(" {}", setting.unit) };
        return Err(Error::usage(format!(
            "{value} is out of range: `{name}` takes {}{unit}",
            range(setting)
        )));
    }
    Err(Error::usage(if let Some(Err(why)) = converted {
        format!("{why}; `{name}` takes {} {}", range(setting), setting.unit)
    } else if setting.choices.is_empty() {
        format!("`{text}` is not a number: `{name}` takes {}", range(setting))
    } else {
        let near = nearest(text, setting.choices.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        format!("`{name}` has no choice `{text}`, it takes {}.{hint}", range(setting))
    }))
}

/// A setting's value in the form for users: the word of a choice, else a number.
pub fn written(setting: &SettingView, value: u64) -> String {
    let choice = usize::try_from(value).ok().and_then(|n| setting.choices.get(n));
    choice.cloned().unwrap_or_else(|| value.to_string())
}

/// The valid values of a setting, in words.
pub fn range(setting: &SettingView) -> String {
    if setting.choices.is_empty() {
        let max = if setting.max == u64::MAX { "…".to_owned() } else { setting.max.to_string() };
        format!("{}–{max}", setting.min)
    } else {
        setting.choices.join("|")
    }
}
