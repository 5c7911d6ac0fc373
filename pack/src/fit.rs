//! Coefficients of a pack's models that are fitted to measurements.
//!
//! A [`Fit`] explains a quantity of each window, such as the time of a message, as the sum of its terms: each
//! has a coefficient times a known quantity, such as a time per fragment times the fragments of a message.
//! [`Fits`] computes the coefficients by least squares from the windows that it is given. Each window has the
//! same weight whatever the quantity's size is, because the window's relative error counts; a window weighs
//! less the older it is. The coefficients of a fit are replaced only when all of them are sure: by windows
//! that are too few, or that are alike, no coefficient is known, and those of before stay, at first the
//! pack's start values.

use std::ops::Range;

use crate::expression::{Expression, Values};
use crate::pack::Pack;

/// The largest number of terms of a fit.
pub(crate) const TERMS_MAX: usize = 4;
/// The factor by which the weight of a window falls with each further window.
const FORGET: f64 = 0.98;
/// The weight that windows need together, by the number of terms.
const WINDOWS: f64 = 4.0;
/// The largest standard error of a sure coefficient, as a fraction of the coefficient.
const ERROR_MAX: f64 = 0.25;
/// The least error of a window, as a fraction of its quantity: windows that agree by chance prove little.
const NOISE: f64 = 0.02;
/// The largest number of combinations of points' values for which coefficients are kept apart.
const APART_MAX: usize = 16;

/// A quantity that is explained by terms with fitted coefficients.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The name: the coefficients are called `NAME.TERM` in expressions.
    pub name: String,
    /// The quantity.
    pub is: Expression,
    /// A condition of the windows that count; none: all windows in which the quantities are known.
    pub when: Option<Expression>,
    /// The fields of points: coefficients are fitted apart for each combination of these points' values.
    pub apart: Vec<usize>,
    /// The terms whose sum is the quantity.
    pub terms: Vec<Term>,
}

/// A term of a fit.
#[derive(Clone, Debug)]
pub struct Term {
    /// The full name of the coefficient.
    pub name: String,
    /// The name of the coefficient's unit; empty for plain numbers.
    pub unit: String,
    /// The quantity that the coefficient is multiplied by.
    pub times: Expression,
    /// The number of the coefficient's field.
    pub field: usize,
    /// The coefficient before it is known from windows.
    pub start: f64,
    /// The least and the greatest value of the coefficient.
    pub bounds: Range<f64>,
    /// The factor that converts the coefficient to the units of computation.
    pub factor: f64,
}

/// The coefficients of all fits of a pack.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    /// For each fit, its states by the values of the points in [`Fit::apart`].
    states: Vec<Vec<(Vec<f64>, State)>>,
}

impl Fits {
    /// Adds a window, given by its values. A window of which a quantity is unknown does not count.
    pub fn add<V: Values>(&mut self, pack: &Pack, values: &V) {
        self.states.resize_with(pack.fits.len(), Vec::new);
        for (fit, states) in pack.fits.iter().zip(&mut self.states) {
            if fit.when.as_ref().is_some_and(|when| !when.holds(values)) {
                continue;
            }
            let is = fit.is.number(values);
            let times: Vec<f64> = fit.terms.iter().map(|term| term.times.number(values) / is).collect();
            let is_known = is > 0.0 && times.iter().all(|value| value.is_finite() && *value >= 0.0);
            if !is_known {
                continue;
            }
            let key = fit.key(values);
            let at = states.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                // What was fitted first is forgotten when there are too many combinations.
                if states.len() >= APART_MAX {
                    states.remove(0);
                }
                states.push((key, State::new(fit)));
                states.len() - 1
            });
            states[at].1.add(fit, &times);
        }
    }

    /// The coefficients that hold for a window with these values: the number of each coefficient's field, and
    /// the coefficient in the unit of the field.
    pub fn coefficients<V: Values>(&self, pack: &Pack, values: &V) -> Vec<(usize, f64)> {
        let mut all = Vec::new();
        for (number, fit) in pack.fits.iter().enumerate() {
            let found = self.states.get(number).filter(|states| !states.is_empty());
            let key = found.map(|_| fit.key(values));
            let found = found.and_then(|states| states.iter().find(|(known, _)| Some(known) == key.as_ref()));
            all.extend(fit.terms.iter().enumerate().map(|(at, term)| {
                let coefficient = found.map_or(term.start, |(_, state)| state.coefficients[at]);
                (term.field, coefficient / term.factor)
            }));
        }
        all
    }

    /// The coefficients that were fitted for windows with these values, as a text: `send.each 3.21 us`. Empty
    /// if only start values are known.
    pub fn fitted<V: Values>(&self, pack: &Pack, values: &V) -> String {
        let mut texts = Vec::new();
        for (fit, states) in pack.fits.iter().zip(&self.states) {
            let key = fit.key(values);
            let state = states.iter().find(|(known, state)| *known == key && state.is_fitted);
            let Some((_, state)) = state else { continue };
            for (term, coefficient) in fit.terms.iter().zip(&state.coefficients) {
                let value = coefficient / term.factor;
                texts.push(format!("{} {value:.4} {}", term.name, term.unit).trim_end().to_owned());
            }
        }
        texts.join(", ")
    }
}

impl Fit {
    /// The values of the points by which the fit is kept apart. An unknown value is equal to no value, so it
    /// is given as the least number.
    fn key<V: Values>(&self, values: &V) -> Vec<f64> {
        let known = |field: &usize| values.number(*field);
        self.apart.iter().map(known).map(|value| if value.is_nan() { f64::MIN } else { value }).collect()
    }
}

type Matrix = [[f64; TERMS_MAX]; TERMS_MAX];

