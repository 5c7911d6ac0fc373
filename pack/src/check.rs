//! Compiles a syntax tree to a program. Every name is looked up, and an operator's numbers must have the same
//! unit.

use std::ops::Range;
use thalweg_glob::Glob;

use crate::expression::{Op, Program};
use crate::problem::Problem;
use crate::schema::{Schema, Type};
use crate::suggest::nearest;
use crate::syntax::{Arithmetic, Compare, Kind, Node};
use crate::unit::Dimension;

/// The deepest stack of values that a program needs.
pub(crate) const STACK_MAX: usize = 32;

const FUNCTIONS: [&str; 9] = ["min", "max", "abs", "floor", "ceil", "round", "sqrt", "log2", "known"];

/// Compiles an expression to a program and its type; returns all mistakes if there are any.
pub(crate) fn check(node: &Node, schema: &Schema) -> Result<(Program, Type), Vec<Problem>> {
    let mut checker = Checker { schema, program: Program::default(), depth: 0, problems: Vec::new() };
    let of = checker.node(node);
    match of {
        Some(of) if checker.problems.is_empty() => Ok((checker.program, of)),
        _ => Err(checker.problems),
    }
}

struct Checker<'s> {
    schema: &'s Schema,
    program: Program,
    /// The depth of the stack at the current step.
    depth: usize,
    problems: Vec<Problem>,
}

