//! The parser: makes a syntax tree of words.
//!
//! ```text
//! Expr  = "if" Expr "then" Expr "else" Expr | Or .
//! Or    = And { "or" And } .
//! And   = Not { "and" Not } .
//! Not   = "not" Not | Cmp .
//! Cmp   = Sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) Sum | "like" TEXT ] .
//! Sum   = Term { ( "+" | "-" ) Term } .
//! Term  = Sign { ( "*" | "/" ) Sign } .
//! Sign  = "-" Sign | Atom .
//! Atom  = NUMBER [ Unit ] | TEXT | "true" | "false" | NAME | NAME "(" Expr { "," Expr } ")" | "(" Expr ")" .
//! Unit  = ( NAME | "%" ) [ "/" NAME ] | "/" NAME .
//! ```
//! A unit directly follows its number; `5 ms / s` is a number of milliseconds per second.

use std::ops::Range;

use crate::lexer::{Spanned, Token, words};
use crate::problem::Problem;
use crate::suggest::nearest;
use crate::unit::Unit;

/// The deepest nesting of brackets and operators; deeper expressions are an error.
const DEPTH_MAX: usize = 64;
/// The most words of an expression.
const WORDS_MAX: usize = 2000;

pub(crate) type Node = (Kind, Range<usize>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A number with its unit.
    Number(f64, Unit),
    Text(String),
    Truth(bool),
    Name(String),
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Compare(Compare, Box<[Node; 2]>),
    Like(Box<Node>, String),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    Call(String, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const WORDS: [&str; 10] = ["and", "or", "not", "if", "then", "else", "like", "true", "false", "known"];

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    let words = words(text)?;
    if words.len() > WORDS_MAX {
        let span = words[WORDS_MAX].1.clone();
        return Err(Problem::new(span, format!("an expression has at most {WORDS_MAX} words")));
    }
    let mut parser = Parser { words, at: 0, depth: 0 };
    let node = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'t> {
    words: Vec<Spanned<'t>>,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.words[self.at].0
    }

    fn span(&self) -> Range<usize> {
        self.words[self.at].1.clone()
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.words.len() - 1);
        token
    }

    fn takes(&mut self, wanted: Token<'_>) -> bool {
        let taken = self.peek() == wanted;
        if taken {
            self.next();
        }
        taken
    }

    fn expect(&mut self, wanted: Token<'static>, what: &str) -> Result<(), Problem> {
        if self.takes(wanted) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn unexpected(&self, wanted: &str) -> Problem {
        let found = match self.peek() {
            Token::End => "the expression ends".to_owned(),
            Token::Number(number) => format!("`{number}` stands"),
            Token::Name(name) => format!("`{name}` stands"),
            Token::Text(text) => format!("\"{text}\" stands"),
            Token::Sign(sign) => format!("`{sign}` stands"),
        };
        let problem = Problem::new(self.span(), format!("{found} where {wanted} is expected"));
        match self.peek() {
            Token::Sign("&&") => problem.help("write `and`"),
            Token::Sign("||") => problem.help("write `or`"),
            Token::Sign("!") => problem.help("write `not`"),
            _ => problem,
        }
    }

    /// Every nested expression is parsed by this function, which checks the depth.
    fn expression(&mut self) -> Result<Node, Problem> {
        self.deeper(|parser| {
            if !parser.takes(Token::Name("if")) {
                return parser.or();
            }
            let from = parser.words[parser.at - 1].1.start;
            let condition = parser.expression()?;
            parser.expect(Token::Name("then"), "`then`")?;
            let one = parser.expression()?;
            parser.expect(Token::Name("else"), "`else`")?;
            let other = parser.expression()?;
            let span = from..other.1.end;
            Ok((Kind::If(Box::new([condition, one, other])), span))
        })
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Result<Node, Problem>) -> Result<Node, Problem> {
        if self.depth >= DEPTH_MAX {
            let message = format!("an expression is nested at most {DEPTH_MAX} deep");
            return Err(Problem::new(self.span(), message));
        }
        self.depth += 1;
        let node = parse(self);
        self.depth -= 1;
        node
    }

    /// Parses `part`s joined by left-associative operators.
    fn joined(
        &mut self,
        part: fn(&mut Self) -> Result<Node, Problem>,
        join: impl Fn(Token<'t>) -> Option<fn(Box<[Node; 2]>) -> Kind>,
    ) -> Result<Node, Problem> {
        let mut left = part(self)?;
        while let Some(make) = join(self.peek()) {
            self.next();
            let right = part(self)?;
            let span = left.1.start..right.1.end;
            left = (make(Box::new([left, right])), span);
        }
        Ok(left)
    }

    fn or(&mut self) -> Result<Node, Problem> {
        self.joined(Self::and, |token| (token == Token::Name("or")).then_some(Kind::Or as fn(_) -> _))
    }

    fn and(&mut self) -> Result<Node, Problem> {
        self.joined(Self::not, |token| (token == Token::Name("and")).then_some(Kind::And as fn(_) -> _))
    }

    fn not(&mut self) -> Result<Node, Problem> {
        let from = self.span().start;
        if !self.takes(Token::Name("not")) {
            return self.comparison();
        }
        self.deeper(|parser| {
            let node = parser.not()?;
            let span = from..node.1.end;
            Ok((Kind::Not(Box::new(node)), span))
        })
    }

    fn comparison(&mut self) -> Result<Node, Problem> {
        let left = self.sum()?;
        if self.takes(Token::Name("like")) {
            let span = self.span();
            let Token::Text(pattern) = self.peek() else {
                return Err(self.unexpected("a pattern in quotes"));
            };
            self.next();
            let whole = left.1.start..span.end;
            return Ok((Kind::Like(Box::new(left), pattern.to_owned()), whole));
        }
        let compare = match self.peek() {
            Token::Sign("==") => Compare::Equal,
            Token::Sign("!=") => Compare::Unequal,
            Token::Sign("<") => Compare::Less,
            Token::Sign("<=") => Compare::LessOrEqual,
            Token::Sign(">") => Compare::Greater,
            Token::Sign(">=") => Compare::GreaterOrEqual,
            _ => return Ok(left),
        };
        self.next();
        let right = self.sum()?;
        let span = left.1.start..right.1.end;
        Ok((Kind::Compare(compare, Box::new([left, right])), span))
    }

    fn sum(&mut self) -> Result<Node, Problem> {
        self.joined(Self::term, |token| match token {
            Token::Sign("+") => Some(|of| Kind::Arithmetic(Arithmetic::Add, of)),
            Token::Sign("-") => Some(|of| Kind::Arithmetic(Arithmetic::Subtract, of)),
            _ => None,
        })
    }

    fn term(&mut self) -> Result<Node, Problem> {
        self.joined(Self::signed, |token| match token {
            Token::Sign("*") => Some(|of| Kind::Arithmetic(Arithmetic::Multiply, of)),
            Token::Sign("/") => Some(|of| Kind::Arithmetic(Arithmetic::Divide, of)),
            _ => None,
        })
    }

    fn signed(&mut self) -> Result<Node, Problem> {
        let from = self.span().start;
        if !self.takes(Token::Sign("-")) {
            return self.atom();
        }
        self.deeper(|parser| {
            let node = parser.signed()?;
            let span = from..node.1.end;
            Ok((Kind::Negative(Box::new(node)), span))
        })
    }

    fn atom(&mut self) -> Result<Node, Problem> {
        let span = self.span();
        match self.peek() {
            Token::Number(value) => {
                self.next();
                let unit = self.unit()?;
                Ok((Kind::Number(value, unit), span.start..self.words[self.at - 1].1.end))
            }
            Token::Text(text) => {
                self.next();
                Ok((Kind::Text(text.to_owned()), span))
            }
            Token::Name(name @ ("true" | "false")) => {
                self.next();
                Ok((Kind::Truth(name == "true"), span))
            }
            Token::Name(name) if name == "known" || !WORDS.contains(&name) => {
                self.next();
                if self.takes(Token::Sign("(")) {
                    self.call(name, span)
                } else {
                    Ok((Kind::Name(name.to_owned()), span))
                }
            }
            Token::Sign("(") => {
                self.next();
                let node = self.expression()?;
                self.expect(Token::Sign(")"), "`)`")?;
                Ok(node)
            }
            _ => Err(self.unexpected("a number, a name or `(`")),
        }
    }

    fn call(&mut self, name: &str, span: Range<usize>) -> Result<Node, Problem> {
        let mut arguments = vec![self.expression()?];
        while self.takes(Token::Sign(",")) {
            arguments.push(self.expression()?);
        }
        self.expect(Token::Sign(")"), "`,` or `)`")?;
        Ok((Kind::Call(name.to_owned(), arguments), span.start..self.words[self.at - 1].1.end))
    }

    /// Parses the unit after a number.
    fn unit(&mut self) -> Result<Unit, Problem> {
        let over = match self.peek() {
            Token::Sign("%") => Unit::named("%"),
            Token::Name(name) if !WORDS.contains(&name) => {
                let unit = Unit::named(name).ok_or_else(|| self.no_unit(name))?;
                Some(unit)
            }
            _ => None,
        };
        if over.is_some() {
            self.next();
        }
        let over = over.unwrap_or(Unit::PLAIN);
        // `/` and a unit's name mean "per that unit". Any other name after `/` is a divisor, and so is a call
        // of `min`.
        let is_call = self.words.get(self.at + 2).is_some_and(|(token, _)| *token == Token::Sign("("));
        match (self.peek(), self.words.get(self.at + 1)) {
            (Token::Sign("/"), Some((Token::Name(name), span))) if !is_call => match Unit::named(name) {
                Some(under) => {
                    let span = span.clone();
                    self.at += 2;
                    over.per(under).ok_or_else(|| Problem::new(span, "this unit is too large a power"))
                }
                None => Ok(over),
            },
            _ => Ok(over),
        }
    }

    fn no_unit(&self, name: &str) -> Problem {
        let problem = Problem::new(self.span(), format!("`{name}` is no unit"));
        match nearest(name, Unit::names()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(
                "after a number only a unit of time or size or `%` may follow; join names by operators",
            ),
        }
    }
}
