//! The grammar of definitions: nets, boxes, types, signatures, labels.

use super::*;

impl Parser<'_> {
    pub(super) fn file(&mut self) -> Vec<Def> {
        let mut defs = Vec::new();
        loop {
            self.definitions(&mut defs);
            match self.kind() {
                T::End => return defs,
                T::BraceClose => {
                    let error = self
                        .error("E0203", "this `}` closes nothing", self.span())
                        .help("remove it, or look for a missing `{` before it");
                    self.report(error);
                    self.advance();
                    self.eat(T::Semicolon);
                }
                _ => {
                    self.expected("a definition (`net`, `box`, `type` or `typesig`)");
                    self.advance();
                    self.skip_definition();
                }
            }
        }
    }

    /// Reads definitions up to a token that cannot start one; the caller knows what may follow, and handles
    /// it.
    fn definitions(&mut self, defs: &mut Vec<Def>) {
        loop {
            let kind = match self.kind() {
                T::End | T::BraceClose | T::Connect => return,
                kind if kind.starts_definition() => Some(kind),
                _ => self.not_a_definition(),
            };
            let def = match kind.unwrap_or(T::Unknown) {
                T::Meta => Ok(Def::Meta(self.meta())),
                T::Net => self.net_def().map(Def::Net),
                T::Box => self.box_def().map(Def::Box),
                T::Type => self.type_def(),
                T::Typesig => self.typesig_def(),
                _ => Err(Lost),
            };
            match def {
                Ok(def) => defs.push(def),
                Err(Lost) => self.skip_definition(),
            }
        }
    }

    /// Reports a token that stands in place of a definition. If the token is a misspelt keyword of a
    /// definition, returns the keyword, so that the definition can be read.
    fn not_a_definition(&mut self) -> Option<TokenKind> {
        let mut meant = None;
        let mut error = self.expected_error("a definition (`net`, `box`, `type` or `typesig`)");
        match self.kind() {
            T::Ident => {
                let word = self.source.slice(self.span());
                const KINDS: [TokenKind; 5] = [T::Net, T::Box, T::Type, T::Typesig, T::Connect];
                match thalweg_pack::nearest(word, KINDS.map(TokenKind::text)) {
                    Some(near) => {
                        error = error.help(format!("did you mean `{near}`?"));
                        meant = KINDS.into_iter().find(|kind| kind.text() == near);
                    }
                    None if self.kind_after(1) == T::DotDot || self.kind_after(1) == T::Bar => {
                        error = error.help("a topology follows the word `connect`")
                    }
                    None => {}
                }
            }
            T::Semicolon => error = error.help("remove this `;`"),
            _ => {}
        }
        self.report(error);
        let meant = meant.filter(|&kind| kind != T::Connect && self.kind_after(1) == T::Ident);
        // A token at which skipping stops must be consumed here, or the parser would not advance.
        if meant.is_none() && !matches!(self.kind(), T::Semicolon) {
            self.advance();
        }
        meant
    }

    fn meta(&mut self) -> Meta {
        let span = self.advance().span;
        let text = self.source.slice(span);
        let text = &text["<metadata>".len()..text.len() - "</metadata>".len()];
        Meta { text: text.into(), span }
    }

    pub(super) fn ident(&mut self, what: &str) -> Read<Ident> {
        if self.at(T::Ident) {
            let span = self.advance().span;
            return Ok(Ident { name: self.source.slice(span).into(), span });
        }
        if self.kind().is_keyword() {
            let word = self.kind().text();
            let error = self
                .error("E0207", format!("the keyword `{word}` can't be {what}"), self.span())
                .help(format!("choose another name, such as `{word}_`"));
            self.report(error);
        } else {
            self.expected(what);
        }
        Err(Lost)
    }

    /// Reads the name after `net`, `box`, …: a keyword in place of the name is taken as the name.
    fn defined_name(&mut self, what: &str) -> Read<Ident> {
        match self.ident(what) {
            Err(Lost) if self.kind().is_keyword() && !matches!(self.kind(), T::Connect) => {
                let span = self.advance().span;
                Ok(Ident { name: self.source.slice(span).into(), span })
            }
            read => read,
        }
    }

    /// Reads the `;` after a definition. At the end of the file the `;` may be missing.
    fn semicolon(&mut self, after: &str) -> Read<()> {
        if self.eat(T::Semicolon) || self.at(T::End) {
            return Ok(());
        }
        let last = self.last_span();
        let starts_line = self.starts_line();
        if self.kind().starts_definition() || self.at(T::BraceClose) || self.at(T::Connect) || starts_line {
            let error = self.error("E0206", format!("a `;` is missing after {after}"), last.after());
            self.report(error.label("`;` expected here"));
            // This definition is complete; the token here belongs to the next one.
            return if self.kind().starts_definition() || self.at(T::BraceClose) {
                Ok(())
            } else {
                Err(Lost)
            };
        }
        let what = format!("`;` after {after}");
        let mut error = self.expected_error(&what);
        if is_closer(self.kind()) {
            let sign = self.kind().text();
            error = self
                .error("E0203", format!("this `{sign}` closes nothing"), self.span())
                .help(format!("remove it, or look for a missing `{}` before it", opener(self.kind()).text()));
        } else if self.starts_prim() {
            error = error.help("components in series are joined by `..`");
        }
        self.report(error);
        Err(Lost)
    }

    fn net_def(&mut self) -> Read<NetDef> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a net")?;
        let signature = if self.at(T::ParenOpen) { self.net_signature() } else { None };
        if self.eat(T::Semicolon) {
            return Ok(NetDef { name, signature, body: NetBody::External, span: self.span_from(start) });
        }
        let mut defs = Vec::new();
        let braces = self.at(T::BraceOpen);
        if braces {
            self.net_body(&mut defs)?;
        }
        let mut connect = None;
        if self.eat(T::Connect) {
            let start = self.span();
            let mut topo = match self.topo() {
                Ok((topo, _)) => topo,
                Err(Lost) => self.missing(start),
            };
            if self.semicolon("the topology").is_err() {
                self.skip_definition();
                topo = self.and_missing(topo);
            }
            connect = Some(topo);
        } else if braces && self.eat(T::Semicolon) {
            // The braces hold only definitions, without a topology.
        } else {
            self.no_connect(braces);
            // The name and the inner definitions are known, so these are kept.
            self.skip_definition();
            if self.eat(T::Connect) {
                self.skip_definition();
            }
            connect = Some(self.missing(self.last_span()));
        }
        let span = self.span_from(start);
        Ok(NetDef { name, signature, body: NetBody::Defined { defs, connect }, span })
    }

    /// A hole from `start` to the last token read.
    pub(super) fn missing(&self, start: Span) -> Topo {
        Topo { kind: TopoKind::Missing, span: self.span_from(start) }
    }

    /// A topology followed by a hole, because the text after it could not be read.
    pub(super) fn and_missing(&self, topo: Topo) -> Topo {
        let (span, after) = (topo.span, self.missing(topo.span.after()));
        Topo { kind: TopoKind::Serial(vec![topo, after]), span: span.to(self.last_span()) }
    }

    fn no_connect(&mut self, braces: bool) {
        let what = if braces { "`connect` or `;`" } else { "`{`, `connect` or `;`" };
        let mut error = self.expected_error(what);
        if self.at(T::Ident) {
            let word = self.source.slice(self.span());
            if thalweg_pack::nearest(word, ["connect"]).is_some() {
                error = error.help("did you mean `connect`?");
            } else {
                error = error.help("a topology follows the word `connect`");
            }
        }
        self.report(error);
    }

    fn net_signature(&mut self) -> Option<Signature> {
        let open = self.advance();
        let errors = self.error_count();
        let read = self.signature();
        let read = read.and_then(|s| self.close(T::ParenClose, open).map(|()| s));
        if read.is_err() {
            self.skip_to_close(T::ParenClose);
        }
        let read = read.and_then(|s| if self.error_count() == errors { Ok(s) } else { Err(Lost) });
        Some(read.unwrap_or(Signature { maps: Vec::new(), span: self.span_from(open.span) }))
    }

    /// `{ definitions }`.
    fn net_body(&mut self, defs: &mut Vec<Def>) -> Read<()> {
        let open = self.span();
        self.enter(0)?;
        let brace = self.advance();
        self.definitions(defs);
        self.leave();
        if !self.eat(T::BraceClose) {
            // At `connect` or the end of the text the brace counts as closed.
            let _ = self.close(T::BraceClose, Token { kind: brace.kind, span: open });
        }
        Ok(())
    }

    pub(super) fn box_def(&mut self) -> Read<BoxDef> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a box")?;
        let signature = self.box_signature_in_brackets();
        let (mut codes, mut metas) = (Vec::new(), Vec::new());
        if self.at(T::BraceOpen) {
            if self.box_body(&mut codes, &mut metas).is_err() {
                self.skip_definition();
            }
            self.eat(T::Semicolon);
        } else if signature.is_ok() {
            if self.semicolon("the box").is_err() {
                self.skip_definition();
            }
        } else {
            self.skip_definition();
        }
        // A box with a broken signature is still known by its name.
        let span = self.span_from(start);
        Ok(BoxDef { name, signature: signature.unwrap_or(BoxSignature::HOLE), codes, metas, span })
    }

    fn box_signature_in_brackets(&mut self) -> Read<BoxSignature> {
        let open = self.expect(T::ParenOpen, "`(` and the signature of the box: `((a) -> (b))`")?;
        let errors = self.error_count();
        let signature = self.box_signature();
        let signature = signature.and_then(|s| self.close(T::ParenClose, open).map(|()| s));
        if signature.is_err() {
            self.skip_to_close(T::ParenClose);
        }
        // The labels may be incomplete after an error, so the signature counts as lost.
        signature.and_then(|s| if self.error_count() == errors { Ok(s) } else { Err(Lost) })
    }

    fn error_count(&self) -> usize {
        self.errors.len() + self.errors_left_out
    }

    fn box_body(&mut self, codes: &mut Vec<Code>, metas: &mut Vec<Meta>) -> Read<()> {
        let open = self.advance();
        loop {
            match self.kind() {
                T::Meta => metas.push(self.meta()),
                T::Code => codes.extend(self.code()),
                T::BraceClose => break,
                _ => {
                    let what = "`}` or code of the box (`<<< C | … >>>`)";
                    if self.at(T::End) {
                        let _ = self.close(T::BraceClose, open);
                    } else {
                        self.expected(what);
                    }
                    self.skip_to_close(T::BraceClose);
                    return Ok(());
                }
            }
        }
        self.close(T::BraceClose, open)
    }

    fn code(&mut self) -> Option<Code> {
        let span = self.span();
        let text = self.source.slice(span);
        let inner = &text[3..text.len() - 3];
        let lead = inner.len() - inner.trim_start().len();
        let word = inner.trim_start();
        let at = span.start as usize + 3 + lead;
        let (language, rest) = leading_word(word, at);
        let (mode, rest) = leading_word(rest, at + word.len() - rest.len());
        let code = match (language, mode, rest.strip_prefix('|')) {
            (Some(language), mode, Some(body)) => {
                if let Some(mode) = &mode {
                    self.check_mode(&language, mode);
                }
                Some(Code { language, mode, text: body.into(), span })
            }
            _ => {
                let error = self
                    .error("E0104", "this code does not say its language", Span::new(0, 3).shift(span.start))
                    .help("write `<<< C | … >>>`");
                self.report(error);
                None
            }
        };
        self.advance();
        code
    }

    /// Reports an error if code that is no command has a mode, or if a command has an unknown mode.
    fn check_mode(&mut self, language: &Ident, mode: &Ident) {
        if &*language.name != COMMAND_LANGUAGE {
            let message = format!("code in {} has no mode", language.name);
            let error = self
                .error("E0104", message, mode.span)
                .help(format!("write `<<< {} | … >>>`", language.name));
            return self.report(error);
        }
        if CommandMode::of_word(&mode.name).is_some() {
            return;
        }
        let words: Vec<_> = CommandMode::WORDS.into_iter().map(|(word, _)| word).collect();
        let mut error = self.error("E0104", format!("a command has no mode `{}`", mode.name), mode.span);
        if let Some(near) = thalweg_pack::nearest(&mode.name, words.iter().copied()) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        let known: Vec<_> = words.iter().map(|word| format!("`exec {word}`")).collect();
        let error = error.help(format!("write `exec`, {}", known.join(", ")));
        self.report(error);
    }

    /// `[Tuple] -> [Tuple {| Tuple}]`.
    fn box_signature(&mut self) -> Read<BoxSignature> {
        let start = self.span();
        let input = match self.kind() {
            T::Arrow => None,
            T::ParenOpen => Some(self.tuple()?),
            _ => {
                let error = self
                    .expected_error("the arguments of the box in brackets, or `->`")
                    .help("a box's signature is written `box NAME ((a, <t>) -> (b) | (c));`");
                self.report(error);
                return Err(Lost);
            }
        };
        let before = input.as_ref().map(|input: &Tuple| input.span);
        self.arrow("a box's signature is written `box NAME ((a, <t>) -> (b) | (c));`", before)?;
        let mut outputs = Vec::new();
        if self.at(T::ParenOpen) {
            outputs.push(self.tuple()?);
            while self.eat(T::Bar) {
                outputs.push(self.tuple()?);
            }
        }
        Ok(BoxSignature { input, outputs, span: self.span_from(start) })
    }

    fn tuple(&mut self) -> Read<Tuple> {
        let open = self.expect(T::ParenOpen, "`(`")?;
        let labels = self.labels_until(T::ParenClose, open);
        Ok(Tuple { labels, span: self.span_from(open.span) })
    }

    fn type_def(&mut self) -> Read<Def> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a type")?;
        let errors = self.error_count();
        let read = self.expect(T::Equal, "`=`").and_then(|_| self.type_());
        let read = read.and_then(|of| self.semicolon("the type").map(|()| of));
        let whole = read.is_ok() && self.error_count() == errors;
        if read.is_err() {
            self.skip_definition();
        }
        let span = self.span_from(start);
        let of = read.ok().filter(|_| whole).unwrap_or(Type { variants: Vec::new(), span });
        Ok(Def::Type(TypeDef { name, of, span }))
    }

    fn typesig_def(&mut self) -> Read<Def> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a signature")?;
        let errors = self.error_count();
        let read = self.expect(T::Equal, "`=`").and_then(|_| self.signature());
        let read = read.and_then(|of| self.semicolon("the signature").map(|()| of));
        let whole = read.is_ok() && self.error_count() == errors;
        if read.is_err() {
            self.skip_definition();
        }
        let span = self.span_from(start);
        let of = read.ok().filter(|_| whole).unwrap_or(Signature { maps: Vec::new(), span });
        Ok(Def::Typesig(TypesigDef { name, of, span }))
    }

    // ---- types ----

    pub(super) fn signature(&mut self) -> Read<Signature> {
        let start = self.span();
        let mut maps = vec![self.map()?];
        while self.eat(T::Comma) {
            maps.push(self.map()?);
        }
        if self.at(T::Arrow)
            && let Some(Map::Arrow { output: MapOutput::Type(output), .. }) = maps.last()
        {
            let span = output.span;
            let error = self.expected_error("the end of the signature").help("maps are separated by `,`");
            let error = error.also(self.source, span, "this is what comes out of the map before");
            self.report(error);
            return Err(Lost);
        }
        Ok(Signature { maps, span: self.span_from(start) })
    }

    pub(super) fn map(&mut self) -> Read<Map> {
        let start = self.span();
        let input = if self.at(T::Arrow) { None } else { Some(self.type_()?) };
        if !self.at(T::Arrow)
            && let Some(Type { variants, .. }) = &input
            && let [Variant::Named(name)] = variants.as_slice()
        {
            return Ok(Map::Named(name.clone()));
        }
        self.arrow("a signature is written `{a} | {b} -> {c}`", input.as_ref().map(|input| input.span))?;
        let output = match self.kind() {
            T::Ellipsis => {
                self.advance();
                MapOutput::Infer
            }
            T::BraceOpen | T::Ident => MapOutput::Type(self.type_()?),
            _ => MapOutput::Nothing,
        };
        Ok(Map::Arrow { input, output, span: self.span_from(start) })
    }

    fn type_(&mut self) -> Read<Type> {
        let start = self.span();
        let mut variants = vec![self.variant()?];
        while self.eat(T::Bar) {
            variants.push(self.variant()?);
        }
        Ok(Type { variants, span: self.span_from(start) })
    }

    fn variant(&mut self) -> Read<Variant> {
        match self.kind() {
            T::BraceOpen => Ok(Variant::Labels(self.labels()?)),
            T::Ident => Ok(Variant::Named(self.ident("a type")?)),
            _ => {
                self.expected("a type: `{a, <t>}` or a name");
                Err(Lost)
            }
        }
    }

    /// `{ labels }`.
    pub(super) fn labels(&mut self) -> Read<Labels> {
        let open = self.expect(T::BraceOpen, "`{`")?;
        let labels = self.labels_until(T::BraceClose, open);
        Ok(Labels { labels, span: self.span_from(open.span) })
    }

    /// Reads labels and the closing bracket. After an error between them the parser skips to the bracket.
    fn labels_until(&mut self, close: TokenKind, open: Token) -> Vec<LabelAt> {
        let mut labels = Vec::new();
        if self.eat(close) {
            return labels;
        }
        let read = loop {
            match self.label() {
                Ok(label) => labels.push(label),
                Err(Lost) => break Err(Lost),
            }
            if !self.eat(T::Comma) {
                break self.close_list(close, open);
            }
        };
        if read.is_err() {
            self.skip_to_close(close);
        }
        labels
    }

    /// Reads the closing bracket of a list; if it is missing, the error depends on the next token.
    pub(super) fn close_list(&mut self, close: TokenKind, open: Token) -> Read<()> {
        if matches!(self.kind(), T::Ident | T::Less | T::LessHash | T::Number(_)) {
            self.expected(&format!("`,` or `{}`", close.text()));
            return Err(Lost);
        }
        self.close(close, open)
    }

    pub(super) fn label(&mut self) -> Read<LabelAt> {
        let start = self.span();
        let label = match self.kind() {
            T::Less | T::LessHash => return self.tag_label(),
            T::Ident => Label::field(self.ident("a label")?.name),
            kind if kind.is_keyword() => Label::field(self.defined_name("a label")?.name),
            _ => {
                self.expected("a label: `a`, `<t>` or `<#b>`");
                return Err(Lost);
            }
        };
        Ok(LabelAt { label, span: self.span_from(start) })
    }

    /// `<t>` or `<#t>`.
    pub(super) fn tag_label(&mut self) -> Read<LabelAt> {
        let open = self.span();
        let kind = match self.kind() {
            T::Less => LabelKind::Tag,
            T::LessHash => LabelKind::BindingTag,
            _ => {
                self.expected("a tag: `<t>` or `<#t>`");
                return Err(Lost);
            }
        };
        let token = self.advance();
        let name = self.ident("a tag's name")?.name;
        self.close(T::Greater, token)?;
        Ok(LabelAt { label: Label { kind, name }, span: self.span_from(open) })
    }
}
