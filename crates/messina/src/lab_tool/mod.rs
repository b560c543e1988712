//! `messina lab`: simulates compaction strategies on a workload, without a server.
//!
//! The crate `lab` simulates and makes tables; this module reads workloads, draws plots and writes files.

mod arguments;

use std::error::Error;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use base::suggest::nearest;
use lab::page::{Section, page};
use lab::plots::plots;
use lab::workload::{parse, shipped, with_setting};
use lab::{NamedStrategy, RunOptions, SimulationResult, Workload, report};

pub use arguments::LabCommand;
use arguments::{Format, OutputArguments};

use crate::plot::{Line, Lines};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The runs of one workload, each with its label.
struct Runs {
    name: String,
    workload: Workload,
    /// The text of the workload.
    source: String,
    /// What distinguishes the runs; the corner of their table.
    label: String,
    runs: Vec<(String, SimulationResult)>,
}

impl LabCommand {
    pub fn run(&self) -> Done<()> {
        match self {
            Self::List => list(),
            Self::Show { workload } => print(&load(workload)?.1),
            Self::Run { workload, strategy, output } => {
                let (name, text) = load(workload)?;
                let parsed = parse(&name, &text)?;
                let all = parsed.strategies();
                let chosen = match strategy {
                    Some(wanted) => choose(&all, wanted)?,
                    None => first(all)?,
                };
                output.show(&[simulate(name, text, parsed, &[chosen], output)?])
            }
            Self::Compare { workload, strategies, output } => {
                let (name, text) = load(workload)?;
                let parsed = parse(&name, &text)?;
                let mut chosen = parsed.strategies();
                if !strategies.is_empty() {
                    chosen = strategies.iter().map(|wanted| choose(&chosen, wanted)).collect::<Done<_>>()?;
                }
                output.show(&[simulate(name, text, parsed, &chosen, output)?])
            }
            Self::Sweep { workload, knob, values, strategy, output } => {
                output.show(&[sweep(workload, knob, values, strategy.as_deref(), output)?])
            }
            Self::Table { output } => {
                let tables = report::MATRIX.iter().map(|name| {
                    let (name, text) = load(name)?;
                    let parsed = parse(&name, &text)?;
                    let chosen = parsed.strategies();
                    simulate(name, text, parsed, &chosen, output)
                });
                let tables = tables.collect::<Done<Vec<_>>>()?;
                let named: Vec<_> =
                    tables.iter().map(|runs| (runs.name.as_str(), runs.runs.as_slice())).collect();
                match output.format {
                    Format::Text => print(&report::matrix_text(&named))?,
                    Format::Json => print(&json(&tables)?)?,
                }
                let matrix = Section {
                    title: "Which strategy for which workload".to_string(),
                    text: format!("Each cell: {}.", report::CELL),
                    table: report::matrix(&named),
                    plots: vec![],
                    source: String::new(),
                };
                output.write_files(&tables, Some(matrix))
            }
        }
    }
}

fn first(strategies: Vec<NamedStrategy>) -> Done<NamedStrategy> {
    strategies.into_iter().next().ok_or_else(|| "the workload has no strategy".into())
}

fn print(text: &str) -> Done<()> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn list() -> Done<()> {
    let mut text = String::new();
    let width = shipped::SHIPPED.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, source) in shipped::SHIPPED {
        text += &format!("{name:width$}  {}\n", parse(name, source)?.about);
    }
    print(&text)
}

/// The name and text of a workload: a file, or a shipped one.
fn load(wanted: &str) -> Done<(String, String)> {
    if let Some(text) = shipped::find(wanted) {
        return Ok((wanted.to_string(), text.to_string()));
    }
    let path = Path::new(wanted);
    if path.exists() {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {wanted}: {error}"))?;
        return Ok((wanted.to_string(), text));
    }
    let near = nearest(wanted, shipped::SHIPPED.iter().map(|(name, _)| *name));
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(format!("{wanted} is neither a file nor a workload of `messina lab list`{hint}").into())
}

/// A strategy of the workload by its name, or a class with options:
/// `LeveledCompactionStrategy,fanout_size=4`.
fn choose(known: &[NamedStrategy], wanted: &str) -> Done<NamedStrategy> {
    let mut parts = wanted.split(',');
    let name = parts.next().unwrap_or_default();
    let mut strategy = match known.iter().find(|strategy| strategy.name.eq_ignore_ascii_case(name)) {
        Some(strategy) => strategy.clone(),
        None if name.ends_with("CompactionStrategy") => NamedStrategy {
            name: name.to_string(),
            options: [("class".to_string(), name.to_string())].into(),
        },
        None => {
            let names: Vec<&str> = known.iter().map(|strategy| strategy.name.as_str()).collect();
            return Err(format!(
                "{name} is none of the workload's strategies ({}) and not a class as LeveledCompactionStrategy",
                names.join(", ")
            )
            .into());
        }
    };
    for option in parts {
        let (option, value) =
            option.split_once('=').ok_or_else(|| format!("{option}: an option is given as option=value"))?;
        strategy.options.insert(option.trim().to_string(), value.trim().to_string());
        strategy.name = wanted.to_string();
    }
    lab::workload::parse::check_strategy(&strategy)?;
    Ok(strategy)
}

/// Runs each strategy, and shows its name on a terminal.
fn simulate(
    name: String,
    source: String,
    workload: Workload,
    strategies: &[NamedStrategy],
    output: &OutputArguments,
) -> Done<Runs> {
    let mut runs = vec![];
    for strategy in strategies {
        progress(&format!("{name}: {}", strategy.name));
        runs.push((strategy.name.clone(), lab::run(&workload, strategy, output.options())?));
    }
    progress("");
    Ok(Runs { name, workload, source, label: "strategy".to_string(), runs })
}

