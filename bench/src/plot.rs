//! Draws outcomes: a panel for each case that was measured for several numbers of hops, replicas or stages,
//! with curves for Thalweg, the rivals and the limit.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use crate::measure::{Figures, Outcome, title};
use crate::output;

/// The parameters along which a panel's curves run.
const ALONG: [&str; 3] = ["hops", "replicas", "stages"];
const PANEL: (u32, u32) = (640, 400);
const IN_A_ROW: usize = 2;
const HEAD: u32 = 34;

/// One panel: a curve for each contestant, in the order in which they were measured.
struct Panel {
    title: String,
    along: &'static str,
    unit: &'static str,
    curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// Draws the panels of these outcomes into a file.
pub(crate) fn draw(outcomes: &[Outcome], file: &Path) -> Result<(), Box<dyn Error>> {
    let panels = panels(outcomes);
    if panels.is_empty() {
        return Err("nothing to draw: no case was measured for several hops, replicas or stages".into());
    }
    let rows = panels.len().div_ceil(IN_A_ROW);
    let size = (PANEL.0 * IN_A_ROW as u32, PANEL.1 * rows as u32 + HEAD);
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(&output::machine(), ("sans-serif", 15))?;
    for (panel, area) in panels.iter().zip(root.split_evenly((rows, IN_A_ROW))) {
        panel.draw(&area)?;
    }
    root.present()?;
    Ok(())
}

fn panels(outcomes: &[Outcome]) -> Vec<Panel> {
    let mut order = Vec::new();
    let mut panels: BTreeMap<String, Panel> = BTreeMap::new();
    for outcome in outcomes {
        let Some((along, at)) = along(outcome) else { continue };
        let rest: Vec<_> = outcome.params.iter().filter(|(key, _)| *key != along).cloned().collect();
        let name = title(&outcome.name, &rest);
        let panel = panels.entry(name.clone()).or_insert_with(|| {
            order.push(name.clone());
            Panel { title: name, along, unit: outcome.unit, curves: Vec::new() }
        });
        let all = std::iter::once(&outcome.ours).chain(&outcome.limit).chain(&outcome.rivals);
        all.for_each(|figures| panel.add(at, figures));
    }
    let panels = order.iter().filter_map(|name| panels.remove(name));
    panels.filter(|panel| panel.curves.iter().any(|(_, points)| points.len() > 1)).collect()
}

fn along(outcome: &Outcome) -> Option<(&'static str, f64)> {
    let found = outcome.params.iter().find(|(key, _)| ALONG.contains(key));
    found.and_then(|(key, value)| Some((*key, value.parse().ok()?)))
}

impl Panel {
    fn add(&mut self, at: f64, figures: &Figures) {
        let Some(middle) = figures.middle else { return };
        let point = (at, middle.median);
        match self.curves.iter_mut().find(|(name, _)| *name == figures.name) {
            Some((_, points)) => points.push(point),
            None => self.curves.push((figures.name.clone(), vec![point])),
        }
    }

    /// Both axes are logarithmic, because the figures of rivals differ by factors.
    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Box<dyn Error>> {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let bounds = |all: &mut dyn Iterator<Item = f64>| {
            all.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
                (value.min(least), value.max(most))
            })
        };
        let (x_least, x_most) = bounds(&mut points().map(|point| point.0));
        let (y_least, y_most) = bounds(&mut points().map(|point| point.1));
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(54)
            // The right part is reserved for the legend.
            .build_cartesian_2d(
                (x_least..x_most * (x_most / x_least).powf(0.8)).log_scale(),
                (y_least / 1.5..y_most * 1.5).log_scale(),
            )?;
        chart.configure_mesh().x_desc(self.along).y_desc(self.unit).light_line_style(WHITE).draw()?;
        for (at, (name, points)) in self.curves.iter().enumerate() {
            let colour = if at == 0 { BLACK.to_rgba() } else { Palette99::pick(at).to_rgba() };
            let style = colour.stroke_width(if at == 0 { 3 } else { 1 });
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style).point_size(3))?
                .label(name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .border_style(BLACK.mix(0.3))
            .background_style(WHITE.mix(0.8))
            .draw()?;
        Ok(())
    }
}
