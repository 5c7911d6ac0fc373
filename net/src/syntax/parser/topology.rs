//! The grammar of topologies, and of patterns, filters and synchrocells in them. Each rule returns the height
//! of its tree.

use super::*;

impl Parser<'_> {
    pub(super) fn topo(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (first, mut height) = self.serial()?;
        let mut branches = vec![first];
        let mut signs: Vec<Token> = Vec::new();
        while matches!(self.kind(), T::Bar | T::OrOr) {
            signs.push(self.advance());
            let (branch, h) = self.serial()?;
            height = height.max(h);
            branches.push(branch);
        }
        let Some(first_sign) = signs.first() else { return Ok((branches.pop().unwrap(), height)) };
        let deterministic = first_sign.kind == T::OrOr;
        if let Some(other) = signs.iter().find(|s| s.kind != first_sign.kind) {
            self.mixed(start, &signs, *first_sign, *other);
        }
        let span = self.span_from(start);
        Ok((Topo { kind: TopoKind::Parallel { branches, deterministic }, span }, height + 1))
    }

    /// Reports `A | B || C` without brackets, and shows both readings.
    fn mixed(&mut self, start: Span, signs: &[Token], first: Token, other: Token) {
        // An operand is the text between two operators, its brackets included.
        let starts = std::iter::once(start.start).chain(signs.iter().map(|s| s.span.end));
        let ends = signs.iter().map(|s| s.span.start).chain([self.last_span().end]);
        let operand = |(start, end): (u32, u32)| {
            let text = self.source.slice(Span { start, end: end.max(start) });
            let comment = text.contains("//") || text.contains("/*");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match text.chars().count() {
                _ if comment => "…".to_string(),
                0..=30 => text,
                _ => text.chars().take(27).chain("…".chars()).collect(),
            }
        };
        let texts: Vec<String> = starts.zip(ends).map(operand).collect();
        let reading = |tight: TokenKind| {
            let loose = if tight == T::Bar { " || " } else { " | " };
            let mut groups: Vec<Vec<&str>> = vec![vec![&texts[0]]];
            for (sign, text) in signs.iter().zip(&texts[1..]) {
                match sign.kind == tight {
                    true => groups.last_mut().unwrap().push(text),
                    false => groups.push(vec![text]),
                }
            }
            let sign = format!(" {} ", tight.text());
            let group =
                |g: Vec<&str>| if g.len() == 1 { g[0].to_string() } else { format!("({})", g.join(&sign)) };
            groups.into_iter().map(group).collect::<Vec<_>>().join(loose)
        };
        let error = self
            .error("E0204", "`|` and `||` are mixed without brackets", other.span)
            .label(format!("`{}` here", other.kind.text()))
            .also(self.source, first.span, format!("`{}` here", first.kind.text()))
            .help(format!("write either `{}`\nor           `{}`", reading(T::Bar), reading(T::OrOr)));
        // No token was skipped, so the next token may have an error of its own.
        let reported_at = self.reported_at.take();
        self.report(error);
        self.reported_at = reported_at;
    }

    fn serial(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (first, mut height) = self.postfix()?;
        let mut parts = vec![first];
        loop {
            if !self.eat(T::DotDot) {
                if !self.no_operator() {
                    break;
                }
                parts.push(self.missing(self.last_span().after()));
            }
            let (part, h) = self.postfix()?;
            height = height.max(h);
            parts.push(part);
        }
        if parts.len() == 1 {
            return Ok((parts.remove(0), height));
        }
        Ok((Topo { kind: TopoKind::Serial(parts), span: self.span_from(start) }, height + 1))
    }

    /// Whether another component follows without an operator before it; that is reported, and the component
    /// is parsed.
    fn no_operator(&mut self) -> bool {
        match self.kind() {
            T::Ellipsis | T::Unknown => {
                let error = self.expected_error("`..`");
                self.report(error.help("components in series are joined by `..`, two points"));
                self.advance();
                true
            }
            _ if !self.starts_prim() => false,
            _ if self.in_brackets => {
                let error = self.expected_error("`..`, `|` or `)`");
                self.report(error.help("components in series are joined by `..`"));
                true
            }
            // At the beginning of a line the token may start something else, and a `;` is missing before it.
            _ if self.starts_line() => false,
            _ => {
                let error = self.expected_error("`;` after the topology");
                self.report(error.help("components in series are joined by `..`"));
                true
            }
        }
    }

    /// Whether the next token is on another line than the previous one.
    pub(super) fn starts_line(&self) -> bool {
        let between = Span { start: self.last_span().end, end: self.span().start };
        self.source.slice(between).contains('\n')
    }

    fn postfix(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (mut topo, mut height) = self.prim()?;
        loop {
            let sign = self.kind();
            let inner = match sign {
                T::Star
                | T::StarStar
                | T::Backslash
                | T::Bang
                | T::BangBang
                | T::BangAt
                | T::BangBangAt
                | T::At => topo,
                _ => return Ok((topo, height)),
            };
            self.enter(height)?;
            self.leave();
            self.advance();
            let mut body = Some(Box::new(inner));
            match self.postfix_kind(sign, &mut body) {
                Ok(kind) => topo = Topo { kind, span: self.span_from(start) },
                Err(Lost) => {
                    self.skip_component();
                    topo = body.map_or_else(|| self.missing(start), |body| self.and_missing(*body));
                }
            }
            height += 1;
        }
    }

    /// Parses the text after a postfix operator; takes `body` only if that text can be parsed.
    fn postfix_kind(&mut self, sign: TokenKind, body: &mut Option<Box<Topo>>) -> Read<TopoKind> {
        let mut taken = || body.take().expect("taken once");
        Ok(match sign {
            T::Star | T::StarStar => {
                let (exits, deterministic) = (self.patterns("the star")?, sign == T::StarStar);
                TopoKind::Star { body: taken(), exits, deterministic }
            }
            T::Backslash => {
                let backs = self.patterns("the feedback")?;
                TopoKind::Feedback { body: taken(), backs }
            }
            T::At => match self.kind() {
                T::Number(place) => {
                    self.advance();
                    TopoKind::Place { body: taken(), place: place as u64 }
                }
                _ => {
                    let mut error = self.expected_error("the number of a place after `@`");
                    if matches!(self.kind(), T::Less | T::LessHash) {
                        error = error.help("to place by a tag's value, write `!@ <t>`");
                    }
                    self.report(error);
                    return Err(Lost);
                }
            },
            _ => {
                let from = self.tag_label()?;
                let to = if self.eat(T::Colon) { Some(self.tag_label()?) } else { None };
                let deterministic = matches!(sign, T::BangBang | T::BangBangAt);
                let placed = matches!(sign, T::BangAt | T::BangBangAt);
                TopoKind::Split { body: taken(), from, to, deterministic, placed }
            }
        })
    }

    /// Recovers from an error in a component: skips to the operator, bracket or definition that follows it.
    fn skip_component(&mut self) {
        loop {
            let kind = self.kind();
            match kind {
                T::DotDot | T::Bar | T::OrOr | T::Semicolon | T::End | T::Connect => return,
                kind if kind.starts_definition() || is_closer(kind) => return,
                _ => {}
            }
            self.advance();
            if let Some(close) = closer(kind) {
                self.skip_to_close(close);
            }
        }
    }

    /// `Pat {, Pat}`.
    pub(super) fn patterns(&mut self, of: &str) -> Read<Vec<Pattern>> {
        if !self.at(T::BraceOpen) {
            let error = self.expected_error(&format!("a pattern such as `{{a, <t>}}` for {of}"));
            self.report(error);
            return Err(Lost);
        }
        let mut patterns = vec![self.pattern()?];
        while self.eat(T::Comma) {
            patterns.push(self.pattern()?);
        }
        Ok(patterns)
    }

    fn pattern(&mut self) -> Read<Pattern> {
        let start = self.span();
        let labels = self.labels()?;
        let guard = if self.eat(T::If) { Some(self.guard()?) } else { None };
        Ok(Pattern { labels, guard, span: self.span_from(start) })
    }

    pub(super) fn starts_prim(&self) -> bool {
        matches!(self.kind(), T::Ident | T::ParenOpen | T::BracketOpen | T::CellOpen)
    }

    fn prim(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        match self.kind() {
            T::Ident => {
                let name = self.ident("a component")?;
                Ok((Topo { kind: TopoKind::Name(name), span: start }, 1))
            }
            T::ParenOpen => self.brackets(),
            T::BracketOpen => {
                let kind = self.filter();
                Ok((Topo { kind, span: self.span_from(start) }, 1))
            }
            T::CellOpen => {
                let kind = self.synchrocell();
                Ok((Topo { kind, span: self.span_from(start) }, 1))
            }
            _ => {
                self.not_a_component();
                self.skip_component();
                Ok((self.missing(start), 1))
            }
        }
    }

    fn not_a_component(&mut self) {
        let what = "a component: a name, `( … )`, a filter `[ … ]` or a synchrocell `[| … |]`";
        let mut error = self.expected_error(what);
        match self.kind() {
            T::BraceOpen => error = error.help("a filter is written `[{a} -> {b}]`"),
            T::Ellipsis => error = error.help("components in series are joined by `..`, two points"),
            _ => {}
        }
        self.report(error);
    }

    fn brackets(&mut self) -> Read<(Topo, usize)> {
        let open = self.tokens[self.next];
        if let Err(Lost) = self.enter(0) {
            self.advance();
            self.skip_to_close(T::ParenClose);
            return Ok((self.missing(open.span), 1));
        }
        self.advance();
        let outer = std::mem::replace(&mut self.in_brackets, true);
        let read = self.topo();
        self.in_brackets = outer;
        self.leave();
        let Ok((topo, height)) = read else {
            self.skip_to_close(T::ParenClose);
            return Ok((self.missing(open.span), 1));
        };
        if self.close(T::ParenClose, open).is_err() {
            self.skip_to_close(T::ParenClose);
            return Ok((self.and_missing(topo), height + 1));
        }
        Ok((topo, height))
    }

    pub(super) fn synchrocell(&mut self) -> TopoKind {
        let open = self.advance();
        if self.at(T::CellClose) {
            let error = self
                .error("E0208", "a synchrocell needs at least one pattern", open.span.to(self.span()))
                .help("write `[| {a}, {b} |]` to join a record with `a` and one with `b`");
            self.report(error);
            self.advance();
            return TopoKind::Missing;
        }
        let read = self.patterns("the synchrocell");
        let read = read.and_then(|p| self.close(T::CellClose, open).map(|()| p));
        read.map_or_else(
            |Lost| {
                self.skip_to_close(T::CellClose);
                TopoKind::Missing
            },
            TopoKind::Synchrocell,
        )
    }

    // ---- filters ----

    pub(super) fn filter(&mut self) -> TopoKind {
        let open = self.advance();
        if self.eat(T::BracketClose) {
            return TopoKind::Filter(Filter { rule: None });
        }
        let read = self.filter_rule();
        let read = read.and_then(|rule| self.close(T::BracketClose, open).map(|()| rule));
        if read.is_err() {
            self.skip_to_close(T::BracketClose);
        }
        read.map_or(TopoKind::Missing, |rule| TopoKind::Filter(Filter { rule: Some(rule) }))
    }

    fn filter_rule(&mut self) -> Read<FilterRule> {
        if !self.at(T::BraceOpen) {
            let error = self
                .expected_error("the pattern of the filter")
                .help("a filter is written `[{a} -> {b = a}]`");
            self.report(error);
            return Err(Lost);
        }
        let pattern = self.labels()?;
        if self.at(T::If) {
            let error = self
                .error("E0201", "the pattern of a filter has no guard", self.span())
                .help("write the condition after the arrow: `[{<t>} -> if <t > 0> then {<t>} else {}]`");
            self.report(error);
            return Err(Lost);
        }
        self.arrow("a filter is written `[{a} -> {b = a}]`", None)?;
        let action = self.action()?;
        Ok(FilterRule { pattern, action })
    }

    fn action(&mut self) -> Read<Action> {
        let mut guarded = Vec::new();
        while self.eat(T::If) {
            let guard = self.guard()?;
            self.expect(T::Then, "`then`")?;
            let then = self.span();
            let outputs = self.outputs()?;
            if !self.at(T::Else) {
                let error = self
                    .expected_error("`else`")
                    .also(self.source, then, "this is done if the guard holds")
                    .help("every `if` of a filter has an `else`; nothing after it consumes the record");
                self.report(error);
                return Err(Lost);
            }
            self.advance();
            guarded.push((guard, outputs));
        }
        Ok(Action { guarded, otherwise: self.outputs()? })
    }

    fn outputs(&mut self) -> Read<Vec<OutRecord>> {
        let mut outputs = Vec::new();
        if !self.at(T::BraceOpen) {
            if !matches!(self.kind(), T::BracketClose | T::Else) {
                self.expected("an output record such as `{b = a}`, or `]`");
                return Err(Lost);
            }
            return Ok(outputs);
        }
        outputs.push(self.out_record()?);
        while self.eat(T::Semicolon) {
            outputs.push(self.out_record()?);
        }
        Ok(outputs)
    }

    fn out_record(&mut self) -> Read<OutRecord> {
        let open = self.expect(T::BraceOpen, "an output record such as `{b = a}`")?;
        let mut items = Vec::new();
        if self.eat(T::BraceClose) {
            return Ok(OutRecord { items, span: self.span_from(open.span) });
        }
        let read = loop {
            match self.item() {
                Ok(item) => items.push(item),
                Err(Lost) => break Err(Lost),
            }
            if !self.eat(T::Comma) {
                break self.close_list(T::BraceClose, open);
            }
        };
        if read.is_err() {
            self.skip_to_close(T::BraceClose);
        }
        Ok(OutRecord { items, span: self.span_from(open.span) })
    }

    fn item(&mut self) -> Read<Item> {
        let start = self.span();
        let kind = match self.kind() {
            T::Less => LabelKind::Tag,
            T::LessHash => LabelKind::BindingTag,
            _ => return self.field_item(),
        };
        let open = self.advance();
        let name = self.ident("a tag's name")?.name;
        let value = if self.eat(T::Equal) { ItemValue::Expr(self.tag_expr()?) } else { ItemValue::Copy };
        let is_before_value =
            self.at(T::GreaterEqual) || self.at(T::Greater) && self.kind_after(1) == T::Equal;
        if matches!(value, ItemValue::Copy) && is_before_value {
            let open = if kind == LabelKind::Tag { "<" } else { "<#" };
            let message = "the value of a tag stands before the `>`";
            let error = self.error("E0201", message, self.span()).label("not expected here");
            self.report(error.help(format!("write `{open}{name}=…>`")));
            return Err(Lost);
        }
        self.close(T::Greater, open)?;
        Ok(Item { label: Label { kind, name }, value, span: self.span_from(start) })
    }

    fn field_item(&mut self) -> Read<Item> {
        let at = self.label()?;
        let mut value = ItemValue::Copy;
        if self.eat(T::Equal) {
            if matches!(self.kind(), T::Less | T::LessHash | T::Number(_)) {
                let found = self.expected_error("the name of a field after `=`");
                self.report(found.help("a tag with a computed value is written `<t = …>`"));
                return Err(Lost);
            }
            value = ItemValue::Rename(self.ident("the name of a field")?);
        }
        Ok(Item { label: at.label, value, span: self.span_from(at.span) })
    }
}
