//! Plot of bars in groups, each with its spread.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color, IntoFont, IntoTextStyle, WHITE};

use super::{FONT, extent, filled, sheet, tick};

/// Height of a bar, and the distance up and down from it that shows the spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    pub value: f64,
    pub deviation: f64,
}

impl Bar {
    /// Mean and standard deviation of the runs.
    #[must_use]
    pub fn of(runs: &[f64]) -> Self {
        let count = runs.len().max(1) as f64;
        let value = runs.iter().sum::<f64>() / count;
        let variance = runs.iter().map(|run| (run - value).powi(2)).sum::<f64>() / count;
        Self { value, deviation: variance.sqrt() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub title: String,
    pub y: String,
    /// Names below the axis.
    pub groups: Vec<String>,
    /// Each series has a colour and a bar for each group; `None` where nothing was measured.
    pub series: Vec<(String, Vec<Option<Bar>>)>,
}

impl Bars {
    #[must_use]
    pub fn svg(&self) -> String {
        let bars = || self.series.iter().flat_map(|(_, bars)| bars).flatten();
        let (_, greatest) = extent(bars().map(|bar| bar.value + bar.deviation));
        let groups = self.groups.len() as f64;
        sheet(|root| {
            let mut chart = ChartBuilder::on(root)
                .caption(&self.title, (FONT, 20).into_font())
                .margin(16)
                .x_label_area_size(36)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..groups, 0.0..greatest * 1.15)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .x_labels(0)
                .y_desc(&self.y)
                .y_label_formatter(&|value| tick(*value))
                .label_style((FONT, 14))
                .light_line_style(BLACK.mix(0.04))
                .draw()?;
            let width = 0.8 / self.series.len() as f64;
            for (number, (name, bars)) in self.series.iter().enumerate() {
                let left = |group: usize| group as f64 + 0.1 + width * number as f64;
                let shown = || bars.iter().enumerate().filter_map(|(at, bar)| Some((left(at), (*bar)?)));
                let rectangles = shown().map(|(x, bar)| {
                    Rectangle::new([(x, 0.0), (x + width * 0.92, bar.value)], filled(number))
                });
                chart
                    .draw_series(rectangles)?
                    .label(name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], filled(number)));
                chart.draw_series(shown().map(|(x, bar)| {
                    let middle = x + width * 0.46;
                    let ends = [(bar.value - bar.deviation).max(0.0), bar.value + bar.deviation];
                    PathElement::new(ends.map(|y| (middle, y)), BLACK.mix(0.7).stroke_width(1))
                }))?;
            }
            let below = Pos::new(HPos::Center, VPos::Top);
            let style = (FONT, 14).into_text_style(root).pos(below);
            let plane = chart.plotting_area();
            for (at, name) in self.groups.iter().enumerate() {
                let (x, y) = plane.map_coordinate(&(at as f64 + 0.5, 0.0));
                root.draw(&Text::new(name.clone(), (x, y + 8), style.clone()))?;
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .label_font((FONT, 14))
                .draw()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_the_mean_with_its_deviation() {
        assert_eq!(Bar::of(&[1.0, 3.0]), Bar { value: 2.0, deviation: 1.0 });
        assert_eq!(Bar::of(&[]), Bar::default());
    }

    #[test]
    fn groups_and_series_are_drawn_and_named() {
        let bar = |value| Some(Bar { value, deviation: 1.0 });
        let plot = Bars {
            title: "space".to_string(),
            y: "MB".to_string(),
            groups: ["4 KiB", "16 KiB"].map(str::to_string).to_vec(),
            series: vec![
                ("LZ4".to_string(), vec![bar(2.0), bar(3.0)]),
                ("none".to_string(), vec![bar(4.0), None]),
            ],
        };
        let svg = plot.svg();
        for text in ["space", "MB", "4 KiB", "16 KiB", "LZ4", "none"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        // The sheet, three bars, two in the legend, its background and border.
        assert_eq!(svg.matches("<rect").count(), 8);
    }
}
