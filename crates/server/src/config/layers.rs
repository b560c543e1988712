//! Turns the layers into settings, and settings into a [`Config`].
//!
//! A [`Setting`] is a name, a value as text, and its origin. Later settings override earlier ones. An unknown
//! name gives a note with the nearest known name. Invalid values are errors; all errors are reported
//! together.

use std::fmt;
use std::path::{Path, PathBuf};

use yaml_serde::Value;

use super::ignored;
use super::options::{self, Authenticator, Authorizer, EnumOption, OPTIONS, Target};
use super::ports;
use super::security::{self, SettingEffect};
use super::{Config, SecurityConfig};
use crate::log_levels;
use base::suggest::nearest;

/// Prefix of the environment variables of options.
pub const VARIABLE_PREFIX: &str = "MESSINA_";

/// One value of an option, from one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name as written; a part of a section is `section.name`.
    pub name: String,
    pub value: RawValue,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawValue {
    One(String),
    List(Vec<String>),
    /// A value that no option can have, such as a list of lists.
    Structure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `line`: `None` if the file is formatted in an unusual way.
    File {
        path: PathBuf,
        line: Option<usize>,
    },
    Environment,
    /// The flag as typed.
    Flag(String),
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_warning: bool,
    pub text: String,
}

/// The errors of a configuration, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<String>);

impl ConfigErrors {
    pub fn of(error: String) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

impl Setting {
    pub fn flag(flag: &str, name: &str, value: impl Into<String>) -> Self {
        let value = RawValue::One(value.into());
        Self { name: name.to_string(), value, origin: Origin::Flag(flag.to_string()) }
    }

