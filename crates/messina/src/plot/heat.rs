//! Plot of a plane of values, white where there is none.

use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::{BLACK, Color, IntoFont, RGBColor};

use super::{FONT, sheet, tick};

/// Values over two axes that are divided into equal steps.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    pub title: String,
    pub x: String,
    pub y: String,
    /// The ends of the axes; both begin at 0.
    pub x_end: f64,
    pub y_end: f64,
    /// Rows from the bottom up, each from left to right; `None` where the point was not reached.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The unit of the values.
    pub unit: String,
    /// A line over the map, in the axes' units.
    pub line: Option<[(f64, f64); 2]>,
}

impl HeatMap {
    #[must_use]
    pub fn svg(&self) -> String {
        let values = || self.cells.iter().flatten().flatten().copied().filter(|value| *value > 0.0);
        let least = values().fold(f64::MAX, f64::min);
        let greatest = values().fold(0.0, f64::max).max(least);
        // Logarithmic, because latencies differ by powers of ten.
        let place = |value: f64| match greatest / least {
            span if span > 1.0 && value > 0.0 => ((value / least).ln() / span.ln()).clamp(0.0, 1.0),
            _ => 0.0,
        };
        sheet(|root| {
            let (plane, legend) = root.split_horizontally(860);
            let mut chart = ChartBuilder::on(&plane)
                .caption(&self.title, (FONT, 20).into_font())
                .margin(16)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..self.x_end, 0.0..self.y_end)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_desc(&self.x)
                .y_desc(&self.y)
                .x_label_formatter(&|value| tick(*value))
                .y_label_formatter(&|value| tick(*value))
                .label_style((FONT, 14))
                .draw()?;
            let step_y = self.y_end / self.cells.len().max(1) as f64;
            for (row, cells) in self.cells.iter().enumerate() {
                let step_x = self.x_end / cells.len().max(1) as f64;
                let shown = cells.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
                chart.draw_series(shown.map(|(at, value)| {
                    let corner = (step_x * at as f64, step_y * row as f64);
                    let across = (corner.0 + step_x, corner.1 + step_y);
                    Rectangle::new([corner, across], heat(place(value)).filled())
                }))?;
            }
            if let Some(ends) = self.line {
                chart.draw_series([PathElement::new(ends, BLACK.stroke_width(2))])?;
            }
            legend.draw(&Text::new(self.unit.clone(), (4, 40), (FONT, 14)))?;
            if values().next().is_some() {
                for at in 0..20 {
                    let share = 1.0 - f64::from(at) / 19.0;
                    let top = 60 + at * 18;
                    let block = [(4, top), (28, top + 18)];
                    legend.draw(&Rectangle::new(block, heat(share).filled()))?;
                    if at % 3 == 0 || at == 19 {
                        let value = least * (greatest / least).powf(share);
                        legend.draw(&Text::new(tick(value), (34, top + 3), (FONT, 13)))?;
                    }
                }
            }
            Ok(())
        })
    }
}

/// From blue (least) over yellow to red (greatest); never white.
fn heat(share: f64) -> RGBColor {
    const STOPS: [(f64, [f64; 3]); 4] = [
        (0.0, [49.0, 104.0, 190.0]),
        (0.4, [90.0, 190.0, 150.0]),
        (0.7, [250.0, 215.0, 80.0]),
        (1.0, [200.0, 30.0, 40.0]),
    ];
    let next = STOPS.iter().position(|stop| share <= stop.0).unwrap_or(STOPS.len() - 1).max(1);
    let ((from, low), (to, high)) = (STOPS[next - 1], STOPS[next]);
    let part = ((share - from) / (to - from)).clamp(0.0, 1.0);
    let mixed = |at: usize| (low[at] + (high[at] - low[at]) * part) as u8;
    RGBColor(mixed(0), mixed(1), mixed(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_without_a_value_stays_white() {
        let plot = HeatMap {
            title: "p95".to_string(),
            x: "MB/s".to_string(),
            y: "IOPS".to_string(),
            x_end: 100.0,
            y_end: 1000.0,
            cells: vec![vec![Some(1.0), Some(10.0)], vec![Some(100.0), None]],
            unit: "us".to_string(),
            line: Some([(0.0, 1000.0), (100.0, 0.0)]),
        };
        let svg = plot.svg();
        // The sheet, three cells, twenty steps of the legend.
        assert_eq!(svg.matches("<rect").count(), 24);
        assert!(["p95", "MB/s", "IOPS", "us"].iter().all(|text| svg.contains(text)));
    }

    #[test]
    fn colours_go_from_blue_to_red() {
        assert_eq!(heat(0.0), RGBColor(49, 104, 190));
        assert_eq!(heat(1.0), RGBColor(200, 30, 40));
    }
}
