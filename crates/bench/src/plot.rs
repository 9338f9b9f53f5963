//! Draws plots as SVG without a library: lines over a linear or logarithmic axis, and grouped bars.
//!
//! One colour per series, in a fixed order that colour-blind people can distinguish (Okabe and
//! Ito). The module does not know the meaning of the plotted figures.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 60.0;
const LEGEND_ROW: f64 = 16.0;
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9",
];

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    Linear,
    Logarithmic,
}

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct LineChart {
    pub title: String,
    pub x: String,
    pub y: String,
    pub x_scale: AxisScale,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// A chart of bars. Each group has one value for each series, or none if the figure does not exist.
#[derive(Clone, Debug)]
pub struct BarChart {
    pub title: String,
    pub y: String,
    pub series: Vec<String>,
    pub groups: Vec<(String, Vec<Option<f64>>)>,
}

/// An axis: the values that it spans and its place on the page.
struct Axis {
    scale: AxisScale,
    values: (f64, f64),
    page: (f64, f64),
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            AxisScale::Linear => (value - self.values.0) / (self.values.1 - self.values.0),
            AxisScale::Logarithmic => {
                (value / self.values.0).log10() / (self.values.1 / self.values.0).log10()
            }
        };
        self.page.0 + share.clamp(0.0, 1.0) * (self.page.1 - self.page.0)
    }

    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.values;
        match self.scale {
            AxisScale::Linear => {
                let rough = (high - low) / 5.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
                let step = step.into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(rough);
                let first = (low / step).ceil() as i64;
                let last = (high / step).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            AxisScale::Logarithmic => {
                let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
                let ticks = decades
                    .flat_map(|decade| [1.0, 2.0, 5.0].map(|times| times * 10f64.powi(decade)));
                ticks.filter(|tick| (low..=high).contains(tick)).collect()
            }
        }
    }
}

impl LineChart {
    /// Returns the chart as SVG. An empty series has no line.
    pub fn svg(&self) -> String {
        let points = || {
            self.series
                .iter()
                .flat_map(|(_, points)| points.iter().copied())
        };
        let least = points().map(|(x, _)| x).fold(f64::INFINITY, f64::min);
        let greatest = points().map(|(x, _)| x).fold(f64::NEG_INFINITY, f64::max);
        let y_greatest = points().map(|(_, y)| y).fold(0.0, f64::max);
        let x_values = match self.x_scale {
            AxisScale::Linear => (0.0, greatest * 1.05),
            AxisScale::Logarithmic => (least * 0.9, greatest * 1.1),
        };
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let top = TOP + LEGEND_ROW * names.len().div_ceil(3) as f64;
        let x = Axis {
            scale: self.x_scale,
            values: x_values,
            page: (LEFT, WIDTH - RIGHT),
        };
        let y = Axis {
            scale: AxisScale::Linear,
            values: (0.0, y_greatest * 1.02),
            page: (HEIGHT - BOTTOM, top),
        };
        let mut out = frame(&self.title, &self.y, &names, &y);
        for tick in x.ticks() {
            let at = x.place(tick);
            line(&mut out, (at, HEIGHT - BOTTOM), (at, top), "#dddddd");
            text(
                &mut out,
                (at, HEIGHT - BOTTOM + 16.0),
                "middle",
                &number(tick),
            );
        }
        text(&mut out, (WIDTH / 2.0, HEIGHT - 20.0), "middle", &self.x);
        for (position, (_, points)) in self.series.iter().enumerate() {
            let places = points
                .iter()
                .map(|(at, value)| format!("{:.1},{:.1}", x.place(*at), y.place(*value)));
            let places: Vec<String> = places.collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>",
                COLOURS[position % COLOURS.len()],
                places.join(" ")
            );
        }
        out + "</svg>\n"
    }
}

