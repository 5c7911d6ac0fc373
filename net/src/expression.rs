//! Compiled expressions over tags: 64-bit integers with C's operators, and faults where C's result is
//! undefined.
//!
//! An expression is compiled once ([`Expression`]) and bound to a shape ([`Bound`]), where each tag is a
//! slot. The common forms (a number, a tag, one operator over a tag and a number or two tags) are evaluated
//! directly; longer expressions are sequences of three-address instructions over numbered registers, with
//! jumps for `&&`, `||` and `?:`.
//!
//! As in C, comparisons and logic give 0 or 1, division truncates towards zero, and the right side of `&&`
//! and `||` and the branch of `?:` that is not taken are not evaluated. A result outside 64 bits and a
//! division by zero are faults of the record.

#![forbid(unsafe_code)]

use std::sync::Arc;

use thalweg_box::Value;

use crate::label::Label;
use crate::plan::RecordFault;
use crate::shape::ShapeId;
use crate::syntax::ast::{BinaryOp, TagExpr, TagExprKind, UnaryOp};

/// A compiled expression. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Expression {
    code: Arc<Code>,
}

#[derive(Debug)]
struct Code {
    /// The tags that the expression reads, each once.
    tags: Vec<Label>,
    instructions: Vec<Instruction>,
    result: Operand,
    register_count: usize,
}

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand {
    Number(i64),
    Register(u16),
    /// Index into [`Code::tags`]; in a [`Bound`] expression, the slot.
    Tag(u16),
    /// A tag that the shape of a [`Bound`] expression does not have, by its index in [`Code::tags`].
    Missing(u16),
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    Unary {
        op: UnaryOp,
        a: Operand,
        to: u16,
    },
    Binary {
        op: BinaryOp,
        a: Operand,
        b: Operand,
        to: u16,
    },
    Move {
        a: Operand,
        to: u16,
    },
    /// Writes 0 or 1 to `to`.
    Truth {
        a: Operand,
        to: u16,
    },
    JumpIf {
        a: Operand,
        is_zero: bool,
        target: u32,
    },
    Jump {
        target: u32,
    },
    /// The instruction in place of a part of the expression that could not be read.
    Fail,
}

impl Expression {
    /// Compiles an expression. A part that could not be read, which exists only in a text with errors,
    /// becomes a fault when it is evaluated.
    pub fn compile(expression: &TagExpr) -> Expression {
        let mut compiler = Compiler::default();
        let result = compiler.compile(expression, 0);
        let Compiler { tags, instructions, register_count } = compiler;
        Expression { code: Arc::new(Code { tags, instructions, result, register_count }) }
    }

    /// The tags that the expression reads, each once.
    pub fn tags(&self) -> &[Label] {
        &self.code.tags
    }

    /// Binds the expression to the records of a shape.
    pub fn bind(&self, shape: ShapeId) -> Bound {
        let code = &self.code;
        let bind = |operand| match operand {
            Operand::Tag(tag) => match shape.slot(code.tags[tag as usize]) {
                Some(slot) => Operand::Tag(slot as u16),
                None => Operand::Missing(tag),
            },
            other => other,
        };
        let form = match (code.instructions.as_slice(), bind(code.result)) {
            ([], Operand::Number(number)) => Form::Number(number),
            ([], Operand::Tag(slot)) => Form::Slot(slot),
            (&[Instruction::Binary { op, a, b, .. }], _) => match (bind(a), bind(b)) {
                (Operand::Tag(a), Operand::Number(b)) => Form::SlotNumber(op, a, b),
                (Operand::Tag(a), Operand::Tag(b)) => Form::SlotSlot(op, a, b),
                _ => Form::Long,
            },
            _ => Form::Long,
        };
        let mut bound =
            Bound { form, shape, code: Arc::clone(code), instructions: [].into(), result: bind(code.result) };
        if form == Form::Long {
            bound.instructions = code.instructions.iter().map(|i| i.map_operands(bind)).collect();
        }
        bound
    }
}

impl Instruction {
    fn map_operands(self, map: impl Fn(Operand) -> Operand) -> Instruction {
        match self {
            Instruction::Unary { op, a, to } => Instruction::Unary { op, a: map(a), to },
            Instruction::Binary { op, a, b, to } => Instruction::Binary { op, a: map(a), b: map(b), to },
            Instruction::Move { a, to } => Instruction::Move { a: map(a), to },
            Instruction::Truth { a, to } => Instruction::Truth { a: map(a), to },
            Instruction::JumpIf { a, is_zero, target } => Instruction::JumpIf { a: map(a), is_zero, target },
            Instruction::Jump { .. } | Instruction::Fail => self,
        }
    }
}

/// Compiles an expression to instructions. Registers are numbered by depth: an expression that is compiled at
/// `register` writes only this register and higher ones.
#[derive(Default)]
struct Compiler {
    tags: Vec<Label>,
    instructions: Vec<Instruction>,
    register_count: usize,
}