/// Replaces the line of progress.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

fn sweep(
    workload: &str,
    knob: &str,
    values: &[String],
    strategy: Option<&str>,
    output: &OutputArguments,
) -> Done<Runs> {
    let (name, text) = load(workload)?;
    let original = parse(&name, &text)?;
    let base = match strategy {
        Some(wanted) => wanted.to_string(),
        None => first(original.strategies())?.name,
    };
    let mut runs = vec![];
    for value in values {
        let (changed, of_strategy) = match knob.strip_prefix("strategy.") {
            Some(option) => (text.clone(), Some(format!("{option}={value}"))),
            None => (with_setting(&name, &text, knob, value)?, None),
        };
        let changed = parse(&name, &changed)?;
        let all = changed.strategies();
        let wanted = of_strategy.map_or(base.clone(), |option| format!("{base},{option}"));
        let chosen = choose(&all, &wanted)?;
        progress(&format!("{name}: {knob} {value}"));
        runs.push((value.clone(), lab::run(&changed, &chosen, output.options())?));
    }
    progress("");
    let label = knob.strip_prefix("strategy.").unwrap_or(knob).to_string();
    Ok(Runs { name: format!("{name} with {base}, {label}"), workload: original, source: text, label, runs })
}

impl Runs {
    fn section(&self) -> Section {
        Section {
            title: self.name.clone(),
            text: format!("{}. {}.", self.workload.about, report::scope(&self.workload, &self.runs)),
            table: report::rows(&self.label, &self.runs),
            plots: self.drawn().into_iter().map(|(_, svg)| svg).collect(),
            source: self.source.clone(),
        }
    }

    /// The plots as SVG, with their names.
    fn drawn(&self) -> Vec<(&'static str, String)> {
        let draw = |plot: lab::plots::Plot| {
            let lines = plot.lines.into_iter().map(|(name, points)| Line { name, points });
            let drawn = Lines {
                title: plot.title,
                x: plot.x,
                y: plot.y.to_string(),
                lines: lines.collect(),
                log_y: false,
                dots: false,
            };
            (plot.name, drawn.svg())
        };
        plots(&self.name, &self.runs).into_iter().map(draw).collect()
    }
}

impl OutputArguments {
    fn options(&self) -> RunOptions {
        RunOptions { precision: self.precision, seed: self.seed }
    }

    /// Prints the results and writes the files that were asked for.
    fn show(&self, all: &[Runs]) -> Done<()> {
        match self.format {
            Format::Text => {
                for runs in all {
                    print(&report::text(&runs.name, &runs.workload, &runs.label, &runs.runs))?;
                }
            }
            Format::Json => print(&json(all)?)?,
        }
        self.write_files(all, None)
    }

    /// `top`: the first section of the page.
    fn write_files(&self, all: &[Runs], top: Option<Section>) -> Done<()> {
        if let Some(dir) = &self.svg {
            fs::create_dir_all(dir).map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
            for runs in all {
                let stem = Path::new(&runs.name).file_stem().unwrap_or_default().to_string_lossy();
                let stem: String =
                    stem.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
                for (plot, svg) in runs.drawn() {
                    write(&dir.join(format!("{stem}-{plot}.svg")), &svg)?;
                }
            }
        }
        if let Some(path) = &self.html {
            let names: Vec<&str> = all.iter().map(|runs| runs.name.as_str()).collect();
            let sections: Vec<Section> = top.into_iter().chain(all.iter().map(Runs::section)).collect();
            write(path, &page(&format!("messina lab: {}", names.join(", ")), &sections))?;
        }
        Ok(())
    }
}

/// All figures and moments.
fn json(all: &[Runs]) -> Done<String> {
    let of = |runs: &Runs| {
        let named = runs.runs.iter().map(|(label, outcome)| {
            serde_json::json!({
                "label": label,
                "write_amplification": outcome.write_amplification(),
                "peak_space_over_live": outcome.peak_space(),
                "mean_space_over_live": outcome.mean_space(),
                "outcome": outcome,
            })
        });
        serde_json::json!({ "workload": runs.name, "runs": named.collect::<Vec<_>>() })
    };
    Ok(serde_json::to_string_pretty(&all.iter().map(of).collect::<Vec<_>>())? + "\n")
}

fn write(path: &PathBuf, text: &str) -> Done<()> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_chosen_by_name_or_class_with_options() {
        let workload = parse("example1", shipped::find("example1").unwrap()).unwrap();
        let known = workload.strategies();
        let chosen = choose(&known, "lcs,sstable_size_in_mb=20").unwrap();
        assert_eq!(chosen.options["sstable_size_in_mb"], "20");
        assert_eq!(chosen.options["class"], "LeveledCompactionStrategy");
        assert_eq!(choose(&known, "UnifiedCompactionStrategy").unwrap().options.len(), 1);
        for (wanted, expect) in [
            ("LC", "STCS, LCS, Hybrid"),
            ("LCS,fanout_size", "option=value"),
            ("LCS,fanout_siz=2", "fanout_siz"),
        ] {
            let error = choose(&known, wanted).unwrap_err().to_string();
            assert!(error.contains(expect), "{wanted}: {error}");
        }
    }

    #[test]
    fn a_workload_is_a_file_or_a_shipped_one() {
        assert!(load("example1").is_ok());
        assert!(load("exmaple1").unwrap_err().to_string().contains("did you mean example1?"));
    }
}