impl BarChart {
    /// Returns the chart as SVG, with each bar's value above it.
    pub fn svg(&self) -> String {
        let values = self
            .groups
            .iter()
            .flat_map(|(_, values)| values.iter().flatten());
        let greatest = values.copied().fold(0.0, f64::max);
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let top = TOP + LEGEND_ROW * names.len().div_ceil(3) as f64;
        let y = Axis {
            scale: AxisScale::Linear,
            values: (0.0, greatest * 1.1),
            page: (HEIGHT - BOTTOM, top),
        };
        let mut out = frame(&self.title, &self.y, &names, &y);
        let group_width = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let bar_width = group_width * 0.8 / self.series.len().max(1) as f64;
        for (position, (name, values)) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * (position as f64 + 0.1);
            let middle = LEFT + group_width * (position as f64 + 0.5);
            text(&mut out, (middle, HEIGHT - BOTTOM + 16.0), "middle", name);
            for (series, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let at = left + bar_width * series as f64;
                let height = y.place(*value);
                let _ = writeln!(
                    out,
                    "<rect x=\"{at:.1}\" y=\"{height:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"/>",
                    bar_width * 0.9,
                    HEIGHT - BOTTOM - height,
                    COLOURS[series % COLOURS.len()]
                );
                let above = (at + bar_width * 0.45, height - 4.0);
                text(&mut out, above, "middle", &number(*value));
            }
        }
        out + "</svg>\n"
    }
}

/// Returns the beginning of a chart: title, legend, and the axis of values with its lines.
fn frame(title: &str, y_name: &str, names: &[&str], y: &Axis) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        escaped(title)
    );
    for (position, name) in names.iter().enumerate() {
        let column = (WIDTH - LEFT - RIGHT) / 3.0;
        let left = LEFT + column * (position % 3) as f64;
        let base = 48.0 + LEGEND_ROW * (position / 3) as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>",
            base - 9.0,
            COLOURS[position % COLOURS.len()]
        );
        text(&mut out, (left + 15.0, base), "start", name);
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        line(&mut out, (LEFT, at), (WIDTH - RIGHT, at), "#dddddd");
        text(&mut out, (LEFT - 6.0, at + 4.0), "end", &number(tick));
    }
    line(
        &mut out,
        (LEFT, y.page.0),
        (WIDTH - RIGHT, y.page.0),
        "#444444",
    );
    let middle = (y.page.0 + y.page.1) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 18 {middle:.1})\">{}</text>",
        escaped(y_name)
    );
    out
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        at.0,
        at.1,
        escaped(words)
    );
}

fn escaped(words: &str) -> String {
    let words = words.replace('&', "&amp;");
    words.replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a number as text: with no digit after the point from 10 on, at most one from 1 on, and
/// two below 1.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 10.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => {
            let text = format!("{value:.1}");
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_the_frame() {
        let lines = LineChart {
            title: "a < b & c".to_owned(),
            x: "µs".to_owned(),
            y: "share".to_owned(),
            x_scale: AxisScale::Logarithmic,
            series: vec![(
                "one".to_owned(),
                vec![(1.0, 0.0), (10.0, 0.5), (100.0, 1.0)],
            )],
        };
        let svg = lines.svg();
        assert!(svg.contains("a &lt; b &amp; c"), "{svg}");
        let start = svg.find("points=\"").unwrap() + 8;
        let points = &svg[start..start + svg[start..].find('"').unwrap()];
        let places: Vec<(f64, f64)> = points
            .split(' ')
            .map(|point| point.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(places.len(), 3);
        assert!(
            places.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1),
            "{places:?}"
        );
        let within = |(x, y): &(f64, f64)| {
            (LEFT..=WIDTH - RIGHT).contains(x) && (TOP..=HEIGHT - BOTTOM).contains(y)
        };
        assert!(places.iter().all(within), "{places:?}");
        // On a logarithmic axis ten times as much is the same way each time.
        let ways = (places[1].0 - places[0].0, places[2].0 - places[1].0);
        assert!((ways.0 - ways.1).abs() < 0.2, "{places:?}");
    }

    #[test]
    fn bars_that_have_no_value_are_left_out() {
        let bars = BarChart {
            title: "CPU".to_owned(),
            y: "µs".to_owned(),
            series: vec!["ours".to_owned(), "theirs".to_owned()],
            groups: vec![
                ("A".to_owned(), vec![Some(10.0), Some(20.0)]),
                ("F".to_owned(), vec![Some(5.0), None]),
            ],
        };
        let background = 1;
        let legend = 2;
        assert_eq!(bars.svg().matches("<rect").count(), background + legend + 3);
    }

    #[test]
    fn ticks_are_round() {
        let axis = |scale, values| Axis {
            scale,
            values,
            page: (0.0, 1.0),
        };
        assert_eq!(
            axis(AxisScale::Linear, (0.0, 9.0)).ticks(),
            [0.0, 2.0, 4.0, 6.0, 8.0]
        );
        assert_eq!(
            axis(AxisScale::Logarithmic, (9.0, 60.0)).ticks(),
            [10.0, 20.0, 50.0]
        );
    }
}