impl Compiler {
    fn compile(&mut self, expression: &TagExpr, register: u16) -> Operand {
        match &expression.kind {
            TagExprKind::Number(number) => Operand::Number(*number),
            TagExprKind::Tag(name) => self.tag(Label::tag(name)),
            TagExprKind::Missing => {
                self.emit(register, Instruction::Fail);
                Operand::Number(0)
            }
            TagExprKind::Unary(op, a) => {
                let a = self.compile(a, register);
                self.emit(register, Instruction::Unary { op: *op, a, to: register })
            }
            TagExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.logic(*op, a, b, register),
            TagExprKind::Binary(op, a, b) => {
                let a = self.compile(a, register);
                let above = if a == Operand::Register(register) { register + 1 } else { register };
                let b = self.compile(b, above);
                self.emit(register, Instruction::Binary { op: *op, a, b, to: register })
            }
            TagExprKind::Choose(condition, a, b) => {
                let condition = self.compile(condition, register);
                let to_else = self.jump_if(condition, true);
                let a = self.compile(a, register);
                self.emit(register, Instruction::Move { a, to: register });
                let to_end = self.instructions.len();
                self.instructions.push(Instruction::Jump { target: 0 });
                self.land(to_else);
                let b = self.compile(b, register);
                let result = self.emit(register, Instruction::Move { a: b, to: register });
                self.land(to_end);
                result
            }
        }
    }

    fn logic(&mut self, op: BinaryOp, a: &TagExpr, b: &TagExpr, register: u16) -> Operand {
        let a = self.compile(a, register);
        self.emit(register, Instruction::Truth { a, to: register });
        let decided = self.jump_if(Operand::Register(register), op == BinaryOp::And);
        let b = self.compile(b, register);
        let result = self.emit(register, Instruction::Truth { a: b, to: register });
        self.land(decided);
        result
    }

    fn tag(&mut self, label: Label) -> Operand {
        let known = self.tags.iter().position(|&tag| tag == label);
        Operand::Tag(known.unwrap_or_else(|| {
            self.tags.push(label);
            self.tags.len() - 1
        }) as u16)
    }

    fn emit(&mut self, register: u16, instruction: Instruction) -> Operand {
        self.register_count = self.register_count.max(register as usize + 1);
        self.instructions.push(instruction);
        Operand::Register(register)
    }

    fn jump_if(&mut self, a: Operand, is_zero: bool) -> usize {
        self.instructions.push(Instruction::JumpIf { a, is_zero, target: 0 });
        self.instructions.len() - 1
    }

    /// Sets the target of the jump at `from` to the next instruction.
    fn land(&mut self, from: usize) {
        let next = self.instructions.len() as u32;
        match &mut self.instructions[from] {
            Instruction::JumpIf { target, .. } | Instruction::Jump { target } => *target = next,
            _ => unreachable!("only jumps land"),
        }
    }
}

/// An expression for records of one shape.
#[derive(Clone, Debug)]
pub struct Bound {
    form: Form,
    shape: ShapeId,
    code: Arc<Code>,
    instructions: Box<[Instruction]>,
    result: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Number(i64),
    Slot(u16),
    SlotNumber(BinaryOp, u16, i64),
    SlotSlot(BinaryOp, u16, u16),
    Long,
}

/// A [`RecordFault`] in one word, so that results are returned in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault(u64);

impl Fault {
    const OVERFLOW: u64 = 0;
    const DIVISION_BY_ZERO: u64 = 1;
    const HOLE: u64 = 2;
    const MISSING: u64 = 3;
    const NOT_INTEGER: u64 = 4;

    #[cold]
    fn new(kind: u64, detail: u16) -> Fault {
        Fault(kind << 16 | u64::from(detail))
    }
}

impl Bound {
    /// The value for a record with these slots, whose shape is the one that the expression is bound to.
    ///
    /// # Errors
    /// A fault if a tag that is needed is missing or no integer, if a result does not fit into 64 bits, or
    /// for a division by zero.
    #[inline]
    pub fn evaluate(&self, slots: &[Value]) -> Result<i64, RecordFault> {
        self.value(slots).map_err(|fault| self.explain(fault))
    }

    /// Evaluates as [`evaluate`](Self::evaluate) does; [`explain`](Self::explain) turns the fault into a
    /// reason.
    #[inline]
    pub(crate) fn value(&self, slots: &[Value]) -> Result<i64, Fault> {
        match self.form {
            Form::Number(number) => Ok(number),
            Form::Slot(a) => integer(slots, a),
            Form::SlotNumber(op, a, b) => binary(op, integer(slots, a)?, b),
            Form::SlotSlot(op, a, b) => binary(op, integer(slots, a)?, integer(slots, b)?),
            Form::Long => self.long_value(slots),
        }
    }