/// The sums over windows from which coefficients are computed: of each window's relative quantities, which
/// explain 1.
#[derive(Clone, Debug)]
struct State {
    products: Matrix,
    sums: [f64; TERMS_MAX],
    weight: f64,
    coefficients: Vec<f64>,
    is_fitted: bool,
}

impl State {
    fn new(fit: &Fit) -> State {
        State {
            products: Matrix::default(),
            sums: [0.0; TERMS_MAX],
            weight: 0.0,
            coefficients: fit.terms.iter().map(|term| term.start).collect(),
            is_fitted: false,
        }
    }

    fn add(&mut self, fit: &Fit, times: &[f64]) {
        self.weight = FORGET * self.weight + 1.0;
        for (at, value) in times.iter().enumerate() {
            self.sums[at] = FORGET * self.sums[at] + value;
            for (other, factor) in times.iter().enumerate() {
                self.products[at][other] = FORGET * self.products[at][other] + value * factor;
            }
        }
        if self.weight >= WINDOWS * times.len() as f64
            && let Some(coefficients) = self.solved(&fit.terms)
        {
            self.coefficients = coefficients;
            self.is_fitted = true;
        }
    }

    /// The coefficients within their bounds, if all of them are sure. While the least squares lie outside of
    /// bounds, the coefficient that is farthest outside gets its bound, if it is sure, and the others are
    /// computed anew.
    fn solved(&self, terms: &[Term]) -> Option<Vec<f64>> {
        let mut fixed: Vec<Option<f64>> = vec![None; terms.len()];
        for _ in 0..=terms.len() {
            let (found, errors) = self.least_squares(&fixed)?;
            let outside = |at: &usize| {
                let Range { start, end } = terms[*at].bounds;
                let beyond = (found[*at] - end).max(start - found[*at]);
                beyond / found[*at].abs().max(start).max(f64::MIN_POSITIVE)
            };
            let free = (0..terms.len()).filter(|at| fixed[*at].is_none());
            let farthest = free.max_by(|a, b| outside(a).total_cmp(&outside(b)));
            match farthest.filter(|at| outside(at) > 0.0) {
                Some(at) => {
                    let Range { start, end } = terms[at].bounds;
                    let bound = if found[at] < start { start } else { end };
                    if errors[at] > ERROR_MAX * found[at].abs().max(bound) {
                        return None;
                    }
                    fixed[at] = Some(bound);
                }
                None => {
                    let is_sure = |at: usize| fixed[at].is_some() || errors[at] <= ERROR_MAX * found[at];
                    return (0..terms.len()).all(is_sure).then_some(found);
                }
            }
        }
        None
    }

    /// The coefficients that are not fixed, by least squares, and the standard error of each; `None` if the
    /// windows are alike. The normal equations are scaled, so that coefficients of different size have equal
    /// precision.
    fn least_squares(&self, fixed: &[Option<f64>]) -> Option<(Vec<f64>, Vec<f64>)> {
        let free: Vec<usize> = (0..fixed.len()).filter(|at| fixed[*at].is_none()).collect();
        let mut found: Vec<f64> = fixed.iter().map(|value| value.unwrap_or(0.0)).collect();
        let mut errors = vec![0.0; fixed.len()];
        let scale: Vec<f64> = free.iter().map(|at| self.products[*at][*at].sqrt()).collect();
        if scale.iter().any(|scale| !scale.is_normal()) {
            return None;
        }
        let mut matrix = Matrix::default();
        let mut right = [0.0; TERMS_MAX];
        for (row, at) in free.iter().enumerate() {
            let of_fixed: f64 = found.iter().zip(&self.products[*at]).map(|(value, of)| value * of).sum();
            right[row] = (self.sums[*at] - of_fixed) / scale[row];
            for (column, other) in free.iter().enumerate() {
                matrix[row][column] = self.products[*at][*other] / scale[row] / scale[column];
            }
        }
        let inverse = inverted(matrix, free.len())?;
        for (row, at) in free.iter().enumerate() {
            let value: f64 = (0..free.len()).map(|column| inverse[row][column] * right[column]).sum();
            found[*at] = value / scale[row];
        }
        // The sum of (1 - x·c)² over windows.
        let mut rest = self.weight;
        for (at, value) in found.iter().enumerate() {
            rest -= 2.0 * value * self.sums[at];
            rest += found.iter().zip(&self.products[at]).map(|(other, of)| value * other * of).sum::<f64>();
        }
        let degrees = (self.weight - free.len() as f64).max(1.0);
        let variance = (rest.max(0.0) / degrees).max(NOISE * NOISE);
        for (row, at) in free.iter().enumerate() {
            errors[*at] = (variance * inverse[row][row].max(0.0)).sqrt() / scale[row];
        }
        Some((found, errors))
    }
}

/// The inverse of the first `size` rows and columns of a matrix with ones in its diagonal; `None` if it has
/// none that is known well enough.
fn inverted(mut matrix: Matrix, size: usize) -> Option<Matrix> {
    let mut inverse = Matrix::default();
    (0..size).for_each(|at| inverse[at][at] = 1.0);
    for at in 0..size {
        // The matrix is symmetric and positive, so each pivot is positive, and small if a column depends on
        // others.
        let pivot = matrix[at][at];
        if pivot.is_nan() || pivot < 1e-9 {
            return None;
        }
        for column in 0..size {
            matrix[at][column] /= pivot;
            inverse[at][column] /= pivot;
        }
        for row in (0..size).filter(|row| *row != at) {
            let factor = matrix[row][at];
            for column in 0..size {
                matrix[row][column] -= factor * matrix[at][column];
                inverse[row][column] -= factor * inverse[at][column];
            }
        }
    }
    Some(inverse)
}
