//! Plots as SVG: for benchmarks and `iotune`.
//!
//! - [`lines`]: curves over a common axis;
//! - [`bars`]: bars in groups, each with its spread;
//! - [`heat`]: a plane of values, white where there is none.
//!
//! A plot is a value; drawing it touches no disk. Text uses the viewer's sans-serif font.

pub mod bars;
pub mod heat;
pub mod lines;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::{Color, Palette, Palette99, RGBColor, ShapeStyle, WHITE};

pub use bars::{Bar, Bars};
pub use heat::HeatMap;
pub use lines::{Line, Lines};

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 560;
const FONT: &str = "sans-serif";

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws on a white sheet of the default size. Drawing into memory cannot fail.
fn sheet(draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Drawn) -> String {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = root.fill(&WHITE).and_then(|()| draw(&root)).and_then(|()| root.present());
        drawn.expect("a string takes every drawing");
    }
    svg
}

/// The colour of a series; consecutive ones differ.
fn color(number: usize) -> RGBColor {
    let (red, green, blue) = Palette99::COLORS[number % Palette99::COLORS.len()];
    RGBColor(red, green, blue)
}

fn filled(number: usize) -> ShapeStyle {
    color(number).filled()
}

/// A number on an axis, with as few digits as distinguish it from its neighbours.
fn tick(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_string(),
        1e12.. => format!("{}T", trimmed(value / 1e12)),
        1e9.. => format!("{}G", trimmed(value / 1e9)),
        1e6.. => format!("{}M", trimmed(value / 1e6)),
        1e4.. => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 { 0 } else { 2 };
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The least and the greatest of the numbers and 0; the two always differ.
fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (least, greatest) = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((0.0f64, 0.0f64), |(least, greatest), value| (least.min(value), greatest.max(value)));
    if greatest > least { (least, greatest) } else { (least, least + 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let ticks = [0.0, 0.25, 12.0, 1500.0, 25_000.0, 2.5e6, 1e9, 2e12].map(tick);
        assert_eq!(ticks, ["0", "0.25", "12", "1500", "25k", "2.5M", "1G", "2T"]);
    }

    #[test]
    fn an_extent_is_never_empty() {
        assert_eq!(extent([]), (0.0, 1.0));
        assert_eq!(extent([3.0, f64::NAN, -1.0]), (-1.0, 3.0));
    }
}