    /// The full description of a fault that this expression returned.
    #[cold]
    pub(crate) fn explain(&self, Fault(fault): Fault) -> RecordFault {
        let detail = (fault & 0xffff) as usize;
        match fault >> 16 {
            Fault::OVERFLOW => RecordFault::Overflow(OPERATIONS[detail]),
            Fault::DIVISION_BY_ZERO => RecordFault::DivisionByZero,
            Fault::MISSING => RecordFault::MissingLabel(self.code.tags[detail]),
            Fault::NOT_INTEGER => RecordFault::NotInteger(self.shape.labels()[detail]),
            _ => RecordFault::Other("the expression has an error in the program".into()),
        }
    }

    #[inline(never)]
    fn long_value(&self, slots: &[Value]) -> Result<i64, Fault> {
        const INLINE: usize = 16;
        match self.code.register_count {
            0..=INLINE => self.execute(slots, &mut [0; INLINE]),
            count => self.execute(slots, &mut vec![0; count]),
        }
    }

    fn execute(&self, slots: &[Value], registers: &mut [i64]) -> Result<i64, Fault> {
        let mut at = 0;
        while let Some(instruction) = self.instructions.get(at) {
            at += 1;
            match *instruction {
                Instruction::Binary { op, a, b, to } => {
                    registers[to as usize] =
                        binary(op, read(slots, registers, a)?, read(slots, registers, b)?)?;
                }
                Instruction::Unary { op, a, to } => {
                    registers[to as usize] = unary(op, read(slots, registers, a)?)?;
                }
                Instruction::Move { a, to } => registers[to as usize] = read(slots, registers, a)?,
                Instruction::Truth { a, to } => {
                    registers[to as usize] = (read(slots, registers, a)? != 0).into();
                }
                Instruction::JumpIf { a, is_zero, target } => {
                    if (read(slots, registers, a)? == 0) == is_zero {
                        at = target as usize;
                    }
                }
                Instruction::Jump { target } => at = target as usize,
                Instruction::Fail => return Err(Fault::new(Fault::HOLE, 0)),
            }
        }
        read(slots, registers, self.result)
    }
}

#[inline]
fn read(slots: &[Value], registers: &[i64], operand: Operand) -> Result<i64, Fault> {
    match operand {
        Operand::Number(number) => Ok(number),
        Operand::Register(register) => Ok(registers[register as usize]),
        Operand::Tag(slot) => integer(slots, slot),
        Operand::Missing(tag) => Err(Fault::new(Fault::MISSING, tag)),
    }
}

#[inline]
fn integer(slots: &[Value], slot: u16) -> Result<i64, Fault> {
    match slots[slot as usize] {
        Value::Int(number) => Ok(number),
        _ => Err(Fault::new(Fault::NOT_INTEGER, slot)),
    }
}

/// The operations that may overflow, by their codes in a [`Fault`].
const OPERATIONS: [&str; 6] = ["-", "abs", "+", "*", "/", "%"];

fn unary(op: UnaryOp, a: i64) -> Result<i64, Fault> {
    match op {
        UnaryOp::Negate => a.checked_neg().ok_or_else(|| Fault::new(Fault::OVERFLOW, 0)),
        UnaryOp::Not => Ok((a == 0).into()),
        UnaryOp::Abs => a.checked_abs().ok_or_else(|| Fault::new(Fault::OVERFLOW, 1)),
    }
}

#[inline]
fn binary(op: BinaryOp, a: i64, b: i64) -> Result<i64, Fault> {
    let (result, operation) = match op {
        BinaryOp::Divide | BinaryOp::Remainder if b == 0 => {
            return Err(Fault::new(Fault::DIVISION_BY_ZERO, 0));
        }
        BinaryOp::Subtract => (a.checked_sub(b), 0),
        BinaryOp::Add => (a.checked_add(b), 2),
        BinaryOp::Multiply => (a.checked_mul(b), 3),
        BinaryOp::Divide => (a.checked_div(b), 4),
        BinaryOp::Remainder => (a.checked_rem(b), 5),
        BinaryOp::Equal => return Ok((a == b).into()),
        BinaryOp::NotEqual => return Ok((a != b).into()),
        BinaryOp::Less => return Ok((a < b).into()),
        BinaryOp::LessEqual => return Ok((a <= b).into()),
        BinaryOp::Greater => return Ok((a > b).into()),
        BinaryOp::GreaterEqual => return Ok((a >= b).into()),
        BinaryOp::Min => return Ok(a.min(b)),
        BinaryOp::Max => return Ok(a.max(b)),
        BinaryOp::And => return Ok((a != 0 && b != 0).into()),
        BinaryOp::Or => return Ok((a != 0 || b != 0).into()),
    };
    result.ok_or_else(|| Fault::new(Fault::OVERFLOW, operation))
}
