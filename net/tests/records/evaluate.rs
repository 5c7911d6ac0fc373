//! A simple evaluator of expressions over tags, with the meaning of C.

use thalweg_net::syntax::ast::{BinaryOp, TagExpr, TagExprKind, UnaryOp};

/// The value of an expression in C; `None` for a fault.
pub(crate) fn evaluate(expression: &TagExpr, tag: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    use {BinaryOp as B, TagExprKind as K, UnaryOp as U};
    let wide = match &expression.kind {
        K::Number(number) => i128::from(*number),
        K::Tag(name) => tag(name)?.into(),
        K::Unary(op, a) => {
            let a = i128::from(evaluate(a, tag)?);
            match op {
                U::Negate => -a,
                U::Not => (a == 0).into(),
                U::Abs => a.abs(),
            }
        }
        K::Binary(B::And, a, b) if evaluate(a, tag)? == 0 => (evaluate(b, tag), 0).1,
        K::Binary(B::Or, a, b) if evaluate(a, tag)? != 0 => (evaluate(b, tag), 1).1,
        K::Binary(op, a, b) => {
            let (a, b) = (i128::from(evaluate(a, tag)?), i128::from(evaluate(b, tag)?));
            match op {
                B::Or | B::And => (b != 0).into(),
                B::Equal => (a == b).into(),
                B::NotEqual => (a != b).into(),
                B::Less => (a < b).into(),
                B::LessEqual => (a <= b).into(),
                B::Greater => (a > b).into(),
                B::GreaterEqual => (a >= b).into(),
                B::Add => a + b,
                B::Subtract => a - b,
                B::Multiply => a * b,
                B::Divide | B::Remainder if b == 0 || (a, b) == (i64::MIN.into(), -1) => return None,
                B::Divide => a / b,
                B::Remainder => a % b,
                B::Min => a.min(b),
                B::Max => a.max(b),
            }
        }
        K::Choose(condition, a, b) => {
            evaluate(if evaluate(condition, tag)? != 0 { a } else { b }, tag)?.into()
        }
        K::Missing => return None,
    };
    i64::try_from(wide).ok()
}
