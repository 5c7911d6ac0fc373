//! The grammar of expressions over tags. Each rule returns the height of its tree.

use super::*;

impl Parser<'_> {
    /// `<expr>` after `if`.
    pub(super) fn guard(&mut self) -> Read<TagExpr> {
        let open = self.expect(T::Less, "a condition over tags such as `<t > 0>`")?;
        let expr = self.tag_expr()?;
        self.close(T::Greater, open)?;
        Ok(expr)
    }

    pub(super) fn tag_expr(&mut self) -> Read<TagExpr> {
        self.choose().map(|(expr, _)| expr)
    }

    /// `c ? a : b`.
    fn choose(&mut self) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let (condition, height) = self.binary(0)?;
        if !self.at(T::Question) {
            return Ok((condition, height));
        }
        self.enter(height)?;
        self.advance();
        let read = self.choose_rest();
        self.leave();
        let ((a, height_a), (b, height_b)) = read?;
        let kind = TagExprKind::Choose(Box::new(condition), Box::new(a), Box::new(b));
        let span = self.span_from(start);
        Ok((TagExpr { kind, span }, height.max(height_a).max(height_b) + 1))
    }

    fn choose_rest(&mut self) -> Read<((TagExpr, usize), (TagExpr, usize))> {
        let yes = self.choose()?;
        self.expect(T::Colon, "`:` and what holds otherwise")?;
        Ok((yes, self.choose()?))
    }

    fn binary(&mut self, level: usize) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let (mut left, mut height) = self.unary()?;
        while let Some((operator, of_level)) = self.operator()
            && of_level >= level
        {
            self.enter(height)?;
            self.advance();
            let read = self.binary(of_level + 1);
            self.leave();
            let (right, h) = read?;
            height = height.max(h) + 1;
            let kind = TagExprKind::Binary(operator, Box::new(left), Box::new(right));
            left = TagExpr { kind, span: self.span_from(start) };
        }
        Ok((left, height))
    }

    /// The binary operator of the next token, and its precedence.
    fn operator(&self) -> Option<(BinaryOp, usize)> {
        Some(match self.kind() {
            T::OrOr => (BinaryOp::Or, 0),
            T::AndAnd => (BinaryOp::And, 1),
            T::EqualEqual => (BinaryOp::Equal, 2),
            T::NotEqual => (BinaryOp::NotEqual, 2),
            T::Less => (BinaryOp::Less, 3),
            T::LessEqual => (BinaryOp::LessEqual, 3),
            T::Greater if self.operand_follows() => (BinaryOp::Greater, 3),
            T::GreaterEqual => (BinaryOp::GreaterEqual, 3),
            T::Plus => (BinaryOp::Add, 4),
            T::Minus => (BinaryOp::Subtract, 4),
            T::Star => (BinaryOp::Multiply, 5),
            T::Slash => (BinaryOp::Divide, 5),
            T::Percent => (BinaryOp::Remainder, 5),
            _ => return None,
        })
    }

    /// Whether an operand follows the next token. `! <` is a split after a guard, not a negation.
    fn operand_follows(&self) -> bool {
        match self.kind_after(1) {
            T::Number(_) | T::Ident | T::ParenOpen | T::Minus => true,
            T::Bang | T::BangBang => !matches!(self.kind_after(2), T::Less | T::LessHash),
            _ => false,
        }
    }

    fn unary(&mut self) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let operators: &[UnaryOp] = match self.kind() {
            T::Minus => &[UnaryOp::Negate],
            T::Bang => &[UnaryOp::Not],
            T::BangBang => &[UnaryOp::Not, UnaryOp::Not],
            _ => return self.operand(),
        };
        self.enter(1)?;
        self.advance();
        let read = self.unary();
        self.leave();
        let (mut expr, height) = read?;
        for &operator in operators {
            let kind = TagExprKind::Unary(operator, Box::new(expr));
            expr = TagExpr { kind, span: self.span_from(start) };
        }
        Ok((expr, height + operators.len()))
    }

    fn operand(&mut self) -> Read<(TagExpr, usize)> {
        let span = self.span();
        match self.kind() {
            T::Number(value) => {
                self.advance();
                Ok((TagExpr { kind: TagExprKind::Number(value), span }, 1))
            }
            T::ParenOpen => self.between_brackets(),
            T::Ident if self.kind_after(1) == T::ParenOpen => self.call(),
            T::Ident => {
                let name = self.ident("a tag")?.name;
                Ok((TagExpr { kind: TagExprKind::Tag(name), span }, 1))
            }
            _ => {
                let mut error = self.expected_error("a number, a tag's name or `(`");
                if matches!(self.kind(), T::Less | T::LessHash) {
                    error = error.help("in an expression a tag stands without its brackets: `<t = u + 1>`");
                }
                self.report(error);
                Err(Lost)
            }
        }
    }

    fn between_brackets(&mut self) -> Read<(TagExpr, usize)> {
        self.enter(0)?;
        let open = self.advance();
        let read = self.choose();
        self.leave();
        let (mut expr, height) = read?;
        self.close(T::ParenClose, open)?;
        expr.span = self.span_from(open.span);
        Ok((expr, height))
    }

    /// `abs(e)`, `min(e, f)`, `max(e, f)`.
    fn call(&mut self) -> Read<(TagExpr, usize)> {
        self.enter(1)?;
        let read = self.call_rest();
        self.leave();
        read
    }

    fn call_rest(&mut self) -> Read<(TagExpr, usize)> {
        let name = self.advance().span;
        let operator = match self.source.slice(name) {
            "abs" => None,
            "min" => Some(BinaryOp::Min),
            "max" => Some(BinaryOp::Max),
            word => {
                let near = thalweg_pack::nearest(word, ["abs", "min", "max"]);
                let mut error = self.error("E0201", format!("there is no function `{word}`"), name);
                error = error.remark("the functions over tags are `abs(e)`, `min(e, f)` and `max(e, f)`");
                if let Some(near) = near {
                    error = error.help(format!("did you mean `{near}`?"));
                }
                self.report(error);
                return Err(Lost);
            }
        };
        let open = self.advance();
        let (a, height) = self.choose()?;
        let Some(operator) = operator else {
            self.close(T::ParenClose, open)?;
            let kind = TagExprKind::Unary(UnaryOp::Abs, Box::new(a));
            return Ok((TagExpr { kind, span: self.span_from(name) }, height + 1));
        };
        self.expect(T::Comma, "`,` and the second operand")?;
        let (b, h) = self.choose()?;
        self.close(T::ParenClose, open)?;
        let kind = TagExprKind::Binary(operator, Box::new(a), Box::new(b));
        Ok((TagExpr { kind, span: self.span_from(name) }, height.max(h) + 1))
    }
}