/// The methods return `None` after reporting a mistake, so that no error is reported which only follows from
/// another.
impl Checker<'_> {
    fn wrong<T>(&mut self, problem: Problem) -> Option<T> {
        self.problems.push(problem);
        None
    }

    fn push(&mut self, op: Op, span: &Range<usize>) -> Option<()> {
        self.depth += 1;
        if self.depth > STACK_MAX {
            let message = format!("more than {STACK_MAX} values wait for an operator here");
            return self.wrong(
                Problem::new(span.clone(), message).help("compute a part of it as a measure of its own"),
            );
        }
        self.program.ops.push(op);
        Some(())
    }

    /// Emits an operator that replaces two values by one.
    fn join(&mut self, op: Op) {
        self.depth -= 1;
        self.program.ops.push(op);
    }

    fn node(&mut self, (kind, span): &Node) -> Option<Type> {
        match kind {
            Kind::Number(value, unit) => {
                self.push(Op::Constant(value * unit.factor), span)?;
                Some(Type::Number(unit.dimension))
            }
            Kind::Truth(value) => {
                self.push(Op::Constant(f64::from(u8::from(*value))), span)?;
                Some(Type::Truth)
            }
            Kind::Text(_) => self.wrong(
                Problem::new(span.clone(), "a text cannot be used here without a comparison").help(
                    "compare a name with it: `component == \"text\"`, or `component like \"pattern*\"`",
                ),
            ),
            Kind::Name(name) => self.name(name, span),
            Kind::Negative(of) => {
                let dimension = self.number(of)?;
                self.program.ops.push(Op::Negative);
                Some(Type::Number(dimension))
            }
            Kind::Not(of) => {
                self.truth(of)?;
                self.program.ops.push(Op::Not);
                Some(Type::Truth)
            }
            Kind::Arithmetic(how, of) => self.arithmetic(*how, of, span),
            Kind::Compare(how, of) => self.compare(*how, of, span),
            Kind::Like(of, pattern) => {
                let field = self.text_field(of)?;
                self.program.globs.push(Glob::new(pattern));
                let glob = self.program.globs.len() as u16 - 1;
                self.push(Op::TextLike { field, glob }, span)?;
                Some(Type::Truth)
            }
            Kind::And(of) => self.either(of, Op::ElseFalse(0)),
            Kind::Or(of) => self.either(of, Op::ElseTrue(0)),
            Kind::If(of) => self.choice(of),
            Kind::Call(name, arguments) => self.call(name, arguments, span),
        }
    }

    fn name(&mut self, name: &str, span: &Range<usize>) -> Option<Type> {
        let field = self.field(name, span)?;
        let found = &self.schema.fields[usize::from(field)];
        let (of, factor) = (found.of, found.factor);
        if of == Type::Text {
            return self.wrong(
                Problem::new(span.clone(), format!("`{name}` is a text"))
                    .help("compare it with a text in quotes, by `==`, `!=` or `like`"),
            );
        }
        let op = if factor == 1.0 { Op::Field(field) } else { Op::Scaled { field, factor } };
        self.push(op, span)?;
        Some(of)
    }

    fn field(&mut self, name: &str, span: &Range<usize>) -> Option<u16> {
        if let Some(field) = self.schema.find(name).and_then(|field| u16::try_from(field).ok()) {
            return Some(field);
        }
        let problem = Problem::new(span.clone(), format!("there is no `{name}` here"));
        let problem = match nearest(name, self.schema.names()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => {
                let names: Vec<&str> = self.schema.names().take(12).collect();
                problem.help(format!("there are {}", names.join(", ")))
            }
        };
        self.wrong(problem)
    }

    /// The number of a field that is a text.
    fn text_field(&mut self, (kind, span): &Node) -> Option<u16> {
        let Kind::Name(name) = kind else {
            return self.wrong(Problem::new(span.clone(), "only a name can be compared with a text"));
        };
        let field = self.field(name, span)?;
        match self.schema.fields[usize::from(field)].of {
            Type::Text => Some(field),
            _ => self.wrong(Problem::new(span.clone(), format!("`{name}` is no text"))),
        }
    }

    fn number(&mut self, node: &Node) -> Option<Dimension> {
        match self.node(node)? {
            Type::Number(dimension) => Some(dimension),
            _ => self.wrong(Problem::new(node.1.clone(), "this is true or false where a number is expected")),
        }
    }

    fn truth(&mut self, node: &Node) -> Option<()> {
        match self.node(node)? {
            Type::Truth => Some(()),
            _ => self.wrong(
                Problem::new(node.1.clone(), "this is a number where true or false is expected")
                    .help("compare it with something, as in `x > 0`"),
            ),
        }
    }

    /// Both sides are checked, so that mistakes of both are reported.
    fn both_numbers(&mut self, [left, right]: &[Node; 2]) -> Option<[Dimension; 2]> {
        let left = self.number(left);
        let right = self.number(right);
        Some([left?, right?])
    }

    fn same(&mut self, [left, right]: [Dimension; 2], span: &Range<usize>, what: &str) -> Option<Dimension> {
        if left == right {
            return Some(left);
        }
        let message = format!("{left} and {right} cannot be {what}");
        self.wrong(
            Problem::new(span.clone(), message)
                .help("write the unit after the number, as in `5 ms` or `2 kB/s`"),
        )
    }

    fn arithmetic(&mut self, how: Arithmetic, of: &[Node; 2], span: &Range<usize>) -> Option<Type> {
        let [left, right] = self.both_numbers(of)?;
        let too_large = || Problem::new(span.clone(), "this unit is too large a power");
        let (op, dimension) = match how {
            Arithmetic::Add => (Op::Add, self.same([left, right], span, "added")?),
            Arithmetic::Subtract => (Op::Subtract, self.same([left, right], span, "subtracted")?),
            Arithmetic::Multiply => match left.times(right) {
                Some(dimension) => (Op::Multiply, dimension),
                None => return self.wrong(too_large()),
            },
            Arithmetic::Divide => match right.inverse().and_then(|right| left.times(right)) {
                Some(dimension) => (Op::Divide, dimension),
                None => return self.wrong(too_large()),
            },
        };
        self.join(op);
        Some(Type::Number(dimension))
    }

    fn compare(&mut self, how: Compare, of: &[Node; 2], span: &Range<usize>) -> Option<Type> {
        let [left, right] = of;
        match (&left.0, &right.0) {
            (_, Kind::Text(text)) => return self.compare_text(how, left, text, span),
            (Kind::Text(text), _) => return self.compare_text(how, right, text, span),
            _ => {}
        }
        let dimensions = self.both_numbers(of)?;
        self.same(dimensions, span, "compared")?;
        self.join(Op::Compare(how));
        Some(Type::Truth)
    }

    fn compare_text(&mut self, how: Compare, node: &Node, text: &str, span: &Range<usize>) -> Option<Type> {
        let field = self.text_field(node)?;
        let equal = match how {
            Compare::Equal => true,
            Compare::Unequal => false,
            _ => return self.wrong(Problem::new(span.clone(), "texts are only equal or not")),
        };
        self.program.texts.push(text.into());
        let text = self.program.texts.len() as u16 - 1;
        self.push(Op::TextIs { field, text, equal }, span)?;
        Some(Type::Truth)
    }

    /// Compiles an `and` or `or`. A program evaluates the second part only if the first does not decide the
    /// result.
    fn either(&mut self, [left, right]: &[Node; 2], jump: Op) -> Option<Type> {
        let first = self.truth(left);
        let at = self.program.ops.len();
        self.program.ops.push(jump);
        self.depth = self.depth.saturating_sub(1);
        let second = self.truth(right);
        first?;
        second?;
        self.land(at);
        Some(Type::Truth)
    }

    /// Sets the target of the jump at `at` to the next step.
    fn land(&mut self, at: usize) {
        let here = self.program.ops.len() as u16;
        match &mut self.program.ops[at] {
            Op::ElseFalse(to) | Op::ElseTrue(to) | Op::Unless(to) | Op::Jump(to) => *to = here,
            _ => {}
        }
    }

    fn choice(&mut self, [condition, one, other]: &[Node; 3]) -> Option<Type> {
        let fulfilled = self.truth(condition);
        let unless = self.program.ops.len();
        self.program.ops.push(Op::Unless(0));
        self.depth = self.depth.saturating_sub(1);
        let first = self.node(one);
        let jump = self.program.ops.len();
        self.program.ops.push(Op::Jump(0));
        self.land(unless);
        self.depth = self.depth.saturating_sub(usize::from(first.is_some()));
        let second = self.node(other);
        self.land(jump);
        let (_, first, second) = (fulfilled?, first?, second?);
        if first == second {
            return Some(first);
        }
        self.wrong(Problem::new(other.1.clone(), "the values after `then` and `else` have different types"))
    }

    fn call(&mut self, name: &str, arguments: &[Node], span: &Range<usize>) -> Option<Type> {
        let one = |op: Op, same: bool| Some((op, same));
        let found = match name {
            "min" => one(Op::Min, true),
            "max" => one(Op::Max, true),
            "abs" => one(Op::Absolute, true),
            "floor" => one(Op::Floor, false),
            "ceil" => one(Op::Ceil, false),
            "round" => one(Op::Round, false),
            "sqrt" => one(Op::Root, false),
            "log2" => one(Op::Logarithm, false),
            "known" => one(Op::Known, true),
            _ => None,
        };
        let Some((op, any_unit)) = found else {
            let problem = Problem::new(span.clone(), format!("there is no function `{name}`"));
            return match nearest(name, FUNCTIONS) {
                Some(near) => self.wrong(problem.help(format!("did you mean `{near}`?"))),
                None => self.wrong(problem.help(format!("there are {}", FUNCTIONS.join(", ")))),
            };
        };
        match op {
            Op::Min | Op::Max => self.extreme(op, name, arguments, span),
            _ => {
                let [argument] = arguments else {
                    return self.wrong(Problem::new(span.clone(), format!("`{name}` takes one number")));
                };
                let dimension = self.number(argument)?;
                if !any_unit && dimension != Dimension::NONE {
                    let message = format!("`{name}` takes a plain number, and this is {dimension}");
                    return self.wrong(
                        Problem::new(argument.1.clone(), message)
                            .help("divide it by a unit, as in `x / 1 ms`"),
                    );
                }
                self.program.ops.push(op);
                Some(if matches!(self.program.ops.last(), Some(Op::Known)) {
                    Type::Truth
                } else {
                    Type::Number(dimension)
                })
            }
        }
    }

    fn extreme(&mut self, op: Op, name: &str, arguments: &[Node], span: &Range<usize>) -> Option<Type> {
        let dimensions: Vec<Option<Dimension>> = arguments.iter().map(|node| self.number(node)).collect();
        let dimensions = dimensions.into_iter().collect::<Option<Vec<_>>>()?;
        if dimensions.len() < 2 {
            return self.wrong(Problem::new(span.clone(), format!("`{name}` takes two numbers or more")));
        }
        for pair in dimensions.windows(2) {
            self.same([pair[0], pair[1]], span, "compared")?;
        }
        (1..dimensions.len()).for_each(|_| self.join(op.clone()));
        Some(Type::Number(dimensions[0]))
    }
}
