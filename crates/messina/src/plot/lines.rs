//! Plot of curves over a common axis.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, IntoFont, WHITE};

use super::{Drawn, FONT, color, extent, filled, sheet, tick};
use plotters::backend::SVGBackend;

/// One curve; points are ordered by x.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    pub title: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
    /// Whether the y axis is logarithmic; values up to 0 are left out.
    pub log_y: bool,
    /// Whether each point gets a dot; for a few measured points.
    pub dots: bool,
}

impl Lines {
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (x_least, x_greatest) = extent(points().map(|point| point.0));
        let (y_least, y_greatest) = extent(points().map(|point| point.1));
        let shown = |(x, y): (f64, f64), least: f64, greatest: f64| {
            let height = if self.log_y {
                (y / least).ln() / (greatest / least).ln()
            } else {
                (y - least) / (greatest - least)
            };
            ((x - x_least) / (x_greatest - x_least), height)
        };
        sheet(|root| {
            if self.log_y {
                let positive = points().map(|point| point.1).filter(|y| *y > 0.0);
                let least = positive.fold(f64::MAX, f64::min).min(y_greatest);
                let (least, greatest) = (least * 0.8, y_greatest * 1.3);
                let legend = self.free_corner(|point| shown(point, least, greatest));
                self.draw(root, x_least..x_greatest, (least..greatest).log_scale(), legend)
            } else {
                let (least, greatest) = (y_least, y_greatest * 1.1);
                let legend = self.free_corner(|point| shown(point, least, greatest));
                self.draw(root, x_least..x_greatest, least..greatest, legend)
            }
        })
    }

    /// The corner where the legend hides least of the curves. `place` maps a point to coordinates from 0 to
    /// 1.
    fn free_corner(&self, place: impl Fn((f64, f64)) -> (f64, f64)) -> SeriesLabelPosition {
        use SeriesLabelPosition::{LowerLeft, LowerRight, MiddleLeft, MiddleRight, UpperLeft, UpperRight};
        let (width, height) = (0.35, 0.05 + 0.05 * self.lines.len() as f64);
        let hidden = |corner: &SeriesLabelPosition| {
            let x = if matches!(corner, UpperLeft | MiddleLeft | LowerLeft) { 0.0 } else { 1.0 - width };
            let y = match corner {
                UpperLeft | UpperRight => 1.0 - height,
                MiddleLeft | MiddleRight => 0.5 - height / 2.0,
                _ => 0.0,
            };
            let is_hidden =
                |point: (f64, f64)| (x..=x + width).contains(&point.0) && (y..=y + height).contains(&point.1);
            let between = |pair: &[(f64, f64)]| {
                let (from, to) = (place(pair[0]), place(pair[1]));
                let at = |part: f64| (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
                (0..=20).filter(|step| is_hidden(at(f64::from(*step) / 20.0))).count()
            };
            self.lines.iter().flat_map(|line| line.points.windows(2)).map(between).sum::<usize>()
        };
        let corners = [UpperLeft, UpperRight, MiddleLeft, MiddleRight, LowerLeft, LowerRight];
        corners.into_iter().min_by_key(hidden).unwrap_or(UpperLeft)
    }

    fn draw<Y>(
        &self,
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        x: std::ops::Range<f64>,
        y: Y,
        legend: SeriesLabelPosition,
    ) -> Drawn
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, (FONT, 20).into_font())
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .label_style((FONT, 14))
            .light_line_style(BLACK.mix(0.04))
            .draw()?;
        for (number, line) in self.lines.iter().enumerate() {
            let points = || line.points.iter().copied().filter(|point| !self.log_y || point.1 > 0.0);
            let style = color(number).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points(), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color(number).stroke_width(3)));
            if self.dots {
                chart.draw_series(points().map(|point| Circle::new(point, 4, filled(number))))?;
            }
        }
        chart
            .configure_series_labels()
            .position(legend)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 14))
            .draw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_goes_where_nothing_is() {
        let corner = |points: &[(f64, f64)]| {
            let line = Line { name: "a".to_string(), points: points.to_vec() };
            let plot = Lines {
                title: String::new(),
                x: String::new(),
                y: String::new(),
                lines: vec![line],
                log_y: false,
                dots: false,
            };
            format!("{:?}", plot.free_corner(|point| point))
        };
        assert_eq!(corner(&[(0.0, 0.0), (1.0, 1.0)]), "UpperLeft");
        assert_eq!(corner(&[(0.0, 1.0), (1.0, 0.0)]), "UpperRight");
        assert_eq!(corner(&[(0.0, 0.95), (1.0, 0.95)]), "MiddleLeft");
    }

    #[test]
    fn every_curve_is_drawn_and_named() {
        for log_y in [false, true] {
            let line = |name: &str, slope: f64| Line {
                name: name.to_string(),
                points: (0..10).map(|x| (f64::from(x), f64::from(x) * slope)).collect(),
            };
            let plot = Lines {
                title: "bytes < time".to_string(),
                x: "seconds".to_string(),
                y: "MB".to_string(),
                lines: vec![line("first", 1.0), line("second", 200.0)],
                log_y,
                dots: true,
            };
            let svg = plot.svg();
            for text in ["bytes &lt; time", "seconds", "MB", "first", "second"] {
                assert!(svg.contains(text), "{text} is missing in {svg}");
            }
            assert_eq!(svg.matches("<circle").count(), if log_y { 18 } else { 20 });
        }
    }
}