    /// The origin: `messina.yaml, line 7: native_transport_port`
    fn place(&self) -> String {
        match &self.origin {
            Origin::File { path, line: Some(line) } => {
                format!("{}, line {line}: {}", path.display(), self.name)
            }
            Origin::File { path, line: None } => format!("{}: {}", path.display(), self.name),
            Origin::Environment => format!("environment: {}", variable(&self.name)),
            Origin::Flag(flag) => flag.clone(),
        }
    }
}

/// The environment variable of an option: `MESSINA_CLIENT_ENCRYPTION_OPTIONS_ENABLED`.
pub fn variable(name: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", name.replace('.', "_").to_ascii_uppercase())
}

/// The settings of a YAML file.
///
/// # Errors
/// The text is not YAML, is not a mapping, or has a name twice.
pub fn from_yaml(path: &Path, text: &str) -> Result<Vec<Setting>, ConfigErrors> {
    let wrong = |what: String| ConfigErrors::of(format!("{}: {what}", path.display()));
    let not_yaml = |error: yaml_serde::Error| match doubled_name(text) {
        Some((name, first, second)) if error.to_string().contains("duplicate") => ConfigErrors::of(format!(
            "{}, line {second}: {name} is on line {first} already; remove one of them",
            path.display()
        )),
        _ => wrong(format!("not YAML: {error}")),
    };
    let value: Value = yaml_serde::from_str(text).map_err(not_yaml)?;
    let mut settings = vec![];
    match value {
        Value::Null => {}
        Value::Mapping(_) => flatten("", value, &mut settings),
        _ => return Err(wrong("expected lines of the form `name: value`".into())),
    }
    let setting = |(name, value): (String, RawValue)| {
        let line = line_of(text, &name);
        Setting { name, value, origin: Origin::File { path: path.to_owned(), line } }
    };
    Ok(settings.into_iter().map(setting).collect())
}

fn flatten(name: &str, value: Value, into: &mut Vec<(String, RawValue)>) {
    match value {
        Value::Mapping(mapping) if name == options::LOGGER_LEVELS && !mapping.is_empty() => {
            let part = |(key, value): (&Value, &Value)| Some(format!("{}={}", scalar(key)?, scalar(value)?));
            let parts: Option<Vec<String>> = mapping.iter().map(part).collect();
            let given = parts.map_or(RawValue::Structure, |parts| RawValue::One(parts.join(":")));
            into.push((name.to_string(), given));
        }
        Value::Mapping(mapping) => {
            for (key, value) in mapping {
                let key = scalar(&key).unwrap_or_default();
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                flatten(&name, value, into);
            }
        }
        // A name without a value is not set.
        Value::Null => {}
        // A list of security classes with their parameters.
        Value::Sequence(values)
            if security::smells(name) && values.iter().any(|value| matches!(value, Value::Mapping(_))) =>
        {
            values.into_iter().for_each(|value| flatten(name, value, into));
        }
        Value::Sequence(values) => {
            let texts: Option<Vec<String>> = values.iter().map(scalar).collect();
            into.push((name.to_string(), texts.map_or(RawValue::Structure, RawValue::List)));
        }
        value => into.push((name.to_string(), scalar(&value).map_or(RawValue::Structure, RawValue::One))),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// The line of a name, counted from 1. Each part of the name is searched after the previous part, with more
/// indentation.
fn line_of(text: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    let mut indent = None;
    for part in name.split('.') {
        let begins = |(_, line): &(usize, &str)| {
            let (depth, inner) = split_indentation(line);
            let rest = inner.trim_start_matches(['"', '\'']).strip_prefix(part);
            let rest = rest.map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
            rest.is_some_and(|rest| rest.starts_with(':')) && indent.map_or(depth == 0, |least| depth > least)
        };
        let (line, found) = text.lines().enumerate().skip(from).find(begins)?;
        indent = Some(split_indentation(found).0);
        from = line + 1;
    }
    Some(from)
}

/// The indentation of a line and its text. The dash of a list item counts as indentation.
fn split_indentation(line: &str) -> (usize, &str) {
    let mut inner = line.trim_start();
    while let Some(rest) = inner.strip_prefix("- ") {
        inner = rest.trim_start();
    }
    (line.len() - inner.len(), inner)
}

/// The first name that occurs twice in one mapping of a YAML text in block style, and its two lines, counted
/// from 1.
fn doubled_name(text: &str) -> Option<(String, usize, usize)> {
    // The mappings that contain the line, each with its indentation.
    let mut mappings: Vec<(usize, Vec<(&str, usize)>)> = vec![];
    for (line, text) in (1..).zip(text.lines()) {
        let mut inner = text.trim_start();
        let mut indent = text.len() - inner.len();
        if inner.is_empty() || inner.starts_with('#') {
            continue;
        }
        while let Some(rest) = inner.strip_prefix("- ") {
            // A list item begins a mapping of its own.
            mappings.retain(|(of, _)| *of <= indent);
            indent += inner.len() - rest.trim_start().len();
            inner = rest.trim_start();
        }
        let Some((name, rest)) = inner.split_once(':') else { continue };
        if !rest.is_empty() && !rest.starts_with(' ') {
            continue;
        }
        let name = name.trim_end().trim_matches(['"', '\'']);
        mappings.retain(|(of, _)| *of <= indent);
        if mappings.last().is_none_or(|(of, _)| *of < indent) {
            mappings.push((indent, vec![]));
        }
        let names = &mut mappings.last_mut()?.1;
        if let Some((_, first)) = names.iter().find(|(known, _)| *known == name) {
            return Some((name.to_string(), *first, line));
        }
        names.push((name, line));
    }
    None
}

/// The settings among the environment variables.
pub fn from_environment(variables: &[(String, String)]) -> Vec<Setting> {
    let mut settings: Vec<Setting> = variables
        .iter()
        .filter(|(variable, _)| variable != "MESSINA_CONFIG")
        .filter_map(|(variable, value)| {
            let rest = variable.strip_prefix(VARIABLE_PREFIX)?;
            let name = spellings().find(|name| self::variable(name) == *variable);
            let name = name.map_or_else(|| rest.to_ascii_lowercase(), str::to_string);
            Some(Setting { name, value: RawValue::One(value.clone()), origin: Origin::Environment })
        })
        .collect();
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

/// All names of options that have an effect.
pub fn spellings() -> impl Iterator<Item = &'static str> {
    OPTIONS
        .iter()
        .flat_map(|option| [option.name].into_iter().chain(option.also.iter().map(|(name, _)| *name)))
}

/// Applies the settings to the defaults, in order.
///
/// # Errors
/// Every invalid value, with its origin and the allowed values.
pub fn apply(settings: Vec<Setting>) -> Result<(Config, Vec<Note>), ConfigErrors> {
    let mut config = Config::default();
    let mut notes = vec![];
    let mut errors = vec![];
    let mut without_effect = vec![];
    let (settings, refused) = secured(settings, &mut without_effect);
    errors.extend(refused);
    errors.extend(doubled_options(&settings));
    for setting in settings {
        let setting = without_unknown_loggers(setting, &mut notes);
        let Some((option, default_unit)) = options::find(&setting.name) else {
            match ignored::why(&setting.name) {
                Some(why) => match not_as_it_must_be(&setting) {
                    Some(error) => errors.push(error),
                    None => match missed(&setting) {
                        Some(note) => notes.push(note),
                        None => without_effect.push(WithoutEffect::of(why.text(), &setting)),
                    },
                },
                None => unknown(&setting, &mut notes, &mut errors),
            }
            continue;
        };
        let target = (option.target)(&mut config);
        let done = match &setting.value {
            RawValue::One(text) => {
                target.set(text, default_unit).map_err(|allowed| (format!("{text:?}"), allowed))
            }
            RawValue::List(texts) => match (&target, &texts[..]) {
                (Target::DataDirectories(_), [text]) => {
                    target.set(text, default_unit).map_err(|allowed| (format!("{text:?}"), allowed))
                }
                (Target::DataDirectories(_), _) => {
                    let allowed = "one directory; combine several disks below it (RAID 0, LVM)";
                    Err((format!("a list of {}", texts.len()), allowed.to_string()))
                }
                _ => Err(("a list".to_string(), target.kind())),
            },
            RawValue::Structure => Err(("a structure".to_string(), target.kind())),
        };
        if let Err((given, allowed)) = done {
            errors.push(format!("{}: {given} is not allowed; expected {allowed}", setting.place()));
        }
    }
    notes.extend(without_effect_notes(without_effect));
    errors.extend(contradictions(&config));
    if errors.is_empty() { Ok((config, notes)) } else { Err(ConfigErrors(errors)) }
}

/// A setting without effect. Settings of the same kind are logged in one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WithoutEffect {
    /// The origin: the file, the environment, a flag.
    source: String,
    why: &'static str,
    /// The name with its line.
    name: String,
}

impl WithoutEffect {
    fn of(why: &'static str, setting: &Setting) -> Self {
        let (source, name) = match &setting.origin {
            Origin::File { path, line } => {
                let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                (path.display().to_string(), format!("{}{line}", setting.name))
            }
            Origin::Environment => ("environment".to_string(), variable(&setting.name)),
            Origin::Flag(flag) => (flag.clone(), setting.name.clone()),
        };
        Self { source, why, name }
    }
}

/// Errors for options that one source sets in two spellings: it is ambiguous which one counts.
fn doubled_options(settings: &[Setting]) -> Vec<String> {
    let mut errors = vec![];
    for (at, setting) in settings.iter().enumerate() {
        let Some((option, _)) = options::find(&setting.name) else { continue };
        let is_same_source = |earlier: &&Setting| match (&earlier.origin, &setting.origin) {
            (Origin::File { path, .. }, Origin::File { path: other, .. }) => path == other,
            (Origin::Environment, Origin::Environment) => true,
            _ => false,
        };
        let is_other_spelling = |earlier: &&Setting| {
            earlier.name != setting.name
                && options::find(&earlier.name).is_some_and(|(other, _)| other.name == option.name)
        };
        let earlier = settings[..at].iter().filter(is_same_source).find(is_other_spelling);
        if let Some(earlier) = earlier {
            errors.push(format!(
                "{}: {} is another spelling of it; remove one of them",
                setting.place(),
                earlier.place()
            ));
        }
    }
    errors
}

/// The error for an option without effect that does not have its required value.
fn not_as_it_must_be(setting: &Setting) -> Option<String> {
    let RawValue::One(value) = &setting.value else { return None };
    let expected = ignored::expected(&setting.name, value)?;
    Some(format!("{}: {value:?} is not allowed; expected {expected}", setting.place()))
}

/// The warning for a value that requests a feature that is not built.
fn missed(setting: &Setting) -> Option<Note> {
    let RawValue::One(value) = &setting.value else { return None };
    let text = format!("{}: {value} is not built yet, and has no effect", setting.place());
    ignored::is_missed(&setting.name, value).then_some(Note { is_warning: true, text })
}

/// Replaces settings of security options by options of the table, and returns the errors that prevent the
/// start.
fn secured(settings: Vec<Setting>, without_effect: &mut Vec<WithoutEffect>) -> (Vec<Setting>, Vec<String>) {
    let (mut kept, mut errors) = (vec![], vec![]);
    for setting in &settings {
        match security::judge(setting, &settings) {
            SettingEffect::Ordinary => kept.push(setting.clone()),
            SettingEffect::Means(means) => kept.extend(means.into_iter().map(|(name, value)| Setting {
                name: name.to_string(),
                value: RawValue::One(value),
                origin: setting.origin.clone(),
            })),
            SettingEffect::Inert(why) => without_effect.push(WithoutEffect::of(why, setting)),
            SettingEffect::Refused(why) => errors.push(format!("{}: {why}", setting.place())),
        }
    }
    (kept, errors)
}

/// An unknown flag is an error, because the user has just typed it; in a file or the environment it is a
/// note.
fn unknown(setting: &Setting, notes: &mut Vec<Note>, errors: &mut Vec<String>) {
    let known = spellings().chain(ignored::names());
    let meant = match nearest(&setting.name, known) {
        Some(name) if setting.origin == Origin::Environment => format!("; did you mean {}?", variable(name)),
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
    if matches!(setting.origin, Origin::Flag(_)) {
        errors.push(format!("{}: there is no option {}{meant}", setting.place(), setting.name));
    } else {
        let text = format!("{}: unknown option, ignored{meant}", setting.place());
        notes.push(Note { is_warning: true, text });
    }
}

/// The setting without the levels of loggers that this node does not have, for which it adds a warning: a
/// `scylla.yaml` lists ScyllaDB's loggers. A flag keeps them and is refused, because the user has just typed
/// it.
fn without_unknown_loggers(setting: Setting, notes: &mut Vec<Note>) -> Setting {
    let RawValue::One(text) = &setting.value else { return setting };
    if setting.name != options::LOGGER_LEVELS || matches!(setting.origin, Origin::Flag(_)) {
        return setting;
    }
    let logger_of = |part: &&str| part.split_once('=').map(|(logger, _)| logger.trim().to_string());
    let is_known = |part: &&str| logger_of(part).is_none_or(|logger| log_levels::logger(&logger).is_ok());
    let (known, unknown): (Vec<&str>, Vec<&str>) = text.split(':').partition(is_known);
    if unknown.is_empty() {
        return setting;
    }
    let names = unknown.iter().filter_map(logger_of).map(|name| {
        let meant = nearest(&name, log_levels::LOGGERS.iter().copied());
        meant.map_or_else(|| name.clone(), |meant| format!("{name} (did you mean {meant}?)"))
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let text = format!("{}: no loggers of this node, their levels have no effect: {names}", setting.place());
    notes.push(Note { is_warning: true, text });
    let value = if known.is_empty() { "auto".to_string() } else { known.join(":") };
    Setting { value: RawValue::One(value), ..setting }
}

/// One warning for each source and reason, with all names.
fn without_effect_notes(mut settings: Vec<WithoutEffect>) -> Vec<Note> {
    // The sort is stable: names stay in the order of the file.
    settings.sort_by(|a, b| (&a.source, a.why).cmp(&(&b.source, b.why)));
    settings.dedup();
    let say = |group: &[WithoutEffect]| {
        let names: Vec<&str> = group.iter().map(|it| it.name.as_str()).collect();
        let text = format!("{}: {}: {}", group[0].source, group[0].why, names.join(", "));
        Note { is_warning: true, text }
    };
    settings.chunk_by(|a, b| (&a.source, a.why) == (&b.source, b.why)).map(say).collect()
}

/// Errors for values that are valid alone but not together.
fn contradictions(config: &Config) -> Vec<String> {
    let mut errors = vec![];
    if let Err(error) = config.security.client_encryption.tls_files() {
        errors.push(format!("client_encryption_options: {error}"));
    }
    let SecurityConfig { authenticator, authorizer, audit, .. } = &config.security;
    if let Err(error) = audit.options(&config.place.data_dir) {
        errors.push(format!("audit_logging_options: {error}"));
    }
    if *authenticator == Authenticator::AllowAll && *authorizer != Authorizer::AllowAll {
        errors.push(format!(
            "authorizer: {} can't be used with {}, which asks nobody for a name; set authenticator: {}",
            authorizer.name(),
            authenticator.name(),
            Authenticator::Password.name()
        ));
    }
    for (name, value) in [("dc", &config.identity.data_center), ("rack", &config.identity.rack)] {
        if value.is_empty() {
            errors.push(format!("{name} is empty; a name such as {name}1 is expected"));
        }
    }
    errors.extend(ports::plan(&config.listen.wanted(&config.security.client_encryption)).err());
    let (warn, fail) = (config.results.tombstone_warn_threshold, config.reads.tombstone_failure_threshold);
    if fail > 0 && warn > fail {
        errors.push(format!(
            "tombstone_warn_threshold is {} and tombstone_failure_threshold {}; reads would fail without a warning before",
            warn, fail
        ));
    }
    errors
}
