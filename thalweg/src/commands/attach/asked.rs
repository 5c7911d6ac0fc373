//! The functions that the options of `thalweg attach` name, and what is asked of each.

use thalweg_attach::{Argument, Attachment, Condition, Form, Function, Keep, Only, Which, Wish};

use super::types::Signatures;
use super::wishes::{FromText, Value, WhenText};
use super::{Arguments, events, none, one};
use crate::failure::Failure;

/// A function, and what is asked of it. The numbers of arguments are those of the declaration, if that is known.
struct Asked {
    function: Function,
    wish: Wish,
    set: Option<(usize, Value)>,
    /// Whether the function was named exactly, so that it must be possible to attach to it.
    is_named: bool,
}

/// The functions that these options name, each with all that is asked of it. A pattern for functions of a
/// library that is not loaded names none of them.
///
/// # Errors
/// There is no function of a name, or one that was named exactly cannot be attached to.
pub(super) fn all(
    arguments: &Arguments,
    attachment: &Attachment,
    signatures: &mut Signatures,
) -> Result<Vec<(Function, Wish)>, Failure> {
    let mut asked = Vec::new();
    for (pattern, wish) in patterns(arguments, attachment) {
        let functions = attachment.modules().functions(pattern);
        if functions.is_empty() && attachment.modules().has_none_of(pattern) {
            print_stderr!(
                "no library of the program is called so: waiting for it to load one that has {pattern}"
            );
            continue;
        }
        if functions.is_empty() {
            return Err(none(pattern));
        }
        let is_named = !pattern.contains(['*', '?']);
        let of = |function| Asked { function, wish: wish.clone(), set: None, is_named };
        asked.extend(functions.into_iter().map(of));
    }
    for set in &arguments.set_arg {
        let function = one(attachment, &set.function)?;
        let set = Some((set.argument, set.value));
        asked.push(Asked { function, wish: Wish::default(), set, is_named: true });
    }
    let (wishes, refused) = settled(asked, arguments, attachment, signatures)?;
    if let Some(first) = refused.first() {
        print_stderr!(
            "{} left out; the first: {first}",
            crate::units::counted(refused.len() as u64, "function")
        );
    }
    Ok(wishes)
}

/// The functions of loaded libraries that the patterns name and that are not attached to.
pub(super) fn further(
    arguments: &Arguments,
    attachment: &Attachment,
    signatures: &mut Signatures,
) -> Result<Vec<(Function, Wish)>, Failure> {
    let of = |(pattern, wish): (&str, Wish)| {
        let functions = attachment.modules().functions(pattern).into_iter();
        let is_attached = |function: &Function| {
            let points = attachment.points().iter().filter(|point| point.is_on());
            points.map(|point| point.function.address).any(|address| address == function.address)
        };
        let functions = functions.filter(|function| !is_attached(function));
        functions
            .map(|function| Asked { function, wish: wish.clone(), set: None, is_named: false })
            .collect::<Vec<_>>()
    };
    let asked = patterns(arguments, attachment).into_iter().flat_map(of).collect();
    settled(asked, arguments, attachment, signatures).map(|(wishes, _)| wishes)
}

/// The patterns of functions to be counted or timed, with the measurements of each.
fn patterns<'a>(arguments: &'a Arguments, attachment: &Attachment) -> Vec<(&'a str, Wish)> {
    let mut kept: Vec<usize> = arguments.args.iter().map(|number| usize::from(*number)).collect();
    kept.sort_unstable();
    kept.dedup();
    // The registers and types of arguments and results are set later.
    let kept: Vec<Argument> = kept.into_iter().map(Argument::from).collect();
    let keep_of = |calls, which| Keep { calls, which };
    let keep = |calls: u16, which| keep_of(usize::from(calls), which);
    let first = arguments.first.map(|calls| keep(calls, Which::First));
    let keep = first.or(arguments.last.map(|calls| keep(calls, Which::Last)));
    let every = arguments.events.then(|| {
        let named = arguments.time.iter().map(|pattern| attachment.modules().functions(pattern).len());
        keep_of(events::room(named.sum()), Which::Every)
    });
    let wish = |times| Wish {
        times,
        arguments: kept.clone(),
        results: arguments.result.then_some(Form::UNKNOWN),
        keep: every.filter(|_| times).or(keep),
        ..Wish::default()
    };
    let timed = arguments.time.iter().map(|pattern| (pattern.as_str(), wish(true)));
    let counted = arguments.count.iter().map(|pattern| (pattern.as_str(), wish(false)));
    let by_caller = arguments.callers.iter();
    let by_caller = by_caller.map(|pattern| (pattern.as_str(), Wish { callers: true, ..wish(false) }));
    timed.chain(counted).chain(by_caller).collect()
}

