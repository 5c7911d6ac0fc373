//! Checked expressions, compiled to programs for a stack machine.

use crate::check::{STACK_MAX, check};
use crate::problem::Problem;
use crate::schema::{Schema, Type};
use crate::syntax::{Compare, parse};
use thalweg_glob::Glob;

/// The source of an expression's fields, by their numbers in the [`Schema`].
pub trait Values {
    /// A number in the unit that the schema declares, or a truth value as 1 or 0; `NaN` if it is unknown.
    fn number(&self, field: usize) -> f64;

    /// A text, if it is known.
    fn text(&self, field: usize) -> Option<&str> {
        let _ = field;
        None
    }
}

/// A step of a program. Jumps only lead forward, so a program runs each step at most once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Constant(f64),
    Field(u16),
    Scaled {
        field: u16,
        factor: f64,
    },
    TextIs {
        field: u16,
        text: u16,
        equal: bool,
    },
    TextLike {
        field: u16,
        glob: u16,
    },
    Negative,
    Not,
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    Absolute,
    Floor,
    Ceil,
    Round,
    Root,
    Logarithm,
    Known,
    Compare(Compare),
    /// If the top of the stack is false, keeps it and skips the rest of the `and`; otherwise drops it.
    ElseFalse(u16),
    /// If the top of the stack is true, keeps it and skips the rest of the `or`; otherwise drops it.
    ElseTrue(u16),
    /// Pops a truth value, and jumps if it is false.
    Unless(u16),
    Jump(u16),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) globs: Vec<Glob>,
}

/// A checked expression. The evaluation of an expression cannot fail, and takes a time that the expression's
/// length bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    program: Program,
    of: Type,
}

impl Expression {
    /// Reads and checks an expression of any type.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn read(text: &str, schema: &Schema) -> Result<Expression, Vec<Problem>> {
        let node = parse(text).map_err(|problem| vec![problem])?;
        let (program, of) = check(&node, schema)?;
        Ok(Expression { program, of })
    }

    /// Reads and checks an expression that is true or false.
    ///
    /// # Errors
    /// The errors of [`Expression::read`], and an error if the value of the expression is a number.
    pub fn condition(text: &str, schema: &Schema) -> Result<Expression, Vec<Problem>> {
        let expression = Expression::read(text, schema)?;
        match expression.of {
            Type::Truth => Ok(expression),
            _ => {
                let problem =
                    Problem::new(0..text.len(), "a condition is true or false, and this is a number");
                Err(vec![problem.help("compare it with something, as in `x > 0`")])
            }
        }
    }

    /// The type of the expression's value.
    pub fn of(&self) -> Type {
        self.of
    }

    /// Whether the condition holds. An unknown value fulfils no comparison.
    #[inline]
    pub fn holds(&self, values: &impl Values) -> bool {
        is_true(self.number(values))
    }

    /// The expression's value: a number in nanoseconds and bytes, or 1 or 0; `NaN` if a field that the
    /// expression needs is unknown, or the value is undefined (0 / 0).
    pub fn number(&self, values: &impl Values) -> f64 {
        // Most conditions compare a name with a constant, so this case has a short path.
        if let [first, Op::Constant(bound), Op::Compare(how)] = &self.program.ops[..]
            && let Some(value) = load(first, values)
        {
            return from_truth(compare(*how, value, *bound));
        }
        self.run(values)
    }

    fn run(&self, values: &impl Values) -> f64 {
        let program = &self.program;
        let mut stack = [0.0_f64; STACK_MAX];
        let (mut top, mut at) = (0, 0);
        while let Some(op) = program.ops.get(at) {
            at += 1;
            match op {
                Op::Constant(_) | Op::Field(_) | Op::Scaled { .. } => {
                    stack[top] = load(op, values).unwrap_or(f64::NAN);
                    top += 1;
                }
                Op::TextIs { field, text, equal } => {
                    let found = values.text(usize::from(*field));
                    let is =
                        found.is_some_and(|found| (*found == *program.texts[usize::from(*text)]) == *equal);
                    stack[top] = from_truth(is);
                    top += 1;
                }
                Op::TextLike { field, glob } => {
                    let found = values.text(usize::from(*field));
                    let is = found.is_some_and(|found| program.globs[usize::from(*glob)].matches(found));
                    stack[top] = from_truth(is);
                    top += 1;
                }
                Op::ElseFalse(to) if !is_true(stack[top - 1]) => {
                    stack[top - 1] = 0.0;
                    at = usize::from(*to);
                }
                Op::ElseTrue(to) if is_true(stack[top - 1]) => at = usize::from(*to),
                Op::Unless(to) if !is_true(stack[top - 1]) => {
                    top -= 1;
                    at = usize::from(*to);
                }
                Op::ElseFalse(_) | Op::ElseTrue(_) | Op::Unless(_) => top -= 1,
                Op::Jump(to) => at = usize::from(*to),
                Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Min | Op::Max | Op::Compare(_) => {
                    top -= 1;
                    stack[top - 1] = of_two(op, stack[top - 1], stack[top]);
                }
                _ => stack[top - 1] = of_one(op, stack[top - 1]),
            }
        }
        stack[0]
    }
}

#[inline]
fn load(op: &Op, values: &impl Values) -> Option<f64> {
    match *op {
        Op::Constant(value) => Some(value),
        Op::Field(field) => Some(values.number(usize::from(field))),
        Op::Scaled { field, factor } => Some(values.number(usize::from(field)) * factor),
        _ => None,
    }
}

fn of_one(op: &Op, value: f64) -> f64 {
    match op {
        Op::Negative => -value,
        Op::Not => from_truth(!is_true(value)),
        Op::Absolute => value.abs(),
        Op::Floor => value.floor(),
        Op::Ceil => value.ceil(),
        Op::Round => value.round(),
        Op::Root => value.sqrt(),
        Op::Logarithm => value.log2(),
        Op::Known => from_truth(!value.is_nan()),
        _ => value,
    }
}

/// Applies a binary operator; the result is `NaN` if one of the operands is.
fn of_two(op: &Op, left: f64, right: f64) -> f64 {
    match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide => left / right,
        Op::Compare(how) => from_truth(compare(*how, left, right)),
        _ if left.is_nan() || right.is_nan() => f64::NAN,
        Op::Min => left.min(right),
        _ => left.max(right),
    }
}

/// Compares two numbers; false if one of them is unknown.
#[inline]
fn compare(how: Compare, left: f64, right: f64) -> bool {
    match how {
        Compare::Equal => left == right,
        Compare::Unequal => left != right && !left.is_nan() && !right.is_nan(),
        Compare::Less => left < right,
        Compare::LessOrEqual => left <= right,
        Compare::Greater => left > right,
        Compare::GreaterOrEqual => left >= right,
    }
}

#[inline]
fn is_true(value: f64) -> bool {
    value > 0.5
}

fn from_truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}