/// What is asked of each function.
type Wishes = Vec<(Function, Wish)>;

/// What was asked in terms of registers, for each function once, and the reasons why functions that only a
/// pattern named are left out.
fn settled(
    mut asked: Vec<Asked>,
    arguments: &Arguments,
    attachment: &Attachment,
    signatures: &mut Signatures,
) -> Result<(Wishes, Vec<String>), Failure> {
    let is_shown = |wish: &Wish| wish.keep.is_some_and(|keep| keep.which != Which::Every);
    let has_values = |asked: &&Asked| {
        let (wish, conditions) = (&asked.wish, asked.set.is_some() || arguments.when.is_some());
        conditions || !wish.arguments.is_empty() || wish.results.is_some() || is_shown(wish)
    };
    let typed: Vec<&Function> = asked.iter().filter(has_values).map(|asked| &asked.function).collect();
    signatures.look(attachment, &typed);
    let from = arguments.from.as_ref().map(|from| range(attachment, from)).transpose()?;
    let mut wishes = Wishes::new();
    let mut refused = Vec::new();
    for Asked { function, wish, set, is_named } in &mut asked {
        let is_known = wishes.iter().any(|(other, _)| other.address == function.address);
        let settled = in_registers(function, *set, arguments.when, signatures).and_then(|(set, when)| {
            if !is_known {
                signatures.give(function, wish);
            }
            wish.set = set;
            wish.only = Only { when, from };
            // What another option asks of the same function is kept, and was looked at.
            let kept = if is_known { Wish { arguments: Vec::new(), ..wish.clone() } } else { wish.clone() };
            attachment.refusal(function, &kept).map_or(Ok(()), |error| Err(error.to_string()))
        });
        if let Some((_, other)) = wishes.iter_mut().find(|(other, _)| other.address == function.address) {
            settled.map_err(Failure::Usage)?;
            if other.set.is_some() && wish.set.is_some() {
                return Err(Failure::Usage(format!(
                    "two arguments of {} cannot be changed at the same time: name one of them",
                    function.readable()
                )));
            }
            other.callers |= wish.callers;
            other.set = wish.set.or(other.set);
            continue;
        }
        if wishes.iter().any(|(other, _)| other.address.abs_diff(function.address) < 5) {
            continue;
        }
        match settled {
            Err(error) if *is_named => return Err(Failure::Usage(error)),
            Err(error) => refused.push(error),
            Ok(()) => wishes.push((function.clone(), wish.clone())),
        }
    }
    Ok((wishes, refused))
}

type Register = Option<(Argument, u64)>;

/// The change of an argument and the condition on one, in terms of the registers of this function.
fn in_registers(
    function: &Function,
    set: Option<(usize, Value)>,
    when: Option<WhenText>,
    signatures: &Signatures,
) -> Result<(Register, Option<Condition>), String> {
    let argument = |number| signatures.argument(function, number);
    let wrong = |number, what: &str, value: Value, why: String| {
        format!("{} {what} {value}: {why}", signatures.named(function, number))
    };
    let set = match set {
        None => None,
        Some((number, value)) => {
            let argument = argument(number)?;
            let bits = value.bits(argument.form).map_err(|why| wrong(number, "cannot become", value, why))?;
            Some((argument, bits))
        }
    };
    let when = match when {
        None => None,
        Some(when) => {
            let mut argument = argument(when.argument)?;
            // A register of unknown type is compared as a number with a sign.
            if signatures.of(function).is_none() {
                argument.form = Form::Signed(8);
            }
            let value = when.value.compared(argument.form);
            let value =
                value.map_err(|why| wrong(when.argument, "cannot be compared with", when.value, why))?;
            Some(Condition { argument, is: when.is, value })
        }
    };
    Ok((set, when))
}

/// The return addresses of the calls that a function makes, or of one of them.
fn range(attachment: &Attachment, from: &FromText) -> Result<(u64, u64), Failure> {
    let function = one(attachment, &from.function)?;
    match from.offset {
        // The last instruction of a function may be a call, which returns to the address behind it.
        None => Ok((function.address + 1, function.address + function.size.max(1))),
        Some(offset) if offset > 0 && offset <= function.size => {
            Ok((function.address + offset, function.address + offset))
        }
        Some(offset) => Err(Failure::Usage(format!(
            "{} has {} bytes: no call in it returns to its byte {offset:#x}; `--callers` shows the places of calls",
            from.function, function.size
        ))),
    }
}
